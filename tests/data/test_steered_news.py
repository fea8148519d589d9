"""News whose key phrases say which of two events is wanted."""

import json
import re

import pytest

from hf_summ.data.steered_news import examples, main, make_corpus
from hf_summ.data.toy_news import names


def test_the_phrase_alone_tells_which_event_is_wanted():
    rows = list(examples("train", 200, seed=1))
    assert rows == list(examples("train", 200, seed=1))
    firsts = 0
    for row in rows:
        first, second = row["documents"]
        ((person, value),) = row["phrases"].items()
        wanted, other = (first, second) if person in first else (second, first)
        firsts += wanted is first
        assert value == 1.0
        assert person not in other
        assert person in row["summary"]
        assert row["other"]["phrase"] in other
        assert row["other"]["phrase"] in row["other"]["summary"]
        (number,) = re.findall(r"\d+", row["summary"])
        assert number in re.findall(r"\d+", wanted)
        assert number not in re.findall(r"\d+", other)
    assert 70 < firsts < 130


def test_people_of_other_splits_are_unseen(tmp_path):
    make_corpus(tmp_path, train=3, validation=2, test=4)
    for split, number in (("train", 3), ("validation", 2), ("test", 4)):
        rows = [json.loads(line) for line in (tmp_path / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()]
        assert len(rows) == number
        assert all(set(row["phrases"]) <= set(names(split)) for row in rows)


def test_command_line(tmp_path, capsys):
    main(["--output", str(tmp_path), "--train", "2", "--validation", "1", "--test", "1"])
    assert capsys.readouterr().out == f"{tmp_path}: 2 articles for training, 2 held out\n"
    with pytest.raises(SystemExit):
        main(["--output", str(tmp_path), "--train", "0"])
    assert "`train` is 0, but must be at least 1" in capsys.readouterr().err
