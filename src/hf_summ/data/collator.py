"""Batches of processed examples."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers import PreTrainedTokenizerBase, ProcessorMixin
from transformers.models.bart.modeling_bart import shift_tokens_right

from hf_summ.models.checks import IGNORED_LABEL
from hf_summ.runtimes.any_model import GLOBAL_MASK, global_attention_mask, input_names


class SummarizationCollator:
    """Collates processed rows into tensors padded on the right: labels with -100, other fields by the processor.

    Args:
        processor: a processor of this package, whose `pad` is called, or a bare tokenizer.
        model: the model of the rows, for `decoder_input_ids` and, in LED, the global attention of the first token.
        pad_to_multiple_of: lengths are rounded up to a multiple of this number.
        pad_to_max_length: whether to pad to the maximum lengths below instead of the batch's longest row, which makes
            all shapes equal.
        max_source_length, max_target_length: the maximum lengths; by default the processor's.

    Raises:
        ValueError: `pad_to_max_length` without lengths to pad to.
    """

    def __init__(
        self,
        processor: ProcessorMixin | PreTrainedTokenizerBase,
        model: nn.Module | None = None,
        pad_to_multiple_of: int | None = None,
        pad_to_max_length: bool = False,
        max_source_length: int | None = None,
        max_target_length: int | None = None,
    ):
        self.processor = processor
        self.model: Any = model
        self.pad_to_multiple_of = pad_to_multiple_of
        self.pad_to_max_length = pad_to_max_length
        self.max_source_length = max_source_length or getattr(processor, "max_source_length", None)
        self.max_target_length = max_target_length or getattr(processor, "max_target_length", None)
        # without these, transformers would not pad
        if pad_to_max_length and not (self.max_source_length and self.max_target_length):
            raise ValueError("`pad_to_max_length` needs `max_source_length` and `max_target_length`")

    def __call__(self, features: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        """Collate rows; decoder inputs are added if the rows have labels and the model has a decoder.

        Raises:
            ValueError: with `pad_to_max_length`, labels are longer than the maximum length.
        """
        fixed = {"padding": "max_length", "max_length": self.max_source_length} if self.pad_to_max_length else {}
        padding: dict[str, Any] = {"padding": True, **fixed, "pad_to_multiple_of": self.pad_to_multiple_of}
        if isinstance(tokenizer := self.processor, PreTrainedTokenizerBase):
            sources = [{name: row[name] for name in tokenizer.model_input_names if name in row} for row in features]
            batch = dict(tokenizer.pad(sources, **padding, padding_side="right", return_tensors="pt"))
            if "labels" in features[0]:
                rows = [torch.as_tensor(row["labels"]) for row in features]
                batch["labels"] = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=IGNORED_LABEL)
        else:
            batch = dict(self.processor.pad(features, **padding, return_tensors="pt"))
        if self.model is not None and GLOBAL_MASK in (input_names(self.model) or ()):
            batch[GLOBAL_MASK] = global_attention_mask(batch["input_ids"])
        if "labels" not in batch:
            return batch
        batch["labels"] = self._pad_labels(batch["labels"])
        prepare = getattr(self.model, "prepare_decoder_input_ids_from_labels", None)
        config: Any = getattr(self.model, "config", None)
        if prepare is not None:
            batch["decoder_input_ids"] = prepare(labels=batch["labels"])
        elif getattr(config, "is_encoder_decoder", False):
            # some of transformers' models shift the labels only in `forward`
            starts = config.pad_token_id, config.decoder_start_token_id
            batch["decoder_input_ids"] = shift_tokens_right(batch["labels"], *starts)
        return batch

    def _pad_labels(self, labels: torch.Tensor) -> torch.Tensor:
        """Pad to the maximum length if set, and to a multiple."""
        length = (self.max_target_length if self.pad_to_max_length else None) or labels.shape[1]
        multiple = self.pad_to_multiple_of or 1
        missing = -(-length // multiple) * multiple - labels.shape[1]
        if missing < 0:
            raise ValueError(
                f"`labels` has a row of {labels.shape[1]}, but must be at most `max_target_length` ({length}): "
                "truncate it first"
            )
        return functional.pad(labels, (0, missing), value=IGNORED_LABEL)
