"""Reading the rows of corpora in the formats in which their authors distribute them; `raw_files` finds the files.

Each function `read_...` reads the files of one split, whose paths it gets in the order of the function `locate_...` of
`raw_files`, and yields the rows of the split. It raises a ValueError if a file cannot be read. Files are line-aligned
if lines with the same number belong to the same example. References are the human-written summaries of a document.
"""

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

# A row of a corpus: name of a column -> value.
Row = dict[str, Any]
Rows = Iterator[Row]
# A document of LCSTS without its last tag, such as "<doc id=5> ... "; its groups are the number (5) and the content.
_LCSTS_DOCUMENT = re.compile(r"\s*<doc\b[^>]*\bid\s*=\s*\W*(\d+)[^>]*>(?!.*<doc )(.*)", re.DOTALL)
# A field of such a document, such as "<summary>...</summary>"; its groups are the name and the content.
_LCSTS_FIELD = re.compile(r"<(human_label|summary|short_text)\s*>(.*?)</\1\s*>", re.DOTALL)
# What Multi-News has in place of a line end within a text.
_LINE_END = re.compile(r"NEWLINE_CHAR\b")
# What Multi-News has between two documents, in the current version and in an older one.
_SEPARATOR = "|||||"
_OLDER_SEPARATOR = "story_separator_special_tag"
# A tag before or after a sentence, "<t>" or "</t>", with the spaces around it.
_SENTENCE_TAG = re.compile(r"\s*</?t>\s*")
# The heading of a section in a page of XSum, such as "[SN]RESTBODY[SN]"; its group is the name of the section.
_XSUM_HEADING = re.compile(r"\[SN\]([A-Z-]+)\[SN\]")
# A sentence in a line of SGML, such as '<seg id="1">It rained.</seg>'; its group is the text.
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
    """Yield the rows of LCSTS (Hu et al. 2015), in the order of its single file.

    White space around tags, lines and texts is removed; line ends within a text are kept. `&`, `<` and what looks like
    an entity, such as `&amp;`, are plain text, as the files have no escapes.

    Yields:
        `document`, `summary`, `id` (an integer) and, in files with scores, `human_label` (an integer from 1 to 5).

    Raises:
        ValueError: the file has text that is not a complete document; the message shows the text and its line.
    """
    for text, line_number in _lcsts_documents(paths[0]):
        yield _lcsts_row(text, f"{paths[0]}, line {line_number}")


