"""Extractive summaries by every method."""

from hypothesis import strategies as st

from hf_summ import extractive
from hf_summ.data import split_sentences
from tests.doors import strategies
from tests.doors.outcomes import door, tried, without_space


@door(
    documents=strategies.text_lists(),
    references=strategies.mostly(st.lists(strategies.texts, min_size=3, max_size=3), strategies.text_lists()),
    method=strategies.one_of(*extractive.METHODS),
    sentences=st.sampled_from((1, 3, 3, 1000, 0, -1, 2.5, "3", None, True, [1], [2] * 2, [0])),
    code=strategies.languages,
)
def test_methods(documents, references, method, sentences, code):
    # three references are for as many documents as there are
    if isinstance(documents, list) and len(references or ()) == 3:
        references = references[: len(documents)]

    def extracted():
        settings = extractive.ExtractiveSettings(method, sentences, language=code)
        return extractive.extract(documents, settings, references)

    summaries = tried(extracted)
    # a text is not an iterable of texts
    assert not isinstance(documents, str)
    for summary, document in zip(summaries, documents, strict=True):
        # each sentence stands in the document, behind the one before
        rest = without_space(document)
        for sentence in split_sentences(summary, code):
            characters = without_space(sentence)
            end = rest.index(characters) + len(characters)
            rest = rest[end:]
