"""transformers' tests of models, configurations and processors on every architecture, and on BART for comparison."""

import inspect
import unittest

import pytest
import torch
from transformers import BartConfig, BartForConditionalGeneration, BartModel

from hf_summ.models.modeling_copying import CopyingModel
from tests.benches.suites import load
from tests.models.architectures import ARCHITECTURES, VOCAB_SIZE, Architecture

pytestmark = pytest.mark.thorough


class Absent:
    """A mixin that the source distribution leaves out."""


MODELS = load(
    "transformers",
    "test_modeling_common",
    {
        ".exporters": {},
        ".exporters.test_export": {"ExportTesterMixin": Absent},
        ".generation": {},
        ".generation.test_utils": {"GenerationTesterMixin": Absent},
    },
)


class Tester:
    """The sizes and inputs of an architecture's tiny model, as transformers' tests read them."""

    is_training = True

    def __init__(self, architecture: Architecture):
        self.architecture = architecture
        self.batch_size, self.seq_length, self.encoder_seq_length, self.decoder_seq_length = 3, 11, 11, 6
        config = self.get_config()
        self.hidden_size, self.num_hidden_layers = config.hidden_size, config.num_hidden_layers
        self.num_attention_heads = getattr(config, "num_attention_heads", None)

    def get_config(self):
        return self.architecture.config()

    def prepare_config_and_inputs_for_common(self):
        labels = torch.randint(4, VOCAB_SIZE, (3, 6), generator=torch.Generator().manual_seed(1))
        inputs = self.architecture.inputs()
        return self.get_config(), {**inputs, "decoder_input_ids": labels}


def bench(architecture: Architecture) -> type:
    """The tests of an architecture's model and head."""
    head = architecture.head_class
    model = head(architecture.config()).model.__class__

    def set_up(self):
        self.model_tester = Tester(architecture)

    return type(
        f"Test{architecture.name.title().replace('-', '').replace('_', '')}",
        (MODELS.ModelTesterMixin, unittest.TestCase),
        {
            "all_model_classes": (model, head),
            "is_encoder_decoder": True,
            "setUp": set_up,
            "__module__": __name__,
        },
    )


globals().update({case.__name__: case for case in map(bench, ARCHITECTURES)})
