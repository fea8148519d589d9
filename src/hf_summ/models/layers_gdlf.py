"""The layers of GDLF: dynamic convolution, its gates, and fusion of encoder layers (Kwon et al. 2021).

In a dynamic convolution, each position has its own kernel, shared by a head's channels (Wu et al. 2018, equation 5).
It has three implementations: chunks of band matrices, loops fused by torch.compile, and a single decoding step.
"""

from functools import cache

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers.utils import logging

from .layers_transformer import needs_plain_operations

logger = logging.get_logger(__name__)

# name of the convolution's state in the cache
WINDOW = "convolution_window"
# queries per band product: enough to keep matrix products busy, few enough for the band to stay in the CPU's cache
CHUNK = 32
# limit of compiled variants: one per kernel size and precision, and for single-row batches
_VARIANTS = 64
# positions, over all documents, that are fused at once: with gradients, and without, when they need most of the memory
_TRAINED_POSITIONS, _POSITIONS = 512, 128


def dynamic_convolution(inputs: torch.Tensor, taps: torch.Tensor, padding: int) -> torch.Tensor:
    """Convolve each position with its own kernel, as products of short band matrices with chunks of the input.

    Output position t reads input positions t - padding to t - padding + K - 1; positions outside the input are zero.

    Args:
        inputs: (B, S, C), C divisible by the number of heads H.
        taps: (B, T, H, K), already normalized; head h serves channels h·C/H to (h+1)·C/H - 1. The output is (B, T, C).
        padding: number of input positions before the output's own: (K - 1) // 2 when centered, K - 1 when causal.
    """
    batch, length, heads, kernel = taps.shape
    chunk = max(CHUNK, kernel - 1)
    # rounded up; ONNX rounds quotients of negative numbers towards zero
    chunks = (length + chunk - 1) // chunk
    # one chunk more than the queries have: each query chunk also reads the first K - 1 positions of the next
    padded = nn.functional.pad(inputs, (0, 0, padding, (chunks + 1) * chunk - inputs.shape[1] - padding))
    padded = padded.view(batch, chunks + 1, chunk, heads, -1)
    spans = torch.cat((padded[:, :-1], padded[:, 1:, : kernel - 1]), dim=2).transpose(2, 3)
    taps = nn.functional.pad(taps, (0, 0, 0, 0, 0, chunks * chunk - length))
    bands = _band(taps.view(batch, chunks, chunk, heads, kernel).transpose(2, 3))
    outputs = (bands @ spans).transpose(2, 3).reshape(batch, chunks * chunk, inputs.shape[2])
    return outputs[:, :length]


