"""Configuration of GDLF: gated dynamic convolutions with deep layer fusion."""

import dataclasses

from huggingface_hub.dataclasses import strict

from .configuration_base import PROBABILITY, SIZE, SummarizationConfig

# the seven rows of GDLF's Table 6: the value of `gating` -> the variants of `OutputGate` and, if any, of `MemoryCell`
GATINGS: dict[str, tuple[str, str | None]] = {
    "none": ("none", None),
    "relu": ("relu", None),
    "gtu": ("gtu", None),
    "glu": ("glu", None),
    "gcnn": ("gtu", "gcnn"),
    "gate_without_update": ("glu", "gate_without_update"),
    "gate": ("glu", "gate"),
}


@strict
class GdlfConfig(SummarizationConfig):
    """Configuration of a GDLF model (Kwon et al. 2021); the defaults are the paper's main model.

    Args:
        vocab_size: size of the subword vocabulary shared by source and target.
        d_model: width of embeddings, layers and memory cells.
        encoder_layers, decoder_layers: number of layers.
        encoder_kernel_sizes, decoder_kernel_sizes: number of positions in a layer's kernels, one value per layer, from
            the lowest.
        num_heads: number of heads of the dynamic convolutions (with separate kernels) and of the cross-attention.
        ffn_dim: inner width of the feed-forward networks.
        gating: `gate` (the paper's), or one of the variants in its Table 6: `none`, `relu`, `gtu`, `glu` (the baseline
            DynamicConv), `gcnn`, `gate_without_update`.
        layer_fusion: `fusion` (the paper's), `hierarchical` (Dou et al. 2018), or `none`, where the decoder attends to
            the last encoder layer.
        fusion_dim: inner width of the fusion.
        fusion_init: initialization of the fusion's weights. `xavier` initializes them as all linear layers, as in
            fairseq. `looks_linear` (Balduzzi et al. 2017) makes a new fusion the LayerNorm of the layers' sum, if
            `fusion_dim` is even and at least twice `d_model`. With a smaller `fusion_dim`, the sum is first projected
            on `fusion_dim / 2` directions.
        tags: tags that the encoder reads for each word: parts of speech (`pos`), named entities (`ner`), both
            (`pos+ner`) or `none`.
        tag_vocab_size: number of tags, including the padding tag.
        copy: whether words are also copied from the source, by a separate attention on top of the decoder. The paper's
            models do not copy.
        norm: `post` normalizes the sum of a sub-layer's input and output (the paper's); `pre` normalizes its input,
            with a LayerNorm on top of each stack.
        dropout: dropout of the embeddings and of each sub-layer's output.
        input_dropout: dropout of the input of each layer's gate.
        attention_dropout: dropout of the cross-attention weights.
        kernel_dropout: dropout of the convolutions' normalized kernels.
        label_smoothing: ε of the loss, at least 0 and below 1.
        conv_implementation: `chunked`; `compiled`, the same sums fused by torch.compile; or `auto`, compiled in
            training on a CPU if torch.compile works there, otherwise chunked. The compiled convolution trains faster,
            but needs a C++ compiler or Triton, and compiles once per kernel size.
        use_cache, is_encoder_decoder, tie_word_embeddings: as in every transformers configuration.
        pad_token_id, bos_token_id, eos_token_id, decoder_start_token_id: ids of special tokens, as in every
            transformers configuration; the processor's `align` sets them.
        unk_token_id: id of unknown words; `align` sets it too.
        unknown_ids: number of ids from `vocab_size` on, which tell apart the words of a document that the vocabulary
            lacks, so that they can be copied; 0 for a vocabulary of subwords. `align` sets it too.
    """

    model_type = "gdlf"

    rules = {
        **SummarizationConfig.rules,
        "fusion_dim": SIZE,
        "tag_vocab_size": SIZE,
        "input_dropout": PROBABILITY,
        "kernel_dropout": PROBABILITY,
        "gating": tuple(GATINGS),
        "layer_fusion": ("none", "fusion", "hierarchical"),
        "fusion_init": ("looks_linear", "xavier"),
        "tags": ("none", "pos", "ner", "pos+ner"),
        "conv_implementation": ("auto", "chunked", "compiled"),
    }

    vocab_size: int = 30000
    d_model: int = 256
    encoder_layers: int = 7
    decoder_layers: int = 6
    encoder_kernel_sizes: list[int] = dataclasses.field(default_factory=lambda: [3, 7, 15, 31, 31, 31, 31])
    decoder_kernel_sizes: list[int] = dataclasses.field(default_factory=lambda: [3, 7, 15, 31, 31, 31])
    num_heads: int = 8
    ffn_dim: int = 1024
    gating: str = "gate"
    layer_fusion: str = "fusion"
    fusion_dim: int = 7680
    fusion_init: str = "looks_linear"
    tags: str = "pos"
    tag_vocab_size: int = 201
    copy: bool = False
    norm: str = "post"
    dropout: float | int = 0.3
    input_dropout: float | int = 0.1
    attention_dropout: float | int = 0.1
    kernel_dropout: float | int = 0.1
    label_smoothing: float | int = 0.1
    conv_implementation: str = "auto"
    decoder_start_token_id: int | None = 1

    def validate_kernel_sizes(self):
        """Require an odd and positive kernel size for each layer of encoder and decoder."""
        for side in ("encoder", "decoder"):
            sizes = getattr(self, f"{side}_kernel_sizes")
            layers = getattr(self, f"{side}_layers")
            if len(sizes) != layers:
                raise ValueError(
                    f"`{side}_kernel_sizes` has {len(sizes)} kernel sizes ({sizes}), but `{side}_layers` is {layers}: "
                    "give one kernel size for each layer"
                )
            for size in sizes:
                if size < 1 or size % 2 == 0:
                    raise ValueError(f"`{side}_kernel_sizes` contains {size}, but must be odd and positive")


__all__ = ["GdlfConfig"]
