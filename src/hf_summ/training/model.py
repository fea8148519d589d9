"""Processor, configuration, model and generation settings of a run."""

import copy
import logging
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from transformers import (
    AutoModelForSeq2SeqLM,
    GenerationConfig,
    PreTrainedConfig,
    PreTrainedModel,
    Trainer,
)

from hf_summ.checkpoints.adapters import Adapter, find_adapter, import_peft
from hf_summ.checkpoints.folders import model_problem, settings_problem
from hf_summ.checkpoints.loading import ModelArguments, Processor, hub_settings, load_config, load_processor, naming
from hf_summ.common.messages import one_line
from hf_summ.models.checks import SETTINGS
from hf_summ.models.processing_base import CASED, align_config
from hf_summ.models.quantization_int8 import INT8
from hf_summ.models.text_documents import prefix_of, task_parameters
from hf_summ.models.text_tagging import load_tagger
from hf_summ.pretrained import model_folder
from hf_summ.training.arguments import (
    DataArguments,
    GenerationArguments,
    LoraArguments,
    RunArguments,
    SummarizationTrainingArguments,
)
from hf_summ.training.optimization import check_patterns

logger = logging.getLogger(__name__)

# lengths that a bare tokenizer does not have
_DEFAULT_SOURCE_LENGTH, _DEFAULT_TARGET_LENGTH = 1024, 128
# keys without effect in greedy decoding; transformers refuses to save a greedy configuration that sets one of its own
_BEAM_KEYS = [name for name, setting in SETTINGS.items() if setting.needs_beams]


@dataclass(frozen=True)
class Lengths:
    """The numbers of tokens to which documents, training summaries and other summaries are truncated."""

    source: int
    target: int
    evaluation_target: int


class Built(NamedTuple):
    """A model with its processor, and the lengths of its texts."""

    model: PreTrainedModel
    processor: Processor
    lengths: Lengths


def build(arguments: RunArguments) -> Built:
    """Build the run's model and processor, and settle the lengths of its texts.

    Raises:
        ValueError: no model or processor is named, an unknown name or override, an unreadable checkpoint, or
            inconsistent settings.
    """
    arguments = replace(arguments, model=_with_folders(arguments.model))
    _check_files(arguments.model)
    with naming("model_name_or_path", arguments.model.model_name_or_path):
        adapter = find_adapter(arguments.model)
    _check_lora(arguments, adapter)
    start = arguments.model if adapter is None else adapter.base
    is_fresh = start.model_name_or_path is None
    config = load_config(start)
    processor = load_processor(start if adapter is None else adapter.with_tokenizer, config)
    if getattr(processor, "tags", "none") != "none":
        # here, as an error would otherwise appear at the first document, or in another process
        load_tagger(processor.tagger, processor.tags)
    settle_case(arguments.data.restore_case, processor, config)
    lengths = settle_lengths(arguments.data, processor, config)
    if hasattr(config, "read_pretrained_parts"):
        config.read_pretrained_parts(is_fresh, **_part_settings(start))
    if is_fresh:
        _align(processor, config)
        model = _new_model(config, start)
        if hasattr(model, "load_pretrained_parts"):
            model.load_pretrained_parts(**_part_settings(start))
    else:
        model = _load_model(start, config)
    if arguments.training.label_smoothing_factor and hasattr(config, "label_smoothing"):
        raise ValueError(
            f"--label_smoothing_factor {arguments.training.label_smoothing_factor}: {config.model_type} smooths its "
            f"own loss; set --config_overrides label_smoothing={arguments.training.label_smoothing_factor}"
        )
    if start.attn_implementation is not None:
        _set_attention(model, start.attn_implementation)
    is_adapted = adapter is not None or arguments.lora.lora_r is not None
    _fit_vocabulary(model, processor, can_grow=not is_adapted)
    _fit_positions(model, lengths.source, False if is_adapted else start.resize_position_embeddings)
    own = None if adapter is None else adapter.generation_config()
    model.generation_config = _own_generation_config(model) if own is None else own
    # the flag replaces a checkpoint's length only if it is given
    length_is_given = is_fresh or arguments.data.val_max_target_length is not None
    model.generation_config = generation_config(model, arguments.generation, lengths, length_is_given)
    _store_prefix(model.config, arguments.data.source_prefix)
    if hasattr(model, "check_generation_keys"):
        # checked here, before the first summary is generated
        model.check_generation_keys(model.generation_config)
    if adapter is not None:
        model = adapter.load(model, is_trainable=arguments.training.do_train)
    elif arguments.lora.lora_r is not None:
        model = add_lora(model, arguments.lora)
    check_patterns(model, arguments.training.learning_rates)
    _check_optim_args(arguments.training, model)
    return Built(model, processor, lengths)


