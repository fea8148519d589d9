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

# The names of BERT's weights in a CopyTransformer begin with these prefixes.
_BERT_PREFIXES = ("model.encoder.bert.", "model.decoder.embed_tokens.words.", "model.decoder.input_layer.embeddings.")
# Each pair is a part of a weight's name in BART, and its replacement in SAGCopy. They are applied in this order: the
# name of an attention is also a part of its normalization's name, which is therefore replaced before.
_SAGCOPY_NAMES = (
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
        if config.uses_bert:
            names.append(config.bert_name)
        names.append(config.masked_lm_name)
    elif config.model_type == "sagcopy":
        names.append(config.start_name)
    return [name for name in names if name is not None]


def read_pretrained_parts(config: PreTrainedConfig, is_fresh: bool = True, **hub_settings: Any) -> None:
    """Read what a configuration needs of the checkpoints that it names.

    The configuration of a CopyTransformer gets the configurations of `bert_name` and `masked_lm_name`. The
    configuration of a SAGCopy gets the sizes of the BART named by `start_name`. Other configurations are left alone.

    Args:
        config: the configuration, which is changed.
        is_fresh: whether the model is new. A saved CopyTransformer gets only missing configurations; a saved SAGCopy
            no longer needs the BART.
        hub_settings: `cache_dir`, `token` and similar arguments of `AutoConfig.from_pretrained`.

    Raises:
        ValueError: a checkpoint cannot be reached, or does not fit the other settings.
    """
    if config.model_type == "copy_transformer":
        if config.uses_bert:
            _read_part(config, "bert", is_fresh, **hub_settings)
        _read_part(config, "masked_lm", is_fresh, **hub_settings)
        config.check()
    elif config.model_type == "sagcopy" and is_fresh and config.start_name is not None:
        _read_start(config, **hub_settings)


def load_pretrained_parts(
    model: PreTrainedModel, missing: Collection[str] | None = None, **hub_settings: Any
) -> set[str]:
    """Load the weights of a model's parts from the checkpoints that its configuration names.

    Args:
        model: the model, whose weights are changed.
        missing: names of weights that a saved model lacks. Only parts that contain such weights are loaded. None
            stands for a new model, whose parts are all loaded.
        hub_settings: `cache_dir`, `token` and similar arguments of `from_pretrained`.

    Returns:
        The names in `missing` that are still missing. The coverage weights of a pointer-generator are left out, as they
        may be new.

    Raises:
        ValueError: a checkpoint cannot be read, lacks weights, or has another vocabulary.
    """
    config = model.config
    is_new = missing is None
    remaining = set(missing or ())
    if config.model_type == "copy_transformer":
        if config.uses_bert and config.bert_name is not None:
            bert_weights = {name for name in remaining if name.startswith(_BERT_PREFIXES)}
            if is_new or bert_weights:
                _load_bert(model.model, **hub_settings)
            remaining -= bert_weights
        if config.masked_lm_name is not None:
            masked_lm_weights = {name for name in remaining if name.startswith("masked_lm.")}
            if is_new or masked_lm_weights:
                _load_masked_lm(model, **hub_settings)
            remaining -= masked_lm_weights
    elif config.model_type == "sagcopy" and config.start_name is not None and is_new:
        _load_start(model, **hub_settings)
    elif config.model_type == "pointer_generator":
        # The attention of `coverage` may be new (See et al. 2017, section 5).
        remaining = {name for name in remaining if not name.endswith("coverage_projection.weight")}
    return remaining


def _read_part(config: PreTrainedConfig, part: str, is_fresh: bool, **hub_settings) -> None:
    """Read the configuration of a part of a CopyTransformer, if the part has a name.

    Args:
        config: the configuration of the CopyTransformer. It gets the part's configuration and, if the model is new, the
            part's vocabulary size.
        part: `bert` or `masked_lm`.
        is_fresh: whether the model is new. If a saved model already has the part's configuration, nothing is read.
        hub_settings: `cache_dir`, `token` and similar arguments of `from_pretrained`.

    Raises:
        ValueError: the checkpoint cannot be reached, or is not an encoder.
    """
    name_key, config_key = f"{part}_name", f"{part}_config"
    name = getattr(config, name_key)
    has_config = not is_fresh and getattr(config, config_key) is not None
    if name is None or has_config:
        return
    part_config = read_config(name_key, name, **hub_settings)
    check_encoder(name_key, name, part_config)
    setattr(config, config_key, part_config)
    if is_fresh:
        config.vocab_size = part_config.vocab_size


def _load_bert(model: Any, **hub_settings) -> None:
    """Load BERT's weights into the encoder and decoder of a CopyTransformer without its output layer."""
    config = model.config
    bert = read_model(AutoModel, "bert_name", config.bert_name, config.bert_config, unused=("pooler",), **hub_settings)
    if model.encoder.has_bert:
        # Weights of the pooler are not loaded, as `BertWindows` removed its pooler.
        model.encoder.bert.bert.load_state_dict(bert.state_dict(), strict=False)
    if config.decoder_embedding != "trained":
        words = bert.get_input_embeddings()
        model.decoder.embed_tokens.words.load_state_dict(words.state_dict())
    if config.decoder_embedding == "bert_module":
        embeddings_name = word_embeddings_name(bert).rpartition(".")[0]
        embeddings = bert.get_submodule(embeddings_name)
        model.decoder.input_layer.embeddings.load_state_dict(embeddings.state_dict(), strict=False)


def _load_masked_lm(model: PreTrainedModel, **hub_settings) -> None:
    """Load the weights of a CopyTransformer's masked language model."""
    config = model.config
    masked_lm = read_model(
        AutoModelForMaskedLM, "masked_lm_name", config.masked_lm_name, config.masked_lm_config, **hub_settings
    )
    model.get_submodule("masked_lm").load_state_dict(masked_lm.state_dict())


def _read_start(config: PreTrainedConfig, **hub_settings) -> None:
    """Set the sizes of a SAGCopy to the sizes of the BART from which it starts.

    Raises:
        ValueError: the BART cannot be read, or a size is set to another value.
    """
    start_config = read_config("start_name", config.start_name, **hub_settings)
    defaults = type(config)()
    for key, value in _settings_of_bart(start_config, config.start_name).items():
        current_value = getattr(config, key)
        # A value equal to the default counts as unset. The tokenizer sets the vocabulary size.
        is_set = key != "vocab_size" and current_value != getattr(defaults, key)
        if is_set and current_value != value:
            raise ValueError(
                f"`{key}` is {current_value}, but {value} in `start_name` ({config.start_name!r}): omit it"
            )
        setattr(config, key, value)
    config.check()


def _settings_of_bart(bart_config: PreTrainedConfig, name: str) -> dict[str, object]:
    """The settings with which a SAGCopy has the network of a BART.

    Args:
        bart_config: the configuration of the checkpoint from which the SAGCopy starts.
        name: the name of the checkpoint, for messages.

    Raises:
        ValueError: the checkpoint is not BART, or its encoder and its decoder differ in a size that SAGCopy has once.
    """
    if bart_config.model_type != "bart":
        raise ValueError(
            f"`start_name` is {name!r}, a {bart_config.model_type}, but must be a BART: `hf-summ convert mass` makes "
            "one of a MASS"
        )
    for key in ("attention_heads", "ffn_dim"):
        encoder_value = getattr(bart_config, f"encoder_{key}")
        decoder_value = getattr(bart_config, f"decoder_{key}")
        if encoder_value != decoder_value:
            raise ValueError(f"`start_name` is {name!r}, whose `{key}` differ: {encoder_value} and {decoder_value}")
    return {
        "vocab_size": bart_config.vocab_size,
        "d_model": bart_config.d_model,
        "encoder_layers": bart_config.encoder_layers,
        "decoder_layers": bart_config.decoder_layers,
        "num_heads": bart_config.encoder_attention_heads,
        "ffn_dim": bart_config.encoder_ffn_dim,
        "positions": "learned",
        "max_positions": bart_config.max_position_embeddings,
        "embedding_norm": True,
        "scale_embedding": bart_config.scale_embedding,
        "activation": bart_config.activation_function,
        "output_bias": True,
        "norm": "post",
    }


def _load_start(model: PreTrainedModel, **hub_settings) -> None:
    """Load the weights of the BART `start_name` into a new SAGCopy, in place, and log which weights the BART lacks.

    Args:
        model: the SAGCopy, whose weights are changed.
        hub_settings: `cache_dir`, `token` and similar arguments of `from_pretrained`.

    Raises:
        ValueError: the BART cannot be read, has other tokens than the SAGCopy, or has weights that the SAGCopy lacks.
    """
    config = model.config
    name = config.start_name
    start_config = read_config("start_name", name, **hub_settings)
    # A BART may have more rows of embeddings than its tokenizer has tokens, but only a few.
    further_tokens = start_config.vocab_size - config.vocab_size
    has_same_tokens = (
        0 <= further_tokens <= PADDING_ROWS
        and config.pad_token_id == start_config.pad_token_id
        and config.eos_token_id == start_config.eos_token_id
    )
    if not has_same_tokens:
        raise ValueError(
            f"`start_name` is {name!r}, which has {start_config.vocab_size} tokens, but the tokenizer has "
            f"{config.vocab_size}, or other special tokens: use the tokenizer that came with it"
        )
    start = read_model(AutoModelForSeq2SeqLM, "start_name", name, start_config, **hub_settings)
    weights = weights_of_bart(start, config.vocab_size)
    missing, unknown = model.load_state_dict(weights, strict=False)
    if unknown:
        raise ValueError(f"`start_name` is {name!r}, but this model has no {unknown[0]} ({len(unknown)} in all)")
    encoder = model.get_submodule("model.encoder")
    if encoder.token_shift is not None:
        # At 0, the token shift adds nothing, and the encoder computes the same as the BART's. All further weights that
        # the BART lacks keep the values that a new SAGCopy has.
        nn.init.zeros_(encoder.get_submodule("token_shift.projection").weight)
    # Tied weights are loaded under another name.
    new_weights = sorted(set(missing).difference(model.all_tied_weights_keys))
    logger.info(f"started from {name}; new weights, which it lacks: {', '.join(new_weights) or 'none'}")


def weights_of_bart(bart: PreTrainedModel, vocab_size: int) -> dict[str, torch.Tensor]:
    """A BART's weights under SAGCopy's names, with the first `vocab_size` words only."""
    word_embeddings = bart.model.shared.weight[:vocab_size]
    weights = {
        "model.shared.weight": word_embeddings,
        "lm_head.weight": word_embeddings,
        "lm_head.bias": bart.final_logits_bias[0, :vocab_size],
    }
    for side in ("encoder", "decoder"):
        for name, value in getattr(bart.model, side).state_dict().items():
            if name == "embed_tokens.weight":
                weights[f"model.{side}.{name}"] = value[:vocab_size]
                continue
            if name == "embed_positions.weight":
                # BART's table of positions begins with rows that it never reads, and SAGCopy's table does not.
                value = value[bart.model.encoder.embed_positions.offset :]
            for bart_part, sagcopy_part in _SAGCOPY_NAMES:
                name = name.replace(bart_part, sagcopy_part)
            weights[f"model.{side}.{name}"] = value
    return weights
