"""The Transformer's encoder and decoder, for architectures that copy by its attention."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import nn
from transformers.cache_utils import DynamicLayer
from transformers.masking_utils import create_causal_mask
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .layers_copying import CopyAttention, summed_coverage
from .layers_transformer import (
    CrossAttention,
    InputLayer,
    SelfAttention,
    TokenShift,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
    cache_argument,
    source_padding_mask,
    stack_norm,
)
from .modeling_base import DecoderStateLayer, SummarizationPreTrainedModel, make_decoder_cache
from .modeling_copying import CopyDecoderOutput


class CopyingEncoder(SummarizationPreTrainedModel):
    """A Transformer encoder with trained word embeddings.

    Subclasses define `forward`, which calls `encode`, and may override `self_attention`.

    Args:
        config: has `encoder_layers`, `token_shift`, `activation_dropout`, optionally `activation`, and the settings of
            `InputLayer` and `TransformerEncoderLayer`.
        embed_tokens: the word embedding.
    """

    _can_record_outputs = {
        "hidden_states": TransformerEncoderLayer,
        "attentions": OutputRecorder(SelfAttention, index=1, layer_name="self_attention"),
    }

    def __init__(self, config, embed_tokens: nn.Embedding):
        super().__init__(config)
        self.embed_tokens = embed_tokens
        self.token_shift = TokenShift(config.d_model, config.d_model) if config.token_shift else None
        self.input_layer = InputLayer(config)
        self.layers = nn.ModuleList(
            TransformerEncoderLayer(config, self.self_attention(config, index), **_feed_forward_settings(config))
            for index in range(config.encoder_layers)
        )
        self.layer_norm = stack_norm(config)
        self.gradient_checkpointing = False
        self.post_init()

    @staticmethod
    def self_attention(config, layer_index: int) -> SelfAttention:
        """A layer's self-attention."""
        return SelfAttention(config, config.d_model, config.num_heads, config.attention_dropout)

    def encode(
        self,
        words: torch.Tensor,
        attention_mask: torch.Tensor | None,
        layer_arguments: Mapping[int, Mapping[str, Any]] = MappingProxyType({}),
        **kwargs,
    ) -> tuple[torch.Tensor, list]:
        """Embeddings (B, S, C) -> the output (B, S, C), and further outputs of the last layer's self-attention.

        Args:
            layer_arguments: index of a layer -> further arguments of its self-attention, without gradients.
        """
        if self.token_shift is not None:
            words = words + self.token_shift(words, attention_mask)
        hidden_states = self.input_layer(words)
        source_mask = source_padding_mask(attention_mask)
        further: list = []
        for index, layer in enumerate(self.layers):
            hidden_states, *further = layer(hidden_states, source_mask, **layer_arguments.get(index, {}), **kwargs)
        return self.layer_norm(hidden_states), further


def _feed_forward_settings(config) -> dict[str, Any]:
    """Settings of the layers' feed-forward network."""
    return {"activation": getattr(config, "activation", "relu"), "activation_dropout": config.activation_dropout}


