"""Combinations of flags of `hf-summ evaluate`, `extract`, `summarize` and `explain`, each with an effect or refused."""

import copy
import json
import random
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

from transformers import GenerationConfig

from hf_summ.models.checks import SETTINGS
from tests.conftest import SENTENCES
from tests.torture import values
from tests.torture.cases import Case, Ignored
from tests.torture.commands import command
from tests.torture.workshop import ARCHITECTURES, Workshop

_OF_EVALUATE = """rouge_mode=rouge_score|rouge155 rouge_types=rouge1|rouge2|rougeL|rougeX no_stemmer byte_limit=20|0|-1
    units=characters|lcsts|spaced word_limit=3|2|0 several=mean|best|pooled average=micro count=tokens count_punctuation
    summary_column=references|no text_column=document|no
    resamples=50|1|0 seed=5|-1 sentences=lines language=de|zh|x separator=.|none|city sources=sources.jsonl
    format=json|latex against=other.txt output=report.json|report.txt scores=scores.jsonl|scores"""
_OF_EXTRACT = """method=last|lexrank|textrank|tfidf|consistent|oracle|random sentences=1|2|0|-1 language=de|x
    splitter=spacy|none encoding=latin-1|x output=summaries.txt text_column=document|no"""
_OF_SUMMARIZE = """together details format=jsonl|parquet|text long_documents=extract|windows language=de|zh|x
    encoding=latin-1|x phrase=bridge|bridge=2|bridge=x batch_size=1|0 dtype=bfloat16|float16 int8 output=summaries.txt
    device=cpu|tpu runtime=onnx seed=3|-1"""
_OF_EXPLAIN = "json phrase=bridge=2|bridge encoding=latin-1|x dtype=bfloat16|int4 device=cpu|tpu seed=3|-1"
# values that are defaults, and flags with which results may be equal
_DEFAULTS = ("rouge155", "text", "best", "pooled")
_SELDOM = ("encoding", "language", "batch_size", "device", "dtype", "int8", "long_documents", "method")
_SELDOM += ("phrase", "seed", "separator", "splitter", "summary_column", "text_column")


def make(draw: random.Random, shop: Workshop, folder: Path) -> Case:
    """A command with a few flags, compared with the same command without each of them."""
    name = draw.choice(("evaluate", "extract", "extract", "summarize", "explain"))
    known = {"evaluate": _OF_EVALUATE, "extract": _OF_EXTRACT, "summarize": _OF_SUMMARIZE, "explain": _OF_EXPLAIN}[name]
    model_type = draw.choice(sorted(ARCHITECTURES))
    given = _decoding(draw) if name in ("summarize", "explain") else {}
    for item in draw.sample(known.split(), k=draw.choice((1, 2, 3))):
        flag, _, choices = item.partition("=")
        value = draw.choice(choices.split("|")) if choices else None
        is_file = flag in ("output", "scores", "against", "sources")
        given[flag] = [f"--{flag}"] if value is None else [f"--{flag}={folder / value if is_file else value}"]
    files = _write(folder, name)
    if name in ("summarize", "explain"):
        files += ["--model", str(shop.checkpoint(model_type))]
    if name == "explain":
        files += ["--output", str(folder / "page.html")]

    def effect(left_out: str | None = None) -> tuple[str, dict[str, bytes]]:
        with redirect_stdout(StringIO()) as printed:
            command(name, *files, *(token for flag in given if flag != left_out for token in given[flag]))
        written = {path.name: path.read_bytes() for path in folder.iterdir()}
        for path in written.keys() - inputs:
            (folder / path).unlink()
        return printed.getvalue(), written

    def problem(found: tuple[str, dict[str, bytes]]) -> str | None:
        if name in ("summarize", "explain"):
            return _decoding_problem(shop, model_type, given)
        for flag in given.keys() - set(_SELDOM):
            try:
                with redirect_stderr(StringIO()):
                    without = effect(flag)
            except (ValueError, SystemExit):
                # another flag needs it
                continue
            if without == found and given[flag][0].partition("=")[2] not in _DEFAULTS:
                return Ignored(f"{given[flag][0]} has no effect")
        return None

    inputs = {path.name for path in folder.iterdir()}
    return Case(f"{name} {model_type} {given}", effect, problem, named=given)


def _write(folder: Path, name: str) -> list[str]:
    """Write the files of a command; returns their flags."""
    texts = [" ".join(SENTENCES[place:] + SENTENCES[:place]) for place in range(4)]
    rows = [{"document": text, "summary": texts[-1 - place]} for place, text in enumerate(texts)]
    (folder / "sources.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for file, lines in (("predictions.txt", texts), ("other.txt", texts[::-1]), ("document.txt", texts)):
        (folder / file).write_text("".join(f"{line}\n" for line in lines))
    references = [{"references": [texts[place - 1], texts[place - 2][:60]]} for place in range(4)]
    (folder / "references.jsonl").write_text("".join(json.dumps(row) + "\n" for row in references))
    if name == "evaluate":
        files = (folder / "predictions.txt", folder / "references.jsonl")
        return [f"--{flag}={file}" for flag, file in zip(("predictions", "references"), files, strict=True)]
    return [str(folder / ("sources.jsonl" if name == "extract" else "document.txt"))]


def _decoding(draw: random.Random) -> dict[str, list[str]]:
    """A few flags of decoding."""
    given = {"max_new_tokens": ["--max_new_tokens=3"]}
    for name in draw.sample([name for name, setting in SETTINGS.items() if setting.help], k=draw.choice((0, 1, 2, 3))):
        setting = SETTINGS[name]
        if setting.kind is bool:
            given[name] = [f"--{draw.choice(('', 'no-'))}{name}"]
        else:
            choices = setting.choices or (1, 2, 3, 0.5, values.number(draw))
            given[name] = [f"--{name}={draw.choice(choices)}"]
    return given


def _decoding_problem(shop: Workshop, model_type: str, given: dict[str, list[str]]) -> str | None:
    """What transformers says of settings that have no effect beside the others."""
    config: GenerationConfig = copy.deepcopy(shop.model(model_type)[0].generation_config)
    # the pipeline's default
    config.num_beams = config.num_beams or 4
    for name in given.keys() & SETTINGS.keys():
        flag, _, value = given[name][0].partition("=")
        is_number = value and not SETTINGS[name].choices
        setattr(config, name, SETTINGS[name].kind(value) if is_number else value or "no-" not in flag)
    try:
        config.validate(strict=True)
    except ValueError as error:
        return Ignored(" ".join(str(error).split()))
    return None
