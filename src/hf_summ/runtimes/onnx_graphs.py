"""Export of a model as two ONNX graphs: one encodes documents, and the other decodes one token per row."""

import sys
from collections import defaultdict
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch._higher_order_ops.scan import scan
from torch.nn.functional import gelu, linear
from transformers import PreTrainedModel
from transformers.cache_utils import DynamicLayer
from transformers.masking_utils import (
    ALL_MASK_ATTENTION_FUNCTIONS,
    bidirectional_mask_function,
    causal_mask_function,
    eager_mask,
)
from transformers.modeling_outputs import BaseModelOutput
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from hf_summ.common.messages import progress_bar
from hf_summ.models import layers_copying, layers_recurrent, layers_transformer
from hf_summ.models.layers_copy_transformer import BertWindows
from hf_summ.models.layers_gdlf import WINDOW, DeepLayerFusion, DynamicConvolution
from hf_summ.models.layers_recurrent import AttentiveGrus, BidirectionalGru, next_state
from hf_summ.models.layers_transformer import (
    CACHE,
    CrossAttention,
    SelfAttention,
    attend_by_scores,
    eager_attention_forward,
)
from hf_summ.models.modeling_base import DecoderStateLayer, SharedSourceCache, make_decoder_cache
from hf_summ.models.modeling_pointer_generator import BidirectionalLstm
from hf_summ.runtimes.onnx_nodes import WINDOW_SIZES, add_candidates, add_window_sizes, clear_traces, save
from hf_summ.runtimes.onnx_quantization import quantize
from hf_summ.runtimes.onnx_search import LAST, NEXT, READ, SOURCE, STATE, WRITE

_OPSET = 20
# ONNX Runtime copies the right factor of a product: keys of heads of this width are the left one of their scores
_WIDE_HEAD = 64
# columns of GDLF's fusion per product
_FUSION_COLUMNS = 960
_KEYS_AND_VALUES = ("keys", "values")
# the first position of each source token, for copying
_FIRST = f"{SOURCE}first"
# the keys of `AttentiveGrus`
_COLUMNS = f"{SOURCE}columns."
# the name of `_attend` among transformers' attention functions
_ATTENTION = "onnx_runtime"
# sizes of the example for tracing: documents, their tokens (several blocks of LongT5's global attention) and phrases,
# rows, and decoded tokens; no model has heads or widths of these sizes
_SIZES = _DOCUMENTS, _LENGTH, _PHRASES, _ROWS, _WRITTEN = 11, 61, 13, 22, 7
# sizes of `WINDOW_SIZES` in the example
_WINDOWS = dict(zip(WINDOW_SIZES, (3, 5), strict=True))


def write_graphs(model: PreTrainedModel, folder: Path, int8: bool = False) -> None:
    """Write the graphs of a float32 model to a folder; with `int8`, matrices have 8 bits."""
    read, write, documents = _Read(model), _Write(model), _example(model)
    bar = progress_bar(None, "graphs", 2)
    with torch.no_grad(), _attention_for_export(model), _layers_for_export(model), _lengths_for_export(model), bar:
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
            "points": getattr(model, "_points", False),
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
        # pointers have positions of their own
        if getattr(self.model.config, "copy", False) and not getattr(self.model, "_points", False):
            source[_FIRST] = layers_copying.first_positions(inputs["input_ids"], self.model.config.vocab_size)
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
        with (
            _replaced(layers_copying, first_positions=first),
            _replaced(layers_recurrent, key_columns=lambda _: columns),
        ):
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
    module: nn.Module,
    inputs: dict[str, torch.Tensor],
    outputs: list[str],
    file: Path,
    int8: bool,
    **candidates: Any,
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
    if isinstance(windows := getattr(module, "windows", None), BertWindows):
        add_window_sizes(graph.graph, windows.window_size, windows.stride)
    if int8:
        quantize(graph)
    if candidates:
        add_candidates(graph, **candidates)
    save(graph, file)


