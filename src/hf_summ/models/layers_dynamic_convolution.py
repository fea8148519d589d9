"""Dynamic convolution (Wu et al. 2018, equation 5): each position has its own kernel, shared by a head's channels.

Three ways to compute it: chunks of band matrices, loops that torch.compile fuses, and a single decoding step.
"""

from functools import cache

import torch
from torch import nn
from transformers.utils import logging

logger = logging.get_logger(__name__)

# name of its state in the cache
_WINDOW = "convolution_window"
# queries per band product: enough to keep matrix products busy, few enough for the band to stay in the CPU's cache
CHUNK = 32
# a variant is compiled for each kernel size and precision, and for batches of one row
_VARIANTS = 64


def dynamic_convolution(inputs: torch.Tensor, taps: torch.Tensor, left: int) -> torch.Tensor:
    """Convolve each position with its own kernel, as products of short band matrices with chunks of the input.

    Output position t reads input positions t - left to t - left + K - 1; positions outside the input are zero.

    Args:
        inputs: (B, S, C), C divisible by the number of heads H.
        taps: (B, T, H, K), already normalized; head h serves channels h·C/H to (h+1)·C/H - 1.
        left: number of input positions before the output's own: (K - 1) // 2 when centered, K - 1 when causal.

    Returns:
        (B, T, C).
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
        taps: (B, 1, H, K), already normalized.

    Returns:
        (B, 1, C).
    """
    batch, kernel, channels = window.shape
    heads = taps.shape[2]
    windows = window.view(batch, kernel, heads, channels // heads).transpose(1, 2)
    return (taps.transpose(1, 2) @ windows).view(batch, 1, channels)


def _band(taps: torch.Tensor) -> torch.Tensor:
    """(…, Q, K) -> (…, Q, Q + K - 1): row i holds its taps shifted right by i."""
    queries, kernel = taps.shape[-2:]
    width = queries + kernel - 1
    # with Q zeros after each row, reading the flat matrix in rows of Q + K - 1 shifts each row right by one more
    return nn.functional.pad(taps, (0, queries)).flatten(-2)[..., : queries * width].unflatten(-1, (queries, width))


def compiled_dynamic_convolution(inputs: torch.Tensor, taps: torch.Tensor, left: int) -> torch.Tensor:
    """`dynamic_convolution` with the same arguments, compiled at the first call for each kernel size."""
    return _CompiledConvolution.apply(inputs, taps, left)


class _CompiledConvolution(torch.autograd.Function):
    # autograd through the sum over shifts would keep K copies of the input; both gradients are sums of the same form.
    # padding is done outside the compiled functions: inside, it becomes a condition at every read and halves the speed

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
    """Pad the positions, which are the second dimension, with zeros."""
    return nn.functional.pad(states, (0, 0) * (states.dim() - 2) + (before, after))


@cache
def _compiled(function):
    # lengths differ from batch to batch and must not trigger a new compilation each time
    compiled = torch.compile(function, dynamic=True)

    def call(*tensors: torch.Tensor) -> torch.Tensor:
        # kernel sizes times precisions are more variants than torch.compile allows per function by default
        with torch._dynamo.config.patch(recompile_limit=_VARIANTS):
            return compiled(*tensors)

    return call


@cache
def compiler_works() -> bool:
    """Whether torch.compile has what it needs on this machine, above all a compiler; says so if not."""
    try:
        torch.compile(torch.neg)(torch.zeros(2))
    except (RuntimeError, ImportError, OSError) as error:
        reason = next((line for line in str(error).splitlines() if line), type(error).__name__)
        logger.warning(f"the convolutions are not compiled, so training is slower: {reason}")
        return False
    return True


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


class DynamicConvolution(nn.Module):
    """W_out DynamicConv(o) + b_out, with kernels softmax(o W_k) for each position and head (Wu et al. 2018).

    Args:
        width: C, the number of channels.
        kernel_size: K, odd.
        num_heads: H.
        causal: whether a position reads only itself and earlier ones; otherwise its kernel is centered on it.
        kernel_dropout: share of the normalized kernels' entries that are dropped in training.
        implementation: `chunked`; `compiled`; or `auto`, compiled in training on a CPU where torch.compile works.
    """

    def __init__(
        self,
        width: int,
        kernel_size: int,
        num_heads: int,
        causal: bool,
        kernel_dropout: float = 0.0,
        implementation: str = "chunked",
    ):
        super().__init__()
        self.kernel_size = kernel_size
        self.num_heads = num_heads
        self.causal = causal
        self.left = kernel_size - 1 if causal else (kernel_size - 1) // 2
        self.kernel_dropout = kernel_dropout
        self.implementation = implementation
        self.kernel_projection = nn.Linear(width, num_heads * kernel_size, bias=False)
        self.output_projection = nn.Linear(width, width)

    def forward(self, inputs: torch.Tensor, states: dict[str, torch.Tensor] | None = None) -> torch.Tensor:
        """(B, T, C), zero at padding -> (B, T, C). `states` are those of a cache layer, for a causal convolution."""
        taps = self.kernel_projection(inputs).unflatten(-1, (self.num_heads, self.kernel_size)).softmax(-1)
        # the kernel is normalized over all its taps even where it reaches beyond the text
        taps = nn.functional.dropout(taps, self.kernel_dropout, self.training)
        if states is None:
            return self.output_projection(self._convolve(inputs, taps, self.left))
        past = states.get(_WINDOW)
        if past is None:
            past = inputs.new_zeros(inputs.shape[0], self.kernel_size - 1, inputs.shape[2])
        window = torch.cat((past, inputs), dim=1)
        states[_WINDOW] = window[:, window.shape[1] - (self.kernel_size - 1) :]
        if inputs.shape[1] == 1:
            return self.output_projection(dynamic_convolution_step(window, taps))
        return self.output_projection(self._convolve(window, taps, 0))

    def _convolve(self, inputs: torch.Tensor, taps: torch.Tensor, left: int) -> torch.Tensor:
        is_compiled = self.implementation == "compiled"
        if self.implementation == "auto":
            is_compiled = self.training and inputs.device.type == "cpu" and compiler_works()
        return (compiled_dynamic_convolution if is_compiled else dynamic_convolution)(inputs, taps, left)
