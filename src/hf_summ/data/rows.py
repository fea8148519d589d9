"""Rows of corpus files, read one at a time, with their positions in the file."""

import bz2
import codecs
import csv
import gzip
import io
import json
import logging
import lzma
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from glob import glob, has_magic
from itertools import chain, dropwhile, zip_longest
from pathlib import Path
from typing import IO, Any

from hf_summ.common.messages import progress_bar
from hf_summ.common.records import parse_json
from hf_summ.data.former_columns import DOCUMENT_COLUMNS, PREDICTION_COLUMNS, SUMMARY_COLUMNS
from hf_summ.models.text_documents import readable

logger = logging.getLogger(__name__)

# in bytes; a whole corpus may be a list in a single line, which needs several times its size in memory
_LONGEST_LINE = 2**30
ROW_FILES = (".json", ".jsonl", ".csv", ".tsv", ".parquet", ".arrow")
_OTHER_NAMES = {".ndjson": ".jsonl", ".jsonlines": ".jsonl", ".tab": ".tsv", ".pq": ".parquet", ".feather": ".arrow"}
# extensions that rows may have as well as texts: the files of arXiv and PubMed are .txt, those of BigPatent .gz
_UNTOLD = ("", ".txt")


def _open_zst(raw: IO[bytes]) -> IO[bytes]:
    # imported here, as it is slow
    import pyarrow as pa

    return io.BufferedReader(pa.CompressedInputStream(pa.PythonFile(raw), "zstd"))


# extension -> what decompresses such a file, in pieces, as a small one may contain a line that fills the memory
_COMPRESSED = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open, ".zst": _open_zst}
# the ends of the names of a text and of its compressed copies
PACKED = ("", *_COMPRESSED)
# the first bytes of files that are no text, and what they are
_BINARY = {
    b"%PDF-": "a PDF document",
    b"PK\3\4": "a ZIP archive, such as .docx, .xlsx, .odt and .epub",
    b"\xd0\xcf\x11\xe0": "a document of older Office programs",
    b"{\\rtf": "an RTF document",
    b"\x1f\x8b": "compressed by gzip",
    b"BZh": "compressed by bzip2",
    b"\xfd7zXZ\0": "compressed by xz",
    b"(\xb5/\xfd": "compressed by Zstandard",
    b"PAR1": "a Parquet file",
    b"ARROW1": "an Arrow file",
}
# before text in UTF-16, as PowerShell writes it
UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# separators of the fields of a .csv file; the most frequent in its header is used
_SEPARATORS = ",;\t|"
# a line before the header, which names the separator to Excel
_EXCEL_LINE = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)
# no decoded text has it
_RETURN = "\ud800"
_QUOTED = re.compile(r'"(?:[^"]|"")*+"')

# the capital that tells a reference from others, between stops
_LETTER = re.compile(r"(?:^|(?<=\.))[A-Z](?:\.|$)")
# a row's position, such as `line 7`, and its values
Rows = Iterator[tuple[str, dict[str, Any]]]
# a row's position, and a function that reads it, which raises a ValueError if the row is unreadable
UnreadRows = Iterator[tuple[str, Callable[[], dict[str, Any]]]]


def _named(name: str) -> list[Path]:
    return [Path(file.strip()) for file in name.split(",")]


def locate(name: str) -> tuple[Path, ...]:
    """The file `name`, the files of rows that match it as a pattern, two line-aligned files, or folders of texts."""
    paths = _named(name)
    if len(paths) > 1 and all(map(os.path.isdir, paths)):
        return tuple(paths)
    if len(paths) == 2 and not os.path.exists(name):
        if any(kind_of_file(path) in ROW_FILES for path in paths):
            raise ValueError(f"{name}: a pair must be two line-aligned plain texts: name one file of rows")
        return tuple(map(existing, paths))
    paths = [existing(path) for path in matching(name)]
    if len(paths) == 1 and kind_of_file(paths[0]) == ".source":
        return paths[0], beside(paths[0], [Path(unpacked(paths[0])).with_suffix(".target").name], "summaries")
    for path in paths:
        if kind_of_file(path) not in ROW_FILES:
            raise ValueError(
                f"{path}: unknown file type: name a {', '.join(ROW_FILES[:-1])} or "
                f"{ROW_FILES[-1]} file, an X.source beside its X.target, 'documents.txt,summaries.txt' (line-aligned), "
                "or two folders; text also as .gz, .bz2, .xz or .zst"
            )
    return tuple(paths)


