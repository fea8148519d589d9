"""Padding of rows to one length."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from transformers import BatchFeature

from .checks import check_integer
from .losses import IGNORED_LABEL

# more than rows have, and less than would fill the memory
_LONGEST = 10**6


def pad_features(
    features: Sequence[Mapping[str, Any]] | Mapping[str, Sequence],
    padding_values: Mapping[str, Any],
    padding: bool | str = True,
    max_length: int | None = None,
    pad_to_multiple_of: int | None = None,
    return_tensors: str | None = "pt",
    unaligned: Collection[str] = (),
) -> BatchFeature:
    """Pad rows of different lengths to one length, on the right.

    Args:
        features: one mapping per row, or one mapping of lists; fields that are not in `padding_values` are left out.
        padding_values: field -> the value with which it is padded. `labels` are padded to their own longest row.
        padding: True or `longest`, `max_length` (of the source), or False.
        max_length: the length for `max_length`.
        pad_to_multiple_of: lengths are rounded up to a multiple of this number.
        return_tensors: `pt`, or None for lists.
        unaligned: fields with an entry for something other than each token: their length is that of their own longest
            row, and at least one, as a row of nothing has no type.

    Raises:
        ValueError: nothing to pad, an unknown value of `padding`, `max_length` without a length, a multiple below 1, or
            a longer row.
    """
    if padding not in (True, False, "longest", "max_length", "do_not_pad"):
        known = "True, 'longest', 'max_length', False, 'do_not_pad'"
        raise ValueError(f"`padding` is {padding!r}, but must be one of {known}")
    if pad_to_multiple_of is not None:
        check_integer("pad_to_multiple_of", pad_to_multiple_of, 1, _LONGEST)
    if max_length is not None and padding == "max_length":
        check_integer("max_length", max_length, 1, _LONGEST)
    if not features:
        raise ValueError("no features to pad")
    padding = False if padding == "do_not_pad" else padding
    if padding == "max_length" and max_length is None:
        raise ValueError('`padding="max_length"` needs `max_length`, the length to pad to')
    if not isinstance(features, Mapping):
        features = {name: [row[name] for row in features] for name in features[0]}
    fields = {name: features[name] for name in features if name in padding_values}
    padded = {}
    for name, rows in fields.items():
        rows = [row.tolist() if isinstance(row, torch.Tensor) else list(row) for row in rows]
        if padding:
            fixed = max_length if padding == "max_length" and name != "labels" else None
            if name in unaligned:
                longest = max(map(len, rows))
                rows = _pad_rows(name, rows, padding_values[name], max(longest, 1), None)
            else:
                rows = _pad_rows(name, rows, padding_values[name], fixed, pad_to_multiple_of)
        padded[name] = rows
    if return_tensors is not None:
        check_even(padded)
    return BatchFeature(padded, tensor_type=return_tensors)


def check_even(fields: Mapping[str, Sequence]) -> None:
    """Raise a ValueError for a field whose rows have different lengths, which no tensor has."""
    for name, rows in fields.items():
        if len(lengths := {len(row) for row in rows}) > 1:
            raise ValueError(
                f"`{name}` has rows of {min(lengths)} to {max(lengths)}, which cannot be a tensor: pad them with "
                "`padding=True`, or leave out `return_tensors`"
            )


def source_padding_values(pad_token_id: int) -> dict[str, int]:
    """The values with which the fields of every architecture are padded."""
    return {
        "input_ids": pad_token_id,
        "attention_mask": 0,
        "labels": IGNORED_LABEL,
        "decoder_input_ids": pad_token_id,
    }


def _pad_rows(name: str, rows: list[list], value: Any, length: int | None, multiple: int | None) -> list[list]:
    longest = max(map(len, rows), default=0)
    if length is not None and longest > length:
        raise ValueError(f"`{name}` has a row of {longest}, but must be at most `max_length` ({length}): truncate it")
    length = longest if length is None else length
    if multiple:
        length = -(-length // multiple) * multiple
    return [row + [value] * (length - len(row)) for row in rows]
