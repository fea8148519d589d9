"""A masked language model that judges a generator's tokens (Aksenov 2020, sections 4.2.2 and 4.2.7)."""

import math
from collections.abc import Sequence

import torch
from torch import nn
from transformers import LogitsProcessor

from .layers_copy_transformer import longest_input, own_positions

# maximum tokens and rows in a batch of drafts: these bound the model's states and the scores over its vocabulary
_TOKENS_AT_ONCE = 8192
_ROWS_AT_ONCE = 128


def above_percentile(scores: torch.Tensor, tokens: torch.Tensor, percentile: float) -> torch.Tensor:
    """Whether a language model with scores (…, V) accepts each token (…, N): it is above the p-th percentile -> (…, N).

    The percentile is by nearest rank: the k-th smallest value, k = max(1, ⌈p/100 · V⌉). Tokens at it are rejected.
    """
    size = scores.shape[-1]
    # round, as 99.9 / 100 · 30000 in floats is slightly above rank 29970
    rank = min(max(1, math.ceil(round(percentile * size / 100, 6))), size)
    # the k-th smallest is the smallest of the V - k + 1 largest; these are few, so this is the fastest way
    return scores.gather(-1, tokens) > scores.topk(size - rank + 1, sorted=False).values.amin(-1, keepdim=True)


