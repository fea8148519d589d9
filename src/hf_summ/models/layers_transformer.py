"""The Transformer (Vaswani et al. 2017): positions, attention, feed-forward network and layers.

A decoder has R = B · beams rows for a batch of B documents. The rows of a document, its beams or samples, are
consecutive.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from transformers.activations import ACT2FN
from transformers.cache_utils import EncoderDecoderCache
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.utils import is_tracing

# number of scores in a block of `top_scores`, which compares the maxima of blocks first
_BLOCK = 128


def tied_embedding(embedding: nn.Embedding) -> nn.Embedding:
    """A second embedding module with the same weight, as PEFT adapts each module separately.

    On the meta device, the second module has another parameter, which transformers ties after it has read the weights.
    """
    tied = nn.Embedding.from_pretrained(embedding.weight, freeze=False, padding_idx=embedding.padding_idx)
    # transformers would regard a shared parameter on the meta device as read, and leave it without values
    if not embedding.weight.is_meta:
        tied.weight = embedding.weight
    return tied


def is_symbolic(tensor: torch.Tensor) -> bool:
    """Whether Python must not read the tensor's values: it is traced, transformed by torch.func, or on `meta`."""
    return is_tracing(tensor) or tensor.is_meta or torch._C._are_functorch_transforms_active()


def needs_plain_operations(tensor: torch.Tensor) -> bool:
    """Whether an `autograd.Function` with a handwritten backward pass must be avoided.

    torch.func cannot transform such a function, and torch.jit cannot trace it; torch.compile can.
    """
    return is_symbolic(tensor) and not torch.compiler.is_compiling()


def source_padding_mask(attention_mask: torch.Tensor | None) -> torch.Tensor | None:
    """(B, S), 1 at tokens -> (B, 1, 1, S), true at tokens; None if a check on a CPU finds no padding.

    The mask is broadcast over heads and queries: memory stays linear in the length.
    """
    if attention_mask is None:
        return None
    # on an accelerator, the check would synchronize at each step
    can_check = attention_mask.device.type == "cpu" and not is_symbolic(attention_mask)
    if can_check and bool(attention_mask.all()):
        return None
    return attention_mask[:, None, None, :].bool()


def eager_attention_forward(module, query, key, value, attention_mask, scaling, dropout=0.0, **kwargs):
    """Softmax attention, with the signature of transformers' attention functions.

    Args:
        module: the attention layer; its mode decides whether there is dropout.
        query: (B, H, Q, D).
        key, value: (B, H, K, D).
        attention_mask: a float mask is added to the scores; a boolean mask is true at the positions to attend to.
        scaling: factor of the scores.
        dropout: share of the weights dropped in training.

    Returns:
        The context (B, Q, H, D), with positions before heads, and the weights (B, H, Q, K) before dropout.
    """
    scores = query @ key.transpose(2, 3) * scaling
    return attend_by_scores(module, scores, value, attention_mask, dropout)


def attend_by_scores(module, scores, value, attention_mask, dropout=0.0, product=torch.matmul):
    """`eager_attention_forward` from the scores (B, H, Q, K); `product` multiplies weights and values."""
    if attention_mask is not None:
        if attention_mask.dtype == torch.bool:
            # in ONNX Runtime, a sum takes a third of the time of filling the scores
            lowest = torch.finfo(scores.dtype).min
            attention_mask = scores.new_zeros(attention_mask.shape).masked_fill(~attention_mask, lowest)
        scores = scores + attention_mask
    weights = nn.functional.softmax(scores, dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32))
    weights = weights.to(value.dtype)
    dropped = nn.functional.dropout(weights, dropout, module.training)
    context = product(dropped, value).transpose(1, 2).contiguous()
    return context, weights


