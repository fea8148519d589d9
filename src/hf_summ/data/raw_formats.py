"""Data sets in their authors' formats: finding the files, reading them, and selecting rows."""

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hf_summ.common.messages import one_line, progress_bar, unknown_choice
from hf_summ.common.records import parse_json
from hf_summ.data.rows import ROW_FILES, existing, kind_of_file, locate, read_aligned, read_lines, read_rows

_LCSTS_DOCUMENT = re.compile(r"\s*<doc\b[^>]*\bid\s*=\s*\W*(\d+)[^>]*>(.*)", re.DOTALL)
_LCSTS_FIELD = re.compile(r"<(human_label|summary|short_text)\s*>(.*?)</\1\s*>", re.DOTALL)
_LINE_END = re.compile(r"NEWLINE_CHAR\b")
_SEPARATOR, _OLDER_SEPARATOR = "|||||", "story_separator_special_tag"
DENSITY_BINS = ("abstractive", "mixed", "extractive")
# possible names of each split's file in a distributed folder; the first that exists is used
_GIGAWORD = {
    "train": ("train.article.txt", "train/train.article.txt"),
    "validation": (
        "valid.article.filter.txt",
        "train/valid.article.filter.txt",
        "valid.article.txt",
        "train/valid.article.txt",
    ),
    "test": ("input.txt", "Giga/input.txt"),
}
_LCSTS = {
    "train": ("PART_I.txt", "DATA/PART_I.txt"),
    "validation": ("PART_II.txt", "DATA/PART_II.txt"),
    "test": ("PART_III.txt", "DATA/PART_III.txt"),
}
_MULTI_NEWS = {
    "train": ("train.src.cleaned", "train.src", "train.txt.src"),
    "validation": ("val.src.cleaned", "val.src", "val.txt.src"),
    "test": ("test.src.cleaned", "test.src", "test.txt.src"),
}
_DUC = {"train": ("input.txt",), "validation": ("input.txt",), "test": ("input.txt",)}
_NEWSROOM = {"train": ("train.jsonl",), "validation": ("dev.jsonl",), "test": ("test.jsonl",)}
# lists of addresses; a story's file name is the SHA-1 of its address
_ADDRESSES = {
    split: (f"all_{part}.txt", f"url_lists/all_{part}.txt")
    for split, part in (("train", "train"), ("validation", "val"), ("test", "test"))
}
_STORIES = ("cnn/stories", "dailymail/stories")
_XSUM_SPLITS, _XSUM_TEXTS = "XSum-TRAINING-DEV-TEST-SPLIT-90-5-5.json", "bbc-summary-data"
_XSUM_PART = re.compile(r"\[SN\]([A-Z-]+)\[SN\]")
# lines of buttons between paragraphs of the BBC's pages; the copy on the Hub omits them too
_XSUM_BUTTONS = {
    *("Share this with", "Email", "Facebook", "Messenger", "Twitter", "Pinterest", "WhatsApp", "LinkedIn", "Linkedin"),
    *("Copy this link", "These are external links and will open in a new window"),
}


def read_lcsts(paths: tuple[Path, ...], show_progress: bool = False) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows of `document`, `summary`, `id` and, in parts with scores, `human_label` (Hu et al. 2015).

    White space around tags and texts is ignored; line ends within a text are kept. `&`, `<` and apparent entities are
    text, as the files have no escapes.

    Raises:
        ValueError: text outside `<doc id=N>`; a document without its end tag, without exactly one `<summary>` and one
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
                    "those before it: read PART_I, whose pairs have none, separately from PART_II and PART_III"
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
    """Rows from `read_rows` with line ends instead of `NEWLINE_CHAR` (Fabbri et al. 2019).

    The dash at the beginning of each summary is part of the corpus and is kept.
    """
    for place, row in read_rows(paths, show_progress):
        texts = {name: value for name, value in row.items() if isinstance(value, str)}
        yield place, row | {name: _with_line_ends(text) for name, text in texts.items()}


