"""A real browser for pages: the Chromium that the machine has, without a window."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def open_browser() -> Iterator:
    """Playwright's `Browser`, without a network; skips the test where there is none."""
    executable = next(filter(None, map(shutil.which, _NAMES)), None)
    if executable is None:
        pytest.skip(f"no browser: none of {', '.join(_NAMES)} is installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        # in containers, Chromium's own sandbox needs rights that they have not
        browser = started.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()
