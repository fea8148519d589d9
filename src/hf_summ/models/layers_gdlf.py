"""The layers of GDLF: dynamic convolution, its gates, and fusion of encoder layers (Kwon et al. 2021).

In a dynamic convolution, each position has its own kernel for each head, which all channels of the head share (Wu et
al. 2018, equation 5). The K weights of a kernel are called its taps. There are three implementations: products of
chunks of the input with band matrices, loops over the taps that torch.compile fuses, and a single decoding step.

Shapes: B documents, S input positions, T output positions, C channels, H heads of D channels, kernels of K taps.
"""

from collections.abc import Callable
from functools import cache

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers.utils import logging

from .layers_copying import hooked_arguments
from .layers_transformer import needs_plain_operations

logger = logging.get_logger(__name__)

# the name of the convolution's state, its last K - 1 inputs, in the decoder's cache
WINDOW = "convolution_window"
# the number of output positions of a band matrix: enough to keep matrix products busy, and so few that a CPU caches the
# matrix
CHUNK = 32
# the largest number of variants that torch.compile makes of a function, for kernel sizes, precisions and single rows
_VARIANTS = 64
# the number of positions, over all documents, that the fusion computes at once with gradients
_TRAINED_POSITIONS = 512
# the same number without gradients. It is smaller, as these positions then need most of the memory
_POSITIONS = 128


def dynamic_convolution(inputs: torch.Tensor, taps: torch.Tensor, padding: int) -> torch.Tensor:
    """Convolve each position with its own kernel, as products of short band matrices with chunks of the input.

    Output position t is the sum of input positions t - padding to t - padding + K - 1, weighted by the taps of t.
    Positions outside the input are zero.

    Args:
        inputs: (B, S, C), C divisible by the number of heads H.
        taps: (B, T, H, K), already normalized; head h serves channels h·C/H to (h+1)·C/H - 1.
        padding: number of earlier positions that an output position reads: (K - 1) // 2 if the kernel is centered, and
            K - 1 if it is causal.

    Returns:
        (B, T, C).
    """
    batch, length, heads, kernel = taps.shape
    chunk = max(CHUNK, kernel - 1)
    # rounded up without a negative dividend, whose quotient ONNX rounds towards zero
    chunks = (length + chunk - 1) // chunk
    # the outputs of a chunk also read the first K - 1 inputs of the next chunk, so the input has one chunk more
    input_length = (chunks + 1) * chunk
    padded = nn.functional.pad(inputs, (0, 0, padding, input_length - inputs.shape[1] - padding))
    padded = padded.view(batch, chunks + 1, chunk, heads, -1)
    spans = torch.cat((padded[:, :-1], padded[:, 1:, : kernel - 1]), dim=2).transpose(2, 3)
    taps = nn.functional.pad(taps, (0, 0, 0, 0, 0, chunks * chunk - length))
    bands = _band(taps.view(batch, chunks, chunk, heads, kernel).transpose(2, 3))
    outputs = (bands @ spans).transpose(2, 3).reshape(batch, chunks * chunk, inputs.shape[2])
    return outputs[:, :length]


