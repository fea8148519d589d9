"""CopyTransformer with convolutional self-attention and BERT (Aksenov 2020; docs/equations.md, section 2)."""

import copy
from importlib import import_module
from types import ModuleType
from typing import Any

import torch
from torch import nn
from transformers import AutoModel, AutoModelForMaskedLM, LogitsProcessor, LogitsProcessorList
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .checks import own_settings
from .configuration_copy_transformer import CopyTransformerConfig
from .layers_copy_transformer import (
    BertInputLayer,
    BertWindows,
    BertWordEmbedding,
    ConvolutionalSelfAttention,
    bert_words,
    freeze,
    parameter_names,
    word_embeddings_name,
)
from .layers_transformer import (
    InputLayer,
    SelfAttention,
    TokenShift,
    TransformerEncoderLayer,
    source_padding_mask,
    stack_norm,
    tied_embedding,
)
from .modeling_base import SummarizationPreTrainedModel
from .modeling_copying import CopyEncoderOutput, CopyingForConditionalGeneration, CopyingModel
from .modeling_transformer import CopyingDecoder


def _language_model_layers() -> ModuleType:
    """The module that only checkpoints with a masked language model need."""
    return import_module(".layers_language_model", __package__)


class CopyTransformerPreTrainedModel(SummarizationPreTrainedModel):
    """Base of the CopyTransformer models."""

    config_class = CopyTransformerConfig
    _no_split_modules = ["TransformerEncoderLayer", "TransformerDecoderLayer"]

    def resize_token_embeddings(self, new_num_tokens=None, pad_to_multiple_of=None, *args, **kwargs):
        """transformers' `resize_token_embeddings`, with an error if BERT or a language model fixes the vocabulary."""
        config = self.config
        if not config.uses_bert and config.masked_lm_config is None:
            return super().resize_token_embeddings(new_num_tokens, pad_to_multiple_of, *args, **kwargs)
        if new_num_tokens in (None, config.vocab_size) and pad_to_multiple_of is None:
            return self.get_input_embeddings()
        raise ValueError(f"the vocabulary of a pre-trained model cannot be resized to {new_num_tokens}")


def _self_attention(config: CopyTransformerConfig, layer_index: int) -> nn.Module:
    """An encoder layer's self-attention, which may be convolutional in the lowest layers."""
    settings = (config, config.d_model, config.num_heads, config.attention_dropout)
    scope = config.convolutional_attention
    if scope == "none" or layer_index >= config.convolutional_layers:
        return SelfAttention(*settings)
    return ConvolutionalSelfAttention(
        *settings,
        window_size=config.window_size,
        head_window_size=1 if scope == "1d" else config.head_window_size,
        circular=scope == "2d_circular",
    )


class CopyTransformerEncoder(CopyTransformerPreTrainedModel):
    """Encodes the source with word embeddings, BERT, or both.

    Args:
        config: the model's configuration.
        embed_tokens: the word embedding; None if only BERT reads the words.
    """

    _can_record_outputs = {
        "hidden_states": TransformerEncoderLayer,
        "attentions": OutputRecorder(SelfAttention, index=1, layer_name="self_attention"),
    }

    def __init__(self, config: CopyTransformerConfig, embed_tokens: nn.Embedding | None):
        super().__init__(config)
        self.has_bert = config.encoder_type != "transformer"
        if embed_tokens is not None:
            self.embed_tokens = embed_tokens
            self.input_layer = InputLayer(config)
        if self.has_bert:
            self.bert = BertWindows(
                AutoModel.from_config(config.bert_config),
                config.bert_window_size,
                config.bert_window_stride,
                trainable=config.train_bert,
                layers=config.bert_layers,
            )
            side_width = config.d_model if config.side_layers else 0
            self.reduction = nn.Linear(config.bert_layers * config.bert_config.hidden_size + side_width, config.d_model)
        self.token_shift = None
        if config.token_shift:
            words = self.bert.bert.get_input_embeddings() if self.has_bert else embed_tokens
            self.token_shift = TokenShift(words.embedding_dim, config.d_model)
        self.dropout = nn.Dropout(config.dropout)
        layers = 0 if config.encoder_type == "bert" else config.encoder_layers
        self.layers = nn.ModuleList(
            TransformerEncoderLayer(
                config, _self_attention(config, index), activation_dropout=config.activation_dropout
            )
            for index in range(layers)
        )
        # without Transformer layers there is no stack to normalize
        self.layer_norm = stack_norm(config) if layers else nn.Identity()
        self.gradient_checkpointing = False
        self.post_init()

    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, attention_mask=None, inputs_embeds=None, **kwargs):
        """`input_ids` and `attention_mask` (B, S) -> last_hidden_state (B, S, C) and the ids as source_ids."""
        source_mask = source_padding_mask(attention_mask)
        layers = self.layers
        if not self.has_bert:
            words = self.embed(input_ids, inputs_embeds)
            if self.token_shift is not None:
                words = words + self.token_shift(words, attention_mask)
            hidden_states = self.input_layer(words)
        else:
            if input_ids is None:
                raise ValueError("BERT reads subwords: give `input_ids`, not `inputs_embeds`")
            known_ids = self.known_ids(input_ids)
            hidden_states = self.bert(known_ids, attention_mask)
            if self.config.side_layers:
                side = self.input_layer(self.embed(input_ids, inputs_embeds))
                for layer in layers[: self.config.side_layers]:
                    side, _ = layer(side, source_mask, **kwargs)
                hidden_states = torch.cat((hidden_states, side), dim=-1)
                layers = layers[self.config.side_layers :]
            hidden_states = self.reduction(hidden_states)
            if self.config.bert_reduction == "relu":
                hidden_states = nn.functional.relu(hidden_states)
            if self.token_shift is not None:
                # BERT's words are small compared with its states, and their LayerNorm is one of words and positions
                words = self.bert.bert.get_input_embeddings()(known_ids)
                words = nn.functional.layer_norm(words, words.shape[-1:])
                hidden_states = hidden_states + self.token_shift(words, attention_mask)
            hidden_states = self.dropout(hidden_states)
        for layer in layers:
            hidden_states, _ = layer(hidden_states, source_mask, **kwargs)
        return CopyEncoderOutput(last_hidden_state=self.layer_norm(hidden_states), source_ids=input_ids)


