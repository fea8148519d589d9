"""Formats by name, and options of a single format."""

import pytest

from hf_summ.data.raw_formats import DATA_FORMATS
from tests.data.files import json_lines, write


def test_unknown_format_lists_all(load):
    with pytest.raises(ValueError, match=r"`data_format` is 'LCSTS', but must be one of gigaword, lcsts, "):
        load(train_file="x", data_format="LCSTS")


@pytest.mark.parametrize("data_format", [None, *DATA_FORMATS])
@pytest.mark.parametrize(
    ("option", "value", "owner"), [("min_score", 3, "lcsts"), ("density_bin", "mixed", "newsroom")]
)
def test_option_of_another_format(load, data_format, option, value, owner):
    if data_format == owner:
        return
    with pytest.raises(ValueError, match=rf"`{option}` is {value}, which needs `data_format` '{owner}'"):
        load(train_file="x", data_format=data_format, **{option: value})


@pytest.mark.parametrize(("name", "value"), [("csv_separator", ";"), ("encoding", "latin-1")])
def test_settings_of_files_of_rows(load, tmp_path, name, value):
    problem = f"`{name}` is '{value}', which is for files of rows, not for"
    for data_format, reading in DATA_FORMATS.items():
        if reading.read is not None:
            with pytest.raises(ValueError, match=f"{problem} `data_format` '{data_format}'"):
                load(train_file="x", data_format=data_format, **{name: value})
    with pytest.raises(ValueError, match=f"{problem} org/name"):
        load(dataset_name="org/name", **{name: value})
    # Newsroom consists of files of rows.
    row = {"text": "öl", "summary": "s", "density_bin": "mixed"}
    file = write(tmp_path / "train.jsonl", json_lines([row]).encode("latin-1"))
    assert load(train_file=file, data_format="newsroom", encoding="latin-1")["train"]["document"][:] == ["öl"]


@pytest.mark.parametrize("data_format", ["gigaword", "lcsts", "duc", "cnn_dm", "xsum"])
def test_format_of_files_with_a_name(load, data_format):
    with pytest.raises(ValueError, match=rf"`data_format` is '{data_format}', which is for files, not for org/na"):
        load(dataset_name="org/name", data_format=data_format)


@pytest.mark.parametrize("streaming", [False, True])
def test_multi_news_by_name(load, named, streaming):
    rows = [{"document": "One.\nTwo. ||||| Three.", "summary": "– s"}, {"document": "|||||", "summary": "– t"}]
    corpus = load(dataset_name=named(train=rows), data_format="multi_news", streaming=streaming)
    assert list(corpus["train"]) == [
        {"document": "One.\nTwo.\n\nThree.", "documents": ["One.\nTwo.", "Three."], "summary": "– s"}
    ]
