"""The loss of copying models in training, fused with the output projection in chunks.

The scores of all target positions would be the largest tensor in training. The fused loss computes scores, loss and
gradients for one chunk of positions at a time, and the next chunk reuses the buffer, as in Liger Kernel.

In this file, scores are the logits of words. A row is one target position of one document; a batch of B documents with
T positions has B·T rows. A pointer stands for a source word that the vocabulary lacks. Such a word can be copied, but
not generated.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch.autograd.function import once_differentiable
from torch.nn.functional import logsigmoid

from hf_summ.models.checks import IGNORED_LABEL
from hf_summ.models.layers_copying import NEVER, log_copy_probs, source_columns


def copy_cross_entropy(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    gate_logits: torch.Tensor | None,
    copy_attention: torch.Tensor | None,
    source_ids: torch.Tensor | None,
    labels: torch.Tensor,
    smoothing: float,
    num_items_in_batch: torch.Tensor | int | None = None,
    unknown_ids: int = 0,
    chunk_rows: int = 320,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Label-smoothed cross-entropy of the copy mixture, or of generation alone if `gate_logits` is None.

    The loss is `smoothed_cross_entropy` of `copy_log_probs` of the projected `hidden`. Its gradients are computed
    together with it, and cannot be differentiated again. Positions without a label cost nothing.

    Args:
        hidden: (B, T, C), the decoder's output.
        weight: (V, C), the weight of the output projection.
        bias: (V,), the bias of the output projection, or None.
        gate_logits: (B, T), the logits of copying, or None.
        copy_attention: (B, T, S), each row a distribution over the source, zero at padding.
        source_ids: (B, S), below V + unknown_ids.
        labels: (B, T), words below V, and -100 at ignored positions. With unknown ids, V + i is the pointer to source
            position i.
        smoothing: ε, at least 0 and below 1.
        num_items_in_batch: the divisor of the sum over labels; by default the number of labels in this batch.
        unknown_ids: number of source ids from V on, which stand for words that the vocabulary lacks; see
            `source_columns`.
        chunk_rows: number of positions whose scores exist at once.

    Returns:
        The loss, and the negative log-likelihood without smoothing, which has the same divisor and is detached.
        Both are scalars, in float64 if the inputs are, otherwise in float32.
    """
    if gate_logits is None:
        # the source is empty, and the gate never copies
        source_ids = labels[:, :0]
        gate_logits = hidden.new_full(labels.shape, -torch.inf)
        copy_attention = hidden.new_empty(labels.shape + (0,))
    dtype = torch.promote_types(hidden.dtype, weight.dtype)
    device_type = hidden.device.type
    if torch.is_autocast_enabled(device_type) and dtype != torch.float64:
        dtype = torch.get_autocast_dtype(device_type)
    settings = _Settings(dtype, smoothing, num_items_in_batch, unknown_ids, chunk_rows, torch.is_grad_enabled())
    with torch.autocast(device_type, enabled=False):
        return _CopyCrossEntropy.apply(hidden, weight, bias, gate_logits, copy_attention, source_ids, labels, settings)


@dataclass(frozen=True)
class _Settings:
    """What the loss depends on besides its tensors.

    Args:
        dtype: the precision of the matrix products; everything else is computed in at least float32.
        grad_enabled: whether gradients are recorded outside of the autograd function; inside, torch disables them.

    The other settings are arguments of `copy_cross_entropy`.
    """

    dtype: torch.dtype
    smoothing: float
    num_items_in_batch: torch.Tensor | int | None
    unknown_ids: int
    chunk_rows: int
    grad_enabled: bool

    @property
    def sum_dtype(self) -> torch.dtype:
        """The precision of scores, sums and gradients: at least float32.

        Gradients are cast to the precision of their inputs at the end. Before that, the gradients of the weights are
        summed over chunks, and all gradients are scaled, for which half precision is too coarse.
        """
        return torch.promote_types(self.dtype, torch.float32)


class _Inputs(NamedTuple):
    """The inputs that may need a gradient, in the shapes of `copy_cross_entropy`."""

    hidden: torch.Tensor
    weight: torch.Tensor
    bias: torch.Tensor | None
    gate_logits: torch.Tensor
    copy_attention: torch.Tensor


class _Gradients(NamedTuple):
    """The gradients of `_Inputs`; None for an input that needs none."""

    hidden: torch.Tensor | None
    weight: torch.Tensor | None
    bias: torch.Tensor | None
    gate_logits: torch.Tensor | None
    copy_attention: torch.Tensor | None

    def rows(self) -> "_Gradients":
        """Views of the same tensors with documents and target positions as one dimension."""
        return self._replace(
            hidden=_as_rows(self.hidden),
            gate_logits=_as_rows(self.gate_logits),
            copy_attention=_as_rows(self.copy_attention),
        )


