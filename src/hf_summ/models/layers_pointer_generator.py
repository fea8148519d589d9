"""Layers of the pointer-generator: an LSTM in both directions, an attention with coverage, and pointers to words."""

from typing import Any

import torch
from torch import nn

# saturates a gate in every precision
_SATURATED = 1e4
# a pointer's score, below the normalizer of all scores: its probability of generation is that of no word
_NEVER = 80.0


class BidirectionalLstm(nn.LSTM):
    """An LSTM in each direction over the tokens; `width` is that of either."""

    def __init__(self, input_width: int, width: int):
        super().__init__(input_width, width, batch_first=True, bidirectional=True)

    def forward(  # ty: ignore[lost-keyword-for-regular-parameter]
        self, inputs: torch.Tensor, padding_mask: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """(B, S, input_width) and (B, S), true at tokens -> (B, S, 2 width), zero at padding, and the last states.

        The last hidden states and cells are those of either direction's last token, (B, 2 width) each.
        """
        start = inputs.new_zeros(2, inputs.shape[0], self.hidden_size)
        # not torch's own list of them, which accelerate does not update
        weights = list(self.parameters())
        if padding_mask is not None:
            # at padding, the input gate is closed and the forget gate is open, so that the cell stays
            gates = inputs.new_tensor([-_SATURATED, _SATURATED, 0.0, 0.0]).repeat_interleave(self.hidden_size)
            weights = [
                torch.cat((weight, gates[:, None]), dim=1) if "weight_ih" in name else weight
                for name, weight in self.named_parameters()
            ]
            inputs = torch.cat((inputs, (~padding_mask).to(inputs.dtype)[..., None]), dim=-1)
        # as `nn.LSTM`, which takes no other weights than its own
        lstm: Any = torch.lstm
        outputs, _, cells = lstm(inputs, (start, start), weights, True, 1, 0.0, False, True, True)
        if padding_mask is None:
            ends = outputs[:, -1]
        else:
            outputs = outputs * padding_mask[..., None]
            last = (padding_mask * torch.arange(1, outputs.shape[1] + 1, device=outputs.device)).argmax(-1)
            ends = outputs[torch.arange(len(outputs), device=outputs.device), last]
        first = 0 if padding_mask is None else padding_mask.to(torch.uint8).argmax(-1)
        begins = outputs[torch.arange(len(outputs), device=outputs.device), first]
        forward, backward = ends.chunk(2, -1)[0], begins.chunk(2, -1)[1]
        return outputs, torch.cat((forward, backward), dim=-1), torch.cat(tuple(cells), dim=-1)


class CoverageAttention(nn.Module):
    """Additive attention, `e_i = v · tanh(W_h h_i + W_s s + w_c c_i + b)`, c the sum of earlier attentions.

    Args:
        source_width: width of h, and of the tanh layer.
        state_width: width of s.
        reads_coverage: whether there is a w_c.
    """

    def __init__(self, source_width: int, state_width: int, reads_coverage: bool):
        super().__init__()
        self.key_projection = nn.Linear(source_width, source_width, bias=False)
        self.query_projection = nn.Linear(state_width, source_width)
        self.coverage_projection = nn.Linear(1, source_width, bias=False) if reads_coverage else None
        self.score = nn.Linear(source_width, 1, bias=False)

    def forward(
        self, state: torch.Tensor, keys: torch.Tensor, coverage: torch.Tensor, source_mask: torch.Tensor | None
    ) -> torch.Tensor:
        """State (R, s), keys (B, S, h), coverage (R, S) and mask (B, S), R a multiple of B -> weights (R, S)."""
        layer = keys[:, None] + self.query_projection(state).unflatten(0, (len(keys), -1))[:, :, None]
        if self.coverage_projection is not None:
            layer = layer + self.coverage_projection(coverage.to(layer.dtype).unflatten(0, (len(keys), -1))[..., None])
        scores = self.score(layer.tanh())[..., 0]
        if source_mask is not None:
            scores = scores.masked_fill(~source_mask[:, None], torch.finfo(scores.dtype).min)
        return scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32)).flatten(0, 1)


def pointers(source_ids: torch.Tensor, vocab_size: int) -> torch.Tensor:
    """The column of each source word in extended scores, (B, S) -> (B, S).

    A word of the vocabulary has its id, and any other has `vocab_size` plus the position of its first occurrence.
    """
    first = (source_ids[:, :, None] == source_ids[:, None]).to(torch.uint8).argmax(-1)
    return torch.where(source_ids < vocab_size, source_ids, vocab_size + first)


def extend_scores(logits: torch.Tensor, length: int) -> torch.Tensor:
    """Scores (R, T, V) of words, and of `length` pointers (R, T, V + length), which are never generated."""
    floor = logits.detach().logsumexp(-1, keepdim=True) - _NEVER
    return torch.cat((logits, floor.expand(*logits.shape[:-1], length)), dim=-1)
