"""Data sets in their authors' formats: finding the files, reading them, and selecting rows."""

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from hf_summ.common.messages import check_choice, one_line, progress_bar
from hf_summ.common.records import parse_json
from hf_summ.data.rows import (
    PACKED,
    ROW_FILES,
    Rows,
    beside,
    existing,
    kind_of_file,
    locate,
    read_aligned,
    read_lines,
    read_rows,
    unpacked,
)

_LCSTS_DOCUMENT = re.compile(r"\s*<doc\b[^>]*\bid\s*=\s*\W*(\d+)[^>]*>(?!.*<doc )(.*)", re.DOTALL)
_LCSTS_FIELD = re.compile(r"<(human_label|summary|short_text)\s*>(.*?)</\1\s*>", re.DOTALL)
_LINE_END = re.compile(r"NEWLINE_CHAR\b")
_SEPARATOR, _OLDER_SEPARATOR = "|||||", "story_separator_special_tag"
# possible names of each split's file in a distributed folder; the first that exists is used
_GIGAWORD = {
    "train": ("train.article.txt", "train/train.article.txt"),
    "validation": tuple(
        f"{folder}valid.article{ending}.txt" for ending in (".filter", "") for folder in ("", "train/")
    ),
    "test": ("input.txt", "Giga/input.txt"),
}
_LCSTS = {
    split: (f"PART_{number}.txt", f"DATA/PART_{number}.txt")
    for split, number in (("train", "I"), ("validation", "II"), ("test", "III"))
}
_STEMS = {"train": "train", "validation": "val", "test": "test"}
_MULTI_NEWS = {split: (f"{stem}.src.cleaned", f"{stem}.src", f"{stem}.txt.src") for split, stem in _STEMS.items()}
_DUC = dict.fromkeys(_STEMS, ("input.txt",))
_NEWSROOM = {"train": ("train.jsonl",), "validation": ("dev.jsonl",), "test": ("test.jsonl",)}
# lists of addresses; a story's file name is the SHA-1 of its address
_ADDRESSES = {split: (f"all_{stem}.txt", f"url_lists/all_{stem}.txt") for split, stem in _STEMS.items()}
_STORIES = ("cnn/stories", "dailymail/stories")
_XSUM_SPLITS, _XSUM_TEXTS = "XSum-TRAINING-DEV-TEST-SPLIT-90-5-5.json", "bbc-summary-data"
_XSUM_HEADING = re.compile(r"\[SN\]([A-Z-]+)\[SN\]")
# target language -> files of each split, by what precedes the language in their names
_WMT16 = {
    "de": {
        "train": ("europarl-v7.de-en", "commoncrawl.de-en", "news-commentary-v11.de-en"),
        "validation": ("newstest2013",),
        "test": ("newstest2014-deen",),
    },
    "ro": {
        "train": ("europarl-v*.ro-en", "SETIMES*.en-ro"),
        "validation": ("newsdev2016-enro",),
        "test": ("newstest2016-enro",),
    },
}
_SEGMENT = re.compile(r"<seg\b[^>]*>(.*)</seg>")
# lines of buttons between paragraphs of the BBC's pages; the copy on the Hub omits them too
_XSUM_BUTTONS = {
    *("Share this with", "Email", "Facebook", "Messenger", "Twitter", "Pinterest", "WhatsApp", "LinkedIn", "Linkedin"),
    *("Copy this link", "These are external links and will open in a new window"),
}


def read_lcsts(paths: tuple[Path, ...], show_progress: bool = False) -> Rows:
    """Rows of `document`, `summary`, `id` and, in files with scores, `human_label` (Hu et al. 2015).

    White space around tags and texts is ignored; line ends within a text are kept. `&`, `<` and apparent entities are
    text, as the files have no escapes.
    """
    text, start = "", 0
    for number, line in read_lines(paths[0], show_progress):
        *ends, begin = line.split("</doc>")
        for end in ends:
            start = start if text else number
            yield f"line {start}", _lcsts_row(text + end, f"{paths[0]}, line {start}")
            text = ""
        if text or begin.strip():
            start = start if text else number
            text += begin
            if not text.lstrip().startswith("<doc"):
                break
    if text:
        yield f"line {start}", _lcsts_row(text, f"{paths[0]}, line {start}")


