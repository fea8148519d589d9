"""The gates of gated dynamic convolutions (GDLF, section 3.4 and 6.2)."""

import torch
from torch import nn

# the seven rows of GDLF's Table 6, each as its output gate and its memory cell
GATINGS: dict[str, tuple[str, str | None]] = {
    "none": ("none", None),
    "relu": ("relu", None),
    "gtu": ("gtu", None),
    "glu": ("glu", None),
    "gcnn": ("gtu", "gcnn"),
    "gate_without_update": ("glu", "gate_without_update"),
    "gate": ("glu", "gate"),
}


class OutputGate(nn.Module):
    """What enters the convolution: o = (h W1 + b1) ⊙ σ(h W2 + b2) and its relatives (GDLF, equations 5, 12 to 14)."""

    def __init__(self, width: int, kind: str):
        super().__init__()
        self.kind = kind
        if kind in ("glu", "gtu"):
            self.projection = nn.Linear(width, 2 * width)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """(B, T, C) -> (B, T, C)"""
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
    - `gcnn`: f = σ(h W_f + b), u = (1 - f) ⊙ h, from the layer's input h in place of the gated o
    """

    def __init__(self, width: int, kind: str):
        super().__init__()
        self.kind = kind
        self.projection = nn.Linear(width, 3 * width if kind == "gate" else width)

    def forward(self, layer_input: torch.Tensor, gated: torch.Tensor, memory: torch.Tensor | None) -> torch.Tensor:
        """Layer input h and gated input o, both (B, T, C), and the memory of the layer below (None: zeros)."""
        if self.kind == "gate":
            forget, candidate, update = self.projection(gated).chunk(3, dim=-1)
            forget = forget.sigmoid()
            written = candidate.tanh() * update.sigmoid()
        else:
            read = layer_input if self.kind == "gcnn" else gated
            forget = self.projection(read).sigmoid()
            written = (1.0 - forget) * read
        return written if memory is None else forget * memory + written
