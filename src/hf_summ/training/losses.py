"""The loss of copying models in training, fused with the output projection in chunks.

The logits of all target positions would be the largest tensor in training. The fused loss computes logits, loss and
gradients for one chunk of positions at a time, and the next chunk reuses the buffer, as in Liger Kernel.
"""

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

    Equals `smoothed_cross_entropy` of `copy_log_probs` of the projected `hidden`. Gradients are computed together with
    the loss, and cannot be differentiated again. Positions without a label cost nothing.

    Args:
        hidden: (B, T, C), the decoder's output.
        weight: (V, C), of the output projection.
        bias: (V,) or None.
        gate_logits: (B, T), the logits of copying, or None.
        copy_attention: (B, T, S), each row a distribution over the source, zero at padding.
        source_ids: (B, S), below V + unknown_ids.
        labels: (B, T), below V, or with unknown ids below V + S, the columns of pointers; -100 at ignored positions.
        smoothing: ε, at least 0 and below 1.
        num_items_in_batch: the number to divide by; by default the number of labels in this batch.
        unknown_ids: number of ids from V on, of words that the vocabulary lacks; see `source_columns`.
        chunk_rows: number of positions whose logits exist at once.

    Returns:
        The loss, and the negative log-likelihood without smoothing, normalized in the same way and detached; scalars,
        float64 if the inputs are, otherwise float32.
    """
    if gate_logits is None:
        # an empty source, never copied
        source_ids = labels[:, :0]
        gate_logits, copy_attention = hidden.new_full(labels.shape, -torch.inf), hidden.new_empty(*labels.shape, 0)
    dtype = torch.promote_types(hidden.dtype, weight.dtype)
    device_type = hidden.device.type
    if torch.is_autocast_enabled(device_type) and dtype != torch.float64:
        dtype = torch.get_autocast_dtype(device_type)
    settings = _Settings(dtype, smoothing, num_items_in_batch, unknown_ids, chunk_rows, torch.is_grad_enabled())
    with torch.autocast(device_type, enabled=False):
        return _CopyCrossEntropy.apply(hidden, weight, bias, gate_logits, copy_attention, source_ids, labels, settings)


class _Settings(NamedTuple):
    # precision of the matrix products; everything else is at least float32
    dtype: torch.dtype
    smoothing: float
    num_items_in_batch: torch.Tensor | int | None
    unknown_ids: int
    chunk_rows: int
    # recorded outside, as gradients are always disabled inside an autograd function
    grad_enabled: bool


class _CopyCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(context, hidden, weight, bias, gate_logits, copy_attention, source_ids, labels, settings):
        inputs = _Inputs(hidden, weight, bias, gate_logits, copy_attention)
        needs = [needed and settings.grad_enabled for needed in context.needs_input_grad[: len(inputs)]]
        labels = labels.flatten()
        rows = (labels != IGNORED_LABEL).nonzero()[:, 0]
        chunks = rows.chunk(max(1, -(-rows.shape[0] // settings.chunk_rows)))
        sums = _Sums(inputs, needs, source_ids, settings, chunks[0].shape[0])
        for chunk in chunks:
            sums.add(chunk, labels[chunk])

        items = max(rows.shape[0], 1) if settings.num_items_in_batch is None else settings.num_items_in_batch
        nll = sums.nll / items
        loss = (1.0 - settings.smoothing) * nll + settings.smoothing * sums.uniform / items
        context.save_for_backward(*sums.gradients)
        context.items = items
        context.dtypes = [None if tensor is None else tensor.dtype for tensor in inputs]
        context.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    @once_differentiable
    def backward(context, gradient, _):
        scale = gradient / context.items
        scaled = _Inputs(*(None if saved is None else saved * scale for saved in context.saved_tensors))
        if scaled.copy_attention is not None:
            # the gradient of an attention of zero is up to 1 / tiny: infinite in half precision, then NaN
            limit = torch.finfo(context.dtypes[-1]).max
            scaled.copy_attention.clamp_(-limit, limit)
        cast = (
            None if tensor is None else tensor.to(dtype) for tensor, dtype in zip(scaled, context.dtypes, strict=True)
        )
        return *cast, None, None, None


class _Inputs(NamedTuple):
    """The inputs that may need a gradient, or their gradients (None if not needed)."""

    hidden: torch.Tensor | None
    weight: torch.Tensor | None
    bias: torch.Tensor | None
    gate_logits: torch.Tensor | None
    copy_attention: torch.Tensor | None

    def rows(self) -> "_Inputs":
        """The same with documents and target positions as one dimension."""
        names = ("hidden", "gate_logits", "copy_attention")
        flat = {name: getattr(self, name) for name in names}
        return self._replace(**{name: tensor.flatten(0, 1) for name, tensor in flat.items() if tensor is not None})


class _Sums:
    """Sums over rows: the negative log-likelihood, the mean of -log p over the vocabulary, and their gradients."""

    def __init__(self, inputs, needs, source_ids, settings, largest_chunk):
        dtype = torch.promote_types(settings.dtype, torch.float32)
        # at least float32 for half-precision inputs as well: they sum chunks, and backward scales before it casts
        self.gradients = _Inputs(
            *(
                tensor.new_zeros(tensor.shape, dtype=dtype) if needed else None
                for tensor, needed in zip(inputs, needs, strict=True)
            )
        )
        self.inputs, self.gradient_rows = inputs.rows(), self.gradients.rows()
        self.weight = inputs.weight.to(settings.dtype)
        self.bias = None if inputs.bias is None else inputs.bias.to(settings.dtype)
        self.smoothing = settings.smoothing
        self.target_length = inputs.hidden.shape[1]
        vocabulary = self.weight.shape[0]
        # those of pointers are behind the scores
        self.columns, self.first = source_columns(source_ids, vocabulary, settings.unknown_ids)
        self.is_first = self.first == torch.arange(self.first.shape[1], device=self.first.device)
        self.is_pointer = self.columns >= vocabulary if settings.unknown_ids else None
        # matrix products in another precision need a second buffer
        self.buffer = self.weight.new_empty(largest_chunk, self.weight.shape[0], dtype=dtype)
        self.products = self.buffer if dtype == settings.dtype else self.buffer.to(settings.dtype)
        self.nll, self.uniform = self.buffer.new_zeros(2).unbind()

    def add(self, rows: torch.Tensor, labels: torch.Tensor) -> None:
        """Add these rows, at most as many as the largest chunk."""
        labels, documents, vocabulary = labels[:, None], rows // self.target_length, self.weight.shape[0]
        columns, first, is_first = (ids[documents] for ids in (self.columns, self.first, self.is_first))
        is_label = (columns == labels) & is_first
        is_pointer = None if self.is_pointer is None else self.is_pointer[documents]
        if is_pointer is not None:
            is_word = labels < vocabulary
            labels, columns = labels.masked_fill(~is_word, 0), columns.masked_fill(is_pointer, 0)
        states = self.inputs.hidden[rows].to(self.weight.dtype)
        scores = self._project(states)
        gate_logits = self.inputs.gate_logits[rows, None].to(scores.dtype)
        label_scores, source_scores = scores.gather(1, labels), scores.gather(1, columns)
        mean_scores = scores.mean(1, keepdim=True)
        # from scores to log-probabilities of generating
        shift = logsigmoid(-gate_logits) - _softmax_in_place(scores)

        label_log_probs, generated = label_scores + shift, source_scores + shift
        if is_pointer is not None:
            never = NEVER + logsigmoid(-gate_logits)
            label_log_probs, generated = label_log_probs.where(is_word, never), generated.where(~is_pointer, never)
        copied = log_copy_probs(gate_logits, self.inputs.copy_attention[rows].to(scores.dtype), first)
        mixed = torch.logaddexp(generated, copied)
        gains = (mixed - generated).masked_fill_(~is_first, 0.0)
        self.nll -= label_log_probs.sum() + gains.masked_fill(~is_label, 0.0).sum()
        if is_pointer is not None:
            gains = gains.masked_fill(is_pointer, 0.0)
        self.uniform -= (mean_scores + shift).sum() + gains.sum() / vocabulary
        if all(gradient is None for gradient in self.gradients):
            return

        # the target probability of each source token, and the share of copying in it
        is_smoothed = is_first if is_pointer is None else is_first & ~is_pointer
        targets = is_smoothed.to(scores.dtype) * (self.smoothing / vocabulary)
        targets += is_label.to(scores.dtype) * (1.0 - self.smoothing)
        copied_targets = targets * (copied - mixed).exp_()
        copied_share = copied_targets.sum(1, keepdim=True)
        # (1 - Σ copied) softmax - (target - copied)
        scores.mul_(1.0 - copied_share).sub_(self.smoothing / vocabulary)
        label_targets = torch.full_like(label_scores, self.smoothing - 1.0)
        if is_pointer is not None:
            # no score generates a pointer
            label_targets.masked_fill_(~is_word, 0.0)
            copied_targets.masked_fill_(is_pointer, 0.0)
        scores.scatter_add_(1, labels, label_targets)
        scores.scatter_add_(1, columns, copied_targets)
        self._add_gradients(rows, states, scores)
        if self.gradient_rows.gate_logits is not None:
            self.gradient_rows.gate_logits[rows] = (gate_logits.sigmoid() - copied_share)[:, 0]
        if self.gradient_rows.copy_attention is not None:
            # not `copied_targets` divided by the attention, which may be zero
            first_gradient = targets * (logsigmoid(gate_logits) - mixed).exp_()
            self.gradient_rows.copy_attention[rows] = first_gradient.gather(1, first).neg_()

    def _project(self, states: torch.Tensor) -> torch.Tensor:
        scores, products = (tensor[: states.shape[0]] for tensor in (self.buffer, self.products))
        if self.bias is None:
            torch.mm(states, self.weight.T, out=products)
        else:
            torch.addmm(self.bias, states, self.weight.T, out=products)
        return scores if self.products is self.buffer else scores.copy_(products)

    def _add_gradients(self, rows: torch.Tensor, states: torch.Tensor, gradient: torch.Tensor) -> None:
        """Add the gradients that flow through the projection's output."""
        gradients = self.gradient_rows
        if gradients.bias is not None:
            gradients.bias.add_(gradient.sum(0))
        if self.products is not self.buffer:
            gradient = self.products[: rows.shape[0]].copy_(gradient)
        if gradients.hidden is not None:
            gradients.hidden[rows] = (gradient @ self.weight).to(gradients.hidden.dtype)
        if gradients.weight is None:
            return
        if gradients.weight.dtype == gradient.dtype:
            gradients.weight.addmm_(gradient.T, states)
        else:
            gradients.weight.add_(gradient.T @ states)


def _softmax_in_place(scores: torch.Tensor) -> torch.Tensor:
    """Replace scores (N, V) by their softmax, and return the logarithm of its denominator (N, 1)."""
    largest = scores.amax(1, keepdim=True)
    torch.softmax(scores, 1, out=scores)
    # the probability of the largest score is never rounded to zero
    return largest - scores.amax(1, keepdim=True).log()
