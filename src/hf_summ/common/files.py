"""Files and folders that are whole or not there."""

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


def write_atomically(path: str | os.PathLike, text: str) -> None:
    """Writes a file in UTF-8 that is either the old one or the new one, whatever happens."""
    with moved_into_place(path) as part:
        part.write_text(text, encoding="utf-8")


@contextmanager
def moved_into_place(path: str | os.PathLike) -> Generator[Path]:
    """A name beside `path`, hidden and of this process alone, under which to make a file or a folder.

    What stands under it at the end takes the place of `path` in one step; after an error it is removed, and `path` is
    what it was before.

    Raises:
        OSError: `path` is a folder that holds something.
    """
    path = Path(path)
    # of this process alone: two that write the same file must not move each other's half away
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        os.replace(part, path)
    finally:
        if part.is_dir():
            shutil.rmtree(part)
        else:
            part.unlink(missing_ok=True)
