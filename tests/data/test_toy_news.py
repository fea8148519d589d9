"""The made-up news: what determines a summary, and what the splits do not share."""

import itertools
import re

import pytest

from hf_summ.data import Corpus, lead, load, split_sentences
from hf_summ.data.corpora import SPLITS
from hf_summ.data.toy_news import (
    EVENTS,
    FIRST_NAMES,
    NUMBERS,
    PLACES,
    SURNAMES,
    articles,
    main,
    make_corpus,
    names,
    steered_examples,
)
from tests.conftest import run_python
from tests.data.files import read_rows
from tests.evaluation.scores import rouge_means

SIZES = {"train": 1500, "validation": 300, "test": 300}
NAME = re.compile(rf"\b({'|'.join(FIRST_NAMES)}) ({'|'.join(SURNAMES)})\b")
FIELDS = {
    "name": f"(?P<name>{NAME.pattern})",
    "place": f"(?P<place>{'|'.join(PLACES)})",
    "number": f"(?P<number>{'|'.join(str(number) for number in NUMBERS)})",
    "day": r"\w+day",
}


def pattern_of(news):
    """The pattern of all sentences that a template of news makes."""
    template = re.escape(news).replace(r"\{", "{").replace(r"\}", "}")
    return re.compile(template.format(**FIELDS))


# the pattern of the news, and the template of its summary
NEWS = []
for event in EVENTS:
    NEWS.extend((pattern_of(news), summary) for news, summary in event)


@pytest.fixture(scope="module")
def corpus():
    return {split: list(articles(split, size, seed=3)) for split, size in SIZES.items()}


def find_news(document):
    """Index of the only sentence that is news, its facts, the template of its summary, and the number of sentences."""
    sentences = split_sentences(document)
    matches = []
    for index, sentence in enumerate(sentences):
        for pattern, summary in NEWS:
            match = pattern.fullmatch(sentence)
            if match:
                matches.append((index, match, summary, len(sentences)))
    assert len(matches) == 1
    return matches[0]


def test_one_sentence_is_news_behind_the_first_three_and_determines_the_summary(corpus):
    places = set()
    for row in corpus["train"]:
        index, match, summary, count = find_news(row["document"])
        assert 3 <= index < count
        places.add(count - index)
        assert row["summary"] == summary.format(**match.groupdict())
    # The news is not always the last sentence, nor always the fourth.
    assert places == {1, 2, 3, 4}


def test_no_part_shares_a_full_name_or_who_where_what_with_training(corpus):
    people = {split: set() for split in SPLITS}
    deeds = {split: set() for split in SPLITS}
    for split, rows in corpus.items():
        for row in rows:
            people[split].update(NAME.findall(row["document"]))
            _, match, summary, _ = find_news(row["document"])
            deeds[split].add((match["name"], match["place"], summary))
    for split, second_split in itertools.combinations(SPLITS, 2):
        assert not people[split] & people[second_split]
        assert not deeds[split] & deeds[second_split]


def test_every_word_of_the_held_out_parts_occurs_in_training(corpus):
    words = {split: set() for split in SPLITS}
    for split, rows in corpus.items():
        for row in rows:
            words[split].update(row["document"].split())
    assert words["validation"] | words["test"] <= words["train"]
    assert len(words["train"]) < 600


def test_articles_are_short_and_differ(corpus):
    lengths = [len(row["document"].split()) for row in corpus["train"]]
    assert min(lengths) >= 50
    assert max(lengths) <= 90
    assert len({row["document"] for row in corpus["train"]}) == SIZES["train"]
    ids = set()
    for rows in corpus.values():
        ids.update(row["id"] for row in rows)
    assert len(ids) == sum(SIZES.values())


def test_first_sentences_say_nothing_of_the_summary(corpus):
    rows = corpus["validation"]
    leads = [lead(row["document"], 3) for row in rows]
    scores = rouge_means(leads, [row["summary"] for row in rows])
    assert scores["rouge2"] < 2


def test_summaries_use_other_words_than_the_news(corpus):
    for row in corpus["train"][:100]:
        _, match, _, _ = find_news(row["document"])
        assert row["summary"] not in row["document"]
        assert all(match[name] in row["summary"] for name in ("name", "place", "number"))


def test_the_seed_decides():
    expected = list(articles("test", 5, seed=1))
    assert list(articles("test", 5, seed=1)) == expected
    assert list(articles("test", 5, seed=2)) != expected


def test_files_are_a_corpus_and_nothing_is_left_beside_them(tmp_path):
    make_corpus(tmp_path / "toy", train=20, validation=3, test=4, seed=5)
    assert {path.name for path in (tmp_path / "toy").iterdir()} == {f"{split}.jsonl" for split in SPLITS}
    files = {f"{split}_file": tmp_path / "toy" / f"{split}.jsonl" for split in SPLITS}
    loaded = load(Corpus(**files), cache_dir=tmp_path / "cache")
    assert loaded.num_rows == {"train": 20, "validation": 3, "test": 4}
    assert loaded["test"].to_list() == list(articles("test", 4, seed=5))


def test_command_line(tmp_path):
    command = ["-W", "error::RuntimeWarning", "-m", "hf_summ.data.toy_news", "--output", str(tmp_path)]
    run_python(*command, "--seed", "7", "--train", "3", "--validation", "1", "--test", "2")
    assert read_rows(tmp_path / "train.jsonl") == list(articles("train", 3, seed=7))


def test_the_phrase_alone_tells_which_event_is_wanted():
    rows = list(steered_examples("train", 200, seed=1))
    assert rows == list(steered_examples("train", 200, seed=1))
    firsts = 0
    for row in rows:
        first, second = row["documents"]
        phrases = list(row["phrases"].items())
        assert len(phrases) == 1
        person, weight = phrases[0]
        assert weight == 1.0
        if person in first:
            wanted, unwanted = first, second
            firsts += 1
        else:
            wanted, unwanted = second, first
        assert person not in unwanted
        assert person in row["summary"]
        assert row["other"]["phrase"] in unwanted
        assert row["other"]["phrase"] in row["other"]["summary"]
        numbers = re.findall(r"\d+", row["summary"])
        assert len(numbers) == 1
        assert numbers[0] in re.findall(r"\d+", wanted)
        assert numbers[0] not in re.findall(r"\d+", unwanted)
    assert 70 < firsts < 130


def test_people_of_other_splits_are_unseen_in_steered_news(tmp_path, capsys):
    main(["--output", str(tmp_path), "--steered", "--train", "3", "--validation", "2", "--test", "4"])
    assert capsys.readouterr().out == f"{tmp_path}: 3 articles for training, 6 held out\n"
    for split, number in (("train", 3), ("validation", 2), ("test", 4)):
        rows = read_rows(tmp_path / f"{split}.jsonl")
        assert len(rows) == number
        for row in rows:
            assert set(row["phrases"]) <= set(names(split))
