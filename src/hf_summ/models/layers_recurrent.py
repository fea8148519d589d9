"""Recurrent layers: a bidirectional GRU over the source, and two GRUs with an attention to the source between them.

Shapes: B documents, R rows of the decoder (the beams of a document are consecutive rows), S source positions, T
positions of the summary, C channels of the source, A channels of the attention's tanh layer, states of
width k.
"""

from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.functional import linear
from transformers.utils.generic import maybe_autocast

from .layers_recurrent_backward import AttentiveGrusFunction, Inputs, Settings
from .layers_transformer import is_symbolic, product_of_rows

# the number of channels of the attention's tanh layer in a product of an exported graph: so few that a CPU caches them
_CHANNELS = 100


class Gru(nn.GRU):
    """torch's GRU over rows (B, S, C), which also works with weights that accelerate offloads."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Inputs (B, S, input_size) -> the states (B, S, hidden_size), from a first state of zeros."""
        start = inputs.new_zeros(1, inputs.shape[0], self.hidden_size)
        gru: Any = torch.gru
        # `all_weights` looks the weights up; torch's own list of them lacks weights that accelerate or pruning replaced
        weights = self.all_weights[0]
        states, _ = gru(
            inputs,
            start,
            weights,
            has_biases=True,
            num_layers=1,
            dropout=0.0,
            # in training, cuDNN keeps what gradients need
            train=torch.is_grad_enabled(),
            bidirectional=False,
            batch_first=True,
        )
        return states


class BidirectionalGru(nn.Module):
    """A GRU (Cho et al. 2014) that starts at the first token, and one that starts at the last token.

    Args:
        input_width: width of the inputs.
        width: k, the width of each GRU's states.
    """

    def __init__(self, input_width: int, width: int):
        super().__init__()
        self.forward_gru = Gru(input_width, width, batch_first=True)
        self.backward_gru = Gru(input_width, width, batch_first=True)

    def forward(self, inputs: torch.Tensor, padding_mask: torch.Tensor | None = None) -> torch.Tensor:
        """Inputs (B, S, input_width) -> the states of both GRUs side by side (B, S, 2 k), zero at padding.

        Args:
            padding_mask: (B, S), true at tokens; None if there is no padding. In a graph, where its values are unknown,
                all padding must be behind the tokens.
        """
        if padding_mask is None:
            backward = self.backward_gru(inputs.flip(1)).flip(1)
            return torch.cat((self.forward_gru(inputs), backward), dim=-1)
        if not is_symbolic(padding_mask):
            is_behind_padding = padding_mask[:, 1:] & ~padding_mask[:, :-1]
            if bool(is_behind_padding.any()):
                # A second call gets the tokens in front of the padding. Its states move back to the tokens' positions.
                tokens_first = padding_mask.long().argsort(dim=1, descending=True, stable=True)
                index = tokens_first[..., None]
                states = self(inputs.gather(1, index.expand_as(inputs)), padding_mask.gather(1, tokens_first))
                return torch.zeros_like(states).scatter(1, index.expand_as(states), states)
        # the tokens of each row are reversed, and padding stays behind them, where it does not affect their states
        positions = torch.arange(inputs.shape[1], device=inputs.device)
        last = padding_mask.sum(-1, keepdim=True) - 1
        reversed_tokens = torch.where(padding_mask, last - positions, positions)[..., None]
        backward = self.backward_gru(inputs.gather(1, reversed_tokens.expand_as(inputs)))
        # the same indices reverse the states again
        backward = backward.gather(1, reversed_tokens.expand_as(backward))
        states = torch.cat((self.forward_gru(inputs), backward), dim=-1)
        return states * padding_mask[..., None]


class GruWeights(nn.GRUCell):
    """The weights of a GRU, which a call returns: accelerate loads offloaded weights when their module is called."""

    def forward(self) -> tuple[torch.Tensor, ...]:
        """The weights of the input (3k, input_size) and of the state (3k, k), and the biases of both (3k)."""
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh


