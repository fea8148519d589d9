"""The progress bar of what may take long."""

from collections.abc import Iterable
from typing import Any

from huggingface_hub.utils import tqdm

# what is done within this many seconds shows no bar
_PATIENCE = 3.0


def progress_bar(steps: Iterable | None, title: str, total: int | None = None, **settings: Any) -> tqdm:
    """A bar over `steps`, or one to be updated by hand, that shows itself after three seconds and goes at the end.

    `huggingface_hub.utils.disable_progress_bars` switches it off, as it does those of the libraries.

    Args:
        total: how many steps there are, where `steps` cannot say.
        settings: of tqdm, such as `unit` and `disable`.
    """
    return tqdm(steps, desc=title, total=total, delay=_PATIENCE, leave=False, **settings)
