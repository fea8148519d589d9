"""The configuration and the processor of a checkpoint, from a folder or the Hub."""

import copy
import logging
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Literal

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
# keys that set sizes in a configuration file; in a checkpoint, the processor and the pre-trained parts determine them
_SETTLED = ("vocab_size", "bert_config", "masked_lm_config")
# the name of a pre-trained part -> its configuration, which a checkpoint has if it has the part's weights
_PARTS = {"bert_name": "bert_config", "masked_lm_name": "masked_lm_config"}


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
    def hub(self) -> dict[str, Any]:
        """The arguments of downloads."""
        return {"cache_dir": self.cache_dir, "revision": self.model_revision, "token": self.token}


def load_config(arguments: ModelArguments) -> PreTrainedConfig:
    """The configuration of the checkpoint or of `config_name`, or the defaults of `model_type`, with the overrides."""
    source = arguments.config_name or arguments.model_name_or_path
    if source is not None:
        flag = "config_name" if arguments.config_name else "model_name_or_path"
        try:
            with naming(flag, source):
                config = AutoConfig.from_pretrained(source, **hub_settings(arguments))
        except StrictDataclassError as error:
            raise ValueError(f"--{flag} {source}: its config.json is invalid: {refusal(error)}") from error
    elif arguments.model_type is None:
        raise ValueError("no model: give --model_name_or_path for a checkpoint, or --model_type for a new model")
    elif arguments.model_type not in CONFIG_MAPPING:
        hint = nearest(arguments.model_type, CONFIG_MAPPING.keys())
        raise ValueError(f"--model_type {arguments.model_type}: unknown architecture{hint}")
    else:
        config = AutoConfig.for_model(arguments.model_type)
    if source is not None and arguments.model_type not in (None, config.model_type):
        # its `get` would read only what it has imported already
        is_known = arguments.model_type in CONFIG_MAPPING
        starts = is_known and hasattr(CONFIG_MAPPING[arguments.model_type], "start_name")
        hint = f", or start it with --config_overrides start_name={source}" if starts else ""
        raise ValueError(f"--model_type {arguments.model_type}: {source} is a {config.model_type}: omit either{hint}")
    if not config.is_encoder_decoder:
        raise ValueError(f"{config.model_type} is not an encoder-decoder: choose a model such as bart")
    overrides = arguments.config_overrides
    if arguments.config_name is None and arguments.model_name_or_path is not None:
        overrides = _overrides_of_a_checkpoint(config, arguments)
    return apply_overrides(config, overrides)


def _overrides_of_a_checkpoint(config: PreTrainedConfig, arguments: ModelArguments) -> dict[str, Any]:
    """The overrides that change a checkpoint's configuration, which are logged, except keys that it determines."""
    before = {name: value_of(config, name) for name in arguments.config_overrides}
    changed = {}
    for name, value in arguments.config_overrides.items():
        if value == before[name]:
            continue
        if not _is_settled(config, name):
            changed[name] = value
        elif name in _PARTS:
            item = override_item(name, value)
            logger.warning(f"--config_overrides {item}: not read, as the checkpoint has the weights of such a model")
    shapes = _shapes(config, arguments) if changed else {}
    for number, (name, value) in enumerate(changed.items(), 1):
        old = before[name]
        # with those before it, on which it may depend
        try:
            now = _shapes(apply_overrides(config, dict(list(changed.items())[:number])), arguments)
        except Exception:
            # it also depends on one of those after it
            continue
        if not shapes.items() <= now.items():
            item, own = override_item(name, value), override_item(name, old)
            raise ValueError(f"--config_overrides {item}: the checkpoint's weights are for {own}")
        logger.warning(f"--config_overrides: {name} is {old!r:.80} in the checkpoint and becomes {value!r:.80}")
    return changed


def _is_settled(config: PreTrainedConfig, name: str) -> bool:
    """Whether a checkpoint determines a key of its configuration."""
    key = _PARTS.get(name, name)
    return key in _SETTLED and getattr(config, key, None) is not None


def _shapes(config: PreTrainedConfig, arguments: ModelArguments) -> dict[str, torch.Size]:
    """The shapes of the weights of a model, which is not allocated."""
    with torch.device("meta"):
        model = AutoModelForSeq2SeqLM.from_config(copy.deepcopy(config), trust_remote_code=arguments.trust_remote_code)
    return {name: parameter.shape for name, parameter in model.named_parameters()}


def check_generation_config(arguments: ModelArguments) -> None:
    """Raise an OSError if a folder's generation settings cannot be read: its model would decode with others."""
    name = arguments.model_name_or_path
    if name is not None and (Path(name) / GENERATION_CONFIG_NAME).is_file():
        GenerationConfig.from_pretrained(name)


def load_processor(arguments: ModelArguments, config: PreTrainedConfig) -> Processor:
    """The architecture's processor, or a bare tokenizer for architectures that have none.

    From a bare tokenizer or the processor of another architecture, only the vocabulary and `restore_case` are used.
    """
    source = arguments.tokenizer_name or arguments.model_name_or_path or arguments.config_name
    # a new model that starts from a whole model uses that model's tokenizer
    source = source or getattr(config, "start_name", None)
    if source is None:
        raise ValueError("no processor or tokenizer: give --tokenizer_name FOLDER, which `hf-summ vocabulary` creates")
    flags = [name for name in ("tokenizer_name", "model_name_or_path", "config_name") if getattr(arguments, name)]
    with naming(flags[0] if flags else "config_overrides start_name", source):
        # a processor of transformers may need an extractor of speech or images
        is_of_transformers = type(config).__module__.startswith("transformers.")
        auto = AutoTokenizer if is_of_transformers else AutoProcessor
        processor = auto.from_pretrained(source, **hub_settings(arguments))
    tokenizer = getattr(processor, "tokenizer", processor)
    # as in the pipeline: positions count from the left, and of a long document the beginning is read
    tokenizer.padding_side = tokenizer.truncation_side = "right"
    processor_class = None if is_of_transformers else PROCESSOR_MAPPING.get(type(config), None)
    # compared by name: the class may have been loaded from the checkpoint's remote code
    if processor_class is not None and type(processor).__name__ != processor_class.__name__:
        settings = {"restore_case": True} if getattr(processor, "restore_case", False) else {}
        processor = processor_class(tokenizer, **settings)
    if tokenizer.eos_token is None:
        # BERT's, which Chinese BART and two nested BERTs have
        tokenizer.eos_token = tokenizer.sep_token
    for name in ("pad_token", "eos_token"):
        if getattr(tokenizer, name) is None:
            raise ValueError(f"{source}: the tokenizer has no {name}")
    check_tokenizer(tokenizer)
    return processor


def hub_settings(arguments: ModelArguments) -> dict:
    return {**arguments.hub, "trust_remote_code": arguments.trust_remote_code}


@contextmanager
def reading_weights(name: str) -> Generator[None]:
    """Within, replace torch's error for a pickle with more than weights by a ValueError with the checkpoint's name."""
    try:
        yield
    except UnpicklingError as error:
        # torch's own message advises to run the code
        raise ValueError(f"{name}: {REFUSED_PICKLE}") from error


@contextmanager
def naming(flag: str, name: str | None) -> Generator[None]:
    """Within, add the flag to transformers' error for a checkpoint that is neither a folder nor on the Hub."""
    try:
        yield
    except OSError as error:
        is_there = name is None or Path(name).exists() or isinstance(error.__cause__, RemoteEntryNotFoundError)
        if is_there:
            raise
        raise ValueError(f"--{flag} {one_line(name)}: {one_line(error)}") from error
