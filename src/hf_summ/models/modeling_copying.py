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

from .checks import IGNORED_LABEL, check_source_ids
from .generation_mixin import SummarizationGenerationMixin, running_generation
from .layers_copying import copy_log_probs, smoothed_cross_entropy, source_columns
from .layers_transformer import is_symbolic, needs_plain_operations, tied_embedding
from .modeling_base import DecoderStateLayer, SummarizationPreTrainedModel
from .text_documents import FIRST_POINTER, WordTable, word_table

# for so few states, a CPU multiplies a wide matrix up to twice as fast if they are columns rather than rows
_FEW_ROWS = range(2, 9)


@dataclass
class CopyEncoderOutput(BaseModelOutput):
    """transformers' `BaseModelOutput` with the source's subwords, which decoding steps would otherwise lack.

    Attributes:
        source_ids: (B, S).
    """

    source_ids: torch.Tensor | None = None

    def __post_init__(self):
        if self.source_ids is not None:
            # copying scatters to them, and callers may have 32 bits
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
    """transformers' `Seq2SeqModelOutput` with the copy distributions; see `CopySummarizationOutput`.

    Attributes:
        copy_gate_logits: (R, T), the logits of copying, if the decoder computes them.
        source_ids: (B, S), the source's subwords.
    """

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
        copy_attentions: (R, T, S), the copy distributions over the source. For a model that does not copy, the weights
            of the first head of the last layer's cross-attention; None in training.
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
        encoder_class, decoder_class: their classes, which take the config and the shared word embedding.
        encoder_output_class: the class of the encoder's output.
        source_inputs: names of the encoder's inputs in addition to subwords.
    """

    encoder_class: Callable
    decoder_class: Callable
    source_inputs: tuple[str, ...] = ()
    encoder_output_class = CopyEncoderOutput
    output_class = CopyModelOutput
    _tied_weights_keys = {f"{side}.embed_tokens.weight": "shared.weight" for side in ("encoder", "decoder")}

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
        for reader in (self.encoder, self.decoder):
            reader.embed_tokens = tied_embedding(value)

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
            ValueError: the decoder has no input, or no whole number of rows for each document; the source is no matrix;
                the attention mask has another shape; or `cache` was not created by this model.
        """
        if decoder_input_ids is None and decoder_inputs_embeds is None:
            raise ValueError("the decoder needs `decoder_input_ids`, which the model makes from `labels`: give either")
        # the name before transformers 5.24
        cache = kwargs.pop("past_key_values", cache)
        _check_cache(cache)
        source = {name: kwargs.pop(name) for name in self.source_inputs if name in kwargs}
        check_source_ids(input_ids)
        if encoder_outputs is None:
            encoder_outputs = self.encoder(
                input_ids=input_ids, attention_mask=attention_mask, inputs_embeds=inputs_embeds, **source, **kwargs
            )
        encoder_outputs = self.read_encoder_outputs(encoder_outputs, input_ids)
        shape = documents, _ = encoder_outputs.last_hidden_state.shape[:2]
        # a mask of one row or column would be that of all
        if attention_mask is not None and attention_mask.shape != shape:
            raise ValueError(f"`attention_mask` has shape {(*attention_mask.shape,)}, but must have {(*shape,)}")
        rows = (decoder_inputs_embeds if decoder_input_ids is None else decoder_input_ids).shape[0]
        # a view would mix the rows of documents
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
        # unprefixed, the decoder's fields are the model's (last hidden state, cross-attentions)
        encoded = {f"encoder_{name}": value for name, value in encoder_outputs.items()}
        decoded = {f"decoder_{name}": value for name, value in decoder_outputs.items()}
        return _filled(self.output_class, encoder_outputs, encoded, decoded, decoder_outputs)

    def _decoder_inputs(self, encoder_outputs: BaseModelOutput, attention_mask) -> dict[str, Any]:
        """Further inputs of the decoder from the encoder's output, by name."""
        return {}

    def read_encoder_outputs(self, encoder_outputs, input_ids) -> CopyEncoderOutput:
        """The encoder's output as an `encoder_output_class`; callers may pass states in a tuple, or no subwords."""
        names = self.encoder_output_class.__dataclass_fields__
        if isinstance(encoder_outputs, (tuple, list)):
            encoder_outputs = self.encoder_output_class(last_hidden_state=encoder_outputs[0])
        if getattr(encoder_outputs, "source_ids", None) is not None:
            return encoder_outputs
        fields = {name: getattr(encoder_outputs, name, None) for name in names}
        return self.encoder_output_class(**{**fields, "source_ids": input_ids})


