"""Corpora in their authors' formats: reading the rows of files, and selecting rows; `raw_files` finds the files."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

from hf_summ.common.messages import check_choice
from hf_summ.data.files import numbered_lines
from hf_summ.data.raw_files import (
    locate_duc,
    locate_gigaword,
    locate_lcsts,
    locate_multi_news,
    locate_newsroom,
    locate_stories,
    locate_wmt16,
    locate_xsum,
    unpacked,
)

# A row as `datasets` reads it: name of a column -> value.
Row = dict[str, Any]
Rows = Iterator[Row]
# A document of LCSTS; its groups are the number and the content.
_LCSTS_DOCUMENT = re.compile(r"\s*<doc\b[^>]*\bid\s*=\s*\W*(\d+)[^>]*>(?!.*<doc )(.*)", re.DOTALL)
_LCSTS_FIELD = re.compile(r"<(human_label|summary|short_text)\s*>(.*?)</\1\s*>", re.DOTALL)
# How Multi-News writes a line end within a text, and separates documents.
_LINE_END = re.compile(r"NEWLINE_CHAR\b")
_SEPARATOR = "|||||"
_OLDER_SEPARATOR = "story_separator_special_tag"
_SENTENCE_TAG = re.compile(r"\s*</?t>\s*")
_XSUM_HEADING = re.compile(r"\[SN\]([A-Z-]+)\[SN\]")
# A sentence in SGML.
_SEGMENT = re.compile(r"<seg\b[^>]*>(.*)</seg>")
# Buttons between the paragraphs of the BBC's pages. Their lines are left out, as in the copy on the Hub.
_XSUM_BUTTONS = {
    "Share this with",
    "Email",
    "Facebook",
    "Messenger",
    "Twitter",
    "Pinterest",
    "WhatsApp",
    "LinkedIn",
    "Linkedin",
    "Copy this link",
    "These are external links and will open in a new window",
}


def read_lcsts(paths: tuple[Path, ...]) -> Rows:
    """Rows of `document`, `summary`, `id` and, in files with scores, `human_label` (Hu et al. 2015).

    White space around tags and texts is ignored; line ends within a text are kept. `&`, `<` and apparent entities are
    text, as the files have no escapes.

    Raises:
        ValueError: the file has text that is no complete document, which the message shows.
    """
    # The lines of a document so far, and the number of its first line.
    text = ""
    start = 0
    for number, line in numbered_lines(paths[0]):
        *ends, rest = line.split("</doc>")
        for end in ends:
            if not text:
                start = number
            yield _lcsts_row(text + end, f"{paths[0]}, line {start}")
            text = ""
        if not text and not rest.strip():
            continue
        if not text:
            start = number
        text += rest
        if not text.lstrip().startswith("<doc"):
            # This is no document, which is an error, and reading all of the file would take long.
            break
    if text:
        yield _lcsts_row(text, f"{paths[0]}, line {start}")


def _lcsts_row(text: str, where: str) -> Row:
    """The row of a document, which is given without its last tag; `where` names it in messages."""
    match = _LCSTS_DOCUMENT.fullmatch(text)
    fields = [] if match is None else _LCSTS_FIELD.findall(match[2])
    texts = {}
    for name, value in fields:
        stripped = [line.strip() for line in value.splitlines()]
        texts[name] = "\n".join([line for line in stripped if line])
    label = texts.pop("human_label", None)
    expected_fields = 2 if label is None else 3
    has_each_once = len(fields) == expected_fields and texts.keys() == {"summary", "short_text"}
    is_number = label is None or label.isdecimal()
    if match is None or not has_each_once or not is_number:
        raise ValueError(
            f"{where}: must be a complete <doc id=N> with one <summary>, one <short_text> and perhaps one "
            f"<human_label>, a whole number, but is {text.strip()!r:.60}"
        )
    row: Row = {"document": texts["short_text"], "summary": texts["summary"], "id": int(match[1])}
    if label is not None:
        row["human_label"] = int(label)
    return row


def read_gigaword(paths: tuple[Path, ...]) -> Rows:
    """Rows of `document` and `summary` from articles and their line-aligned headlines (Rush et al. 2015).

    With more than two files, as in DUC-2004, the rows have `document` and `references`.
    """
    for document, *headlines in _aligned_lines(paths):
        if len(headlines) == 1:
            yield {"document": document, "summary": headlines[0]}
        else:
            yield {"document": document, "references": headlines}


def read_duc(paths: tuple[Path, ...]) -> Rows:
    """Rows of `document` and `references` from an input file and its line-aligned references."""
    for document, *references in _aligned_lines(paths):
        yield {"document": document, "references": references}


def read_multi_news(paths: tuple[Path, ...]) -> Rows:
    """Rows of `documents` and `summary` from line-aligned files (Fabbri et al. 2019).

    The dash at the beginning of each summary is part of the corpus and is kept.
    """
    for document, summary in _aligned_lines(paths):
        yield {"documents": separate_documents(document), "summary": with_line_ends(summary)}


def with_line_ends(text: str) -> str:
    """A text of Multi-News with line ends in place of `NEWLINE_CHAR`."""
    return "\n".join(line.strip(" \t") for line in _LINE_END.split(text))


def separate_documents(text: str) -> list[str]:
    """The documents, also blank ones, between Multi-News's separators, `|||||` or `story_separator_special_tag`."""
    documents = with_line_ends(text).replace(_OLDER_SEPARATOR, _SEPARATOR).split(_SEPARATOR)
    return [document.strip() for document in documents]