def _lcsts_row(text: str, where: str) -> dict[str, Any]:
    match = _LCSTS_DOCUMENT.fullmatch(text)
    fields = _LCSTS_FIELD.findall(match[2]) if match else []
    texts = {name: "\n".join(filter(None, map(str.strip, value.splitlines()))) for name, value in fields}
    label = texts.pop("human_label", None)
    is_complete = texts.keys() == {"summary", "short_text"} and len(fields) == 2 + (label is not None)
    if match is None or not is_complete or not (label is None or label.isdecimal()):
        raise ValueError(
            f"{where}: must be a complete <doc id=N> with one <summary>, one <short_text> and perhaps one "
            f"<human_label>, a whole number, but is {text.strip()!r:.60}"
        )
    row = {"document": texts["short_text"], "summary": texts["summary"], "id": int(match[1])}
    return row if label is None else {**row, "human_label": int(label)}


def read_duc(paths: tuple[Path, ...], show_progress: bool = False) -> Rows:
    """Rows of `document` and `references` from an input file and its line-aligned references."""
    for number, (document, *references) in read_aligned(paths, show_progress):
        yield f"line {number}", {"document": document, "references": references}


def _read_gigaword(paths: tuple[Path, ...], show_progress: bool = False) -> Rows:
    """Rows of articles and headlines, or of texts with several references."""
    return (read_rows if len(paths) == 2 else read_duc)(paths, show_progress)


def read_multi_news(paths: tuple[Path, ...], show_progress: bool = False) -> Rows:
    """Rows from `read_rows` with line ends instead of `NEWLINE_CHAR` (Fabbri et al. 2019).

    The dash at the beginning of each summary is part of the corpus and is kept.
    """
    for position, row in read_rows(paths, show_progress):
        texts = {name: value for name, value in row.items() if isinstance(value, str)}
        yield position, row | {name: with_line_ends(text) for name, text in texts.items()}


def with_line_ends(text: str) -> str:
    """A text of Multi-News with line ends in place of `NEWLINE_CHAR`."""
    return "\n".join(line.strip(" \t") for line in _LINE_END.split(text))


def separate_documents(text: str) -> list[str]:
    """The documents, also blank ones, between Multi-News's separators, `|||||` or `story_separator_special_tag`."""
    return [document.strip() for document in text.replace(_OLDER_SEPARATOR, _SEPARATOR).split(_SEPARATOR)]


def read_stories(paths: tuple[Path, ...], show_progress: bool = False) -> Rows:
    """Rows of `document`, `summary` and `id` (the file's name) from `.story` files (Hermann et al. 2015).

    The lines before the first `@highlight` are the document; the later ones are the summary, one highlight per line.
    Blank lines are skipped. An empty story, one without highlights, and a hidden file (such as macOS creates for a
    story) yield a blank row.
    """
    for path in progress_bar(paths, "reading stories", unit="story", disable=not show_progress):
        document: list[str] = []
        highlights: list[str] = []
        lines = document
        for _, line in () if path.name.startswith(".") else read_lines(path):
            text = line.strip()
            if text == "@highlight":
                lines = highlights
            elif text:
                lines.append(text)
        yield path.name, {"document": "\n".join(document), "summary": "\n".join(highlights), "id": path.stem}


