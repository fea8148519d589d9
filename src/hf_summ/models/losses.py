"""The training loss that all architectures share."""

import torch

IGNORED_LABEL = -100


def smoothed_cross_entropy(
    logits: torch.Tensor, labels: torch.Tensor, smoothing: float, num_items_in_batch: torch.Tensor | int | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Label-smoothed cross-entropy: per token (1 - ε) NLL + ε · mean over the vocabulary of -log p.

    The sum over target tokens is divided by `num_items_in_batch`, the target tokens of all accumulated batches, or by
    the tokens of this batch where it is not given; so gradient accumulation does not change the loss.

    Args:
        logits: (B, T, V), unnormalised or log-probabilities.
        labels: (B, T), -100 where nothing is to be predicted.
        smoothing: ε, from 0 to 1.
        num_items_in_batch: the number to divide by.

    Returns:
        the loss, and the negative log-likelihood without smoothing, normalised alike and detached; scalars, float32 or
        float64 where the logits are.
    """
    wanted = labels != IGNORED_LABEL
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    log_partition = logits.logsumexp(-1)
    nll = log_partition - logits.gather(-1, labels.clamp(min=0)[..., None])[..., 0]
    tokens = wanted.sum().clamp(min=1) if num_items_in_batch is None else num_items_in_batch
    nll_sum = nll.masked_fill(~wanted, 0.0).sum() / tokens
    if smoothing == 0.0:
        return nll_sum, nll_sum.detach()
    uniform_sum = (log_partition - logits.mean(-1)).masked_fill(~wanted, 0.0).sum() / tokens
    return (1.0 - smoothing) * nll_sum + smoothing * uniform_sum, nll_sum.detach()


def shift_right(labels: torch.Tensor, start_token_id: int, pad_token_id: int) -> torch.Tensor:
    """Decoder inputs for teacher forcing: the labels, one position later, behind the start token. (B, T) -> (B, T)"""
    shifted = labels.new_full(labels.shape, start_token_id)
    shifted[:, 1:] = labels[:, :-1]
    return shifted.masked_fill(shifted == IGNORED_LABEL, pad_token_id)


def check_labels(labels: torch.Tensor, vocab_size: int) -> None:
    """Raise a ValueError for a label outside the vocabulary, before it reaches an embedding."""
    # on an accelerator this look would wait for it at every step, and its own assertion stops the run anyway
    if labels.device.type != "cpu":
        return
    wanted = labels[labels != IGNORED_LABEL]
    outside = wanted[(wanted < 0) | (wanted >= vocab_size)]
    if outside.numel():
        raise ValueError(
            f"label {outside[0]} is outside the vocabulary of {vocab_size}: another tokenizer made the labels; "
            "use the processor that was saved with the model, or set `vocab_size` to the tokenizer's"
        )