def read_stories(paths: tuple[Path, ...]) -> Rows:
    """Rows of `document`, `summary` and `id` (the file's name) from `.story` files (Hermann et al. 2015).

    The lines before the first `@highlight` are the document; the later ones are the summary, one highlight per line.
    Blank lines are skipped. An empty story, and one without highlights, yield a blank row.
    """
    if paths and paths[0].suffix == ".src":
        yield from read_tagged(paths)
        return
    for path in paths:
        document: list[str] = []
        highlights: list[str] = []
        lines = document
        for _, line in numbered_lines(path):
            text = line.strip()
            if text == "@highlight":
                lines = highlights
            elif text:
                lines.append(text)
        yield {"document": "\n".join(document), "summary": "\n".join(highlights), "id": path.stem}


def read_tagged(paths: tuple[Path, ...]) -> Rows:
    """Rows of `document` and `summary` from line-aligned files whose summaries are `<t> A sentence. </t> <t> …`.

    The summary has one sentence per line, without the tags, as that of a story.
    """
    for document, summary in _aligned_lines(paths):
        sentences = [sentence for sentence in _SENTENCE_TAG.split(summary) if sentence]
        yield {"document": document, "summary": "\n".join(sentences)}


def read_xsum(paths: tuple[Path, ...]) -> Rows:
    """Rows of `document`, `summary` and `id` (the file's name) from `.summary` files (Narayan et al. 2018).

    The summary is the first sentence of a page; the document is its remaining text, without lines of buttons.
    """
    for path in paths:
        page = "".join([line for _, line in numbered_lines(path)])
        # Text before the first heading is ignored; then headings and their texts alternate.
        _, *sections = _XSUM_HEADING.split(page)
        lines: dict[str, list[str]] = {}
        for heading, text in zip(sections[::2], sections[1::2], strict=True):
            stripped = [line.strip() for line in text.splitlines()]
            lines[heading] = [line for line in stripped if line and line not in _XSUM_BUTTONS]
        try:
            document = "\n".join(lines["RESTBODY"])
            summary = " ".join(lines["FIRST-SENTENCE"])
        except KeyError as error:
            raise ValueError(f"{path}: no [SN]{error.args[0]}[SN]: is the file truncated?") from None
        yield {"document": document, "summary": summary, "id": path.stem}


