"""A masked language model as judge of a generator's tokens (thesis, sections 4.2.2 and 4.2.7)."""

import math

import torch
from torch import nn

from .pretrained_parts import longest_input

# a batch of drafts holds so many tokens and so many rows at most: the first bounds the model's states, the second the
# scores over its vocabulary
_TOKENS_AT_ONCE = 8192
_ROWS_AT_ONCE = 128


def percentile_threshold(scores: torch.Tensor, percentile: float) -> torch.Tensor:
    """The p-th percentile of the last axis by nearest rank: its k-th smallest value, k = max(1, ⌈p/100 · V⌉).

    Args:
        scores: (…, V); only their order counts, so logits, log-probabilities and probabilities are alike.

    Returns:
        (…)
    """
    size = scores.shape[-1]
    # rounded, so that 99.9 / 100 · 30000 is rank 29970 although its product in floats lies above
    rank = min(max(1, math.ceil(round(percentile * size / 100, 6))), size)
    # the smallest of the V - k + 1 largest: they are few, which makes this the fastest way to the k-th smallest
    return scores.topk(size - rank + 1, sorted=False).values.amin(-1)


def above_percentile(scores: torch.Tensor, tokens: torch.Tensor, percentile: float) -> torch.Tensor:
    """Which tokens a language model accepts: those whose probability is above the p-th percentile of its distribution.

    Without ties V - k tokens are accepted, k the percentile's rank; tokens equal to the percentile are not.

    Args:
        scores: (…, V), logits or log-probabilities.
        tokens: (…, N) ids.

    Returns:
        (…, N), bool.
    """
    return scores.gather(-1, tokens) > percentile_threshold(scores, percentile)[..., None]


def multiply_probabilities(scores: torch.Tensor, tokens: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
    """The distribution with some tokens' probabilities multiplied, renormalised.

    Args:
        scores: (…, V), logits or log-probabilities.
        tokens: (…, N) ids, no token twice in a row.
        factors: (…, N), above 0.

    Returns:
        (…, V) log-probabilities.
    """
    # a constant that is the same for the whole row, such as the logits' own normaliser, cancels
    return scores.scatter_add(-1, tokens, factors.log()).log_softmax(-1)


def rows_at_once(length: int) -> int:
    """How many language model inputs of `length` tokens make a batch of bounded memory."""
    return min(max(1, _TOKENS_AT_ONCE // length), _ROWS_AT_ONCE)


@torch.no_grad()
def draft_predictions(
    masked_lm: nn.Module, drafts: torch.Tensor, lengths: torch.Tensor, mask_token_id: int, pad_token_id: int
) -> torch.Tensor:
    """Scores of the token that comes after each draft: the masked LM's at [MASK] in `[draft so far, MASK]`.

    Padding within a draft is not attended to. Of a draft that has no room in the LM's positions the last part counts.

    Args:
        drafts: (R, T) ids; `[CLS]` first, if the LM is used to it.
        lengths: (R,), how many tokens of each row are its draft.

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
    """Which candidates for the next token of each draft the masked LM accepts, in batches of bounded memory.

    Args:
        drafts: (R, T) ids.
        lengths: (R,), how many tokens of each row are its draft; batches are tightest when they are sorted.
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
    """Generator conditioning while training: what the masked LM accepts becomes `factor` times as likely, renormalised.

    At each target position the LM reads `[decoder inputs up to there, MASK]`; of the generator's `top_tokens` likeliest
    tokens those above the LM's percentile are raised. Which they are is a constant: gradients flow through `scores`
    alone. Positions whose decoder input is padding predict no target, and are normalised without asking the LM.

    Args:
        scores: (R, T, V), logits or log-probabilities of the generator.
        decoder_input_ids: (R, T), whose first tokens start the decoder.

    Returns:
        (R, T, V) log-probabilities.
    """
    candidates = scores.detach().topk(min(top_tokens, scores.shape[-1])).indices
    is_asked = decoder_input_ids != pad_token_id
    is_asked[:, 0] = True
    # by position: batches then hold drafts of like length
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
    """The LM's logits at one place (R,) of each row of its inputs (R, L): (R, V)."""
    rows = torch.arange(len(places), device=places.device)

    def keep_place(module, args, output):
        output["last_hidden_state"] = output.last_hidden_state[rows, places][:, None]
        return output

    # the head reads each place by itself: at all of them it would cost more than the layers below, and L times the
    # memory
    hook = masked_lm.base_model.register_forward_hook(keep_place)
    try:
        return masked_lm(input_ids=input_ids, attention_mask=attention_mask).logits[:, 0]
    finally:
        hook.remove()
