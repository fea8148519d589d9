"""The model with which a run begins: a model with new weights, or the model of a checkpoint."""

import textwrap

from safetensors import SafetensorError
from transformers import AutoModelForSeq2SeqLM, PreTrainedConfig, PreTrainedModel

from hf_summ.checkpoints.loading import (
    ModelArguments,
    Processor,
    check_generation_config,
    hub_settings,
    reading_weights,
)
from hf_summ.checkpoints.pretrained_parts import load_pretrained_parts, read_pretrained_parts
from hf_summ.common.messages import one_line
from hf_summ.models.processing_base import align_config
from hf_summ.models.quantization_int8 import INT8

# arguments of `from_pretrained` for files on the Hub
HubArguments = dict[str, str | None]


def build_base_model(config: PreTrainedConfig, processor: Processor, base: ModelArguments) -> PreTrainedModel:
    """The model with which a run begins, before an adapter is added.

    Args:
        config: the model's config, which may be changed.
        processor: the processor or tokenizer, to whose vocabulary a new model is fitted.
        base: the arguments that name the checkpoint; without a checkpoint, the model is new.

    Raises:
        ValueError: the model cannot be created, or the checkpoint cannot be read or does not fit the config.
    """
    is_new = base.model_name_or_path is None
    # The config can name further checkpoints. The revision of the model, and the permission to run its code, do not
    # apply to them.
    hub: HubArguments = {"cache_dir": base.cache_dir, "token": base.token}
    read_pretrained_parts(config, is_new, **hub)
    if is_new:
        model = _new_model(config, processor, base, hub)
    else:
        model = _load_model(config, base, hub)
    if base.attn_implementation is not None:
        # this also sets it in each model that the model contains
        model.set_attn_implementation(base.attn_implementation)
    return model


def _new_model(
    config: PreTrainedConfig, processor: Processor, base: ModelArguments, hub: HubArguments
) -> PreTrainedModel:
    """A model with new weights, but for its pre-trained parts, such as a BERT, whose weights are read.

    Args:
        config: the model's config, which is changed to fit the processor's vocabulary and special tokens.
        processor: a processor of ours, which has `align`, or a tokenizer or processor of transformers.
        base: how the model is created.
        hub: how checkpoints of the pre-trained parts are downloaded.

    Raises:
        ValueError: no model of the config's sizes can be created.
    """
    if hasattr(processor, "align"):
        processor.align(config)
    else:
        tokenizer = getattr(processor, "tokenizer", processor)
        align_config(config, tokenizer)
        if getattr(config, "forced_eos_token_id", None) is not None:
            config.forced_eos_token_id = tokenizer.eos_token_id
    try:
        model = AutoModelForSeq2SeqLM.from_config(config, trust_remote_code=base.trust_remote_code)
    except (RuntimeError, ZeroDivisionError, MemoryError, OverflowError) as error:
        # the configuration does not check every size, and memory may be too small
        reason = textwrap.shorten(one_line(error), 200, placeholder=" ...")
        raise ValueError(
            f"no {config.model_type} of these sizes can be created ({reason}): correct them with --config_overrides"
        ) from error
    load_pretrained_parts(model, **hub)
    return model


def _load_model(config: PreTrainedConfig, base: ModelArguments, hub: HubArguments) -> PreTrainedModel:
    """The model of a checkpoint.

    Args:
        config: the config of the model, with the overrides.
        base: the arguments that name the checkpoint.
        hub: how checkpoints of the model's parts are downloaded.

    Raises:
        ValueError: the checkpoint cannot be read, or its weights do not fit its configuration and the overrides.
    """
    flag = f"--model_name_or_path {base.model_name_or_path}"
    check_generation_config(base)
    try:
        # mismatched sizes are reported below, because transformers' error does not name the weights
        with reading_weights(flag):
            model, loading_info = AutoModelForSeq2SeqLM.from_pretrained(
                base.model_name_or_path,
                config=config,
                ignore_mismatched_sizes=True,
                output_loading_info=True,
                **hub_settings(base),
            )
    except SafetensorError as error:
        # this error names no file
        raise ValueError(f"{flag}: {error}") from error
    missing = load_pretrained_parts(model, loading_info["missing_keys"], **hub)
    if getattr(model, "quantization_method", None) == INT8:
        model = model.dequantize()
    if loading_info["mismatched_keys"]:
        name, saved_shape, configured_shape = min(loading_info["mismatched_keys"])
        raise ValueError(
            f"{flag}: {name} has shape {list(saved_shape)} in the saved weights, but "
            f"{list(configured_shape)} by the configuration: give the configuration with which the model was trained"
        )
    if missing and base.config_overrides:
        raise ValueError(
            f"{flag}: it has no weights for {min(missing)} ({len(missing)} are missing), which these "
            "--config_overrides need; give the overrides of its training"
        )
    return model
