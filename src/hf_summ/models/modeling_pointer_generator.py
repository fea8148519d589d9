"""The pointer-generator network (See et al. 2017; docs/equations.md, section 7).

Shapes: B documents, R rows of the decoder (the beams of a document are consecutive rows), S source positions, T
positions of the summary, states of width k.
"""

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import nn
from transformers import initialization as init
from transformers.utils.generic import merge_with_config_defaults

from .configuration_pointer_generator import PointerGeneratorConfig
from .layers_copying import keys_once, mean_over_targets, summed_coverage
from .layers_transformer import is_symbolic, product_of_rows
from .modeling_base import DecoderStateLayer, SummarizationPreTrainedModel, check_prompts, make_decoder_cache
from .modeling_copying import (
    CopyDecoderOutput,
    CopyEncoderOutput,
    CopyingForConditionalGeneration,
    CopyingModel,
    CopyModelOutput,
)

# an input of this size opens or closes a gate completely in every precision
_SATURATED = 1e4


class BidirectionalLstm(nn.LSTM):
    """An LSTM over the tokens in each direction.

    Args:
        input_width: width of the inputs.
        width: k, the width of each direction's states.
    """

    def __init__(self, input_width: int, width: int):
        super().__init__(input_width, width, batch_first=True, bidirectional=True)

    def forward(  # ty: ignore[lost-keyword-for-regular-parameter]
        self, inputs: torch.Tensor, padding_mask: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Inputs (B, S, input_width) -> hidden states (B, S, 2 k), last hidden states and last cells (B, 2 k).

        The hidden states are zero at padding. Each direction's last states are those after its last token: for the
        second direction, that is the document's first token.

        Args:
            padding_mask: (B, S), true at tokens; None if there is no padding. In a graph, where its values are unknown,
                there must be no padding between tokens.
        """
        if padding_mask is not None and not is_symbolic(padding_mask):
            is_behind_padding = padding_mask[:, 1:] & ~padding_mask[:, :-1]
            if bool(is_behind_padding.any()):
                # A second call gets the tokens in front of the padding. Its states move back to the tokens' positions.
                tokens_first = padding_mask.long().argsort(dim=1, descending=True, stable=True)
                positions = tokens_first[..., None]
                tokens = inputs.gather(1, positions.expand_as(inputs))
                states, last_hidden, last_cells = self(tokens, padding_mask.gather(1, tokens_first))
                states = torch.zeros_like(states).scatter(1, positions.expand_as(states), states)
                return states, last_hidden, last_cells
        # `shape[0]`, here and below, keeps the number of rows variable in a graph, unlike `len`
        start = inputs.new_zeros(2, inputs.shape[0], self.hidden_size)
        # `all_weights` looks the weights up; torch's own list of them lacks weights that accelerate or pruning replaced
        weights = []
        for direction_weights in self.all_weights:
            weights.extend(direction_weights)
        if padding_mask is not None:
            # a further input, one at padding, closes the input gate and opens the forget gate: padding changes no cell
            gates = inputs.new_tensor([-_SATURATED, _SATURATED, 0.0, 0.0]).repeat_interleave(self.hidden_size)
            # the input weights are the first of each direction's four tensors
            for index in (0, 4):
                weights[index] = torch.cat((weights[index], gates[:, None]), dim=1)
            inputs = torch.cat((inputs, (~padding_mask).to(inputs.dtype)[..., None]), dim=-1)
        # `nn.LSTM` itself takes no other weights than its own
        lstm: Any = torch.lstm
        # for half precision, which autocast asks for, many CPUs lack the operation
        with torch.autocast("cpu", enabled=False):
            outputs, _, cells = lstm(
                inputs,
                (start, start),
                weights,
                has_biases=True,
                num_layers=1,
                dropout=0.0,
                # in training, cuDNN keeps what gradients need
                train=torch.is_grad_enabled(),
                bidirectional=True,
                batch_first=True,
            )
        rows = torch.arange(outputs.shape[0], device=outputs.device)
        if padding_mask is None:
            last_outputs = outputs[:, -1]
            first_outputs = outputs[rows, 0]
        else:
            outputs = outputs * padding_mask[..., None]
            numbers = torch.arange(1, outputs.shape[1] + 1, device=outputs.device)
            last_token = (padding_mask * numbers).argmax(-1)
            last_outputs = outputs[rows, last_token]
            first_token = padding_mask.to(torch.uint8).argmax(-1)
            first_outputs = outputs[rows, first_token]
        forward = last_outputs.chunk(2, -1)[0]
        backward = first_outputs.chunk(2, -1)[1]
        return outputs, torch.cat((forward, backward), dim=-1), torch.cat(tuple(cells), dim=-1)


class CoverageAttention(nn.Module):
    """Additive attention to the source, the softmax over i of v · tanh(W_h h_i + W_s s + w_c c_i + b).

    Here h are the encoder's states, s is the decoder's state, and c is the coverage: the sum of the attention of
    earlier steps (equations 1, 2 and 11).

    Args:
        source_width: width of h, and of the tanh layer.
        state_width: width of s.
        reads_coverage: whether the scores depend on the coverage; otherwise they lack the term w_c c_i.
    """

    def __init__(self, source_width: int, state_width: int, reads_coverage: bool):
        super().__init__()
        self.key_projection = nn.Linear(source_width, source_width, bias=False)
        self.query_projection = nn.Linear(state_width, source_width)
        self.coverage_projection = nn.Linear(1, source_width, bias=False) if reads_coverage else None
        self.score = nn.Linear(source_width, 1, bias=False)

    def forward(
        self, state: torch.Tensor, keys: torch.Tensor, coverage: torch.Tensor, source_mask: torch.Tensor | None
    ) -> torch.Tensor:
        """The attention weights (R, S) of one step, at least float32.

        Args:
            state: (R, state_width), s; R is a multiple of B.
            keys: (B, S, source_width), the `key_projection` of h.
            coverage: (R, S), c.
            source_mask: (B, S), true at tokens; None if there is no padding.
        """
        rows_of_documents = (keys.shape[0], -1)
        queries = self.query_projection(state).unflatten(0, rows_of_documents)
        layer = keys[:, None] + queries[:, :, None]
        if self.coverage_projection is not None:
            document_coverage = coverage.to(layer.dtype).unflatten(0, rows_of_documents)
            layer = layer + self.coverage_projection(document_coverage[..., None])
        scores = self.score(layer.tanh())[..., 0]
        if source_mask is not None:
            scores = scores.masked_fill(~source_mask[:, None], torch.finfo(scores.dtype).min)
        weights = scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32))
        return weights.flatten(0, 1)


@dataclass
class PointerGeneratorEncoderOutput(CopyEncoderOutput):
    """`CopyEncoderOutput` with the last states of both directions of the LSTM.

    Attributes:
        last_states: (B, 4 k), the hidden states of both directions, then their cells.
    """

    last_states: torch.Tensor | None = None


@dataclass
class PointerGeneratorDecoderOutput(CopyDecoderOutput):
    """`CopyDecoderOutput` with the coverage loss.

    Attributes:
        repetition: (R, T), the coverage loss Σ_i min(a_i, c_i) of each position, from its attention a and the coverage
            c before it (equation 12); None unless the config has `coverage`.
    """

    repetition: torch.Tensor | None = None


@dataclass
class PointerGeneratorModelOutput(CopyModelOutput):
    """`CopyModelOutput` with the coverage loss; see `PointerGeneratorDecoderOutput`."""

    repetition: torch.Tensor | None = None


class PointerGeneratorPreTrainedModel(SummarizationPreTrainedModel):
    """Base of the pointer-generator's models."""

    config_class = PointerGeneratorConfig
    supports_gradient_checkpointing = False
    _no_split_modules = ["PointerGeneratorEncoder", "PointerGeneratorDecoder"]

    @torch.no_grad()
    def _init_weights(self, module):
        if isinstance(module, (nn.LSTM, nn.LSTMCell)):
            for parameter in module.parameters():
                init.uniform_(parameter, -self.config.recurrent_range, self.config.recurrent_range)
        elif isinstance(module, nn.Linear):
            init.normal_(module.weight, std=self.config.init_std)
            if module.bias is not None:
                init.zeros_(module.bias)
        else:
            super()._init_weights(module)


class PointerGeneratorEncoder(PointerGeneratorPreTrainedModel):
    """Encodes the source with a bidirectional LSTM."""

    def __init__(self, config: PointerGeneratorConfig, embed_tokens: nn.Embedding):
        super().__init__(config)
        self.embed_tokens = embed_tokens
        self.dropout = nn.Dropout(config.dropout)
        self.lstm = BidirectionalLstm(config.embedding_size, config.hidden_size)
        self.post_init()

    def forward(self, input_ids=None, attention_mask=None, inputs_embeds=None, **kwargs):
        """`input_ids` and `attention_mask` (B, S) -> last_hidden_state (B, S, 2 k) and last_states (B, 4 k)."""
        words = self.embed(input_ids, inputs_embeds)
        padding_mask = None if attention_mask is None else attention_mask.bool()
        hidden_states, last_hidden, last_cells = self.lstm(self.dropout(words), padding_mask)
        return PointerGeneratorEncoderOutput(
            last_hidden_state=hidden_states, source_ids=input_ids, last_states=torch.cat((last_hidden, last_cells), -1)
        )


class PointerGeneratorDecoder(PointerGeneratorPreTrainedModel):
    """Maps the summary so far to features that score the next word: an LSTM that attends to the source."""

    def __init__(self, config: PointerGeneratorConfig, embed_tokens: nn.Embedding):
        super().__init__(config)
        word_width = config.embedding_size
        width = config.hidden_size
        self.embed_tokens = embed_tokens
        self.dropout = nn.Dropout(config.dropout)
        self.hidden_start = nn.Linear(2 * width, width)
        self.cell_start = nn.Linear(2 * width, width)
        self.input_projection = nn.Linear(word_width + 2 * width, word_width)
        self.cell = nn.LSTMCell(word_width, width)
        self.attention = CoverageAttention(2 * width, 2 * width, config.coverage)
        self.output = nn.Linear(3 * width, width)
        self.copy_gate = None
        if config.copy:
            self.copy_gate = nn.Linear(4 * width + word_width, 1)
        self.post_init()

    @merge_with_config_defaults
    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        encoder_hidden_states=None,
        encoder_attention_mask=None,
        cache=None,
        inputs_embeds=None,
        use_cache=None,
        output_attentions=None,
        last_states=None,
        **kwargs,
    ):
        """`input_ids` (R, T), R = B · beams; `encoder_hidden_states` (B, S, 2 k) -> last_hidden_state (R, T, k).

        Args:
            output_attentions: whether to return the attention also as cross_attentions, one layer with one head.
            last_states: (B, 4 k), the encoder's last hidden states and cells; needed unless `cache` has earlier steps.
        """
        check_prompts(attention_mask)
        words = self.dropout(self.embed(input_ids, inputs_embeds))
        rows, length = words.shape[:2]
        source = cast(torch.Tensor, encoder_hidden_states)
        source_mask = None if encoder_attention_mask is None else encoder_attention_mask.bool()
        if use_cache and cache is None:
            cache = make_decoder_cache([DecoderStateLayer()])
        layer = None if cache is None else cache.self_attention_cache.layers[0]
        if layer is not None and layer.states:
            start = layer.states
        else:
            start = self.start_states(source, last_states, rows)
        hidden, cell = start["hidden"], start["cell"]
        context, coverage = start["context"], start["coverage"]
        keys = keys_once(self.attention.key_projection, source, cache, layer_index=0)
        # a list has an element for each position
        step_hidden, step_cells, step_contexts, step_inputs = [], [], [], []
        step_weights, step_repetition = [], []
        for word in words.unbind(1):
            inputs = self.input_projection(torch.cat((word, context), dim=-1))
            hidden, cell = self.cell(inputs, (hidden, cell))
            weights = self.attention(torch.cat((cell, hidden), dim=-1), keys, coverage, source_mask)
            document_weights = weights.to(source.dtype).unflatten(0, (source.shape[0], -1))
            context = product_of_rows(document_weights, source).flatten(0, 1)
            step_hidden.append(hidden)
            step_cells.append(cell)
            step_contexts.append(context)
            step_inputs.append(inputs)
            step_weights.append(weights)
            step_repetition.append(torch.minimum(weights, coverage).sum(-1))
            coverage = coverage + weights
        all_hidden = torch.stack(step_hidden, 1)
        all_cells = torch.stack(step_cells, 1)
        all_contexts = torch.stack(step_contexts, 1)
        all_inputs = torch.stack(step_inputs, 1)
        # (R, 1, T, S), as if the attention had heads; copying reads this very tensor, whose gradient callers may read
        returned_attention = torch.stack(step_weights, 1)[:, None]
        attention = returned_attention[:, 0]
        repetition = torch.stack(step_repetition, 1)
        # unlike the coverage that the steps above read, this sum leaves out padding; the cache keeps it for later calls
        coverage = summed_coverage(attention, attention_mask, cache)
        if layer is not None:
            layer.states["hidden"] = hidden
            layer.states["cell"] = cell
            layer.states["context"] = context
            layer.advance(length)
        gate_logits = None
        if self.copy_gate is not None:
            gate_inputs = torch.cat((all_contexts, all_cells, all_hidden, all_inputs), dim=-1)
            gate_logits = self.copy_gate(gate_inputs)[..., 0]
        features = self.output(torch.cat((all_hidden, all_contexts), dim=-1))
        return PointerGeneratorDecoderOutput(
            last_hidden_state=self.dropout(features),
            cache=cache,
            cross_attentions=(returned_attention,) if output_attentions else None,
            copy_attentions=attention,
            coverage=coverage,
            copy_gate_logits=gate_logits,
            repetition=repetition if self.config.coverage else None,
        )

    def start_states(self, source: torch.Tensor, last_states, rows: int) -> dict[str, torch.Tensor]:
        """The states before the first position, by name. A row has the states of its document.

        `hidden` and `cell` (R, k) are computed from the encoder's last states; `context` (R, 2 k) and `coverage` (R, S)
        are zero.

        Args:
            source: (B, S, 2 k), the encoder's hidden states.
            last_states: (B, 4 k), the encoder's last hidden states and cells.
            rows: R, a multiple of B.
        """
        last_hidden, last_cells = last_states.repeat_interleave(rows // source.shape[0], dim=0).chunk(2, -1)
        coverage_dtype = torch.promote_types(source.dtype, torch.float32)
        return {
            "hidden": self.hidden_start(last_hidden).relu(),
            "cell": self.cell_start(last_cells).relu(),
            "context": source.new_zeros(rows, source.shape[2]),
            "coverage": source.new_zeros(rows, source.shape[1], dtype=coverage_dtype),
        }


class PointerGeneratorModel(PointerGeneratorPreTrainedModel, CopyingModel):
    """The pointer-generator's encoder and decoder, which share their embedding."""

    encoder_class, decoder_class = PointerGeneratorEncoder, PointerGeneratorDecoder
    encoder_output_class = PointerGeneratorEncoderOutput
    output_class = PointerGeneratorModelOutput

    def _decoder_inputs(self, encoder_outputs, attention_mask) -> dict[str, Any]:
        """The encoder's last states, with which the decoder starts.

        Raises:
            ValueError: the encoder's output has no last states.
        """
        last_states = getattr(encoder_outputs, "last_states", None)
        if last_states is None:
            raise ValueError("`encoder_outputs` have no `last_states`: give the output of this model's encoder")
        return {"last_states": last_states}


class PointerGeneratorForConditionalGeneration(PointerGeneratorPreTrainedModel, CopyingForConditionalGeneration):
    """The pointer-generator with its output layer.

    With `coverage`, the loss is the NLL plus λ Σ_i min(a_i, c_i) (equation 13), and `loss_parts` has both without λ.
    """

    def __init__(self, config: PointerGeneratorConfig):
        super().__init__(config)
        self.model = PointerGeneratorModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size)
        self.post_init()

    def _score(self, outputs, inputs, labels, num_items_in_batch, skip_logits) -> dict[str, Any]:
        """As the base's, with the coverage loss in `loss` and `loss_parts` if the model has `coverage`."""
        scored = super()._score(outputs, inputs, labels, num_items_in_batch, skip_logits)
        if labels is None or outputs.repetition is None:
            return scored
        repetition = mean_over_targets(outputs.repetition, labels, num_items_in_batch)
        loss = scored["loss"] + self.config.coverage_weight * repetition
        loss_parts = scored["loss_parts"] | {"coverage": repetition.detach()}
        return scored | {"loss": loss, "loss_parts": loss_parts}


__all__ = ["PointerGeneratorForConditionalGeneration", "PointerGeneratorModel", "PointerGeneratorPreTrainedModel"]
