"""Pipelines of tiny models, to read documents that are too long for them."""

import copy

import pytest
import torch
from transformers import BartConfig, BartForConditionalGeneration, pipeline

from tests.models.architectures import ARCHITECTURES, build_with_processor

BART = {
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 16,
    "decoder_ffn_dim": 16,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "forced_eos_token_id": None,
}


# a model of transformers, one with inputs that are aligned with the text, and a recurrent one
@pytest.fixture(params=["bart", "highlight_transformer", pytest.param("drgd", marks=pytest.mark.thorough)])
def summarizer(request, tiny_tokenizer):
    """A pipeline of a model that reads 100 tokens, and whose summaries have 4."""
    torch.manual_seed(0)
    tokenizer = copy.deepcopy(tiny_tokenizer)
    if request.param == "bart":
        model = BartForConditionalGeneration(BartConfig(vocab_size=len(tokenizer), max_position_embeddings=100, **BART))
        components = {"tokenizer": tokenizer}
    else:
        architecture = next(candidate for candidate in ARCHITECTURES if candidate.name.startswith(request.param))
        model, processor = build_with_processor(architecture, tokenizer)
        processor.max_source_length = 100
        components = {"processor": processor}
    model.eval()
    return pipeline("summarization", model=model, **components, max_new_tokens=4, min_new_tokens=4, num_beams=1)
