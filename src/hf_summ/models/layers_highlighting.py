"""Highlighting attention: self-attention that attends more within key phrases (Liu et al. 2021, section 3)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from .layers_transformer import SelfAttention

HIGHLIGHTINGS = ("weighted", "additive", "replacement", "none")


@dataclass
class LitRows:
    """The rows of the highlighting matrix H that are not zero, which alone differ from plain attention.

    A token is lit if it is in a phrase. Documents with fewer lit tokens than others have rows of other tokens too.

    Attributes:
        rows: (B, R), the rows' positions, each once.
        bias: (B, R, S), α H.
        shares: (B, R, S), whether two positions share a phrase.
        is_lit: (B, R), whether the row's token is lit.
    """

    rows: torch.Tensor
    bias: torch.Tensor
    shares: torch.Tensor
    is_lit: torch.Tensor


def lit_rows(
    starts: torch.Tensor,
    ends: torch.Tensor,
    values: torch.Tensor,
    alpha: float,
    length: int,
    attention_mask: torch.Tensor | None,
    dtype: torch.dtype,
) -> LitRows | None:
    """The rows of lit tokens, or None if there are none.

    H is block diagonal: each phrase adds its value to the block of its own positions, and blocks that overlap add up.

    Args:
        starts, ends: (B, P), the phrases' first positions, and those after their last; an empty one is padding.
        values: (B, P).
        alpha: the brightness factor.
        length: S.
        attention_mask: (B, S), 1 at tokens; padding is never lit.
        dtype: of the bias.

    Raises:
        ValueError: the three have different shapes, or a phrase ends beyond the source.
    """
    if not starts.shape == ends.shape == values.shape:
        raise ValueError(
            f"`phrase_starts`, `phrase_ends` and `phrase_values` have the shapes {tuple(starts.shape)}, "
            f"{tuple(ends.shape)} and {tuple(values.shape)}, but must have one: (documents, phrases)"
        )
    positions = torch.arange(length, device=starts.device)
    inside = (positions >= starts[..., None]) & (positions < ends[..., None])
    if attention_mask is not None:
        inside = inside & attention_mask[:, None].bool()
    lit = inside.any(1)
    if torch.compiler.is_compiling():
        # the number of lit tokens depends on the documents, so all rows are computed
        number = length
    else:
        if bool((ends > length).any()):
            raise ValueError(f"a phrase ends at {int(ends.max())}, but the source has only {length} tokens")
        number = int(lit.sum(1).max())
        if not number:
            return None
    rows = lit.byte().argsort(dim=1, descending=True, stable=True)[:, :number]
    inside = inside.to(torch.promote_types(dtype, torch.float32))
    own = inside.gather(2, rows[:, None].expand(-1, inside.shape[1], -1)).transpose(1, 2)
    bias = (own * (alpha * values.to(inside.dtype))[:, None]) @ inside
    return LitRows(rows, bias.to(dtype), own @ inside > 0, lit.gather(1, rows))


class HighlightSelfAttention(SelfAttention):
    """Self-attention whose lit heads attend more within key phrases; without phrases, it is plain.

    Args:
        highlighting: `weighted`, softmax(QKᵀ/√d + α H) (equation 2); `additive`, half plain attention and half the
            softmax of α H over the positions that share a phrase (equation 4); `replacement`, that softmax alone, and
            all tokens alike where a token shares no phrase.
        lit_heads: numbers of the lit heads.
    """

    def __init__(self, *args, highlighting: str, lit_heads: Sequence[int], **kwargs):
        super().__init__(*args, **kwargs)
        self.highlighting = highlighting
        self.lit_heads = list(lit_heads)

    def forward(self, hidden_states, attention_mask=None, lit: LitRows | None = None, **kwargs):
        """As `SelfAttention`, with the rows of lit tokens."""
        queries, keys, values = (
            self._heads(projection(hidden_states)) for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        context, weights = self.attend(queries, keys, values, attention_mask, lit, **kwargs)
        return self.out_proj(context.flatten(2)), weights

    def attend(self, queries, keys, values, attention_mask=None, lit: LitRows | None = None, **kwargs):
        """Queries, keys and values (B, H, S, D) -> (B, S, H, D) and weights (B, H, S, S) or None."""
        context, weights = self._attend(queries, keys, values, attention_mask, **kwargs)
        if self.highlighting == "replacement":
            context, weights = self._average(context, weights, values, attention_mask)
        if lit is not None:
            context, weights = self._highlight(context, weights, queries, keys, values, attention_mask, lit)
        return context, weights

    def _highlight(self, context, weights, queries, keys, values, attention_mask, lit: LitRows):
        """Replace the rows of lit tokens in the lit heads of the context (B, S, H, D) and weights (B, H, S, S)."""
        heads = torch.tensor(self.lit_heads, device=context.device)
        documents = torch.arange(len(context), device=context.device)[:, None, None]
        # (B, R, lit heads), where they stand in the context
        places = documents, lit.rows[:, :, None], heads[None, None]
        values = values[:, self.lit_heads]
        needs_weights = weights is not None
        if self.highlighting == "weighted":
            own = queries[:, self.lit_heads].gather(2, self._per_head(lit.rows, queries.shape[-1]))
            mask = lit.bias[:, None]
            if attention_mask is not None:
                mask = mask.masked_fill(~attention_mask, torch.finfo(mask.dtype).min)
            made, own_weights = self._attend(own, keys[:, self.lit_heads], values, mask, needs_weights)
        else:
            scores = lit.bias.masked_fill(~lit.shares, torch.finfo(lit.bias.dtype).min)
            own_weights = scores.softmax(-1)[:, None].expand(-1, len(self.lit_heads), -1, -1)
            dropped = nn.functional.dropout(own_weights, self.dropout, self.training)
            made = (dropped @ values).transpose(1, 2)
            plain = context[places]
            if self.highlighting == "additive":
                made = (plain + made) / 2
                if needs_weights:
                    own_weights = (weights[documents, heads[None, :, None], lit.rows[:, None]] + own_weights) / 2
            made = torch.where(lit.is_lit[:, :, None, None], made, plain)
            if needs_weights:
                plain_weights = weights[documents, heads[None, :, None], lit.rows[:, None]]
                own_weights = torch.where(lit.is_lit[:, None, :, None], own_weights, plain_weights)
        if needs_weights:
            weights = weights.index_put((documents, heads[None, :, None], lit.rows[:, None]), own_weights)
        return context.index_put(places, made), weights

    def _average(self, context, weights, values, attention_mask):
        """In the lit heads, attention to all tokens alike: the rows of tokens that share no phrase."""
        values = values[:, self.lit_heads]
        is_token = torch.ones_like(values[:, :1, None, :, 0]) if attention_mask is None else attention_mask
        alike = is_token.to(values.dtype) / is_token.sum(-1, keepdim=True).to(values.dtype)
        mean = (alike @ values).transpose(1, 2).expand(-1, context.shape[1], -1, -1)
        heads = torch.tensor(self.lit_heads, device=context.device)
        context = context.index_copy(2, heads, mean)
        if weights is not None:
            same = alike.expand(-1, len(self.lit_heads), weights.shape[2], -1)
            weights = weights.index_copy(1, heads, same)
        return context, weights

    def _per_head(self, rows: torch.Tensor, width: int) -> torch.Tensor:
        return rows[:, None, :, None].expand(-1, len(self.lit_heads), -1, width)
