"""Decoding by words, where transformers counts subwords: limits as in the papers, and the support that ranks beams."""

import itertools
import json
import re
import zlib
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

import torch
from transformers import LogitsProcessor, PreTrainedTokenizerFast

from .configuration_base import PADDING_ROWS
from .text_cleaning import IDEOGRAPHS, RUNNING

# odd, hence invertible modulo 2^64: int64 arithmetic wraps, so sums of powers of it are exact polynomial hashes
_BASE = 0x2545F4914F6CDD1D
_BASE_INVERSE = pow(_BASE, -1, 2**64)
_LETTER, _DIGIT, _OTHER, _SPACE, _UNKNOWN, _SPECIAL, _UNSPACED = range(7)
_WORD_CHARACTER = rf"[^\W_{IDEOGRAPHS}]"
# words of fewer letters say little in any language with an alphabet; lists of them would have to be made for each
_CONTENT_WORD = re.compile(rf"[{IDEOGRAPHS}]|{_WORD_CHARACTER}*\d{_WORD_CHARACTER}*|{_WORD_CHARACTER}{{4,}}")
# number of content words within which neighbors of a summary are neighbors in its document too
_NEAR = 5
# each with the words that it does not precede, or their beginnings, as far as their spelling is their sound
_ARTICLES = [
    ("[Aa]", "(?![Ee]u|[Oo]n[ce])[AEIOaeio][a-z]+"),
    ("[Aa]n", "[B-DFGJ-NP-TV-Zb-dfgj-np-tv-z][a-z]{2,}"),
]
_UNSPACED_CHARACTER = re.compile(f"[{IDEOGRAPHS}{RUNNING}]")
# with which ideographs begin in UTF-8, whose other bytes may be tokens of their own
_UNSPACED_BYTES, _CONTINUATION_BYTES = range(0xE3, 0xEA), range(0x80, 0xC0)


