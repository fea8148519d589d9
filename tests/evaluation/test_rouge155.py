"""ROUGE against the Perl script ROUGE-1.5.5 itself, and against counts by hand."""

import random
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest

from hf_summ.evaluation import bootstrap_interval
from hf_summ.evaluation.stemming import porter_stem, wordnet_exceptions
from tests.conftest import first
from tests.evaluation.perl_rouge import perl_rouge, perl_stems, release
from tests.evaluation.scores import rouge_means, rouge_rows

WORDS = """the a of it was were went children better mice running runs ran agreed agreement environmental governmental
yesterday yes youth happily relational hopping falling mayor's U.S. twenty-one 12 3,000 café Zürich naïve co-operate
studies studied taxes passes grass bridge bridges opened opening - -- “quoted” (brackets) ; general generally ox oxen
axes lives wolves National nationalities controlling rolled filing failing sky skies dying lied tie ties""".split()
ENDINGS = [
    "",
    *"""s es ed ing ies sses eed y ational tional enci izer bli alli entli eli ousli ization ation ator alism iveness
    fulness ousness aliti iviti biliti logi icate ative alize iciti ical ful ness al ance ence er ic able ible ant ement
    ment ent ou ism ate iti ous ive ize sion tion ll e mental mentally""".split(),
]
STARTS = """hop fall agr rel yell y by toy tree sky control oper nation gener environ govern condit general creat b ax
str iz at bl conn adjust depend feud rate probat organ""".split()


pytestmark = [
    # the made-up texts hold more accents than English does
    pytest.mark.filterwarnings("ignore:the references have")
]


def made_up(
    seed: int, rows: int, several: bool = False, vocabulary: Sequence[str] = WORDS
) -> tuple[list[str], list[list[str]]]:
    """Texts of up to four lines; references share words with their predictions; some texts are empty."""
    generator = random.Random(seed)

    def text() -> str:
        lines = []
        for _ in range(generator.randrange(1, 5)):
            words = generator.choices(vocabulary, k=generator.randrange(1, 14))
            lines.append(" ".join(words))
        line_end = generator.choice(["\n", "\n", "\n \n", "\n\n"])
        indent = generator.choice(["", "  "])
        return indent + line_end.join(lines)

    predictions = [text() for _ in range(rows)]
    references = []
    for _ in range(rows):
        number = 1
        if several:
            number = generator.randrange(1, 4)
        references.append([text() for _ in range(number)])
    predictions[1] = ""
    references[2][0] = ""
    predictions[3] = "one"
    return predictions, references


@pytest.mark.parametrize("stemmed", first([True, False]))
@pytest.mark.parametrize("limits", [{}, {"byte_limit": 75}, {"word_limit": 12}])
@pytest.mark.parametrize("several", [False, True])
def test_scores_are_those_of_the_perl_script(tmp_path, stemmed, limits, several):
    predictions, references = made_up(1, 50, several)
    options = ["-r", "1"]
    if stemmed:
        options.append("-m")
    if "byte_limit" in limits:
        options += ["-b", str(limits["byte_limit"])]
    if "word_limit" in limits:
        options += ["-l", str(limits["word_limit"])]
    expected, _ = perl_rouge(tmp_path, predictions, references, options)
    scores = rouge_rows(predictions, references, use_stemmer=stemmed, sentences="lines", **limits)
    for metric, values in scores.items():
        # The script rounds precision, recall and F to 0.001 points each.
        np.testing.assert_allclose(np.stack(values), expected[metric], atol=0.002, err_msg=metric)


@pytest.mark.thorough
def test_means_are_those_of_the_perl_script_and_intervals_nearly(tmp_path):
    predictions, references = made_up(2, 120, vocabulary=WORDS[:12])
    _, averages = perl_rouge(tmp_path, predictions, references, ["-m", "-c", "95", "-r", "1000"])
    scores = rouge_rows(predictions, references, sentences="lines")
    for metric, values in scores.items():
        for letter, column in zip("PRF", values, strict=True):
            interval = bootstrap_interval(column)
            # The script's resamples differ, so that each end of an interval deviates by a few hundredths of its width.
            width = interval.high - interval.low
            expected = pytest.approx(averages[metric, letter], abs=0.1 * width)
            assert (interval.mean, interval.low, interval.high) == expected, (metric, letter)


@pytest.mark.thorough
def test_stems_are_those_of_the_perl_script():
    words = [start + ending for start, ending in product(STARTS, ENDINGS)]
    words += [start + first_ending + ending for start, first_ending, ending in product(STARTS, ENDINGS, ENDINGS)]
    words = [word for word in words if len(word) > 3]
    assert [porter_stem(word) for word in words] == perl_stems(words)


