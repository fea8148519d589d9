"""Corpora outside the project: tests that read them are marked, and are skipped where they are missing."""

from pathlib import Path

import pytest

SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"


def reads_shared_data(*names: str):
    """Marks a test that reads these corpora; `-m "not shared_data"` leaves such tests out."""
    missing = [name for name in names if not (SHARED_DATA / name).is_dir()]
    skip = pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)} in ../shared/data")
    return lambda test: pytest.mark.shared_data(skip(test))
