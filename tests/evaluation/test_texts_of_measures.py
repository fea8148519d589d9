"""What every measure says about texts that are none, and about a single text in place of several."""

import pytest

from hf_summ.data import split_sentences
from hf_summ.evaluation import bleu, chrf, corpus_statistics, novelty, rouge, support
from hf_summ.evaluation.words import split_words, split_words_and_marks

MEASURES = (rouge, bleu, chrf, novelty, support, corpus_statistics)


@pytest.mark.parametrize("measure", MEASURES)
def test_single_texts_are_not_read_as_their_characters(measure):
    assert len(measure(["abc"], ["abd"]))
    for pair in (("abc", "abd"), ("abc", ["a", "b", "c"]), (None, ["a"])):
        with pytest.raises(TypeError, match=r"^`(predictions|documents)` must be a list, but is (str|NoneType): "):
            measure(*pair)
    with pytest.raises(TypeError, match=r"^`(references|sources|summaries)` must be a list, but is str: 'abc'$"):
        measure(["a", "b", "c"], "abc")


CASES_WITHOUT_COUNTERPARTS = [
    (["a", "b"], ["a"], r"^2 \w+ but 1 \w+: each needs its counterpart$"),
    ([], [], "^nothing to score: there are no "),
]


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize(("texts", "others", "message"), CASES_WITHOUT_COUNTERPARTS)
def test_each_text_needs_its_counterpart(measure, texts, others, message):
    with pytest.raises(ValueError, match=message):
        measure(texts, others)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("missing", [None, float("nan"), 3])
def test_missing_texts_are_named(measure, missing):
    kind = type(missing).__name__
    for pair in ((["a", missing], ["a", "b"]), (["a", "b"], ["a", missing])):
        with pytest.raises((TypeError, ValueError), match=f"must be (a list|strings), but .*{kind}: {missing}"):
            measure(*pair)


@pytest.mark.parametrize("function", [split_sentences, split_words, split_words_and_marks])
@pytest.mark.parametrize("text", [None, 3.5, b"bytes", ["a"]])
def test_what_is_no_text_is_named(function, text):
    with pytest.raises(TypeError, match=f"^`text` must be a string, but is {type(text).__name__}: "):
        function(text)


def test_what_is_no_language_fits_into_a_line():
    for language, shown in (("e\nus", r"'e\\nus'"), ("x" * 3000, "'x+")):
        with pytest.raises(ValueError, match=f"^`language` is {shown}, but must be an ISO 639 code"):
            split_words("a", language)
