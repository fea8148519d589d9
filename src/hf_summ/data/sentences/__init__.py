"""Sentences of a text: sentencex's, with rules for what it misreads.

`splitting` hands a line to sentencex in a form that it reads well, see `twins`, and decides by `ends` which of its ends
are ends. The words that these rules know are in `words.json`.
"""

from typing import TYPE_CHECKING

from hf_summ.common.lazy import lazily

if TYPE_CHECKING:
    from hf_summ.data.sentences.splitting import (
        lead,
        pick_sentences,
        sentence_places,
        split_sentences,
        splitter_version,
    )

__all__ = ["lead", "pick_sentences", "sentence_places", "split_sentences", "splitter_version"]

__getattr__, __dir__ = lazily(__name__, dict.fromkeys(__all__, ".splitting"))
