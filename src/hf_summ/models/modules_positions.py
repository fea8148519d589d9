"""Sinusoidal positions."""

import math

import torch
from torch import nn


class SinusoidalPositions(nn.Module):
    """Sinusoids of geometrically growing wavelength (Vaswani et al. 2017, section 3.5), for positions of any size.

    They are computed, not stored: a table would be one more limit on the length, and nothing is gained by it.
    """

    def __init__(self, width: int):
        super().__init__()
        self.width = width

    def forward(self, start: int, length: int, device: torch.device, dtype: torch.dtype) -> torch.Tensor:
        """Positions start to start + length - 1: (length, width); even columns hold sines, odd ones cosines."""
        positions = torch.arange(start, start + length, device=device, dtype=torch.float32)
        exponents = torch.arange(0, self.width, 2, device=device, dtype=torch.float32) / self.width
        angles = positions[:, None] * torch.exp(-math.log(10000.0) * exponents)
        table = torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)
        return table[:, : self.width].to(dtype)
