"""Processor, configuration, model and generation settings of a run."""

import copy
import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from transformers import GenerationConfig, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from hf_summ.checkpoints.adapters import Adapter, find_adapter, import_peft, is_adapted, record_base
from hf_summ.checkpoints.loading import ModelArguments, Processor, load_config, load_processor
from hf_summ.checkpoints.overrides import override_item
from hf_summ.common.messages import nearest
from hf_summ.models.text_processing_base import CASED
from hf_summ.models.text_processing_gdlf import load_tagger
from hf_summ.pretrained import model_folder
from hf_summ.runtimes.any_model import prefix_of, source_positions, target_positions, task_parameters
from hf_summ.runtimes.folders import naming_base
from hf_summ.runtimes.settings import SETTINGS
from hf_summ.training.arguments import DataArguments, GenerationArguments, LoraArguments
from hf_summ.training.base_model import build_base_model

logger = logging.getLogger(__name__)

# the lengths for a tokenizer without a processor, which has none
_DEFAULT_SOURCE_LENGTH = 1024
_DEFAULT_TARGET_LENGTH = 128
# keys of generation settings without effect in greedy decoding, with which transformers would refuse to save them
_BEAM_KEYS = [name for name, setting in SETTINGS.items() if setting.needs_beams]
# keys without effect unless `do_sample` is set
_SAMPLING_KEYS = ("temperature", "top_k", "top_p", "min_p", "top_h", "typical_p", "epsilon_cutoff", "eta_cutoff")


@dataclass(frozen=True)
class Lengths:
    """The numbers of tokens to which texts are truncated.

    Args:
        source: the number for documents.
        target: the number for summaries of the training split.
        evaluation_target: the number for summaries of the other splits, and for generated summaries.
    """

    source: int
    target: int
    evaluation_target: int


class RunModel(NamedTuple):
    """The model of a run, its processor, and the lengths of its texts."""

    model: PreTrainedModel
    processor: Processor
    lengths: Lengths


def build(
    model_arguments: ModelArguments,
    lora: LoraArguments,
    data: DataArguments,
    generation: GenerationArguments,
    is_trainable: bool,
    decoding: GenerationConfig | None = None,
) -> RunModel:
    """Build the run's model and processor, and choose the lengths of its texts.

    Args:
        model_arguments: the arguments that name the model at the start of the run: new, a checkpoint, or an adapter.
        lora: the matrices to add to a checkpoint, if any.
        data: the lengths and the languages of texts, and the prefix of documents.
        generation: the settings of decoding that the run gives.
        is_trainable: whether the run trains. The matrices of an adapter at the start can be trained only then.
        decoding: the settings of decoding to begin with; by default, those that were saved with the model.

    Raises:
        ValueError: an argument is invalid, or does not suit the others; the message says what to do.
    """
    model_arguments = _with_folders(model_arguments)
    adapter = find_adapter(model_arguments)
    _check_lora(lora, model_arguments, adapter)
    # the arguments that name the model without its adapter
    base = model_arguments if adapter is None else adapter.base
    with naming_base(model_arguments.model_name_or_path):
        config = load_config(base)
    if is_trainable and (adapter is not None or lora.lora_r is not None):
        _check_adapted_config(config, base)
    if adapter is None:
        processor = load_processor(model_arguments, config)
    else:
        processor = adapter.load_processor(config)
    _configure_processor(data, processor, config)
    model = build_base_model(config, processor, base)
    if adapter is not None:
        adapter.add_tokens(model, processor)

    lengths = choose_lengths(data, processor, model)
    # an adapter contains neither new embeddings nor new positions
    can_grow = adapter is None and lora.lora_r is None
    _fit_vocabulary(model, processor, can_grow)
    _fit_positions(model, lengths, base.resize_position_embeddings, can_grow)

    if adapter is not None:
        adapter.restore_settings(model.config)
    if decoding is None:
        decoding = _saved_generation_config(model, adapter)
    model.generation_config = decoding
    _set_languages(data, getattr(processor, "tokenizer", processor), model)
    _align_start_token(model, base)
    # a limit in a new model's settings is replaced in any case, but a checkpoint's only by --val_max_target_length
    replaces_limit = base.model_name_or_path is None or data.val_max_target_length is not None
    model.generation_config = generation_config(model, generation, lengths, replaces_limit)
    _store_prefix(model.config, data.source_prefix)
    if hasattr(model, "check_generation_keys"):
        # otherwise, an error would appear at the first summary
        model.check_generation_keys(model.generation_config)

    if adapter is not None:
        model = adapter.load(model, is_trainable)
    elif lora.lora_r is not None:
        model = add_lora(model, lora)
    if is_adapted(model):
        record_base(model)
    return RunModel(model, processor, lengths)


