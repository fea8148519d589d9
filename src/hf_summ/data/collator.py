"""Batches of processed examples."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerBase, ProcessorMixin
from transformers.models.bart.modeling_bart import shift_tokens_right

from hf_summ.models.checks import IGNORED_LABEL
from hf_summ.runtimes.any_model import GLOBAL_MASK, global_attention_mask, input_names


class SummarizationCollator:
    """Collates processed rows into tensors, padded on the right: labels with -100, other fields by the processor.

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
        self.model = model
        self.pad_to_multiple_of = pad_to_multiple_of
        self.pad_to_max_length = pad_to_max_length
        self.max_source_length = max_source_length or getattr(processor, "max_source_length", None)
        self.max_target_length = max_target_length or getattr(processor, "max_target_length", None)
        # Without these lengths, transformers would not pad and would raise no error.
        if pad_to_max_length and not (self.max_source_length and self.max_target_length):
            raise ValueError("`pad_to_max_length` needs `max_source_length` and `max_target_length`")

    def __call__(self, features: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        """Collate rows; decoder inputs are added if the rows have labels and the model has a decoder.

        Raises:
            ValueError: with `pad_to_max_length`, labels are longer than the maximum length.
        """
        batch = self._padded(features)
        if self.model is not None and GLOBAL_MASK in (input_names(self.model) or ()):
            batch[GLOBAL_MASK] = global_attention_mask(batch["input_ids"])
        if "labels" in batch:
            batch["labels"] = self._pad_labels(batch["labels"])
            decoder_input_ids = self._decoder_input_ids(batch["labels"])
            if decoder_input_ids is not None:
                batch["decoder_input_ids"] = decoder_input_ids
        return batch

    def _padded(self, features: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        """The rows as padded tensors; labels are padded to their longest row."""
        padding: dict[str, Any] = {"padding": True, "pad_to_multiple_of": self.pad_to_multiple_of}
        if self.pad_to_max_length:
            padding["padding"] = "max_length"
            padding["max_length"] = self.max_source_length
        tokenizer = self.processor
        if not isinstance(tokenizer, PreTrainedTokenizerBase):
            return dict(self.processor.pad(features, **padding, return_tensors="pt"))
        # A tokenizer does not know the labels.
        sources = []
        for row in features:
            sources.append({name: row[name] for name in tokenizer.model_input_names if name in row})
        batch = dict(tokenizer.pad(sources, **padding, padding_side="right", return_tensors="pt"))
        if "labels" in features[0]:
            labels = [torch.as_tensor(row["labels"]) for row in features]
            batch["labels"] = pad_sequence(labels, batch_first=True, padding_value=IGNORED_LABEL)
        return batch

    def _decoder_input_ids(self, labels: torch.Tensor) -> torch.Tensor | None:
        """The labels shifted to the right, as the model reads them; None without a model that has a decoder."""
        prepare = getattr(self.model, "prepare_decoder_input_ids_from_labels", None)
        if prepare is not None:
            return prepare(labels=labels)
        config: Any = getattr(self.model, "config", None)
        if getattr(config, "is_encoder_decoder", False):
            # Some models of transformers have no method for this, and shift the labels in `forward` only.
            return shift_tokens_right(labels, config.pad_token_id, config.decoder_start_token_id)
        return None

    def _pad_labels(self, labels: torch.Tensor) -> torch.Tensor:
        """Pad labels to the maximum length, with `pad_to_max_length`, and to a multiple."""
        length = labels.shape[1]
        if self.pad_to_max_length and self.max_target_length:
            length = self.max_target_length
        multiple = self.pad_to_multiple_of or 1
        # The length is rounded up.
        padded_length = -(-length // multiple) * multiple
        missing = padded_length - labels.shape[1]
        if missing < 0:
            raise ValueError(
                f"`labels` has a row of {labels.shape[1]}, but must be at most `max_target_length` ({length}): "
                "truncate it first"
            )
        return functional.pad(labels, (0, missing), value=IGNORED_LABEL)
