"""The checkpoints from which new models take parts: a BERT, a masked language model, or a BART for all weights."""

import logging
from collections.abc import Collection
from typing import Any

import torch
from torch import nn
from transformers import AutoModel, AutoModelForMaskedLM, AutoModelForSeq2SeqLM, PreTrainedConfig, PreTrainedModel

from hf_summ.common.pretrained import check_encoder, read_config, read_model
from hf_summ.models.checks import PADDING_ROWS
from hf_summ.models.layers_copy_transformer import word_embeddings_name

logger = logging.getLogger(__name__)

# prefixes of the names of BERT's weights in a CopyTransformer
_OF_BERT = ("model.encoder.bert.", "model.decoder.embed_tokens.words.", "model.decoder.input_layer.embeddings.")
# ordered, as some names contain others
_NAMES_OF_BART = (
    ("embed_positions.weight", "input_layer.positions.table.weight"),
    ("layernorm_embedding", "input_layer.norm"),
    ("self_attn_layer_norm", "self_attention_norm"),
    ("encoder_attn_layer_norm", "cross_attention_norm"),
    ("final_layer_norm", "feed_forward_norm"),
    ("self_attn", "self_attention"),
    ("encoder_attn", "cross_attention"),
    ("fc1", "feed_forward.inner"),
    ("fc2", "feed_forward.outer"),
)


def pretrained_names(config: PreTrainedConfig) -> list[str]:
    """Names of the checkpoints that parts of a model come from."""
    names: list[str | None] = []
    if config.model_type == "copy_transformer":
        names = [config.bert_name if config.uses_bert else None, config.masked_lm_name]
    elif config.model_type == "sagcopy":
        names = [config.start_name]
    return [name for name in names if name is not None]


def read_pretrained_parts(config: Any, is_fresh: bool = True, **hub_settings: Any) -> None:
    """Read what a configuration needs of the checkpoints that it names.

    A CopyTransformer's gets the configurations of `bert_name` and `masked_lm_name`, and a SAGCopy's the sizes of the
    BART named by `start_name`. Other configurations are left alone.

    Args:
        is_fresh: whether the model is new. A saved CopyTransformer gets only missing configurations; a saved SAGCopy
            no longer needs the BART.
        hub_settings: `cache_dir`, `token` and similar arguments of `AutoConfig.from_pretrained`.

    Raises:
        ValueError: a checkpoint cannot be reached, or does not fit the other settings.
    """
    if config.model_type == "copy_transformer":
        _read_bert_and_language_model(config, is_fresh, hub_settings)
    elif config.model_type == "sagcopy" and is_fresh and config.start_name is not None:
        _read_start(config, hub_settings)


def load_pretrained_parts(model: Any, missing: Collection[str] | None = None, **hub_settings: Any) -> set[str]:
    """Load the weights of a model's parts from the checkpoints that its configuration names.

    Args:
        missing: names of weights that a saved model lacks. If given, only parts that contain some of them are loaded;
            without it, the model is new.
        hub_settings: `cache_dir`, `token` and similar arguments of `from_pretrained`.

    Returns:
        The names in `missing` that are still missing.

    Raises:
        ValueError: a checkpoint cannot be read, lacks weights, or has another vocabulary.
    """
    config, remaining = model.config, set(missing or ())
    if config.model_type == "copy_transformer":
        if config.uses_bert and config.bert_name is not None and _are_loaded(remaining, missing, _OF_BERT):
            _load_bert(model.model, hub_settings)
        if config.masked_lm_name is not None and _are_loaded(remaining, missing, ("masked_lm.",)):
            name, nested = config.masked_lm_name, config.masked_lm_config
            masked_lm = read_model(AutoModelForMaskedLM, "masked_lm_name", name, nested, **hub_settings)
            model.masked_lm.load_state_dict(masked_lm.state_dict())
    elif config.model_type == "sagcopy" and config.start_name is not None and missing is None:
        _load_start(model, hub_settings)
    elif config.model_type == "pointer_generator":
        # the attention of `coverage` may be new (See et al. 2017, section 5)
        return {name for name in remaining if not name.endswith("coverage_projection.weight")}
    return remaining


def _are_loaded(remaining: set[str], missing: Collection[str] | None, prefixes: tuple[str, ...]) -> bool:
    """Whether a part with these prefixes is loaded; if so, its weights are no longer missing."""
    of_part = {name for name in remaining if name.startswith(prefixes)}
    remaining.difference_update(of_part)
    return missing is None or bool(of_part)


def _read_bert_and_language_model(config: Any, is_fresh: bool, hub_settings: dict[str, Any]) -> None:
    for name_key, config_key, is_used in (
        ("bert_name", "bert_config", config.uses_bert),
        ("masked_lm_name", "masked_lm_config", True),
    ):
        name = getattr(config, name_key)
        if name is None or not is_used or not (is_fresh or getattr(config, config_key) is None):
            continue
        nested = read_config(name_key, name, **hub_settings)
        check_encoder(name_key, name, nested)
        setattr(config, config_key, nested)
        if is_fresh:
            config.vocab_size = nested.vocab_size
    config.check()


