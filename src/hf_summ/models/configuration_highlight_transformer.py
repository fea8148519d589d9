"""Configuration of Highlight-Transformer: a CopyTransformer whose encoder attends more to key phrases."""

from huggingface_hub.dataclasses import strict

from .checks import FINITE, Range
from .configuration_base import SummarizationConfig


@strict
class HighlightTransformerConfig(SummarizationConfig):
    """Configuration of a Highlight-Transformer (Liu et al. 2021); the defaults are the paper's for Multi-News.

    Args:
        vocab_size: size of the vocabulary shared by source and target.
        d_model: width.
        encoder_layers, decoder_layers: numbers of layers.
        num_heads: number of heads of every attention.
        ffn_dim: inner width of the feed-forward networks.
        highlighting: how the encoder's lit heads use the key phrases: `weighted` adds their brightness to the scores
            (equation 2), `additive` adds separate attention weights (equation 4), `replacement` has only these
            (Table 4, without self-attention); `none` is CopyTransformer.
        lit_heads, lit_layers: indices of the encoder's heads and layers that highlight; by default the first quarter
            of the heads and the lower half of the layers.
        brightness: α in the first epoch.
        brightness_decay: factor of α at the end of each epoch, above 0 and at most 1.
        epochs_trained: number of epochs trained so far, for the decay of α.
        token_shift: whether the encoder adds a linear map of each word's embedding to the next position, with which
            copying is learned sooner; ours, no paper's.
        copy: whether words are also copied from the source.
        copy_attention: source of the copy distribution, as in CopyTransformer.
        norm: `pre` normalizes the input of each sub-layer, `post` the sum of its input and output.
        layer_norm_eps: ε of the LayerNorms; OpenNMT's by default.
        embedding_init: distribution of new embeddings: `xavier`, uniform within ±√(6 / (vocab_size + d_model)), as in
            OpenNMT; or `normal`, vectors of about unit length.
        dropout: dropout of embeddings and sub-layers.
        attention_dropout, activation_dropout: dropout of attention weights, and inside the feed-forward networks.
        label_smoothing: ε of the loss, at least 0 and below 1.
        use_cache, is_encoder_decoder, tie_word_embeddings: as in every transformers configuration.
        pad_token_id, bos_token_id, eos_token_id, decoder_start_token_id: likewise; set by the processor's `align`.
        unk_token_id, unknown_ids: the id of unknown words, and the number of ids from `vocab_size` on that tell words
            apart that the vocabulary lacks, for copying; 0 for subwords. Likewise set by `align`.
    """

    model_type = "highlight_transformer"

    rules = {
        **SummarizationConfig.rules,
        "highlighting": ("weighted", "additive", "replacement", "none"),
        "brightness": Range(0, FINITE),
        "brightness_decay": Range(0, 1, above=True),
        "epochs_trained": Range(0),
    }
    values_before = {"layer_norm_eps": 1e-5, "embedding_init": "normal"}

    vocab_size: int = 50000
    d_model: int = 512
    encoder_layers: int = 4
    decoder_layers: int = 4
    num_heads: int = 8
    ffn_dim: int = 2048
    highlighting: str = "weighted"
    lit_heads: list[int] | None = None
    lit_layers: list[int] | None = None
    brightness: float | int = 30.0
    brightness_decay: float | int = 0.9
    epochs_trained: int = 0
    token_shift: bool = False
    copy: bool = True
    copy_attention: str = "first_head"
    norm: str = "pre"
    layer_norm_eps: float = 1e-6
    embedding_init: str = "xavier"
    dropout: float | int = 0.2
    attention_dropout: float | int = 0.2
    activation_dropout: float | int = 0.2
    label_smoothing: float | int = 0.0
    decoder_start_token_id: int | None = 1

    @property
    def alpha(self) -> float:
        """The brightness factor α of the current epoch."""
        return self.brightness * self.brightness_decay**self.epochs_trained

    @property
    def heads_that_highlight(self) -> list[int]:
        """Indices of the lit heads, given or default."""
        return list(range(max(self.num_heads // 4, 1))) if self.lit_heads is None else self.lit_heads

    @property
    def layers_that_highlight(self) -> list[int]:
        """Indices of the lit layers, given or default; none without highlighting."""
        if self.highlighting == "none":
            return []
        return list(range(max(self.encoder_layers // 2, 1))) if self.lit_layers is None else self.lit_layers

    def validate_highlighting(self):
        """Require lit heads and layers to exist, and to be listed only once."""
        for key, total in (("lit_heads", self.num_heads), ("lit_layers", self.encoder_layers)):
            numbers = getattr(self, key)
            if numbers is None:
                continue
            if not numbers:
                raise ValueError(f'`{key}` is empty: to switch highlighting off, set `highlighting="none"`')
            if len(set(numbers) & set(range(total))) < len(numbers):
                raise ValueError(f"`{key}` is {numbers}, but must be different numbers from 0 to {total - 1}")


__all__ = ["HighlightTransformerConfig"]
