"""Data sets as their makers distribute them: where each one's files are, how they are read, and which rows count."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hf_summ.common.messages import unknown_choice
from hf_summ.data.raw_readers import read_duc, read_lcsts, read_multi_news, read_stories, separate_documents
from hf_summ.data.rows import ROW_FILES, existing, kind_of_file, locate, read_lines, read_rows

DENSITY_BINS = ("abstractive", "mixed", "extractive")
LCSTS_SCORES = (1, 5)
# as the published test set was made (Hu et al. 2015)
_LCSTS_MIN_SCORE = 3
# each split's names in the folder of a distribution, the first that is there being taken
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


def check_format(data_format: str | None, min_score: int | None = None, density_bin: str | None = None) -> Any:
    """The value of the option that a format has: the one given, or its default.

    Raises:
        ValueError: there is no such format, the option is another format's, or its value is none that can occur.
    """
    format_of(data_format)
    for name, value, owner in (("min_score", min_score, "lcsts"), ("density_bin", density_bin, "newsroom")):
        if value is not None and data_format != owner:
            raise ValueError(
                f"{name} ({value}) is an option of data_format {owner}, and data_format is "
                f"{data_format or 'not given'}: leave it out, or give data_format {owner}"
            )
    least, most = LCSTS_SCORES
    if min_score is not None and not least <= min_score <= most:
        raise ValueError(f"min_score is {min_score}, but the scores of LCSTS are {least} to {most}")
    if density_bin is not None and density_bin not in DENSITY_BINS:
        raise ValueError(unknown_choice("density_bin", density_bin, DENSITY_BINS))
    if data_format == "lcsts":
        return _LCSTS_MIN_SCORE if min_score is None else min_score
    return density_bin


def format_of(data_format: str | None) -> "DataFormat":
    """The format of this name; without one, that of files whose ending says how to read them.

    Raises:
        ValueError: there is no such format; the nearest is named.
    """
    if data_format is None:
        return _BY_ENDING
    if data_format not in DATA_FORMATS:
        raise ValueError(unknown_choice("data_format", data_format, DATA_FORMATS))
    return DATA_FORMATS[data_format]


def _locate_by_ending(name: str, split: str) -> tuple[Path, ...]:
    return locate(name)


def _locate_gigaword(name: str, split: str) -> tuple[Path, ...]:
    if _is_list(name):
        return locate(name)
    articles = _file_of(name, split, _GIGAWORD, "gigaword")
    stem = _without_gz(articles)
    if "article" in stem:
        return articles, _first_beside(articles, [stem.replace("article", "title")], "headlines")
    if stem == "input.txt":
        return articles, _first_beside(articles, ["task1_ref0.txt"], "headlines")
    raise ValueError(
        f"{articles}: cannot tell where its headlines are: name an X.article.txt with its X.title.txt, an input.txt "
        "with its task1_ref0.txt, their folder, or 'articles.txt,headlines.txt'"
    )


def _locate_lcsts(name: str, split: str) -> tuple[Path, ...]:
    return (_file_of(name, split, _LCSTS, "lcsts"),)


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
            f"{path}: cannot tell where its summaries are: name an X.src with its X.tgt, their folder, "
            f"'documents,summaries', or one file of {', '.join(ROW_FILES)}"
        )
    # the corrected documents (X.src.cleaned) stand beside summaries that needed no correction (X.tgt)
    return path, _first_beside(path, [f"{before}.tgt{after}", f"{before}.tgt"], "summaries")


def _locate_newsroom(name: str, split: str) -> tuple[Path, ...]:
    return locate(str(_file_of(name, split, _NEWSROOM, "newsroom")))


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
            f"{name}: only one file of references ({references[0]}), and the duc format is for several: add "
            "task1_ref1.txt and on, or read it as data_format gigaword"
        )
    return existing(source), *map(existing, references)


def _locate_stories(name: str, split: str) -> tuple[Path, ...]:
    stories: list[Path] = []
    for part in [name] if Path(name).exists() else name.split(","):
        path = Path(part.strip())
        if path.is_dir():
            found = sorted(path.glob("*.story"))
            if not found:
                raise ValueError(f"{path} holds no .story file: name the folder that does, such as cnn/stories")
            stories += found
        elif path.suffix == ".story":
            stories.append(_named(path, "cnn_dm"))
        else:
            stories += _listed_stories(_named(path, "cnn_dm"))
    return tuple(stories)


def _listed_stories(names: Path) -> Iterator[Path]:
    for number, line in read_lines(names):
        if line.strip():
            story = names.parent / line.strip()
            if not story.is_file():
                raise ValueError(
                    f"{names}, line {number}: {story} is not there: each line names a .story file, as seen from "
                    "the list's own folder"
                )
            yield story


def _file_of(name: str, split: str, names: Mapping[str, Sequence[str]], data_format: str) -> Path:
    """The file that `name` says, or that a folder of this name holds for the split."""
    path = Path(name)
    if not path.is_dir():
        return existing(_named(path, data_format))
    for candidate in names[split]:
        for file in (path / candidate, path / f"{candidate}.gz"):
            if file.exists():
                return existing(file)
    raise ValueError(
        f"{path} holds no {' and no '.join(names[split])} (or .gz), where data_format {data_format} looks for the "
        f"{split} part: name the file itself"
    )


def _named(path: Path, data_format: str) -> Path:
    if not path.exists():
        raise ValueError(f"{path} is not there. For data_format {data_format} name {_WHAT_TO_NAME[data_format]}")
    return path


def _first_beside(path: Path, names: Sequence[str], what: str) -> Path:
    for name in names:
        for file in (path.with_name(name), path.with_name(f"{name}.gz")):
            if file.exists():
                return existing(file)
    raise ValueError(f"{path} has no {what} beside it: {path.with_name(names[0])} (or .gz) is not there")


def _is_list(name: str) -> bool:
    return "," in name and not Path(name).exists()


def _without_gz(path: Path) -> str:
    return path.name.removesuffix(".gz")


def _keeps_all(row: dict[str, Any], option: Any, where: str) -> bool:
    return True


def _has_score(row: dict[str, Any], min_score: int, where: str) -> bool:
    # PART_I is not scored
    return "human_label" not in row or row["human_label"] >= min_score


def _is_in_bin(row: dict[str, Any], density_bin: str | None, where: str) -> bool:
    if density_bin is None:
        return True
    value = row.get("density_bin")
    if value not in DENSITY_BINS:
        found = f"'density_bin' is {value!r:.60}" if "density_bin" in row else "no 'density_bin' in this row"
        raise ValueError(
            f"{where}: {found}, and density_bin {density_bin} goes by it: in the files of the release "
            f"it is one of {', '.join(DENSITY_BINS)}"
        )
    return value == density_bin


@dataclass(frozen=True)
class DataFormat:
    """What is particular to a distribution.

    Args:
        locate: the files that a name, perhaps a folder's, means for a split.
        read: their rows with places, as `read_rows` gives them; the second argument shows a progress bar.
        keeps: whether a row passes the format's option.
        separate: cuts a document's text into the list of documents.
        is_on_hub: whether data sets on the Hub come in this format too.
    """

    locate: Callable[[str, str], tuple[Path, ...]]
    read: Callable[[tuple[Path, ...], bool], Iterator[tuple[str, dict[str, Any]]]] = read_rows
    keeps: Callable[[dict[str, Any], Any, str], bool] = _keeps_all
    separate: Callable[[str], list[str]] | None = None
    is_on_hub: bool = False


DATA_FORMATS = {
    "gigaword": DataFormat(_locate_gigaword),
    "lcsts": DataFormat(_locate_lcsts, read_lcsts, keeps=_has_score),
    "multi_news": DataFormat(_locate_multi_news, read_multi_news, separate=separate_documents, is_on_hub=True),
    "duc": DataFormat(_locate_duc, read_duc),
    "newsroom": DataFormat(_locate_newsroom, keeps=_is_in_bin, is_on_hub=True),
    "cnn_dm": DataFormat(_locate_stories, read_stories),
}
_BY_ENDING = DataFormat(_locate_by_ending, is_on_hub=True)
_WHAT_TO_NAME = {
    "gigaword": "a folder, an X.article.txt with X.title.txt beside it, or 'articles.txt,headlines.txt'",
    "lcsts": "a folder or a PART_*.txt",
    "multi_news": "a folder, an X.src with X.tgt beside it, or 'documents,summaries'",
    "duc": "a folder, its input.txt, or 'input,reference,reference,...'",
    "newsroom": "a folder or a .jsonl file",
    "cnn_dm": "folders of .story files, or a list of such files, a name a line",
}
