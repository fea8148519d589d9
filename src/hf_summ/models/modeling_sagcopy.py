"""SAGCopy: copying follows the centrality of source words (Xu et al. 2020; docs/equations.md, section 5).

The graph of a document has its tokens as nodes. Its edges are the weights of the encoder's last self-attention,
averaged over heads, from which `centrality` computes how central each token is. Each row of this attention A has the
weights of a query; the paper's D is the transpose of A.

Shapes: B documents, S source positions, T positions of the summary, H heads of D channels, Q queries in a chunk.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from transformers import initialization as init
from transformers.utils.generic import maybe_autocast, merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from .checks import IGNORED_LABEL
from .configuration_sagcopy import SagCopyConfig
from .layers_transformer import CrossAttention, SelfAttention, eager_attention_forward, needs_plain_operations
from .modeling_base import SummarizationPreTrainedModel
from .modeling_copying import (
    CopyEncoderOutput,
    CopyingForConditionalGeneration,
    CopyingModel,
    CopyModelOutput,
    CopySummarizationOutput,
)
from .modeling_transformer import CopyingDecoder
from .modeling_transformer_encoder import CopyingEncoder

# the largest number of queries in a chunk of attention
_CHUNK_QUERIES = 200
# the largest number of weights in a chunk, which limits its documents; a single document may have more
_CHUNK_WEIGHTS = 2**20


def centrality(weights: torch.Tensor, is_token: torch.Tensor, measure: str, damping: float = 1.0) -> torch.Tensor:
    """The centrality of source tokens, (B, S): a distribution over each document's tokens.

    The outdegree (equation 16) is the attention that a token receives, divided by the number of tokens: Aᵀ1 / n. The
    paper calls it so because the edges of its graph, D = Aᵀ, leave the token that is attended to. The indegree
    (equations 13 to 15) is the distribution of a random walk after some rounds from a uniform start. In each round, the
    walk moves along these edges, from a token to one that attends to it: s ← A (s / Aᵀ1). A document without tokens has
    zeros.

    Args:
        weights: (B, S, S), the attention A; each token's row sums to one over tokens.
        is_token: (B, S), false at padding, whose attention does not count.
        measure: `outdegree`, or `indegree-2` for the indegree after two rounds, and likewise for other numbers.
        damping: weight of the new scores in each round after the first; the old scores have the remaining weight.
    """
    # a product with zeros for padding takes less memory than masking the weights
    is_present = is_token.to(weights.dtype)
    tokens = is_present.sum(1, keepdim=True).clamp(min=1)
    received = (is_present[:, None] @ weights)[:, 0]
    if measure == "outdegree":
        return received / tokens
    scores = is_present / tokens
    # a token that receives no attention must not divide by zero
    divisors = received.clamp(min=torch.finfo(received.dtype).tiny)
    rounds = int(measure.removeprefix("indegree-"))
    for index in range(rounds):
        shares = (scores / divisors)[..., None]
        new_scores = (weights @ shares)[..., 0] * is_present
        if index == 0:
            scores = new_scores
        else:
            scores = damping * new_scores + (1.0 - damping) * scores
    return scores


def guidance_divergence(
    copy_attentions: torch.Tensor, labels: torch.Tensor, centralities: torch.Tensor
) -> torch.Tensor:
    """The divergence KL(mean_t a_t ‖ p) of a document's mean copy distribution from the centrality (equation 18), (B,).

    A document without tokens has no centrality, and a divergence of zero.

    Args:
        copy_attentions: (B, T, S), a; positions of the summary without a label do not count.
        labels: (B, T).
        centralities: (B, S), p.
    """
    dtype = torch.promote_types(copy_attentions.dtype, torch.float32)
    counts = (labels != IGNORED_LABEL).to(dtype)[..., None]
    mean = (copy_attentions.to(dtype) * counts).sum(1) / counts.sum(1).clamp(min=1)
    # at zero, the gradient of a logarithm would be infinite
    tiny = torch.finfo(dtype).tiny
    log_mean = mean.clamp(min=tiny).log()
    log_centralities = centralities.to(dtype).clamp(min=tiny).log()
    divergence = (mean * (log_mean - log_centralities)).sum(-1)
    return divergence.masked_fill(centralities.sum(-1) == 0, 0.0)


class _ChunkSettings(NamedTuple):
    """How to compute attention in chunks.

    Attributes:
        attention_mask: (B, 1, 1, S), true at tokens; None if there is no padding.
        scaling: factor of the scores.
        dropout: share of the weights that are dropped.
        seed: seed of the random numbers of dropout; None without dropout.
    """

    attention_mask: torch.Tensor | None
    scaling: float
    dropout: float
    seed: int | None


class _Chunk(NamedTuple):
    """The weights of some queries of some documents.

    Attributes:
        weights: (b, H, Q, S), before dropout.
        dropout_factors: (b, H, Q, S), zero for dropped weights; None without dropout.
        document_slice: selects the chunk's documents among all B.
        query_slice: selects the chunk's queries among the S queries of a document.
    """

    weights: torch.Tensor
    dropout_factors: torch.Tensor | None
    document_slice: slice
    query_slice: slice


def attention_with_mean(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    dropout: float = 0.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Softmax attention and the mean of its weights over heads, without storing the weights of all heads.

    The weights of one chunk of queries at a time are computed, and computed again in the backward pass.

    Args:
        queries, keys, values: (B, H, S, D).
        attention_mask: (B, 1, 1, S), true at tokens; None if there is no padding.
        scaling: factor of the products of queries and keys.
        dropout: share of the weights that are dropped. The mean is taken before dropout.

    Returns:
        The context (B, S, H, D), and the mean weights (B, S, S), at least float32.
    """
    seed = None
    if dropout:
        # gradient checkpointing restores the state of this generator, so both of its passes drop the same weights
        seed = int(torch.randint(2**62, ()))
    settings = _ChunkSettings(attention_mask, scaling, dropout, seed)
    with torch.autocast(queries.device.type, enabled=False):
        if torch.is_grad_enabled():
            context, mean = _AttentionWithMean.apply(queries, keys, values, settings)
        else:
            context, mean = _attend_in_chunks(queries, keys, values, settings)
    return context.transpose(1, 2), mean


