"""The progress bar of steps that may take long."""

from collections.abc import Iterable
from typing import Any

from huggingface_hub.utils import tqdm

# seconds before a bar is shown, so that quick steps show none
_PATIENCE = 3.0


def progress_bar(steps: Iterable | None, title: str, total: int | None = None, **settings: Any) -> tqdm:
    """A bar over `steps`, or one to update by hand, that appears after three seconds and disappears at the end.

    `huggingface_hub.utils.disable_progress_bars` disables it along with those of the libraries.

    Args:
        total: number of steps, if `steps` has no length.
        settings: settings of tqdm, such as `unit` and `disable`.
    """
    return tqdm(steps, desc=title, total=total, delay=_PATIENCE, leave=False, **settings)
