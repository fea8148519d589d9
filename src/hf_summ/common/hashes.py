"""Hashes by which files, code, checkpoints and settings are recognized in later runs."""

import functools
import json
import os
import re
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path

# a file in which `datasets` keeps what it computes from saved rows, under its name or, while it is written, another
_CACHE_FILE = re.compile(r"cache-.*\.arrow|tmp\w{8}")


def hash_of_bytes(parts: Iterable[bytes]) -> str:
    """The SHA-256 of the parts joined, in 64 hexadecimal digits."""
    # The import of hashlib takes time, as it loads OpenSSL.
    import hashlib

    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def hash_of_values(values: object, sort_keys: bool = True) -> str:
    """The SHA-256 of values as JSON, in 64 hexadecimal digits; objects that JSON lacks are hashed as strings.

    Args:
        sort_keys: whether the hash ignores the order of the entries of dictionaries.
    """
    text = json.dumps(values, sort_keys=sort_keys, default=str)
    return hash_of_bytes([text.encode()])


def hash_of_code(files: Iterable[str]) -> str:
    """A hash of the code that converts texts; results cached by other code are not used."""
    return hash_of_bytes([Path(file).read_bytes() for file in sorted(files)])


def content_hash(path: str | os.PathLike) -> str:
    """A hash of a file's content, or of the files in a folder: 16 hexadecimal digits of its SHA-256.

    Hidden files in a folder do not count, and neither do the files in which `datasets` keeps what it computes from
    saved rows. An unchanged file is read only once.
    """
    if os.path.isdir(path):
        lines = []
        for file in sorted(Path(path).iterdir()):
            if _CACHE_FILE.fullmatch(file.name) is None and not file.name.startswith("."):
                lines.append(f"{file.name} {content_hash(file)}")
        return hash_of_bytes(["\n".join(lines).encode()])[:16]
    state = os.stat(path)
    # Archives and copies keep the time of the last change, but only the system sets that of the inode.
    return _hash_of_file(os.fspath(path), state.st_size, state.st_mtime_ns, state.st_ctime_ns)


@contextmanager
def hashes_while_read(paths: Sequence[str | os.PathLike]) -> Generator[tuple[str, ...]]:
    """A context in which files are read. Its value has the hash of each file's content, from before the reading.

    Raises:
        ValueError: a file has other content at the end of the context. What was read may then be of either content.
    """
    hashes = tuple([content_hash(path) for path in paths])
    yield hashes
    for path, hash_before in zip(paths, hashes, strict=True):
        if content_hash(path) != hash_before:
            raise ValueError(f"{path}: changed while it was read: rerun the command once the file is complete")


@functools.cache
def _hash_of_file(path: str, size: int, modified: int, inode_changed: int) -> str:
    """The hash of a file, computed again only if its size or one of the times in nanoseconds is another."""
    import hashlib

    # A file may be larger than memory, and this function reads it in parts.
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
