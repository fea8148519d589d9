"""Copying: attention to the source's subwords, the mixture of copying and generation, and a penalty on repetition."""

from collections.abc import Callable

import torch
from torch import nn
from torch.nn.functional import logsigmoid
from transformers import LogitsProcessor
from transformers.cache_utils import EncoderDecoderCache

from .generation_rules import coverage_growth
from .layers_transformer import product_of_rows


def copy_log_probs(
    logits: torch.Tensor, gate_logits: torch.Tensor, copy_attention: torch.Tensor, source_ids: torch.Tensor
) -> torch.Tensor:
    """log p(w), with p(w) = (1 - c) softmax(logits)_w + c Σ_{i: x_i = w} a_i, c = σ(gate) (Aksenov 2020, equation 4.3).

    The smallest normal number is the floor of the probability of copying: finite logits yield finite log-probabilities
    and gradients, even with a saturated gate.

    Args:
        logits: (R, T, V), of generation; R is a multiple of B, and a document's beams are consecutive rows.
        gate_logits: (R, T), of copying.
        copy_attention: (R, T, S), each row a distribution over the source, zero at padding.
        source_ids: (B, S), below V.

    Returns:
        (R, T, V), float64 if the logits are, otherwise float32.
    """
    (rows, length, vocabulary), documents = logits.shape, source_ids.shape[0]
    dtype = torch.promote_types(logits.dtype, torch.float32)
    gate_logits = gate_logits.to(dtype)[..., None]
    log_probs = logits.log_softmax(-1, dtype=dtype)
    shift = logsigmoid(-gate_logits)
    # without gradients, where speed matters most, work in place
    log_probs = log_probs + shift if torch.is_grad_enabled() else log_probs.add_(shift)

    # one row per document, expanded over its beams and their positions without a copy
    first = first_positions(source_ids, vocabulary)
    is_first = first == torch.arange(first.shape[1], device=first.device)
    first, is_first, source_ids = (
        ids[:, None, None].expand(-1, rows // documents, length, -1).reshape(rows, length, -1)
        for ids in (first, is_first, source_ids)
    )
    generated = log_probs.gather(-1, source_ids)
    copied = log_copy_probs(gate_logits, _widened(copy_attention, dtype), first)
    gains = (torch.logaddexp(generated, copied) - generated).masked_fill(~is_first, 0.0)
    if torch.is_grad_enabled():
        return log_probs.scatter_add(-1, source_ids, gains)
    return log_probs.scatter_add_(-1, source_ids, gains)


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
