"""Scores of summaries."""

from hf_summ.evaluation.bleu import bleu, chrf
from hf_summ.evaluation.novelty import copied_fragments, corpus_statistics, novelty
from hf_summ.evaluation.rouge import RougeSettings, rouge
from hf_summ.evaluation.significance import (
    bootstrap_interval,
    examples_to_decide,
    holm,
    paired_bootstrap,
    paired_randomization,
    perplexity,
    sign_test,
)
from hf_summ.evaluation.support import support

__all__ = [
    "RougeSettings",
    "bleu",
    "bootstrap_interval",
    "chrf",
    "copied_fragments",
    "corpus_statistics",
    "examples_to_decide",
    "holm",
    "novelty",
    "paired_bootstrap",
    "paired_randomization",
    "perplexity",
    "rouge",
    "sign_test",
    "support",
]
