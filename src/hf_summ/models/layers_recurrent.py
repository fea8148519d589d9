"""Recurrent layers: a bidirectional GRU over the source, and two GRUs with a cross-attention between them."""

from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.functional import linear
from transformers.utils.generic import maybe_autocast

from .layers_recurrent_backward import AttentiveGrusFunction, Inputs, Settings
from .layers_transformer import is_symbolic, product_of_rows

# channels of the attention's tanh layer per product of an exported graph: few enough for a CPU's cache
_CHANNELS = 100


class Gru(nn.GRU):
    """torch's GRU over rows (B, S, C), also with weights that accelerate offloads."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """(B, S, input_size) -> the states (B, S, hidden_size)."""
        start = inputs.new_zeros(1, inputs.shape[0], self.hidden_size)
        gru: Any = torch.gru
        # accelerate does not update torch's own list of the weights, and pruning replaces parameters; cuDNN keeps what
        # gradients need if told to train
        return gru(inputs, start, self.all_weights[0], True, 1, 0.0, torch.is_grad_enabled(), False, True)[0]


class BidirectionalGru(nn.Module):
    """A GRU (Cho et al. 2014) in each direction, starting at the first and the last token; `width` is of either."""

    def __init__(self, input_width: int, width: int):
        super().__init__()
        self.forward_gru = Gru(input_width, width, batch_first=True)
        self.backward_gru = Gru(input_width, width, batch_first=True)

    def forward(self, inputs: torch.Tensor, padding_mask: torch.Tensor | None = None) -> torch.Tensor:
        """(B, S, input_width) and (B, S), true at tokens -> (B, S, 2 width), zero at padding.

        A graph expects padding behind the tokens.
        """
        if padding_mask is None:
            return torch.cat((self.forward_gru(inputs), self.backward_gru(inputs.flip(1)).flip(1)), dim=-1)
        if not is_symbolic(padding_mask) and bool((padding_mask[:, 1:] & ~padding_mask[:, :-1]).any()):
            # read the tokens first, and return their states to their positions
            order = padding_mask.long().argsort(dim=1, descending=True, stable=True)
            index = order[..., None]
            outputs = self(inputs.gather(1, index.expand_as(inputs)), padding_mask.gather(1, order))
            return torch.zeros_like(outputs).scatter(1, index.expand_as(outputs), outputs)
        # reverse each row within its length: padding stays after the tokens, and does not affect their states
        positions = torch.arange(inputs.shape[1], device=inputs.device)
        reversed_positions = padding_mask.sum(-1, keepdim=True) - 1 - positions
        order = torch.where(padding_mask, reversed_positions, positions)[..., None]
        backward = self.backward_gru(inputs.gather(1, order.expand_as(inputs)))
        backward = backward.gather(1, order.expand_as(backward))
        outputs = torch.cat((self.forward_gru(inputs), backward), dim=-1)
        return outputs * padding_mask[..., None]


class GruWeights(nn.GRUCell):
    """The weights of a GRU, which a call returns: accelerate loads offloaded weights when their module is called."""

    def forward(self) -> tuple[torch.Tensor, ...]:
        """The weights of the input (3k, input_size) and of the state (3k, k), and the biases (3k) of both."""
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh


class AttentiveStates(NamedTuple):
    """The outputs of two GRUs with an attention between them, for each position.

    Attributes:
        first, second: (R, T, k), the states of the GRUs before and after the attention.
        contexts: (R, T, C), the mean of the source, weighted by the attention.
        attention: (R, T, S), each row a distribution over the source, zero at padding.
    """

    first: torch.Tensor
    second: torch.Tensor
    contexts: torch.Tensor
    attention: torch.Tensor


class AttentiveGrus(nn.Module):
    """A GRU that reads words, an additive attention with its state as the query, and a GRU that reads the context.

    At each position, from a word y and the source e:

        first = GRU1(y, p)
        a = softmax_j v · tanh(W e_j + U first + b),  c = Σ_j a_j e_j
        second = GRU2(c, q)

    With `shares_state`, both are steps of one recurrence: p is the previous second state, and q is the first one.
    Otherwise p and q are the GRUs' own previous states, and GRU2 reads [y; c]. A GRU's candidate is
    tanh(W x + U (r ⊙ h) + b) (Cho et al. 2014), or tanh(W x + r ⊙ (U h + b)) with `reset_after`, as in torch.

    Args:
        word_width: width of y.
        width: k, the width of either state.
        source_width: width of e.
        attention_width: width of the attention's tanh layer.
        shares_state: whether the GRUs share one state.
        reset_after: whether the reset gate r is applied after the product of state and weights.
    """

    def __init__(
        self,
        word_width: int,
        width: int,
        source_width: int,
        attention_width: int,
        shares_state: bool,
        reset_after: bool = False,
    ):
        super().__init__()
        self.shares_state, self.reset_after = shares_state, reset_after
        self.first_gru = GruWeights(word_width, width)
        self.second_gru = GruWeights(source_width + (0 if shares_state else word_width), width)
        self.key_projection = nn.Linear(source_width, attention_width)
        # parameters rather than layers, as only batched products use them
        self.query_weight = nn.Parameter(torch.empty(attention_width, width))
        self.score_weight = nn.Parameter(torch.empty(1, attention_width))

    def forward(
        self,
        words: torch.Tensor,
        source: torch.Tensor,
        keys: torch.Tensor,
        source_mask: torch.Tensor | None,
        first: torch.Tensor,
        second: torch.Tensor,
        attention: torch.Tensor | None = None,
    ) -> AttentiveStates:
        """Words (R, T, word_width), the source (B, S, C) and its keys (B, S, A), R a multiple of B -> the states.

        A document's rows are consecutive. `keys` are the `key_projection` of the source, and `source_mask` (B, S) is
        true at tokens. `first` and `second` (R, k) are the states before the first position; with `shares_state` only
        the second is used. The contexts are of `attention` (R, T, S), if given, which may require gradients.
        """
        first_weight, first_recurrent, first_bias, first_recurrent_bias = self.first_gru()
        second_weight, second_recurrent, second_bias, second_recurrent_bias = self.second_gru()
        context_weight = second_weight[:, -source.shape[-1] :]
        second_words = None
        if not self.shares_state:
            second_words = linear(words, second_weight[:, : words.shape[-1]]).transpose(0, 1)
        # one product for all positions, as it does not depend on a state
        first_words = linear(words, first_weight, first_bias).transpose(0, 1).contiguous()
        inputs = (
            first_words,
            second_words,
            source,
            keys,
            first,
            second,
            first_recurrent,
            first_recurrent_bias,
            context_weight,
            second_bias,
            second_recurrent,
            second_recurrent_bias,
            self.query_weight,
            self.score_weight,
        )
        if not words.is_meta and torch.is_autocast_enabled(words.device.type):
            # rounding errors would accumulate over the positions
            inputs = tuple(None if tensor is None else tensor.float() for tensor in inputs)
        settings = Settings(source_mask, self.shares_state, self.reset_after, torch.is_grad_enabled())
        with maybe_autocast(words.device.type, enabled=False):
            if attention is not None:
                outputs = _unrolled(*inputs, settings, attention=attention)
            else:
                # torch.compile fails on writes into parts of the results
                run = _unrolled if is_symbolic(words) else AttentiveGrusFunction.apply
                outputs = run(*inputs, settings)
        first, second, contexts, attention = (output.transpose(0, 1) for output in outputs)
        return AttentiveStates(*(states.to(words.dtype) for states in (first, second, contexts)), attention)


def _unrolled(*arguments, attention: torch.Tensor | None = None) -> tuple[torch.Tensor, ...]:
    """As `AttentiveGrusFunction`, in one graph; autograd computes the gradients, and determines the memory."""
    *tensors, settings = arguments
    inputs = Inputs(*tensors)
    first, second, outputs = inputs.first, inputs.second, []
    padding = None if settings.source_mask is None else ~settings.source_mask[:, None]
    columns = key_columns(inputs.keys) if torch.compiler.is_exporting() else (inputs.keys.mT[:, None],)
    channels = [keys.shape[-2] for keys in columns]
    for position, words in enumerate(inputs.first_words):
        before = second if settings.shares_state else first
        first = next_state(words, before, inputs.first_recurrent, inputs.first_recurrent_bias, settings.reset_after)
        queries = linear(first, inputs.query_weight).unflatten(0, (inputs.source.shape[0], -1))
        split = queries[..., None].split(channels, -2), inputs.score_weight.split(channels, -1)
        # in ONNX Runtime, a product with a column of weights takes ten times as long
        scores = sum(weight @ (keys + query).tanh() for keys, query, weight in zip(columns, *split, strict=True))
        scores = scores.squeeze(-2)
        if padding is not None:
            scores = scores.masked_fill(padding, torch.finfo(scores.dtype).min)
        weights = scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32))
        if attention is not None:
            weights = attention[:, position].unflatten(0, weights.shape[:2])
        contexts = product_of_rows(weights.to(inputs.source.dtype), inputs.source).flatten(0, 1)
        words = linear(contexts, inputs.context_weight, inputs.context_bias)
        if inputs.second_words is not None:
            words = words + inputs.second_words[position]
        before = first if settings.shares_state else second
        second = next_state(words, before, inputs.second_recurrent, inputs.second_recurrent_bias, settings.reset_after)
        outputs.append((first, second, contexts, weights.flatten(0, 1)))
    return tuple(torch.stack(states) for states in zip(*outputs, strict=True))


def key_columns(keys: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Keys (B, S, A) as columns (B, 1, c, S) of few channels each."""
    return keys.mT[:, None].split(_CHANNELS, -2)


def next_state(words, state, weight, bias, reset_after: bool) -> torch.Tensor:
    """The state (R, k) of a GRU after the projected words (R, 3k), from the state (R, k) before; see `AttentiveGrus`.

    Args:
        weight, bias: (3k, k) and (3k), of the state, in the order reset gate, update gate, candidate.
    """
    gates = 2 * state.shape[1]
    if reset_after:
        recurrent, recalled = linear(state, weight, bias).split((gates, state.shape[1]), -1)
    else:
        recurrent = linear(state, weight[:gates], bias[:gates])
    reset, update = (words[:, :gates] + recurrent).sigmoid().chunk(2, -1)
    recalled = reset * recalled if reset_after else linear(reset * state, weight[gates:], bias[gates:])
    candidate = (words[:, gates:] + recalled).tanh()
    # in ONNX, `torch.lerp` has twice the nodes
    return candidate + update * (state - candidate)
