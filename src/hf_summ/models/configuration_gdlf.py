"""Configuration of GDLF: gated dynamic convolutions with deep layer fusion."""

import dataclasses

from huggingface_hub.dataclasses import strict

from .configuration_base import SummarizationConfig
from .layers_gdlf import GATINGS
from .text_tagging import TAGS

_LAYER_FUSIONS = ("none", "fusion", "hierarchical")
_IMPLEMENTATIONS = ("chunked", "compiled")


@strict
class GdlfConfig(SummarizationConfig):
    """Configuration of a GDLF model (Kwon et al. 2021); the defaults are the paper's main model.

    Args:
        vocab_size: subwords of the vocabulary that source and target share.
        d_model: width of embeddings, layers and memory cells.
        encoder_layers, decoder_layers: number of layers.
        encoder_kernel_sizes, decoder_kernel_sizes: positions that a layer's kernels span, one number a layer, from the
            lowest.
        num_heads: heads of the dynamic convolutions (each has kernels of its own) and of the cross-attention.
        ffn_dim: inner width of the feed-forward networks.
        gating: `gate` (the paper's), or one of its Table 6: `none`, `relu`, `gtu`, `glu` (the baseline DynamicConv),
            `gcnn`, `gate_without_update`.
        layer_fusion: `fusion` (the paper's), `hierarchical` (Dou et al. 2018), `none`: the decoder attends to the last
            encoder layer.
        fusion_dim: inner width of the fusion.
        tags: what the encoder knows of each word: `pos`, `ner`, `pos+ner`, `none`.
        tag_vocab_size: number of tags, the one of padding included.
        dropout: of embeddings, of each sub-layer's output.
        attention_dropout: of the cross-attention's weights.
        kernel_dropout: of the convolutions' normalised kernels.
        label_smoothing: ε of the loss, from 0 to 1.
        conv_implementation: `chunked`, or `compiled`: torch.compile's fusion of the same sums, faster in training once
            it is compiled, which takes a C++ compiler or Triton, and a while for each kernel size.
        use_cache, is_encoder_decoder, tie_word_embeddings: as in every configuration of transformers.
        pad_token_id, bos_token_id, eos_token_id, decoder_start_token_id: as there; a processor's `align` sets them.
    """

    model_type = "gdlf"
    attribute_map = {
        "hidden_size": "d_model",
        "num_hidden_layers": "encoder_layers",
        "num_attention_heads": "num_heads",
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
    tags: str = "pos"
    tag_vocab_size: int = 201
    dropout: float | int = 0.3
    attention_dropout: float | int = 0.1
    kernel_dropout: float | int = 0.1
    label_smoothing: float | int = 0.1
    conv_implementation: str = "chunked"
    use_cache: bool = True
    is_encoder_decoder: bool = True
    pad_token_id: int | None = 0
    bos_token_id: int | None = 1
    eos_token_id: int | list[int] | None = 2
    decoder_start_token_id: int | None = 1
    tie_word_embeddings: bool = True

    def validate_kernel_sizes(self):
        """One odd kernel size a layer."""
        for side in ("encoder", "decoder"):
            sizes, layers = getattr(self, f"{side}_kernel_sizes"), getattr(self, f"{side}_layers")
            if len(sizes) != layers:
                raise ValueError(
                    f"`{side}_kernel_sizes` has {len(sizes)} kernel sizes ({sizes}), but `{side}_layers` is {layers}: "
                    "give one kernel size for each layer"
                )
            wrong = [size for size in sizes if size < 1 or size % 2 == 0]
            if wrong:
                raise ValueError(f"`{side}_kernel_sizes` must be odd and positive, got {wrong[0]}")

    def validate_widths(self):
        """Heads divide the width evenly."""
        self._check_heads()

    def validate_choices(self):
        """Names are known ones, probabilities lie between 0 and 1."""
        self._check_choices(
            {
                "gating": GATINGS,
                "layer_fusion": _LAYER_FUSIONS,
                "tags": TAGS,
                "conv_implementation": _IMPLEMENTATIONS,
            }
        )
        self._check_probabilities("dropout", "attention_dropout", "kernel_dropout", "label_smoothing")


__all__ = ["GdlfConfig"]
