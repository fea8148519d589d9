"""Scores of summaries."""

from hf_summ.evaluation.rouge import rouge, rouge_scores

__all__ = ["rouge", "rouge_scores"]
