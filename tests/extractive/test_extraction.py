"""Summaries of a document's own sentences, by every method."""

import pytest

from hf_summ.data import lead, split_sentences
from hf_summ.extractive import METHODS
from tests.conftest import SENTENCES
from tests.extractive.summaries import extract_indices, extracts

QUOTED = '"I ran. I fell," he said. Rain fell.'
DOCUMENT = " ".join(SENTENCES)
REFERENCE = "A bridge that cost 12 million euros was called too high in price by critics."


@pytest.mark.parametrize("method", METHODS)
def test_summaries_are_sentences_of_the_document_in_its_order(method):
    documents = [DOCUMENT, " ".join(SENTENCES[:2]), "\n".join(SENTENCES[::-1])]
    chosen = extract_indices(documents, method, 2, [REFERENCE] * 3)
    summaries = extracts(documents, method, 2, [REFERENCE] * 3)
    for document, indices, summary in zip(documents, chosen, summaries, strict=True):
        assert indices == sorted(set(indices))
        assert 1 <= len(indices) <= 2
        sentences = split_sentences(document)
        assert summary == " ".join(sentences[index] for index in indices)


@pytest.mark.parametrize("method", METHODS)
def test_a_document_does_not_change_anothers_summary(method):
    documents = [DOCUMENT, "Rain fell. Rain fell on the bridge. The bridge held."]
    references = [REFERENCE, "The bridge held in the rain"]
    first = extracts(documents[:1], method, 2, references[:1])
    second = extracts(documents[1:], method, 2, references[1:])
    assert extracts(documents, method, 2, references) == first + second


@pytest.mark.parametrize("text", [DOCUMENT, QUOTED, "\n  One.  Two\tthree.\nFour", "No. No. No. Yes.", "a \ud83d. B."])
@pytest.mark.parametrize("language", ["en", "en-GB", "de"])
def test_lead_is_the_one_that_training_scores(text, language):
    for number in (1, 2, 9):
        assert extracts([text], "lead", number, language=language) == [lead(text, number, language)]


def test_a_quotation_is_in_one_sentence():
    assert extracts([QUOTED], "tail", 1) == ["Rain fell."]
    assert extracts([QUOTED], "oracle", 1, ["Rain"]) == ["Rain fell."]


def test_head_and_tail_with_a_number_a_document():
    documents = ["One. Two. Three.", "Four. Five."]
    assert extracts(documents, "lead", [2, 1]) == ["One. Two.", "Four."]
    assert extracts(documents, "tail", [2, 1]) == ["Two. Three.", "Five."]
    assert extracts(documents, "tail", 9) == documents
    # No documents have no summaries.
    assert extracts([], "lead") == []


def test_no_spaces_where_the_script_has_none():
    document = "你好世界。下雨了。你好再见。"
    assert extracts([document], "tail", 2, language="zh") == ["下雨了。你好再见。"]
    assert extracts([document], "oracle", 2, ["你好世界你好再见"], language="zh") == ["你好世界。你好再见。"]


CASES_OF_WRONG_SETTINGS = [
    ({"method": "luhn"}, "`method` is 'luhn', but must be one of lead, tail, oracle"),
    ({"method": "tail", "sentences": 0}, "`sentences` is 0, but must be at least 1"),
    ({"method": "tail", "sentences": [1, 0]}, "`sentences` is 0, but must be at least 1"),
    ({"method": "lead", "sentences": [1]}, "`sentences` has 1 numbers, but there are 2 documents"),
]


@pytest.mark.parametrize(("arguments", "message"), CASES_OF_WRONG_SETTINGS)
def test_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        extracts(["One.", "Two."], **arguments)


CASES_OF_WRONG_TYPES = [
    ("One.", {}, "`documents` must be a list, but is str: 'One.'"),
    (["One.", None], {}, "`documents` must be strings, but row 1 is NoneType: None"),
    (["One."], {"sentences": 2.5}, "`sentences` must be an integer, but is float: 2.5"),
    (["One."], {"sentences": "3"}, "`sentences` must be an integer, but is str: '3'"),
    (["One."], {"sentences": None}, "`sentences` must be an integer, but is NoneType: None"),
    (["One."], {"method": "oracle", "references": [3]}, "`references` must be strings, but row 0 is int: 3"),
]


@pytest.mark.parametrize(("documents", "arguments", "message"), CASES_OF_WRONG_TYPES)
def test_wrong_types(documents, arguments, message):
    arguments = {"method": "lead"} | arguments
    with pytest.raises(TypeError, match=f"^{message}$"):
        extracts(documents, **arguments)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("document", ["", " \n", "你好。"])
def test_a_document_without_words_has_no_summary(method, document):
    with pytest.warns(UserWarning, match="1 of 2 documents have no words and get no summary: rows 1, counted"):
        assert extracts(["One.", document], method, 1, ["One.", "Two."]) == ["One.", ""]
    with pytest.raises(ValueError, match="none of the 1 documents has any words"):
        extracts([document], method, 1, ["Two."])
