"""A masked language model as judge of a generator's tokens (Aksenov 2020, sections 4.2.2 and 4.2.7)."""

import math

import torch
from torch import nn

from .pretrained_parts import longest_input

# the most tokens and rows in a batch of drafts: the first bounds the model's states, the second the scores over its
# vocabulary
_TOKENS_AT_ONCE = 8192
_ROWS_AT_ONCE = 128


def percentile_threshold(scores: torch.Tensor, percentile: float) -> torch.Tensor:
    """The p-th percentile of the last axis by nearest rank: its k-th smallest value, k = max(1, ⌈p/100 · V⌉).

    Args:
        scores: (…, V); only their order counts, so logits, log-probabilities and probabilities are all fine.

    Returns:
        (…).
    """
    size = scores.shape[-1]
    # rounded, so that 99.9 / 100 · 30000 is rank 29970 although the product in floats is slightly larger
    rank = min(max(1, math.ceil(round(percentile * size / 100, 6))), size)
    # the smallest of the V - k + 1 largest: these are few, so this is the fastest way to find the k-th smallest
    return scores.topk(size - rank + 1, sorted=False).values.amin(-1)


def above_percentile(scores: torch.Tensor, tokens: torch.Tensor, percentile: float) -> torch.Tensor:
    """Whether a language model accepts each token: if its probability is above the p-th percentile of the distribution.

    Without ties, V - k tokens are accepted, where k is the percentile's rank. Tokens equal to the percentile are not.

    Args:
        scores: (…, V), logits or log-probabilities.
        tokens: (…, N) ids.

    Returns:
        (…, N), bool.
    """
    return scores.gather(-1, tokens) > percentile_threshold(scores, percentile)[..., None]


def multiply_probabilities(scores: torch.Tensor, tokens: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
    """The distribution after multiplying the probabilities of some tokens and renormalizing.

    Args:
        scores: (…, V), logits or log-probabilities.
        tokens: (…, N) ids, distinct within each row.
        factors: (…, N), above 0.

    Returns:
        (…, V) log-probabilities.
    """
    # a constant added to a whole row, such as the logits' own normalizer, cancels
    return scores.scatter_add(-1, tokens, factors.log()).log_softmax(-1)


def rows_at_once(length: int) -> int:
    """The number of language model inputs of `length` tokens that make a batch of bounded memory."""
    return min(max(1, _TOKENS_AT_ONCE // length), _ROWS_AT_ONCE)


@torch.no_grad()
def draft_predictions(
    masked_lm: nn.Module, drafts: torch.Tensor, lengths: torch.Tensor, mask_token_id: int, pad_token_id: int
) -> torch.Tensor:
    """Scores of the token that follows each draft: the masked LM's at [MASK] in `[draft so far, MASK]`.

    Padding within a draft is not attended to. Only the last part of a draft longer than the LM's positions is read.

    Args:
        drafts: (R, T) ids, starting with `[CLS]` if the LM expects it.
        lengths: (R,), the number of tokens of each row that are its draft.

    Returns:
        (R, V) logits of the LM.
    """
    width = int(lengths.max())
    longest = longest_input(masked_lm)
    if longest is not None:
        width = min(width, longest - 1)
    starts = (lengths - width).clamp(min=0)
    places = torch.arange(width + 1, device=drafts.device)
    columns = starts[:, None] + places
    inputs = drafts.gather(1, columns.clamp(max=drafts.shape[1] - 1))
    ends = lengths - starts
    inputs = inputs.masked_fill(places > ends[:, None], pad_token_id)
    inputs[torch.arange(len(drafts), device=drafts.device), ends] = mask_token_id
    attention_mask = ((inputs != pad_token_id) | (places == ends[:, None])).long()
    return _scores_at(masked_lm, inputs, attention_mask, ends)


def accepted_tokens(
    masked_lm: nn.Module,
    drafts: torch.Tensor,
    lengths: torch.Tensor,
    candidates: torch.Tensor,
    percentile: float,
    mask_token_id: int,
    pad_token_id: int,
) -> torch.Tensor:
    """Whether the masked LM accepts each candidate for a draft's next token, in batches of bounded memory.

    Args:
        drafts: (R, T) ids.
        lengths: (R,), the number of tokens of each row that are its draft; sorted lengths waste the least padding.
        candidates: (R, N) ids.

    Returns:
        (R, N), bool.
    """
    accepted = torch.empty_like(candidates, dtype=torch.bool)
    size = rows_at_once(drafts.shape[1] + 1)
    for start in range(0, len(drafts), size):
        batch = slice(start, start + size)
        scores = draft_predictions(masked_lm, drafts[batch], lengths[batch], mask_token_id, pad_token_id)
        accepted[batch] = above_percentile(scores, candidates[batch], percentile)
    return accepted


def condition_in_training(
    scores: torch.Tensor,
    decoder_input_ids: torch.Tensor,
    masked_lm: nn.Module,
    mask_token_id: int,
    pad_token_id: int,
    top_tokens: int,
    percentile: float,
    factor: float,
) -> torch.Tensor:
    """Generator conditioning in training: tokens that the masked LM accepts become `factor` times as likely.

    At each target position the LM reads `[decoder inputs up to there, MASK]`, and those of the generator's `top_tokens`
    most likely tokens that are above the LM's percentile are raised, before renormalizing. The choice of tokens is
    treated as a constant: gradients flow only through `scores`. Positions whose decoder input is padding predict no
    target and are normalized without consulting the LM.

    Args:
        scores: (R, T, V), logits or log-probabilities of the generator.
        decoder_input_ids: (R, T), starting with the decoder's start token.

    Returns:
        (R, T, V) log-probabilities.
    """
    candidates = scores.detach().topk(min(top_tokens, scores.shape[-1])).indices
    is_asked = decoder_input_ids != pad_token_id
    is_asked[:, 0] = True
    # by position, so that batches hold drafts of similar length
    positions, rows = is_asked.T.nonzero(as_tuple=True)
    accepted = torch.zeros_like(candidates, dtype=torch.bool)
    accepted[rows, positions] = accepted_tokens(
        masked_lm,
        decoder_input_ids[rows],
        positions + 1,
        candidates[rows, positions],
        percentile,
        mask_token_id,
        pad_token_id,
    )
    factors = torch.where(accepted, scores.new_tensor(factor), scores.new_tensor(1.0))
    return multiply_probabilities(scores, candidates, factors)


def _scores_at(masked_lm: nn.Module, input_ids, attention_mask, places: torch.Tensor) -> torch.Tensor:
    """The LM's logits (R, V) at one position (R,) of each row of its inputs (R, L)."""
    rows = torch.arange(len(places), device=places.device)

    def keep_place(module, args, output):
        output["last_hidden_state"] = output.last_hidden_state[rows, places][:, None]
        return output

    # the head reads each position on its own: at all of them it would cost more time than the layers below it, and L
    # times the memory
    hook = masked_lm.base_model.register_forward_hook(keep_place)
    try:
        return masked_lm(input_ids=input_ids, attention_mask=attention_mask).logits[:, 0]
    finally:
        hook.remove()
