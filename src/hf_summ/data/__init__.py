"""Corpora, sentences, vocabularies and batches."""

from typing import TYPE_CHECKING

from hf_summ.common.lazy import lazily

if TYPE_CHECKING:
    from hf_summ.data.collator import SummarizationCollator
    from hf_summ.data.corpora import Corpus
    from hf_summ.data.loading import load
    from hf_summ.data.sentences import lead, split_sentences
    from hf_summ.data.vocabulary import fit_vocabulary

__all__ = ["Corpus", "SummarizationCollator", "fit_vocabulary", "lead", "load", "split_sentences"]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "SummarizationCollator": ".collator",
        "Corpus": ".corpora",
        "lead": ".sentences",
        "load": ".loading",
        "split_sentences": ".sentences",
        "fit_vocabulary": ".vocabulary",
    },
)
