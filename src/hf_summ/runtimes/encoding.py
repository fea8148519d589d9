"""The tokens of a document that a model reads, and how many it does not read; batches of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hf_summ.models.text_documents import readable, tokenize
from hf_summ.runtimes.long_documents import Note, TokenCounts


class EncodedDocument(NamedTuple):
    """The tokens of an example.

    Attributes:
        inputs: the row of each of the model's inputs by name, truncated to what the model reads.
        length: the number of tokens before truncation.
        counts: for each document, the number of tokens that the model reads and the number of all; None if the
            documents are joined into one text.
    """

    inputs: dict[str, list]
    length: int
    counts: TokenCounts | None


@dataclass(frozen=True)
class ReadExample:
    """An example as a summarizer reads it before the search.

    Args:
        inputs: the row of each of the model's inputs by name.
        note: what else `to_records` needs.
        copy_source: the documents, with the prefix, whose words a summary may copy by pointers; None without a
            processor of ours.
    """

    inputs: dict[str, list]
    note: Note
    copy_source: str | list[str] | None


def encoded_features(features: Mapping[str, list]) -> EncodedDocument:
    """The only example of the features that a processor of ours returns by `source_features`."""
    inputs = {name: rows[0] for name, rows in features.items()}
    length = inputs.pop("lengths")
    counts = list(zip(inputs.pop("kept_lengths"), inputs.pop("document_lengths"), strict=True))
    return EncodedDocument(inputs, length, counts)


def encode_by_tokenizer(tokenizer, text: str, limit: int | None) -> EncodedDocument:
    """Encode a text by a tokenizer alone.

    Args:
        tokenizer: a tokenizer of transformers, or another with its methods.
        text: the document, or several that are joined.
        limit: the number of tokens to which inputs are truncated, special ones included; None for all. Special tokens
            stay, even if they are more.
    """
    encoded = tokenize(tokenizer, [readable(text)], return_special_tokens_mask=True)
    (special_tokens_mask,) = encoded["special_tokens_mask"]
    length = len(special_tokens_mask)
    word_positions = []
    for position, is_special in enumerate(special_tokens_mask):
        if not is_special:
            word_positions.append(position)
    room = length
    if limit is not None:
        special_tokens = length - len(word_positions)
        room = max(limit - special_tokens, 0)
    # truncated here, as all threads share the tokenizer's own setting
    cut_positions = set(word_positions[room:])
    read_positions = [position for position in range(length) if position not in cut_positions]
    inputs = {}
    for name in tokenizer.model_input_names:
        if name in encoded:
            (row,) = encoded[name]
            inputs[name] = [row[position] for position in read_positions]
    return EncodedDocument(inputs, length, None)


def pad_by_tokenizer(tokenizer, rows: Sequence[Mapping[str, list]]) -> dict[str, list[list]]:
    """The inputs of a batch, each row of which `encode_by_tokenizer` returned, padded on the right to one length."""
    longest = max(len(row["input_ids"]) for row in rows)
    padded = {}
    for name in rows[0]:
        padding = 0
        if name == "input_ids":
            padding = tokenizer.pad_token_id
        padded[name] = [row[name] + [padding] * (longest - len(row[name])) for row in rows]
    return padded
