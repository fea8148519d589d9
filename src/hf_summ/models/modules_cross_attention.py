"""Multi-head attention from the decoder to the source, which is kept once a document however many beams it has."""

import torch
from torch import nn
from transformers.cache_utils import EncoderDecoderCache
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS


def eager_attention_forward(module, query, key, value, attention_mask, scaling, dropout=0.0, **kwargs):
    """Softmax attention with its weights: (…, Q, D) from (…, K, D); the mask is added to the scores."""
    weights = query @ key.transpose(2, 3) * scaling
    if attention_mask is not None:
        weights = weights + attention_mask
    weights = nn.functional.softmax(weights, dim=-1, dtype=torch.float32).to(query.dtype)
    weights = nn.functional.dropout(weights, dropout, module.training)
    return (weights @ value).transpose(1, 2).contiguous(), weights


class CrossAttention(nn.Module):
    """Multi-head attention to the encoder's output (Vaswani et al. 2017), through transformers' attention interface.

    The decoder's rows may be a multiple of the documents: consecutive rows are then beams (or samples) of one document,
    and attend as further queries of it.
    """

    def __init__(self, config, width: int, num_heads: int, dropout: float, layer_index: int):
        super().__init__()
        # transformers' attention functions read the implementation, and some of them more, from the config
        self.config = config
        self.num_heads = num_heads
        self.head_width = width // num_heads
        self.scaling = self.head_width**-0.5
        self.dropout = dropout
        self.is_causal = False
        self.layer_index = layer_index
        self.q_proj = nn.Linear(width, width)
        self.k_proj = nn.Linear(width, width)
        self.v_proj = nn.Linear(width, width)
        self.out_proj = nn.Linear(width, width)

    def forward(
        self,
        hidden_states: torch.Tensor,
        source: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        past_key_values: EncoderDecoderCache | None = None,
        **kwargs,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Queries (R, T, C) and source (B, S, C), R a multiple of B -> (R, T, C) and weights (R, H, T, S) or None."""
        rows, length, width = hidden_states.shape
        documents = source.shape[0]
        queries = self._heads(self.q_proj(hidden_states).view(documents, -1, width))
        keys, values = self._source_keys_and_values(source, past_key_values)
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager_attention_forward)
        dropout = self.dropout if self.training else 0.0
        context, weights = attend(
            self, queries, keys, values, attention_mask, dropout=dropout, scaling=self.scaling, **kwargs
        )
        if weights is not None:
            weights = weights.unflatten(2, (rows // documents, length)).transpose(1, 2).flatten(0, 1)
        return self.out_proj(context.reshape(rows, length, width)), weights

    def _heads(self, states: torch.Tensor) -> torch.Tensor:
        return states.unflatten(-1, (self.num_heads, self.head_width)).transpose(1, 2)

    def _source_keys_and_values(self, source, past_key_values):
        if past_key_values is not None and past_key_values.is_updated.get(self.layer_index):
            layer = past_key_values.cross_attention_cache.layers[self.layer_index]
            return layer.keys, layer.values
        keys, values = self._heads(self.k_proj(source)), self._heads(self.v_proj(source))
        if past_key_values is not None:
            keys, values = past_key_values.cross_attention_cache.update(keys, values, self.layer_index)
            past_key_values.is_updated[self.layer_index] = True
        return keys, values
