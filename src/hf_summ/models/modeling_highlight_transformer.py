"""Highlight-Transformer: its encoder attends more to key phrases (Liu et al. 2021; docs/equations.md, section 3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import nn
from transformers.utils import logging
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from .configuration_highlight_transformer import HighlightTransformerConfig
from .layers_transformer import SelfAttention, is_symbolic
from .modeling_base import SummarizationPreTrainedModel
from .modeling_copying import CopyEncoderOutput, CopyingForConditionalGeneration, CopyingModel, with_inputs_of
from .modeling_transformer import CopyingDecoder, CopyingEncoder

logger = logging.get_logger(__name__)


@dataclass
class LitRows:
    """The nonzero rows of the highlighting matrix H; only these rows differ from plain attention.

    A token is lit if it is in a phrase. Documents with fewer lit tokens than others are filled with unlit rows.

    Attributes:
        rows: (B, R), the rows' positions, without repetitions.
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

    H is block diagonal: each phrase adds its value to the block of its positions, and overlapping blocks add up.

    Args:
        starts, ends: (B, P), the phrases' positions, with exclusive ends; an empty phrase is padding.
        values: (B, P).
        alpha: the brightness factor.
        length: S.
        attention_mask: (B, S), 1 at tokens; padding is never lit.
        dtype: of the bias.
    """
    if not starts.shape == ends.shape == values.shape:
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in (starts, ends, values))
        raise ValueError(f"`phrase_starts`, `phrase_ends` and `phrase_values` must have one shape, but have {shapes}")
    positions = torch.arange(length, device=starts.device)
    inside = (positions >= starts[..., None]) & (positions < ends[..., None])
    if attention_mask is not None:
        inside = inside & attention_mask[:, None].bool()
    lit = inside.any(1)
    if is_symbolic(lit):
        # the number of lit tokens is unknown: compute all rows
        rows = positions.expand_as(lit)
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
            softmax of α H over the positions that share a phrase (equation 4); `replacement`, only that softmax, and
            uniform attention for tokens outside phrases.
        lit_heads: indices of the lit heads.
    """

    def __init__(self, *args, highlighting: str, lit_heads: Sequence[int], **kwargs):
        super().__init__(*args, **kwargs)
        self.highlighting = highlighting
        # runs of lit or unlit heads (whether they are lit, their number), computed together: splits are views, but
        # indexing single heads would copy all heads and their gradients
        self.runs = [
            (is_lit, len(list(run))) for is_lit, run in groupby(head in lit_heads for head in range(self.num_heads))
        ]

    def forward(self, hidden_states, attention_mask=None, lit: LitRows | None = None, **kwargs):
        """As `SelfAttention`, with the rows of lit tokens."""
        queries, keys, values = self._project(hidden_states)
        context, weights = self.attend(queries, keys, values, attention_mask, lit, **kwargs)
        return self.out_proj(context.flatten(2)), weights

    def attend(self, queries, keys, values, attention_mask=None, lit: LitRows | None = None, **kwargs):
        """Queries, keys and values (B, H, S, D) -> (B, S, H, D) and weights (B, H, S, S) or None."""
        if lit is None and self.highlighting != "replacement":
            return self._attend(queries, keys, values, attention_mask, **kwargs)
        sizes = [size for _, size in self.runs]
        runs = zip(*(heads.split(sizes, dim=1) for heads in (queries, keys, values)), strict=True)
        contexts, weights = zip(
            *(
                self._highlight(*run, attention_mask, lit, **kwargs)
                if is_lit
                else self._attend(*run, attention_mask, **kwargs)
                for run, (is_lit, _) in zip(runs, self.runs, strict=True)
            ),
            strict=True,
        )
        return torch.cat(contexts, dim=2), None if weights[0] is None else torch.cat(weights, dim=1)

    def _highlight(self, queries, keys, values, attention_mask, lit: LitRows | None, **kwargs):
        """As `_attend`, for lit heads."""
        context, weights = self._attend(queries, keys, values, attention_mask, **kwargs)
        if self.highlighting == "replacement":
            context, weights = self._average(weights, values, attention_mask)
        if lit is None:
            return context, weights
        # (B, R, h, D) and (B, h, R, S): row indices of the lit tokens
        positions = lit.rows[:, :, None, None].expand(-1, -1, *values.shape[1::2])
        squares = lit.rows[:, None, :, None].expand(-1, values.shape[1], -1, keys.shape[2])
        if self.highlighting == "weighted":
            own = queries.gather(2, positions.transpose(1, 2))
            mask = lit.bias[:, None]
            if attention_mask is not None:
                mask = mask.masked_fill(~attention_mask, torch.finfo(mask.dtype).min)
            lit_context, lit_weights = self._attend(own, keys, values, mask, **kwargs)
        else:
            scores = lit.bias.masked_fill(~lit.shares, torch.finfo(lit.bias.dtype).min)
            lit_weights = scores.softmax(-1)[:, None].expand_as(squares)
            dropped = nn.functional.dropout(lit_weights, self.dropout, self.training)
            lit_context = (dropped @ values).transpose(1, 2)
            plain = context.gather(1, positions)
            lit_context = torch.where(lit.is_lit[:, :, None, None], self._mixed(plain, lit_context), plain)
            if weights is not None:
                plain = weights.gather(2, squares)
                lit_weights = torch.where(lit.is_lit[:, None, :, None], self._mixed(plain, lit_weights), plain)
        if weights is not None:
            weights = weights.scatter(2, squares, lit_weights)
        return context.scatter(1, positions, lit_context), weights

    def _mixed(self, plain: torch.Tensor, phrases: torch.Tensor) -> torch.Tensor:
        """Combine plain attention and attention within phrases, either contexts or weights."""
        return (plain + phrases) / 2 if self.highlighting == "additive" else phrases

    def _average(self, weights, values, attention_mask):
        """Uniform attention to all tokens, in the form of `_attend`, for tokens outside phrases."""
        length = values.shape[2]
        is_token = torch.ones_like(values[:, :1, None, :, 0]) if attention_mask is None else attention_mask
        alike = is_token.to(values.dtype) / is_token.sum(-1, keepdim=True).to(values.dtype)
        mean = (alike @ values).transpose(1, 2).expand(-1, length, -1, -1)
        return mean, None if weights is None else alike.expand_as(weights)