class WordTable:
    """How each token forms words: whether it starts one, and the hash of its characters.

    Words are those of the tokenizer's pre-tokenizer: one starts at a space, and where letters, digits and other
    characters meet (with WordPiece, where its tokens are marked so). In a vocabulary of words or characters, each token
    is a word, and so is the unknown token in every vocabulary. Where a script has no spaces between words, its
    characters count in their place: a token of them starts a word, and counts as many as it has. Hashes are
    polynomials of the characters, so that equal words have equal hashes however they are split into tokens.

    Args:
        tokenizer: a fast tokenizer whose decoder is ByteLevel, Metaspace or WordPiece.
        vocab_size: number of scores that the model gives.
        device: where the table is kept.

    Raises:
        ValueError: the tokenizer does not mark where words begin.
    """

    def __init__(self, tokenizer, vocab_size: int, device: torch.device):
        marks = word_marks(tokenizer)
        special = set(tokenizer.all_special_ids)
        # some tokenizers have one token for this and the end
        unknown = {tokenizer.unk_token_id} - {tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id}
        # a vocabulary may have gaps
        tokens = [token or "" for token in tokenizer.convert_ids_to_tokens(range(min(vocab_size, len(tokenizer))))]
        opens, kinds, texts, continues, counts = [], [], [], [], []
        for index, token in enumerate(tokens):
            text, marked = marks.read(token)
            kind = marks.kind(text)
            if index in special:
                kind = _UNKNOWN if index in unknown else _SPECIAL
            opens.append(kind in (_UNKNOWN, _SPECIAL, _UNSPACED) or (marked and kind != _SPACE))
            kinds.append(kind)
            continues.append(kind == _LETTER and marks.continues(text))
            counts.append(marks.unspaced(text) if kind in (_LETTER, _UNSPACED) else 0)
            if kind in (_UNKNOWN, _SPECIAL):
                # not characters: a code beyond all of them keeps it distinct
                texts.append([0x110000 + index])
            else:
                texts.append([] if kind == _SPACE else [ord(character) for character in text])
        missing = vocab_size - len(tokens)
        self.texts = [marks.read(token)[0] for token in tokens] + [""] * missing
        self.continues = torch.tensor(continues + [False] * missing, device=device)
        # characters of scripts without spaces
        self.counts = torch.tensor(counts + [0] * missing, device=device)
        self.opens = torch.tensor(opens + [True] * missing, device=device)
        self.kinds = torch.tensor(kinds + [_SPECIAL] * missing, device=device)
        self.lengths = torch.tensor([len(text) for text in texts] + [0] * missing, device=device)
        hashes = [_polynomial(text) for text in texts] + [_wrap(-1 - index) for index in range(missing)]
        self.hashes = torch.tensor(hashes, dtype=torch.int64, device=device)
        # tokens of the same text are banned together: scores are looked up by group
        self.group_hashes, self.groups = torch.unique(self.hashes, return_inverse=True)

    @cached_property
    def articles(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """For `a` and for `an`, true for its tokens, and for those that open a word which it does not precede."""

        def tokens_of(pattern: str) -> torch.Tensor:
            matches = [re.fullmatch(pattern, text) is not None for text in self.texts]
            return torch.tensor(matches, device=self.opens.device)

        return [(tokens_of(article), tokens_of(word) & self.opens) for article, word in _ARTICLES]

    def words_opened(self, tokens: torch.Tensor) -> torch.Tensor:
        """(R, L) token ids -> (R, L), true where a token starts a word; a special token is a word of its own."""
        kinds = self.kinds[tokens]
        opened = self.opens[tokens]
        opened[:, 0] = kinds[:, 0] != _SPACE
        opened[:, 1:] |= self._part(kinds[:, :-1], kinds[:, 1:]) & ~self.continues[tokens[:, 1:]]
        return opened

    def opens_after(self, last_tokens: torch.Tensor) -> torch.Tensor:
        """(R,) token ids -> (R, V), true where a token would start a word after them."""
        return self.opens[None] | self._part(self.kinds[last_tokens][:, None], self.kinds[None]) & ~self.continues[None]

    @staticmethod
    def _part(before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
        # a token of space is not a word, and whatever follows it starts one
        return (before != after) & (after != _SPACE)


_tables: WeakKeyDictionary = WeakKeyDictionary()


def word_table(tokenizer, vocab_size: int, device: torch.device) -> WordTable:
    """The tokenizer's `WordTable`, built once because it reads every token.

    Raises:
        ValueError: the tokenizer has a vocabulary other than the model's, or does not mark where words begin.
    """
    check_vocabulary(tokenizer, vocab_size)
    tables = _tables.setdefault(tokenizer, {})
    key = (len(tokenizer), vocab_size, str(device))
    if key not in tables:
        tables[key] = WordTable(tokenizer, vocab_size, device)
    return tables[key]


def check_vocabulary(tokenizer, vocab_size: int) -> None:
    """Raise a ValueError for a tokenizer that has a vocabulary other than the model's."""
    if not 0 <= vocab_size - len(tokenizer) <= PADDING_ROWS:
        raise ValueError(
            f"the tokenizer has {len(tokenizer)} tokens and the model {vocab_size}, so words cannot be counted or "
            "replaced: give the model's own as `model.generate(..., tokenizer=processor)`"
        )


def own_tokenizer(model) -> PreTrainedTokenizerFast:
    """The tokenizer beside a model's weights, in the folder or the Hub repository that the model was loaded from.

    Raises:
        ValueError: the model was not loaded, or there is no tokenizer where it was loaded from.
    """
    problem = "this model was not loaded from a checkpoint"
    if model.name_or_path:
        try:
            return PreTrainedTokenizerFast.from_pretrained(model.name_or_path, **model.hub_settings)
        except (OSError, ValueError) as error:
            reason = str(error).strip().partition("\n")[0]
            problem = f"none can be read from {model.name_or_path} ({reason})"
    raise ValueError(
        "`no_repeat_word_ngram_size`, `min_new_words`, `english_articles`, `support_weight` and `replace_unk` need the "
        f"tokenizer, and {problem}: give it as `model.generate(..., tokenizer=processor)`, or set them to 0"
    )


class ForbiddingLogitsProcessor(LogitsProcessor):
    """A processor that forbids tokens of a row by the row's own ids."""

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        return self.forbid(input_ids, scores.clone())

    def forbid(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Write -inf into the scores (R, V), and return them."""
        raise NotImplementedError


class MinNewWordsLogitsProcessor(ForbiddingLogitsProcessor):
    """Forbids ending the text before it has `min_new_words` words, counting the one being written.

    In scripts without spaces between words, characters are counted.
    """

    def __init__(self, min_new_words: int, table: WordTable, prompt_length: int, eos_token_ids: list[int]):
        self.min_new_words = min_new_words
        self.table = table
        self.prompt_length = prompt_length
        self.eos_token_ids = eos_token_ids

    def forbid(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        kinds = self.table.kinds[input_ids]
        opened = self.table.words_opened(input_ids) & (kinds != _SPECIAL) & (kinds != _UNSPACED)
        counts = opened + self.table.counts[input_ids]
        too_short = counts[:, self.prompt_length :].sum(-1) < self.min_new_words
        ends = scores[:, self.eos_token_ids]
        scores[:, self.eos_token_ids] = ends.masked_fill(too_short[:, None], -torch.inf)
        # where nothing but the end is possible, as when it is forced at the last step, it stays so
        nothing_else = scores.amax(-1, keepdim=True).isneginf()
        scores[:, self.eos_token_ids] = torch.where(nothing_else, ends, scores[:, self.eos_token_ids])
        return scores


class NoRepeatWordNGramLogitsProcessor(ForbiddingLogitsProcessor):
    """Forbids tokens that would repeat `ngram_size` words of the text.

    The word being written counts as it stands: `the red ca` repeats `the red ca`, but not `the red cat`. So no finished
    text contains the same n words twice (Paulus et al. 2018, for n = 3), however its words are split into tokens.
    """

    def __init__(self, ngram_size: int, table: WordTable, prompt_length: int):
        self.ngram_size = ngram_size
        self.table = table
        self.prompt_length = prompt_length

    def forbid(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        tokens = input_ids[:, self.prompt_length :]
        if tokens.shape[1] < self.ngram_size:
            return scores
        words, lengths, counts = self._words(tokens)
        banned = torch.zeros(scores.shape[0], len(self.table.group_hashes), dtype=torch.bool, device=scores.device)
        # a token that starts a word: the last n - 1 words are complete, and the token itself is the n-th
        rows, wanted, _ = self._continuations(words, lengths, counts, complete=counts)
        self._ban(banned, rows, wanted)
        opening = banned
        # a token that continues the last word: compare the n - 1 words before it, and its two parts together
        banned = torch.zeros_like(banned)
        rows, wanted, wanted_lengths = self._continuations(words, lengths, counts, complete=counts - 1)
        last = counts[rows] - 1
        begun, begun_lengths = words[rows, last], lengths[rows, last]
        longer = wanted_lengths > begun_lengths
        rest = (wanted - begun) * _powers(_BASE_INVERSE, int(lengths.max()) + 1, tokens.device)[begun_lengths]
        self._ban(banned, rows[longer], rest[longer])
        opens = self.table.opens_after(tokens[:, -1])
        repeats = torch.where(opens, opening[:, self.table.groups], banned[:, self.table.groups])
        return scores.masked_fill_(repeats, -torch.inf)

    def _words(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Hash and length of each word, (R, W), zero after a row's last one; and the number of words, (R,)."""
        opened = self.table.words_opened(tokens)
        # space before the first word counts as part of it, and adds nothing
        index = (opened.cumsum(-1) - 1).clamp(min=0)
        lengths = self.table.lengths[tokens]
        before = lengths.cumsum(-1) - lengths
        starts = torch.zeros_like(before).scatter_reduce(1, index, before, "amin", include_self=False)
        offsets = before - starts.gather(1, index)
        powers = _powers(_BASE, int(offsets.max()) + 1, tokens.device)
        parts = self.table.hashes[tokens] * powers[offsets]
        words = torch.zeros_like(parts).scatter_add(1, index, parts)
        return words, torch.zeros_like(lengths).scatter_add(1, index, lengths), opened.sum(-1)

    def _continuations(self, words, lengths, counts, complete):
        """Find the words that followed earlier occurrences of the n - 1 words before position `complete` (R,).

        Returns their rows, hashes and lengths, each (M,).
        """
        size = self.ngram_size
        positions = torch.arange(words.shape[1], device=words.device)
        offsets = torch.arange(size - 1, device=words.device) - (size - 1)
        context = words.gather(1, (complete[:, None] + offsets).clamp(min=0))
        # an earlier n-gram ends at `end`, before the word that would repeat it
        matches = (positions[None] >= size - 1) & (positions[None] < complete[:, None])
        for offset in range(size - 1):
            earlier = words.roll(size - 1 - offset, dims=1)
            matches = matches & (earlier == context[:, offset : offset + 1])
        matches = matches & (complete[:, None] >= size - 1)
        rows, ends = matches.nonzero(as_tuple=True)
        return rows, words[rows, ends], lengths[rows, ends]

    def _ban(self, banned: torch.Tensor, rows: torch.Tensor, hashes: torch.Tensor) -> None:
        known = self.table.group_hashes
        places = torch.searchsorted(known, hashes).clamp(max=len(known) - 1)
        found = known[places] == hashes
        banned[rows[found], places[found]] = True


class EnglishArticlesLogitsProcessor(ForbiddingLogitsProcessor):
    """Forbids words of a vowel after `a`, and words of a consonant after `an`.

    Where the spelling does not tell the sound, as of acronyms and of words with u or h, either may follow.
    """

    def __init__(self, table: WordTable, prompt_length: int):
        self.table = table
        self.prompt_length = prompt_length

    def forbid(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        last = input_ids[:, -1]
        # the word that begins a text has no mark
        is_word = self.table.opens[last] | (input_ids.shape[1] == self.prompt_length + 1)
        for article, forbidden in self.table.articles:
            # few rows end with one
            rows = (is_word & article[last]).nonzero()[:, 0]
            scores[rows] = scores[rows].masked_fill(forbidden, -torch.inf)
        return scores


class SupportInSource:
    """How far the content words of a summary are supported by its document.

    Args:
        document: its text.
    """

    def __init__(self, document: str):
        self.places: dict[str, list[int]] = {}
        for place, word in enumerate(_content_words(document)):
            self.places.setdefault(word, []).append(place)

    def __call__(self, summary: str) -> float:
        """The mean of two shares, from 0 to 1.

        One is of the words that are in the document, where the second of equal words does not count. The other is of
        the pairs of neighbors that are at most `_NEAR` words apart there. A text without content words has 0.
        """
        words = _content_words(summary)
        if not words:
            return 0.0
        found = len(self.places.keys() & set(words)) / len(words)
        pairs = list(itertools.pairwise(words))
        return (found + sum(map(self._are_near, pairs)) / len(pairs)) / 2 if pairs else found

    def _are_near(self, pair: tuple[str, str]) -> bool:
        first, second = pair
        others = self.places.get(second, [])
        # by bisection, as a word may be at half of all places of a long document
        return first != second and any(
            bisect_left(others, here - _NEAR) < bisect_right(others, here + _NEAR)
            for here in self.places.get(first, ())
        )


def _content_words(text: str) -> list[str]:
    return _CONTENT_WORD.findall(text.lower())


def _powers(base: int, count: int, device: torch.device) -> torch.Tensor:
    """base^0 to base^(count - 1), modulo 2^64."""
    factors = torch.full((count,), _wrap(base), dtype=torch.int64, device=device)
    factors[0] = 1
    return factors.cumprod(0)


def _wrap(number: int) -> int:
    number %= 2**64
    return number - 2**64 if number >= 2**63 else number


def _polynomial(codes: list[int]) -> int:
    value, power = 0, 1
    for code in codes:
        # codes are scattered first: with neighboring code points, short words would collide
        value += zlib.crc32(code.to_bytes(4, "little")) * power
        power = power * _BASE % 2**64
    return _wrap(value)


@dataclass(frozen=True)
class WordMarks:
    """How a tokenizer marks words: the prefix of some tokens, and whether it marks tokens that start a word.

    With `parts_kinds`, words are also split where kinds of characters meet; with `is_byte_level`, a token's characters
    stand for bytes; with `is_whole`, every token is a word.
    """

    prefix: str
    opens: bool
    parts_kinds: bool
    is_byte_level: bool = False
    is_whole: bool = False

    def read(self, token: str) -> tuple[str, bool]:
        """A token's text without its mark, and whether it starts a word according to the mark."""
        marked = token.startswith(self.prefix)
        return token.removeprefix(self.prefix), self.is_whole or marked == self.opens

    def kind(self, text: str) -> int:
        """The kind of the text's first character."""
        if self.is_byte_level and text:
            content = self._bytes(text)
            text = content.decode("utf-8", "ignore")
            if not text:
                # bytes that do not make a whole character belong to some other script
                return _UNSPACED if content[0] in _UNSPACED_BYTES else _LETTER
        if not text or text.isspace():
            return _SPACE
        if not self.is_whole and _UNSPACED_CHARACTER.match(text):
            return _UNSPACED
        if not self.parts_kinds or text[0].isalpha():
            return _LETTER
        return _DIGIT if text[0].isnumeric() else _OTHER

    def continues(self, text: str) -> bool:
        """Whether the text continues with a character whose first bytes are in the token before."""
        return self.is_byte_level and bool(text) and self._bytes(text)[0] in _CONTINUATION_BYTES

    def unspaced(self, text: str) -> int:
        """How many characters of scripts without spaces between words begin in a token that is not a word itself."""
        if self.is_whole:
            return 0
        if not self.is_byte_level:
            return len(_UNSPACED_CHARACTER.findall(text))
        content = self._bytes(text)
        whole = len(_UNSPACED_CHARACTER.findall(content.decode("utf-8", "ignore")))
        return max(whole, sum(byte in _UNSPACED_BYTES for byte in content))

    @staticmethod
    def _bytes(text: str) -> bytes:
        return bytes(_BYTES.get(character, 63) for character in text)


def _byte_alphabet() -> dict[str, int]:
    """The characters by which byte-level tokenizers represent bytes (Radford et al. 2019)."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {chr(byte): byte for byte in shown} | {chr(256 + place): byte for place, byte in enumerate(hidden)}


_BYTES = _byte_alphabet()


def word_marks(tokenizer) -> WordMarks:
    """How the tokenizer marks words.

    Raises:
        ValueError: it does not.
    """
    parts = json.loads(tokenizer.backend_tokenizer.to_str())
    description = parts.get("decoder") or {}
    kinds = {part.get("type") for part in description.get("decoders", [description])}
    if "ByteLevel" in kinds:
        return WordMarks("Ġ", opens=True, parts_kinds=True, is_byte_level=True)
    if "WordPiece" in kinds:
        return WordMarks("##", opens=False, parts_kinds=False)
    if kinds & {"Metaspace", "Replace"}:
        return WordMarks("▁", opens=True, parts_kinds=True, is_whole=parts["model"]["type"] == "WordLevel")
    raise ValueError(
        f"the tokenizer's decoder ({', '.join(map(str, kinds))}) does not show where words start, so words cannot be "
        "counted: use `no_repeat_ngram_size` and `min_new_tokens`, which count tokens"
    )
