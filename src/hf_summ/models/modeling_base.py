"""What the models of all architectures share."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.modeling_outputs import Seq2SeqLMOutput

from .losses import shift_right

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
