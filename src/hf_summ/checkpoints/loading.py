"""The configuration and the processor of a checkpoint, from a folder or the Hub."""

import copy
import logging
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Literal, TypedDict

import torch
from huggingface_hub.errors import RemoteEntryNotFoundError, StrictDataclassError
from transformers import (
    CONFIG_MAPPING,
    AutoConfig,
    AutoModelForSeq2SeqLM,
    AutoProcessor,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedConfig,
    PreTrainedTokenizerBase,
    ProcessorMixin,
)
from transformers.models.auto.processing_auto import PROCESSOR_MAPPING
from transformers.utils import GENERATION_CONFIG_NAME

from hf_summ.checkpoints.overrides import MergeOverrides, apply_overrides, override_item, refusal, value_of
from hf_summ.common.flags import flag
from hf_summ.common.messages import nearest, one_line
from hf_summ.models.checks import check_tokenizer

REFUSED_PICKLE = "it cannot be read as weights only: it is damaged, or contains code, which is never run"
logger = logging.getLogger(__name__)

Processor = ProcessorMixin | PreTrainedTokenizerBase
# Keys that set sizes in the configuration file of a new model. In a checkpoint, they follow from its processor and from
# the pre-trained models that it contains, so overrides of them are ignored.
_FIXED_KEYS = ("vocab_size", "bert_config", "masked_lm_config")
# Key with the name of a pre-trained part, such as a BERT -> key with the part's configuration. A checkpoint that has
# the weights of the part has this configuration too.
_CONFIG_KEYS_OF_PARTS = {"bert_name": "bert_config", "masked_lm_name": "masked_lm_config"}
# The flags that may name the checkpoint of the processor. The first of them that is set names it.
_PROCESSOR_FLAGS = ("tokenizer_name", "model_name_or_path", "config_name")


class HubSettings(TypedDict, total=False):
    """Arguments of `from_pretrained` of transformers that say how to download a checkpoint."""

    cache_dir: str | None
    revision: str
    token: str | None
    local_files_only: bool
    trust_remote_code: bool


@dataclass
class ModelArguments:
    """The model and its processor: from a checkpoint, or new."""

    model_name_or_path: str | None = flag(
        "model updates",
        "Checkpoint to start from: a folder, or the name of a bundled model or of a Hub repository",
        unset="new weights",
    )
    model_type: str | None = flag(
        "model", "Architecture of a model with new weights, such as gdlf or bart", unset="the checkpoint's"
    )
    config_name: str | None = flag(
        "model",
        "Checkpoint whose config.json describes the new model, named like model_name_or_path",
        unset="the defaults of model_type",
    )
    tokenizer_name: str | None = flag(
        "model", "Processor or tokenizer, named like model_name_or_path", unset="the checkpoint's"
    )
    config_overrides: dict[str, Any] = flag(
        "model",
        "Values of the model's configuration as key=JSON, with dots for nested keys; may be repeated",
        default={},
        unset="none",
        action=MergeOverrides,
        nargs="+",
    )
    cache_dir: str | None = flag(
        "reporting decoding", "Folder for downloads and prepared data", unset="the cache of Hugging Face's libraries"
    )
    model_revision: str = flag("model updates", "Branch, tag or commit of the checkpoint", default="main")
    token: str | None = flag("secret", "Hub token for private repositories", unset="HF_TOKEN, or your login's token")
    trust_remote_code: bool = flag("model decoding", "Run code that comes with a Hub repository", default=False)
    attn_implementation: Literal["eager", "sdpa", "flash_attention_2", "flex_attention"] | None = flag(
        "training decoding updates",
        "Implementation of attention, which affects speed and rounding; the checkpoint does not store it",
        unset="sdpa if the model has it, otherwise eager",
    )
    resize_position_embeddings: bool | None = flag(
        "model", "Enlarge learned positions to max_source_length", unset="if needed, with a warning"
    )

    @property
    def hub(self) -> HubSettings:
        """The arguments of downloads."""
        return {"cache_dir": self.cache_dir, "revision": self.model_revision, "token": self.token}


def load_config(arguments: ModelArguments) -> PreTrainedConfig:
    """The configuration of the checkpoint or of `config_name`, or the defaults of `model_type`, with the overrides.

    Raises:
        ValueError: no model is named; the named model does not exist, is of another architecture than `model_type`, or
            is not an encoder-decoder; or an override is refused.
        OSError: the configuration cannot be read.
    """
    source = arguments.config_name or arguments.model_name_or_path
    if source is None:
        config = _default_config(arguments.model_type)
    else:
        config = _read_config(arguments, source)
        if arguments.model_type is not None and arguments.model_type != config.model_type:
            raise ValueError(_type_problem(arguments.model_type, config, source))
    if not config.is_encoder_decoder:
        raise ValueError(f"{config.model_type} is not an encoder-decoder: choose a model such as bart")
    overrides = arguments.config_overrides
    if arguments.config_name is None and arguments.model_name_or_path is not None:
        overrides = _changes_to_checkpoint(config, arguments)
    return apply_overrides(config, overrides)


