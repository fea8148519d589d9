"""A Transformer's decoder, for architectures that copy by attention to the source."""

import torch
from torch import nn
from transformers.cache_utils import CacheLayerMixin, DynamicLayer
from transformers.masking_utils import create_causal_mask
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .layers_copying import CopyAttention, summed_coverage
from .layers_transformer import (
    CrossAttention,
    InputLayer,
    SelfAttention,
    TransformerDecoderLayer,
    source_padding_mask,
    stack_norm,
)
from .modeling_base import DecoderStateLayer, SummarizationPreTrainedModel, make_decoder_cache
from .modeling_copying import CopyDecoderOutput


def activation_of(config) -> str:
    """The name of the activation inside feed-forward networks."""
    return getattr(config, "activation", "relu")


class CopyingDecoder(SummarizationPreTrainedModel):
    """A Transformer decoder that also returns, for each position, a copy distribution over the source.

    The config's `copy_attention` selects the copy distribution. With `separate`, it is the weights of another attention
    on top of the layers. With `first_head`, it is the weights of the first head of the last layer's cross-attention,
    and with `mean` it is the mean over all heads of this cross-attention.

    Subclasses may override `attention_class` and `_copy_gate_logits`.

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
        self.layers = nn.ModuleList()
        for index in range(config.decoder_layers):
            attention_class = self.attention_class(config, index)
            layer = TransformerDecoderLayer(
                config, index, activation_of(config), config.activation_dropout, attention_class
            )
            self.layers.append(layer)
        self.layer_norm = stack_norm(config)
        self.has_separate_attention = config.copy and config.copy_attention == "separate"
        if self.has_separate_attention:
            self.copy_attention = CopyAttention(config.d_model, layer_index=config.decoder_layers)
        self.gradient_checkpointing = False
        self.post_init()

    @staticmethod
    def attention_class(config, layer_index: int) -> type[CrossAttention]:
        """The class of the cross-attention of the layer with this index."""
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

        The output also has copy_attentions (R, T, S) and coverage (R, S), their sum since the first position. Both are
        None in training if the model does not copy. `source_scores` (B, S) are passed to the cross-attentions.
        """
        inputs_embeds = self.embed(input_ids, inputs_embeds)
        if use_cache and cache is None:
            layers: list[CacheLayerMixin] = [DynamicLayer() for _ in self.layers]
            # the last layer of the cache holds the coverage
            layers.append(DecoderStateLayer())
            cache = make_decoder_cache(layers)
        decoder_cache, seen = None, 0
        if cache is not None:
            decoder_cache, seen = cache.self_attention_cache, cache.get_seq_length()
        hidden_states = self.input_layer(inputs_embeds, seen)
        causal_mask = create_causal_mask(
            config=self.config, inputs_embeds=hidden_states, attention_mask=attention_mask, cache=decoder_cache
        )
        source_mask = source_padding_mask(encoder_attention_mask)
        # a model that does not copy needs the coverage only for decoding
        has_coverage = self.config.copy or not self.training
        reads_last_layer = has_coverage and not self.has_separate_attention
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
            if self.has_separate_attention:
                copy_attentions = self.copy_attention(hidden_states, encoder_hidden_states, source_mask, cache)
            else:
                copy_attentions = self._copy_attentions(weights)
            coverage = summed_coverage(copy_attentions, attention_mask, cache)
        if decoder_cache is not None:
            decoder_cache.layers[-1].advance(inputs_embeds.shape[1])
        return CopyDecoderOutput(
            last_hidden_state=hidden_states,
            cache=cache,
            copy_attentions=copy_attentions,
            copy_gate_logits=self._copy_gate_logits(inputs_embeds, hidden_states, context),
            coverage=coverage,
        )

    def _copy_gate_logits(self, words, hidden_states, context) -> torch.Tensor | None:
        """The logits (R, T) of copying, for decoders that compute them from more than their output; None here.

        Args:
            words: (R, T, C), embeddings.
            hidden_states: (R, T, C), the decoder's output.
            context: (R, T, C), the output of the last layer's cross-attention.
        """
        return None

    def _copy_attentions(self, weights) -> torch.Tensor:
        """The copy distributions (R, T, S) from the weights (R, H, T, S) of the last layer's cross-attention.

        A model that does not copy gets the weights of the first head, from which the coverage is computed.
        """
        if self.config.copy and self.config.copy_attention == "mean":
            return weights.mean(1)
        return weights[:, 0]