@contextmanager
def _attention_for_export(model: PreTrainedModel) -> Generator[None]:
    """Attend by `_attend` in this context."""
    before = model.config._attn_implementation
    model.set_attn_implementation(_ATTENTION)
    try:
        with _replaced(layers_transformer, eager_attention_forward=_attend_with_weights):
            yield
    finally:
        model.set_attn_implementation(before)


def _source_mask(mask_function: Callable, attention_mask: torch.Tensor | None = None, **kwargs) -> torch.Tensor | None:
    """The padding of the source (B, 1, 1, S), true at tokens; None for a step, which reads all previous tokens.

    If some layers of the encoder read only neighbors, as in ModernBERT, scores to add, (B, 1, S, S).
    """
    if mask_function is causal_mask_function or attention_mask is None:
        return None
    if mask_function is bidirectional_mask_function:
        return attention_mask[:, None, None, :]
    return eager_mask(mask_function=mask_function, attention_mask=attention_mask, **kwargs)


def _attend(
    module: nn.Module,
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    position_bias: torch.Tensor | None = None,
    **kwargs,
) -> tuple[torch.Tensor, None]:
    """Attention as one operator of ONNX Runtime, (R, H, Q, D) -> (R, Q, H, D).

    In models of transformers the rows of a document, its beams, become queries of its keys, as in ours.
    """
    if attention_mask is not None and attention_mask.dtype != torch.bool:
        return eager_attention_forward(module, queries, keys, values, attention_mask, scaling)
    rows, heads, length, width = queries.shape
    if getattr(module, "is_decoder", False) and not module.is_causal:
        # of T5, where it is zero
        position_bias = None
        queries = queries.transpose(1, 2).reshape(keys.shape[0], -1, heads, width).transpose(1, 2)
    if _reads_wide_source(module, width):
        context, _ = _attend_with_weights(module, queries, keys, values, attention_mask, scaling)
    else:
        mask = None if attention_mask is None else attention_mask[:, 0, 0].int()
        queries = queries.transpose(1, 2).flatten(2)
        context = _multi_head_attention(queries, keys, values, scaling, mask, position_bias)
    return context.reshape(rows, length, heads, width), None


def _reads_wide_source(module: nn.Module, width: int) -> bool:
    """Whether a module with heads of this width is the attention of a step to the source, with wide keys."""
    is_cross = isinstance(module, CrossAttention) or (getattr(module, "is_decoder", False) and not module.is_causal)
    return is_cross and width >= _WIDE_HEAD