CASES_OF_STEMS = [
    ("relational", "relat"),
    ("hopping", "hop"),
    ("agreed", "agre"),
    ("filing", "file"),
    ("yesterday", "yesterdai"),
    ("skies", "ski"),
    ("controlling", "control"),
    ("adoption", "adopt"),
    # by Porter's paper step 4 takes one suffix, which leaves "environment"
    ("environmental", "environ"),
]


@pytest.mark.parametrize(("word", "expected"), CASES_OF_STEMS)
def test_stems_by_hand(word, expected):
    assert porter_stem(word) == expected


def test_irregular_forms_are_looked_up_before_the_stemmer():
    assert wordnet_exceptions()["children"] == "child"
    assert rouge_means(["the children"], ["the child"])["rouge1"] == 100


def test_irregular_forms_are_those_of_the_script():
    lists = release() / "data" / "WordNet-2.0-Exceptions"
    expected = {}
    for name in ("noun", "verb", "adj", "adv"):
        for line in (lists / f"{name}.exc").read_text("latin-1").splitlines():
            forms = line.split()
            if len(forms) > 1:
                expected[forms[0]] = forms[1]
    assert wordnet_exceptions() == expected


def test_of_conflicting_irregular_forms_the_adverb_counts(tmp_path):
    predictions, references = ["best", "better", "best", "better"], [["well"], ["well"], ["good"], ["good"]]
    expected, _ = perl_rouge(tmp_path, predictions, references, ["-m", "-r", "1"])
    scores = rouge_rows(predictions, references, rouge_types=["rouge1"])["rouge1"]
    assert list(scores.fmeasure) == list(expected["rouge1"][2]) == [100, 100, 0, 0]


def test_scores_agree_with_counts_by_hand():
    prediction, reference = "the mayor opened a bridge\nit cost 12 million", "it cost 12\nthe mayor opened the bridge"
    scores = rouge_rows([prediction], [reference], use_stemmer=False, sentences="lines")
    points = {metric: [float(column[0]) for column in values] for metric, values in scores.items()}
    # 9 words against 8; common: the mayor opened bridge it cost 12
    assert points["rouge1"] == pytest.approx([100 * 7 / 9, 100 * 7 / 8, 100 * 14 / 17])
    # common: the-mayor mayor-opened it-cost cost-12 of 8 and of 7
    assert points["rouge2"] == pytest.approx([100 * 4 / 8, 100 * 4 / 7, 100 * 8 / 15])
    # "the" occurs twice in the reference's matches, but once in the prediction
    assert points["rougeL"] == pytest.approx([100 * 7 / 9, 100 * 7 / 8, 100 * 14 / 17])


def test_skip_bigrams_leave_out_the_last_single_word():
    scores = rouge_rows(["a b c d e f g"], ["a g"], use_stemmer=False)
    # a-g is 5 words apart: one more than SU4 skips; the reference counts "a" and "a g", but not "g"
    assert scores["rougeSU4"].recall[0] == 50
    assert scores["rougeSU*"].recall[0] == 100
    # 6 single words; 7 x 6 / 2 pairs, all but a-g in SU4
    assert scores["rougeSU4"].precision[0] == pytest.approx(100 * 1 / 26)
    assert scores["rougeSU*"].precision[0] == pytest.approx(100 * 2 / 27)


def test_matches_with_several_references_are_summed():
    scores = rouge_rows(["a b"], [["a b", "c d e f"]], use_stemmer=False)["rouge1"]
    assert (scores.recall[0], scores.precision[0]) == (pytest.approx(100 * 2 / 6), 50)


def test_empty_prediction_and_nul_bytes():
    scores = rouge_rows(["", "a\0b c"], ["a b c", "a b\0 c"], use_stemmer=False)
    assert all(list(values.fmeasure) == [0, 100] for values in scores.values())


def test_bytes_are_cut_in_the_middle_of_a_word():
    cut = rouge_rows(["abc def"], ["abc d"], use_stemmer=False, byte_limit=5)["rouge1"]
    assert cut.fmeasure[0] == 100
    # é is two bytes, so the limit falls before "b"
    assert rouge_rows(["é b"], ["a b"], use_stemmer=False, byte_limit=3)["rouge1"].recall[0] == 0


def test_lines_may_hold_several_sentences():
    # split, each sentence is matched by itself; as one line their order counts
    pair = ["A cat sat. A dog ran."], ["A dog ran. A cat sat."]
    assert rouge_rows(*pair, rouge_types=["rougeL"])["rougeL"].fmeasure[0] == 100
    assert rouge_rows(*pair, rouge_types=["rougeL"], sentences="lines")["rougeL"].fmeasure[0] == 50


def test_quotations_of_tokenized_texts_do_not_hide_sentences():
    pair = ['" a cat sat . a dog ran . " he said .'], ["he said .\na dog ran .\na cat sat ."]
    assert rouge_rows(*pair, rouge_types=["rougeL"])["rougeL"].fmeasure[0] == 100
