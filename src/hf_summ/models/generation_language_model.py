"""Generator conditioning while decoding (Aksenov 2020, section 4.2.7)."""

from collections.abc import Sequence

import torch
from torch import nn
from transformers import LogitsProcessor

from .checks import check_generation_settings
from .layers_language_model import accepted_tokens, multiply_probabilities, scale_from_mean


class LanguageModelLogitsProcessor(LogitsProcessor):
    """Scales the scores of tokens by a masked LM's judgment of the generator's most likely ones.

    The LM reads `[draft so far, MASK]`. It accepts a token above the percentile of its distribution.

    In the space `log`, as in the author's commented-out code, a factor multiplies the distance of a token's
    log-probability from the mean. Accepted tokens among the most likely ones get the accepted factor, and all others
    except end tokens the rejected factor. Nothing is normalized. In the space `probability`, factors multiply only the
    probabilities of the most likely tokens, and the result is normalized log-probabilities.

    Scores may be logits or log-probabilities. Forbidden tokens stay forbidden. In the space `probability`, the others
    receive their probability; this processor must therefore precede those that forbid tokens.

    Args:
        masked_lm: a masked language model over the generator's vocabulary.
        mask_token_id, pad_token_id: ids of its mask and padding tokens.
        top_tokens: N, the number of the generator's most likely tokens that are judged.
        percentile: percentile above which a token is accepted.
        rejected_factor: factor for rejected tokens, α in Aksenov 2020.
        accepted_factor: factor for accepted tokens, as in the training-time variant.
        space: `log` or `probability`.
        end_token_ids: ids of end tokens, which the space `log` does not lower.

    Raises:
        ValueError: a setting is out of range; the message names it as in the generation config.
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
        given = {"lm_top_tokens": top_tokens, "lm_percentile": percentile}
        check_generation_settings(
            {**given, "lm_rejected_factor": rejected_factor, "lm_accepted_factor": accepted_factor}
        )
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
