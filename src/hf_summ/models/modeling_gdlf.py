"""GDLF and its baseline DynamicConv (Kwon et al. 2021; docs/equations.md, section 1)."""

import math
from collections.abc import Callable
from functools import cache

import torch
from torch import nn
from transformers import initialization as init
from transformers.utils import logging
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .configuration_gdlf import GATINGS, GdlfConfig
from .layers_copying import CopyAttention, summed_coverage
from .layers_gdlf import (
    DeepLayerFusion,
    DynamicConvolution,
    HierarchicalAggregation,
    MemoryCell,
    OutputGate,
    compiler_works,
)
from .layers_transformer import (
    CrossAttention,
    FeedForward,
    ResidualLayer,
    SinusoidalPositions,
    source_padding_mask,
    stack_norm,
)
from .modeling_base import DecoderStateLayer, SummarizationPreTrainedModel, make_decoder_cache
from .modeling_copying import (
    CopyDecoderOutput,
    CopyEncoderOutput,
    CopyingForConditionalGeneration,
    CopyingModel,
    with_inputs_of,
)

logger = logging.get_logger(__name__)


class GdlfConvolution(nn.Module):
    """The first sub-layer: gate, dynamic convolution and memory cell (equations 5 to 10)."""

    def __init__(self, config: GdlfConfig, kernel_size: int, causal: bool):
        super().__init__()
        output_gate, memory_cell = GATINGS[config.gating]
        self.input_dropout = nn.Dropout(config.input_dropout)
        self.gate = OutputGate(config.d_model, output_gate)
        self.convolution = DynamicConvolution(
            config.d_model,
            kernel_size,
            config.num_heads,
            causal,
            kernel_dropout=config.kernel_dropout,
            implementation=config.conv_implementation,
        )
        self.memory_cell = None
        if memory_cell is not None:
            self.memory_cell = MemoryCell(config.d_model, memory_cell)

    def forward(self, hidden_states, memory=None, padding_mask=None, cache_layer=None):
        """Hidden states and memory, both (B, T, C) -> the sub-layer's output, and the updated memory or None.

        Args:
            memory: None in the lowest layer, and in a model without memory cells.
            padding_mask: (B, T, 1), 1 at tokens and 0 at padding, in the dtype of the hidden states.
            cache_layer: the `DecoderStateLayer` of a decoder's layer while decoding.
        """
        gated = self.gate(self.input_dropout(hidden_states))
        if padding_mask is not None:
            gated = gated * padding_mask
        outputs = self.convolution(gated, cache_layer)
        if self.memory_cell is None:
            return outputs, None
        memory = self.memory_cell(hidden_states, gated, memory)
        return outputs + memory, memory


class GdlfEncoderLayer(ResidualLayer):
    """A gated convolution with its memory, and a feed-forward network."""

    def __init__(self, config: GdlfConfig, layer_index: int):
        super().__init__(config)
        self.convolution = GdlfConvolution(config, config.encoder_kernel_sizes[layer_index], causal=False)
        self.convolution_norm = nn.LayerNorm(config.d_model)
        self.feed_forward = FeedForward(config.d_model, config.ffn_dim)
        self.feed_forward_norm = nn.LayerNorm(config.d_model)

    def forward(self, hidden_states, memory=None, padding_mask=None):
        """Hidden states and memory, both (B, S, C) -> hidden states and memory after this layer."""
        inputs = self._read(hidden_states, self.convolution_norm)
        outputs, memory = self.convolution(inputs, memory, padding_mask)
        hidden_states = self._add(hidden_states, outputs, self.convolution_norm)
        outputs = self.feed_forward(self._read(hidden_states, self.feed_forward_norm))
        return self._add(hidden_states, outputs, self.feed_forward_norm), memory


