"""Reading the pre-trained models that a fresh model is built on."""

from transformers import AutoConfig, PreTrainedConfig, PreTrainedModel


def read_config(key: str, name: str, **hub_settings) -> PreTrainedConfig:
    """The configuration of the checkpoint `name`, which the config names as `key`.

    Raises:
        ValueError: it cannot be read.
    """
    try:
        # whose code may run is the user's decision, never that of a name in a configuration
        config = AutoConfig.from_pretrained(name, trust_remote_code=False, **hub_settings)
    except (OSError, ValueError) as error:
        raise _unreadable(key, name, error) from error
    # as precise as the model that it becomes part of
    config.dtype = None
    return config


def read_model(
    auto_class, key: str, name: str, config: PreTrainedConfig, unused: tuple[str, ...] = (), **hub_settings
) -> PreTrainedModel:
    """The checkpoint `name`, which the config names as `key`, with all its weights.

    Args:
        auto_class: transformers' Auto class of the kind of model.
        config: its configuration.
        unused: beginnings of the names of weights that may be missing.

    Raises:
        ValueError: it cannot be read, or lacks weights.
    """
    try:
        model, loaded = auto_class.from_pretrained(
            name, config=config, output_loading_info=True, trust_remote_code=False, **hub_settings
        )
    except (OSError, ValueError) as error:
        raise _unreadable(key, name, error) from error
    missing = sorted(weight for weight in loaded["missing_keys"] if not weight.startswith(unused))
    if missing:
        raise ValueError(
            f"`{key}` is {name!r}, which has no weights for {missing[0]} ({len(missing)} are missing): they would be "
            "random; take a checkpoint that was trained for this"
        )
    return model


def _unreadable(key: str, name: str, error: Exception) -> ValueError:
    reason = str(error).strip().partition("\n")[0]
    return ValueError(
        f"`{key}` is {name!r}, which cannot be read ({reason}): where the Hub is out of reach, give the folder of a "
        "downloaded checkpoint"
    )
