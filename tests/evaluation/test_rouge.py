"""ROUGE in both modes: by hand, and against the package rouge-score."""

import gzip
import json
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from hf_summ.evaluation import RougeSettings
from hf_summ.evaluation.rouge import ROUGE_MODES, ROUGE_TYPES
from tests.evaluation.scores import rouge_means, rouge_rows
from tests.shared_data import SHARED_DATA, reads_shared_data

PREDICTIONS = ["The mayor opened a bridge. It cost 12 million.", "Nothing in common"]
REFERENCES = ["It cost 12 millions. The mayor opened the bridge.", "Quite another text"]


def test_scores_agree_with_counts_by_hand():
    # 9 words each; common: the mayor open(ed) bridge it cost 12 million(s) = 8 with the stemmer
    # bigrams 8 each; common: the-mayor mayor-open it-cost cost-12 12-million = 5
    scores = rouge_rows(PREDICTIONS[:1], REFERENCES[:1], rouge_mode="rouge_score")
    points = {metric: float(values.fmeasure[0]) for metric, values in scores.items()}
    assert points["rouge1"] == pytest.approx(100 * 8 / 9)
    assert points["rouge2"] == pytest.approx(100 * 5 / 8)
    # in one sequence only a sentence of the two can match; the longer common part is "the mayor opened bridge"
    assert points["rougeL"] == pytest.approx(100 * 4 / 9)
    assert points["rougeLsum"] == pytest.approx(100 * 8 / 9)


def assert_same_as_the_package(predictions: list[str], references: list[list[str]], use_stemmer: bool) -> None:
    """Every metric's precision, recall and F of every pair, texts taken line by line as the package does."""
    scores = rouge_rows(predictions, references, rouge_mode="rouge_score", use_stemmer=use_stemmer, sentences="lines")
    scorer = RougeScorer(ROUGE_TYPES, use_stemmer=use_stemmer)
    for row, (prediction, texts) in enumerate(zip(predictions, references, strict=True)):
        for metric, expected in scorer.score_multi(texts, prediction).items():
            found = [column[row] for column in scores[metric]]
            assert found == pytest.approx([100 * value for value in expected], rel=0, abs=1e-9), (metric, row)


# words that share stems, capitals and small letters that change their length or alphabet, punctuation, line ends
WORDS = st.sampled_from(
    "the a of skies sky opened opens Opening news ties dying is 12 twenty-one U.S. İstanbul \u212a café ſtill".split()
)
BETWEEN = st.sampled_from([" ", " ", " ", "\n", "\n\n", ". ", " - ", " | ", "\0", "\u2028", "\ud800"])
LINES = st.lists(st.tuples(WORDS, BETWEEN), max_size=30).map(lambda parts: "".join(map("".join, parts)))
TEXTS = LINES | st.text(max_size=20)


@pytest.mark.thorough
@settings(max_examples=100)
@given(st.lists(st.tuples(TEXTS, st.lists(TEXTS, min_size=1, max_size=3)), min_size=1, max_size=3), st.booleans())
@pytest.mark.filterwarnings("ignore:the references have")
def test_scores_are_those_of_the_package_on_made_up_texts(rows, use_stemmer):
    # a last pair that holds words, without which there is nothing to score
    rows = [*rows, ("one", ["one"])]
    predictions, references = map(list, zip(*rows, strict=True))
    assert_same_as_the_package(predictions, references, use_stemmer)