def build_trained(arguments: RunArguments) -> Built:
    """As `build`, with the trained model of a complete output folder."""
    folder = arguments.training.output_dir
    started = {"config_name": None, "tokenizer_name": None, "config_overrides": {}, "model_revision": "main"}
    model = replace(arguments.model, model_name_or_path=folder, **started)
    return build(replace(arguments, model=model, lora=LoraArguments()))


def _with_folders(arguments: ModelArguments) -> ModelArguments:
    """The arguments with folders in place of the names of bundled models."""
    named = {flag: getattr(arguments, flag) for flag in ("model_name_or_path", "config_name", "tokenizer_name")}
    return replace(arguments, **{flag: model_folder(name) for flag, name in named.items() if name is not None})


def _set_attention(model: PreTrainedModel, implementation: str) -> None:
    """Set how the model, and each model that it contains, computes attention."""
    try:
        model.set_attn_implementation(implementation)
    except (ValueError, ImportError) as error:
        # the sentences after the first ask to report it
        reason = one_line(error).partition(". ")[0].rstrip(".")
        raise ValueError(f"--attn_implementation {implementation}: {reason}") from error


def _check_lora(arguments: RunArguments, adapter: Adapter | None) -> None:
    """Raise a ValueError if LoRA cannot be added to the model, or the adapter cannot be published."""
    rank, start = arguments.lora.lora_r, arguments.model.model_name_or_path
    if rank is None:
        return
    if adapter is not None:
        raise ValueError(
            f"--lora_r {rank}: {start} is an adapter already: omit the flag to continue its training, or name its base "
            f"model {adapter.base.model_name_or_path} for a new one"
        )
    if start is None:
        raise ValueError(
            f"--lora_r {rank}: a new model has nothing to adapt: give a checkpoint as --model_name_or_path"
        )
    training = arguments.training
    if training.push_to_hub and Path(start).exists():
        raise ValueError(
            f"--push_to_hub: an adapter of the local folder {start} cannot be loaded elsewhere: push that model first, "
            "and give its name on the Hub as --model_name_or_path"
        )


def _store_prefix(config: PreTrainedConfig, prefix: str) -> None:
    """Store the prefix of documents in the config, for the pipeline and the next training run."""
    before = prefix_of(config)
    if before not in ("", prefix):
        what = f"{prefix!r:.80} replaces" if prefix else "not given, which removes"
        logger.warning(f"--source_prefix: {what} {before!r:.80}, the checkpoint's prefix of each document")
    if prefix or before:
        config.prefix = prefix
    tasks = getattr(config, "task_specific_params", None) or {}
    if "summarization" in tasks:
        # the generation config has the settings of decoding, see `_own_generation_config`
        config.task_specific_params = {**tasks, "summarization": {"prefix": prefix}}


def _own_generation_config(model: PreTrainedModel) -> GenerationConfig:
    """A checkpoint's generation settings; as in the pipeline, those of `task_specific_params` take precedence."""
    config = copy.deepcopy(model.generation_config)
    settings = {name: value for name, value in task_parameters(model.config).items() if name in vars(config)}
    if settings.get("max_length") is not None:
        # otherwise it would have no effect
        config.max_new_tokens = None
    vars(config).update(settings)
    return config


