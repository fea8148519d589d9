"""GDLF of the paper's size, and a BART of equally many parameters."""

import torch
from transformers import BartConfig, BartForConditionalGeneration, PreTrainedModel

from hf_summ.models import GdlfConfig, GdlfForConditionalGeneration


def gdlf(**overrides) -> PreTrainedModel:
    """The paper's main model."""
    return GdlfForConditionalGeneration(GdlfConfig(**overrides))


def bart(parameters: int) -> PreTrainedModel:
    """A BART of GDLF's width and layers, its feed-forward networks as wide as makes the parameters equal."""

    def build(ffn_dim: int) -> PreTrainedModel:
        config = BartConfig(
            vocab_size=30000,
            d_model=256,
            encoder_layers=7,
            decoder_layers=6,
            encoder_attention_heads=8,
            decoder_attention_heads=8,
            encoder_ffn_dim=ffn_dim,
            decoder_ffn_dim=ffn_dim,
            max_position_embeddings=1024,
            dropout=0.3,
            attention_dropout=0.1,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=1,
            forced_eos_token_id=None,
            scale_embedding=True,
        )
        return BartForConditionalGeneration(config)

    with torch.device("meta"):
        few, many = (count(build(width)) for width in (256, 512))
    width = 256 + round((parameters - few) / ((many - few) / 256))
    return build(width)


def count(model: PreTrainedModel) -> int:
    """Parameters, shared ones once."""
    return sum(parameter.numel() for parameter in model.parameters())


def batch(rows: int, source: int, target: int) -> dict[str, torch.Tensor]:
    """Random ids, full length."""
    return {
        "input_ids": torch.randint(4, 30000, (rows, source)),
        "attention_mask": torch.ones(rows, source, dtype=torch.long),
        "labels": torch.randint(4, 30000, (rows, target)),
    }