@pytest.mark.thorough
@reads_shared_data("cnn_highlights", "scitldr_a")
@pytest.mark.parametrize("name", ["cnn_highlights", "scitldr_a"])
def test_scores_are_those_of_the_package_on_real_texts(name):
    with gzip.open(SHARED_DATA / name / "test.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line, _ in zip(lines, range(60), strict=False)]
    # sentences on lines of their own
    predictions = ["\n".join(row["document"][:600].split(". ")) for row in rows]
    assert_same_as_the_package(predictions, [row.get("references", [row["summary"]]) for row in rows], True)


def test_of_several_references_the_best_counts_for_each_metric():
    # the first has more of the words, the second more of the pairs
    scores = rouge_rows(["a b c d"], [["d c b a", "a b x y"]], rouge_mode="rouge_score", use_stemmer=False)
    assert scores["rouge1"].fmeasure[0] == 100
    assert scores["rouge2"].fmeasure[0] == pytest.approx(100 / 3)
    # precision and recall are those of the best, not each the best: 2 of 2 and 2 of 20 are worse than 1 of 2 both
    long = "a b" + " x" * 18
    best = rouge_rows(["a b"], [[long, "a y"]], rouge_mode="rouge_score", rouge_types=["rouge1"])["rouge1"]
    assert [float(column[0]) for column in best] == [50, 50, 50]


# the setting, and the F of both rows
CASES_OF_SEVERAL_REFERENCES = [
    # two words against two of two, and one of four: F of 100 and of 1/3, which the second row has alone
    ("best", [100, 100 / 3]),
    # three matches, of four words of both predictions and six of both references
    ("pooled", [60, 100 / 3]),
]


@pytest.mark.parametrize(("several", "points"), CASES_OF_SEVERAL_REFERENCES)
@pytest.mark.parametrize("mode", ["rouge_score", "rouge155"])
def test_what_counts_of_several_references_is_a_setting(mode, several, points):
    texts = ["a b", "a b"], [["b a", "a x y z"], ["a x y z"]]
    scores = rouge_rows(*texts, rouge_mode=mode, rouge_types=["rouge1"], several=several)["rouge1"]
    assert scores.fmeasure.tolist() == pytest.approx(points)
    default = rouge_rows(*texts, rouge_mode=mode, rouge_types=["rouge1"])["rouge1"]
    usual = {"rouge_score": "best", "rouge155": "pooled"}[mode]
    assert (default.fmeasure.tolist() == scores.fmeasure.tolist()) == (several == usual)


def test_means_by_hand():
    package = {"rouge_mode": "rouge_score"}
    scores = rouge_means(PREDICTIONS, REFERENCES, **package)
    assert scores == {"rouge1": 44.4444, "rouge2": 31.25, "rougeL": 22.2222, "rougeLsum": 44.4444}
    scores = rouge_means(["a b c", "d"], ["a b d", "e"], rouge_types=["rouge1", "rouge2"])
    assert scores == {"rouge1": 33.3333, "rouge2": 25}
    for language in ("en", "en-GB", "en_US", "EN"):
        assert rouge_means(["he opens"], ["he opened"], language=language, **package)["rouge1"] == 100
    assert rouge_means(["he opens"], ["he opened"], use_stemmer=False, **package)["rouge1"] == 50
    # line ends part sentences for rougelsum
    assert rouge_means(["a b c\nd e f"], ["d e f\na b c"], **package)["rougeLsum"] == 100
    scores = rouge_rows(["", " \n", "one text"], ["one text", "one text", "one text"], **package)
    assert all(list(values.fmeasure) == [0, 0, 100] for values in scores.values())


CASES_OF_OTHER_SCRIPTS = [
    ("zh", "你好世界。", "你好地球。", 50.0),
    # each ideograph is a word, also a zero and those beyond the first 65,536 characters; a Latin word is one
    ("zh", "二〇〇五", "二〇一五", 75.0),
    ("zh", "𠮷𠮷iPhone 6", "𠮷𠮸iphone 6", 75.0),
    ("de", "Müller kam.", "Möller kam.", 50.0),
    ("ru", "Мир дому", "мир", 66.6667),
]


@pytest.mark.parametrize(("language", "prediction", "reference", "points"), CASES_OF_OTHER_SCRIPTS)
@pytest.mark.parametrize("mode", ROUGE_MODES)
def test_other_scripts_are_read_in_their_language(mode, language, prediction, reference, points):
    assert rouge_means([prediction], [reference], language=language, rouge_mode=mode)["rouge1"] == points


CASES_OF_UNSCORABLE_TEXTS = [
    (["a"], [[]], "row 0 has no reference"),
    (["a", None], ["a", "b"], "row 1 holds NoneType: None"),
    (["a", "b"], ["", " ."], "no reference has any words"),
    (["你好"], ["你好"], "no reference has any words"),
]


@pytest.mark.filterwarnings("ignore:the references have")
@pytest.mark.parametrize("mode", ROUGE_MODES)
@pytest.mark.parametrize(("predictions", "references", "message"), CASES_OF_UNSCORABLE_TEXTS)
def test_what_cannot_be_scored_is_an_error(mode, predictions, references, message):
    with pytest.raises(ValueError, match=message):
        rouge_rows(predictions, references, rouge_mode=mode)


@pytest.mark.parametrize("mode", ROUGE_MODES)
def test_other_alphabets_in_english_mode_are_warned_of(mode):
    with pytest.warns(UserWarning, match="have 2 letters outside a to z"):
        rouge_rows(["Müller kam"], ["Müller kam spät"], rouge_mode=mode)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "the references have")
        rouge_rows(["Müller kam"], ["Müller kam spät"], rouge_mode=mode, language="de")
        rouge_rows(["the cafe"], ["“the café” " + "is open " * 30], rouge_mode=mode)


