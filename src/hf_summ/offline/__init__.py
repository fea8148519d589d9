"""Summaries of millions of rows, in shards that are written completely or not at all, so a killed run can resume."""

from typing import TYPE_CHECKING

from hf_summ.common.lazy import lazily

if TYPE_CHECKING:
    from hf_summ.offline.run import Outcome, summarize_rows

__all__ = ["Outcome", "summarize_rows"]

__getattr__, __dir__ = lazily(__name__, dict.fromkeys(__all__, ".run"))
