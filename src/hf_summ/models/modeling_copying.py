"""The skeleton of all models: outputs, an encoder and a decoder together, and the output layer with its loss.

Every architecture can copy from the source; the config's `copy` decides.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers.modeling_outputs import (
    BaseModelOutput,
    BaseModelOutputWithPastAndCrossAttentions,
    ModelOutput,
    Seq2SeqLMOutput,
    Seq2SeqModelOutput,
)
from transformers.utils import can_return_tuple

from .checks import check_source_ids
from .generation_mixin import SummarizationGenerationMixin, running_generation
from .layers_copying import (
    check_labels,
    copy_log_probs,
    has_plain_output,
    project_to_words,
    smoothed_cross_entropy,
    source_columns,
    transition_scores,
    with_pointers,
)
from .layers_transformer import needs_plain_operations, tied_embedding
from .modeling_base import SummarizationPreTrainedModel, check_cache
from .text_documents import FIRST_POINTER, WordTable, word_table


@dataclass
class CopyEncoderOutput(BaseModelOutput):
    """transformers' `BaseModelOutput` with the source's subwords, which decoding steps would otherwise lack.

    Attributes:
        source_ids: (B, S), converted to 64 bits.
    """

    source_ids: torch.Tensor | None = None

    def __post_init__(self):
        if self.source_ids is not None:
            # copying uses the ids as indices of a scatter, which must have 64 bits
            self.source_ids = self.source_ids.long()
        super().__post_init__()


@dataclass
class CopyDecoderOutput(BaseModelOutputWithPastAndCrossAttentions):
    """transformers' decoder output with the copy distributions; see `CopySummarizationOutput`.

    Attributes:
        copy_gate_logits: (R, T), the logits of copying, if the decoder computes them.
    """

    copy_attentions: torch.Tensor | None = None
    copy_gate_logits: torch.Tensor | None = None
    coverage: torch.Tensor | None = None


@dataclass
class CopyModelOutput(Seq2SeqModelOutput):
    """transformers' `Seq2SeqModelOutput` with `source_ids` (B, S), the source's subwords; see `CopyDecoderOutput`."""

    copy_attentions: torch.Tensor | None = None
    copy_gate_logits: torch.Tensor | None = None
    coverage: torch.Tensor | None = None
    source_ids: torch.LongTensor | None = None


@dataclass
class CopySummarizationOutput(Seq2SeqLMOutput):
    """transformers' `Seq2SeqLMOutput` with the parts of the loss and the copy distributions.

    If the model copies, `logits` are normalized log-probabilities.

    Attributes:
        loss_parts: name -> float32 scalar, detached, normalized like the loss; `nll` is the negative log-likelihood
            without smoothing.
        copy_attentions: (R, T, S), the copy distributions over the source. A model that does not copy has the weights
            of the first head of the last layer's cross-attention here, and None in training.
        copy_gates: (R, T), the probabilities of copying.
        coverage: (R, S), the sum of the copy distributions since the summary's first position.
    """

    loss_parts: dict[str, torch.Tensor] | None = None
    copy_attentions: torch.Tensor | None = None
    copy_gates: torch.Tensor | None = None
    coverage: torch.Tensor | None = None


class CopyingModel(SummarizationPreTrainedModel):
    """The skeleton of every architecture's model: an encoder of the source, and a decoder that attends to it.

    Subclasses list this class as their last base.

    Attributes:
        encoder_class, decoder_class: the classes of encoder and decoder, which take the config and the word embedding.
        source_inputs: names of the encoder's inputs in addition to subwords.
        encoder_output_class: the class of the encoder's output.
        output_class: the class of the model's output.
    """

    encoder_class: Callable
    decoder_class: Callable
    source_inputs: tuple[str, ...] = ()
    encoder_output_class = CopyEncoderOutput
    output_class = CopyModelOutput
    _tied_weights_keys = {
        "encoder.embed_tokens.weight": "shared.weight",
        "decoder.embed_tokens.weight": "shared.weight",
    }

    def __init__(self, config):
        super().__init__(config)
        self._create(config)
        self.post_init()

    def _create(self, config) -> None:
        """Create `shared` (the word embedding), `encoder` and `decoder`."""
        width = getattr(config, "embedding_size", config.d_model)
        self.shared = nn.Embedding(config.vocab_size, width, config.pad_token_id)
        self.encoder = self.encoder_class(config, tied_embedding(self.shared))
        self.decoder = self.decoder_class(config, tied_embedding(self.shared))

    def get_expanded_tied_weights_keys(self, all_submodels: bool = False) -> dict[str, str]:
        # `tie_word_embeddings` concerns only the output layer
        return self._tied_weights_keys | super().get_expanded_tied_weights_keys(all_submodels)

    def get_input_embeddings(self) -> nn.Embedding:
        return self.shared

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        self.shared = value
        self.encoder.embed_tokens = tied_embedding(value)
        self.decoder.embed_tokens = tied_embedding(value)

    @can_return_tuple
    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        decoder_input_ids=None,
        decoder_attention_mask=None,
        encoder_outputs=None,
        cache=None,
        inputs_embeds=None,
        decoder_inputs_embeds=None,
        use_cache=None,
        **kwargs,
    ):
        """Source and `source_inputs` (B, S), and the summary so far (R, T) -> last_hidden_state (R, T, C).

        Raises:
            ValueError: the decoder has no input, or no whole number of rows for each document; the source is not a
                matrix; the attention mask has another shape; or `cache` was not created by this model.
        """
        if decoder_input_ids is None and decoder_inputs_embeds is None:
            raise ValueError("the decoder needs `decoder_input_ids`, which the model makes from `labels`: give either")
        # before transformers 5.24, the argument `cache` had this name
        cache = kwargs.pop("past_key_values", cache)
        check_cache(cache)
        source_inputs = {name: kwargs.pop(name) for name in self.source_inputs if name in kwargs}
        check_source_ids(input_ids)
        if encoder_outputs is None:
            encoder_outputs = self.encoder(
                input_ids=input_ids,
                attention_mask=attention_mask,
                inputs_embeds=inputs_embeds,
                **source_inputs,
                **kwargs,
            )
        encoder_outputs = self.read_encoder_outputs(encoder_outputs, input_ids)
        source_shape = encoder_outputs.last_hidden_state.shape[:2]
        # a mask of one row or column would be broadcast to all
        if attention_mask is not None and attention_mask.shape != source_shape:
            raise ValueError(
                f"`attention_mask` has shape {tuple(attention_mask.shape)}, but must have {tuple(source_shape)}"
            )
        decoder_inputs = decoder_inputs_embeds if decoder_input_ids is None else decoder_input_ids
        rows, documents = decoder_inputs.shape[0], source_shape[0]
        # the decoder regards consecutive rows as the rows of one document, and would mix documents
        if rows % documents:
            raise ValueError(f"{rows} rows of labels or decoder inputs but {documents} documents: give each its row")
        decoder_outputs = self.decoder(
            input_ids=decoder_input_ids,
            attention_mask=decoder_attention_mask,
            encoder_hidden_states=encoder_outputs.last_hidden_state,
            encoder_attention_mask=attention_mask,
            cache=cache,
            inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache,
            **self._decoder_inputs(encoder_outputs, attention_mask),
            **kwargs,
        )
        # without a prefix, a field such as the last hidden state is the decoder's, if the decoder has it
        fields = {}
        for name, value in encoder_outputs.items():
            fields[name] = value
            fields[f"encoder_{name}"] = value
        for name, value in decoder_outputs.items():
            fields[name] = value
            fields[f"decoder_{name}"] = value
        return _create_output(self.output_class, fields)

    def _decoder_inputs(self, encoder_outputs: BaseModelOutput, attention_mask) -> dict[str, Any]:
        """Further inputs of the decoder, by name, from the encoder's output and the mask (B, S); none here."""
        return {}

    def read_encoder_outputs(self, encoder_outputs, input_ids) -> CopyEncoderOutput:
        """The encoder's output as an `encoder_output_class`, with `source_ids`.

        Args:
            encoder_outputs: an output, or a tuple or list that starts with the hidden states.
            input_ids: (B, S), the source's subwords, for an output that lacks them.
        """
        if isinstance(encoder_outputs, (tuple, list)):
            encoder_outputs = self.encoder_output_class(last_hidden_state=encoder_outputs[0])
        if getattr(encoder_outputs, "source_ids", None) is not None:
            return encoder_outputs
        fields = {name: getattr(encoder_outputs, name, None) for name in self.encoder_output_class.__dataclass_fields__}
        fields["source_ids"] = input_ids
        return self.encoder_output_class(**fields)


