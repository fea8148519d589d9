"""Finding the files of a split in the folder or the files that the authors of a corpus distribute.

Each function `locate_...` has these arguments and results, unless its docstring says otherwise:

- `name` is the path of the distributed folder, or of one file of the split, beside which its other files are.
- `split` is train, validation or test.
- The result is the tuple of the paths of all files of the split. A file may be compressed (.gz, .bz2 or .xz).
- A ValueError is raised if a file is missing; its message names the file.

Two files are line-aligned if the same line of both belongs to the same example.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hf_summ.data.files import numbered_lines

# The ends of a file's name: nothing if the file is not compressed, or the extension of the compression.
_COMPRESSION_ENDINGS = ("", ".gz", ".bz2", ".xz")
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
# Split -> the name of the split in the names of files, in several corpora.
_STEMS = {"train": "train", "validation": "val", "test": "test"}
_MULTI_NEWS = {split: (f"{stem}.src.cleaned", f"{stem}.src", f"{stem}.txt.src") for split, stem in _STEMS.items()}
_DUC = dict.fromkeys(_STEMS, ("input.txt",))
_NEWSROOM = {"train": ("train.jsonl",), "validation": ("dev.jsonl",), "test": ("test.jsonl",)}
# Split -> the names that its list of stories may have. A story is an article of CNN or the Daily Mail with highlights.
# The list has the web address of a story in each line, and the story is in a file named after the SHA-1 of the address.
_ADDRESSES = {split: (f"all_{stem}.txt", f"url_lists/all_{stem}.txt") for split, stem in _STEMS.items()}
# The folders of stories.
_STORIES = ("cnn/stories", "dailymail/stories")
# Split -> its files of documents and of summaries by Gehrmann et al. 2018, which are line-aligned. Their summaries have
# a tag before and after each sentence.
_TAGGED = {split: (f"{stem}.txt.src", f"{stem}.txt.tgt.tagged") for split, stem in _STEMS.items()}
# The file with the numbers of the pages of each split, and the folder of the pages.
_XSUM_SPLITS = "XSum-TRAINING-DEV-TEST-SPLIT-90-5-5.json"
_XSUM_TEXTS = "bbc-summary-data"
# Target language -> split -> the names of the files of the split, without the language at their ends. * stands for any
# characters.
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
    """Locate Gigaword (Rush et al. 2015): a file of articles, and the line-aligned file of their headlines.

    Gigaword's authors also distribute DUC-2004, a test set with several references for each article. If the file of
    articles belongs to DUC-2004, the files are located by `locate_duc`.
    """
    articles = _split_file(name, split, _GIGAWORD)
    articles_name = unpacked(articles)
    # The test sets of Gigaword and of DUC-2004 have the same names of files, but only DUC-2004 has a second reference.
    if articles_name == "input.txt" and any(articles.parent.glob("task1_ref1.txt*")):
        return locate_duc(str(articles), split)
    if "article" in articles_name:
        headlines_name = articles_name.replace("article", "title")
    else:
        # The articles of the test set are in input.txt, and their headlines in this file.
        headlines_name = "task1_ref0.txt"
    return articles, _file_in_same_folder(articles, [headlines_name], "headlines")


def locate_lcsts(name: str, split: str) -> tuple[Path, ...]:
    """Locate LCSTS (Hu et al. 2015): a single file, PART_I.txt, PART_II.txt or PART_III.txt."""
    return (_split_file(name, split, _LCSTS),)


def locate_multi_news(name: str, split: str) -> tuple[Path, ...]:
    """Locate Multi-News (Fabbri et al. 2019): a file of documents, and the line-aligned file of their summaries."""
    documents = _split_file(name, split, _MULTI_NEWS)
    # The version is ".cleaned" or empty.
    stem, source, version = unpacked(documents).rpartition(".src")
    if not source:
        raise ValueError(f"{documents} has no summaries beside it: it must have .src in its name, in place of .tgt")
    # The authors corrected only documents. So the summaries of X.src.cleaned are usually in X.tgt.
    summary_names = [f"{stem}.tgt{version}", f"{stem}.tgt"]
    return documents, _file_in_same_folder(documents, summary_names, "summaries")


def locate_duc(name: str, split: str) -> tuple[Path, ...]:
    """Locate DUC: the file of the documents, and the line-aligned files of references, task1_ref0.txt and so on.

    References are the human-written summaries of a document, one in each file of references. The files of references
    are numbered from 0 on, and a ValueError is raised if a number below the largest one has no file.
    """
    documents = _split_file(name, split, _DUC)
    largest_number = 0
    for file in documents.parent.glob("task1_ref*.txt*"):
        number = unpacked(file).removeprefix("task1_ref").removesuffix(".txt")
        if number.isdecimal():
            largest_number = max(largest_number, int(number))
    files = [documents]
    for reference in range(largest_number + 1):
        files.append(_file_in_same_folder(documents, [f"task1_ref{reference}.txt"], "references"))
    return tuple(files)


def locate_newsroom(name: str, split: str) -> tuple[Path, ...]:
    """Locate Newsroom: a single file of rows, train.jsonl, dev.jsonl or test.jsonl."""
    return (_split_file(name, split, _NEWSROOM),)


def locate_stories(name: str, split: str) -> tuple[Path, ...]:
    """Locate CNN/DailyMail: the files of stories (Hermann et al. 2015), or two line-aligned files.

    Gehrmann et al. 2018 distribute the line-aligned files, one of documents and one of summaries.

    Args:
        name: the folder of the line-aligned files. Otherwise it is one or several of the following, separated by
            commas: a file of one story (.story), a list of stories, a folder with such a list, or a folder of stories.
        split: train, validation or test. It selects a list of stories, or the line-aligned files, among those in a
            folder. If a folder has no list, all its stories are returned for each split.
    """
    documents, summaries = _TAGGED[split]
    if os.path.isfile(os.path.join(name, documents)):
        return Path(name, documents), _existing_file(Path(name, summaries))
    # A comma may also be a part of the name of a single file or folder, which then exists.
    parts = [name] if os.path.exists(name) else name.split(",")
    stories: list[Path] = []
    for part in parts:
        path = Path(part.strip())
        lists = [path / addresses for addresses in _ADDRESSES[split] if os.path.isfile(path / addresses)]
        if lists:
            stories.extend(_listed_stories(lists[0]))
        elif os.path.isdir(path):
            # macOS makes hidden copies of stories, which are skipped.
            stories.extend(sorted(path.glob("[!.]*.story")))
        elif path.suffix == ".story":
            stories.append(_existing_file(path))
        else:
            stories.extend(_listed_stories(_existing_file(path)))
    return tuple(stories)


def _listed_stories(names: Path) -> Iterator[Path]:
    """Yield the paths of the stories in a list.

    Args:
        names: the list, a file with the name of a story's file, or the web address of a story, in each line. Names of
            files are relative to the folder of the list. Blank lines are skipped.

    Raises:
        ValueError: a story is missing. The message names the line, and the first place at which the story is expected.
    """
    for line_number, line in numbered_lines(names):
        name = line.strip()
        if not name:
            continue
        candidates: list[Path] = []
        if "://" in name:
            story = f"{hashlib.sha1(name.encode()).hexdigest()}.story"
            # The folders of stories are beside the list, or beside the folder of the list.
            for top in names.parents[:2]:
                candidates.extend([top / folder / story for folder in _STORIES])
        else:
            candidates.append(names.parent / name)
        existing = [file for file in candidates if os.path.isfile(file)]
        if not existing:
            raise ValueError(
                f"{names}, line {line_number}: {candidates[0]} does not exist: name a .story file or its address"
            )
        yield existing[0]


def locate_xsum(name: str, split: str) -> tuple[Path, ...]:
    """Locate XSum (Narayan et al. 2018): a file for each page of the split, in the order of the list of splits.

    The files of pages are not looked for, as there are more than 200,000.

    Args:
        name: the distributed folder.
        split: train, validation or test.

    Raises:
        ValueError: the folder has no list of splits, or the list lacks the split or is damaged.
    """
    splits = _existing_file(Path(name) / _XSUM_SPLITS)
    try:
        page_numbers = json.loads(splits.read_text(encoding="utf-8"))[split]
    except (KeyError, ValueError) as error:
        raise ValueError(f"{splits} has no list of the {split} split ({error!r}): copy it again") from None
    return tuple(splits.parent / _XSUM_TEXTS / f"{number}.summary" for number in page_numbers)


def locate_wmt16(language: str, name: str, split: str) -> tuple[Path, ...]:
    """Locate WMT 2016: files of English sentences, each followed by the line-aligned file of their translations.

    Args:
        language: the code of the target language: de or ro.
        name: a folder. The files are anywhere in it or its subfolders.
        split: train, validation or test.

    Raises:
        ValueError: a file is missing. The message names the folder and the file's possible names.
    """
    files: list[Path] = []
    for stem in _WMT16[language][split]:
        # A file is plain or in SGML. The name of an SGML file also says whether the file has sources (src) or
        # translations (ref).
        for code, role in (("en", "src"), (language, "ref")):
            names = [f"{stem}.{code}", f"{stem}-{role}.{code}.sgm"]
            candidates: list[Path] = []
            for file in names:
                for ending in _COMPRESSION_ENDINGS:
                    candidates.extend(sorted(Path(name).rglob(f"{file}{ending}")))
            if not candidates:
                raise ValueError(f"{name} has no {' and no '.join(names)}, the {split} split: unpack it there")
            files.append(candidates[0])
    return tuple(files)


def _split_file(name: str, split: str, names: Mapping[str, Sequence[str]]) -> Path:
    """The path of the file of a split.

    Args:
        name: the file, or the folder that contains it.
        split: train, validation or test.
        names: split -> the names that the split's file may have in the folder, without the extension of a compression.
            The first file that exists is returned.

    Raises:
        ValueError: there is no such file.
    """
    path = Path(name)
    if not os.path.isdir(path):
        return _existing_file(path)
    for file in names[split]:
        for ending in _COMPRESSION_ENDINGS:
            candidate = path / f"{file}{ending}"
            if candidate.exists():
                return candidate
    raise ValueError(f"{path} has no {' and no '.join(names[split])}, the {split} split: name the file")


def _existing_file(path: Path) -> Path:
    """Return the path of a file unchanged, if the file exists.

    Raises:
        ValueError: the file does not exist.
    """
    if not path.is_file():
        raise ValueError(f"{path} does not exist")
    return path


def _file_in_same_folder(documents: Path, names: Sequence[str], content: str) -> Path:
    """The path of the file of summaries that stands in the folder of the file of documents.

    Args:
        documents: the file of documents.
        names: the names that the file of summaries may have, at least one, without the extension of a compression. The
            first file that exists is returned.
        content: what the summaries are called in the message, such as "headlines".

    Raises:
        ValueError: there is no such file. The message shows the last of `names`.
    """
    for name in names:
        for ending in _COMPRESSION_ENDINGS:
            candidate = documents.with_name(f"{name}{ending}")
            # A user may give the summaries instead of the documents. They must not become the summaries of themselves.
            if candidate != documents and candidate.exists():
                return candidate
    raise ValueError(f"{documents} has no {content} beside it: {documents.with_name(names[-1])} does not exist")


def unpacked(path: Path) -> str:
    """The name of a file, without its folder and without the extension of a compression."""
    if path.suffix in _COMPRESSION_ENDINGS:
        return path.stem
    return path.name