class GdlfDecoderLayer(ResidualLayer):
    """Like the encoder's layer, but causal, and with cross-attention before the feed-forward network."""

    def __init__(self, config: GdlfConfig, layer_index: int):
        super().__init__(config)
        self.layer_index = layer_index
        self.convolution = GdlfConvolution(config, config.decoder_kernel_sizes[layer_index], causal=True)
        self.convolution_norm = nn.LayerNorm(config.d_model)
        self.cross_attention = CrossAttention(
            config, config.d_model, config.num_heads, config.attention_dropout, layer_index
        )
        self.cross_attention_norm = nn.LayerNorm(config.d_model)
        self.feed_forward = FeedForward(config.d_model, config.ffn_dim)
        self.feed_forward_norm = nn.LayerNorm(config.d_model)

    def forward(self, hidden_states, memory, source, source_mask=None, padding_mask=None, cache=None, **kwargs):
        """Hidden states and memory, both (R, T, C) -> hidden states and memory after this layer.

        Args:
            source: (B, S, C), the encoder's output; R = B · beams.
            source_mask: (B, 1, 1, S), true at tokens; None if there is no padding.
            padding_mask: (R, T, 1), 1 at tokens and 0 at padding.
            cache: while decoding, the cache with the states of all layers.
        """
        cache_layer = None if cache is None else cache.self_attention_cache.layers[self.layer_index]
        inputs = self._read(hidden_states, self.convolution_norm)
        outputs, memory = self.convolution(inputs, memory, padding_mask, cache_layer)
        hidden_states = self._add(hidden_states, outputs, self.convolution_norm)
        inputs = self._read(hidden_states, self.cross_attention_norm)
        outputs, _ = self.cross_attention(inputs, source, attention_mask=source_mask, cache=cache, **kwargs)
        hidden_states = self._add(hidden_states, outputs, self.cross_attention_norm)
        outputs = self.feed_forward(self._read(hidden_states, self.feed_forward_norm))
        return self._add(hidden_states, outputs, self.feed_forward_norm), memory


