"""Corpora, sentences, vocabularies and batches."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hf_summ.data.collator import SummarizationCollator
    from hf_summ.data.corpora import Corpus
    from hf_summ.data.loading import load
    from hf_summ.data.sentences import lead, split_sentences
    from hf_summ.data.vocabulary import fit_vocabulary

__all__ = ["Corpus", "SummarizationCollator", "fit_vocabulary", "lead", "load", "split_sentences"]

# torch, transformers and `datasets` take long to import, and most commands need none of them
_MODULES = {
    "Corpus": "corpora",
    "SummarizationCollator": "collator",
    "fit_vocabulary": "vocabulary",
    "lead": "sentences",
    "load": "loading",
    "split_sentences": "sentences",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
