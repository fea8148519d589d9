"""Configuration of CopyTransformer, with convolutional self-attention and BERT conditioning."""

import copy
from collections.abc import Mapping
from typing import ClassVar

from huggingface_hub.dataclasses import strict
from transformers import CONFIG_MAPPING, AutoConfig, PreTrainedConfig
from transformers.utils import logging

from .checks import ADDED_SETTINGS, PADDING_ROWS, Range
from .configuration_base import SIZE, SummarizationConfig

logger = logging.get_logger(__name__)


@strict
class CopyTransformerConfig(SummarizationConfig):
    """Configuration of a CopyTransformer (Aksenov 2020); the defaults are the final CopyTransformer, without BERT.

    A Transformer that copies from the source. Values here select its variants: convolutional self-attention in the
    lowest encoder layers, a pre-trained BERT below encoder and decoder, or a masked language model that corrects the
    output. BERT is off by default, as it needs the name of a checkpoint.

    Args:
        vocab_size: size of the subword vocabulary shared by source and target.
        d_model: width of embeddings and layers.
        encoder_layers, decoder_layers: number of Transformer layers; the encoder has none with `encoder_type="bert"`.
        num_heads: attention heads of the Transformer layers.
        ffn_dim: inner width of the feed-forward networks.
        copy: whether the output copies (equation 4.3); false gives the plain Transformer.
        copy_attention: the attention to copy from: `first_head`, the first head of the last layer's cross-attention,
            as in the author's program; `mean`, the mean over that attention's heads; or `separate`, an additional
            single-head attention on top of the decoder (section 6.3).
        convolutional_attention: `none`, or the scope of self-attention in the lowest encoder layers: `1d`, a window of
            positions (equations 4.4 to 4.6); `2d`, neighboring heads as well (4.7 to 4.9); `2d_circular`, the same with
            the first and last heads as neighbors.
        convolutional_layers: number of lowest encoder layers with convolutional self-attention.
        window_size, head_window_size: number of positions and heads in the window, centered on the query; odd.
        encoder_type: `transformer`; `bert`, BERT alone; `bert_transformer`, Transformer layers on top of BERT (section
            4.2.3).
        side_layers: number of lowest encoder layers in a network parallel to BERT; the outputs of both are
            concatenated. 0 stacks all layers on top of BERT (section 4.2.6).
        bert_reduction, decoder_reduction: how encoder and decoder map BERT's width to `d_model`: `linear` or `relu`.
        token_shift: whether the encoder adds a linear map of each word's embedding to the next position, with which
            copying is learned sooner; with BERT, of BERT's word embeddings to its reduced states. Ours, no paper's.
        decoder_embedding: `trained`; `bert` for BERT's word embeddings (section 4.2.5); `bert_module` for BERT's whole
            embedding module, with positions, types and LayerNorm, as in the author's program. Its positions limit
            summaries.
        output_embedding: matrix of the output layer: its `own`, or `bert` for BERT's word embeddings, behind a trained
            map from `d_model` to their width; encoder or decoder must be built on BERT.
        bert_name: checkpoint from which a new model takes BERT's configuration and weights; a folder or a Hub name.
        bert_config: BERT's configuration; taken from `bert_name` if that is given.
        bert_layers: number of BERT's last layers whose states the encoder concatenates (section 4.2.3).
        train_bert: whether BERT is trained; otherwise it is frozen.
        bert_window_size, bert_window_stride: number of tokens in BERT's window, and from the start of one window to
            the next (section 4.2.4).
        masked_lm_name, masked_lm_config: checkpoint and configuration of the masked language model that corrects the
            output, called generator conditioning (section 4.2.7), which requires `copy=False`; see `bert_name`.
        lm_space: quantity that the factors of generator conditioning multiply. `log`: the distance of a
            log-probability from the mean, without normalization, as in the author's commented-out code. `probability`:
            the probability, which is then normalized, as the text suggests.
        lm_training_factor: factor applied in training to the tokens that the language model accepts; 1 disables it.
        lm_training_percentile: percentile of the language model's distribution above which a token is accepted in
            training.
        lm_percentile: percentile above which a token is accepted while decoding.
        lm_top_tokens: number of the generator's most likely tokens that are judged while decoding and, in the space
            `probability`, in training.
        mask_token_id: id of the masked language model's mask token.
        norm: `pre` normalizes a sub-layer's input, with a LayerNorm on top of each stack, as in the author's program;
            `post` normalizes the sum of a sub-layer's input and output.
        layer_norm_eps: ε of the LayerNorms; OpenNMT's by default.
        embedding_init: distribution of new embeddings: `xavier`, uniform within ±√(6 / (vocab_size + d_model)), as in
            OpenNMT; or `normal`, vectors of about unit length.
        dropout: dropout of the embeddings and of each sub-layer's output.
        attention_dropout: dropout of the attention weights.
        activation_dropout: dropout inside the feed-forward networks, after the ReLU.
        label_smoothing: ε of the loss, at least 0 and below 1; the author's program uses 0 with copying, and 0.1
            without.
        use_cache, is_encoder_decoder, tie_word_embeddings: as in every transformers configuration.
        pad_token_id, bos_token_id, eos_token_id, decoder_start_token_id, unk_token_id: ids of special tokens; the
            processor's `align` sets them.
        unknown_ids: number of ids from `vocab_size` on, which tell apart the words of a document that the vocabulary
            lacks, so that they can be copied; 0 for a vocabulary of subwords. `align` sets it too.
    """

    model_type = "copy_transformer"

    rules = {
        **SummarizationConfig.rules,
        "convolutional_attention": ("none", "1d", "2d", "2d_circular"),
        "encoder_type": ("transformer", "bert", "bert_transformer"),
        "bert_reduction": ("linear", "relu"),
        "decoder_reduction": ("linear", "relu"),
        "decoder_embedding": ("trained", "bert", "bert_module"),
        "output_embedding": ("own", "bert"),
        "bert_layers": SIZE,
        "lm_space": ("log", "probability"),
        "lm_training_factor": Range(1),
        "lm_training_percentile": ADDED_SETTINGS["lm_percentile"].range,
        "lm_percentile": ADDED_SETTINGS["lm_percentile"].range,
        "lm_top_tokens": ADDED_SETTINGS["lm_top_tokens"].range,
    }
    values_before = {
        "norm": "post",
        "layer_norm_eps": 1e-5,
        "embedding_init": "normal",
        "copy_attention": "separate",
        "activation_dropout": 0.0,
        "lm_space": "probability",
        "lm_percentile": 95,
        "lm_top_tokens": 50,
    }

    sub_configs: ClassVar[Mapping[str, type]] = {"bert_config": AutoConfig, "masked_lm_config": AutoConfig}

    vocab_size: int = 30522
    d_model: int = 512
    encoder_layers: int = 6
    decoder_layers: int = 6
    num_heads: int = 8
    ffn_dim: int = 2048
    copy: bool = True
    copy_attention: str = "first_head"
    convolutional_attention: str = "none"
    convolutional_layers: int = 1
    window_size: int = 11
    head_window_size: int = 3
    encoder_type: str = "transformer"
    side_layers: int = 0
    bert_reduction: str = "linear"
    token_shift: bool = False
    decoder_embedding: str = "trained"
    decoder_reduction: str = "linear"
    output_embedding: str = "own"
    bert_name: str | None = None
    bert_config: dict | PreTrainedConfig | None = None
    bert_layers: int = 4
    train_bert: bool = False
    bert_window_size: int = 512
    bert_window_stride: int = 256
    masked_lm_name: str | None = None
    masked_lm_config: dict | PreTrainedConfig | None = None
    lm_space: str = "log"
    lm_training_factor: float | int = 1.0
    lm_training_percentile: float | int = 80
    lm_percentile: float | int = 90
    lm_top_tokens: int = 10
    mask_token_id: int | None = 103
    norm: str = "pre"
    layer_norm_eps: float = 1e-6
    embedding_init: str = "xavier"
    dropout: float | int = 0.2
    attention_dropout: float | int = 0.2
    activation_dropout: float | int = 0.2
    label_smoothing: float | int = 0.0
    bos_token_id: int | None = 101
    eos_token_id: int | list[int] | None = 102
    decoder_start_token_id: int | None = 101

    def __post_init__(self, **kwargs):
        if self.copy_attention == "last":
            logger.warning("`copy_attention` is 'last', which is read as 'mean'")
            self.copy_attention = "mean"
        for key in ("bert_config", "masked_lm_config"):
            nested = getattr(self, key)
            if nested is not None:
                setattr(self, key, _nested_config(key, nested))
        super().__post_init__(**kwargs)

    @classmethod
    def from_dict(cls, config_dict, **kwargs):
        """Create a configuration as the base does; older models have a single percentile for training and decoding."""
        settings = dict(config_dict)
        percentile = config_dict.get("lm_percentile", cls.values_before["lm_percentile"])
        settings.setdefault("lm_training_percentile", percentile)
        return super().from_dict(settings, **kwargs)

    @PreTrainedConfig._attn_implementation.setter
    def _attn_implementation(self, value):
        if value == "sdpa":
            # a nested model keeps its default, which is `sdpa` unless its architecture lacks it, as MPNet does
            value = {"": value, "bert_config": None, "masked_lm_config": None}
        PreTrainedConfig._attn_implementation.fset(self, value)

    @property
    def uses_bert(self) -> bool:
        """Whether the encoder or the decoder is built on BERT."""
        return self.encoder_type in ("bert", "bert_transformer") or self.decoder_embedding != "trained"

    @property
    def max_decoder_position_embeddings(self) -> int | None:
        """The largest number of the decoder's positions, under transformers' name; None if there is no limit."""
        if self.decoder_embedding == "bert_module":
            return getattr(self.bert_config, "max_position_embeddings", None)
        return None

    @property
    def trains_embedding(self) -> bool:
        """Whether the model has an embedding other than BERT's."""
        return self.encoder_reads_words or self.decoder_embedding == "trained"

    @property
    def encoder_reads_words(self) -> bool:
        """Whether the encoder, or its network parallel to BERT, has word embeddings other than BERT's."""
        return self.encoder_type == "transformer" or self.side_layers > 0

    def validate_convolution(self):
        """Require odd windows of at most all heads, and Transformer layers of the encoder to use them in."""
        if self.convolutional_attention == "none":
            return
        for key in ("window_size", "head_window_size"):
            size = getattr(self, key)
            if size < 1 or size % 2 == 0:
                raise ValueError(f"`{key}` is {size}, but must be odd and positive")
        if self.convolutional_attention != "1d" and self.head_window_size > self.num_heads:
            raise ValueError(
                f"`head_window_size` is {self.head_window_size}, but must be at most `num_heads` ({self.num_heads})"
            )
        if self.encoder_type == "bert":
            raise ValueError('`convolutional_attention` needs a Transformer: set `encoder_type="bert_transformer"`')
        if not 1 <= self.convolutional_layers <= self.encoder_layers:
            raise ValueError(
                f"`convolutional_layers` is {self.convolutional_layers}, "
                f"but must be from 1 to `encoder_layers` ({self.encoder_layers})"
            )

    def validate_bert(self):
        """Require a BERT where encoder, decoder or output need it, and windows, layers and a vocabulary that fit it."""
        if self.side_layers and self.encoder_type != "bert_transformer":
            raise ValueError(f'`side_layers` is {self.side_layers}, which needs `encoder_type="bert_transformer"`')
        if not 0 <= self.side_layers < self.encoder_layers:
            raise ValueError(
                f"`side_layers` is {self.side_layers}, "
                f"but must be from 0 to below `encoder_layers` ({self.encoder_layers})"
            )
        if not self.uses_bert:
            if self.output_embedding == "bert":
                raise ValueError(
                    '`output_embedding="bert"` needs BERT: set `encoder_type` to "bert" or "bert_transformer", or '
                    '`decoder_embedding` to "bert"'
                )
            return
        if self.bert_config is None:
            if self.bert_name is None:
                raise ValueError(
                    f'`encoder_type="{self.encoder_type}"` with `decoder_embedding="{self.decoder_embedding}"` needs '
                    "BERT: set `bert_name` to a checkpoint, or `bert_config` to a configuration"
                )
            # the configuration of the checkpoint `bert_name` is read when the model is created
            return
        if self.encoder_type != "transformer":
            size, stride = self.bert_window_size, self.bert_window_stride
            if not 1 <= stride <= size:
                raise ValueError(f"`bert_window_stride` is {stride}, but must be from 1 to `bert_window_size` ({size})")
            layers = self.bert_config.num_hidden_layers
            if layers < self.bert_layers:
                raise ValueError(f"`bert_layers` is {self.bert_layers}, but must be at most BERT's {layers} layers")
        self._check_vocabulary("BERT", self.bert_config)
        if self.output_embedding == "bert" and self.bert_config.vocab_size != self.vocab_size:
            raise ValueError(
                f"`vocab_size` is {self.vocab_size}, but must be the {self.bert_config.vocab_size} of BERT's word "
                'embeddings with `output_embedding="bert"`: set `output_embedding` to "own"'
            )

    def validate_language_model(self):
        """Require generator conditioning to have a language model and an output that does not copy."""
        if self.masked_lm_name is None and self.masked_lm_config is None:
            if self.lm_training_factor != 1:
                raise ValueError("`lm_training_factor` needs a language model: set `masked_lm_name`")
            return
        if self.copy:
            raise ValueError("`masked_lm_name` and `copy=True` exclude each other: the language model undoes copying")
        if self.masked_lm_config is not None:
            self._check_vocabulary("the masked language model", self.masked_lm_config)

    def _check_vocabulary(self, model: str, nested: PreTrainedConfig) -> None:
        """Raise a ValueError unless a nested model, called `model` in the message, has this vocabulary."""
        if not 0 <= nested.vocab_size - self.vocab_size <= PADDING_ROWS:
            raise ValueError(
                f"`vocab_size` is {self.vocab_size}, but {model} has {nested.vocab_size} tokens: use its tokenizer"
            )


def _nested_config(key: str, nested: dict | PreTrainedConfig) -> PreTrainedConfig:
    """The configuration of the nested model under `key`, as a new object. Without a model type it is a BERT's.

    Raises:
        ValueError: transformers does not have the model type.
    """
    if isinstance(nested, dict):
        settings = {"model_type": "bert"} | nested
        if settings["model_type"] not in CONFIG_MAPPING:
            raise ValueError(f"`{key}` has the model type {settings['model_type']!r:.80}, which transformers lacks")
        config = AutoConfig.for_model(**settings)
    else:
        config = copy.copy(nested)
    # the nested model gets the precision of the whole model, and not the precision of its checkpoint
    config.dtype = None
    return config


__all__ = ["CopyTransformerConfig"]