def multiply_probabilities(scores: torch.Tensor, tokens: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
    """Multiply probabilities of some tokens by factors, and renormalize.

    Scores (…, V), different token ids (…, N) and factors above 0 (…, N) -> log-probabilities (…, V).
    """
    # a constant added to a whole row, such as the logits' own normalizer, cancels
    return scores.scatter_add(-1, tokens, factors.log()).log_softmax(-1)


def scale_from_mean(scores: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
    """Multiply the distances of scores from their row's mean: m + f (s - m), without normalization.

    A constant added to a whole row is preserved. The mean excludes impossible tokens (minus infinity). Scores and
    factors above 0, both (…, V) -> (…, V).
    """
    is_impossible = scores.isneginf()
    possible = (~is_impossible).sum(-1, keepdim=True).clamp(min=1)
    mean = scores.masked_fill(is_impossible, 0.0).sum(-1, keepdim=True) / possible
    return mean + factors * (scores - mean)


def rows_at_once(length: int) -> int:
    """The number of language model inputs of `length` tokens in a batch of bounded memory."""
    return min(max(1, _TOKENS_AT_ONCE // length), _ROWS_AT_ONCE)


@torch.no_grad()
def draft_predictions(
    masked_lm: nn.Module, drafts: torch.Tensor, lengths: torch.Tensor, mask_token_id: int, pad_token_id: int
) -> torch.Tensor:
    """The masked LM's scores (R, V) of each draft's next token: those at [MASK] in `[draft so far, MASK]`.

    Padding within a draft is masked. If a draft exceeds the LM's positions, only its end is read.

    Args:
        drafts: (R, T) ids, starting with `[CLS]` if the LM expects it.
        lengths: (R,), the number of draft tokens in each row.
    """
    width = int(lengths.max())
    longest = longest_input(masked_lm)
    if longest is not None:
        width = min(width, longest - 1)
    starts = (lengths - width).clamp(min=0)
    positions = torch.arange(width + 1, device=drafts.device)
    columns = starts[:, None] + positions
    inputs = drafts.gather(1, columns.clamp(max=drafts.shape[1] - 1))
    ends = lengths - starts
    inputs = inputs.masked_fill(positions > ends[:, None], pad_token_id)
    inputs[torch.arange(len(drafts), device=drafts.device), ends] = mask_token_id
    attention_mask = ((inputs != pad_token_id) | (positions == ends[:, None])).long()
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
    """Whether the masked LM accepts each candidate (R, N) for a draft's next token, in batches of bounded memory.

    Args:
        drafts: (R, T) ids.
        lengths: (R,), the number of draft tokens in each row; sorted lengths need the least padding.
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
    In the space `log`, as in the author's commented-out code, `factor` multiplies the distance of every accepted
    token's log-probability from the mean, without normalization. In the space `probability`, accepted tokens among the
    generator's `top_tokens` most likely ones become `factor` times as likely, before normalization. The choice of
    tokens is a constant: gradients flow only through `scores`. Positions whose decoder input is padding have no target,
    and the LM skips them.

    Args:
        scores: (R, T, V), logits or log-probabilities of the generator; the result is log-probabilities.
        decoder_input_ids: (R, T), starting with the decoder's start token.
    """
    if space == "log":
        candidates = torch.arange(scores.shape[-1], device=scores.device).expand(scores.shape)
    else:
        candidates = scores.detach().topk(min(top_tokens, scores.shape[-1])).indices
    is_judged = decoder_input_ids != pad_token_id
    is_judged[:, 0] = True
    # ordered by position: batches hold drafts of similar length
    positions, rows = is_judged.T.nonzero(as_tuple=True)
    # in the space `log` each position has the same candidates: expand a view, as indexing would copy them
    judged = candidates[0, 0].expand(len(rows), -1) if space == "log" else candidates[rows, positions]
    accepted = torch.zeros(candidates.shape, dtype=torch.bool, device=scores.device)
    accepted[rows, positions] = accepted_tokens(
        masked_lm, decoder_input_ids[rows], positions + 1, judged, percentile, mask_token_id, pad_token_id
    )
    factors = torch.where(accepted, scores.new_tensor(factor), scores.new_tensor(1.0))
    if space == "log":
        return scale_from_mean(scores.log_softmax(-1), factors)
    return multiply_probabilities(scores, candidates, factors)


def _scores_at(masked_lm: nn.Module, input_ids, attention_mask, positions: torch.Tensor) -> torch.Tensor:
    """The LM's logits (R, V) at one position (R,) of each row of its inputs (R, L)."""
    rows = torch.arange(len(positions), device=positions.device)

    def select_positions(module, args, output):
        output["last_hidden_state"] = output.last_hidden_state[rows, positions][:, None]
        return output

    # the head processes positions independently: all positions would take more time than the layers below, and L times
    # the memory
    hook = masked_lm.base_model.register_forward_hook(select_positions)
    try:
        settings = own_positions(masked_lm, input_ids)
        return masked_lm(input_ids=input_ids, attention_mask=attention_mask, **settings).logits[:, 0]
    finally:
        hook.remove()


class LanguageModelLogitsProcessor(LogitsProcessor):
    """Scales the scores of tokens by a masked LM's judgment of the generator's most likely ones.

    The LM reads `[draft so far, MASK]`. It accepts a token above the percentile of its distribution.

    In the space `log`, as in the author's commented-out code, a factor multiplies the distance of a token's log-
    probability from the mean. Accepted tokens among the most likely ones get the accepted factor, and all others except
    end tokens the rejected factor (α in Aksenov 2020). Nothing is normalized. In the space `probability`, factors
    multiply only the probabilities of the most likely tokens, and the result is normalized log-probabilities.

    Scores may be logits or log-probabilities. Forbidden tokens stay forbidden. In the space `probability`, the others
    receive their probability; this processor must therefore precede those that forbid tokens.
    """

    # whether a row's scores depend on that row only
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
        self.masked_lm, self.mask_token_id, self.pad_token_id = masked_lm, mask_token_id, pad_token_id
        self.top_tokens, self.percentile, self.space = top_tokens, percentile, space
        self.rejected_factor, self.accepted_factor = rejected_factor, accepted_factor
        self.end_token_ids = list(end_token_ids)

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        candidates = scores.topk(min(self.top_tokens, scores.shape[-1])).indices
        lengths = input_ids.new_full((len(input_ids),), input_ids.shape[1])
        accepted = accepted_tokens(
            self.masked_lm, input_ids, lengths, candidates, self.percentile, self.mask_token_id, self.pad_token_id
        )
        if self.space == "log":
            factors = torch.full_like(scores, self.rejected_factor)
            factors[:, self.end_token_ids] = 1.0
            raised = factors.gather(-1, candidates).masked_fill(accepted, self.accepted_factor)
            return scale_from_mean(scores, factors.scatter(-1, candidates, raised))
        factors = scores.new_tensor([self.rejected_factor, self.accepted_factor])[accepted.long()]
        conditioned = multiply_probabilities(scores, candidates, factors)
        # a row with only forbidden tokens cannot be normalized
        return conditioned.masked_fill(scores.isneginf(), -torch.inf)