def _with_line_ends(text: str) -> str:
    return "\n".join(part.strip(" \t") for part in _LINE_END.split(text))


def separate_documents(text: str) -> list[str]:
    """The documents, also blank ones, between Multi-News's separators, `|||||` or `story_separator_special_tag`."""
    return [part.strip() for part in text.replace(_OLDER_SEPARATOR, _SEPARATOR).split(_SEPARATOR)]


def read_stories(paths: tuple[Path, ...], show_progress: bool = False) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows of `document`, `summary` and `id` (the file's name) from `.story` files (Hermann et al. 2015).

    The lines before the first `@highlight` are the document; the later ones are the summary, one highlight per line.
    Blank lines are skipped. An empty story, one without highlights, and a hidden file (such as macOS creates for a
    story) yield a blank row.
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


def read_xsum(paths: tuple[Path, ...], show_progress: bool = False) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows of `document`, `summary` and `id` (the file's name) from `.summary` files (Narayan et al. 2018).

    The summary is the first sentence of a page; the document is the rest, without lines of buttons.

    Raises:
        ValueError: a file lacks one of these parts.
    """
    for path in progress_bar(paths, "reading articles", unit="article", disable=not show_progress):
        _, *parts = _XSUM_PART.split("".join(line for _, line in read_lines(path)))
        lines = {
            name: [line for line in map(str.strip, text.splitlines()) if line and line not in _XSUM_BUTTONS]
            for name, text in zip(parts[::2], parts[1::2], strict=True)
        }
        try:
            row = {"document": "\n".join(lines["RESTBODY"]), "summary": " ".join(lines["FIRST-SENTENCE"])}
        except KeyError as error:
            raise ValueError(f"{path}: no [SN]{error.args[0]}[SN]: is the file truncated?") from None
        yield path.name, {**row, "id": path.stem}


def format_of(data_format: str | None) -> "DataFormat":
    """The format of this name; without a name, the format that reads a file by its extension.

    Raises:
        ValueError: an unknown format; the message suggests the most similar.
    """
    if data_format is None:
        return _BY_ENDING
    if data_format not in DATA_FORMATS:
        raise ValueError(unknown_choice("`data_format`", data_format, DATA_FORMATS))
    return DATA_FORMATS[data_format]


def _locate_gigaword(name: str, split: str) -> tuple[Path, ...]:
    if _is_list(name):
        return locate(name)
    articles = _file_of(name, split, _GIGAWORD, "gigaword")
    stem = _without_gz(articles)
    if "article" in stem:
        return articles, _first_beside(articles, [stem.replace("article", "title")], "headlines")
    if stem == "input.txt":
        if any(articles.parent.glob("task1_ref1.txt*")):
            # Gigaword's distribution contains DUC-2004, a test set with several references
            return _locate_duc(str(articles), split)
        return articles, _first_beside(articles, ["task1_ref0.txt"], "headlines")
    raise ValueError(
        f"{articles}: its headlines cannot be derived from its name: name an X.article.txt beside its X.title.txt, "
        "an input.txt beside its task1_ref0.txt, their folder, or 'articles.txt,headlines.txt'"
    )


def _locate_multi_news(name: str, split: str) -> tuple[Path, ...]:
    if _is_list(name):
        return locate(name)
    path = _file_of(name, split, _MULTI_NEWS, "multi_news")
    if kind_of_file(path) in ROW_FILES:
        return (path,)
    stem = _without_gz(path)
    before, found, after = stem.rpartition(".src")
    if not found:
        raise ValueError(
            f"{path}: its summaries cannot be derived from its name: name an X.src beside its X.tgt, their folder, "
            f"'documents,summaries', or one file of {', '.join(ROW_FILES)}"
        )
    # corrected documents (X.src.cleaned) have uncorrected summaries (X.tgt)
    return path, _first_beside(path, [f"{before}.tgt{after}", f"{before}.tgt"], "summaries")


def _locate_duc(name: str, split: str) -> tuple[Path, ...]:
    if _is_list(name):
        source, *references = (_named(Path(part.strip()), "duc") for part in name.split(","))
    else:
        source = _file_of(name, split, _DUC, "duc")
        numbers = {}
        for path in source.parent.glob("task1_ref*.txt*"):
            number = _without_gz(path).removeprefix("task1_ref").removesuffix(".txt")
            if number.isdecimal():
                numbers[int(number)] = path
        references = [
            _first_beside(source, [f"task1_ref{number}.txt"], "references")
            for number in range(max(numbers, default=0) + 1)
        ]
    if len(references) < 2:
        raise ValueError(
            f"{name}: only one file of references ({references[0]}), but `data_format` 'duc' needs several: add "
            "task1_ref1.txt and so on, or set `data_format` to 'gigaword'"
        )
    return existing(source), *map(existing, references)


def _locate_stories(name: str, split: str) -> tuple[Path, ...]:
    stories: list[Path] = []
    for part in [name] if os.path.exists(name) else name.split(","):
        path = Path(part.strip())
        lists = [path / file for file in _ADDRESSES[split] if os.path.isfile(path / file)]
        if lists:
            stories += _listed_stories(lists[0])
        elif os.path.isdir(path):
            found = sorted(path.glob("*.story"))
            if not found:
                raise ValueError(f"{path} has no .story files: name the folder that does, such as cnn/stories")
            stories += found
        elif path.suffix == ".story":
            stories.append(_named(path, "cnn_dm"))
        else:
            stories += _listed_stories(_named(path, "cnn_dm"))
    return tuple(stories)


def _listed_stories(names: Path) -> Iterator[Path]:
    for number, line in read_lines(names):
        name = line.strip()
        if "://" in name:
            story = f"{hashlib.sha1(name.encode()).hexdigest()}.story"
            # the list may be in a subfolder for lists
            yield _first_file([top / part / story for top in names.parents[:2] for part in _STORIES], names, number)
        elif name:
            yield _first_file([names.parent / name], names, number)


def _first_file(paths: Sequence[Path], names: Path, number: int) -> Path:
    # os.path, as Path.is_file fails if the line is too long for a name
    found = next(filter(os.path.isfile, paths), None)
    if found is None:
        raise ValueError(
            f"{names}, line {number}: {paths[0]} does not exist: each line must name a .story file, relative to the "
            "list's folder, or the address of one in cnn/stories or dailymail/stories there"
        )
    return found


def _locate_xsum(name: str, split: str) -> tuple[Path, ...]:
    splits = _named(Path(name) / _XSUM_SPLITS, "xsum")
    try:
        files = [f"{number}.summary" for number in parse_json(splits.read_text(encoding="utf-8"))[split]]
    except (KeyError, OSError, TypeError, ValueError) as error:
        raise ValueError(f"{splits}: cannot be read ({one_line(error)}): copy it again") from None
    paths = tuple(splits.parent / _XSUM_TEXTS / file for file in files)
    missing = next((path for path in paths if not os.path.isfile(path)), None)
    if missing is not None:
        raise ValueError(f"{missing} does not exist, but is in {splits.name}: unpack the whole archive")
    return paths


def _file_of(name: str, split: str, names: Mapping[str, Sequence[str]], data_format: str) -> Path:
    """The file `name`, or the split's file in the folder `name`."""
    path = Path(name)
    if not os.path.isdir(path):
        return existing(_named(path, data_format))
    for candidate in names[split]:
        for file in (path / candidate, path / f"{candidate}.gz"):
            if file.exists():
                return existing(file)
    raise ValueError(
        f"{path} has no {' and no '.join(names[split])} (or .gz), the {split} split of `data_format` '{data_format}': "
        "name the file itself"
    )


def _named(path: Path, data_format: str) -> Path:
    if not os.path.exists(path):
        raise ValueError(f"{path} does not exist: for `data_format` '{data_format}', name {_WHAT_TO_NAME[data_format]}")
    return path


def _first_beside(path: Path, names: Sequence[str], what: str) -> Path:
    for name in names:
        for file in (path.with_name(name), path.with_name(f"{name}.gz")):
            if file.exists():
                return existing(file)
    raise ValueError(f"{path} has no {what} beside it: {path.with_name(names[0])} (or .gz) does not exist")


def _is_list(name: str) -> bool:
    return "," in name and not os.path.exists(name)


def _without_gz(path: Path) -> str:
    return path.name.removesuffix(".gz")


def _has_score(row: dict[str, Any], min_score: int, where: str) -> bool:
    # PART_I has no scores
    return "human_label" not in row or row["human_label"] >= min_score


def _is_in_bin(row: dict[str, Any], density_bin: str | None, where: str) -> bool:
    if density_bin is None:
        return True
    value = row.get("density_bin")
    if value not in DENSITY_BINS:
        found = f"'density_bin' is {value!r:.60}" if "density_bin" in row else "no column 'density_bin'"
        raise ValueError(
            f"{where}: {found}, but `density_bin` '{density_bin}' needs one of {', '.join(DENSITY_BINS)} there, as in "
            "the published files"
        )
    return value == density_bin


def _read_gigaword(paths: tuple[Path, ...], show_progress: bool = False) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows of articles and headlines, or of texts with several references."""
    return (read_rows if len(paths) == 2 else read_duc)(paths, show_progress)


@dataclass(frozen=True)
class DataFormat:
    """How to read a format.

    Args:
        locate: finds the files of a split by a file's or a folder's name.
        read: reads their rows with places, like `read_rows`; the second argument shows a progress bar.
        keeps: whether a row passes the format's option.
        separate: splits a document's text into a list of documents.
        is_on_hub: whether data sets on the Hub may have this format.
    """

    locate: Callable[[str, str], tuple[Path, ...]]
    read: Callable[[tuple[Path, ...], bool], Iterator[tuple[str, dict[str, Any]]]] = read_rows
    keeps: Callable[[dict[str, Any], Any, str], bool] = lambda row, option, where: True
    separate: Callable[[str], list[str]] | None = None
    is_on_hub: bool = False


DATA_FORMATS = {
    "gigaword": DataFormat(_locate_gigaword, _read_gigaword),
    "lcsts": DataFormat(lambda *name: (_file_of(*name, _LCSTS, "lcsts"),), read_lcsts, keeps=_has_score),
    "multi_news": DataFormat(_locate_multi_news, read_multi_news, separate=separate_documents, is_on_hub=True),
    "duc": DataFormat(_locate_duc, read_duc),
    "newsroom": DataFormat(
        lambda *name: locate(str(_file_of(*name, _NEWSROOM, "newsroom"))), keeps=_is_in_bin, is_on_hub=True
    ),
    "cnn_dm": DataFormat(_locate_stories, read_stories),
    "xsum": DataFormat(_locate_xsum, read_xsum),
}
_BY_ENDING = DataFormat(lambda name, split: locate(name), is_on_hub=True)
_WHAT_TO_NAME = {
    "gigaword": "a folder, an X.article.txt beside its X.title.txt, or 'articles.txt,headlines.txt'",
    "lcsts": "a folder or a PART_*.txt",
    "multi_news": "a folder, an X.src beside its X.tgt, or 'documents,summaries'",
    "duc": "a folder, its input.txt, or 'input,reference,reference,...'",
    "newsroom": "a folder or a .jsonl file",
    "cnn_dm": "folders of .story files, or a list of such files, one per line",
    "xsum": f"the folder of this list and of {_XSUM_TEXTS}",
}
