"""Acronyms that a text explains, spelled out in its sentences."""

import pytest

from hf_summ.models.generation_sentences import candidates_of
from hf_summ.models.text_acronyms import long_forms_of, with_long_forms
from hf_summ.models.text_candidates import sentence_candidates

# a text, and the long forms of its acronyms
LONG_FORMS = {
    "It has a graph neural network (GNN).": {"GNN": "graph neural network", "GNNs": "graph neural networks"},
    "It has graph neural networks (GNNs).": {"GNNs": "graph neural networks"},
    # the singular is not made
    "It has graph neural networks (GNN).": {"GNNs": "graph neural networks"},
    "It has a least squares analysis (LSA).": {"LSA": "least squares analysis"},
    # the plural of a singular
    "Its graph neural network (GNNs) is new.": {"GNN": "graph neural network", "GNNs": "graph neural networks"},
    # words without a letter, hyphens, a line break
    "Divide, Conquer, and Combine (DCC) is new.": {
        "DCC": "Divide, Conquer, and Combine",
        "DCCs": "Divide, Conquer, and Combines",
    },
    "It fits out-of-distribution\ndata (OODD).": {
        "OODD": "out-of-distribution data",
        "OODDs": "out-of-distribution datas",
    },
    "It has group convolutional nets (G-CNs).": {"G-CNs": "group convolutional nets"},
    # a word at the beginning of a sentence loses its capital, and a name keeps it
    "Rivers flow. Mutual information (MI) is high.": {"MI": "mutual information", "MIs": "mutual informations"},
    "Bayesian nets (BNs) are new.": {"BNs": "Bayesian nets"},
    # words that do not begin with the letters, a bracket that is no acronym, and none at all
    "We use semi-supervised detection (SSAD).": {},
    "It uses batch normalization (BatchNorm) and a map (A) (Ana).": {},
    "We count sand (in rivers).": {},
}


@pytest.mark.parametrize("text", LONG_FORMS)
def test_long_forms_of_a_text(text):
    assert long_forms_of(text) == LONG_FORMS[text]


def test_an_acronym_of_many_letters_is_read_at_once():
    # each "a" may have a letter or none, so that there are millions of ways to read them
    text = "We have " + "a " * 60 + f"word ({'A' * 40})."
    assert long_forms_of(text) == {}
    long_form = " ".join(["a"] * 40)
    assert long_forms_of(f"We have {long_form} ({'A' * 40}).")["A" * 40] == long_form


def test_the_first_long_form_of_an_acronym_counts():
    text = "A river dam (RD) is in the round desert (RD)."
    assert long_forms_of(text)["RD"] == "river dam"


# a sentence, and the sentence with the long forms of "MI" (mutual information) and "RDs" (river dams)
SENTENCES = {
    "We raise MI.": "We raise mutual information (MI).",
    "MI is high, and MI is low.": "Mutual information (MI) is high, and MI is low.",
    "We raise MI of RDs.": "We raise mutual information (MI) of river dams (RDs).",
    # the article belongs to the long form
    "We find an MI bound.": "We find a mutual information (MI) bound.",
    # the long form is there already, or another form of the acronym
    "Mutual Information helps MI.": "Mutual Information helps MI.",
    "A river dam is one of the RDs.": "A river dam is one of the RDs.",
    "We use RD maps of RDs.": "We use RD maps of RDs.",
    # a part of a word or of a name, a bracket, a formula, a possessive, an acronym before a bracket
    "We use the MI Act and Elastic MI Maps.": "We use the MI Act and Elastic MI Maps.",
    "We use maps (of MI).": "We use maps (of MI).",
    "An MI-based rank is fair.": "An MI-based rank is fair.",
    "This gain (MI) is high.": "This gain (MI) is high.",
    "We raise $x + MI + y$.": "We raise $x + MI + y$.",
    "We find MI's bound and the MIX.": "We find MI's bound and the MIX.",
    "We find MI (of sand).": "We find MI (of sand).",
}


@pytest.mark.parametrize("sentence", SENTENCES)
def test_acronyms_are_spelled_out(sentence):
    assert with_long_forms(sentence, {"MI": "mutual information", "RDs": "river dams"}) == SENTENCES[sentence]


VOWELS = {
    "optical score": "an",
    "uncertain score": "an",
    "Euclidean score": "a",
    "universal score": "a",
    "one-shot score": "a",
    "dense score": "a",
}


@pytest.mark.parametrize("long_form", VOWELS)
def test_the_article_fits_the_long_form(long_form):
    article = VOWELS[long_form]
    assert with_long_forms("We find a QS here.", {"QS": long_form}) == f"We find {article} {long_form} (QS) here."


def test_candidates_of_a_text_explain_their_acronyms():
    text = "Rivers hold mutual information (MI) on sand. We raise MI by a new map."
    expected = ["Rivers hold mutual information on sand.", "We raise mutual information (MI) by a new map."]
    candidates = list(sentence_candidates(text))
    assert [candidate for candidate in expected if candidate in candidates] == expected


def test_acronyms_are_spelled_out_only_where_the_sentence_fits(tiny_tokenizer):
    text = "Rivers hold mutual information (MI) on sand. We raise MI by a new map."
    limit = len(tiny_tokenizer("We raise MI by a new map.")["input_ids"]) + 1
    arguments = {"tokenizer": tiny_tokenizer, "special_tokens": False}
    for most_tokens, expected in (
        (limit, "We raise MI by a new map."),
        (99, "We raise mutual information (MI) by a new map."),
    ):
        candidates = candidates_of(text, most_tokens=most_tokens, **arguments)
        assert expected in [candidate.text for candidate in candidates]
