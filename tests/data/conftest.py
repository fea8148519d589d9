"""Fixtures for the tests of corpora."""

import pytest

from hf_summ.data import Corpus, loading


@pytest.fixture
def load(tmp_path):
    """Loads a corpus with the test's own cache."""
    return lambda **told: loading.load(Corpus(**told), cache_dir=str(tmp_path / "cache"))
