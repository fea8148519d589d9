"""The Transformer (Vaswani et al. 2017): positions, attention, feed-forward network and layers."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from transformers.activations import ACT2FN
from transformers.cache_utils import EncoderDecoderCache
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import Seq2SeqLMOutput
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.utils import is_tracing

# the cache's name in outputs and in transformers' functions; before 5.24 it was `past_key_values`
CACHE = next(name for name in ("cache", "past_key_values") if name in Seq2SeqLMOutput.__dataclass_fields__)

# block size of `top_scores`, which compares block maxima first
_BLOCK = 128


def cache_argument(cache) -> dict[str, Any]:
    """The cache as the keyword argument of an output or of a function of transformers."""
    return {CACHE: cache}


def tied_embedding(embedding: nn.Embedding) -> nn.Embedding:
    """Another module with the same weight, which PEFT adapts separately."""
    tied = nn.Embedding.from_pretrained(embedding.weight, freeze=False, padding_idx=embedding.padding_idx)
    if not embedding.weight.is_meta:
        # on the meta device, transformers would take the shared parameter for loaded
        tied.weight = embedding.weight
    return tied


def is_symbolic(tensor: torch.Tensor) -> bool:
    """Whether Python must not look at the tensor's values: it is traced, transformed by torch.func, or has none."""
    return is_tracing(tensor) or tensor.is_meta or torch._C._are_functorch_transforms_active()


def needs_plain_operations(tensor: torch.Tensor) -> bool:
    """Whether our own backward passes are of no use: torch.func cannot transform them, nor torch.jit trace them."""
    return is_symbolic(tensor) and not torch.compiler.is_compiling()


def source_padding_mask(attention_mask: torch.Tensor | None) -> torch.Tensor | None:
    """(B, S), 1 at tokens -> (B, 1, 1, S), true at tokens; None if a check on a CPU finds no padding.

    The mask is broadcast over heads and queries: memory stays linear in the length.
    """
    if attention_mask is None:
        return None
    # on an accelerator, the check would synchronize at each step
    looks = attention_mask.device.type == "cpu" and not is_symbolic(attention_mask)
    if looks and bool(attention_mask.all()):
        return None
    return attention_mask[:, None, None, :].bool()


def eager_attention_forward(module, query, key, value, attention_mask, scaling, dropout=0.0, **kwargs):
    """Softmax attention, (…, Q, D) from (…, K, D), and its weights before dropout.

    The mask is added to the scores; a boolean mask is true at the positions to attend to.
    """
    return attend_by_scores(module, query @ key.transpose(2, 3) * scaling, value, attention_mask, dropout)


def attend_by_scores(module, scores, value, attention_mask, dropout=0.0, product=torch.matmul):
    """`eager_attention_forward` from the scores (…, Q, K); `product` is that of weights and values."""
    if attention_mask is not None:
        if attention_mask.dtype == torch.bool:
            # in ONNX Runtime, a sum takes a third of the time of filling the scores
            lowest = torch.finfo(scores.dtype).min
            attention_mask = scores.new_zeros(attention_mask.shape).masked_fill(~attention_mask, lowest)
        scores = scores + attention_mask
    weights = nn.functional.softmax(scores, dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32))
    weights = weights.to(value.dtype)
    dropped = nn.functional.dropout(weights, dropout, module.training)
    return product(dropped, value).transpose(1, 2).contiguous(), weights


