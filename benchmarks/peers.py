"""Our models in the papers' sizes, each with a BART of equal parameter count."""

import tempfile
from pathlib import Path

import torch
from transformers import BartConfig, BartForConditionalGeneration, PreTrainedModel

from hf_summ import (
    CopyTransformerConfig,
    CopyTransformerForConditionalGeneration,
    DrgdConfig,
    DrgdForConditionalGeneration,
    GdlfConfig,
    GdlfForConditionalGeneration,
    GdlfProcessor,
    HighlightTransformerConfig,
    HighlightTransformerForConditionalGeneration,
    Int8Config,
    SagCopyConfig,
    SagCopyForConditionalGeneration,
)
from hf_summ.data import fit_vocabulary
from hf_summ.runtimes.onnx_graphs import write_graphs
from hf_summ.runtimes.onnx_model import load_graphs

VOCABULARY = 30000
_BASE = {"layers": 6, "attention_heads": 12, "ffn_dim": 3072}


def gdlf(**overrides) -> PreTrainedModel:
    """The paper's main model."""
    return GdlfForConditionalGeneration(GdlfConfig(**overrides))


def small_gdlf(texts: list[str], vocab_size: int, **overrides) -> tuple[PreTrainedModel, GdlfProcessor]:
    """A GDLF of two layers on each side, 128 wide, and a processor with the texts' vocabulary."""
    processor = GdlfProcessor(fit_vocabulary(texts, vocab_size=vocab_size, show_progress=False), tags="none")
    processor.tokenizer.model_max_length = 1024
    sizes: dict = {"d_model": 128, "ffn_dim": 256, "fusion_dim": 256, "num_heads": 4}
    sizes |= {f"{side}_layers": 2 for side in ("encoder", "decoder")}
    sizes |= {f"{side}_kernel_sizes": [3, 7] for side in ("encoder", "decoder")}
    config = GdlfConfig(**{**sizes, "conv_implementation": "chunked", **overrides}, tags="none")
    processor.align(config)
    return GdlfForConditionalGeneration(config).eval(), processor


def copy_transformer(**overrides) -> PreTrainedModel:
    """The thesis's final CopyTransformer in the small width."""
    sizes = {"d_model": 256, "ffn_dim": 1024, "num_heads": 8, "vocab_size": VOCABULARY}
    special = {"bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    return CopyTransformerForConditionalGeneration(CopyTransformerConfig(**{**sizes, **special, **overrides}))


def highlight_transformer(**overrides) -> PreTrainedModel:
    """The paper's model."""
    return HighlightTransformerForConditionalGeneration(
        HighlightTransformerConfig(**{"vocab_size": VOCABULARY, **overrides})
    )


def sagcopy(**overrides) -> PreTrainedModel:
    """The paper's network in a smaller width."""
    sizes = {"d_model": 256, "ffn_dim": 1024, "num_heads": 8, "vocab_size": VOCABULARY, "max_positions": 1024}
    special = {"bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
    return SagCopyForConditionalGeneration(SagCopyConfig(**{**sizes, **special, **overrides}))


def drgd(**overrides) -> PreTrainedModel:
    """The paper's model for Gigaword."""
    return DrgdForConditionalGeneration(DrgdConfig(**{"vocab_size": VOCABULARY, **overrides}))


def bart_base() -> PreTrainedModel:
    """A BART of base size, without ends that are forced."""
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    sizes = {f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in _BASE.items()}
    return BartForConditionalGeneration(BartConfig(d_model=768, forced_eos_token_id=None, **sizes, **special))


def bart(ours: PreTrainedModel, attention_dropout: float = 0.0) -> PreTrainedModel:
    """A BART with a model's width, layers and heads; the width of its feed-forward networks equalizes parameter counts.

    The BART of a recurrent model has 6 + 6 layers of 256. If the model's output projection is untied, BART's is as
    well; otherwise its feed-forward networks would be much wider.

    Args:
        attention_dropout: if above 0, training on a CPU cannot use the fused attention kernel, which has no dropout.
    """
    config = ours.config
    if isinstance(config, DrgdConfig):
        width, layers, heads = 256, (6, 6), 8
    else:
        width, layers, heads = config.d_model, (config.encoder_layers, config.decoder_layers), config.num_heads
    own_output = ours.get_output_embeddings().weight is not ours.get_input_embeddings().weight

    def build(ffn_dim: int) -> PreTrainedModel:
        config = BartConfig(
            vocab_size=ours.config.vocab_size,
            d_model=width,
            encoder_layers=layers[0],
            decoder_layers=layers[1],
            encoder_attention_heads=heads,
            decoder_attention_heads=heads,
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
        few, many = (count(build(ffn_dim)) for ffn_dim in (256, 512))
    return build(256 + round((count(ours) - few) / ((many - few) / 256)))


def in_8_bits(model: PreTrainedModel) -> PreTrainedModel:
    """A copy of one of our models with linear layers in 8 bits, loaded by `from_pretrained`."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        return type(model).from_pretrained(folder, quantization_config=Int8Config())


def in_onnx(model: PreTrainedModel, int8: bool) -> PreTrainedModel:
    """A model in ONNX Runtime, with one thread."""
    with tempfile.TemporaryDirectory() as folder:
        write_graphs(model, Path(folder), int8)
        for settings in (model.config, model.generation_config):
            settings.save_pretrained(folder)
        return load_graphs(Path(folder))


def ctranslate2_bart(model: PreTrainedModel, compute_type: str):
    """A BART as a CTranslate2 translator with one thread; its words are ids as text.

    Args:
        compute_type: `float32` or `int8`.
    """
    import ctranslate2
    from ctranslate2.converters.transformers import BartLoader

    # the converter reads attributes that transformers' configuration and modules no longer have
    model.config.normalize_before = False
    spec = BartLoader().get_model_spec(model)
    words = [str(index) for index in range(model.config.vocab_size)]
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    special = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id")
    pad, bos, eos, start = (words[getattr(model.config, name)] for name in special)
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = pad, bos, eos
    spec.config.decoder_start_token = start
    spec.validate()
    spec.optimize(quantization=compute_type)
    with tempfile.TemporaryDirectory() as folder:
        spec.save(folder)
        return ctranslate2.Translator(folder, compute_type=compute_type, inter_threads=1, intra_threads=1)


def count(model: PreTrainedModel) -> int:
    """The number of parameters; shared ones count once."""
    return sum(parameter.numel() for parameter in model.parameters())


def batch(rows: int, source: int, target: int) -> dict[str, torch.Tensor]:
    """Random ids without padding."""
    return {
        "input_ids": torch.randint(4, VOCABULARY, (rows, source)),
        "attention_mask": torch.ones(rows, source, dtype=torch.long),
        "labels": torch.randint(4, VOCABULARY, (rows, target)),
    }


def phrases(rows: int, length: int, number: int) -> dict[str, torch.Tensor]:
    """Random key phrases of three to five subwords, (rows, number)."""
    starts = torch.randint(0, length - 5, (rows, number))
    ends = starts + torch.randint(3, 6, starts.shape)
    return {"phrase_starts": starts, "phrase_ends": ends, "phrase_values": torch.rand(rows, number)}
