"""Layers of the Transformer (Vaswani et al. 2017), normalised after each sub-layer."""

from torch import nn
from transformers.modeling_layers import GradientCheckpointingLayer

from .modules_attention import CrossAttention, SelfAttention
from .modules_feed_forward import FeedForward


class TransformerEncoderLayer(GradientCheckpointingLayer):
    """s = LN(h + attention), h' = LN(s + FFN(s)); dropout on what is added.

    Args:
        config: has `d_model`, `ffn_dim` and `dropout`.
        self_attention: from (B, S, C) and a mask (B, 1, 1, S) to (B, S, C) and weights or None.
    """

    def __init__(self, config, self_attention: nn.Module):
        super().__init__()
        self.self_attention = self_attention
        self.self_attention_norm = nn.LayerNorm(config.d_model)
        self.feed_forward = FeedForward(config.d_model, config.ffn_dim)
        self.feed_forward_norm = nn.LayerNorm(config.d_model)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, hidden_states, source_mask=None, **kwargs):
        """(B, S, C) -> (B, S, C)."""
        outputs, _ = self.self_attention(hidden_states, source_mask, **kwargs)
        hidden_states = self.self_attention_norm(hidden_states + self.dropout(outputs))
        outputs = self.feed_forward(hidden_states)
        return self.feed_forward_norm(hidden_states + self.dropout(outputs))


class TransformerDecoderLayer(GradientCheckpointingLayer):
    """As the encoder's, but causal, and with attention to the source between self-attention and feed-forward network.

    Args:
        config: has `d_model`, `num_heads`, `ffn_dim`, `dropout` and `attention_dropout`.
        layer_index: place in the cache.
        needs_weights: whether the weights of the attention to the source are returned whatever its implementation.
    """

    def __init__(self, config, layer_index: int, needs_weights: bool = False):
        super().__init__()
        settings = (config, config.d_model, config.num_heads, config.attention_dropout, layer_index)
        self.self_attention = SelfAttention(*settings, is_causal=True)
        self.self_attention_norm = nn.LayerNorm(config.d_model)
        self.cross_attention = CrossAttention(*settings, needs_weights=needs_weights)
        self.cross_attention_norm = nn.LayerNorm(config.d_model)
        self.feed_forward = FeedForward(config.d_model, config.ffn_dim)
        self.feed_forward_norm = nn.LayerNorm(config.d_model)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, hidden_states, source, causal_mask=None, source_mask=None, past_key_values=None, **kwargs):
        """(R, T, C) of R = B · beams rows, source (B, S, C) -> (R, T, C), and weights (R, H, T, S) or None."""
        outputs, _ = self.self_attention(hidden_states, causal_mask, past_key_values=past_key_values, **kwargs)
        hidden_states = self.self_attention_norm(hidden_states + self.dropout(outputs))
        outputs, weights = self.cross_attention(
            hidden_states, source, attention_mask=source_mask, past_key_values=past_key_values, **kwargs
        )
        hidden_states = self.cross_attention_norm(hidden_states + self.dropout(outputs))
        outputs = self.feed_forward(hidden_states)
        return self.feed_forward_norm(hidden_states + self.dropout(outputs)), weights
