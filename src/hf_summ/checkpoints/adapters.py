"""LoRA adapters, which a run trains and saves in place of a model's weights, and their checkpoints."""

import dataclasses
import json
import warnings
from collections.abc import Collection, Mapping
from pathlib import Path
from pickle import UnpicklingError
from threading import RLock
from typing import Any

from safetensors import SafetensorError
from transformers import AutoModelForSeq2SeqLM, GenerationConfig, PreTrainedConfig, PreTrainedModel
from transformers.utils import (
    ADAPTER_CONFIG_NAME,
    CONFIG_NAME,
    GENERATION_CONFIG_NAME,
    cached_file,
    find_adapter_config_file,
)

from hf_summ.checkpoints.loading import (
    ModelArguments,
    Processor,
    check_generation_config,
    load_processor,
    reading_weights,
)
from hf_summ.common.files import write_atomically
from hf_summ.common.lazy import import_extra
from hf_summ.common.messages import one_line
from hf_summ.models.modeling_base import HUB_SETTINGS
from hf_summ.runtimes.any_model import input_names
from hf_summ.runtimes.folders import load_exported

# transformers replaces functions of torch while it loads: threads would leave weights that were never set
_LOADING = RLock()
WEIGHTS, _PICKLED_WEIGHTS = "adapter_model.safetensors", "adapter_model.bin"
# file with the values of the adapted model's configuration that training sets
SETTINGS_FILE = "adapted_config.json"
_SETTINGS = ("prefix", "task_specific_params", "extraction")


class UnusableAdapterError(Exception):
    """An adapter cannot be loaded on its base.

    It is no ValueError: after one, transformers' pipeline loads the adapter by its own class, which only warns of
    missing weights.
    """


@dataclasses.dataclass(frozen=True)
class Adapter:
    """A checkpoint that is an adapter of another one.

    Args:
        start, base: the arguments that name the adapter, and those that name the adapted checkpoint.
    """

    start: ModelArguments
    base: ModelArguments

    @property
    def with_tokenizer(self) -> ModelArguments:
        """The arguments that name the checkpoint with the processor or tokenizer: the adapter or its base."""
        has_own = any(_file(self.start, name) for name in ("processor_config.json", "tokenizer_config.json"))
        return self.start if has_own else self.base

    @property
    def name(self) -> str:
        """The adapter's folder or repository."""
        return str(self.start.model_name_or_path)

    def generation_config(self) -> GenerationConfig | None:
        """The adapted model's generation settings, if they were saved with the adapter."""
        file = _file(self.start, GENERATION_CONFIG_NAME)
        return None if file is None else GenerationConfig.from_pretrained(Path(file).parent)

    def restore_settings(self, config: PreTrainedConfig) -> None:
        """Set the base's configuration to the values that were saved with the adapter, if any were."""
        if (file := _file(self.start, SETTINGS_FILE)) is not None:
            saved = json.loads(Path(file).read_text(encoding="utf-8"))
            for name in _SETTINGS:
                vars(config).pop(name, None)
            vars(config).update({name: saved[name] for name in _SETTINGS if name in saved})

    def add_tokens(self, model: PreTrainedModel, processor: Processor) -> None:
        """Enlarge the base's embeddings to the adapter's own tokenizer; as in PEFT, the adapter then contains them."""
        tokens = len(getattr(processor, "tokenizer", processor))
        if self.with_tokenizer is self.start and tokens > len(model.get_input_embeddings().weight):
            model.resize_token_embeddings(tokens)

    def load(self, model: PreTrainedModel, is_trainable: bool) -> Any:
        """The base model with the adapter on it, whose training may continue.

        Raises:
            ValueError: PEFT cannot load the adapter on this model, or the adapter lacks weights.
        """
        from peft import PeftModel

        folder = Path(self.name)
        if folder.is_dir() and not any((folder / name).exists() for name in (WEIGHTS, _PICKLED_WEIGHTS)):
            # PEFT would look for a repository of this name
            raise ValueError(f"{self.name}: it has no {WEIGHTS}")
        try:
            with reading_weights(self.name), warnings.catch_warnings():
                # those that PEFT only warns of would keep their random values
                warnings.filterwarnings("error", message="Found missing adapter keys")
                return PeftModel.from_pretrained(model, self.name, is_trainable=is_trainable, **self.start.hub)
        except (RuntimeError, ValueError, KeyError, UserWarning, SafetensorError) as error:
            if isinstance(error.__cause__, UnpicklingError):
                raise
            # PEFT's message names neither of the checkpoints
            base = self.base.model_name_or_path
            raise ValueError(f"{self.name}: this adapter does not fit {base} ({one_line(error):.200})") from error


def save_settings(model: Any, folder: Path) -> None:
    """Write what an adapter needs besides its weights: the settings of decoding, and what `restore_settings` reads."""
    model.generation_config.save_pretrained(folder)
    settings = {name: vars(model.config)[name] for name in _SETTINGS if name in vars(model.config)}
    write_atomically(folder / SETTINGS_FILE, json.dumps(settings, indent=2, ensure_ascii=False) + "\n")