def _default_config(model_type: str | None) -> PreTrainedConfig:
    """The configuration of an architecture with its default values; a ValueError if the architecture is unknown."""
    if model_type is None:
        raise ValueError("no model: give --model_name_or_path for a checkpoint, or --model_type for a new model")
    if model_type not in CONFIG_MAPPING:
        hint = nearest(model_type, CONFIG_MAPPING.keys())
        raise ValueError(f"--model_type {model_type}: unknown architecture{hint}")
    return AutoConfig.for_model(model_type)


def _read_config(arguments: ModelArguments, source: str) -> PreTrainedConfig:
    """The configuration of the checkpoint `source`, which `config_name` or else `model_name_or_path` names.

    Raises:
        ValueError: there is no such checkpoint, or its configuration is invalid.
        OSError: the configuration cannot be read.
    """
    flag_name = "config_name" if arguments.config_name else "model_name_or_path"
    try:
        with naming(flag_name, source):
            return AutoConfig.from_pretrained(source, **hub_settings(arguments))
    except StrictDataclassError as error:
        raise ValueError(f"--{flag_name} {source}: its config.json is invalid: {refusal(error)}") from error


def _type_problem(model_type: str, config: PreTrainedConfig, source: str) -> str:
    """The message for a `--model_type` beside a checkpoint of another architecture.

    Args:
        model_type: the architecture that the user names.
        config: the configuration of the checkpoint.
        source: the name of the checkpoint.
    """
    hint = ""
    # `CONFIG_MAPPING.get` reads only the architectures that are already imported.
    if model_type in CONFIG_MAPPING and hasattr(CONFIG_MAPPING[model_type], "start_name"):
        hint = f", or start it with --config_overrides start_name={source}"
    return f"--model_type {model_type}: {source} is a {config.model_type}: omit either{hint}"


def _changes_to_checkpoint(config: PreTrainedConfig, arguments: ModelArguments) -> dict[str, object]:
    """The overrides that change a checkpoint's configuration, which are logged.

    Overrides of keys that the checkpoint determines are left out.

    Raises:
        ValueError: an override changes the shapes of the checkpoint's weights.
    """
    overrides = arguments.config_overrides
    saved_values = {name: value_of(config, name) for name in overrides}
    changes = {}
    for name, value in overrides.items():
        if value == saved_values[name]:
            continue
        if not _is_fixed_by_checkpoint(config, name):
            changes[name] = value
        elif name in _CONFIG_KEYS_OF_PARTS:
            item = override_item(name, value)
            logger.warning(f"--config_overrides {item}: not read, as the checkpoint has the weights of such a model")
    if changes:
        _check_shapes(config, arguments, changes, saved_values)
    return changes


def _check_shapes(
    config: PreTrainedConfig,
    arguments: ModelArguments,
    changes: Mapping[str, object],
    saved_values: Mapping[str, object],
) -> None:
    """Log each change of a checkpoint's configuration.

    Args:
        config: the configuration of the checkpoint.
        arguments: the arguments that name the checkpoint.
        changes: key -> new value, in the order in which the changes are made.
        saved_values: key -> the checkpoint's value.

    Raises:
        ValueError: a change, together with the changes before, changes the shapes of weights.
    """
    saved_shapes = _shapes(config, arguments)
    changes_so_far = {}
    for name, value in changes.items():
        saved_value = saved_values[name]
        # A change may need the changes before, so all changes so far are made.
        changes_so_far[name] = value
        try:
            changed_config = apply_overrides(config, changes_so_far)
            shapes = _shapes(changed_config, arguments)
        except Exception:
            # The change needs a later change too, and is checked together with that change.
            continue
        keeps_shapes = saved_shapes.items() <= shapes.items()
        if not keeps_shapes:
            item = override_item(name, value)
            saved_item = override_item(name, saved_value)
            raise ValueError(f"--config_overrides {item}: the checkpoint's weights are for {saved_item}")
        logger.warning(f"--config_overrides: {name} is {saved_value!r:.80} in the checkpoint and becomes {value!r:.80}")


def _is_fixed_by_checkpoint(config: PreTrainedConfig, name: str) -> bool:
    """Whether a checkpoint determines a key of its configuration."""
    key = _CONFIG_KEYS_OF_PARTS.get(name, name)
    return key in _FIXED_KEYS and getattr(config, key, None) is not None


