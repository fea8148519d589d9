"""A real browser for pages: the Chromium that the machine has, without a window."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def open_browser() -> Iterator:
    """Playwright's `Browser`, without a network; skips the test where there is none."""
    executables = [shutil.which(name) for name in _NAMES if shutil.which(name)]
    if not executables:
        pytest.skip(f"no browser: none of {', '.join(_NAMES)} is installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        # Chromium's sandbox needs rights that containers do not have
        browser = started.chromium.launch(executable_path=executables[0], args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()
