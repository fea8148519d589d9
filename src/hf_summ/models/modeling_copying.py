"""The skeleton of models that copy from the source: outputs, Transformer encoder and decoder, and output layer."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import nn
from transformers.cache_utils import DynamicLayer
from transformers.masking_utils import create_causal_mask
from transformers.modeling_outputs import (
    BaseModelOutput,
    BaseModelOutputWithPastAndCrossAttentions,
    Seq2SeqModelOutput,
)
from transformers.utils import can_return_tuple
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .generation_coverage import CoveragePenaltyLogitsProcessor
from .generation_mixin import running_generation
from .layers_copying import CopyAttention, copy_log_probs
from .layers_token_shift import TokenShift
from .layers_transformer import (
    CrossAttention,
    InputLayer,
    SelfAttention,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
    cache_argument,
    source_padding_mask,
    stack_norm,
)
from .losses_copying import copy_cross_entropy
from .modeling_base import (
    DecoderStateLayer,
    SummarizationForConditionalGeneration,
    SummarizationModel,
    SummarizationOutput,
    SummarizationPreTrainedModel,
    make_decoder_cache,
)


@dataclass
class CopyEncoderOutput(BaseModelOutput):
    """transformers' `BaseModelOutput` with the source's subwords, which decoding steps would otherwise lack.

    Attributes:
        source_ids: (B, S).
    """

    source_ids: torch.LongTensor | None = None


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
class CopySummarizationOutput(SummarizationOutput):
    """`SummarizationOutput` with the copy distributions; `logits` are normalized log-probabilities if the model copies.

    Attributes:
        copy_attentions: (R, T, S), the copy distributions over the source. For a model that does not copy, the weights
            of the first head of the last layer's cross-attention; None in training.
        copy_gates: (R, T), the probabilities of copying.
        coverage: (R, S), the sum of the copy distributions since the summary's first position.
    """

    copy_attentions: torch.Tensor | None = None
    copy_gates: torch.Tensor | None = None
    coverage: torch.Tensor | None = None


class CopyingEncoder(SummarizationPreTrainedModel):
    """A Transformer encoder with trained word embeddings.

    Subclasses define `forward`, which calls `encode`, and may override `self_attention`.

    Args:
        config: has `encoder_layers`, `token_shift`, `activation_dropout`, optionally `activation`, and the settings of
            `InputLayer` and `TransformerEncoderLayer`.
        embed_tokens: the word embedding.
    """

    _can_record_outputs = {
        "hidden_states": TransformerEncoderLayer,
        "attentions": OutputRecorder(SelfAttention, index=1, layer_name="self_attention"),
    }

    def __init__(self, config, embed_tokens: nn.Embedding):
        super().__init__(config)
        self.embed_tokens = embed_tokens
        self.token_shift = TokenShift(config.d_model, config.d_model) if config.token_shift else None
        self.input_layer = InputLayer(config)
        self.layers = nn.ModuleList(
            TransformerEncoderLayer(config, self.self_attention(config, index), **feed_forward_settings(config))
            for index in range(config.encoder_layers)
        )
        self.layer_norm = stack_norm(config)
        self.gradient_checkpointing = False
        self.post_init()

    @staticmethod
    def self_attention(config, layer_index: int) -> SelfAttention:
        """A layer's self-attention."""
        return SelfAttention(config, config.d_model, config.num_heads, config.attention_dropout)

    def encode(
        self,
        words: torch.Tensor,
        attention_mask: torch.Tensor | None,
        of_layers: Mapping[int, Mapping[str, Any]] = MappingProxyType({}),
        **kwargs,
    ) -> tuple[torch.Tensor, list]:
        """Embeddings (B, S, C) -> the output (B, S, C), and further outputs of the last layer's self-attention.

        Args:
            of_layers: index of a layer -> further arguments of its self-attention, without gradients.
        """
        if self.token_shift is not None:
            words = words + self.token_shift(words, attention_mask)
        hidden_states = self.input_layer(words)
        source_mask = source_padding_mask(attention_mask)
        beside: list = []
        for index, layer in enumerate(self.layers):
            hidden_states, *beside = layer(hidden_states, source_mask, **of_layers.get(index, {}), **kwargs)
        return self.layer_norm(hidden_states), beside


