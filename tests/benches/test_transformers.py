"""transformers' tests of models and configurations on every architecture, and on BART for comparison."""

import re
import unittest

import pytest
from transformers import BartConfig, BartForConditionalGeneration
from transformers.modeling_outputs import ModelOutput, Seq2SeqLMOutput, Seq2SeqModelOutput

from tests.benches.exceptions import MODEL_TESTS, PROCESSOR_TESTS, reason
from tests.benches.suites import load
from tests.conftest import SENTENCES, word_piece_tokenizer
from tests.models.architectures import (
    ARCHITECTURES,
    COPY_TRANSFORMER,
    DRGD,
    GDLF_COPY,
    HIGHLIGHT_TRANSFORMER,
    POINTER_GENERATOR,
    SAGCOPY,
    VOCAB_SIZE,
    Architecture,
)

pytestmark = pytest.mark.thorough

ROWS, LENGTH, LAYERS = 3, 11, 2
PROCESSED = [GDLF_COPY, COPY_TRANSFORMER, DRGD, HIGHLIGHT_TRANSFORMER, POINTER_GENERATOR, SAGCOPY]
BART = Architecture(
    BartConfig,
    BartForConditionalGeneration,
    type(None),
    settings={
        "vocab_size": VOCAB_SIZE,
        "d_model": 16,
        "encoder_layers": LAYERS,
        "decoder_layers": LAYERS,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 32,
        "decoder_ffn_dim": 32,
        "max_position_embeddings": 40,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "decoder_start_token_id": 2,
    },
)


class Absent:
    """A mixin that the source distribution lacks."""


SUITE = load(
    "transformers",
    "test_modeling_common",
    {
        ".exporters": {},
        ".exporters.test_export": {"ExportTesterMixin": Absent},
        ".generation": {},
        ".generation.test_utils": {"GenerationTesterMixin": Absent},
    },
)


def counted(value) -> int:
    """The length of a value, as `len` gives it; of a model's output, the number of fields that transformers has too."""
    if isinstance(value, ModelOutput):
        fields = Seq2SeqModelOutput.__dataclass_fields__.keys() | Seq2SeqLMOutput.__dataclass_fields__.keys()
        return len(value.keys() & fields)
    return len(value)


SUITE.len = counted
ABSENT = {".utils": {}, ".utils.test_configuration_utils": {"config_common_kwargs": {}}}
CONFIGURATIONS = load("transformers", "test_configuration_common", ABSENT)
PROCESSORS = load("transformers", "test_processing_common", {"fetch_hub_objects_for_ci": {"url_to_local_path": str}})
# the names by which the tests tell models with an output layer from those without
HEADS = {architecture.model_type: architecture.head_class.__name__ for architecture in ARCHITECTURES}
SUITE.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES = {**SUITE.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES, **HEADS}
BASES = {model_type: name.replace("ForConditionalGeneration", "Model") for model_type, name in HEADS.items()}
SUITE.MODEL_MAPPING_NAMES = {**SUITE.MODEL_MAPPING_NAMES, **BASES}


class Tester:
    """An architecture's tiny configuration and inputs, as transformers' tests read them."""

    is_training = True
    batch_size = ROWS
    seq_length = LENGTH
    num_hidden_layers = LAYERS

    def __init__(self, architecture: Architecture):
        self.architecture = architecture
        config = self.get_config()
        self.hidden_size = config.hidden_size
        self.num_attention_heads = architecture.attention_heads
        if getattr(config, "side_layers", 0):
            # both networks record their layers
            self.expected_num_hidden_layers = LAYERS + 1

    def get_config(self):
        """A new configuration."""
        settings = {}
        if self.architecture.model_type == "gdlf":
            settings["encoder_layers"] = LAYERS
            settings["encoder_kernel_sizes"] = [3, 7]
            settings["decoder_kernel_sizes"] = [3, 7]
        if self.architecture is not BART:
            # transformers compares the loss with the cross-entropy
            settings["label_smoothing"] = 0.0
        return self.architecture.config(**settings)

    def prepare_config_and_inputs_for_common(self):
        """A new configuration, and the inputs of a model with it."""
        targets = self.architecture.labels(ROWS, LENGTH).clamp(min=4)
        return self.get_config(), {**self.architecture.inputs(ROWS, LENGTH), "decoder_input_ids": targets}


def bench(architecture: Architecture) -> type:
    """The tests of an architecture's models and configuration, without those that are listed as exceptions."""
    head = architecture.head_class

    def set_up(self):
        self.model_tester = Tester(architecture)

    def test_config(self):
        for name in architecture.settings:
            if name.endswith("_config"):
                self.skipTest("its nested configuration is not written as it was given")
        names = None
        if architecture.model_type in ("drgd", "pointer_generator"):
            # recurrent models have neither layers nor heads
            names = ["hidden_size"]
        config_class = architecture.config_class
        tester = CONFIGURATIONS.ConfigTester(self, config_class, common_properties=names, **architecture.settings)
        tester.run_common_tests()

    members = {
        "all_model_classes": (type(head(architecture.config()).model), head),
        "is_encoder_decoder": True,
        "has_attentions": architecture.model_type not in ("gdlf", "drgd", "pointer_generator"),
        "setUp": set_up,
        "test_config": test_config,
        "__module__": __name__,
    }
    return listed("ModelOf", SUITE.ModelTesterMixin, MODEL_TESTS, architecture, members)


def listed(kind: str, mixin: type, exceptions, architecture: Architecture, members: dict) -> type:
    """A case of a mixin's tests, of which those among the exceptions are skipped with their reasons."""
    for name in dir(mixin):
        if name.startswith("test_"):
            why = reason(exceptions, name, architecture.name)
            if why is not None:
                members[name] = unittest.skip(f"listed: {why}")(getattr(mixin, name))
    title = re.sub(r"[^a-zA-Z0-9]", "", architecture.name.title())
    return type(f"Test{kind}{title}", (mixin, unittest.TestCase), members)


def processor_bench(architecture: Architecture) -> type:
    """The tests of an architecture's processor, without those that are listed as exceptions."""
    members = {
        "processor_class": architecture.processor_class,
        "_setup_tokenizer": classmethod(lambda cls: word_piece_tokenizer(SENTENCES, 200, eos_token="[SEP]")),
        "prepare_processor_dict": staticmethod(lambda: dict(architecture.processor_settings)),
        "__module__": __name__,
    }
    return listed("ProcessorOf", PROCESSORS.ProcessorTesterMixin, PROCESSOR_TESTS, architecture, members)


CASES = [bench(architecture) for architecture in [BART, *ARCHITECTURES]]
CASES += [processor_bench(architecture) for architecture in PROCESSED]
for case in CASES:
    globals()[case.__name__] = case
# pytest would collect the last one twice
del case
