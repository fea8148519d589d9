"""`generate()` of GDLF and CopyTransformer in 32 and 8 bits, compared with a BART of the same sizes.

PyTorch and ONNX Runtime decode ours; transformers and CTranslate2, which the extra dev installs, decode the BART.
SAGCopy is compared with MASS+Copy, its network without guidance. Measures time, torch's memory, and for the first two
models whether the tokens equal those of uncached decoding. Run: python benchmarks/generation.py
"""

import argparse
from collections.abc import Callable

from measuring import cpu_seconds, fix_allocator, peak_mebibytes, print_table

fix_allocator()

import torch
from peers import bart, batch, copy_transformer, count, ctranslate2_bart, gdlf, in_8_bits, in_onnx, sagcopy
from transformers import CompileConfig

MODELS = {"GDLF": gdlf, "CopyTransformer": copy_transformer}
GUIDED, UNGUIDED = "SAGCopy", "MASS+Copy"


def lengths(arguments: argparse.Namespace) -> dict[str, int]:
    return {"min_new_tokens": arguments.new_tokens, "max_new_tokens": arguments.new_tokens}


def report(
    setting: str, times: dict[str, float], candidates: dict[str, Callable], labels: dict[str, str], reference: str
) -> None:
    """Print the table of one setting; memory is measured only for `candidates`, a subset of `times`."""
    documents = int(setting.partition("x")[0])
    peaks = {name: peak_mebibytes(candidate) for name, candidate in candidates.items()}
    rows = [
        [
            labels.get(name, name),
            f"{documents / time:.2f}",
            f"{peaks[name]:.0f}" if name in peaks else "–",
            f"{times[reference] / time:.2f}",
            f"{peaks[name] / peaks[reference]:.2f}" if name in peaks else "–",
        ]
        for name, time in times.items()
    ]
    columns = ["model", "documents per second", "peak, MiB", "times faster", "of the memory"]
    print_table(f"{setting} (documents x beams)", columns, rows)


def compare_guided(arguments: argparse.Namespace) -> None:
    """Measure SAGCopy and MASS+Copy, which differ in computations once per document."""
    kinds = {UNGUIDED: "none", GUIDED: "indegree-2"}
    models = {name: sagcopy(centrality=kind).eval() for name, kind in kinds.items()}
    for setting in arguments.settings:
        documents, beams = map(int, setting.split("x"))
        inputs = batch(documents, arguments.source, 1)
        del inputs["labels"]

        def generate(model, inputs=inputs, beams=beams):
            return model.generate(**inputs, num_beams=beams, no_repeat_ngram_size=3, **lengths(arguments))

        candidates = {name: lambda model=model: generate(model) for name, model in models.items()}
        report(setting, cpu_seconds(candidates, arguments.rounds), candidates, {}, UNGUIDED)


def compare(name: str, arguments: argparse.Namespace) -> None:
    """Measure one of our models and its peers for all numbers of documents and beams."""
    ours = MODELS[name]().eval()
    peer = bart(ours).eval()
    models = {"BART": peer, name: ours, f"{name}, int8": in_8_bits(ours)}
    translators = {
        f"BART, CTranslate2, {compute_type}": ctranslate2_bart(peer, compute_type)
        for compute_type in ("float32", "int8")
    }
    runtimes = {f"{name}, ONNX Runtime, {kind}": in_onnx(ours, kind == "int8") for kind in ("float32", "int8")}
    labels = {name: f"{name} ({count(model) / 1e6:.1f}M)" for name, model in models.items() if model in (peer, ours)}
    for setting in arguments.settings:
        documents, beams = map(int, setting.split("x"))
        inputs = batch(documents, arguments.source, 1)
        del inputs["labels"]
        tags = {"tag_ids": torch.randint(1, 201, inputs["input_ids"].shape)} if name == "GDLF" else {}
        words = [[str(index) for index in row] for row in inputs["input_ids"].tolist()]

        def generate(model, inputs=inputs, tags=tags, beams=beams, **settings):
            given = inputs if model is peer else {**inputs, **tags}
            return model.generate(**given, num_beams=beams, no_repeat_ngram_size=3, **lengths(arguments), **settings)

        def translate(translator, words=words, beams=beams):
            of_text = {
                name.replace("new_tokens", "decoding_length"): value for name, value in lengths(arguments).items()
            }
            return translator.translate_batch(words, beam_size=beams, no_repeat_ngram_size=3, **of_text)

        candidates = {label: lambda model=model: generate(model) for label, model in models.items()}
        for label, model in models.items():
            if getattr(model, "compiles_steps", False):
                candidates[f"{label}, compiled"] = lambda model=model: generate(model, compile_config=CompileConfig())
        # their memory is not torch's
        others = {label: lambda model=model: generate(model) for label, model in runtimes.items()}
        others |= {label: lambda other=other: translate(other) for label, other in translators.items()}
        times = cpu_seconds({**candidates, **others}, arguments.rounds)
        report(setting, times, candidates, labels, "BART")
        # float64, as rounding may decide between tied beams in float32
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
    parser.add_argument("--models", nargs="+", default=[*MODELS, GUIDED], choices=[*MODELS, GUIDED])
    arguments = parser.parse_args()
    torch.manual_seed(0)
    print(f"source of {arguments.source} tokens, {arguments.new_tokens} new tokens")
    for name in arguments.models:
        if name == GUIDED:
            compare_guided(arguments)
        else:
            compare(name, arguments)


if __name__ == "__main__":
    main()
