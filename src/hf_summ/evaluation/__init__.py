"""Scores of summaries."""

from hf_summ.evaluation.fragments import copied_fragments
from hf_summ.evaluation.novelty import copy_positions, novelty, novelty_scores
from hf_summ.evaluation.rouge import rouge, rouge_scores
from hf_summ.evaluation.rouge155 import rouge155_scores
from hf_summ.evaluation.significance import bootstrap_interval, paired_bootstrap

__all__ = [
    "bootstrap_interval",
    "copied_fragments",
    "copy_positions",
    "novelty",
    "novelty_scores",
    "paired_bootstrap",
    "rouge",
    "rouge155_scores",
    "rouge_scores",
]
