"""CopyTransformer, with convolutional self-attention and BERT conditioning (Aksenov 2020)."""

from collections.abc import Collection

import torch
from torch import nn
from transformers import AutoModel, AutoModelForMaskedLM, LogitsProcessorList
from transformers.utils import can_return_tuple

from .configuration_copy_transformer import CopyTransformerConfig
from .generation_language_model import LanguageModelLogitsProcessor
from .generation_mixin import SummarizationGenerationMixin
from .layers_bert import word_embeddings_name
from .layers_copying import copy_log_probs
from .layers_language_model import condition_in_training
from .losses import check_labels, smoothed_cross_entropy
from .losses_copying import copy_cross_entropy
from .modeling_copy import CopyModelOutput, CopySummarizationOutput, with_source_ids
from .modeling_copy_transformer_stacks import (
    CopyTransformerDecoder,
    CopyTransformerEncoder,
    CopyTransformerPreTrainedModel,
)
from .pretrained_parts import read_model


class CopyTransformerModel(CopyTransformerPreTrainedModel):
    """Encoder and decoder, which share their embedding: the trained one, or BERT's."""

    def __init__(self, config: CopyTransformerConfig):
        super().__init__(config)
        if config.uses_bert and config.bert_config is None:
            raise ValueError(
                f"the configuration of BERT ({config.bert_name!r}) has not been read: call "
                "`config.read_pretrained_parts()` first, or give `bert_config`"
            )
        if config.trains_embedding:
            self.shared = nn.Embedding(config.vocab_size, config.d_model, config.pad_token_id)
        self.encoder = CopyTransformerEncoder(config)
        self.decoder = CopyTransformerDecoder(config)
        self._tied_weights_keys = self._find_ties()
        self.post_init()

    def _find_ties(self) -> dict[str, str]:
        """Weight -> the one that it shares."""
        ties = {}
        if hasattr(self.encoder, "embed_tokens"):
            ties["encoder.embed_tokens.weight"] = "shared.weight"
        if self.config.decoder_embedding == "trained":
            ties["decoder.embed_tokens.weight"] = "shared.weight"
        elif self.encoder.has_bert:
            words = word_embeddings_name(self.encoder.bert.bert)
            ties["decoder.embed_tokens.words.weight"] = f"encoder.bert.bert.{words}.weight"
        return ties

    def get_input_embeddings(self) -> nn.Embedding:
        return self.shared if self.config.trains_embedding else self.decoder.embed_tokens.words

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        if not self.config.trains_embedding:
            self.decoder.embed_tokens.words = value
            return
        self.shared = value
        if hasattr(self.encoder, "embed_tokens"):
            self.encoder.embed_tokens = value
        if self.config.decoder_embedding == "trained":
            self.decoder.embed_tokens = value

    def load_bert(self, **hub_settings) -> None:
        """Take BERT's weights from the checkpoint that the config's `bert_name` names.

        Raises:
            ValueError: the checkpoint cannot be read, or lacks weights.
        """
        config = self.config
        bert = read_model(
            AutoModel, "bert_name", config.bert_name, config.bert_config, unused=("pooler",), **hub_settings
        )
        if self.encoder.has_bert:
            # it has no pooler, which nothing would train
            self.encoder.bert.bert.load_state_dict(bert.state_dict(), strict=False)
        if config.decoder_embedding == "bert":
            self.decoder.embed_tokens.words.load_state_dict(bert.get_input_embeddings().state_dict())

    @can_return_tuple
    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        decoder_input_ids=None,
        decoder_attention_mask=None,
        encoder_outputs=None,
        past_key_values=None,
        inputs_embeds=None,
        decoder_inputs_embeds=None,
        use_cache=None,
        **kwargs,
    ):
        """Source (B, S) and summary so far (R, T) -> last_hidden_state (R, T, C) and copy_attentions (R, T, S)."""
        if encoder_outputs is None:
            encoder_outputs = self.encoder(
                input_ids=input_ids, attention_mask=attention_mask, inputs_embeds=inputs_embeds, **kwargs
            )
        encoder_outputs = with_source_ids(encoder_outputs, input_ids)
        decoder_outputs = self.decoder(
            input_ids=decoder_input_ids,
            attention_mask=decoder_attention_mask,
            encoder_hidden_states=encoder_outputs.last_hidden_state,
            encoder_attention_mask=attention_mask,
            past_key_values=past_key_values,
            inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache,
            **kwargs,
        )
        return CopyModelOutput(
            last_hidden_state=decoder_outputs.last_hidden_state,
            past_key_values=decoder_outputs.past_key_values,
            decoder_hidden_states=decoder_outputs.hidden_states,
            decoder_attentions=decoder_outputs.attentions,
            cross_attentions=decoder_outputs.cross_attentions,
            encoder_last_hidden_state=encoder_outputs.last_hidden_state,
            encoder_hidden_states=encoder_outputs.hidden_states,
            encoder_attentions=encoder_outputs.attentions,
            copy_attentions=decoder_outputs.copy_attentions,
            coverage=decoder_outputs.coverage,
            source_ids=encoder_outputs.source_ids,
        )