def product_of_rows(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """`left @ right`, (…, Q, K) and (…, K, D), for few rows Q.

    An exported graph has one product for each row: ONNX Runtime copies the right factor of a product of several rows.
    """
    if not torch.compiler.is_exporting():
        return left @ right
    return (left[..., None, :] @ right[..., None, :, :]).squeeze(-2)


class SinusoidalPositions(nn.Module):
    """Sinusoids of geometrically growing wavelength (Vaswani et al. 2017, section 3.5), for texts of any length.

    They are computed, not stored: a table would limit the length without saving time.
    """

    def __init__(self, width: int):
        super().__init__()
        self.width = width

    def forward(self, embeddings: torch.Tensor, seen: int = 0) -> torch.Tensor:
        """Positions (T, C) for embeddings (…, T, C) after `seen` others.

        Even columns are sines, and odd columns are cosines.
        """
        length = embeddings.shape[-2]
        positions = torch.arange(seen, seen + length, device=embeddings.device, dtype=torch.float32)
        exponents = torch.arange(0, self.width, 2, device=embeddings.device, dtype=torch.float32) / self.width
        angles = positions[:, None] * torch.exp(-math.log(10000.0) * exponents)
        table = torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)
        return table[:, : self.width].to(embeddings.dtype)


class LearnedPositions(nn.Module):
    """A trained vector of `width` channels for each of `number` positions, as in MASS and BART."""

    def __init__(self, number: int, width: int):
        super().__init__()
        self.table = nn.Embedding(number, width)

    def forward(self, embeddings: torch.Tensor, seen: int = 0) -> torch.Tensor:
        """Positions (T, C) for embeddings (…, T, C) after `seen` others.

        Raises:
            ValueError: the text is longer than the number of positions.
        """
        length = seen + embeddings.shape[-2]
        if length > self.table.num_embeddings:
            raise ValueError(f"the text has {length} tokens, but the model has {self.table.num_embeddings} positions")
        return self.table(torch.arange(seen, length, device=embeddings.device))


def layer_norm(config) -> nn.LayerNorm:
    """A LayerNorm of `d_model` channels, with the config's `layer_norm_eps` or torch's default ε of 1e-5."""
    return nn.LayerNorm(config.d_model, eps=getattr(config, "layer_norm_eps", 1e-5))


class InputLayer(nn.Module):
    """The input of the first layer: scaled word embeddings plus positions, with dropout.

    Args:
        config: has `d_model` and `dropout`, and optionally `positions` (`sinusoids`, the default, or `learned`, at most
            `max_positions`), `scale_embedding` (by √d, the default) and `embedding_norm` (none by default).
    """

    def __init__(self, config):
        super().__init__()
        has_scale = getattr(config, "scale_embedding", True)
        self.scale = math.sqrt(config.d_model) if has_scale else 1.0
        if getattr(config, "positions", "sinusoids") == "learned":
            self.positions = LearnedPositions(config.max_positions, config.d_model)
        else:
            self.positions = SinusoidalPositions(config.d_model)
        has_norm = getattr(config, "embedding_norm", False)
        self.norm = layer_norm(config) if has_norm else nn.Identity()
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, embeddings: torch.Tensor, seen: int = 0) -> torch.Tensor:
        """Word embeddings (…, T, C) -> (…, T, C), for words after `seen` others."""
        # scale pre-trained embeddings as well: a decoder does not learn from embeddings that are small compared with
        # the positions
        inputs = self.scale * embeddings + self.positions(embeddings, seen)
        return self.dropout(self.norm(inputs))


