"""What processors and generation know of texts: characters, rows of several documents, the words that tokens form.

A `tokenizer` is a fast tokenizer of transformers, or any object with its `backend_tokenizer`, special ids and tokens.
The source is the row of ids that a model reads of an example. A pointer is an id that stands for a word of the source.
"""

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, pairwise
from typing import Any, NamedTuple
from unicodedata import category
from weakref import WeakKeyDictionary

from .checks import PADDING_ROWS

# Japanese and Chinese characters, as ranges for a character class
IDEOGRAPHS = "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
# Characters of Thai, Lao, Burmese, Khmer and Tai scripts, whose words only a dictionary can separate
RUNNING = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf"
# The first pointer. A model that copies may write `FIRST_POINTER` + p for the word at position p of the source, if the
# vocabulary lacks the word. The number is above any vocabulary, and small enough for 32 bits.
FIRST_POINTER = 2**30
# What separates an example's documents where a model reads a single text.
DOCUMENT_SEPARATOR = "\n\n"
# Two parts of a word, with a line end between them, and the hyphens around them. "Pre- and post-war" has no such parts.
_SPLIT_WORD = re.compile(
    r"(?P<before>-?)\b(?P<first>[^\W_]+)-[^\S\n]*\n[^\S\n]*"
    r"(?!(?:and|or|nor|to|und|oder|bis|et|ou|en|of|og|och)\b(?!-))(?P<second>[^\W\d_]{2,})(?=(?P<after>-?))"
)
_COMPOUND = re.compile(r"\b[^\W_]+-[^\W_]+")
# The classes of tokens. A token has the class of its first character, except for unknown and special tokens.
# Unspaced characters belong to scripts without spaces between words.
_LETTER, _DIGIT, _OTHER, _SPACE, _UNKNOWN, _SPECIAL, _UNSPACED = range(7)
# Persian and Indian scripts join letters, or keep them apart, by these characters.
_JOINERS = ("\u200c", "\u200d")
_UNSPACED_CHARACTER = re.compile(f"[{IDEOGRAPHS}{RUNNING}]")
# What precedes a word in a document: white space, or an ideograph before a letter, as ideographs are separate words.
_BEFORE_WORD = re.compile(rf"\s|[{IDEOGRAPHS}](?=\w)")
# The number of pointers of a word table is a multiple of this number, so that similar sources share a table.
_POINTERS_AT_ONCE = 512
# In UTF-8, the first byte of an ideograph, and the later bytes of any character.
_UNSPACED_BYTES = range(0xE3, 0xEA)
_CONTINUATION_BYTES = range(0x80, 0xC0)


@cache
def marks() -> str:
    """Vowel signs, accents and joiners of Persian and Indian scripts, as ranges for a character class.

    Such a character belongs to the letter before it, but `\\w` does not match it.
    """
    ranges: list[list[int]] = []
    # No mark has a code below 0x300. From 0x20000 on there are ideographs, and then the variation selectors.
    for codes in (range(0x300, 0x20000), range(0xE0100, 0xE01F0)):
        for code in codes:
            if not category(chr(code)).startswith("M"):
                continue
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    return "".join([f"{chr(first)}-{chr(last)}" for first, last in ranges] + list(_JOINERS))


def readable(text: str) -> str:
    """Replace each lone surrogate by U+FFFD, as it is not a character and stops every tokenizer.

    A surrogate pair becomes the character that it encodes.
    """
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def with_whole_words(text: str, words_among: Callable[[list[str]], Collection[str]]) -> str:
    """Join words that a hyphen and a line end split, such as "sum-" and "mary".

    The hyphen stays if the text has it in the word elsewhere, if both parts are words and the joined word is none, or
    if the parts look like those of a compound, as in "state-of-the-art", "x-ray", "CNN-based" and "10-fold".

    Args:
        words_among: gives those of some texts that are words.
    """
    parts = [(first, second, first + second) for _, first, second, _ in _SPLIT_WORD.findall(text)]
    if not parts:
        return text
    words = words_among(list(set(chain.from_iterable(parts))))
    compounds = set(_COMPOUND.findall(text.lower()))

    def joined(split_word: re.Match) -> str:
        before, first, second, after = split_word.groups()
        compound, word = f"{first}-{second}", first + second
        looks_compound = before or after or len(first) == 1 or first.isupper() or not first.isalpha()
        has_words = first in words and second in words and word not in words
        if looks_compound or has_words or not second.islower() or compound.lower() in compounds:
            return before + compound
        return word

    return _SPLIT_WORD.sub(joined, text)


