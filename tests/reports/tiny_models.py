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
    **{f"{side}_{name}": 2 for side in ("encoder", "decoder") for name in ("layers", "attention_heads")},
    **{f"num_{side}_{name}": 2 for side in ("encoder", "decoder") for name in ("layers", "attention_heads")},
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
}


def special_ids(tokenizer: PreTrainedTokenizerFast) -> dict[str, Any]:
    """The vocabulary's size and special tokens; summaries begin with the end token."""
    names = dict.fromkeys(("bos", "eos", "decoder_start"), tokenizer.eos_token_id)
    ids = {f"{name}_token_id": number for name, number in names.items()}
    return {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id, **ids}


def _sides(tokenizer: PreTrainedTokenizerFast) -> dict[str, Any]:
    """The configurations in that of T5Gemma."""
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 8}
    side = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "vocab_size": len(tokenizer), **heads}
    return {"encoder": side, "decoder": dict(side)}


def foreign(model_type: str, tokenizer: PreTrainedTokenizerFast, **settings: Any) -> PreTrainedModel:
    """A model of one of transformers' sequence-to-sequence families."""
    config_class = CONFIG_MAPPING[model_type]
    fields = {*config_class.__dataclass_fields__, *config_class.attribute_map, "decoder_start_token_id"}
    sizes = SIZES | special_ids(tokenizer) | (_sides(tokenizer) if model_type == "t5gemma" else {}) | settings
    given = {name: value for name, value in sizes.items() if name in fields}
    return AutoModelForSeq2SeqLM.from_config(config_class(**given)).eval()


def nested(tokenizer: PreTrainedTokenizerFast, positions: int, **settings: Any) -> PreTrainedModel:
    """Two RoBERTas, one of which reads and one of which writes; with `bert=True`, BERTs."""
    config_class = BertConfig if settings.pop("bert", False) else RobertaConfig
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    ids = special_ids(tokenizer)
    one = config_class(**sizes, vocab_size=ids.pop("vocab_size"), max_position_embeddings=positions)
    model = EncoderDecoderModel(config=EncoderDecoderConfig.from_encoder_decoder_configs(one, one)).eval()
    for config in (model.config, model.generation_config):
        vars(config).update(ids | settings)
    return model
