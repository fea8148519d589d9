"""How closely the copying of a generated summary follows the centrality that guides it."""

from collections.abc import Mapping

import torch
from torch import nn

from hf_summ.models.layers_guidance import guidance_divergence
from hf_summ.models.losses import IGNORED_LABEL


def summary_divergences(
    model: nn.Module, inputs: Mapping[str, torch.Tensor], summaries: list[list[int]]
) -> list[float]:
    """KL(mean_t a_t ‖ p) of each summary (Xu et al. 2020, equation 18), from one teacher-forced forward pass.

    Args:
        model: a guided model.
        inputs: of the documents.
        summaries: generated ids, each behind the token that the decoder starts with.
    """
    length = max(len(summary) for summary in summaries)
    labels = torch.full((len(summaries), max(length - 1, 1)), IGNORED_LABEL, device=inputs["input_ids"].device)
    for row, summary in enumerate(summaries):
        labels[row, : len(summary) - 1] = torch.tensor(summary[1:])
    outputs = model(**inputs, labels=labels, skip_logits=True)
    return guidance_divergence(outputs["copy_attentions"], labels, outputs["centrality"]).tolist()
