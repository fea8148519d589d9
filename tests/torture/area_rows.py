"""`hf-summ summarize --text_column`: files of rows, flags, and output folders that are not empty."""

import contextlib
import gzip
import io
import json
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from hf_summ.data.streams import FileRows, streamed_files
from hf_summ.models.text_documents import readable
from hf_summ.offline.engines import Work, in_this_process
from hf_summ.offline.run import RECORD, run_plan
from hf_summ.offline.shards import ADDED_COLUMNS, Plan
from tests.torture import values
from tests.torture.area_files import written
from tests.torture.area_texts import language
from tests.torture.cases import Case
from tests.torture.checks import first_problem, no_constant, rows_problem, untouched
from tests.torture.commands import command
from tests.torture.judge import of_error
from tests.torture.workshop import ARCHITECTURES, READERS, Workshop

_ENDINGS = ("jsonl", "jsonl.gz", "json", "parquet")
_TABLES = ("csv", "csv.gz")
_COLUMNS = ("error", "summary", "source_tokens", "", "a\nb", "more", "Text", "\ud800", "x" * 300, "text.gz")


def make(draw: random.Random, shop: Workshop, folder: Path) -> Case:
    """Files, settings for their rows, and content of the output folder before a run or damage between two."""
    number = draw.choice((1, 1, 1, 2, 3))
    files, rows, is_whole = [], [], True
    # text tables turn numbers into strings, so their rows do not mix with others
    endings = _TABLES if draw.random() < 0.2 else _ENDINGS
    for index in range(number):
        file = folder / f"rows-{index}.{draw.choice(endings)}"
        own = [_row(draw, len(rows) + place) for place in range(draw.choice((1, 2, 5)))]
        content, known = _content(draw, own, file)
        file.write_bytes(content)
        files.append(file)
        rows += known or []
        is_whole = is_whole and known is not None
    output = folder / "out"
    names: list[Any] = [str(file) for file in files]
    if draw.random() < 0.03:
        names = draw.choice(([str(folder / "rows-*")], [*names, names[0]], [str(folder)], ["none.jsonl"], []))
    elif draw.random() < 0.03:
        names = [draw.choice(("\0.jsonl", "x" * 300 + ".jsonl", "[", str(folder / "*.txt"), "~", str(output)))]
    is_command = draw.random() < 0.06
    run, told, watched = (_command if is_command else _pieces)(draw, shop, names, output)
    damage = _damage(draw) if draw.random() < 0.3 else None
    if draw.random() < 0.06:
        _occupy(draw, output)
    before = untouched(*files)

    def attempt() -> str | None:
        run()
        unchanged = untouched(output)
        if damage is None:
            run()
            return unchanged()
        damage(output)
        run()
        return None

    def problem(changed: str | None) -> str | None:
        found = list(_written(output, told["format"]))
        added = told["output_column"]
        return first_problem(
            None if changed is None else f"a second run {changed}",
            *watched,
            rows_problem(found, len(rows), "written") if is_whole else None,
            *(_row_problem(row, added) for row in found),
            *(_values_problem(*pair, told) for pair in (zip(rows, found, strict=True) if is_whole else ())),
        )

    def left() -> str | None:
        parts = [path.name for path in folder.rglob("*") if path.name.endswith(".part")]
        return before() or (f"left over: {parts[0]}" if parts else None)

    contents = [file.read_bytes()[:120] for file in files]
    return Case(f"{'command ' * is_command}{told} {getattr(damage, '__name__', '')} {contents}", attempt, problem, left)


def _row(draw: random.Random, index: int) -> dict[str, Any]:
    # lone surrogates, if written unchanged, are not valid text
    made = values.some_text if draw.random() < 0.5 else lambda draw: readable(values.some_text(draw))
    row: dict[str, Any] = {"id": index, "text": made(draw)}
    kind = draw.random()
    if kind < 0.1:
        row["text"] = values.storable_junk(draw)
    elif kind < 0.15:
        row["text"] = [made(draw) for _ in range(draw.choice((0, 1, 3)))]
    elif kind < 0.18:
        del row["text"]
    if draw.random() < 0.2:
        row["more"] = values.storable_junk(draw)
    if draw.random() < 0.04:
        row[draw.choice(_COLUMNS)] = values.storable_junk(draw)
    return row


