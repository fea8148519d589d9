"""Recurrent layers: a bidirectional GRU over the source, and two GRUs with a cross-attention between them."""

from typing import Any, NamedTuple

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear
from transformers.utils.generic import maybe_autocast

from .layers_transformer import is_symbolic, product_of_rows

# elements of the attention's tanh layer in memory at once: few enough for a CPU's cache
_CHUNK_ELEMENTS = 2**19
# channels of that layer per product of an exported graph, which fit in the cache as well
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
        settings = _Settings(source_mask, self.shares_state, self.reset_after, torch.is_grad_enabled())
        with maybe_autocast(words.device.type, enabled=False):
            if attention is not None:
                outputs = _unrolled(*inputs, settings, attention=attention)
            else:
                # torch.compile fails on writes into parts of the results
                run = _unrolled if is_symbolic(words) else _AttentiveGrus.apply
                outputs = run(*inputs, settings)
        first, second, contexts, attention = (output.transpose(0, 1) for output in outputs)
        return AttentiveStates(*(states.to(words.dtype) for states in (first, second, contexts)), attention)


class _Settings(NamedTuple):
    source_mask: torch.Tensor | None
    shares_state: bool
    reset_after: bool
    # recorded outside, as gradients are always disabled inside an autograd function
    grad_enabled: bool


def _unrolled(*arguments, attention: torch.Tensor | None = None) -> tuple[torch.Tensor, ...]:
    """As `_AttentiveGrus`, in one graph; autograd computes the gradients, and determines the memory."""
    *tensors, settings = arguments
    inputs = _Inputs(*tensors)
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


class _AttentiveGrus(torch.autograd.Function):
    """`AttentiveGrus` with positions as the first dimension, and its own backpropagation through time.

    Autograd would store the attention's tanh layer of every position, by far the largest tensor, and the result of each
    small operation. Here that layer is computed for a few documents at a time, and recomputed in backward. The
    gradients of weights are one product over all positions.
    """

    @staticmethod
    def forward(context, *arguments):
        *tensors, settings = arguments
        inputs = _Inputs(*tensors)
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
        inputs = _Inputs(*tensors)
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


class _Inputs(NamedTuple):
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
