"""Backpropagation through time of two GRUs with an attention between them, in little memory."""

from typing import NamedTuple

import torch
from torch.autograd.function import once_differentiable

# elements of the attention's tanh layer in memory at once: few enough for a CPU's cache
_CHUNK_ELEMENTS = 2**19


class Inputs(NamedTuple):
    """The tensors that two attentive GRUs read, in the order of `AttentiveGrusFunction`'s arguments and gradients."""

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
    """The last argument, which gets no gradient."""

    source_mask: torch.Tensor | None
    shares_state: bool
    reset_after: bool
    # recorded outside, as gradients are always disabled inside an autograd function
    grad_enabled: bool


class AttentiveGrusFunction(torch.autograd.Function):
    """`AttentiveGrus` with positions as the first dimension, and its own backpropagation through time.

    Autograd would store the attention's tanh layer of every position, by far the largest tensor, and the result of each
    small operation. Here that layer is computed for a few documents at a time, and recomputed in backward. The
    gradients of weights are one product over all positions.
    """

    @staticmethod
    def forward(context, *arguments):
        *tensors, settings = arguments
        inputs = Inputs(*tensors)
        keeps = settings.grad_enabled and any(context.needs_input_grad)
        length, rows, width = *inputs.first_words.shape[:2], inputs.first.shape[1]
        # states have one more position, the initial state
        first, second = (start.new_empty(length + 1, rows, width) for start in (inputs.first, inputs.second))
        first[0], second[0] = inputs.first, inputs.second
        contexts = inputs.source.new_empty(length, rows, inputs.source.shape[2])
        attention = inputs.source.new_empty(
            length, rows, inputs.source.shape[1], dtype=torch.promote_types(inputs.source.dtype, torch.float32)
        )
        first_gates, second_gates = (first.new_empty(length if keeps else 1, rows, 4 * width) for _ in range(2))
        first_weights = inputs.first_recurrent, inputs.first_recurrent_bias
        second_weights = inputs.second_recurrent, inputs.second_recurrent_bias
        attend = _Attention(inputs.source, inputs.keys, inputs.query_weight, inputs.score_weight, settings.source_mask)
        for position in range(length):
            slot = position if keeps else 0
            before = second[position] if settings.shares_state else first[position]
            words, gates = inputs.first_words[position], first_gates[slot]
            _step(words, before, *first_weights, settings.reset_after, gates, first[position + 1])
            attend.forward(first[position + 1], attention[position], contexts[position])
            words = torch.addmm(inputs.context_bias, contexts[position], inputs.context_weight.T)
            if inputs.second_words is not None:
                words += inputs.second_words[position]
            before = first[position + 1] if settings.shares_state else second[position]
            _step(words, before, *second_weights, settings.reset_after, second_gates[slot], second[position + 1])
        context.settings = settings
        if keeps:
            context.save_for_backward(*tensors, first, second, contexts, attention, first_gates, second_gates)
        return first[1:], second[1:], contexts, attention

    @staticmethod
    @once_differentiable
    def backward(context, first_gradients, second_gradients, context_gradients, attention_gradients):
        settings = context.settings
        *tensors, first, second, contexts, attention, first_gates, second_gates = context.saved_tensors
        inputs = Inputs(*tensors)
        attend = _Attention(inputs.source, inputs.keys, inputs.query_weight, inputs.score_weight, settings.source_mask)
        length, rows, width = first_gradients.shape
        # gradients of the gates' inputs: the projections of input and state
        first_inputs, second_inputs = (first.new_empty(length, rows, 3 * width) for _ in range(2))
        first_recurrent, second_recurrent = first_inputs, second_inputs
        if settings.reset_after:
            first_recurrent, second_recurrent = torch.empty_like(first_inputs), torch.empty_like(second_inputs)
        to_contexts = context_gradients.clone()
        to_first, to_second = first.new_zeros(rows, width), first.new_zeros(rows, width)
        for position in reversed(range(length)):
            to_second = to_second + second_gradients[position]
            before = first[position + 1] if settings.shares_state else second[position]
            to_before = _step_backward(
                to_second,
                before,
                second_gates[position],
                inputs.second_recurrent,
                settings.reset_after,
                second_inputs[position],
                second_recurrent[position],
            )
            to_contexts[position].addmm_(second_inputs[position], inputs.context_weight)
            to_first = to_first + first_gradients[position]
            to_first += attend.backward(
                first[position + 1], attention[position], to_contexts[position], attention_gradients[position]
            )
            if settings.shares_state:
                to_first += to_before
            else:
                to_second = to_before
            before = second[position] if settings.shares_state else first[position]
            to_before = _step_backward(
                to_first,
                before,
                first_gates[position],
                inputs.first_recurrent,
                settings.reset_after,
                first_inputs[position],
                first_recurrent[position],
            )
            if settings.shares_state:
                to_first, to_second = torch.zeros_like(to_first), to_before
            else:
                to_first = to_before
        past_first, past_second = (second, first[1:]) if settings.shares_state else (first, second)
        flat_first, flat_second, flat_inputs = (
            gradients.flatten(0, 1) for gradients in (first_recurrent, second_recurrent, second_inputs)
        )
        source_gradient = attend.source_gradient(attention, to_contexts)
        queries, keys, score = attend.gradients(first[1:])
        return (
            first_inputs,
            None if inputs.second_words is None else second_inputs,
            source_gradient,
            keys,
            to_first,
            to_second,
            _weight_gradient(flat_first, past_first[:length], first_gates, settings.reset_after),
            flat_first.sum(0),
            flat_inputs.T @ contexts.flatten(0, 1),
            flat_inputs.sum(0),
            _weight_gradient(flat_second, past_second[:length], second_gates, settings.reset_after),
            flat_second.sum(0),
            queries,
            score,
            None,
        )


