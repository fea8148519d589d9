"""Scores of summaries."""

from hf_summ.evaluation.bleu import bleu, bleu_statistics, chrf, chrf_statistics, corpus_bleu, corpus_chrf
from hf_summ.evaluation.novelty import copied_fragments, corpus_statistics, novelty, novelty_scores
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
from hf_summ.evaluation.support import support, support_scores

__all__ = [
    "RougeSettings",
    "bleu",
    "bleu_statistics",
    "bootstrap_interval",
    "chrf",
    "chrf_statistics",
    "copied_fragments",
    "corpus_bleu",
    "corpus_chrf",
    "corpus_statistics",
    "examples_to_decide",
    "holm",
    "novelty",
    "novelty_scores",
    "paired_bootstrap",
    "paired_randomization",
    "perplexity",
    "rouge",
    "sign_test",
    "support",
    "support_scores",
]
