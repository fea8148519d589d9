"""Export of a model as two ONNX graphs: one encodes documents, and the other decodes one token per row."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.cache_utils import DynamicLayer
from transformers.modeling_outputs import BaseModelOutput

from hf_summ.common.messages import progress_bar
from hf_summ.models import layers_copying, layers_recurrent
from hf_summ.models.layers_copy_transformer import BertWindows
from hf_summ.models.layers_recurrent import AttentiveGrus
from hf_summ.models.layers_transformer import CACHE
from hf_summ.models.modeling_base import DecoderStateLayer, SharedSourceCache, make_decoder_cache
from hf_summ.runtimes.onnx_layers import forms_for_export, replaced
from hf_summ.runtimes.onnx_nodes import WINDOW_SIZES, add_candidates, add_window_sizes, clear_traces, save
from hf_summ.runtimes.onnx_quantization import quantize
from hf_summ.runtimes.onnx_search import LAST, NEXT, READ, SOURCE, STATE, WRITE

_OPSET = 20
_KEYS_AND_VALUES = ("keys", "values")
# the first position of each source token, for copying
_FIRST = f"{SOURCE}first"
# the keys of `AttentiveGrus`
_COLUMNS = f"{SOURCE}columns."
# sizes of the example for tracing: documents, their tokens (several blocks of LongT5's global attention) and phrases,
# rows, and decoded tokens; no model has heads or widths of these sizes
_SIZES = _DOCUMENTS, _LENGTH, _PHRASES, _ROWS, _WRITTEN = 11, 61, 13, 22, 7
# sizes of `WINDOW_SIZES` in the example
_WINDOWS = dict(zip(WINDOW_SIZES, (3, 5), strict=True))


def write_graphs(model: PreTrainedModel, folder: Path, int8: bool = False) -> None:
    """Write the graphs of a float32 model to a folder; with `int8`, matrices have 8 bits."""
    read, write, documents = _Read(model), _Write(model), _example(model)
    bar = progress_bar(None, "graphs", 2)
    with torch.no_grad(), forms_for_export(model), bar:
        tensors = read(documents)
        _write(read, documents, list(tensors), folder / READ, int8)
        bar.update()
        rows = torch.arange(_DOCUMENTS).repeat_interleave(_ROWS // _DOCUMENTS)
        step = {
            "tokens": torch.full((_ROWS,), model.config.eos_token_id),
            "rows": rows,
            "written": torch.zeros(_WRITTEN),
            **{name: documents[name] for name in ("input_ids", "attention_mask")},
            **{name: value for name, value in tensors.items() if name.startswith(SOURCE)},
        }
        states = {name: value[rows] for name, value in tensors.items() if name.startswith(STATE)}
        for _ in range(_WRITTEN):
            outputs = write({**step, **states})
            states = {name: outputs[name] for name in states}
        # names of tensors in a graph must differ
        names = [f"{NEXT}{name}" if name in states else name for name in outputs]
        candidates = {
            "vocab_size": model.config.vocab_size,
            "are_log_probs": getattr(model.config, "copy", False),
            # pointers add a score for each position of the source
            "points": getattr(model, "unknown_ids", 0) > 0,
        }
        _write(write, {**step, **states}, names, folder / WRITE, int8, **candidates)
        bar.update()


@dataclass
class _Encoded(BaseModelOutput):
    """An encoder's output with placeholders for what only a first step reads: SAGCopy's centrality, LSTMs' states."""

    centrality: torch.Tensor | None = None
    last_states: torch.Tensor | None = None


def _windows_of(model: PreTrainedModel) -> BertWindows | None:
    """The windows in which BERT reads documents."""
    return next((layer for layer in model.modules() if isinstance(layer, BertWindows)), None)


