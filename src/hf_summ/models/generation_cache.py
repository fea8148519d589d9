"""Decoder state other than keys and values, in a cache that beam search reorders with everything else."""

from collections.abc import Callable

import torch
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicCache, EncoderDecoderCache


class DecoderStateLayer(CacheLayerMixin):
    """A layer's named tensors, one row per decoder row: a convolution's window, a recurrent state, coverage.

    The decoder reads and writes `states`, and calls `advance` with the number of positions it has consumed.
    """

    is_compileable = False
    is_croppable = False
    is_sliding = False
    supports_early_init = False

    def __init__(self):
        super().__init__()
        self.states: dict[str, torch.Tensor] = {}
        self.seen_positions = 0

    def advance(self, positions: int) -> None:
        """Count `positions` more decoder positions as consumed."""
        self.seen_positions += positions
        self.is_initialized = True

    def accumulate(self, name: str, value: torch.Tensor) -> torch.Tensor:
        """Add `value` to the state `name`, and return the sum."""
        if name in self.states:
            value = self.states[name] + value
        self.states[name] = value
        return value

    def lazy_initialization(self, key_states, value_states):
        raise NotImplementedError("this cache layer holds named states, not keys and values")

    def update(self, key_states, value_states, *args, **kwargs):
        raise NotImplementedError("this cache layer holds named states, not keys and values")

    def get_seq_length(self) -> int:
        return self.seen_positions

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.seen_positions + query_length, 0

    def get_max_length(self) -> int:
        return -1

    def reorder_cache(self, beam_idx: torch.LongTensor) -> None:
        self.states = {name: state.index_select(0, beam_idx.to(state.device)) for name, state in self.states.items()}

    def batch_repeat_interleave(self, repeats: int) -> None:
        self.states = {name: state.repeat_interleave(repeats, dim=0) for name, state in self.states.items()}

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        self.states = {name: state[indices, ...] for name, state in self.states.items()}

    def reset(self) -> None:
        self.states = {}
        self.seen_positions = 0
        self.is_initialized = False

    def crop(self, *args, **kwargs) -> None:
        raise NotImplementedError("this cache cannot be rolled back, so assisted decoding is not supported")


class SharedSourceCache(EncoderDecoderCache):
    """A cache with decoder state per row, and cross-attention keys and values per document.

    All beams of a document attend to the same source, so its keys and values are neither repeated nor reordered.
    """

    def reorder_cache(self, beam_idx: torch.LongTensor) -> None:
        self.self_attention_cache.reorder_cache(beam_idx)


def make_decoder_cache(layers: list[CacheLayerMixin]) -> SharedSourceCache:
    """A cache whose decoder side has these layers, all of them empty."""
    return SharedSourceCache(Cache(layers=layers), DynamicCache())


def check_decoder_cache(past_key_values) -> None:
    """Raise a ValueError for a cache that is not one of ours, the last layer of which always keeps state."""
    layers = getattr(getattr(past_key_values, "self_attention_cache", None), "layers", None) or [None]
    if past_key_values is not None and not isinstance(layers[-1], DecoderStateLayer):
        raise ValueError(
            "`past_key_values` is not a cache made by this model: leave it out, and the decoder creates one; prefix "
            "tuning, which brings its own, adapts other models, but LoRA and IA3 adapt this one"
        )


def keys_once(
    project: Callable[[torch.Tensor], torch.Tensor],
    source: torch.Tensor,
    past_key_values: EncoderDecoderCache | None,
    layer_index: int,
) -> torch.Tensor:
    """The keys (B, S, A) of an attention to the source (B, S, C) that has one head and no values, computed once.

    Args:
        project: gives the keys of the source.
        past_key_values: where they are kept.
        layer_index: their place in the cross-attention cache.
    """
    if past_key_values is not None and past_key_values.is_updated.get(layer_index):
        return past_key_values.cross_attention_cache.layers[layer_index].keys[:, 0]
    keys = project(source)
    if past_key_values is not None:
        # the cache holds heads of keys and values: here a single head, and values of width 0
        past_key_values.cross_attention_cache.update(keys[:, None], keys[:, None, :, :0], layer_index)
        past_key_values.is_updated[layer_index] = True
    return keys
