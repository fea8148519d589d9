"""Processor, configuration, model and generation settings of a run."""

import copy
import logging
import textwrap
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from safetensors import SafetensorError
from transformers import (
    AutoModelForSeq2SeqLM,
    GenerationConfig,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from hf_summ.checkpoints.adapters import Adapter, find_adapter, import_peft
from hf_summ.checkpoints.loading import (
    ModelArguments,
    Processor,
    check_generation_config,
    hub_settings,
    load_config,
    load_processor,
    reading_weights,
)
from hf_summ.checkpoints.pretrained_parts import load_pretrained_parts, read_pretrained_parts
from hf_summ.common.messages import nearest, one_line
from hf_summ.models.processing_base import align_config
from hf_summ.models.quantization_int8 import INT8
from hf_summ.models.text_processing_base import CASED
from hf_summ.models.text_processing_gdlf import load_tagger
from hf_summ.pretrained import model_folder
from hf_summ.runtimes.any_model import prefix_of, source_positions, target_positions, task_parameters
from hf_summ.runtimes.settings import SETTINGS
from hf_summ.training.arguments import DataArguments, GenerationArguments, LoraArguments

logger = logging.getLogger(__name__)

# lengths that a bare tokenizer does not have
_DEFAULT_SOURCE_LENGTH, _DEFAULT_TARGET_LENGTH = 1024, 128
# keys without effect in greedy decoding; transformers refuses to save a greedy configuration that sets one of its own
_BEAM_KEYS = [name for name, setting in SETTINGS.items() if setting.needs_beams]
_SAMPLING_KEYS = {"temperature", "top_k", "top_p", "min_p", "top_h", "typical_p", "epsilon_cutoff", "eta_cutoff"}


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


def build(
    start: ModelArguments, lora: LoraArguments, data: DataArguments, generation: GenerationArguments, is_trainable: bool
) -> Built:
    """Build the run's model and processor, and settle the lengths of its texts."""
    start = _with_folders(start)
    adapter = find_adapter(start)
    _check_lora(lora, start, adapter)
    base = start if adapter is None else adapter.base
    config = load_config(base)
    processor = load_processor(start if adapter is None else adapter.with_tokenizer, config)
    # without a tagger, rows have tags
    if getattr(processor, "tags", "none") != "none" and processor.tagger is not None:
        # here, as an error would otherwise appear at the first document, or in another process
        load_tagger(processor.tagger, processor.tags)
    if data.restore_case is not None:
        settle_case(data.restore_case, processor, config)
    store_lengths(data, processor)
    is_new = base.model_name_or_path is None
    # for checkpoints that the configuration names, without the model's revision and code
    hub = {"cache_dir": base.cache_dir, "token": base.token}
    read_pretrained_parts(config, is_new, **hub)
    model = _new_model(config, processor, base, hub) if is_new else _load_model(config, base, hub)
    if base.attn_implementation is not None:
        # also in each model that it contains
        model.set_attn_implementation(base.attn_implementation)
    if adapter is not None:
        adapter.add_tokens(model, processor)
    lengths = settle_lengths(data, processor, model)
    _fit(model, processor, lengths, base.resize_position_embeddings, adapter is None and lora.lora_r is None)
    if adapter is not None:
        adapter.restore_settings(model.config)
    saved = None if adapter is None else adapter.generation_config()
    model.generation_config = _saved_generation_config(model) if saved is None else saved
    _set_languages(data, getattr(processor, "tokenizer", processor), model)
    _settle_start(model, base)
    # the flag replaces a checkpoint's length only if it is given
    length_is_given = is_new or data.val_max_target_length is not None
    model.generation_config = generation_config(model, generation, lengths, length_is_given)
    _store_prefix(model.config, data.source_prefix)
    if hasattr(model, "check_generation_keys"):
        # checked here, before the first summary is generated
        model.check_generation_keys(model.generation_config)
    if adapter is not None:
        model = adapter.load(model, is_trainable)
    elif lora.lora_r is not None:
        model = add_lora(model, lora)
    return Built(model, processor, lengths)


def trained_model(start: ModelArguments, folder: str) -> ModelArguments:
    """The arguments that name the trained model in a complete output folder."""
    return replace(
        start,
        model_name_or_path=folder,
        config_name=None,
        tokenizer_name=None,
        config_overrides={},
        model_revision="main",
    )


def _with_folders(start: ModelArguments) -> ModelArguments:
    """The arguments with folders in place of the names of bundled models."""
    folders = {}
    for flag in ("model_name_or_path", "config_name", "tokenizer_name"):
        if (name := getattr(start, flag)) is None:
            continue
        folders[flag] = model_folder(name)
    return replace(start, **folders)


def _check_lora(lora: LoraArguments, start: ModelArguments, adapter: Adapter | None) -> None:
    if lora.lora_r is not None and adapter is not None:
        raise ValueError(
            f"--lora_r {lora.lora_r}: {adapter.name} is an adapter already: omit the flag to continue its training, or "
            f"name its base model {adapter.base.model_name_or_path} for a new one"
        )
    if lora.lora_r is not None and start.model_name_or_path is None:
        raise ValueError(
            f"--lora_r {lora.lora_r}: a new model has nothing to adapt: give a checkpoint as --model_name_or_path"
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
        # the generation config has the settings of decoding, see `_saved_generation_config`
        config.task_specific_params = {**tasks, "summarization": {"prefix": prefix}}


def _saved_generation_config(model: PreTrainedModel) -> GenerationConfig:
    """A checkpoint's generation settings; as in the pipeline, those of `task_specific_params` take precedence."""
    config = copy.deepcopy(model.generation_config)
    settings = {name: value for name, value in task_parameters(model.config).items() if name in vars(config)}
    if settings.get("max_length") is not None:
        # otherwise it would have no effect
        config.max_new_tokens = None
    vars(config).update(settings)
    return config


def generation_config(
    model: PreTrainedModel, arguments: GenerationArguments, lengths: Lengths, length_is_given: bool
) -> GenerationConfig:
    """The model's generation settings, overridden by those of the run.

    Without `max_new_tokens`, summaries may be as long as references, if `length_is_given` or no other limit is set.
    """
    settings, config = arguments.given(), copy.deepcopy(model.generation_config)
    for name in settings:
        if not hasattr(config, name) and name not in getattr(model, "generation_keys", ()):
            raise ValueError(
                f"--{name} {settings[name]}: generate() of {model.config.model_type} does not support it; use "
                "--no_repeat_ngram_size, --min_new_tokens or --length_penalty, which count tokens, for every model"
            )
    if getattr(config, "whole_sentences", False) and "whole_sentences" not in settings:
        logger.warning(
            "the checkpoint's summaries are whole sentences of the documents, and so are those of this run; "
            "--no-whole_sentences searches for summaries"
        )
    if length_is_given or config.max_length is config.max_new_tokens is None:
        settings.setdefault("max_new_tokens", lengths.evaluation_target)
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
    if not config.do_sample:
        # older checkpoints set them without effect, but transformers saves no such settings
        for name in _SAMPLING_KEYS & vars(config).keys():
            setattr(config, name, None)
    config.validate(strict=True)
    return config


def _new_model(
    config: PreTrainedConfig, processor: Processor, start: ModelArguments, hub: dict[str, str | None]
) -> PreTrainedModel:
    if hasattr(processor, "align"):
        processor.align(config)
    else:
        tokenizer = getattr(processor, "tokenizer", processor)
        align_config(config, tokenizer)
        if getattr(config, "forced_eos_token_id", None) is not None:
            config.forced_eos_token_id = tokenizer.eos_token_id
    try:
        model = AutoModelForSeq2SeqLM.from_config(config, trust_remote_code=start.trust_remote_code)
    except (RuntimeError, ZeroDivisionError, MemoryError, OverflowError) as error:
        # the configuration does not check every size, or memory is too small
        reason = textwrap.shorten(one_line(error), 200, placeholder=" ...")
        raise ValueError(
            f"no {config.model_type} of these sizes can be created ({reason}): correct them with --config_overrides"
        ) from error
    load_pretrained_parts(model, **hub)
    return model


def _load_model(config: PreTrainedConfig, start: ModelArguments, hub: dict[str, str | None]) -> PreTrainedModel:
    """The model of a checkpoint, which must have all of its weights."""
    check_generation_config(start)
    try:
        # transformers' error does not name the weights whose shapes differ
        with reading_weights(f"--model_name_or_path {start.model_name_or_path}"):
            model, loaded = AutoModelForSeq2SeqLM.from_pretrained(
                start.model_name_or_path,
                config=config,
                ignore_mismatched_sizes=True,
                output_loading_info=True,
                **hub_settings(start),
            )
    except SafetensorError as error:
        # which names no file
        raise ValueError(f"--model_name_or_path {start.model_name_or_path}: {error}") from error
    missing = load_pretrained_parts(model, loaded["missing_keys"], **hub)
    if getattr(model, "quantization_method", None) == INT8:
        model = model.dequantize()
    problem = None
    if loaded["mismatched_keys"]:
        name, saved, configured = min(loaded["mismatched_keys"])
        problem = (
            f"{name} has shape {list(saved)} in its weights, but {list(configured)} in its configuration: give the "
            "configuration of its training"
        )
    elif missing and start.config_overrides:
        problem = (
            f"it has no weights for {min(missing)} ({len(missing)} are missing), which these --config_overrides need; "
            "give the overrides of its training"
        )
    if problem is not None:
        raise ValueError(f"--model_name_or_path {start.model_name_or_path}: {problem}")
    return model


def store_lengths(data: DataArguments, processor: Processor) -> None:
    """Store given lengths in the processor, which then always truncates alike."""
    for name in ("max_source_length", "max_target_length"):
        if hasattr(processor, name) and getattr(data, name):
            setattr(processor, name, getattr(data, name))


def settle_lengths(data: DataArguments, processor: Processor, model: PreTrainedModel) -> Lengths:
    """The given lengths, and otherwise the processor's.

    The default lengths of a bare tokenizer are at most the model's positions.
    """
    lengths = []
    for name, default, positions in (
        ("max_source_length", _DEFAULT_SOURCE_LENGTH, source_positions(model)),
        ("max_target_length", _DEFAULT_TARGET_LENGTH, target_positions(model)),
    ):
        lengths.append(getattr(data, name) or getattr(processor, name, min(default, positions or default)))
    return Lengths(*lengths, data.val_max_target_length or lengths[1])


def settle_case(restores: bool, processor: Processor, config: PreTrainedConfig) -> None:
    """Store `--restore_case` in the processor."""
    if not hasattr(processor, "restore_case"):
        raise ValueError(f"--restore_case {restores}: {config.model_type} has no processor of this package: omit it")
    if restores and not processor.is_uncased:
        raise ValueError(f"--restore_case {restores}: {CASED}")
    processor.restore_case = restores


def _set_languages(data: DataArguments, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> None:
    """Set the languages of documents and summaries, whose tokens begin or end the texts of a multilingual model."""
    if not hasattr(tokenizer, "set_tgt_lang_special_tokens"):
        for name in ("lang", "target_lang"):
            if (code := getattr(data, name)) is not None:
                raise ValueError(f"--{name} {code}: the tokenizer of {model.config.model_type} has no languages")
        return
    source = data.lang or tokenizer.src_lang
    target = data.target_lang or data.lang or tokenizer.tgt_lang or source
    if data.lang is None:
        logger.warning(f"documents are read as {source}, and summaries as {target}: see --lang and --target_lang")
    _id_of_language("lang", source, tokenizer)
    number = _id_of_language("target_lang", target, tokenizer)
    tokenizer.src_lang, tokenizer.tgt_lang = source, target
    ids = tokenizer(text_target="a")["input_ids"]
    # mBART writes after the token that ends its labels, and the others force that with which they begin
    if ids[-1] == number:
        model.config.decoder_start_token_id = model.generation_config.decoder_start_token_id = number
    else:
        model.generation_config.forced_bos_token_id = number


def _id_of_language(name: str, code: str, tokenizer: PreTrainedTokenizerBase) -> int:
    # M2M100 and PLBart have further underscores
    for token in (code, f"__{code}__"):
        if (number := tokenizer.convert_tokens_to_ids(token)) not in (None, tokenizer.unk_token_id):
            return number
    codes = [token.strip("_") for token in tokenizer.all_special_tokens]
    raise ValueError(f"--{name} {code}: the tokenizer has no such language{nearest(code, codes)}")


def _settle_start(model: PreTrainedModel, start: ModelArguments) -> None:
    """Let decoding begin summaries with the token behind which training shifts labels.

    Raises:
        ValueError: there is no such token, which would otherwise be noticed at the first batch.
    """
    decoding, own = model.generation_config, getattr(model.config, "decoder_start_token_id", None)
    # without one, generate() begins with `bos_token_id`, but two nested models shift their labels by the former
    begins = decoding.bos_token_id is not None and model.config.model_type != "encoder-decoder"
    if own is decoding.decoder_start_token_id is None and not begins:
        name = start.model_name_or_path or start.config_name or start.model_type
        raise ValueError(
            f"{name}: no `decoder_start_token_id`, the token with which summaries begin: give "
            "--config_overrides decoder_start_token_id=ID"
        )
    if own is not None and decoding.decoder_start_token_id != own:
        if decoding.decoder_start_token_id is not None:
            logger.warning(
                f"summaries begin with the token {own} of config.json in training, and so in decoding, in place of "
                f"{decoding.decoder_start_token_id} in generation_config.json"
            )
        decoding.decoder_start_token_id = own


def _fit(model: PreTrainedModel, processor: Processor, lengths: Lengths, resize: bool | None, can_grow: bool) -> None:
    """Enlarge the embeddings to the processor's vocabulary, and learned positions to the texts' lengths."""
    tokens, rows = len(getattr(processor, "tokenizer", processor)), len(model.get_input_embeddings().weight)
    if tokens > rows:
        if not can_grow:
            raise ValueError(
                f"the tokenizer has {tokens:,} tokens, but the model {rows:,}, and an adapter cannot contain new "
                "embeddings: give the model's tokenizer, or train without --lora_r"
            )
        model.resize_token_embeddings(tokens)
    positions = source_positions(model)
    if positions is not None and positions < lengths.source and can_grow and resize is not False:
        with suppress(NotImplementedError):
            model.resize_position_embeddings(lengths.source)
            logger.warning(f"positions were enlarged from {positions} to {lengths.source} tokens")
    longest = max(lengths.target, lengths.evaluation_target)
    enlarging = f", or {'omit' if resize is False else 'choose a model that allows'} --resize_position_embeddings"
    for flag, positions, length, hint in (
        ("max_source_length", source_positions(model), lengths.source, enlarging),
        ("max_target_length", target_positions(model), longest, ""),
    ):
        if positions is not None and positions < length:
            raise ValueError(
                f"--{flag} {length}: {model.config.model_type} has positions for {positions} tokens; lower it{hint}"
            )


def add_lora(model: PreTrainedModel, lora: LoraArguments) -> Any:
    """The model with new LoRA matrices; only these are trained, and their initial values leave its output unchanged."""
    peft = import_peft(f"--lora_r {lora.lora_r}")
    assert lora.lora_r is not None
    config = peft.LoraConfig(
        task_type="SEQ_2_SEQ_LM",
        r=lora.lora_r,
        lora_alpha=2 * lora.lora_r if lora.lora_alpha is None else lora.lora_alpha,
        lora_dropout=lora.lora_dropout or 0.0,
        target_modules=lora.lora_target_modules,
    )
    return peft.get_peft_model(model, config)