@pytest.mark.parametrize("mode", ROUGE_MODES)
@pytest.mark.parametrize(
    ("option", "value", "choices"), [("sentences", "words", "split, lines"), ("several", "jackknife", "best, pooled")]
)
def test_options_of_both_are_checked(mode, option, value, choices):
    with pytest.raises(ValueError, match=f"`{option}` is '{value}', but must be one of {choices}"):
        rouge_rows(["a"], ["a"], rouge_mode=mode, **{option: value})


CASES_OF_IMPOSSIBLE_SETTINGS = [
    (
        {"rouge_mode": "rouge_score", "rouge_types": ["rougeSU4"]},
        "ROUGE type is 'rougeSU4', but must be one of rouge1, rouge2, rougeL,",
    ),
    ({"rouge_types": ["rougeLsum"]}, "ROUGE type rougeLsum of rouge-score is rougeL here"),
    ({"rouge_mode": "perl"}, "`rouge_mode` is 'perl', but must be one of rouge_score, rouge155"),
    (
        {"rouge_mode": "rouge_score", "byte_limit": 75},
        "`rouge_mode` is 'rouge_score', which has no byte_limit: set it to 'rouge155'",
    ),
    ({"byte_limit": 75, "word_limit": 10}, "`byte_limit` and `word_limit` exclude each other"),
    ({"byte_limit": 0}, "`byte_limit` is 0"),
    ({"word_limit": -1}, "`word_limit` is -1"),
    ({"byte_limit": 75, "language": "zh"}, "`byte_limit` needs English, as in ROUGE-1.5.5, but `language` is 'zh'"),
]


@pytest.mark.parametrize(("options", "message"), CASES_OF_IMPOSSIBLE_SETTINGS)
def test_impossible_settings_are_an_error(options, message):
    with pytest.raises(ValueError, match=message):
        RougeSettings(**options)


def test_a_string_of_types_is_an_error():
    with pytest.raises(TypeError, match="`rouge_types` must be a list, but is str: 'rouge1'"):
        RougeSettings(rouge_types="rouge1")


@pytest.mark.parametrize("language", ["Klingon", ""])
def test_unknown_languages_are_an_error(language):
    with pytest.raises(ValueError, match=f"`language` is '{language}', but must be an ISO 639 code"):
        RougeSettings(language=language)


def test_a_language_that_is_no_string_is_an_error():
    with pytest.raises(TypeError, match="`language` must be a string"):
        RougeSettings(language=None)
