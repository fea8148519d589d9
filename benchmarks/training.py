"""A training step of GDLF compared with transformers' BART with the same number of parameters: time and memory.

BART is measured in its best setting on a CPU, without dropout of attention weights, and with it, as in many recipes:
the fused attention kernel has no dropout, so that all weights are then computed and kept.

Run: python benchmarks/training.py
"""

import argparse
from functools import partial

from measuring import cpu_seconds, fix_allocator, peak_mebibytes, print_table

fix_allocator()

import torch
from peers import bart, batch, count, gdlf

BASELINE = "BART (SDPA)"
DROPPING = "BART (attention dropout 0.1)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--source", type=int, default=500)
    parser.add_argument("--target", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"])
    arguments = parser.parse_args()
    torch.manual_seed(0)
    ours = gdlf(attention_dropout=0.0, conv_implementation="chunked")
    models = {
        BASELINE: bart(ours),
        DROPPING: bart(ours, attention_dropout=0.1),
        "GDLF (chunked)": ours,
        "GDLF (compiled)": gdlf(attention_dropout=0.0),
    }
    inputs = batch(arguments.rows, arguments.source, arguments.target)
    tags = torch.randint(1, 201, inputs["input_ids"].shape)
    tokens = arguments.rows * (arguments.source + arguments.target)
    optimizers = {name: torch.optim.Adam(model.train().parameters(), lr=1e-5) for name, model in models.items()}

    def step(name: str, dtype: str) -> None:
        given = inputs if name in (BASELINE, DROPPING) else {**inputs, "tag_ids": tags}
        with torch.autocast("cpu", dtype=getattr(torch, dtype), enabled=dtype != "float32"):
            loss = models[name](**given).loss
        loss.backward()
        optimizers[name].step()
        optimizers[name].zero_grad()

    for dtype in arguments.dtypes:
        candidates = {name: partial(step, name, dtype) for name in models}
        times = cpu_seconds(candidates, arguments.rounds)
        peaks = {name: peak_mebibytes(candidate) for name, candidate in candidates.items()}
        rows = [
            [
                name,
                f"{count(model) / 1e6:.1f}M",
                f"{tokens / times[name]:.0f}",
                f"{peaks[name]:.0f}",
                *(f"{times[peer] / times[name]:.2f}" for peer in (BASELINE, DROPPING)),
                *(f"{peaks[name] / peaks[peer]:.2f}" for peer in (BASELINE, DROPPING)),
            ]
            for name, model in models.items()
        ]
        columns = [
            "model",
            "parameters",
            "tokens per second",
            "peak, MiB",
            "times as fast as BART",
            "as BART, dropping",
        ]
        columns += ["of BART's memory", "of BART's, dropping"]
        shape = f"{arguments.rows} rows of {arguments.source} + {arguments.target} tokens"
        print_table(f"training step with Adam, {dtype}, {shape}", columns, rows)


if __name__ == "__main__":
    main()
