"""The layers specific to GDLF: gates of its convolutions, and fusion of its encoder layers (Kwon et al. 2021)."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

# positions, of all documents, that are fused at once
_POSITIONS = 512


class OutputGate(nn.Module):
    """The convolution's input: o = (h W1 + b1) ⊙ σ(h W2 + b2) and its variants (GDLF, equations 5, 12 to 14)."""

    def __init__(self, width: int, kind: str):
        super().__init__()
        self.kind = kind
        if kind in ("glu", "gtu"):
            self.projection = nn.Linear(width, 2 * width)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """(B, T, C) -> (B, T, C)."""
        if self.kind == "none":
            return hidden_states
        if self.kind == "relu":
            return nn.functional.relu(hidden_states)
        projected = self.projection(hidden_states)
        if self.kind == "glu":
            return nn.functional.glu(projected, dim=-1)
        values, gates = projected.chunk(2, dim=-1)
        return values.tanh() * gates.sigmoid()


class MemoryCell(nn.Module):
    """A memory for each position, carried from layer to layer: m' = f ⊙ m + u (GDLF, equations 8 to 10, 16 to 18).

    - `gate`: f = σ(o W_f + b), u = tanh(o W_u1 + b) ⊙ σ(o W_u2 + b)
    - `gate_without_update`: f as above, u = (1 - f) ⊙ o
    - `gcnn`: f = σ(h W_f + b), u = (1 - f) ⊙ h, with the layer's input h in place of the gated o
    """

    def __init__(self, width: int, kind: str):
        super().__init__()
        self.kind = kind
        self.projection = nn.Linear(width, 3 * width if kind == "gate" else width)

    def forward(self, layer_input: torch.Tensor, gated: torch.Tensor, memory: torch.Tensor | None) -> torch.Tensor:
        """Layer input h, gated input o and the memory of the layer below (None for zeros) -> memory, each (B, T, C)."""
        if self.kind == "gate":
            forget, candidate, update = self.projection(gated).chunk(3, dim=-1)
            forget = forget.sigmoid()
            written = candidate.tanh() * update.sigmoid()
        else:
            read = layer_input if self.kind == "gcnn" else gated
            forget = self.projection(read).sigmoid()
            written = (1.0 - forget) * read
        return written if memory is None else forget * memory + written


class DeepLayerFusion(nn.Module):
    """LN(W2 GELU(W1 Σ_l h_l)), without a residual connection (GDLF, equation 4)."""

    def __init__(self, width: int, inner_width: int):
        super().__init__()
        self.inner = nn.Linear(width, inner_width)
        self.outer = nn.Linear(inner_width, width)
        self.layer_norm = nn.LayerNorm(width)

    def forward(self, layers: list[torch.Tensor]) -> torch.Tensor:
        """The encoder layers' outputs, each (B, S, C) -> (B, S, C)."""
        total = sum(layers[1:], start=layers[0])
        fused = [self._fuse(part) for part in total.flatten(0, 1).split(_POSITIONS)]
        return self.layer_norm(torch.cat(fused).view_as(total))

    def _fuse(self, total: torch.Tensor) -> torch.Tensor:
        # the inner width is thirty times the model's: for backward it is kept once, and its GELU is made again
        inner = self.inner(total)
        return checkpoint(self._reduce, inner, use_reentrant=False, preserve_rng_state=False)

    def _reduce(self, inner: torch.Tensor) -> torch.Tensor:
        return self.outer(nn.functional.gelu(inner))


class Aggregation(nn.Module):
    """One node of hierarchical aggregation: LN(W2 σ(W1 [a; b; …]) + a + b + …) (GDLF, equations 2 and 3)."""

    def __init__(self, width: int, inputs: int):
        super().__init__()
        # four times the concatenated width gives the paper's parameter counts
        self.inner = nn.Linear(inputs * width, 4 * inputs * width)
        self.outer = nn.Linear(4 * inputs * width, width)
        self.layer_norm = nn.LayerNorm(width)

    def forward(self, inputs: list[torch.Tensor]) -> torch.Tensor:
        """Inputs, each (B, S, C) -> (B, S, C)."""
        aggregated = self.outer(self.inner(torch.cat(inputs, dim=-1)).sigmoid())
        return self.layer_norm(aggregated + sum(inputs))


class HierarchicalAggregation(nn.Module):
    """Hierarchical layer aggregation (Dou et al. 2018), GDLF's equation 1: a chain of nodes, two layers per node.

    Each node also reads the output of the node before; the last one reads a single layer if their number is odd.
    """

    def __init__(self, width: int, num_layers: int):
        super().__init__()
        sizes = [min(2, num_layers - first) for first in range(0, num_layers, 2)]
        self.nodes = nn.ModuleList(
            Aggregation(width, size if position == 0 else size + 1) for position, size in enumerate(sizes)
        )

    def forward(self, layers: list[torch.Tensor]) -> torch.Tensor:
        """The encoder layers' outputs, each (B, S, C) -> (B, S, C)."""
        aggregated: list[torch.Tensor] = []
        for position, node in enumerate(self.nodes):
            aggregated = [node(aggregated + layers[2 * position : 2 * position + 2])]
        return aggregated[0]
