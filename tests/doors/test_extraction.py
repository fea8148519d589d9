"""Extractive summaries by every method."""

from hypothesis import strategies as st

from hf_summ import extractive
from hf_summ.data import split_sentences
from tests.doors import strategies as our
from tests.doors.outcomes import door, tried, without_space


@door(
    documents=our.text_lists(),
    references=our.mostly(st.lists(our.texts, min_size=3, max_size=3), our.text_lists()),
    method=our.one_of(*extractive.METHODS),
    sentences=st.sampled_from((1, 3, 3, 1000, 0, -1, 2.5, "3", None, True, [1], [2] * 2, [0])),
    code=our.languages,
    splitter=our.one_of("sentencex", "spacy"),
)
def test_methods(documents, references, method, sentences, code, splitter):
    if isinstance(documents, list) and len(references or ()) == 3:
        references = references[: len(documents)]
    given = documents, method, sentences, references, code, splitter
    rows, summaries = tried(lambda: (extractive.extract_sentences(*given), extractive.extract(*given)))
    # a text is not an iterable of texts
    assert not isinstance(documents, str)
    for indices, summary, document in zip(rows, summaries, documents, strict=True):
        chosen = split_sentences(document, code, splitter)
        assert indices == sorted(set(indices))
        assert without_space(summary) == without_space("".join(chosen[index] for index in indices))
