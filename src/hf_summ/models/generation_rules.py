"""Rules that forbid the next tokens of a text by its own tokens, for `generate()` and for other runtimes."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np

from .text_words import WordTable

Tokens = Sequence[int] | np.ndarray


class Rule:
    """A rule that forbids or forces the next tokens of a text.

    Attributes:
        yields: whether a token that is forbidden stays possible where no other is.
        ends: whether the rule forbids all tokens, which ends a text, and not those that `forbidden` returns.
    """

    yields = ends = False

    def forbidden(self, ids: list[int]) -> Tokens:
        """The tokens that must not follow; for a rule that ends texts, any token if it does."""
        return ()

    def forced(self, length: int) -> Sequence[int]:
        """The only tokens that may follow texts of this length; if there are none, the rule forces nothing."""
        return ()

    def pairs(self, texts: Sequence[list[int]]) -> tuple[np.ndarray, np.ndarray]:
        """The rows of texts, and the tokens that must not follow there, both (P,)."""
        tokens = [np.asarray(self.forbidden(ids), np.int64) for ids in texts]
        return np.repeat(np.arange(len(texts)), list(map(len, tokens))), np.concatenate(tokens)


class BadWords(Rule):
    """Forbids the last token of `bad_words_ids` after the others, as transformers does, and never the end alone."""

    def __init__(self, words: Sequence[Sequence[int]], end_token_ids: Sequence[int] = ()):
        self.words = [list(word) for word in words if list(word) not in [[end] for end in end_token_ids]]

    def forbidden(self, ids: list[int]) -> Tokens:
        return [word[-1] for word in self.words if ids[len(ids) + 1 - len(word) :] == word[:-1]]


class Force(Rule):
    """Forces a text of `length` tokens, prompt included, to continue with one of `tokens`, whose scores are zero.

    It overrides other rules, as `forced_bos_token_id` and `forced_eos_token_id` do.
    """

    def __init__(self, tokens: Sequence[int], length: int):
        self.tokens, self.length = tokens, length

    def forced(self, length: int) -> Sequence[int]:
        return self.tokens if length == self.length else ()


class MinLength(Rule):
    """Forbids the end of a text before `length` tokens, prompt included."""

    def __init__(self, length: int, end_token_ids: Sequence[int]):
        self.length, self.end_token_ids = length, end_token_ids

    def forbidden(self, ids: list[int]) -> Tokens:
        return self.end_token_ids if len(ids) < self.length else ()


class NoRepeatNGram(Rule):
    """Forbids tokens that would repeat n tokens of the text, prompt included, as transformers does."""

    def __init__(self, size: int):
        self.size = size

    def forbidden(self, ids: list[int]) -> Tokens:
        start, width = len(ids) + 1 - self.size, self.size - 1
        last = ids[max(start, 0) :]
        return [ids[index + width] for index in range(start) if ids[index : index + width] == last]


class MinNewWords(Rule):
    """Forbids the end of a text before `number` words, including the unfinished one.

    In scripts without spaces between words, characters count instead.
    """

    # if only the end is possible, for example when forced at the last step, it is allowed
    yields = True

    def __init__(self, number: int, table: WordTable, prompt_length: int, end_token_ids: Sequence[int]):
        self.number, self.table, self.prompt_length, self.end_token_ids = number, table, prompt_length, end_token_ids

    def forbidden(self, ids: list[int]) -> Tokens:
        return self.end_token_ids if self.table.count(ids, self.prompt_length) < self.number else ()


class NoRepeatWordNGram(Rule):
    """Forbids tokens that would repeat n words of the text.

    The unfinished word counts as it stands: `the red ca` repeats `the red ca`, but not `the red cat`. No finished text
    contains the same n words twice (Paulus et al. 2018, for n = 3), regardless of its split into tokens.

    Args:
        ignored: words; an n-gram with one of them may repeat, as with OpenNMT's `ignore_when_blocking`.
    """

    def __init__(self, size: int, table: WordTable, prompt_length: int, ignored: Collection[str] = ()):
        self.size, self.table, self.prompt_length, self.ignored = size, table, prompt_length, frozenset(ignored)

    def forbidden(self, ids: list[int]) -> Tokens:
        ids = ids[self.prompt_length :]
        if not ids:
            return ()
        words, last = self.table.words(ids), ids[-1]
        # a token that starts a word makes the n-th word after complete ones
        opening = [token for word in self._followers(words, len(words)) for token in self.table.tokens.get(word, ())]
        tokens = [token for token in opening if self.table.opens_after(last, token)]
        # any other token completes the unfinished n-th word
        begun = words[-1] if words else ""
        for word in self._followers(words, len(words) - 1):
            if word.startswith(begun) and word != begun:
                endings = self.table.tokens.get(word.removeprefix(begun), ())
                tokens += [token for token in endings if not self.table.opens_after(last, token)]
        return tokens

    def _followers(self, words: list[str], position: int) -> set[str]:
        """The words that followed earlier occurrences of the n - 1 words before a position."""
        size = self.size - 1
        context = words[max(position - size, 0) : position]
        return {
            words[end]
            for end in range(size, position)
            if words[end - size : end] == context and self.ignored.isdisjoint(words[end - size : end + 1])
        }


class EndRepetitions(Rule):
    """Ends a text after a repetition of n tokens or words, as OpenNMT does.

    Args:
        units: maps a text's ids to its tokens or words.
        ignored: as for `NoRepeatWordNGram`.
    """

    ends = True

    def __init__(
        self, size: int, units: Callable[[list[int]], list], prompt_length: int, ignored: Collection[str] = ()
    ):
        self.size, self.units, self.prompt_length, self.ignored = size, units, prompt_length, frozenset(ignored)

    def forbidden(self, ids: list[int]) -> Tokens:
        units, size = self.units(ids[self.prompt_length :]), self.size
        repeats = any(units[start : start + size] == units[-size:] for start in range(len(units) - size))
        return ids[:1] if repeats and self.ignored.isdisjoint(units[-size:]) else ()


class EnglishArticles(Rule):
    """Forbids words with an initial vowel after `a`, and words with an initial consonant after `an`.

    If the spelling does not determine the sound (acronyms, initial u or h), both articles are allowed.
    """

    def __init__(self, table: WordTable, prompt_length: int):
        self.table, self.prompt_length = table, prompt_length

    def forbidden(self, ids: list[int]) -> Tokens:
        for articles, following in self.table.articles:
            # the first word of a text has no mark
            if ids[-1] in articles and (len(ids) == self.prompt_length + 1 or self.table.opens[ids[-1]]):
                return following
        return ()


def word_rules(
    config: Any, table: Callable[[], WordTable], prompt_length: int, end_token_ids: Sequence[int]
) -> Iterator[Rule]:
    """The rules of a generation config's own settings.

    Args:
        table: returns the words of the model's tokens, for settings that need them.
    """
    ends_beams = config.ngram_blocking == "beam"
    if ends_beams and config.no_repeat_ngram_size:
        yield EndRepetitions(config.no_repeat_ngram_size, list, prompt_length)
    if config.min_new_words:
        yield MinNewWords(config.min_new_words, table(), prompt_length, end_token_ids)
    if size := config.no_repeat_word_ngram_size:
        ignored = (getattr(config, "ignore_when_blocking", None) or "").split()
        if ends_beams:
            yield EndRepetitions(size, table().words, prompt_length, ignored)
        else:
            yield NoRepeatWordNGram(size, table(), prompt_length, ignored)
    if config.english_articles:
        yield EnglishArticles(table(), prompt_length)


def coverage_growth(coverage: Any, step: Any) -> Any:
    """The growth (R,) of the penalty Σ_i max(coverage_i, 1) - S for repeated copying (Aksenov 2020, section 6.3).

    Args:
        coverage: (R, S), an array or a tensor, the sum of the copy distributions of all steps, including the last.
        step: (R, S), the copy distribution of the last step.
    """
    overlap, before = ((total.clip(min=1.0) - 1.0).sum(-1) for total in (coverage, coverage - step))
    return overlap - before
