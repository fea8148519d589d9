"""Loading the pre-trained models that a new model contains."""

from typing import TYPE_CHECKING

from transformers import MODEL_FOR_MASKED_LM_MAPPING, AutoConfig, PreTrainedConfig

if TYPE_CHECKING:
    # not imported at run time, as configurations do not need torch
    import torch
    from transformers import PreTrainedModel


def read_config(key: str, name: str, **hub_settings) -> PreTrainedConfig:
    """Read the configuration of the checkpoint `name`, the value of the config's `key`; if unreadable, a ValueError."""
    try:
        # only the user may allow remote code, never a name in a configuration
        config = AutoConfig.from_pretrained(name, trust_remote_code=False, **hub_settings)
    except (OSError, ValueError) as error:
        raise _unreadable(key, name, error) from error
    # the precision and the name are those of the containing model, and the name may be a local path
    config.dtype, config.name_or_path = None, ""
    return config


def check_encoder(key: str, name: str, config: PreTrainedConfig) -> None:
    """Raise a ValueError unless the checkpoint `name`, the value of `key`, is a bidirectional encoder."""
    # transformers maps all of these, and BART, to masked language models
    is_masked = type(config) in MODEL_FOR_MASKED_LM_MAPPING
    if config.is_encoder_decoder or getattr(config, "is_decoder", False) or not is_masked:
        raise ValueError(f"`{key}` is {name!r:.80}, a {config.model_type}, but must be an encoder such as BERT")


def read_model(
    auto_class, key: str, name: str, config: PreTrainedConfig, unused: tuple[str, ...] = (), **hub_settings
) -> "PreTrainedModel":
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
        raise ValueError(f"`{key}` is {name!r:.80}, which has no weights for {missing[0]} ({len(missing)} are missing)")
    return model


def longest_input(model: "PreTrainedModel") -> int | None:
    """The number of usable positions of BERT or a language model; None if there is no limit."""
    positions = getattr(model.config, "max_position_embeddings", None)
    if positions is None or positions < 1:
        return None
    embeddings = getattr(getattr(model.base_model, "embeddings", None), "position_embeddings", None)
    padding = getattr(embeddings, "padding_idx", None)
    # RoBERTa's positions start after its padding index
    return positions if padding is None else positions - padding - 1


def own_positions(bert: "PreTrainedModel", input_ids: "torch.Tensor") -> dict[str, "torch.Tensor"]:
    """`position_ids` (1, S) for ids (B, S) and a BERT that keeps them in a buffer; empty for any other.

    PyTorch's `AveragedModel(use_buffers=True)` rounds averaged integers down, and so changes the buffer.
    """
    import torch

    embeddings = getattr(bert.base_model, "embeddings", None)
    table = getattr(embeddings, "position_embeddings", None)
    # RoBERTa counts positions from the ids, and other models have no learned ones
    if table is None or table.padding_idx is not None or not hasattr(embeddings, "position_ids"):
        return {}
    first = table.num_embeddings - bert.config.max_position_embeddings
    return {"position_ids": torch.arange(first, first + input_ids.shape[1], device=input_ids.device)[None]}


def _unreadable(key: str, name: str, error: Exception) -> ValueError:
    reason = str(error).strip().partition("\n")[0]
    return ValueError(f"`{key}` is {name!r:.255}, which cannot be read ({reason}): give the folder of a checkpoint")