def generation_config(
    model: PreTrainedModel, given: GenerationArguments, lengths: Lengths, length_is_given: bool
) -> GenerationConfig:
    """The model's generation settings, overridden by those of the run.

    Without `max_new_tokens`, summaries may be as long as references, if `length_is_given` or no other limit is set.

    Raises:
        ValueError: inconsistent settings, or settings that the model's generate() does not support.
    """
    settings = given.given()
    base = model.generation_config
    for name in settings:
        if not hasattr(base, name) and name not in getattr(model, "generation_keys", ()):
            raise ValueError(
                f"--{name} {settings[name]}: generate() of {model.config.model_type} does not support it; use "
                "--no_repeat_ngram_size, --min_new_tokens or --length_penalty, which count tokens, for every model"
            )
    length_is_open = base.max_length is None and base.max_new_tokens is None
    if "max_new_tokens" not in settings and (length_is_given or length_is_open):
        settings["max_new_tokens"] = lengths.evaluation_target
    config = copy.deepcopy(base)
    # otherwise transformers rebuilds it from the model's config on loading, and drops unknown keys
    config._from_model_config = False
    for name, value in settings.items():
        setattr(config, name, value)
    if "max_new_tokens" in settings:
        config.max_length = None
    if (config.num_beams or 1) == 1:
        # set explicitly: the pipeline uses several beams if a checkpoint does not set their number
        config.num_beams = 1
        for name in _BEAM_KEYS:
            if name in settings:
                logger.info(f"--{name} {settings[name]}: ignored without --num_beams of at least 2")
            if hasattr(config, name):
                setattr(config, name, None)
    try:
        config.validate(strict=True)
    except ValueError as error:
        raise ValueError(f"inconsistent generation settings: {error}") from None
    return config


def _part_settings(arguments: ModelArguments) -> dict:
    """Hub settings for the checkpoints that a configuration names, without the model's revision and code."""
    return {"cache_dir": arguments.cache_dir, "token": arguments.token}


def _check_optim_args(training: SummarizationTrainingArguments, model: PreTrainedModel) -> None:
    """Raise a ValueError for an item of `optim_args` without which the optimizer has the same settings."""
    if not training.optim_args:
        return
    items = training.optim_args.split(",")
    whole = Trainer.get_optimizer_cls_and_kwargs(training, model)
    for item in items:
        others = copy.copy(training)
        others.optim_args = ",".join(other for other in items if other is not item) or None
        if Trainer.get_optimizer_cls_and_kwargs(others, model) == whole:
            raise ValueError(
                f"--optim_args {item:.80}: has no effect with --optim {training.optim.value}: leave it out"
            )


def _check_files(arguments: ModelArguments) -> None:
    """Raise a ValueError for a folder with an incomplete or unreadable file."""
    for flag, problem_of in (
        ("model_name_or_path", model_problem),
        ("config_name", settings_problem),
        ("tokenizer_name", settings_problem),
    ):
        folder = getattr(arguments, flag)
        problem = problem_of(folder) if folder is not None and Path(folder).is_dir() else None
        if problem is not None:
            raise ValueError(f"--{flag} {folder}: {problem}")


def _new_model(config: PreTrainedConfig, arguments: ModelArguments) -> PreTrainedModel:
    try:
        return AutoModelForSeq2SeqLM.from_config(config, trust_remote_code=arguments.trust_remote_code)
    except (RuntimeError, ZeroDivisionError, MemoryError, OverflowError) as error:
        # the configuration does not check every size, or memory is too small
        reason = textwrap.shorten(one_line(error), 200, placeholder=" ...")
        raise ValueError(
            f"no {config.model_type} of these sizes can be created ({reason}): correct them with --config_overrides"
        ) from error


def _load_model(arguments: ModelArguments, config: PreTrainedConfig) -> PreTrainedModel:
    name_or_path = arguments.model_name_or_path
    # transformers' error does not name the weights whose shapes differ
    model, loaded = AutoModelForSeq2SeqLM.from_pretrained(
        name_or_path, config=config, ignore_mismatched_sizes=True, output_loading_info=True, **hub_settings(arguments)
    )
    if getattr(model, "quantization_method", None) == INT8:
        raise ValueError(
            f"--model_name_or_path {name_or_path}: its weights have 8 bits and cannot be trained; name the checkpoint "
            "that was quantized"
        )
    if loaded["mismatched_keys"]:
        name, there, here = min(loaded["mismatched_keys"])
        raise ValueError(
            f"--model_name_or_path {name_or_path}: {name} has shape {list(there)} in its weights, but {list(here)} in "
            "its configuration: give the configuration of its training"
        )
    missing = loaded["missing_keys"]
    if hasattr(model, "load_pretrained_parts"):
        missing = model.load_pretrained_parts(missing, **_part_settings(arguments))
    if missing and arguments.config_overrides:
        raise ValueError(
            f"--model_name_or_path {name_or_path}: it has no weights for {min(missing)} ({len(missing)} are missing), "
            "which these --config_overrides need; give the overrides of its training"
        )
    return model


