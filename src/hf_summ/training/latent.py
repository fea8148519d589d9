"""Whether a model uses its latent variables, or they have collapsed to their prior."""

from collections.abc import Sequence

import numpy as np
import torch

from hf_summ.models.losses import IGNORED_LABEL

# variance above which a variable is active (Burda et al. 2016, section 5)
_ACTIVE_VARIANCE = 0.01


def document_means(means: torch.Tensor, labels: torch.Tensor) -> np.ndarray:
    """The variables' means of each document: those of its target tokens (B, T, L), averaged over (B, T) labels; (B, L).

    A document without a target token has zeros.
    """
    wanted = (labels != IGNORED_LABEL)[..., None]
    sums = means.float().masked_fill(~wanted, 0.0).sum(1)
    return (sums / wanted.sum(1).clamp(min=1)).cpu().numpy()


def active_units(means: Sequence[np.ndarray]) -> int:
    """The number of latent variables whose mean differs between documents, by a variance above .01.

    Args:
        means: (L,) for each document, see `document_means`.
    """
    return int((np.stack(means).astype(np.float64).var(axis=0) > _ACTIVE_VARIANCE).sum())
