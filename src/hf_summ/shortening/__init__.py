"""Documents longer than a model reads, shortened for it: what `pipeline("summarization")` has in `long_documents`."""

from hf_summ.shortening.extraction import extract
from hf_summ.shortening.windows import windows

__all__ = ["extract", "windows"]
