"""Fixtures for the tests of training."""

import pytest

from tests.training import tiny


@pytest.fixture(scope="session")
def processor_folder(tiny_tokenizer, tmp_path_factory) -> str:
    """A saved processor."""
    folder = tmp_path_factory.mktemp("processor")
    tiny.processor(tiny_tokenizer).save_pretrained(folder)
    return str(folder)
