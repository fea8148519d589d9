"""Statistics of a corpus, as papers report them of their data sets."""

from collections.abc import Sequence

from hf_summ.common.progress import progress_bar
from hf_summ.data.sentences import split_sentences
from hf_summ.evaluation.words import no_words, split_words
from hf_summ.models.checks import check_texts


def corpus_statistics(documents: Sequence[str], summaries: Sequence[str], language: str = "en") -> dict[str, float]:
    """Size, lengths and vocabularies of a corpus, rounded to 4 digits.

    - `pairs`: number of documents with their summaries.
    - `document_words`, `document_sentences`, `summary_words`, `summary_sentences`: means (Table 1 of the GDLF paper).
    - `document_vocabulary`, `summary_vocabulary`, `vocabulary`: number of distinct words in the documents, in the
      summaries and in both together.
    - `source_target_ratio`: number of words of the documents per word of the summaries (Table 5.1 of Aksenov 2020,
      whose words are WordPieces).

    Words are those that ROUGE compares, lowercased and without punctuation; a sentence has at least one. Papers that
    count punctuation marks as words report about 13% more of them in English news.

    Args:
        documents, summaries: one document and its summary per row.
        language: as for `rouge_scores`.

    Raises:
        ValueError: different numbers of documents and summaries, none at all, or no words in either.
    """
    check_texts("documents", documents)
    check_texts("summaries", summaries)
    if len(documents) != len(summaries):
        raise ValueError(f"{len(documents)} documents but {len(summaries)} summaries: each needs its counterpart")
    if not len(documents):
        raise ValueError("nothing to count: there are no documents and no summaries")
    statistics: dict[str, float] = {"pairs": len(documents)}
    words: dict[str, int] = {}
    vocabularies: dict[str, set[str]] = {}
    for kind, plural, texts in (("document", "documents", documents), ("summary", "summaries", summaries)):
        words[kind], sentences, vocabularies[kind] = _count(texts, plural, language)
        if not words[kind]:
            raise ValueError(no_words(f"nothing to count: none of the {plural} has any words", language))
        statistics[f"{kind}_words"] = round(words[kind] / len(texts), 4)
        statistics[f"{kind}_sentences"] = round(sentences / len(texts), 4)
    for kind, vocabulary in vocabularies.items():
        statistics[f"{kind}_vocabulary"] = len(vocabulary)
    statistics["vocabulary"] = len(set().union(*vocabularies.values()))
    statistics["source_target_ratio"] = round(words["document"] / words["summary"], 4)
    return statistics


def _count(texts: Sequence[str], name: str, language: str) -> tuple[int, int, set[str]]:
    """Number of words and sentences of all texts, and their distinct words."""
    words = sentences = 0
    vocabulary: set[str] = set()
    for text in progress_bar(texts, name):
        for sentence in split_sentences(text, language):
            found = split_words(sentence, language)
            words += len(found)
            sentences += bool(found)
            vocabulary.update(found)
    return words, sentences, vocabulary
