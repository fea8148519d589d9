"""Statistics of a corpus, by hand."""

import re

import numpy as np
import pytest

from hf_summ.evaluation.novelty import corpus_statistics

DOCUMENTS = ["The mayor opened a bridge. It cost 12 million.\n---\nThe river is wide.", "Rain fell."]
SUMMARIES = ["A new bridge! The mayor paid.", "Rain"]


def test_figures_by_hand():
    assert corpus_statistics(DOCUMENTS, SUMMARIES) == {
        "pairs": 2,
        # 5, 4 and 4 words, and 2
        "document_words": 15 / 2,
        # the dashes are no sentence
        "document_sentences": 4 / 2,
        "summary_words": 7 / 2,
        "summary_sentences": 3 / 2,
        # "the" comes twice
        "document_vocabulary": 14,
        "summary_vocabulary": 7,
        # "new" and "paid" are the summaries' own
        "vocabulary": 16,
        "source_target_ratio": round(15 / 7, 4),
    }


def naive(documents: list[str], summaries: list[str]) -> dict[str, float]:
    """Means and vocabularies over explicit lists, for texts whose sentences end at their full stops."""
    figures = {"pairs": len(documents)}
    words = {
        kind: [re.sub(r"\W", " ", text).lower().split() for text in texts]
        for kind, texts in (("document", documents), ("summary", summaries))
    }
    for kind, texts in (("document", documents), ("summary", summaries)):
        figures[f"{kind}_words"] = np.mean([len(text) for text in words[kind]])
        figures[f"{kind}_sentences"] = np.mean([text.count(".") for text in texts])
        figures[f"{kind}_vocabulary"] = len(np.unique(np.concatenate(words[kind])))
    figures["vocabulary"] = len(np.unique(np.concatenate(words["document"] + words["summary"])))
    figures["source_target_ratio"] = figures["document_words"] / figures["summary_words"]
    return figures


@pytest.mark.parametrize("seed", range(3))
def test_figures_agree_with_their_definitions_on_random_texts(seed):
    rng = np.random.default_rng(seed)

    def text(sentences: int) -> str:
        kinds = ["Cat", "dog", "hen", "owl", "cow", "fox", "2026", "Rain,"]
        return " ".join(f"The {' '.join(rng.choice(kinds, rng.integers(1, 9)))} sat." for _ in range(sentences))

    documents, summaries = ([text(rng.integers(1, most)) for _ in range(20)] for most in (9, 3))
    expected = {name: pytest.approx(figure, abs=1e-4) for name, figure in naive(documents, summaries).items()}
    assert corpus_statistics(documents, summaries) == expected


def test_chinese_is_counted_by_characters():
    figures = corpus_statistics(["你好世界。下雨了。"], ["你好!"], language="zh")
    assert (figures["document_words"], figures["document_sentences"], figures["vocabulary"]) == (7, 2, 7)
    assert figures["source_target_ratio"] == 3.5


def test_a_blank_text_counts_as_one_without_words():
    assert corpus_statistics(["One two.", " "], ["one", ""])["document_words"] == 1


@pytest.mark.parametrize(
    ("documents", "summaries", "message"),
    [
        (["One.", "Two."], ["one"], "2 documents but 1 summaries: each needs its counterpart"),
        ([], [], "nothing to count: there are no documents"),
        (["你好。"], ["one"], "none of the documents has any words .*name the language"),
        (["One.", "Two."], ["...", ""], "none of the summaries has any words"),
    ],
)
def test_errors(documents, summaries, message):
    with pytest.raises(ValueError, match=message):
        corpus_statistics(documents, summaries)
