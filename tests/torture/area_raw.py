"""Data sets as their authors distribute them, whole and spoiled."""

import json
import random
from pathlib import Path
from typing import Any

from hf_summ.data import Corpus, load
from hf_summ.data.columns import has_text
from hf_summ.data.public_corpora import PUBLIC_CORPORA
from hf_summ.data.raw_formats import DATA_FORMATS
from hf_summ.models.text_documents import readable
from tests.torture import values
from tests.torture.cases import Case
from tests.torture.checks import untouched
from tests.torture.commands import command
from tests.torture.workshop import Workshop

_SPLITS = ("train", "validation", "test")


def make(draw: random.Random, shop: Workshop, folder: Path) -> Case:
    """A distribution's folder, in which one file may be spoiled or missing, read as one of the splits."""
    data_format = draw.choice(sorted(DATA_FORMATS))
    data = folder / "data"
    data.mkdir()
    made = values.some_text if draw.random() < 0.1 else lambda draw: readable(values.some_text(draw))
    rows = [(made(draw), made(draw)) for _ in range(draw.choice((1, 2, 4)))]
    files = {data / name: content for name, content in _WRITERS[data_format](draw, rows).items()}
    if draw.random() < 0.45:
        file = draw.choice(sorted(files))
        files[file] = values.spoiled(draw, files[file])
    for file, content in files.items():
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(content)
    if draw.random() < 0.05:
        draw.choice(sorted(files)).unlink()
    named: Any = data
    if draw.random() < 0.3:
        named = draw.choice((*sorted(files), ",".join(map(str, files)), data / "missing"))
    read_as = data_format if draw.random() < 0.93 else values.word(draw, *DATA_FORMATS, "lcst", "")
    known: dict[str, tuple] = {"min_score": (1, 5, 0, 9), "density_bin": ("mixed", "extractive", "short")}
    owners = {"min_score": "lcsts", "density_bin": "newsroom"}
    options: dict[str, Any] = {
        name: draw.choice(choices)
        for name, choices in known.items()
        if draw.random() < (0.4 if owners[name] == data_format else 0.02)
    }
    split = _split_of(sorted(file.name for file in files)) if draw.random() < 0.9 else draw.choice(_SPLITS)
    corpus = Corpus(**{f"{split}_file": str(named), "data_format": read_as, **options})
    cache = str(folder / "cache")
    # needs all splits, so it refuses every case but XSum's
    prepared = values.word(draw, *PUBLIC_CORPORA) if draw.random() < 0.1 else None

    def read() -> Any:
        if prepared is not None:
            command("prepare", prepared, named, "--output", folder / "rows")
        corpus.check()
        return load(corpus, cache_dir=cache)[split]

    def problem(loaded: Any) -> str | None:
        for row in loaded:
            if not has_text(row["document"]) or not has_text(row["summary"]):
                return f"a blank row {row!r:.200}"
        return None if len(loaded) else "no rows and no error"

    shown = {file.name: content[:150] for file, content in files.items()}
    return Case(f"{read_as} {named} {split} {options} {prepared} of {shown}", read, problem, untouched(data))


def _split_of(names: list[str]) -> str:
    """The split of these files."""
    told = " ".join(names)
    if any(part in told for part in ("valid", "val.", "dev", "PART_II.")):
        return "validation"
    return "test" if any(part in told for part in ("test", "input", "PART_III")) else "train"


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _lines(texts: list[str]) -> bytes:
    return b"".join(_encoded(text.replace("\n", " ")) + b"\n" for text in texts)


def _gigaword(draw: random.Random, rows: list[tuple[str, str]]) -> dict[str, bytes]:
    documents, summaries = zip(*rows, strict=True)
    stem = draw.choice(("train.{}.txt", "valid.{}.filter.txt"))
    if draw.random() < 0.3:
        return {"input.txt": _lines(documents), "task1_ref0.txt": _lines(summaries)}
    return {stem.format("article"): _lines(documents), stem.format("title"): _lines(summaries)}


def _lcsts(draw: random.Random, rows: list[tuple[str, str]]) -> dict[str, bytes]:
    is_labelled = draw.random() < 0.5
    parts = []
    for number, (document, summary) in enumerate(rows):
        label = f"<human_label>{draw.choice((1, 3, 5, 5, 'five', 9))}</human_label>" if is_labelled else ""
        parts.append(
            f"<doc id={number}>\n{label}<summary>\n{summary}\n</summary>\n"
            f"<short_text>\n{document}\n</short_text>\n</doc>\n"
        )
    return {draw.choice(("PART_I.txt", "PART_II.txt", "PART_III.txt")): _encoded("".join(parts))}


def _multi_news(draw: random.Random, rows: list[tuple[str, str]]) -> dict[str, bytes]:
    documents = [f"{document} NEWLINE_CHAR b {draw.choice(('|||||', ' '))} c" for document, _ in rows]
    name = draw.choice(("train.src", "val.src.cleaned", "test.txt.src"))
    return {name: _lines(documents), name.replace("src", "tgt"): _lines([summary for _, summary in rows])}


def _duc(draw: random.Random, rows: list[tuple[str, str]]) -> dict[str, bytes]:
    documents, summaries = zip(*rows, strict=True)
    numbers = draw.choice(((0, 1), (0, 1), (0, 1, 2), (0, 1, 2, 3), (0,), (0, 2), (1, 2)))
    return {"input.txt": _lines(documents)} | {f"task1_ref{number}.txt": _lines(summaries) for number in numbers}


def _newsroom(draw: random.Random, rows: list[tuple[str, str]]) -> dict[str, bytes]:
    bins = ("abstractive", "mixed", "extractive", "other", None, 3)
    lines = [
        json.dumps({"text": document, "summary": summary, "density_bin": draw.choice(bins)})
        for document, summary in rows
    ]
    return {draw.choice(("train.jsonl", "dev.jsonl", "test.jsonl")): _encoded("\n".join(lines))}


def _stories(draw: random.Random, rows: list[tuple[str, str]]) -> dict[str, bytes]:
    mark = draw.choice(("@highlight", "@highlight", "@Highlight"))
    files = {
        f"{number}.story": _encoded(f"{document}\n\n{mark}\n\n{summary}\n")
        for number, (document, summary) in enumerate(rows)
    }
    return files | {"list.txt": _lines([*files, *(["missing.story"] if draw.random() < 0.2 else [])])}


def _xsum(draw: random.Random, rows: list[tuple[str, str]]) -> dict[str, bytes]:
    parts = ("[SN]FIRST-SENTENCE[SN]", "[SN]RESTBODY[SN]", "[SN]TITLE[SN]")
    files = {
        f"bbc-summary-data/{number}.summary": _encoded(f"{parts[draw.random() < 0.05]}\n{b}\n\n{parts[1]}\n{a}\n")
        for number, (a, b) in enumerate(rows)
    }
    numbers = tuple(map(str, range(len(rows) + (draw.random() < 0.1))))
    splits = dict.fromkeys(_SPLITS, numbers)
    return files | {"XSum-TRAINING-DEV-TEST-SPLIT-90-5-5.json": json.dumps(splits).encode()}


_WRITERS = {
    "gigaword": _gigaword,
    "lcsts": _lcsts,
    "multi_news": _multi_news,
    "duc": _duc,
    "newsroom": _newsroom,
    "cnn_dm": _stories,
    "xsum": _xsum,
}