def read_wmt16(paths: tuple[Path, ...]) -> Rows:
    """Rows of `document`, a sentence, and `summary`, its translation, from plain or SGML files (.sgm).

    Args:
        paths: each file with sentences is followed by the file with their translations.
    """
    for pair in zip(paths[::2], paths[1::2], strict=True):
        for sentence, translation in _aligned_lines(pair):
            yield {"document": sentence, "summary": translation}


def _lines(path: Path) -> Iterator[str]:
    """Yield the texts of a file without line ends: its lines or, in an SGML file, its segments."""
    is_sgml = unpacked(path).endswith(".sgm")
    for _, line in numbered_lines(path):
        if not is_sgml:
            yield line.rstrip("\r\n")
            continue
        segment = _SEGMENT.search(line)
        if segment is not None:
            yield segment[1]


def _aligned_lines(paths: Sequence[Path]) -> Iterator[list[str]]:
    """Yield for each line number the list of the files' texts; a ValueError if a file has fewer lines than another."""
    files = [_lines(path) for path in paths]
    for number, lines in enumerate(zip_longest(*files), 1):
        if None in lines:
            shorter = paths[lines.index(None)]
            raise ValueError(f"{shorter} has only {number - 1} lines, fewer than the file that it is aligned with")
        yield list(lines)


def format_of(data_format: str) -> "DataFormat":
    """The format of this name.

    Raises:
        ValueError: an unknown format.
    """
    check_choice("`data_format`", data_format, DATA_FORMATS)
    return DATA_FORMATS[data_format]


def _is_at_least(value: int, option: int) -> bool:
    return value >= option


def _equals(value: str, option: str) -> bool:
    return value == option


@dataclass(frozen=True)
class RowOption:
    """An option that selects rows by the value of a column.

    Args:
        name: the setting with the option.
        column: the column.
        passes: whether a value of the column passes, given the value of the setting as `option`.
        is_optional: whether a split may lack the column, whose rows then pass.
    """

    name: str
    column: str
    passes: Callable[..., bool]
    is_optional: bool = False


# The column is optional, as the training split of LCSTS has no scores.
_MIN_SCORE = RowOption("min_score", "human_label", _is_at_least, is_optional=True)
_DENSITY_BIN = RowOption("density_bin", "density_bin", _equals)


@dataclass(frozen=True)
class DataFormat:
    """How to read a format.

    Args:
        locate: returns the files of a split by a file's or a folder's name.
        read: yields the rows of these files; None if they are files of rows, which `datasets` reads.
        option: selects rows.
        separate: splits the text of a row's documents into a list, in data sets on the Hub.
    """

    locate: Callable[[str, str], tuple[Path, ...]]
    read: Callable[[tuple[Path, ...]], Rows] | None = None
    option: RowOption | None = None
    separate: Callable[[str], list[str]] | None = None

    @property
    def is_on_hub(self) -> bool:
        """Whether data sets on the Hub may have this format."""
        return self.read is None or self.separate is not None


DATA_FORMATS = {
    "gigaword": DataFormat(locate_gigaword, read_gigaword),
    "lcsts": DataFormat(locate_lcsts, read_lcsts, _MIN_SCORE),
    "multi_news": DataFormat(locate_multi_news, read_multi_news, separate=separate_documents),
    "duc": DataFormat(locate_duc, read_duc),
    "newsroom": DataFormat(locate_newsroom, None, _DENSITY_BIN),
    "cnn_dm": DataFormat(locate_stories, read_stories),
    "xsum": DataFormat(locate_xsum, read_xsum),
    "wmt16_en_de": DataFormat(partial(locate_wmt16, "de"), read_wmt16),
    "wmt16_en_ro": DataFormat(partial(locate_wmt16, "ro"), read_wmt16),
}
