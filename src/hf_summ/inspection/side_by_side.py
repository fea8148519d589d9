"""A document, its reference and several systems' summaries side by side, with what they share shaded."""

import html
import re
from collections.abc import Callable, Mapping
from itertools import chain, pairwise

from hf_summ.common.pages import shared_style
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
{style}</style>
<main>
{examples}
</main>
</html>
"""
# besides the style of all pages, with its light and dark colors
_STYLE = """main { max-width: 60em; }
th { text-align: start; vertical-align: top; padding-right: 1em; white-space: nowrap; }
td { white-space: pre-line; padding-bottom: .5em; }
mark { background: rgb(255 170 0 / .35); color: inherit; }
"""


def shared_spans(text: str, other: str, language: str = "en") -> list[tuple[int, int]]:
    """The character spans of `text` that its fragments shared with `other` cover, see `copied_fragments`.

    Args:
        language: as for `RougeSettings`.
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
        language: as for `RougeSettings`.
    """
    sections = []
    for title, texts in examples.items():
        marked = _marked(texts, shade, language, str, "**{}**")
        sections.append("\n\n".join([f"## {title}", *(f"**{name}**\n\n{text}" for name, text in marked.items())]))
    return "\n\n".join(sections) + "\n"


def as_html(examples: Mapping[str, Mapping[str, str]], shade: str | None, language: str = "en") -> str:
    """Examples as a page of HTML in one file, with shared words shaded; see `as_markdown`."""
    sections = []
    for title, texts in examples.items():
        marked = _marked(texts, shade, language, html.escape, "<mark>{}</mark>").items()
        rows = [f'<tr><th scope="row">{html.escape(name)}<td dir="auto">{text}' for name, text in marked]
        sections.append("\n".join([f"<h2>{html.escape(title)}</h2>", "<table>", *rows, "</table>"]))
    return _PAGE.format(style=shared_style() + _STYLE, examples="\n".join(sections))


def _marked(
    texts: Mapping[str, str], shade: str | None, language: str, quote: Callable[[str], str], mark: str
) -> dict[str, str]:
    """Each text in a markup; what those behind the text named `shade` share with it stands in the form `mark`."""
    names = list(texts)
    compared = names[names.index(shade) + 1 :] if shade is not None else []
    marked = {}
    for name, text in texts.items():
        spans = shared_spans(text, texts[str(shade)], language) if name in compared else []
        bounds = [0, *chain.from_iterable(spans), len(text)]
        segments = [quote(text[start:end]) for start, end in pairwise(bounds)]
        # what is shared stands between what is not
        segments[1::2] = map(mark.format, segments[1::2])
        marked[name] = "".join(segments)
    return marked
