"""Decoding by words, where transformers counts subwords: limits as in the papers, and the support that ranks beams."""

import itertools
import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

import torch
from transformers import LogitsProcessor, PreTrainedTokenizerFast

from .configuration_base import PADDING_ROWS
from .text_documents import IDEOGRAPHS, RUNNING

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
    """How each token forms words: whether it starts one, and its characters.

    Words are those of the tokenizer's pre-tokenizer: one starts at a space, and where letters, digits and other
    characters meet (with WordPiece, where its tokens are marked so). In a vocabulary of words or characters, each token
    is a word, and so is the unknown token in every vocabulary. Where a script has no spaces between words, its
    characters count in their place: a token of them starts a word, and counts as many as it has.

    Args:
        tokenizer: a fast tokenizer whose decoder is ByteLevel, Metaspace or WordPiece.
        vocab_size: number of scores that the model gives.
        device: where the scores are.

    Attributes:
        texts: the characters of each token, none for space.
        tokens: those that have a text.

    Raises:
        ValueError: the tokenizer does not mark where words begin.
    """

    def __init__(self, tokenizer, vocab_size: int, device: torch.device):
        marks = word_marks(tokenizer)
        self.device = device
        # the model may have scores of tokens that the tokenizer has not
        special = {*tokenizer.all_special_ids, *range(len(tokenizer), vocab_size)}
        # some tokenizers have one token for this and the end
        unknown = {tokenizer.unk_token_id} - {tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id}
        self.opens, self.kinds, self.texts, self.continues, self.counts = [], [], [], [], []
        self.tokens: dict[str, list[int]] = {}
        known = tokenizer.convert_ids_to_tokens(range(min(vocab_size, len(tokenizer))))
        for index, token in enumerate([*known, *[None] * (vocab_size - len(known))]):
            # a vocabulary may have gaps
            text, marked = marks.read(token or "")
            kind = marks.kind(text)
            if index in special:
                kind = _UNKNOWN if index in unknown else _SPECIAL
                # no other token has it, or begins with it
                text = f"\0{index}\0"
            self.opens.append(kind in (_UNKNOWN, _SPECIAL, _UNSPACED) or (marked and kind != _SPACE))
            self.kinds.append(kind)
            self.continues.append(kind == _LETTER and marks.continues(text))
            # characters of scripts without spaces
            self.counts.append(marks.unspaced(text) if kind in (_LETTER, _UNSPACED) else 0)
            self.texts.append("" if kind == _SPACE else text)
            self.tokens.setdefault(self.texts[-1], []).append(index)

    @cached_property
    def articles(self) -> list[tuple[set[int], torch.Tensor]]:
        """`a` and `an`: their tokens, and a mask (V,) of the tokens that open a word which they do not precede."""

        def tokens_of(pattern: str) -> list[bool]:
            return [re.fullmatch(pattern, text) is not None for text in self.texts]

        return [
            (
                {index for index, found in enumerate(tokens_of(article)) if found},
                torch.tensor(tokens_of(word), device=self.device) & torch.tensor(self.opens, device=self.device),
            )
            for article, word in _ARTICLES
        ]

    def words_opened(self, ids: Sequence[int]) -> list[bool]:
        """Whether each token of a text starts a word; a special token is a word of its own."""
        return [self.kinds[token] != _SPACE for token in ids[:1]] + list(map(self.opens_after, ids, ids[1:]))

    def opens_after(self, before: int, token: int) -> bool:
        """Whether a token starts a word after another one."""
        # a token of space is not a word, and whatever follows it starts one
        parts = self.kinds[before] != self.kinds[token] != _SPACE
        return self.opens[token] or (parts and not self.continues[token])

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
        counts = [self._count(ids) for ids in input_ids.tolist()]
        too_short = torch.tensor(counts, device=scores.device) < self.min_new_words
        ends = scores[:, self.eos_token_ids]
        scores[:, self.eos_token_ids] = ends.masked_fill(too_short[:, None], -torch.inf)
        # where nothing but the end is possible, as when it is forced at the last step, it stays so
        nothing_else = scores.amax(-1, keepdim=True).isneginf()
        scores[:, self.eos_token_ids] = torch.where(nothing_else, ends, scores[:, self.eos_token_ids])
        return scores

    def _count(self, ids: list[int]) -> int:
        """The number of words of a text behind its prompt."""
        kinds, counts, opened = self.table.kinds, self.table.counts, self.table.words_opened(ids)
        behind = range(self.prompt_length, len(ids))
        words = sum(opened[place] and kinds[ids[place]] not in (_SPECIAL, _UNSPACED) for place in behind)
        return words + sum(counts[token] for token in ids[self.prompt_length :])


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
        texts = input_ids[:, self.prompt_length :].tolist()
        repeating = [(row, token) for row, ids in enumerate(texts) if ids for token in self._repeating(ids)]
        if repeating:
            rows, tokens = torch.tensor(repeating, device=scores.device).T
            scores[rows, tokens] = -torch.inf
        return scores

    def _repeating(self, ids: list[int]) -> list[int]:
        """The tokens after which a text repeats words."""
        words, last = self.table.words(ids), ids[-1]
        # a token that starts a word is the n-th after words that are complete
        opening = [token for word in self._followers(words, len(words)) for token in self.table.tokens.get(word, ())]
        tokens = [token for token in opening if self.table.opens_after(last, token)]
        # another one is the rest of the n-th, which has been begun
        begun = words[-1] if words else ""
        for word in self._followers(words, len(words) - 1):
            if word.startswith(begun) and word != begun:
                rest = self.table.tokens.get(word.removeprefix(begun), ())
                tokens += [token for token in rest if not self.table.opens_after(last, token)]
        return tokens

    def _followers(self, words: list[str], place: int) -> set[str]:
        """The words that followed earlier occurrences of the n - 1 words before a place."""
        size = self.ngram_size - 1
        context = words[max(place - size, 0) : place]
        return {words[end] for end in range(size, place) if words[end - size : end] == context}


class EndRepetitionsLogitsProcessor(ForbiddingLogitsProcessor):
    """Forbids whatever follows a text whose last n tokens or words have occurred in it before, as OpenNMT does.

    Args:
        units: the tokens or words of a text's ids.
    """

    def __init__(self, ngram_size: int, units: Callable[[list[int]], list], prompt_length: int):
        self.ngram_size = ngram_size
        self.units = units
        self.prompt_length = prompt_length

    def forbid(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        for row, ids in enumerate(input_ids[:, self.prompt_length :].tolist()):
            units, size = self.units(ids), self.ngram_size
            if any(units[start : start + size] == units[-size:] for start in range(len(units) - size)):
                scores[row] = -torch.inf
        return scores


class EnglishArticlesLogitsProcessor(ForbiddingLogitsProcessor):
    """Forbids words of a vowel after `a`, and words of a consonant after `an`.

    Where the spelling does not tell the sound, as of acronyms and of words with u or h, either may follow.
    """

    def __init__(self, table: WordTable, prompt_length: int):
        self.table = table
        self.prompt_length = prompt_length

    def forbid(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        # the word that begins a text has no mark
        is_first = input_ids.shape[1] == self.prompt_length + 1
        for row, token in enumerate(input_ids[:, -1].tolist()):
            for articles, forbidden in self.table.articles:
                if token in articles and (is_first or self.table.opens[token]):
                    scores[row].masked_fill_(forbidden, -torch.inf)
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
