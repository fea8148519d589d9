"""The papers' protocols, and what is none."""

import pytest

from hf_summ.votes import PROTOCOLS, Protocol


def test_numbers_are_those_of_the_papers():
    assert {name: (found.documents, found.voters, [*found.aspects]) for name, found in PROTOCOLS.items()} == {
        "gdlf": (50, 3, ["relevance"]),
        "highlight_transformer": (50, 4, ["informativeness", "fluency", "non-redundancy"]),
        "sagcopy": (100, 3, ["importance", "readability"]),
    }


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ((0, 3, {"fluency": "?"}), "`documents` is 0, but must be at least 1"),
        ((50, 0, {"fluency": "?"}), "`voters` is 0, but must be at least 1"),
        ((50, 3, {}), "`aspects` is empty, but must have a name and a question for each"),
        ((50, 3, {" ": "?"}), "the aspect ' ' asks '\\?': give both a name and a question"),
        ((50, 3, {"fluency": ""}), "the aspect 'fluency' asks '': give both"),
        ((50, 3, {"fluency": "?"}, "votes"), "`unit` is 'votes', but must be one of documents, percent"),
        ((50, 3, {"fluency": "?"}, "percent", 10), "`digits` is 10, but must be at most 9"),
        ((50, 3, {"summary A": "?"}), "an aspect is named 'summary A', as is another column of the sheets"),
    ],
)
def test_what_is_no_protocol_is_told(settings, message):
    with pytest.raises(ValueError, match=message):
        Protocol(*settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (("50", 3, {"fluency": "?"}), "`documents` must be an integer, but is str: '50'"),
        ((50, 3, {"fluency": None}), "`aspects` must be a string, but is NoneType: None"),
    ],
)
def test_values_of_other_types(settings, message):
    with pytest.raises(TypeError, match=message):
        Protocol(*settings)
