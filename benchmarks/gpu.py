"""Training steps on a GPU in bfloat16, each model beside a BART with as many parameters.

A step's kernels and the time that the GPU computes them do not depend on other work of the processor, unlike the time
of the step. Run: python benchmarks/gpu.py
"""

import argparse
import warnings
from statistics import median

import torch
from measuring import print_table
from peers import bart, batch, copy_transformer, count, drgd, gdlf, highlight_transformer, phrases, sagcopy
from torch import nn
from torch.profiler import ProfilerActivity, profile

# the CopyTransformer without BERT, in the width of Highlight-Transformer
PLAIN = {"encoder_type": "transformer", "decoder_embedding": "trained", "d_model": 512, "ffn_dim": 2048}
LAYERS = {"encoder_layers": 4, "decoder_layers": 4, "attention_dropout": 0.0}


def measure(name: str, model: nn.Module, inputs: dict[str, torch.Tensor], rounds: int) -> list[str]:
    """The row of a model: parameters, milliseconds of a step, kernels and their milliseconds, waits, peak memory."""
    model, inputs = model.cuda().train(), {key: tensor.cuda() for key, tensor in inputs.items()}
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-5, fused=True)

    def step() -> None:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(**inputs).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    times = []
    for _ in range(rounds + 3):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        step()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    torch.cuda.set_sync_debug_mode("warn")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        step()
    torch.cuda.set_sync_debug_mode("default")
    waits = sum("synchroniz" in str(warning.message) for warning in caught)
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        step()
        torch.cuda.synchronize()
    kernels = [event.device_time for event in profiled.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    peak = torch.cuda.max_memory_allocated() / 2**30
    parameters, busy = f"{count(model) / 1e6:.1f}M", sum(kernels) / 1000
    return [name, parameters, f"{median(times[3:]):.1f}", str(len(kernels)), f"{busy:.1f}", str(waits), f"{peak:.1f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--source", type=int, default=500)
    parser.add_argument("--target", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    inputs = batch(arguments.rows, arguments.source, arguments.target)
    tagged = {**inputs, "tag_ids": torch.randint(1, 201, inputs["input_ids"].shape)}
    given = {**inputs, **phrases(arguments.rows, arguments.source, 20)}
    convolving = gdlf(attention_dropout=0.0, conv_implementation="chunked")
    copying = copy_transformer(**PLAIN, **LAYERS)
    models = {
        "GDLF (chunked)": (convolving, tagged),
        "BART of its size": (bart(convolving), inputs),
        "CopyTransformer": (copying, inputs),
        "BART of its size, 4 + 4 layers": (bart(copying), inputs),
        "Highlight-Transformer": (highlight_transformer(), given),
        "SAGCopy (indegree-1)": (sagcopy(centrality="indegree-1", attention_dropout=0.0), inputs),
        "DRGD": (drgd(), inputs),
    }
    rows = []
    for name, (model, own) in models.items():
        torch.cuda.reset_peak_memory_stats()
        rows.append(measure(name, model, own, arguments.rounds))
        model.cpu()
        torch.cuda.empty_cache()
    columns = ["model", "parameters", "a step, ms", "kernels", "their ms", "waits", "peak, GiB"]
    print_table(f"bfloat16, {arguments.rows} rows of {arguments.source} + {arguments.target} tokens", columns, rows)


if __name__ == "__main__":
    main()
