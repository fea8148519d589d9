"""A column with the text before each row's document."""

import gzip

import pytest

from tests.data.files import ROWS, json_lines, write, write_csv

PREFIXES = ["title: ", "tldr: ", "", "title: "]
WITH_PREFIXES = [{**row, "task": prefix} for row, prefix in zip(ROWS, PREFIXES, strict=True)]


@pytest.mark.parametrize("way", ["jsonl", "csv", "name"])
def test_the_named_column_is_called_prefix(load, named, tmp_path, way):
    # Here a column that is not named is called so.
    rows = [row | {"prefix": "un-"} for row in WITH_PREFIXES]
    if way == "name":
        source = {"dataset_name": named(train=rows)}
    elif way == "csv":
        source = {"train_file": write_csv(tmp_path / "rows.csv", rows)}
    else:
        source = {"train_file": write(tmp_path / "rows.jsonl", json_lines(rows))}
    expected = [{**row, "prefix": prefix} for row, prefix in zip(ROWS, PREFIXES, strict=True)]
    assert load(**source, prefix_column="task")["train"].to_list() == expected
    # No column is named as that of prefixes.
    assert load(**source)["train"].column_names == ["document", "summary", "task"]


def test_a_row_may_have_none(load, tmp_path):
    file = write(tmp_path / "rows.jsonl", json_lines([WITH_PREFIXES[0], {**WITH_PREFIXES[1], "task": None}]))
    assert load(train_file=file, prefix_column="task")["train"]["prefix"] == ["title: ", None]


def test_concatenated_files_may_repeat_one(load, tmp_path):
    first_file = gzip.compress(json_lines(WITH_PREFIXES[:2]).encode())
    second_file = gzip.compress(json_lines(WITH_PREFIXES[2:]).encode())
    (tmp_path / "all.jsonl.gz").write_bytes(first_file + second_file + second_file)
    rows = load(train_file=str(tmp_path / "all.jsonl.gz"), prefix_column="task")["train"]
    assert rows["prefix"] == PREFIXES + PREFIXES[2:]
    assert rows["document"] == [row["document"] for row in ROWS + ROWS[2:]]


# the column that is named, what the second row has in place of its prefix, and the message
CASES_OF_WRONG_COLUMNS = [
    ("tasks", {}, "no column 'tasks'; the columns are document, summary, task"),
    ("summary", {}, "'summary' is the column of documents or of summaries"),
    ("task", {"task": ["a"]}, r"row 2: column 'task' has list \(\['a'\]\)"),
    ("task", {"task": 7}, r"row 2: column 'task' has int \(7\)"),
]


@pytest.mark.parametrize(("column", "second", "message"), CASES_OF_WRONG_COLUMNS)
def test_a_wrong_column_is_named(load, tmp_path, column, second, message):
    rows = [WITH_PREFIXES[0], {**WITH_PREFIXES[1], **second}]
    file = write(tmp_path / "rows.jsonl", json_lines(rows))
    with pytest.raises(ValueError, match=f"rows.jsonl.*{message}"):
        load(train_file=file, prefix_column=column)
