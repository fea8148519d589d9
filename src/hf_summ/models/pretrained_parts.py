"""Reading the pre-trained models on which a new model is built."""

from typing import TYPE_CHECKING

from transformers import MODEL_FOR_MASKED_LM_MAPPING, AutoConfig, PreTrainedConfig

if TYPE_CHECKING:
    # which imports torch, as configurations need not
    from transformers import PreTrainedModel

# number of BERT's last hidden states that are concatenated, as Devlin et al. (2019) recommend
HIDDEN_STATES = 4


def read_config(key: str, name: str, **hub_settings) -> PreTrainedConfig:
    """Read the configuration of the checkpoint `name`, the value of the config's `key`.

    Raises:
        ValueError: it cannot be read.
    """
    try:
        # whether remote code may run is the user's decision, never that of a name in a configuration
        config = AutoConfig.from_pretrained(name, trust_remote_code=False, **hub_settings)
    except (OSError, ValueError) as error:
        raise _unreadable(key, name, error) from error
    # the precision is that of the model it becomes part of
    config.dtype = None
    return config


def check_encoder(key: str, name: str, config: PreTrainedConfig) -> None:
    """Raise a ValueError if the checkpoint `name`, the value of `key`, is no encoder that reads in both directions."""
    # all of these, and BART, have a masked language model
    is_masked = type(config) in MODEL_FOR_MASKED_LM_MAPPING
    if config.is_encoder_decoder or getattr(config, "is_decoder", False) or not is_masked:
        raise ValueError(
            f"`{key}` is {name!r}, a {config.model_type}, but must be an encoder that reads in both directions, such "
            "as a BERT"
        )


def read_model(
    auto_class, key: str, name: str, config: PreTrainedConfig, unused: tuple[str, ...] = (), **hub_settings
) -> "PreTrainedModel":
    """Load the checkpoint `name`, the value of the config's `key`, with all its weights.

    Args:
        auto_class: transformers' Auto class for this kind of model.
        config: the model's configuration.
        unused: prefixes of the names of weights that may be missing.

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
            f"`{key}` is {name!r}, which has no weights for {missing[0]} ({len(missing)} are missing): use a "
            "checkpoint that was trained for this, as they would be random"
        )
    return model


def longest_input(model: "PreTrainedModel") -> int | None:
    """The number of tokens that BERT or a language model has positions for; None if there is no limit."""
    positions = getattr(model.config, "max_position_embeddings", None)
    if positions is None or positions < 1:
        return None
    embeddings = getattr(getattr(model.base_model, "embeddings", None), "position_embeddings", None)
    padding = getattr(embeddings, "padding_idx", None)
    # RoBERTa's positions start after its padding index
    return positions if padding is None else positions - padding - 1


def _unreadable(key: str, name: str, error: Exception) -> ValueError:
    reason = str(error).strip().partition("\n")[0]
    return ValueError(
        f"`{key}` is {name!r}, which cannot be read ({reason}): if the Hub is out of reach, give the folder of a "
        "downloaded checkpoint"
    )
