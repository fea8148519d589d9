"""Convolutional self-attention in chunks, compared with full attention and a mask of the windows.

The peers are full attention with the mask, eager and with torch's scaled_dot_product_attention. In two dimensions they
attend to the keys of all heads in the head window. Run: python benchmarks/convolutional_attention.py
"""

import argparse
from functools import partial

from measuring import cpu_seconds, fix_allocator, peak_mebibytes, print_table

fix_allocator()

import torch
from torch import nn

from hf_summ.models.layers_copy_transformer import windowed_attention

# name of each kind, its head window, and whether the window is circular
KINDS = {"1d": (1, False), "2d": (3, False), "2d circular": (3, True)}


def seen_heads(states: torch.Tensor, head_window: int, circular: bool) -> torch.Tensor:
    """(B, H, S, D) -> (B, H, N · S, D), neighboring heads concatenated, with zeros for missing ones."""
    if head_window == 1:
        return states
    heads, reach = states.shape[1], head_window // 2
    if circular:
        states = torch.cat((states[:, -reach:], states, states[:, :reach]), dim=1)
    else:
        states = nn.functional.pad(states, (0, 0, 0, 0, reach, reach))
    return torch.cat([states[:, offset : offset + heads] for offset in range(head_window)], dim=2)


def seen(heads: int, length: int, window: int, head_window: int, circular: bool) -> torch.Tensor:
    """(1, H or 1, S, N · S), true at keys inside a query's window."""
    positions = torch.arange(length)
    band = ((positions[:, None] - positions).abs() <= window // 2).repeat(1, head_window)[None, None]
    if circular or head_window == 1:
        return band
    index = torch.arange(heads)[:, None] + torch.arange(head_window) - head_window // 2
    exists = (index >= 0) & (index < heads)
    return band & exists.repeat_interleave(length, dim=1)[None, :, None]


def eager(queries, keys, values, head_window, circular, mask, bias):
    """Attention with all scores, plus the mask."""
    keys, values = (seen_heads(states, head_window, circular) for states in (keys, values))
    scores = queries @ keys.transpose(2, 3) * queries.shape[3] ** -0.5 + bias
    return scores.softmax(-1) @ values


def sdpa(queries, keys, values, head_window, circular, mask, bias):
    """torch's fused attention."""
    keys, values = (seen_heads(states, head_window, circular) for states in (keys, values))
    return nn.functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)


def measure(kind: str, length: int, batch: int, arguments) -> dict[str, float]:
    """Print the table of one kind and length; return the seconds of forward and backward passes."""
    head_window, circular = KINDS[kind]
    shape = (batch, arguments.heads, length, arguments.head_width)
    inputs = tuple(torch.randn(shape, requires_grad=True) for _ in range(3))
    gradient = torch.randn(shape)
    mask = seen(arguments.heads, length, arguments.window, head_window, circular)
    bias = torch.zeros(mask.shape).masked_fill_(~mask, torch.finfo(torch.float32).min)
    padding_mask = torch.ones(batch, length, dtype=torch.long)
    peer = {"head_window": head_window, "circular": circular, "mask": mask, "bias": bias}
    windowed = partial(windowed_attention, window_size=arguments.window, head_window_size=head_window)
    candidates = {
        "full, eager": partial(eager, **peer),
        "full, SDPA": partial(sdpa, **peer),
        "chunks": partial(windowed, circular=circular),
        "chunks, padding mask": partial(windowed, circular=circular, padding_mask=padding_mask),
    }

    def forward(attend):
        with torch.no_grad():
            attend(*inputs)

    def backward(attend):
        return torch.autograd.grad(attend(*inputs), inputs, gradient)

    output, gradients = candidates["full, eager"](*inputs), backward(candidates["full, eager"])
    for name, attend in candidates.items():
        torch.testing.assert_close(attend(*inputs), output, rtol=1e-3, atol=1e-4, msg=name)
        for one, other in zip(backward(attend), gradients, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4, msg=name)
    del output, gradients
    times = [
        cpu_seconds({name: partial(run, attend) for name, attend in candidates.items()}, arguments.rounds)
        for run in (forward, backward)
    ]
    peaks = {name: peak_mebibytes(partial(backward, attend)) for name, attend in candidates.items()}
    rows = [
        [
            name,
            f"{1000 * times[0][name]:.1f}",
            f"{1000 * times[1][name]:.1f}",
            f"{peaks[name]:.0f}",
            f"{times[1]['full, eager'] / times[1][name]:.1f}",
            f"{times[1]['full, SDPA'] / times[1][name]:.1f}",
            f"{peaks[name] / peaks['full, eager']:.2f}",
        ]
        for name in candidates
    ]
    columns = ["attention", "forward, ms", "+ backward, ms", "peak, MiB"]
    columns += ["times faster than eager", "than SDPA", "of eager's memory"]
    windows = f"window {arguments.window}" + (f", head window {head_window}" if head_window > 1 else "")
    print_table(f"{kind}, {windows}, length {length}, batch {batch}", columns, rows)
    return times[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=4096, help="Number of tokens per batch (default: 4096)")
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--head_width", type=int, default=32)
    parser.add_argument("--window", type=int, default=11)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--lengths", type=int, nargs="+", default=[512, 2048])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    arguments = parser.parse_args()
    torch.manual_seed(0)
    for kind in arguments.kinds:
        seconds = {}
        for length in arguments.lengths:
            batch = max(1, arguments.tokens // length)
            # per document, as batch sizes differ
            seconds[length] = {name: time / batch for name, time in measure(kind, length, batch, arguments).items()}
        first, last = arguments.lengths[0], arguments.lengths[-1]
        rows = [[name, f"{seconds[last][name] / seconds[first][name]:.1f}"] for name in seconds[first]]
        print_table(f"{kind}: a document of {last} against one of {first}", ["attention", "times as long"], rows)


if __name__ == "__main__":
    main()
