"""Where in the source the next subword is copied from."""

import torch
from torch import nn
from transformers.cache_utils import EncoderDecoderCache


class CopyAttention(nn.Module):
    """A single-head attention on top of the decoder, whose weights are the copy distribution (thesis, section 6.3).

    Args:
        width: of the decoder's output and of the source.
        layer_index: place in the cross-attention cache.
    """

    def __init__(self, width: int, layer_index: int):
        super().__init__()
        self.layer_index = layer_index
        self.scaling = width**-0.5
        self.q_proj = nn.Linear(width, width)
        self.k_proj = nn.Linear(width, width)

    def forward(
        self,
        hidden_states: torch.Tensor,
        source: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        past_key_values: EncoderDecoderCache | None = None,
    ) -> torch.Tensor:
        """Queries (R, T, C) and source (B, S, C), R a multiple of B -> weights (R, T, S), each row summing to one.

        `attention_mask` (B, 1, 1, S) is true where there is a token.
        """
        rows, length, width = hidden_states.shape
        documents = source.shape[0]
        queries = self.q_proj(hidden_states).view(documents, -1, width)
        scores = queries @ self._keys(source, past_key_values).transpose(1, 2) * self.scaling
        if attention_mask is not None:
            scores = scores.masked_fill(~attention_mask[:, 0], torch.finfo(scores.dtype).min)
        weights = scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32))
        return weights.view(rows, length, -1)

    def _keys(self, source, past_key_values) -> torch.Tensor:
        if past_key_values is not None and past_key_values.is_updated.get(self.layer_index):
            return past_key_values.cross_attention_cache.layers[self.layer_index].keys[:, 0]
        keys = self.k_proj(source)
        if past_key_values is not None:
            # the cache holds heads of keys and values: here one head, and values of no width
            past_key_values.cross_attention_cache.update(keys[:, None], keys[:, None, :, :0], self.layer_index)
            past_key_values.is_updated[self.layer_index] = True
        return keys
