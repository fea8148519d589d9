"""Files and folders that are written completely or not at all."""

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


def shipped_folder(name: str) -> Path:
    """A folder that comes with the package: beside its code if installed, at the root of the repository otherwise."""
    package = Path(__file__).parents[1]
    installed = package / name
    return installed if installed.is_dir() else package.parents[1] / name


def write_atomically(path: str | os.PathLike, text: str) -> None:
    """Write a file in UTF-8 so that, whatever happens, it has either its old or its new content."""
    with moved_into_place(path) as part:
        part.write_text(text, encoding="utf-8")


@contextmanager
def moved_into_place(path: str | os.PathLike) -> Generator[Path]:
    """A hidden path beside `path`, unique to this process, at which to create a file or a folder.

    On leaving the context, it replaces `path` in a single step; after an error it is removed, and `path` is left as it
    was.

    Raises:
        OSError: `path` is a folder that is not empty.
    """
    path = Path(path)
    # unique to this process: two that write the same file must not move each other's half-written part
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        os.replace(part, path)
    finally:
        if part.is_dir():
            shutil.rmtree(part)
        else:
            part.unlink(missing_ok=True)
