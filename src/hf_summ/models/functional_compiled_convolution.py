"""Dynamic convolution compiled by torch.compile: one fused loop each for the output and for both gradients."""

from functools import cache

import torch
from torch import nn

# each kernel size, precision, and batch of one row is compiled for itself
_VARIANTS = 64


def compiled_dynamic_convolution(inputs: torch.Tensor, taps: torch.Tensor, left: int) -> torch.Tensor:
    """`dynamic_convolution`, with the same arguments; compiled at the first call for each kernel size."""
    return _CompiledConvolution.apply(inputs, taps, left)


class _CompiledConvolution(torch.autograd.Function):
    # autograd through the sum over shifts would keep K copies of the input; both gradients are sums of the same form.
    # padding happens out here: inside, it would become a condition at every read, which costs half of the speed

    @staticmethod
    def forward(context, inputs, taps, left):
        length, heads, kernel = taps.shape[1:]
        padded = _pad(inputs, left, length + kernel - 1 - left - inputs.shape[1]).unflatten(-1, (heads, -1))
        context.save_for_backward(padded, taps)
        context.left, context.length = left, inputs.shape[1]
        return _compiled(_shifted_sum)(padded, taps).flatten(-2)

    @staticmethod
    def backward(context, gradient):
        padded, taps = context.saved_tensors
        length, heads, kernel = taps.shape[1:]
        gradient = gradient.unflatten(-1, (heads, -1))
        taps_gradient = _compiled(_taps_gradient)(gradient, padded)
        # input position s is read by output position s + left - shift, with that position's tap `shift`
        margins = (kernel - 1 - context.left, context.length + context.left - length)
        input_gradient = _compiled(_input_gradient)(_pad(gradient, *margins), _pad(taps, *margins))
        return input_gradient.flatten(-2), taps_gradient, None


def _pad(states: torch.Tensor, before: int, after: int) -> torch.Tensor:
    """Zeros around the positions, which are the second dimension."""
    return nn.functional.pad(states, (0, 0) * (states.dim() - 2) + (before, after))


@cache
def _compiled(function):
    # lengths differ from batch to batch, and must not compile anew each time
    compiled = torch.compile(function, dynamic=True)

    def call(*tensors: torch.Tensor) -> torch.Tensor:
        # kernel sizes times precisions are more variants than torch.compile allows a function by default
        with torch._dynamo.config.patch(recompile_limit=_VARIANTS):
            return compiled(*tensors)

    return call


def _shifted_sum(padded: torch.Tensor, taps: torch.Tensor) -> torch.Tensor:
    """(B, T + K - 1, H, D) and (B, T, H, K) -> (B, T, H, D)"""
    length, kernel = taps.shape[1], taps.shape[3]
    outputs = taps[..., 0, None] * padded[:, :length]
    for shift in range(1, kernel):
        outputs = outputs + taps[..., shift, None] * padded[:, shift : shift + length]
    return outputs


def _input_gradient(gradient: torch.Tensor, taps: torch.Tensor) -> torch.Tensor:
    """(B, S + K - 1, H, D) and (B, S + K - 1, H, K) -> (B, S, H, D)"""
    # a convolution with the same kernels, read from the other end
    kernel = taps.shape[3]
    length = taps.shape[1] - kernel + 1
    outputs = taps[:, :length, :, kernel - 1, None] * gradient[:, :length]
    for shift in range(1, kernel):
        tap = taps[:, shift : shift + length, :, kernel - 1 - shift, None]
        outputs = outputs + tap * gradient[:, shift : shift + length]
    return outputs


def _taps_gradient(gradient: torch.Tensor, padded: torch.Tensor) -> torch.Tensor:
    """(B, T, H, D) and (B, T + K - 1, H, D) -> (B, T, H, K)"""
    kernel = padded.shape[1] - gradient.shape[1] + 1
    return (gradient[..., None, :] * padded.unfold(1, kernel, 1).movedim(-1, -2)).sum(-1)
