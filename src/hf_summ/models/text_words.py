"""Words of tokens: where they start, how many there are, and unknown ones.

A tokenizer here is a fast one of transformers, or any object with its `backend_tokenizer`, special ids and tokens.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from unicodedata import category, combining
from weakref import WeakKeyDictionary

import numpy as np

from .checks import PADDING_ROWS
from .text_documents import IDEOGRAPHS, RUNNING

_LETTER, _DIGIT, _OTHER, _SPACE, _UNKNOWN, _SPECIAL, _UNSPACED = range(7)
_JOINERS = ("\u200c", "\u200d")
_UNSPACED_CHARACTER = re.compile(f"[{IDEOGRAPHS}{RUNNING}]")
# first bytes of ideographs in UTF-8, and continuation bytes, which may be separate tokens
_UNSPACED_BYTES, _CONTINUATION_BYTES = range(0xE3, 0xEA), range(0x80, 0xC0)

# ids from here on point to positions of the source; larger than any vocabulary, and small enough for 32 bits
FIRST_POINTER = 2**30


class WordTable:
    """How each token forms words: whether it starts one, and its characters.

    Words are those of the tokenizer's pre-tokenizer: a word starts at a space, and between letters, digits and other
    characters (with WordPiece, at tokens without the mark); vowel signs and joiners do not end it. In a vocabulary of
    words or characters, each token is a word; the unknown token always is. In scripts without spaces between words,
    characters count as words: a token of such characters starts a word, and counts as many words as it has characters.

    Attributes:
        texts: the characters of each token, none for space.
        tokens: text -> its tokens.
    """

    def __init__(self, tokenizer, vocab_size: int):
        marks = word_marks(tokenizer)
        # the model may have scores for more tokens than the tokenizer has
        special = {*tokenizer.all_special_ids, *range(len(tokenizer), vocab_size)}
        # some tokenizers use one token for unknown words and the end
        unknown = {tokenizer.unk_token_id} - {tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id}
        self.opens, self.classes, self.texts, self.continues, self.counts = [], [], [], [], []
        self.tokens: dict[str, list[int]] = {}
        tokens = tokenizer.convert_ids_to_tokens(range(min(vocab_size, len(tokenizer))))
        for index, token in enumerate([*tokens, *[None] * (vocab_size - len(tokens))]):
            # a vocabulary may have gaps
            text, marked = marks.read(token or "")
            character = marks.character_class(text)
            if index in special:
                character = _UNKNOWN if index in unknown else _SPECIAL
                # no other token has this text, or begins with it
                text = f"\0{index}\0"
            self.opens.append(character in (_UNKNOWN, _SPECIAL, _UNSPACED) or (marked and character != _SPACE))
            self.classes.append(character)
            self.continues.append(character == _LETTER and marks.continues(text))
            # characters of scripts without spaces
            self.counts.append(marks.unspaced(text) if character in (_LETTER, _UNSPACED) else 0)
            self.texts.append("" if character == _SPACE else text)
            self.tokens.setdefault(self.texts[-1], []).append(index)

    def count(self, ids: Sequence[int], first: int = 0) -> int:
        """The number of words from a position on, including the unfinished one; special tokens are none."""
        opened = self.words_opened(ids)[first:]
        uncounted = (_SPECIAL, _UNSPACED)
        words = sum(
            opens and self.classes[token] not in uncounted for opens, token in zip(opened, ids[first:], strict=True)
        )
        return words + sum(self.counts[token] for token in ids[first:])

    def words_opened(self, ids: Sequence[int]) -> list[bool]:
        """Whether each token of a text starts a word; a special token is a separate word."""
        return [self.classes[token] != _SPACE for token in ids[:1]] + list(map(self.opens_after, ids, ids[1:]))

    def opens_after(self, before: int, token: int) -> bool:
        """Whether a token starts a word after another one."""
        # a token of space is no word, and the token after it starts one
        changes = self.classes[before] != self.classes[token] != _SPACE
        return self.opens[token] or (changes and not self.continues[token])

    def words(self, ids: Sequence[int]) -> list[str]:
        """The words of a text."""
        words: list[str] = []
        for token, opens in zip(ids, self.words_opened(ids), strict=True):
            if opens:
                words.append(self.texts[token])
            elif words:
                words[-1] += self.texts[token]
        return words


_tables: WeakKeyDictionary = WeakKeyDictionary()


def word_table(tokenizer, vocab_size: int) -> WordTable:
    """The tokenizer's `WordTable`, built once because it reads every token."""
    check_vocabulary(tokenizer, vocab_size)
    tables = _tables.setdefault(tokenizer, {})
    key = (len(tokenizer), vocab_size)
    if key not in tables:
        tables[key] = WordTable(tokenizer, vocab_size)
    return tables[key]


def check_vocabulary(tokenizer, vocab_size: int) -> None:
    """Raise a ValueError unless the tokenizer fits the model's vocabulary."""
    if not 0 <= vocab_size - len(tokenizer) <= PADDING_ROWS:
        raise ValueError(
            f"the tokenizer has {len(tokenizer)} tokens and the model {vocab_size}: give the model's own as "
            "`model.generate(..., tokenizer=processor)`"
        )


def _continues_word(character: str) -> bool:
    """Whether a character is a vowel sign, an accent or a joiner, which belongs to the letter before."""
    return character in _JOINERS or (character != "" and category(character).startswith("M"))


