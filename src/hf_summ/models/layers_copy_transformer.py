"""CopyTransformer's layers (Aksenov 2020): self-attention within windows, and BERT for documents of any length.

The windows of section 4.2.1 are of positions and of neighboring heads; sections 4.2.3 to 4.2.5 describe BERT.
"""

from collections.abc import Collection

import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from .layers_transformer import MultiHeadAttention, is_symbolic, needs_plain_operations

# windows per batch of BERT: enough to keep it busy, few enough to bound the memory of a long document
_WINDOWS = 8
# minimum number of queries per product with the span of keys around them. more queries waste scores outside the
# windows, and fewer copy more gradients. a chunk has at least window - 1 queries: a span must end in the next chunk.
# chunks of 10 and 12, for windows of 11 and 13, are as fast as 16
CHUNK = 8


def longest_input(model: PreTrainedModel) -> int | None:
    """The number of usable positions of BERT or a language model; None if there is no limit."""
    positions = getattr(model.config, "max_position_embeddings", None)
    if positions is None or positions < 1:
        return None
    embeddings = getattr(getattr(model.base_model, "embeddings", None), "position_embeddings", None)
    padding = getattr(embeddings, "padding_idx", None)
    # RoBERTa's positions start after its padding index
    return positions if padding is None else positions - padding - 1


def own_positions(bert: PreTrainedModel, input_ids: torch.Tensor) -> dict[str, torch.Tensor]:
    """`position_ids` (1, S) for ids (B, S) and a BERT that keeps them in a buffer; empty for any other.

    PyTorch's `AveragedModel(use_buffers=True)` rounds averaged integers down, and so changes the buffer.
    """
    embeddings = getattr(bert.base_model, "embeddings", None)
    table = getattr(embeddings, "position_embeddings", None)
    # RoBERTa counts positions from the ids, and other models have no learned ones
    if table is None or table.padding_idx is not None or not hasattr(embeddings, "position_ids"):
        return {}
    first = table.num_embeddings - bert.config.max_position_embeddings
    return {"position_ids": torch.arange(first, first + input_ids.shape[1], device=input_ids.device)[None]}


def word_embeddings_name(bert: PreTrainedModel) -> str:
    """The dotted name of the word embeddings inside BERT, such as `embeddings.word_embeddings`."""
    embeddings = bert.get_input_embeddings()
    return next(name for name, module in bert.named_modules() if module is embeddings)


def window_starts(length: int, window_size: int, stride: int) -> list[int]:
    """Starts of a document's windows: every `stride` tokens; the last window ends with the document."""
    last = max(length - window_size, 0)
    return [*range(0, last, stride), last]


def _lengths(attention_mask: torch.Tensor) -> list[int]:
    """The number of tokens of each document, (B, S) -> B numbers."""
    real = attention_mask != 0
    positions = torch.arange(1, real.shape[1] + 1, device=real.device)
    # stacked, to synchronize with an accelerator only once
    lengths, ends = torch.stack((real.sum(dim=1), (real * positions).amax(dim=1))).tolist()
    if lengths != ends:
        raise ValueError("`attention_mask` has padding before or between tokens: pad documents on the right")
    return lengths


def freeze(module: nn.Module, names: Collection[str]) -> bool:
    """Freeze a module's parameters of these names, and return whether any others, such as an adapter's, are trained.

    Call it from `train`: loading a checkpoint makes all parameters trainable, and then calls `eval()`.
    """
    for name, parameter in module.named_parameters():
        if name in names:
            parameter.requires_grad_(False)
    return any(parameter.requires_grad for parameter in module.parameters())


def parameter_names(module: nn.Module) -> frozenset[str]:
    """The names of a module's parameters; in a module that PEFT wraps they change."""
    return frozenset(name for name, _ in module.named_parameters())


