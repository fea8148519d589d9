"""Convolutional self-attention as a layer, in the place of full self-attention."""

import torch
from torch import nn

from .functional_windowed_attention import windowed_attention


class ConvolutionalSelfAttention(nn.Module):
    """Multi-head self-attention within a window of positions and of neighbouring heads (thesis section 4.2.1).

    Args:
        width: C, divisible by the number of heads.
        num_heads: H.
        window_size: M + 1 positions that a query sees, odd.
        head_window_size: N + 1 heads that a query sees, odd; 1 is one-dimensional.
        circular: whether the heads' window goes on from the last head to the first.
        dropout: share of the attention weights dropped in training.
    """

    def __init__(
        self, width: int, num_heads: int, window_size: int, head_window_size: int, circular: bool, dropout: float
    ):
        super().__init__()
        self.num_heads = num_heads
        self.window_size = window_size
        self.head_window_size = head_window_size
        self.circular = circular
        self.dropout = dropout
        self.q_proj = nn.Linear(width, width)
        self.k_proj = nn.Linear(width, width)
        self.v_proj = nn.Linear(width, width)
        self.out_proj = nn.Linear(width, width)

    def forward(
        self, hidden_states: torch.Tensor, attention_mask: torch.Tensor | None = None, **kwargs
    ) -> tuple[torch.Tensor, None]:
        """(B, S, C), and (B, 1, 1, S), true for real tokens -> (B, S, C); there are no weights to return."""
        padding_mask = None if attention_mask is None else attention_mask[:, 0, 0]
        context = windowed_attention(
            self._heads(self.q_proj(hidden_states)),
            self._heads(self.k_proj(hidden_states)),
            self._heads(self.v_proj(hidden_states)),
            self.window_size,
            self.head_window_size,
            self.circular,
            padding_mask,
            self.dropout,
            self.training,
        )
        return self.out_proj(context.transpose(1, 2).flatten(2)), None

    def _heads(self, states: torch.Tensor) -> torch.Tensor:
        return states.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
