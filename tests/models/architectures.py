"""A tiny model of every architecture, for the common tests."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

import hf_summ
from hf_summ.models.configuration_base import SummarizationConfig

# of every tiny model
VOCAB_SIZE = 40


@dataclass
class Architecture:
    """How to make an architecture's tiny model, its processor, and a padded batch of its inputs.

    `source_fields`: further token-aligned inputs -> how many ids they have; `has_phrases`: whether there are phrases
    too, which are not aligned with tokens; `variant` tells two of one architecture apart.
    """

    config_class: type
    head_class: type
    processor_class: type
    settings: dict[str, Any]
    source_fields: dict[str, int] = field(default_factory=dict)
    has_phrases: bool = False
    processor_settings: dict[str, Any] = field(default_factory=dict)
    lora_modules: tuple[str, ...] = ()
    variant: str = ""
    # heads and width of the words, by which the tests find them
    attention_heads: int = 4
    word_width: int = 16
    # why no checkpointing is needed; empty where it works
    not_checkpointed: str = ""

    @property
    def model_type(self) -> str:
        return self.config_class.model_type

    @property
    def end_token_id(self) -> int:
        return self.config().eos_token_id

    @property
    def name(self) -> str:
        return f"{self.model_type}-{self.variant}" if self.variant else self.model_type

    def config(self, **overrides) -> SummarizationConfig:
        return self.config_class(**{**self.settings, **overrides})

    def config_for(self, processor) -> SummarizationConfig:
        """A config that is aligned with the processor; a nested BERT has the processor's vocabulary."""
        overrides = {"vocab_size": len(processor.tokenizer)}
        if "bert_config" in self.settings:
            overrides["bert_config"] = {**self.settings["bert_config"], **overrides}
        config = self.config(**overrides)
        processor.align(config)
        return config

    def model(self, **overrides):
        """In float64: what must be equal is then equal to many digits."""
        torch.manual_seed(0)
        model = self.head_class(self.config(**overrides)).double().eval()
        # an initialization with zero biases and unit scales would hide a term that is forgotten
        for parameter in model.parameters():
            parameter.data.add_(0.1 * torch.randn_like(parameter))
        return model

    def processor(self, tokenizer, **settings):
        return self.processor_class(tokenizer, **{**self.processor_settings, **settings})

    def inputs(self, rows: int = 3, length: int = 11, seed: int = 0) -> dict[str, torch.Tensor]:
        """Rows of different lengths, padded on the right with id 0."""
        generator = torch.Generator().manual_seed(seed)
        lengths = torch.tensor([max(length - 4 * row, 2) for row in range(rows)])
        mask = (torch.arange(length)[None] < lengths[:, None]).long()
        inputs = {"input_ids": torch.randint(4, VOCAB_SIZE, (rows, length), generator=generator) * mask}
        inputs["attention_mask"] = mask
        for name, size in self.source_fields.items():
            inputs[name] = torch.randint(1, size, (rows, length), generator=generator) * mask
        if self.has_phrases:
            # the first two overlap, and the last ends with the text; the second row has only two
            starts = torch.stack((0 * lengths, 0 * lengths + 1, lengths - 2), dim=1)
            ends = torch.stack((0 * lengths + 2, 0 * lengths + 3, lengths), dim=1).minimum(lengths[:, None])
            is_phrase = torch.arange(rows)[:, None].ne(1) | torch.tensor([True, True, False])
            values = torch.tensor([0.5, 0.2, -0.4], dtype=torch.float64).expand(rows, -1)
            inputs |= {"phrase_starts": starts * is_phrase, "phrase_ends": ends * is_phrase}
            inputs["phrase_values"] = values * is_phrase
        return inputs

    def labels(self, rows: int = 3, length: int = 6, seed: int = 1) -> torch.Tensor:
        """Rows of different lengths, padded with -100."""
        generator = torch.Generator().manual_seed(seed)
        labels = torch.randint(4, VOCAB_SIZE, (rows, length), generator=generator)
        for row in range(1, rows):
            labels[row, length - row :] = -100
        return labels


