"""`generate()` of five of the architectures in 32, 16 and 8 bits, each compared with a BART of equal parameter count.

PyTorch and ONNX Runtime decode ours; transformers, ONNX Runtime and CTranslate2, which the extra dev installs, decode
the BART. Measures time, torch's memory, and whether the tokens equal those of uncached decoding.

Run: python benchmarks/generation.py, or with --runtimes_only, without PyTorch's candidates but the BART in float32
"""

import argparse
import copy
import statistics
from collections.abc import Callable

from measuring import fix_allocator, peak_mebibytes, print_table, seconds_of_rounds

fix_allocator()

import torch
from peers import (
    bart,
    bart_base,
    batch,
    copy_transformer,
    count,
    ctranslate2_bart,
    drgd,
    gdlf,
    highlight_transformer,
    in_8_bits,
    in_onnx,
    phrases,
    sagcopy,
)
from transformers import CompileConfig

MODELS = {
    "GDLF": gdlf,
    "CopyTransformer": copy_transformer,
    "Highlight-Transformer": highlight_transformer,
    "DRGD": drgd,
    "SAGCopy": sagcopy,
    "BART-base": bart_base,
}


def further_inputs(name: str, documents: int, source: int) -> dict[str, torch.Tensor]:
    """What a model reads besides ids: GDLF's tags, Highlight-Transformer's 20 phrases per document."""
    if name == "GDLF":
        return {"tag_ids": torch.randint(1, 201, (documents, source))}
    return phrases(documents, source, 20) if name == "Highlight-Transformer" else {}


def lengths(arguments: argparse.Namespace) -> dict[str, int]:
    return {"min_new_tokens": arguments.new_tokens, "max_new_tokens": arguments.new_tokens}


def report(
    setting: str, times: dict[str, list[float]], candidates: dict[str, Callable], labels: dict[str, str]
) -> None:
    """Print the table of one setting; memory is measured only for `candidates`, a subset of `times`."""
    documents = int(setting.partition("x")[0])
    peaks = {name: peak_mebibytes(candidate) for name, candidate in candidates.items()}
    medians = {name: statistics.median(values) for name, values in times.items()}
    rows = [
        [
            labels.get(name, name),
            f"{documents / medians[name]:.2f}",
            f"{documents / max(values):.2f} to {documents / min(values):.2f}",
            f"{peaks[name]:.0f}" if name in peaks else "–",
            f"{medians['BART'] / medians[name]:.2f}",
            f"{peaks[name] / peaks['BART']:.2f}" if name in peaks else "–",
        ]
        for name, values in times.items()
    ]
    columns = ["model", "documents per second", "range", "peak, MiB", "times faster", "of the memory"]
    print_table(f"{setting} (documents x beams)", columns, rows)


def compare(name: str, arguments: argparse.Namespace) -> None:
    """Measure one of our models and its peers for all numbers of documents and beams."""
    ours = MODELS[name]().eval()
    is_bart = ours.config.model_type == "bart"
    peer = ours if is_bart else bart(ours).eval()
    models = {"BART": peer}
    if not arguments.runtimes_only:
        models |= {} if is_bart else {name: ours, f"{name}, int8": in_8_bits(ours)}
        models |= {f"{label}, bfloat16": copy.deepcopy(model).bfloat16() for label, model in [*models.items()][:2]}
    translators = {
        f"BART, CTranslate2, {compute_type}": ctranslate2_bart(peer, compute_type)
        for compute_type in ("float32", "int8")
    }
    exported = {"BART": peer} if is_bart else {name: ours, "BART": peer}
    runtimes = {
        f"{label}, ONNX Runtime, {kind}": in_onnx(model, kind == "int8")
        for label, model in exported.items()
        for kind in ("float32", "int8")
    }
    labels = {name: f"{name} ({count(model) / 1e6:.1f}M)" for name, model in models.items() if model in (peer, ours)}
    for setting in arguments.settings:
        documents, beams = map(int, setting.split("x"))
        inputs = batch(documents, arguments.source, 1)
        del inputs["labels"]
        further = further_inputs(name, documents, arguments.source)
        words = [[str(index) for index in row] for row in inputs["input_ids"].tolist()]

        def generate(model, inputs=inputs, further=further, beams=beams, **settings):
            given = {**inputs, **further} if model.config.model_type == ours.config.model_type else inputs
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
        times = seconds_of_rounds({**candidates, **others}, arguments.rounds)
        report(setting, times, candidates, labels)
        if is_bart or arguments.runtimes_only:
            continue
        # float64, as rounding may decide between tied beams in float32
        ours.double()
        same = torch.equal(generate(ours), generate(ours, use_cache=False))
        ours.float()
        print(f"\n{name}'s tokens equal those of uncached decoding (float64): {same}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=int, default=500)
    parser.add_argument("--new_tokens", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--settings", nargs="+", default=["1x4", "8x4"], help="Numbers of documents x beams (default: 1x4 8x4)"
    )
    parser.add_argument("--runtimes_only", action="store_true", help="Of PyTorch, measure the BART in float32 alone")
    parser.add_argument("--models", nargs="+", default=[*MODELS], choices=[*MODELS])
    arguments = parser.parse_args()
    torch.manual_seed(0)
    print(f"source of {arguments.source} tokens, {arguments.new_tokens} new tokens")
    for name in arguments.models:
        compare(name, arguments)


if __name__ == "__main__":
    main()
