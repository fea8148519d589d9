"""A Transformer's encoder, for architectures that copy by attention to the source."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import nn
from transformers.utils.output_capturing import OutputRecorder

from .layers_transformer import (
    InputLayer,
    SelfAttention,
    TokenShift,
    TransformerEncoderLayer,
    source_padding_mask,
    stack_norm,
)
from .modeling_base import SummarizationPreTrainedModel
from .modeling_transformer import activation_of


class CopyingEncoder(SummarizationPreTrainedModel):
    """A Transformer encoder with trained word embeddings.

    Subclasses define `forward`, which calls `encode`, and may override `self_attention` to have another attention.

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
        self.layers = nn.ModuleList()
        for index in range(config.encoder_layers):
            attention = self.self_attention(config, index)
            layer = TransformerEncoderLayer(config, attention, activation_of(config), config.activation_dropout)
            self.layers.append(layer)
        self.layer_norm = stack_norm(config)
        self.gradient_checkpointing = False
        self.post_init()

    @staticmethod
    def self_attention(config, layer_index: int) -> SelfAttention:
        """Create the self-attention of the layer with this index."""
        return SelfAttention(config, config.d_model, config.num_heads, config.attention_dropout)

    def encode(
        self,
        words: torch.Tensor,
        attention_mask: torch.Tensor | None,
        layer_arguments: Mapping[int, Mapping[str, Any]] = MappingProxyType({}),
        **kwargs,
    ) -> tuple[torch.Tensor, list]:
        """Encode word embeddings.

        Args:
            words: (B, S, C), embeddings.
            attention_mask: (B, S), 1 at tokens.
            layer_arguments: index of a layer -> further arguments of its self-attention, without gradients.

        Returns:
            The encoder's output (B, S, C), and a list of what the last layer's self-attention returns besides its
            output, such as its weights.
        """
        if self.token_shift is not None:
            words = words + self.token_shift(words, attention_mask)
        hidden_states = self.input_layer(words)
        source_mask = source_padding_mask(attention_mask)
        further_outputs: list = []
        for index, layer in enumerate(self.layers):
            arguments = layer_arguments.get(index, {})
            hidden_states, *further_outputs = layer(hidden_states, source_mask, **arguments, **kwargs)
        return self.layer_norm(hidden_states), further_outputs