def classes(name: str) -> list[type]:
    return [getattr(hf_summ, f"{name}{kind}") for kind in ("Config", "ForConditionalGeneration", "Processor")]


# of a Transformer
SIZES = {
    "vocab_size": VOCAB_SIZE,
    "d_model": 16,
    "num_heads": 4,
    "ffn_dim": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
}

GDLF = Architecture(
    *classes("Gdlf"),
    settings={
        **{name: value for name, value in SIZES.items() if name != "activation_dropout"},
        "encoder_layers": 3,
        "encoder_kernel_sizes": [3, 5, 15],
        "decoder_kernel_sizes": [3, 7],
        "fusion_dim": 24,
        "tags": "pos",
        "tag_vocab_size": 9,
        "input_dropout": 0.0,
        "kernel_dropout": 0.0,
        # compiling would take longer than the test
        "conv_implementation": "chunked",
    },
    source_fields={"tag_ids": 9},
    lora_modules=("q_proj", "v_proj", "kernel_projection"),
)

# the baseline without tags, normalized before its sub-layers, and with copying
GDLF_COPY = dataclasses.replace(
    GDLF,
    settings={**GDLF.settings, "tags": "none", "gating": "glu", "layer_fusion": "none", "norm": "pre", "copy": True},
    source_fields={},
    processor_settings={"tags": "none"},
    variant="copy",
)

COPY_TRANSFORMER = Architecture(
    *classes("CopyTransformer"),
    settings={
        **SIZES,
        "convolutional_attention": "2d",
        "convolutional_layers": 1,
        "window_size": 5,
        # so large that it shows
        "layer_norm_eps": 0.01,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "decoder_start_token_id": 1,
        "mask_token_id": 3,
    },
    lora_modules=("q_proj", "v_proj", "token_shift.projection"),
)

TINY_BERT = {
    "model_type": "bert",
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 8,
    "intermediate_size": 12,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "max_position_embeddings": 8,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}

# an encoder on it, in windows shorter than the documents
ON_BERT = {"encoder_type": "bert_transformer", "bert_config": TINY_BERT, "bert_window_size": 8, "bert_window_stride": 4}

# as far from the plain one as it goes: a network beside BERT, its windows shorter than the documents, BERT's words in
# the decoder and shifted in the encoder, the mean over heads as copy distribution, layers normalized after their sums
COPY_TRANSFORMER_BERT = dataclasses.replace(
    COPY_TRANSFORMER,
    settings={
        **COPY_TRANSFORMER.settings,
        **ON_BERT,
        "copy_attention": "mean",
        "norm": "post",
        "label_smoothing": 0.1,
        "side_layers": 1,
        "decoder_embedding": "bert",
        "token_shift": True,
    },
    variant="bert",
)

# an output over BERT's words, which are trained
COPY_TRANSFORMER_BERT_OUTPUT = dataclasses.replace(
    COPY_TRANSFORMER_BERT,
    settings={
        **COPY_TRANSFORMER_BERT.settings,
        "decoder_embedding": "trained",
        "output_embedding": "bert",
        "train_bert": True,
    },
    variant="bert-output",
)

# a decoder on BERT's embedding module, and no BERT in the encoder
COPY_TRANSFORMER_BERT_MODULE = dataclasses.replace(
    COPY_TRANSFORMER,
    settings={
        **COPY_TRANSFORMER.settings,
        "decoder_embedding": "bert_module",
        "bert_config": {**TINY_BERT, "max_position_embeddings": 64},
    },
    variant="bert-module",
)

DRGD = Architecture(
    *classes("Drgd"),
    settings={"vocab_size": VOCAB_SIZE, "embedding_size": 6, "hidden_size": 8, "latent_size": 5},
    lora_modules=("key_projection", "projection"),
    attention_heads=1,
    word_width=6,
    not_checkpointed="the decoder's own backward computes again what is large",
)