class AttentiveStates(NamedTuple):
    """The outputs of `AttentiveGrus` for each position.

    Attributes:
        first, second: (R, T, k), the states of the first and the second GRU.
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

    With `shares_state`, p is the second state of the previous position, and q is the first state of this position: both
    GRUs are steps of one recurrence. Otherwise p is the previous first state, q is the previous second state, and GRU2
    reads [y; c]. The candidate of a GRU with state h, input x and reset gate r is tanh(W x + U (r ⊙ h) + b) (Cho et al.
    2014), or, with `reset_after`, torch's tanh(W x + r ⊙ (U h + b)).

    Args:
        word_width: width of y.
        width: k, the width of either state.
        source_width: width of e.
        attention_width: width of the attention's tanh layer.
        shares_state: whether the GRUs share one state.
        reset_after: whether the reset gate is applied after the product of state and weights.
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
        self.shares_state = shares_state
        self.reset_after = reset_after
        second_width = source_width if shares_state else word_width + source_width
        self.first_gru = GruWeights(word_width, width)
        self.second_gru = GruWeights(second_width, width)
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
        """Compute the states, contexts and attention of all positions.

        Args:
            words: (R, T, word_width), R a multiple of B; the rows of a document are consecutive.
            source: (B, S, C).
            keys: (B, S, A), the `key_projection` of the source.
            source_mask: (B, S), true at tokens; None if there is no padding.
            first, second: (R, k), the states before the first position; with `shares_state`, only the second is read.
            attention: (R, T, S), weights that replace the computed weights in the contexts; they may require gradients.
        """
        first_weight, first_recurrent, first_bias, first_recurrent_bias = self.first_gru()
        second_weight, second_recurrent, second_bias, second_recurrent_bias = self.second_gru()
        # projections of words do not depend on a state, so one product computes them for all positions
        second_words = None
        if not self.shares_state:
            second_words = linear(words, second_weight[:, : words.shape[-1]]).transpose(0, 1)
        first_words = linear(words, first_weight, first_bias).transpose(0, 1).contiguous()
        inputs = Inputs(
            first_words=first_words,
            second_words=second_words,
            source=source,
            keys=keys,
            first=first,
            second=second,
            first_recurrent=first_recurrent,
            first_recurrent_bias=first_recurrent_bias,
            context_weight=second_weight[:, -source.shape[-1] :],
            context_bias=second_bias,
            second_recurrent=second_recurrent,
            second_recurrent_bias=second_recurrent_bias,
            query_weight=self.query_weight,
            score_weight=self.score_weight,
        )
        if not words.is_meta and torch.is_autocast_enabled(words.device.type):
            # in half precision, rounding errors would accumulate over the positions
            converted: list[Any] = []
            for tensor in inputs:
                converted.append(None if tensor is None else tensor.float())
            inputs = Inputs(*converted)
        settings = Settings(source_mask, self.shares_state, self.reset_after, torch.is_grad_enabled())
        with maybe_autocast(words.device.type, enabled=False):
            # torch.compile fails on the function, which writes into parts of its results
            if attention is not None or is_symbolic(words):
                outputs = _unrolled(inputs, settings, attention)
            else:
                outputs = AttentiveGrusFunction.apply(*inputs, settings)
        first_states, second_states, contexts, weights = outputs
        return AttentiveStates(
            first=first_states.transpose(0, 1).to(words.dtype),
            second=second_states.transpose(0, 1).to(words.dtype),
            contexts=contexts.transpose(0, 1).to(words.dtype),
            attention=weights.transpose(0, 1),
        )


def _unrolled(inputs: Inputs, settings: Settings, attention: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
    """The results of `AttentiveGrusFunction` by torch's operations, whose gradients autograd computes.

    Args:
        attention: (R, T, S), weights that replace the computed weights in the contexts, or None.

    Returns:
        The first states, the second states, the contexts and the attention, (T, R, …) each.
    """
    padding = None
    if settings.source_mask is not None:
        padding = ~settings.source_mask[:, None]
    if torch.compiler.is_exporting():
        columns = key_columns(inputs.keys)
    else:
        columns = (inputs.keys.mT[:, None],)
    channels = [keys.shape[-2] for keys in columns]
    score_weights = inputs.score_weight.split(channels, -1)
    first, second = inputs.first, inputs.second
    first_states, second_states, contexts, attentions = [], [], [], []
    for position, words in enumerate(inputs.first_words):
        before = second if settings.shares_state else first
        first = next_state(words, before, inputs.first_recurrent, inputs.first_recurrent_bias, settings.reset_after)
        queries = linear(first, inputs.query_weight).unflatten(0, (inputs.source.shape[0], -1))
        query_columns = queries[..., None].split(channels, -2)
        # weights and keys as columns: in ONNX Runtime, a product with a column of weights takes ten times as long
        partial_scores = []
        for keys, query, weight in zip(columns, query_columns, score_weights, strict=True):
            partial_scores.append(weight @ (keys + query).tanh())
        scores = sum(partial_scores).squeeze(-2)
        if padding is not None:
            scores = scores.masked_fill(padding, torch.finfo(scores.dtype).min)
        weights = scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32))
        if attention is not None:
            weights = attention[:, position].unflatten(0, weights.shape[:2])
        context = product_of_rows(weights.to(inputs.source.dtype), inputs.source).flatten(0, 1)
        projected = linear(context, inputs.context_weight, inputs.context_bias)
        if inputs.second_words is not None:
            projected = projected + inputs.second_words[position]
        before = first if settings.shares_state else second
        second = next_state(
            projected, before, inputs.second_recurrent, inputs.second_recurrent_bias, settings.reset_after
        )
        first_states.append(first)
        second_states.append(second)
        contexts.append(context)
        attentions.append(weights.flatten(0, 1))
    return torch.stack(first_states), torch.stack(second_states), torch.stack(contexts), torch.stack(attentions)


def key_columns(keys: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Keys (B, S, A) as several tensors (B, 1, c, S), each with a few of the A channels; columns are positions."""
    return keys.mT[:, None].split(_CHANNELS, -2)


def next_state(
    words: torch.Tensor, state: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, reset_after: bool
) -> torch.Tensor:
    """The state (R, k) of a GRU after a step; see `AttentiveGrus` for the equations.

    Args:
        words: (R, 3k), the projection of the step's input for reset gate, update gate and candidate, in this order.
        state: (R, k), the state before.
        weight, bias: (3k, k) and (3k), of the state's projection, in the same order.
        reset_after: whether the reset gate is applied after the product of state and weights.
    """
    gates = 2 * state.shape[1]
    if reset_after:
        recurrent, recalled = linear(state, weight, bias).split((gates, state.shape[1]), -1)
    else:
        recurrent = linear(state, weight[:gates], bias[:gates])
    reset, update = (words[:, :gates] + recurrent).sigmoid().chunk(2, -1)
    if reset_after:
        recalled = reset * recalled
    else:
        recalled = linear(reset * state, weight[gates:], bias[gates:])
    candidate = (words[:, gates:] + recalled).tanh()
    # in ONNX, `torch.lerp` has twice the nodes
    return candidate + update * (state - candidate)
