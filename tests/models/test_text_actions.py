"""What authors do, without the words before it that refer to another sentence."""

import pytest

from hf_summ.models.text_actions import actions_of
from hf_summ.models.text_candidates import sentence_candidates

# a sentence, and the action that stands alone
ACTIONS = {
    "We lift these limitations and propose a rank for graphs of any size.": (
        "We propose a rank for graphs of any size."
    ),
    "We tested this conjecture and found that ranks of large graphs differ.": (
        "We found that ranks of large graphs differ."
    ),
    "This paper closes this gap and proposes a rank for graphs of any size.": (
        "This paper proposes a rank for graphs of any size."
    ),
    "We take advantage of this fact to show that ranks of graphs are fair.": ("We show that ranks of graphs are fair."),
    "We use this to then derive ranks of graphs with many edges.": "We derive ranks of graphs with many edges.",
    "This insight allows us to derive ranks of graphs with many edges.": "We derive ranks of graphs with many edges.",
    "This motivates us to propose a rank for graphs of any size.": "We propose a rank for graphs of any size.",
    "We address this issue by carefully designing a rank for very large graphs.": (
        "We design a rank for very large graphs."
    ),
    "This study solves such problems by applying a rank for large graphs.": (
        "This study applies a rank for large graphs."
    ),
    "This manuscript closes this gap by proposing a rank for graphs of any size.": (
        "This manuscript proposes a rank for graphs of any size."
    ),
    "We solve this by inferring the ranks of graphs with many edges.": "We infer the ranks of graphs with many edges.",
    "I explore this question, finding that ranks of large graphs differ.": (
        "I find that ranks of large graphs differ."
    ),
}
# sentences without an action that stands alone
WITHOUT_ACTION = [
    # the words before refer to nothing
    "We rank a graph and propose a measure of its fairness to users.",
    "We use a rank to show that graphs are fair to all of their users.",
    # the action refers to another sentence, too
    "We lift these limitations and propose a rank that has none of these limitations.",
    # a pronoun for a word of the opening
    "We rank these graphs and show that they are fair to all of the users.",
    # users vote, and not the authors
    "We allow these users to use a rank of graphs with many edges.",
    # the opening denies the action
    "This does not allow us to derive ranks of graphs with many edges.",
    "We did not solve this problem by using a larger rank of all graphs.",
    # the verb has another subject
    "We show that this rank is fair and provides a bound for graphs of any size.",
    # the second part of a list
    "We use these ranks to compare graphs of users and to find the largest ones.",
    # too few words to say much
    "We lift these limitations and propose a rank.",
]


@pytest.mark.parametrize("sentence", ACTIONS)
def test_action_stands_without_the_words_before(sentence):
    assert list(actions_of(sentence)) == [ACTIONS[sentence]]
    assert ACTIONS[sentence] in sentence_candidates(f"A graph has nodes that users rank. {sentence}")


@pytest.mark.parametrize("sentence", WITHOUT_ACTION)
def test_sentence_without_such_an_action_has_none(sentence):
    assert list(actions_of(sentence)) == []