def _lcsts_documents(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the documents of a file of LCSTS, also those that `_lcsts_row` refuses.

    Yields:
        The text of a document, without its last tag `</doc>`, and the number of the line in which the document begins.
        Text that is not a document is yielded too, and the file may not be read further.
    """
    # The text of the current document so far, and the number of the line in which the document begins.
    text = ""
    start = 0
    for line_number, line in numbered_lines(path):
        pieces = line.split("</doc>")
        # Each piece but the last is the end of a document, and the last piece is the beginning of the next document.
        for end in pieces[:-1]:
            if not text:
                start = line_number
            yield text + end, start
            text = ""
        beginning = pieces[-1]
        if not text and not beginning.strip():
            continue
        if not text:
            start = line_number
        text += beginning
        if not text.lstrip().startswith("<doc"):
            # The text is not a document. It is yielded below without the rest of the file, which is slow to read.
            break
    if text:
        yield text, start


def _lcsts_row(text: str, where: str) -> Row:
    """The row of a document of LCSTS, with the columns of `read_lcsts`.

    Args:
        text: the document, without its last tag `</doc>`.
        where: the name of the document in messages.

    Raises:
        ValueError: the text is not a complete document.
    """
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
    """Yield the rows of Gigaword (Rush et al. 2015), from a file of articles and line-aligned files of headlines.

    Yields:
        `document`, an article, and `summary`, its headline. With more than one file of headlines, as in DUC-2004,
        `document` and `references`, the list of its headlines.
    """
    for texts in _aligned_lines(paths):
        document = texts[0]
        headlines = texts[1:]
        if len(headlines) == 1:
            yield {"document": document, "summary": headlines[0]}
        else:
            yield {"document": document, "references": headlines}


def read_duc(paths: tuple[Path, ...]) -> Rows:
    """Yield the rows of DUC, from a file of documents and line-aligned files of references.

    Yields:
        `document` and `references`, the list of its references, also if there is only one.
    """
    for texts in _aligned_lines(paths):
        yield {"document": texts[0], "references": texts[1:]}


def read_multi_news(paths: tuple[Path, ...]) -> Rows:
    """Yield the rows of Multi-News (Fabbri et al. 2019), from line-aligned files of documents and summaries.

    Yields:
        `documents`, the list of an example's documents, also blank ones, and `summary`. The dash at the beginning of
        each summary is part of the corpus and is kept.
    """
    for document, summary in _aligned_lines(paths):
        yield {"documents": separate_documents(document), "summary": with_line_ends(summary)}


def with_line_ends(text: str) -> str:
    """A text of Multi-News with a line end for each `NEWLINE_CHAR`, and without spaces and tabs around its lines."""
    return "\n".join(line.strip(" \t") for line in _LINE_END.split(text))


def separate_documents(text: str) -> list[str]:
    """Split a text of Multi-News at its separators, `|||||` or `story_separator_special_tag`.

    Returns:
        The documents, with line ends as by `with_line_ends` and without surrounding white space. Blank documents are
        kept as empty texts.
    """
    documents = with_line_ends(text).replace(_OLDER_SEPARATOR, _SEPARATOR).split(_SEPARATOR)
    return [document.strip() for document in documents]


def read_stories(paths: tuple[Path, ...]) -> Rows:
    """Yield the rows of CNN/DailyMail, from files of stories (Hermann et al. 2015) or as `read_tagged`.

    In a story, the lines before the first line `@highlight` are the document, and the later lines are the summary. The
    lines `@highlight` and blank lines are left out. A story without highlights has an empty summary, and an empty story
    has an empty document too.

    Args:
        paths: the files of stories, or the two files of `read_tagged`, of which the first ends with `.src`.

    Yields:
        `document`, `summary` with one highlight in each line, and `id`, the name of the file without `.story`. Rows of
        `read_tagged` have no `id`.
    """
    if paths and paths[0].suffix == ".src":
        yield from read_tagged(paths)
        return
    for path in paths:
        document: list[str] = []
        highlights: list[str] = []
        # The list to which the next line belongs.
        lines = document
        for _, line in numbered_lines(path):
            text = line.strip()
            if text == "@highlight":
                lines = highlights
            elif text:
                lines.append(text)
        yield {"document": "\n".join(document), "summary": "\n".join(highlights), "id": path.stem}


def read_tagged(paths: tuple[Path, ...]) -> Rows:
    """Yield rows from line-aligned files of documents and of summaries, such as `<t> A sentence. </t> <t> B. </t>`.

    Yields:
        `document` and `summary`, which has one sentence in each line, without the tags.
    """
    for document, summary in _aligned_lines(paths):
        sentences = [sentence for sentence in _SENTENCE_TAG.split(summary) if sentence]
        yield {"document": document, "summary": "\n".join(sentences)}


def read_xsum(paths: tuple[Path, ...]) -> Rows:
    """Yield the rows of XSum (Narayan et al. 2018), from a file for each page.

    Yields:
        `document`, the text of the page without its first sentence and without lines of buttons; `summary`, the first
        sentence; and `id`, the name of the file without `.summary`.

    Raises:
        ValueError: a page lacks the section of the text, or of the first sentence.
    """
    for path in paths:
        page = "".join([line for _, line in numbered_lines(path)])
        # The pieces are the text before the first heading, which is ignored, and then headings and texts in turn.
        pieces = _XSUM_HEADING.split(page)
        headings = pieces[1::2]
        texts = pieces[2::2]
        # Heading -> the lines of its text.
        lines: dict[str, list[str]] = {}
        for heading, text in zip(headings, texts, strict=True):
            stripped = [line.strip() for line in text.splitlines()]
            lines[heading] = [line for line in stripped if line and line not in _XSUM_BUTTONS]
        try:
            document = "\n".join(lines["RESTBODY"])
            summary = " ".join(lines["FIRST-SENTENCE"])
        except KeyError as error:
            raise ValueError(f"{path}: no [SN]{error.args[0]}[SN]: is the file truncated?") from None
        yield {"document": document, "summary": summary, "id": path.stem}


def read_wmt16(paths: tuple[Path, ...]) -> Rows:
    """Yield the rows of WMT 2016, from line-aligned files of sentences and translations, plain or in SGML (.sgm).

    Args:
        paths: each file of English sentences, followed by the file of their translations.

    Yields:
        `document`, a sentence, and `summary`, its translation.
    """
    for pair in zip(paths[::2], paths[1::2], strict=True):
        for sentence, translation in _aligned_lines(pair):
            yield {"document": sentence, "summary": translation}


def _lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file without line ends; of an SGML file, only the texts of its segments, `<seg>`."""
    is_sgml = unpacked(path).endswith(".sgm")
    for _, line in numbered_lines(path):
        if not is_sgml:
            yield line.rstrip("\r\n")
            continue
        segment = _SEGMENT.search(line)
        if segment is not None:
            yield segment[1]


def _aligned_lines(paths: Sequence[Path]) -> Iterator[list[str]]:
    """Yield the lines with the same number in several files.

    Args:
        paths: line-aligned files.

    Yields:
        A list with the line of each file, without line ends, in the order of `paths`.

    Raises:
        ValueError: a file has fewer lines than another.
    """
    files = [_lines(path) for path in paths]
    for line_number, lines in enumerate(zip_longest(*files), 1):
        # `zip_longest` puts None where a file has ended.
        if None in lines:
            shorter = paths[lines.index(None)]
            raise ValueError(f"{shorter} has only {line_number - 1} lines, fewer than the file that it is aligned with")
        yield list(lines)


def format_of(data_format: str) -> "DataFormat":
    """The format of a name in `DATA_FORMATS`.

    Raises:
        ValueError: there is no format of this name.
    """
    check_choice("`data_format`", data_format, DATA_FORMATS)
    return DATA_FORMATS[data_format]


def _is_at_least(value: int, option: int) -> bool:
    """Whether the value of a row is at least the value of the option."""
    return value >= option


def _equals(value: str, option: str) -> bool:
    """Whether the value of a row is the value of the option."""
    return value == option


@dataclass(frozen=True)
class RowOption:
    """A setting of the user that selects rows by the value of a column, such as a minimum score.

    Args:
        name: the name of the setting, a field of `Reading`.
        column: the name of the column.
        passes: a function that says whether a row passes. Its arguments are the value of the column and, as `option`,
            the value of the setting.
        is_optional: whether a split may lack the column; all rows of such a split pass.
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
    """How to read a format in which the authors of a corpus distribute it.

    Args:
        locate: a function from the name of a file or a folder, and a split, to the paths of the split's files.
        read: a function from the paths of the split's files to the rows of the split. It is None if the files are files
            of rows, such as JSON Lines, which `datasets` reads.
        option: the setting that selects rows of this format; None if there is no such setting.
        separate: a function that splits the text of several documents into a list of documents. It is for data sets on
            the Hub that store the documents of an example in one text. It is None for formats with single documents.
    """

    locate: Callable[[str, str], tuple[Path, ...]]
    read: Callable[[tuple[Path, ...]], Rows] | None = None
    option: RowOption | None = None
    separate: Callable[[str], list[str]] | None = None

    @property
    def is_on_hub(self) -> bool:
        """Whether a data set on the Hub may have this format, so that `datasets` can read it."""
        return self.read is None or self.separate is not None


# Name of a format -> the format.
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
