"""Corpora and files of texts: JSON, JSONL, CSV, Parquet and aligned lines, each also compressed or spoiled."""

import csv
import gzip
import io
import json
import random
from pathlib import Path
from typing import Any

from hf_summ.data import Corpus, load
from hf_summ.data.columns import has_text
from hf_summ.evaluation.text_files import part_sentences, read_predictions, read_references, read_sources
from hf_summ.models.text_documents import readable
from tests.torture import values
from tests.torture.cases import Case
from tests.torture.checks import first_problem, rows_problem, untouched
from tests.torture.workshop import Workshop

_COLUMNS = (
    *(("document", "summary"), ("document", "summary"), ("article", "highlights"), ("text", "title")),
    *(("documents", "references"), ("a", "b"), ("summary", "document"), ("Document", "Summary"), ("text", "text")),
)
_ENDINGS = ("jsonl", "jsonl", "json", "csv", "source", "txt", "JSONL", "parquet")


def make(draw: random.Random, shop: Workshop, folder: Path) -> Case:
    """A file that is well-formed with hostile texts in it, or spoiled, read as a corpus or as a file of texts."""
    columns = draw.choice(_COLUMNS)
    rows = [_row(draw, columns) for _ in range(draw.choice((1, 2, 5)))]
    is_whole = all(type(value) is str for row in rows for value in row.values()) and all(
        set(columns) <= row.keys() for row in rows
    )
    ending = draw.choice(_ENDINGS)
    content = written(rows, ending, draw)
    is_spoiled = draw.random() < 0.4
    if is_spoiled:
        content = values.spoiled(draw, content)
    file = folder / f"train.{ending}"
    if draw.random() < 0.25 and ending != "parquet":
        file = folder / f"train.{ending}.gz"
        content = gzip.compress(content, mtime=0)
        if draw.random() < 0.4:
            is_spoiled, content = True, values.spoiled(draw, content)
    file.write_bytes(content)
    if ending == "source":
        target = "".join(f"{row.get(columns[1], '')}\n" for row in rows).encode("utf-8", "surrogatepass")
        (folder / "train.target").write_bytes(values.spoiled(draw, target) if draw.random() < 0.3 else target)
    told = f"{file.name} of {content[:300]!r}"
    if draw.random() < 0.3:
        return _text_file(draw, file, told)
    return _corpus(draw, folder, file, told, rows if is_whole and not is_spoiled else None, columns)


def _corpus(draw, folder: Path, file: Path, told: str, rows: list | None, columns) -> Case:
    named = dict(zip(("text_column", "summary_column"), columns, strict=True)) if draw.random() < 0.5 else {}
    if draw.random() < 0.05:
        named = {"text_column": values.word(draw, "", "no", "document")}
    cache = str(folder.parent / f"{folder.name}_cache")
    if file.name == "train.parquet" and draw.random() < 0.95:
        corpus = Corpus(dataset_name=str(folder), **named)
    elif draw.random() < 0.03:
        # names of missing files, and impossible names
        names = (
            f"{file}x",
            "x" * 300 + ".jsonl",
            "a\0b.jsonl",
            "",
            ".",
            "~",
            "/",
            "a.jsonl,b.csv",
            ",",
            f"{file},{file}",
        )
        corpus = Corpus(train_file=draw.choice(names), **named)
        rows = None
    else:
        corpus = Corpus(train_file=str(file), **named)
    is_table = rows is not None and named and columns[0] != columns[1] and file.name.lower().split(".")[1] != "source"

    def problem(loaded: Any) -> str | None:
        train = loaded["train"]
        for row in train:
            for column in ("document", "summary"):
                if not isinstance(row[column], str) or not has_text(row[column]):
                    return f"'{column}' is {row[column]!r:.80}"
                row[column].encode("utf-8")
        if not is_table:
            return None if len(train) else "no rows and no error"
        wanted = [tuple(readable(row[column]) for column in columns) for row in rows]
        wanted = [_without_marks(pair) for pair in wanted if all(map(has_text, pair))]
        found = list(map(_without_marks, zip(train["document"], train["summary"], strict=True)))
        return first_problem(
            rows_problem(found, len(wanted), "loaded"),
            None if found == wanted else f"texts differ: {found!r:.150} for {wanted!r:.150}",
        )

    return Case(f"{told} with {named}", lambda: load(corpus, cache_dir=cache), problem, untouched(folder))


