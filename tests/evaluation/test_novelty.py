"""Novel n-grams, copied fragments and repetition, by hand."""

import math
import re

import numpy as np
import pytest

from hf_summ.data import split_sentences
from hf_summ.evaluation import copied_fragments, corpus_statistics, novelty
from hf_summ.evaluation.significance import rounded
from tests.evaluation.scores import novelty_rows

SOURCE = "The mayor opened a bridge. It cost 12 million. The river is wide."
# copied: "the mayor" (sentence 0), "12 million" (1); the others are new
SUMMARY = "The mayor paid 12 million, 12 million!"
DOCUMENTS = ["The mayor opened a bridge. It cost 12 million.\n---\nThe river is wide.", "Rain fell."]
SUMMARIES = ["A new bridge! The mayor paid.", "Rain"]


def test_words_are_what_the_settings_say():
    # Tokens count as often as they occur.
    assert novelty_rows(["new new mayor"], [SOURCE], count="tokens")["novel1"] == [pytest.approx(200 / 3)]
    assert novelty_rows(["new new mayor"], [SOURCE])["novel1"] == [50]
    # The types are the, mayor, paid, 12, million, comma and exclamation mark, of which three are new.
    scores = novelty_rows([SUMMARY], [SOURCE], count_punctuation=True)
    assert scores["novel1"] == [pytest.approx(300 / 7)]
    assert scores["length"] == [9]
    assert scores["compression"] == [pytest.approx(16 / 9)]
    assert novelty_rows(["it's"], ["its"], count_punctuation=True)["length"] == [3]
    accented = novelty_rows(["cafe\u0301, na\u00efve"], ["caf\u00e9"], language="fr", count_punctuation=True)
    assert accented["length"] == [3]
    assert novelty([SUMMARY], [SOURCE], count_punctuation=True)["length"].value() == 9
    # Chinese is read by characters.
    scores = novelty_rows(["你好地球"], ["你好世界。"], language="zh")
    assert scores["novel1"] == [50]
    assert scores["length"] == [4]
    # Words of other scripts stay whole.
    assert novelty_rows(["Müller"], ["Frau Müller kam."], language="de")["novel1"] == [0]


def test_copied_fragments_by_hand():
    fragments = copied_fragments("the river and the bridge", "The bridge. The river. It is the river.")
    assert [tuple(fragment) for fragment in fragments] == [(0, 2, (1, 2)), (3, 2, (0,))]
    # Sentences without words are not counted.
    assert copied_fragments("two", "One.\n---\nTwo.")[0].sentences == (1,)


def test_copy_position_is_the_mean_over_all_occurrences():
    assert novelty_rows(["river"], ["A river. A town. The river."])["copy_position"] == [pytest.approx(50)]


def test_summaries_shorter_than_n_are_left_out_not_zero():
    predictions, sources = ["new", "quite new mayor", ""], [SOURCE] * 3
    scores = novelty_rows(predictions, sources)
    assert scores["novel3"][1] == 100
    assert [math.isnan(value) for value in scores["novel2"]] == [True, False, True]
    assert scores["length"] == [1, 3, 0]
    means = rounded(novelty(predictions, sources))
    assert means["novel1"] == round((100 + 200 / 3) / 2, 4)
    assert means["novel2"] == 100
    assert math.isnan(means["novel4"])
    assert means["length"] == round(4 / 3, 4)


def test_macro_is_the_mean_of_rows_and_micro_that_of_the_corpus():
    predictions, sources = ["new", "the mayor it", ""], [SOURCE, SOURCE, SOURCE]
    assert novelty(predictions, sources)["novel1"].value() == 50
    micro = novelty(predictions, sources, average="micro")
    assert micro["novel1"].value() == 25
    # The source of the empty summary is not compressed.
    assert micro["compression"].value() == 2 * 13 / 4


def n_grams(words: list[str], n: int) -> list[tuple[str, ...]]:
    return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]


def naive(prediction: str, source: str) -> dict[str, float]:
    """Definitions of the papers over explicit n-grams and every pair of positions."""
    words = re.findall("[a-z0-9]+", prediction.lower())
    sentences = [re.findall("[a-z0-9]+", sentence.lower()) for sentence in split_sentences(source)]
    source_words, sentence_of = [], []
    for index, sentence in enumerate(sentences):
        source_words += sentence
        sentence_of += [index] * len(sentence)
    scores = {}
    for n in (1, 2, 3, 4):
        grams, source_grams = n_grams(words, n), n_grams(source_words, n)
        repeated = [gram for i, gram in enumerate(grams) if gram in grams[:i]]
        scores[f"novel{n}"] = 100 * len(set(grams) - set(source_grams)) / len(set(grams))
        scores[f"repeated{n}"] = 100 * len(repeated) / len(grams)
    # of each copied fragment, its length, and the middle of the sentences where it occurs
    lengths, middles = [], []
    i = 0
    while i < len(words):
        places = {}
        for j in range(len(source_words)):
            k = 0
            while i + k < len(words) and j + k < len(source_words) and words[i + k] == source_words[j + k]:
                k += 1
            places.setdefault(k, []).append(j)
        longest = max(places)
        if longest:
            lengths.append(longest)
            middles.append(np.mean([(sentence_of[j] + 0.5) / len(sentences) for j in places[longest]]))
        i += max(longest, 1)
    scores["copy_rate"] = 100 * sum(lengths) / len(words)
    scores["copy_density"] = sum(length**2 for length in lengths) / len(words)
    scores["copy_position"] = math.nan
    if lengths:
        scores["copy_position"] = 100 * np.average(middles, weights=lengths)
    scores["compression"] = len(source_words) / len(words)
    scores["length"] = len(words)
    return scores


