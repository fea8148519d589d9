"""Replacement of a summary's unknown words by the source words with the most attention (Luong et al. 2015).

A source word that is unknown as well has a text, but no id of its own. `generate()` then returns its position: ids from
`FIRST_POINTER` on point to a position of the source. Processors look it up in the document; plain tokenizers omit it.
"""

from collections.abc import Mapping, Sequence
from unicodedata import combining

import torch

from .generation_words import word_marks

# larger than any vocabulary, and small enough for 32 bits
FIRST_POINTER = 2**30


def replace_unknown(
    sequences: torch.Tensor, attentions: torch.Tensor, source_ids: torch.Tensor, unknown: int, special: Sequence[int]
) -> torch.Tensor:
    """Replace unknown words by the id of the most attended source word, or by a pointer to it.

    If the source has no words, `unknown` stays.

    Args:
        sequences: (R, L), R = B · n.
        attentions: (R, L - 1, S), the attention of each token after the first.
        source_ids: (B, S).
        unknown: the id of unknown words.
        special: ids in the source that are not words, such as padding and the end.
    """
    source_ids = source_ids.repeat_interleave(len(sequences) // len(source_ids), dim=0)
    is_word = ~torch.isin(source_ids, torch.tensor(special, device=source_ids.device))
    places = attentions.masked_fill(~is_word[:, None], -1.0).argmax(-1)
    words = source_ids.gather(1, places)
    words = torch.where(words == unknown, FIRST_POINTER + places, words)
    is_replaced = (sequences[:, 1:] == unknown) & is_word.any(-1, keepdim=True)
    return torch.cat((sequences[:, :1], torch.where(is_replaced, words, sequences[:, 1:])), dim=1)


def has_pointers(ids: Sequence[int]) -> bool:
    """Whether any of the ids is a pointer."""
    return any(token >= FIRST_POINTER for token in ids)


def pointed_words(
    document: str, offsets: Sequence[tuple[int, int]], ids: Sequence[int], start: int = 0
) -> dict[int, tuple[str, bool]]:
    """Pointer -> the word of the document, and whether a space precedes it.

    Args:
        offsets: the [start, end) characters of each token, in the order of the source.
        start: the position in the source of the document's first token.
    """
    words, first = {}, FIRST_POINTER + start
    for token in ids:
        if first <= token < first + len(offsets):
            begin, end = offsets[token - first]
            # tokenizers that compose characters count only the first part
            while end < len(document) and combining(document[end]):
                end += 1
            word = document[begin:end].strip()
            before = document[: end - len(document[begin:end].lstrip())][-1:]
            # a word directly after a letter belongs to a script without spaces
            words[token] = word, not before or before.isspace() or before.isalnum()
    return words


def decode_pointed(
    tokenizer, ids: Sequence[int], words: Mapping[int, tuple[str, bool]], skip_special_tokens: bool
) -> str:
    """Decode ids with pointers to a text; pointers without a word are omitted."""
    marks = word_marks(tokenizer)
    left_out = set(tokenizer.all_special_ids) if skip_special_tokens else ()
    tokens = []
    for token in ids:
        if token in words:
            word, opens = words[token]
            tokens.append(word if opens != marks.opens else f"{marks.prefix}{word}")
        elif token < FIRST_POINTER and token not in left_out:
            tokens.append(tokenizer.convert_ids_to_tokens(token))
    return tokenizer.backend_tokenizer.decoder.decode(tokens)
