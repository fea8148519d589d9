"""LoRA adapters, which a run trains and saves in place of a model's weights, and their checkpoints."""

import dataclasses
import json
import logging
import warnings
from collections.abc import Collection, Mapping
from pathlib import Path
from pickle import UnpicklingError
from threading import RLock
from types import ModuleType
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError
from transformers import AutoModelForSeq2SeqLM, GenerationConfig, PreTrainedConfig, PreTrainedModel
from transformers.utils import (
    ADAPTER_CONFIG_NAME,
    CONFIG_NAME,
    GENERATION_CONFIG_NAME,
    PROCESSOR_NAME,
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
from hf_summ.models.modeling_base import hub_settings_of
from hf_summ.runtimes.any_model import input_names
from hf_summ.runtimes.folders import load_exported, naming_base

if TYPE_CHECKING:
    from peft import PeftModel

logger = logging.getLogger(__name__)

# While transformers loads a model, it replaces functions of torch. Without this lock, several threads that load models
# at once could leave weights unset.
_LOADING = RLock()
WEIGHTS = "adapter_model.safetensors"
_PICKLED_WEIGHTS = "adapter_model.bin"
# Training sets some values of the adapted model's configuration. This file beside the adapter has them.
SETTINGS_FILE = "adapted_config.json"
# Values that training may also remove.
_OPTIONAL_SETTINGS = ("prefix", "task_specific_params", "extraction")
_SETTINGS = (*_OPTIONAL_SETTINGS, "epochs_trained")


class UnusableAdapterError(Exception):
    """An adapter cannot be loaded on its base model.

    This is not a ValueError, because transformers' pipeline would catch a ValueError. It would then load the adapter by
    a class of transformers, which only warns of missing weights.
    """


@dataclasses.dataclass(frozen=True)
class Adapter:
    """A checkpoint that is an adapter of another one.

    Args:
        arguments: the arguments that name the adapter.
        base: the arguments that name the adapted checkpoint.
    """

    arguments: ModelArguments
    base: ModelArguments

    @property
    def has_processor(self) -> bool:
        """Whether a processor was saved with the adapter."""
        return _file(self.arguments, PROCESSOR_NAME) is not None

    @property
    def has_tokenizer(self) -> bool:
        """Whether a tokenizer was saved with the adapter, alone or as a part of a processor."""
        return self.has_processor or _file(self.arguments, "tokenizer_config.json") is not None

    @property
    def name(self) -> str:
        """The adapter's folder or repository."""
        return str(self.arguments.model_name_or_path)

    def load_processor(self, config: PreTrainedConfig) -> Processor:
        """The processor of the adapted model, or its tokenizer if the architecture has no processor.

        It depends on what was saved with the adapter:

        - A processor: this processor.
        - Only a tokenizer, as plain trainers save it: the base's processor with this tokenizer. If no processor was
          saved with the base, the processor has default settings, and a warning is logged.
        - Neither: the processor or tokenizer of the base.

        `tokenizer_name` among the arguments takes precedence over both checkpoints.

        Args:
            config: the configuration of the adapted model.

        Raises:
            ValueError: as the function `load_processor`.
        """
        if not self.has_tokenizer:
            return load_processor(self.base, config)
        processor = load_processor(self.arguments, config)
        # A bare tokenizer, of an architecture without processor, takes no settings from the base.
        is_bare_tokenizer = not hasattr(processor, "tokenizer")
        if self.has_processor or is_bare_tokenizer:
            return processor
        base_name = self.base.model_name_or_path
        if _file(self.base, PROCESSOR_NAME) is None:
            logger.warning(
                f"neither {self.name} nor {base_name} has a {PROCESSOR_NAME}, so {type(processor).__name__} has its "
                "default settings: save the processor there if the model was trained with others"
            )
            return processor
        base_processor = load_processor(self.base, config)
        base_processor.tokenizer = processor.tokenizer
        return base_processor

    def generation_config(self) -> GenerationConfig | None:
        """The adapted model's generation settings, if they were saved with the adapter."""
        file = _file(self.arguments, GENERATION_CONFIG_NAME)
        if file is None:
            return None
        return GenerationConfig.from_pretrained(Path(file).parent)

    def restore_settings(self, config: PreTrainedConfig) -> None:
        """Set the base's configuration to the values that were saved with the adapter, in place.

        A value in `_OPTIONAL_SETTINGS` that was not saved is removed. If the adapter has no `SETTINGS_FILE`, nothing
        changes.
        """
        file = _file(self.arguments, SETTINGS_FILE)
        if file is None:
            return
        saved = json.loads(Path(file).read_text(encoding="utf-8"))
        for name in _OPTIONAL_SETTINGS:
            vars(config).pop(name, None)
        for name in _SETTINGS:
            if name in saved:
                vars(config)[name] = saved[name]

    def add_tokens(self, model: PreTrainedModel, processor: Processor) -> None:
        """Enlarge the base model's embeddings to the number of the adapter's tokens.

        Only an adapter that was saved with a tokenizer may have more tokens than its base. As in PEFT, such an adapter
        contains the enlarged embeddings.
        """
        tokens = len(getattr(processor, "tokenizer", processor))
        if self.has_tokenizer and tokens > len(model.get_input_embeddings().weight):
            model.resize_token_embeddings(tokens)

    def load(self, model: PreTrainedModel, is_trainable: bool) -> "PeftModel":
        """Put the adapter on the base model.

        Args:
            model: the base model.
            is_trainable: whether the training of the adapter continues.

        Raises:
            ValueError: PEFT cannot load the adapter on this model, the adapter lacks weights, or its weights are a
                damaged pickle or a pickle that contains code.
        """
        from peft import PeftModel

        folder = Path(self.name)
        has_weights = (folder / WEIGHTS).exists() or (folder / _PICKLED_WEIGHTS).exists()
        if folder.is_dir() and not has_weights:
            # PEFT would look for a repository of this name.
            raise ValueError(f"{self.name}: it has no {WEIGHTS}")
        try:
            with reading_weights(self.name), warnings.catch_warnings():
                # PEFT only warns of missing weights, which would keep their random values.
                warnings.filterwarnings("error", message="Found missing adapter keys")
                return PeftModel.from_pretrained(model, self.name, is_trainable=is_trainable, **self.arguments.hub)
        except (RuntimeError, ValueError, KeyError, UserWarning, SafetensorError) as error:
            # `reading_weights` has made a ValueError of torch's error for a pickle. Its message says all, and names the
            # adapter.
            if isinstance(error.__cause__, UnpicklingError):
                raise
            # The message of PEFT names neither of the checkpoints.
            base = self.base.model_name_or_path
            raise ValueError(f"{self.name}: this adapter does not fit {base} ({one_line(error):.200})") from error


def save_settings(model: PreTrainedModel, folder: Path) -> None:
    """Write two files to an adapter's folder: the generation config, and what `restore_settings` reads."""
    model.generation_config.save_pretrained(folder)
    # `vars` has the values that the configuration itself holds, without the defaults of its class.
    values = vars(model.config)
    settings = {}
    for name in _SETTINGS:
        if name in values:
            settings[name] = values[name]
    write_atomically(folder / SETTINGS_FILE, json.dumps(settings, indent=2, ensure_ascii=False) + "\n")


def find_adapter(arguments: ModelArguments, local_files_only: bool = False) -> Adapter | None:
    """The adapter at `model_name_or_path`, or None for a whole model.

    The adapter's configuration names the base model and the base's revision, "main" by default.

    Args:
        arguments: the arguments that name the checkpoint.
        local_files_only: whether the files of a repository are taken from the cache, without a download.

    Raises:
        ValueError: PEFT cannot read the adapter's configuration, or the configuration names no base model.
        ImportError: the checkpoint is an adapter, but PEFT is not installed.
    """
    name = arguments.model_name_or_path
    # The folder of a whole model may contain an adapter too.
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
    base_arguments = dataclasses.replace(arguments, model_name_or_path=base, model_revision=config.revision or "main")
    return Adapter(arguments, base_arguments)


def record_base(model: Any) -> None:
    """Let an adapter name its base by its whole path if this is a folder, as it is loaded from other folders too.

    Args:
        model: a model of PEFT.
    """
    config = model.active_peft_config
    if Path(config.base_model_name_or_path).is_dir():
        config.base_model_name_or_path = str(Path(config.base_model_name_or_path).resolve())


def is_adapted(model: object) -> bool:
    """Whether the model has an adapter; if so, only the adapter's weights are trained and saved."""
    return hasattr(model, "peft_config") and hasattr(model, "get_base_model")


def base_model(model: Any) -> Any:
    """The model of transformers inside a wrapper of PEFT; another model is returned unchanged.

    The layers of an adapter, such as LoRA's, are within the returned model and still take effect.
    """
    if hasattr(model, "get_base_model"):
        return model.get_base_model()
    return model


def takes(model: object, name: str) -> bool:
    """Whether the model's `forward` has an input of that name. The `forward` of an adapter's wrapper does not count."""
    names = input_names(model)
    return names is not None and name in names


def _file(arguments: ModelArguments, name: str) -> str | None:
    """The path of a checkpoint's file, or None if the checkpoint has no such file or cannot be reached."""
    try:
        return cached_file(arguments.model_name_or_path, name, **arguments.hub)
    except OSError:
        return None


def import_peft(feature: str) -> ModuleType:
    """Import PEFT.

    Args:
        feature: what needs PEFT, the beginning of the error message.

    Raises:
        ImportError: PEFT is not installed.
    """
    return import_extra("peft", f"{feature}: needs PEFT", "lora")


def _loading_problem(loading_info: Mapping[str, Collection[str]], replaced: Collection[str]) -> str | None:
    """Describe missing or unused weights in transformers' loading info; None if there are none.

    Args:
        loading_info: the loading info. Its `missing_keys` are the names of weights that the checkpoint lacks, and its
            `unexpected_keys` the names of weights that the model lacks.
        replaced: names of weights that are loaded under another name or from an adapter, and are therefore no problem.
    """
    missing = set(loading_info["missing_keys"]).difference(replaced)
    if missing:
        return f"has no weights for {min(missing)} ({len(missing)} are missing)"
    unused = set(loading_info["unexpected_keys"]).difference(replaced)
    if unused:
        return f"has unused weights for {min(unused)} ({len(unused)} are unused)"
    return None


def _names_of_replaced_weights(model: PreTrainedModel) -> list[str]:
    """The names of the base's weights that the adapter replaces, those of the modules in PEFT's `modules_to_save`.

    Args:
        model: the base model, on which the adapter has been put.
    """
    names = []
    for module_name, module in model.named_modules():
        if hasattr(module, "modules_to_save"):
            for name in module.original_module.state_dict():
                names.append(f"{module_name}.{name}")
    return names


class AutoModelForSummarization(AutoModelForSeq2SeqLM):
    """transformers' `AutoModelForSeq2SeqLM`, which also loads adapters with their settings, and exported graphs.

    One model is loaded at a time, as transformers' loading is not safe in threads.
    """

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path, *args, **kwargs):
        """Load a model, an adapter on its base model, or exported graphs by name.

        The model of an adapter has the attribute `adapter_name`, and `adapter_processor` if the adapter has a
        processor or a tokenizer. A model of our architectures has the attribute `weights_problem`, which describes
        missing or unused weights, or is None. Weights that the adapter has are not missing in its base.

        Raises:
            UnusableAdapterError: the adapter lacks weights, or does not fit its base.
            ValueError: the adapter's configuration cannot be read, or names no base model; or the model cannot be
                loaded.
            ImportError: the checkpoint is an adapter, but PEFT is not installed.
            OSError: there is no such checkpoint, or a file of the checkpoint cannot be read.
        """
        if kwargs.get("revision") is not None:
            # `pipeline` passes a subclass of str that also has a commit. For an adapter, this is a commit of its base.
            # A plain string is the revision alone.
            kwargs["revision"] = f"{kwargs['revision']}"
        exported = load_exported(pretrained_model_name_or_path, **hub_settings_of(kwargs))
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
        # Threads that load models wait for each other.
        with _LOADING:
            if adapter is None:
                check_generation_config(start)
                return cls._load_whole_model(pretrained_model_name_or_path, *args, **kwargs)
            check_generation_config(adapter.base)
            return cls._load_adapted_model(adapter, *args, **kwargs)

    @classmethod
    def _load_whole_model(cls, name: str, *args, **kwargs) -> PreTrainedModel:
        """Load a model that is not an adapter, and describe missing or unused weights if it is of our architectures.

        Args:
            name: a folder or a name on the Hub.
            args, kwargs: further arguments of `from_pretrained`.
        """
        kwargs["output_loading_info"] = True
        model, loading_info = super().from_pretrained(name, *args, **kwargs)
        # Only models of our architectures have `hub_settings`. A checkpoint of another architecture may lack weights
        # that its model does not need, so missing weights are not a problem there.
        if hasattr(model, "hub_settings"):
            model.weights_problem = _loading_problem(loading_info, model.all_tied_weights_keys)
        # The pipeline loads graphs with the same settings.
        model.download_settings = hub_settings_of(kwargs)
        return model

    @classmethod
    def _load_adapted_model(cls, adapter: Adapter, *args, **kwargs) -> "PreTrainedModel | PeftModel":
        """Load the base model of an adapter, and put the adapter on it, with its settings and processor.

        Raises:
            UnusableAdapterError: the adapter lacks weights, or does not fit its base.
        """
        kwargs["revision"] = adapter.base.model_revision
        kwargs["output_loading_info"] = True
        with naming_base(adapter.name):
            model, loading_info = super().from_pretrained(adapter.base.model_name_or_path, *args, **kwargs)
        processor = None
        if adapter.has_tokenizer:
            processor = adapter.load_processor(model.config)
            adapter.add_tokens(model, processor)
        # The adapter is loaded by PEFT, as transformers would lose weights, such as the magnitudes of DoRA.
        try:
            adapted = adapter.load(model, is_trainable=False)
        except ValueError as error:
            raise UnusableAdapterError(str(error)) from error
        if hasattr(model, "hub_settings"):
            replaced = [*model.all_tied_weights_keys, *_names_of_replaced_weights(model)]
            model.weights_problem = _loading_problem(loading_info, replaced)
        if adapted.active_peft_config.is_prompt_learning:
            model = adapted
        else:
            # With these attributes, which transformers sets too, `save_pretrained` saves the adapter alone.
            model.peft_config = adapted.peft_config
            model._hf_peft_config_loaded = True
        adapter.restore_settings(model.config)
        generation_config = adapter.generation_config()
        if generation_config is not None:
            model.generation_config = generation_config
        model.adapter_name = adapter.name
        if processor is not None:
            model.adapter_processor = processor
        return model
