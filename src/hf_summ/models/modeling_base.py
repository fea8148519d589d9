"""The base class of all models, with their loading and initialization, and the decoder's cache.

Besides keys and values, the cache holds other decoder state; beam search reorders all of it.
"""

from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicCache, EncoderDecoderCache
from transformers.utils import logging

from .checks import IGNORED_LABEL, class_to_save

if TYPE_CHECKING:
    # transformers saves the files of such imports with a checkpoint, whose configuration names this one
    from .pipeline_summarization import SummarizationPipeline  # noqa: F401

logger = logging.get_logger(__name__)

# transformers replaces functions of torch while it loads: threads would leave weights that were never set
LOADING = RLock()

# arguments of `from_pretrained` for files on the Hub
HUB_SETTINGS = ("cache_dir", "force_download", "local_files_only", "revision", "subfolder", "token")


@contextmanager
def _delayed_bars() -> Generator[None]:
    """Within, transformers' bar of weights appears only if loading takes seconds; a user's hook for bars stays."""
    before = logging.set_tqdm_hook(lambda bar, args, settings: bar(*args, **{"delay": 3, "leave": False, **settings}))
    if before is not None:
        logging.set_tqdm_hook(before)
    try:
        yield
    finally:
        logging.set_tqdm_hook(before)


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
    # weights that `from_pretrained` found missing or unused
    _loading_problem: str | None = None

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path, *args, output_loading_info=False, **kwargs):
        """transformers' `from_pretrained`.

        Raises:
            ValueError: shapes of weights differ from the config's, and `ignore_mismatched_sizes` is not set.
        """
        name, load = pretrained_model_name_or_path, super().from_pretrained
        try:
            with LOADING, _delayed_bars():
                model, loaded = load(name, *args, output_loading_info=True, **kwargs)
        except OSError as error:
            if kwargs.get("variant") is None or "file named" not in str(error):
                raise
            # as in diffusers
            logger.warning(f"{name} has no weights of variant {kwargs['variant']!r:.80}: the default ones are loaded")
            return cls.from_pretrained(
                name, *args, output_loading_info=output_loading_info, **{**kwargs, "variant": None}
            )
        except RuntimeError as error:
            # transformers' error does not name the weights; load again to find their names
            _, loaded = load(name, *args, output_loading_info=True, **{**kwargs, "ignore_mismatched_sizes": True})
            if not loaded["mismatched_keys"]:
                raise
            raise ValueError(f"{name} {_loading_problem(loaded)}: edit its config.json, or copy both again") from error
        model.hub_settings = {name: kwargs[name] for name in HUB_SETTINGS if name in kwargs}
        model._loading_problem = _loading_problem(loaded, model.all_tied_weights_keys)
        return (model, loaded) if output_loading_info else model

    def train(self, mode: bool = True):
        if mode:
            # missing weights are trained from here on
            self._loading_problem = None
        return super().train(mode)

    def weights_problem(self) -> str | None:
        """Why the loaded model should not be used (missing, unused or non-finite weights), or None."""
        if self._loading_problem is not None:
            return self._loading_problem
        broken = [
            name
            for name, weight in self.named_parameters()
            # a quantized weight, which has another type, cannot be looked at
            if type(weight) is nn.Parameter
            and weight.is_floating_point()
            and not weight.is_meta
            and not bool(weight.isfinite().all())
        ]
        return f"has weights that are not finite in {broken[0]} ({len(broken)} in all)" if broken else None

    def save_pretrained(self, save_directory, *args, state_dict=None, **kwargs):
        """transformers' `save_pretrained`, also for a model sharded by FSDP2.

        Args:
            state_dict: all weights, as a training loop gathers them from shards.
        """
        if state_dict is not None:
            # gathering copies tied weights, and transformers does not recognize the copies
            tied = getattr(self, "all_tied_weights_keys", {})
            state_dict = {name: value for name, value in state_dict.items() if name not in tied}
        own_class = type(self)
        self.__class__ = class_to_save(own_class)
        try:
            return super().save_pretrained(save_directory, *args, state_dict=state_dict, **kwargs)
        finally:
            self.__class__ = own_class

    def __getstate__(self):
        for module in self.modules():
            hooks = module._forward_hooks
            # transformers' hooks cannot be pickled; it installs them again when outputs, such as BERT's, are recorded
            for key in [key for key, hook in hooks.items() if getattr(hook, "__name__", "") == "output_capturing_hook"]:
                del hooks[key]
            vars(module).pop("_output_capturing_hooks_installed", None)
        return super().__getstate__()

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


def _loading_problem(loaded: Mapping[str, Any], tied: Collection[str] = ()) -> str | None:
    """Describe mismatched, missing or unused weights in transformers' loading info; None if there are none.

    Of several names of a weight, those in `tied` are left out.
    """
    mismatched = sorted(loaded["mismatched_keys"])
    if mismatched:
        name, saved, own = mismatched[0]
        shapes = f"the shape {tuple(saved)}, but its config.json with {tuple(own)}"
        return f"has {name} with {shapes} ({len(mismatched)} differ)"
    for word, names in (("no", loaded["missing_keys"]), ("unused", loaded["unexpected_keys"])):
        if names := set(names).difference(tied):
            which = "missing" if word == "no" else "unused"
            return f"has {word} weights for {min(names)} ({len(names)} are {which})"
    return None


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
