"""Fixtures for the tests of corpora."""

import datasets
import pytest

from hf_summ.data import Corpus, loading


@pytest.fixture
def named(tmp_path):
    """Makes a corpus by name, for which `datasets` takes a folder."""

    def make(**splits):
        folder = tmp_path / "named"
        folder.mkdir()
        for split, rows in splits.items():
            datasets.Dataset.from_list(rows).to_parquet(folder / f"{split}.parquet")
        return str(folder)

    return make


@pytest.fixture
def load(tmp_path):
    """Loads a corpus with the test's own cache."""
    return lambda **told: loading.load(Corpus(**told), cache_dir=str(tmp_path / "cache"))
