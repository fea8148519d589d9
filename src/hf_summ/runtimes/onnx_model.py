"""Our models in ONNX Runtime, with the `generate()` of their architecture."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING, AutoConfig, GenerationConfig, PreTrainedModel
from transformers.utils import ModelOutput

from hf_summ.models.configuration_drgd import DrgdConfig
from hf_summ.models.layers_transformer import cache_argument
from hf_summ.models.modeling_copying import CopySummarizationOutput
from hf_summ.models.quantization_int8 import has_exact_products
from hf_summ.runtimes.onnx_graphs import LAST, NEXT, READ, STATE, WRITE

# positions, over all documents, that are encoded at once
_POSITIONS = 512
_INPUTS = ("attention_mask", "decoder_input_ids", "encoder_outputs", "cache")
# inputs that the graphs do not support
_NOT_READ = (
    *("inputs_embeds", "decoder_inputs_embeds", "decoder_attention_mask", "labels"),
    *("latent_seed", "zero_latent", "output_attentions", "output_hidden_states"),
)


@dataclass
class OnnxSource(ModelOutput):
    """The encoded documents.

    Attributes:
        last_hidden_state: the encoder's output, (B, S, C).
        tensors: name -> source tensors of the steps, and initial states, with one row per document.
    """

    last_hidden_state: torch.Tensor | None = None
    tensors: dict[str, Any] | None = None


@dataclass
class OnnxOutput(CopySummarizationOutput):
    """`CopySummarizationOutput` with the source's subwords.

    Attributes:
        source_ids: (B, S).
    """

    source_ids: torch.Tensor | None = None


class OnnxCache:
    """The states after the last token of each row.

    Args:
        states: name -> states; the next step reads the rows in `rows`.
        rows: (R).
    """

    def __init__(self, states: dict[str, Any], rows: torch.Tensor):
        self.states, self.rows, self.written = states, rows, 0

    def get_seq_length(self) -> int:
        """The number of tokens of a row."""
        return self.written

    def reorder_cache(self, rows: torch.Tensor) -> None:
        """Select the rows to continue."""
        self.rows = self.rows[rows]

    def select_documents(self, documents: torch.Tensor) -> None:
        """Do nothing: this cache does not contain the documents' tensors."""


class Graph:
    """A graph, with the names of its inputs and outputs."""

    def __init__(self, file: Path):
        from onnxruntime import InferenceSession, SessionOptions

        options = SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        if not has_exact_products():
            # exact sums of 8-bit products, with slower instructions
            options.add_session_config_entry("session.x64quantprecision", "1")
        # the fused sum and LayerNorm take several times the time of the two
        disabled = ["SkipLayerNormFusion"]
        self._session = InferenceSession(file, options, ["CPUExecutionProvider"], disabled_optimizers=disabled)
        self.inputs = [value.name for value in self._session.get_inputs()]
        self._outputs = [value.name for value in self._session.get_outputs()]

    def __call__(self, tensors: Mapping[str, Any]) -> dict[str, Any]:
        arrays = {name: np.asarray(tensors[name]) for name in self.inputs}
        return dict(zip(self._outputs, self._session.run(None, arrays), strict=True))


