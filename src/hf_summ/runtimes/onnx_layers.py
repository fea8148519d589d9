"""Forms of models' layers whose graphs are fast in ONNX Runtime, or that torch can export at all."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any

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

# heads of fewer channels are faster in the operator for attention
_WIDE_HEAD = 64
# columns of GDLF's fusion per product
_FUSION_COLUMNS = 960
# the name of `_attend` among transformers' attention functions
_ATTENTION = "onnx_runtime"


@contextmanager
def forms_for_export(model: PreTrainedModel) -> Generator[None]:
    """Use these forms of a model's attention, layers and lengths in this context."""
    with _attention_for_export(model), _layers_for_export(model), _lengths_for_export(model):
        yield


@contextmanager
def replaced(module: Any, **functions: Callable) -> Generator[None]:
    """Use other functions of a module in this context."""
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
    if _reads_source(module):
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
    """`eager_attention_forward`, without copies of wide keys and values of the source."""
    if not _reads_wide_source(module, queries.shape[-1]):
        return eager_attention_forward(module, queries, keys, values, attention_mask, scaling, **kwargs)
    # ONNX Runtime copies the right factor of a product of several rows
    scores = (keys @ queries.mT).mT * scaling
    return attend_by_scores(module, scores, values, attention_mask, product=product_of_rows)


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
    with replaced(module, _split_into_blocks=_blocks), replaced(nn.functional, one_hot=_one_hot):
        yield


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
