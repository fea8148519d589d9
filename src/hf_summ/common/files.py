"""Files and folders that are written completely or not at all, and names of models."""

import os
import re
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

# One slash is enough, as `os.fspath` of a Path has no double slashes.
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def bundled_folder(name: str) -> Path:
    """A bundled folder: beside the code if installed, otherwise at the root of the repository."""
    package = Path(__file__).parents[1]
    installed_folder = package / name
    if installed_folder.is_dir():
        return installed_folder
    return package.parents[1] / name


def shared_name(model: str) -> str:
    """A model's name for other people.

    The path of a folder is private, so only its last part is shown. A folder of ONNX graphs is shown as its model's.
    """
    if not model or not Path(model).exists():
        return model
    folder = Path(model).resolve()
    if folder.name == "onnx":
        folder = folder.parent
    return folder.name


def write_atomically(path: str | os.PathLike, text: str) -> None:
    """Write a file in UTF-8; even after a failure it has either its old or its new content.

    Anything but a regular file, such as a terminal or a named pipe, is written to directly.
    """
    content = text.encode("utf-8")
    is_standard_stream = str(path).startswith(("/dev/std", "/dev/fd/"))
    is_special_file = os.path.exists(path) and not os.path.isfile(path)
    if is_standard_stream or is_special_file:
        # The text is appended, as /dev/stdout may be a file with content.
        with open(path, "ab") as stream:
            stream.write(content)
        return
    with moved_into_place(path) as draft:
        draft.write_bytes(content)


@contextmanager
def moved_into_place(path: str | os.PathLike) -> Generator[Path]:
    """A path in a temporary folder beside `path`, at which to create a file or a folder; makes the folders above it.

    On leaving the context, the new file or folder replaces `path`, or its link target, in a single step and with the
    old permissions. After an error it is removed, and `path` is unchanged.
    """
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    # The name of the file may already have the maximum length, so only its beginning is repeated.
    prefix = f".{path.name[:40]}-"
    try:
        with TemporaryDirectory(prefix=prefix, suffix=".part", dir=path.parent) as folder:
            draft = Path(folder) / path.name
            yield draft
            if path.is_file():
                shutil.copymode(path, draft)
            for file in draft.rglob("*"):
                if file.is_file():
                    share(file)
                _flush_to_disk(file)
            _flush_to_disk(draft)
            os.replace(draft, path)
            _flush_to_disk(path.parent)
    except OSError as error:
        # The system's error for a full disk names no file.
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise


def check_is_local(flag: str, output: str | os.PathLike) -> None:
    """Raise a ValueError if an output is named by a URL, for which Python would make a local folder such as `s3:`."""
    if _URL.match(os.fspath(output)):
        raise ValueError(f"{flag} {os.fspath(output)}: is a URL: name a local file or folder, and upload it afterwards")


def check_new_folder(folder: str | os.PathLike) -> None:
    """Raise a ValueError unless the folder of `--output` is new or empty: its files may belong to a trained model."""
    folder = Path(folder)
    if not folder.exists():
        return
    is_empty = folder.is_dir() and not any(folder.iterdir())
    if not is_empty:
        raise ValueError(f"--output {folder}: must be a new or empty folder")


def share(file: Path) -> None:
    """Make a file readable for those who can read its folder, such as a service: safetensors sets owner access only."""
    # Some file systems have no permissions.
    with suppress(OSError):
        readable_by = file.parent.stat().st_mode & 0o444
        file.chmod(file.stat().st_mode | readable_by)


def _flush_to_disk(path: Path) -> None:
    """Flush content to the disk, as after a power failure a name must not lead to content that was never written."""
    # Some file systems cannot flush, and Windows cannot open folders.
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