class CopyTransformerForConditionalGeneration(CopyTransformerPreTrainedModel, SummarizationGenerationMixin):
    """CopyTransformer with its output: a softmax over the vocabulary, mixed with copying (equation 4.3)."""

    generation_keys = (
        *SummarizationGenerationMixin.generation_keys,
        "lm_rejected_factor",
        "lm_accepted_factor",
        "lm_percentile",
        "lm_top_tokens",
    )

    def __init__(self, config: CopyTransformerConfig):
        super().__init__(config)
        self.model = CopyTransformerModel(config)
        self.lm_head = nn.Linear(config.d_model, config.vocab_size)
        if config.copy:
            self.copy_gate = nn.Linear(config.d_model, 1)
        self.masked_lm = None
        if config.masked_lm_config is not None:
            if config.mask_token_id is None or not 0 <= config.mask_token_id < config.vocab_size:
                raise ValueError(
                    f"`mask_token_id` is {config.mask_token_id}, no token of the {config.vocab_size}: the language "
                    "model needs its mask, so take the tokenizer that came with it"
                )
            self.masked_lm = AutoModelForMaskedLM.from_config(config.masked_lm_config).requires_grad_(False)
        self.post_init()

    @property
    def has_copy_attention(self) -> bool:
        return self.config.copy

    def train(self, mode: bool = True):
        super().train(mode)
        if self.masked_lm is not None:
            # loading a checkpoint makes trainable parameters of all; it ends in `eval()`, which leads here
            self.masked_lm.requires_grad_(False).eval()
        return self

    def load_pretrained_parts(self, missing: Collection[str] | None = None, **hub_settings) -> set[str]:
        """Take the weights of BERT and of the masked language model from the checkpoints that the config names.

        Args:
            missing: names of weights; then only a part that has some of these is loaded.
            hub_settings: `cache_dir`, `token` and the like, for `from_pretrained`.

        Returns:
            those of `missing` that are still missing.

        Raises:
            ValueError: a checkpoint cannot be read, or lacks weights.
        """
        config, left = self.config, set(missing or ())

        def is_wanted(name: str | None, *prefixes: str) -> bool:
            found = {weight for weight in left if weight.startswith(prefixes)}
            left.difference_update(found if name is not None else ())
            return name is not None and (missing is None or bool(found))

        if config.uses_bert and is_wanted(config.bert_name, "model.encoder.bert.", "model.decoder.embed_tokens.words."):
            self.model.load_bert(**hub_settings)
        if self.masked_lm is not None and is_wanted(config.masked_lm_name, "masked_lm."):
            name, nested = config.masked_lm_name, config.masked_lm_config
            masked_lm = read_model(AutoModelForMaskedLM, "masked_lm_name", name, nested, **hub_settings)
            self.masked_lm.load_state_dict(masked_lm.state_dict())
        return left

    @can_return_tuple
    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        decoder_input_ids=None,
        decoder_attention_mask=None,
        encoder_outputs=None,
        past_key_values=None,
        inputs_embeds=None,
        decoder_inputs_embeds=None,
        labels=None,
        use_cache=None,
        num_items_in_batch=None,
        skip_logits=None,
        **kwargs,
    ):
        """Source and summary so far to scores of the next subword, and to the loss where labels are given.

        Args:
            input_ids, attention_mask: (B, S).
            decoder_input_ids, decoder_attention_mask: (R, T), R = B · beams; made from `labels` when absent.
            encoder_outputs: the encoder's, to go on from.
            labels: (B, T), not shifted, -100 where nothing is to be predicted.
            num_items_in_batch: target tokens that the loss is divided by; else those of `labels`.
            skip_logits: compute the loss without ever holding all logits, which are then None; by default in training.

        Returns:
            CopySummarizationOutput: logits (R, T, V), log-probabilities where the model copies; loss and loss_parts
            when labels are given; copy_attentions, copy_gates and coverage where it copies.

        Raises:
            ValueError: a label is outside the vocabulary; the source's subwords, to copy from, are missing.
        """
        if labels is not None:
            check_labels(labels, self.config.vocab_size)
            use_cache = False
            if decoder_input_ids is None and decoder_inputs_embeds is None:
                decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        outputs = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            decoder_input_ids=decoder_input_ids,
            decoder_attention_mask=decoder_attention_mask,
            encoder_outputs=encoder_outputs,
            past_key_values=past_key_values,
            inputs_embeds=inputs_embeds,
            decoder_inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache,
            **kwargs,
        )
        if self.config.copy and outputs.source_ids is None:
            raise ValueError("copying needs the source's subwords: give `input_ids`, also beside `encoder_outputs`")
        gates = self.copy_gate(outputs.last_hidden_state)[..., 0] if self.config.copy else None
        if skip_logits is None:
            skip_logits = self.training
        logits = loss = loss_parts = None
        if labels is not None and skip_logits and self._can_skip_logits():
            loss, nll = copy_cross_entropy(
                outputs.last_hidden_state,
                self.lm_head.weight,
                self.lm_head.bias,
                gates,
                outputs.copy_attentions,
                outputs.source_ids,
                labels,
                self.config.label_smoothing,
                num_items_in_batch,
            )
        else:
            logits = self._logits(outputs, gates, decoder_input_ids)
            if labels is not None:
                loss, nll = smoothed_cross_entropy(logits, labels, self.config.label_smoothing, num_items_in_batch)
        if loss is not None:
            loss_parts = {"nll": nll}
        return CopySummarizationOutput(
            loss=loss,
            loss_parts=loss_parts,
            logits=logits,
            past_key_values=outputs.past_key_values,
            decoder_hidden_states=outputs.decoder_hidden_states,
            decoder_attentions=outputs.decoder_attentions,
            cross_attentions=outputs.cross_attentions,
            encoder_last_hidden_state=outputs.encoder_last_hidden_state,
            encoder_hidden_states=outputs.encoder_hidden_states,
            encoder_attentions=outputs.encoder_attentions,
            copy_attentions=outputs.copy_attentions,
            copy_gates=None if gates is None else gates.sigmoid(),
            coverage=outputs.coverage,
        )

    def _can_skip_logits(self) -> bool:
        # an adapter on the output layer computes more than its weight says
        return type(self.lm_head) is nn.Linear and not self._conditions_training()

    def _conditions_training(self) -> bool:
        return self.training and self.masked_lm is not None and self.config.lm_training_factor != 1

    def _logits(self, outputs, gates, decoder_input_ids) -> torch.Tensor:
        logits = self.lm_head(outputs.last_hidden_state)
        if gates is not None:
            return copy_log_probs(logits, gates, outputs.copy_attentions, outputs.source_ids)
        if not self._conditions_training():
            return logits
        if decoder_input_ids is None:
            raise ValueError("the language model reads subwords: give `decoder_input_ids`, not `decoder_inputs_embeds`")
        return condition_in_training(
            logits.to(torch.promote_types(logits.dtype, torch.float32)),
            decoder_input_ids,
            self.masked_lm,
            self.config.mask_token_id,
            self.config.pad_token_id,
            top_tokens=self.config.lm_top_tokens,
            percentile=self.config.lm_percentile,
            factor=self.config.lm_training_factor,
        )

    def check_generation_keys(self, generation_config) -> None:
        super().check_generation_keys(generation_config)
        # refuses what is impossible
        self._language_model_processors(generation_config)

    def _get_logits_processor(self, generation_config, *args, **kwargs):
        processors = super()._get_logits_processor(generation_config, *args, **kwargs)
        # first, also before transformers' own: it normalises, and what the others forbid is not to go to the rest
        return LogitsProcessorList([*self._language_model_processors(generation_config), *processors])

    def _language_model_processors(self, generation_config) -> list[LanguageModelLogitsProcessor]:
        keys = ("lm_rejected_factor", "lm_accepted_factor", "lm_percentile", "lm_top_tokens")
        rejected, accepted, percentile, top_tokens = (getattr(generation_config, key, None) for key in keys)
        if rejected in (None, 1) and accepted in (None, 1):
            return []
        if self.masked_lm is None:
            raise ValueError(
                "`lm_rejected_factor` and `lm_accepted_factor` need a masked language model: build the model with "
                "`copy=False` and `masked_lm_name`, or set both to 1"
            )
        return [
            LanguageModelLogitsProcessor(
                self.masked_lm,
                self.config.mask_token_id,
                self.config.pad_token_id,
                top_tokens=self.config.lm_top_tokens if top_tokens is None else top_tokens,
                percentile=self.config.lm_percentile if percentile is None else percentile,
                rejected_factor=1.0 if rejected is None else rejected,
                accepted_factor=1.0 if accepted is None else accepted,
            )
        ]


__all__ = ["CopyTransformerForConditionalGeneration", "CopyTransformerModel", "CopyTransformerPreTrainedModel"]