class CopyingForConditionalGeneration(SummarizationPreTrainedModel, SummarizationGenerationMixin):
    """The skeleton of every model with its output: a softmax over the vocabulary, mixed with copying if it copies.

    With `unknown_ids`, words of documents and labels that the vocabulary lacks have ids from `vocab_size` on. The
    scores then have a column for each of `vocab_size` words, and one for each of S pointers to positions of the source.
    A word that the vocabulary lacks has the column of the pointer to its first occurrence. `generate()` returns
    pointers as ids from `FIRST_POINTER` on, which the processor's `batch_decode` looks up in the document.

    Subclasses create `model` and `lm_head`. If the model copies and its decoder returns no `copy_gate_logits`, they
    also create `copy_gate`, which maps the decoder's output to the logit of copying. `Trainer` and `generate()` inspect
    the signature of `forward`: subclasses with further inputs extend it by `with_inputs_of`.
    """

    output_class = CopySummarizationOutput
    # the loss without the logits; hf_summ sets `copy_cross_entropy`, which is not saved with checkpoints
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
                those of `labels`.
            skip_logits: whether to compute the loss without holding all logits in memory; logits are then None. By
                default true in training. It needs hf_summ; the code of a checkpoint alone ignores it.

        Returns:
            CopySummarizationOutput: logits (R, T, V), or (R, T, V + S) with pointers, log-probabilities if the model
            copies; loss and loss_parts if labels are given; copy_attentions, copy_gates and coverage if it copies.

        Raises:
            ValueError: a label is outside the vocabulary, labels have another shape than decoder inputs, or copying
                lacks the source's subwords; or as the model's.
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
        """As `forward`, with the model's inputs by name."""
        if labels is not None:
            labels = self.read_labels(labels.long(), inputs)
            inputs["use_cache"] = False
            if inputs["decoder_input_ids"] is None and inputs["decoder_inputs_embeds"] is None:
                inputs["decoder_input_ids"] = self.prepare_decoder_input_ids_from_labels(labels)
        outputs = self.model(**inputs)
        # `gather` would accept fewer
        shape = outputs.last_hidden_state.shape[:2]
        if labels is not None and labels.shape != shape:
            raise ValueError(f"labels have shape {(*labels.shape,)}, but decoder inputs {(*shape,)}: make them equal")
        scored = self._score(outputs, inputs, labels, num_items_in_batch, skip_logits)
        return _filled(self.output_class, outputs, scored)

    def read_labels(self, labels: torch.Tensor, inputs: Mapping[str, Any]) -> torch.Tensor:
        """The labels (B, T) as columns of the scores, for the model's `inputs`."""
        _check_labels(labels, self.config)
        source_ids = getattr(inputs.get("encoder_outputs"), "source_ids", None)
        return self.columns(labels, inputs.get("input_ids") if source_ids is None else source_ids)

    @property
    def unknown_ids(self) -> int:
        """The number of ids from `vocab_size` on, of words that the vocabulary lacks; 0 if none is copied."""
        return self.config.unknown_ids if self.config.copy else 0

    def columns(self, ids: torch.Tensor, source_ids: torch.Tensor | None) -> torch.Tensor:
        """The columns of the scores of `ids` (R, T), as of labels or of `generate()`, for `source_ids` (B, S).

        A word that both the vocabulary and the source lack has the column of unknown words.
        """
        if not self.config.unknown_ids:
            return ids
        size, pointers = self.config.vocab_size, ids - FIRST_POINTER
        words = self.known_ids(ids)
        if source_ids is None or not self.unknown_ids:
            return words
        source_ids = source_ids.repeat_interleave(ids.shape[0] // source_ids.shape[0], 0)
        is_same = (ids[:, :, None] == source_ids[:, None]) & (ids >= size)[..., None]
        positions = torch.where(pointers < 0, is_same.to(torch.uint8).argmax(-1), pointers)
        return torch.where((pointers >= 0) | is_same.any(-1), size + positions, words)

    def _score(self, outputs, inputs, labels, num_items_in_batch, skip_logits) -> dict[str, Any]:
        """Fields of the output: `logits`, and `copy_gates` if the model copies; with labels `loss` and `loss_parts`.

        Args:
            outputs: the model's output.
            inputs: the model's inputs, by name.
            labels, num_items_in_batch, skip_logits: as in `forward`.
        """
        gates = None
        if self.config.copy:
            if outputs.source_ids is None:
                raise ValueError(
                    "copying needs the source's subwords: give `input_ids`, even with `encoder_outputs`; prompt tuning "
                    "gives embeddings instead, and is for models without copying"
                )
            gates = outputs.copy_gate_logits
            if gates is None:
                gates = self.copy_gate(outputs.last_hidden_state)[..., 0]
        if skip_logits is None:
            skip_logits = self.training
        # the fused loss divides all rows by one number
        has_one_divisor = not torch.is_tensor(num_items_in_batch) or num_items_in_batch.dim() == 0
        can_skip = self.fused_loss is not None and has_one_divisor and self._can_skip_logits()
        if labels is not None and skip_logits and can_skip and not needs_plain_operations(labels):
            loss, nll = self.fused_loss(
                self._output_states(outputs),
                self.lm_head.weight,
                self.lm_head.bias,
                gates,
                outputs.copy_attentions,
                outputs.source_ids,
                labels,
                self.config.label_smoothing,
                num_items_in_batch,
                self.unknown_ids,
            )
            scored = {"loss": loss, "loss_parts": {"nll": nll}}
        else:
            scored = self._loss(self._logits(outputs, gates, inputs), labels, num_items_in_batch)
        return scored if gates is None else {**scored, "copy_gates": gates.sigmoid()}

    def _can_skip_logits(self) -> bool:
        return self._has_plain_output()

    def _has_plain_output(self) -> bool:
        # an adapter adds to weight and bias, FSDP2, which derives a class from the layer's, gathers both only when the
        # layer is called, and torchao replaces the weight
        layer = self.lm_head
        if type(layer) is not nn.Linear or type(layer.weight) is not nn.Parameter:
            return False
        # what others add to a call of the layer: accelerate and DeepSpeed also load its weight then
        hooks = (layer._forward_hooks, layer._forward_pre_hooks, layer._backward_hooks, layer._backward_pre_hooks)
        return "forward" not in vars(layer) and not any(hooks)

    def _logits(self, outputs, gates, inputs) -> torch.Tensor:
        """Scores (R, T, V), or (R, T, V + S) with pointers: log-probabilities if the model copies."""
        logits = self._project(self._output_states(outputs))
        if gates is None:
            return logits
        return copy_log_probs(logits, gates, outputs.copy_attentions, outputs.source_ids, self.unknown_ids)

    def _output_states(self, outputs) -> torch.Tensor:
        """The inputs (R, T, W) of the output layer; here the decoder's output."""
        return outputs.last_hidden_state

    def _project(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """Apply the output layer: hidden states (R, T, C) -> scores (R, T, V)."""
        layer, states = self.lm_head, hidden_states.flatten(0, 1)
        is_plain = self._has_plain_output() and layer.weight.device.type == "cpu" and states.dtype == torch.float32
        # a compiled graph must work for any number of rows
        is_recorded = torch.is_grad_enabled() or torch.compiler.is_compiling()
        if is_recorded or not is_plain or len(states) not in _FEW_ROWS:
            return layer(hidden_states)
        if layer.bias is None:
            scores = layer.weight @ states.T
        else:
            scores = torch.addmm(layer.bias[:, None], layer.weight, states.T)
        return scores.T.contiguous().unflatten(0, hidden_states.shape[:2])

    def _loss(self, logits, labels, num_items_in_batch, normalize: bool = True) -> dict[str, Any]:
        """Scores (R, T, V) and, with labels, their smoothed cross-entropy, as fields of the output."""
        if labels is None:
            return {"logits": logits}
        settings = self.config.label_smoothing, num_items_in_batch, normalize, self.config.vocab_size
        loss, nll = smoothed_cross_entropy(logits, labels, *settings)
        return {"logits": logits, "loss": loss, "loss_parts": {"nll": nll}}

    @property
    def _source_ids(self) -> torch.Tensor | None:
        """The ids of the documents of the running `generate()`."""
        return getattr(running_generation(), "source_ids", None)

    def _prepare_decoder_input_ids_for_generation(self, *args, **kwargs):
        prompts, model_kwargs = super()._prepare_decoder_input_ids_for_generation(*args, **kwargs)
        return self.columns(prompts, self._source_ids), model_kwargs

    def _get_logits_processor(self, *args, encoder_input_ids=None, **kwargs):
        if self.unknown_ids and (source_ids := self._source_ids) is not None:
            # processors index the scores by them
            encoder_input_ids, _ = source_columns(source_ids.long(), self.config.vocab_size, self.unknown_ids)
        return super()._get_logits_processor(*args, encoder_input_ids=encoder_input_ids, **kwargs)

    def _word_table(self) -> WordTable:
        source_ids = self._source_ids
        pointers = source_ids.shape[1] if self.unknown_ids and source_ids is not None else 0
        return word_table(self._word_tokenizer(), self.config.vocab_size, pointers)

    def _finished(self, sequences, running):
        is_word = (sequences < self.config.vocab_size) | (sequences >= FIRST_POINTER)
        pointers = FIRST_POINTER + sequences - self.config.vocab_size
        return torch.where(is_word, sequences, pointers) if self.unknown_ids else sequences


def with_inputs_of(base: Callable) -> Callable:
    """Decorator: list the parameters of another `forward` before a method's own in its signature."""

    def extend(method: Any) -> Any:
        inherited, own = ([*inspect.signature(function).parameters.values()] for function in (base, method))
        further = [parameter for parameter in own if parameter.kind is parameter.KEYWORD_ONLY]
        method.__signature__ = inspect.Signature([*inherited[:-1], *further, inherited[-1]])
        return method

    return extend


def check_prompts(attention_mask: torch.Tensor | None) -> None:
    """Raise a ValueError for tokens (R, T) after masked ones, which a recurrent decoder would read all the same."""
    if attention_mask is None or is_symbolic(attention_mask):
        return
    if bool((attention_mask[:, 1:] > attention_mask[:, :-1]).any()):
        raise ValueError("`decoder_attention_mask` has padding before tokens: give recurrent decoders equal lengths")


def _check_cache(cache) -> None:
    """Raise a ValueError for a cache whose last layer is no `DecoderStateLayer`, unlike all of ours."""
    layers = getattr(getattr(cache, "self_attention_cache", None), "layers", None) or [None]
    if cache is not None and not isinstance(layers[-1], DecoderStateLayer):
        raise ValueError("`cache` is not from this model: omit it; for prefix tuning, which adds one, use LoRA instead")


def _check_labels(labels: torch.Tensor, config) -> None:
    """Raise a ValueError for a label that is neither a word nor a pointer, before it reaches an embedding."""
    # on an accelerator this check would synchronize at every step, and the device asserts the range anyway
    if labels.device.type != "cpu" or is_symbolic(labels):
        return
    is_outside = (labels >= config.vocab_size + config.unknown_ids) | ((labels < 0) & (labels != IGNORED_LABEL))
    if config.unknown_ids:
        is_outside &= labels < FIRST_POINTER
    outside = labels[is_outside]
    if outside.numel():
        size = f"the vocabulary of {config.vocab_size}"
        raise ValueError(f"label {outside[0]} is outside {size}: use the model's own processor")


def _filled(output_class: type[ModelOutput], *outputs: Mapping[str, Any]) -> ModelOutput:
    """Create an output; each field comes from the last of the outputs that has it."""
    # torch.compile does not support `dataclasses.fields`
    names = output_class.__dataclass_fields__
    return output_class(**{name: value for output in outputs for name, value in output.items() if name in names})


# checkpoints are saved with their code
CopyingModel.register_for_auto_class("AutoModel")
CopyingForConditionalGeneration.register_for_auto_class("AutoModelForSeq2SeqLM")
