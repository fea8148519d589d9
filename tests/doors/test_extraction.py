"""Extractive summaries by every method, and the consistent extractive stage."""

import math

import numpy as np
import torch
from hypothesis import strategies as st

from hf_summ import extractive
from hf_summ.data import split_sentences
from tests.doors import models
from tests.doors import strategies as our
from tests.doors.outcomes import door, tried, without_space

# scores of pairs of sentences: valid ones, then invalid ones; and invalid numbers of tokens
_SCORERS = (
    lambda pairs: [0.4] * len(pairs),
    lambda pairs: np.array([(len(one) * 7 + len(other)) % 10 / 10 for one, other in pairs]),
    lambda pairs: torch.tensor([(len(one) + len(other)) % 2 for one, other in pairs], dtype=torch.float32),
)
_BAD_SCORERS = (
    *(lambda pairs, x=x: [x] * len(pairs) for x in (math.nan, math.inf, -1.0, 1.5, "0.3", None, [0.3, 0.7])),
    *(lambda pairs, more=more: [0.3] * (len(pairs) + more) for more in (-1, 1)),
    *(lambda pairs, value=value: value for value in ([], None, 0.3, "0", np.zeros((1, 2)), {"a": 0.3})),
    lambda pairs: (0.3 for _ in pairs),
    *("no/model", ""),
)
_BAD_COUNTERS = tuple(lambda text, x=x: x for x in (0, -1, math.nan, 2.5, 10**30, None, "3", [1, 2], True))


def _check_choice(documents, rows, summaries, code="en", splitter="sentencex") -> None:
    """Checks the chosen sentences, and the texts made of them."""
    # a text is not an iterable of texts
    assert not isinstance(documents, str)
    for indices, summary, document in zip(rows, summaries, documents, strict=True):
        sentences = split_sentences(document, code, splitter)
        assert indices == sorted(set(indices))
        assert without_space(summary) == without_space("".join(sentences[index] for index in indices))


@door(
    documents=our.text_lists(),
    references=our.mostly(st.lists(our.texts, min_size=3, max_size=3), our.text_lists()),
    method=our.one_of(*extractive.METHODS),
    sentences=st.sampled_from((1, 3, 3, 1000, 0, -1, 2.5, "3", None, True, [1], [2] * 2, [0])),
    measure=our.one_of("rouge12", "rouge1", "rouge2", "rougeL"),
    code=our.languages,
    splitter=our.one_of("sentencex", "spacy"),
)
def test_methods(documents, references, method, sentences, measure, code, splitter):
    if isinstance(documents, list) and len(references or ()) == 3:
        references = references[: len(documents)]
    given = documents, method, sentences, references, measure, code, splitter
    rows, summaries = tried(lambda: (extractive.extract_sentences(*given), extractive.extract(*given)))
    _check_choice(documents, rows, summaries, code, splitter)


@door(
    data=st.data(),
    documents=our.text_lists() | st.lists(st.lists(our.texts, min_size=3, max_size=3).map(" ".join), max_size=3),
    size=st.fixed_dictionaries({"share": our.mostly(st.sampled_from((0.01, 0.3, 0.5, 1, 1.0)), our.junk)})
    | st.fixed_dictionaries({"tokens": our.mostly(st.sampled_from((1, 5, 20, 100, 10**30)), our.junk)}),
)
def test_consistent(data, documents, size):
    usual = {"next_sentence_model": _SCORERS, "language": our.languages}
    usual |= {} if "share" in size else {"counter": (len, models.tokenizer())}
    odd = {"next_sentence_model": _BAD_SCORERS, "counter": _BAD_COUNTERS, "idf": our.junk, "splitter": our.junk}
    more = data.draw(our.few(usual)) | data.draw(our.mostly(st.just({}), our.few(odd, 1)))
    functions = extractive.consistent_sentences, extractive.consistent_extract
    rows, summaries = tried(lambda: [function(documents, **size, **more) for function in functions])
    _check_choice(documents, rows, summaries, more.get("language", "en"), more.get("splitter", "sentencex"))
    for document, indices in zip(documents, rows, strict=True):
        sentences = split_sentences(document, more.get("language", "en"), more.get("splitter", "sentencex"))
        assert indices[:1] == [0][: len(sentences)]
        if "share" in size:
            assert len(indices) >= size["share"] * len(sentences) - 1e-6
            assert indices[:3] == [0, 1, 2][: len(sentences)]
        elif more.get("counter") is len and "next_sentence_model" not in more and len(indices) > 1:
            assert sum(len(sentences[index]) for index in indices) <= size["tokens"]
