"""A document, its reference and several systems' summaries side by side, with what they share shaded."""

import html
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from hf_summ.evaluation.novelty import copied_fragments
from hf_summ.evaluation.words import split_words
from hf_summ.models.text_documents import IDEOGRAPHS

# what is shaded as a whole: a Chinese character, or what stands between spaces
_PIECE = re.compile(rf"[{IDEOGRAPHS}]|[^\s{IDEOGRAPHS}]+")
_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Summaries side by side</title>
<style>
body {{ font: 16px/1.5 sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em }}
th {{ text-align: left; vertical-align: top; padding-right: 1em; white-space: nowrap }}
td {{ white-space: pre-line; padding-bottom: .5em }}
mark {{ background: #ffe680 }}
</style>
{}
</html>
"""


def shared_spans(text: str, other: str, language: str = "en") -> list[tuple[int, int]]:
    """The character spans of `text` that its fragments shared with `other` cover, see `copied_fragments`.

    Args:
        language: as for `rouge_scores`.
    """
    pieces = list(_PIECE.finditer(text))
    # the piece of each word
    owners = [number for number, piece in enumerate(pieces) for _ in split_words(piece[0], language)]
    spans: list[tuple[int, int]] = []
    for fragment in copied_fragments(text, other, language):
        first, last = owners[fragment.start], owners[fragment.start + fragment.length - 1]
        start, end = pieces[first].start(), pieces[last].end()
        if spans and not text[spans[-1][1] : start].strip():
            start = spans.pop()[0]
        spans.append((start, end))
    return spans


def as_markdown(examples: Mapping[str, Mapping[str, str]], shade: str | None, language: str = "en") -> str:
    """Examples as Markdown, with shared words in bold.

    Args:
        examples: title of an example -> its texts, by their titles.
        shade: title of the text with which the texts behind it share words, or None.
        language: as for `rouge_scores`.
    """
    sections = []
    for title, texts in examples.items():
        marked = _marked(texts, shade, language)
        paragraphs = [
            f"**{name}**\n\n" + "".join(f"**{segment}**" if is_shared else segment for segment, is_shared in segments)
            for name, segments in marked.items()
        ]
        sections.append("\n\n".join([f"## {title}", *paragraphs]))
    return "\n\n".join(sections) + "\n"


def as_html(examples: Mapping[str, Mapping[str, str]], shade: str | None, language: str = "en") -> str:
    """Examples as a page of HTML in one file, with shared words shaded; see `as_markdown`."""
    sections = []
    for title, texts in examples.items():
        rows = []
        for name, segments in _marked(texts, shade, language).items():
            cell = "".join(
                f"<mark>{html.escape(segment)}</mark>" if is_shared else html.escape(segment)
                for segment, is_shared in segments
            )
            rows.append(f'<tr><th scope="row">{html.escape(name)}<td dir="auto">{cell}')
        sections.append("\n".join([f"<h2>{html.escape(title)}</h2>", "<table>", *rows, "</table>"]))
    return _PAGE.format("\n".join(sections))


def _marked(texts: Mapping[str, str], shade: str | None, language: str) -> dict[str, list[tuple[str, bool]]]:
    """Each text as segments, and whether they are shared; texts up to the one that they are compared with are whole."""
    names = list(texts)
    compared = names[names.index(shade) + 1 :] if shade is not None else []
    return {
        name: _segments(text, shared_spans(text, texts[str(shade)], language) if name in compared else [])
        for name, text in texts.items()
    }


def _segments(text: str, spans: Sequence[tuple[int, int]]) -> list[tuple[str, bool]]:
    bounds = [0, *(bound for span in spans for bound in span), len(text)]
    segments = [(text[start:end], index % 2 == 1) for index, (start, end) in enumerate(pairwise(bounds))]
    return [segment for segment in segments if segment[0]]