def _step(words, state, weight, bias, reset_after: bool, gates, result) -> None:
    """A step of a GRU from its input's projection (R, 3k) and its state (R, k); writes intermediate values to `gates`.

    These are the reset and update gates, the candidate, and a fourth value: with `reset_after` the candidate's
    projection of the state, otherwise the state times the reset gate.
    """
    width = state.shape[1]
    both, last = slice(2 * width), slice(2 * width, None)
    reset, update, candidate, recalled = gates.chunk(4, dim=-1)
    if reset_after:
        recurrent = torch.addmm(bias, state, weight.T)
        torch.add(words[:, both], recurrent[:, both], out=gates[:, both]).sigmoid_()
        recalled.copy_(recurrent[:, last])
        torch.addcmul(words[:, last], reset, recalled, out=candidate).tanh_()
    else:
        torch.addmm(bias[both], state, weight[both].T, out=gates[:, both]).add_(words[:, both]).sigmoid_()
        torch.mul(reset, state, out=recalled)
        torch.addmm(bias[last], recalled, weight[last].T, out=candidate).add_(words[:, last]).tanh_()
    torch.lerp(candidate, state, update, out=result)


def _step_backward(gradient, state, gates, weight, reset_after: bool, inputs, recurrent) -> torch.Tensor:
    """Write the gradients of both projections (R, 3k), and return that of the state (R, k).

    Without `reset_after`, the two projections are summed, so `recurrent` is `inputs`.
    """
    width = state.shape[1]
    reset, update, candidate, recalled = gates.chunk(4, dim=-1)
    to_candidate = torch.ops.aten.tanh_backward(gradient * (1 - update), candidate)
    inputs[:, width : 2 * width] = torch.ops.aten.sigmoid_backward(gradient * (state - candidate), update)
    inputs[:, 2 * width :] = to_candidate
    if reset_after:
        inputs[:, :width] = torch.ops.aten.sigmoid_backward(to_candidate * recalled, reset)
        recurrent[:, : 2 * width] = inputs[:, : 2 * width]
        torch.mul(to_candidate, reset, out=recurrent[:, 2 * width :])
        return (gradient * update).addmm_(recurrent, weight)
    to_recalled = to_candidate @ weight[2 * width :]
    inputs[:, :width] = torch.ops.aten.sigmoid_backward(to_recalled * state, reset)
    to_state = torch.addcmul(gradient * update, reset, to_recalled)
    return to_state.addmm_(inputs[:, : 2 * width], weight[: 2 * width])


def _weight_gradient(gradients, states, gates, reset_after: bool) -> torch.Tensor:
    """The recurrent weight's gradient (3k, k), from its products' gradients (T · R, 3k) and the states (T, R, k)."""
    states, width = states.flatten(0, 1), states.shape[-1]
    if reset_after:
        return gradients.T @ states
    recalled = gates[..., 3 * width :].flatten(0, 1)
    return torch.cat((gradients[:, : 2 * width].T @ states, gradients[:, 2 * width :].T @ recalled))


