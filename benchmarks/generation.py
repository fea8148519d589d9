"""`generate()` of GDLF and CopyTransformer, compared with transformers' BART with the same sizes.

Measures time and memory, and whether the tokens equal those of uncached decoding. Run: python benchmarks/generation.py
"""

import argparse

from measuring import cpu_seconds, fix_allocator, peak_mebibytes, print_table

fix_allocator()

import torch
from peers import bart, batch, copy_transformer, count, gdlf

MODELS = {"GDLF": gdlf, "CopyTransformer": copy_transformer}


def compare(name: str, arguments: argparse.Namespace) -> None:
    """Measure one of our models and its peer for all numbers of documents and beams."""
    ours = MODELS[name]().eval()
    models = {"BART": bart(ours).eval(), name: ours}
    for setting in arguments.settings:
        documents, beams = map(int, setting.split("x"))
        inputs = batch(documents, arguments.source, 1)
        del inputs["labels"]
        tags = {"tag_ids": torch.randint(1, 201, inputs["input_ids"].shape)} if name == "GDLF" else {}

        def generate(model, inputs=inputs, tags=tags, beams=beams, **settings):
            given = {**inputs, **tags} if model is ours else inputs
            lengths = {"min_new_tokens": arguments.new_tokens, "max_new_tokens": arguments.new_tokens}
            return model.generate(**given, num_beams=beams, no_repeat_ngram_size=3, **lengths, **settings)

        candidates = {name: lambda model=model: generate(model) for name, model in models.items()}
        times = cpu_seconds(candidates, arguments.rounds)
        peaks = {name: peak_mebibytes(candidate) for name, candidate in candidates.items()}
        rows = [
            [
                f"{name} ({count(models[name]) / 1e6:.1f}M)",
                f"{documents / time:.2f}",
                f"{peaks[name]:.0f}",
                f"{times['BART'] / time:.2f}",
                f"{peaks[name] / peaks['BART']:.2f}",
            ]
            for name, time in times.items()
        ]
        columns = ["model", "documents per second", "peak, MiB", "times faster", "of the memory"]
        title = f"{documents} documents of {arguments.source} tokens, {beams} beams, {arguments.new_tokens} new tokens"
        print_table(title, columns, rows)
        # in float32 rounding may decide between tied beams
        ours.double()
        same = torch.equal(generate(ours), generate(ours, use_cache=False))
        ours.float()
        print(f"\n{name}'s tokens equal those of uncached decoding (float64): {same}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=int, default=500)
    parser.add_argument("--new_tokens", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--settings",
        nargs="+",
        default=["1x4", "8x4", "8x10"],
        help="Numbers of documents x beams (default: 1x4 8x4 8x10)",
    )
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    for name in arguments.models:
        compare(name, arguments)


if __name__ == "__main__":
    main()