def find_adapter(arguments: ModelArguments, local_files_only: bool = False) -> Adapter | None:
    """The adapter at `model_name_or_path`, or None for a whole model.

    Raises:
        ValueError: PEFT cannot read its configuration, or it names no base model.
        ImportError: PEFT is not installed.
    """
    name = arguments.model_name_or_path
    # the folder of a whole model may contain an adapter too
    if name is None or (Path(name) / CONFIG_NAME).exists():
        return None
    hub = {**arguments.hub, "local_files_only": local_files_only}
    if find_adapter_config_file(name, **hub) is None:
        return None
    peft = import_peft(name)
    try:
        config = peft.PeftConfig.from_pretrained(name, **hub)
    except ValueError as error:
        raise ValueError(f"{name}: its {ADAPTER_CONFIG_NAME} cannot be read ({error})") from error
    base = config.base_model_name_or_path
    if not base:
        raise ValueError(f"{name}: its {ADAPTER_CONFIG_NAME} names no base_model_name_or_path")
    revision = config.revision or "main"
    return Adapter(arguments, dataclasses.replace(arguments, model_name_or_path=base, model_revision=revision))


def is_adapted(model: Any) -> bool:
    """Whether the model has an adapter; if so, only the adapter's weights are trained and saved."""
    return hasattr(model, "peft_config") and hasattr(model, "get_base_model")


def base_model(model: Any) -> Any:
    """The model without its adapter, if it has one."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def takes(model: Any, name: str) -> bool:
    """Whether the forward of the model, without its adapter, has an input of that name."""
    return name in (input_names(model) or ())


def _file(arguments: ModelArguments, name: str) -> str | None:
    """The path of a checkpoint's file, or None if it has no such file."""
    try:
        return cached_file(arguments.model_name_or_path, name, **arguments.hub)
    except OSError:
        return None


def import_peft(feature: str) -> Any:
    return import_extra("peft", f"{feature}: needs PEFT", "lora")


def _weights_problem(loaded: Mapping[str, Any], tied: Collection[str]) -> str | None:
    """Describe missing or unused weights in transformers' loading info; None if there are none.

    Of several names of a weight, those in `tied` are left out.
    """
    for word, names in (("no", loaded["missing_keys"]), ("unused", loaded["unexpected_keys"])):
        if names := set(names).difference(tied):
            which = "missing" if word == "no" else "unused"
            return f"has {word} weights for {min(names)} ({len(names)} are {which})"
    return None


class AutoModelForSummarization(AutoModelForSeq2SeqLM):
    """transformers' `AutoModelForSeq2SeqLM`, which also loads adapters with their settings, and exported graphs.

    One model is loaded at a time, as transformers' loading is not safe in threads.
    """

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path, *args, **kwargs):
        """The model. That of an adapter has `adapter_name`, and `adapter_processor` if the adapter has one.

        One of our architectures has `weights_problem`, which describes missing or unused weights, or is None.

        Raises:
            UnusableAdapterError: the adapter lacks weights, or does not fit its base.
        """
        if kwargs.get("revision") is not None:
            # a plain string: `pipeline` resolves the revision of an adapter to a commit of its base
            kwargs["revision"] = f"{kwargs['revision']}"
        hub_settings = {name: kwargs[name] for name in HUB_SETTINGS if name in kwargs}
        exported = load_exported(pretrained_model_name_or_path, **hub_settings)
        if exported is not None:
            return exported
        start = ModelArguments(
            model_name_or_path=str(pretrained_model_name_or_path),
            model_revision=kwargs.get("revision") or "main",
            cache_dir=kwargs.get("cache_dir"),
            token=kwargs.get("token"),
            trust_remote_code=bool(kwargs.get("trust_remote_code")),
        )
        adapter = find_adapter(start, kwargs.get("local_files_only", False))
        check_generation_config(start if adapter is None else adapter.base)
        with _LOADING:
            if adapter is None:
                model, loaded = super().from_pretrained(
                    pretrained_model_name_or_path, *args, **{**kwargs, "output_loading_info": True}
                )
                # our architectures only: others lack weights that they do not need
                if hasattr(model, "hub_settings"):
                    model.weights_problem = _weights_problem(loaded, model.all_tied_weights_keys)
                return model
            kwargs["revision"] = adapter.base.model_revision
            model = super().from_pretrained(adapter.base.model_name_or_path, *args, **kwargs)
            processor = load_processor(start, model.config) if adapter.with_tokenizer is start else None
            if processor is not None:
                adapter.add_tokens(model, processor)
            # transformers would lose weights, such as the magnitudes of DoRA
            try:
                adapted = adapter.load(model, is_trainable=False)
            except ValueError as error:
                raise UnusableAdapterError(str(error)) from error
            if adapted.active_peft_config.is_prompt_learning:
                model = adapted
            else:
                # as transformers does, which then saves the adapter alone
                model.peft_config, model._hf_peft_config_loaded = adapted.peft_config, True
        adapter.restore_settings(model.config)
        model.generation_config = adapter.generation_config() or model.generation_config
        model.adapter_name = adapter.name
        if processor is not None:
            model.adapter_processor = processor
        return model
