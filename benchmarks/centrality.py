"""Self-attention that also returns the centrality of words, compared with storing the weights of all heads.

The candidates are attention without weights, eager attention, which stores all weights, and ours. It computes context
and mean weights in chunks of queries, with its own backward pass. Forward and backward passes, with the indegree of two
rounds.

Run: python benchmarks/centrality.py
"""

import argparse
from functools import partial

from measuring import cpu_seconds, fix_allocator, peak_mebibytes, print_table

fix_allocator()

import torch
from torch import nn

from hf_summ.models.modeling_sagcopy import attention_with_mean, centrality


def eager(queries, keys, values):
    """Context and centrality from the weights of all heads."""
    weights = (queries @ keys.transpose(2, 3) * queries.shape[3] ** -0.5).softmax(-1)
    return (weights @ values).transpose(1, 2), weights.mean(1)


def ours(queries, keys, values):
    """The same in chunks of queries."""
    return attention_with_mean(queries, keys, values, None, queries.shape[3] ** -0.5)


def plain(queries, keys, values):
    """Only the context."""
    return nn.functional.scaled_dot_product_attention(queries, keys, values).transpose(1, 2), None


def backward(attend, inputs, gradient, of_scores):
    """Gradients of the inputs, through the context and the centrality, if any."""
    context, mean = attend(*inputs)
    outputs, gradients = [context], [gradient]
    if mean is not None:
        is_token = torch.ones_like(mean[:, 0])
        outputs.append(centrality(mean, is_token, "indegree-2"))
        gradients.append(of_scores)
    return torch.autograd.grad(outputs, inputs, gradients)


def measure(batch: int, length: int, arguments) -> None:
    """Print the table of one shape."""
    shape = (batch, arguments.heads, length, arguments.head_width)
    inputs = tuple(torch.randn(shape, requires_grad=True) for _ in range(3))
    gradient = torch.randn(batch, length, arguments.heads, arguments.head_width)
    of_scores = torch.randn(batch, length)
    named = {"no centrality, SDPA": plain, "all weights, eager": eager, "ours": ours}
    candidates = {name: partial(backward, attend, inputs, gradient, of_scores) for name, attend in named.items()}
    for expected, found in zip(candidates["all weights, eager"](), candidates["ours"](), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)
    times = cpu_seconds(candidates, arguments.rounds)
    peaks = {name: peak_mebibytes(candidate) for name, candidate in candidates.items()}
    reference = "all weights, eager"
    rows = [
        [
            name,
            f"{1000 * times[name]:.0f}",
            f"{times[name] / times[reference]:.2f}",
            f"{peaks[name]:.0f}",
            f"{peaks[name] / peaks[reference]:.2f}",
        ]
        for name in candidates
    ]
    columns = ["attention", "forward + backward, ms", "of eager's time", "peak, MiB", "of eager's memory"]
    print_table(f"{batch} documents of {length}, {arguments.heads} heads of {arguments.head_width}", columns, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--head_width", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--shapes", nargs="+", default=["4x800", "8x500"], help="Documents x tokens of each")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    for shape in arguments.shapes:
        measure(*map(int, shape.split("x")), arguments)


if __name__ == "__main__":
    main()
