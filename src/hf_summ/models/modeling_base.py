"""The base class of all models, with loading, saving and initialization, and the decoder's cache.

Besides keys and values, the cache holds other states of the decoder, such as the coverage.
"""

from collections.abc import Mapping
from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicCache, EncoderDecoderCache

from .checks import IGNORED_LABEL, class_to_save, save_module, without_local_paths
from .generation_mixin import SENTENCES_MODULE
from .layers_transformer import is_symbolic

if TYPE_CHECKING:
    # transformers saves the files of such imports with a checkpoint, whose configuration names this one
    from .pipeline_summarization import SummarizationPipeline  # noqa: F401

# arguments of `from_pretrained` for files on the Hub
HUB_SETTINGS = ("cache_dir", "force_download", "local_files_only", "revision", "subfolder", "token")


def hub_settings_of(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `from_pretrained` that are for files on the Hub, by name."""
    return {name: arguments[name] for name in HUB_SETTINGS if name in arguments}


class SummarizationPreTrainedModel(PreTrainedModel):
    """Base of the architectures' models."""

    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _skip_keys_device_placement = ["cache", "past_key_values"]
    # transformers refuses assisted decoding for stateful models: the decoder's state cannot be rolled back
    _is_stateful = True
    _supports_sdpa = True

    # the arguments in `HUB_SETTINGS` that `from_pretrained` got, for files of the checkpoint that are read later
    hub_settings: Mapping[str, Any] = {}

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path, *args, **kwargs):
        """transformers' `from_pretrained`, which also records the Hub arguments as `hub_settings`."""
        hub_settings = hub_settings_of(kwargs)
        loaded = super().from_pretrained(pretrained_model_name_or_path, *args, **kwargs)
        # with `output_loading_info`, transformers returns a tuple of the model and the information
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        model.hub_settings = hub_settings
        return loaded

    def save_pretrained(self, save_directory, is_main_process=True, state_dict=None, **kwargs):
        """transformers' `save_pretrained`, which also works for a model sharded by FSDP2.

        Args:
            is_main_process: whether this process saves the settings and the code.
            state_dict: all weights, as a training loop gathers them from shards; None for the model's weights.
        """
        if state_dict is not None:
            # gathering copies tied weights, and transformers would save the copies
            tied_names = getattr(self, "all_tied_weights_keys", {})
            state_dict = {name: weight for name, weight in state_dict.items() if name not in tied_names}
        # transformers saves the code of the model's class, which FSDP2 replaces by a subclass
        actual_class = type(self)
        saved_class = class_to_save(actual_class)
        self.__class__ = saved_class
        try:
            files = super().save_pretrained(save_directory, is_main_process, state_dict, **kwargs)
        finally:
            self.__class__ = actual_class
        if is_main_process:
            self._save_optional_code(save_directory)
        return files

    def _save_optional_code(self, folder) -> None:
        """Add the modules of `_optional_code` to a folder with the saved model."""
        saved_class = class_to_save(type(self))
        for function_or_class in self._optional_code():
            save_module(folder, saved_class, function_or_class)

    def _optional_code(self) -> list[type | FunctionType]:
        """One function or class of each module that is saved only if the checkpoint's settings use it.

        It is imported by name, as transformers saves all modules in import statements.
        """
        if self.can_generate() and getattr(self.generation_config, "whole_sentences", False):
            return [import_module(SENTENCES_MODULE, __package__).likeliest_sentences]
        return []

    def chosen_text(self, token_ids: torch.Tensor, document: str | list[str], tokenizer) -> str:
        """The text of the sentence that `whole_sentences` chose.

        Args:
            token_ids: (L,), the ids that `generate` returned.
            document: a text, or several documents of one example.
            tokenizer: the tokenizer of the model.
        """
        module = import_module(SENTENCES_MODULE, __package__)
        return module.chosen_text(token_ids, document, tokenizer, special_tokens=False)

    def _upload_modified_files(self, working_dir, *args, **kwargs):
        """transformers' upload of a saved model, with its optional code and without local paths."""
        # `save_pretrained(push_to_hub=True)` uploads before it returns
        self._save_optional_code(working_dir)
        with without_local_paths(working_dir):
            return super()._upload_modified_files(working_dir, *args, **kwargs)

    def post_init(self):
        super().post_init()
        if self.can_generate():
            # otherwise transformers rebuilds the generation config from the model config on loading, and drops our keys
            self.generation_config._from_model_config = False

    def known_ids(self, ids: torch.Tensor) -> torch.Tensor:
        """The ids with `unk_token_id` in place of the ids of words that the vocabulary lacks, from `vocab_size` on."""
        config = self.config
        if not config.unknown_ids:
            return ids
        return ids.masked_fill(ids >= config.vocab_size, config.unk_token_id)

    def embed(self, input_ids, inputs_embeds) -> torch.Tensor:
        """`inputs_embeds` if they are given, otherwise the embeddings (R, T, C) of ids (R, T)."""
        if inputs_embeds is not None:
            return inputs_embeds
        return self.embed_tokens(self.known_ids(input_ids))

    def prepare_decoder_input_ids_from_labels(self, labels: torch.Tensor) -> torch.Tensor:
        """Shift the labels right behind the start token, for teacher forcing: (B, T) -> (B, T)."""
        shifted = labels.new_full(labels.shape, self.config.decoder_start_token_id)
        shifted[:, 1:] = labels[:, :-1]
        return shifted.masked_fill(shifted == IGNORED_LABEL, self.config.pad_token_id)

    @torch.no_grad()
    def _init_weights(self, module):
        """Initialize the weights of a new module; transformers calls this for each module."""
        if isinstance(module, nn.Linear):
            # transformers passes each module that has weights itself: the projection of a `TokenShift`, not the shift
            token_shift = getattr(self, "token_shift", None)
            if module is getattr(token_shift, "projection", None):
                init.orthogonal_(module.weight)
            else:
                init.xavier_uniform_(module.weight)
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
            # several modules may share the weight, which is initialized only once
            module.weight._is_hf_initialized = True
        else:
            super()._init_weights(module)


