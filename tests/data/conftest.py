"""What the tests of corpora share."""

import pytest

from hf_summ.data import Corpus


@pytest.fixture
def load(tmp_path):
    """Reads a corpus with a cache of the test's own."""
    return lambda **told: Corpus(**told).load(cache_dir=str(tmp_path / "cache"))