@dataclass(frozen=True)
class WordMarks:
    """How a tokenizer marks words: the prefix of some tokens, and whether it marks tokens that start a word.

    With `splits_classes`, words are also split between classes of characters. With `is_byte_level`, a token's
    characters represent bytes. With `is_whole`, every token is a word.
    """

    prefix: str
    opens: bool
    splits_classes: bool
    is_byte_level: bool = False
    is_whole: bool = False

    def read(self, token: str) -> tuple[str, bool]:
        """A token's text without its mark, and whether it starts a word according to the mark."""
        marked = token.startswith(self.prefix)
        return token.removeprefix(self.prefix), self.is_whole or marked == self.opens

    def character_class(self, text: str) -> int:
        """The class of the text's first character."""
        # ASCII characters represent themselves
        if self.is_byte_level and not text.isascii():
            content = self._bytes(text)
            text = content.decode("utf-8", "ignore")
            if not text:
                # bytes that do not make a whole character belong to some other script
                return _UNSPACED if content[0] in _UNSPACED_BYTES else _LETTER
        if not text or text.isspace():
            return _SPACE
        if not self.is_whole and not text.isascii() and _UNSPACED_CHARACTER.match(text):
            return _UNSPACED
        if not self.splits_classes or text[0].isalpha() or _continues_word(text[0]):
            return _LETTER
        return _DIGIT if text[0].isnumeric() else _OTHER

    def continues(self, text: str) -> bool:
        """Whether the text begins inside a character, whose first bytes are in the previous token, or with a mark."""
        if text[:1].isascii():
            return False
        if not self.is_byte_level:
            return _continues_word(text[0])
        content = self._bytes(text)
        return content[0] in _CONTINUATION_BYTES or _continues_word(content.decode("utf-8", "ignore")[:1])

    def unspaced(self, text: str) -> int:
        """The number of characters of scripts without spaces that begin in a token; 0 if every token is a word."""
        if self.is_whole or text.isascii():
            return 0
        if not self.is_byte_level:
            return len(_UNSPACED_CHARACTER.findall(text))
        content = self._bytes(text)
        decoded = _UNSPACED_CHARACTER.findall(content.decode("utf-8", "ignore"))
        return max(len(decoded), sum(byte in _UNSPACED_BYTES for byte in content))

    @staticmethod
    def _bytes(text: str) -> bytes:
        return text.translate(_BYTES).encode("latin-1", "replace")


def _byte_alphabet() -> dict[int, int]:
    """The characters that represent bytes in byte-level tokenizers (Radford et al. 2019); others are question marks."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in printable]
    return dict.fromkeys(hidden, ord("?")) | {256 + index: byte for index, byte in enumerate(hidden)}


_BYTES = _byte_alphabet()


def word_marks(tokenizer) -> WordMarks:
    """How the tokenizer marks words; if it does not mark them, a ValueError."""
    backend = tokenizer.backend_tokenizer
    # the state of the whole would contain the vocabulary
    decoder = {} if backend.decoder is None else json.loads(backend.decoder.__getstate__())
    types = {step.get("type") for step in decoder.get("decoders", [decoder])}
    if "ByteLevel" in types:
        return WordMarks("Ġ", opens=True, splits_classes=True, is_byte_level=True)
    if "WordPiece" in types:
        return WordMarks("##", opens=False, splits_classes=False)
    if types & {"Metaspace", "Replace"}:
        return WordMarks("▁", opens=True, splits_classes=True, is_whole=type(backend.model).__name__ == "WordLevel")
    raise ValueError(
        f"the tokenizer's decoder ({', '.join(map(str, types))}) does not show where words start, so words cannot be "
        "counted: use `no_repeat_ngram_size` and `min_new_tokens`, which count tokens"
    )


def replace_unknown(
    sequences: np.ndarray, attentions: np.ndarray, source_ids: np.ndarray, unknown: int, special: Sequence[int]
) -> np.ndarray:
    """Replace unknown words by the source words with the most attention (Luong et al. 2015).

    A source word that is unknown as well has a text, but no id: `FIRST_POINTER` plus its position replaces it, which
    processors look up in the document and plain tokenizers omit. If the source has no words, `unknown` stays.

    Args:
        sequences: (R, L), R = B · n.
        attentions: (R, L - 1, S), the attention of each token after the first.
        source_ids: (B, S).
        unknown, special: the id of unknown words, and ids that are not words, such as padding and the end.
    """
    source_ids = source_ids.repeat(len(sequences) // len(source_ids), axis=0)
    is_word = ~np.isin(source_ids, special)
    positions = np.where(is_word[:, None], attentions, -1.0).argmax(-1)
    words = np.take_along_axis(source_ids, positions, 1)
    words = np.where(words == unknown, FIRST_POINTER + positions, words)
    is_replaced = (sequences[:, 1:] == unknown) & is_word.any(-1, keepdims=True)
    return np.concatenate((sequences[:, :1], np.where(is_replaced, words, sequences[:, 1:])), axis=1)


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
            # tokenizers that compose characters count only the first one
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
    skipped = set(tokenizer.all_special_ids) if skip_special_tokens else ()
    tokens = []
    for token in ids:
        if token in words:
            word, opens = words[token]
            tokens.append(word if opens != marks.opens else f"{marks.prefix}{word}")
        elif token < FIRST_POINTER and token not in skipped:
            tokens.append(tokenizer.convert_ids_to_tokens(token))
    return tokenizer.backend_tokenizer.decoder.decode(tokens)