def _shapes(config: PreTrainedConfig, arguments: ModelArguments) -> dict[str, torch.Size]:
    """The shapes of the weights of a model by name; no memory is allocated for the weights."""
    with torch.device("meta"):
        model = AutoModelForSeq2SeqLM.from_config(copy.deepcopy(config), trust_remote_code=arguments.trust_remote_code)
    return {name: parameter.shape for name, parameter in model.named_parameters()}


def check_generation_config(arguments: ModelArguments) -> None:
    """Raise an OSError if the generation settings in a model's folder cannot be read.

    transformers would ignore the error, and decode with default settings.
    """
    name = arguments.model_name_or_path
    if name is not None and (Path(name) / GENERATION_CONFIG_NAME).is_file():
        GenerationConfig.from_pretrained(name)


def load_processor(arguments: ModelArguments, config: PreTrainedConfig) -> Processor:
    """The architecture's processor, or a bare tokenizer for architectures that have none.

    If the checkpoint has a bare tokenizer or the processor of another architecture, the result is a new processor of
    the model's architecture with this tokenizer. Of the settings of the other processor, only `restore_case` is kept.

    Raises:
        ValueError: no processor is named, the named processor does not exist, or its tokenizer lacks special tokens.
    """
    flag_name, source = _processor_source(arguments, config)
    # A processor of transformers may need an extractor of speech or images.
    is_of_transformers = type(config).__module__.startswith("transformers.")
    auto_class = AutoTokenizer if is_of_transformers else AutoProcessor
    with naming(flag_name, source):
        processor = auto_class.from_pretrained(source, **hub_settings(arguments))
    tokenizer = getattr(processor, "tokenizer", processor)
    # As in the pipeline, positions count from the left, and a long document is truncated at its end.
    tokenizer.padding_side = "right"
    tokenizer.truncation_side = "right"
    processor_class = None
    if not is_of_transformers:
        processor_class = PROCESSOR_MAPPING.get(type(config), None)
    # The names are compared, as the class may have been loaded from the checkpoint's remote code.
    if processor_class is not None and type(processor).__name__ != processor_class.__name__:
        settings = {}
        if getattr(processor, "restore_case", False):
            settings["restore_case"] = True
        processor = processor_class(tokenizer, **settings)
    if tokenizer.eos_token is None:
        # BERT's texts end with its separator. Chinese BART and models of two BERTs have BERT's tokenizer.
        tokenizer.eos_token = tokenizer.sep_token
    for name in ("pad_token", "eos_token"):
        if getattr(tokenizer, name) is None:
            raise ValueError(f"{source}: the tokenizer has no {name}")
    check_tokenizer(tokenizer)
    return processor


def _processor_source(arguments: ModelArguments, config: PreTrainedConfig) -> tuple[str, str]:
    """The flag that names the checkpoint of the processor, and the name of this checkpoint.

    Raises:
        ValueError: no flag names a checkpoint, and the configuration has no `start_name`.
    """
    for flag_name in _PROCESSOR_FLAGS:
        name = getattr(arguments, flag_name)
        if name:
            return flag_name, name
    # A new model that starts from a whole model uses that model's tokenizer.
    start_name = getattr(config, "start_name", None)
    if start_name is None:
        raise ValueError("no processor or tokenizer: give --tokenizer_name FOLDER, which `hf-summ vocabulary` creates")
    return "config_overrides start_name", start_name


def hub_settings(arguments: ModelArguments) -> HubSettings:
    """The arguments of downloads and of remote code for `from_pretrained`."""
    return {**arguments.hub, "trust_remote_code": arguments.trust_remote_code}


@contextmanager
def reading_weights(name: str) -> Generator[None]:
    """A context that replaces torch's error for a pickle with more than weights by a ValueError.

    Args:
        name: the name of the checkpoint, for the message of the ValueError.
    """
    try:
        yield
    except UnpicklingError as error:
        # The message of torch advises to run the code.
        raise ValueError(f"{name}: {REFUSED_PICKLE}") from error


@contextmanager
def naming(flag: str, name: str | None) -> Generator[None]:
    """A context that replaces transformers' OSError for a checkpoint that is neither a folder nor on the Hub.

    A ValueError that names the flag takes the place of this error. Any other OSError, for example for a file that
    cannot be read, passes.

    Args:
        flag: the flag that names the checkpoint.
        name: the name of the checkpoint.
    """
    try:
        yield
    except OSError as error:
        exists = name is None or Path(name).exists() or isinstance(error.__cause__, RemoteEntryNotFoundError)
        if exists:
            raise
        raise ValueError(f"--{flag} {one_line(name)}: {one_line(error)}") from error
