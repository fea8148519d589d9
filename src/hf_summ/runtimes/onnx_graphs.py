"""Export of a model as two ONNX graphs: the first encodes documents, and the second decodes one token per row.

The rows of a step are the running beams of all documents. In shapes, B is the number of documents, R the number of
rows, S the length of the documents, H the number of heads and D their width.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from onnx import ModelProto
from torch import nn
from transformers import PreTrainedModel
from transformers.cache_utils import DynamicLayer
from transformers.modeling_outputs import BaseModelOutput

from hf_summ.common.messages import progress_bar
from hf_summ.models import layers_copying, layers_recurrent
from hf_summ.models.layers_copy_transformer import BertWindows
from hf_summ.models.layers_recurrent import AttentiveGrus
from hf_summ.models.modeling_base import DecoderStateLayer, SharedSourceCache, make_decoder_cache
from hf_summ.runtimes.onnx_layers import forms_for_export, replaced
from hf_summ.runtimes.onnx_nodes import WINDOW_SIZES, add_candidates, add_window_sizes, clear_traces, save
from hf_summ.runtimes.onnx_quantization import quantize
from hf_summ.runtimes.onnx_search import COPIED, LAST, LOGITS, NEXT, READ, SOURCE, STATE, WRITE
from hf_summ.runtimes.onnx_weights import share_constants

# name -> a tensor of a graph
Tensors = Mapping[str, torch.Tensor]

_OPSET = 20
# names of the tensors of a layer of attention; in a graph, a prefix and the layer's index are added
_KEYS, _VALUES = "keys", "values"
# prefixes of the names of the source's keys and values in a graph
_SOURCE_KEYS, _SOURCE_VALUES = f"{SOURCE}{_KEYS}.", f"{SOURCE}{_VALUES}."
# the first position of each source token, for copying
_FIRST = f"{SOURCE}first"
# prefix of the names of the keys of `AttentiveGrus`, which `key_columns` splits
_COLUMNS = f"{SOURCE}columns."
# Sizes of the example for tracing. An axis of one of these sizes has any size in the graph, as no model has heads or
# widths of these sizes.
_DOCUMENTS = 11
# several blocks of LongT5's global attention
_LENGTH = 61
_PHRASES = 13
_ROWS = 22
# decoded tokens of a row
_WRITTEN = 7
_FREE_SIZES = (_DOCUMENTS, _LENGTH, _PHRASES, _ROWS, _WRITTEN)
# the sizes of `WINDOW_SIZES` in the example
_WINDOWS = dict(zip(WINDOW_SIZES, (3, 5), strict=True))


def write_graphs(model: PreTrainedModel, folder: Path, int8: bool = False, weights: Path | None = None) -> bool:
    """Write the graphs of a model to a folder.

    Args:
        model: the model, in float32.
        folder: the folder, which exists.
        int8: whether matrices have 8 bits.
        weights: the checkpoint's file of safetensors, from which graphs read the constants that it has. By default,
            graphs contain all of their constants.

    Returns:
        Whether a graph reads that file.
    """
    reads_weights = False
    reader = _Reader(model)
    writer = _Writer(model)
    documents = _example_documents(model)
    bar = progress_bar(None, "graphs", 2)
    with torch.no_grad(), forms_for_export(model), bar:
        tensors = reader(documents)
        graph = _exported(reader, documents, list(tensors))
        has_bert = reader.windows is not None
        if has_bert:
            add_window_sizes(graph.graph, reader.windows.window_size, reader.windows.stride)
        if int8:
            # a BERT is computed in 32 bits: few of its values are so large that 8 bits lose the rest
            quantize(graph, computes_in_8_bits=not has_bert)
        if weights is not None and share_constants(graph, weights):
            reads_weights = True
        save(graph, folder / READ)
        bar.update()

        inputs = _example_step(writer, documents, tensors)
        outputs = []
        for name in writer(inputs):
            # the names of a graph's tensors must differ, but a state is both an input and an output
            outputs.append(f"{NEXT}{name}" if name in inputs else name)
        graph = _exported(writer, inputs, outputs)
        if int8:
            quantize(graph)
        add_candidates(
            graph,
            model.config.vocab_size,
            are_log_probs=getattr(model.config, "copy", False),
            # pointers add a score for each position of the source
            points=getattr(model, "unknown_ids", 0) > 0,
        )
        if weights is not None and share_constants(graph, weights):
            reads_weights = True
        save(graph, folder / WRITE)
        bar.update()
    return reads_weights


@dataclass
class _Encoded(BaseModelOutput):
    """An encoder's output in a step, with placeholders for what only the first step of PyTorch reads.

    Attributes:
        centrality: of SAGCopy.
        last_states: of LSTMs.
    """

    centrality: torch.Tensor | None = None
    last_states: torch.Tensor | None = None


def _windows_of(model: PreTrainedModel) -> BertWindows | None:
    """The layer that reads documents by a BERT in windows; None if the model has none."""
    for layer in model.modules():
        if isinstance(layer, BertWindows):
            return layer
    return None


def _fix_windows(windows: BertWindows, inputs: Tensors) -> None:
    """Let a BERT read windows whose starts and offsets are the inputs `WINDOW_SIZES` of the graph."""
    sizes = {name: inputs[name] for name in WINDOW_SIZES}

    def read(input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
        return windows.read_windows(input_ids, attention_mask, **sizes)

    windows.forward = read


class _Reader(nn.Module):
    """Encodes documents: computes the tensors of the source that all steps read, and the initial states."""

    def __init__(self, model: PreTrainedModel):
        super().__init__()
        self.model = model
        self.windows = _windows_of(model)

    def forward(self, inputs: Tensors) -> dict[str, torch.Tensor]:
        """Encode documents.

        Args:
            inputs: the encoder's inputs by name, with a row per document.

        Returns:
            Tensors by name, with a row per document: the names of states begin with `STATE`, other names with `SOURCE`.
        """
        encoder_inputs = {name: value for name, value in inputs.items() if name not in WINDOW_SIZES}
        if self.windows is not None:
            _fix_windows(self.windows, inputs)
        encoded = self.model.get_encoder()(**encoder_inputs)
        mask = inputs["attention_mask"]
        # run a step to fill the cache; the graph omits its scores
        first_tokens = inputs["input_ids"][:, :1]
        outputs = self.model(
            attention_mask=mask, encoder_outputs=encoded, decoder_input_ids=first_tokens, use_cache=True
        )
        cache = outputs["cache"]
        tensors = {LAST: encoded.last_hidden_state}
        tensors.update(self._source_keys_and_values(cache))
        states = _initial_states(cache)
        decoder = self.model.get_decoder()
        if hasattr(decoder, "start_states"):
            # LSTMs start from the encoder's last states, and GRUs from the mean of the states of the masked tokens
            start_source = getattr(encoded, "last_states", mask.bool())
            start_states = decoder.start_states(
                encoded.last_hidden_state, start_source, encoded.last_hidden_state.shape[0]
            )
            for name, value in start_states.items():
                states[f"{STATE}{name}.0"] = value
        if getattr(self.model.config, "copy", False):
            vocab_size = self.model.config.vocab_size + self.model.unknown_ids
            tensors[_FIRST] = layers_copying.first_positions(inputs["input_ids"], vocab_size)
        tensors.update(states)
        return tensors

    def _source_keys_and_values(self, cache: SharedSourceCache) -> dict[str, torch.Tensor]:
        """The keys and values of the source in each layer, by their names in the graph."""
        tensors = {}
        layers = cache.cross_attention_cache.layers
        if any(isinstance(layer, AttentiveGrus) for layer in self.model.modules()):
            # split here, as a split in a step would copy the keys
            columns = layers_recurrent.key_columns(layers[0].keys[:, 0])
            for index, column in enumerate(columns):
                tensors[f"{_COLUMNS}{index}"] = column
            return tensors
        for index, layer in enumerate(layers):
            tensors[f"{_SOURCE_KEYS}{index}"] = _turned(layer.keys)
            tensors[f"{_SOURCE_VALUES}{index}"] = layer.values
        return tensors


def _turned(keys: torch.Tensor) -> torch.Tensor:
    """Keys (B, H, S, D) as steps read them, or back: keys of one head, as in additive attention, are transposed."""
    if keys.shape[1] == 1:
        return keys.mT
    return keys


class _Writer(nn.Module):
    """Decodes a token of each row: computes the scores of the next token, and the next states."""

    def __init__(self, model: PreTrainedModel):
        super().__init__()
        self.model = model

    def forward(self, inputs: Tensors) -> dict[str, torch.Tensor]:
        """Decode a token of each row.

        Args:
            inputs: tensors by name: the documents' ids, mask and tensors with a row per document; the states; `rows`
                (R,), the rows of the states from which to continue; `tokens` (R,), the last token of each row; and
                `written` (T,), which has the length of the decoded texts.

        Returns:
            By name the scores (R, 1, V), the copy distributions if there are any, and the next states.
        """
        columns = [value for name, value in inputs.items() if name.startswith(_COLUMNS)]
        if columns:
            # only for the example, as the graph reads nothing but the columns
            keys = torch.cat(columns, dim=2)
            inputs = {**inputs, f"{_SOURCE_KEYS}0": keys, f"{_SOURCE_VALUES}0": keys[:, :, :0].mT}
        cache = _cache_of(inputs)
        mask = inputs["attention_mask"]

        def read_first_positions(source_ids: torch.Tensor, vocab_size: int) -> torch.Tensor:
            return inputs[_FIRST]

        def read_key_columns(keys: torch.Tensor) -> list[torch.Tensor]:
            return columns

        first_positions = read_first_positions if _FIRST in inputs else layers_copying.first_positions
        with (
            replaced(layers_copying, first_positions=first_positions),
            replaced(layers_recurrent, key_columns=read_key_columns),
        ):
            outputs = self.model(
                # models that copy read the ids
                input_ids=inputs["input_ids"],
                attention_mask=mask,
                encoder_outputs=_Encoded(last_hidden_state=inputs[LAST], centrality=mask, last_states=mask),
                decoder_input_ids=inputs["tokens"][:, None],
                cache=cache,
                use_cache=True,
            )
        tensors = {LOGITS: outputs.logits}
        copy_attentions = getattr(outputs, "copy_attentions", None)
        if copy_attentions is not None:
            tensors[COPIED] = copy_attentions
        tensors.update(_states_of(cache))
        return tensors


def _states_of(cache: SharedSourceCache) -> dict[str, torch.Tensor]:
    """The states of the decoder's layers by their names in the graph, such as `state.keys.0`."""
    states = {}
    for index, layer in enumerate(cache.self_attention_cache.layers):
        if isinstance(layer, DecoderStateLayer):
            layer_states = layer.states
        else:
            layer_states = {_KEYS: layer.keys, _VALUES: layer.values}
        for name, value in layer_states.items():
            states[f"{STATE}{name}.{index}"] = value
    return states


