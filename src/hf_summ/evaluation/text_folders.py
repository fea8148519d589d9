"""Folders that have a text in each file, as for ROUGE's script: the order, ids and references of the texts."""

import os
import re
from pathlib import Path

from hf_summ.data.files import is_row_file, is_saved

# The part of a file's name that tells references of the same text apart: a capital letter between stops.
_LETTER = re.compile(r"(?:^|(?<=\.))[A-Z](?:\.|$)")


def is_folder_of_texts(name: str) -> bool:
    """Whether a path is a folder of texts: a folder that has no files of rows, and that `datasets` did not save."""
    if not os.path.isdir(name) or is_saved(name):
        return False
    return not any(is_row_file(os.path.join(name, file)) for file in os.listdir(name))


def read_folder(folder: str, has_references: bool, encoding: str | None) -> tuple[list[list[str]], list[str]]:
    """The texts of a folder's files, in the order of the numbers in the files' names.

    ROUGE's script pairs files by these numbers too. References whose names differ in a capital letter between stops,
    such as D30002.M.100.T.C and D30002.M.100.T.E, belong to the same text, and so to one row.

    Args:
        folder: the folder, whose hidden files are passed over.
        has_references: whether the files are references.
        encoding: encoding of the files; UTF-8 by default.

    Returns:
        The texts of each of the N rows, at least one, and the ids, (N,). An id is the numbers in the file's name, or
        the whole name if some files have the same numbers.

    Raises:
        ValueError: the folder has no files, or a file is not in the encoding.
    """
    files_of_names = _files_of_names(folder, has_references)
    if not files_of_names:
        raise ValueError(f"{folder} is a folder without files")
    names = sorted(files_of_names, key=_numbers)
    ids = []
    rows = []
    for name in names:
        ids.append(_id_of_name(name))
        rows.append([whole_text(file, encoding).strip() for file in files_of_names[name]])
    if len(set(ids)) < len(ids):
        # Several names have the same numbers, for example the date of a day with several texts.
        ids = names
    return rows, ids


def _files_of_names(folder: str, has_references: bool) -> dict[str, list[Path]]:
    """Name of a text -> the files of the text, in the order of the files' names.

    The name of a text is the name of its file. For references, the name lacks the capital letter between stops, so that
    several references of a text have the same name.
    """
    files_of_names: dict[str, list[Path]] = {}
    for file in sorted(Path(folder).iterdir()):
        if not file.is_file() or file.name.startswith("."):
            continue
        name = file.name
        if has_references:
            shared_name = _LETTER.sub("", name)
            # Without numbers, such as in A.txt and B.txt, the letter may be all that tells the texts apart.
            if _numbers(shared_name):
                name = shared_name
        files_of_names.setdefault(name, []).append(file)
    return files_of_names


def _id_of_name(name: str) -> str:
    """The id of a text: the numbers in the name without leading zeros, or else the name without its extension."""
    numbers = _numbers(name)
    if numbers:
        return " ".join([str(number) for number in numbers])
    return Path(name).stem


def _numbers(name: str) -> list[int]:
    """The numbers in a file's name, from left to right.

    The extension counts only if it is the only number in the name, as in sys.1 and ref.A.1.
    """
    stem, extension = os.path.splitext(name)
    numbers = re.findall(r"\d+", stem)
    if not numbers and extension[1:].isdecimal():
        numbers = [extension[1:]]
    return [int(digits) for digits in numbers]


def whole_text(file: Path, encoding: str | None = None) -> str:
    """The content of a file, by default in UTF-8.

    Raises:
        OSError: there is no such file, or it is a folder.
        ValueError: the file is not in the encoding, or there is no such encoding.
    """
    try:
        return file.read_text(encoding or "utf-8-sig")
    except (UnicodeDecodeError, LookupError) as error:
        # Neither error names the file.
        raise ValueError(f"{file}: cannot be read: {error}") from error
