"""Corpora, sentences, vocabularies and batches."""

from hf_summ.data.collator import SummarizationCollator
from hf_summ.data.corpora import Corpus
from hf_summ.data.sentences import lead, split_sentences
from hf_summ.data.vocabulary import fit_vocabulary

__all__ = ["Corpus", "SummarizationCollator", "fit_vocabulary", "lead", "split_sentences"]
