"""Training steps with Adam: GDLF compared with BART, and models with guided copying compared with ones without.

The BART has the same number of parameters. It is measured without attention dropout, its best setting on a CPU, and
with attention dropout, as in many recipes: the fused attention kernel has no dropout, so all weights are then computed
and stored. Highlight-Transformer is compared with a CopyTransformer of the same size, SAGCopy with itself without
guidance, and CopyTransformer with itself without the fused kernel; none of these has attention dropout. Last, GDLF and
DRGD train with two threads, in bfloat16 and with torch.compile, in wall time: leave all cores to it.

Run: python benchmarks/training.py
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from statistics import median

from measuring import cpu_seconds, fix_allocator, peak_mebibytes, print_table, seconds_of_rounds

fix_allocator()

import torch
from peers import bart, batch, copy_transformer, count, drgd, gdlf, highlight_transformer, phrases, sagcopy
from torch import nn

BART, DROPPING = "BART (SDPA)", "BART (attention dropout 0.1)"
COPYING, UNGUIDED, FUSED = "CopyTransformer", "MASS+Copy", "CopyTransformer (SDPA)"
# the CopyTransformer without BERT
PLAIN = {"encoder_type": "transformer", "decoder_embedding": "trained", "copy_attention": "first_head", "norm": "pre"}
Models = dict[str, tuple[nn.Module, dict[str, torch.Tensor]]]


def gdlf_and_barts(inputs: dict[str, torch.Tensor]) -> Models:
    """The paper's GDLF with its tags, and its peers."""
    ours = gdlf(attention_dropout=0.0, conv_implementation="chunked")
    tagged = {**inputs, "tag_ids": torch.randint(1, 201, inputs["input_ids"].shape)}
    return {
        BART: (bart(ours), inputs),
        DROPPING: (bart(ours, attention_dropout=0.1), inputs),
        "GDLF (chunked)": (ours, tagged),
        "GDLF (compiled)": (gdlf(attention_dropout=0.0), tagged),
    }


def highlighting(inputs: dict[str, torch.Tensor]) -> Models:
    """The paper's Highlight-Transformer with 20 phrases per document, and CopyTransformer."""
    dropout = {"dropout": 0.2, "activation_dropout": 0.2, "attention_dropout": 0.0}
    sizes = {"d_model": 512, "ffn_dim": 2048, "encoder_layers": 4, "decoder_layers": 4}
    models: Models = {COPYING: (copy_transformer(**sizes, **dropout, convolutional_attention="none", **PLAIN), inputs)}
    given = {**inputs, **phrases(*inputs["input_ids"].shape, 20)}
    for kind in ("weighted", "additive"):
        models[f"Highlight-Transformer ({kind})"] = (
            highlight_transformer(**sizes, **dropout, highlighting=kind),
            given,
        )
    return models


def guided(inputs: dict[str, torch.Tensor]) -> Models:
    """SAGCopy with and without guidance, in a small width."""
    kinds = {UNGUIDED: "none", "SAGCopy (outdegree)": "outdegree", "SAGCopy (indegree-2)": "indegree-2"}
    return {name: (sagcopy(attention_dropout=0.0, centrality=kind), inputs) for name, kind in kinds.items()}


def attentions(inputs: dict[str, torch.Tensor]) -> Models:
    """A small CopyTransformer with the fused kernel, and with eager attention."""
    models: Models = {}
    for name, kind in ((FUSED, "sdpa"), ("CopyTransformer (eager)", "eager")):
        sizes = {"d_model": 256, "num_heads": 4, "ffn_dim": 1024, "encoder_layers": 2, "decoder_layers": 2}
        model = copy_transformer(**sizes, attention_dropout=0.0, convolutional_attention="none", **PLAIN)
        model.set_attn_implementation(kind)
        models[name] = model, inputs
    return models