class _Reader(nn.Module):
    """Encodes documents.

    Args:
        positions: maximum number of positions that are encoded at once, over several documents.
    """

    def __init__(self, file: Path, positions: int):
        super().__init__()
        self.graph, self._positions = Graph(file), positions

    def forward(self, input_ids: Any = None, attention_mask: Any = None, **kwargs: Any) -> OnnxSource:
        """The inputs of the architecture's encoder -> the encoded documents.

        Raises:
            ValueError: an input is missing.
        """
        if attention_mask is None and input_ids is not None:
            attention_mask = torch.ones_like(input_ids)
        tensors = {"input_ids": input_ids, "attention_mask": attention_mask, **kwargs}
        inputs: dict[str, Any] = {name: tensors.get(name) for name in self.graph.inputs}
        for name, value in inputs.items():
            if value is None:
                raise ValueError(f"the model needs `{name}`: use its processor (`AutoProcessor`)")
        size = max(1, self._positions // inputs["input_ids"].shape[1])
        batches = zip(*(value.split(size) for value in inputs.values()), strict=True)
        outputs = [self.graph(dict(zip(inputs, batch, strict=True))) for batch in batches]
        read = {name: torch.from_numpy(_joined([output[name] for output in outputs], 0)) for name in outputs[0]}
        return OnnxSource(read[LAST], {"input_ids": input_ids, **read})


class OnnxGeneration(PreTrainedModel):
    """Mixin of ONNX models, listed before the architecture's class.

    Args:
        config: the architecture's config.
        folder: the folder of the graphs.
    """

    # graphs do not contain language models
    masked_lm = None
    compiles_steps = False

    def __init__(self, config, folder: Path):
        # skip the architecture's constructor, which creates weights
        PreTrainedModel.__init__(self, config)
        # activations of few positions fit in a processor's cache, but each step of a GRU multiplies all its weights
        positions = sys.maxsize if isinstance(config, DrgdConfig) else _POSITIONS
        self._reader, self._step = _Reader(folder / READ, positions), Graph(folder / WRITE)

    @property
    def model(self) -> "OnnxGeneration":
        """This model, as the graphs compute hidden states and scores together."""
        return self

    @property
    def device(self) -> torch.device:
        """The CPU."""
        return torch.device("cpu")

    @property
    def dtype(self) -> torch.dtype:
        """float32, the dtype of the scores."""
        return torch.float32

    def with_runtime(self, runtime: str) -> "OnnxGeneration":
        return self

    def get_encoder(self, modality=None) -> nn.Module:
        return self._reader

    def get_input_embeddings(self) -> nn.Module:
        # only the number of embeddings is valid
        return nn.Embedding(self.config.vocab_size, 0, device="meta")

    def save_pretrained(self, *args, **kwargs):
        """Raise a ValueError: there are no weights."""
        raise ValueError("a model of ONNX graphs has no weights to save: copy its folder")

    def _apply(self, fn, recurse=True):
        if (device := fn(torch.empty(0)).device).type != "cpu":
            raise ValueError(f"ONNX graphs are for CPUs, but the model's device is {device}: load it on the CPU")
        return super()._apply(fn, recurse)

    def _forward(self, **inputs) -> OnnxOutput:
        """The scores of the next subword after each one of `decoder_input_ids`, step by step."""
        for name in _NOT_READ:
            if (value := inputs.get(name)) is not None and value is not False:
                raise ValueError(f"ONNX graphs do not support `{name}`: leave it out, or load the checkpoint itself")
        mask, tokens, source, cache = (inputs[name] for name in _INPUTS)
        # the name before transformers 5.24
        cache = inputs.get("past_key_values", cache)
        if source is None:
            source = self._reader(**{name: inputs[name] for name in self._reader.graph.inputs})
        ids = source.tensors["input_ids"]
        tensors = {**source.tensors, "attention_mask": torch.ones_like(ids) if mask is None else mask}
        if cache is None:
            rows = torch.arange(len(ids)).repeat_interleave(len(tokens) // len(ids))
            cache = OnnxCache({name: value for name, value in tensors.items() if name.startswith(STATE)}, rows)
        steps = [self._write(column, tensors, cache) for column in tokens.unbind(1)]
        logits, copied = (
            torch.from_numpy(_joined([step[name] for step in steps], 1)) if name in steps[0] else None
            for name in ("logits", "copy_attentions")
        )
        coverage = next((torch.from_numpy(cache.states[name]) for name in cache.states if ".coverage." in name), None)
        return OnnxOutput(
            logits=logits,
            copy_attentions=copied,
            coverage=coverage,
            **cache_argument(None if inputs["use_cache"] is False else cache),
            source_ids=ids,
        )

    def _write(self, tokens: torch.Tensor, tensors: Mapping[str, Any], cache: OnnxCache) -> dict[str, np.ndarray]:
        """The outputs of a step without its states, which go to the cache."""
        written = np.empty(cache.written, np.float32)
        outputs = self._step({**tensors, **cache.states, "tokens": tokens, "rows": cache.rows, "written": written})
        cache.states = {name.removeprefix(NEXT): outputs.pop(name) for name in list(outputs) if name.startswith(NEXT)}
        cache.rows = torch.arange(len(tokens))
        cache.written += 1
        return outputs


def _joined(arrays: list[np.ndarray], axis: int) -> np.ndarray:
    # a single array, as in decoding, needs no copy
    return np.concatenate(arrays, axis) if len(arrays) > 1 else arrays[0]


def load_graphs(folder: Path) -> PreTrainedModel:
    """Load the model from a folder of graphs."""
    config = AutoConfig.from_pretrained(folder)
    architecture = MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING[type(config)]
    model = type(f"Onnx{architecture.__name__}", (OnnxGeneration, architecture), {})(config, folder)
    model.generation_config = GenerationConfig.from_pretrained(folder)
    return model.eval()