def _content(draw: random.Random, rows: list[dict[str, Any]], file: Path) -> tuple[bytes, list[dict[str, Any]] | None]:
    """The bytes of a file, and the rows in it; None if they are spoiled or unknown."""
    kind, _, packed = file.name.partition(".")[2].partition(".")
    if kind == "parquet":
        # Parquet allows only such names
        rows = [{readable(name): value for name, value in row.items()} for row in rows]
    content = written(rows, kind, draw)
    is_spoiled = draw.random() < 0.15
    if is_spoiled:
        content = values.spoiled(draw, content)
    if packed:
        content = gzip.compress(content, mtime=0)
        if draw.random() < 0.1:
            is_spoiled, content = True, values.spoiled(draw, content)
    if is_spoiled or any(name != readable(name) for row in rows for name in row):
        return content, None
    if kind == "parquet":
        return content, pq.read_table(io.BytesIO(content)).to_pylist()
    if kind == "csv":
        is_plain = all(type(value) is str for row in rows for name, value in row.items() if name != "id")
        names = {name for row in rows for name in row}
        return content, [{**row, "id": str(row["id"])} for row in rows] if is_plain and len(names) == 2 else None
    return content, rows


def _pieces(draw: random.Random, shop: Workshop, names: list[str], output: Path) -> tuple:
    """The function behind `hf-summ summarize` with a loaded model; its settings; the deep errors in it."""
    kind = draw.choice(READERS)
    watched = _Watched(shop.reader(kind))
    settings: dict[str, Any] = {"long_documents": draw.choice(("truncate", "extract", "windows"))}
    more = {
        "num_beams": draw.choice((1, 2, 0, 2.5)),
        "max_new_tokens": draw.choice((1, 3, 0)),
        "min_new_words": draw.choice((0, 2, -1)),
        "length_penalty": draw.choice((1.0, values.number(draw))),
        "language": language(draw),
        "nothing": 3,
    }
    settings |= {name: value for name, value in more.items() if draw.random() < 0.06}
    told = {
        "text_column": draw.choice(("text",) * 60 + ("id", "more", "", "Text", "none")),
        "columns": draw.choice((None,) * 20 + (["id"], ["text", "id"], ["none"], [], ["id", "id"])),
        "output_column": draw.choice(("summary",) * 60 + ("text", "error", "", "short", "a\nb", "more")),
        "rows_per_shard": draw.choice((1, 2, 3, 1000)),
        "format": draw.choice(("parquet", "jsonl")),
    }
    phrases = {"new bridge": 1.0} if draw.random() < (0.2 if kind == "highlight_transformer" else 0.03) else None
    batch_size = draw.choice((1, 2, 8))

    def run() -> None:
        plan = Plan(source=FileRows(streamed_files(names)), folder=output, **told)
        work = Work(lambda **_: watched, settings, batch_size, told["output_column"], phrases)
        run_plan(plan, {"model": kind, **_storable(settings)}, partial(in_this_process, work, plan))

    return run, {**told, "settings": settings, "model": kind}, watched.deep


def _storable(settings: dict[str, Any]) -> dict[str, Any]:
    # NaN differs from itself, so a run with it could not resume; no flag passes a NaN that a model accepts
    return {name: str(value) if isinstance(value, float) else value for name, value in settings.items()}


def _command(draw: random.Random, shop: Workshop, names: list[str], output: Path) -> tuple:
    """The command."""
    model_type = draw.choice(sorted(ARCHITECTURES))
    flags: list[Any] = ["--model", shop.checkpoint(model_type), "--max_new_tokens", 2, "--num_beams", 1]
    more: list[list] = [
        ["--columns", *draw.choice((["id"], ["none"], ["text", "text"]))],
        ["--rows_per_shard", draw.choice((1, 0, -1, "x", 10**30))],
        ["--num_processes", draw.choice((1, 0, -3, "x"))],
        ["--batch_size", draw.choice((1, 0, "x"))],
        ["--split", "test"],
        ["--dataset_name", draw.choice((str(output.parent), "none/none", ""))],
        ["--ray_address", "auto"],
        ["--long_documents", draw.choice(("extract", "windows", "cut"))],
        ["--language", language(draw)],
        ["--phrase", draw.choice(("bridge", "bridge=2", "bridge=x"))],
        ["--together"],
        ["--details"],
        ["--encoding", "latin-1"],
        ["--format", "text"],
        ["--device", draw.choice(("cpu", "tpu", ""))],
    ]
    flags += [token for part in more if draw.random() < 0.06 for token in part]
    told = {"text_column": "text", "columns": None, "output_column": draw.choice(("summary", "short", "text"))}
    told["format"] = draw.choice(("parquet", "jsonl"))
    if "--columns" in flags:
        told["columns"] = flags[flags.index("--columns") + 1 :][:1]
    argv = (*names, "--text_column", "text", "--output_column", told["output_column"], "--output", output, *flags)

    def run() -> None:
        command("summarize", *argv, *(() if "--format" in flags else ("--format", told["format"])))

    return run, {**told, "flags": [str(flag) for flag in flags]}, []


