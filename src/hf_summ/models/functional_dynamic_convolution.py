"""Dynamic convolution (Wu et al. 2018, equation 5): each position has its own kernel, shared by a head's channels."""

import torch
from torch import nn

# queries in one band product: large enough to keep matrix products busy, small enough that the band stays in cache
CHUNK = 32


def dynamic_convolution(inputs: torch.Tensor, taps: torch.Tensor, left: int) -> torch.Tensor:
    """Convolve each position with its own kernel, as products of short band matrices with chunks of the input.

    Output position t reads input positions t - left to t - left + K - 1; positions outside the input are zero.

    Args:
        inputs: (B, S, C), C divisible by the number of heads H.
        taps: (B, T, H, K), normalised already; head h serves channels h·C/H to (h+1)·C/H - 1.
        left: input positions before the output's own: (K - 1) // 2 when centred, K - 1 when causal.

    Returns:
        (B, T, C)
    """
    batch, length, heads, kernel = taps.shape
    chunk = max(CHUNK, kernel - 1)
    chunks = -(-length // chunk)
    # one more chunk than there are queries: each query chunk also reads the first K - 1 positions of the next
    padded = nn.functional.pad(inputs, (0, 0, left, (chunks + 1) * chunk - inputs.shape[1] - left))
    padded = padded.view(batch, chunks + 1, chunk, heads, -1)
    spans = torch.cat((padded[:, :-1], padded[:, 1:, : kernel - 1]), dim=2).transpose(2, 3)
    taps = nn.functional.pad(taps, (0, 0, 0, 0, 0, chunks * chunk - length))
    bands = _band(taps.view(batch, chunks, chunk, heads, kernel).transpose(2, 3))
    outputs = (bands @ spans).transpose(2, 3).reshape(batch, chunks * chunk, inputs.shape[2])
    return outputs[:, :length]


def dynamic_convolution_step(window: torch.Tensor, taps: torch.Tensor) -> torch.Tensor:
    """One position of a dynamic convolution, from the K inputs that it reads.

    Args:
        window: (B, K, C).
        taps: (B, 1, H, K), normalised already.

    Returns:
        (B, 1, C)
    """
    batch, kernel, channels = window.shape
    heads = taps.shape[2]
    windows = window.view(batch, kernel, heads, channels // heads).transpose(1, 2)
    return (taps.transpose(1, 2) @ windows).view(batch, 1, channels)


def _band(taps: torch.Tensor) -> torch.Tensor:
    """(…, Q, K) -> (…, Q, Q + K - 1): row i holds its taps shifted right by i."""
    queries, kernel = taps.shape[-2:]
    width = queries + kernel - 1
    # with Q zeros behind each row, reading the flat matrix in rows of Q + K - 1 moves each row one further right
    return nn.functional.pad(taps, (0, queries)).flatten(-2)[..., : queries * width].unflatten(-1, (queries, width))
