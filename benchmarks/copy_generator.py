"""The copy mixture's training loss and decoding step, compared with the mixture over the full vocabulary.

The loss includes the output projection, label smoothing and all gradients. Plain cross-entropy, without copying, is
measured as well. Run: python benchmarks/copy_generator.py
"""

import argparse

from measuring import cpu_seconds, fix_allocator, peak_mebibytes, print_table

fix_allocator()

import torch
from torch import nn

from hf_summ.models.layers_copying import copy_log_probs
from hf_summ.training.losses import copy_cross_entropy

SMOOTHING = 0.1


def full_mixture(logits, gate_logits, copy_attention, source_ids):
    """The full mixture: softmax, product, attention added at the source's tokens, floor, logarithm."""
    copying = gate_logits.sigmoid()[..., None]
    beams = logits.shape[0] // source_ids.shape[0]
    places = source_ids.repeat_interleave(beams, dim=0)[:, None].expand(copy_attention.shape)
    probabilities = logits.softmax(-1) * (1.0 - copying)
    return probabilities.scatter_add(-1, places, copying * copy_attention).clamp(min=1e-10).log()


def full_mixture_loss(hidden, weight, bias, gate_logits, copy_attention, source_ids, labels):
    log_probs = full_mixture(nn.functional.linear(hidden, weight, bias), gate_logits, copy_attention, source_ids)
    nll = -log_probs.gather(-1, labels[..., None]).mean()
    return (1.0 - SMOOTHING) * nll - SMOOTHING * log_probs.mean()


def plain_loss(hidden, weight, bias, gate_logits, copy_attention, source_ids, labels):
    """Plain cross-entropy, without copying."""
    logits = nn.functional.linear(hidden, weight, bias)
    return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), label_smoothing=SMOOTHING)


def chunked_loss(*inputs):
    return copy_cross_entropy(*inputs, SMOOTHING)[0]


LOSSES = {"full mixture": full_mixture_loss, "plain cross-entropy": plain_loss, "copy_cross_entropy": chunked_loss}


def training(width: int, arguments) -> None:
    """Forward and backward passes with all gradients."""
    batch, target, source, vocabulary = arguments.batch, arguments.target, arguments.source, arguments.vocabulary
    learned = {
        "hidden": torch.randn(batch, target, width),
        "weight": torch.randn(vocabulary, width) / width**0.5,
        "bias": torch.zeros(vocabulary),
        "gate_logits": torch.randn(batch, target),
        "copy_attention": torch.randn(batch, target, source).softmax(-1),
    }
    for tensor in learned.values():
        tensor.requires_grad_()
    source_ids = torch.randint(vocabulary, (batch, source))
    # half of the labels occur in the source
    labels = torch.where(
        torch.rand(batch, target) < 0.5,
        source_ids.gather(1, torch.randint(source, (batch, target))),
        torch.randint(vocabulary, (batch, target)),
    )

    def backward(loss):
        return torch.autograd.grad(
            loss(*learned.values(), source_ids, labels), tuple(learned.values()), allow_unused=True
        )

    torch.testing.assert_close(
        chunked_loss(*learned.values(), source_ids, labels), full_mixture_loss(*learned.values(), source_ids, labels)
    )
    for name, one, other in zip(learned, backward(chunked_loss), backward(full_mixture_loss), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4 * other.abs().max().item(), msg=name)
    del one, other

    times = cpu_seconds({name: lambda loss=loss: backward(loss) for name, loss in LOSSES.items()}, arguments.rounds)
    peaks = {name: peak_mebibytes(lambda loss=loss: backward(loss)) for name, loss in LOSSES.items()}
    rows = [
        [
            name,
            f"{1000 * times[name]:.0f}",
            f"{peaks[name]:.0f}",
            f"{times['full mixture'] / times[name]:.2f}",
            f"{peaks[name] / peaks['full mixture']:.2f}",
        ]
        for name in LOSSES
    ]
    title = (
        f"loss and gradients, batch {batch}, target {target}, source {source}, vocabulary {vocabulary}, width {width}"
    )
    print_table(title, ["formulation", "ms", "peak, MiB", "times faster", "of the memory"], rows)


def decoding(beams: int, arguments) -> None:
    """One decoding step, starting from the logits."""
    rows, source, vocabulary = arguments.batch * beams, arguments.source, arguments.vocabulary
    inputs = (
        torch.randn(rows, 1, vocabulary),
        torch.randn(rows, 1),
        torch.randn(rows, 1, source).softmax(-1),
        torch.randint(vocabulary, (arguments.batch, source)),
    )
    candidates = {
        "full mixture": lambda: full_mixture(*inputs),
        "log-softmax alone": lambda: inputs[0].log_softmax(-1),
        "copy_log_probs": lambda: copy_log_probs(*inputs),
    }
    with torch.no_grad():
        torch.testing.assert_close(candidates["copy_log_probs"](), candidates["full mixture"](), rtol=1e-4, atol=1e-4)
        times = cpu_seconds(candidates, 10 * arguments.rounds)
        peaks = {name: peak_mebibytes(candidate) for name, candidate in candidates.items()}
    table = [
        [
            name,
            f"{1000 * time:.2f}",
            f"{peaks[name]:.0f}",
            f"{times['full mixture'] / time:.2f}",
            f"{peaks[name] / peaks['full mixture']:.2f}",
        ]
        for name, time in times.items()
    ]
    title = f"a step of decoding, {arguments.batch} documents, {beams} beams"
    print_table(title, ["formulation", "ms", "peak, MiB", "times faster", "of the memory"], table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--target", type=int, default=100)
    parser.add_argument("--source", type=int, default=500)
    parser.add_argument("--vocabulary", type=int, default=30000)
    parser.add_argument("--widths", nargs="+", type=int, default=[256, 512])
    parser.add_argument("--beams", nargs="+", type=int, default=[10, 4])
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    for width in arguments.widths:
        training(width, arguments)
    for beams in arguments.beams:
        decoding(beams, arguments)


if __name__ == "__main__":
    main()
