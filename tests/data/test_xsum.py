"""XSum as its authors distribute it."""

import json
from itertools import chain

import pytest

from tests.data.files import write

LIST = "XSum-TRAINING-DEV-TEST-SPLIT-90-5-5.json"
TEXT = """[SN]URL[SN]
http://www.bbc.co.uk/news/1

[SN]TITLE[SN]
A title

[SN]FIRST-SENTENCE[SN]
It rained.

[SN]RESTBODY[SN]
Share this with
Email
The flood came.
Email is a word here.

These are external links and will open in a new window
Then it stopped.
"""
ROW = {"document": "The flood came.\nEmail is a word here.\nThen it stopped.", "summary": "It rained.", "id": "1"}


def write_xsum(folder, splits, text=TEXT):
    """The distribution's files, in which each id has the same text but for its own number."""
    (folder / "bbc-summary-data").mkdir(exist_ok=True)
    write(folder / LIST, json.dumps(splits))
    for number in chain(*splits.values()):
        write(folder / "bbc-summary-data" / f"{number}.summary", text.replace("A title", number))
    return folder


def test_splits_have_the_rows_of_the_list(load, tmp_path):
    folder = write_xsum(tmp_path, {"test": ["3"], "train": ["2", "1"]})
    loaded = load(train_file=folder, test_file=folder, data_format="xsum")
    assert loaded["train"].to_list() == [{**ROW, "id": "2"}, ROW]
    assert loaded["test"]["id"][:] == ["3"]


CASES_OF_UNUSABLE_LISTS = [
    ('{"train": ["1"', r"SPLIT-90-5-5.json has no list of the train split \(.*\): copy it again"),
    ('{"validation": ["1"]}', "has no list of the train split"),
    ('{"train": ["1", "4"]}', r"No such file or directory: '.*/4.summary'"),
]


@pytest.mark.parametrize(("content", "message"), CASES_OF_UNUSABLE_LISTS)
def test_lists_that_cannot_be_used(load, tmp_path, content, message):
    write_xsum(tmp_path, {"train": ["1"]})
    write(tmp_path / LIST, content)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        load(train_file=tmp_path, data_format="xsum")


def test_folder_without_the_list(load, tmp_path):
    with pytest.raises(ValueError, match=r"XSum-.*json does not exist"):
        load(train_file=tmp_path, data_format="xsum")


@pytest.mark.parametrize("part", ["RESTBODY", "FIRST-SENTENCE"])
def test_article_without_a_part(load, tmp_path, part):
    write_xsum(tmp_path, {"train": ["1"]}, TEXT.replace(part, "OTHER"))
    with pytest.raises(ValueError, match=rf"1.summary: no \[SN\]{part}\[SN\]: is the file truncated\?"):
        load(train_file=tmp_path, data_format="xsum")