def tokenize(tokenizer, texts: Sequence[str], **settings: Any):
    """The tokenizer's output for whole texts, without truncation and padding: a list for each text in each field."""
    # Another thread may change the tokenizer's truncation and padding during this call.
    # Texts that were truncated or padded are tokenized again.
    while True:
        # Long texts give no warnings, as the callers truncate rows themselves.
        encoded = tokenizer(texts, verbose=False, **settings)
        rows = getattr(encoded, "encodings", None) or ()
        changed = [row for row in rows if row.overflowing or 0 in row.attention_mask]
        if not changed:
            break
    if "offset_mapping" in encoded:
        offsets_of_texts = zip(texts, encoded["offset_mapping"], strict=True)
        encoded["offset_mapping"] = [_whole_offsets(text, offsets) for text, offsets in offsets_of_texts]
    return encoded


def _whole_offsets(text: str, offsets: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The [start, end) characters of tokens, each with the marks after it that belong to no token."""
    whole = []
    next_begin = len(text)
    for begin, end in reversed(offsets):
        while end < next_begin and _continues_word(text[end]):
            end += 1
        whole.append((begin, end))
        next_begin = begin
    return whole[::-1]


@dataclass(frozen=True)
class JoinedRow:
    """The tokens of an example's documents in one row.

    Attributes:
        input_ids: the ids of the row, with separators and special tokens.
        spans: for each document, the position of its first token in the row and the number of its tokens there.
        document_lengths: the number of tokens of each document before truncation.
        full_length: the number of ids of the row without truncation.
    """

    input_ids: list[int]
    spans: list[tuple[int, int]]
    document_lengths: list[int]
    full_length: int


def shares(lengths: Sequence[int], total: int) -> list[int]:
    """Divide `total` tokens among documents of these lengths (Fabbri et al. 2019, section 6.3).

    Each document gets an equal share. What a short document does not use is divided among the longer documents. If a
    division has a remainder, the first documents get one token more.

    Returns:
        The number of tokens of each document, at most its length. Their sum is `total`, unless all documents fit.
    """
    kept = list(lengths)
    remaining = max(total, 0)
    from_shortest = sorted(range(len(lengths)), key=lengths.__getitem__)
    for rank, document in enumerate(from_shortest):
        share, remainder = divmod(remaining, len(lengths) - rank)
        if lengths[document] > share:
            # This document and all longer documents are truncated.
            for position, longer in enumerate(sorted(from_shortest[rank:])):
                most = share + 1 if position < remainder else share
                kept[longer] = min(lengths[longer], most)
            break
        remaining -= lengths[document]
    return kept


def join(
    documents: Sequence[Sequence[int]], length: int | None, before: list[int], after: list[int], separator: int
) -> JoinedRow:
    """Join the documents of an example in one row: `before`, the documents with separators between them, and `after`.

    If the row is too long, `shares` says how many tokens each document keeps. Documents without tokens get no
    separator. If the row has no room for one token of each document, the last documents are omitted.

    Args:
        documents: the ids of the tokens of each document.
        length: maximum number of ids of the row; None does not truncate.
        before, after: special ids at the beginning and the end of the row.
        separator: the id between two documents.
    """
    lengths = [len(tokens) for tokens in documents]
    # the indices of the documents that have tokens
    filled = [index for index, document_length in enumerate(lengths) if document_length]
    special = len(before) + len(after)
    total = special + sum(lengths) + max(len(filled) - 1, 0)
    kept = lengths
    if length is not None and total > length:
        # A document of one token takes two ids with its separator; only the first document needs none.
        fitting = filled[: max((length - special + 1) // 2, 1)]
        room = length - special - (len(fitting) - 1)
        fitting_lengths = [lengths[index] for index in fitting]
        kept = [0] * len(lengths)
        for index, share in zip(fitting, shares(fitting_lengths, room), strict=True):
            kept[index] = share
    row = list(before)
    spans = []
    for tokens, kept_tokens in zip(documents, kept, strict=True):
        if kept_tokens and len(row) > len(before):
            row.append(separator)
        spans.append((len(row), kept_tokens))
        row.extend(tokens[:kept_tokens])
    row.extend(after)
    return JoinedRow(row, spans, lengths, total)


class WordTable:
    """How the tokens of a vocabulary form words.

    Words are as in the tokenizer's pre-tokenizer. A word starts after a space, and where letters, digits and other
    characters meet; vowel signs and joiners do not end it. With WordPiece, a word starts at each token without `##`.
    In a vocabulary of words or characters, each token is a word. The unknown token is always a word. In scripts
    without spaces between words, characters count as words: a token of such characters starts a word, and counts as
    many words as it has characters.

    Args:
        tokenizer: a tokenizer that `word_marks` knows.
        vocab_size: number of tokens that the model has scores for.
        pointers: number of pointers, whose ids follow the vocabulary. Each is a word, like the unknown token.

    Attributes:
        opens: for each token, whether it starts a word whatever token precedes it.
        classes: for each token, its class: `_LETTER`, `_DIGIT` and so on.
        texts: the characters of each token; empty for a token of space.
        continues: for each token, whether it continues the word before, even after a token of another class.
        counts: for each token, the number of its characters of scripts without spaces between words.
        tokens: text -> the ids of the tokens with exactly this text in `texts`.
    """

    def __init__(self, tokenizer, vocab_size: int, pointers: int = 0):
        marks = word_marks(tokenizer)
        # The model may have scores for more tokens than the tokenizer has.
        special = set(tokenizer.all_special_ids)
        special.update(range(len(tokenizer), vocab_size))
        # Some tokenizers have one token for unknown words and for the end; that token is not a word.
        unknown = {tokenizer.unk_token_id} - {tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id}
        if pointers:
            unknown.update(range(vocab_size, vocab_size + pointers))
            special.update(unknown)
            vocab_size += pointers
        tokens = tokenizer.convert_ids_to_tokens(range(min(vocab_size, len(tokenizer))))
        # A vocabulary may also have gaps, whose tokens are None.
        tokens = list(tokens) + [None] * (vocab_size - len(tokens))
        self.opens, self.continues = [], []
        self.classes, self.counts = [], []
        self.texts: list[str] = []
        self.tokens: dict[str, list[int]] = {}
        for index, token in enumerate(tokens):
            text, starts_word = marks.read(token or "")
            if index in special:
                token_class = _UNKNOWN if index in unknown else _SPECIAL
                # No other token has this text, or a text that begins with it.
                text = f"\0{index}\0"
            else:
                token_class = marks.character_class(text)
            is_separate = token_class in (_UNKNOWN, _SPECIAL, _UNSPACED)
            is_space = token_class == _SPACE
            self.opens.append(is_separate or (starts_word and not is_space))
            self.classes.append(token_class)
            self.continues.append(token_class == _LETTER and marks.continues(text))
            self.counts.append(marks.unspaced(text) if token_class in (_LETTER, _UNSPACED) else 0)
            self.texts.append("" if is_space else text)
            self.tokens.setdefault(self.texts[-1], []).append(index)

    def count(self, ids: Sequence[int], first: int = 0) -> int:
        """The number of words of `ids` from position `first` on, without special tokens; the last may be unfinished."""
        words = 0
        for token, opens in zip(ids[first:], self.words_opened(ids)[first:], strict=True):
            words += self.counts[token]
            # The characters of unspaced tokens are counted above.
            if opens and self.classes[token] not in (_SPECIAL, _UNSPACED):
                words += 1
        return words

    def words_opened(self, ids: Sequence[int]) -> list[bool]:
        """For each token of a text, whether the token starts a word. A special token is a separate word."""
        first_opens = [self.classes[token] != _SPACE for token in ids[:1]]
        return first_opens + [self.opens_after(before, token) for before, token in pairwise(ids)]

    def opens_after(self, before: int, token: int) -> bool:
        """Whether a token starts a word if it follows the token `before`."""
        if self.opens[token]:
            return True
        # A token of space starts no word, but the token after it does.
        token_class = self.classes[token]
        if token_class == _SPACE or token_class == self.classes[before]:
            return False
        return not self.continues[token]

    def words(self, ids: Sequence[int]) -> list[str]:
        """The words of a text, given its ids, in order. A special token is a word, whose text no other word has."""
        words: list[str] = []
        for token, opens in zip(ids, self.words_opened(ids), strict=True):
            if opens:
                words.append(self.texts[token])
            elif words:
                words[-1] += self.texts[token]
        return words


# Tokenizer -> (size of the tokenizer, size of the vocabulary, number of pointers) -> word table
_tables: WeakKeyDictionary = WeakKeyDictionary()


def word_table(tokenizer, vocab_size: int, pointers: int = 0) -> WordTable:
    """The tokenizer's `WordTable` with at least `pointers` pointers. Tables are kept, as building one takes long.

    Raises:
        ValueError: as `check_vocabulary`, or the tokenizer does not show where words start.
    """
    check_vocabulary(tokenizer, vocab_size)
    pointers = -(-pointers // _POINTERS_AT_ONCE) * _POINTERS_AT_ONCE  # rounded up to a multiple
    tables = _tables.setdefault(tokenizer, {})
    key = (len(tokenizer), vocab_size, pointers)
    if key not in tables:
        tables[key] = WordTable(tokenizer, vocab_size, pointers)
    return tables[key]


def check_vocabulary(tokenizer, vocab_size: int) -> None:
    """Raise a ValueError if a model with scores for `vocab_size` tokens has too few or too many for the tokenizer."""
    if not 0 <= vocab_size - len(tokenizer) <= PADDING_ROWS:
        raise ValueError(
            f"the tokenizer has {len(tokenizer)} tokens and the model {vocab_size}: give the model's own as "
            "`model.generate(..., tokenizer=processor)`"
        )


class PointedWord(NamedTuple):
    """A word of a document in place of a pointer, and whether a space may precede it: none after a letter or hyphen."""

    text: str
    opens_word: bool


def pointed_words(
    document: str, offsets: Sequence[tuple[int, int]], ids: Sequence[int], start: int = 0
) -> dict[int, PointedWord]:
    """Pointer among the ids of a summary -> the word of a document to which it points.

    Args:
        document: the text.
        offsets: the [start, end) characters of each token of the document in the source.
        ids: the ids of the summary; ids that are not pointers, and pointers to other documents, are skipped.
        start: the position in the source of the document's first token.
    """
    words = {}
    first = FIRST_POINTER + start
    for token in ids:
        if first <= token < first + len(offsets):
            begin, end = offsets[token - first]
            text = document[begin:end]
            word_start = end - len(text.lstrip())
            opens_word = word_start == 0 or _BEFORE_WORD.match(document, word_start - 1) is not None
            words[token] = PointedWord(text.strip(), opens_word)
    return words


def decode_pointed(
    tokenizer, ids: Sequence[int], words: Mapping[int, tuple[str, bool]], skip_special_tokens: bool
) -> str:
    """Decode the ids of a summary, some of which are pointers, to a text.

    Args:
        words: pointer -> its `PointedWord`; other pointers among `ids` are omitted.
        skip_special_tokens: whether to omit special tokens.
    """
    marks = word_marks(tokenizer)
    skipped = set(tokenizer.all_special_ids) if skip_special_tokens else set()
    tokens = []
    for token in ids:
        if token in words:
            word, opens_word = words[token]
            has_prefix = opens_word == marks.opens
            tokens.append(marks.prefix + word if has_prefix else word)
        elif token < FIRST_POINTER and token not in skipped:
            tokens.append(tokenizer.convert_ids_to_tokens(token))
    return tokenizer.convert_tokens_to_string(tokens)


def _continues_word(character: str) -> bool:
    """Whether a character is a vowel sign, an accent, a joiner, or a vowel or final consonant of a Korean syllable."""
    is_vowel_or_final = "\u1160" <= character <= "\u11ff"
    return is_vowel_or_final or character in _JOINERS or (character != "" and category(character).startswith("M"))


@dataclass(frozen=True)
class WordMarks:
    """How the tokens of a vocabulary show where words start. The text of a token is the token without the prefix.

    Attributes:
        prefix: the mark at the beginning of some tokens, such as `##`.
        opens: True if tokens with the prefix start a word, False if tokens without the prefix do.
        splits_classes: whether a word also starts where letters, digits and other characters meet.
        is_byte_level: whether each character of a token represents a byte of UTF-8.
        is_whole: whether every token is a word.
    """

    prefix: str
    opens: bool
    splits_classes: bool
    is_byte_level: bool = False
    is_whole: bool = False

    def read(self, token: str) -> tuple[str, bool]:
        """The text of a token, without the prefix, and whether the token starts a word according to the prefix."""
        has_prefix = token.startswith(self.prefix)
        return token.removeprefix(self.prefix), self.is_whole or has_prefix == self.opens

    def character_class(self, text: str) -> int:
        """The class of a token's text, which is the class of the first character: `_LETTER`, `_DIGIT` and so on."""
        # ASCII characters represent their own bytes.
        if self.is_byte_level and not text.isascii():
            content = self._bytes(text)
            text = content.decode("utf-8", "ignore")
            if not text:
                # The bytes are part of a character, which is an ideograph or a letter of some script.
                return _UNSPACED if content[0] in _UNSPACED_BYTES else _LETTER
        if not text or text.isspace():
            return _SPACE
        if not self.is_whole and not text.isascii() and _UNSPACED_CHARACTER.match(text):
            return _UNSPACED
        if not self.splits_classes or text[0].isalpha() or _continues_word(text[0]):
            return _LETTER
        return _DIGIT if text[0].isnumeric() else _OTHER

    def continues(self, text: str) -> bool:
        """Whether a text begins with a vowel sign, a joiner, or later bytes of the previous token's character."""
        if text[:1].isascii():
            return False
        if not self.is_byte_level:
            return _continues_word(text[0])
        content = self._bytes(text)
        return content[0] in _CONTINUATION_BYTES or _continues_word(content.decode("utf-8", "ignore")[:1])

    def unspaced(self, text: str) -> int:
        """The number of characters of scripts without spaces that begin in a text; 0 if every token is a word."""
        if self.is_whole or text.isascii():
            return 0
        if not self.is_byte_level:
            return len(_UNSPACED_CHARACTER.findall(text))
        content = self._bytes(text)
        characters = _UNSPACED_CHARACTER.findall(content.decode("utf-8", "ignore"))
        # A character whose later bytes are in the next token is not decoded, but its first byte is here.
        first_bytes = [byte for byte in content if byte in _UNSPACED_BYTES]
        return max(len(characters), len(first_bytes))

    @staticmethod
    def _bytes(text: str) -> bytes:
        """The bytes that the characters of a byte-level token represent."""
        return text.translate(_BYTES).encode("latin-1", "replace")


def _byte_alphabet() -> dict[int, int]:
    """Code of a character -> the byte that the character represents in byte-level tokenizers (Radford et al. 2019).

    A printable character represents the byte of its code, and is left out. The other bytes are represented by the
    characters from 256 on. A character with the code of such a byte represents no byte, and becomes a question mark.
    """
    printable = set(range(33, 127)) | set(range(161, 173)) | set(range(174, 256))
    hidden = [byte for byte in range(256) if byte not in printable]
    represented = {256 + index: byte for index, byte in enumerate(hidden)}
    return dict.fromkeys(hidden, ord("?")) | represented


_BYTES = _byte_alphabet()


def word_marks(tokenizer) -> WordMarks:
    """How the tokens of a tokenizer show where words start, according to the tokenizer's decoder.

    Raises:
        ValueError: the decoder is of an unknown type.
    """
    backend = tokenizer.backend_tokenizer
    # The state of the whole tokenizer would contain the vocabulary.
    decoder = {} if backend.decoder is None else json.loads(backend.decoder.__getstate__())
    types = {step.get("type") for step in decoder.get("decoders", [decoder])}
    if "ByteLevel" in types:
        return WordMarks("Ġ", opens=True, splits_classes=True, is_byte_level=True)
    if "WordPiece" in types:
        return WordMarks("##", opens=False, splits_classes=False)
    is_whole = type(backend.model).__name__ == "WordLevel"
    if "Metaspace" in types or "Replace" in types:
        return WordMarks("▁", opens=True, splits_classes=True, is_whole=is_whole)
    if is_whole and backend.decoder is None:
        # Such a tokenizer joins its tokens by spaces.
        return WordMarks("", opens=True, splits_classes=True, is_whole=True)
    named = ", ".join(str(name) for name in types)
    raise ValueError(
        f"the tokenizer's decoder ({named}) does not show where words start, so words cannot be counted: use "
        "`no_repeat_ngram_size` and `min_new_tokens`, which count tokens"
    )
