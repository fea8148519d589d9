"""Fixtures and helpers for the tests of the command line."""

import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import tests.conftest
from hf_summ.cli import main
from tests.conftest import save
from tests.models.architectures import GDLF, build_with_processor


def start(*argv: str, cwd: Path, **environment: str) -> subprocess.Popen:
    """Start `hf-summ` in a new process."""
    environment = {"PYTHONUNBUFFERED": "", **environment}
    return tests.conftest.start("-m", "hf_summ", *argv, cwd=cwd, **environment)


@pytest.fixture(scope="session")
def saved_model(tiny_tokenizer, tmp_path_factory) -> Path:
    """A saved tiny GDLF that reads tags; shared by the session, so never change it."""
    folder = tmp_path_factory.mktemp("model")
    save(folder, *build_with_processor(GDLF, tiny_tokenizer))
    return folder


@pytest.fixture
def workplace(saved_model, tmp_path, monkeypatch) -> Path:
    """A folder to work in, with the model in `model`, so that names are as short as a user's."""
    shutil.copytree(saved_model, tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def ignored_sigterm():
    """SIGTERM is ignored until a command handles it."""
    previous_handler = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGTERM, previous_handler)


@pytest.fixture
def run(capsys) -> Callable[..., tuple[str, str]]:
    """Runs a command that succeeds, and returns its standard output and standard error."""

    def command(*argv: str) -> tuple[str, str]:
        assert main(list(argv)) == 0
        return capsys.readouterr()

    return command


@pytest.fixture
def refusal(capsys) -> Callable[..., str]:
    """Runs a command that fails, and returns its one-line message."""

    def command(*argv: str) -> str:
        assert main(list(argv)) == 2
        output, errors = capsys.readouterr()
        assert output == ""
        assert "Traceback" not in errors
        last_line = errors.splitlines()[-1]
        assert last_line.startswith("hf-summ: error: ")
        return last_line.removeprefix("hf-summ: error: ")

    return command
