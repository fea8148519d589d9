"""The base class of all models, with their loading and initialization, and the decoder's cache.

Besides keys and values, the cache holds other decoder state; beam search reorders all of it.
"""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicCache, EncoderDecoderCache

from .checks import IGNORED_LABEL, class_to_save, save_further_code
from .generation_mixin import SENTENCES_MODULE

if TYPE_CHECKING:
    # transformers saves the files of such imports with a checkpoint, whose configuration names this one
    from .pipeline_summarization import SummarizationPipeline  # noqa: F401

# arguments of `from_pretrained` for files on the Hub
HUB_SETTINGS = ("cache_dir", "force_download", "local_files_only", "revision", "subfolder", "token")


class SummarizationPreTrainedModel(PreTrainedModel):
    """Base of the architectures' models."""

    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _skip_keys_device_placement = ["cache", "past_key_values"]
    # assisted decoding would have to roll back the decoder state, which is impossible
    _is_stateful = True
    _supports_sdpa = True

    # the Hub arguments of `from_pretrained`, for checkpoint files that are read later
    hub_settings: Mapping[str, Any] = {}

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path, *args, **kwargs):
        """transformers' `from_pretrained`."""
        loaded = super().from_pretrained(pretrained_model_name_or_path, *args, **kwargs)
        # with `output_loading_info`, a tuple
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        model.hub_settings = {name: kwargs[name] for name in HUB_SETTINGS if name in kwargs}
        return loaded

    def save_pretrained(self, save_directory, *args, state_dict=None, **kwargs):
        """transformers' `save_pretrained`, also for a model sharded by FSDP2.

        Args:
            state_dict: all weights, as a training loop gathers them from shards.
        """
        if state_dict is not None:
            # gathering copies tied weights, and transformers does not recognize the copies
            tied = getattr(self, "all_tied_weights_keys", {})
            state_dict = {name: value for name, value in state_dict.items() if name not in tied}
        own_class, saved_class = type(self), class_to_save(type(self))
        self.__class__ = saved_class
        try:
            files = super().save_pretrained(save_directory, *args, state_dict=state_dict, **kwargs)
        finally:
            self.__class__ = own_class
        for needed in self._further_code():
            save_further_code(save_directory, saved_class, needed)
        return files

    def _further_code(self) -> list:
        """Functions or classes of the modules that only some checkpoints need."""
        if self.can_generate() and getattr(self.generation_config, "whole_sentences", False):
            return [import_module(SENTENCES_MODULE, __package__).sentence_candidates]
        return []

    def push_to_hub(self, *args, **kwargs):
        """transformers' `push_to_hub`, without the paths of local folders, such as a BERT's, in the configuration."""
        settings = vars(self.config)
        local = {
            name: value for name, value in settings.items() if isinstance(value, str) and value and Path(value).is_dir()
        }
        settings.update({name: Path(value).resolve().name for name, value in local.items()})
        try:
            return super().push_to_hub(*args, **kwargs)
        finally:
            settings.update(local)

    def post_init(self):
        super().post_init()
        if self.can_generate():
            # otherwise transformers rebuilds it from the model config on loading and drops our keys
            self.generation_config._from_model_config = False

    def known_ids(self, ids: torch.Tensor) -> torch.Tensor:
        """`ids` with the id of unknown words in place of those behind the vocabulary, of words that it lacks."""
        config = self.config
        return ids.masked_fill(ids >= config.vocab_size, config.unk_token_id) if config.unknown_ids else ids

    def embed(self, input_ids, inputs_embeds) -> torch.Tensor:
        """`inputs_embeds` if they are given, otherwise the embeddings (R, T, C) of ids (R, T)."""
        return self.embed_tokens(self.known_ids(input_ids)) if inputs_embeds is None else inputs_embeds

    def prepare_decoder_input_ids_from_labels(self, labels: torch.Tensor) -> torch.Tensor:
        """Shift the labels right behind the start token, for teacher forcing: (B, T) -> (B, T)."""
        shifted = labels.new_full(labels.shape, self.config.decoder_start_token_id)
        shifted[:, 1:] = labels[:, :-1]
        return shifted.masked_fill(shifted == IGNORED_LABEL, self.config.pad_token_id)

    @torch.no_grad()
    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            # transformers calls this with modules that have weights of their own, so never with the token shift itself
            is_shift = module is getattr(getattr(self, "token_shift", None), "projection", None)
            (init.orthogonal_ if is_shift else init.xavier_uniform_)(module.weight)
            if module.bias is not None:
                init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            if getattr(self.config, "embedding_init", "normal") == "xavier":
                init.xavier_uniform_(module.weight)
            else:
                # by default, vectors have about unit length
                std = getattr(self.config, "embedding_std", self.config.d_model**-0.5)
                init.normal_(module.weight, mean=0.0, std=std)
            if module.padding_idx is not None and not getattr(module.weight, "_is_hf_initialized", False):
                init.zeros_(module.weight[module.padding_idx])
            # only once, where several modules share it
            module.weight._is_hf_initialized = True
        else:
            super()._init_weights(module)


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

    def lazy_initialization(self, *args, **kwargs):
        raise NotImplementedError("this cache layer holds named states, not keys and values")

    update = lazy_initialization

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
    """A cache of decoder state per row, and of cross-attention keys and values per document.

    All beams of a document attend to the same source: its keys and values are neither repeated nor reordered.
    """

    def reorder_cache(self, beam_idx: torch.LongTensor) -> None:
        self.self_attention_cache.reorder_cache(beam_idx)

    def select_documents(self, documents: torch.LongTensor) -> None:
        """Keep only the keys and values of these documents."""
        self.cross_attention_cache.batch_select_indices(documents)


def make_decoder_cache(layers: list[CacheLayerMixin]) -> SharedSourceCache:
    """Create a cache with these empty layers on the decoder side."""
    return SharedSourceCache(Cache(layers=layers), DynamicCache())
