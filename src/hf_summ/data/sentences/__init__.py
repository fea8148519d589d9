"""Splitting texts into sentences: the library sentencex, with rules for what it misreads.

`splitting` gives each line to sentencex in a form that it reads well, the twin of the line, which `twins` makes. The
rules in `ends` then decide at which places between sentencex's sentences a sentence really ends. The words that these
rules know are in `words.json`.
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
