"""Highlight-Transformer: its encoder attends more to key phrases (Liu et al. 2021; docs/equations.md, section 3).

Each key phrase has an importance. Some heads of some of the encoder's layers, called lit, attend more within the
phrases. A token is called lit if it is in a phrase.

Shapes: B documents, S source positions, P phrases, R rows of lit tokens, H heads of D channels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import torch
from torch import nn
from transformers.utils import logging
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from .configuration_highlight_transformer import HighlightTransformerConfig
from .layers_transformer import SelfAttention, is_symbolic
from .modeling_base import SummarizationPreTrainedModel
from .modeling_copying import CopyEncoderOutput, CopyingForConditionalGeneration, CopyingModel, with_inputs_of
from .modeling_transformer import CopyingDecoder
from .modeling_transformer_encoder import CopyingEncoder

logger = logging.get_logger(__name__)


@dataclass
class LitRows:
    """The rows of lit tokens in the highlighting matrix H (S, S); the other rows of H are zero.

    An entry of H is the importance of the phrases that two positions share. All documents have R rows, as many as the
    document with the most lit tokens. So another document also has rows of tokens that are not lit.

    Attributes:
        rows: (B, R), the positions of the rows' tokens, without repetitions.
        bias: (B, R, S), α H.
        shares: (B, R, S), whether the row's token and a position share a phrase.
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
    """The rows of lit tokens, or None if no token is lit.

    Each phrase adds its importance to the block of H whose rows and columns are its positions. Where phrases overlap,
    their importance adds up.

    Args:
        starts, ends: (B, P), the phrases' positions, with exclusive ends; an empty phrase is padding.
        values: (B, P), the phrases' importance.
        alpha: the brightness factor α.
        length: S.
        attention_mask: (B, S), 1 at tokens; padding is never lit.
        dtype: the dtype of the bias.

    Raises:
        ValueError: the tensors of phrases differ in shape, or a phrase ends behind the source.
    """
    if not starts.shape == ends.shape == values.shape:
        shapes = f"{tuple(starts.shape)}, {tuple(ends.shape)}, {tuple(values.shape)}"
        raise ValueError(f"`phrase_starts`, `phrase_ends` and `phrase_values` must have one shape, but have {shapes}")
    positions = torch.arange(length, device=starts.device)
    # (B, P, S), whether a position is in a phrase
    is_inside = (positions >= starts[..., None]) & (positions < ends[..., None])
    if attention_mask is not None:
        is_inside = is_inside & attention_mask[:, None].bool()
    is_lit = is_inside.any(1)
    if is_symbolic(is_lit):
        # the number of lit tokens is unknown, so all positions are rows
        rows = positions.expand_as(is_lit)
    else:
        if bool((ends > length).any()):
            raise ValueError(f"a phrase ends at {int(ends.max())}, but the source has only {length} tokens")
        lit_tokens = int(is_lit.sum(1).max())
        if lit_tokens == 0:
            return None
        rows = is_lit.byte().argsort(dim=1, descending=True, stable=True)[:, :lit_tokens]
    columns = is_inside.to(torch.promote_types(dtype, torch.float32))
    # (B, R, P), whether a row's token is in a phrase
    row_phrases = columns.gather(2, rows[:, None].expand(-1, columns.shape[1], -1)).transpose(1, 2)
    brightness = alpha * values.to(columns.dtype)
    bias = (row_phrases * brightness[:, None]) @ columns
    shares = row_phrases @ columns > 0
    return LitRows(rows, bias.to(dtype), shares, is_lit.gather(1, rows))


class HeadRun(NamedTuple):
    """Consecutive heads that are all lit or all not lit."""

    is_lit: bool
    heads: int


