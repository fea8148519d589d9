"""The loss of all architectures: label-smoothed cross-entropy."""

import torch
from torch.autograd.function import once_differentiable

from .layers_transformer import needs_plain_operations

IGNORED_LABEL = -100


def smoothed_cross_entropy(
    logits: torch.Tensor,
    labels: torch.Tensor,
    smoothing: float,
    num_items_in_batch: torch.Tensor | int | None = None,
    normalize: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Label-smoothed cross-entropy: per token (1 - ε) NLL + ε · mean over the vocabulary of -log p.

    The sum over target tokens is divided by `num_items_in_batch`, the number of target tokens in all accumulated
    batches, or by default in this batch. Gradient accumulation therefore does not change the loss.

    Args:
        logits: (B, T, V), unnormalized or log-probabilities.
        labels: (B, T), -100 at ignored positions.
        smoothing: ε, at least 0 and below 1.
        num_items_in_batch: the number to divide by.
        normalize: whether to normalize the logits; if not, they must be log-probabilities.

    Returns:
        The loss, and the negative log-likelihood without smoothing, normalized in the same way and detached; scalars,
        float64 if the logits are, otherwise float32.
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if num_items_in_batch is None:
        num_items_in_batch = (labels != IGNORED_LABEL).sum().clamp(min=1)
    if needs_plain_operations(logits):
        loss, nll, _ = _smoothed(logits, labels, smoothing, num_items_in_batch, normalize)
        return loss, nll.detach()
    return _SmoothedCrossEntropy.apply(logits, labels, smoothing, num_items_in_batch, normalize)


def _smoothed(logits, labels, smoothing, items, normalize) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The loss, the NLL, and the logarithms of the normalizers (B, T, 1)."""
    is_target = labels != IGNORED_LABEL
    partition = logits.logsumexp(-1, keepdim=True) if normalize else logits.new_zeros(*labels.shape, 1)
    scores = logits.gather(-1, labels.clamp(min=0)[..., None])
    nll = (partition - scores)[..., 0].masked_fill(~is_target, 0.0).sum() / items
    uniform = nll.new_zeros(())
    if smoothing != 0.0:
        uniform = (partition[..., 0] - logits.mean(-1)).masked_fill(~is_target, 0.0).sum() / items
    # a separate tensor, as transformers scales the loss in place
    return (1.0 - smoothing) * nll + smoothing * uniform, nll, partition


class _SmoothedCrossEntropy(torch.autograd.Function):
    # autograd would store one tensor of the logits' size each for normalizer, label and mean, and add three gradients

    @staticmethod
    def forward(context, logits, labels, smoothing, items, normalize):
        loss, nll, partition = _smoothed(logits, labels, smoothing, items, normalize)
        context.save_for_backward(logits, labels, partition)
        context.settings = smoothing, items, normalize
        context.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    @once_differentiable
    def backward(context, gradient, _):
        logits, labels, partition = context.saved_tensors
        smoothing, items, normalize = context.settings
        # softmax - (1 - ε) · label - ε / V, for each target token
        share = (gradient / items * (labels != IGNORED_LABEL))[..., None].to(logits.dtype)
        result = (logits - partition).exp_().mul_(share) if normalize else torch.zeros_like(logits)
        if smoothing != 0.0:
            result -= share * (smoothing / logits.shape[-1])
        result.scatter_add_(-1, labels.clamp(min=0)[..., None], share * (smoothing - 1.0))
        return result, None, None, None, None
