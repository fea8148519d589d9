"""Highlighting attention, compared with plain attention and with a dense implementation of the equations.

The peers are torch's scaled_dot_product_attention without highlighting, and eager attention with the full matrix H.
Forward and backward passes, without attention dropout.
Run: python benchmarks/highlight_attention.py
"""

import argparse
from functools import partial

from measuring import cpu_seconds, fix_allocator, peak_mebibytes, print_table

fix_allocator()

import torch
from peers import phrases
from torch import nn

from hf_summ import HighlightTransformerConfig
from hf_summ.models.modeling_highlight_transformer import HighlightSelfAttention, lit_rows

ALPHA = 8.0


def dense(queries, keys, values, starts, ends, strengths, highlighting: str, heads: list[int]):
    """Equations 2 and 4 with the full matrix H, which is zero in unlit heads."""
    positions = torch.arange(queries.shape[2])
    inside = ((positions >= starts[..., None]) & (positions < ends[..., None])).float()
    is_lit = torch.zeros(queries.shape[1], 1, 1)
    is_lit[heads] = 1
    bright = is_lit * (ALPHA * (inside * strengths[..., None]).transpose(1, 2) @ inside)[:, None]
    scores = queries @ keys.transpose(2, 3) * queries.shape[3] ** -0.5
    if highlighting == "weighted":
        return ((scores + bright).softmax(-1) @ values).transpose(1, 2)
    shares = is_lit * (inside.transpose(1, 2) @ inside)[:, None] > 0
    own = bright.masked_fill(~shares, torch.finfo(torch.float32).min).softmax(-1)
    weights = scores.softmax(-1)
    mixed = torch.where(shares.any(-1, keepdim=True), (weights + own) / 2, weights)
    return (mixed @ values).transpose(1, 2)


def measure(batch: int, length: int, arguments) -> None:
    """Print the table of one shape."""
    heads = list(range(arguments.lit))
    inputs = tuple(
        torch.randn(batch, arguments.heads, length, arguments.head_width, requires_grad=True) for _ in range(3)
    )
    gradient = torch.randn(batch, length, arguments.heads, arguments.head_width)
    given = tuple(phrases(batch, length, arguments.spans).values())
    config = HighlightTransformerConfig(num_heads=arguments.heads, d_model=arguments.heads * arguments.head_width)
    config._attn_implementation = "sdpa"

    def ours(queries, keys, values, highlighting):
        module = HighlightSelfAttention(
            config, config.d_model, config.num_heads, 0.0, highlighting=highlighting, lit_heads=heads
        )
        lit = lit_rows(*given, ALPHA, length, None, queries.dtype)
        return module.attend(queries, keys, values, None, lit)[0]

    def plain(queries, keys, values):
        return nn.functional.scaled_dot_product_attention(queries, keys, values).transpose(1, 2)

    candidates = {"SDPA, no highlighting": plain}
    for kind in ("weighted", "additive"):
        candidates[f"{kind}, dense"] = partial(
            dense, starts=given[0], ends=given[1], strengths=given[2], highlighting=kind, heads=heads
        )
        candidates[f"{kind}, lit rows"] = partial(ours, highlighting=kind)

    def dense_of(name):
        return f"{name.split(',')[0]}, dense"

    def backward(attend):
        return torch.autograd.grad(attend(*inputs), inputs, gradient)

    for kind in ("weighted", "additive"):
        one, other = (backward(candidates[f"{kind}, {how}"]) for how in ("dense", "lit rows"))
        for expected, found in zip(one, other, strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4, msg=kind)
    times = cpu_seconds({name: partial(backward, attend) for name, attend in candidates.items()}, arguments.rounds)
    peaks = {name: peak_mebibytes(partial(backward, attend)) for name, attend in candidates.items()}
    reference = "SDPA, no highlighting"
    rows = [
        [
            name,
            f"{1000 * times[name]:.0f}",
            f"{times[name] / times[reference]:.2f}",
            f"{peaks[name]:.0f}",
            "" if name == reference else f"{peaks[name] / peaks[dense_of(name)]:.2f}",
        ]
        for name in candidates
    ]
    columns = ["attention", "forward + backward, ms", "of SDPA's time", "peak, MiB", "of the dense one's memory"]
    title = f"{batch} documents of {length}, {arguments.lit} of {arguments.heads} heads lit, {arguments.spans} phrases"
    print_table(title, columns, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--head_width", type=int, default=64)
    parser.add_argument("--lit", type=int, default=2, help="Number of heads that highlight (default: 2)")
    parser.add_argument("--spans", type=int, default=20, help="Number of phrases per document (default: 20)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--shapes", nargs="+", default=["8x512", "2x2048"], help="Documents x tokens of each")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    for shape in arguments.shapes:
        measure(*map(int, shape.split("x")), arguments)


if __name__ == "__main__":
    main()
