"""The tests of other libraries, from the source distribution of the installed version, unpacked in `build/benches`."""

import importlib
import os
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "build" / "benches"


def tests_of(library: str) -> Path:
    """The folder of a library's tests; skips the calling module if the package index is out of reach."""
    release = f"{library}-{version(library)}"
    folder = FOLDER / release
    if not folder.is_dir():
        FOLDER.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=FOLDER) as temporary:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", temporary]
            command += ["--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--retries", "0"]
            command += ["--timeout", "20", release.replace("-", "==")]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                reason = done.stderr.strip().rpartition("\n")[2]
                pytest.skip(f"no source distribution of {release}: {reason}", allow_module_level=True)
            with tarfile.open(next(Path(temporary).glob("*.tar.gz"))) as archive:
                archive.extractall(temporary, filter="data")
            # one of transformers' modules imports the folder, from which the distribution leaves this file out
            (Path(temporary) / release / "tests" / "__init__.py").touch()
            try:
                os.rename(Path(temporary) / release, folder)
            except OSError:
                # another process was faster
                assert folder.is_dir()
    return folder / "tests"


def load(library: str, name: str, absent: dict[str, dict[str, Any]]) -> ModuleType:
    """A module of a library's tests.

    Args:
        absent: missing modules that it imports, with what it takes from them; a leading dot is the package of tests.
    """
    package = ModuleType(f"benches_of_{library}")
    package.__path__ = [str(tests_of(library))]
    sys.modules[package.__name__] = package
    for path, content in absent.items():
        if path.startswith("."):
            path = package.__name__ + path
        module = ModuleType(path)
        vars(module).update(content)
        sys.modules.setdefault(module.__name__, module)
    return importlib.import_module(f"{package.__name__}.{name}")