def dynamic_convolution_step(window: torch.Tensor, taps: torch.Tensor) -> torch.Tensor:
    """The output of a dynamic convolution at one position, (B, 1, C).

    Args:
        window: (B, K, C), the K input positions that the output position reads.
        taps: (B, 1, H, K), already normalized.
    """
    batch, kernel, channels = window.shape
    heads = taps.shape[2]
    windows = window.view(batch, kernel, heads, channels // heads).transpose(1, 2)
    return (taps.transpose(1, 2) @ windows).view(batch, 1, channels)


def _band(taps: torch.Tensor) -> torch.Tensor:
    """Band matrices (…, Q, Q + K - 1) of the taps (…, Q, K) of Q positions: row i has its taps from column i on."""
    positions, kernel = taps.shape[-2:]
    width = positions + kernel - 1
    # each padded row has Q + K numbers, one more than a row of the result, so each next row begins one column later
    flat = nn.functional.pad(taps, (0, positions)).flatten(-2)
    return flat[..., : positions * width].unflatten(-1, (positions, width))


def compiled_dynamic_convolution(inputs: torch.Tensor, taps: torch.Tensor, padding: int) -> torch.Tensor:
    """As `dynamic_convolution`, but compiled by torch.compile at the first call for each kernel size."""
    return _CompiledConvolution.apply(inputs, taps, padding)


class _CompiledConvolution(torch.autograd.Function):
    """A dynamic convolution as a sum over the K taps, whose gradients are sums of the same form.

    Autograd would store K copies of the input. The padding is outside the compiled functions, as inside it would become
    a condition at each read, and would halve the speed.
    """

    @staticmethod
    def forward(context, inputs, taps, padding):
        length, heads, kernel = taps.shape[1:]
        behind = length + kernel - 1 - padding - inputs.shape[1]
        padded = _pad(inputs, padding, behind).unflatten(-1, (heads, -1))
        context.save_for_backward(padded, taps)
        context.padding = padding
        context.input_length = inputs.shape[1]
        return _compiled(_shifted_sum)(padded, taps).flatten(-2)

    @staticmethod
    def backward(context, gradient):
        padded, taps = context.saved_tensors
        length, heads, kernel = taps.shape[1:]
        gradient = gradient.unflatten(-1, (heads, -1))
        taps_gradient = _compiled(_taps_gradient)(gradient, padded)
        # input position s is read with tap k by output position s + padding - k, which may be outside the output
        before = kernel - 1 - context.padding
        behind = context.input_length + context.padding - length
        input_gradient = _compiled(_input_gradient)(_pad(gradient, before, behind), _pad(taps, before, behind))
        return input_gradient.flatten(-2), taps_gradient, None


def _pad(states: torch.Tensor, before: int, behind: int) -> torch.Tensor:
    """Add so many positions of zeros before and behind the positions of states (B, positions, …).

    A negative number removes positions.
    """
    # `pad` reads the dimensions from the last one on
    inner_dimensions = states.dim() - 2
    return nn.functional.pad(states, (0, 0) * inner_dimensions + (before, behind))


@cache
def _compiled(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """A function of tensors, compiled by torch.compile. The compiled function is kept for later calls."""
    # lengths differ between batches, and a new length must not compile the function again
    compiled = torch.compile(function, dynamic=True)

    def call(*tensors: torch.Tensor) -> torch.Tensor:
        # a model has more kernel sizes and precisions than torch.compile makes variants by default
        with torch._dynamo.config.patch(recompile_limit=_VARIANTS):
            return compiled(*tensors)

    return call


@cache
def compiler_works() -> bool:
    """Whether torch.compile works on this machine; it needs a C++ compiler. If not, a warning says why."""
    try:
        torch.compile(torch.neg)(torch.zeros(2))
    except (RuntimeError, ImportError, OSError) as error:
        reasons = [line for line in str(error).splitlines() if line]
        if not reasons:
            reasons = [type(error).__name__]
        logger.warning(f"torch.compile does not work here, so GDLF is slower: {reasons[0]}")
        return False
    return True


def _shifted_sum(padded: torch.Tensor, taps: torch.Tensor) -> torch.Tensor:
    """The convolution of padded inputs (B, T + K - 1, H, D) with taps (B, T, H, K): (B, T, H, D)."""
    length, kernel = taps.shape[1], taps.shape[3]
    outputs = taps[..., 0, None] * padded[:, :length]
    for shift in range(1, kernel):
        outputs = outputs + taps[..., shift, None] * padded[:, shift : shift + length]
    return outputs


def _input_gradient(gradient: torch.Tensor, taps: torch.Tensor) -> torch.Tensor:
    """The gradient of the inputs (B, S, H, D): input s gets, from each output that reads it, tap times gradient.

    The outputs that read input s are K neighbors. Output s + padding - k reads it with tap k.

    Args:
        gradient: (B, S + K - 1, H, D), the gradient of the outputs.
        taps: (B, S + K - 1, H, K), the kernels of the outputs. `_CompiledConvolution.backward` has padded both.
    """
    kernel = taps.shape[3]
    length = taps.shape[1] - kernel + 1
    outputs = taps[:, :length, :, kernel - 1, None] * gradient[:, :length]
    for shift in range(1, kernel):
        tap = taps[:, shift : shift + length, :, kernel - 1 - shift, None]
        outputs = outputs + tap * gradient[:, shift : shift + length]
    return outputs


def _taps_gradient(gradient: torch.Tensor, padded: torch.Tensor) -> torch.Tensor:
    """The gradient of the taps (B, T, H, K).

    Args:
        gradient: (B, T, H, D), the gradient of the output.
        padded: (B, T + K - 1, H, D), the padded inputs.
    """
    kernel = padded.shape[1] - gradient.shape[1] + 1
    # the K inputs that each output position reads, (B, T, H, K, D)
    windows = padded.unfold(1, kernel, 1).movedim(-1, -2)
    return (gradient[..., None, :] * windows).sum(-1)


class DynamicConvolution(nn.Module):
    """W_out DynamicConv(o) + b_out, with kernels softmax(o W_k) for each position and head (Wu et al. 2018).

    Args:
        width, kernel_size, num_heads: C, K (odd) and H.
        causal: whether a position reads only itself and earlier positions; otherwise its kernel is centered on it.
        kernel_dropout: share of the taps that training drops after their normalization.
        implementation: `chunked` for `dynamic_convolution`, `compiled` for `compiled_dynamic_convolution`, or `auto`,
            which is compiled in training on a CPU if torch.compile works, and otherwise chunked.
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
        # the number of earlier positions that a position reads
        self.padding = kernel_size - 1 if causal else (kernel_size - 1) // 2
        self.kernel_dropout = kernel_dropout
        self.implementation = implementation
        self.kernel_projection = nn.Linear(width, num_heads * kernel_size, bias=False)
        self.output_projection = nn.Linear(width, width)

    def forward(self, inputs: torch.Tensor, cache_layer=None) -> torch.Tensor:
        """Inputs (B, T, C), zero at padding -> outputs (B, T, C).

        Args:
            cache_layer: a `DecoderStateLayer`, for decoding with a causal convolution. It has the last K - 1 inputs of
                earlier calls, which this call reads and replaces.
        """
        taps = self.kernel_projection(inputs).unflatten(-1, (self.num_heads, self.kernel_size))
        # a kernel is normalized over all its taps, also over those that read beyond the text
        taps = taps.softmax(-1)
        taps = nn.functional.dropout(taps, self.kernel_dropout, self.training)
        if cache_layer is None:
            return self.output_projection(self._convolve(inputs, taps, self.padding))
        # the argument is the layer and not its dict of states, as accelerate copies dicts, which would lose the window
        states = cache_layer.states
        past = states.get(WINDOW)
        if past is None:
            past = inputs.new_zeros(inputs.shape[0], self.kernel_size - 1, inputs.shape[2])
        window = torch.cat((past, inputs), dim=1)
        # a copy has the strides of a window that beam search has reordered: others would compile a step again
        last = window[:, window.shape[1] - (self.kernel_size - 1) :]
        states[WINDOW] = last.clone(memory_format=torch.contiguous_format)
        if inputs.shape[1] == 1:
            return self.output_projection(dynamic_convolution_step(window, taps))
        return self.output_projection(self._convolve(window, taps, 0))

    def _convolve(self, inputs: torch.Tensor, taps: torch.Tensor, padding: int) -> torch.Tensor:
        is_compiled = self.implementation == "compiled"
        if self.implementation == "auto":
            is_compiled = self.training and inputs.device.type == "cpu" and compiler_works()
        if is_compiled and not needs_plain_operations(inputs):
            return compiled_dynamic_convolution(inputs, taps, padding)
        return dynamic_convolution(inputs, taps, padding)


class OutputGate(nn.Module):
    """The gate whose output o is the input of a layer's convolution, from the layer's input h.

    - `glu`: o = (h W1 + b1) ⊙ σ(h W2 + b2) (GDLF, equations 5 and 13)
    - `gtu`: o = tanh(h W1 + b1) ⊙ σ(h W2 + b2) (equation 14)
    - `relu`: o = max(h, 0) (equation 12)
    - `none`: o = h
    """

    def __init__(self, width: int, variant: str):
        super().__init__()
        self.variant = variant
        if variant in ("glu", "gtu"):
            self.projection = nn.Linear(width, 2 * width)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """h (B, T, C) -> o (B, T, C)."""
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
    """A memory m for each position that each layer updates to f ⊙ m + u (GDLF, equations 8 to 10 and 16 to 18).

    The forget gate f and the update u are computed from the layer's input h or from the output o of its `OutputGate`:

    - `gate`: f = σ(o W_f + b), u = tanh(o W_u1 + b) ⊙ σ(o W_u2 + b)
    - `gate_without_update`: f = σ(o W_f + b), u = (1 - f) ⊙ o
    - `gcnn`: f = σ(h W_f + b), u = (1 - f) ⊙ h
    """

    def __init__(self, width: int, variant: str):
        super().__init__()
        self.variant = variant
        projected_width = 3 * width if variant == "gate" else width
        self.projection = nn.Linear(width, projected_width)

    def forward(self, layer_input: torch.Tensor, gated: torch.Tensor, memory: torch.Tensor | None) -> torch.Tensor:
        """The memory after this layer, (B, T, C).

        Args:
            layer_input, gated: (B, T, C), h and o.
            memory: (B, T, C), the memory after the layer below; None in the lowest layer, where it is zero.
        """
        if self.variant == "gate":
            forget, candidate, update_gate = self.projection(gated).chunk(3, dim=-1)
            forget = forget.sigmoid()
            update = candidate.tanh() * update_gate.sigmoid()
        else:
            states = layer_input if self.variant == "gcnn" else gated
            forget = self.projection(states).sigmoid()
            update = (1.0 - forget) * states
        if memory is None:
            return update
        return forget * memory + update


class DeepLayerFusion(nn.Module):
    """LN(W2 GELU(W1 Σ_l h_l)) of the outputs h_l of all encoder layers, without a residual connection.

    This is GDLF's equation 4. The inner width, of W1's output, is thirty times the model's in the paper.
    """

    def __init__(self, width: int, inner_width: int):
        super().__init__()
        self.inner = nn.Linear(width, inner_width)
        self.outer = nn.Linear(inner_width, width)
        self.layer_norm = nn.LayerNorm(width)

    def forward(self, layers: list[torch.Tensor]) -> torch.Tensor:
        """The encoder layers' outputs, each (B, S, C) -> (B, S, C)."""
        total = sum(layers[1:], start=layers[0])
        # a graph for inference must work for any number of positions, so it cannot split them
        is_inference_graph = torch.compiler.is_compiling() and not torch.is_grad_enabled()
        # PEFT takes the rows of these layers for documents, so it needs them unsplit
        has_document_adapters = "adapter_names" in hooked_arguments(self)
        # torch.func cannot transform `checkpoint`
        if is_inference_graph or has_document_adapters or needs_plain_operations(total):
            return self.layer_norm(self._outer_states(self.inner(total)))
        positions = _TRAINED_POSITIONS if torch.is_grad_enabled() else _POSITIONS
        fused = [self._fuse(states) for states in total.flatten(0, 1).split(positions)]
        return self.layer_norm(torch.cat(fused).view_as(total))

    def _fuse(self, states: torch.Tensor) -> torch.Tensor:
        """W2 GELU(W1 x) (N, C) of a sum of layers x (N, C).

        The output of GELU is wide. It is not stored for the backward pass, which computes it again.
        """
        inner = self.inner(states)
        return checkpoint(self._outer_states, inner, use_reentrant=False, preserve_rng_state=False)

    def _outer_states(self, inner: torch.Tensor) -> torch.Tensor:
        """W2 GELU(u) (…, C) of the inner states u (…, inner width)."""
        return self.outer(nn.functional.gelu(inner))


class Aggregation(nn.Module):
    """A node of hierarchical aggregation: LN(W2 σ(W1 [a; b; …]) + a + b + …) of inputs a, b, … (equations 2 and 3).

    Args:
        width: width of each input and of the output.
        inputs: number of inputs.
    """

    def __init__(self, width: int, inputs: int):
        super().__init__()
        # the paper's parameter counts follow from an inner width of four times the width of the concatenated inputs
        inner_width = 4 * inputs * width
        self.inner = nn.Linear(inputs * width, inner_width)
        self.outer = nn.Linear(inner_width, width)
        self.layer_norm = nn.LayerNorm(width)

    def forward(self, inputs: list[torch.Tensor]) -> torch.Tensor:
        """The inputs, each (B, S, C) -> (B, S, C)."""
        aggregated = self.outer(self.inner(torch.cat(inputs, dim=-1)).sigmoid())
        return self.layer_norm(aggregated + sum(inputs))


class HierarchicalAggregation(nn.Module):
    """Hierarchical layer aggregation (Dou et al. 2018; GDLF, equation 1): a chain of nodes.

    Each node reads the outputs of two encoder layers, and the output of the node before it. If the number of layers is
    odd, the last node reads the output of a single layer.
    """

    def __init__(self, width: int, num_layers: int):
        super().__init__()
        self.nodes = nn.ModuleList()
        for first_layer in range(0, num_layers, 2):
            inputs = min(2, num_layers - first_layer)
            if first_layer > 0:
                # the output of the node before
                inputs += 1
            self.nodes.append(Aggregation(width, inputs))

    def forward(self, layers: list[torch.Tensor]) -> torch.Tensor:
        """The encoder layers' outputs, each (B, S, C) -> (B, S, C)."""
        output = layers[0]
        for position, node in enumerate(self.nodes):
            inputs = layers[2 * position : 2 * position + 2]
            if position > 0:
                inputs = [output] + inputs
            output = node(inputs)
        return output
