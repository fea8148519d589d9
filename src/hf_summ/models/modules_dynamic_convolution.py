"""Dynamic convolution as a layer: kernels predicted from the input, a window of past inputs kept while decoding."""

import torch
from torch import nn

from .functional_compiled_convolution import compiled_dynamic_convolution
from .functional_dynamic_convolution import dynamic_convolution, dynamic_convolution_step

_WINDOW = "convolution_window"


class DynamicConvolution(nn.Module):
    """W_out DynamicConv(o) + b_out, with kernels softmax(o W_k) for each position and head (Wu et al. 2018).

    Args:
        width: C, channels.
        kernel_size: K, odd.
        num_heads: H.
        causal: whether a position reads only itself and those before it; else its kernel is centred on it.
        kernel_dropout: share of the normalised kernels' entries dropped in training.
        implementation: `chunked` or `compiled`.
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
        self.convolve = compiled_dynamic_convolution if implementation == "compiled" else dynamic_convolution
        self.kernel_projection = nn.Linear(width, num_heads * kernel_size, bias=False)
        self.output_projection = nn.Linear(width, width)

    def forward(self, inputs: torch.Tensor, states: dict[str, torch.Tensor] | None = None) -> torch.Tensor:
        """(B, T, C), zero at padding positions -> (B, T, C). `states`: a cache layer's, of a causal convolution."""
        taps = self.kernel_projection(inputs).unflatten(-1, (self.num_heads, self.kernel_size)).softmax(-1)
        # the kernel is normalised over all its taps also where it reaches beyond the text
        taps = nn.functional.dropout(taps, self.kernel_dropout, self.training)
        if states is None:
            return self.output_projection(self.convolve(inputs, taps, self.left))
        past = states.get(_WINDOW)
        if past is None:
            past = inputs.new_zeros(inputs.shape[0], self.kernel_size - 1, inputs.shape[2])
        window = torch.cat((past, inputs), dim=1)
        states[_WINDOW] = window[:, window.shape[1] - (self.kernel_size - 1) :]
        if inputs.shape[1] == 1:
            return self.output_projection(dynamic_convolution_step(window, taps))
        return self.output_projection(self.convolve(window, taps, 0))