class CopyTransformerDecoder(CopyTransformerPreTrainedModel, CopyingDecoder):
    """A `CopyingDecoder` with trained word embeddings, or BERT's."""


class CopyTransformerModel(CopyTransformerPreTrainedModel, CopyingModel):
    """CopyTransformer's encoder and decoder with a shared embedding: the trained one, or BERT's."""

    def _create(self, config: CopyTransformerConfig) -> None:
        if config.uses_bert and config.bert_config is None:
            raise ValueError("the configuration of BERT has not been read: call `read_pretrained_parts(config)` first")
        if config.trains_embedding:
            self.shared = nn.Embedding(config.vocab_size, config.d_model, config.pad_token_id)
        self.encoder = CopyTransformerEncoder(
            config, tied_embedding(self.shared) if config.encoder_reads_words else None
        )
        relu = config.decoder_reduction == "relu"
        if config.decoder_embedding == "trained":
            embed_tokens = tied_embedding(self.shared)
        else:
            bert = self.encoder.bert.bert if self.encoder.has_bert else None
            words = bert_words(config.bert_config)
            if bert is not None:
                words = tied_embedding(bert.get_input_embeddings())
            if config.decoder_embedding == "bert":
                embed_tokens = BertWordEmbedding(words, config.d_model, config.train_bert, relu)
            else:
                embed_tokens = BertWordEmbedding(words, None, config.train_bert)
        self.decoder = CopyTransformerDecoder(config, embed_tokens)
        if config.decoder_embedding == "bert_module":
            # only the embeddings are used
            shallow: Any = copy.copy(config.bert_config)
            shallow.num_hidden_layers = 0
            bert = AutoModel.from_config(shallow)
            self.decoder.input_layer = BertInputLayer(bert, config.d_model, config.dropout, config.train_bert, relu)
        self._tied_weights_keys = self._find_ties()

    def _find_ties(self) -> dict[str, str]:
        """Maps the name of each tied weight to that of the weight it shares."""
        ties = {}
        if hasattr(self.encoder, "embed_tokens"):
            ties["encoder.embed_tokens.weight"] = "shared.weight"
        if self.config.decoder_embedding == "trained":
            ties["decoder.embed_tokens.weight"] = "shared.weight"
        elif self.encoder.has_bert:
            name = self.bert_embedding_name()
            ties["decoder.embed_tokens.words.weight"] = f"{name}.weight"
            if self.config.decoder_embedding == "bert_module":
                owner = name.rpartition(".")[0]
                for weight in parameter_names(self.decoder.input_layer.embeddings):
                    ties[f"decoder.input_layer.embeddings.{weight}"] = f"{owner}.{weight}"
        return ties

    def bert_embedding_name(self) -> str:
        """The dotted name of BERT's word embeddings."""
        if not self.encoder.has_bert:
            return "decoder.embed_tokens.words"
        return f"encoder.bert.bert.{word_embeddings_name(self.encoder.bert.bert)}"

    def get_input_embeddings(self) -> nn.Embedding:
        return self.shared if self.config.trains_embedding else self.decoder.embed_tokens.words

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        if not self.config.trains_embedding:
            self.decoder.embed_tokens.words = value
            return
        self.shared = value
        if hasattr(self.encoder, "embed_tokens"):
            self.encoder.embed_tokens = tied_embedding(value)
        if self.config.decoder_embedding == "trained":
            self.decoder.embed_tokens = tied_embedding(value)


