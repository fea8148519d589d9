"""SAGCopy: copying follows the centrality of source words (Xu et al. 2020; docs/equations.md, section 5)."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import AutoModelForSeq2SeqLM, PreTrainedModel
from transformers import initialization as init
from transformers.utils import logging
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from .checks import PADDING_ROWS
from .configuration_sagcopy import SagCopyConfig
from .layers_guidance import GraphSelfAttention, GuidedCrossAttention, centrality, guidance_divergence
from .layers_transformer import CrossAttention, SelfAttention
from .losses import IGNORED_LABEL
from .modeling_base import SummarizationPreTrainedModel
from .modeling_copying import (
    CopyEncoderOutput,
    CopyingForConditionalGeneration,
    CopyingModel,
    CopyModelOutput,
    CopySummarizationOutput,
)
from .modeling_transformer import CopyingDecoder, CopyingEncoder
from .pretrained_parts import read_config, read_model

logger = logging.get_logger(__name__)

# ordered, as some names contain others
_NAMES_OF_BART = (
    ("embed_positions.weight", "input_layer.positions.table.weight"),
    ("layernorm_embedding", "input_layer.norm"),
    ("self_attn_layer_norm", "self_attention_norm"),
    ("encoder_attn_layer_norm", "cross_attention_norm"),
    ("final_layer_norm", "feed_forward_norm"),
    ("self_attn", "self_attention"),
    ("encoder_attn", "cross_attention"),
    ("fc1", "feed_forward.inner"),
    ("fc2", "feed_forward.outer"),
)


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
        words = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
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
    output_class = SagCopyModelOutput

    def read_encoder_outputs(self, encoder_outputs, input_ids) -> SagCopyEncoderOutput:
        if isinstance(encoder_outputs, (tuple, list)):
            # the entries of a tuple vary with what was recorded
            scores = next(filter(_is_centrality, encoder_outputs), None)
            encoder_outputs = [item for item in encoder_outputs if not _is_centrality(item)]
        else:
            scores = getattr(encoder_outputs, "centrality", None)
        read = super().read_encoder_outputs(encoder_outputs, input_ids)
        return SagCopyEncoderOutput(**{**read, "centrality": scores})

    def _decoder_inputs(self, encoder_outputs, attention_mask) -> dict[str, Any]:
        if not self.config.is_guided or encoder_outputs.centrality is None:
            return {}
        scores = encoder_outputs.centrality
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

    def load_pretrained_parts(self, missing: Collection[str] | None = None, **hub_settings) -> set[str]:
        """Load the weights of the BART named in the config, and log the names of randomly initialized ones.

        Args:
            missing: names of weights that a saved model lacks; if given, nothing is loaded.
            hub_settings: `cache_dir`, `token` and similar arguments of `from_pretrained`.

        Returns:
            The names in `missing`.

        Raises:
            ValueError: the checkpoint cannot be read, lacks weights, or has another vocabulary.
        """
        name = self.config.start_name
        if name is None or missing is not None:
            return set(missing or ())
        start_config = read_config("start_name", name, **hub_settings)
        fits = 0 <= start_config.vocab_size - self.config.vocab_size <= PADDING_ROWS
        special = ("pad_token_id", "eos_token_id")
        if not fits or any(getattr(self.config, key) != getattr(start_config, key) for key in special):
            raise ValueError(
                f"`start_name` is {name!r}, which has {start_config.vocab_size} tokens, but the tokenizer has "
                f"{self.config.vocab_size}, or other special tokens: use the tokenizer that came with it"
            )
        start = read_model(AutoModelForSeq2SeqLM, "start_name", name, start_config, **hub_settings)
        weights = weights_of_bart(start, self.config.vocab_size)
        fresh, unknown = self.load_state_dict(weights, strict=False)
        if unknown:
            raise ValueError(f"`start_name` is {name!r}, but this model has no {unknown[0]} ({len(unknown)} in all)")
        if self.model.encoder.token_shift is not None:
            # like the weight of the centrality: the model begins as what it starts from
            nn.init.zeros_(self.model.encoder.token_shift.projection.weight)
        # tied weights are loaded under another name
        fresh = sorted(set(fresh) - set(self.all_tied_weights_keys))
        logger.info(f"started from {name}; randomly initialized weights: {', '.join(fresh) or 'none'}")
        return set()

    def _score(self, outputs, inputs, labels, num_items_in_batch, skip_logits) -> dict[str, Any]:
        scored = super()._score(outputs, inputs, labels, num_items_in_batch, skip_logits)
        if labels is None or not self.config.is_guided:
            return scored
        tokens = (labels != IGNORED_LABEL).sum(-1)
        divergence = guidance_divergence(outputs.copy_attentions, labels, outputs.centrality)
        if self.config.guidance_sum == "tokens":
            divergence = divergence * tokens
        items = tokens.sum().clamp(min=1) if num_items_in_batch is None else num_items_in_batch
        guidance = divergence.sum() / items
        loss = scored["loss"] + self.config.guidance_weight * guidance
        return {**scored, "loss": loss, "loss_parts": {**scored["loss_parts"], "guidance": guidance.detach()}}


def weights_of_bart(bart: PreTrainedModel, vocab_size: int) -> dict[str, torch.Tensor]:
    """A BART's weights under this architecture's names, with the first `vocab_size` words only."""
    weights = {
        "model.shared.weight": bart.model.shared.weight[:vocab_size],
        "lm_head.weight": bart.model.shared.weight[:vocab_size],
        "lm_head.bias": bart.final_logits_bias[0, :vocab_size],
    }
    for side in ("encoder", "decoder"):
        for name, value in getattr(bart.model, side).state_dict().items():
            if name == "embed_tokens.weight":
                weights[f"model.{side}.{name}"] = value[:vocab_size]
                continue
            if name == "embed_positions.weight":
                # BART never reads its first two rows
                value = value[bart.model.encoder.embed_positions.offset :]
            for theirs, ours in _NAMES_OF_BART:
                name = name.replace(theirs, ours)
            weights[f"model.{side}.{name}"] = value
    return weights


def _is_centrality(item) -> bool:
    return isinstance(item, torch.Tensor) and item.is_floating_point() and item.ndim == 2


__all__ = ["SagCopyForConditionalGeneration", "SagCopyModel", "SagCopyPreTrainedModel"]
