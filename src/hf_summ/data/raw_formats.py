"""Data sets in their authors' formats: finding the files, reading them, and selecting rows."""

import hashlib
import json
import lzma
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

from hf_summ.common.messages import check_choice
from hf_summ.data.files import open_text

Rows = Iterator[dict[str, Any]]
# the ends of the names of a text and of its compressed copies
_PACKED = ("", ".gz", ".bz2", ".xz")

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
# the aligned files of Gehrmann et al. 2018, whose summaries have a tag at the beginning and the end of each sentence
_TAGGED = {split: (f"{stem}.txt.src", f"{stem}.txt.tgt.tagged") for split, stem in _STEMS.items()}
_SENTENCE_TAG = re.compile(r"\s*</?t>\s*")
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


def read_lcsts(paths: tuple[Path, ...]) -> Rows:
    """Rows of `document`, `summary`, `id` and, in files with scores, `human_label` (Hu et al. 2015).

    White space around tags and texts is ignored; line ends within a text are kept. `&`, `<` and apparent entities are
    text, as the files have no escapes.
    """
    text, start = "", 0
    for number, line in _numbered_lines(paths[0]):
        *ends, begin = line.split("</doc>")
        for end in ends:
            start = start if text else number
            yield _lcsts_row(text + end, f"{paths[0]}, line {start}")
            text = ""
        if text or begin.strip():
            start = start if text else number
            text += begin
            if not text.lstrip().startswith("<doc"):
                break
    if text:
        yield _lcsts_row(text, f"{paths[0]}, line {start}")


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


def read_gigaword(paths: tuple[Path, ...]) -> Rows:
    """Rows of `document` and `summary` from articles and their line-aligned headlines (Rush et al. 2015).

    Of more than two files, as in DUC-2004, the rows have `document` and `references`.
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
        for _, line in _numbered_lines(path):
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
        _, *sections = _XSUM_HEADING.split("".join(line for _, line in _numbered_lines(path)))
        lines: dict[str, list[str]] = {}
        for heading, text in zip(sections[::2], sections[1::2], strict=True):
            stripped = [line.strip() for line in text.splitlines()]
            lines[heading] = [line for line in stripped if line and line not in _XSUM_BUTTONS]
        try:
            document, summary = "\n".join(lines["RESTBODY"]), " ".join(lines["FIRST-SENTENCE"])
        except KeyError as error:
            raise ValueError(f"{path}: no [SN]{error.args[0]}[SN]: is the file truncated?") from None
        yield {"document": document, "summary": summary, "id": path.stem}


def read_wmt16(paths: tuple[Path, ...]) -> Rows:
    """Rows of `document`, a sentence, and `summary`, its translation, from pairs of plain or SGML files (.sgm)."""
    for pair in zip(paths[::2], paths[1::2], strict=True):
        for sentence, translation in _aligned_lines(pair):
            yield {"document": sentence, "summary": translation}


def _numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The number and the text of each line in UTF-8, including its end; only line feeds end a line."""
    number = 0
    try:
        with open_text(path) as file:
            for number, line in enumerate(file, 1):
                yield number, line
    except (UnicodeDecodeError, EOFError, lzma.LZMAError) as error:
        raise ValueError(f"{path}, after line {number}: cannot be read: {error}") from None


def _lines(path: Path) -> Iterator[str]:
    """The texts of a file without line ends: its lines or, of SGML, its segments."""
    is_sgml = _unpacked(path).endswith(".sgm")
    for _, line in _numbered_lines(path):
        if not is_sgml:
            yield line.rstrip("\r\n")
        elif segment := _SEGMENT.search(line):
            yield segment[1]


def _aligned_lines(paths: Sequence[Path]) -> Iterator[list[str]]:
    """Each line's texts in all files."""
    for number, lines in enumerate(zip_longest(*[_lines(path) for path in paths]), 1):
        if None in lines:
            shorter = paths[lines.index(None)]
            raise ValueError(f"{shorter} has only {number - 1} lines, fewer than the file that it is aligned with")
        yield list(lines)


def _unpacked(path: Path) -> str:
    """The name of a file before its compression."""
    return path.stem if path.suffix in _PACKED else path.name


def format_of(data_format: str) -> "DataFormat":
    """The format of this name.

    Raises:
        ValueError: an unknown format.
    """
    check_choice("`data_format`", data_format, DATA_FORMATS)
    return DATA_FORMATS[data_format]


def _locate_gigaword(name: str, split: str) -> tuple[Path, ...]:
    articles = _split_file(name, split, _GIGAWORD)
    stem = _unpacked(articles)
    if stem == "input.txt" and any(articles.parent.glob("task1_ref1.txt*")):
        # Gigaword's distribution contains DUC-2004, a test set with several references
        return _locate_duc(str(articles), split)
    titles = stem.replace("article", "title") if "article" in stem else "task1_ref0.txt"
    return articles, _beside(articles, [titles], "headlines")


def _locate_lcsts(name: str, split: str) -> tuple[Path, ...]:
    return (_split_file(name, split, _LCSTS),)


def _locate_multi_news(name: str, split: str) -> tuple[Path, ...]:
    path = _split_file(name, split, _MULTI_NEWS)
    stem, _, ending = _unpacked(path).rpartition(".src")
    # corrected documents (X.src.cleaned) have uncorrected summaries (X.tgt)
    return path, _beside(path, [f"{stem}.tgt{ending}", f"{stem}.tgt"], "summaries")


