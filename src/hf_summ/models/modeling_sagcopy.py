"""SAGCopy: copying follows the centrality of source words (Xu et al. 2020; docs/equations.md, section 5).

Centrality is that in the graph of self-attention. Each row of attention A has the weights of a query; the paper's D is
its transpose.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from transformers import initialization as init
from transformers.utils.generic import merge_with_config_defaults
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
from .modeling_transformer import CopyingDecoder, CopyingEncoder

# size of a chunk: number of queries, and number of weights, which limits the documents
_CHUNK_QUERIES, _CHUNK_WEIGHTS = 200, 2**20


def centrality(weights: torch.Tensor, is_token: torch.Tensor, measure: str, damping: float = 1.0) -> torch.Tensor:
    """The centrality of source tokens: a distribution over each document's tokens, (B, S, S) -> (B, S).

    The outdegree (equation 16) is the attention that a token receives, Aᵀ1. The indegree after n rounds (equations 13
    to 15) is the distribution of a random walk with a uniform start. Each round moves from a token to one that attends
    to it: s ← A (s / Aᵀ1). A document without tokens has zeros.

    Args:
        weights: attention; each token's row sums to one over tokens.
        is_token: (B, S), false at padding, which neither sends nor receives.
        measure: `outdegree`, or `indegree-n` with n rounds.
        damping: weight of the new scores in each round after the first; the old ones have the remaining weight.
    """
    # excluding the queries of padding from sums takes less memory than masking the weights
    present = is_token.to(weights.dtype)
    number = present.sum(1, keepdim=True).clamp(min=1)
    received = (present[:, None] @ weights)[:, 0]
    if measure == "outdegree":
        return received / number
    scores = present / number
    received = received.clamp(min=torch.finfo(received.dtype).tiny)
    for turn in range(int(measure.removeprefix("indegree-"))):
        arrived = (weights @ (scores / received)[..., None])[..., 0] * present
        scores = arrived if turn == 0 else damping * arrived + (1.0 - damping) * scores
    return scores


def guidance_divergence(
    copy_attentions: torch.Tensor, labels: torch.Tensor, centralities: torch.Tensor
) -> torch.Tensor:
    """KL(mean_t a_t ‖ p) (B,) of copying a (B, T, S) from centralities p (B, S), at labels (B, T) (equation 18)."""
    dtype = torch.promote_types(copy_attentions.dtype, torch.float32)
    counts = (labels != IGNORED_LABEL).to(dtype)[..., None]
    mean = (copy_attentions.to(dtype) * counts).sum(1) / counts.sum(1).clamp(min=1)
    # at zero the gradients of the logarithms would be infinite
    tiny = torch.finfo(dtype).tiny
    return (mean * (mean.clamp(min=tiny).log() - centralities.to(dtype).clamp(min=tiny).log())).sum(-1)


def attention_with_mean(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    dropout: float = 0.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Softmax attention and the mean of its weights over heads, without storing the weights of all heads.

    Weights are computed for one chunk of queries at a time, and recomputed in the backward pass. Queries, keys and
    values (B, H, S, D), and a mask (B, 1, 1, S), true at tokens, yield the context (B, S, H, D) and the mean weights
    (B, S, S), at least float32. `dropout` acts after the mean.
    """
    # gradient checkpointing restores this generator: both passes drop the same weights
    seed = int(torch.randint(2**62, ())) if dropout else None
    settings = attention_mask, scaling, dropout, seed
    with torch.autocast(queries.device.type, enabled=False):
        if torch.is_grad_enabled():
            context, mean = _AttentionWithMean.apply(queries, keys, values, settings)
        else:
            context, mean = _attend_in_chunks(queries, keys, values, settings)
    return context.transpose(1, 2), mean


def _attend_in_chunks(queries, keys, values, settings) -> tuple[torch.Tensor, torch.Tensor]:
    context = torch.empty_like(queries)
    mean = queries.new_empty(len(queries), queries.shape[2], keys.shape[2], dtype=_precise(queries.dtype))
    for weights, keep, documents, rows in _chunks(queries, keys, settings):
        mean[documents, rows] = weights.mean(1)
        dropped = weights if keep is None else weights.mul_(keep)
        context[documents, :, rows] = dropped.to(values.dtype) @ values[documents]
    return context, mean


