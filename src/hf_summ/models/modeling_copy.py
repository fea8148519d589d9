"""What models that copy from the source hand from part to part."""

from dataclasses import dataclass

import torch
from transformers.modeling_outputs import (
    BaseModelOutput,
    BaseModelOutputWithPastAndCrossAttentions,
    Seq2SeqModelOutput,
)

from .modeling_base import SummarizationOutput


@dataclass
class CopyEncoderOutput(BaseModelOutput):
    """transformers' `BaseModelOutput`, and the source's subwords, which decoding steps do not see otherwise.

    Attributes:
        source_ids: (B, S).
    """

    source_ids: torch.LongTensor | None = None


@dataclass
class CopyDecoderOutput(BaseModelOutputWithPastAndCrossAttentions):
    """transformers' output of a decoder, and where it copies from; see `CopySummarizationOutput`."""

    copy_attentions: torch.Tensor | None = None
    coverage: torch.Tensor | None = None


@dataclass
class CopyModelOutput(Seq2SeqModelOutput):
    """transformers' `Seq2SeqModelOutput`, and where it copies from; see `CopySummarizationOutput`.

    Attributes:
        source_ids: (B, S), the source's subwords.
    """

    copy_attentions: torch.Tensor | None = None
    coverage: torch.Tensor | None = None
    source_ids: torch.LongTensor | None = None


@dataclass
class CopySummarizationOutput(SummarizationOutput):
    """`SummarizationOutput`, and what was copied; `logits` are normalised log-probabilities where the model copies.

    Attributes:
        copy_attentions: (R, T, S), the copy distribution over the source's positions.
        copy_gates: (R, T), the probability of copying.
        coverage: (R, S), the sum of the copy distributions from the summary's first position on.
    """

    copy_attentions: torch.Tensor | None = None
    copy_gates: torch.Tensor | None = None
    coverage: torch.Tensor | None = None


def with_source_ids(encoder_outputs, input_ids) -> CopyEncoderOutput:
    """An encoder's output, also as a tuple or without the source's subwords, in the form that the decoder asks for."""
    if isinstance(encoder_outputs, (tuple, list)):
        # subwords are the only integers of the encoder's own tuple, whose other entries depend on what was recorded
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


def _is_ids(item) -> bool:
    return isinstance(item, torch.Tensor) and not item.is_floating_point()