def _as_rows(tensor: torch.Tensor | None) -> torch.Tensor | None:
    """View (B, T, ...) as (B·T, ...)."""
    if tensor is None:
        return None
    return tensor.flatten(0, 1)


class _CopyCrossEntropy(torch.autograd.Function):
    """The loss as an operation of autograd: `forward` computes the gradients too, and `backward` scales them."""

    @staticmethod
    def forward(context, hidden, weight, bias, gate_logits, copy_attention, source_ids, labels, settings):
        """The loss and its negative log-likelihood, as `copy_cross_entropy` returns them."""
        inputs = _Inputs(hidden, weight, bias, gate_logits, copy_attention)
        gradients = []
        # the source ids, the labels and the settings, which come after the inputs, need no gradient
        for tensor, is_needed in zip(inputs, context.needs_input_grad[: len(inputs)], strict=True):
            if tensor is None or not is_needed or not settings.grad_enabled:
                gradients.append(None)
            else:
                gradients.append(tensor.new_zeros(tensor.shape, dtype=settings.sum_dtype))

        labels = labels.flatten()
        labeled_rows = (labels != IGNORED_LABEL).nonzero()[:, 0]
        number_of_labels = labeled_rows.shape[0]
        number_of_chunks = max(1, math.ceil(number_of_labels / settings.chunk_rows))
        # the first chunk is the largest one
        chunks = labeled_rows.chunk(number_of_chunks)
        sums = _Sums(inputs, _Gradients(*gradients), source_ids, settings, largest_chunk=chunks[0].shape[0])
        for rows in chunks:
            sums.add(rows, labels[rows])

        divisor = settings.num_items_in_batch
        if divisor is None:
            divisor = max(number_of_labels, 1)
        nll = sums.nll / divisor
        loss = (1.0 - settings.smoothing) * nll + settings.smoothing * sums.uniform / divisor
        context.save_for_backward(*gradients)
        context.divisor = divisor
        context.dtypes = [None if tensor is None else tensor.dtype for tensor in inputs]
        context.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    @once_differentiable
    def backward(context, loss_gradient, _):
        """The gradient of each argument of `forward`, or None.

        Args:
            loss_gradient: the gradient of the loss; the negative log-likelihood has none.
        """
        # `forward` has computed the gradients of the sum, without the divisor
        scale = loss_gradient / context.divisor
        scaled = []
        for gradient in context.saved_tensors:
            scaled.append(None if gradient is None else gradient * scale)
        attention_gradient, attention_dtype = scaled[-1], context.dtypes[-1]
        if attention_gradient is not None:
            # The gradient of an attention of zero can be as large as 1 / tiny. In half precision it would be infinite,
            # and become NaN in the layers before.
            limit = torch.finfo(attention_dtype).max
            attention_gradient.clamp_(-limit, limit)
        cast = []
        for gradient, dtype in zip(scaled, context.dtypes, strict=True):
            cast.append(None if gradient is None else gradient.to(dtype))
        # the source ids, the labels and the settings have no gradient
        cast.extend([None, None, None])
        return tuple(cast)


@dataclass(frozen=True)
class _Pointers:
    """Which labels (R, 1) and which source tokens (R, S) of R rows are pointers."""

    labels: torch.Tensor
    source: torch.Tensor


@dataclass(frozen=True)
class _Chunk:
    """The R rows of one chunk, with their labels and the source tokens of their documents.

    The projection has no scores for pointers. Word 0 takes their place, and its values are replaced afterwards.

    Args:
        rows: (R,), the indices of the rows.
        states: (R, C), the decoder's output, in the precision of the matrix products.
        labels: (R, 1), words below V; 0 for a pointer.
        columns: (R, S), the word of each source token; 0 for a pointer.
        first: (R, S), the position of the first occurrence of each source token in its document.
        is_first: (R, S), whether a source token is the first occurrence.
        is_label: (R, S), whether a source token is the first occurrence of the label.
        pointers: what is a pointer; None if there are no unknown ids.
    """

    rows: torch.Tensor
    states: torch.Tensor
    labels: torch.Tensor
    columns: torch.Tensor
    first: torch.Tensor
    is_first: torch.Tensor
    is_label: torch.Tensor
    pointers: _Pointers | None


@dataclass(frozen=True)
class _Mixture:
    """The probabilities of the words at R rows.

    Args:
        softmax: (R, V), the probability of each word if the model generates.
        gate_logits: (R, 1), the logits of copying.
        copied: (R, S), the logarithm of the probability that the model copies, and copies this source word.
        mixed: (R, S), the log-probability of each source word, whether generated or copied.
    """

    softmax: torch.Tensor
    gate_logits: torch.Tensor
    copied: torch.Tensor
    mixed: torch.Tensor