def _initial_states(cache: SharedSourceCache) -> dict[str, torch.Tensor]:
    """The states before the first token: zeros, with the shapes that states have in this cache of one token."""
    states = {}
    for name, value in _states_of(cache).items():
        _, state, _ = name.split(".")
        before = value
        if state in (_KEYS, _VALUES):
            # no token has keys yet
            before = value[:, :, :0]
        # of the shape alone, as a graph of `zeros_like` would contain the decoder's layers
        states[name] = value.new_zeros(before.shape)
    return states


def _cache_of(inputs: Tensors) -> SharedSourceCache:
    """The cache after the previous tokens, with the states of the rows to continue.

    Args:
        inputs: as for `_Writer`.
    """
    states = defaultdict(dict)
    source = defaultdict(dict)
    for name, value in inputs.items():
        if name.startswith(STATE):
            _, state, index = name.split(".")
            states[int(index)][state] = value.index_select(0, inputs["rows"])
        elif name.startswith((_SOURCE_KEYS, _SOURCE_VALUES)):
            _, part, index = name.split(".")
            source[int(index)][part] = value
    layers = []
    for index in sorted(states):
        layers.append(DynamicLayer() if _KEYS in states[index] else DecoderStateLayer())
    cache = make_decoder_cache(layers)
    for index, layer in enumerate(layers):
        if isinstance(layer, DecoderStateLayer):
            layer.states = states[index]
            # these layers do not know their length from their states, and `written` is as long as the summary so far
            layer.seen_positions = inputs["written"].shape[0]
        else:
            layer.update(states[index][_KEYS], states[index][_VALUES])
    for index in sorted(source):
        cache.cross_attention_cache.update(_turned(source[index][_KEYS]), source[index][_VALUES], index)
        cache.is_updated[index] = True
    return cache