# the other readings, an output that is tied, and copying
DRGD_PRINTED = dataclasses.replace(
    DRGD,
    settings={
        **DRGD.settings,
        "equations": "printed",
        "reset_after": True,
        "embedding_size": 8,
        "tie_output": True,
        "copy": True,
        "label_smoothing": 0.1,
        "free_bits": 0.01,
    },
    word_width=8,
    variant="printed",
)

HIGHLIGHT_TRANSFORMER = Architecture(
    *classes("HighlightTransformer"),
    settings={**SIZES, "lit_heads": [0, 3], "lit_layers": [1], "token_shift": True, "layer_norm_eps": 0.01},
    has_phrases=True,
    # of the sentences that the tests read
    processor_settings={"document_frequencies": {"ana lopez": 2, "new bridge": 3}, "fitted_examples": 5},
    lora_modules=("q_proj", "v_proj", "token_shift.projection"),
)

SAGCOPY = Architecture(
    *classes("SagCopy"),
    settings={
        **SIZES,
        "centrality": "indegree-2",
        "centrality_damping": 0.85,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "decoder_start_token_id": 2,
    },
    lora_modules=("q_proj", "v_proj", "token_shift.projection"),
)

# BART's way, the other forms of guidance, and shifted words
SAGCOPY_OUTDEGREE = dataclasses.replace(
    SAGCOPY,
    settings={
        **SAGCOPY.settings,
        "centrality": "outdegree",
        "guidance_sum": "documents",
        "guidance_weight": 0.5,
        "scale_embedding": False,
        "output_bias": True,
        "token_shift": True,
    },
    variant="outdegree",
)

POINTER_GENERATOR = Architecture(
    *classes("PointerGenerator"),
    settings={
        "vocab_size": VOCAB_SIZE,
        "embedding_size": 6,
        "hidden_size": 8,
        "coverage": True,
        "recurrent_range": 0.5,
        "init_std": 0.5,
    },
    lora_modules=("query_projection", "key_projection"),
    attention_heads=1,
    word_width=6,
    not_checkpointed="a step's states are small",
)

ARCHITECTURES = [
    GDLF,
    GDLF_COPY,
    COPY_TRANSFORMER,
    COPY_TRANSFORMER_BERT,
    COPY_TRANSFORMER_BERT_OUTPUT,
    COPY_TRANSFORMER_BERT_MODULE,
    DRGD,
    DRGD_PRINTED,
    HIGHLIGHT_TRANSFORMER,
    POINTER_GENERATOR,
    SAGCOPY,
    SAGCOPY_OUTDEGREE,
]


def _parameters(representatives: list[Architecture]) -> list:
    """All architectures as parameters of a test, of which `make test` runs the representatives."""
    parameters = []
    for architecture in ARCHITECTURES:
        marks = () if architecture in representatives else pytest.mark.thorough
        parameters.append(pytest.param(architecture, id=architecture.name, marks=marks))
    return parameters


# of a convolution, of recurrence and of attention with copying and a BERT, which stand for all in `make test`
EACH = _parameters([GDLF, DRGD, COPY_TRANSFORMER_BERT])
# where what they share is the subject
EACH_BY_ONE = _parameters([GDLF])


def generate(model, inputs, seed=0, **settings):
    """Texts of at least 3 and at most 9 tokens, with random numbers from `seed`."""
    torch.manual_seed(seed)
    return model.generate(**inputs, **{"max_new_tokens": 9, "min_new_tokens": 3, **settings})


def build_with_processor(architecture: Architecture, tokenizer, **processor_settings):
    """A tiny model of the tokenizer's vocabulary, and its processor."""
    processor = architecture.processor(tokenizer, **processor_settings)
    torch.manual_seed(0)
    model = architecture.head_class(architecture.config_for(processor)).eval()
    model.generation_config.max_new_tokens = 8
    model.generation_config.no_repeat_word_ngram_size = 3
    model.generation_config.min_new_words = 2
    return model, processor