def matching(name: str) -> list[Path]:
    """The files that match a pattern such as `news/*.jsonl.gz`, sorted; without any, the path of the name itself."""
    # os.path, as Path's methods fail on names that are too long
    files = glob(name, recursive=True) if has_magic(name) and not os.path.exists(name) else []
    # a pattern without files is reported like a name
    return sorted(map(Path, filter(os.path.isfile, files))) or [Path(name)]


def check_is_plain(name: str | Path, start: bytes) -> None:
    """Raise a ValueError if a file's first bytes are those of another format."""
    for first, format in _BINARY.items():
        if start.startswith(first):
            raise ValueError(f"{name} is {format}: convert it to text")


def existing(path: Path) -> Path:
    """`path`, if it is a file that is not empty."""
    # os.path, as Path's methods fail on names that are too long
    if saved_files(path):
        return path
    if os.path.isdir(path):
        problem = "is a folder: name a file in it, two folders of texts, or the `data_format` of the corpus"
    elif not os.path.isfile(path):
        # Path joins the slashes of a URL, and drives have one letter
        scheme, slash, rest = str(path).partition(":/")
        if slash and len(scheme) > 1:
            raise ValueError(f"{scheme}://{rest:.255} is a URL: download it, and name the file")
        problem = "does not exist: name a file"
    elif not path.stat().st_size:
        problem = "is empty: it must have at least one row"
    else:
        return path
    raise ValueError(f"{path} {problem}")


def beside(path: Path, names: Sequence[str], content: str) -> Path:
    """The first other file of these names, perhaps compressed, in the folder of `path`."""
    files = [path.with_name(f"{name}{ending}") for name in names for ending in PACKED]
    for file in files:
        if file != path and file.exists():
            return existing(file)
    raise ValueError(f"{path} has no {content} beside it: {path.with_name(names[-1])} does not exist")


def unpacked(path: Path) -> str:
    """The name of a file before its compression."""
    return path.stem if path.suffix in _COMPRESSED else path.name


def saved_files(path: Path) -> list[Path]:
    """The files of a split that `save_to_disk` of `datasets` wrote to the folder `path`, if it is such a folder."""
    state = os.path.join(path, "state.json")
    if not os.path.isfile(state):
        return []
    files = parse_json(Path(state).read_text(encoding="utf-8")).get("_data_files", [])
    return [path / file["filename"] for file in files]


def kind_of_file(path: Path) -> str:
    """The extension that tells how to read a file, before one of compression; a folder of `save_to_disk` is .arrow.

    Other names with .txt or without an extension are .jsonl if the first line is an object.
    """
    if saved_files(path):
        return ".arrow"
    extension = Path(unpacked(path)).suffix.lower()
    if extension in _UNTOLD and os.path.isfile(path):
        # a file of another format is reported where it is read
        with suppress(ValueError):
            if isinstance(parse_json(next(read_lines(path), (1, ""))[1]), dict):
                return ".jsonl"
    return _OTHER_NAMES.get(extension, extension)


def has_rows(name: str) -> bool:
    """Whether a file has rows, or folders, separated by commas, have a text in each file."""
    return kind_of_file(Path(name)) in ROW_FILES or all(map(os.path.isdir, _named(name)))


def read_rows(paths: tuple[Path, ...], show_progress: bool = False) -> Rows:
    """Each row of the files that `locate` returns, and its position: `line 7`, or `row 7` in a .json list.

    Of several files, the position begins with the file's name. Line-aligned pairs, and pairs of folders with a text in
    each file, yield rows of `document` and `summary`. Byte-order marks and both kinds of line end are accepted. Blank
    lines are skipped, except in pairs, where every line counts.
    """
    if kind_of_file(paths[0]) in ROW_FILES:
        names = [f"{path.name}, " if len(paths) > 1 else "" for path in paths]
        return (
            (name + position, read())
            for name, path in zip(names, paths, strict=True)
            for position, read in unread_rows(path, show_progress)
        )
    if os.path.isdir(paths[0]):
        return _read_folders(paths)
    lines = read_aligned(paths, show_progress)
    return ((f"line {number}", {"document": document, "summary": summary}) for number, (document, summary) in lines)


def unread_rows(path: Path, show_progress: bool = False) -> UnreadRows:
    """The position of each row of a file of rows as in `read_rows`, and a function that reads the row.

    Rows can thus be skipped without parsing them, and an unreadable row does not end the iteration: its function raises
    the ValueError that `read_rows` would raise.
    """
    extension = kind_of_file(path)
    if extension in (".parquet", ".arrow"):
        # imported here, as it is slow
        from hf_summ.data.streams import table_rows

        return table_rows(path)
    return (_csv_rows if extension in (".csv", ".tsv") else _json_rows)(path, show_progress)


