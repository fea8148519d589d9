"""A masked language model that judges a generator's tokens (Aksenov 2020, sections 4.2.2 and 4.2.7).

The generator is the summarization model. A draft is the start of a summary that it writes. The language model (LM)
predicts the draft's next token from `[draft, MASK]`, and accepts tokens above a percentile of its scores.
"""

import math
from collections.abc import Sequence

import torch
from torch import nn
from transformers import LogitsProcessor

from .layers_copy_transformer import longest_input, position_arguments

# the largest batch of drafts: the number of tokens bounds the memory of the LM's states, and the number of rows bounds
# the memory of its scores
_TOKENS_AT_ONCE = 8192
_ROWS_AT_ONCE = 128


def above_percentile(scores: torch.Tensor, tokens: torch.Tensor, percentile: float) -> torch.Tensor:
    """Whether the scores of tokens are above the p-th percentile of a language model's scores.

    The percentile is by nearest rank: the k-th smallest score, k = max(1, ⌈p/100 · V⌉).

    Args:
        scores: (…, V), of all words.
        tokens: (…, N), ids of the tokens to judge.
        percentile: p, from 0 to 100.

    Returns:
        (…, N), true at accepted tokens; tokens exactly at the percentile are rejected.
    """
    size = scores.shape[-1]
    # the product is rounded first, as 99.9 / 100 · 30000 is slightly above 29970 in floating point
    rank = math.ceil(round(percentile * size / 100, 6))
    rank = min(max(1, rank), size)
    # the k-th smallest score is the smallest of the V - k + 1 largest; these are few, so this is the fastest way
    largest = scores.topk(size - rank + 1, sorted=False).values
    threshold = largest.amin(-1, keepdim=True)
    return scores.gather(-1, tokens) > threshold


