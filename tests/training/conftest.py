"""Fixtures for the tests of training."""

import pytest

from tests.training import tiny


@pytest.fixture(scope="session")
def processor_folder(tiny_tokenizer, tmp_path_factory) -> str:
    """A saved processor."""
    folder = tmp_path_factory.mktemp("processor")
    tiny.processor(tiny_tokenizer).save_pretrained(folder)
    return str(folder)


@pytest.fixture
def settings(tmp_path, processor_folder):
    """Writes the YAML of a short run over a corpus of its own."""
    files = tiny.write_corpus(tmp_path, train=24, validation=5, test=7)

    def write(**changes):
        defaults = {"cache_dir": str(tmp_path / "cache"), "tokenizer_name": processor_folder}
        return tiny.write_settings(tmp_path, **defaults | files | changes)

    return write