def _load_bert(model: Any, hub_settings: dict[str, Any]) -> None:
    """Load BERT's weights into a CopyTransformer's encoder and decoder."""
    config = model.config
    bert = read_model(AutoModel, "bert_name", config.bert_name, config.bert_config, unused=("pooler",), **hub_settings)
    if model.encoder.has_bert:
        # BertWindows removed its pooler
        model.encoder.bert.bert.load_state_dict(bert.state_dict(), strict=False)
    if config.decoder_embedding != "trained":
        model.decoder.embed_tokens.words.load_state_dict(bert.get_input_embeddings().state_dict())
    if config.decoder_embedding == "bert_module":
        module = bert.get_submodule(word_embeddings_name(bert).rpartition(".")[0])
        model.decoder.input_layer.embeddings.load_state_dict(module.state_dict(), strict=False)


def _read_start(config: Any, hub_settings: dict[str, Any]) -> None:
    """Set a SAGCopy's sizes to those of the BART that it starts from."""
    start = read_config("start_name", config.start_name, **hub_settings)
    for key, value in _settings_of_bart(start, config.start_name).items():
        # a value equal to the default counts as unset; the tokenizer sets the vocabulary size
        is_set = key != "vocab_size" and getattr(config, key) != getattr(type(config)(), key)
        if is_set and getattr(config, key) != value:
            raise ValueError(
                f"`{key}` is {getattr(config, key)}, but {value} in `start_name` ({config.start_name!r}): omit it"
            )
        setattr(config, key, value)
    config.check()


def _settings_of_bart(start: PreTrainedConfig, name: str) -> dict[str, Any]:
    """The settings of a SAGCopy with a BART's network."""
    if start.model_type != "bart":
        raise ValueError(
            f"`start_name` is {name!r}, a {start.model_type}, but must be a BART: `hf-summ convert mass` makes one of "
            "a MASS"
        )
    for key in ("attention_heads", "ffn_dim"):
        encoder, decoder = getattr(start, f"encoder_{key}"), getattr(start, f"decoder_{key}")
        if encoder != decoder:
            raise ValueError(f"`start_name` is {name!r}, whose `{key}` differ: {encoder} and {decoder}")
    return {
        "vocab_size": start.vocab_size,
        "d_model": start.d_model,
        "encoder_layers": start.encoder_layers,
        "decoder_layers": start.decoder_layers,
        "num_heads": start.encoder_attention_heads,
        "ffn_dim": start.encoder_ffn_dim,
        "positions": "learned",
        "max_positions": start.max_position_embeddings,
        "embedding_norm": True,
        "scale_embedding": start.scale_embedding,
        "activation": start.activation_function,
        "output_bias": True,
        "norm": "post",
    }


def _load_start(model: Any, hub_settings: dict[str, Any]) -> None:
    """Load a BART's weights into a SAGCopy, and log the names of randomly initialized ones."""
    config, name = model.config, model.config.start_name
    start_config = read_config("start_name", name, **hub_settings)
    fits = 0 <= start_config.vocab_size - config.vocab_size <= PADDING_ROWS
    special = ("pad_token_id", "eos_token_id")
    if not fits or any(getattr(config, key) != getattr(start_config, key) for key in special):
        raise ValueError(
            f"`start_name` is {name!r}, which has {start_config.vocab_size} tokens, but the tokenizer has "
            f"{config.vocab_size}, or other special tokens: use the tokenizer that came with it"
        )
    start = read_model(AutoModelForSeq2SeqLM, "start_name", name, start_config, **hub_settings)
    fresh, unknown = model.load_state_dict(weights_of_bart(start, config.vocab_size), strict=False)
    if unknown:
        raise ValueError(f"`start_name` is {name!r}, but this model has no {unknown[0]} ({len(unknown)} in all)")
    if model.model.encoder.token_shift is not None:
        # like the weight of the centrality: the model begins as what it starts from
        nn.init.zeros_(model.model.encoder.token_shift.projection.weight)
    # tied weights are loaded under another name
    fresh = sorted(set(fresh) - set(model.all_tied_weights_keys))
    logger.info(f"started from {name}; randomly initialized weights: {', '.join(fresh) or 'none'}")


def weights_of_bart(bart: PreTrainedModel, vocab_size: int) -> dict[str, torch.Tensor]:
    """A BART's weights under SAGCopy's names, with the first `vocab_size` words only."""
    weights = {
        "model.shared.weight": bart.model.shared.weight[:vocab_size],
        "lm_head.weight": bart.model.shared.weight[:vocab_size],
        "lm_head.bias": bart.final_logits_bias[0, :vocab_size],
    }
    for side in ("encoder", "decoder"):
        for name, value in getattr(bart.model, side).state_dict().items():
            if name == "embed_tokens.weight":
                weights[f"model.{side}.{name}"] = value[:vocab_size]
                continue
            if name == "embed_positions.weight":
                # BART never reads its first two rows
                value = value[bart.model.encoder.embed_positions.offset :]
            for theirs, ours in _NAMES_OF_BART:
                name = name.replace(theirs, ours)
            weights[f"model.{side}.{name}"] = value
    return weights
