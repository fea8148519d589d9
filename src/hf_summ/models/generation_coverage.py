"""OpenNMT's stepwise coverage penalty."""

import torch
from transformers import LogitsProcessor


class CoveragePenaltyLogitsProcessor(LogitsProcessor):
    """Lowers a beam's score by β (Σ_i max(coverage_i, 1) - S) for repeated copying (Aksenov 2020, section 6.3).

    The coverage of a source position is the sum of the copy distributions so far. Each step subtracts the growth of the
    penalty, including the step's own copy distribution; the steps add up to the penalty of the whole text. All
    continuations of a beam lose the same amount: the penalty ranks beams, and has no effect on a single one.

    Args:
        penalty: β.
    """

    # whether a row's scores depend on that row only
    is_by_row = True

    def __init__(self, penalty: float):
        self.penalty = penalty
        self._growth: torch.Tensor | None = None

    def observe(self, coverage: torch.Tensor, step: torch.Tensor) -> None:
        """Record the coverage (R, S) including the step to be scored, and that step's copy distribution (R, S)."""
        self._growth = _overlap(coverage) - _overlap(coverage - step)

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        return scores - self.penalty * self._growth[:, None].to(scores.device, scores.dtype)


def _overlap(coverage: torch.Tensor) -> torch.Tensor:
    return (coverage.clamp(min=1.0) - 1.0).sum(-1)
