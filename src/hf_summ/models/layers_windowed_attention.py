"""Convolutional self-attention (Aksenov 2020, section 4.2.1): windows of positions and of neighboring heads."""

import torch
from torch import nn

from .layers_transformer import MultiHeadAttention

# minimum number of queries per product with the span of keys around them. more queries waste scores outside the
# windows, and fewer copy more gradients. a chunk has at least window - 1 queries: a span must end in the next chunk.
# for windows of 11 and 13, the resulting chunks of 10 and 12 are as fast as 16 in one dimension and faster in two; 24
# or more are slower
CHUNK = 8


def windowed_attention(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    window_size: int,
    head_window_size: int = 1,
    circular: bool = False,
    padding_mask: torch.Tensor | None = None,
    dropout: float = 0.0,
    training: bool = False,
    scaling: float | None = None,
) -> torch.Tensor:
    """Attention of query i of head h to positions |i - j| ≤ M/2 of heads |h - g| ≤ N/2, under one softmax.

    Queries, keys and values (B, H, S, D) -> (B, H, S, D). Windows end at the edges of the text, before any padding. A
    query whose window has only padding yields zeros. Memory is linear in S. See Aksenov 2020, equations 4.4 to 4.6 (one
    dimension) and 4.7 to 4.9 (two).

    Args:
        window_size: M + 1 positions, odd.
        head_window_size: N + 1 heads, odd; 1 is one-dimensional.
        circular: whether the window of heads wraps around from the last head to the first, without repetitions.
        padding_mask: (B, S), 1 or true at tokens.
        dropout: share of the weights dropped in training.
        scaling: factor of the scores; D^-½ if None.
    """
    batch, heads, length, width = queries.shape
    reach = min((window_size - 1) // 2, length - 1)
    chunk = max(CHUNK, 2 * reach)
    if padding_mask is not None:
        values = values.masked_fill(padding_mask[:, None, :, None] == 0, 0.0)
    before, after = _neighbours(heads, head_window_size, circular)
    (chunks,) = _Spans.apply(queries * (width**-0.5 if scaling is None else scaling), chunk, 0, 0, 0, False)
    key_spans = _Spans.apply(keys, chunk, reach, before, after, circular)
    value_spans = _Spans.apply(values, chunk, reach, before, after, circular)

    scores = [chunks @ span.transpose(1, 2) for span in key_spans]
    scores = scores[0] if len(scores) == 1 else torch.cat(scores, dim=2)
    # (H, B, chunks, queries, heads seen, positions seen); for half precision, the bias and the sum are float32
    scores = scores.view(heads, batch, -1, chunk, len(key_spans), chunk + 2 * reach)
    scores = scores + _position_bias(scores, length, reach, padding_mask)
    if before + after and not circular:
        scores = scores + _head_bias(scores, before)
    weights = scores.view(-1, chunk, len(key_spans) * (chunk + 2 * reach)).softmax(-1).to(values.dtype)
    weights = nn.functional.dropout(weights, dropout, training).split(chunk + 2 * reach, dim=2)

    outputs = weights[0] @ value_spans[0]
    for weight, span in zip(weights[1:], value_spans[1:], strict=True):
        outputs = torch.baddbmm(outputs, weight, span)
    return outputs.view(heads, batch, -1, values.shape[3])[:, :, :length].transpose(0, 1)


def _neighbours(heads: int, head_window_size: int, circular: bool) -> tuple[int, int]:
    """The numbers of heads before and after a head in its window."""
    reach = (head_window_size - 1) // 2
    if circular and head_window_size > heads:
        # once around the whole circle
        return 0, heads - 1
    return min(reach, heads - 1), min(reach, heads - 1)


class _Spans(torch.autograd.Function):
    # overlapping spans are views of one padded copy and take no memory, but autograd would scatter their gradients
    # element by element. heads are outermost: a neighboring head's spans are the same view, shifted by one head

    @staticmethod
    def forward(ctx, states, chunk, reach, before, after, circular):
        """(B, H, S, D) -> (H · B · chunks, chunk + 2 reach, D) for each head seen; reach is at most half of chunk."""
        ctx.shape, ctx.window = states.shape, (chunk, reach, before, after, circular)
        batch, heads, length, width = states.shape
        head_rows = batch * -(-length // chunk) * chunk
        rows = states.new_zeros((before + heads + after) * head_rows + chunk, width)
        texts, states = _texts(ctx, rows), states.transpose(0, 1)
        texts[before : before + heads] = states
        if circular:
            texts[:before] = states[heads - before :]
            texts[before + heads :] = states[:after]
        shape, stride = (heads * head_rows // chunk, chunk + 2 * reach, width), (chunk * width, width, 1)
        return tuple(rows.as_strided(shape, stride, i * head_rows * width) for i in range(before + 1 + after))

    @staticmethod
    def backward(ctx, *gradients):
        chunk, reach, before, after, circular = ctx.window
        batch, heads, length, width = ctx.shape
        head_rows = batch * -(-length // chunk) * chunk
        rows = gradients[0].new_zeros((before + heads + after) * head_rows + chunk, width)
        for i, gradient in enumerate(gradients):
            chunks = rows[i * head_rows : (i + heads) * head_rows + chunk].view(-1, chunk, width)
            chunks[:-1] += gradient[:, :chunk]
            chunks[1:, : 2 * reach] += gradient[:, chunk:]
        texts = _texts(ctx, rows)
        states = texts[before : before + heads]
        if circular:
            states[heads - before :] += texts[:before]
            states[:after] += texts[before + heads :]
        return states.transpose(0, 1), None, None, None, None, None


def _texts(ctx, rows: torch.Tensor) -> torch.Tensor:
    """The part of the padded rows that is text, (heads, B, S, D)."""
    chunk, reach, *_ = ctx.window
    batch, heads, length, width = ctx.shape
    padded = rows[reach : reach + rows.shape[0] - chunk].view(-1, batch, -(-length // chunk) * chunk, width)
    return padded[:, :, :length]


def _position_bias(scores: torch.Tensor, length: int, reach: int, padding_mask: torch.Tensor | None) -> torch.Tensor:
    """(B or 1, chunks, queries, 1, positions seen), 0 at positions inside a query's window."""
    chunks, chunk, _, span = scores.shape[2:]
    dtype = torch.float32 if scores.dtype in (torch.float16, torch.bfloat16) else scores.dtype
    # the bias of padding is finite: a query with only padding in its window averages values of zero
    padding = torch.finfo(dtype).min
    bias = torch.zeros(1, length, dtype=dtype, device=scores.device)
    if padding_mask is not None:
        bias = bias.masked_fill(padding_mask == 0, padding)
    bias = nn.functional.pad(bias, (0, chunks * chunk - length), value=padding)
    # other texts are out of reach
    bias = nn.functional.pad(bias, (reach, reach), value=-torch.inf)
    outside = bias.new_full((chunk, span), -torch.inf)
    band = outside.tril(-1) + outside.triu(2 * reach + 1)
    return (bias.unfold(1, span, chunk)[:, :, None] + band)[:, :, :, None]


def _head_bias(scores: torch.Tensor, before: int) -> torch.Tensor:
    """(H, 1, 1, 1, heads seen, 1), 0 for heads that exist."""
    heads, seen = scores.shape[0], scores.shape[4]
    index = torch.arange(heads, device=scores.device)[:, None] + torch.arange(seen, device=scores.device) - before
    bias = torch.zeros(heads, seen, dtype=scores.dtype, device=scores.device)
    return bias.masked_fill((index < 0) | (index >= heads), -torch.inf)[:, None, None, None, :, None]


class ConvolutionalSelfAttention(MultiHeadAttention):
    """Multi-head self-attention within a window of positions and of neighboring heads (Aksenov 2020, section 4.2.1).

    Arguments are those of `MultiHeadAttention` and `windowed_attention`.
    """

    def __init__(self, *args, window_size: int, head_window_size: int, circular: bool):
        super().__init__(*args)
        self.window_size = window_size
        self.head_window_size = head_window_size
        self.circular = circular

    def forward(
        self, hidden_states: torch.Tensor, attention_mask: torch.Tensor | None = None, **kwargs
    ) -> tuple[torch.Tensor, None]:
        """(B, S, C) and a mask (B, 1, 1, S), true at tokens -> (B, S, C) and None in place of weights."""
        padding_mask = None if attention_mask is None else attention_mask[:, 0, 0]
        queries, keys, values = self._project(hidden_states)
        context = windowed_attention(
            queries,
            keys,
            values,
            self.window_size,
            self.head_window_size,
            self.circular,
            padding_mask,
            self.dropout,
            self.training,
        )
        return self.out_proj(context.transpose(1, 2).flatten(2)), None