def trained_model(model_arguments: ModelArguments, folder: str) -> ModelArguments:
    """The arguments that name the trained model in an output folder.

    Args:
        model_arguments: the arguments that name the model at the start of the run.
        folder: the output folder, whose training is complete.
    """
    return replace(
        model_arguments,
        model_name_or_path=folder,
        config_name=None,
        tokenizer_name=None,
        config_overrides={},
        model_revision="main",
    )


def _with_folders(model_arguments: ModelArguments) -> ModelArguments:
    """The arguments with folders in place of the names of bundled models."""
    folders = {}
    for flag in ("model_name_or_path", "config_name", "tokenizer_name"):
        name = getattr(model_arguments, flag)
        if name is not None:
            folders[flag] = model_folder(name)
    return replace(model_arguments, **folders)


def _check_lora(lora: LoraArguments, model_arguments: ModelArguments, adapter: Adapter | None) -> None:
    """Raise a ValueError for `--lora_r` unless the run starts from a whole checkpoint."""
    if lora.lora_r is None:
        return
    if adapter is not None:
        raise ValueError(
            f"--lora_r {lora.lora_r}: {adapter.name} is an adapter already: omit the flag to continue its training, or "
            f"name its base model {adapter.base.model_name_or_path} for a new one"
        )
    if model_arguments.model_name_or_path is None:
        raise ValueError(
            f"--lora_r {lora.lora_r}: a new model has nothing to adapt: give a checkpoint as --model_name_or_path"
        )


def _check_adapted_config(config: PreTrainedConfig, base: ModelArguments) -> None:
    """Raise a ValueError if flags change the configuration of a checkpoint that is adapted.

    An adapter is saved without its base's configuration, so the adapted model would later be loaded without the change.

    Args:
        config: the run's configuration.
        base: the arguments that name the checkpoint.
    """
    saved_config = load_config(replace(base, config_name=None, config_overrides={}))
    if config.to_dict() == saved_config.to_dict():
        return
    flag = f"--config_name {base.config_name}"
    if base.config_overrides:
        items = [override_item(name, value) for name, value in base.config_overrides.items()]
        flag = f"--config_overrides {' '.join(items)}"
    raise ValueError(
        f"{flag}: an adapter is saved without a configuration, so the change would be lost: omit the flag, or change "
        f"config.json of {base.model_name_or_path}"
    )


def _configure_processor(data: DataArguments, processor: Processor, config: PreTrainedConfig) -> None:
    """Store the run's settings in the processor, and load its tagger."""
    # a processor without a tagger gets the tags from the rows
    if getattr(processor, "tags", "none") != "none" and processor.tagger is not None:
        # otherwise, an error would appear at the first document, or in another process
        load_tagger(processor.tagger, processor.tags)
    if data.restore_case is not None:
        configure_case(data.restore_case, processor, config)
    store_lengths(data, processor)


def _store_prefix(config: PreTrainedConfig, prefix: str) -> None:
    """Store the prefix of documents in the config, for the pipeline and the next training run."""
    saved_prefix = prefix_of(config)
    if saved_prefix not in ("", prefix):
        change = f"{prefix!r:.80} replaces" if prefix else "not given, which removes"
        logger.warning(f"--source_prefix: {change} {saved_prefix!r:.80}, the checkpoint's prefix of each document")
    if prefix or saved_prefix:
        config.prefix = prefix
    tasks = getattr(config, "task_specific_params", None) or {}
    if "summarization" in tasks:
        # the generation config has the settings of decoding, see `_saved_generation_config`
        config.task_specific_params = {**tasks, "summarization": {"prefix": prefix}}