def _attend_with_weights(
    module: nn.Module,
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    **kwargs,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`eager_attention_forward` with wide keys of the source as the left factor."""
    if not _reads_wide_source(module, queries.shape[-1]):
        return eager_attention_forward(module, queries, keys, values, attention_mask, scaling, **kwargs)
    return attend_by_scores(module, (keys @ queries.mT).mT * scaling, values, attention_mask)


def _multi_head_attention(
    queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scaling: float, *masks: torch.Tensor | None
) -> torch.Tensor:
    """ONNX Runtime's operator, (R, Q, H·D) and (R, H, K, D) -> (R, Q, H·D)."""
    return torch.onnx.ops.symbolic(
        "com.microsoft::MultiHeadAttention",
        (queries, keys, values, None, *masks),
        {"num_heads": keys.shape[1], "scale": float(scaling)},
        dtype=torch.float32,
        shape=queries.shape,
        version=1,
    )


@contextmanager
def _layers_for_export(model: PreTrainedModel) -> Generator[None]:
    """Use forms of layers in this context whose graphs are fast."""
    forms: dict[nn.Module, Callable] = {}
    for layer in model.modules():
        match layer:
            case BidirectionalGru():
                forms[layer] = partial(_grus, layer)
            case BidirectionalLstm():
                forms[layer] = partial(_lstm, layer)
            case DeepLayerFusion():
                forms[layer] = partial(_fused, layer, _fusion_chunks(layer))
            case DynamicConvolution(causal=True):
                forms[layer] = partial(_convolution, layer)
            case SelfAttention(is_causal=True):
                projections = layer.q_proj, layer.k_proj, layer.v_proj
                weight, bias = (torch.cat([getattr(part, name) for part in projections]) for name in ("weight", "bias"))
                forms[layer] = partial(_self_attention, layer, weight, bias)
            case BertWindows():
                # `_Read` sets its form
                forms[layer] = layer.forward
    for layer, form in forms.items():
        layer.forward = form
    try:
        yield
    finally:
        for layer in forms:
            del layer.forward


@contextmanager
def _lengths_for_export(model: PreTrainedModel) -> Generator[None]:
    """In this context no length of the example becomes a constant of LongT5's graph."""
    if model.config.model_type != "longt5":
        yield
        return
    module: Any = sys.modules[type(model).__module__]
    with _replaced(module, _split_into_blocks=_blocks), _replaced(nn.functional, one_hot=_one_hot):
        yield


@contextmanager
def _replaced(module: Any, **functions: Callable) -> Generator[None]:
    """Use other functions of a module in this context."""
    before = {name: vars(module)[name] for name in functions}
    vars(module).update(functions)
    try:
        yield
    finally:
        vars(module).update(before)


def _blocks(states: torch.Tensor, block_len: int, dim: int) -> torch.Tensor:
    """LongT5's blocks of a dimension, which becomes (blocks, block_len), with zeros after the last state."""
    dim %= states.ndim
    padded = nn.functional.pad(states, (0, 0) * (states.ndim - dim - 1) + (0, block_len - 1))
    starts = torch.arange((states.shape[dim] + block_len - 1) // block_len) * block_len
    # torch cannot solve the lengths of a view
    return padded[(slice(None),) * dim + (starts[:, None] + torch.arange(block_len),)]


def _one_hot(ids: torch.Tensor, num_classes: int) -> torch.Tensor:
    """torch's `one_hot`."""
    return (ids[..., None] == torch.arange(num_classes)).long()


def _fusion_chunks(layer: DeepLayerFusion) -> list[tuple[torch.Tensor, ...]]:
    """Copies of columns of the inner weights, their bias, and the outer weights; a graph would contain slices."""
    weights = layer.inner.weight, layer.inner.bias, layer.outer.weight.T
    columns = zip(*(weight.split(_FUSION_COLUMNS) for weight in weights), strict=True)
    return [(inner.clone(), bias.clone(), outer.clone()) for inner, bias, outer in columns]


def _fused(layer: DeepLayerFusion, chunks: list[tuple[torch.Tensor, ...]], layers: list[torch.Tensor]) -> torch.Tensor:
    """A fusion as a sum over chunks of its inner width, which fit in a processor's cache."""
    total = sum(layers[1:], start=layers[0])
    products = (gelu(linear(total, inner, bias)) @ outer for inner, bias, outer in chunks)
    return layer.layer_norm(sum(products) + layer.outer.bias)


def _convolution(layer: DynamicConvolution, inputs: torch.Tensor, cache_layer: DecoderStateLayer) -> torch.Tensor:
    """The convolution of a step, with a window (R, H, K - 1, D) in the layout of its product."""
    heads, states = layer.num_heads, cache_layer.states
    taps = layer.kernel_projection(inputs).reshape(-1, heads, 1, layer.kernel_size).softmax(-1)
    inputs = inputs.reshape(-1, heads, 1, inputs.shape[2] // heads)
    past = states.get(WINDOW, inputs.new_zeros(*inputs.shape[:2], layer.kernel_size - 1, inputs.shape[3]))
    window = torch.cat((past, inputs), dim=2)
    states[WINDOW] = window[:, :, 1:]
    return layer.output_projection((taps @ window).reshape(-1, 1, heads * inputs.shape[3]))


def _self_attention(
    layer: SelfAttention,
    weight: torch.Tensor,
    bias: torch.Tensor,
    hidden_states: torch.Tensor,
    causal_mask: torch.Tensor | None,
    cache: SharedSourceCache,
    **kwargs,
) -> tuple[torch.Tensor, None]:
    """The self-attention of a step, whose query reads all keys, with one product for queries, keys and values."""
    queries, *new = linear(hidden_states, weight, bias).chunk(3, dim=-1)
    keys, values = (states.reshape(-1, layer.num_heads, 1, layer.head_width) for states in new)
    keys, values = cache.self_attention_cache.update(keys, values, layer.layer_index)
    return layer.out_proj(_multi_head_attention(queries, keys, values, layer.scaling)), None


def _grus(layer: BidirectionalGru, inputs: torch.Tensor, padding_mask: torch.Tensor) -> torch.Tensor:
    """`BidirectionalGru` as a loop in each direction; torch would export a step per position."""
    inputs, padding_mask = inputs.transpose(0, 1), padding_mask.T[..., None].float()
    forward = _gru_states(layer.forward_gru, inputs, padding_mask)
    backward = _gru_states(layer.backward_gru, inputs.flip(0), padding_mask.flip(0))
    return torch.cat((forward, backward.flip(0)), dim=-1).transpose(0, 1)


def _gru_states(layer: nn.GRU, inputs: torch.Tensor, is_token: torch.Tensor) -> torch.Tensor:
    """The states (S, B, k) of a GRU after the inputs (S, B, C), zero at padding (S, B, 1)."""
    # of inputs and of states; torch traces no GRU in a loop
    word_weight, weight, word_bias, bias = layer.parameters()

    def step(state: torch.Tensor, position: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        words, is_token = position
        state = next_state(words, state, weight, bias, reset_after=True) * is_token
        # as the next state and as an output, which must be different tensors
        return state, state.clone()

    start = inputs.new_zeros(inputs.shape[1], layer.hidden_size)
    return scan(step, start, (linear(inputs, word_weight, word_bias), is_token))[1]


def _lstm(
    layer: BidirectionalLstm, inputs: torch.Tensor, padding_mask: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """`BidirectionalLstm` as a loop in each direction; torch would export a step per position."""
    forward = _lstm_states(layer, "", inputs, padding_mask)
    backward = _lstm_states(layer, "_reverse", inputs.flip(1), padding_mask.flip(1))
    outputs = torch.cat((forward[0], backward[0].flip(1)), dim=-1) * padding_mask[..., None]
    hidden, cells = (torch.cat(states, dim=-1) for states in zip(forward[1:], backward[1:], strict=True))
    return outputs, hidden, cells


def _lstm_states(
    layer: BidirectionalLstm, direction: str, inputs: torch.Tensor, padding_mask: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """The hidden states (B, S, k) of a direction, and its last hidden states and cells (B, k)."""
    names = (f"{name}_l0{direction}" for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    word_weight, weight, word_bias, bias = map(layer.get_parameter, names)
    words = linear(inputs, word_weight, word_bias).transpose(0, 1)

    def step(
        states: tuple[torch.Tensor, torch.Tensor], position: tuple[torch.Tensor, torch.Tensor]
    ) -> tuple[tuple[torch.Tensor, torch.Tensor], torch.Tensor]:
        (hidden, cell), (words, is_token) = states, position
        entry, forget, new, output = (words + linear(hidden, weight, bias)).chunk(4, dim=-1)
        next_cell = forget.sigmoid() * cell + entry.sigmoid() * new.tanh()
        next_hidden = output.sigmoid() * next_cell.tanh()
        # padding changes no state
        states = next_hidden.where(is_token, hidden), next_cell.where(is_token, cell)
        # as the next state and as an output, which must be different tensors
        return states, states[0].clone()

    start = inputs.new_zeros(inputs.shape[0], layer.hidden_size)
    (hidden, cell), outputs = scan(step, (start, start.clone()), (words, padding_mask.transpose(0, 1)[..., None]))
    return outputs.transpose(0, 1), hidden, cell


ALL_ATTENTION_FUNCTIONS.register(_ATTENTION, _attend)
ALL_MASK_ATTENTION_FUNCTIONS.register(_ATTENTION, _source_mask)
