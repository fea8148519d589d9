"""OpenNMT's stepwise coverage penalty."""

import torch
from transformers import LogitsProcessor


class CoveragePenaltyLogitsProcessor(LogitsProcessor):
    """Lowers a beam's score by β (Σ_i max(coverage_i, 1) - S), as what it copies from overlaps (thesis, section 6.3).

    The coverage of a source position is the sum of the copy distributions so far. Each step takes off what the penalty
    has grown by, the step's own copy distribution counted in, so that the sum over the steps is the penalty of the
    whole text. All continuations of a beam lose the same: it tells beams apart, and changes nothing with one.

    Args:
        penalty: β.
    """

    def __init__(self, penalty: float):
        self.penalty = penalty
        self._growth: torch.Tensor | None = None

    def observe(self, coverage: torch.Tensor, step: torch.Tensor) -> None:
        """Take over the coverage (R, S) with, and the copy distribution (R, S) of, the step whose scores come next."""
        self._growth = _overlap(coverage) - _overlap(coverage - step)

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        return scores - self.penalty * self._growth[:, None].to(scores.device, scores.dtype)


def _overlap(coverage: torch.Tensor) -> torch.Tensor:
    return (coverage.clamp(min=1.0) - 1.0).sum(-1)
