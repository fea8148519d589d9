"""CopyTransformer with convolutional self-attention and BERT (Aksenov 2020; docs/equations.md, section 2)."""

import copy
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch import nn
from transformers import AutoModel, AutoModelForMaskedLM, LogitsProcessor, LogitsProcessorList, PreTrainedConfig
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .checks import added_settings
from .configuration_copy_transformer import CopyTransformerConfig
from .layers_copy_transformer import (
    BertInputLayer,
    BertWindows,
    BertWordEmbedding,
    freeze,
    parameter_names,
    windowed_attention,
    word_embeddings_name,
)
from .layers_transformer import (
    InputLayer,
    MultiHeadAttention,
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
    """The module that only checkpoints with a masked language model (LM) need, and that only they are saved with."""
    return import_module(".layers_language_model", __package__)


class CopyTransformerPreTrainedModel(SummarizationPreTrainedModel):
    """Base of the CopyTransformer models."""

    config_class = CopyTransformerConfig
    _no_split_modules = ["TransformerEncoderLayer", "TransformerDecoderLayer"]

    def resize_token_embeddings(self, new_num_tokens=None, pad_to_multiple_of=None, *args, **kwargs):
        """transformers' `resize_token_embeddings`.

        Raises:
            ValueError: the size changes, but BERT or a language model fixes the vocabulary.
        """
        config = self.config
        if not config.uses_bert and config.masked_lm_config is None:
            return super().resize_token_embeddings(new_num_tokens, pad_to_multiple_of, *args, **kwargs)
        keeps_size = new_num_tokens in (None, config.vocab_size) and pad_to_multiple_of is None
        if keeps_size:
            return self.get_input_embeddings()
        raise ValueError(f"the vocabulary of a pre-trained model cannot be resized to {new_num_tokens}")


class ConvolutionalSelfAttention(MultiHeadAttention):
    """Multi-head self-attention within a window of positions and of neighboring heads (Aksenov 2020, section 4.2.1).

    `MultiHeadAttention` and `windowed_attention` describe the arguments.
    """

    def __init__(self, *args, window_size: int, head_window_size: int, circular: bool):
        super().__init__(*args)
        self.window_size = window_size
        self.head_window_size = head_window_size
        self.circular = circular

    def forward(
        self, hidden_states: torch.Tensor, attention_mask: torch.Tensor | None = None, **kwargs
    ) -> tuple[torch.Tensor, None]:
        """(B, S, C) and a mask (B, 1, 1, S), true at tokens -> (B, S, C) and None in place of weights."""
        padding_mask = None if attention_mask is None else attention_mask[:, 0, 0]
        queries, keys, values = self._project(hidden_states)
        context = windowed_attention(
            queries,
            keys,
            values,
            window_size=self.window_size,
            head_window_size=self.head_window_size,
            circular=self.circular,
            padding_mask=padding_mask,
            dropout=self.dropout,
            training=self.training,
        )
        return self.out_proj(context.transpose(1, 2).flatten(2)), None


def _self_attention(config: CopyTransformerConfig, layer_index: int) -> nn.Module:
    """Create the self-attention of an encoder layer.

    It is convolutional in the lowest layers, as many as the config's `convolutional_layers`, if the config asks for it.
    """
    width, num_heads, dropout = config.d_model, config.num_heads, config.attention_dropout
    scope = config.convolutional_attention
    if scope == "none" or layer_index >= config.convolutional_layers:
        return SelfAttention(config, width, num_heads, dropout)
    return ConvolutionalSelfAttention(
        config,
        width,
        num_heads,
        dropout,
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
            reduced_width = config.bert_layers * config.bert_config.hidden_size
            if config.side_layers:
                reduced_width += config.d_model
            self.reduction = nn.Linear(reduced_width, config.d_model)
        self.token_shift = None
        if config.token_shift:
            words = self.bert.bert.get_input_embeddings() if self.has_bert else embed_tokens
            self.token_shift = TokenShift(words.embedding_dim, config.d_model)
        self.dropout = nn.Dropout(config.dropout)
        number_of_layers = 0 if config.encoder_type == "bert" else config.encoder_layers
        self.layers = nn.ModuleList()
        for index in range(number_of_layers):
            attention = _self_attention(config, index)
            layer = TransformerEncoderLayer(config, attention, activation_dropout=config.activation_dropout)
            self.layers.append(layer)
        # without Transformer layers there is no stack to normalize
        self.layer_norm = stack_norm(config) if number_of_layers else nn.Identity()
        self.gradient_checkpointing = False
        self.post_init()

    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, attention_mask=None, inputs_embeds=None, **kwargs):
        """`input_ids` and `attention_mask` (B, S) -> last_hidden_state (B, S, C) and the ids as source_ids.

        Raises:
            ValueError: BERT has to read the source, but only `inputs_embeds` are given.
        """
        source_mask = source_padding_mask(attention_mask)
        layers = self.layers
        if self.has_bert:
            if input_ids is None:
                raise ValueError("BERT reads subwords: give `input_ids`, not `inputs_embeds`")
            known_ids = self.known_ids(input_ids)
            hidden_states = self.bert(known_ids, attention_mask)
            if self.config.side_layers:
                # beside BERT, the first layers read the words
                side_states = self.input_layer(self.embed(input_ids, inputs_embeds))
                for layer in layers[: self.config.side_layers]:
                    side_states, _ = layer(side_states, source_mask, **kwargs)
                hidden_states = torch.cat((hidden_states, side_states), dim=-1)
                layers = layers[self.config.side_layers :]
            hidden_states = self._reduce(hidden_states, known_ids, attention_mask)
        else:
            words = self.embed(input_ids, inputs_embeds)
            if self.token_shift is not None:
                words = words + self.token_shift(words, attention_mask)
            hidden_states = self.input_layer(words)
        for layer in layers:
            hidden_states, _ = layer(hidden_states, source_mask, **kwargs)
        return CopyEncoderOutput(last_hidden_state=self.layer_norm(hidden_states), source_ids=input_ids)

    def _reduce(self, states, input_ids, attention_mask) -> torch.Tensor:
        """Reduce the states (B, S, W) of BERT and the side layers to (B, S, C); ids and mask are (B, S)."""
        hidden_states = self.reduction(states)
        if self.config.bert_reduction == "relu":
            hidden_states = nn.functional.relu(hidden_states)
        if self.token_shift is not None:
            # BERT's words are small compared with its states, and BERT's own LayerNorm is for words with positions
            words = self.bert.bert.get_input_embeddings()(input_ids)
            words = nn.functional.layer_norm(words, words.shape[-1:])
            hidden_states = hidden_states + self.token_shift(words, attention_mask)
        return self.dropout(hidden_states)


class CopyTransformerDecoder(CopyTransformerPreTrainedModel, CopyingDecoder):
    """A `CopyingDecoder` with trained word embeddings, or BERT's."""


def bert_words(config: PreTrainedConfig) -> nn.Embedding:
    """A new word embedding for a BERT of this configuration."""
    # ALBERT and ELECTRA have embeddings narrower than their layers
    width = getattr(config, "embedding_size", None) or config.hidden_size
    return nn.Embedding(config.vocab_size, width, config.pad_token_id)


def check_embedding_module(bert_config: PreTrainedConfig) -> None:
    """Raise a ValueError if the configuration tells that a decoder cannot use this BERT's embedding module.

    `BertInputLayer` raises one for other BERTs without learned positions.
    """
    problem = None
    # ModernBERT cannot be created without layers, so `BertInputLayer` would never see it
    if getattr(bert_config, "rope_parameters", None) is not None:
        problem = "needs a BERT with learned positions, but {} has none"
    elif getattr(bert_config, "trigram_input", False):
        problem = "needs a BERT that embeds each word alone, but {} also reads the next word, which is to be predicted"
    if problem is not None:
        reason = problem.format(bert_config.model_type)
        raise ValueError(f'`decoder_embedding="bert_module"` {reason}: set `decoder_embedding` to "bert"')


class CopyTransformerModel(CopyTransformerPreTrainedModel, CopyingModel):
    """CopyTransformer's encoder and decoder with a shared embedding: the trained one, or BERT's."""

    def _create(self, config: CopyTransformerConfig) -> None:
        if config.uses_bert and config.bert_config is None:
            raise ValueError("the configuration of BERT has not been read: call `read_pretrained_parts(config)` first")
        if config.trains_embedding:
            self.shared = nn.Embedding(config.vocab_size, config.d_model, config.pad_token_id)
        encoder_words = tied_embedding(self.shared) if config.encoder_reads_words else None
        self.encoder = CopyTransformerEncoder(config, encoder_words)
        self.decoder = CopyTransformerDecoder(config, self._decoder_words(config))
        if config.decoder_embedding == "bert_module":
            check_embedding_module(config.bert_config)
            # only the embedding module of this BERT is used, so it needs no layers
            shallow: Any = copy.copy(config.bert_config)
            shallow.num_hidden_layers = 0
            bert = AutoModel.from_config(shallow)
            has_relu = config.decoder_reduction == "relu"
            self.decoder.input_layer = BertInputLayer(bert, config.d_model, config.dropout, config.train_bert, has_relu)
        self._tied_weights_keys = self._find_ties()

    def _decoder_words(self, config: CopyTransformerConfig) -> nn.Module:
        """The decoder's word embedding: the trained one, or BERT's, which an encoder with BERT shares."""
        if config.decoder_embedding == "trained":
            return tied_embedding(self.shared)
        # even an embedding that is replaced draws random numbers, on which the weights of a seed depend
        words = bert_words(config.bert_config)
        if self.encoder.has_bert:
            words = tied_embedding(self.encoder.bert.bert.get_input_embeddings())
        if config.decoder_embedding == "bert":
            return BertWordEmbedding(words, config.d_model, config.train_bert, config.decoder_reduction == "relu")
        # the input layer reduces the words
        return BertWordEmbedding(words, None, config.train_bert)

    def _find_ties(self) -> dict[str, str]:
        """The name of each tied weight -> the name of the weight that it shares."""
        ties = {}
        if hasattr(self.encoder, "embed_tokens"):
            ties["encoder.embed_tokens.weight"] = "shared.weight"
        if self.config.decoder_embedding == "trained":
            ties["decoder.embed_tokens.weight"] = "shared.weight"
        elif self.encoder.has_bert:
            words_name = self.bert_embedding_name()
            ties["decoder.embed_tokens.words.weight"] = f"{words_name}.weight"
            if self.config.decoder_embedding == "bert_module":
                module_name = words_name.rpartition(".")[0]
                for weight in parameter_names(self.decoder.input_layer.embeddings):
                    ties[f"decoder.input_layer.embeddings.{weight}"] = f"{module_name}.{weight}"
        return ties

    def bert_embedding_name(self) -> str:
        """The dotted name of the module with BERT's word embeddings inside this model."""
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

    generation_keys = added_settings("copy_transformer")

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
            has_mask = config.mask_token_id is not None and 0 <= config.mask_token_id < config.vocab_size
            if not has_mask:
                raise ValueError(
                    f"`mask_token_id` is {config.mask_token_id}, but must be one of the {config.vocab_size} tokens, "
                    "for the language model"
                )
            self.masked_lm = AutoModelForMaskedLM.from_config(config.masked_lm_config)
            self._frozen = parameter_names(self.masked_lm)
        self.post_init()

    def save_pretrained(self, *args, **kwargs):
        tied_to = self._tied_weights_keys.get("lm_head.weight")
        if tied_to is not None and self.lm_head.weight is self.get_parameter(tied_to):
            # PEFT sets this key to False when it merges an adapter, unless BERT's words are the input embeddings
            self.config.tie_word_embeddings = True
        return super().save_pretrained(*args, **kwargs)

    def _optional_code(self) -> list[type | FunctionType]:
        needed = super()._optional_code()
        if self.masked_lm is not None:
            needed.append(_language_model_layers().condition_in_training)
        return needed

    def train(self, mode: bool = True):
        """Set the mode. The language model stays frozen, and in evaluation mode.

        Raises:
            ValueError: `mode` is true, and an adapter would train parts of the language model.
        """
        super().train(mode)
        if self.masked_lm is not None:
            has_trained_parts = freeze(self.masked_lm, self._frozen)
            if has_trained_parts and mode:
                raise ValueError('the language model is not trained: omit it, with `exclude_modules=".*masked_lm.*"`')
            self.masked_lm.eval()
        return self

    def _output_states(self, outputs) -> torch.Tensor:
        states = super()._output_states(outputs)
        if self.config.output_embedding == "bert":
            states = self.output_map(states)
        return states

    def _can_skip_logits(self) -> bool:
        return super()._can_skip_logits() and not self._conditions_training()

    def _conditions_training(self) -> bool:
        """Whether the language model raises scores in training, before the loss is computed."""
        return self.training and self.masked_lm is not None and self.config.lm_training_factor != 1

    def _logits(self, outputs, gate_logits, inputs) -> torch.Tensor:
        """As the base's; in training, the language model raises scores if the config's `lm_training_factor` is not 1.

        Raises:
            ValueError: the language model needs the decoder's subwords, but only embeddings are given.
        """
        logits = super()._logits(outputs, gate_logits, inputs)
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
        # scores that are conditioned in log space are not normalized, as in the author's commented-out code
        is_conditioned_in_log = self._conditions_training() and self.config.lm_space == "log"
        return super()._loss(logits, labels, num_items_in_batch, normalize=not is_conditioned_in_log)

    def check_generation_keys(self, generation_config) -> None:
        super().check_generation_keys(generation_config)
        # this call raises the error if settings of a language model are given, but the model has no language model
        self._language_model_processors(generation_config)

    def _get_logits_processor(self, generation_config, *args, **kwargs):
        processors = super()._get_logits_processor(generation_config, *args, **kwargs)
        # the language model's processor normalizes. It precedes the processors of transformers, which forbid tokens, so
        # that the probability of forbidden tokens does not move to other tokens
        return LogitsProcessorList(self._language_model_processors(generation_config) + list(processors))

    def _language_model_processors(self, generation_config) -> list[LogitsProcessor]:
        """The processor of the language model, in a list, which is empty if no factor changes scores.

        A setting that the generation config lacks has the value of the model's config; a factor is then 1.

        Raises:
            ValueError: a factor is not 1, but the model has no language model.
        """
        rejected_factor = self._generation_setting(generation_config, "lm_rejected_factor", 1.0)
        accepted_factor = self._generation_setting(generation_config, "lm_accepted_factor", 1.0)
        if rejected_factor == 1 and accepted_factor == 1:
            return []
        if self.masked_lm is None:
            raise ValueError("`lm_rejected_factor` and `lm_accepted_factor` need a masked language model")
        end_token_ids = generation_config.eos_token_id
        if end_token_ids is None:
            end_token_ids = []
        elif isinstance(end_token_ids, int):
            end_token_ids = [end_token_ids]
        processor = _language_model_layers().LanguageModelLogitsProcessor(
            self.masked_lm,
            self.config.mask_token_id,
            self.config.pad_token_id,
            top_tokens=self._generation_setting(generation_config, "lm_top_tokens", self.config.lm_top_tokens),
            percentile=self._generation_setting(generation_config, "lm_percentile", self.config.lm_percentile),
            rejected_factor=rejected_factor,
            accepted_factor=accepted_factor,
            space=self.config.lm_space,
            end_token_ids=end_token_ids,
        )
        return [processor]

    @staticmethod
    def _generation_setting(generation_config, name: str, default: float) -> Any:
        """A setting of the generation config, or the default if it is None or absent."""
        value = getattr(generation_config, name, None)
        return default if value is None else value


__all__ = ["CopyTransformerForConditionalGeneration", "CopyTransformerModel", "CopyTransformerPreTrainedModel"]
