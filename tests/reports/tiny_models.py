"""Tiny models of transformers with the tests' tokenizer, in folders."""

from typing import Any

from transformers import (
    AutoModelForSeq2SeqLM,
    BertConfig,
    EncoderDecoderConfig,
    EncoderDecoderModel,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
)
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

# width and layers under the names of all families
SIZES = {
    "d_model": 16,
    "hidden_size": 16,
    "d_kv": 8,
    "d_ff": 32,
    "num_layers": 2,
    "num_heads": 2,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "num_encoder_layers": 2,
    "num_decoder_layers": 2,
    "num_encoder_attention_heads": 2,
    "num_decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
}


def special_ids(tokenizer: PreTrainedTokenizerFast) -> dict[str, Any]:
    """The vocabulary's size and special tokens; summaries begin with the end token."""
    return {
        "vocab_size": len(tokenizer),
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": tokenizer.eos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "decoder_start_token_id": tokenizer.eos_token_id,
    }


def _sides(tokenizer: PreTrainedTokenizerFast) -> dict[str, Any]:
    """The configurations of the encoder and the decoder that a T5Gemma contains."""
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 8}
    side = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "vocab_size": len(tokenizer), **heads}
    return {"encoder": side, "decoder": dict(side)}


def foreign(model_type: str, tokenizer: PreTrainedTokenizerFast, **settings: Any) -> PreTrainedModel:
    """A model of one of transformers' sequence-to-sequence families."""
    config_class = CONFIG_MAPPING[model_type]
    known = config_class.__dataclass_fields__.keys() | config_class.attribute_map.keys() | {"decoder_start_token_id"}
    values = SIZES | special_ids(tokenizer)
    if model_type == "t5gemma":
        values |= _sides(tokenizer)
    values |= settings
    config = config_class(**{name: value for name, value in values.items() if name in known})
    return AutoModelForSeq2SeqLM.from_config(config).eval()


def nested(tokenizer: PreTrainedTokenizerFast, positions: int, **settings: Any) -> PreTrainedModel:
    """Two RoBERTas, one of which reads and one of which writes; with `bert=True`, BERTs."""
    config_class = BertConfig if settings.pop("bert", False) else RobertaConfig
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    ids = special_ids(tokenizer)
    side = config_class(**sizes, vocab_size=ids.pop("vocab_size"), max_position_embeddings=positions)
    model = EncoderDecoderModel(config=EncoderDecoderConfig.from_encoder_decoder_configs(side, side)).eval()
    for config in (model.config, model.generation_config):
        vars(config).update(ids | settings)
    return model