def feed_forward_settings(config) -> dict[str, Any]:
    """Settings of the layers' feed-forward network."""
    return {
        "activation": getattr(config, "activation", "relu"),
        "activation_dropout": config.activation_dropout,
    }


class CopyingDecoder(SummarizationPreTrainedModel):
    """A Transformer decoder that also returns, for each position, a copy distribution over the source.

    `copy_attention` selects that distribution: the weights of a separate attention on top of the layers (`separate`),
    of the first head of the last layer's cross-attention (`first_head`), or the mean over its heads (`mean`).

    Args:
        config: has `decoder_layers`, `copy`, `copy_attention`, `activation_dropout`, optionally `activation`, and the
            settings of `InputLayer` and `TransformerDecoderLayer`.
        embed_tokens: maps ids (R, T) to (R, T, C).
    """

    _can_record_outputs = {
        "hidden_states": TransformerDecoderLayer,
        "attentions": OutputRecorder(SelfAttention, index=1, layer_name="self_attention"),
        "cross_attentions": OutputRecorder(CrossAttention, index=1, layer_name="cross_attention"),
    }

    def __init__(self, config, embed_tokens: nn.Module):
        super().__init__(config)
        self.embed_tokens = embed_tokens
        self.input_layer = InputLayer(config)
        self.layers = nn.ModuleList(
            TransformerDecoderLayer(
                config, index, **feed_forward_settings(config), attention_class=self.attention_class(config, index)
            )
            for index in range(config.decoder_layers)
        )
        self.layer_norm = stack_norm(config)
        if config.copy and config.copy_attention == "separate":
            self.copy_attention = CopyAttention(config.d_model, layer_index=config.decoder_layers)
        self.gradient_checkpointing = False
        self.post_init()

    @staticmethod
    def attention_class(config, layer_index: int) -> type[CrossAttention]:
        """The class of a layer's cross-attention."""
        return CrossAttention

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        encoder_hidden_states=None,
        encoder_attention_mask=None,
        cache=None,
        inputs_embeds=None,
        use_cache=None,
        source_scores=None,
        **kwargs,
    ):
        """`input_ids` (R, T), R = B · beams; `encoder_hidden_states` (B, S, C) -> last_hidden_state (R, T, C).

        Also copy_attentions (R, T, S) and coverage (R, S), their sum since the first position; both are None in
        training if the model does not copy. `source_scores` (B, S) are passed to the cross-attentions.
        """
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        if use_cache and cache is None:
            # the last layer of the cache holds the coverage
            cache = make_decoder_cache([*(DynamicLayer() for _ in self.layers), DecoderStateLayer()])
        own_cache = None if cache is None else cache.self_attention_cache
        hidden_states = self.input_layer(inputs_embeds, seen=0 if own_cache is None else cache.get_seq_length())
        causal_mask = create_causal_mask(
            config=self.config,
            inputs_embeds=hidden_states,
            attention_mask=attention_mask,
            **cache_argument(own_cache),
        )
        source_mask = source_padding_mask(encoder_attention_mask)
        # without copying, only decoding needs the coverage
        has_coverage = self.config.copy or not self.training
        of_last_layer = has_coverage and not (self.config.copy and self.config.copy_attention == "separate")
        context = weights = None
        for index, layer in enumerate(self.layers, start=1):
            hidden_states, context, weights = layer(
                hidden_states,
                encoder_hidden_states,
                source_scores,
                causal_mask=causal_mask,
                source_mask=source_mask,
                cache=cache,
                needs_weights=of_last_layer and index == len(self.layers),
                **kwargs,
            )
        hidden_states = self.layer_norm(hidden_states)
        copy_attentions = coverage = None
        if has_coverage:
            copy_attentions = self._copy_attentions(hidden_states, weights, encoder_hidden_states, source_mask, cache)
            coverage = summed_coverage(copy_attentions, attention_mask)
            if own_cache is not None:
                coverage = own_cache.layers[-1].accumulate("coverage", coverage)
        if own_cache is not None:
            own_cache.layers[-1].advance(inputs_embeds.shape[1])
        return CopyDecoderOutput(
            last_hidden_state=hidden_states,
            **cache_argument(cache),
            copy_attentions=copy_attentions,
            copy_gate_logits=self._copy_gate_logits(inputs_embeds, hidden_states, context),
            coverage=coverage,
        )

    def _copy_gate_logits(self, words, hidden_states, context) -> torch.Tensor | None:
        """The logits (R, T) of copying, for decoders that compute them from more than the output; here None.

        Args:
            words: (R, T, C), embeddings.
            hidden_states: (R, T, C), the output.
            context: (R, T, C), of the last layer's cross-attention.
        """
        return None

    def _copy_attentions(self, hidden_states, weights, source, source_mask, cache) -> torch.Tensor:
        """The copy distributions (R, T, S), from the layers' output or the last layer's weights (R, H, T, S)."""
        config = self.config
        if config.copy and config.copy_attention == "separate":
            return self.copy_attention(hidden_states, source, source_mask, cache)
        return weights.mean(1) if config.copy and config.copy_attention == "mean" else weights[:, 0]


