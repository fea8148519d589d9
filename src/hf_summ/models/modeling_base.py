"""What the models of all architectures share: their outputs, and the skeleton of encoder, decoder and output layer."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutput, ModelOutput, Seq2SeqLMOutput, Seq2SeqModelOutput
from transformers.utils import can_return_tuple

from .generation_mixin import SummarizationGenerationMixin
from .losses import check_labels, shift_right, smoothed_cross_entropy

if TYPE_CHECKING:
    # transformers finds what travels to the Hub by these import lines: the pipeline goes with every model
    from .pipeline_summarization import SummarizationPipeline  # noqa: F401


@dataclass
class SummarizationOutput(Seq2SeqLMOutput):
    """transformers' `Seq2SeqLMOutput`, and the parts of the loss.

    Attributes:
        loss_parts: name -> float32 scalar, detached, normalised as the loss is; `nll` is the negative log-likelihood
            without smoothing.
    """

    loss_parts: dict[str, torch.Tensor] | None = None


class SummarizationPreTrainedModel(PreTrainedModel):
    """Base of the architectures' models."""

    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _skip_keys_device_placement = ["past_key_values"]
    # the decoder's state cannot be rolled back, as assisted decoding would
    _is_stateful = True
    _supports_sdpa = True

    def post_init(self):
        super().post_init()
        if self.can_generate():
            # else transformers rebuilds it from the model's config on loading, and drops our keys
            self.generation_config._from_model_config = False

    def prepare_decoder_input_ids_from_labels(self, labels: torch.Tensor) -> torch.Tensor:
        """Decoder inputs for teacher forcing, (B, T) -> (B, T)."""
        return shift_right(labels, self.config.decoder_start_token_id, self.config.pad_token_id)

    @torch.no_grad()
    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            init.xavier_uniform_(module.weight)
            if module.bias is not None:
                init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            init.normal_(module.weight, mean=0.0, std=self.config.d_model**-0.5)
            if module.padding_idx is not None and not getattr(module.weight, "_is_hf_initialized", False):
                init.zeros_(module.weight[module.padding_idx])
        else:
            super()._init_weights(module)


class SummarizationModel(SummarizationPreTrainedModel):
    """The skeleton of every architecture's encoder and decoder: the source is encoded, and the decoder reads it.

    An architecture's model names this class last among its bases, and makes `shared`, the words' embedding, `encoder`
    and `decoder`.

    Attributes:
        source_inputs: what the encoder reads beside subwords, by the names of the model's inputs.
        output_class: what the decoder and the encoder put out together.
    """

    source_inputs: tuple[str, ...] = ()
    output_class = Seq2SeqModelOutput

    def get_input_embeddings(self) -> nn.Embedding:
        return self.shared

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        self.shared = self.encoder.embed_tokens = self.decoder.embed_tokens = value

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
        """Source (B, S), with `source_inputs` alike, and summary so far (R, T) -> last_hidden_state (R, T, C)."""
        source = {name: kwargs.pop(name) for name in self.source_inputs if name in kwargs}
        if encoder_outputs is None:
            encoder_outputs = self.encoder(
                input_ids=input_ids, attention_mask=attention_mask, inputs_embeds=inputs_embeds, **source, **kwargs
            )
        encoder_outputs = self._read_encoder_outputs(encoder_outputs, input_ids)
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
        # the decoder's last hidden state and cross-attentions are the model's, all else that both have is told apart
        encoded = {f"encoder_{name}": value for name, value in encoder_outputs.items()}
        decoded = {f"decoder_{name}": value for name, value in decoder_outputs.items()}
        return filled(self.output_class, encoder_outputs, encoded, decoded, decoder_outputs)

    def _read_encoder_outputs(self, encoder_outputs, input_ids) -> BaseModelOutput:
        """An encoder's output, also where the caller has it as a tuple."""
        if isinstance(encoder_outputs, (tuple, list)):
            return BaseModelOutput(*encoder_outputs)
        return encoder_outputs


class SummarizationForConditionalGeneration(SummarizationPreTrainedModel, SummarizationGenerationMixin):
    """The skeleton of every architecture's model with its output layer, which is its `lm_head`.

    An architecture's `forward` has all its inputs in its signature, where `Trainer` and `generate()` look for them, and
    hands them to `_forward`; what it scores otherwise it says in `_score`.

    Attributes:
        scoring_inputs: inputs that are not the model's but `_score`'s.
        output_class: what comes out.
    """

    scoring_inputs: tuple[str, ...] = ()
    output_class = SummarizationOutput

    def _forward(self, labels=None, num_items_in_batch=None, **inputs) -> SummarizationOutput:
        """Inputs by name to states, and states to scores of the next subword, or to the loss where labels are given.

        Raises:
            ValueError: a label is outside the vocabulary.
        """
        scoring = {name: inputs.pop(name) for name in self.scoring_inputs}
        if labels is not None:
            check_labels(labels, self.config.vocab_size)
            inputs["use_cache"] = False
            if inputs["decoder_input_ids"] is None and inputs["decoder_inputs_embeds"] is None:
                inputs["decoder_input_ids"] = self.prepare_decoder_input_ids_from_labels(labels)
        outputs = self.model(**inputs)
        scored = self._score(outputs, inputs, labels, num_items_in_batch, **scoring)
        return filled(self.output_class, outputs, scored)

    def _score(self, outputs, inputs, labels, num_items_in_batch) -> dict[str, Any]:
        """Fields of the output: `logits`; with labels `loss`, and its parts as `loss_parts`.

        Args:
            outputs: the model's.
            inputs: what it was given, by name.
            labels, num_items_in_batch: as in `forward`.
        """
        return self._loss(self.lm_head(outputs.last_hidden_state), labels, num_items_in_batch)

    def _loss(self, logits, labels, num_items_in_batch) -> dict[str, Any]:
        """Scores (R, T, V), and with labels their smoothed cross-entropy, as fields of the output."""
        if labels is None:
            return {"logits": logits}
        loss, nll = smoothed_cross_entropy(logits, labels, self.config.label_smoothing, num_items_in_batch)
        return {"logits": logits, "loss": loss, "loss_parts": {"nll": nll}}


def filled(output_class: type[ModelOutput], *parts: Mapping[str, Any]) -> ModelOutput:
    """An output of the class; each of its fields from the last part that has it."""
    names = {field.name for field in dataclasses.fields(output_class)}
    return output_class(**{name: value for part in parts for name, value in part.items() if name in names})
