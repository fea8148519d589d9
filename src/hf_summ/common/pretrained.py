"""Reading of the pre-trained models that settings name, with errors that name the setting."""

from typing import Any

from transformers import MODEL_FOR_MASKED_LM_MAPPING, AutoConfig, PreTrainedConfig, PreTrainedModel


def read_config(key: str, name: str, **hub_settings) -> PreTrainedConfig:
    """Read the configuration of the checkpoint `name`, the value of the config's `key`; if unreadable, a ValueError."""
    try:
        # Only the user may allow remote code, never a name in a configuration.
        config = AutoConfig.from_pretrained(name, trust_remote_code=False, **hub_settings)
    except (OSError, ValueError) as error:
        raise _unreadable(key, name, error) from error
    # The precision and the name are those of the containing model, and the name may be a local path.
    config.dtype = None
    config.name_or_path = ""
    return config


def check_encoder(key: str, name: str, config: PreTrainedConfig) -> None:
    """Raise a ValueError unless the checkpoint `name`, the value of `key`, is a bidirectional encoder."""
    # transformers maps all bidirectional encoders to masked language models, and also BART, which has a decoder.
    is_masked = type(config) in MODEL_FOR_MASKED_LM_MAPPING
    has_decoder = config.is_encoder_decoder or getattr(config, "is_decoder", False)
    if has_decoder or not is_masked:
        raise ValueError(
            f"`{key}` is {name!r}, a model of type {config.model_type}, but must be an encoder such as BERT"
        )


def read_model(
    auto_class: Any, key: str, name: str, config: PreTrainedConfig, unused: tuple[str, ...] = (), **hub_settings
) -> PreTrainedModel:
    """Load the checkpoint `name`, the value of the config's `key`, with all its weights.

    Args:
        auto_class: transformers' Auto class for the model.
        unused: name prefixes of weights that may be missing.
    """
    try:
        model, loaded = auto_class.from_pretrained(
            name, config=config, output_loading_info=True, trust_remote_code=False, **hub_settings
        )
    except (OSError, ValueError, RuntimeError) as error:
        raise _unreadable(key, name, error) from error
    missing = sorted(weight for weight in loaded["missing_keys"] if not weight.startswith(unused))
    if missing:
        raise ValueError(f"`{key}` is {name!r}, which has no weights for {missing[0]} ({len(missing)} are missing)")
    return model


def _unreadable(key: str, name: str, error: Exception) -> ValueError:
    reason = str(error).strip().partition("\n")[0]
    return ValueError(f"`{key}` is {name!r:.255}, which cannot be read ({reason}): give the folder of a checkpoint")
