"""Readers of the files in which LCSTS, DUC, Multi-News and CNN/DailyMail are distributed."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hf_summ.common.progress import progress_bar
from hf_summ.data.rows import read_aligned, read_lines, read_rows

_LCSTS_DOCUMENT = re.compile(r"\s*<doc\b[^>]*\bid\s*=\s*\W*(\d+)[^>]*>(.*)", re.DOTALL)
_LCSTS_FIELD = re.compile(r"<(human_label|summary|short_text)\s*>(.*?)</\1\s*>", re.DOTALL)
_LINE_END = re.compile(r"NEWLINE_CHAR\b")
_SEPARATOR, _OLDER_SEPARATOR = "|||||", "story_separator_special_tag"


def read_lcsts(paths: tuple[Path, ...], show_progress: bool = False) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows of `document`, `summary`, `id` and, in the parts that have it, `human_label` (Hu et al. 2015).

    White space around tags and texts is ignored; a text of several lines keeps them. `&`, `<` and apparent entities are
    text, as the files escape nothing.

    Raises:
        ValueError: text outside `<doc id=N>`, a document without its end tag, without exactly one `<summary>` and one
            `<short_text>`, or with a label that is not a whole number; or labels for only some documents of a file.
    """
    path = paths[0]
    text, start, is_labelled = "", 0, None
    for number, line in read_lines(path, show_progress):
        *ended, rest = line.split("</doc>")
        for part in ended:
            start = start if text else number
            row = _lcsts_row(text + part, f"{path}, line {start}")
            if is_labelled is None:
                is_labelled = "human_label" in row
            if is_labelled != ("human_label" in row):
                raise ValueError(
                    f"{path}, line {start}: this document has {'no' if is_labelled else 'a'} <human_label>, unlike "
                    "those before it: keep PART_I, whose pairs have none, separate from PART_II and PART_III"
                )
            yield f"line {start}", row
            text = ""
        if text or rest.strip():
            start = start if text else number
            text += rest
            if not text.lstrip().startswith("<doc"):
                raise ValueError(f"{path}, line {start}: must be <doc id=N>, but is {text.strip()!r:.60}")
    if text:
        raise ValueError(f"{path}, line {start}: this <doc> has no </doc>: is the file truncated?")


def _lcsts_row(text: str, where: str) -> dict[str, Any]:
    match = _LCSTS_DOCUMENT.fullmatch(text)
    if match is None:
        raise ValueError(f"{where}: must be <doc id=N>, but is {text.strip()!r:.60}")
    number, content = match.groups()
    if "<doc " in content:
        raise ValueError(f"{where}: another <doc> begins before </doc>: is a line missing?")
    fields = _LCSTS_FIELD.findall(content)
    texts = {name: "\n".join(filter(None, map(str.strip, value.splitlines()))) for name, value in fields}
    if not {"summary", "short_text"} <= texts.keys() or len(texts) < len(fields):
        names = ", ".join(name for name, _ in fields) or "neither"
        raise ValueError(
            f"{where}: a document must have one complete <summary> and one <short_text>, but this has {names}"
        )
    row = {"document": texts["short_text"], "summary": texts["summary"], "id": int(number)}
    if "human_label" in texts:
        if not texts["human_label"].isdecimal():
            raise ValueError(
                f"{where}: <human_label> is {texts['human_label']!r:.60}, but must be a whole number from 1 to 5"
            )
        row["human_label"] = int(texts["human_label"])
    return row


def read_duc(paths: tuple[Path, ...], show_progress: bool = False) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows of `document` and `references` from an input file and its line-aligned references.

    Raises:
        ValueError: the files differ in length.
    """
    for number, (document, *references) in read_aligned(paths, show_progress):
        yield f"line {number}", {"document": document, "references": references}


def read_multi_news(paths: tuple[Path, ...], show_progress: bool = False) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows from `read_rows` with line ends in place of `NEWLINE_CHAR` (Fabbri et al. 2019).

    The dash that begins each summary belongs to the corpus and is kept.
    """
    for place, row in read_rows(paths, show_progress):
        texts = {name: value for name, value in row.items() if isinstance(value, str)}
        yield place, row | {name: _with_line_ends(text) for name, text in texts.items()}


def _with_line_ends(text: str) -> str:
    return "\n".join(part.strip(" \t") for part in _LINE_END.split(text))


def separate_documents(text: str) -> list[str]:
    """The documents between Multi-News's separators, `|||||` or `story_separator_special_tag`, including blank ones."""
    return [part.strip() for part in text.replace(_OLDER_SEPARATOR, _SEPARATOR).split(_SEPARATOR)]


def read_stories(paths: tuple[Path, ...], show_progress: bool = False) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows of `document`, `summary` and `id` (the file's name) from `.story` files (Hermann et al. 2015).

    The lines before the first `@highlight` are the document, those after it the summary, one highlight per line; blank
    lines are skipped. A story without highlights, an empty one and a hidden file (such as macOS leaves beside a story)
    give a blank row.
    """
    for path in progress_bar(paths, "reading stories", unit="story", disable=not show_progress):
        document: list[str] = []
        highlights: list[str] = []
        part = document
        for _, line in () if path.name.startswith(".") else read_lines(path):
            text = line.strip()
            if text == "@highlight":
                part = highlights
            elif text:
                part.append(text)
        yield path.name, {"document": "\n".join(document), "summary": "\n".join(highlights), "id": path.stem}