SYSTEMS: dict[str, tuple[Callable[[dict[str, torch.Tensor]], Models], tuple[str, ...]]] = {
    "gdlf": (gdlf_and_barts, (BART, DROPPING)),
    "highlight_transformer": (highlighting, (COPYING,)),
    "sagcopy": (guided, (UNGUIDED,)),
    "attention": (attentions, (FUSED,)),
}


def measure(system: str, dtype: str, arguments: argparse.Namespace) -> None:
    """Print the table of one system and its peers."""
    torch.manual_seed(0)
    make, peers = SYSTEMS[system]
    models = make(batch(arguments.rows, arguments.source, arguments.target))
    optimizers = {name: torch.optim.Adam(model.train().parameters(), lr=1e-5) for name, (model, _) in models.items()}

    def step(name: str) -> None:
        model, inputs = models[name]
        with torch.autocast("cpu", dtype=getattr(torch, dtype), enabled=dtype != "float32"):
            loss = model(**inputs).loss
        loss.backward()
        optimizers[name].step()
        optimizers[name].zero_grad()

    candidates = {name: partial(step, name) for name in models}
    times = cpu_seconds(candidates, arguments.rounds)
    peaks = {name: peak_mebibytes(candidate) for name, candidate in candidates.items()}
    tokens = arguments.rows * (arguments.source + arguments.target)
    rows = [
        [
            name,
            f"{count(model) / 1e6:.1f}M",
            f"{tokens / times[name]:.0f}",
            f"{peaks[name]:.0f}",
            *(f"{times[peer] / times[name]:.2f}" for peer in peers),
            *(f"{peaks[name] / peaks[peer]:.2f}" for peer in peers),
        ]
        for name, (model, _) in models.items()
    ]
    columns = ["model", "parameters", "tokens per second", "peak, MiB"]
    columns += [f"times as fast as {peer}" for peer in peers] + [f"of the memory of {peer}" for peer in peers]
    print_table(f"{dtype}, {arguments.rows} rows of {arguments.source} + {arguments.target} tokens", columns, rows)


def compare_ways(arguments: argparse.Namespace) -> None:
    """Print the wall time of an update in several ways, for GDLF and DRGD."""
    inputs = batch(arguments.rows, arguments.source, arguments.target)
    tagged = {**inputs, "tag_ids": torch.randint(1, 201, inputs["input_ids"].shape)}
    for name, model, given in (("GDLF", gdlf(), tagged), ("DRGD", drgd(), inputs)):
        optimizer = torch.optim.Adam(model.train().parameters(), lr=1e-5)

        def update(run, threads, dtype, optimizer=optimizer, given=given):
            torch.set_num_threads(threads)
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == "bfloat16"):
                loss = run(**given).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

        ways = {
            f"{dtype}, {threads} thread{'s' * (threads > 1)}": partial(update, model, threads, dtype)
            for dtype in ("float32", "bfloat16")
            for threads in (1, 2)
        }
        # torch.compile does not trace GRU modules
        if name == "GDLF":
            ways["float32, 1 thread, torch.compile"] = partial(update, torch.compile(model), 1, "float32")
        times = seconds_of_rounds(ways, arguments.rounds, time.perf_counter)
        first = median(times["float32, 1 thread"])
        rows = [
            [way, f"{median(taken):.2f}", f"{min(taken):.2f} to {max(taken):.2f}", f"{first / median(taken):.2f}"]
            for way, taken in times.items()
        ]
        print_table(f"{name}, an update", ["way", "seconds", "range", "times as fast"], rows)
    torch.set_num_threads(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", nargs="+", choices=[*SYSTEMS, "ways"], default=[*SYSTEMS, "ways"])
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--source", type=int, default=500)
    parser.add_argument("--target", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"])
    arguments = parser.parse_args()
    for system in arguments.systems:
        if system == "ways":
            compare_ways(arguments)
            continue
        for dtype in arguments.dtypes:
            measure(system, dtype, arguments)


if __name__ == "__main__":
    main()
