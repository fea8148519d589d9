"""The pointer-generator network (See et al. 2017; docs/equations.md, section 7)."""

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import nn
from transformers import initialization as init
from transformers.utils.generic import merge_with_config_defaults

from .configuration_pointer_generator import PointerGeneratorConfig
from .layers_copying import keys_once, mean_over_targets, summed_coverage
from .layers_transformer import cache_argument, product_of_rows
from .modeling_base import DecoderStateLayer, SummarizationPreTrainedModel, make_decoder_cache
from .modeling_copying import (
    CopyDecoderOutput,
    CopyEncoderOutput,
    CopyingForConditionalGeneration,
    CopyingModel,
    CopyModelOutput,
    check_prompts,
)

# saturates a gate in every precision
_SATURATED = 1e4


class BidirectionalLstm(nn.LSTM):
    """An LSTM in each direction over the tokens; `width` is that of either."""

    def __init__(self, input_width: int, width: int):
        super().__init__(input_width, width, batch_first=True, bidirectional=True)

    def forward(  # ty: ignore[lost-keyword-for-regular-parameter]
        self, inputs: torch.Tensor, padding_mask: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """(B, S, input_width) and (B, S), true at tokens -> (B, S, 2 width), zero at padding, and the last states.

        The last hidden states and cells are those of either direction's last token, (B, 2 width) each.
        """
        # here and below `shape[0]`, not `len`, which would fix the number of rows in a graph
        start = inputs.new_zeros(2, inputs.shape[0], self.hidden_size)
        # not torch's own list of them, which accelerate does not update, nor the parameters, which pruning replaces
        directions = self.all_weights
        if padding_mask is not None:
            # at padding, the input gate is closed and the forget gate is open, so that the cell stays
            gates = inputs.new_tensor([-_SATURATED, _SATURATED, 0.0, 0.0]).repeat_interleave(self.hidden_size)
            directions = [(torch.cat((weight, gates[:, None]), dim=1), *others) for weight, *others in directions]
            inputs = torch.cat((inputs, (~padding_mask).to(inputs.dtype)[..., None]), dim=-1)
        # as `nn.LSTM`, which takes no other weights than its own
        lstm: Any = torch.lstm
        # many CPUs lack the primitive in half precision that autocast asks for
        with torch.autocast("cpu", enabled=False):
            # cuDNN keeps what gradients need only if it is told to train
            is_trained = torch.is_grad_enabled()
            weights = [weight for direction in directions for weight in direction]
            outputs, _, cells = lstm(inputs, (start, start), weights, True, 1, 0.0, is_trained, True, True)
        if padding_mask is None:
            ends = outputs[:, -1]
        else:
            outputs = outputs * padding_mask[..., None]
            last = (padding_mask * torch.arange(1, outputs.shape[1] + 1, device=outputs.device)).argmax(-1)
            ends = outputs[torch.arange(outputs.shape[0], device=outputs.device), last]
        first = 0 if padding_mask is None else padding_mask.to(torch.uint8).argmax(-1)
        begins = outputs[torch.arange(outputs.shape[0], device=outputs.device), first]
        forward, backward = ends.chunk(2, -1)[0], begins.chunk(2, -1)[1]
        return outputs, torch.cat((forward, backward), dim=-1), torch.cat(tuple(cells), dim=-1)


class CoverageAttention(nn.Module):
    """Additive attention, `e_i = v · tanh(W_h h_i + W_s s + w_c c_i + b)`, c the sum of earlier attentions.

    Args:
        source_width: width of h, and of the tanh layer.
        state_width: width of s.
        reads_coverage: whether there is a w_c.
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
        """State (R, s), keys (B, S, h), coverage (R, S) and mask (B, S), R a multiple of B -> weights (R, S)."""
        layer = keys[:, None] + self.query_projection(state).unflatten(0, (keys.shape[0], -1))[:, :, None]
        if self.coverage_projection is not None:
            layer = layer + self.coverage_projection(
                coverage.to(layer.dtype).unflatten(0, (keys.shape[0], -1))[..., None]
            )
        scores = self.score(layer.tanh())[..., 0]
        if source_mask is not None:
            scores = scores.masked_fill(~source_mask[:, None], torch.finfo(scores.dtype).min)
        return scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32)).flatten(0, 1)


@dataclass
class PointerGeneratorEncoderOutput(CopyEncoderOutput):
    """`CopyEncoderOutput` with the last states of both directions.

    Attributes:
        last_states: (B, 4 k), the hidden states and the cells.
    """

    last_states: torch.Tensor | None = None


@dataclass
class PointerGeneratorDecoderOutput(CopyDecoderOutput):
    """`CopyDecoderOutput` with the coverage loss.

    Attributes:
        repetition: (R, T), `Σ_i min(a_i, c_i)` of each position, if the config has `coverage`.
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
        words, width = config.embedding_size, config.hidden_size
        self.embed_tokens = embed_tokens
        self.dropout = nn.Dropout(config.dropout)
        self.hidden_start, self.cell_start = (nn.Linear(2 * width, width) for _ in range(2))
        self.input_projection = nn.Linear(words + 2 * width, words)
        self.cell = nn.LSTMCell(words, width)
        self.attention = CoverageAttention(2 * width, 2 * width, config.coverage)
        self.output = nn.Linear(3 * width, width)
        self.copy_gate = nn.Linear(4 * width + words, 1) if config.copy else None
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
            last_states: (B, 4 k), of the encoder.
        """
        check_prompts(attention_mask)
        words = self.embed(input_ids, inputs_embeds)
        words = self.dropout(words)
        source, rows = cast(torch.Tensor, encoder_hidden_states), words.shape[0]
        mask = None if encoder_attention_mask is None else encoder_attention_mask.bool()
        if use_cache and cache is None:
            cache = make_decoder_cache([DecoderStateLayer()])
        layer = None if cache is None else cache.self_attention_cache.layers[0]
        states = layer.states if layer is not None and layer.states else self.start_states(source, last_states, rows)
        hidden, cell, context, coverage = (states[name] for name in ("hidden", "cell", "context", "coverage"))
        keys = keys_once(self.attention.key_projection, source, cache, layer_index=0)
        steps = []
        for word in words.unbind(1):
            inputs = self.input_projection(torch.cat((word, context), dim=-1))
            hidden, cell = self.cell(inputs, (hidden, cell))
            weights = self.attention(torch.cat((cell, hidden), dim=-1), keys, coverage, mask)
            of_document = weights.to(source.dtype).unflatten(0, (source.shape[0], -1))
            context = product_of_rows(of_document, source).flatten(0, 1)
            repetition = torch.minimum(weights, coverage).sum(-1)
            coverage = coverage + weights
            steps.append((hidden, cell, context, inputs, weights, repetition))
        hiddens, cells, contexts, inputs, attention, repetition = (
            torch.stack(step, 1) for step in zip(*steps, strict=True)
        )
        # gradients reach what is recorded
        recorded = attention[:, None]
        attention = recorded[:, 0]
        coverage = summed_coverage(attention, attention_mask)
        if layer is not None:
            coverage = layer.accumulate("coverage", coverage)
            layer.states |= {"hidden": hidden, "cell": cell, "context": context}
            layer.advance(words.shape[1])
        gate_logits = None
        if self.copy_gate is not None:
            gate_logits = self.copy_gate(torch.cat((contexts, cells, hiddens, inputs), dim=-1))[..., 0]
        return PointerGeneratorDecoderOutput(
            last_hidden_state=self.dropout(self.output(torch.cat((hiddens, contexts), dim=-1))),
            **cache_argument(cache),
            cross_attentions=(recorded,) if output_attentions else None,
            copy_attentions=attention,
            coverage=coverage,
            copy_gate_logits=gate_logits,
            repetition=repetition if self.config.coverage else None,
        )

    def start_states(self, source: torch.Tensor, last_states, rows: int) -> dict[str, torch.Tensor]:
        """The states before the first position, of each row's document; the context and the coverage are zero."""
        hidden, cell = last_states.repeat_interleave(rows // source.shape[0], dim=0).chunk(2, -1)
        return {
            "hidden": self.hidden_start(hidden).relu(),
            "cell": self.cell_start(cell).relu(),
            "context": source.new_zeros(rows, source.shape[2]),
            "coverage": source.new_zeros(rows, source.shape[1], dtype=torch.promote_types(source.dtype, torch.float32)),
        }


class PointerGeneratorModel(PointerGeneratorPreTrainedModel, CopyingModel):
    """The pointer-generator's encoder and decoder, which share their embedding."""

    encoder_class, decoder_class = PointerGeneratorEncoder, PointerGeneratorDecoder
    encoder_output_class = PointerGeneratorEncoderOutput
    output_class = PointerGeneratorModelOutput

    def _decoder_inputs(self, encoder_outputs, attention_mask) -> dict[str, Any]:
        if (last_states := getattr(encoder_outputs, "last_states", None)) is None:
            raise ValueError("`encoder_outputs` have no `last_states`: give the output of this model's encoder")
        return {"last_states": last_states}


class PointerGeneratorForConditionalGeneration(PointerGeneratorPreTrainedModel, CopyingForConditionalGeneration):
    """The pointer-generator with its output layer.

    The loss is the NLL plus, with `coverage`, λ Σ_i min(a_i, c_i); both are in `loss_parts`.
    """

    def __init__(self, config: PointerGeneratorConfig):
        super().__init__(config)
        self.model = PointerGeneratorModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size)
        self.post_init()

    def _score(self, outputs, inputs, labels, num_items_in_batch, skip_logits) -> dict[str, Any]:
        scored = super()._score(outputs, inputs, labels, num_items_in_batch, skip_logits)
        if labels is None or outputs.repetition is None:
            return scored
        repetition = mean_over_targets(outputs.repetition, labels, num_items_in_batch)
        loss = scored["loss"] + self.config.coverage_weight * repetition
        return {**scored, "loss": loss, "loss_parts": {**scored["loss_parts"], "coverage": repetition.detach()}}


__all__ = ["PointerGeneratorForConditionalGeneration", "PointerGeneratorModel", "PointerGeneratorPreTrainedModel"]
