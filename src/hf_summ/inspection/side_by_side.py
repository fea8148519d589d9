"""A document, its reference and several systems' summaries side by side, with the words that texts share shaded.

A text is compared with one text of the example, usually the document. What it shares with that text is shaded in HTML,
and bold in Markdown.
"""

import html
import re
from collections.abc import Mapping, Sequence
from typing import Literal

from hf_summ.common.pages import shared_style
from hf_summ.evaluation.novelty import copied_fragments
from hf_summ.evaluation.words import split_words
from hf_summ.models.text_documents import IDEOGRAPHS

# A piece of text is shaded as a whole: a Chinese character, or the characters between two spaces.
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
# The style of all pages, with its light and dark colors, stands before this.
_STYLE = """main { max-width: 60em; }
th { text-align: start; vertical-align: top; padding-right: 1em; white-space: nowrap; }
td { white-space: pre-line; padding-bottom: .5em; }
mark { background: rgb(255 170 0 / .35); color: inherit; }
"""

Markup = Literal["markdown", "html"]


def shared_spans(text: str, compared_text: str, language: str = "en") -> list[tuple[int, int]]:
    """The spans of a text, [start, end) characters, that the text shares with another text.

    Each fragment that `copied_fragments` finds is a span. Fragments with only white space between them are a single
    span.

    Args:
        text: the text.
        compared_text: the text with which it is compared.
        language: as for `RougeSettings`.
    """
    pieces = list(_PIECE.finditer(text))
    # A piece such as "well-known" has several words.
    piece_of_word = []
    for piece in pieces:
        words = split_words(piece[0], language)
        piece_of_word.extend([piece] * len(words))
    spans: list[tuple[int, int]] = []
    for fragment in copied_fragments(text, compared_text, language):
        first_piece = piece_of_word[fragment.start]
        last_piece = piece_of_word[fragment.start + fragment.length - 1]
        start = first_piece.start()
        if spans:
            previous_start, previous_end = spans[-1]
            if not text[previous_end:start].strip():
                start = previous_start
                spans.pop()
        spans.append((start, last_piece.end()))
    return spans


def as_markdown(examples: Mapping[str, Mapping[str, str]], shade: str | None, language: str = "en") -> str:
    """Examples as Markdown, with shared words in bold.

    Args:
        examples: title of an example -> title of a text -> text.
        shade: the title of a text, such as "Document". The texts behind this text in each example are compared with
            it, and what they share with it is bold. If `shade` is None, nothing is bold.
        language: as for `RougeSettings`.
    """
    sections = []
    for title, texts in examples.items():
        sections.append(f"## {title}")
        for name, text in _marked(texts, shade, language, "markdown").items():
            sections.append(f"**{name}**")
            sections.append(text)
    return "\n\n".join(sections) + "\n"


def as_html(examples: Mapping[str, Mapping[str, str]], shade: str | None, language: str = "en") -> str:
    """Examples as a page of HTML in one file, with shared words shaded.

    Args:
        examples: title of an example -> title of a text -> text.
        shade: the title of the text with which the texts behind it in each example are compared, or None for no shades.
        language: as for `RougeSettings`.
    """
    lines = []
    for title, texts in examples.items():
        lines.append(f"<h2>{html.escape(title)}</h2>")
        lines.append("<table>")
        for name, text in _marked(texts, shade, language, "html").items():
            lines.append(f'<tr><th scope="row">{html.escape(name)}<td dir="auto">{text}')
        lines.append("</table>")
    return _PAGE.format(style=shared_style() + _STYLE, examples="\n".join(lines))


def _marked(texts: Mapping[str, str], shade: str | None, language: str, markup: Markup) -> dict[str, str]:
    """Mark the words that texts share with one of them.

    Args:
        texts: title of a text -> text, for the texts of an example.
        shade: the title of the text that the texts behind it are compared with, or None for no marks.
        language: as for `RougeSettings`.
        markup: "markdown" or "html".

    Returns:
        Title of a text -> the text in the markup.
    """
    marked = {}
    # The text named `shade`, once the loop has passed it.
    compared_text = None
    for name, text in texts.items():
        spans = []
        if compared_text is not None:
            spans = shared_spans(text, compared_text, language)
        marked[name] = _with_marks(text, spans, markup)
        if name == shade:
            compared_text = text
    return marked


def _with_marks(text: str, spans: Sequence[tuple[int, int]], markup: Markup) -> str:
    """A text in the markup, with the characters of the spans marked."""
    parts = []
    end_of_last = 0
    for start, end in spans:
        parts.append(_escaped(text[end_of_last:start], markup))
        shared = _escaped(text[start:end], markup)
        if markup == "html":
            parts.append(f"<mark>{shared}</mark>")
        else:
            parts.append(f"**{shared}**")
        end_of_last = end
    parts.append(_escaped(text[end_of_last:], markup))
    return "".join(parts)


def _escaped(text: str, markup: Markup) -> str:
    """A text with the special characters of HTML escaped. A text in Markdown stays as it is."""
    if markup == "html":
        return html.escape(text)
    return text
