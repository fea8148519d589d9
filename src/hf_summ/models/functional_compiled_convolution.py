"""Dynamic convolution compiled by torch.compile: one fused loop each for the output and for both gradients."""

from functools import cache

import torch
from torch import nn


def compiled_dynamic_convolution(inputs: torch.Tensor, taps: torch.Tensor, left: int) -> torch.Tensor:
    """`dynamic_convolution`, with the same arguments; compiled at the first call for each kernel size."""
    return _CompiledConvolution.apply(inputs, taps, left)


class _CompiledConvolution(torch.autograd.Function):
    # autograd through the sum over shifts would keep K copies of the input; both gradients are sums of the same form

    @staticmethod
    def forward(context, inputs, taps, left):
        context.save_for_backward(inputs, taps)
        context.left = left
        return _compiled(_shifted_sum)(inputs, taps, left)

    @staticmethod
    def backward(context, gradient):
        inputs, taps = context.saved_tensors
        return (
            _compiled(_input_gradient)(gradient, taps, context.left, inputs.shape[1]),
            _compiled(_taps_gradient)(gradient, inputs, context.left, taps.shape[2], taps.shape[3]),
            None,
        )


@cache
def _compiled(function):
    return torch.compile(function, dynamic=True)


def _shifted_sum(inputs: torch.Tensor, taps: torch.Tensor, left: int) -> torch.Tensor:
    batch, length, heads, kernel = taps.shape
    padded = nn.functional.pad(inputs, (0, 0, left, length + kernel - 1 - left - inputs.shape[1]))
    padded = padded.unflatten(-1, (heads, -1))
    outputs = sum(taps[..., shift, None] * padded[:, shift : shift + length] for shift in range(kernel))
    return outputs.flatten(-2)


def _input_gradient(gradient: torch.Tensor, taps: torch.Tensor, left: int, length: int) -> torch.Tensor:
    batch, positions, heads, kernel = taps.shape
    # input position s is read by output position s + left - shift, with that position's tap `shift`
    padding = (kernel - 1 - left, length + left - positions)
    gradient = nn.functional.pad(gradient, (0, 0, *padding)).unflatten(-1, (heads, -1))
    taps = nn.functional.pad(taps, (0, 0, 0, 0, *padding))
    outputs = sum(
        taps[:, kernel - 1 - shift : kernel - 1 - shift + length, :, shift, None]
        * gradient[:, kernel - 1 - shift : kernel - 1 - shift + length]
        for shift in range(kernel)
    )
    return outputs.flatten(-2)


def _taps_gradient(gradient: torch.Tensor, inputs: torch.Tensor, left: int, heads: int, kernel: int) -> torch.Tensor:
    length = gradient.shape[1]
    padded = nn.functional.pad(inputs, (0, 0, left, length + kernel - 1 - left - inputs.shape[1]))
    padded = padded.unflatten(-1, (heads, -1))
    gradient = gradient.unflatten(-1, (heads, -1))
    return torch.stack([(gradient * padded[:, shift : shift + length]).sum(-1) for shift in range(kernel)], dim=-1)