class HighlightSelfAttention(SelfAttention):
    """Self-attention whose lit heads attend more within key phrases.

    Args:
        highlighting: the attention of the lit heads. `weighted` is softmax(QKᵀ/√d + α H) (equation 2). `additive` is
            the mean of plain self-attention and of the softmax of α H over the positions that share a phrase with the
            query (equation 4). `replacement` is this softmax alone, and uniform attention for tokens outside phrases.
        lit_heads: indices of the lit heads.
    """

    def __init__(self, *args, highlighting: str, lit_heads: Sequence[int], **kwargs):
        super().__init__(*args, **kwargs)
        self.highlighting = highlighting
        # the heads of a run are computed together: they are views of all heads, while indexing would copy heads and
        # gradients
        self.runs = []
        are_lit = [head in lit_heads for head in range(self.num_heads)]
        for is_lit, run in groupby(are_lit):
            self.runs.append(HeadRun(is_lit, heads=len(list(run))))

    def forward(self, hidden_states, attention_mask=None, lit: LitRows | None = None, **kwargs):
        """As `SelfAttention`, with the rows of lit tokens, or None if no token is lit."""
        queries, keys, values = self._project(hidden_states)
        context, weights = self.attend(queries, keys, values, attention_mask, lit, **kwargs)
        return self.out_proj(context.flatten(2)), weights

    def attend(self, queries, keys, values, attention_mask=None, lit: LitRows | None = None, **kwargs):
        """Attend by the heads' highlighting.

        Args:
            queries, keys, values: (B, H, S, D).
            attention_mask: (B, 1, 1, S), true at tokens; None if there is no padding.
            lit: the rows of lit tokens, or None if no token is lit.

        Returns:
            The context (B, S, H, D), and the weights (B, H, S, S) or None.
        """
        if lit is None and self.highlighting != "replacement":
            return self._attend(queries, keys, values, attention_mask, **kwargs)
        sizes = [run.heads for run in self.runs]
        run_queries = queries.split(sizes, dim=1)
        run_keys = keys.split(sizes, dim=1)
        run_values = values.split(sizes, dim=1)
        contexts, weights = [], []
        for index, run in enumerate(self.runs):
            heads = run_queries[index], run_keys[index], run_values[index]
            if run.is_lit:
                run_context, run_weights = self._highlight(*heads, attention_mask, lit, **kwargs)
            else:
                run_context, run_weights = self._attend(*heads, attention_mask, **kwargs)
            contexts.append(run_context)
            weights.append(run_weights)
        context = torch.cat(contexts, dim=2)
        if weights[0] is None:
            return context, None
        weights = torch.cat(weights, dim=1)
        if torch.is_grad_enabled():
            # gradients reach the returned weights only if the context is computed from them
            context = (weights @ values).transpose(1, 2)
        return context, weights

    def _highlight(self, queries, keys, values, attention_mask, lit: LitRows | None, **kwargs):
        """As `attend`, for h heads that are all lit.

        All rows of the attention are computed without highlighting. Then the rows of lit tokens replace their rows.
        """
        context, weights = self._attend(queries, keys, values, attention_mask, **kwargs)
        if self.highlighting == "replacement":
            context, weights = self._uniform_attention(weights, values, attention_mask)
        if lit is None:
            return context, weights
        heads, width, length = values.shape[1], values.shape[3], keys.shape[2]
        # the positions of the rows, as indices of contexts (B, R, h, D) and of weights (B, h, R, S)
        context_index = lit.rows[:, :, None, None].expand(-1, -1, heads, width)
        weight_index = lit.rows[:, None, :, None].expand(-1, heads, -1, length)
        if self.highlighting == "weighted":
            lit_queries = queries.gather(2, context_index.transpose(1, 2))
            mask = lit.bias[:, None]
            if attention_mask is not None:
                mask = mask.masked_fill(~attention_mask, torch.finfo(mask.dtype).min)
            lit_context, lit_weights = self._attend(lit_queries, keys, values, mask, **kwargs)
        else:
            scores = lit.bias.masked_fill(~lit.shares, torch.finfo(lit.bias.dtype).min)
            lit_weights = scores.softmax(-1)[:, None].expand_as(weight_index)
            lit_weights = nn.functional.dropout(lit_weights, self.dropout, self.training)
            lit_context = (lit_weights @ values).transpose(1, 2)
            # rows of tokens that are not lit keep their attention
            plain_context = context.gather(1, context_index)
            mixed_context = self._mixed(plain_context, lit_context)
            lit_context = torch.where(lit.is_lit[:, :, None, None], mixed_context, plain_context)
            if weights is not None:
                plain_weights = weights.gather(2, weight_index)
                mixed_weights = self._mixed(plain_weights, lit_weights)
                lit_weights = torch.where(lit.is_lit[:, None, :, None], mixed_weights, plain_weights)
        if weights is not None:
            weights = weights.scatter(2, weight_index, lit_weights)
        return context.scatter(1, context_index, lit_context), weights

    def _mixed(self, plain: torch.Tensor, within_phrases: torch.Tensor) -> torch.Tensor:
        """The contexts or weights of `additive` or `replacement` highlighting.

        Args:
            plain: the contexts or weights of plain attention.
            within_phrases: the contexts or weights of attention within phrases.
        """
        if self.highlighting == "additive":
            return (plain + within_phrases) / 2
        return within_phrases

    def _uniform_attention(self, weights, values, attention_mask):
        """Contexts (B, S, h, D) and weights (B, h, S, S) of equal attention to all tokens, for tokens outside phrases.

        `weights` are the weights of plain attention. If they are None, the returned weights are None too.
        """
        length = values.shape[2]
        is_token = attention_mask
        if is_token is None:
            is_token = torch.ones_like(values[:, :1, None, :, 0])
        # a document without tokens must not divide by zero
        tokens = is_token.sum(-1, keepdim=True).clamp(min=1)
        uniform = is_token.to(values.dtype) / tokens.to(values.dtype)
        context = (uniform @ values).transpose(1, 2).expand(-1, length, -1, -1)
        if weights is None:
            return context, None
        return context, uniform.expand_as(weights)


