"""Highlight-Transformer: its encoder attends more to key phrases (Liu et al. 2021; docs/equations.md, section 3)."""

from torch import nn
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from .configuration_highlight_transformer import HighlightTransformerConfig
from .layers_highlighting import HighlightSelfAttention, lit_rows
from .layers_transformer import SelfAttention
from .modeling_base import SummarizationPreTrainedModel
from .modeling_copying import CopyEncoderOutput, CopyingForConditionalGeneration, CopyingModel, with_inputs_of
from .modeling_transformer import CopyingDecoder, CopyingEncoder


class HighlightTransformerPreTrainedModel(SummarizationPreTrainedModel):
    """Base of the Highlight-Transformer models."""

    config_class = HighlightTransformerConfig
    _no_split_modules = ["TransformerEncoderLayer", "TransformerDecoderLayer"]


class HighlightTransformerEncoder(HighlightTransformerPreTrainedModel, CopyingEncoder):
    """Encodes the source with attention to its key phrases."""

    @staticmethod
    def self_attention(config: HighlightTransformerConfig, layer_index: int) -> SelfAttention:
        """The layer's self-attention, with highlighting if the config lists the layer."""
        if layer_index not in config.layers_that_highlight:
            return CopyingEncoder.self_attention(config, layer_index)
        settings = (config, config.d_model, config.num_heads, config.attention_dropout)
        return HighlightSelfAttention(
            *settings, highlighting=config.highlighting, lit_heads=config.heads_that_highlight
        )

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        inputs_embeds=None,
        phrase_starts=None,
        phrase_ends=None,
        phrase_values=None,
        **kwargs,
    ):
        """`input_ids` and `attention_mask` (B, S), phrases (B, P) -> last_hidden_state (B, S, C) and source_ids."""
        words = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        phrases = [tensor for tensor in (phrase_starts, phrase_ends, phrase_values) if tensor is not None]
        if len(phrases) not in (0, 3):
            raise ValueError("`phrase_starts`, `phrase_ends` and `phrase_values` belong together: give all, or none")
        lit = None
        if phrases and self.config.layers_that_highlight:
            lit = lit_rows(*phrases, self.config.alpha, words.shape[1], attention_mask, words.dtype)
        layer_arguments = {index: {"lit": lit} for index in self.config.layers_that_highlight}
        hidden_states, _ = self.encode(words, attention_mask, layer_arguments, **kwargs)
        return CopyEncoderOutput(last_hidden_state=hidden_states, source_ids=input_ids)


class HighlightTransformerDecoder(HighlightTransformerPreTrainedModel, CopyingDecoder):
    """A `CopyingDecoder` with trained word embeddings."""


class HighlightTransformerModel(HighlightTransformerPreTrainedModel, CopyingModel):
    """Highlight-Transformer's encoder and decoder, which share their embedding."""

    encoder_class, decoder_class = HighlightTransformerEncoder, HighlightTransformerDecoder
    source_inputs = ("phrase_starts", "phrase_ends", "phrase_values")


class HighlightTransformerForConditionalGeneration(
    HighlightTransformerPreTrainedModel, CopyingForConditionalGeneration
):
    """Highlight-Transformer with its output: a softmax over the vocabulary, mixed with copying."""

    def __init__(self, config: HighlightTransformerConfig):
        super().__init__(config)
        self.model = HighlightTransformerModel(config)
        self.lm_head = nn.Linear(config.d_model, config.vocab_size)
        if config.copy:
            self.copy_gate = nn.Linear(config.d_model, 1)
        self.post_init()

    @with_inputs_of(CopyingForConditionalGeneration.forward)
    def forward(self, *args, phrase_starts=None, phrase_ends=None, phrase_values=None, **kwargs):
        """As `CopyingForConditionalGeneration.forward`, with key phrases.

        Args:
            phrase_starts, phrase_ends: (B, P), positions in the source, with exclusive ends; an empty phrase is
                padding. Each occurrence of a phrase has its own entry.
            phrase_values: (B, P), the phrases' importance.

        Raises:
            ValueError: as `CopyingForConditionalGeneration.forward`, or some of the three are missing, differ in shape
                or end beyond the source.
        """
        phrases = {"phrase_starts": phrase_starts, "phrase_ends": phrase_ends, "phrase_values": phrase_values}
        return super().forward(*args, **phrases, **kwargs)


__all__ = [
    "HighlightTransformerForConditionalGeneration",
    "HighlightTransformerModel",
    "HighlightTransformerPreTrainedModel",
]
