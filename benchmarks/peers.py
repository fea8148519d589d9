"""Our models in the papers' sizes, and a BART with the same number of parameters for each."""

import torch
from transformers import BartConfig, BartForConditionalGeneration, PreTrainedModel

from hf_summ.models import (
    CopyTransformerConfig,
    CopyTransformerForConditionalGeneration,
    GdlfConfig,
    GdlfForConditionalGeneration,
)

VOCABULARY = 30000


def gdlf(**overrides) -> PreTrainedModel:
    """The paper's main model."""
    return GdlfForConditionalGeneration(GdlfConfig(**overrides))


def copy_transformer(**overrides) -> PreTrainedModel:
    """The thesis's final CopyTransformer in its small width."""
    sizes = {"d_model": 256, "ffn_dim": 1024, "num_heads": 8, "vocab_size": VOCABULARY}
    special = {"bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    return CopyTransformerForConditionalGeneration(CopyTransformerConfig(**{**sizes, **special, **overrides}))


def bart(ours: PreTrainedModel, attention_dropout: float = 0.0) -> PreTrainedModel:
    """A BART with a model's width, layers and heads, whose feed-forward networks are as wide as equal sizes require.

    If the model's output projection is untied, so is BART's; otherwise its feed-forward networks would be much wider.

    Args:
        attention_dropout: if above 0, training on a CPU cannot use the fused attention kernel, which has no dropout.
    """
    own_output = ours.get_output_embeddings().weight is not ours.get_input_embeddings().weight

    def build(ffn_dim: int) -> PreTrainedModel:
        config = BartConfig(
            vocab_size=VOCABULARY,
            d_model=ours.config.d_model,
            encoder_layers=ours.config.encoder_layers,
            decoder_layers=ours.config.decoder_layers,
            encoder_attention_heads=ours.config.num_heads,
            decoder_attention_heads=ours.config.num_heads,
            encoder_ffn_dim=ffn_dim,
            decoder_ffn_dim=ffn_dim,
            max_position_embeddings=1024,
            dropout=ours.config.dropout,
            attention_dropout=attention_dropout,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=1,
            forced_eos_token_id=None,
            scale_embedding=True,
        )
        model = BartForConditionalGeneration(config)
        if own_output:
            model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
        return model

    with torch.device("meta"):
        few, many = (count(build(width)) for width in (256, 512))
    width = 256 + round((count(ours) - few) / ((many - few) / 256))
    return build(width)


def count(model: PreTrainedModel) -> int:
    """The number of parameters, counting shared ones once."""
    return sum(parameter.numel() for parameter in model.parameters())


def batch(rows: int, source: int, target: int) -> dict[str, torch.Tensor]:
    """Random ids without padding."""
    return {
        "input_ids": torch.randint(4, VOCABULARY, (rows, source)),
        "attention_mask": torch.ones(rows, source, dtype=torch.long),
        "labels": torch.randint(4, VOCABULARY, (rows, target)),
    }