def read_lines(path: Path, show_progress: bool = False) -> Iterator[tuple[int, str]]:
    """Number and text of each line in UTF-8 or UTF-16, including its end; only line feeds end a line."""
    number = 0
    size, units = path.stat().st_size, {"unit": "B", "unit_scale": True, "disable": not show_progress}
    with open(path, "rb") as raw, progress_bar(None, f"checking {path.name}", size, **units) as bar:
        try:
            source = _COMPRESSED[path.suffix](raw) if path.suffix in _COMPRESSED else raw
            for number, line in enumerate(_lines(source), 1):
                if len(line) > _LONGEST_LINE:
                    raise ValueError(
                        f"{path}, line {number}: longer than {_LONGEST_LINE >> 20} MiB: write one row per line"
                    )
                if number == 1:
                    check_is_plain(path, line)
                if number == 1 and b"\r" in line.rstrip() and not line.endswith(b"\n"):
                    raise ValueError(f"{path}: its lines end with CR alone: convert them, such as by tr '\\r' '\\n'")
                # concatenated files have byte-order marks in the middle
                yield number, line.decode("utf-8").lstrip("\ufeff")
                if not number % 1000:
                    bar.update(raw.tell() - bar.n)
        except UnicodeDecodeError as error:
            reason = f"{error.reason} at byte {error.start + 1}"
            encoding = error.encoding.upper()
            raise ValueError(f"{path}, line {number}: not {encoding} ({reason}): convert the file") from None
        except (EOFError, zlib.error, lzma.LZMAError, OSError) as error:
            if path.suffix not in _COMPRESSED:
                raise
            raise ValueError(
                f"{path}: not a complete {path.suffix} file, after line {number} ({error}): copy it again"
            ) from None


def _lines(source: Any) -> Iterator[bytes]:
    """The lines of an open file in UTF-8, also of one in UTF-16 that begins with its mark."""
    if source.peek(2).startswith(UTF16):
        text = io.TextIOWrapper(source, "utf-16", newline="\n")
        lines = iter(partial(text.readline, _LONGEST_LINE + 1), "")
        return (line.encode("utf-8", "surrogatepass") for line in lines)
    return iter(partial(source.readline, _LONGEST_LINE + 1), b"")


def read_aligned(
    paths: Sequence[Path], show_progress: bool = False, read: Callable[..., Iterator[tuple[int, str]]] = read_lines
) -> Iterator[tuple[int, list[str]]]:
    """Number of each line and its texts in all files, without line ends; `read` returns the lines of a file."""
    readers = [read(path, show_progress and path is paths[0]) for path in paths]
    for number, lines in enumerate(zip_longest(*readers), 1):
        if None in lines:
            shorter = paths[lines.index(None)]
            longer = next(path for path, line in zip(paths, lines, strict=True) if line is not None)
            raise ValueError(f"{shorter} has only {number - 1} lines, but {longer} has more: align their lines")
        yield number, [text.rstrip("\r\n") for _, text in lines]


def texts_in(folder: Path, several: bool = False) -> dict[str, list[Path]]:
    """The files in a folder, or in its subfolders, by their ids, in the order of the numbers in their names.

    Args:
        several: whether names that differ in a capital letter are those of several references, as in ROUGE's data:
            D30002.M.100.T.C and D30002.M.100.T.E, or A.1.txt and B.1.txt; otherwise, each id has one file.
    """
    inner = (file for pattern in ("[!.]*", "[!.]*/[!.]*") for file in folder.glob(pattern) if file.is_file())
    texts: dict[Path, list[Path]] = {}
    for file in sorted(inner):
        shared = _LETTER.sub("", file.name) if several else ""
        name = file.with_name(shared) if re.search(r"\d", shared) else file
        texts.setdefault(name.relative_to(folder), []).append(file)
    names = sorted(texts, key=lambda name: (_numbers(name), name))
    return {id: texts[name] for id, name in zip(ids_of_files(names), names, strict=True)}


def ids_of_files(files: Sequence[Path]) -> list[str]:
    """The numbers in each file's name, as for ROUGE's script, or the name if it has none; paths if files share them."""
    ids = [" ".join(map(str, _numbers(file))) or file.stem for file in files]
    for shared in (ids, [file.name for file in files]):
        if len(set(shared)) == len(files):
            return shared
    return list(map(str, files))


