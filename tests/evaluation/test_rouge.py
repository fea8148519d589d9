import pytest

from hf_summ.evaluation import rouge, rouge_scores

PREDICTIONS = ["The mayor opened a bridge. It cost 12 million.", "Nothing in common"]
REFERENCES = ["It cost 12 millions. The mayor opened the bridge.", "Quite another text"]


def test_scores_agree_with_counts_by_hand():
    # 9 words each; common: the mayor open(ed) bridge it cost 12 million(s) = 8 with the stemmer
    # bigrams 8 each; common: the-mayor mayor-open it-cost cost-12 12-million = 5
    scores = rouge_scores(PREDICTIONS[:1], REFERENCES[:1])
    assert scores["rouge1"] == [pytest.approx(100 * 8 / 9)]
    assert scores["rouge2"] == [pytest.approx(100 * 5 / 8)]
    # in one sequence only a sentence of the two can match; the longer common part is "the mayor opened bridge"
    assert scores["rougeL"] == [pytest.approx(100 * 4 / 9)]
    assert scores["rougeLsum"] == [pytest.approx(100 * 8 / 9)]


def test_rouge_is_the_rounded_mean_of_examples():
    scores = rouge(PREDICTIONS, REFERENCES)
    assert scores == {"rouge1": 44.4444, "rouge2": 31.25, "rougeL": 22.2222, "rougeLsum": 44.4444}


def test_stemmer_makes_forms_of_a_word_equal():
    assert rouge(["he opens"], ["he opened"])["rouge1"] == 100
    assert rouge(["he opens"], ["he opened"], use_stemmer=False)["rouge1"] == 50


def test_empty_prediction_scores_zero():
    scores = rouge_scores(["", " \n", "one text"], ["one text", "one text", "one text"])
    assert all(values == [0, 0, 100] for values in scores.values())


def test_line_ends_part_sentences_for_rougelsum():
    assert rouge(["a b c\nd e f"], ["d e f\na b c"])["rougeLsum"] == 100


@pytest.mark.parametrize(
    ("language", "prediction", "reference", "points"),
    [
        ("zh", "你好世界。", "你好地球。", 50.0),
        ("de", "Müller kam.", "Möller kam.", 50.0),
        ("ru", "Мир дому", "мир", 66.6667),
    ],
)
def test_other_scripts_are_read_in_their_language(language, prediction, reference, points):
    assert rouge([prediction], [reference], language=language)["rouge1"] == points


def test_regional_english_is_stemmed_too():
    assert rouge(["he opens"], ["he opened"], language="en-GB")["rouge1"] == 100


def test_different_lengths_are_an_error():
    with pytest.raises(ValueError, match="2 predictions and 1 references"):
        rouge(["a", "b"], ["a"])


def test_nothing_to_score_is_an_error():
    with pytest.raises(ValueError, match="nothing to score: there are no predictions"):
        rouge([], [])


@pytest.mark.parametrize("references", [["", " "], ["你好"]])
def test_references_without_words_are_an_error(references):
    with pytest.raises(ValueError, match="no reference holds a word"):
        rouge(references, references)
