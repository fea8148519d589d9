"""Copying: attention to the source, its mixture with generation, the loss of scores, and a penalty on repetition."""

from collections.abc import Callable

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import logsigmoid, pad
from transformers import LogitsProcessor
from transformers.cache_utils import EncoderDecoderCache

from .checks import IGNORED_LABEL
from .generation_rules import coverage_growth
from .layers_transformer import needs_plain_operations, product_of_rows

# the log-probability of generating a pointer: that of no word
NEVER = -80.0


def copy_log_probs(
    logits: torch.Tensor,
    gate_logits: torch.Tensor,
    copy_attention: torch.Tensor,
    source_ids: torch.Tensor,
    unknown_ids: int = 0,
) -> torch.Tensor:
    """log p(w), with p(w) = (1 - c) softmax(logits)_w + c Σ_{i: x_i = w} a_i, c = σ(gate) (Aksenov 2020, equation 4.3).

    The smallest normal number is the floor of the probability of copying: finite logits yield finite log-probabilities
    and gradients, even with a saturated gate.

    Args:
        logits: (R, T, V), of generation; R is a multiple of B, and a document's beams are consecutive rows.
        gate_logits: (R, T), of copying.
        copy_attention: (R, T, S), each row a distribution over the source, zero at padding.
        source_ids: (B, S), below V + unknown_ids.
        unknown_ids: number of ids from V on, of words that the vocabulary lacks.

    Returns:
        (R, T, V), float64 if the logits are, otherwise float32. With unknown ids, (R, T, V + S): the last are those of
        pointers, which are only copied; see `source_columns`.
    """
    (rows, length, vocabulary), documents = logits.shape, source_ids.shape[0]
    dtype = torch.promote_types(logits.dtype, torch.float32)
    gate_logits = gate_logits.to(dtype)[..., None]
    log_probs = logits.log_softmax(-1, dtype=dtype)
    if unknown_ids:
        log_probs = pad(log_probs, (0, source_ids.shape[1]), value=NEVER)
    shift = logsigmoid(-gate_logits)
    # without gradients, where speed matters most, work in place
    log_probs = log_probs + shift if torch.is_grad_enabled() else log_probs.add_(shift)

    # one row per document, expanded over its beams and their positions without a copy
    columns, first = source_columns(source_ids, vocabulary, unknown_ids)
    is_first = first == torch.arange(first.shape[1], device=first.device)
    first, is_first, columns = (
        ids[:, None, None].expand(-1, rows // documents, length, -1).reshape(rows, length, -1)
        for ids in (first, is_first, columns)
    )
    generated = log_probs.gather(-1, columns)
    copied = log_copy_probs(gate_logits, _widened(copy_attention, dtype), first)
    gains = (torch.logaddexp(generated, copied) - generated).masked_fill(~is_first, 0.0)
    if torch.is_grad_enabled():
        return log_probs.scatter_add(-1, columns, gains)
    return log_probs.scatter_add_(-1, columns, gains)


def source_columns(
    source_ids: torch.Tensor, vocab_size: int, unknown_ids: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """The column of each source word's score, and the position of its first occurrence: (B, S) -> (B, S), (B, S).

    Columns are words of the vocabulary, then pointers to the S positions. A word that the vocabulary lacks has the
    pointer to its first occurrence.
    """
    first = first_positions(source_ids, vocab_size + unknown_ids)
    if not unknown_ids:
        return source_ids, first
    return torch.where(source_ids < vocab_size, source_ids, vocab_size + first), first


def first_positions(source_ids: torch.Tensor, vocab_size: int) -> torch.Tensor:
    """The position of each source token's first occurrence in its document, (B, S) -> (B, S)."""
    positions = torch.arange(source_ids.shape[1], device=source_ids.device).expand_as(source_ids)
    # via the vocabulary, as comparing all pairs of positions is quadratic in the length
    first = source_ids.new_empty(source_ids.shape[0], vocab_size)
    first.scatter_reduce_(1, source_ids, positions, "amin", include_self=False)
    return first.gather(1, source_ids)


def log_copy_probs(gate_logits: torch.Tensor, copy_attention: torch.Tensor, first: torch.Tensor) -> torch.Tensor:
    """log c Σ_{j: x_j = x_i} a_j at the first position i of each source token, and the floor elsewhere.

    Gate logits (..., 1), attention (..., S) and positions from `first_positions` (..., S) -> (..., S).
    """
    totals = torch.zeros_like(copy_attention).scatter_add_(-1, first, copy_attention)
    # unlike clamping, adding preserves the gradient
    return logsigmoid(gate_logits) + (totals + torch.finfo(totals.dtype).tiny).log()


def summed_coverage(copy_attentions: torch.Tensor, attention_mask: torch.Tensor | None) -> torch.Tensor:
    """Sum the copy distributions (R, T, S) over the unpadded positions -> (R, S)."""
    copied = copy_attentions.detach()
    # half precision is too coarse for a sum over many steps
    copied = copied.to(torch.promote_types(copied.dtype, torch.float32))
    if attention_mask is not None:
        copied = copied * attention_mask[:, -copied.shape[1] :, None]
    return copied.sum(1)


def _widened(copy_attention: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The attention in `dtype`, with its gradient clamped to the range of its original precision."""
    widened, limit = copy_attention.to(dtype), torch.finfo(copy_attention.dtype).max
    if widened.requires_grad and widened is not copy_attention:
        # the gradient of an attention of zero is up to 1 / tiny: infinite in half precision, then NaN
        widened.register_hook(lambda gradient: gradient.clamp(-limit, limit))
    return widened


def mean_over_targets(
    values: torch.Tensor, labels: torch.Tensor, num_items_in_batch: torch.Tensor | int | None = None
) -> torch.Tensor:
    """The sum of values (B, T) over target tokens, divided by `num_items_in_batch` as in `smoothed_cross_entropy`."""
    if num_items_in_batch is None:
        num_items_in_batch = (labels != IGNORED_LABEL).sum().clamp(min=1)
    # divided before the sum, as rows may have divisors of their own
    return (values.masked_fill(labels == IGNORED_LABEL, 0.0) / num_items_in_batch).sum()


def smoothed_cross_entropy(
    logits: torch.Tensor,
    labels: torch.Tensor,
    smoothing: float,
    num_items_in_batch: torch.Tensor | int | None = None,
    normalize: bool = True,
    vocab_size: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Label-smoothed cross-entropy: per token (1 - ε) NLL + ε · mean over the vocabulary of -log p.

    The sum over target tokens is divided by `num_items_in_batch`, the number of target tokens in all accumulated
    batches, or by default in this batch. Gradient accumulation therefore does not change the loss.

    Args:
        logits: (B, T, V), unnormalized or log-probabilities.
        labels: (B, T), -100 at ignored positions.
        smoothing: ε, at least 0 and below 1.
        num_items_in_batch: the number to divide by, or (B, 1), one for each row.
        normalize: whether to normalize the logits; if not, they must be log-probabilities.
        vocab_size: number of words; by default V. The scores after them are of pointers, which are not smoothed.

    Returns:
        The loss, and the negative log-likelihood without smoothing, normalized in the same way and detached; scalars,
        float64 if the logits are, otherwise float32.
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if num_items_in_batch is None:
        num_items_in_batch = (labels != IGNORED_LABEL).sum().clamp(min=1)
    if needs_plain_operations(logits):
        loss, nll, _ = _smoothed(logits, labels, smoothing, num_items_in_batch, normalize, vocab_size)
        return loss, nll.detach()
    return _SmoothedCrossEntropy.apply(logits, labels, smoothing, num_items_in_batch, normalize, vocab_size)


def _smoothed(
    logits, labels, smoothing, items, normalize, vocab_size
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The loss, the NLL, and the logarithms of the normalizers (B, T, 1)."""
    partition = logits.logsumexp(-1, keepdim=True) if normalize else logits.new_zeros(*labels.shape, 1)
    scores = logits.gather(-1, labels.clamp(min=0)[..., None])
    nll = mean_over_targets((partition - scores)[..., 0], labels, items)
    uniform = nll.new_zeros(())
    if smoothing != 0.0:
        mean = logits[..., :vocab_size].mean(-1)
        uniform = mean_over_targets(partition[..., 0] - mean, labels, items)
    # a separate tensor, as transformers scales the loss in place
    return (1.0 - smoothing) * nll + smoothing * uniform, nll, partition


class _SmoothedCrossEntropy(torch.autograd.Function):
    # autograd would store one tensor of the logits' size each for normalizer, label and mean, and add three gradients

    @staticmethod
    def forward(context, logits, labels, smoothing, items, normalize, vocab_size):
        loss, nll, partition = _smoothed(logits, labels, smoothing, items, normalize, vocab_size)
        context.save_for_backward(logits, labels, partition)
        context.settings = smoothing, items, normalize, vocab_size
        context.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    @once_differentiable
    def backward(context, gradient, _):
        logits, labels, partition = context.saved_tensors
        smoothing, items, normalize, vocab_size = context.settings
        # softmax - (1 - ε) · label - ε / V, for each target token
        share = (gradient / items * (labels != IGNORED_LABEL))[..., None].to(logits.dtype)
        result = (logits - partition).exp_().mul_(share) if normalize else torch.zeros_like(logits)
        if smoothing != 0.0:
            words = result[..., :vocab_size]
            words -= share * (smoothing / words.shape[-1])
        result.scatter_add_(-1, labels.clamp(min=0)[..., None], share * (smoothing - 1.0))
        return result, None, None, None, None, None


class CopyAttention(nn.Module):
    """A single-head attention on top of the decoder, whose weights are the copy distribution (Aksenov 2020, 6.3)."""

    def __init__(self, width: int, layer_index: int):
        super().__init__()
        self.layer_index = layer_index
        self.scaling = width**-0.5
        self.q_proj = nn.Linear(width, width)
        self.k_proj = nn.Linear(width, width)

    def forward(
        self,
        hidden_states: torch.Tensor,
        source: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        cache: EncoderDecoderCache | None = None,
    ) -> torch.Tensor:
        """Queries (R, T, C) and source (B, S, C), R a multiple of B -> weights (R, T, S), each row summing to one.

        `attention_mask` (B, 1, 1, S) is true at tokens.
        """
        rows, length, width = hidden_states.shape
        documents = source.shape[0]
        queries = self.q_proj(hidden_states).view(documents, -1, width)
        keys = keys_once(self.k_proj, source, cache, self.layer_index)
        scores = product_of_rows(queries, keys.transpose(1, 2)) * self.scaling
        if attention_mask is not None:
            scores = scores.masked_fill(~attention_mask[:, 0], torch.finfo(scores.dtype).min)
        weights = scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32))
        return weights.view(rows, length, -1)


def keys_once(
    project: Callable[[torch.Tensor], torch.Tensor],
    source: torch.Tensor,
    cache: EncoderDecoderCache | None,
    layer_index: int,
) -> torch.Tensor:
    """The keys (B, S, A) of a single-head attention to the source (B, S, C), computed once if there is a cache."""
    if cache is not None and cache.is_updated.get(layer_index):
        return cache.cross_attention_cache.layers[layer_index].keys.squeeze(1)
    keys = project(source)
    if cache is not None:
        # the cache expects heads of keys and values: a single head, and values of width 0
        cache.cross_attention_cache.update(keys[:, None], keys[:, None, :, :0], layer_index)
        cache.is_updated[layer_index] = True
    return keys


class CoveragePenaltyLogitsProcessor(LogitsProcessor):
    """Lowers a beam's score by β (Σ_i max(coverage_i, 1) - S) for repeated copying (Aksenov 2020, section 6.3).

    The coverage of a source position is the sum of the copy distributions so far. Each step subtracts the growth of the
    penalty, including the step's own copy distribution; the steps add up to the penalty of the whole text. All
    continuations of a beam lose the same amount: the penalty ranks beams, and has no effect on a single one.
    """

    # whether a row's scores depend on that row only
    is_by_row = True

    def __init__(self, penalty: float):
        self.penalty = penalty
        self._growth: torch.Tensor | None = None

    def observe(self, coverage: torch.Tensor, step: torch.Tensor) -> None:
        """Record the coverage (R, S) including the step to be scored, and that step's copy distribution (R, S)."""
        self._growth = coverage_growth(coverage, step)

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        return scores - self.penalty * self._growth[:, None].to(scores.device, scores.dtype)