class CopyingModel(SummarizationModel):
    """A `SummarizationModel` whose encoder output includes the source's subwords, for copying."""

    output_class = CopyModelOutput

    def _read_encoder_outputs(self, encoder_outputs, input_ids) -> CopyEncoderOutput:
        """The encoder's output as a `CopyEncoderOutput`; callers may pass a tuple, or omit the subwords."""
        if isinstance(encoder_outputs, (tuple, list)):
            # the entries of a tuple vary with what was recorded, but only the subwords are integers
            states = [item for item in encoder_outputs if not _is_ids(item)]
            encoder_outputs = CopyEncoderOutput(*states, source_ids=next(filter(_is_ids, encoder_outputs), None))
        if getattr(encoder_outputs, "source_ids", None) is not None:
            return encoder_outputs
        return CopyEncoderOutput(
            last_hidden_state=encoder_outputs.last_hidden_state,
            hidden_states=encoder_outputs.hidden_states,
            attentions=encoder_outputs.attentions,
            source_ids=input_ids,
        )


class CopyingForConditionalGeneration(SummarizationForConditionalGeneration):
    """A copying model with its output: a softmax over the vocabulary, mixed with copying if the config's `copy` is set.

    Subclasses create `model` and `lm_head`. If the model copies and its decoder returns no `copy_gate_logits`, they
    also create `copy_gate`, which maps the decoder's output to the logit of copying.
    """

    scoring_inputs = ("skip_logits",)
    output_class = CopySummarizationOutput
    has_coverage = True

    def check_generation_keys(self, generation_config) -> None:
        super().check_generation_keys(generation_config)
        penalty = getattr(generation_config, "coverage_penalty", None)
        if penalty and getattr(generation_config, "renormalize_logits", False):
            raise ValueError(
                "`coverage_penalty` and `renormalize_logits=True` exclude each other: the penalty lowers all scores of "
                "a beam, which renormalizing undoes; set only one"
            )

    def _own_processors(self, generation_config, prompt_length, device) -> list:
        processors = super()._own_processors(generation_config, prompt_length, device)
        if generation_config.coverage_penalty:
            processors.append(CoveragePenaltyLogitsProcessor(generation_config.coverage_penalty))
            if (running := running_generation()) is not None:
                running.kept["coverage"] = processors[-1]
        return processors

    def _update_model_kwargs_for_generation(self, outputs, *args, **kwargs):
        # transformers calls this between the forward pass and the logits processors
        running = running_generation()
        if running is not None and "coverage" in running.kept:
            running.kept["coverage"].observe(outputs.coverage, outputs.copy_attentions[:, -1])
        return super()._update_model_kwargs_for_generation(outputs, *args, **kwargs)

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
            num_items_in_batch: number of target tokens to divide the loss by; by default those of `labels`.
            skip_logits: whether to compute the loss without holding all logits in memory; logits are then None. By
                default true in training.

        Returns:
            CopySummarizationOutput: logits (R, T, V), log-probabilities if the model copies; loss and loss_parts if
            labels are given; copy_attentions, copy_gates and coverage if the model copies.

        Raises:
            ValueError: a label is outside the vocabulary, or copying lacks the source's subwords.
        """
        return self._forward(
            input_ids=input_ids,
            attention_mask=attention_mask,
            decoder_input_ids=decoder_input_ids,
            decoder_attention_mask=decoder_attention_mask,
            encoder_outputs=encoder_outputs,
            cache=cache,
            inputs_embeds=inputs_embeds,
            decoder_inputs_embeds=decoder_inputs_embeds,
            labels=labels,
            use_cache=use_cache,
            num_items_in_batch=num_items_in_batch,
            skip_logits=skip_logits,
            **kwargs,
        )

    def _score(self, outputs, inputs, labels, num_items_in_batch, skip_logits) -> dict[str, Any]:
        gates = None
        if self.config.copy:
            if outputs.source_ids is None:
                raise ValueError("copying needs the source's subwords: give `input_ids`, even with `encoder_outputs`")
            gates = outputs.copy_gate_logits
            if gates is None:
                gates = self.copy_gate(outputs.last_hidden_state)[..., 0]
        if skip_logits is None:
            skip_logits = self.training
        if labels is not None and skip_logits and self._can_skip_logits():
            loss, nll = copy_cross_entropy(
                self._output_states(outputs),
                self.lm_head.weight,
                self.lm_head.bias,
                gates,
                outputs.copy_attentions,
                outputs.source_ids,
                labels,
                self.config.label_smoothing,
                num_items_in_batch,
            )
            scored = {"loss": loss, "loss_parts": {"nll": nll}}
        else:
            scored = self._loss(self._logits(outputs, gates, inputs), labels, num_items_in_batch)
        return scored if gates is None else {**scored, "copy_gates": gates.sigmoid()}

    def _can_skip_logits(self) -> bool:
        # an adapter adds to weight and bias, and FSDP2, which derives a class from the layer's, gathers both only when
        # the layer is called
        return type(self.lm_head) is nn.Linear

    def _logits(self, outputs, gates, inputs) -> torch.Tensor:
        """Scores (R, T, V): log-probabilities if the model copies."""
        logits = self._project(self._output_states(outputs))
        if gates is None:
            return logits
        return copy_log_probs(logits, gates, outputs.copy_attentions, outputs.source_ids)

    def _output_states(self, outputs) -> torch.Tensor:
        """The inputs (R, T, W) of the output layer; here the decoder's output."""
        return outputs.last_hidden_state


def summed_coverage(copy_attentions: torch.Tensor, attention_mask: torch.Tensor | None) -> torch.Tensor:
    """Sum the copy distributions (R, T, S) over the unpadded positions -> (R, S)."""
    copied = copy_attentions.detach()
    # half precision is too coarse for a sum over many steps
    copied = copied.to(torch.promote_types(copied.dtype, torch.float32))
    if attention_mask is not None:
        copied = copied * attention_mask[:, -copied.shape[1] :, None]
    return copied.sum(1)


def _is_ids(item) -> bool:
    return isinstance(item, torch.Tensor) and not item.is_floating_point()
