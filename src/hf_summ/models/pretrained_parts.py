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
    except (OSError, ValueError, RuntimeError) as error:
        raise _unreadable(key, name, error) from error
    missing = sorted(weight for weight in loaded["missing_keys"] if not weight.startswith(unused))
    if missing:
        raise ValueError(
            f"`{key}` is {name!r}, which has no weights for {missing[0]} ({len(missing)} are missing): they would be "
            "random; take a checkpoint that was trained for this"
        )
    return model


def longest_input(model: PreTrainedModel) -> int | None:
    """How many tokens a BERT or a language model has positions for; None when its positions have no end."""
    positions = getattr(model.config, "max_position_embeddings", None)
    if positions is None or positions < 1:
        return None
    embeddings = getattr(getattr(model.base_model, "embeddings", None), "position_embeddings", None)
    padding = getattr(embeddings, "padding_idx", None)
    # RoBERTa counts positions from behind the one of padding
    return positions if padding is None else positions - padding - 1


def _unreadable(key: str, name: str, error: Exception) -> ValueError:
    reason = str(error).strip().partition("\n")[0]
    return ValueError(
        f"`{key}` is {name!r}, which cannot be read ({reason}): where the Hub is out of reach, give the folder of a "
        "downloaded checkpoint"
    )
