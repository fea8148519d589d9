"""Token shift: a linear map of the previous word, with which copying is learned soon (docs/equations.md, section 6)."""

import torch
from torch import nn


class TokenShift(nn.Module):
    """P e(i−1), which is added to the input of position i: a matrix P, orthogonal at the start, without bias.

    A Transformer that copies looks for the source positions behind the word that it wrote last. Recurrent and
    convolutional encoders mix neighbors from the first update on, but self-attention learns slowly to do so.

    Args:
        width: width E of the embeddings.
        d_model: width C of the model.
    """

    def __init__(self, width: int, d_model: int):
        super().__init__()
        self.projection = nn.Linear(width, d_model, bias=False)

    def forward(self, embeddings: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
        """(B, S, E) and mask (B, S) -> (B, S, C), zero at the first position and behind padding."""
        if attention_mask is not None:
            embeddings = embeddings.masked_fill(~attention_mask.bool()[..., None], 0.0)
        return nn.functional.pad(self.projection(embeddings), (0, 0, 1, 0))[:, :-1]
