"""A limit of memory, and a check that a door is neither too tame nor closed."""

import resource
from collections.abc import Iterator

import pytest
from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

from tests.doors.outcomes import outcomes

# bytes of memory; an input that needs more fails instead of the machine
_MEMORY = 8 * 2**30


@pytest.fixture(scope="module", autouse=True)
def limits() -> Iterator[None]:
    before, bars = resource.getrlimit(resource.RLIMIT_DATA), not are_progress_bars_disabled()
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, before[1]))
    disable_progress_bars()
    yield
    resource.setrlimit(resource.RLIMIT_DATA, before)
    if bars:
        enable_progress_bars()


@pytest.fixture(autouse=True)
def both_outcomes() -> Iterator[None]:
    outcomes.clear()
    yield
    assert outcomes.total() < 20 or len(outcomes) == 2, f"all outcomes are {[*outcomes]}"
