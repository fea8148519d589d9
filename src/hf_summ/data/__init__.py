"""Corpora, sentences, vocabularies and batches."""

from hf_summ.data.collator import SummarizationCollator
from hf_summ.data.corpora import load_corpus
from hf_summ.data.sentences import lead, split_sentences
from hf_summ.data.vocabulary import fit_vocabulary

__all__ = ["SummarizationCollator", "fit_vocabulary", "lead", "load_corpus", "split_sentences"]
