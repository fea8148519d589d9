"""The scores of a run's summaries."""

import pytest

from hf_summ.training.scores import Scorer


def test_tags_between_sentences_are_their_ends(tmp_path):
    scorer = Scorer(["rouge"], "rouge155", "en", str(tmp_path))
    texts = ["a cat sat <q> a dog ran"], ["<t> a dog ran </t> <t> a cat sat </t>"]
    with pytest.warns(UserWarning, match="tags such as <q>, read as the ends of sentences"):
        scores = scorer(*texts)
    assert (scores["rouge1"], scores["rougeL"]) == (100, 100)