def _locate_duc(name: str, split: str) -> tuple[Path, ...]:
    source = _split_file(name, split, _DUC)
    files = source.parent.glob("task1_ref*.txt*")
    numbers = [_unpacked(file).removeprefix("task1_ref").removesuffix(".txt") for file in files]
    last = max((int(number) for number in numbers if number.isdecimal()), default=0)
    references = [_beside(source, [f"task1_ref{number}.txt"], "references") for number in range(last + 1)]
    return (source, *references)


def _locate_newsroom(name: str, split: str) -> tuple[Path, ...]:
    return (_split_file(name, split, _NEWSROOM),)


def _locate_stories(name: str, split: str) -> tuple[Path, ...]:
    documents, summaries = _TAGGED[split]
    if os.path.isfile(os.path.join(name, documents)):
        return Path(name, documents), _existing(Path(name, summaries))
    stories: list[Path] = []
    for file in [name] if os.path.exists(name) else name.split(","):
        path = Path(file.strip())
        lists = [path / addresses for addresses in _ADDRESSES[split] if os.path.isfile(path / addresses)]
        if lists:
            stories += _listed_stories(lists[0])
        elif os.path.isdir(path):
            # macOS creates a hidden file for a story
            stories += sorted(path.glob("[!.]*.story"))
        elif path.suffix == ".story":
            stories.append(_existing(path))
        else:
            stories += _listed_stories(_existing(path))
    return tuple(stories)


def _listed_stories(names: Path) -> Iterator[Path]:
    for number, line in _numbered_lines(names):
        name = line.strip()
        if not name:
            continue
        files = [names.parent / name]
        if "://" in name:
            story = f"{hashlib.sha1(name.encode()).hexdigest()}.story"
            # the list may be in a subfolder for lists
            files = [top / folder / story for top in names.parents[:2] for folder in _STORIES]
        existing = [file for file in files if os.path.isfile(file)]
        if not existing:
            raise ValueError(f"{names}, line {number}: {files[0]} does not exist: name a .story file or its address")
        yield existing[0]


def _locate_xsum(name: str, split: str) -> tuple[Path, ...]:
    splits = _existing(Path(name) / _XSUM_SPLITS)
    try:
        numbers = json.loads(splits.read_text(encoding="utf-8"))[split]
    except (KeyError, ValueError) as error:
        raise ValueError(f"{splits} has no list of the {split} split ({error!r}): copy it again") from None
    return tuple(splits.parent / _XSUM_TEXTS / f"{number}.summary" for number in numbers)


def _locate_wmt16(language: str, name: str, split: str) -> tuple[Path, ...]:
    files: list[Path] = []
    for stem in _WMT16[language][split]:
        for code, role in (("en", "src"), (language, "ref")):
            names = [f"{stem}.{code}", f"{stem}-{role}.{code}.sgm"]
            candidates: list[Path] = []
            for file in names:
                for ending in _PACKED:
                    candidates.extend(sorted(Path(name).rglob(f"{file}{ending}")))
            if not candidates:
                raise ValueError(f"{name} has no {' and no '.join(names)}, the {split} split: unpack it there")
            files.append(candidates[0])
    return tuple(files)


def _split_file(name: str, split: str, names: Mapping[str, Sequence[str]]) -> Path:
    """The file `name`, or the split's file in the folder `name`."""
    path = Path(name)
    if not os.path.isdir(path):
        return _existing(path)
    for file in names[split]:
        for ending in _PACKED:
            candidate = path / f"{file}{ending}"
            if candidate.exists():
                return candidate
    raise ValueError(f"{path} has no {' and no '.join(names[split])}, the {split} split: name the file")


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise ValueError(f"{path} does not exist")
    return path


def _beside(path: Path, names: Sequence[str], content: str) -> Path:
    """The first other file of these names, perhaps compressed, in the folder of `path`."""
    for name in names:
        for ending in _PACKED:
            file = path.with_name(f"{name}{ending}")
            if file != path and file.exists():
                return file
    raise ValueError(f"{path} has no {content} beside it: {path.with_name(names[-1])} does not exist")


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
        passes: whether a value of the column passes, given the option.
        is_optional: whether a split may lack the column, whose rows then pass.
    """

    name: str
    column: str
    passes: Callable[[Any, Any], bool]
    is_optional: bool = False


# the training split of LCSTS has no scores
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
    "gigaword": DataFormat(_locate_gigaword, read_gigaword),
    "lcsts": DataFormat(_locate_lcsts, read_lcsts, _MIN_SCORE),
    "multi_news": DataFormat(_locate_multi_news, read_multi_news, separate=separate_documents),
    "duc": DataFormat(_locate_duc, read_duc),
    "newsroom": DataFormat(_locate_newsroom, None, _DENSITY_BIN),
    "cnn_dm": DataFormat(_locate_stories, read_stories),
    "xsum": DataFormat(_locate_xsum, read_xsum),
}
for _language in _WMT16:
    DATA_FORMATS[f"wmt16_en_{_language}"] = DataFormat(partial(_locate_wmt16, _language), read_wmt16)