class CopyTransformerForConditionalGeneration(CopyTransformerPreTrainedModel, CopyingForConditionalGeneration):
    """CopyTransformer with its output: a softmax over the vocabulary, mixed with copying (equation 4.3)."""

    generation_keys = own_settings("copy_transformer")

    def __init__(self, config: CopyTransformerConfig):
        super().__init__(config)
        self.model = CopyTransformerModel(config)
        width = config.d_model
        if config.output_embedding == "bert":
            name = f"model.{self.model.bert_embedding_name()}"
            width = self.get_submodule(name).embedding_dim
            # without a bias, which the output layer has
            self.output_map = nn.Linear(config.d_model, width, bias=False)
            self._tied_weights_keys = {"lm_head.weight": f"{name}.weight"}
        self.lm_head = nn.Linear(width, config.vocab_size)
        if config.copy:
            self.copy_gate = nn.Linear(config.d_model, 1)
        self.masked_lm = None
        if config.masked_lm_config is not None:
            if config.mask_token_id is None or not 0 <= config.mask_token_id < config.vocab_size:
                tokens = f"one of the {config.vocab_size} tokens, for the language model"
                raise ValueError(f"`mask_token_id` is {config.mask_token_id}, but must be {tokens}")
            self.masked_lm = AutoModelForMaskedLM.from_config(config.masked_lm_config)
            self._frozen = parameter_names(self.masked_lm)
        self.post_init()

    def save_pretrained(self, *args, **kwargs):
        tied_to = self._tied_weights_keys.get("lm_head.weight")
        if tied_to is not None and self.lm_head.weight is self.get_parameter(tied_to):
            # PEFT unsets it when it merges an adapter, unless BERT's words are the input embeddings
            self.config.tie_word_embeddings = True
        return super().save_pretrained(*args, **kwargs)

    def _further_code(self) -> list:
        needed = super()._further_code()
        return needed if self.masked_lm is None else [*needed, _language_model_layers().condition_in_training]

    def train(self, mode: bool = True):
        super().train(mode)
        if self.masked_lm is not None:
            if freeze(self.masked_lm, self._frozen) and mode:
                raise ValueError('the language model is not trained: omit it, with `exclude_modules=".*masked_lm.*"`')
            self.masked_lm.eval()
        return self

    def _output_states(self, outputs) -> torch.Tensor:
        states = super()._output_states(outputs)
        return self.output_map(states) if self.config.output_embedding == "bert" else states

    def _can_skip_logits(self) -> bool:
        return super()._can_skip_logits() and not self._conditions_training()

    def _conditions_training(self) -> bool:
        return self.training and self.masked_lm is not None and self.config.lm_training_factor != 1

    def _logits(self, outputs, gates, inputs) -> torch.Tensor:
        logits = super()._logits(outputs, gates, inputs)
        if not self._conditions_training():
            return logits
        if inputs["decoder_input_ids"] is None:
            raise ValueError("the language model reads subwords: give `decoder_input_ids`, not `decoder_inputs_embeds`")
        return _language_model_layers().condition_in_training(
            logits.to(torch.promote_types(logits.dtype, torch.float32)),
            inputs["decoder_input_ids"],
            self.masked_lm,
            self.config.mask_token_id,
            self.config.pad_token_id,
            top_tokens=self.config.lm_top_tokens,
            percentile=self.config.lm_training_percentile,
            factor=self.config.lm_training_factor,
            space=self.config.lm_space,
        )

    def _loss(self, logits, labels, num_items_in_batch, normalize: bool = True):
        # scores conditioned in log space are not normalized, as in the author's commented-out code
        normalize = not (self._conditions_training() and self.config.lm_space == "log")
        return super()._loss(logits, labels, num_items_in_batch, normalize)

    def check_generation_keys(self, generation_config) -> None:
        super().check_generation_keys(generation_config)
        # their constructor checks the settings
        self._language_model_processors(generation_config)

    def _get_logits_processor(self, generation_config, *args, **kwargs):
        processors = super()._get_logits_processor(generation_config, *args, **kwargs)
        # before transformers' own, as this one normalizes: probability of forbidden tokens must not move to others
        return LogitsProcessorList([*self._language_model_processors(generation_config), *processors])

    def _language_model_processors(self, generation_config) -> list[LogitsProcessor]:
        keys = ("lm_rejected_factor", "lm_accepted_factor", "lm_percentile", "lm_top_tokens")
        rejected, accepted, percentile, top_tokens = (getattr(generation_config, key, None) for key in keys)
        if rejected in (None, 1) and accepted in (None, 1):
            return []
        ends = generation_config.eos_token_id
        if self.masked_lm is None:
            raise ValueError("`lm_rejected_factor` and `lm_accepted_factor` need a masked language model")
        return [
            _language_model_layers().LanguageModelLogitsProcessor(
                self.masked_lm,
                self.config.mask_token_id,
                self.config.pad_token_id,
                top_tokens=self.config.lm_top_tokens if top_tokens is None else top_tokens,
                percentile=self.config.lm_percentile if percentile is None else percentile,
                rejected_factor=1.0 if rejected is None else rejected,
                accepted_factor=1.0 if accepted is None else accepted,
                space=self.config.lm_space,
                end_token_ids=[] if ends is None else [ends] if isinstance(ends, int) else ends,
            )
        ]


__all__ = ["CopyTransformerForConditionalGeneration", "CopyTransformerModel", "CopyTransformerPreTrainedModel"]
