"""The training loss shared by all architectures."""

import torch

IGNORED_LABEL = -100


def smoothed_cross_entropy(
    logits: torch.Tensor,
    labels: torch.Tensor,
    smoothing: float,
    num_items_in_batch: torch.Tensor | int | None = None,
    normalize: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Label-smoothed cross-entropy: per token (1 - ε) NLL + ε · mean over the vocabulary of -log p.

    The sum over target tokens is divided by `num_items_in_batch`, the number of target tokens in all accumulated
    batches, or by that of this batch if it is not given; so gradient accumulation does not change the loss.

    Args:
        logits: (B, T, V), unnormalized or log-probabilities.
        labels: (B, T), -100 where nothing is to be predicted.
        smoothing: ε, at least 0 and below 1.
        num_items_in_batch: the number to divide by.
        normalize: whether the logits are normalized; if not, they are taken for log-probabilities as they are.

    Returns:
        The loss, and the negative log-likelihood without smoothing, normalized in the same way and detached; scalars,
        float64 if the logits are, otherwise float32.
    """
    wanted = labels != IGNORED_LABEL
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    log_partition = logits.logsumexp(-1) if normalize else logits.new_zeros(())
    nll = log_partition - logits.gather(-1, labels.clamp(min=0)[..., None])[..., 0]
    tokens = wanted.sum().clamp(min=1) if num_items_in_batch is None else num_items_in_batch
    nll_sum = nll.masked_fill(~wanted, 0.0).sum() / tokens
    if smoothing == 0.0:
        # a copy, as transformers scales the loss in place
        return nll_sum, nll_sum.detach().clone()
    uniform_sum = (log_partition - logits.mean(-1)).masked_fill(~wanted, 0.0).sum() / tokens
    return (1.0 - smoothing) * nll_sum + smoothing * uniform_sum, nll_sum.detach()


def shift_right(labels: torch.Tensor, start_token_id: int, pad_token_id: int) -> torch.Tensor:
    """Decoder inputs for teacher forcing: the labels shifted right behind the start token, (B, T) -> (B, T)."""
    shifted = labels.new_full(labels.shape, start_token_id)
    shifted[:, 1:] = labels[:, :-1]
    return shifted.masked_fill(shifted == IGNORED_LABEL, pad_token_id)


def check_labels(labels: torch.Tensor, vocab_size: int) -> None:
    """Raise a ValueError for a label outside the vocabulary, before it reaches an embedding."""
    # on an accelerator this check would synchronize at every step, and the device's own assertion stops the run anyway
    if labels.device.type != "cpu":
        return
    wanted = labels[labels != IGNORED_LABEL]
    outside = wanted[(wanted < 0) | (wanted >= vocab_size)]
    if outside.numel():
        raise ValueError(
            f"label {outside[0]} is outside the vocabulary of {vocab_size}, so another tokenizer made it: use the "
            "processor that was saved with the model, or set `vocab_size` to the tokenizer's"
        )
