"""Finding the files of a corpus's split in the folders that its authors distribute.

Each `locate` function returns the files of a split. Its argument `name` is the name of a file, or of the distributed
folder. It raises a ValueError if a file is missing.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hf_summ.data.files import numbered_lines

# The ends of the names of a file and of its compressed copies.
_PACKED = ("", ".gz", ".bz2", ".xz")
# Split -> the names that its file may have in a distributed folder; the first file that exists is read.
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
# Split -> its name in the files of several corpora.
_STEMS = {"train": "train", "validation": "val", "test": "test"}
_MULTI_NEWS = {split: (f"{stem}.src.cleaned", f"{stem}.src", f"{stem}.txt.src") for split, stem in _STEMS.items()}
_DUC = dict.fromkeys(_STEMS, ("input.txt",))
_NEWSROOM = {"train": ("train.jsonl",), "validation": ("dev.jsonl",), "test": ("test.jsonl",)}
# Split -> the names that the list of its stories' addresses may have. The name of a story's file is the SHA-1 of its
# address.
_ADDRESSES = {split: (f"all_{stem}.txt", f"url_lists/all_{stem}.txt") for split, stem in _STEMS.items()}
_STORIES = ("cnn/stories", "dailymail/stories")
# Split -> its line-aligned files by Gehrmann et al. 2018, whose summaries have a tag before and after each sentence.
_TAGGED = {split: (f"{stem}.txt.src", f"{stem}.txt.tgt.tagged") for split, stem in _STEMS.items()}
_XSUM_SPLITS = "XSum-TRAINING-DEV-TEST-SPLIT-90-5-5.json"
_XSUM_TEXTS = "bbc-summary-data"
# Target language -> split -> the names of its files before their language.
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


def locate_gigaword(name: str, split: str) -> tuple[Path, ...]:
    """The files of articles and of their headlines (Rush et al. 2015), or those of DUC-2004, which comes with them."""
    articles = _split_file(name, split, _GIGAWORD)
    stem = unpacked(articles)
    if stem == "input.txt" and any(articles.parent.glob("task1_ref1.txt*")):
        # Gigaword's distribution contains DUC-2004, a test set with several references.
        return locate_duc(str(articles), split)
    titles = "task1_ref0.txt"
    if "article" in stem:
        titles = stem.replace("article", "title")
    return articles, _beside(articles, [titles], "headlines")


def locate_lcsts(name: str, split: str) -> tuple[Path, ...]:
    """The part of LCSTS (Hu et al. 2015)."""
    return (_split_file(name, split, _LCSTS),)


def locate_multi_news(name: str, split: str) -> tuple[Path, ...]:
    """The files of documents and of their summaries (Fabbri et al. 2019)."""
    path = _split_file(name, split, _MULTI_NEWS)
    stem, _, ending = unpacked(path).rpartition(".src")
    # Corrected documents, X.src.cleaned, belong to the uncorrected summaries, X.tgt.
    return path, _beside(path, [f"{stem}.tgt{ending}", f"{stem}.tgt"], "summaries")


def locate_duc(name: str, split: str) -> tuple[Path, ...]:
    """The file of the documents, and as many files of references as there are."""
    source = _split_file(name, split, _DUC)
    last = 0
    for file in source.parent.glob("task1_ref*.txt*"):
        number = unpacked(file).removeprefix("task1_ref").removesuffix(".txt")
        if number.isdecimal():
            last = max(last, int(number))
    files = [source]
    for number in range(last + 1):
        files.append(_beside(source, [f"task1_ref{number}.txt"], "references"))
    return tuple(files)


def locate_newsroom(name: str, split: str) -> tuple[Path, ...]:
    """The file of rows."""
    return (_split_file(name, split, _NEWSROOM),)


def locate_stories(name: str, split: str) -> tuple[Path, ...]:
    """The files of CNN/DailyMail's stories (Hermann et al. 2015), or the two aligned files of Gehrmann et al. 2018.

    Args:
        name: a story, a list of stories, or a folder of stories or with a list of them; several are separated by
            commas. Aligned files are given by their folder.
    """
    documents, summaries = _TAGGED[split]
    if os.path.isfile(os.path.join(name, documents)):
        return Path(name, documents), _existing(Path(name, summaries))
    given = [name] if os.path.exists(name) else name.split(",")
    stories: list[Path] = []
    for file in given:
        path = Path(file.strip())
        lists = [path / addresses for addresses in _ADDRESSES[split] if os.path.isfile(path / addresses)]
        if lists:
            stories.extend(_listed_stories(lists[0]))
        elif os.path.isdir(path):
            # macOS makes hidden copies of stories, which are skipped.
            stories.extend(sorted(path.glob("[!.]*.story")))
        elif path.suffix == ".story":
            stories.append(_existing(path))
        else:
            stories.extend(_listed_stories(_existing(path)))
    return tuple(stories)


def _listed_stories(names: Path) -> Iterator[Path]:
    """Yield the files of the stories in a list, which has a file's name or an address in each line."""
    for number, line in numbered_lines(names):
        name = line.strip()
        if not name:
            continue
        files = [names.parent / name]
        if "://" in name:
            story = f"{hashlib.sha1(name.encode()).hexdigest()}.story"
            files = []
            # The folders of stories are beside the list, or beside the folder of the list.
            for top in names.parents[:2]:
                files.extend([top / folder / story for folder in _STORIES])
        existing = [file for file in files if os.path.isfile(file)]
        if not existing:
            raise ValueError(f"{names}, line {number}: {files[0]} does not exist: name a .story file or its address")
        yield existing[0]


def locate_xsum(name: str, split: str) -> tuple[Path, ...]:
    """The files of the pages that the list of splits names (Narayan et al. 2018); `name` is the folder."""
    splits = _existing(Path(name) / _XSUM_SPLITS)
    try:
        numbers = json.loads(splits.read_text(encoding="utf-8"))[split]
    except (KeyError, ValueError) as error:
        raise ValueError(f"{splits} has no list of the {split} split ({error!r}): copy it again") from None
    return tuple(splits.parent / _XSUM_TEXTS / f"{number}.summary" for number in numbers)


def locate_wmt16(language: str, name: str, split: str) -> tuple[Path, ...]:
    """The files of sentences, each followed by the file of their translations; the files are anywhere in a folder.

    Args:
        language: the code of the target language.
        name: the folder.
    """
    files: list[Path] = []
    for stem in _WMT16[language][split]:
        # A text is a plain file or one of SGML, whose name also says whether it is the source or the reference.
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
    """The file `name` or, if it is a folder, the split's first existing file in it.

    Args:
        names: split -> the names that its file may have.
    """
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
    """The path of a file; a ValueError if it does not exist."""
    if not path.is_file():
        raise ValueError(f"{path} does not exist")
    return path


def _beside(path: Path, names: Sequence[str], content: str) -> Path:
    """The first file of these names, perhaps compressed, in the folder of `path`; a ValueError if there is none.

    Args:
        content: what the file has, for the message.
    """
    for name in names:
        for ending in _PACKED:
            file = path.with_name(f"{name}{ending}")
            if file != path and file.exists():
                return file
    raise ValueError(f"{path} has no {content} beside it: {path.with_name(names[-1])} does not exist")


def unpacked(path: Path) -> str:
    """The name of a file without the extension of its compression, if it has one."""
    if path.suffix in _PACKED:
        return path.stem
    return path.name