class CopyingForConditionalGeneration(SummarizationPreTrainedModel, SummarizationGenerationMixin):
    """The skeleton of every model with its output: a softmax over the vocabulary, mixed with copying if it copies.

    With `unknown_ids`, words of documents and labels that the vocabulary lacks have ids from `vocab_size` on. The
    scores then have a column for each of `vocab_size` words, and one for each of S pointers to positions of the source.
    A word that the vocabulary lacks has the column of the pointer to its first occurrence. `generate()` returns the
    pointer to position i as the id `FIRST_POINTER` + i, which the processor's `batch_decode` looks up in the document.

    Subclasses create `model` and `lm_head`. If the model copies and its decoder returns no `copy_gate_logits`, they
    also create `copy_gate`, which maps the decoder's output to the logit of copying. `Trainer` and `generate()` inspect
    the signature of `forward`: subclasses with further inputs extend it by `with_inputs_of`.
    """

    output_class = CopySummarizationOutput
    # hf_summ sets `copy_cross_entropy`, which computes the loss without all logits, and is not saved with checkpoints
    fused_loss: Callable | None = None
    # PEFT collects the ties of submodels only if this is a mapping
    _tied_weights_keys: dict[str, str] = {}

    @can_return_tuple
    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        decoder_input_ids=None,
        decoder_attention_mask=None,
        encoder_outputs=None,
        cache=None,
        inputs_embeds=None,
        decoder_inputs_embeds=None,
        labels=None,
        use_cache=None,
        num_items_in_batch=None,
        skip_logits=None,
        **kwargs,
    ):
        """Compute the scores of the next subword and, if labels are given, the loss.

        Args:
            input_ids, attention_mask: (B, S).
            decoder_input_ids, decoder_attention_mask: (R, T), R = B · beams; made from `labels` when absent.
            encoder_outputs: the encoder's output, to reuse it.
            labels: (B, T), not shifted, -100 at ignored positions.
            num_items_in_batch: number of target tokens to divide the loss by, or (B, 1), one for each row; by default
                the number of target tokens in `labels`.
            skip_logits: whether to compute the loss without holding all logits in memory; logits are then None. By
                default true in training. It needs hf_summ; the code of a checkpoint alone ignores it.

        Returns:
            CopySummarizationOutput: logits (R, T, V), or (R, T, V + S) with pointers, log-probabilities if the model
            copies; loss and loss_parts if labels are given; copy_attentions, copy_gates and coverage if it copies.

        Raises:
            ValueError: a label is outside the vocabulary, labels have another shape than decoder inputs or more rows
                than documents, or copying lacks the source's subwords; or as the model's.
        """
        return self._forward(
            labels=labels,
            num_items_in_batch=num_items_in_batch,
            skip_logits=skip_logits,
            input_ids=input_ids,
            attention_mask=attention_mask,
            decoder_input_ids=decoder_input_ids,
            decoder_attention_mask=decoder_attention_mask,
            encoder_outputs=encoder_outputs,
            cache=cache,
            inputs_embeds=inputs_embeds,
            decoder_inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache,
            **kwargs,
        )

    def _forward(self, labels, num_items_in_batch, skip_logits, **inputs) -> CopySummarizationOutput:
        """As `forward`, with the model's inputs by name; models of ONNX graphs override it."""
        if labels is not None:
            labels = self.read_labels(labels.long(), inputs)
            inputs["use_cache"] = False
            if inputs["decoder_input_ids"] is None and inputs["decoder_inputs_embeds"] is None:
                inputs["decoder_input_ids"] = self.prepare_decoder_input_ids_from_labels(labels)
        outputs = self.model(**inputs)
        decoder_shape = outputs.last_hidden_state.shape[:2]
        documents = outputs.encoder_last_hidden_state.shape[0]
        # the loss would accept fewer labels
        if labels is not None and labels.shape != decoder_shape:
            raise ValueError(
                f"labels have shape {tuple(labels.shape)}, but decoder inputs {tuple(decoder_shape)}: make them equal"
            )
        # the losses of copying read the source of each row of labels
        if labels is not None and len(labels) != documents:
            raise ValueError(f"{len(labels)} rows of labels but {documents} documents: give each its row")
        fields = dict(outputs.items()) | self._score(outputs, inputs, labels, num_items_in_batch, skip_logits)
        return _create_output(self.output_class, fields)

    def read_labels(self, labels: torch.Tensor, inputs: Mapping[str, Any]) -> torch.Tensor:
        """The labels (B, T) as columns of the scores; a ValueError if a label is outside the vocabulary.

        `inputs` are the model's, by name. They hold the source's subwords in `input_ids` or `encoder_outputs`.
        """
        check_labels(labels, self.config.vocab_size, self.config.unknown_ids)
        source_ids = getattr(inputs.get("encoder_outputs"), "source_ids", None)
        if source_ids is None:
            source_ids = inputs.get("input_ids")
        return self.columns(labels, source_ids)

    @property
    def unknown_ids(self) -> int:
        """The number of ids from `vocab_size` on, of words that the vocabulary lacks; 0 if the model does not copy."""
        return self.config.unknown_ids if self.config.copy else 0

    def columns(self, ids: torch.Tensor, source_ids: torch.Tensor | None) -> torch.Tensor:
        """The columns (R, T) of the scores that belong to ids; see the class for the columns.

        A word that both the vocabulary and the source lack has the column of unknown words.

        Args:
            ids: (R, T), labels or a result of `generate()`.
            source_ids: (B, S), the source's subwords.
        """
        words = self.known_ids(ids)
        if source_ids is None or not self.unknown_ids:
            return words
        return with_pointers(words, ids, source_ids, self.config.vocab_size)

    def _score(self, outputs, inputs, labels, num_items_in_batch, skip_logits) -> dict[str, Any]:
        """Fields of the output: `logits` unless skipped, `loss` and `loss_parts` of labels, `copy_gates` if it copies.

        Args:
            outputs: the model's output.
            inputs: the model's inputs, by name.
            labels, num_items_in_batch, skip_logits: as in `forward`.
        """
        gate_logits = self._gate_logits(outputs) if self.config.copy else None
        if skip_logits is None:
            skip_logits = self.training
        can_fuse = labels is not None and skip_logits and self._can_fuse(labels, num_items_in_batch)
        if can_fuse and self.fused_loss is not None:
            loss, nll = self.fused_loss(
                self._output_states(outputs),
                self.lm_head.weight,
                self.lm_head.bias,
                gate_logits,
                outputs.copy_attentions,
                outputs.source_ids,
                labels,
                self.config.label_smoothing,
                num_items_in_batch,
                self.unknown_ids,
            )
            scored = {"loss": loss, "loss_parts": {"nll": nll}}
        else:
            logits = self._logits(outputs, gate_logits, inputs)
            scored = self._loss(logits, labels, num_items_in_batch)
        if gate_logits is not None:
            scored["copy_gates"] = gate_logits.sigmoid()
        return scored

    def _gate_logits(self, outputs) -> torch.Tensor:
        """The logits (R, T) of copying, from the decoder if it computes them, otherwise from `copy_gate`."""
        if outputs.source_ids is None:
            raise ValueError(
                "copying needs the source's subwords: give `input_ids`, even with `encoder_outputs`; prompt tuning "
                "gives embeddings instead, and is for models without copying"
            )
        if outputs.copy_gate_logits is not None:
            return outputs.copy_gate_logits
        return self.copy_gate(outputs.last_hidden_state)[..., 0]

    def _can_fuse(self, labels: torch.Tensor, num_items_in_batch: torch.Tensor | int | None) -> bool:
        """Whether a `fused_loss`, if there is one, can compute the loss."""
        if needs_plain_operations(labels) or not self._can_skip_logits():
            return False
        # such a loss divides all rows by one number
        return not torch.is_tensor(num_items_in_batch) or num_items_in_batch.dim() == 0

    def _can_skip_logits(self) -> bool:
        """Whether the loss may read weight and bias of the output layer without calling the layer."""
        return has_plain_output(self.lm_head)

    def _logits(self, outputs, gate_logits, inputs) -> torch.Tensor:
        """Scores (R, T, V), or (R, T, V + S) with pointers: log-probabilities if the model copies."""
        logits = project_to_words(self.lm_head, self._output_states(outputs))
        if gate_logits is None:
            return logits
        return copy_log_probs(logits, gate_logits, outputs.copy_attentions, outputs.source_ids, self.unknown_ids)

    def _output_states(self, outputs) -> torch.Tensor:
        """The inputs (R, T, W) of the output layer; here the decoder's output."""
        return outputs.last_hidden_state

    def _loss(self, logits, labels, num_items_in_batch, normalize: bool = True) -> dict[str, Any]:
        """Fields of the output: the scores (R, T, V) and, with labels, their smoothed cross-entropy."""
        if labels is None:
            return {"logits": logits}
        loss, nll = smoothed_cross_entropy(
            logits, labels, self.config.label_smoothing, num_items_in_batch, normalize, self.config.vocab_size
        )
        return {"logits": logits, "loss": loss, "loss_parts": {"nll": nll}}

    @property
    def _source_ids(self) -> torch.Tensor | None:
        """The ids (B, S) of the documents of the running `generate()`; None outside of it."""
        return getattr(running_generation(), "source_ids", None)

    def _prepare_decoder_input_ids_for_generation(self, *args, **kwargs):
        prompts, model_kwargs = super()._prepare_decoder_input_ids_for_generation(*args, **kwargs)
        return self.columns(prompts, self._source_ids), model_kwargs

    def _get_logits_processor(self, *args, encoder_input_ids=None, **kwargs):
        source_ids = self._source_ids
        if self.unknown_ids and source_ids is not None:
            # processors use the source's ids as indices of the scores
            encoder_input_ids, _ = source_columns(source_ids.long(), self.config.vocab_size, self.unknown_ids)
        return super()._get_logits_processor(*args, encoder_input_ids=encoder_input_ids, **kwargs)

    def _word_table(self) -> WordTable:
        source_ids = self._source_ids
        has_pointers = self.unknown_ids and source_ids is not None
        pointers = source_ids.shape[1] if has_pointers else 0
        return word_table(self._word_tokenizer(), self.config.vocab_size, pointers)

    def _written_ids(self, columns):
        if not self.unknown_ids:
            return columns
        vocab_size = self.config.vocab_size
        is_pointer_column = (columns >= vocab_size) & (columns < FIRST_POINTER)
        return torch.where(is_pointer_column, FIRST_POINTER + columns - vocab_size, columns)

    def compute_transition_scores(self, sequences, scores, beam_indices=None, normalize_logits=False):
        """transformers' method, for scores that may also have columns of pointers."""
        pointer_columns = self.config.vocab_size + sequences - FIRST_POINTER
        columns = torch.where(sequences < FIRST_POINTER, sequences, pointer_columns)
        return transition_scores(columns, scores, beam_indices, normalize_logits)


def with_inputs_of(base: Callable) -> Callable[[Callable], Callable]:
    """Decorator: the signature has the parameters of `base`, another `forward`, and the method's keyword-only ones."""

    def extend_signature(method: Any) -> Callable:
        parameters = list(inspect.signature(base).parameters.values())
        # the last parameter of `base` is **kwargs, which stays the last
        further_arguments = parameters.pop()
        for parameter in inspect.signature(method).parameters.values():
            if parameter.kind is parameter.KEYWORD_ONLY:
                parameters.append(parameter)
        parameters.append(further_arguments)
        method.__signature__ = inspect.Signature(parameters)
        return method

    return extend_signature


def _create_output(output_class: type[ModelOutput], values: Mapping[str, Any]) -> ModelOutput:
    """Create an output from the values whose names are fields of its class; other values are ignored."""
    # torch.compile does not support `dataclasses.fields`
    names = output_class.__dataclass_fields__
    fields = {name: value for name, value in values.items() if name in names}
    return output_class(**fields)


# checkpoints are saved with their code
CopyingModel.register_for_auto_class("AutoModel")
CopyingForConditionalGeneration.register_for_auto_class("AutoModelForSeq2SeqLM")