def _numbers(file: Path) -> list[int]:
    return list(map(int, re.findall(r"\d+", file.stem)))


def read_whole(path: Path) -> str:
    """A file's text without the space around it."""
    return "".join(line for _, line in read_lines(path)).strip()


def _read_folders(folders: Sequence[Path]) -> Rows:
    """Rows of the texts in files of the same id, of which those in the first folder are documents."""
    documents, *others = (texts_in(folder, several=folder is not folders[0]) for folder in folders)
    for folder, files in zip(folders[1:], others, strict=True):
        if unpaired := sorted(documents.keys() ^ files.keys()):
            raise ValueError(f"{folders[0]} and {folder}: only one has {unpaired[0]}: give each file its counterpart")
    has_several = len(others) > 1 or any(len(texts) > 1 for texts in others[0].values())
    for id, (file,) in documents.items():
        summaries = [read_whole(summary) for files in others for summary in files[id]]
        texts = {"references": summaries} if has_several else {"summary": summaries[0]}
        yield f"file {file.name}", {"document": read_whole(file), **texts, "id": id}


def _json_rows(path: Path, show_progress: bool) -> UnreadRows:
    lines = dropwhile(lambda pair: pair[1].isspace(), read_lines(path, show_progress))
    first, second = next(lines, (0, "")), next(lines, None)
    number, line = first
    lines = chain([] if second is None else [second], lines)
    # the whole file is a list, an object over several lines, or one of columns; lists in each line are rows
    is_list = line.lstrip().startswith("[") and not (second is not None and second[1].lstrip().startswith("[{"))
    if is_list or line.strip() == "{" or (second is None and _is_table(path, line)):
        rows = _parse(line + "".join(line for _, line in lines), path, number)
        for index, row in enumerate(rows if isinstance(rows, list) else _rows_of(rows), 1):
            yield f"row {index}", partial(_object, path, f"row {index}", {"text": row} if isinstance(row, str) else row)
        return
    for number, text in chain([first], lines):
        if text and not text.isspace():
            yield f"line {number}", partial(_json_row, path, number, text)


def _is_table(path: Path, line: str) -> bool:
    try:
        value = parse_json(line)
        return kind_of_file(path) == ".json" and _rows_of(value) != [value]
    except ValueError:
        return False


def _rows_of(value: Any) -> list[Any]:
    """The rows of an object: its list of rows, rows or texts by their ids, those of its columns, or itself.

    Columns have several values each: lists of one length or, as pandas writes them, objects with the same keys. An
    object with `documents` or `references` is a row, which has several of them, unless it has predictions too.
    """
    if not isinstance(value, dict):
        return [value]
    columns = list(value.values())
    if not _has_usual(value):
        # ids have digits, names of columns do not all
        if all(isinstance(text, str) and re.search(r"\d", name) for name, text in value.items()):
            return [{"id": name, "text": text} for name, text in value.items()]
        lists = [rows for rows in columns if isinstance(rows, list) and all(isinstance(row, dict) for row in rows)]
        if len(lists) == 1:
            return lists[0]
        if columns and all(isinstance(row, dict) and _has_usual(row) for row in columns):
            return [{"id": name, **row} for name, row in value.items()]
    if columns and all(isinstance(column, dict) for column in columns):
        columns = [list(column.values()) for column in columns if column.keys() == columns[0].keys()]
    is_row = bool({"documents", "references"} & value.keys() and not {*PREDICTION_COLUMNS} & value.keys())
    # as pandas writes a single column
    is_numbered = all(isinstance(own, dict) and "0" in own for own in value.values())
    is_row = is_row or len(columns) < (len(value) if is_numbered else max(len(value), 2))
    if is_row or not all(isinstance(column, list) for column in columns):
        return [value]
    sizes = {len(column) for column in columns}
    return [dict(zip(value, row, strict=True)) for row in zip(*columns, strict=True)] if len(sizes) == 1 else [value]


def _has_usual(row: dict[str, Any]) -> bool:
    usual = {*DOCUMENT_COLUMNS, *SUMMARY_COLUMNS, *PREDICTION_COLUMNS}
    return any(name.lower() in usual for name in row)


def _json_row(path: Path, number: int, line: str) -> dict[str, Any]:
    return _object(path, f"line {number}", _parse(line.rstrip(), path, number))


