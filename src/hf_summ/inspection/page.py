"""The page of an explanation: one file of HTML, which needs neither network nor library."""

from collections.abc import Iterator, Sequence

from hf_summ.common.pages import render_page
from hf_summ.inspection.explanation import Explanation, SourceWord, SummaryWord

# measures by which source words can be shaded: name, label, description on the page
_SHADES = (
    ("copied", "copied", "the probability that the summary copied the word at least once"),
    ("centrality", "centrality", "the word's centrality in the model, a share of 1"),
    ("phrase_value", "key phrases", "the value of the key phrase that the word is in"),
    (
        "attention_of_summary",
        "attention of the summary",
        "the share of attention that the word received while the summary was written, in the last layer",
    ),
    (
        "attention_of_source",
        "attention of the source",
        "the share of attention that the word received from the source itself, in the last layer",
    ),
)
_AnyWord = SourceWord | SummaryWord
# number of truncated characters that are shown
_UNREAD = 2000


def as_page(explanation: Explanation) -> str:
    """The explanation as a page of HTML, in which all texts are escaped."""
    read = {number: word for number, word in enumerate(explanation.source_words) if word.is_read}
    measures = {name for word in read.values() for name in word.values}
    return render_page(
        "hf_summ.inspection",
        explanation=explanation,
        read=list(read.values()),
        shades=[shade for shade in _SHADES if shade[0] in measures],
        summary=_in_text(explanation.summary, explanation.summary_words),
        documents=list(_documents(explanation)),
        index_read={number: index for index, number in enumerate(read)},
        number=_number,
    )


def _in_text(text: str, words: Sequence[_AnyWord]) -> list[tuple[str, _AnyWord | None]]:
    """A text as pairs of a word and the text before it; the last pair is the remaining text and None."""
    pairs: list[tuple[str, _AnyWord | None]] = []
    end = 0
    for word in words:
        pairs.append((text[end : word.start], word))
        end = word.end
    return [*pairs, (text[end:], None)]


def _documents(explanation: Explanation) -> Iterator[tuple[list, str, int]]:
    """For each document: the text that was read, as `_in_text`; the truncated text, shortened; its number of words."""
    for number, text in enumerate(explanation.documents):
        words = [word for word in explanation.source_words if word.document == number]
        read = [word for word in words if word.is_read]
        unread = len(words) - len(read)
        end = (read[-1].end if read else 0) if unread else len(text)
        truncated = text[end:] if len(text) - end <= _UNREAD else f"{text[end : end + _UNREAD]} …"
        yield _in_text(text[:end], read), truncated, unread


def _number(value: float, digits: int = 4) -> str:
    return f"{round(value, digits):g}"