def _saved_generation_config(model: PreTrainedModel, adapter: Adapter | None) -> GenerationConfig:
    """The generation settings with which the run begins.

    They are the settings that were saved with the adapter, if there are any, and otherwise the settings of the model.
    As in the pipeline, settings in the model's `task_specific_params` then take precedence.

    Args:
        model: the model, without the adapter.
        adapter: the adapter, or None.
    """
    if adapter is not None:
        saved_config = adapter.generation_config()
        if saved_config is not None:
            return saved_config
    config = copy.deepcopy(model.generation_config)
    parameters = task_parameters(model.config)
    if parameters.get("max_length") is not None:
        # `max_length` has no effect beside `max_new_tokens`
        config.max_new_tokens = None
    for name, value in parameters.items():
        if name in vars(config):
            setattr(config, name, value)
    return config


def generation_config(
    model: PreTrainedModel, arguments: GenerationArguments, lengths: Lengths, replaces_limit: bool
) -> GenerationConfig:
    """The generation settings of a run: the model's own settings, and those that the run gives in their place.

    Args:
        model: the model.
        arguments: the settings of the run. If `max_new_tokens` is among them, it limits the summaries.
        lengths: the lengths of texts. Without `max_new_tokens`, `evaluation_target` may limit the summaries.
        replaces_limit: whether `evaluation_target` replaces the limit in the model's settings. If these have no limit,
            `evaluation_target` is the limit in any case.

    Raises:
        ValueError: the model does not support a setting, or a value is invalid.
    """
    settings = arguments.given()
    config = copy.deepcopy(model.generation_config)
    for name in settings:
        if not hasattr(config, name) and name not in getattr(model, "generation_keys", ()):
            raise ValueError(
                f"--{name} {settings[name]}: generate() of {model.config.model_type} does not support it: give "
                "--no_repeat_ngram_size, --min_new_tokens or --length_penalty, which count tokens and suit every model"
            )
    if chooses_sentences(model) and "whole_sentences" not in settings:
        logger.warning(
            "the checkpoint's summaries are whole sentences of the documents, and so are those of this run; "
            "give --no-whole_sentences for a search for summaries"
        )
    has_limit = config.max_length is not None or config.max_new_tokens is not None
    if replaces_limit or not has_limit:
        settings.setdefault("max_new_tokens", lengths.evaluation_target)
    # otherwise, transformers would rebuild the settings from the model's config on loading, and drop unknown keys
    config._from_model_config = False
    for name, value in settings.items():
        setattr(config, name, value)
    if "max_new_tokens" in settings:
        config.max_length = None
    if not config.num_beams or config.num_beams == 1:
        # the number is set explicitly, because the pipeline uses several beams if a checkpoint does not set it
        config.num_beams = 1
        for name in _BEAM_KEYS:
            if name in settings:
                logger.info(f"--{name} {settings[name]}: ignored without --num_beams of at least 2")
            if hasattr(config, name):
                setattr(config, name, None)
    if not config.do_sample:
        # older checkpoints set these keys without effect, but transformers refuses to save such settings
        for name in _SAMPLING_KEYS:
            if name in vars(config):
                setattr(config, name, None)
    config.validate(strict=True)
    return config


def chooses_sentences(model: PreTrainedModel) -> bool:
    """Whether the model's generation settings have `whole_sentences`: its summaries are sentences of the documents."""
    return bool(getattr(model.generation_config, "whole_sentences", False))


def store_lengths(data: DataArguments, processor: Processor) -> None:
    """Store the given lengths in a processor that has lengths, so that it truncates texts alike after training."""
    for name in ("max_source_length", "max_target_length"):
        length = getattr(data, name)
        if length and hasattr(processor, name):
            setattr(processor, name, length)


