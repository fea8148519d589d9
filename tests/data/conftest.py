"""What the tests of corpora share."""

import pytest

from hf_summ.data import load_corpus


@pytest.fixture
def load(tmp_path):
    """`load_corpus` with a cache of the test's own."""
    return lambda **arguments: load_corpus(**arguments, cache_dir=str(tmp_path / "cache"))
