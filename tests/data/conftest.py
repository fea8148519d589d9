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
    """Loads a corpus with the test's own cache. A stream of its training rows must have the same rows and columns."""

    def load_checked(**told):
        cache = str(tmp_path / "cache")
        corpus = loading.load(Corpus(**told), cache_dir=cache)
        if "train" in corpus and not told.get("streaming"):
            stream = loading.load(Corpus(**{**told, "streaming": True}), cache_dir=cache)["train"]
            assert list(stream) == corpus["train"].to_list()
            assert set(stream.column_names) == set(corpus["train"].column_names)
        return corpus

    return load_checked
