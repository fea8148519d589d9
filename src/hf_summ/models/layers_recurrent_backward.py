"""Backpropagation through time of two GRUs with an attention between them, in little memory.

Shapes: T positions, R rows of the decoder, B documents with R / B consecutive rows each, S source positions of C
channels, A channels of the attention's tanh layer, states of width k. The 3k numbers of a GRU's projections are those
of the reset gate, the update gate and the candidate, in this order.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch.autograd.function import once_differentiable

# the number of elements of the attention's tanh layer in memory at once: so few that a CPU caches them
_CHUNK_ELEMENTS = 2**19


class Inputs(NamedTuple):
    """The tensors that two attentive GRUs read, in the order of `AttentiveGrusFunction`'s arguments and gradients.

    Attributes:
        first_words: (T, R, 3k), the projections of the words for the first GRU.
        second_words: (T, R, 3k), the projections of the words for the second GRU; None if it reads contexts alone.
        source: (B, S, C).
        keys: (B, S, A), the projections of the source for the attention.
        first, second: (R, k), the states before the first position.
        first_recurrent, first_recurrent_bias: (3k, k) and (3k), of the projection of the first GRU's state.
        context_weight, context_bias: (3k, C) and (3k), of the projection of a context for the second GRU.
        second_recurrent, second_recurrent_bias: (3k, k) and (3k), of the projection of the second GRU's state.
        query_weight: (A, k), of the projection of the first state for the attention.
        score_weight: (1, A), which maps the attention's tanh layer to a score.
    """

    first_words: torch.Tensor
    second_words: torch.Tensor | None
    source: torch.Tensor
    keys: torch.Tensor
    first: torch.Tensor
    second: torch.Tensor
    first_recurrent: torch.Tensor
    first_recurrent_bias: torch.Tensor
    context_weight: torch.Tensor
    context_bias: torch.Tensor
    second_recurrent: torch.Tensor
    second_recurrent_bias: torch.Tensor
    query_weight: torch.Tensor
    score_weight: torch.Tensor


class Settings(NamedTuple):
    """The last argument of `AttentiveGrusFunction`, which gets no gradient.

    Attributes:
        source_mask: (B, S), true at tokens; None if there is no padding.
        shares_state, reset_after: see `AttentiveGrus`.
        grad_enabled: whether gradients are enabled outside the function; inside they are always disabled.
    """

    source_mask: torch.Tensor | None
    shares_state: bool
    reset_after: bool
    grad_enabled: bool


class AttentiveGrusFunction(torch.autograd.Function):
    """`AttentiveGrus` with positions as the first dimension, and with its own backpropagation through time.

    Autograd would store the results of each small operation, and the attention's tanh layer (R, S, A) of each position,
    by far the largest tensor. Here that layer is computed for a few documents at a time, and computed again in the
    backward pass. The gradients of weights are one product over all positions.
    """

    @staticmethod
    def forward(ctx, *arguments):
        """Compute the states of both GRUs (T, R, k), the contexts (T, R, C) and the attention (T, R, S).

        Args:
            ctx: autograd's context, which stores tensors for the backward pass.
            arguments: the tensors of `Inputs`, then the `Settings`.
        """
        inputs, settings = Inputs(*arguments[:-1]), arguments[-1]
        needs_gradients = settings.grad_enabled and any(ctx.needs_input_grad)
        length, rows = inputs.first_words.shape[:2]
        width = inputs.first.shape[1]
        source, dtype = inputs.source, torch.promote_types(inputs.source.dtype, torch.float32)
        # the states at index 0 are those before the first position
        first = inputs.first.new_empty(length + 1, rows, width)
        second = inputs.second.new_empty(length + 1, rows, width)
        first[0] = inputs.first
        second[0] = inputs.second
        first_before, second_before = _states_before(first, second, settings.shares_state)
        contexts = source.new_empty(length, rows, source.shape[2])
        attention = source.new_empty(length, rows, source.shape[1], dtype=dtype)
        # without gradients, each position overwrites the intermediate values of the previous one
        kept_positions = length if needs_gradients else 1
        first_intermediates = first.new_empty(kept_positions, rows, 4 * width)
        second_intermediates = first.new_empty(kept_positions, rows, 4 * width)
        first_gru, second_gru = _grus(inputs, settings)
        attend = _Attention(inputs, settings.source_mask)
        for position in range(length):
            slot = position if needs_gradients else 0
            words = inputs.first_words[position]
            first_gru.step(words, first_before[position], first_intermediates[slot], first[position + 1])
            attend.forward(first[position + 1], attention[position], contexts[position])
            projected = torch.addmm(inputs.context_bias, contexts[position], inputs.context_weight.T)
            if inputs.second_words is not None:
                projected += inputs.second_words[position]
            second_gru.step(projected, second_before[position], second_intermediates[slot], second[position + 1])
        ctx.settings = settings
        if needs_gradients:
            ctx.save_for_backward(
                *inputs, first, second, contexts, attention, first_intermediates, second_intermediates
            )
        return first[1:], second[1:], contexts, attention

    @staticmethod
    @once_differentiable
    def backward(ctx, first_gradients, second_gradients, context_gradients, attention_gradients):
        """The gradients of `Inputs`, and None for `Settings`, from the gradients of `forward`'s results."""
        settings = ctx.settings
        saved = ctx.saved_tensors
        inputs = Inputs(*saved[:-6])
        first, second, contexts, attention, first_intermediates, second_intermediates = saved[-6:]
        first_before, second_before = _states_before(first, second, settings.shares_state)
        first_gru, second_gru = _grus(inputs, settings)
        first_steps = _GruGradients(first_gru, first_before, first_intermediates)
        second_steps = _GruGradients(second_gru, second_before, second_intermediates)
        attend = _AttentionGradients(inputs, settings.source_mask)
        # gradients of the contexts and of the states after the current position, through all that reads them
        to_contexts = context_gradients.clone()
        to_first = torch.zeros_like(first[0])
        to_second = torch.zeros_like(first[0])
        for position in reversed(range(len(first_gradients))):
            to_second = to_second + second_gradients[position]
            to_second_before = second_steps.step(position, to_second)
            to_contexts[position].addmm_(second_steps.to_inputs[position], inputs.context_weight)
            to_first = to_first + first_gradients[position]
            to_first += attend.backward(
                first[position + 1], attention[position], to_contexts[position], attention_gradients[position]
            )
            if settings.shares_state:
                # the second GRU starts from the first state of this position
                to_first += to_second_before
                # and the first GRU from the second state of the previous position
                to_second = first_steps.step(position, to_first)
                to_first = torch.zeros_like(to_first)
            else:
                to_first = first_steps.step(position, to_first)
                to_second = to_second_before
        source_gradient = attend.source_gradient(attention, to_contexts)
        query_weight_gradient, key_gradient, score_weight_gradient = attend.gradients(first[1:])
        context_inputs = second_steps.to_inputs.flatten(0, 1)
        gradients = Inputs(
            first_words=first_steps.to_inputs,
            second_words=None if inputs.second_words is None else second_steps.to_inputs,
            source=source_gradient,
            keys=key_gradient,
            first=to_first,
            second=to_second,
            first_recurrent=first_steps.weight_gradient(),
            first_recurrent_bias=first_steps.bias_gradient(),
            context_weight=context_inputs.T @ contexts.flatten(0, 1),
            context_bias=context_inputs.sum(0),
            second_recurrent=second_steps.weight_gradient(),
            second_recurrent_bias=second_steps.bias_gradient(),
            query_weight=query_weight_gradient,
            score_weight=score_weight_gradient,
        )
        return *gradients, None


