"""Encoder and decoder of CopyTransformer."""

import math

import torch
from torch import nn
from transformers import AutoModel
from transformers.cache_utils import DynamicLayer
from transformers.masking_utils import create_causal_mask
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .configuration_copy_transformer import CopyTransformerConfig
from .generation_cache import DecoderStateLayer, make_decoder_cache
from .layers_bert import HIDDEN_STATES, BertWindows
from .layers_copying import CopyAttention
from .layers_transformer import (
    CrossAttention,
    SelfAttention,
    SinusoidalPositions,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
    source_padding_mask,
)
from .layers_windowed_attention import ConvolutionalSelfAttention
from .modeling_base import SummarizationPreTrainedModel
from .modeling_copy import CopyDecoderOutput, CopyEncoderOutput


class CopyTransformerPreTrainedModel(SummarizationPreTrainedModel):
    """What transformers asks of CopyTransformer's models."""

    config_class = CopyTransformerConfig
    _no_split_modules = ["TransformerEncoderLayer", "TransformerDecoderLayer"]

    def resize_token_embeddings(self, new_num_tokens=None, pad_to_multiple_of=None, *args, **kwargs):
        """transformers' `resize_token_embeddings`; a vocabulary that is BERT's or a language model's is refused."""
        config = self.config
        if not config.uses_bert and config.masked_lm_config is None:
            return super().resize_token_embeddings(new_num_tokens, pad_to_multiple_of, *args, **kwargs)
        if new_num_tokens in (None, config.vocab_size) and pad_to_multiple_of is None:
            return self.get_input_embeddings()
        raise ValueError(
            f"the vocabulary is BERT's and cannot be resized to {new_num_tokens}: use the tokenizer that came with it"
        )


class BertWordEmbedding(nn.Module):
    """BERT's word embeddings, reduced to the model's width (section 4.2.5)."""

    def __init__(self, config: CopyTransformerConfig):
        super().__init__()
        bert = config.bert_config
        # ALBERT and ELECTRA have words narrower than their layers
        width = getattr(bert, "embedding_size", None) or bert.hidden_size
        self.words = nn.Embedding(bert.vocab_size, width, bert.pad_token_id)
        self.reduction = nn.Linear(width, config.d_model)
        self.trainable = config.train_bert
        self.train()

    def train(self, mode: bool = True):
        """Set the mode, and keep the words as they are, unless they are to learn."""
        if not self.trainable:
            # loading a checkpoint makes trainable parameters of all; it ends in `eval()`, which leads here
            self.words.requires_grad_(False)
        return super().train(mode)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """(R, T) -> (R, T, C)."""
        return self.reduction(self.words(input_ids))


def _self_attention(config: CopyTransformerConfig, layer_index: int) -> nn.Module:
    """An encoder layer's self-attention: the lowest layers' may be convolutional."""
    width, heads, dropout = config.d_model, config.num_heads, config.attention_dropout
    kind = config.convolutional_attention
    if kind == "none" or layer_index >= config.convolutional_layers:
        return SelfAttention(config, width, heads, dropout)
    return ConvolutionalSelfAttention(
        width,
        heads,
        config.window_size,
        head_window_size=1 if kind == "1d" else config.head_window_size,
        circular=kind == "2d_circular",
        dropout=dropout,
    )


def _coverage(copy_attentions: torch.Tensor, attention_mask: torch.Tensor | None) -> torch.Tensor:
    """The copy distributions (R, T, S) added up over the positions that are not padding, (R, S)."""
    copied = copy_attentions.detach()
    # a sum of many steps needs more digits than a half precision has
    copied = copied.to(torch.promote_types(copied.dtype, torch.float32))
    if attention_mask is not None:
        copied = copied * attention_mask[:, -copied.shape[1] :, None]
    return copied.sum(1)


class CopyTransformerEncoder(CopyTransformerPreTrainedModel):
    """The source to one representation a position: of embeddings, of BERT, or of both."""

    _can_record_outputs = {
        "hidden_states": TransformerEncoderLayer,
        "attentions": OutputRecorder(SelfAttention, index=1, layer_name="self_attention"),
    }

    def __init__(self, config: CopyTransformerConfig):
        super().__init__(config)
        self.has_bert = config.encoder_type != "transformer"
        if not self.has_bert or config.side_layers:
            self.embed_tokens = nn.Embedding(config.vocab_size, config.d_model, config.pad_token_id)
            self.positions = SinusoidalPositions(config.d_model)
        if self.has_bert:
            self.bert = BertWindows(
                AutoModel.from_config(config.bert_config),
                config.bert_window_size,
                config.bert_window_stride,
                trainable=config.train_bert,
            )
            side_width = config.d_model if config.side_layers else 0
            self.reduction = nn.Linear(HIDDEN_STATES * config.bert_config.hidden_size + side_width, config.d_model)
        self.dropout = nn.Dropout(config.dropout)
        layers = 0 if config.encoder_type == "bert" else config.encoder_layers
        self.layers = nn.ModuleList(
            TransformerEncoderLayer(config, _self_attention(config, index)) for index in range(layers)
        )
        self.gradient_checkpointing = False
        self.post_init()

    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, attention_mask=None, inputs_embeds=None, **kwargs):
        """`input_ids` and `attention_mask` (B, S) -> last_hidden_state (B, S, C), and the ids as source_ids."""
        source_mask = source_padding_mask(attention_mask)
        layers = self.layers
        if not self.has_bert:
            hidden_states = self._embed(input_ids, inputs_embeds)
        else:
            if input_ids is None:
                raise ValueError("BERT reads subwords: give `input_ids`, as `inputs_embeds` cannot be turned into them")
            hidden_states = self.bert(input_ids, attention_mask)
            if self.config.side_layers:
                side = self._embed(input_ids, inputs_embeds)
                for layer in layers[: self.config.side_layers]:
                    side = layer(side, source_mask, **kwargs)
                hidden_states = torch.cat((hidden_states, side), dim=-1)
                layers = layers[self.config.side_layers :]
            hidden_states = self.reduction(hidden_states)
            if self.config.bert_reduction == "relu":
                hidden_states = nn.functional.relu(hidden_states)
            hidden_states = self.dropout(hidden_states)
        for layer in layers:
            hidden_states = layer(hidden_states, source_mask, **kwargs)
        return CopyEncoderOutput(last_hidden_state=hidden_states, source_ids=input_ids)

    def _embed(self, input_ids, inputs_embeds):
        words = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        positions = self.positions(0, words.shape[1], words.device, words.dtype)
        return self.dropout(math.sqrt(self.config.d_model) * words + positions)