def read_xsum(paths: tuple[Path, ...], show_progress: bool = False) -> Rows:
    """Rows of `document`, `summary` and `id` (the file's name) from `.summary` files (Narayan et al. 2018).

    The summary is the first sentence of a page; the document is its remaining text, without lines of buttons.
    """
    for path in progress_bar(paths, "reading articles", unit="article", disable=not show_progress):
        _, *sections = _XSUM_HEADING.split("".join(line for _, line in read_lines(path)))
        lines = {
            heading: [line for line in map(str.strip, text.splitlines()) if line and line not in _XSUM_BUTTONS]
            for heading, text in zip(sections[::2], sections[1::2], strict=True)
        }
        try:
            row = {"document": "\n".join(lines["RESTBODY"]), "summary": " ".join(lines["FIRST-SENTENCE"])}
        except KeyError as error:
            raise ValueError(f"{path}: no [SN]{error.args[0]}[SN]: is the file truncated?") from None
        yield path.name, {**row, "id": path.stem}


def read_wmt16(paths: tuple[Path, ...], show_progress: bool = False) -> Rows:
    """Rows of `document`, a sentence, and `summary`, its translation, from pairs of plain or SGML files (.sgm)."""
    for pair in zip(paths[::2], paths[1::2], strict=True):
        for number, (sentence, translation) in read_aligned(pair, show_progress, _read_segments):
            yield f"{pair[0].name}, line {number}", {"document": sentence, "summary": translation}


def _read_segments(path: Path, show_progress: bool = False) -> Iterator[tuple[int, str]]:
    lines = read_lines(path, show_progress)
    if kind_of_file(path) != ".sgm":
        return lines
    return ((number, match[1]) for number, line in lines if (match := _SEGMENT.search(line)))


def format_of(data_format: str | None) -> "DataFormat":
    """The format of this name; without a name, the format that reads a file by its extension."""
    if data_format is None:
        return _BY_EXTENSION
    check_choice("`data_format`", data_format, DATA_FORMATS)
    return DATA_FORMATS[data_format]


def _locate_gigaword(name: str, split: str) -> tuple[Path, ...]:
    if _is_list(name):
        return locate(name)
    articles = _split_file(name, split, _GIGAWORD)
    stem = unpacked(articles)
    if stem == "input.txt" and any(articles.parent.glob("task1_ref1.txt*")):
        # Gigaword's distribution contains DUC-2004, a test set with several references
        return _locate_duc(str(articles), split)
    titles = stem.replace("article", "title") if "article" in stem else "task1_ref0.txt"
    return articles, beside(articles, [titles], "headlines")


def _locate_multi_news(name: str, split: str) -> tuple[Path, ...]:
    if _is_list(name):
        return locate(name)
    path = _split_file(name, split, _MULTI_NEWS)
    if kind_of_file(path) in ROW_FILES:
        return (path,)
    stem, _, ending = unpacked(path).rpartition(".src")
    # corrected documents (X.src.cleaned) have uncorrected summaries (X.tgt)
    return path, beside(path, [f"{stem}.tgt{ending}", f"{stem}.tgt"], "summaries")


def _locate_duc(name: str, split: str) -> tuple[Path, ...]:
    if _is_list(name):
        return tuple(existing(Path(file.strip())) for file in name.split(","))
    source = _split_file(name, split, _DUC)
    files = source.parent.glob("task1_ref*.txt*")
    numbers = [unpacked(file).removeprefix("task1_ref").removesuffix(".txt") for file in files]
    last = max((int(number) for number in numbers if number.isdecimal()), default=0)
    return source, *(beside(source, [f"task1_ref{number}.txt"], "references") for number in range(last + 1))


def _locate_stories(name: str, split: str) -> tuple[Path, ...]:
    stories: list[Path] = []
    for file in [name] if os.path.exists(name) else name.split(","):
        path = Path(file.strip())
        lists = [path / addresses for addresses in _ADDRESSES[split] if os.path.isfile(path / addresses)]
        if lists:
            stories += _listed_stories(lists[0])
        elif os.path.isdir(path):
            stories += sorted(path.glob("*.story"))
        elif path.suffix == ".story":
            stories.append(existing(path))
        else:
            stories += _listed_stories(existing(path))
    return tuple(stories)


