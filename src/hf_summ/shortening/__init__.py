"""Documents longer than a model reads, shortened for it: what `pipeline("summarization")` has in `long_documents`."""

from typing import TYPE_CHECKING

from hf_summ.common.lazy import lazily

if TYPE_CHECKING:
    from hf_summ.shortening.extraction import extract
    from hf_summ.shortening.windowing import windows

__all__ = ["extract", "windows"]

__getattr__, __dir__ = lazily(__name__, {"extract": ".extraction", "windows": ".windowing"})
