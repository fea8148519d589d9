"""Newsroom's rows and their density bins."""

import logging

import pytest

from tests.data.files import json_lines, write

BINS = ["abstractive", "extractive", "mixed", "abstractive", "mixed"]
ROWS = [
    {"text": f"text {number}", "summary": f"s{number}", "title": f"t{number}", "density": 1.5, "density_bin": density}
    for number, density in enumerate(BINS)
]


@pytest.mark.parametrize("density_bin", ["abstractive", "mixed", "extractive", None])
@pytest.mark.parametrize("name", ["train.jsonl", "train.jsonl.gz"])
def test_rows_of_a_density_bin(load, tmp_path, name, density_bin):
    write(tmp_path / name, json_lines(ROWS))
    for file in (tmp_path, tmp_path / name):
        loaded = load(train_file=file, data_format="newsroom", density_bin=density_bin)["train"]
        rows = ROWS
        if density_bin is not None:
            rows = [row for row in ROWS if row["density_bin"] == density_bin]
        assert loaded["summary"][:] == [row["summary"] for row in rows]
        assert loaded.column_names == ["document", "summary", "title", "density", "density_bin"]


def test_each_split_takes_its_part_of_the_folder(load, tmp_path):
    for count, stem in enumerate(("train", "dev", "test"), 1):
        write(tmp_path / f"{stem}.jsonl.gz", json_lines(ROWS[:count]))
    files = dict.fromkeys(("train_file", "validation_file", "test_file"), tmp_path)
    assert load(**files, data_format="newsroom").num_rows == {"train": 1, "validation": 2, "test": 3}


def test_bins_do_not_share_a_cache(load, tmp_path):
    write(tmp_path / "train.jsonl", json_lines(ROWS))
    counts = [
        len(load(train_file=tmp_path, data_format="newsroom", density_bin=density_bin)["train"])
        for density_bin in ("abstractive", "extractive", "mixed", None, "abstractive")
    ]
    assert counts == [2, 1, 2, 5, 2]


def test_rows_that_are_not_there_are_named(load, tmp_path):
    # no row in the bin
    rows = [*ROWS[:1] * 3, {"text": "a", "summary": "b"}, {**ROWS[0], "density_bin": "low"}]
    file = write(tmp_path / "rows.jsonl", json_lines(rows))
    with pytest.raises(ValueError, match=r"rows.jsonl: none of the 5 rows passes `density_bin` mixed: change it"):
        load(train_file=file, data_format="newsroom", density_bin="mixed")
    # folder without the split
    with pytest.raises(ValueError, match=r"has no dev.jsonl, the validation split: name the file"):
        load(validation_file=tmp_path, data_format="newsroom")


def test_density_bin_of_a_corpus_by_name(load, named):
    corpus = load(dataset_name=named(train=ROWS), data_format="newsroom", density_bin="abstractive")
    assert corpus["train"]["summary"][:] == ["s0", "s3"]


def test_corpus_by_name_without_the_bin(load, named):
    with pytest.raises(ValueError, match="train: none of the 1 rows passes `density_bin` mixed"):
        load(dataset_name=named(train=ROWS[:1]), data_format="newsroom", density_bin="mixed")


def test_how_many_rows_are_taken_is_told(load, tmp_path, caplog):
    write(tmp_path / "train.jsonl", json_lines(ROWS))
    with caplog.at_level(logging.INFO, logger="hf_summ"):
        load(train_file=tmp_path, data_format="newsroom", density_bin="mixed")
    assert "2 of 5 rows pass `density_bin` mixed" in caplog.text
