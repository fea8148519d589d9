"""CopyTransformer's layers (Aksenov 2020): BERT for documents of any length, and self-attention within windows.

Sections 4.2.3 to 4.2.5 describe BERT, which reads a long document in overlapping windows. In section 4.2.1, a position
of a head attends to a window of positions and of neighboring heads.
"""

from collections.abc import Collection
from itertools import chain, zip_longest
from typing import NamedTuple

import torch
from torch import nn
from transformers import PreTrainedModel

from .layers_copying import hooked_arguments
from .layers_transformer import is_symbolic, needs_plain_operations

# BERT reads so many windows at once: enough to keep it busy, and so few that a long document does not fill the memory
_WINDOWS = 8
# a chunk is a run of consecutive queries, which are multiplied with the keys around them. It has at least so many
# queries: larger chunks waste scores outside the windows, and smaller chunks copy more gradients
CHUNK = 8


def longest_input(model: PreTrainedModel) -> int | None:
    """The number of tokens that BERT or a language model can read at once; None if there is no limit."""
    positions = getattr(model.config, "max_position_embeddings", None)
    if positions is None or positions < 1:
        return None
    embeddings = getattr(model.base_model, "embeddings", None)
    table = getattr(embeddings, "position_embeddings", None)
    padding_index = getattr(table, "padding_idx", None)
    if padding_index is None:
        return positions
    # RoBERTa's positions start after its padding index
    return positions - padding_index - 1


def position_arguments(bert: PreTrainedModel, input_ids: torch.Tensor) -> dict[str, torch.Tensor]:
    """The argument `position_ids` (1, S) for ids (B, S), by name; no argument if BERT has no buffer of position ids.

    It replaces the buffer, which may be wrong: PyTorch's averages of buffers may round position i down to i - 1.
    """
    embeddings = getattr(bert.base_model, "embeddings", None)
    table = getattr(embeddings, "position_embeddings", None)
    # RoBERTa computes positions from the ids, and some models have no learned positions
    if table is None or table.padding_idx is not None or not hasattr(embeddings, "position_ids"):
        return {}
    # a table may begin with rows of no position, such as the two rows of Nystromformer
    first = table.num_embeddings - bert.config.max_position_embeddings
    return {"position_ids": torch.arange(first, first + input_ids.shape[1], device=input_ids.device)[None]}


def word_embeddings_name(bert: PreTrainedModel) -> str:
    """The dotted name of the word embeddings inside BERT, such as `embeddings.word_embeddings`."""
    embeddings = bert.get_input_embeddings()
    return next(name for name, module in bert.named_modules() if module is embeddings)


def window_starts(length: int, window_size: int, stride: int) -> list[int]:
    """Starts of a document's windows: one every `stride` tokens, and the last window ends with the document."""
    last = max(length - window_size, 0)
    return list(range(0, last, stride)) + [last]


def _lengths(attention_mask: torch.Tensor) -> list[int]:
    """The number of tokens of each document, (B, S) -> B numbers; a ValueError if there is padding before a token."""
    is_token = attention_mask != 0
    positions = torch.arange(1, is_token.shape[1] + 1, device=is_token.device)
    token_counts = is_token.sum(dim=1)
    last_positions = (is_token * positions).amax(dim=1)
    # stacked, to synchronize with an accelerator only once
    lengths, ends = torch.stack((token_counts, last_positions)).tolist()
    if lengths != ends:
        raise ValueError("`attention_mask` has padding before or between tokens: pad documents on the right")
    return lengths


def freeze(module: nn.Module, names: Collection[str]) -> bool:
    """Freeze the parameters with some names, and return whether the module still has parameters to train.

    Modules call this in `train`: loading a checkpoint makes all parameters trainable, and then calls `train(False)`.
    """
    for name, parameter in module.named_parameters():
        if name in names:
            parameter.requires_grad_(False)
    return any(parameter.requires_grad for parameter in module.parameters())