def _listed_stories(names: Path) -> Iterator[Path]:
    for number, line in read_lines(names):
        name = line.strip()
        if not name:
            continue
        files = [names.parent / name]
        if "://" in name:
            story = f"{hashlib.sha1(name.encode()).hexdigest()}.story"
            # the list may be in a subfolder for lists
            files = [top / folder / story for top in names.parents[:2] for folder in _STORIES]
        # os.path, as Path.is_file fails if the line is too long for a name
        file = next(filter(os.path.isfile, files), None)
        if file is None:
            raise ValueError(f"{names}, line {number}: {files[0]} does not exist: name a .story file or its address")
        yield file


def _locate_xsum(name: str, split: str) -> tuple[Path, ...]:
    splits = existing(Path(name) / _XSUM_SPLITS)
    try:
        numbers = list(parse_json(splits.read_text(encoding="utf-8"))[split])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{splits}: cannot be read ({one_line(error)}): copy it again") from None
    return tuple(splits.parent / _XSUM_TEXTS / f"{number}.summary" for number in numbers)


def _locate_wmt16(language: str, name: str, split: str) -> tuple[Path, ...]:
    files: list[Path] = []
    for stem in _WMT16[language][split]:
        for own, role in (("en", "src"), (language, "ref")):
            names = [f"{stem}.{own}", f"{stem}-{role}.{own}.sgm"]
            patterns = (f"{file}{ending}" for file in names for ending in PACKED)
            file = next((file for pattern in patterns for file in sorted(Path(name).rglob(pattern))), None)
            if file is None:
                raise ValueError(f"{name} has no {' and no '.join(names)}, the {split} split: unpack it there")
            files.append(existing(file))
    return tuple(files)


def _split_file(name: str, split: str, names: Mapping[str, Sequence[str]]) -> Path:
    """The file `name`, or the split's file in the folder `name`."""
    path = Path(name)
    if not os.path.isdir(path):
        return existing(path)
    files = (path / f"{file}{ending}" for file in names[split] for ending in PACKED)
    file = next(filter(Path.exists, files), None)
    if file is None:
        raise ValueError(f"{path} has no {' and no '.join(names[split])}, the {split} split: name the file")
    return existing(file)


def _is_list(name: str) -> bool:
    return "," in name and not os.path.exists(name)


@dataclass(frozen=True)
class DataFormat:
    """How to read a format.

    Args:
        locate: returns the files of a split by a file's or a folder's name.
        read: reads their rows, like `read_rows`; the second argument shows a progress bar.
        passes: whether a row passes the format's option.
        separate: splits a document's text into a list of documents.
        is_on_hub: whether data sets on the Hub may have this format.
    """

    locate: Callable[[str, str], tuple[Path, ...]]
    read: Callable[[tuple[Path, ...], bool], Rows] = read_rows
    passes: Callable[[dict[str, Any], Any], bool] = lambda row, option: True
    separate: Callable[[str], list[str]] | None = None
    is_on_hub: bool = False


DATA_FORMATS = {
    "gigaword": DataFormat(_locate_gigaword, _read_gigaword),
    "lcsts": DataFormat(
        lambda *name: (_split_file(*name, _LCSTS),),
        read_lcsts,
        # the training split has no scores
        passes=lambda row, min_score: row.get("human_label", min_score) >= min_score,
    ),
    "multi_news": DataFormat(_locate_multi_news, read_multi_news, separate=separate_documents, is_on_hub=True),
    "duc": DataFormat(_locate_duc, read_duc),
    "newsroom": DataFormat(
        lambda *name: locate(str(_split_file(*name, _NEWSROOM))),
        passes=lambda row, density_bin: density_bin in (None, row.get("density_bin")),
        is_on_hub=True,
    ),
    "cnn_dm": DataFormat(_locate_stories, read_stories),
    "xsum": DataFormat(_locate_xsum, read_xsum),
    **{f"wmt16_en_{language}": DataFormat(partial(_locate_wmt16, language), read_wmt16) for language in _WMT16},
}
_BY_EXTENSION = DataFormat(lambda name, split: locate(name), is_on_hub=True)
