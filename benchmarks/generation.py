"""`generate()` of GDLF and CopyTransformer in 32 and 8 bits, compared with a BART of the same sizes.

The BART is decoded by transformers and by CTranslate2, which the extra dev installs. Measures time, torch's memory, and
whether the tokens equal those of uncached decoding. Run: python benchmarks/generation.py
"""

import argparse

from measuring import cpu_seconds, fix_allocator, peak_mebibytes, print_table

fix_allocator()

import torch
from peers import bart, batch, copy_transformer, count, ctranslate2_bart, gdlf, in_8_bits
from transformers import CompileConfig

MODELS = {"GDLF": gdlf, "CopyTransformer": copy_transformer}


def compare(name: str, arguments: argparse.Namespace) -> None:
    """Measure one of our models and its peers for all numbers of documents and beams."""
    ours = MODELS[name]().eval()
    peer = bart(ours).eval()
    models = {"BART": peer, name: ours, f"{name}, int8": in_8_bits(ours)}
    translators = {
        f"BART, CTranslate2, {compute_type}": ctranslate2_bart(peer, compute_type)
        for compute_type in ("float32", "int8")
    }
    sizes = {label: f" ({count(model) / 1e6:.1f}M)" for label, model in models.items() if model in (peer, ours)}
    for setting in arguments.settings:
        documents, beams = map(int, setting.split("x"))
        inputs = batch(documents, arguments.source, 1)
        del inputs["labels"]
        tags = {"tag_ids": torch.randint(1, 201, inputs["input_ids"].shape)} if name == "GDLF" else {}
        words = [[str(index) for index in row] for row in inputs["input_ids"].tolist()]

        def generate(model, inputs=inputs, tags=tags, beams=beams, **settings):
            given = inputs if model is peer else {**inputs, **tags}
            lengths = {"min_new_tokens": arguments.new_tokens, "max_new_tokens": arguments.new_tokens}
            return model.generate(**given, num_beams=beams, no_repeat_ngram_size=3, **lengths, **settings)

        def translate(translator, words=words, beams=beams):
            lengths = {"min_decoding_length": arguments.new_tokens, "max_decoding_length": arguments.new_tokens}
            return translator.translate_batch(words, beam_size=beams, no_repeat_ngram_size=3, **lengths)

        candidates = {label: lambda model=model: generate(model) for label, model in models.items()}
        for label, model in models.items():
            if getattr(model, "compiles_steps", False):
                candidates[f"{label}, compiled"] = lambda model=model: generate(model, compile_config=CompileConfig())
        translated = {label: lambda other=other: translate(other) for label, other in translators.items()}
        times = cpu_seconds({**candidates, **translated}, arguments.rounds)
        peaks = {label: peak_mebibytes(candidate) for label, candidate in candidates.items()}
        rows = [
            [
                f"{label}{sizes.get(label, '')}",
                f"{documents / time:.2f}",
                f"{peaks[label]:.0f}" if label in peaks else "–",
                f"{times['BART'] / time:.2f}",
                f"{peaks[label] / peaks['BART']:.2f}" if label in peaks else "–",
            ]
            for label, time in times.items()
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