class CopyTransformerDecoder(CopyTransformerPreTrainedModel):
    """The summary so far to one representation a position, and to where each next subword is copied from."""

    _can_record_outputs = {
        "hidden_states": TransformerDecoderLayer,
        "attentions": OutputRecorder(SelfAttention, index=1, layer_name="self_attention"),
        "cross_attentions": OutputRecorder(CrossAttention, index=1, layer_name="cross_attention"),
    }

    def __init__(self, config: CopyTransformerConfig):
        super().__init__(config)
        if config.decoder_embedding == "bert":
            self.embed_tokens = BertWordEmbedding(config)
        else:
            self.embed_tokens = nn.Embedding(config.vocab_size, config.d_model, config.pad_token_id)
        self.positions = SinusoidalPositions(config.d_model)
        self.dropout = nn.Dropout(config.dropout)
        last = config.decoder_layers - 1
        copies_from_last = config.copy and config.copy_attention == "last"
        self.layers = nn.ModuleList(
            TransformerDecoderLayer(config, index, needs_weights=copies_from_last and index == last)
            for index in range(config.decoder_layers)
        )
        if config.copy and config.copy_attention == "separate":
            self.copy_attention = CopyAttention(config.d_model, layer_index=config.decoder_layers)
        self.gradient_checkpointing = False
        self.post_init()

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        encoder_hidden_states=None,
        encoder_attention_mask=None,
        past_key_values=None,
        inputs_embeds=None,
        use_cache=None,
        **kwargs,
    ):
        """`input_ids` (R, T), R = B · beams; `encoder_hidden_states` (B, S, C) -> last_hidden_state (R, T, C).

        Copying: copy_attentions (R, T, S), and coverage (R, S), their sum from the first position on.
        """
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        if use_cache and past_key_values is None:
            # the last layer keeps what is there beside keys and values: the coverage
            past_key_values = make_decoder_cache([*(DynamicLayer() for _ in self.layers), DecoderStateLayer()])
        length = inputs_embeds.shape[1]
        hidden_states = self.dropout(self._with_positions(inputs_embeds, past_key_values))
        own_cache = None if past_key_values is None else past_key_values.self_attention_cache
        if own_cache is not None and not isinstance(own_cache.layers[-1], DecoderStateLayer):
            raise ValueError(
                "`past_key_values` is no cache of this model's: leave it out, as the decoder makes its own"
            )
        causal_mask = create_causal_mask(
            config=self.config,
            inputs_embeds=hidden_states,
            attention_mask=attention_mask,
            past_key_values=own_cache,
        )
        source_mask = source_padding_mask(encoder_attention_mask)
        weights = None
        for layer in self.layers:
            hidden_states, weights = layer(
                hidden_states,
                encoder_hidden_states,
                causal_mask=causal_mask,
                source_mask=source_mask,
                past_key_values=past_key_values,
                **kwargs,
            )
        copy_attentions = coverage = None
        if self.config.copy:
            if self.config.copy_attention == "separate":
                copy_attentions = self.copy_attention(
                    hidden_states, encoder_hidden_states, source_mask, past_key_values
                )
            else:
                copy_attentions = weights.mean(1)
            coverage = _coverage(copy_attentions, attention_mask)
            if own_cache is not None:
                coverage = own_cache.layers[-1].accumulate("coverage", coverage)
        if own_cache is not None:
            own_cache.layers[-1].advance(length)
        return CopyDecoderOutput(
            last_hidden_state=hidden_states,
            past_key_values=past_key_values,
            copy_attentions=copy_attentions,
            coverage=coverage,
        )

    def _with_positions(self, embeddings, past_key_values):
        seen = 0 if past_key_values is None else past_key_values.get_seq_length()
        positions = self.positions(seen, embeddings.shape[1], embeddings.device, embeddings.dtype)
        # BERT's words too: they are narrow, and beside unscaled positions a decoder does not learn to see them
        return math.sqrt(self.config.d_model) * embeddings + positions


__all__ = ["CopyTransformerDecoder", "CopyTransformerEncoder", "CopyTransformerPreTrainedModel"]