class TokenShift(nn.Module):
    """P e(i−1), which is added to the input of position i (docs/equations.md, section 6).

    e is the word embedding, of E = `width` channels. The matrix P is orthogonal before training.

    A Transformer that copies looks for the source positions behind the word that it wrote last. Recurrent and
    convolutional encoders mix neighbors from the first update on, but self-attention learns slowly to do so.
    """

    def __init__(self, width: int, d_model: int):
        super().__init__()
        self.projection = nn.Linear(width, d_model, bias=False)

    def forward(self, embeddings: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
        """(B, S, E) and mask (B, S) -> (B, S, C), zero at the first position and behind padding."""
        if attention_mask is not None:
            embeddings = embeddings.masked_fill(~attention_mask.bool()[..., None], 0.0)
        projected = self.projection(embeddings)
        # a zero vector before the first position moves all vectors one position to the right
        return nn.functional.pad(projected, (0, 0, 1, 0))[:, :-1]


class MultiHeadAttention(nn.Module):
    """Base of attentions: the projections to H heads of width D and back, and attention of heads.

    Args:
        config: the model's config, for transformers' attention functions.
        width: width of queries, keys and values, over all heads.
        dropout: dropout of the weights.
        layer_index: index in the cache.
    """

    is_causal = False

    def __init__(self, config, width: int, num_heads: int, dropout: float, layer_index: int | None = None):
        super().__init__()
        self.config = config
        self.num_heads = num_heads
        self.head_width = width // num_heads
        self.scaling = self.head_width**-0.5
        self.dropout = dropout
        self.layer_index = layer_index
        self.q_proj = nn.Linear(width, width)
        self.k_proj = nn.Linear(width, width)
        self.v_proj = nn.Linear(width, width)
        self.out_proj = nn.Linear(width, width)

    def _heads(self, states: torch.Tensor) -> torch.Tensor:
        """Split (B, T, C) into heads (B, H, T, D)."""
        return states.unflatten(-1, (self.num_heads, self.head_width)).transpose(1, 2)

    def _project(self, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """(B, T, C) -> queries, keys and values (B, H, T, D)."""
        queries = self._heads(self.q_proj(states))
        keys = self._heads(self.k_proj(states))
        values = self._heads(self.v_proj(states))
        return queries, keys, values

    def _attend(self, queries, keys, values, attention_mask, needs_weights=False, **kwargs):
        """Queries (B, H, Q, D), keys and values (B, H, K, D) -> (B, Q, H, D) and weights (B, H, Q, K) or None.

        With `needs_weights`, the attention is eager, because faster implementations return no weights.
        """
        attend = eager_attention_forward
        if not needs_weights:
            attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager_attention_forward)
        dropout = self.dropout if self.training else 0.0
        return attend(self, queries, keys, values, attention_mask, dropout=dropout, scaling=self.scaling, **kwargs)


class SelfAttention(MultiHeadAttention):
    """Attention among a text's positions. With `is_causal`, a position attends to itself and earlier positions only."""

    def __init__(self, *args, is_causal: bool = False, **kwargs):
        super().__init__(*args, **kwargs)
        self.is_causal = is_causal

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        cache: EncoderDecoderCache | None = None,
        **kwargs,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """(B, T, C) -> (B, T, C) and weights (B, H, T, T) or None.

        With a cache, the keys and values of earlier positions precede the keys and values of the T positions.
        """
        queries, keys, values = self._project(hidden_states)
        if cache is not None:
            keys, values = cache.self_attention_cache.update(keys, values, self.layer_index)
        context, weights = self._attend(queries, keys, values, attention_mask, **kwargs)
        return self.out_proj(context.flatten(2)), weights


class CrossAttention(MultiHeadAttention):
    """Attention to the encoder's output, which is stored once per document.

    The decoder may have several rows per document. All rows of a document are queries of the same keys and values.
    """

    def forward(
        self,
        hidden_states: torch.Tensor,
        source: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        cache: EncoderDecoderCache | None = None,
        needs_weights: bool = False,
        source_scores: torch.Tensor | None = None,
        **kwargs,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Queries (R, T, C) and source (B, S, C), R a multiple of B -> (R, T, C) and weights (R, H, T, S) or None.

        With `needs_weights`, any attention implementation returns the weights. `source_scores` (B, S) rate the
        positions of the source; only subclasses use them.
        """
        rows, length, width = hidden_states.shape
        documents = source.shape[0]
        queries = self._heads(self.q_proj(hidden_states).view(documents, -1, width))
        keys, values = self._source_keys_and_values(source, source_scores, cache)
        context, weights = self._attend(queries, keys, values, attention_mask, needs_weights, **kwargs)
        # with one row per document, keep the very tensor: gradients of the returned weights reach only this one
        if weights is not None and rows > documents:
            weights = weights.unflatten(2, (rows // documents, length)).transpose(1, 2).flatten(0, 1)
        return self.out_proj(context.reshape(rows, length, width)), weights

    def _source_keys_and_values(self, source, source_scores, cache):
        """Keys and values of the source, (B, H, S, D) each; with a cache, only the first call computes them."""
        if cache is not None and cache.is_updated.get(self.layer_index):
            layer = cache.cross_attention_cache.layers[self.layer_index]
            return layer.keys, layer.values
        keys = self._heads(self._source_keys(source, source_scores))
        values = self._heads(self.v_proj(source))
        if cache is not None:
            keys, values = cache.cross_attention_cache.update(keys, values, self.layer_index)
            cache.is_updated[self.layer_index] = True
        return keys, values

    def _source_keys(self, source: torch.Tensor, source_scores: torch.Tensor | None) -> torch.Tensor:
        """The keys of all heads, (B, S, C), from the source (B, S, C); subclasses may also use its scores (B, S)."""
        return self.k_proj(source)


class FeedForward(nn.Module):
    """W2 f(x W1 + b1) + b2, with ReLU as f (Vaswani et al. 2017, equation 2) or another of transformers' `ACT2FN`.

    `dropout` applies to f's output.
    """

    def __init__(self, width: int, inner_width: int, activation: str = "relu", dropout: float = 0.0):
        super().__init__()
        self.inner = nn.Linear(width, inner_width)
        self.activation = ACT2FN[activation]
        self.dropout = nn.Dropout(dropout)
        self.outer = nn.Linear(inner_width, width)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """(…, width) -> (…, width)."""
        inner_states = self.activation(self.inner(hidden_states))
        return self.outer(self.dropout(inner_states))


class ResidualLayer(GradientCheckpointingLayer):
    """Base of layers that add the output of each sub-layer f, after dropout, to its input h.

    If the config's `norm` is `post`, a layer computes LN(h + f(h)) (Vaswani et al. 2017). If it is `pre`, the layer
    computes h + f(LN(h)), and a stack of such layers has a LayerNorm on top; see `stack_norm`.
    """

    def __init__(self, config):
        super().__init__()
        self.normalizes_first = config.norm == "pre"
        self.dropout = nn.Dropout(config.dropout)

    def _read(self, hidden_states: torch.Tensor, norm: nn.LayerNorm) -> torch.Tensor:
        """The input of a sub-layer: h, or with `pre` LN(h)."""
        return norm(hidden_states) if self.normalizes_first else hidden_states

    def _add(self, hidden_states: torch.Tensor, outputs: torch.Tensor, norm: nn.LayerNorm) -> torch.Tensor:
        """The sum of h and a sub-layer's output; with `post`, its LayerNorm."""
        hidden_states = hidden_states + self.dropout(outputs)
        return hidden_states if self.normalizes_first else norm(hidden_states)


def stack_norm(config) -> nn.Module:
    """What follows the last layer: a LayerNorm for `pre` layers, whose output is not normalized, otherwise nothing."""
    return layer_norm(config) if config.norm == "pre" else nn.Identity()


class TransformerEncoderLayer(ResidualLayer):
    """Self-attention and a feed-forward network.

    `self_attention` maps (B, S, C) and a mask (B, 1, 1, S) to (B, S, C) and weights or None. `activation` and
    `activation_dropout` are for the feed-forward network.
    """

    def __init__(self, config, self_attention: nn.Module, activation: str = "relu", activation_dropout: float = 0.0):
        super().__init__(config)
        self.self_attention = self_attention
        self.self_attention_norm = layer_norm(config)
        self.feed_forward = FeedForward(config.d_model, config.ffn_dim, activation, activation_dropout)
        self.feed_forward_norm = layer_norm(config)

    def forward(self, hidden_states, source_mask=None, **kwargs):
        """Compute the layer's output from hidden states (B, S, C) and a mask (B, 1, 1, S), true at tokens.

        Returns:
            The output (B, S, C), followed by what the self-attention returns besides its output: weights (B, H, S, S)
            or None, and what a subclass adds.
        """
        attention_inputs = self._read(hidden_states, self.self_attention_norm)
        outputs, *further_outputs = self.self_attention(attention_inputs, source_mask, **kwargs)
        hidden_states = self._add(hidden_states, outputs, self.self_attention_norm)
        outputs = self.feed_forward(self._read(hidden_states, self.feed_forward_norm))
        hidden_states = self._add(hidden_states, outputs, self.feed_forward_norm)
        return hidden_states, *further_outputs


class TransformerDecoderLayer(ResidualLayer):
    """Causal self-attention, cross-attention to the source, and a feed-forward network.

    `layer_index` is the layer's index in the cache. `activation` and `activation_dropout` are for the feed-forward
    network, and `attention_class` is the class of the cross-attention.
    """

    def __init__(
        self,
        config,
        layer_index: int,
        activation: str = "relu",
        activation_dropout: float = 0.0,
        attention_class: type[CrossAttention] = CrossAttention,
    ):
        super().__init__(config)
        width, num_heads, dropout = config.d_model, config.num_heads, config.attention_dropout
        self.self_attention = SelfAttention(config, width, num_heads, dropout, layer_index, is_causal=True)
        self.self_attention_norm = layer_norm(config)
        self.cross_attention = attention_class(config, width, num_heads, dropout, layer_index)
        self.cross_attention_norm = layer_norm(config)
        self.feed_forward = FeedForward(config.d_model, config.ffn_dim, activation, activation_dropout)
        self.feed_forward_norm = layer_norm(config)

    def forward(
        self,
        hidden_states,
        source,
        source_scores=None,
        causal_mask=None,
        source_mask=None,
        cache=None,
        needs_weights=False,
        **kwargs,
    ):
        """Compute the layer's output from hidden states (R, T, C) and the source (B, S, C).

        Pass inputs with gradients as positional arguments, including `source_scores` (B, S) for the cross-attention:
        reentrant checkpointing does not track keyword arguments.

        Returns:
            The output (R, T, C), and the cross-attention's context (R, T, C) and weights (R, H, T, S) or None.
        """
        attention_inputs = self._read(hidden_states, self.self_attention_norm)
        outputs, _ = self.self_attention(attention_inputs, causal_mask, cache=cache, **kwargs)
        hidden_states = self._add(hidden_states, outputs, self.self_attention_norm)
        attention_inputs = self._read(hidden_states, self.cross_attention_norm)
        context, weights = self.cross_attention(
            attention_inputs,
            source,
            attention_mask=source_mask,
            cache=cache,
            needs_weights=needs_weights,
            source_scores=source_scores,
            **kwargs,
        )
        hidden_states = self._add(hidden_states, context, self.cross_attention_norm)
        outputs = self.feed_forward(self._read(hidden_states, self.feed_forward_norm))
        hidden_states = self._add(hidden_states, outputs, self.feed_forward_norm)
        return hidden_states, context, weights


def top_scores(scores: torch.Tensor, number: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The highest of scores (B, M), in descending order, and their indices, both (B, number).

    The result equals `scores.topk(number)`, and is faster to compute for large M.
    """
    rows, width = scores.shape
    blocked = width - width % _BLOCK
    if blocked <= number * _BLOCK:
        return scores.topk(number)
    # the highest scores are in the blocks with the highest maxima, or behind the last whole block
    maxima = scores[:, :blocked].view(rows, -1, _BLOCK).amax(-1)
    blocks = maxima.topk(number, sorted=False).indices
    within_blocks = blocks[..., None] * _BLOCK + torch.arange(_BLOCK, device=scores.device)
    behind_blocks = torch.arange(blocked, width, device=scores.device).expand(rows, -1)
    candidates = torch.cat((within_blocks.flatten(1), behind_blocks), dim=1)
    best, order = scores.gather(1, candidates).topk(number)
    return best, candidates.gather(1, order)


def rows_of(value: Any, documents: torch.Tensor) -> Any:
    """Select the rows of some documents from a model input: a tensor, or a tuple, list or mapping of inputs.

    Other values, such as None, are returned unchanged.
    """
    if isinstance(value, torch.Tensor):
        return value[documents]
    if isinstance(value, Mapping):
        selected = {name: rows_of(item, documents) for name, item in value.items()}
        return type(value)(**selected)
    if isinstance(value, tuple | list):
        return type(value)(rows_of(item, documents) for item in value)
    return value
