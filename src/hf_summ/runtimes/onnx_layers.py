"""Replacements for `forward` of layers whose graphs would be slow in ONNX Runtime, or which torch cannot export.

In shapes, B is the number of documents, S their length, R the number of rows of a step, H the number of heads, D the
width of a head, Q and K the numbers of queries and keys, and k the width of a recurrent state.
"""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import ModuleType

import torch
from torch import nn
from torch._higher_order_ops.scan import scan
from torch.nn.functional import gelu, linear
from transformers import PreTrainedModel
from transformers.masking_utils import (
    ALL_MASK_ATTENTION_FUNCTIONS,
    bidirectional_mask_function,
    causal_mask_function,
    eager_mask,
)
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from hf_summ.models import layers_transformer
from hf_summ.models.layers_copy_transformer import BertWindows
from hf_summ.models.layers_gdlf import WINDOW, DeepLayerFusion, DynamicConvolution
from hf_summ.models.layers_recurrent import BidirectionalGru, next_state
from hf_summ.models.layers_transformer import (
    CrossAttention,
    SelfAttention,
    attend_by_scores,
    eager_attention_forward,
    product_of_rows,
)
from hf_summ.models.modeling_base import DecoderStateLayer, SharedSourceCache
from hf_summ.models.modeling_pointer_generator import BidirectionalLstm

# ONNX Runtime's operator for attention is faster for heads with fewer channels
_WIDE_HEAD = 64
# number of columns of GDLF's fusion in one product
_FUSION_COLUMNS = 960
# the name of `_attend` among transformers' attention functions
_ATTENTION = "onnx_runtime"


@contextmanager
def forms_for_export(model: PreTrainedModel) -> Generator[None]:
    """Replace a model's attention, layers and lengths in this context by those of this module."""
    with _attention_for_export(model), _layers_for_export(model), _lengths_for_export(model):
        yield


@contextmanager
def replaced(module: ModuleType, **functions: Callable) -> Generator[None]:
    """In this context, `functions` take the places of the module's functions of the same names."""
    before = {name: vars(module)[name] for name in functions}
    vars(module).update(functions)
    try:
        yield
    finally:
        vars(module).update(before)


@contextmanager
def _attention_for_export(model: PreTrainedModel) -> Generator[None]:
    """Attend by `_attend` in this context."""
    before = model.config._attn_implementation
    model.set_attn_implementation(_ATTENTION)
    try:
        with replaced(layers_transformer, eager_attention_forward=_attend_with_weights):
            yield
    finally:
        model.set_attn_implementation(before)


def _source_mask(mask_function: Callable, attention_mask: torch.Tensor | None = None, **kwargs) -> torch.Tensor | None:
    """The mask of attention, for transformers' models.

    Returns:
        For the source its mask (B, 1, 1, S), which is true at tokens. For layers that read only neighbors, as some of
        ModernBERT, scores to add (B, 1, S, S). None for a step, whose token reads all previous ones.
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
    """Attention as one operator of ONNX Runtime.

    In attention to the source, the keys of a document serve all its rows, which are neighbors. So the rows become
    further queries of the document. Our models have already done this, and R is then B.

    Args:
        module: the layer.
        queries: (R, H, Q, D).
        keys, values: (B, H, K, D). R is B, or a multiple of B in transformers' attention to the source.
        attention_mask: as `_source_mask` returns it.
        scaling: the factor of the scores.
        position_bias: scores to add (1, H, Q, K), for T5.

    Returns:
        The contexts (R, Q, H, D), and None in place of the attention.
    """
    if attention_mask is not None and attention_mask.dtype != torch.bool:
        return eager_attention_forward(module, queries, keys, values, attention_mask, scaling)
    rows, heads, length, width = queries.shape
    if _reads_source(module):
        # T5's bias is zero between a summary and the source
        position_bias = None
        queries = queries.transpose(1, 2).reshape(keys.shape[0], -1, heads, width).transpose(1, 2)
    if _reads_wide_source(module, width):
        context, _ = _attend_with_weights(module, queries, keys, values, attention_mask, scaling)
    else:
        mask = None
        if attention_mask is not None:
            mask = attention_mask[:, 0, 0].int()
        queries = queries.transpose(1, 2).flatten(2)
        context = _multi_head_attention(queries, keys, values, scaling, mask, position_bias)
    return context.reshape(rows, length, heads, width), None


def _reads_source(module: nn.Module) -> bool:
    """Whether a module of transformers is the attention of a step to the source."""
    return getattr(module, "is_decoder", False) and not module.is_causal


def _reads_wide_source(module: nn.Module, width: int) -> bool:
    """Whether a module with heads of this width is the attention of a step to the source, with wide keys."""
    return width >= _WIDE_HEAD and (isinstance(module, CrossAttention) or _reads_source(module))


def _attend_with_weights(
    module: nn.Module,
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    **kwargs,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`eager_attention_forward` with the same arguments, without copies of wide keys and values of the source."""
    if not _reads_wide_source(module, queries.shape[-1]):
        return eager_attention_forward(module, queries, keys, values, attention_mask, scaling, **kwargs)
    # ONNX Runtime copies the right factor of a product of several rows
    scores = (keys @ queries.mT).mT * scaling
    return attend_by_scores(module, scores, values, attention_mask, product=product_of_rows)