class BertWindows(nn.Module):
    """BERT's last hidden states, concatenated; long documents are read in overlapping windows.

    Windows are plain slices of the document without further special tokens, and positions restart in each. Vectors of
    overlapping windows are averaged. With a frozen BERT, only the result and a few windows are in memory: memory is
    linear in the length.

    Args:
        bert: an encoder from `AutoModel`; its unused pooler is removed.
        window_size: number of tokens in a window; at most the number of BERT's positions.
        stride: number of tokens from one window's start to the next; at most `window_size`.
        trainable: whether BERT is trained; otherwise its own parameters are frozen, and it runs without gradients and
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
        """Set the mode; a frozen BERT stays in evaluation mode."""
        return super().train(freeze(self.bert, self._frozen) and mode)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
        """Token ids and mask, both (B, S) and padded on the right -> (B, S, N * BERT's width), zero at padding."""
        if is_symbolic(input_ids):
            width, device = input_ids.shape[1], input_ids.device
            length = min(width, self.window_size)
            starts = torch.arange(0, width - length + self.stride, self.stride, device=device)
            return self.read_windows(input_ids, attention_mask, starts, torch.arange(length, device=device))
        documents, width = input_ids.shape
        lengths = [width] * documents if attention_mask is None else _lengths(attention_mask)
        # if all documents are empty, BERT reads one position of padding, which is then discarded
        longest = max(*lengths, 1)
        if documents <= _WINDOWS and longest <= self.window_size:
            return self._whole_documents(input_ids, attention_mask, longest)
        return self._averaged_windows(input_ids, lengths)

    def _whole_documents(self, input_ids, attention_mask, longest):
        if attention_mask is None:
            return self._hidden_states(input_ids)
        mask = attention_mask[:, :longest]
        states = self._hidden_states(input_ids[:, :longest], mask)
        states.masked_fill_((mask == 0).unsqueeze(-1), 0.0)
        padding = input_ids.shape[1] - longest
        return nn.functional.pad(states, (0, 0, 0, padding)) if padding else states

    def _averaged_windows(self, input_ids, lengths):
        width = input_ids.shape[1]
        # positions in the flattened documents, and sizes
        windows = [
            (document * width + start, min(length, self.window_size))
            for document, length in enumerate(lengths)
            for start in window_starts(length, self.window_size, self.stride)
        ]
        # batches of similar windows need little padding
        windows.sort(key=lambda window: window[1])
        total = None
        for first in range(0, len(windows), _WINDOWS):
            total = self._add_windows(total, input_ids, windows[first : first + _WINDOWS])
        counts = torch.zeros(input_ids.numel(), device="cpu")
        for start, size in windows:
            counts[start : start + size] += 1
        total.div_(counts.clamp_(min=1).to(total).unsqueeze(-1))
        return total.unflatten(0, input_ids.shape)

    def _add_windows(self, total, input_ids, windows):
        """Add the windows' vectors to the total (B * S, N * BERT's width) in place; create it if it is None."""
        starts, sizes = torch.tensor(windows, device="cpu").unsqueeze(-1).unbind(dim=1)
        offsets = torch.arange(max(int(sizes.max()), 1), device="cpu")
        mask = offsets < sizes
        # positions past the end of a short window stay within its row, and are masked
        positions = starts + offsets
        real = mask.flatten().nonzero().squeeze(-1)
        device = input_ids.device
        states = self._hidden_states(input_ids.flatten()[positions.to(device)], mask.long().to(device)).flatten(0, 1)
        if total is None:
            total = states.new_zeros(input_ids.numel(), states.shape[-1])
        return total.index_add_(0, positions.flatten()[real].to(device), states[real.to(device)])

    def read_windows(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None, starts: torch.Tensor, offsets: torch.Tensor
    ) -> torch.Tensor:
        """As `forward`, for graphs: the sizes of all operations depend only on those of the arguments.

        Every document has as many windows as the longest possible one; those past its end have no weight.

        Args:
            starts: (N), every `stride` positions, for the windows of a document as long as the batch is wide.
            offsets: (L), 0, 1, ..., the positions inside its first window.
        """
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        width, device = input_ids.shape[1], input_ids.device
        documents = torch.arange(input_ids.shape[0], device=device)[:, None]
        lengths = (attention_mask != 0).sum(dim=1)[:, None]
        # the start of a document's last window
        last = (lengths - self.window_size).clamp(min=0)
        positions = starts.minimum(last)[..., None] + offsets
        # BERT reads one position of an empty document, which is then discarded
        mask = ((positions < lengths[..., None]) | (offsets == 0)).flatten(0, 1).long()
        windows = input_ids[documents[..., None], positions].flatten(0, 1)
        batches = [(windows, mask)]
        # traced graphs and exported ones are of any number of windows
        if torch.compiler.is_compiling() and not torch.compiler.is_exporting():
            batches = zip(windows.split(_WINDOWS), mask.split(_WINDOWS), strict=True)
        states = torch.cat([self._hidden_states(*batch) for batch in batches]).flatten(0, 1)

        positions = torch.arange(width, device=device)
        latest = torch.where(positions < last, positions // self.stride, (last + self.stride - 1) // self.stride)
        total = count = torch.zeros((), dtype=states.dtype, device=device)
        # windows that contain a position are consecutive, and only the last may be less than a stride after another
        for back in range(-(-self.window_size // self.stride) + 1):
            window = latest - back
            offset = positions - (self.stride * window).minimum(last)
            contains = ((window >= 0) & (offset < self.window_size) & (positions < lengths))[..., None]
            rows = starts.shape[0] * documents + window.clamp(0, starts.shape[0] - 1)
            rows = offsets.shape[0] * rows + offset.clamp(max=offsets.shape[0] - 1)
            total = total + torch.where(contains, nn.functional.embedding(rows, states), 0.0)
            count = count + contains
        return total / count.clamp(min=1)

    def _hidden_states(self, input_ids, attention_mask=None):
        """Windows (R, W) -> (R, W, N * BERT's width)"""
        # the replicas of `DataParallel` list no parameters
        is_trained = [parameter.requires_grad for parameter in self.bert.parameters()] or [True]
        with torch.set_grad_enabled(torch.is_grad_enabled() and any(is_trained)):
            settings = {"output_hidden_states": True, "return_dict": True, **own_positions(self.bert, input_ids)}
            output = self.bert(input_ids, attention_mask=attention_mask, **settings)
            # a containing model that records hidden states also hooks BERT's layers: transformers then records each
            # layer several times
            times = len(output.hidden_states) // self.bert.config.num_hidden_layers
            return torch.cat(output.hidden_states[::-times][: self.layers][::-1], dim=-1)


def bert_words(config: PreTrainedConfig) -> nn.Embedding:
    """A new word embedding for a BERT of this configuration."""
    # ALBERT and ELECTRA have embeddings narrower than their layers
    width = getattr(config, "embedding_size", None) or config.hidden_size
    return nn.Embedding(config.vocab_size, width, config.pad_token_id)


class BertWordEmbedding(nn.Module):
    """BERT's word embeddings, reduced to a model's width (Aksenov 2020, section 4.2.5).

    Args:
        words: BERT's word embedding: a new one (see `bert_words`), or that of the model's BERT.
        width: the model's width; None leaves BERT's, which a `BertInputLayer` reduces.
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
        """(R, T) -> (R, T, C)."""
        return self.activation(self.reduction(self.words(input_ids)))


class BertInputLayer(nn.Module):
    """BERT's embedding module without its words, reduced to a model's width, as in the decoder of Aksenov's program.

    It adds BERT's positions and first type to words from elsewhere, and normalizes the sum.

    Args:
        bert: a BERT from `AutoModel`, of which only the embedding module is used.
        width: the model's width.
        dropout: dropout of the result.
        trainable: whether the module is trained; otherwise it is frozen and has no dropout, as BERT in `BertWindows`.
        relu: whether a ReLU follows the reduction.

    Raises:
        ValueError: BERT has no learned positions, or more tokens are given than it has positions.
    """

    def __init__(self, bert: PreTrainedModel, width: int, dropout: float, trainable: bool = False, relu: bool = False):
        super().__init__()
        name, _, words = word_embeddings_name(bert).rpartition(".")
        self.reduction = nn.Linear(bert.get_input_embeddings().embedding_dim, width)
        self.activation = nn.ReLU() if relu else nn.Identity()
        self.embeddings = bert.get_submodule(name)
        positions = longest_input(bert)
        if getattr(self.embeddings, "position_embeddings", None) is None or positions is None:
            raise ValueError(
                f'`decoder_embedding="bert_module"` needs a BERT with learned positions, but {bert.config.model_type} '
                'has none: set `decoder_embedding` to "bert"'
            )
        self.positions = positions
        setattr(self.embeddings, words, None)
        self.dropout = nn.Dropout(dropout)
        self._frozen = frozenset() if trainable else parameter_names(self.embeddings)
        self.train()

    def train(self, mode: bool = True):
        """Set the mode; a frozen module stays in evaluation mode."""
        super().train(mode)
        self.embeddings.train(freeze(self.embeddings, self._frozen) and mode)
        return self

    def forward(self, words: torch.Tensor, seen: int = 0) -> torch.Tensor:
        """BERT's word embeddings (R, T, E) -> (R, T, C), for words after `seen` others."""
        length = seen + words.shape[1]
        if length > self.positions:
            raise ValueError(f"the text has {length} tokens, but BERT has {self.positions} positions")
        table = self.embeddings.position_embeddings
        # RoBERTa's positions start after its padding index
        first = table.num_embeddings - self.positions
        ids = {"position_ids": torch.arange(first + seen, first + length, device=words.device)[None]}
        if hasattr(self.embeddings, "token_type_embeddings"):
            # the module's own are a buffer, which is not saved
            ids["token_type_ids"] = torch.zeros_like(ids["position_ids"])
        reduced = self.activation(self.reduction(self.embeddings(None, inputs_embeds=words, **ids)))
        return self.dropout(reduced)


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
    split = _spans if needs_plain_operations(queries) else _Spans.apply
    (chunks,) = split(queries * (width**-0.5 if scaling is None else scaling), chunk, 0, 0, 0, False)
    key_spans = split(keys, chunk, reach, before, after, circular)
    value_spans = split(values, chunk, reach, before, after, circular)

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


def _spans(states, chunk, reach, before, after, circular) -> tuple[torch.Tensor, ...]:
    """(B, H, S, D) -> (H · B · chunks, chunk + 2 reach, D) for each head seen; reach is at most half of chunk."""
    batch, heads, length, width = states.shape
    head_rows = batch * -(-length // chunk) * chunk
    rows = states.new_zeros((before + heads + after) * head_rows + chunk, width)
    texts, states = _texts(rows, states.shape, chunk, reach), states.transpose(0, 1)
    texts[before : before + heads] = states
    if circular:
        texts[:before] = states[heads - before :]
        texts[before + heads :] = states[:after]
    shape, stride = (heads * head_rows // chunk, chunk + 2 * reach, width), (chunk * width, width, 1)
    return tuple(rows.as_strided(shape, stride, i * head_rows * width) for i in range(before + 1 + after))


class _Spans(torch.autograd.Function):
    # overlapping spans are views of one padded copy and take no memory, but autograd would scatter their gradients
    # element by element. heads are outermost: a neighboring head's spans are the same view, shifted by one head

    @staticmethod
    def forward(ctx, states, *window):
        ctx.shape, ctx.window = states.shape, window
        return _spans(states, *window)

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
        texts = _texts(rows, ctx.shape, chunk, reach)
        states = texts[before : before + heads]
        if circular:
            states[heads - before :] += texts[:before]
            states[:after] += texts[before + heads :]
        return states.transpose(0, 1), None, None, None, None, None


def _texts(rows: torch.Tensor, shape: torch.Size, chunk: int, reach: int) -> torch.Tensor:
    """The part of the padded rows that is text, (heads, B, S, D), for states of the shape (B, H, S, D)."""
    batch, heads, length, width = shape
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
        sizes = self.window_size, self.head_window_size, self.circular
        context = windowed_attention(queries, keys, values, *sizes, padding_mask, self.dropout, self.training)
        return self.out_proj(context.transpose(1, 2).flatten(2)), None