def _example_documents(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """Inputs of the encoder for tracing."""
    inputs = {
        "input_ids": torch.ones(_DOCUMENTS, _LENGTH, dtype=torch.long),
        "attention_mask": torch.ones(_DOCUMENTS, _LENGTH, dtype=torch.long),
    }
    if getattr(model.config, "tags", "none") != "none":
        inputs["tag_ids"] = torch.ones_like(inputs["input_ids"])
    if _windows_of(model) is not None:
        for name, size in _WINDOWS.items():
            inputs[name] = torch.arange(size)
    if "phrase_starts" in getattr(model.base_model, "source_inputs", ()):
        starts = torch.zeros(_DOCUMENTS, _PHRASES, dtype=torch.long)
        inputs["phrase_starts"] = starts
        inputs["phrase_ends"] = starts + 1
        inputs["phrase_values"] = torch.ones(starts.shape)
    return inputs


def _example_step(writer: _Writer, documents: Tensors, tensors: Tensors) -> dict[str, torch.Tensor]:
    """Inputs of a step for tracing, after `_WRITTEN` tokens of each row.

    Args:
        writer: decodes these tokens.
        documents: the inputs of the encoder.
        tensors: what `_Reader` returns for them.
    """
    rows = torch.arange(_DOCUMENTS).repeat_interleave(_ROWS // _DOCUMENTS)
    step = {
        "tokens": torch.full((_ROWS,), writer.model.config.eos_token_id),
        "rows": rows,
        "written": torch.zeros(_WRITTEN),
        "input_ids": documents["input_ids"],
        "attention_mask": documents["attention_mask"],
    }
    states = {}
    for name, value in tensors.items():
        if name.startswith(SOURCE):
            step[name] = value
        elif name.startswith(STATE):
            states[name] = value[rows]
    for _ in range(_WRITTEN):
        outputs = writer({**step, **states})
        states = {name: outputs[name] for name in states}
    return {**step, **states}


def _exported(module: nn.Module, inputs: Tensors, outputs: list[str]) -> ModelProto:
    """The graph of a module.

    Args:
        module: its `forward` maps tensors by name to tensors by name.
        inputs: an example of its inputs.
        outputs: the names of its outputs in the graph.
    """
    shapes = {}
    for name, value in inputs.items():
        free_axes = {}
        for axis, size in enumerate(value.shape):
            if size in _FREE_SIZES or name in WINDOW_SIZES:
                free_axes[axis] = torch.export.Dim.AUTO
        shapes[name] = free_axes
    program = torch.export.export(module, (inputs,), dynamic_shapes=(shapes,), strict=False)
    exported: Any = torch.onnx.export(
        program, dynamo=True, verbose=False, opset_version=_OPSET, input_names=list(inputs), output_names=outputs
    )
    graph = exported.model_proto
    clear_traces(graph.graph)
    return graph