class HighlightTransformerPreTrainedModel(SummarizationPreTrainedModel):
    """Base of the Highlight-Transformer models."""

    config_class = HighlightTransformerConfig
    _no_split_modules = ["TransformerEncoderLayer", "TransformerDecoderLayer"]


class HighlightTransformerEncoder(HighlightTransformerPreTrainedModel, CopyingEncoder):
    """Encodes the source with attention to its key phrases."""

    @staticmethod
    def self_attention(config: HighlightTransformerConfig, layer_index: int) -> SelfAttention:
        """A layer's self-attention, with highlighting if the layer is one of the config's lit layers."""
        if layer_index not in config.layers_that_highlight:
            return CopyingEncoder.self_attention(config, layer_index)
        return HighlightSelfAttention(
            config,
            config.d_model,
            config.num_heads,
            config.attention_dropout,
            highlighting=config.highlighting,
            lit_heads=config.heads_that_highlight,
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
        """`input_ids` and `attention_mask` (B, S), phrases (B, P) -> last_hidden_state (B, S, C) and source_ids.

        Raises:
            ValueError: only some of the arguments of phrases are given, or as `lit_rows`.
        """
        words = self.embed(input_ids, inputs_embeds)
        phrases = [tensor for tensor in (phrase_starts, phrase_ends, phrase_values) if tensor is not None]
        if len(phrases) not in (0, 3):
            raise ValueError("`phrase_starts`, `phrase_ends` and `phrase_values` belong together: give all, or none")
        lit_layers = self.config.layers_that_highlight
        lit = None
        if lit_layers and phrases:
            starts, ends, values = phrases
            lit = lit_rows(starts, ends, values, self.config.alpha, words.shape[1], attention_mask, words.dtype)
        elif lit_layers and not torch.compiler.is_compiling():
            # scripts may have the tokenizer alone, or may pass on `input_ids` and `attention_mask` alone
            logger.warning_once("nothing is highlighted, as no `phrase_starts` are given: use the model's processor")
        layer_arguments = {index: {"lit": lit} for index in lit_layers}
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
            ValueError: as `CopyingForConditionalGeneration.forward`; or one of the arguments of phrases is missing, the
                arguments differ in shape, or a phrase ends beyond the source.
        """
        phrases = {"phrase_starts": phrase_starts, "phrase_ends": phrase_ends, "phrase_values": phrase_values}
        return super().forward(*args, **phrases, **kwargs)


__all__ = [
    "HighlightTransformerForConditionalGeneration",
    "HighlightTransformerModel",
    "HighlightTransformerPreTrainedModel",
]