def _multi_head_attention(
    queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scaling: float, *masks: torch.Tensor | None
) -> torch.Tensor:
    """ONNX Runtime's operator for attention, as an operator of the graph.

    Args:
        queries: (R, Q, H·D).
        keys, values: (R, H, K, D).
        scaling: the factor of the scores.
        masks: the mask (R, K) of tokens and the scores to add, if there are any.

    Returns:
        The contexts (R, Q, H·D).
    """
    # the operator's fourth input is a bias of the projections
    inputs = (queries, keys, values, None, *masks)
    return torch.onnx.ops.symbolic(
        "com.microsoft::MultiHeadAttention",
        inputs,
        {"num_heads": keys.shape[1], "scale": float(scaling)},
        dtype=torch.float32,
        shape=queries.shape,
        version=1,
    )


@contextmanager
def _layers_for_export(model: PreTrainedModel) -> Generator[None]:
    """Replace `forward` of a model's layers in this context."""
    forwards: dict[nn.Module, Callable] = {}
    for layer in model.modules():
        forward = _forward_for_export(layer)
        if forward is not None:
            forwards[layer] = forward
    for layer, forward in forwards.items():
        layer.forward = forward
    try:
        yield
    finally:
        for layer in forwards:
            # the method of the class is visible again
            del layer.forward


def _forward_for_export(layer: nn.Module) -> Callable | None:
    """The function that replaces `forward` of a layer; None for a layer that stays as it is."""
    match layer:
        case BidirectionalGru():
            return partial(_grus, layer)
        case BidirectionalLstm():
            return partial(_lstm, layer)
        case DeepLayerFusion():
            return partial(_fused, layer, _fusion_chunks(layer))
        case DynamicConvolution(causal=True):
            return partial(_convolution, layer)
        case SelfAttention(is_causal=True):
            projections = (layer.q_proj, layer.k_proj, layer.v_proj)
            weight = torch.cat([projection.weight for projection in projections])
            bias = torch.cat([projection.bias for projection in projections])
            return partial(_self_attention, layer, weight, bias)
        case BertWindows():
            # It is only listed, as `onnx_graphs` replaces the method of this layer itself. The end of the context then
            # removes that replacement too.
            return layer.forward
    return None


@contextmanager
def _lengths_for_export(model: PreTrainedModel) -> Generator[None]:
    """In this context, no length of the example becomes a constant of LongT5's graph."""
    if model.config.model_type != "longt5":
        yield
        return
    module = sys.modules[type(model).__module__]
    with replaced(module, _split_into_blocks=_blocks), replaced(nn.functional, one_hot=_one_hot):
        yield


