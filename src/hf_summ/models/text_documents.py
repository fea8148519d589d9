"""A model's texts: their characters, the row of several documents, the words of tokens, and pointers to words.

A tokenizer here is a fast one of transformers, or any object with its `backend_tokenizer`, special ids and tokens.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from unicodedata import category, combining
from weakref import WeakKeyDictionary

from .checks import PADDING_ROWS

# Japanese and Chinese, as ranges for a regular expression's character class
IDEOGRAPHS = "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
# Thai, Lao, Burmese, Khmer and Tai scripts, whose words only a dictionary can separate
RUNNING = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf"
# ids from here on point to positions of the source: each stands for the word there. larger than any vocabulary, and
# small enough for 32 bits
FIRST_POINTER = 2**30
# separator of documents for models that read one text: a blank line, which sentence splitters and tokenizers treat like
# any line end
DOCUMENT_SEPARATOR = "\n\n"
# white space, ASCII digits and punctuation, and the Chinese marks listed in DRGD's program for LCSTS
_LCSTS = r"\s!-@\[-`{-~·…‘’“”《》「」『』【】、（）：￥"
# name -> characters deleted from lower-case summaries and documents; the program splits documents into clauses, and
# joins them again
WASHINGS = {"lcsts": (re.compile(f"[{_LCSTS}]+"), re.compile(f"[{_LCSTS}。！？，；]+"))}
# classes of characters, and of tokens that are none
_LETTER, _DIGIT, _OTHER, _SPACE, _UNKNOWN, _SPECIAL, _UNSPACED = range(7)
_JOINERS = ("\u200c", "\u200d")
_UNSPACED_CHARACTER = re.compile(f"[{IDEOGRAPHS}{RUNNING}]")
# pointers are added to tables of words by this number
_POINTERS_AT_ONCE = 512
# first bytes of ideographs in UTF-8, and continuation bytes, which may be separate tokens
_UNSPACED_BYTES, _CONTINUATION_BYTES = range(0xE3, 0xEA), range(0x80, 0xC0)


@cache
def marks() -> str:
    """Vowel signs, accents and joiners of Persian and Indian scripts, as ranges for a character class.

    They belong to the preceding letter, but `\\w` does not match them.
    """
    ranges: list[list[int]] = []
    # no mark has a smaller code; from 0x20000 on there are ideographs, then variation selectors
    for code in (*range(0x300, 0x20000), *range(0xE0100, 0xE01F0)):
        if category(chr(code)).startswith("M"):
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges) + "\u200c\u200d"


def readable(text: str) -> str:
    """Replace each lone surrogate by U+FFFD, as it is not a character and stops every tokenizer.

    Surrogate pairs become their character.
    """
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def tokenize(tokenizer, texts: Sequence[str], **settings: Any):
    """The tokenizer's output for whole texts, without padding, also if other threads use the tokenizer.

    A fast tokenizer truncates and pads by settings of its own, which another thread may have changed in between. Then
    the texts are tokenized again.
    """
    while True:
        # the callers have limits of their own: suppress warnings of long texts
        encoded = tokenizer(texts, verbose=False, **settings)
        if not any(row.overflowing or 0 in row.attention_mask for row in getattr(encoded, "encodings", None) or ()):
            return encoded


def washed(text: str, washing: str | None, is_document: bool = False) -> str:
    """Wash a text; with None it is unchanged.

    Args:
        washing: None, or a name in `WASHINGS`. `lcsts` follows DRGD's program for LCSTS: the text is lower-cased, and
            white space, ASCII digits and punctuation and most Chinese punctuation are deleted. Latin words run
            together, and numbers are lost, but full-width digits and marks such as `％` and `—` remain.
        is_document: whether to delete `。！？，；` as well, which summaries keep.
    """
    return text if washing is None else WASHINGS[washing][is_document].sub("", text.lower())


@dataclass(frozen=True)
class JoinedRow:
    """The tokens of an example's documents in one row.

    Attributes:
        input_ids: the row, with separators and special tokens.
        spans: for each document, the position of its first token and the number of its tokens.
        lengths: the number of tokens of each document before truncation.
        length: the number of ids of the row without truncation.
    """

    input_ids: list[int]
    spans: list[tuple[int, int]]
    lengths: list[int]
    length: int


def shares(lengths: Sequence[int], total: int) -> list[int]:
    """Divide `total` tokens among documents of these lengths (Fabbri et al. 2019, section 6.3).

    Each gets an equal share. The others divide what short documents do not use; the first of them get the remainder.
    """
    numbers, remaining = list(lengths), max(total, 0)
    ascending = sorted(range(len(lengths)), key=lengths.__getitem__)
    for rank, document in enumerate(ascending):
        share, remainder = divmod(remaining, len(lengths) - rank)
        if lengths[document] > share:
            # this document and all longer ones are truncated
            for order, longer in enumerate(sorted(ascending[rank:])):
                numbers[longer] = min(lengths[longer], share + (order < remainder))
            break
        remaining -= lengths[document]
    return numbers


def join(
    documents: Sequence[Sequence[int]], length: int | None, before: list[int], after: list[int], separator: int
) -> JoinedRow:
    """One row of an example's documents: `before`, their tokens with separators between them, and `after`.

    If the row has no room for one token of each document, the last documents are omitted.

    Args:
        length: maximum number of ids of the row; None does not truncate.
        before, after, separator: special ids of the row, and the id between documents.
    """
    lengths = [len(tokens) for tokens in documents]
    filled = [index for index, number in enumerate(lengths) if number]
    special = len(before) + len(after)
    total = special + sum(lengths) + max(len(filled) - 1, 0)
    numbers = dict(enumerate(lengths))
    if length is not None and total > length:
        fitting = filled[: max((length - special + 1) // 2, 1)]
        own = shares([lengths[index] for index in fitting], length - special - (len(fitting) - 1))
        numbers = dict(zip(fitting, own, strict=True))
    row, spans = list(before), []
    for index, tokens in enumerate(documents):
        number = numbers.get(index, 0)
        if number and len(row) > len(before):
            row.append(separator)
        spans.append((len(row), number))
        row.extend(tokens[:number])
    return JoinedRow([*row, *after], spans, lengths, total)


class WordTable:
    """How each token forms words: whether it starts one, and its characters.

    Words are those of the tokenizer's pre-tokenizer: a word starts at a space, and between letters, digits and other
    characters (with WordPiece, at tokens without the mark); vowel signs and joiners do not end it. In a vocabulary of
    words or characters, each token is a word; the unknown token always is. In scripts without spaces between words,
    characters count as words: a token of such characters starts a word, and counts as many words as it has characters.

    Args:
        tokenizer: see `word_marks`.
        vocab_size: number of words that the model has scores for.
        pointers: number of pointers, which have the ids after them; each is a word, as the unknown token.

    Attributes:
        texts: the characters of each token, none for space.
        tokens: text -> its tokens.
    """

    def __init__(self, tokenizer, vocab_size: int, pointers: int = 0):
        marks = word_marks(tokenizer)
        # the model may have scores for more tokens than the tokenizer has
        special = {*tokenizer.all_special_ids, *range(len(tokenizer), vocab_size)}
        # some tokenizers use one token for unknown words and the end
        unknown = {tokenizer.unk_token_id} - {tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id}
        if pointers:
            unknown.update(range(vocab_size, vocab_size + pointers))
            special.update(unknown)
            vocab_size += pointers
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


def word_table(tokenizer, vocab_size: int, pointers: int = 0) -> WordTable:
    """The tokenizer's `WordTable`, built once because it reads every token.

    Args:
        pointers: number of pointers, after the words of the vocabulary; the table may have more.
    """
    check_vocabulary(tokenizer, vocab_size)
    # one table for sources of similar lengths
    pointers = -(-pointers // _POINTERS_AT_ONCE) * _POINTERS_AT_ONCE
    tables = _tables.setdefault(tokenizer, {})
    key = (len(tokenizer), vocab_size, pointers)
    if key not in tables:
        tables[key] = WordTable(tokenizer, vocab_size, pointers)
    return tables[key]


def check_vocabulary(tokenizer, vocab_size: int) -> None:
    """Raise a ValueError unless the tokenizer fits the model's vocabulary."""
    if not 0 <= vocab_size - len(tokenizer) <= PADDING_ROWS:
        raise ValueError(
            f"the tokenizer has {len(tokenizer)} tokens and the model {vocab_size}: give the model's own as "
            "`model.generate(..., tokenizer=processor)`"
        )


