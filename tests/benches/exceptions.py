"""The tests of other libraries that cannot apply, each with the reason; whatever is not listed passes."""

from collections.abc import Mapping
from fnmatch import fnmatch

# patterns of a test's and of an architecture's name -> why it cannot apply
PROCESSOR_TESTS: dict[tuple[str, str], str] = {}
MODEL_TESTS: dict[tuple[str, str], str] = {
    ("test_eager_matches_sdpa_inference*", "gdlf"): "gives no tags",
}


def reason(exceptions: Mapping[tuple[str, str], str], test: str, architecture: str) -> str | None:
    """Why a test cannot apply to an architecture; None if it must pass."""
    return next((why for (own, name), why in exceptions.items() if fnmatch(test, own) and fnmatch(architecture, name)), None)
