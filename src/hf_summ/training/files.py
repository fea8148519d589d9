"""Files that are whole or not there."""

import os
from pathlib import Path


def write_atomically(path: str | os.PathLike, text: str) -> None:
    """Writes a file that is either the old one or the new one, whatever happens."""
    path = Path(path)
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)