def _states_before(first: torch.Tensor, second: torch.Tensor, shares_state: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """The states (T, R, k) before each step of the first GRU, and before each step of the second GRU, as views.

    `first` and `second` (T + 1, R, k) are the states of both GRUs, from those before the first position on.
    """
    if shares_state:
        return second[:-1], first[1:]
    return first[:-1], second[:-1]


class _Gru(NamedTuple):
    """A GRU whose inputs are projected already.

    Attributes:
        weight, bias: (3k, k) and (3k), of the projection of the state.
        reset_after: whether the reset gate is applied after the product of state and weights.
    """

    weight: torch.Tensor
    bias: torch.Tensor
    reset_after: bool

    def step(
        self, projected: torch.Tensor, state: torch.Tensor, intermediates: torch.Tensor, result: torch.Tensor
    ) -> None:
        """Write the next state (R, k) to `result`, from a projected input (R, 3k) and the state (R, k).

        The gradient needs four values, which are written to `intermediates` (R, 4k): the reset gate, the update gate,
        the candidate, and the recalled state. With `reset_after`, the last one is the state's projection for the
        candidate before the reset gate, and otherwise the product of state and reset gate.
        """
        width = state.shape[1]
        both_gates, last = slice(2 * width), slice(2 * width, None)
        weight, bias = self.weight, self.bias
        reset, update, candidate, recalled = intermediates.chunk(4, dim=-1)
        if self.reset_after:
            recurrent = torch.addmm(bias, state, weight.T)
            torch.add(projected[:, both_gates], recurrent[:, both_gates], out=intermediates[:, both_gates]).sigmoid_()
            recalled.copy_(recurrent[:, last])
            torch.addcmul(projected[:, last], reset, recalled, out=candidate).tanh_()
        else:
            recurrent = torch.addmm(bias[both_gates], state, weight[both_gates].T, out=intermediates[:, both_gates])
            recurrent.add_(projected[:, both_gates]).sigmoid_()
            torch.mul(reset, state, out=recalled)
            torch.addmm(bias[last], recalled, weight[last].T, out=candidate).add_(projected[:, last]).tanh_()
        torch.lerp(candidate, state, update, out=result)


def _grus(inputs: Inputs, settings: Settings) -> tuple[_Gru, _Gru]:
    """The first and the second GRU."""
    first = _Gru(inputs.first_recurrent, inputs.first_recurrent_bias, settings.reset_after)
    second = _Gru(inputs.second_recurrent, inputs.second_recurrent_bias, settings.reset_after)
    return first, second


class _GruGradients:
    """Backpropagation through the steps of a GRU, from the last position to the first.

    Args:
        gru: the GRU.
        states_before: (T, R, k), the state before each step.
        intermediates: (T, R, 4k), the intermediate values that `_Gru.step` has written.

    Attributes:
        to_inputs: (T, R, 3k), the gradients of the projected inputs.
        to_recurrent: (T, R, 3k), the gradients of the projected states. Without `reset_after`, this is the same tensor,
            as both projections are summed.
    """

    def __init__(self, gru: _Gru, states_before: torch.Tensor, intermediates: torch.Tensor):
        self.gru = gru
        self.states_before = states_before
        self.intermediates = intermediates
        length, rows, width = states_before.shape
        self.to_inputs = states_before.new_empty(length, rows, 3 * width)
        self.to_recurrent = torch.empty_like(self.to_inputs) if gru.reset_after else self.to_inputs

    def step(self, position: int, gradient: torch.Tensor) -> torch.Tensor:
        """The gradient (R, k) of the state before a step, from the gradient (R, k) of the state after it.

        The gradients of both projections are written to `to_inputs` and `to_recurrent`.
        """
        state, weight = self.states_before[position], self.gru.weight
        to_inputs, to_recurrent = self.to_inputs[position], self.to_recurrent[position]
        width = state.shape[1]
        both_gates, last = slice(2 * width), slice(2 * width, None)
        reset, update, candidate, recalled = self.intermediates[position].chunk(4, dim=-1)
        to_candidate = torch.ops.aten.tanh_backward(gradient * (1 - update), candidate)
        to_inputs[:, width : 2 * width] = torch.ops.aten.sigmoid_backward(gradient * (state - candidate), update)
        to_inputs[:, last] = to_candidate
        if self.gru.reset_after:
            to_inputs[:, :width] = torch.ops.aten.sigmoid_backward(to_candidate * recalled, reset)
            to_recurrent[:, both_gates] = to_inputs[:, both_gates]
            torch.mul(to_candidate, reset, out=to_recurrent[:, last])
            return (gradient * update).addmm_(to_recurrent, weight)
        to_recalled = to_candidate @ weight[last]
        to_inputs[:, :width] = torch.ops.aten.sigmoid_backward(to_recalled * state, reset)
        to_state = torch.addcmul(gradient * update, reset, to_recalled)
        return to_state.addmm_(to_inputs[:, both_gates], weight[both_gates])

    def weight_gradient(self) -> torch.Tensor:
        """The gradient (3k, k) of the weight of the state's projection, after all steps."""
        gradients = self.to_recurrent.flatten(0, 1)
        states = self.states_before.flatten(0, 1)
        if self.gru.reset_after:
            return gradients.T @ states
        # the candidate's weights are multiplied with the recalled state
        width = states.shape[1]
        recalled = self.intermediates[..., 3 * width :].flatten(0, 1)
        return torch.cat((gradients[:, : 2 * width].T @ states, gradients[:, 2 * width :].T @ recalled))

    def bias_gradient(self) -> torch.Tensor:
        """The gradient (3k) of the bias of the state's projection, after all steps."""
        return self.to_recurrent.flatten(0, 1).sum(0)


class _Attention:
    """Additive attention, position by position and a few documents at a time.

    The tanh layer is computed as a sigmoid, which takes a seventh of the time on a CPU. As tanh x = 2 σ(2x) - 1, all
    scores of a document change by a constant, which affects neither the attention nor its gradients.
    """

    def __init__(self, inputs: Inputs, source_mask: torch.Tensor | None):
        self.source = inputs.source
        self.keys = inputs.keys
        self.query_weight = inputs.query_weight
        self.score_weight = inputs.score_weight[0]
        self.padding = None if source_mask is None else ~source_mask[:, None]
        self.number_of_documents = inputs.source.shape[0]

    def forward(self, states: torch.Tensor, attention: torch.Tensor, contexts: torch.Tensor) -> None:
        """Write the attention (R, S) and the contexts (R, C) of the states (R, k) to these tensors."""
        queries = self._doubled_queries(states)
        scores = attention.new_empty(*queries.shape[:2], self.keys.shape[1], dtype=queries.dtype)
        score_weight = 2 * self.score_weight
        for document_slice, layer in self._layers(queries):
            torch.matmul(layer, score_weight, out=scores[document_slice])
        if self.padding is not None:
            scores.masked_fill_(self.padding, torch.finfo(scores.dtype).min)
        weights = scores.softmax(-1, dtype=attention.dtype)
        attention.copy_(weights.flatten(0, 1))
        contexts.copy_((weights.to(self.source.dtype) @ self.source).flatten(0, 1))

    def _doubled_queries(self, states: torch.Tensor) -> torch.Tensor:
        """Twice the queries (B, R / B, A) of the states (R, k)."""
        return (2 * states @ self.query_weight.T).view(self.number_of_documents, -1, self.query_weight.shape[0])

    def _layers(self, doubled_queries: torch.Tensor) -> Iterator[tuple[slice, torch.Tensor]]:
        """Yield slices of documents and their layers σ(2 (keys + queries)), (…, R / B, S, A).

        All layers are in one buffer, so that each overwrites the layer before it.
        """
        elements = doubled_queries.shape[1] * self.keys.shape[1] * self.keys.shape[2]
        documents_at_once = max(1, _CHUNK_ELEMENTS // max(elements, 1))
        size = min(documents_at_once, self.number_of_documents)
        buffer = self.keys.new_empty(size, doubled_queries.shape[1], *self.keys.shape[1:])
        for start in range(0, self.number_of_documents, size):
            document_slice = slice(start, min(start + size, self.number_of_documents))
            layer = buffer[: document_slice.stop - start]
            torch.add(doubled_queries[document_slice, :, None], self.keys[document_slice, None], alpha=2, out=layer)
            yield document_slice, layer.sigmoid_()


class _AttentionGradients(_Attention):
    """Backpropagation through `_Attention`, from the last position to the first."""

    def __init__(self, inputs: Inputs, source_mask: torch.Tensor | None):
        super().__init__(inputs, source_mask)
        # Sums over positions for the gradients of keys and score weight. They lack factors that all terms share, which
        # `gradients` applies: as tanh(x) = 2 σ(2x) - 1, that is 4 times the score weight for keys, and 2 for its own.
        self.key_sums = torch.zeros_like(self.keys)
        self.score_sums = torch.zeros_like(self.score_weight)
        # the gradients of the queries (R, A), from the last position on
        self.query_gradients: list[torch.Tensor] = []

    def backward(
        self,
        states: torch.Tensor,
        attention: torch.Tensor,
        context_gradients: torch.Tensor,
        attention_gradients: torch.Tensor,
    ) -> torch.Tensor:
        """The gradient (R, k) of the states of a position.

        Args:
            states, attention: (R, k) and (R, S), what `_Attention.forward` read and wrote at this position.
            context_gradients, attention_gradients: (R, C) and (R, S), the gradients of the contexts and the attention.
        """
        shape = (self.number_of_documents, -1, attention.shape[-1])
        to_contexts = context_gradients.view(self.number_of_documents, -1, context_gradients.shape[-1])
        attention = attention.view(shape)
        to_attention = to_contexts @ self.source.transpose(1, 2) + attention_gradients.view(shape)
        to_attention = to_attention.to(attention.dtype)
        to_scores = torch.ops.aten._softmax_backward_data(to_attention, attention, -1, attention.dtype)
        to_scores = to_scores.to(self.keys.dtype)
        queries = self._doubled_queries(states)
        to_queries = torch.empty_like(queries)
        for document_slice, layer in self._layers(queries):
            score_gradients = to_scores[document_slice]
            self.score_sums += score_gradients.reshape(-1) @ layer.flatten(0, 2)
            # the derivative of the sigmoid σ is σ - σ²
            slopes = layer.addcmul_(layer, layer, value=-1)
            torch.matmul(score_gradients[:, :, None], slopes, out=to_queries[document_slice][:, :, None])
            if score_gradients.shape[1] == 1:
                # with one row for each document, the sum needs no temporary tensor
                self.key_sums[document_slice].addcmul_(slopes[:, 0], score_gradients[:, 0, :, None])
            else:
                self.key_sums[document_slice] += (slopes * score_gradients[..., None]).sum(1)
        to_queries = to_queries.mul_(4 * self.score_weight).flatten(0, 1)
        self.query_gradients.append(to_queries)
        return to_queries @ self.query_weight

    def gradients(self, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The gradients of query weight, keys and score weight, after `backward` of all states (T, R, k)."""
        to_queries = torch.stack(self.query_gradients[::-1]).flatten(0, 1)
        query_weight_gradient = to_queries.T @ states.flatten(0, 1)
        key_gradient = self.key_sums.mul_(4 * self.score_weight)
        return query_weight_gradient, key_gradient, 2 * self.score_sums[None]

    def source_gradient(self, attention: torch.Tensor, context_gradients: torch.Tensor) -> torch.Tensor:
        """The gradient (B, S, C) of the source as far as the contexts of all positions read it.

        `attention` (T, R, S) and `context_gradients` (T, R, C) have all positions.
        """
        attention = self._by_document(attention).to(self.source.dtype)
        return attention.transpose(1, 2) @ self._by_document(context_gradients)

    def _by_document(self, values: torch.Tensor) -> torch.Tensor:
        """Values (T, R, D) of positions and rows as values (B, T · R / B, D) of documents."""
        return values.unflatten(1, (self.number_of_documents, -1)).transpose(0, 1).flatten(1, 2)