def parameter_names(module: nn.Module) -> frozenset[str]:
    """The names of a module's parameters, to be recorded before PEFT adds an adapter's parameters."""
    return frozenset(dict(module.named_parameters()))


class BertWindows(nn.Module):
    """The states of BERT's last N layers, concatenated; long documents are read in overlapping windows.

    Windows are slices of the document, to which no special tokens are added. Positions restart in each window. Vectors
    of overlapping windows are averaged. With a frozen BERT, only the result and a few windows are in memory, which is
    linear in the length.

    Args:
        bert: an encoder from `AutoModel`; its unused pooler is removed.
        window_size: number of tokens in a window; at most the number of BERT's positions.
        stride: number of tokens from one window's start to the next; at most `window_size`.
        trainable: whether BERT is trained. Otherwise its parameters are frozen, and it runs without gradients and
            dropout in any mode of the containing model, unless it has adapters to train.
        layers: number N of the last layers whose states are concatenated; 4 as Devlin et al. (2019) recommend.
    """

    def __init__(self, bert: PreTrainedModel, window_size: int, stride: int, trainable: bool = False, layers: int = 4):
        super().__init__()
        positions = longest_input(bert)
        if positions is not None and window_size > positions:
            raise ValueError(f"`bert_window_size` is {window_size}, but must be at most {positions}, BERT's positions")
        if getattr(bert, "pooler", None) is not None:
            # distributed training fails on parameters without gradients
            bert.pooler = None
        self.bert = bert
        self.window_size = window_size
        self.stride = stride
        self.layers = layers
        self._frozen = frozenset() if trainable else parameter_names(bert)
        self.train(bert.training)

    def train(self, mode: bool = True):
        """Set the mode; a BERT without parameters to train stays in evaluation mode."""
        is_trained = freeze(self.bert, self._frozen)
        return super().train(mode and is_trained)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
        """Token ids and mask, both (B, S) and padded on the right -> (B, S, N * BERT's width), zero at padding."""
        documents, width = input_ids.shape
        if is_symbolic(input_ids):
            length = min(width, self.window_size)
            starts = torch.arange(0, width - length + self.stride, self.stride, device=input_ids.device)
            return self.read_windows(input_ids, attention_mask, starts, torch.arange(length, device=input_ids.device))
        lengths = [width] * documents if attention_mask is None else _lengths(attention_mask)
        # if all documents are empty, BERT reads one position of padding, which is then discarded
        longest = max(max(lengths), 1)
        if documents <= _WINDOWS and longest <= self.window_size:
            return self._whole_documents(input_ids, attention_mask, longest)
        return self._averaged_windows(input_ids, lengths)

    def _whole_documents(self, input_ids, attention_mask, longest):
        """As `forward`, for documents of at most one window; `longest` is the length of the longest document."""
        if attention_mask is None:
            return self._hidden_states(input_ids)
        mask = attention_mask[:, :longest]
        states = self._hidden_states(input_ids[:, :longest], mask)
        states.masked_fill_((mask == 0).unsqueeze(-1), 0.0)
        padding = input_ids.shape[1] - longest
        return nn.functional.pad(states, (0, 0, 0, padding)) if padding else states

    def _averaged_windows(self, input_ids, lengths):
        """As `forward`, for documents of these lengths, each of any number of windows."""
        # for each document, the start of each window in the flattened batch, and its size
        document_windows = []
        for document, length in enumerate(lengths):
            first, size = document * input_ids.shape[1], min(length, self.window_size)
            starts = window_starts(length, self.window_size, self.stride)
            document_windows.append([(first + start, size) for start in starts])
        # batches of similar windows need little padding
        windows = sorted(chain.from_iterable(document_windows), key=lambda window: window[1])
        batches = [windows[first : first + _WINDOWS] for first in range(0, len(windows), _WINDOWS)]
        if "adapter_names" in hooked_arguments(self.bert):
            # a row has its document's adapter, so each batch has a window, perhaps an empty one, of each document
            batches = [list(batch) for batch in zip_longest(*document_windows, fillvalue=(0, 0))]
        total = None
        for batch in batches:
            positions, states = self._read_batch(input_ids, batch)
            if total is None:
                total = states.new_zeros(input_ids.numel(), states.shape[-1])
            total.index_add_(0, positions, states)
        counts = torch.zeros(input_ids.numel(), device="cpu")
        for start, size in windows:
            counts[start : start + size] += 1
        total.div_(counts.clamp_(min=1).to(total).unsqueeze(-1))
        return total.unflatten(0, input_ids.shape)

    def _read_batch(self, input_ids: torch.Tensor, windows: list[tuple[int, int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """The positions (P) of all tokens of the windows in the flattened batch, and their vectors (P, N · width)."""
        starts, sizes = torch.tensor(windows, device="cpu").unsqueeze(-1).unbind(dim=1)
        offsets = torch.arange(max(int(sizes.max()), 1), device="cpu")
        is_token = offsets < sizes
        # positions past the end of a short window stay within its document's row, and are masked
        positions = starts + offsets
        device = input_ids.device
        window_ids = input_ids.flatten()[positions.to(device)]
        states = self._hidden_states(window_ids, is_token.long().to(device)).flatten(0, 1)
        token_indices = is_token.flatten().nonzero().squeeze(-1)
        return positions[is_token].to(device), states[token_indices.to(device)]

    def read_windows(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None, starts: torch.Tensor, offsets: torch.Tensor
    ) -> torch.Tensor:
        """As `forward`, for graphs: the sizes of all operations depend only on the sizes of the arguments.

        Every document has as many windows as the longest possible one. Windows past its end have no weight.

        Args:
            starts: (N), every `stride` positions, for the windows of a document as long as the batch is wide.
            offsets: (L), 0, 1, ..., the positions inside a window.
        """
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        device = input_ids.device
        documents = torch.arange(input_ids.shape[0], device=device)[:, None]
        lengths = (attention_mask != 0).sum(dim=1)[:, None]
        last_starts = (lengths - self.window_size).clamp(min=0)
        positions = starts.minimum(last_starts)[..., None] + offsets
        # BERT reads one position of an empty document, which is then discarded
        mask = ((positions < lengths[..., None]) | (offsets == 0)).flatten(0, 1).long()
        windows = input_ids[documents[..., None], positions].flatten(0, 1)
        # a traced or exported graph must work for any number of windows, so it has a single batch
        batches = [(windows, mask)]
        if torch.compiler.is_compiling() and not torch.compiler.is_exporting():
            batches = zip(windows.split(_WINDOWS), mask.split(_WINDOWS), strict=True)
        states = [self._hidden_states(batch_ids, batch_mask) for batch_ids, batch_mask in batches]
        vectors = torch.cat(states).flatten(0, 1)
        # the index of the latest window that starts at a position or before it
        positions = torch.arange(input_ids.shape[1], device=device)
        last_windows = (last_starts + self.stride - 1) // self.stride
        latest = torch.where(positions < last_starts, positions // self.stride, last_windows)
        total = torch.zeros((), dtype=vectors.dtype, device=device)
        count = total
        # windows that contain a position are consecutive, and only the last may be less than a stride after another
        most_windows = -(-self.window_size // self.stride) + 1
        for back in range(most_windows):
            window = latest - back
            offset = positions - (self.stride * window).minimum(last_starts)
            contains = ((window >= 0) & (offset < self.window_size) & (positions < lengths))[..., None]
            rows = starts.shape[0] * documents + window.clamp(0, starts.shape[0] - 1)
            rows = offsets.shape[0] * rows + offset.clamp(max=offsets.shape[0] - 1)
            total = total + torch.where(contains, nn.functional.embedding(rows, vectors), 0.0)
            count = count + contains
        return total / count.clamp(min=1)

    def _hidden_states(self, input_ids, attention_mask=None):
        """Read windows as one batch: ids and mask (R, W) -> (R, W, N * BERT's width)."""
        parameters = list(self.bert.parameters())
        # the replicas of `DataParallel` list no parameters
        is_trained = not parameters or any(parameter.requires_grad for parameter in parameters)
        with torch.set_grad_enabled(torch.is_grad_enabled() and is_trained):
            settings = {"output_hidden_states": True, "return_dict": True} | position_arguments(self.bert, input_ids)
            output = self.bert(input_ids, attention_mask=attention_mask, **settings)
            # a containing model that records hidden states also hooks BERT's layers: transformers then records each
            # layer several times
            times = len(output.hidden_states) // self.bert.config.num_hidden_layers
            last_states = output.hidden_states[::-times][: self.layers]
            return torch.cat(last_states[::-1], dim=-1)


class BertWordEmbedding(nn.Module):
    """BERT's word embeddings, reduced to a model's width (Aksenov 2020, section 4.2.5).

    Args:
        words: BERT's word embedding, which is new or shared with the model's BERT.
        width: C, the model's width; None leaves BERT's width, which a `BertInputLayer` reduces.
        trainable: whether the word embeddings are trained; otherwise only the reduction is.
        relu: whether a ReLU follows the reduction.
    """

    def __init__(self, words: nn.Embedding, width: int | None, trainable: bool = False, relu: bool = False):
        super().__init__()
        self.words = words
        self.reduction = nn.Identity() if width is None else nn.Linear(words.embedding_dim, width)
        self.activation = nn.ReLU() if relu else nn.Identity()
        self._frozen = frozenset() if trainable else {"words.weight"}
        self.train()

    def train(self, mode: bool = True):
        """Set the mode; embeddings that are not trainable stay frozen, like their BERT."""
        freeze(self, self._frozen)
        return super().train(mode)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Ids (R, T) -> reduced embeddings (R, T, C)."""
        return self.activation(self.reduction(self.words(input_ids)))


class BertInputLayer(nn.Module):
    """BERT's embedding module without its words, reduced to a model's width, as in the decoder of Aksenov's program.

    It adds BERT's embeddings of positions and of the first token type to given word embeddings, and normalizes the sum.

    Args:
        bert: a BERT from `AutoModel`, of which only the embedding module is used.
        width: C, the model's width.
        dropout: dropout of the result.
        trainable: whether the module is trained. Otherwise it is frozen and has no dropout, as BERT in `BertWindows`.
        relu: whether a ReLU follows the reduction.

    Raises:
        ValueError: BERT has no learned positions, or more tokens are given than it has positions.
    """

    def __init__(self, bert: PreTrainedModel, width: int, dropout: float, trainable: bool = False, relu: bool = False):
        super().__init__()
        # such as `embeddings` and `word_embeddings`
        module_name, _, words_name = word_embeddings_name(bert).rpartition(".")
        self.reduction = nn.Linear(bert.get_input_embeddings().embedding_dim, width)
        self.activation = nn.ReLU() if relu else nn.Identity()
        self.embeddings = bert.get_submodule(module_name)
        positions = longest_input(bert)
        if getattr(self.embeddings, "position_embeddings", None) is None or positions is None:
            raise ValueError(
                f'`decoder_embedding="bert_module"` needs a BERT with learned positions, but {bert.config.model_type} '
                'has none: set `decoder_embedding` to "bert"'
            )
        self.positions = positions
        setattr(self.embeddings, words_name, None)
        self.dropout = nn.Dropout(dropout)
        self._frozen = frozenset() if trainable else parameter_names(self.embeddings)
        self.train()

    def train(self, mode: bool = True):
        """Set the mode; BERT's module stays in evaluation mode if it has no parameters to train."""
        super().train(mode)
        is_trained = freeze(self.embeddings, self._frozen)
        self.embeddings.train(mode and is_trained)
        return self

    def forward(self, words: torch.Tensor, seen: int = 0) -> torch.Tensor:
        """BERT's word embeddings (R, T, E) -> (R, T, C), for words after `seen` others."""
        length = seen + words.shape[1]
        if length > self.positions:
            raise ValueError(f"the text has {length} tokens, but BERT has {self.positions} positions")
        table = self.embeddings.position_embeddings
        # RoBERTa's positions start after its padding index
        first = table.num_embeddings - self.positions
        position_ids = torch.arange(first + seen, first + length, device=words.device)[None]
        arguments = {"inputs_embeds": words, "position_ids": position_ids}
        if hasattr(self.embeddings, "token_type_embeddings"):
            # by default, the module takes the type ids from a buffer, which is not saved
            arguments["token_type_ids"] = torch.zeros_like(position_ids)
        embedded = self.embeddings(None, **arguments)
        return self.dropout(self.activation(self.reduction(embedded)))


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
    query whose window has only padding yields zeros. Memory is linear in S: a chunk of consecutive queries is scored
    against the span of their windows. See Aksenov 2020, equations 4.4 to 4.6 (one dimension) and 4.7 to 4.9 (two).

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
    # a span must end in the next chunk
    chunk = max(CHUNK, 2 * reach)
    scaling = width**-0.5 if scaling is None else scaling
    if padding_mask is not None:
        values = values.masked_fill(padding_mask[:, None, :, None] == 0, 0.0)
    before, after = _neighboring_heads(heads, head_window_size, circular)
    split = _spans if needs_plain_operations(queries) else _Spans.apply
    (chunks,) = split(queries * scaling, _SpanSizes(chunk, 0, 0, 0, False))
    span_sizes = _SpanSizes(chunk, reach, before, after, circular)
    key_spans = split(keys, span_sizes)
    value_spans = split(values, span_sizes)
    heads_seen, positions_seen = len(key_spans), chunk + 2 * reach
    scores = [chunks @ span.transpose(1, 2) for span in key_spans]
    scores = scores[0] if heads_seen == 1 else torch.cat(scores, dim=2)
    scores = scores.view(heads, batch, -1, chunk, heads_seen, positions_seen)
    # for half precision, the bias and the sum are float32
    scores = scores + _position_bias(scores, length, reach, padding_mask)
    if before + after and not circular:
        scores = scores + _head_bias(scores, before)
    weights = scores.view(-1, chunk, heads_seen * positions_seen).softmax(-1).to(values.dtype)
    head_weights = nn.functional.dropout(weights, dropout, training).split(positions_seen, dim=2)
    outputs = head_weights[0] @ value_spans[0]
    for weight, span in zip(head_weights[1:], value_spans[1:], strict=True):
        outputs = torch.baddbmm(outputs, weight, span)
    return outputs.view(heads, batch, -1, values.shape[3])[:, :, :length].transpose(0, 1)


def _neighboring_heads(heads: int, head_window_size: int, circular: bool) -> tuple[int, int]:
    """The numbers of heads before and after a head in its window."""
    if circular and head_window_size > heads:
        # once around the whole circle
        return 0, heads - 1
    reach = min((head_window_size - 1) // 2, heads - 1)
    return reach, reach


class _SpanSizes(NamedTuple):
    """How to cut texts into spans: `chunk` positions, and `reach` more on either side, at most half of `chunk`.

    A head also has the spans of `before` heads before it and `after` heads after it, in a circle if `circular`.
    """

    chunk: int
    reach: int
    before: int
    after: int
    circular: bool


def _spans(states: torch.Tensor, sizes: _SpanSizes) -> tuple[torch.Tensor, ...]:
    """States (B, H, S, D) -> one tensor (H · B · chunks, chunk + 2 reach, D) for each head of the window.

    All are views of one padded copy, whose outer dimension is heads: a neighboring head's view is shifted by one head.
    """
    chunk, reach, before, after, circular = sizes
    _, heads, _, width = states.shape
    rows, head_rows, texts = _padded_rows(states, sizes, states.shape)
    states = states.transpose(0, 1)
    texts[before : before + heads] = states
    if circular:
        texts[:before] = states[heads - before :]
        texts[before + heads :] = states[:after]
    shape = (heads * head_rows // chunk, chunk + 2 * reach, width)
    stride = (chunk * width, width, 1)
    return tuple(rows.as_strided(shape, stride, head * head_rows * width) for head in range(before + 1 + after))


class _Spans(torch.autograd.Function):
    """`_spans` with a fast backward pass: autograd would scatter the gradients of overlapping spans by element."""

    @staticmethod
    def forward(ctx, states, sizes):
        ctx.shape, ctx.sizes = states.shape, sizes
        return _spans(states, sizes)

    @staticmethod
    def backward(ctx, *gradients):
        chunk, reach, before, after, circular = ctx.sizes
        heads, width = ctx.shape[1], ctx.shape[3]
        rows, head_rows, texts = _padded_rows(gradients[0], ctx.sizes, ctx.shape)
        for head, gradient in enumerate(gradients):
            chunks = rows[head * head_rows : (head + heads) * head_rows + chunk].view(-1, chunk, width)
            chunks[:-1] += gradient[:, :chunk]
            chunks[1:, : 2 * reach] += gradient[:, chunk:]
        states = texts[before : before + heads]
        if circular:
            states[heads - before :] += texts[:before]
            states[:after] += texts[before + heads :]
        return states.transpose(0, 1), None


def _padded_rows(like: torch.Tensor, sizes: _SpanSizes, shape: torch.Size) -> tuple[torch.Tensor, int, torch.Tensor]:
    """Zeros (rows, D) with room for states (B, H, S, D) and padding, of the type of `like`.

    The results are the zeros, the number of rows of a head, and the view of the states' places, (heads, B, S, D).
    """
    batch, heads, length, width = shape
    padded_length = -(-length // sizes.chunk) * sizes.chunk
    head_rows = batch * padded_length
    text_rows = (sizes.before + heads + sizes.after) * head_rows
    rows = like.new_zeros(text_rows + sizes.chunk, width)
    padded_texts = rows[sizes.reach : sizes.reach + text_rows].view(-1, batch, padded_length, width)
    return rows, head_rows, padded_texts[:, :, :length]


def _position_bias(scores: torch.Tensor, length: int, reach: int, padding_mask: torch.Tensor | None) -> torch.Tensor:
    """Zero at positions inside a query's window, otherwise low: (B or 1, chunks, queries, 1, positions seen)."""
    chunks, chunk, _, span = scores.shape[2:]
    dtype = torch.promote_types(scores.dtype, torch.float32)
    # the bias of padding is finite: a query with only padding in its window averages values of zero
    padding = torch.finfo(dtype).min
    bias = torch.zeros(1, length, dtype=dtype, device=scores.device)
    if padding_mask is not None:
        bias = bias.masked_fill(padding_mask == 0, padding)
    bias = nn.functional.pad(bias, (0, chunks * chunk - length), value=padding)
    # no query attends to the end of the text before, or to the start of the next one
    bias = nn.functional.pad(bias, (reach, reach), value=-torch.inf)
    outside = bias.new_full((chunk, span), -torch.inf)
    band = outside.tril(-1) + outside.triu(2 * reach + 1)
    spans = bias.unfold(1, span, chunk)
    return (spans[:, :, None] + band)[:, :, :, None]


def _head_bias(scores: torch.Tensor, before: int) -> torch.Tensor:
    """Zero for heads that exist, otherwise minus infinity: (H, 1, 1, 1, heads seen, 1)."""
    heads, seen = scores.shape[0], scores.shape[4]
    first_seen = torch.arange(heads, device=scores.device)[:, None] - before
    index = first_seen + torch.arange(seen, device=scores.device)
    is_missing = (index < 0) | (index >= heads)
    bias = scores.new_zeros(heads, seen).masked_fill(is_missing, -torch.inf)
    return bias[:, None, None, None, :, None]