class HighlightTransformerPreTrainedModel(SummarizationPreTrainedModel):
    """Base of the Highlight-Transformer models."""

    config_class = HighlightTransformerConfig
    _no_split_modules = ["TransformerEncoderLayer", "TransformerDecoderLayer"]


class HighlightTransformerEncoder(HighlightTransformerPreTrainedModel, CopyingEncoder):
    """Encodes the source with attention to its key phrases."""

    @staticmethod
    def self_attention(config: HighlightTransformerConfig, layer_index: int) -> SelfAttention:
        """The layer's self-attention, with highlighting if the config lists the layer."""
        if layer_index not in config.layers_that_highlight:
            return CopyingEncoder.self_attention(config, layer_index)
        settings = (config, config.d_model, config.num_heads, config.attention_dropout)
        return HighlightSelfAttention(
            *settings, highlighting=config.highlighting, lit_heads=config.heads_that_highlight
        )

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        inputs_embeds=None,
        phrase_starts=None,
        phrase_ends=None,
        phrase_values=None,
        **kwargs,
    ):
        """`input_ids` and `attention_mask` (B, S), phrases (B, P) -> last_hidden_state (B, S, C) and source_ids."""
        words = self.embed(input_ids, inputs_embeds)
        phrases = [tensor for tensor in (phrase_starts, phrase_ends, phrase_values) if tensor is not None]
        if len(phrases) not in (0, 3):
            raise ValueError("`phrase_starts`, `phrase_ends` and `phrase_values` belong together: give all, or none")
        if not phrases and self.config.layers_that_highlight and not torch.compiler.is_compiling():
            # as in scripts that have the tokenizer alone, or that pass `input_ids` and `attention_mask` by name
            logger.warning_once("nothing is highlighted, as no `phrase_starts` are given: use the model's processor")
        lit = None
        if phrases and self.config.layers_that_highlight:
            lit = lit_rows(*phrases, self.config.alpha, words.shape[1], attention_mask, words.dtype)
        layer_arguments = {index: {"lit": lit} for index in self.config.layers_that_highlight}
        hidden_states, _ = self.encode(words, attention_mask, layer_arguments, **kwargs)
        return CopyEncoderOutput(last_hidden_state=hidden_states, source_ids=input_ids)


class HighlightTransformerDecoder(HighlightTransformerPreTrainedModel, CopyingDecoder):
    """A `CopyingDecoder` with trained word embeddings."""


class HighlightTransformerModel(HighlightTransformerPreTrainedModel, CopyingModel):
    """Highlight-Transformer's encoder and decoder, which share their embedding."""

    encoder_class, decoder_class = HighlightTransformerEncoder, HighlightTransformerDecoder
    source_inputs = ("phrase_starts", "phrase_ends", "phrase_values")


class HighlightTransformerForConditionalGeneration(
    HighlightTransformerPreTrainedModel, CopyingForConditionalGeneration
):
    """Highlight-Transformer with its output: a softmax over the vocabulary, mixed with copying."""

    def __init__(self, config: HighlightTransformerConfig):
        super().__init__(config)
        self.model = HighlightTransformerModel(config)
        self.lm_head = nn.Linear(config.d_model, config.vocab_size)
        if config.copy:
            self.copy_gate = nn.Linear(config.d_model, 1)
        self.post_init()

    @with_inputs_of(CopyingForConditionalGeneration.forward)
    def forward(self, *args, phrase_starts=None, phrase_ends=None, phrase_values=None, **kwargs):
        """As `CopyingForConditionalGeneration.forward`, with key phrases.

        Args:
            phrase_starts, phrase_ends: (B, P), positions in the source, with exclusive ends; an empty phrase is
                padding. Each occurrence of a phrase has its own entry.
            phrase_values: (B, P), the phrases' importance.

        Raises:
            ValueError: as `CopyingForConditionalGeneration.forward`, or some of the three are missing, differ in shape
                or end beyond the source.
        """
        phrases = {"phrase_starts": phrase_starts, "phrase_ends": phrase_ends, "phrase_values": phrase_values}
        return super().forward(*args, **phrases, **kwargs)


__all__ = [
    "HighlightTransformerForConditionalGeneration",
    "HighlightTransformerModel",
    "HighlightTransformerPreTrainedModel",
]
