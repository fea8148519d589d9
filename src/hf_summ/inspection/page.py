"""Explanations as pages of HTML."""

from collections.abc import Sequence
from typing import NamedTuple

from hf_summ.common.pages import render_page
from hf_summ.inspection.explanation import Explanation, SourceWord, SummaryWord

# The largest number of characters that a page shows of the text that did not fit into the model's input.
_MOST_TRUNCATED = 2000
_AnyWord = SourceWord | SummaryWord


class _Shade(NamedTuple):
    """A measure by which source words can be shaded, with its label and description on the page."""

    measure: str
    label: str
    description: str


# The shades that a reader of the page can choose, if the source words have the measure.
_SHADES = (
    _Shade("copied", "copied", "the probability that the summary copied the word at least once"),
    _Shade("centrality", "centrality", "the word's centrality in the model, a share of 1"),
    _Shade("phrase_value", "key phrases", "the value of the key phrase that the word is in"),
    _Shade(
        "attention_of_summary",
        "attention of the summary",
        "the share of attention that the word received while the summary was written, in the last layer",
    ),
    _Shade(
        "attention_of_source",
        "attention of the source",
        "the share of attention that the word received from the source itself, in the last layer",
    ),
)


class _PageDocument(NamedTuple):
    """A document on a page.

    Attributes:
        parts: the text that the model read, as `_parts` gives it.
        truncated_text: the beginning of the text that the model did not read.
        unread_words: the number of words that the model did not read.
    """

    parts: list[tuple[str, _AnyWord | None]]
    truncated_text: str
    unread_words: int


def as_page(explanation: Explanation) -> str:
    """The explanation as a page of HTML, in which all texts are escaped."""
    read_words = []
    # The index of a source word -> its index among the words that were read.
    index_read = {}
    measures = set()
    has_links = False
    for index, word in enumerate(explanation.source_words):
        if word.is_read:
            index_read[index] = len(read_words)
            read_words.append(word)
            measures.update(word.values)
            if word.links:
                has_links = True
    shades = [shade for shade in _SHADES if shade.measure in measures]
    documents = []
    for document, text in enumerate(explanation.documents):
        words = [word for word in explanation.source_words if word.document == document]
        documents.append(_page_document(text, words))
    return render_page(
        "hf_summ.inspection",
        explanation=explanation,
        read=read_words,
        shades=shades,
        has_links=has_links,
        summary=_parts(explanation.summary, explanation.summary_words),
        documents=documents,
        index_read=index_read,
        number=_rounded,
    )


def _page_document(text: str, words: Sequence[SourceWord]) -> _PageDocument:
    """A document, split into the part that the model read and the part that it did not read.

    Args:
        text: the document.
        words: the words of the document, read or not.
    """
    read_words = [word for word in words if word.is_read]
    unread_words = len(words) - len(read_words)
    if not unread_words:
        return _PageDocument(_parts(text, read_words), "", 0)
    end = read_words[-1].end if read_words else 0
    truncated_text = text[end:]
    if len(truncated_text) > _MOST_TRUNCATED:
        truncated_text = f"{truncated_text[:_MOST_TRUNCATED]} …"
    return _PageDocument(_parts(text[:end], read_words), truncated_text, unread_words)


def _parts(text: str, words: Sequence[_AnyWord]) -> list[tuple[str, _AnyWord | None]]:
    """A text as pairs of a word and the text before it; the last pair is the remaining text and None."""
    parts: list[tuple[str, _AnyWord | None]] = []
    end_of_last = 0
    for word in words:
        parts.append((text[end_of_last : word.start], word))
        end_of_last = word.end
    parts.append((text[end_of_last:], None))
    return parts


def _rounded(value: float, digits: int = 4) -> str:
    return f"{round(value, digits):g}"