def _parse(text: str, path: Path, number: int) -> Any:
    """The value of JSON that begins at this line of a file."""
    try:
        # control characters inside strings violate strict JSON, but are unambiguous
        return parse_json(text)
    except ValueError as error:
        problem = str(error)
        if isinstance(error, json.JSONDecodeError):
            number += error.lineno - 1
            # one is "Unterminated string starting at"
            problem = f"not a JSON row ({error.msg.removesuffix(' at')} at character {error.colno}), perhaps truncated"
        raise ValueError(
            f'{path}, line {number}: {problem}: each line must be an object such as {{"document": "...", "summary": '
            '"..."}, or all lines a list of them'
        ) from None


def _object(path: Path, position: str, row: Any) -> dict[str, Any]:
    # as a pipeline returns it for a text
    row = row[0] if isinstance(row, list) and len(row) == 1 and isinstance(row[0], dict) else row
    if not isinstance(row, dict):
        raise ValueError(f"{path}, {position}: a row must be an object, but is {type(row).__name__}: {row!r:.80}")
    # neither tables nor files can have a column whose name has a lone surrogate
    return {readable(name): value for name, value in row.items()}


def _csv_rows(path: Path, show_progress: bool) -> UnreadRows:
    # long documents exceed the module's default limit of 131,072 characters per field
    csv.field_size_limit(2**31 - 1)
    # the reader takes a carriage return within a field for a line end
    numbered = read_lines(path, show_progress)
    lines = ((text := line.rstrip("\r\n")).replace("\r", _RETURN) + line[len(text) :] for _, line in numbered)
    header, first = next(lines, ""), []
    if hint := _EXCEL_LINE.fullmatch(header):
        # a blank line keeps the numbers of the others
        header, first = next(lines, ""), ["\n"]
    is_tsv = kind_of_file(path) == ".tsv"
    separator = hint[1] if hint else "\t" if is_tsv else _separator(path, header, show_progress)
    lines = chain(first, [header], lines)
    lines = _escaped(path, lines) if separator == "\t" else lines
    # a quotation mark after a space begins a field too
    reader = csv.reader(lines, strict=True, delimiter=separator, skipinitialspace=separator != "\t")
    names: list[str] = []
    position = "line 1"
    try:
        while (values := next(reader, None)) is not None:
            if not names:
                names = [name.strip() for name in values]
                # Excel writes a separator for each empty column
                named = [name for name in names if name]
                if len(set(named)) < len(named):
                    raise ValueError(f"{path}, {position}: two columns share a name ({', '.join(names)}): rename one")
            elif values:
                yield position, partial(_csv_row, path, position, names, values)
            position = f"line {reader.line_num + 1}"
    except csv.Error as error:
        raise ValueError(
            f"{path}, {position}: not a CSV row ({error}): is a quotation mark not closed, or not doubled?"
        ) from None


def _separator(path: Path, header: str, is_first: bool) -> str:
    """The separator of a .csv file's fields, which is most frequent in its header."""
    outside = re.sub('"[^"]*"', "", header)
    separator = max(_SEPARATORS, key=outside.count)
    if separator != "," and is_first:
        logger.info(f"{path}: fields are separated by {separator!r}, as in its header")
    return separator


def _escaped(path: Path, lines: Iterable[str]) -> Iterator[str]:
    """Tab-separated lines with escapes for quotation marks that do not enclose fields."""
    is_literal = None
    for line in lines:
        if line.startswith('"') or '\t"' in line:
            # this reads the file, which most have no need of
            is_literal = _is_literal(path) if is_literal is None else is_literal
            escaped = line.rstrip("\r\n").replace('"', '""').replace("\t", '"\t"')
            line = f'"{escaped}"\n' if is_literal else line
        yield line


def _is_literal(path: Path) -> bool:
    """Whether marks in tab-separated fields are no quotation: each line is a row, and a field begins with one alone."""
    numbers: set[int] = set()
    is_alone = False
    for _, line in read_lines(path):
        fields = line.rstrip("\r\n").split("\t")
        numbers.update([len(fields)] if line.strip() else [])
        is_alone = is_alone or any(text.startswith('"') and not _QUOTED.fullmatch(text) for text in fields)
    return is_alone and len(numbers) == 1


def _csv_row(path: Path, position: str, names: list[str], values: list[str]) -> dict[str, Any]:
    if len(values) != len(names):
        raise ValueError(
            f"{path}, {position}: {len(values)} fields, but the header names {len(names)} ({', '.join(names)}): "
            'put fields that contain commas or line ends in "quotes"'
        )
    return dict(zip(names, (value.replace(_RETURN, "\r") for value in values), strict=True))