def multiply_probabilities(scores: torch.Tensor, tokens: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
    """Multiply probabilities of some tokens by factors, and renormalize.

    Args:
        scores: (…, V), logits or log-probabilities.
        tokens: (…, N), different ids.
        factors: (…, N), above 0.

    Returns:
        Log-probabilities (…, V).
    """
    # logits need no normalization first: a constant that is added to a whole row cancels
    return scores.scatter_add(-1, tokens, factors.log()).log_softmax(-1)


def scale_from_mean(scores: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
    """Multiply the distance of each score s from its row's mean m by its factor f: m + f (s - m).

    Nothing is normalized, so a constant that is added to a whole row stays in the result. The mean excludes impossible
    tokens, whose score is minus infinity.

    Args:
        scores: (…, V).
        factors: (…, V), above 0.

    Returns:
        Scores (…, V).
    """
    is_impossible = scores.isneginf()
    possible_tokens = (~is_impossible).sum(-1, keepdim=True).clamp(min=1)
    total = scores.masked_fill(is_impossible, 0.0).sum(-1, keepdim=True)
    mean = total / possible_tokens
    return mean + factors * (scores - mean)


def rows_at_once(length: int) -> int:
    """The number of rows of `length` tokens in a batch that bounds the LM's memory."""
    rows = max(1, _TOKENS_AT_ONCE // length)
    return min(rows, _ROWS_AT_ONCE)


@torch.no_grad()
def draft_predictions(
    masked_lm: nn.Module, drafts: torch.Tensor, lengths: torch.Tensor, mask_token_id: int, pad_token_id: int
) -> torch.Tensor:
    """The masked LM's scores (R, V) of each draft's next token, at MASK in `[draft, MASK]`.

    Padding within a draft is masked. If a draft exceeds the LM's positions, the LM reads only its end.

    Args:
        masked_lm: the masked LM.
        drafts: (R, T) ids, starting with `[CLS]` if the LM expects it.
        lengths: (R,), the number of draft tokens in each row.
        mask_token_id, pad_token_id: the ids of MASK and of padding.
    """
    # the largest number of draft tokens that the LM reads
    width = int(lengths.max())
    longest = longest_input(masked_lm)
    if longest is not None:
        width = min(width, longest - 1)
    starts = (lengths - width).clamp(min=0)
    positions = torch.arange(width + 1, device=drafts.device)
    columns = starts[:, None] + positions
    inputs = drafts.gather(1, columns.clamp(max=drafts.shape[1] - 1))
    # the position of MASK, behind the last token of the draft
    mask_positions = lengths - starts
    inputs = inputs.masked_fill(positions > mask_positions[:, None], pad_token_id)
    inputs[torch.arange(len(drafts), device=drafts.device), mask_positions] = mask_token_id
    # the LM reads MASK even if MASK and padding have the same id
    is_read = (inputs != pad_token_id) | (positions == mask_positions[:, None])
    return _scores_at(masked_lm, inputs, is_read.long(), mask_positions)


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
        drafts: (R, T) ids, with padding on the right.
        lengths: (R,), the number of draft tokens in each row. Rows should be sorted by this number, as a batch is as
            wide as its longest draft.
        candidates: (R, N) ids.
        percentile: candidates above this percentile of the LM's scores are accepted.

    Returns:
        (R, N), true at accepted candidates.
    """
    accepted = torch.empty(candidates.shape, dtype=torch.bool, device=candidates.device)
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
    space: str,
) -> torch.Tensor:
    """Generator conditioning in training: raise the scores of tokens that the masked LM accepts by `factor`.

    At each target position the LM reads `[decoder inputs up to there, MASK]` and accepts tokens above its percentile.
    Positions whose decoder input is padding have no target, and the LM skips them. The choice of tokens is a constant:
    gradients flow only through `scores`.

    Args:
        scores: (R, T, V), logits or log-probabilities of the generator.
        decoder_input_ids: (R, T), starting with the decoder's start token.
        space: `log`, as in the author's commented-out code: `factor` multiplies the distance of every accepted token's
            log-probability from the mean, without normalization. `probability`: accepted tokens among the generator's
            `top_tokens` most likely tokens become `factor` times as likely, before normalization.

    Returns:
        (R, T, V): log-probabilities, which are not normalized in the space `log`.
    """
    is_judged = decoder_input_ids != pad_token_id
    is_judged[:, 0] = True
    # the drafts are ordered by position, so that the drafts of a batch have similar lengths
    positions, rows = is_judged.T.nonzero(as_tuple=True)
    if space == "log":
        # all words are candidates at each position. A single list of words is expanded, as indexing would copy it
        words = torch.arange(scores.shape[-1], device=scores.device)
        candidates = words.expand(scores.shape)
        judged_candidates = words.expand(len(rows), -1)
    else:
        candidates = scores.detach().topk(min(top_tokens, scores.shape[-1])).indices
        judged_candidates = candidates[rows, positions]
    accepted = torch.zeros(candidates.shape, dtype=torch.bool, device=scores.device)
    accepted[rows, positions] = accepted_tokens(
        masked_lm,
        drafts=decoder_input_ids[rows],
        lengths=positions + 1,
        candidates=judged_candidates,
        percentile=percentile,
        mask_token_id=mask_token_id,
        pad_token_id=pad_token_id,
    )
    factors = torch.where(accepted, scores.new_tensor(factor), scores.new_tensor(1.0))
    if space == "log":
        return scale_from_mean(scores.log_softmax(-1), factors)
    return multiply_probabilities(scores, candidates, factors)


def _scores_at(masked_lm: nn.Module, input_ids, attention_mask, positions: torch.Tensor) -> torch.Tensor:
    """The LM's logits (R, V) at one position of each row.

    Args:
        masked_lm: the LM.
        input_ids, attention_mask: (R, L).
        positions: (R,), the position of each row.
    """
    rows = torch.arange(len(positions), device=positions.device)

    def select_positions(module, args, output):
        output["last_hidden_state"] = output.last_hidden_state[rows, positions][:, None]
        return output

    # the LM's head processes each position alone, so it gets only one position of each row. For all positions, it would
    # take more time than the layers below it, and L times the memory
    hook = masked_lm.base_model.register_forward_hook(select_positions)
    try:
        position_ids = position_arguments(masked_lm, input_ids)
        outputs = masked_lm(input_ids=input_ids, attention_mask=attention_mask, **position_ids)
        return outputs.logits[:, 0]
    finally:
        hook.remove()


class LanguageModelLogitsProcessor(LogitsProcessor):
    """Scales the scores of tokens by a masked LM's judgment of the generator's most likely tokens.

    The LM reads `[draft so far, MASK]`. It accepts a token above the percentile of its distribution.

    In the space `log`, as in the author's commented-out code, a factor multiplies the distance of a token's log-
    probability from the mean. Accepted tokens among the `top_tokens` most likely tokens get `accepted_factor`, and all
    other tokens but end tokens get `rejected_factor` (α in Aksenov 2020). Nothing is normalized. In the space
    `probability`, factors multiply only the probabilities of the most likely tokens, and the result is normalized log-
    probabilities.

    Scores may be logits or log-probabilities. Tokens that an earlier processor forbids stay forbidden. A processor that
    forbids tokens should nevertheless follow this one in the space `probability`, where the normalization would give
    the probability of forbidden tokens to the others.
    """

    # the scores of a row depend on no other row
    is_by_row = True

    def __init__(
        self,
        masked_lm: nn.Module,
        mask_token_id: int,
        pad_token_id: int,
        top_tokens: int,
        percentile: float,
        rejected_factor: float = 1.0,
        accepted_factor: float = 1.0,
        space: str = "log",
        end_token_ids: Sequence[int] = (),
    ):
        self.masked_lm = masked_lm
        self.mask_token_id = mask_token_id
        self.pad_token_id = pad_token_id
        self.top_tokens = top_tokens
        self.percentile = percentile
        self.rejected_factor = rejected_factor
        self.accepted_factor = accepted_factor
        self.space = space
        self.end_token_ids = list(end_token_ids)

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        candidates = scores.topk(min(self.top_tokens, scores.shape[-1])).indices
        rows, length = input_ids.shape
        accepted = accepted_tokens(
            self.masked_lm,
            drafts=input_ids,
            lengths=input_ids.new_full((rows,), length),
            candidates=candidates,
            percentile=self.percentile,
            mask_token_id=self.mask_token_id,
            pad_token_id=self.pad_token_id,
        )
        if self.space == "log":
            factors = torch.full_like(scores, self.rejected_factor)
            factors[:, self.end_token_ids] = 1.0
            candidate_factors = factors.gather(-1, candidates).masked_fill(accepted, self.accepted_factor)
            return scale_from_mean(scores, factors.scatter(-1, candidates, candidate_factors))
        candidate_factors = scores.new_full(candidates.shape, self.rejected_factor)
        candidate_factors = candidate_factors.masked_fill(accepted, self.accepted_factor)
        conditioned = multiply_probabilities(scores, candidates, candidate_factors)
        # a row with only forbidden tokens cannot be normalized
        return conditioned.masked_fill(scores.isneginf(), -torch.inf)