def _attend_in_chunks(
    queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, settings: _ChunkSettings
) -> tuple[torch.Tensor, torch.Tensor]:
    """The context (B, H, S, D) and the mean weights (B, S, S) of queries, keys and values (B, H, S, D)."""
    context = torch.empty_like(queries)
    mean = queries.new_empty(len(queries), queries.shape[2], keys.shape[2], dtype=_precise(queries.dtype))
    for weights, dropout_factors, document_slice, query_slice in _chunks(queries, keys, settings):
        mean[document_slice, query_slice] = weights.mean(1)
        if dropout_factors is not None:
            weights.mul_(dropout_factors)
        context[document_slice, :, query_slice] = weights.to(values.dtype) @ values[document_slice]
    return context, mean


def _chunks(queries: torch.Tensor, keys: torch.Tensor, settings: _ChunkSettings) -> Iterator[_Chunk]:
    """Yield the chunks of the attention of queries to keys, (B, H, S, D) each."""
    batch, heads, length, _ = queries.shape
    dtype = _precise(queries.dtype)
    generator = None
    if settings.seed is not None:
        generator = torch.Generator(queries.device).manual_seed(settings.seed)
    weights_of_document = heads * min(length, _CHUNK_QUERIES) * keys.shape[2]
    documents_at_once = max(_CHUNK_WEIGHTS // weights_of_document, 1)
    for first_document in range(0, batch, documents_at_once):
        document_slice = slice(first_document, first_document + documents_at_once)
        for first_query in range(0, length, _CHUNK_QUERIES):
            query_slice = slice(first_query, first_query + _CHUNK_QUERIES)
            chunk_queries = queries[document_slice, :, query_slice] * settings.scaling
            scores = chunk_queries @ keys[document_slice].transpose(2, 3)
            if settings.attention_mask is not None:
                scores.masked_fill_(~settings.attention_mask[document_slice], torch.finfo(scores.dtype).min)
            scores = scores.to(dtype)
            # the weights overwrite the scores
            weights = torch.softmax(scores, -1, out=scores)
            dropout_factors = None
            if generator is not None:
                drawn = torch.rand(weights.shape, dtype=dtype, device=weights.device, generator=generator)
                dropout_factors = (drawn >= settings.dropout).to(dtype).div_(1.0 - settings.dropout)
            yield _Chunk(weights, dropout_factors, document_slice, query_slice)


def _precise(dtype: torch.dtype) -> torch.dtype:
    """The dtype itself, or float32 if the dtype is less precise than float32."""
    return torch.promote_types(dtype, torch.float32)


class _AttentionWithMean(torch.autograd.Function):
    """`_attend_in_chunks` with its gradients, for which it stores queries, keys and values only."""

    @staticmethod
    def forward(ctx, queries, keys, values, settings):
        ctx.save_for_backward(queries, keys, values)
        ctx.settings = settings
        return _attend_in_chunks(queries, keys, values, settings)

    @staticmethod
    @once_differentiable
    def backward(ctx, context_gradient, mean_gradient):
        queries, keys, values = ctx.saved_tensors
        scaling = ctx.settings.scaling
        query_gradient = queries.new_zeros(queries.shape)
        key_gradient = keys.new_zeros(keys.shape)
        value_gradient = values.new_zeros(values.shape)
        for weights, dropout_factors, document_slice, query_slice in _chunks(queries, keys, ctx.settings):
            chunk_gradient = context_gradient[document_slice, :, query_slice]
            dropped = weights
            if dropout_factors is not None:
                dropped = weights * dropout_factors
            dropped = dropped.to(chunk_gradient.dtype)
            _add_product(value_gradient[document_slice], dropped.transpose(2, 3), chunk_gradient)
            weight_gradient = (chunk_gradient @ values[document_slice].transpose(2, 3)).to(weights.dtype)
            if dropout_factors is not None:
                weight_gradient *= dropout_factors
            heads = weights.shape[1]
            weight_gradient += mean_gradient[document_slice, None, query_slice] / heads
            score_gradient = _softmax_gradient(weight_gradient, weights).to(queries.dtype)
            query_gradient[document_slice, :, query_slice] = (score_gradient @ keys[document_slice]).mul_(scaling)
            chunk_queries = queries[document_slice, :, query_slice] * scaling
            _add_product(key_gradient[document_slice], score_gradient.transpose(2, 3), chunk_queries)
        return query_gradient, key_gradient, value_gradient, None


def _softmax_gradient(weight_gradient: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """The gradient of the scores of a softmax over the last dimension; it overwrites the gradient of the weights."""
    backward = torch.ops.aten._softmax_backward_data.out
    return backward(weight_gradient, weights, -1, weights.dtype, grad_input=weight_gradient)


def _add_product(total: torch.Tensor, first: torch.Tensor, second: torch.Tensor) -> None:
    """Add the product `first @ second` to `total` without a temporary tensor; each has the dimensions (b, H, …, …)."""
    total.flatten(0, 1).baddbmm_(first.flatten(0, 1), second.flatten(0, 1))


class GraphSelfAttention(SelfAttention):
    """Self-attention that also returns the mean of its weights over heads, from which centrality is computed."""

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        """(B, S, C) -> (B, S, C), the weights (B, H, S, S) or None, and their mean over heads (B, S, S)."""
        queries, keys, values = self._project(hidden_states)
        dropout = self.dropout if self.training else 0.0
        # `onnx_runtime` is the implementation for exported graphs
        is_eager = self.config._attn_implementation in ("eager", "onnx_runtime")
        if is_eager or needs_plain_operations(hidden_states):
            # the weights have the precision of the values, and half precision would round small weights to zero
            precise_values = values.to(_precise(values.dtype))
            context, weights = eager_attention_forward(
                self, queries, keys, precise_values, attention_mask, self.scaling, dropout
            )
            mean = weights.mean(1)
            context, weights = context.to(values.dtype), weights.to(values.dtype)
        else:
            weights = None
            context, mean = attention_with_mean(queries, keys, values, attention_mask, self.scaling, dropout)
        return self.out_proj(context.flatten(2)), weights, mean


class GuidedCrossAttention(CrossAttention):
    """Cross-attention guided by the centrality of source words (equation 17).

    The scores are (W_s s)ᵀ (W_h h_i + w_p centrality_i) / √d: the centrality shifts the keys, which are computed once
    per document. At first w_p is zero, so that a model that starts from a pre-trained one attends as it did.
    """

    def __init__(self, config, width: int, *args, **kwargs):
        super().__init__(config, width, *args, **kwargs)
        self.centrality_weight = nn.Parameter(torch.zeros(width))

    def forward(self, hidden_states, source, source_scores=None, **kwargs):
        """As `CrossAttention`; `source_scores` (B, S) are centralities, whose mean over a document's tokens is one.

        Raises:
            ValueError: `source_scores` is None, as the encoder's output has no centralities.
        """
        if source_scores is None:
            raise ValueError("guided copying needs `encoder_outputs` as the model's encoder returns them")
        return super().forward(hidden_states, source, source_scores=source_scores, **kwargs)

    def _source_keys(self, source: torch.Tensor, source_scores: torch.Tensor) -> torch.Tensor:
        keys = self.k_proj(source)
        return keys + (source_scores[..., None] * self.centrality_weight).to(keys.dtype)


@dataclass
class SagCopyEncoderOutput(CopyEncoderOutput):
    """`CopyEncoderOutput` with the centrality of the source's words.

    Attributes:
        centrality: (B, S), a distribution over each document's tokens, at least float32.
    """

    centrality: torch.Tensor | None = None


@dataclass
class SagCopyModelOutput(CopyModelOutput):
    """`CopyModelOutput` with the centrality of the source's words; see `SagCopyEncoderOutput`."""

    centrality: torch.Tensor | None = None


@dataclass
class SagCopyOutput(CopySummarizationOutput):
    """`CopySummarizationOutput` with the centrality of the source's words; see `SagCopyEncoderOutput`."""

    centrality: torch.Tensor | None = None


class SagCopyPreTrainedModel(SummarizationPreTrainedModel):
    """Base of the SAGCopy models."""

    config_class = SagCopyConfig
    _no_split_modules = ["TransformerEncoderLayer", "TransformerDecoderLayer"]

    @torch.no_grad()
    def _init_weights(self, module):
        super()._init_weights(module)
        if isinstance(module, GuidedCrossAttention):
            init.zeros_(module.centrality_weight)


class SagCopyEncoder(SagCopyPreTrainedModel, CopyingEncoder):
    """Encodes the source, and computes each word's centrality."""

    @staticmethod
    def self_attention(config: SagCopyConfig, layer_index: int) -> SelfAttention:
        """Create a layer's self-attention. The words' centrality is computed from the attention of the last layer."""
        if not config.is_guided or layer_index < config.encoder_layers - 1:
            return CopyingEncoder.self_attention(config, layer_index)
        return GraphSelfAttention(config, config.d_model, config.num_heads, config.attention_dropout)

    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, attention_mask=None, inputs_embeds=None, **kwargs):
        """`input_ids` and `attention_mask` (B, S) -> last_hidden_state (B, S, C), source_ids and centrality (B, S)."""
        words = self.embed(input_ids, inputs_embeds)
        hidden_states, attention_outputs = self.encode(words, attention_mask, **kwargs)
        centralities = None
        if self.config.is_guided:
            # the outputs of `GraphSelfAttention` behind the hidden states
            _, mean_weights = attention_outputs
            is_token = attention_mask
            if is_token is None:
                is_token = torch.ones_like(mean_weights[:, 0])
            # in half precision, small weights would become zero, and a token without attention would lose its score
            with maybe_autocast(mean_weights.device.type, enabled=False):
                centralities = centrality(
                    mean_weights, is_token, self.config.centrality, self.config.centrality_damping
                )
        return SagCopyEncoderOutput(last_hidden_state=hidden_states, source_ids=input_ids, centrality=centralities)


class SagCopyDecoder(SagCopyPreTrainedModel, CopyingDecoder):
    """A `CopyingDecoder` with a guided last cross-attention and the gate of equation 8."""

    def __init__(self, config: SagCopyConfig, embed_tokens: nn.Embedding):
        super().__init__(config, embed_tokens)
        self.copy_gate = nn.Linear(3 * config.d_model, 1) if config.copy else None

    @staticmethod
    def attention_class(config: SagCopyConfig, layer_index: int) -> type[CrossAttention]:
        """The class of a layer's cross-attention. With guidance, the cross-attention of the last layer is guided."""
        is_last = layer_index == config.decoder_layers - 1
        if config.is_guided and is_last:
            return GuidedCrossAttention
        return CrossAttention

    def _copy_gate_logits(self, words, hidden_states, context):
        """The logits (R, T) of copying, where positive means to copy (equation 8); None if the model does not copy.

        Args:
            words: (R, T, C), the embeddings of the decoder's input words.
            hidden_states: (R, T, C), of the decoder.
            context: (R, T, C), the output of the last layer's cross-attention, a weighted mean of the source.
        """
        if self.copy_gate is None:
            return None
        return self.copy_gate(torch.cat((context, hidden_states, words), dim=-1))[..., 0]


class SagCopyModel(SagCopyPreTrainedModel, CopyingModel):
    """SAGCopy's encoder and decoder, which share their embedding."""

    encoder_class, decoder_class = SagCopyEncoder, SagCopyDecoder
    encoder_output_class = SagCopyEncoderOutput
    output_class = SagCopyModelOutput

    def _decoder_inputs(self, encoder_outputs, attention_mask) -> dict[str, Any]:
        """The centralities (B, S) for the guided cross-attention, scaled; nothing if copying is not guided."""
        centralities = getattr(encoder_outputs, "centrality", None)
        if not self.config.is_guided or centralities is None:
            return {}
        if attention_mask is None:
            tokens = centralities.shape[1]
        else:
            tokens = attention_mask.sum(-1, keepdim=True)
        # scaled to a mean of one, centralities do not depend on the document's length
        return {"source_scores": centralities * tokens}


class SagCopyForConditionalGeneration(SagCopyPreTrainedModel, CopyingForConditionalGeneration):
    """SAGCopy with its output: a softmax over the vocabulary, tied to the embedding and mixed with copying.

    If centrality guides copying, the loss is the NLL plus λ times the divergence of the mean copy distribution from the
    centrality (equation 18), and `loss_parts` has both without λ.
    """

    output_class = SagCopyOutput
    _tied_weights_keys = {"lm_head.weight": "model.shared.weight"}

    def __init__(self, config: SagCopyConfig):
        super().__init__(config)
        self.model = SagCopyModel(config)
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=config.output_bias)
        self.post_init()

    def _score(self, outputs, inputs, labels, num_items_in_batch, skip_logits) -> dict[str, Any]:
        """As the base's, with the guidance in `loss` and `loss_parts` if centrality guides copying."""
        scored = super()._score(outputs, inputs, labels, num_items_in_batch, skip_logits)
        if labels is None or not self.config.is_guided:
            return scored
        tokens = (labels != IGNORED_LABEL).sum(-1)
        divergence = guidance_divergence(outputs.copy_attentions, labels, outputs.centrality)
        if self.config.guidance_sum == "tokens":
            divergence = divergence * tokens
        if num_items_in_batch is None:
            num_items_in_batch = tokens.sum().clamp(min=1)
        # each document may have a divisor, (B, 1), so the division comes before the sum
        guidance = (divergence[:, None] / num_items_in_batch).sum()
        loss = scored["loss"] + self.config.guidance_weight * guidance
        loss_parts = scored["loss_parts"] | {"guidance": guidance.detach()}
        return scored | {"loss": loss, "loss_parts": loss_parts}


__all__ = ["SagCopyForConditionalGeneration", "SagCopyModel", "SagCopyPreTrainedModel"]