def product_of_rows(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """`left @ right`, (…, Q, K) and (…, K, D), for few rows Q.

    A graph has a product for each row, as ONNX Runtime copies the right factor of others.
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
        """Positions (T, C) for embeddings (…, T, C) after `seen` others; even columns are sines, odd ones cosines."""
        positions = torch.arange(seen, seen + embeddings.shape[-2], device=embeddings.device, dtype=torch.float32)
        exponents = torch.arange(0, self.width, 2, device=embeddings.device, dtype=torch.float32) / self.width
        angles = positions[:, None] * torch.exp(-math.log(10000.0) * exponents)
        table = torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)
        return table[:, : self.width].to(embeddings.dtype)


class LearnedPositions(nn.Module):
    """A trained vector for each position up to a maximum, as in MASS and BART."""

    def __init__(self, number: int, width: int):
        super().__init__()
        self.table = nn.Embedding(number, width)

    def forward(self, embeddings: torch.Tensor, seen: int = 0) -> torch.Tensor:
        """Positions (T, C) for embeddings (…, T, C) after `seen` others; a ValueError beyond the last position."""
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
        self.scale = math.sqrt(config.d_model) if getattr(config, "scale_embedding", True) else 1.0
        if getattr(config, "positions", "sinusoids") == "learned":
            self.positions = LearnedPositions(config.max_positions, config.d_model)
        else:
            self.positions = SinusoidalPositions(config.d_model)
        has_norm = getattr(config, "embedding_norm", False)
        self.norm = layer_norm(config) if has_norm else nn.Identity()
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, embeddings: torch.Tensor, seen: int = 0) -> torch.Tensor:
        """(…, T, C) -> (…, T, C), for words after `seen` others."""
        # scale pre-trained embeddings as well: a decoder does not learn from embeddings that are small compared with
        # the positions
        return self.dropout(self.norm(self.scale * embeddings + self.positions(embeddings, seen)))


class TokenShift(nn.Module):
    """P e(i−1), added to the input of position i: a matrix P, orthogonal at the start (docs/equations.md, section 6).

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
        return nn.functional.pad(self.projection(embeddings), (0, 0, 1, 0))[:, :-1]


class MultiHeadAttention(nn.Module):
    """Projections to heads and back, with attention between them.

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
        return states.unflatten(-1, (self.num_heads, self.head_width)).transpose(1, 2)

    def _project(self, states: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """(B, T, C) -> queries, keys and values (B, H, T, D)."""
        return tuple(self._heads(projection(states)) for projection in (self.q_proj, self.k_proj, self.v_proj))

    def _attend(self, queries, keys, values, attention_mask, needs_weights=False, **kwargs):
        """Queries (B, H, Q, D), keys and values (B, H, K, D) -> (B, Q, H, D) and weights (B, H, Q, K) or None."""
        attend = eager_attention_forward
        if not needs_weights:
            attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager_attention_forward)
        dropout = self.dropout if self.training else 0.0
        return attend(self, queries, keys, values, attention_mask, dropout=dropout, scaling=self.scaling, **kwargs)


class SelfAttention(MultiHeadAttention):
    """Attention among a text's positions: to all, or with `is_causal` only to earlier ones and itself."""

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
        """(B, T, C) -> (B, T, C) and weights (B, H, T, T) or None; cached keys and values come first."""
        queries, keys, values = self._project(hidden_states)
        if cache is not None:
            keys, values = cache.self_attention_cache.update(keys, values, self.layer_index)
        context, weights = self._attend(queries, keys, values, attention_mask, **kwargs)
        return self.out_proj(context.flatten(2)), weights


class CrossAttention(MultiHeadAttention):
    """Attention to the encoder's output, which is stored once per document.

    The decoder may have several rows per document: consecutive rows are then beams or samples of one document, and
    count as additional queries.
    """

    def forward(
        self,
        hidden_states: torch.Tensor,
        source: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        cache: EncoderDecoderCache | None = None,
        needs_weights: bool = False,
        scores: torch.Tensor | None = None,
        **kwargs,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Queries (R, T, C) and source (B, S, C), R a multiple of B -> (R, T, C) and weights (R, H, T, S) or None.

        With `needs_weights`, any attention implementation returns the weights. `scores` (B, S) of the source's
        positions are for subclasses.
        """
        rows, length, width = hidden_states.shape
        documents = source.shape[0]
        queries = self._heads(self.q_proj(hidden_states).view(documents, -1, width))
        keys, values = self._source_keys_and_values(source, scores, cache)
        context, weights = self._attend(queries, keys, values, attention_mask, needs_weights, **kwargs)
        # gradients reach only the very tensor
        if weights is not None and rows > documents:
            weights = weights.unflatten(2, (rows // documents, length)).transpose(1, 2).flatten(0, 1)
        return self.out_proj(context.reshape(rows, length, width)), weights

    def _source_keys_and_values(self, source, scores, cache):
        if cache is not None and cache.is_updated.get(self.layer_index):
            layer = cache.cross_attention_cache.layers[self.layer_index]
            return layer.keys, layer.values
        keys, values = self._heads(self._source_keys(source, scores)), self._heads(self.v_proj(source))
        if cache is not None:
            keys, values = cache.cross_attention_cache.update(keys, values, self.layer_index)
            cache.is_updated[self.layer_index] = True
        return keys, values

    def _source_keys(self, source: torch.Tensor, scores: torch.Tensor | None) -> torch.Tensor:
        """The keys of all heads, (B, S, C)."""
        return self.k_proj(source)


class FeedForward(nn.Module):
    """W2 f(x W1 + b1) + b2, with ReLU as f (Vaswani et al. 2017, equation 2) or another of transformers' `ACT2FN`."""

    def __init__(self, width: int, inner_width: int, activation: str = "relu", dropout: float = 0.0):
        super().__init__()
        self.inner = nn.Linear(width, inner_width)
        self.activation = ACT2FN[activation]
        self.dropout = nn.Dropout(dropout)
        self.outer = nn.Linear(inner_width, width)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """(…, width) -> (…, width)."""
        return self.outer(self.dropout(self.activation(self.inner(hidden_states))))


class ResidualLayer(GradientCheckpointingLayer):
    """Base of layers whose sub-layers f are added to their input, with dropout on their output.

    With the config's `norm`, `post` computes LN(h + f(h)) (Vaswani et al. 2017), and `pre` h + f(LN(h)). A stack of
    `pre` layers has a LayerNorm on top; see `stack_norm`.
    """

    def __init__(self, config):
        super().__init__()
        self.normalizes_first = config.norm == "pre"
        self.dropout = nn.Dropout(config.dropout)

    def _read(self, hidden_states: torch.Tensor, norm: nn.LayerNorm) -> torch.Tensor:
        """The input of a sub-layer."""
        return norm(hidden_states) if self.normalizes_first else hidden_states

    def _add(self, hidden_states: torch.Tensor, outputs: torch.Tensor, norm: nn.LayerNorm) -> torch.Tensor:
        """The sum of a sub-layer's input and output."""
        hidden_states = hidden_states + self.dropout(outputs)
        return hidden_states if self.normalizes_first else norm(hidden_states)


def stack_norm(config) -> nn.Module:
    """The top of a stack of layers: a LayerNorm for `pre` layers, whose output is not normalized."""
    return layer_norm(config) if config.norm == "pre" else nn.Identity()


class TransformerEncoderLayer(ResidualLayer):
    """Self-attention and a feed-forward network.

    `self_attention` maps (B, S, C) and a mask (B, 1, 1, S) to (B, S, C) and weights or None. The activation and its
    dropout are those of the feed-forward network.
    """

    def __init__(self, config, self_attention: nn.Module, activation: str = "relu", activation_dropout: float = 0.0):
        super().__init__(config)
        self.self_attention = self_attention
        self.self_attention_norm = layer_norm(config)
        self.feed_forward = FeedForward(config.d_model, config.ffn_dim, activation, activation_dropout)
        self.feed_forward_norm = layer_norm(config)

    def forward(self, hidden_states, source_mask=None, **kwargs):
        """(B, S, C) -> (B, S, C), and further outputs of self-attention: weights (B, H, S, S) or None, and others."""
        read = self._read(hidden_states, self.self_attention_norm)
        outputs, *further = self.self_attention(read, source_mask, **kwargs)
        hidden_states = self._add(hidden_states, outputs, self.self_attention_norm)
        outputs = self.feed_forward(self._read(hidden_states, self.feed_forward_norm))
        return self._add(hidden_states, outputs, self.feed_forward_norm), *further


class TransformerDecoderLayer(ResidualLayer):
    """Like the encoder's layer, but causal, and with cross-attention before the feed-forward network.

    `layer_index` is the index in the cache.
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
        settings = (config, config.d_model, config.num_heads, config.attention_dropout, layer_index)
        self.self_attention = SelfAttention(*settings, is_causal=True)
        self.self_attention_norm = layer_norm(config)
        self.cross_attention = attention_class(*settings)
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
        """Compute the layer's output from hidden states (R, T, C), R = B · beams, and the source (B, S, C).

        Pass inputs with gradients as positional arguments, including `source_scores` (B, S) for the cross-attention:
        reentrant checkpointing does not track keyword arguments.

        Returns:
            The output (R, T, C), and the cross-attention's context (R, T, C) and weights (R, H, T, S) or None.
        """
        read = self._read(hidden_states, self.self_attention_norm)
        outputs, _ = self.self_attention(read, causal_mask, cache=cache, **kwargs)
        hidden_states = self._add(hidden_states, outputs, self.self_attention_norm)
        read = self._read(hidden_states, self.cross_attention_norm)
        context, weights = self.cross_attention(
            read,
            source,
            attention_mask=source_mask,
            cache=cache,
            needs_weights=needs_weights,
            scores=source_scores,
            **kwargs,
        )
        hidden_states = self._add(hidden_states, context, self.cross_attention_norm)
        outputs = self.feed_forward(self._read(hidden_states, self.feed_forward_norm))
        return self._add(hidden_states, outputs, self.feed_forward_norm), context, weights


def top_scores(scores: torch.Tensor, number: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The highest of scores (B, M), in descending order, and their indices, both (B, number)."""
    blocked = scores.shape[1] - scores.shape[1] % _BLOCK
    if blocked <= number * _BLOCK:
        return scores.topk(number)
    # they are in the blocks with the highest maxima, which takes a fraction of the time to find
    blocks = scores[:, :blocked].view(len(scores), -1, _BLOCK).amax(-1).topk(number, sorted=False).indices
    within = (blocks[..., None] * _BLOCK + torch.arange(_BLOCK, device=scores.device)).flatten(1)
    behind = torch.arange(blocked, scores.shape[1], device=scores.device).expand(len(scores), -1)
    indices = torch.cat((within, behind), dim=1)
    best, order = scores.gather(1, indices).topk(number)
    return best, indices.gather(1, order)


def rows_of(value: Any, documents: torch.Tensor) -> Any:
    """Select the rows of some documents from a model input, or from several."""
    if isinstance(value, torch.Tensor):
        return value[documents]
    if isinstance(value, Mapping):
        return type(value)(**{name: rows_of(item, documents) for name, item in value.items()})
    if isinstance(value, tuple | list):
        return type(value)(rows_of(item, documents) for item in value)
    return value
