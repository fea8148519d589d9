"""`hf-summ summarize` for files of rows, and output folders that are damaged between two runs."""

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
from tests.doors import models, strategies
from tests.doors.outcomes import door, strict_json, tried, unchanged

_FILES = strategies.files(("id", "text"), st.sampled_from(("jsonl", "jsonl", "json", "csv")))
_PLANS = st.fixed_dictionaries(
    {
        "text_column": strategies.mostly(st.sampled_from(("text", None, "id")), st.sampled_from(("more", "", "Text"))),
        "columns": strategies.mostly(st.none(), st.sampled_from((["id"], ["text", "id"], ["none"], [], ["id", "id"]))),
        "output_column": strategies.mostly(st.just("summary"), st.sampled_from(("text", "error", "", "a\nb", "more"))),
        "rows_per_shard": st.sampled_from((1, 2, 3, 1000)),
        "format": st.sampled_from(("parquet", "jsonl")),
    }
)
_WAYS = strategies.few({"long_documents": ("truncate", "extract", "windows"), "language": strategies.languages})
_DECODING = strategies.few(strategies.choices("num_beams=1|2|0|2.5 max_new_tokens=1|0 min_new_words=2|-1 nothing=3"), 1)


@st.composite
def _damage(draw, output) -> None:
    """Change one file of the folder."""
    record = output / RECORD
    shard = draw(st.sampled_from(sorted(output.glob("shard-*")) or [record]))
    match draw(st.integers(0, 5)):
        case 0:
            record.write_bytes(draw(strategies.spoiled(record.read_bytes())))
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
            name = draw(st.sampled_from(("notes.txt", "shard-x.parquet", "shard-99999999.parquet", "shard-")))
            (output / name).write_bytes(b"")


def _read_shard(file) -> list[dict]:
    if file.suffix == ".parquet":
        return pq.read_table(file).to_pylist()
    lines = gzip.decompress(file.read_bytes()).splitlines()
    return [strict_json(line) for line in lines]


def _is_equal(before, after) -> bool:
    """Whether a value is the same after it was written and read."""
    if isinstance(before, list):
        if not isinstance(after, list) or len(before) != len(after):
            return False
        return all(_is_equal(item, item_after) for item, item_after in zip(before, after, strict=True))
    if isinstance(before, dict):
        return before.keys() == after.keys() and all(_is_equal(before[name], after[name]) for name in before)
    # JSON has neither NaN nor infinity
    if isinstance(before, float) and not math.isfinite(before):
        return after is None or after == before or math.isnan(after)
    # JSON has a text for values of other types
    return before == after or (isinstance(after, str) and not isinstance(before, str))


@door(
    data=st.data(),
    folder=strategies.folders,
    files=st.lists(_FILES, min_size=1, max_size=3),
    kind=st.sampled_from(models.READERS),
    plan=_PLANS,
    settings=st.builds(dict.__or__, _WAYS, strategies.mostly(st.just({}), _DECODING)),
    record=strategies.mostly(
        st.none(), st.sampled_from((b"", b"a note", b"summaries:\n", b"summaries: {}\n", b"\xff"))
    ),
    is_damaged=st.sampled_from((False, False, True)),
)
def test_rows(data, folder, files, kind, plan, settings, record, is_damaged):
    output, summarizer = folder / "out", models.reader(kind)
    paths = []
    for number, (ending, content, _) in enumerate(files):
        path = folder / f"rows-{number}.{ending}"
        path.write_bytes(content)
        paths.append(path)
    names = [str(path) for path in paths]
    if record is not None:
        output.mkdir()
        (output / RECORD).write_bytes(record)

    def run() -> None:
        rows = read_files(names)
        column = choose_text_column(rows, plan["text_column"], "the rows")
        settings_of_job = {**plan, "text_column": column}
        job = Plan(rows=rows, folder=output, **settings_of_job)
        work = Work(lambda **_: summarizer, settings, 2)
        run_plan(job, {"model": kind, **settings}, partial(in_this_process, work, job))

    with unchanged(*paths):
        tried(run)
        if is_damaged:
            data.draw(_damage(output))
            tried(run)
        else:
            # a second run has nothing to do
            with unchanged(output):
                tried(run)
    written = []
    for file in sorted(output.glob("shard-????????.*")):
        written.extend(_read_shard(file))
    for row in written:
        _check_added_columns(row, plan["output_column"])
    for row, written_row in zip(read_files(names), written, strict=not is_damaged):
        for name in row:
            if plan["columns"] is None or name in plan["columns"]:
                assert _is_equal(row[name], written_row[name]), name


def _check_added_columns(row: dict, output_column: str) -> None:
    """Check that a row has a summary and its numbers, or an error of one line."""
    source_tokens, cut_tokens, error, note = [row[name] for name in ADDED_COLUMNS]
    summary = row[output_column]
    assert "\n" not in note
    if error:
        assert "\n" not in error
        assert summary is None
        assert source_tokens is None
        assert cut_tokens is None
    else:
        assert isinstance(summary, str)
        assert 0 <= cut_tokens <= source_tokens
