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
    numbers = [number for number, word in enumerate(explanation.source_words) if word.is_read]
    read = [explanation.source_words[number] for number in numbers]
    known = {name for word in read for name in word.values}
    return render_page(
        "hf_summ.inspection",
        explanation=explanation,
        read=read,
        shades=[shade for shade in _SHADES if shade[0] in known],
        summary=_in_text(explanation.summary, explanation.summary_words),
        documents=list(_documents(explanation)),
        place_read={number: place for place, number in enumerate(numbers)},
        number=_number,
    )


def _in_text(text: str, words: Sequence[_AnyWord]) -> list[tuple[str, _AnyWord | None]]:
    """A text as pairs of a word and the text before it; the last pair is the remaining text and None."""
    parts: list[tuple[str, _AnyWord | None]] = []
    end = 0
    for word in words:
        parts.append((text[end : word.start], word))
        end = word.end
    return [*parts, (text[end:], None)]


def _documents(explanation: Explanation) -> Iterator[tuple[list, str, int]]:
    """For each document: the text that was read, in parts; the truncated rest, shortened; its number of words."""
    for number, text in enumerate(explanation.documents):
        words = [word for word in explanation.source_words if word.document == number]
        read = [word for word in words if word.is_read]
        left = len(words) - len(read)
        end = read[-1].end if read else 0
        rest = text[end:]
        shown = _in_text(text if not left else text[:end], read)
        yield shown, (rest if len(rest) <= _UNREAD else f"{rest[:_UNREAD]} …") if left else "", left


def _number(value: float, digits: int = 4) -> str:
    return f"{round(value, digits):g}"
