"""Support by hand, and against its definition."""

import itertools
import random
import re

import numpy as np
import pytest

from hf_summ.data import split_sentences
from hf_summ.evaluation import support
from hf_summ.evaluation.stemming import porter_stem
from hf_summ.evaluation.support import _FUNCTION_WORDS
from tests.evaluation.scores import support_rows

SOURCE = "Mayor Ana Lopez opened two bridges over the river. They cost 12 million euros."


def points(summary: str, source: str = SOURCE, language: str = "en") -> float:
    return support_rows([summary], [source], language)[0]


# a summary, and the shares of its words and of its pairs of words, where it has some
CASES_OF_ENGLISH_SUMMARIES = [
    # a form of each word is there, and all of them in one sentence
    ("The mayor opens a bridge.", [1, 1]),
    # mayor-paid, paid-12, 12-million and million-euros
    ("The mayor paid 12 million euros.", [4 / 5, 2 / 4]),
    # all words are there, and only two of four pairs are together
    ("Ana Lopez cost 12 million... the river", [1, 3 / 5]),
    # a pair does not go over the end of a sentence, and the order does not matter
    ("River. Lopez Ana.", [1, 1]),
    # a number in words is content; a single content word has no pair
    ("It was three of them.", [0]),
    ("They were two.", [1]),
    # as often as they occur
    ("euros dollars euros", [2 / 3, 0]),
    # a word beside itself
    ("euros, euros", [1, 1]),
    # parts of contractions are function words
    ("Ana's river isn't Lopez's", [1, 1]),
]


@pytest.mark.parametrize(("summary", "shares"), CASES_OF_ENGLISH_SUMMARIES)
def test_english_by_hand(summary, shares):
    assert points(summary) == pytest.approx(100 * np.mean(shares))


def test_other_languages_by_hand():
    source = "Die Bürgermeisterin eröffnete die Brücke. Sie kostete 12 Millionen."
    # every word counts, and none is stemmed: "brücken" is not there, and die-bürgermeisterin is one of two pairs
    assert points("Die Bürgermeisterin, Brücken!", source, "de") == pytest.approx(100 * (2 / 3 + 1 / 2) / 2)
    assert points("DIE BRU\u0308CKE", source, "de-AT") == 100
    source = "市长打开新桥。它花费1200万。"
    # characters and the number are there, 桥 and 花 not in one sentence: 3 of 4 pairs
    assert points("新桥花费1200", source, "zh") == pytest.approx(100 * (1 + 3 / 4) / 2)
    assert points("旧桥", source, "zh") == pytest.approx(100 * (1 / 2 + 0) / 2)


def naive(summary: str, source: str) -> float:
    """The definition over explicit lists, for English texts."""

    def stemmed(word: str) -> str:
        return porter_stem(word) if len(word) > 3 else word

    def words(text: str) -> list[str]:
        return re.findall("[a-z0-9]+", text.lower())

    source_stems = [stemmed(word) for word in words(source)]
    stems_of_source_sentences = []
    for sentence in split_sentences(source):
        stems_of_source_sentences.append([stemmed(word) for word in words(sentence)])
    words_supported: list[bool] = []
    pairs_supported: list[bool] = []
    for sentence in split_sentences(summary):
        content = [stemmed(word) for word in words(sentence) if word not in _FUNCTION_WORDS]
        words_supported.extend(word in source_stems for word in content)
        for first, second in itertools.pairwise(content):
            together = False
            for stems in stems_of_source_sentences:
                if first in stems and second in stems:
                    together = True
            pairs_supported.append(together)
    shares = []
    for flags in (words_supported, pairs_supported):
        if flags:
            shares.append(sum(flags) / len(flags))
    if not shares:
        return float("nan")
    return 100 * sum(shares) / len(shares)


def test_scores_agree_with_the_definition_on_random_texts():
    draw = random.Random(0)
    kinds = ["open", "opens", "opened", "Ana", "the", "it", "12", "12,000", "bridge", "bridges", "of", "six", "isn't"]

    def text(most: int) -> str:
        """A text of at most so many sentences."""
        sentences = []
        for _ in range(draw.randint(1, most)):
            words = draw.choices(kinds, k=draw.randint(1, 5))
            sentences.append("We " + " ".join(words))
        return ". ".join(sentences)

    summaries = [text(3) for _ in range(300)]
    sources = [text(5) for _ in range(300)]
    scores = support_rows(summaries, sources)
    expected = [naive(summary, source) for summary, source in zip(summaries, sources, strict=True)]
    assert scores == pytest.approx(expected, nan_ok=True)
    assert np.isnan(scores).any()
    assert len(set(scores)) > 30


def test_summaries_without_content_words_are_left_out():
    scores = support_rows(["", "It is.", "...", "rain"], [SOURCE] * 4)
    assert np.isnan(scores[:3]).all()
    assert scores[3] == 0
    scored = support(["", "river", "a river in Rome"], [SOURCE] * 3)["support"]
    assert (scored.value(), scored.number()) == ((100 + 25) / 2, 2)
    assert support([""], [SOURCE])["support"].value() is None


def test_words_that_are_put_together_wrongly_have_support():
    assert points("Two mayors opened Ana Lopez over the bridge") == 100


def test_a_source_without_words_costs_its_row():
    with pytest.warns(UserWarning, match="1 of 2 sources have no words and are left out: rows 1, counted from 0"):
        scores = support_rows(["river"] * 2, [SOURCE, "你好"])
    assert (scores[0], np.isnan(scores[1])) == (100, True)
    with pytest.raises(ValueError, match=r"none of the 1 sources has any words .*name the language of other"):
        support(["a"], ["你好"])