def settle_lengths(data: DataArguments, processor: Processor, config: PreTrainedConfig) -> Lengths:
    """Store given lengths in the processor, which then always truncates alike, and take the others from it."""
    positions = getattr(config, "max_position_embeddings", None) or _DEFAULT_SOURCE_LENGTH
    settled = {}
    for name, default in (
        ("max_source_length", _DEFAULT_SOURCE_LENGTH),
        ("max_target_length", _DEFAULT_TARGET_LENGTH),
    ):
        value = getattr(data, name)
        if value is None:
            settled[name] = getattr(processor, name, min(default, positions))
            continue
        settled[name] = value
        if hasattr(processor, name):
            setattr(processor, name, value)
    source, target = settled.values()
    return Lengths(source, target, data.val_max_target_length or target)


def settle_case(restores: bool | None, processor: Processor, config: PreTrainedConfig) -> None:
    """Store a given `--restore_case` in the processor.

    Raises:
        ValueError: there is no such processor, or its vocabulary is not in lower case.
    """
    if restores is None:
        return
    if not hasattr(processor, "restore_case"):
        raise ValueError(
            f"--restore_case {restores}: {config.model_type} has no processor of this package: leave it out"
        )
    if restores and not processor.is_uncased:
        raise ValueError(f"--restore_case {restores}: {CASED}")
    processor.restore_case = restores


def _align(processor: Processor, config: PreTrainedConfig) -> None:
    """Set the vocabulary size and special tokens of a new configuration."""
    if hasattr(processor, "align"):
        processor.align(config)
        return
    tokenizer = getattr(processor, "tokenizer", processor)
    align_config(config, tokenizer)
    if getattr(config, "forced_eos_token_id", None) is not None:
        config.forced_eos_token_id = tokenizer.eos_token_id


def _fit_vocabulary(model: PreTrainedModel, processor: Processor, can_grow: bool) -> None:
    """Enlarge the embeddings to the size of the processor's vocabulary."""
    vocabulary, known = len(getattr(processor, "tokenizer", processor)), model.get_input_embeddings().weight.shape[0]
    if vocabulary <= known:
        return
    if not can_grow:
        raise ValueError(
            f"the tokenizer has {vocabulary:,} tokens, but the model {known:,}, and an adapter cannot contain new "
            "embeddings: give the model's tokenizer, or train without --lora_r"
        )
    model.resize_token_embeddings(vocabulary)


def _fit_positions(model: PreTrainedModel, length: int, resize: bool | None) -> None:
    """Enlarge learned positions to the length of the source."""
    positions = getattr(model.config, "max_position_embeddings", None)
    if positions is None or positions >= length:
        return
    try:
        if resize is False:
            raise NotImplementedError
        model.resize_position_embeddings(length)
    except NotImplementedError:
        raise ValueError(
            f"--max_source_length {length}: {model.config.model_type} has positions for {positions} tokens; lower it, "
            "or choose a model that allows --resize_position_embeddings"
        ) from None
    logger.warning(f"positions were enlarged from {positions} to {length} tokens")


def add_lora(model: PreTrainedModel, lora: LoraArguments) -> Any:
    """The model with new LoRA matrices; only these are trained, and their initial values leave its output unchanged.

    Raises:
        ValueError: the model has no such layers, or PEFT has no default layers for its architecture.
        ImportError: peft is not installed.
    """
    peft = import_peft(f"--lora_r {lora.lora_r}")
    assert lora.lora_r is not None
    config = peft.LoraConfig(
        task_type="SEQ_2_SEQ_LM",
        r=lora.lora_r,
        lora_alpha=2 * lora.lora_r if lora.lora_alpha is None else lora.lora_alpha,
        lora_dropout=lora.lora_dropout or 0.0,
        target_modules=lora.lora_target_modules,
    )
    try:
        return peft.get_peft_model(model, config)
    except ValueError as error:
        raise ValueError(f"--lora_target_modules: {one_line(error):.300}") from error