def dynamic_convolution_step(window: torch.Tensor, taps: torch.Tensor) -> torch.Tensor:
    """One position (B, 1, C) of a dynamic convolution, from its K inputs (B, K, C) and normalized taps (B, 1, H, K)."""
    batch, kernel, channels = window.shape
    heads = taps.shape[2]
    windows = window.view(batch, kernel, heads, channels // heads).transpose(1, 2)
    return (taps.transpose(1, 2) @ windows).view(batch, 1, channels)


def _band(taps: torch.Tensor) -> torch.Tensor:
    """(…, Q, K) -> (…, Q, Q + K - 1): row i holds its taps shifted right by i."""
    queries, kernel = taps.shape[-2:]
    width = queries + kernel - 1
    # after Q zeros per row, rows of Q + K - 1 of the flat matrix are shifted right by one each
    return nn.functional.pad(taps, (0, queries)).flatten(-2)[..., : queries * width].unflatten(-1, (queries, width))


def compiled_dynamic_convolution(inputs: torch.Tensor, taps: torch.Tensor, padding: int) -> torch.Tensor:
    """`dynamic_convolution` with the same arguments, compiled at the first call for each kernel size."""
    return _CompiledConvolution.apply(inputs, taps, padding)


class _CompiledConvolution(torch.autograd.Function):
    # autograd through the sum over shifts would store K copies of the input; both gradients are sums of the same form.
    # pad outside the compiled functions: inside, padding becomes a condition at every read and halves the speed

    @staticmethod
    def forward(context, inputs, taps, padding):
        length, heads, kernel = taps.shape[1:]
        padded = _pad(inputs, padding, length + kernel - 1 - padding - inputs.shape[1]).unflatten(-1, (heads, -1))
        context.save_for_backward(padded, taps)
        context.padding, context.length = padding, inputs.shape[1]
        return _compiled(_shifted_sum)(padded, taps).flatten(-2)

    @staticmethod
    def backward(context, gradient):
        padded, taps = context.saved_tensors
        length, heads, kernel = taps.shape[1:]
        gradient = gradient.unflatten(-1, (heads, -1))
        taps_gradient = _compiled(_taps_gradient)(gradient, padded)
        # output position s + padding - shift reads input position s with its tap `shift`
        margins = (kernel - 1 - context.padding, context.length + context.padding - length)
        input_gradient = _compiled(_input_gradient)(_pad(gradient, *margins), _pad(taps, *margins))
        return input_gradient.flatten(-2), taps_gradient, None


def _pad(states: torch.Tensor, before: int, after: int) -> torch.Tensor:
    """Pad the second dimension, the positions, with zeros."""
    return nn.functional.pad(states, (0, 0) * (states.dim() - 2) + (before, after))


@cache
def _compiled(function):
    # lengths vary between batches, and must not trigger recompilation
    compiled = torch.compile(function, dynamic=True)

    def call(*tensors: torch.Tensor) -> torch.Tensor:
        # kernel sizes times precisions exceed torch.compile's default limit of variants per function
        with torch._dynamo.config.patch(recompile_limit=_VARIANTS):
            return compiled(*tensors)

    return call


@cache
def compiler_works() -> bool:
    """Whether torch.compile works on this machine, which needs a compiler; if not, log a warning."""
    try:
        torch.compile(torch.neg)(torch.zeros(2))
    except (RuntimeError, ImportError, OSError) as error:
        reason = next((line for line in str(error).splitlines() if line), type(error).__name__)
        logger.warning(f"torch.compile does not work here, so GDLF is slower: {reason}")
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
    # a convolution with the reversed kernels
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
        width, kernel_size, num_heads: C, K (odd) and H.
        causal: whether a position reads only itself and earlier ones; otherwise its kernel is centered on it.
        kernel_dropout: share of the normalized kernels' entries that are dropped in training.
        implementation: `chunked`; `compiled`; or `auto`, compiled in training on a CPU if torch.compile works.
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
        self.padding = kernel_size - 1 if causal else (kernel_size - 1) // 2
        self.kernel_dropout = kernel_dropout
        self.implementation = implementation
        self.kernel_projection = nn.Linear(width, num_heads * kernel_size, bias=False)
        self.output_projection = nn.Linear(width, width)

    def forward(self, inputs: torch.Tensor, cache_layer=None) -> torch.Tensor:
        """(B, T, C), zero at padding -> (B, T, C). `cache_layer` is a `DecoderStateLayer`, for a causal convolution."""
        taps = self.kernel_projection(inputs).unflatten(-1, (self.num_heads, self.kernel_size)).softmax(-1)
        # the kernel is normalized over all its taps, even those beyond the text
        taps = nn.functional.dropout(taps, self.kernel_dropout, self.training)
        if cache_layer is None:
            return self.output_projection(self._convolve(inputs, taps, self.padding))
        # a layer is the argument, not its states: accelerate copies dicts among arguments, and the window would be lost
        states = cache_layer.states
        past = states.get(WINDOW)
        if past is None:
            past = inputs.new_zeros(inputs.shape[0], self.kernel_size - 1, inputs.shape[2])
        window = torch.cat((past, inputs), dim=1)
        # strides as after a reordering: a compiled step would be compiled again for others
        last = window[:, window.shape[1] - (self.kernel_size - 1) :]
        states[WINDOW] = last.clone(memory_format=torch.contiguous_format)
        if inputs.shape[1] == 1:
            return self.output_projection(dynamic_convolution_step(window, taps))
        return self.output_projection(self._convolve(window, taps, 0))

    def _convolve(self, inputs: torch.Tensor, taps: torch.Tensor, padding: int) -> torch.Tensor:
        is_compiled = self.implementation == "compiled"
        if self.implementation == "auto":
            is_compiled = self.training and inputs.device.type == "cpu" and compiler_works()
        is_compiled = is_compiled and not needs_plain_operations(inputs)
        return (compiled_dynamic_convolution if is_compiled else dynamic_convolution)(inputs, taps, padding)


class OutputGate(nn.Module):
    """The convolution's input: o = (h W1 + b1) ⊙ σ(h W2 + b2) and its variants (GDLF, equations 5, 12 to 14)."""

    def __init__(self, width: int, variant: str):
        super().__init__()
        self.variant = variant
        if variant in ("glu", "gtu"):
            self.projection = nn.Linear(width, 2 * width)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """(B, T, C) -> (B, T, C)."""
        if self.variant == "none":
            return hidden_states
        if self.variant == "relu":
            return nn.functional.relu(hidden_states)
        projected = self.projection(hidden_states)
        if self.variant == "glu":
            return nn.functional.glu(projected, dim=-1)
        values, gates = projected.chunk(2, dim=-1)
        return values.tanh() * gates.sigmoid()


class MemoryCell(nn.Module):
    """A memory for each position, carried from layer to layer: m' = f ⊙ m + u (GDLF, equations 8 to 10, 16 to 18).

    - `gate`: f = σ(o W_f + b), u = tanh(o W_u1 + b) ⊙ σ(o W_u2 + b)
    - `gate_without_update`: f as above, u = (1 - f) ⊙ o
    - `gcnn`: f = σ(h W_f + b), u = (1 - f) ⊙ h, with the layer's input h in place of the gated o
    """

    def __init__(self, width: int, variant: str):
        super().__init__()
        self.variant = variant
        self.projection = nn.Linear(width, 3 * width if variant == "gate" else width)

    def forward(self, layer_input: torch.Tensor, gated: torch.Tensor, memory: torch.Tensor | None) -> torch.Tensor:
        """Layer input h, gated input o and the memory of the layer below (None for zeros) -> memory, each (B, T, C)."""
        if self.variant == "gate":
            forget, candidate, update = self.projection(gated).chunk(3, dim=-1)
            forget = forget.sigmoid()
            written = candidate.tanh() * update.sigmoid()
        else:
            read = layer_input if self.variant == "gcnn" else gated
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
        # a graph without backward must work for any number of positions, and torch.func cannot transform checkpoints
        if needs_plain_operations(total) or (torch.compiler.is_compiling() and not torch.is_grad_enabled()):
            return self.layer_norm(self._reduce(self.inner(total)))
        positions = _TRAINED_POSITIONS if torch.is_grad_enabled() else _POSITIONS
        fused = [self._fuse(chunk) for chunk in total.flatten(0, 1).split(positions)]
        return self.layer_norm(torch.cat(fused).view_as(total))

    def _fuse(self, total: torch.Tensor) -> torch.Tensor:
        # the inner width is thirty times the model's: store it once for backward, and recompute its GELU
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

    Each node also reads the previous node's output; with an odd number of layers, the last node reads a single one.
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
