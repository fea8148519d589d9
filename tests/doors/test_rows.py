"""`hf-summ summarize` for files of rows, and output folders that are damaged between two runs."""

import contextlib
import gzip
import math
from functools import partial

import pyarrow.parquet as pq
from hypothesis import strategies as st

from hf_summ.data.columns import choose_text_column
from hf_summ.data.files import read_files
from hf_summ.offline.engines import Work, in_this_process
from hf_summ.offline.run import RECORD, run_plan
from hf_summ.offline.shards import ADDED_COLUMNS, Plan
from tests.doors import models
from tests.doors import strategies as our
from tests.doors.outcomes import door, strict_json, tried, unchanged

_FILES = our.files(("id", "text"), st.sampled_from(("jsonl", "jsonl", "json", "csv")))
_PLANS = st.fixed_dictionaries(
    {
        "text_column": our.mostly(st.sampled_from(("text", None, "id")), st.sampled_from(("more", "", "Text"))),
        "columns": our.mostly(st.none(), st.sampled_from((["id"], ["text", "id"], ["none"], [], ["id", "id"]))),
        "output_column": our.mostly(st.just("summary"), st.sampled_from(("text", "error", "", "a\nb", "more"))),
        "rows_per_shard": st.sampled_from((1, 2, 3, 1000)),
        "format": st.sampled_from(("parquet", "jsonl")),
    }
)
_WAYS = our.few({"long_documents": ("truncate", "extract", "windows"), "language": our.languages})
_DECODING = our.few(our.choices("num_beams=1|2|0|2.5 max_new_tokens=1|0 min_new_words=2|-1 nothing=3"), 1)


@st.composite
def _damage(draw, output) -> None:
    """One change to the folder."""
    record, names = output / RECORD, ("notes.txt", "shard-x.parquet", "shard-99999999.parquet", "shard-")
    shard = draw(st.sampled_from(sorted(output.glob("shard-*")) or [record]))
    match draw(st.integers(0, 5)):
        case 0:
            record.write_bytes(draw(our.spoiled(record.read_bytes())))
        case 1:
            draw(st.sampled_from((record, shard))).unlink()
        case 2:
            shard.write_bytes(shard.read_bytes()[: draw(st.integers(0, 50))])
        case 3:
            (output / ".shard-00000000.parquet.7-ab.part").write_bytes(b"PAR1")
        case 4:
            (output / ".lock").unlink(missing_ok=True)
            (output / ".lock").mkdir()
        case _:
            (output / draw(st.sampled_from(names))).write_bytes(b"")


def _written(file) -> list[dict]:
    if file.suffix == ".parquet":
        return pq.read_table(file).to_pylist()
    return list(map(strict_json, gzip.decompress(file.read_bytes()).splitlines()))


def _is_equal(before, after) -> bool:
    if isinstance(before, list):
        return isinstance(after, list) and len(before) == len(after) and all(map(_is_equal, before, after))
    if isinstance(before, dict):
        return before.keys() == after.keys() and all(_is_equal(before[name], after[name]) for name in before)
    # JSON has neither NaN nor infinity
    if isinstance(before, float) and not math.isfinite(before):
        return after is None or after == before or math.isnan(after)
    # JSON has a text for values of other types
    return before == after or (isinstance(after, str) and not isinstance(before, str))


@door(
    data=st.data(),
    folder=our.folders,
    files=st.lists(_FILES, min_size=1, max_size=3),
    kind=st.sampled_from(models.READERS),
    plan=_PLANS,
    settings=st.builds(dict.__or__, _WAYS, our.mostly(st.just({}), _DECODING)),
    record=our.mostly(st.none(), st.sampled_from((b"", b"a note", b"summaries:\n", b"summaries: {}\n", b"\xff"))),
    is_damaged=st.sampled_from((False, False, True)),
)
def test_rows(data, folder, files, kind, plan, settings, record, is_damaged):
    output, summarizer, paths = folder / "out", models.reader(kind), []
    for number, (ending, content, _) in enumerate(files):
        paths.append(folder / f"rows-{number}.{ending}")
        paths[-1].write_bytes(content)
    if record is not None:
        output.mkdir()
        (output / RECORD).write_bytes(record)

    def run() -> None:
        rows = read_files([str(path) for path in paths])
        column = choose_text_column(rows, plan["text_column"], "the rows")
        job = Plan(rows=rows, folder=output, **plan | {"text_column": column})
        work = Work(lambda **_: summarizer, settings, 2)
        run_plan(job, {"model": kind, **settings}, partial(in_this_process, work, job))

    with unchanged(*paths):
        tried(run)
        if is_damaged:
            data.draw(_damage(output))
        # a second run has nothing to do
        with contextlib.nullcontext() if is_damaged else unchanged(output):
            tried(run)
    found = [row for file in sorted(output.glob("shard-????????.*")) for row in _written(file)]
    for row in found:
        whole, cut, error, note = (row[name] for name in ADDED_COLUMNS)
        is_summary = isinstance(row[plan["output_column"]], str) and not error and 0 <= cut <= whole
        assert "\n" not in note
        assert is_summary or (row[plan["output_column"]] is whole is cut is None and error and "\n" not in error)
    for before, after in zip(read_files([str(path) for path in paths]), found, strict=not is_damaged):
        for name in before if plan["columns"] is None else {*before} & {*plan["columns"]}:
            assert _is_equal(before[name], after[name]), name