class GdlfPreTrainedModel(SummarizationPreTrainedModel):
    """Base of the GDLF models."""

    config_class = GdlfConfig
    _no_split_modules = ["GdlfEncoderLayer", "GdlfDecoderLayer"]

    @torch.no_grad()
    def _init_weights(self, module):
        """Initialize a module as the base does; `fusion_init="looks_linear"` gives the fusion its own weights."""
        super()._init_weights(module)
        fusion = getattr(self, "fusion", None)
        if not isinstance(fusion, DeepLayerFusion) or self.config.fusion_init != "looks_linear":
            return
        # transformers calls this method for modules that have weights themselves: first `inner`, then `outer`
        if module is fusion.outer:
            # as gelu(x) - gelu(-x) = x, the fusion starts as the LayerNorm of the sum if its inner width is even and at
            # least twice the model's; a smaller fusion keeps half as many directions of the sum as it has units
            inner_width = self.config.fusion_dim
            half = init.orthogonal_(torch.empty((inner_width + 1) // 2, self.config.d_model))
            mirrored = torch.cat((half, -half))[:inner_width]
            init.copy_(fusion.inner.weight, mirrored)
            init.copy_(fusion.outer.weight, mirrored.T)


class GdlfEncoder(GdlfPreTrainedModel):
    """Encodes words and their tags; its output fuses the outputs of all layers, if the config says so."""

    _can_record_outputs = {"hidden_states": GdlfEncoderLayer}

    def __init__(self, config: GdlfConfig, embed_tokens: nn.Embedding):
        super().__init__(config)
        self.embed_tokens = embed_tokens
        self.positions = SinusoidalPositions(config.d_model)
        if config.tags != "none":
            self.embed_tags = nn.Embedding(config.tag_vocab_size, config.d_model)
            self.tag_projection = nn.Linear(2 * config.d_model, config.d_model, bias=False)
            self.tag_norm = nn.LayerNorm(config.d_model)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(GdlfEncoderLayer(config, index) for index in range(config.encoder_layers))
        self.fusion = None
        if config.layer_fusion == "fusion":
            self.fusion = DeepLayerFusion(config.d_model, config.fusion_dim)
        elif config.layer_fusion == "hierarchical":
            self.fusion = HierarchicalAggregation(config.d_model, config.encoder_layers)
        else:
            self.layer_norm = stack_norm(config)
        self.gradient_checkpointing = False
        self.post_init()

    # the fused output must not replace hidden_states[-1], the last layer's output
    @merge_with_config_defaults
    @capture_outputs(tie_last_hidden_states=False)
    def forward(self, input_ids=None, attention_mask=None, tag_ids=None, inputs_embeds=None, **kwargs):
        """`input_ids`, `attention_mask` and `tag_ids` (B, S) -> last_hidden_state (B, S, C), fused, and source_ids."""
        inputs_embeds = self.embed(input_ids, inputs_embeds)
        hidden_states = self.dropout(self._embed(inputs_embeds, tag_ids))
        padding_mask = None
        if attention_mask is not None:
            padding_mask = attention_mask[..., None].to(hidden_states.dtype)
        memory = None
        layer_outputs = []
        for layer in self.layers:
            hidden_states, memory = layer(hidden_states, memory, padding_mask)
            layer_outputs.append(hidden_states)
        # a fusion ends in a LayerNorm already
        if self.fusion is None:
            output = self.layer_norm(hidden_states)
        else:
            output = self.fusion(layer_outputs)
        return CopyEncoderOutput(last_hidden_state=output, source_ids=input_ids)

    def _embed(self, words: torch.Tensor, tag_ids: torch.Tensor | None) -> torch.Tensor:
        """The input (B, S, C) of the first layer, from word embeddings (B, S, C), tags (B, S) and positions.

        A ValueError is raised if the model reads tags, and there is no tag for each subword.
        """
        positions = self.positions(words)
        if self.config.tags == "none":
            return math.sqrt(self.config.d_model) * words + positions
        if tag_ids is None:
            raise ValueError(f'a model with `tags="{self.config.tags}"` needs `tag_ids`: use its processor')
        if tag_ids.shape != words.shape[:2]:
            raise ValueError(
                f"`tag_ids` is {tuple(tag_ids.shape)}, but must be {tuple(words.shape[:2])}, a tag for each subword; "
                'prompt tuning, which adds subwords without tags, needs a model with `tags="none"`'
            )
        tagged = torch.cat((words, self.embed_tags(tag_ids)), dim=-1)
        return self.tag_norm(self.tag_projection(tagged)) + positions


class GdlfDecoder(GdlfPreTrainedModel):
    """Decodes the summary so far, with attention to the fused source."""

    _can_record_outputs = {
        "hidden_states": GdlfDecoderLayer,
        "cross_attentions": OutputRecorder(CrossAttention, index=1, layer_name="cross_attention"),
    }

    def __init__(self, config: GdlfConfig, embed_tokens: nn.Embedding):
        super().__init__(config)
        self.embed_tokens = embed_tokens
        self.positions = SinusoidalPositions(config.d_model)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(GdlfDecoderLayer(config, index) for index in range(config.decoder_layers))
        self.layer_norm = stack_norm(config)
        self.copy_attention = None
        if config.copy:
            # in the cache, the keys of this attention come after the keys of all layers
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
        cache=None,
        inputs_embeds=None,
        use_cache=None,
        compile_step=False,
        **kwargs,
    ):
        """`input_ids` (R, T), R = B · beams; `encoder_hidden_states` (B, S, C) -> last_hidden_state (R, T, C).

        If the model copies, the output also has copy_attentions (R, T, S), and coverage (R, S), their sum since the
        first position.

        Args:
            compile_step: whether to run the layers as a compiled graph in a decoding step; not in the first one, and
                only if torch.compile works.
        """
        inputs_embeds = self.embed(input_ids, inputs_embeds)
        if use_cache and cache is None:
            cache = make_decoder_cache([DecoderStateLayer() for _ in self.layers])
        seen = 0 if cache is None else cache.get_seq_length()
        length = inputs_embeds.shape[1]
        hidden_states = math.sqrt(self.config.d_model) * inputs_embeds + self.positions(inputs_embeds, seen)
        hidden_states = self.dropout(hidden_states)
        padding_mask = None
        if attention_mask is not None:
            padding_mask = attention_mask[:, -length:, None].to(hidden_states.dtype)
        source_mask = source_padding_mask(encoder_attention_mask)
        run_layers = GdlfDecoder._run_layers
        if compile_step and seen > 0 and length == 1 and compiler_works():
            run_layers = _compiled_layers()
            documents, rows = encoder_hidden_states.shape[0], hidden_states.shape[0]
            _announce_graph(documents > 1, rows > documents, source_mask is not None)
        hidden_states = run_layers(
            self,
            hidden_states,
            encoder_hidden_states,
            source_mask=source_mask,
            padding_mask=padding_mask,
            cache=cache,
            **kwargs,
        )
        copy_attentions = coverage = None
        if self.copy_attention is not None:
            copy_attentions = self.copy_attention(hidden_states, encoder_hidden_states, source_mask, cache)
            coverage = summed_coverage(copy_attentions, attention_mask, cache)
        if cache is not None:
            for layer_state in cache.self_attention_cache.layers:
                layer_state.advance(length)
        return CopyDecoderOutput(
            last_hidden_state=hidden_states, cache=cache, copy_attentions=copy_attentions, coverage=coverage
        )

    def _run_layers(self, hidden_states, source, **kwargs):
        """The output (R, T, C) of all layers, from their input (R, T, C) and the encoder's output (B, S, C).

        A decoding step compiles to one graph, as its convolutions' states do not grow with the summary.
        """
        memory = None
        for layer in self.layers:
            hidden_states, memory = layer(hidden_states, memory, source, **kwargs)
        return self.layer_norm(hidden_states)


@cache
def _compiled_layers() -> Callable[..., torch.Tensor]:
    """`GdlfDecoder._run_layers`, compiled; no attribute of a decoder, which then could not be copied."""
    return torch.compile(GdlfDecoder._run_layers, dynamic=True)


@cache
def _announce_graph(has_documents: bool, has_beams: bool, has_padding: bool) -> None:
    """Log that decoding steps are compiled; only once for each kind of steps, as each kind has its own graph."""
    documents = "several documents" if has_documents else "one document"
    search = "beams" if has_beams else "greedy search"
    padding = " and padding" if has_padding else ""
    logger.warning(f"compiling decoding steps for {documents} with {search}{padding}, which takes up to a minute once")


class GdlfModel(GdlfPreTrainedModel, CopyingModel):
    """GDLF's encoder and decoder, which share their embedding."""

    encoder_class, decoder_class = GdlfEncoder, GdlfDecoder
    source_inputs = ("tag_ids",)


class GdlfForConditionalGeneration(GdlfPreTrainedModel, CopyingForConditionalGeneration):
    """GDLF with its output layer, which shares the embedding matrix; the softmax is mixed with copying if it copies."""

    _tied_weights_keys = {"lm_head.weight": "model.shared.weight"}
    compiles_steps = True

    def __init__(self, config: GdlfConfig):
        super().__init__(config)
        self.model = GdlfModel(config)
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        if config.copy:
            self.copy_gate = nn.Linear(config.d_model, 1)
        self.post_init()

    @property
    def has_coverage(self) -> bool:
        """Whether the model's outputs include the coverage of the source."""
        return self.config.copy

    def _can_skip_logits(self) -> bool:
        # a model that does not copy keeps its logits, from which evaluation computes the NLL of each row
        return self.config.copy and super()._can_skip_logits()

    @with_inputs_of(CopyingForConditionalGeneration.forward)
    def forward(self, *args, tag_ids=None, **kwargs):
        """As `CopyingForConditionalGeneration.forward`, with tags.

        Args:
            tag_ids: (B, S), only for a model with tags.
            skip_logits: without effect if the model does not copy.

        Raises:
            ValueError: as `CopyingForConditionalGeneration.forward`, or `tag_ids` are missing.
        """
        return super().forward(*args, tag_ids=tag_ids, **kwargs)


__all__ = ["GdlfForConditionalGeneration", "GdlfModel", "GdlfPreTrainedModel"]
