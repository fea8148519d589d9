"""The progress bar appears only if steps take long, and disappears at the end."""

import io

import pytest
from huggingface_hub.utils import disable_progress_bars, enable_progress_bars

from hf_summ.common import messages


@pytest.mark.parametrize("patience", [3600.0, 0.0])
def test_shown_after_a_while(monkeypatch, patience):
    monkeypatch.setattr(messages, "_PATIENCE", patience)
    shown = io.StringIO()
    assert list(messages.progress_bar(iter("abc"), "spelling", 3, file=shown)) == ["a", "b", "c"]
    assert ("spelling" in shown.getvalue()) == (patience == 0)
    # the bar that was shown is erased
    assert not shown.getvalue().rpartition("\r")[2].strip()


def test_updated_by_hand(monkeypatch):
    monkeypatch.setattr(messages, "_PATIENCE", 0.0)
    shown = io.StringIO()
    with messages.progress_bar(None, "reading", 10, unit="B", file=shown) as bar:
        bar.update(4)
        assert (bar.n, bar.total) == (4, 10)
    assert "reading" in shown.getvalue()


def test_switched_off_with_those_of_the_libraries(monkeypatch):
    monkeypatch.setattr(messages, "_PATIENCE", 0.0)
    shown = io.StringIO()
    disable_progress_bars()
    try:
        assert list(messages.progress_bar("ab", "spelling", file=shown)) == ["a", "b"]
    finally:
        enable_progress_bars()
    assert not shown.getvalue()