def choose_lengths(data: DataArguments, processor: Processor, model: PreTrainedModel) -> Lengths:
    """The lengths that the run gives. The processor's lengths take the place of those that the run does not give.

    The evaluation target is the training target unless the run gives it.
    A tokenizer without a processor has no lengths. The run then has default lengths, which are at most the number of
    the model's positions.
    """
    default_source = min(_DEFAULT_SOURCE_LENGTH, source_positions(model) or _DEFAULT_SOURCE_LENGTH)
    default_target = min(_DEFAULT_TARGET_LENGTH, target_positions(model) or _DEFAULT_TARGET_LENGTH)
    source = data.max_source_length or getattr(processor, "max_source_length", default_source)
    target = data.max_target_length or getattr(processor, "max_target_length", default_target)
    return Lengths(source, target, data.val_max_target_length or target)


def configure_case(restores: bool, processor: Processor, config: PreTrainedConfig) -> None:
    """Check `--restore_case`, and store it in the processor, which later decodes summaries accordingly.

    Args:
        restores: the value of the flag: whether the processor restores the case of summaries.
        processor: the processor, whose `restore_case` is set.
        config: the model's config, for the message of an error.

    Raises:
        ValueError: the processor cannot restore case, or its vocabulary is not in lower case.
    """
    if not hasattr(processor, "restore_case"):
        raise ValueError(f"--restore_case {restores}: {config.model_type} has no processor of this package: omit it")
    if restores and not processor.is_uncased:
        raise ValueError(f"--restore_case {restores}: {CASED}")
    processor.restore_case = restores


