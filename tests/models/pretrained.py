"""A tiny pre-trained BERT, and CopyTransformers that start from one."""

import torch
from transformers import BertConfig, BertForPreTraining

from hf_summ import CopyTransformerForConditionalGeneration
from hf_summ.checkpoints.pretrained_parts import load_pretrained_parts, read_pretrained_parts
from tests.models.architectures import COPY_TRANSFORMER, TINY_BERT


def save_bert(folder, **settings):
    """A BERT with the heads that it was pre-trained with, random and different from those of any new one."""
    torch.manual_seed(7)
    model = BertForPreTraining(BertConfig(**{**TINY_BERT, **settings}))
    model.save_pretrained(folder)
    return model


def build(**settings):
    """A new model with the weights of the checkpoints that its settings name."""
    config = COPY_TRANSFORMER.config(**settings)
    read_pretrained_parts(config)
    model = CopyTransformerForConditionalGeneration(config)
    load_pretrained_parts(model)
    return model
