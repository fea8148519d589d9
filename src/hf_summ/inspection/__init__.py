"""What a model that copies looked at: `explain` finds it, and `as_page` shows it."""

from hf_summ.inspection.explanation import Explanation, SourceWord, SummaryWord, explain
from hf_summ.inspection.page import as_page

__all__ = ["Explanation", "SourceWord", "SummaryWord", "as_page", "explain"]
