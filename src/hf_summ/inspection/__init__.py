"""Inspection of models that copy: `explain` finds where each word came from, and `as_page` shows it."""

from typing import TYPE_CHECKING

from hf_summ.common.lazy import lazily

if TYPE_CHECKING:
    from hf_summ.inspection.explanation import Explanation, SourceWord, SummaryWord, explain
    from hf_summ.inspection.page import as_page

__all__ = ["Explanation", "SourceWord", "SummaryWord", "as_page", "explain"]

__getattr__, __dir__ = lazily(__name__, dict.fromkeys(__all__, ".explanation") | {"as_page": ".page"})