def _blocks(states: torch.Tensor, block_len: int, dim: int) -> torch.Tensor:
    """Split a dimension of LongT5's states into blocks, with zeros after the last state.

    The dimension `dim` becomes two dimensions, (blocks, block_len).
    """
    dim %= states.ndim
    dims_after = states.ndim - dim - 1
    # `pad` reads pairs of numbers, and begins with the last dimension
    padding = (0, 0) * dims_after + (0, block_len - 1)
    padded = nn.functional.pad(states, padding)
    starts = torch.arange((states.shape[dim] + block_len - 1) // block_len) * block_len
    positions = starts[:, None] + torch.arange(block_len)
    # indexed, not reshaped: torch's exporter cannot prove that a view's symbolic lengths fit
    return padded[(slice(None),) * dim + (positions,)]


def _one_hot(ids: torch.Tensor, num_classes: int) -> torch.Tensor:
    """torch's `one_hot`: the ids (...) as vectors (..., num_classes)."""
    return (ids[..., None] == torch.arange(num_classes)).long()


@dataclass(frozen=True)
class _FusionChunk:
    """A part of the inner width of GDLF's fusion, with copies of its weights; a graph would contain slices.

    Args:
        inner: (columns, C), rows of the inner weight.
        bias: (columns,), the inner bias.
        outer: (columns, C), columns of the outer weight, transposed.
    """

    inner: torch.Tensor
    bias: torch.Tensor
    outer: torch.Tensor


def _fusion_chunks(layer: DeepLayerFusion) -> list[_FusionChunk]:
    """The chunks of a fusion, each with at most `_FUSION_COLUMNS` columns of the inner width."""
    inner_weights = layer.inner.weight.split(_FUSION_COLUMNS)
    biases = layer.inner.bias.split(_FUSION_COLUMNS)
    outer_weights = layer.outer.weight.T.split(_FUSION_COLUMNS)
    chunks = []
    for inner, bias, outer in zip(inner_weights, biases, outer_weights, strict=True):
        chunks.append(_FusionChunk(inner.clone(), bias.clone(), outer.clone()))
    return chunks


def _fused(layer: DeepLayerFusion, chunks: list[_FusionChunk], layers: list[torch.Tensor]) -> torch.Tensor:
    """`DeepLayerFusion` as a sum over chunks of its inner width, which fit in a processor's cache.

    Args:
        chunks: as `_fusion_chunks` returns them.
        layers: the hidden states of each layer, which are added.
    """
    total = sum(layers[1:], start=layers[0])
    # a generator, so that each product is added before the next is computed
    products = (gelu(linear(total, chunk.inner, chunk.bias)) @ chunk.outer for chunk in chunks)
    return layer.layer_norm(sum(products) + layer.outer.bias)


def _convolution(layer: DynamicConvolution, inputs: torch.Tensor, cache_layer: DecoderStateLayer) -> torch.Tensor:
    """`DynamicConvolution` in a step, with kernels of K taps.

    Args:
        inputs: (R, 1, H·D).
        cache_layer: its window (R, H, K - 1, D) has the last inputs, in the layout of the product.
    """
    heads = layer.num_heads
    states = cache_layer.states
    taps = layer.kernel_projection(inputs).reshape(-1, heads, 1, layer.kernel_size).softmax(-1)
    inputs = inputs.reshape(-1, heads, 1, inputs.shape[2] // heads)
    rows, _, _, width = inputs.shape
    # zeros before the first token
    past = states.get(WINDOW, inputs.new_zeros(rows, heads, layer.kernel_size - 1, width))
    window = torch.cat((past, inputs), dim=2)
    states[WINDOW] = window[:, :, 1:]
    return layer.output_projection((taps @ window).reshape(-1, 1, heads * width))


def _self_attention(
    layer: SelfAttention,
    weight: torch.Tensor,
    bias: torch.Tensor,
    hidden_states: torch.Tensor,
    causal_mask: torch.Tensor | None,
    cache: SharedSourceCache,
    **kwargs,
) -> tuple[torch.Tensor, None]:
    """`SelfAttention` in a step, whose query reads all keys, with one product for queries, keys and values.

    Args:
        weight, bias: the parameters of the three projections, concatenated.
        hidden_states: (R, 1, C).
        causal_mask: not used, as all keys are those of previous tokens.
        cache: the keys and values of previous tokens, to which the step's are added.
    """
    queries, keys, values = linear(hidden_states, weight, bias).chunk(3, dim=-1)
    keys = keys.reshape(-1, layer.num_heads, 1, layer.head_width)
    values = values.reshape(-1, layer.num_heads, 1, layer.head_width)
    keys, values = cache.self_attention_cache.update(keys, values, layer.layer_index)
    return layer.out_proj(_multi_head_attention(queries, keys, values, layer.scaling)), None


def _grus(layer: BidirectionalGru, inputs: torch.Tensor, padding_mask: torch.Tensor) -> torch.Tensor:
    """`BidirectionalGru` as a loop in each direction; torch would export a step per position.

    Args:
        inputs: (B, S, C).
        padding_mask: (B, S), true at tokens.

    Returns:
        The states of both directions, (B, S, 2 k).
    """
    inputs = inputs.transpose(0, 1)
    padding_mask = padding_mask.T[..., None].float()
    forward = _gru_states(layer.forward_gru, inputs, padding_mask)
    backward = _gru_states(layer.backward_gru, inputs.flip(0), padding_mask.flip(0))
    return torch.cat((forward, backward.flip(0)), dim=-1).transpose(0, 1)


def _gru_states(layer: nn.GRU, inputs: torch.Tensor, is_token: torch.Tensor) -> torch.Tensor:
    """The states (S, B, k) of a GRU after each of the inputs (S, B, C).

    Args:
        is_token: (S, B, 1), 0 at padding, whose states are zero.
    """
    # the layer itself cannot be used, as torch traces no GRU in a loop
    input_weight, state_weight, input_bias, state_bias = layer.parameters()

    def step(state: torch.Tensor, position: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        words, is_token = position
        state = next_state(words, state, state_weight, state_bias, reset_after=True) * is_token
        # the next state and the output must be different tensors
        return state, state.clone()

    start = inputs.new_zeros(inputs.shape[1], layer.hidden_size)
    words = linear(inputs, input_weight, input_bias)
    _, states = scan(step, start, (words, is_token))
    return states


def _lstm(
    layer: BidirectionalLstm, inputs: torch.Tensor, padding_mask: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """`BidirectionalLstm` as a loop in each direction; torch would export a step per position.

    Args:
        inputs: (B, S, C).
        padding_mask: (B, S), true at tokens.

    Returns:
        The hidden states (B, S, 2 k), zero at padding, and the last hidden states and cells (B, 2 k).
    """
    forward = _lstm_states(layer, "", inputs, padding_mask)
    backward = _lstm_states(layer, "_reverse", inputs.flip(1), padding_mask.flip(1))
    outputs = torch.cat((forward.outputs, backward.outputs.flip(1)), dim=-1) * padding_mask[..., None]
    hidden = torch.cat((forward.hidden, backward.hidden), dim=-1)
    cells = torch.cat((forward.cells, backward.cells), dim=-1)
    return outputs, hidden, cells


@dataclass(frozen=True)
class _LstmStates:
    """The states of one direction of an LSTM.

    Args:
        outputs: (B, S, k), the hidden states.
        hidden, cells: (B, k), the last hidden states and cells.
    """

    outputs: torch.Tensor
    hidden: torch.Tensor
    cells: torch.Tensor


def _lstm_states(
    layer: BidirectionalLstm, direction: str, inputs: torch.Tensor, padding_mask: torch.Tensor
) -> _LstmStates:
    """The states of one direction of an LSTM after each of the inputs (B, S, C).

    Args:
        direction: the end of its parameters' names.
        padding_mask: (B, S), true at tokens; padding changes no state.
    """
    input_weight = layer.get_parameter(f"weight_ih_l0{direction}")
    state_weight = layer.get_parameter(f"weight_hh_l0{direction}")
    input_bias = layer.get_parameter(f"bias_ih_l0{direction}")
    state_bias = layer.get_parameter(f"bias_hh_l0{direction}")
    words = linear(inputs, input_weight, input_bias).transpose(0, 1)

    def step(
        states: tuple[torch.Tensor, torch.Tensor], position: tuple[torch.Tensor, torch.Tensor]
    ) -> tuple[tuple[torch.Tensor, torch.Tensor], torch.Tensor]:
        hidden, cell = states
        words, is_token = position
        gates = words + linear(hidden, state_weight, state_bias)
        input_gate, forget_gate, candidate, output_gate = gates.chunk(4, dim=-1)
        next_cell = forget_gate.sigmoid() * cell + input_gate.sigmoid() * candidate.tanh()
        next_hidden = output_gate.sigmoid() * next_cell.tanh()
        # padding changes no state
        next_hidden = next_hidden.where(is_token, hidden)
        next_cell = next_cell.where(is_token, cell)
        # the next state and the output must be different tensors
        return (next_hidden, next_cell), next_hidden.clone()

    start_hidden = inputs.new_zeros(inputs.shape[0], layer.hidden_size)
    start_cells = start_hidden.clone()
    is_token = padding_mask.transpose(0, 1)[..., None]
    (hidden, cells), outputs = scan(step, (start_hidden, start_cells), (words, is_token))
    return _LstmStates(outputs.transpose(0, 1), hidden, cells)


ALL_ATTENTION_FUNCTIONS.register(_ATTENTION, _attend)
ALL_MASK_ATTENTION_FUNCTIONS.register(_ATTENTION, _source_mask)
