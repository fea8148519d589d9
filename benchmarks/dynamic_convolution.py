"""Dynamic convolution, chunked and compiled, compared with the expanded band matrix and the unfolded windows.

The peers are the two common formulations of dynamic convolutions: one T × (T + K - 1) band matrix per head, and a copy
of the input for each tap. Run: python benchmarks/dynamic_convolution.py
"""

import argparse

from measuring import cpu_seconds, fix_allocator, peak_mebibytes, print_table

fix_allocator()

import torch
from torch import nn

from hf_summ.models.layers_gdlf import compiled_dynamic_convolution, dynamic_convolution, dynamic_convolution_step


def expanded(inputs: torch.Tensor, taps: torch.Tensor, left: int) -> torch.Tensor:
    """The band matrix of every head, multiplied by the whole input."""
    batch, length, heads, kernel = taps.shape
    weights = taps.transpose(1, 2).reshape(batch * heads, length, kernel)
    values = inputs.view(batch, length, heads, -1).transpose(1, 2).reshape(batch * heads, length, -1)
    band = weights.new_zeros(batch * heads, length, length + kernel - 1)
    stride = length + kernel - 1
    band.as_strided((batch * heads, length, kernel), (length * stride, stride + 1, 1)).copy_(weights)
    outputs = torch.bmm(band[:, :, left : left + length], values)
    return outputs.view(batch, heads, length, -1).transpose(1, 2).reshape(batch, length, -1)


def unfolded(inputs: torch.Tensor, taps: torch.Tensor, left: int) -> torch.Tensor:
    """A copy of every position's window, multiplied by its kernel."""
    batch, length, heads, kernel = taps.shape
    padded = nn.functional.pad(inputs, (0, 0, left, kernel - 1 - left))
    windows = padded.unfold(1, kernel, 1).reshape(batch * length * heads, -1, kernel)
    return (windows @ taps.reshape(batch * length * heads, kernel, 1)).view(batch, length, -1)


CANDIDATES = {
    "expanded": expanded,
    "unfolded": unfolded,
    "chunked": dynamic_convolution,
    "compiled": compiled_dynamic_convolution,
}


def training(length: int, kernel: int, causal: bool, arguments) -> None:
    """Measure forward passes, and forward and backward passes, of all candidates."""
    left = kernel - 1 if causal else (kernel - 1) // 2
    inputs = torch.randn(arguments.batch, length, arguments.width, requires_grad=True)
    taps = torch.randn(arguments.batch, length, arguments.heads, kernel).softmax(-1).requires_grad_()

    def forward(convolve):
        with torch.no_grad():
            convolve(inputs, taps, left)

    def backward(convolve):
        torch.autograd.grad(convolve(inputs, taps, left).sum(), (inputs, taps))

    reference = expanded(inputs, taps, left)
    for name, convolve in CANDIDATES.items():
        torch.testing.assert_close(convolve(inputs, taps, left), reference, rtol=1e-3, atol=1e-4, msg=name)
    times = [
        cpu_seconds(
            {name: lambda convolve=convolve, run=run: run(convolve) for name, convolve in CANDIDATES.items()},
            arguments.rounds,
        )
        for run in (forward, backward)
    ]
    peaks = {
        name: peak_mebibytes(lambda convolve=convolve: backward(convolve)) for name, convolve in CANDIDATES.items()
    }
    rows = [
        [
            name,
            f"{1000 * times[0][name]:.1f}",
            f"{1000 * times[1][name]:.1f}",
            f"{peaks[name]:.0f}",
            f"{times[1]['expanded'] / times[1][name]:.2f}",
            f"{peaks[name] / peaks['expanded']:.2f}",
        ]
        for name in CANDIDATES
    ]
    side = "causal" if causal else "centered"
    columns = ["formulation", "forward, ms", "+ backward, ms", "peak, MiB", "times faster", "of the memory"]
    print_table(f"length {length}, kernel {kernel}, {side}, batch {arguments.batch}", columns, rows)


def decoding(kernel: int, arguments) -> None:
    """Measure one decoding step, with the cached window and with a convolution of the text so far."""
    rows, length = arguments.batch * 10, 40
    inputs = torch.randn(rows, length, arguments.width)
    taps = torch.randn(rows, length, arguments.heads, kernel).softmax(-1)
    past = nn.functional.pad(inputs, (0, 0, kernel - 1, 0))[:, length - 1 : length + kernel - 2]

    def kept_window():
        window = torch.cat((past, inputs[:, -1:]), dim=1)
        return dynamic_convolution_step(window, taps[:, -1:])

    def unfolded_window():
        window = torch.cat((past, inputs[:, -1:]), dim=1)
        windows = window.unfold(1, kernel, 1).reshape(rows * arguments.heads, -1, kernel)
        return (windows @ taps[:, -1:].reshape(rows * arguments.heads, kernel, 1)).view(rows, 1, -1)

    candidates = {
        "the text so far": lambda: expanded(inputs, taps, kernel - 1)[:, -1:],
        "unfolded window": unfolded_window,
        "kept window": kept_window,
    }
    with torch.no_grad():
        for candidate in candidates.values():
            torch.testing.assert_close(candidate(), candidates["the text so far"]())
        times = cpu_seconds(candidates, 10 * arguments.rounds)
    table = [[name, f"{1e6 * time:.0f}", f"{times['unfolded window'] / time:.1f}"] for name, time in times.items()]
    print_table(f"step {length} of decoding, kernel {kernel}, {rows} rows", ["", "µs", "times faster"], table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--shapes", nargs="+", default=["500x31", "500x15", "500x7", "500x3", "150x31c", "1000x31"])
    arguments = parser.parse_args()
    torch.manual_seed(0)
    for shape in arguments.shapes:
        length, kernel = map(int, shape.removesuffix("c").split("x"))
        training(length, kernel, shape.endswith("c"), arguments)
    for kernel in (3, 31):
        decoding(kernel, arguments)


if __name__ == "__main__":
    main()