def pointed_words(
    document: str, offsets: Sequence[tuple[int, int]], ids: Sequence[int], start: int = 0
) -> dict[int, tuple[str, bool]]:
    """Pointer -> its word of the document, and whether it opens a word, instead of continuing the one before.

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
    written = word_marks(tokenizer)
    skipped = set(tokenizer.all_special_ids) if skip_special_tokens else ()
    tokens = []
    for token in ids:
        if token in words:
            word, opens = words[token]
            tokens.append(word if opens != written.opens else f"{written.prefix}{word}")
        elif token < FIRST_POINTER and token not in skipped:
            tokens.append(tokenizer.convert_ids_to_tokens(token))
    return tokenizer.convert_tokens_to_string(tokens)


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
    is_whole = type(backend.model).__name__ == "WordLevel"
    if types & {"Metaspace", "Replace"}:
        return WordMarks("▁", opens=True, splits_classes=True, is_whole=is_whole)
    if is_whole and backend.decoder is None:
        # words are joined by spaces
        return WordMarks("", opens=True, splits_classes=True, is_whole=True)
    raise ValueError(
        f"the tokenizer's decoder ({', '.join(map(str, types))}) does not show where words start, so words cannot be "
        "counted: use `no_repeat_ngram_size` and `min_new_tokens`, which count tokens"
    )
