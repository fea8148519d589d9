"""Scores of summaries."""

from hf_summ.evaluation.fragments import copied_fragments
from hf_summ.evaluation.novelty import copy_positions, novelty, novelty_scores
from hf_summ.evaluation.rouge import rouge, rouge_scores

__all__ = ["copied_fragments", "copy_positions", "novelty", "novelty_scores", "rouge", "rouge_scores"]
