"""Position-wise feed-forward network."""

import torch
from torch import nn


class FeedForward(nn.Module):
    """W2 max(0, x W1 + b1) + b2 (Vaswani et al. 2017, equation 2)."""

    def __init__(self, width: int, inner_width: int):
        super().__init__()
        self.inner = nn.Linear(width, inner_width)
        self.outer = nn.Linear(inner_width, width)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """(…, width) -> (…, width)."""
        return self.outer(nn.functional.relu(self.inner(hidden_states)))