class _Watched:
    """A pipeline that collects its bad errors, as the reason of a row's error must be clear too."""

    def __init__(self, summarizer: Any):
        self._summarizer = summarizer
        self.deep: list[str] = []

    def __call__(self, documents: Any, **settings: Any) -> Iterator[Any]:
        try:
            yield from self._summarizer(documents, **settings)
        except Exception as error:
            outcome = of_error(error, settings)
            self.deep += [outcome.told] if outcome.is_bad else []
            raise


def _occupy(draw: random.Random, output: Path) -> None:
    """Put something in the place of the output folder, or into it."""
    if draw.random() < 0.3:
        output.write_text("a file")
        return
    output.mkdir()
    name = draw.choice((None, "notes.txt", "shard-00000000.parquet", RECORD, "sub", ".lock"))
    if name == "sub":
        (output / name).mkdir()
    elif name is not None:
        (output / name).write_bytes(draw.choice((b"", b"a note", b"summaries:\n", b"summaries: {}\n", b"\xff")))


def _damage(draw: random.Random) -> Callable[[Path], None]:
    """Damage to a folder between two runs."""

    def shard(output: Path) -> Path | None:
        found = sorted(output.glob("shard-*"))
        return draw.choice(found) if found else None

    def record_is_spoiled(output: Path) -> None:
        (output / RECORD).write_bytes(values.spoiled(draw, (output / RECORD).read_bytes()))

    def shard_is_gone(output: Path) -> None:
        if file := shard(output):
            file.unlink()

    def shard_is_cut(output: Path) -> None:
        if file := shard(output):
            content = file.read_bytes()
            file.write_bytes(content[: draw.randrange(len(content))])

    def shard_is_half_written(output: Path) -> None:
        (output / ".shard-00000000.parquet.7-ab.part").write_bytes(b"PAR1")

    def other_files(output: Path) -> None:
        name = draw.choice(("notes.txt", "shard-x.parquet", "shard-99999999.parquet", "shard-1.jsonl.gz", "shard-"))
        (output / name).write_bytes(b"")

    def record_is_gone(output: Path) -> None:
        (output / RECORD).unlink()

    def lock_is_a_folder(output: Path) -> None:
        (output / ".lock").unlink(missing_ok=True)
        (output / ".lock").mkdir()

    return draw.choice(
        (
            *(record_is_spoiled, shard_is_gone, shard_is_cut, shard_is_half_written, other_files, record_is_gone),
            lock_is_a_folder,
        )
    )


def _written(output: Path, kind: str) -> Iterator[dict[str, Any]]:
    """All rows in the folder, in order."""
    for file in sorted(output.glob(f"shard-????????.{kind}*")):
        if kind == "parquet":
            yield from pq.read_table(file).to_pylist()
        else:
            with gzip.open(file, "rt", encoding="utf-8", newline="\n") as lines:
                yield from (json.loads(line, parse_constant=no_constant) for line in lines)


def _row_problem(row: dict[str, Any], added: str) -> str | None:
    whole, cut, error = (row[name] for name in ADDED_COLUMNS)
    has_summary = isinstance(row[added], str) and not error and 0 <= cut <= whole
    has_error = row[added] is None and bool(error) and "\n" not in error and whole is cut is None
    return None if has_summary or has_error else f"a row is {row!r:.200}"


def _values_problem(row: dict[str, Any], found: dict[str, Any], told: dict[str, Any]) -> str | None:
    """What is wrong with the columns of the input."""
    kept = {*row} if told["columns"] is None else {*row} & {*told["columns"]}
    for name in kept:
        before, after = row[name], found[readable(name)]
        if isinstance(after, str) and not isinstance(before, str):
            # a column of several types is stored as JSON
            with contextlib.suppress(ValueError):
                after = json.loads(after)
        if not _is_equal(before, after):
            return f"{name!r:.40} was {before!r:.100} and is {after!r:.100}"
    return None


def _is_equal(before: Any, after: Any) -> bool:
    if isinstance(before, str) and isinstance(after, str):
        # a byte-order mark is dropped at the beginning of a line, as joined files have it there
        return readable(before).replace("\ufeff", "") == after.replace("\ufeff", "")
    if isinstance(before, list | tuple):
        return isinstance(after, list) and len(before) == len(after) and all(map(_is_equal, before, after))
    # JSON has neither NaN nor infinity
    return before == after or (isinstance(before, float) and (before != before or abs(before) == float("inf")))