class _Read(nn.Module):
    """Maps documents to the source tensors of each step, and to the initial states."""

    def __init__(self, model: PreTrainedModel):
        super().__init__()
        self.model, self.windows = model, _windows_of(model)

    def forward(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The encoder's inputs by name -> tensors by name, with one row per document."""
        source = {name: value for name, value in inputs.items() if name not in _WINDOWS}
        if self.windows is not None:
            self.windows.forward = partial(self.windows.read_windows, **{name: inputs[name] for name in _WINDOWS})
        encoded, mask = self.model.get_encoder()(**source), inputs["attention_mask"]
        # run a step to fill the cache; the graph omits its scores
        first = inputs["input_ids"][:, :1]
        outputs = self.model(attention_mask=mask, encoder_outputs=encoded, decoder_input_ids=first, use_cache=True)
        cache, last = outputs[CACHE], encoded.last_hidden_state
        layers, source = cache.cross_attention_cache.layers, {}
        if any(isinstance(layer, AttentiveGrus) for layer in self.model.modules()):
            # apart, as each step would copy what it splits
            columns = layers_recurrent.key_columns(layers[0].keys[:, 0])
            layers, source = [], {f"{_COLUMNS}{index}": part for index, part in enumerate(columns)}
        for index, layer in enumerate(layers):
            source |= {f"{SOURCE}keys.{index}": _turned(layer.keys), f"{SOURCE}values.{index}": layer.values}
        # by their shapes alone: a graph of `zeros_like` would contain the decoder's layers
        states = {
            name: value.new_zeros((value[:, :, :0] if name.split(".")[1] in _KEYS_AND_VALUES else value).shape)
            for name, value in _states_of(cache).items()
        }
        decoder = self.model.get_decoder()
        if hasattr(decoder, "start_states"):
            start = decoder.start_states(last, getattr(encoded, "last_states", mask.bool()), last.shape[0])
            states |= {f"{STATE}{name}.0": value for name, value in start.items()}
        if getattr(self.model.config, "copy", False):
            size = self.model.config.vocab_size + self.model.unknown_ids
            source[_FIRST] = layers_copying.first_positions(inputs["input_ids"], size)
        return {LAST: last, **source, **states}


def _turned(keys: torch.Tensor) -> torch.Tensor:
    """Keys (B, H, S, D) as steps read them, or back: those of one head, as in additive attention, by columns."""
    return keys.mT if keys.shape[1] == 1 else keys


class _Write(nn.Module):
    """Maps each row's last token, and the states after the previous tokens, to the scores of the next token."""

    def __init__(self, model: PreTrainedModel):
        super().__init__()
        self.model = model

    def forward(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Tensors by name, with the rows to continue in `rows` -> scores, copy distributions and states."""
        columns = [value for name, value in inputs.items() if name.startswith(_COLUMNS)]
        if columns:
            # for the example; the graph only reads its columns
            keys = torch.cat(columns, dim=2)
            inputs = {**inputs, f"{SOURCE}keys.0": keys, f"{SOURCE}values.0": keys[:, :, :0].mT}
        cache, mask = _cache_of(inputs), inputs["attention_mask"]
        first = (lambda *_: inputs[_FIRST]) if _FIRST in inputs else layers_copying.first_positions
        with replaced(layers_copying, first_positions=first), replaced(layers_recurrent, key_columns=lambda _: columns):
            outputs = self.model(
                # for copying
                input_ids=inputs["input_ids"],
                attention_mask=mask,
                encoder_outputs=_Encoded(last_hidden_state=inputs[LAST], centrality=mask, last_states=mask),
                decoder_input_ids=inputs["tokens"][:, None],
                cache=cache,
                use_cache=True,
            )
        copied = getattr(outputs, "copy_attentions", None)
        copied = {} if copied is None else {"copy_attentions": copied}
        return {"logits": outputs.logits, **copied, **_states_of(cache)}


def _states_of(cache: SharedSourceCache) -> dict[str, torch.Tensor]:
    states = {}
    for index, layer in enumerate(cache.self_attention_cache.layers):
        if isinstance(layer, DecoderStateLayer):
            states |= {f"{STATE}{name}.{index}": value for name, value in layer.states.items()}
        else:
            states |= {f"{STATE}{name}.{index}": getattr(layer, name) for name in _KEYS_AND_VALUES}
    return states


def _cache_of(inputs: Mapping[str, torch.Tensor]) -> SharedSourceCache:
    """The cache after the previous tokens, with the states of the rows to continue."""
    states, source = defaultdict(dict), defaultdict(dict)
    for name, value in inputs.items():
        if name.startswith(STATE):
            _, state, index = name.split(".")
            states[int(index)][state] = value.index_select(0, inputs["rows"])
        elif name.startswith(SOURCE) and name not in (LAST, _FIRST) and not name.startswith(_COLUMNS):
            _, state, index = name.split(".")
            source[int(index)][state] = value
    layers = [DynamicLayer() if "keys" in states[index] else DecoderStateLayer() for index in sorted(states)]
    cache = make_decoder_cache(layers)
    for index, layer in enumerate(layers):
        if isinstance(layer, DecoderStateLayer):
            layer.states, layer.seen_positions = states[index], inputs["written"].shape[0]
        else:
            layer.update(states[index]["keys"], states[index]["values"])
    for index in sorted(source):
        cache.cross_attention_cache.update(_turned(source[index]["keys"]), source[index]["values"], index)
        cache.is_updated[index] = True
    return cache


def _example(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """Example inputs of the encoder."""
    inputs = {name: torch.ones(_DOCUMENTS, _LENGTH, dtype=torch.long) for name in ("input_ids", "attention_mask")}
    if getattr(model.config, "tags", "none") != "none":
        inputs["tag_ids"] = torch.ones_like(inputs["input_ids"])
    if _windows_of(model) is not None:
        inputs |= {name: torch.arange(size) for name, size in _WINDOWS.items()}
    if "phrase_starts" in getattr(model.base_model, "source_inputs", ()):
        starts = torch.zeros(_DOCUMENTS, _PHRASES, dtype=torch.long)
        inputs |= {"phrase_starts": starts, "phrase_ends": starts + 1, "phrase_values": torch.ones(starts.shape)}
    return inputs


def _write(
    module: nn.Module, inputs: dict[str, torch.Tensor], outputs: list[str], file: Path, int8: bool, **candidates: Any
) -> None:
    """Write a module's graph; with arguments of `add_candidates`, it returns the best continuations too."""
    auto = torch.export.Dim.AUTO
    shapes = {
        name: {index: auto for index, size in enumerate(value.shape) if size in _SIZES or name in _WINDOWS}
        for name, value in inputs.items()
    }
    program = torch.export.export(module, (inputs,), dynamic_shapes=(shapes,), strict=False)
    exported: Any = torch.onnx.export(
        program, dynamo=True, verbose=False, opset_version=_OPSET, input_names=list(inputs), output_names=outputs
    )
    graph = exported.model_proto
    clear_traces(graph.graph)
    windows = getattr(module, "windows", None)
    has_bert = isinstance(windows, BertWindows)
    if has_bert:
        add_window_sizes(graph.graph, windows.window_size, windows.stride)
    if int8:
        # a BERT is computed in 32 bits: few of its values are so large that 8 bits lose the rest
        quantize(graph, computes_in_8_bits=not has_bert)
    if candidates:
        add_candidates(graph, **candidates)
    save(graph, file)
