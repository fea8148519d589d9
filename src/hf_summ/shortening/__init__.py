"""Shortening of long documents to a model's input length, for `long_documents` of `pipeline("summarization")`."""

from typing import TYPE_CHECKING

from hf_summ.common.lazy import lazily

if TYPE_CHECKING:
    from hf_summ.shortening.extraction import extract
    from hf_summ.shortening.windowing import windows

__all__ = ["extract", "windows"]

__getattr__, __dir__ = lazily(__name__, {"extract": ".extraction", "windows": ".windowing"})
