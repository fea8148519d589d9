"""A limit of memory, and a check that the inputs of a test are neither all accepted nor all refused."""

import resource
from collections.abc import Iterator

import pytest
from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

from tests.doors.outcomes import outcomes

# bytes of memory; an input that needs more fails instead of the machine
_MEMORY = 8 * 2**30


@pytest.fixture(scope="module", autouse=True)
def limits() -> Iterator[None]:
    """Limit the memory, and show no progress bars."""
    soft_limit, hard_limit = resource.getrlimit(resource.RLIMIT_DATA)
    has_progress_bars = not are_progress_bars_disabled()
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, hard_limit))
    disable_progress_bars()
    yield
    resource.setrlimit(resource.RLIMIT_DATA, (soft_limit, hard_limit))
    if has_progress_bars:
        enable_progress_bars()


@pytest.fixture(autouse=True)
def both_outcomes() -> Iterator[None]:
    """Check that a test of at least 20 examples had sensible and clear outcomes."""
    outcomes.clear()
    yield
    if outcomes.total() >= 20:
        assert len(outcomes) == 2, f"all outcomes are {list(outcomes)}"
