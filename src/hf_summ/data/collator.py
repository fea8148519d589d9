"""Batches of processed examples.

A row is one example as a processor returns it: a mapping from the name of a field, such as `input_ids`, to its values.
The labels of a row are the token ids of its summary.
"""

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
        model: the model that reads the batches. An encoder-decoder model adds `decoder_input_ids` to batches with
            labels. LED adds `global_attention_mask`, with which all tokens attend to the first one. Without a model,
            nothing is added.
        pad_to_multiple_of: lengths are rounded up to a multiple of this number.
        pad_to_max_length: whether to pad to the maximum lengths below, which makes the shapes of all batches equal.
            Otherwise a batch is padded to its longest row.
        max_source_length, max_target_length: the maximum lengths in tokens; by default the lengths of the processor.

    Raises:
        ValueError: `pad_to_max_length` is set, but one of the maximum lengths is unknown.
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
        """Collate B rows into a batch.

        Args:
            features: the rows, all with the same fields.

        Returns:
            Name of a field -> a tensor with a row for each example, in the order of `features`. `input_ids` and
            `attention_mask` are (B, S); `labels` and `decoder_input_ids` are (B, T). `decoder_input_ids` are added if
            the rows have labels and the model is an encoder-decoder model.

        Raises:
            ValueError: with `pad_to_max_length`, a row is longer than the maximum length.
        """
        padding: dict[str, Any] = {"padding": True, "pad_to_multiple_of": self.pad_to_multiple_of}
        if self.pad_to_max_length:
            padding["padding"] = "max_length"
            padding["max_length"] = self.max_source_length
        if isinstance(self.processor, PreTrainedTokenizerBase):
            batch = _pad_by_tokenizer(self.processor, features, padding)
        else:
            batch = dict(self.processor.pad(features, **padding, return_tensors="pt"))
        if self.model is not None and GLOBAL_MASK in (input_names(self.model) or ()):
            batch[GLOBAL_MASK] = global_attention_mask(batch["input_ids"])
        if "labels" in batch:
            batch["labels"] = self._pad_labels(batch["labels"])
            decoder_input_ids = self._decoder_input_ids(batch["labels"])
            if decoder_input_ids is not None:
                batch["decoder_input_ids"] = decoder_input_ids
        return batch

    def _decoder_input_ids(self, labels: torch.Tensor) -> torch.Tensor | None:
        """The inputs of the decoder, (B, T): the labels (B, T), shifted to the right by one token.

        The model's method `prepare_decoder_input_ids_from_labels` shifts them. An encoder-decoder model without this
        method gets BART's shift: the start token comes first, the last label is dropped, and -100 becomes padding.

        Returns:
            The ids, or None if there is no model or it is not an encoder-decoder model.

        Raises:
            ValueError: BART's shift is needed, but the configuration of the model has no `pad_token_id`.
            TypeError: BART's shift is needed, but the configuration has no `decoder_start_token_id`.
        """
        prepare = getattr(self.model, "prepare_decoder_input_ids_from_labels", None)
        if prepare is not None:
            return prepare(labels=labels)
        config: Any = getattr(self.model, "config", None)
        if getattr(config, "is_encoder_decoder", False):
            # Some models of transformers lack the method. They shift the labels in `forward`, in the same way as BART.
            return shift_tokens_right(labels, config.pad_token_id, config.decoder_start_token_id)
        return None

    def _pad_labels(self, labels: torch.Tensor) -> torch.Tensor:
        """Pad labels (B, T) on the right with -100.

        The padded length is `max_target_length` with `pad_to_max_length`, and otherwise T. It is rounded up to a
        multiple of `pad_to_multiple_of`.

        Raises:
            ValueError: T is above the padded length.
        """
        length = labels.shape[1]
        if self.pad_to_max_length and self.max_target_length:
            length = self.max_target_length
        multiple = self.pad_to_multiple_of or 1
        # `//` rounds down, so the quotient of the negative length, negated again, is rounded up.
        padded_length = -(-length // multiple) * multiple
        missing = padded_length - labels.shape[1]
        if missing < 0:
            raise ValueError(
                f"`labels` has a row of {labels.shape[1]}, but must be at most `max_target_length` ({length}): "
                "truncate it first"
            )
        return functional.pad(labels, (0, missing), value=IGNORED_LABEL)


def _pad_by_tokenizer(
    tokenizer: PreTrainedTokenizerBase, features: Sequence[Mapping[str, Any]], padding: Mapping[str, Any]
) -> dict[str, torch.Tensor]:
    """The rows as padded tensors: name of a field -> tensor.

    Labels are padded here only to the longest labels of the rows. `_pad_labels` pads them further.

    Args:
        padding: arguments of the tokenizer's `pad` for the fields of documents.
    """
    sources = []
    for row in features:
        sources.append({name: row[name] for name in tokenizer.model_input_names if name in row})
    batch = dict(tokenizer.pad(sources, **padding, padding_side="right", return_tensors="pt"))
    # The `pad` of a tokenizer does not pad labels, so they are padded here.
    if "labels" in features[0]:
        labels = [torch.as_tensor(row["labels"]) for row in features]
        batch["labels"] = pad_sequence(labels, batch_first=True, padding_value=IGNORED_LABEL)
    return batch