def test_measures_agree_with_their_definitions_on_random_texts():
    rng = np.random.default_rng(0)

    def text(sentences: int, words: int) -> str:
        """Sentences of few kinds of words, so that much is repeated and matches overlap."""
        parts = []
        for _ in range(sentences):
            parts.append(" ".join(rng.choice(list("ABCDEFG"), words)) + ". Yes.")
        return " ".join(parts)

    predictions = [text(1, 12) for _ in range(40)]
    sources = [text(4, 9) for _ in range(40)]
    scores = novelty_rows(predictions, sources)
    for row in range(40):
        scores_of_row = {measure: values[row] for measure, values in scores.items()}
        assert scores_of_row == pytest.approx(naive(predictions[row], sources[row]), nan_ok=True)


CASES_OF_SOURCES_WITHOUT_WORDS = [
    ("", "en", r"1 of \d sources have no words and are left out: rows 1, counted from 0 .*name the language"),
    ("你好", "en-GB", "rows 1, counted from 0 .*name the language"),
    (" .", "de", r"rows 1, counted from 0 \(language 'de'\)$"),
]


@pytest.mark.parametrize(("source", "language", "message"), CASES_OF_SOURCES_WITHOUT_WORDS)
def test_a_source_without_words_costs_its_row(source, language, message):
    with pytest.warns(UserWarning, match=message):
        scores = novelty(["a", "b", "a c"], ["a", source, "a"], language)
    kept = novelty(["a", "a c"], ["a", "a"], language)
    assert rounded(scores) == pytest.approx(rounded(kept), nan_ok=True)
    assert all(np.isnan(scored.rows()[1]) for scored in scores.values())
    with pytest.raises(ValueError, match="none of the 2 sources has any words"):
        novelty(["a", "b"], [source, source], language=language)


def test_only_some_rows_without_words_are_named():
    with pytest.warns(UserWarning, match="rows 1, 2, 3, 4, 5 and 7 more, counted from 0"):
        novelty(["a"] * 13, ["a"] + [""] * 12)


@pytest.mark.parametrize(
    ("arguments", "message"), [({"average": "mean"}, "one of macro, micro"), ({"count": "all"}, "one of types, tokens")]
)
def test_unknown_variants_are_an_error(arguments, message):
    with pytest.raises(ValueError, match=message):
        novelty(["a"], ["a"], **arguments)


def test_corpus_statistics_by_hand():
    assert corpus_statistics(DOCUMENTS, SUMMARIES) == {
        "pairs": 2,
        # 5, 4 and 4 words, and 2
        "document_words": 15 / 2,
        # the dashes are no sentence
        "document_sentences": 4 / 2,
        "summary_words": 7 / 2,
        "summary_sentences": 3 / 2,
        # "the" comes twice
        "document_vocabulary": 14,
        "summary_vocabulary": 7,
        # "new" and "paid" are the summaries' own
        "vocabulary": 16,
        "source_target_ratio": round(15 / 7, 4),
    }
    # words between white space keep their marks
    counted = corpus_statistics(["He said: go! - The-end."], ["A b."], unit="spaced")
    assert (counted["document_words"], counted["summary_words"]) == (5, 2)
    # İ is the capital of i in Turkish
    for unit in ("words", "spaced"):
        assert corpus_statistics(["İki iki"], ["IŞIK ışık"], language="tr", unit=unit)["vocabulary"] == 2
    figures = corpus_statistics(["你好世界。下雨了。"], ["你好!"], language="zh")
    assert (figures["document_words"], figures["document_sentences"], figures["vocabulary"]) == (7, 2, 7)
    assert figures["source_target_ratio"] == 3.5
    # a blank text counts as one without words
    assert corpus_statistics(["One two.", " "], ["one", ""])["document_words"] == 1


CASES_OF_TEXTS_WITHOUT_WORDS = [
    (["你好。"], ["one"], "none of the documents has any words .*name the language"),
    (["One.", "Two."], ["...", ""], "none of the summaries has any words"),
]


@pytest.mark.parametrize(("documents", "summaries", "message"), CASES_OF_TEXTS_WITHOUT_WORDS)
def test_errors(documents, summaries, message):
    with pytest.raises(ValueError, match=message):
        corpus_statistics(documents, summaries)