class _Sums:
    """Sums over rows: the negative log-likelihood, the mean of -log p over the vocabulary, and their gradients.

    Attributes:
        nll: the sum of the negative log-likelihoods of the labels.
        uniform: the sum of the means of -log p over the vocabulary, the target of smoothing.
    """

    def __init__(
        self, inputs: _Inputs, gradients: _Gradients, source_ids: torch.Tensor, settings: _Settings, largest_chunk: int
    ) -> None:
        """Begin with sums of zero.

        Args:
            gradients: tensors of zeros, to which `add` adds the gradients of (1 - ε) nll + ε uniform.
            largest_chunk: the largest number of rows that are added at once.
        """
        self.hidden = inputs.hidden.flatten(0, 1)
        self.gate_logits = inputs.gate_logits.flatten(0, 1)
        self.copy_attention = inputs.copy_attention.flatten(0, 1)
        self.gradients = gradients.rows()
        self.needs_gradients = any(gradient is not None for gradient in gradients)
        self.weight = inputs.weight.to(settings.dtype)
        self.bias = None
        if inputs.bias is not None:
            self.bias = inputs.bias.to(settings.dtype)
        self.vocabulary = self.weight.shape[0]
        self.columns, self.first = source_columns(source_ids, self.vocabulary, settings.unknown_ids)
        self.is_first = self.first == torch.arange(self.first.shape[1], device=self.first.device)
        self.has_pointers = settings.unknown_ids > 0
        self.smoothing = settings.smoothing
        self.target_length = inputs.hidden.shape[1]
        self.buffer = self.weight.new_empty(largest_chunk, self.vocabulary, dtype=settings.sum_dtype)
        # matrix products in another precision than that of the sums need a second buffer
        self.casts_products = settings.dtype != settings.sum_dtype
        self.products = self.buffer
        if self.casts_products:
            self.products = torch.empty_like(self.buffer, dtype=settings.dtype)
        self.nll = self.buffer.new_zeros(())
        self.uniform = self.buffer.new_zeros(())

    def add(self, rows: torch.Tensor, labels: torch.Tensor) -> None:
        """Add rows to the sums, at most as many as the largest chunk.

        Args:
            rows: (R,), the indices of the rows.
            labels: (R,), words or pointers.
        """
        chunk = self._chunk(rows, labels[:, None])
        pointers = chunk.pointers
        scores = self._project(chunk.states)
        label_scores = scores.gather(1, chunk.labels)
        source_scores = scores.gather(1, chunk.columns)
        mean_scores = scores.mean(1, keepdim=True)
        softmax, log_denominators = _softmax_in_place(scores)

        gate_logits = self.gate_logits[rows, None].to(softmax.dtype)
        log_generating = logsigmoid(-gate_logits)
        # a score plus this shift is the log-probability of generating its word
        shift = log_generating - log_denominators
        label_log_probs = label_scores + shift
        generated = source_scores + shift
        if pointers is not None:
            never = NEVER + log_generating
            label_log_probs = label_log_probs.where(~pointers.labels, never)
            generated = generated.where(~pointers.source, never)
        attention = self.copy_attention[rows].to(softmax.dtype)
        copied = log_copy_probs(gate_logits, attention, chunk.first)
        mixed = torch.logaddexp(generated, copied)

        # what copying adds to the log-probability of a word, at the first occurrence of the word
        gains = (mixed - generated).masked_fill_(~chunk.is_first, 0.0)
        label_gains = gains.masked_fill(~chunk.is_label, 0.0)
        self.nll -= label_log_probs.sum() + label_gains.sum()
        if pointers is not None:
            # only words of the vocabulary are smoothed
            gains = gains.masked_fill(pointers.source, 0.0)
        self.uniform -= (mean_scores + shift).sum() + gains.sum() / self.vocabulary
        if self.needs_gradients:
            self._add_gradients(chunk, _Mixture(softmax, gate_logits, copied, mixed))

    def _chunk(self, rows: torch.Tensor, labels: torch.Tensor) -> _Chunk:
        """The chunk of rows (R,) whose labels (R, 1) may be pointers."""
        states = self.hidden[rows].to(self.weight.dtype)
        documents = rows // self.target_length
        columns = self.columns[documents]
        first = self.first[documents]
        is_first = self.is_first[documents]
        is_label = (columns == labels) & is_first
        pointers = None
        if self.has_pointers:
            pointers = _Pointers(labels >= self.vocabulary, columns >= self.vocabulary)
            labels = labels.masked_fill(pointers.labels, 0)
            columns = columns.masked_fill(pointers.source, 0)
        return _Chunk(rows, states, labels, columns, first, is_first, is_label, pointers)

    def _project(self, states: torch.Tensor) -> torch.Tensor:
        """The scores of all words in `sum_dtype`, (R, C) -> (R, V); the next chunk overwrites their buffer."""
        products = self.products[: states.shape[0]]
        if self.bias is None:
            torch.mm(states, self.weight.T, out=products)
        else:
            torch.addmm(self.bias, states, self.weight.T, out=products)
        if not self.casts_products:
            return products
        scores = self.buffer[: states.shape[0]]
        return scores.copy_(products)

    def _add_gradients(self, chunk: _Chunk, mixture: _Mixture) -> None:
        """Add the gradients of a chunk's loss.

        The loss of a row is -Σ_w t_w log p(w). Its target t_w is ε / V, plus 1 - ε if w is the label. Of the
        probability p(w) of a source word, the share exp(copied - mixed) is copied, and the rest is generated.
        """
        is_smoothed = chunk.is_first
        if chunk.pointers is not None:
            is_smoothed = is_smoothed & ~chunk.pointers.source
        # the target t of each source word, at its first occurrence
        targets = is_smoothed.to(mixture.mixed.dtype) * (self.smoothing / self.vocabulary)
        targets += chunk.is_label.to(mixture.mixed.dtype) * (1.0 - self.smoothing)
        # the target t times the share that is copied, for each source word, and its sum for each row
        copied_targets = targets * (mixture.copied - mixture.mixed).exp_()
        copied_share = copied_targets.sum(1, keepdim=True)

        if self.gradients.gate_logits is not None:
            gate_gradient = mixture.gate_logits.sigmoid() - copied_share
            self.gradients.gate_logits[chunk.rows] = gate_gradient[:, 0]
        if self.gradients.copy_attention is not None:
            # `copied_targets` are not divided by the attention, because it may be zero
            first_gradient = targets * (logsigmoid(mixture.gate_logits) - mixture.mixed).exp_()
            self.gradients.copy_attention[chunk.rows] = first_gradient.gather(1, chunk.first).neg_()
        # this is the last step, because it overwrites the softmax and the copied targets
        self._add_score_gradients(chunk, mixture.softmax, copied_targets, copied_share)

    def _add_score_gradients(
        self, chunk: _Chunk, softmax: torch.Tensor, copied_targets: torch.Tensor, copied_share: torch.Tensor
    ) -> None:
        """Add the gradients that flow through the scores.

        The gradient of the score of a word is (1 - copied_share) softmax - (target - copied target). The softmax is
        overwritten by the gradients, and the copied targets of pointers by 0.

        Args:
            softmax: (R, V), the probabilities of generation.
            copied_targets: (R, S), see `_add_gradients`.
            copied_share: (R, 1), the sum of the copied targets.
        """
        gradient = softmax.mul_(1.0 - copied_share).sub_(self.smoothing / self.vocabulary)
        label_targets = gradient.new_full(chunk.labels.shape, self.smoothing - 1.0)
        if chunk.pointers is not None:
            # no score generates a pointer
            label_targets.masked_fill_(chunk.pointers.labels, 0.0)
            copied_targets.masked_fill_(chunk.pointers.source, 0.0)
        gradient.scatter_add_(1, chunk.labels, label_targets)
        gradient.scatter_add_(1, chunk.columns, copied_targets)
        self._add_projection_gradients(chunk, gradient)

    def _add_projection_gradients(self, chunk: _Chunk, gradient: torch.Tensor) -> None:
        """Add the gradients of the projection's inputs.

        Args:
            gradient: (R, V), the gradient of the scores.
        """
        gradients = self.gradients
        if gradients.bias is not None:
            gradients.bias.add_(gradient.sum(0))
        if self.casts_products:
            gradient = self.products[: chunk.rows.shape[0]].copy_(gradient)
        if gradients.hidden is not None:
            gradients.hidden[chunk.rows] = (gradient @ self.weight).to(gradients.hidden.dtype)
        if gradients.weight is None:
            return
        if gradients.weight.dtype == gradient.dtype:
            gradients.weight.addmm_(gradient.T, chunk.states)
        else:
            gradients.weight.add_(gradient.T @ chunk.states)


def _softmax_in_place(scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Replace scores by their softmax, in place.

    Args:
        scores: (R, V).

    Returns:
        The softmax, (R, V), and the logarithms of its denominators, (R, 1).
    """
    largest_scores = scores.amax(1, keepdim=True)
    torch.softmax(scores, 1, out=scores)
    # the probability of the largest score is never rounded to zero
    log_denominators = largest_scores - scores.amax(1, keepdim=True).log()
    return scores, log_denominators