def _chunks(queries, keys, settings):
    """Yield weights (b, H, q, S), dropout factors or None, and the slices of documents and queries."""
    attention_mask, scaling, dropout, seed = settings
    (number, heads, length, _), dtype = queries.shape, _precise(queries.dtype)
    generator = None if seed is None else torch.Generator(queries.device).manual_seed(seed)
    step = max(_CHUNK_WEIGHTS // (heads * min(length, _CHUNK_QUERIES) * keys.shape[2]), 1)
    for first in range(0, number, step):
        documents = slice(first, first + step)
        for start in range(0, length, _CHUNK_QUERIES):
            rows = slice(start, start + _CHUNK_QUERIES)
            scores = (queries[documents, :, rows] * scaling) @ keys[documents].transpose(2, 3)
            if attention_mask is not None:
                scores.masked_fill_(~attention_mask[documents], torch.finfo(scores.dtype).min)
            scores = scores.to(dtype)
            # weights overwrite scores
            weights = torch.softmax(scores, -1, out=scores)
            keep = None
            if generator is not None:
                drawn = torch.rand(weights.shape, dtype=dtype, device=weights.device, generator=generator)
                keep = (drawn >= dropout).to(dtype).div_(1.0 - dropout)
            yield weights, keep, documents, rows


def _precise(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)


class _AttentionWithMean(torch.autograd.Function):
    @staticmethod
    def forward(context, queries, keys, values, settings):
        context.save_for_backward(queries, keys, values)
        context.settings = settings
        return _attend_in_chunks(queries, keys, values, settings)

    @staticmethod
    @once_differentiable
    def backward(context, gradient, mean_gradient):
        queries, keys, values = context.saved_tensors
        scaling = context.settings[1]
        gradients = [tensor.new_zeros(tensor.shape) for tensor in (queries, keys, values)]
        query_gradient, key_gradient, value_gradient = gradients
        for weights, keep, documents, rows in _chunks(queries, keys, context.settings):
            outer = gradient[documents, :, rows]
            dropped = weights if keep is None else weights * keep
            _add_product(value_gradient[documents], dropped.to(outer.dtype).transpose(2, 3), outer)
            weight_gradient = (outer @ values[documents].transpose(2, 3)).to(weights.dtype)
            if keep is not None:
                weight_gradient *= keep
            weight_gradient += mean_gradient[documents, None, rows] / weights.shape[1]
            score_gradient = _softmax_gradient(weight_gradient, weights).to(queries.dtype)
            query_gradient[documents, :, rows] = (score_gradient @ keys[documents]).mul_(scaling)
            _add_product(key_gradient[documents], score_gradient.transpose(2, 3), queries[documents, :, rows] * scaling)
        return query_gradient, key_gradient, value_gradient, None


def _softmax_gradient(weight_gradient: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """The gradient of a softmax's scores, over the last dimension; it overwrites the weights' gradient."""
    backward = torch.ops.aten._softmax_backward_data.out
    return backward(weight_gradient, weights, -1, weights.dtype, grad_input=weight_gradient)


def _add_product(total: torch.Tensor, first: torch.Tensor, second: torch.Tensor) -> None:
    """total += first @ second without a temporary tensor, (b, H, …, …) each."""
    total.flatten(0, 1).baddbmm_(first.flatten(0, 1), second.flatten(0, 1))


class GraphSelfAttention(SelfAttention):
    """Self-attention that also returns the mean of its weights over heads, the graph for centrality."""

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        """(B, S, C) -> (B, S, C), weights (B, H, S, S) or None, and their mean over heads (B, S, S)."""
        queries, keys, values = self._project(hidden_states)
        dropout = self.dropout if self.training else 0.0
        weights = None
        # the second is that of exported graphs
        is_eager = self.config._attn_implementation in ("eager", "onnx_runtime")
        if is_eager or needs_plain_operations(hidden_states):
            context, weights = eager_attention_forward(
                self, queries, keys, values, attention_mask, self.scaling, dropout
            )
            mean = weights.to(torch.promote_types(weights.dtype, torch.float32)).mean(1)
        else:
            context, mean = attention_with_mean(queries, keys, values, attention_mask, self.scaling, dropout)
        return self.out_proj(context.flatten(2)), weights, mean


class GuidedCrossAttention(CrossAttention):
    """Cross-attention guided by the centrality of source words (equation 17).

    The scores are (W_s s)ᵀ (W_h h_i + w_p score_i) / √d: the centrality shifts the keys, which are computed once per
    document. w_p is initially zero: a warm start begins with its original attention.
    """

    def __init__(self, config, width: int, *args, **kwargs):
        super().__init__(config, width, *args, **kwargs)
        self.centrality_weight = nn.Parameter(torch.zeros(width))

    def forward(self, hidden_states, source, scores=None, **kwargs):
        """As `CrossAttention`; `scores` (B, S) are the centralities, with a mean of one over a document's tokens."""
        if scores is None:
            raise ValueError("guided copying needs `encoder_outputs` as the model's encoder returns them")
        return super().forward(hidden_states, source, scores=scores, **kwargs)

    def _source_keys(self, source: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        keys = self.k_proj(source)
        return keys + (scores[..., None] * self.centrality_weight).to(keys.dtype)


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
        """The layer's self-attention; that of the last layer is the graph for the words' centrality."""
        if not config.is_guided or layer_index < config.encoder_layers - 1:
            return CopyingEncoder.self_attention(config, layer_index)
        return GraphSelfAttention(config, config.d_model, config.num_heads, config.attention_dropout)

    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, attention_mask=None, inputs_embeds=None, **kwargs):
        """`input_ids` and `attention_mask` (B, S) -> last_hidden_state (B, S, C), source_ids and centrality (B, S)."""
        words = self.embed(input_ids, inputs_embeds)
        hidden_states, (_, *graph) = self.encode(words, attention_mask, **kwargs)
        scores = None
        if graph:
            is_token = torch.ones_like(graph[0][:, 0]) if attention_mask is None else attention_mask
            scores = centrality(graph[0], is_token, self.config.centrality, self.config.centrality_damping)
        return SagCopyEncoderOutput(last_hidden_state=hidden_states, source_ids=input_ids, centrality=scores)


class SagCopyDecoder(SagCopyPreTrainedModel, CopyingDecoder):
    """A `CopyingDecoder` with a guided last cross-attention and the gate of equation 8."""

    def __init__(self, config: SagCopyConfig, embed_tokens: nn.Embedding):
        super().__init__(config, embed_tokens)
        self.copy_gate = nn.Linear(3 * config.d_model, 1) if config.copy else None

    @staticmethod
    def attention_class(config: SagCopyConfig, layer_index: int) -> type[CrossAttention]:
        """The class of a layer's cross-attention."""
        guides = config.is_guided and layer_index == config.decoder_layers - 1
        return GuidedCrossAttention if guides else CrossAttention

    def _copy_gate_logits(self, words, hidden_states, context):
        if self.copy_gate is None:
            return None
        return self.copy_gate(torch.cat((context, hidden_states, words), dim=-1))[..., 0]


class SagCopyModel(SagCopyPreTrainedModel, CopyingModel):
    """SAGCopy's encoder and decoder, which share their embedding."""

    encoder_class, decoder_class = SagCopyEncoder, SagCopyDecoder
    encoder_output_class = SagCopyEncoderOutput
    output_class = SagCopyModelOutput

    def _decoder_inputs(self, encoder_outputs, attention_mask) -> dict[str, Any]:
        scores = getattr(encoder_outputs, "centrality", None)
        if not self.config.is_guided or scores is None:
            return {}
        number = scores.shape[1] if attention_mask is None else attention_mask.sum(-1, keepdim=True)
        # scaled to a mean of one, the scores do not depend on the document's length
        return {"source_scores": scores * number}


class SagCopyForConditionalGeneration(SagCopyPreTrainedModel, CopyingForConditionalGeneration):
    """SAGCopy with its output: a softmax over the vocabulary, tied to the embedding and mixed with copying.

    The loss is the NLL plus, with guidance, the weighted divergence of the mean copy distribution from the centrality
    (equation 18); both are in `loss_parts`.
    """

    output_class = SagCopyOutput
    _tied_weights_keys = {"lm_head.weight": "model.shared.weight"}

    def __init__(self, config: SagCopyConfig):
        super().__init__(config)
        self.model = SagCopyModel(config)
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=config.output_bias)
        self.post_init()

    def _score(self, outputs, inputs, labels, num_items_in_batch, skip_logits) -> dict[str, Any]:
        scored = super()._score(outputs, inputs, labels, num_items_in_batch, skip_logits)
        if labels is None or not self.config.is_guided:
            return scored
        tokens = (labels != IGNORED_LABEL).sum(-1)
        divergence = guidance_divergence(outputs.copy_attentions, labels, outputs.centrality)
        if self.config.guidance_sum == "tokens":
            divergence = divergence * tokens
        items = tokens.sum().clamp(min=1) if num_items_in_batch is None else num_items_in_batch
        # documents may have divisors of their own, (B, 1)
        guidance = (divergence[:, None] / items).sum()
        loss = scored["loss"] + self.config.guidance_weight * guidance
        return {**scored, "loss": loss, "loss_parts": {**scored["loss_parts"], "guidance": guidance.detach()}}


__all__ = ["SagCopyForConditionalGeneration", "SagCopyModel", "SagCopyPreTrainedModel"]