def _without_marks(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Texts without byte-order marks, which are dropped at the beginning of a line, as joined files have them there."""
    return tuple(text.replace("\ufeff", "") for text in texts)


def _text_file(draw: random.Random, file: Path, told: str) -> Case:
    read = draw.choice((read_predictions, read_references, read_sources))
    separator = draw.choice((None, None, "none", "|||", ""))

    def problem(found: Any) -> str | None:
        texts, _ = found
        wrong = [row for row in texts.rows if not row or not all(isinstance(text, str) for text in row)]
        return first_problem(
            f"a row is {wrong[0]!r:.80}" if wrong else None, rows_problem(texts.places, len(texts.rows), "places")
        )

    return Case(
        f"{read.__name__} of {told}", lambda: part_sentences(read(str(file)), separator), problem, untouched(file)
    )


def _row(draw: random.Random, columns: tuple[str, str]) -> dict[str, Any]:
    document, summary = columns
    # lone surrogates, if written unchanged, are not valid text
    made = values.some_text if draw.random() < 0.5 else lambda draw: readable(values.some_text(draw))
    row: dict[str, Any] = {document: made(draw), summary: made(draw)}
    kind = draw.random()
    if kind < 0.1:
        row[draw.choice(columns)] = values.storable_junk(draw)
    elif kind < 0.15:
        del row[draw.choice(list(row))]
    elif kind < 0.25:
        row[draw.choice(columns)] = [values.some_text(draw) for _ in range(draw.choice((0, 1, 3)))]
    if draw.random() < 0.2:
        row[draw.choice(("id", "score", "documents", "references", ""))] = values.storable_junk(draw)
    return row


def written(rows: list[dict[str, Any]], ending: str, draw: random.Random) -> bytes:
    """The bytes of a file of these rows; lone surrogates are written unchecked, as by some programs."""
    ending = ending.lower()
    if ending == "csv":
        names = list(dict.fromkeys(name for row in rows for name in row))
        buffer = io.StringIO(newline="")
        table = csv.DictWriter(buffer, names, restval="", lineterminator=draw.choice(("\n", "\r\n")))
        table.writeheader()
        table.writerows(rows)
        return buffer.getvalue().encode("utf-8", "surrogatepass")
    if ending == "parquet":
        return _parquet(rows)
    if ending in ("source", "txt"):
        return "".join(f"{next(iter(row.values()), '')}\n" for row in rows).encode("utf-8", "surrogatepass")
    in_ascii = draw.random() < 0.5
    if ending == "json":
        text = json.dumps(rows, ensure_ascii=in_ascii, indent=draw.choice((None, 2)))
    else:
        text = "".join(json.dumps(row, ensure_ascii=in_ascii) + "\n" for row in rows)
    return text.encode("utf-8", "surrogatepass")


def _parquet(rows: list[dict[str, Any]]) -> bytes:
    import pyarrow
    import pyarrow.parquet

    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {}
    for name in names:
        found = [row.get(name) for row in rows]
        try:
            columns[name] = pyarrow.array(found)
            if pyarrow.types.is_struct(columns[name].type) or pyarrow.types.is_null(columns[name].type):
                raise TypeError("Parquet has no such empty values")
        except (pyarrow.ArrowException, UnicodeError, TypeError, OverflowError, ValueError):
            # Parquet has one type per column
            columns[name] = pyarrow.array([readable(str(value)) for value in found])
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), buffer)
    return buffer.getvalue()
