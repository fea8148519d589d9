"""What the decoder attends to: one representation made of all encoder layers (GDLF, section 3.3)."""

import torch
from torch import nn

# positions that are fused at a time in inference
_POSITIONS = 128


class DeepLayerFusion(nn.Module):
    """LN(W2 GELU(W1 Σ_l h_l)), without a residual connection (GDLF, equation 4)."""

    def __init__(self, width: int, inner_width: int):
        super().__init__()
        self.inner = nn.Linear(width, inner_width)
        self.outer = nn.Linear(inner_width, width)
        self.layer_norm = nn.LayerNorm(width)

    def forward(self, layers: list[torch.Tensor]) -> torch.Tensor:
        """The encoder layers' outputs, each (B, S, C) -> (B, S, C)"""
        total = sum(layers[1:], start=layers[0])
        if torch.is_grad_enabled():
            return self._fuse(total)
        # the inner width is thirty times the model's: without gradients to keep it for, a part at a time is enough
        return torch.cat([self._fuse(part) for part in total.split(_POSITIONS, dim=1)], dim=1)

    def _fuse(self, total: torch.Tensor) -> torch.Tensor:
        return self.layer_norm(self.outer(nn.functional.gelu(self.inner(total))))


class Aggregation(nn.Module):
    """One node of hierarchical aggregation: LN(W2 σ(W1 [a; b; …]) + a + b + …) (GDLF, equations 2 and 3)."""

    def __init__(self, width: int, inputs: int):
        super().__init__()
        # four times the concatenated width gives the paper's parameter counts
        self.inner = nn.Linear(inputs * width, 4 * inputs * width)
        self.outer = nn.Linear(4 * inputs * width, width)
        self.layer_norm = nn.LayerNorm(width)

    def forward(self, inputs: list[torch.Tensor]) -> torch.Tensor:
        """Each (B, S, C) -> (B, S, C)"""
        aggregated = self.outer(self.inner(torch.cat(inputs, dim=-1)).sigmoid())
        return self.layer_norm(aggregated + sum(inputs))


class HierarchicalAggregation(nn.Module):
    """Hierarchical layer aggregation (Dou et al. 2018), GDLF's equation 1: a chain of nodes, two layers to a node.

    Each node also takes the node before; the last one takes a single layer when their number is odd.
    """

    def __init__(self, width: int, num_layers: int):
        super().__init__()
        sizes = [min(2, num_layers - first) for first in range(0, num_layers, 2)]
        self.nodes = nn.ModuleList(
            Aggregation(width, size if position == 0 else size + 1) for position, size in enumerate(sizes)
        )

    def forward(self, layers: list[torch.Tensor]) -> torch.Tensor:
        """The encoder layers' outputs, each (B, S, C) -> (B, S, C)"""
        aggregated: list[torch.Tensor] = []
        for position, node in enumerate(self.nodes):
            aggregated = [node(aggregated + layers[2 * position : 2 * position + 2])]
        return aggregated[0]