def _set_languages(data: DataArguments, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> None:
    """Set the languages of documents and summaries, whose tokens begin or end the texts of a multilingual model.

    Raises:
        ValueError: a language is given that the tokenizer does not have.
    """
    if not hasattr(tokenizer, "set_tgt_lang_special_tokens"):
        for name in ("lang", "target_lang"):
            code = getattr(data, name)
            if code is not None:
                raise ValueError(f"--{name} {code}: the tokenizer of {model.config.model_type} has no languages")
        return
    source = data.lang or tokenizer.src_lang
    target = data.target_lang or data.lang or tokenizer.tgt_lang or source
    if data.lang is None:
        logger.warning(f"documents are read as {source}, and summaries as {target}: see --lang and --target_lang")
    _check_language("lang", source, tokenizer)
    _check_language("target_lang", target, tokenizer)
    target_id = _id_of_language(target, tokenizer)
    tokenizer.src_lang = source
    tokenizer.tgt_lang = target
    label_ids = tokenizer(text_target="a")["input_ids"]
    if label_ids[-1] == target_id:
        # mBART ends labels with the language's token, and decoding starts with it
        model.config.decoder_start_token_id = target_id
        model.generation_config.decoder_start_token_id = target_id
    else:
        # other tokenizers begin labels with the language's token, so decoding forces it as the first one
        model.generation_config.forced_bos_token_id = target_id


def _check_language(name: str, code: str, tokenizer: PreTrainedTokenizerBase) -> None:
    """Raise a ValueError if the tokenizer has no token for a language.

    Args:
        name: the flag that gives the language, for the message.
        code: the code of the language.
    """
    if _id_of_language(code, tokenizer) is None:
        codes = [token.strip("_") for token in tokenizer.all_special_tokens]
        raise ValueError(f"--{name} {code}: the tokenizer has no such language{nearest(code, codes)}")


def _id_of_language(code: str, tokenizer: PreTrainedTokenizerBase) -> int | None:
    """The id of the token of the language with this code, or None if the tokenizer has no such token."""
    # the tokens of M2M100 and PLBart have further underscores
    for token in (code, f"__{code}__"):
        token_id = tokenizer.convert_tokens_to_ids(token)
        if token_id not in (None, tokenizer.unk_token_id):
            return token_id
    return None


def _align_start_token(model: PreTrainedModel, model_arguments: ModelArguments) -> None:
    """Make decoding begin summaries with the token with which training begins the decoder's inputs.

    Args:
        model: the model, whose generation config is changed.
        model_arguments: the arguments that name the model, for the message of an error.

    Raises:
        ValueError: there is no such token, which would otherwise be noticed at the first batch.
    """
    decoding = model.generation_config
    training_start = getattr(model.config, "decoder_start_token_id", None)
    decoding_start = decoding.decoder_start_token_id
    if training_start is None and decoding_start is None:
        # generate() begins with `bos_token_id` instead, but two nested models shift labels by `decoder_start_token_id`
        can_begin = decoding.bos_token_id is not None and model.config.model_type != "encoder-decoder"
        if not can_begin:
            name = model_arguments.model_name_or_path or model_arguments.config_name or model_arguments.model_type
            raise ValueError(
                f"{name}: no `decoder_start_token_id`, the token with which summaries begin: give "
                "--config_overrides decoder_start_token_id=ID"
            )
    if training_start is not None and decoding_start != training_start:
        if decoding_start is not None:
            logger.warning(
                f"summaries begin with the token {training_start} of config.json in training, and so in decoding, in "
                f"place of {decoding_start} in generation_config.json"
            )
        decoding.decoder_start_token_id = training_start


def _fit_vocabulary(model: PreTrainedModel, processor: Processor, can_grow: bool) -> None:
    """Enlarge the embeddings to the tokenizer's vocabulary.

    Args:
        can_grow: whether the run may add weights to the model.

    Raises:
        ValueError: the vocabulary is larger than the embeddings, which may not grow.
    """
    tokens = len(getattr(processor, "tokenizer", processor))
    rows = len(model.get_input_embeddings().weight)
    if tokens <= rows:
        return
    if not can_grow:
        raise ValueError(
            f"the tokenizer has {tokens:,} tokens, but the model has {rows:,}, and an adapter cannot contain "
            "new embeddings: give the model's tokenizer, or train without --lora_r"
        )
    model.resize_token_embeddings(tokens)


def _fit_positions(model: PreTrainedModel, lengths: Lengths, resize: bool | None, can_grow: bool) -> None:
    """Enlarge learned positions to the length of documents, and check that all texts have positions.

    Args:
        resize: the flag `resize_position_embeddings`; None allows it, with a warning.
        can_grow: whether the run may add weights to the model.

    Raises:
        ValueError: texts may have more tokens than the model has positions.
    """
    positions = source_positions(model)
    if positions is not None and positions < lengths.source and can_grow and resize is not False:
        with suppress(NotImplementedError):
            model.resize_position_embeddings(lengths.source)
            logger.warning(f"positions were enlarged from {positions} to {lengths.source} tokens")
    model_type = model.config.model_type
    positions = source_positions(model)
    if positions is not None and positions < lengths.source:
        remedy = "omit" if resize is False else "choose a model that allows"
        raise ValueError(
            f"--max_source_length {lengths.source}: {model_type} has positions for {positions} tokens; lower it, or "
            f"{remedy} --resize_position_embeddings"
        )
    positions = target_positions(model)
    longest_target = max(lengths.target, lengths.evaluation_target)
    if positions is not None and positions < longest_target:
        raise ValueError(
            f"--max_target_length {longest_target}: {model_type} has positions for {positions} tokens; lower it"
        )


def add_lora(model: PreTrainedModel, lora: LoraArguments) -> Any:
    """The model with new LoRA matrices, as a model of PEFT.

    Only the matrices are trained, and their initial values leave the model's output unchanged.
    """
    peft = import_peft(f"--lora_r {lora.lora_r}")
    assert lora.lora_r is not None
    alpha = lora.lora_alpha
    if alpha is None:
        alpha = 2 * lora.lora_r
    config = peft.LoraConfig(
        task_type="SEQ_2_SEQ_LM",
        r=lora.lora_r,
        lora_alpha=alpha,
        lora_dropout=lora.lora_dropout or 0.0,
        target_modules=lora.lora_target_modules,
    )
    return peft.get_peft_model(model, config)
