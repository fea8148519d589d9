"""`generate()` of GDLF against transformers' BART of equally many parameters: time, memory, and equal tokens uncached.

Run: python benchmarks/generation.py
"""

import argparse

from measuring import cpu_seconds, fix_allocator, peak_mebibytes, print_table

fix_allocator()

import torch
from peers import bart, batch, count, gdlf


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=int, default=500)
    parser.add_argument("--new_tokens", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--settings", nargs="+", default=["1x4", "8x4", "8x10"], help="documents x beams")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    ours = gdlf().eval()
    models = {"BART": bart(count(ours)).eval(), "GDLF": ours}
    for setting in arguments.settings:
        documents, beams = map(int, setting.split("x"))
        inputs = batch(documents, arguments.source, 1)
        del inputs["labels"]
        tags = torch.randint(1, 201, inputs["input_ids"].shape)

        def generate(model, inputs=inputs, tags=tags, beams=beams, **settings):
            given = {**inputs, "tag_ids": tags} if model is ours else inputs
            lengths = {"min_new_tokens": arguments.new_tokens, "max_new_tokens": arguments.new_tokens}
            return model.generate(**given, num_beams=beams, no_repeat_ngram_size=3, **lengths, **settings)

        candidates = {name: lambda model=model: generate(model) for name, model in models.items()}
        times = cpu_seconds(candidates, arguments.rounds)
        peaks = {name: peak_mebibytes(candidate) for name, candidate in candidates.items()}
        rows = [
            [
                name,
                f"{documents / time:.2f}",
                f"{peaks[name]:.0f}",
                f"{times['BART'] / time:.2f}",
                f"{peaks[name] / peaks['BART']:.2f}",
            ]
            for name, time in times.items()
        ]
        columns = ["model", "documents a second", "peak, MiB", "times faster", "of the memory"]
        title = f"{documents} documents of {arguments.source} tokens, {beams} beams, {arguments.new_tokens} new tokens"
        print_table(title, columns, rows)
        same = torch.equal(generate(ours), generate(ours, use_cache=False))
        print(f"\nGDLF's tokens equal those of uncached decoding: {same}", flush=True)


if __name__ == "__main__":
    main()