class DecoderStateLayer(CacheLayerMixin):
    """A cache layer of named tensors, such as a convolution's window, a recurrent state, or the coverage.

    Each tensor has one row for each row of the decoder, which reads and writes `states`, and calls `advance`.
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
        """Add `positions` to the number of consumed decoder positions."""
        self.seen_positions += positions
        self.is_initialized = True

    def accumulate(self, name: str, value: torch.Tensor) -> torch.Tensor:
        """Add `value` to the state `name`, which starts at zero, and return the sum."""
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
    """A cache with decoder states for each row, and cross-attention keys and values for each document.

    The rows of a document, its beams, attend to the same source. Its keys and values are therefore neither repeated nor
    reordered.
    """

    def reorder_cache(self, beam_idx: torch.LongTensor) -> None:
        self.self_attention_cache.reorder_cache(beam_idx)

    def select_documents(self, documents: torch.LongTensor) -> None:
        """Keep only the keys and values of these documents."""
        self.cross_attention_cache.batch_select_indices(documents)


def make_decoder_cache(layers: list[CacheLayerMixin]) -> SharedSourceCache:
    """Create a cache that has some empty layers for the decoder, and no layers yet for the source."""
    return SharedSourceCache(Cache(layers=layers), DynamicCache())


def check_cache(cache: Cache | None) -> None:
    """Raise a ValueError for a cache of another model: the last decoder layer of ours is a `DecoderStateLayer`."""
    if cache is None:
        return
    decoder_cache = getattr(cache, "self_attention_cache", None)
    layers = getattr(decoder_cache, "layers", None)
    if not layers or not isinstance(layers[-1], DecoderStateLayer):
        raise ValueError("`cache` is not from this model: omit it; for prefix tuning, which adds one, use LoRA instead")


def check_prompts(attention_mask: torch.Tensor | None) -> None:
    """Raise a ValueError if a mask (R, T) has ones behind zeros: a recurrent decoder would read the padding."""
    if attention_mask is None or is_symbolic(attention_mask):
        return
    if bool((attention_mask[:, 1:] > attention_mask[:, :-1]).any()):
        raise ValueError("`decoder_attention_mask` has padding before tokens: give recurrent decoders equal lengths")