class CopyingDecoder(SummarizationPreTrainedModel):
    """A Transformer decoder that also returns, for each position, a copy distribution over the source.

    `copy_attention` selects that distribution: the weights of a separate attention on top of the layers (`separate`),
    of the first head of the last layer's cross-attention (`first_head`), or the mean over its heads (`mean`).

    Args:
        config: has `decoder_layers`, `copy`, `copy_attention`, `activation_dropout`, optionally `activation`, and the
            settings of `InputLayer` and `TransformerDecoderLayer`.
        embed_tokens: maps ids (R, T) to (R, T, C).
    """

    _can_record_outputs = {
        "hidden_states": TransformerDecoderLayer,
        "attentions": OutputRecorder(SelfAttention, index=1, layer_name="self_attention"),
        "cross_attentions": OutputRecorder(CrossAttention, index=1, layer_name="cross_attention"),
    }

    def __init__(self, config, embed_tokens: nn.Module):
        super().__init__(config)
        self.embed_tokens = embed_tokens
        self.input_layer = InputLayer(config)
        self.layers = nn.ModuleList(
            TransformerDecoderLayer(
                config, index, **_feed_forward_settings(config), attention_class=self.attention_class(config, index)
            )
            for index in range(config.decoder_layers)
        )
        self.layer_norm = stack_norm(config)
        if config.copy and config.copy_attention == "separate":
            self.copy_attention = CopyAttention(config.d_model, layer_index=config.decoder_layers)
        self.gradient_checkpointing = False
        self.post_init()

    @staticmethod
    def attention_class(config, layer_index: int) -> type[CrossAttention]:
        """The class of a layer's cross-attention."""
        return CrossAttention

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        encoder_hidden_states=None,
        encoder_attention_mask=None,
        cache=None,
        inputs_embeds=None,
        use_cache=None,
        source_scores=None,
        **kwargs,
    ):
        """`input_ids` (R, T), R = B · beams; `encoder_hidden_states` (B, S, C) -> last_hidden_state (R, T, C).

        Also copy_attentions (R, T, S) and coverage (R, S), their sum since the first position; both are None in
        training if the model does not copy. `source_scores` (B, S) are passed to the cross-attentions.
        """
        inputs_embeds = self.embed(input_ids, inputs_embeds)
        if use_cache and cache is None:
            # the last layer of the cache holds the coverage
            cache = make_decoder_cache([*(DynamicLayer() for _ in self.layers), DecoderStateLayer()])
        own_cache = None if cache is None else cache.self_attention_cache
        hidden_states = self.input_layer(inputs_embeds, seen=0 if own_cache is None else cache.get_seq_length())
        causal_mask = create_causal_mask(
            config=self.config, inputs_embeds=hidden_states, attention_mask=attention_mask, **cache_argument(own_cache)
        )
        source_mask = source_padding_mask(encoder_attention_mask)
        # without copying, only decoding needs the coverage
        has_coverage = self.config.copy or not self.training
        reads_last_layer = has_coverage and not (self.config.copy and self.config.copy_attention == "separate")
        context = weights = None
        for index, layer in enumerate(self.layers, start=1):
            hidden_states, context, weights = layer(
                hidden_states,
                encoder_hidden_states,
                source_scores,
                causal_mask=causal_mask,
                source_mask=source_mask,
                cache=cache,
                needs_weights=reads_last_layer and index == len(self.layers),
                **kwargs,
            )
        hidden_states = self.layer_norm(hidden_states)
        copy_attentions = coverage = None
        if has_coverage:
            copy_attentions = self._copy_attentions(hidden_states, weights, encoder_hidden_states, source_mask, cache)
            coverage = summed_coverage(copy_attentions, attention_mask)
            if own_cache is not None:
                coverage = own_cache.layers[-1].accumulate("coverage", coverage)
        if own_cache is not None:
            own_cache.layers[-1].advance(inputs_embeds.shape[1])
        return CopyDecoderOutput(
            last_hidden_state=hidden_states,
            **cache_argument(cache),
            copy_attentions=copy_attentions,
            copy_gate_logits=self._copy_gate_logits(inputs_embeds, hidden_states, context),
            coverage=coverage,
        )

    def _copy_gate_logits(self, words, hidden_states, context) -> torch.Tensor | None:
        """The logits (R, T) of copying, for decoders that compute them from more than the output; here None.

        Args:
            words: (R, T, C), embeddings.
            hidden_states: (R, T, C), the output.
            context: (R, T, C), of the last layer's cross-attention.
        """
        return None

    def _copy_attentions(self, hidden_states, weights, source, source_mask, cache) -> torch.Tensor:
        """The copy distributions (R, T, S), from the layers' output or the last layer's weights (R, H, T, S)."""
        config = self.config
        if config.copy and config.copy_attention == "separate":
            return self.copy_attention(hidden_states, source, source_mask, cache)
        return weights.mean(1) if config.copy and config.copy_attention == "mean" else weights[:, 0]
