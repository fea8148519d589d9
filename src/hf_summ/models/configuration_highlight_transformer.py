"""Configuration of Highlight-Transformer: a CopyTransformer whose encoder attends more to key phrases."""

from huggingface_hub.dataclasses import strict

from .checks import NOT_NEGATIVE, Range
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
        highlighting: how the encoder uses the key phrases. `weighted` adds α times the importance of the phrases to the
            attention scores within a phrase (equation 2). `additive` averages self-attention and separate attention
            weights within phrases (equation 4). `replacement` has only these separate weights (Table 4, without
            self-attention). `none` is CopyTransformer.
        lit_heads, lit_layers: indices of the heads and of the encoder's layers that use the key phrases; by default
            the first quarter of the heads and the lower half of the layers.
        brightness: the factor α of the phrases' importance in the first epoch.
        brightness_decay: factor by which α shrinks at the end of each epoch, above 0 and at most 1.
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
        pad_token_id, bos_token_id, eos_token_id, decoder_start_token_id: ids of special tokens, as in every
            transformers configuration; the processor's `align` sets them.
        unk_token_id: id of unknown words; `align` sets it too.
        unknown_ids: number of ids from `vocab_size` on, which tell apart the words of a document that the vocabulary
            lacks, so that they can be copied; 0 for a vocabulary of subwords. `align` sets it too.
    """

    model_type = "highlight_transformer"

    rules = {
        **SummarizationConfig.rules,
        "highlighting": ("weighted", "additive", "replacement", "none"),
        "brightness": NOT_NEGATIVE,
        "brightness_decay": Range(0, 1, excludes_least=True),
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
        """Indices of the heads that use key phrases: `lit_heads`, or by default the first quarter of the heads."""
        if self.lit_heads is not None:
            return self.lit_heads
        lit_heads = max(self.num_heads // 4, 1)
        return list(range(lit_heads))

    @property
    def layers_that_highlight(self) -> list[int]:
        """Indices of the encoder's layers that use key phrases: `lit_layers`, or by default the lower half.

        Without highlighting there are none.
        """
        if self.highlighting == "none":
            return []
        if self.lit_layers is not None:
            return self.lit_layers
        lit_layers = max(self.encoder_layers // 2, 1)
        return list(range(lit_layers))

    def validate_highlighting(self):
        """Require that `lit_heads` and `lit_layers` list heads and layers that exist, and each of them only once."""
        for key, total in (("lit_heads", self.num_heads), ("lit_layers", self.encoder_layers)):
            indices = getattr(self, key)
            if indices is None:
                continue
            if not indices:
                raise ValueError(f'`{key}` is empty: to switch highlighting off, set `highlighting="none"`')
            existing = set(indices) & set(range(total))
            if len(existing) < len(indices):
                raise ValueError(f"`{key}` is {indices}, but must be different numbers from 0 to {total - 1}")


__all__ = ["HighlightTransformerConfig"]