class _Attention:
    """Additive attention, position by position and a few documents at a time, and its accumulated gradients.

    Its tanh layer is computed as a sigmoid, which takes a seventh of the time on a CPU. As tanh x = 2 σ(2x) - 1, all
    scores of a document change by a constant, which affects neither the attention nor its gradients.
    """

    def __init__(self, source, keys, query_weight, score_weight, source_mask):
        self.source, self.keys, self.query_weight = source, keys, query_weight
        self.score_weight = score_weight[0]
        self.padding = None if source_mask is None else ~source_mask[:, None]
        self.documents = source.shape[0]
        self.query_gradients: list[torch.Tensor] = []

    def forward(self, states, attention, contexts) -> None:
        """Write the attention (R, S) and contexts (R, C) of the states (R, k)."""
        queries = self._queries(states)
        scores = attention.new_empty(*queries.shape[:2], self.keys.shape[1], dtype=queries.dtype)
        score_weight = 2 * self.score_weight
        for documents, layer in self._layers(queries):
            torch.matmul(layer, score_weight, out=scores[documents])
        if self.padding is not None:
            scores.masked_fill_(self.padding, torch.finfo(scores.dtype).min)
        weights = scores.softmax(-1, dtype=attention.dtype)
        attention.copy_(weights.flatten(0, 1))
        contexts.copy_((weights.to(self.source.dtype) @ self.source).flatten(0, 1))

    def backward(self, states, attention, context_gradients, attention_gradients) -> torch.Tensor:
        """The gradient (R, k) of the states, from the gradients of `forward`'s results."""
        if not self.query_gradients:
            # gradients of the layer's inputs, without the factors of each element
            self.slopes = torch.zeros_like(self.keys)
            self.score_gradient = torch.zeros_like(self.score_weight)
        shape = (self.documents, -1, attention.shape[-1])
        to_contexts = context_gradients.view(self.documents, -1, context_gradients.shape[-1])
        attention = attention.view(shape)
        gradients = to_contexts @ self.source.transpose(1, 2) + attention_gradients.view(shape)
        to_scores = torch.ops.aten._softmax_backward_data(
            gradients.to(attention.dtype), attention, -1, attention.dtype
        ).to(self.keys.dtype)
        queries = self._queries(states)
        to_queries = torch.empty_like(queries)
        for documents, layer in self._layers(queries):
            own = to_scores[documents]
            self.score_gradient += own.reshape(-1) @ layer.flatten(0, 2)
            # σ' is σ - σ²
            layer.addcmul_(layer, layer, value=-1)
            torch.matmul(own[:, :, None], layer, out=to_queries[documents][:, :, None])
            if own.shape[1] == 1:
                self.slopes[documents].addcmul_(layer[:, 0], own[:, 0, :, None])
            else:
                self.slopes[documents] += (layer * own[..., None]).sum(1)
        to_queries = to_queries.mul_(4 * self.score_weight).flatten(0, 1)
        self.query_gradients.append(to_queries)
        return to_queries @ self.query_weight

    def gradients(self, states) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The gradients of query weight, keys and score weight, after `backward` of all states (T, R, k)."""
        to_queries = torch.stack(self.query_gradients[::-1]).flatten(0, 1)
        keys = self.slopes.mul_(4 * self.score_weight)
        return to_queries.T @ states.flatten(0, 1), keys, 2 * self.score_gradient[None]

    def source_gradient(self, attention, context_gradients) -> torch.Tensor:
        """The gradient of the source (B, S, C), through the contexts only, from all positions (T, R, …)."""
        attention, context_gradients = (
            tensor.unflatten(1, (self.documents, -1)).transpose(0, 1).flatten(1, 2)
            for tensor in (attention, context_gradients)
        )
        return attention.to(self.source.dtype).transpose(1, 2) @ context_gradients

    def _queries(self, states) -> torch.Tensor:
        """(R, k) -> twice the queries, (B, R / B, A)."""
        return (2 * states @ self.query_weight.T).view(self.documents, -1, self.query_weight.shape[0])

    def _layers(self, queries):
        """Yield σ(2 (keys + queries)), (…, R / B, S, A), for successive slices of documents, in one buffer."""
        elements = queries.shape[1] * self.keys.shape[1] * self.keys.shape[2]
        size = min(max(1, _CHUNK_ELEMENTS // max(elements, 1)), self.documents)
        buffer = self.keys.new_empty(size, queries.shape[1], *self.keys.shape[1:])
        for start in range(0, self.documents, size):
            documents = slice(start, min(start + size, self.documents))
            layer = buffer[: documents.stop - start]
            torch.add(queries[documents, :, None], self.keys[documents, None], alpha=2, out=layer)
            yield documents, layer.sigmoid_()
