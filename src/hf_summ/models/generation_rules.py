"""The rules of a search, in numpy: which tokens must not follow a text, which texts remain, and when the search ends.

The loop over a PyTorch model and the one over ONNX graphs score the next tokens, and these classes select among them.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from .text_documents import WordTable

Tokens = Sequence[int] | np.ndarray
# the score of a missing beam
_ABSENT = np.float32(-1e9)


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


def coverage_growth(coverage: Any, step: Any) -> Any:
    """The growth (R,) of the penalty Σ_i max(coverage_i, 1) - S for repeated copying (Aksenov 2020, section 6.3).

    Args:
        coverage: (R, S), an array or a tensor, the sum of the copy distributions of all steps, including the last.
        step: (R, S), the copy distribution of the last step.
    """
    overlap, before = ((total.clip(min=1.0) - 1.0).sum(-1) for total in (coverage, coverage - step))
    return overlap - before


class GnmtLengthPenalty(float):
    """The exponent α of the GNMT length penalty, ((k + n) / (k + 1))^α, with k = 5 (Wu et al. 2016, equation 14).

    Beam search divides a hypothesis's score by `length ** length_penalty`. This exponent makes that power the GNMT
    penalty.
    """

    offset: float

    def __new__(cls, exponent: float, offset: float = 5.0):
        penalty = super().__new__(cls, exponent)
        penalty.offset = offset
        return penalty

    def __rpow__(self, length):
        try:
            return ((self.offset + length) / (self.offset + 1.0)) ** float(self)
        except OverflowError as error:
            raise ValueError(f"`gnmt_length_penalty` is {float(self)}, too large for {length} tokens") from error


class Sequences(NamedTuple):
    """The texts of a search.

    Attributes:
        sequences: (N, L) ids, padded.
        scores: (N); None for greedy search.
        beams: (N, L - prompt), the row that each id continued, or -1; None for greedy search.
    """

    sequences: np.ndarray
    scores: np.ndarray | None = None
    beams: np.ndarray | None = None


class Texts:
    """The texts of greedy search, with the interface of `Beams`.

    Attributes:
        ids: (R, T), of the unfinished documents.
        totals: None, as only one text of each document is compared.
    """

    candidates = number = 1
    totals = None

    def __init__(self, prompts: np.ndarray, config: Any, ends: Sequence[int], padding: int | None):
        self.ids, self.length, self._ends = prompts, prompts.shape[1], ends
        self._max_length = config.max_length
        self._padding = padding or 0
        self._written = np.full((len(prompts), config.max_length), self._padding)
        self._written[:, : self.length] = prompts
        self._documents = np.arange(len(prompts))
        self.is_done = np.zeros(len(prompts), bool)

    @property
    def is_over(self) -> bool:
        """Whether all texts are final."""
        return self.length == self._max_length or bool(self.is_done.all())

    def advance(self, totals: np.ndarray, beams: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """Append the best tokens (R, 1) -> the rows (R,) to continue, in unchanged order."""
        tokens = np.where(self.is_done[:, None], self._padding, tokens)
        self.ids = np.concatenate((self.ids, tokens), axis=1)
        self._written[self._documents, self.length] = tokens[:, 0]
        self.length += 1
        self.is_done = self.is_done | _are_among(tokens[:, 0], self._ends)
        return np.arange(len(tokens))

    def select(self, documents: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Continue with some of the documents only -> their rows."""
        self.ids, self._documents, self.is_done = (own[documents] for own in (self.ids, self._documents, self.is_done))
        return rows[documents]

    def end(self) -> None:
        """End all texts with their next token."""
        self._max_length = self.length + 1

    def output(self) -> Sequences:
        """The texts of all documents."""
        return Sequences(self._written[:, : self.length])


class Beams:
    """The running beams of the unfinished documents, and the finished beams of all.

    Args:
        prompts: (R, T) ids, R = B · beams.
        config: the generation config.
        ends: the ids that end a beam.
        padding: the id of padding, if there is one.

    Attributes:
        number, candidates: beams of a document, and the candidates that `advance` needs for each document.
        totals: (B, beams), the scores of the running beams.
        length: number of ids of a running beam.
        is_done: (B), whether the finished beams of a document are final.
    """

    def __init__(self, prompts: np.ndarray, config: Any, ends: Sequence[int], padding: int | None):
        self._config, self._ends, self._padding = config, ends, padding
        self._max_length = config.max_length
        self.number, self.length = config.num_beams, prompts.shape[1]
        self._prompt_length = self.length
        # enough candidates to replace all beams that end; the published programs do not replace them
        self.candidates = self.number if config.beam_stopping else self.number * max(2, 1 + len(ends))
        # (R, 2, L): ids, and the beam that each id continued; then -1
        self._written = np.full((len(prompts), 2, config.max_length), -1)
        self._written[:, 0, : self.length] = prompts
        self._finished = self._written.reshape(-1, self.number, *self._written.shape[1:]).copy()
        self._finished_scores = np.full(self._finished.shape[:2], _ABSENT)
        self.totals = self._finished_scores.copy()
        # initially all beams of a document are equal
        self.totals[:, 0] = 0.0
        self._documents = np.arange(len(self.totals))
        self.is_done = np.zeros(len(self.totals), bool)
        self._best_has_ended = self.is_done.copy()

    @property
    def ids(self) -> np.ndarray:
        """(R, T)."""
        return self._written[:, 0, : self.length]

    @property
    def is_over(self) -> bool:
        """Whether the finished beams of all documents are final."""
        return self.length == self._max_length or bool(self.is_done.all())

    def advance(self, totals: np.ndarray, beams: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """Append the best tokens -> the rows (R,) that they continue.

        Args:
            totals: (B, candidates), in descending order.
            beams, tokens: (B, candidates), the beams that the candidates continue, and their tokens.
        """
        rows = beams + np.arange(0, self.totals.size, self.number)[:, None]
        if self._config.beam_stopping == "drgd":
            width = self.number - self._number_finished()
            totals = np.where(np.arange(self.number) < width[:, None], totals, -np.inf)
        if self._config.ngram_blocking == "beam":
            self._keep_repetitions(totals)
        is_end = _are_among(tokens, self._ends) | (self.length + 1 == self._max_length)
        best = [candidates[:, : self.number] for candidates in (totals, rows, beams, tokens)]
        # further candidates only replace beams that end
        if is_end.any():
            self._finish(*best, is_end[:, : self.number] & ~self.is_done[:, None])
            self._best_has_ended |= is_end[:, 0]
            running = np.where(is_end, -np.inf, totals) if self._config.beam_stopping else totals + _ABSENT * is_end
            order = _best(running, self.number)
            best = [np.take_along_axis(candidates, order, 1) for candidates in (running, rows, beams, tokens)]
        self.totals = best[0].astype(np.float32, copy=False)
        rows, beams, tokens = (candidates.ravel() for candidates in best[1:])
        self._written = self._written[rows]
        self._written[:, 0, self.length], self._written[:, 1, self.length] = tokens, beams
        self.length += 1
        self.is_done |= self._ended()
        return rows

    def _finish(self, totals, rows, beams, tokens, is_finished) -> None:
        """Keep the best of the finished beams and of the candidates (B, N) that end at this step."""
        written = self._written[rows]
        written[:, :, 0, self.length], written[:, :, 1, self.length] = tokens, beams
        length, penalty = self.length + 1 - self._prompt_length, self._config.length_penalty
        scores = totals / length**penalty
        if self._config.beam_stopping == "drgd":
            # DRGD's program does not count the end token: beams that stop without it have one token more
            scores = np.where(_are_among(tokens, self._ends), scores, totals / (length + 1) ** penalty)
        scores = np.where(is_finished, scores, -np.inf)
        scores = np.concatenate((self._finished_scores[self._documents], scores), axis=1)
        written = np.concatenate((self._finished[self._documents], written), axis=1)
        order = _best(scores, self.number)
        self._finished_scores[self._documents] = np.take_along_axis(scores, order, 1)
        self._finished[self._documents] = np.take_along_axis(written, order[..., None, None], 1)

    def _keep_repetitions(self, totals: np.ndarray) -> None:
        """Finish a document's running beams if, by its totals (B, N), all of them end in a repetition."""
        is_stuck = np.isneginf(totals[:, 0]) & ~self.is_done & (self._number_finished() == 0)
        if is_stuck.any():
            rows = np.arange(self.totals.size).reshape(self.totals.shape)
            nothing = np.full_like(rows, -1)
            self._finish(self.totals, rows, nothing, nothing, np.broadcast_to(is_stuck[:, None], rows.shape))

    def _number_finished(self) -> np.ndarray:
        """(B)."""
        return (self._finished[self._documents, :, 0, self._prompt_length] >= 0).sum(1)

    def _ended(self) -> np.ndarray:
        """Whether the search for each document (B,) ends."""
        if not self._config.beam_stopping:
            return self._cannot_improve()
        is_over = np.isneginf(self.totals[:, 0])
        if self._config.beam_stopping == "opennmt":
            is_over |= self._best_has_ended & (self._number_finished() >= self._config.num_return_sequences)
        return is_over

    def _cannot_improve(self) -> np.ndarray:
        """Whether no running beam of a document (B,) is expected to surpass its worst finished one."""
        penalty, stops_early = self._config.length_penalty, self._config.early_stopping
        length = self._max_length if stops_early == "never" and penalty > 0 else self.length
        best = self.totals[:, 0] / (length - self._prompt_length) ** penalty
        is_worse = ~(best > self._finished_scores[self._documents, -1])
        if stops_early is True:
            is_worse |= self._number_finished() == self.number
        return is_worse

    def select(self, documents: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Continue with some of the documents only -> their share of the rows (R,)."""
        shape = (-1, self.number, *self._written.shape[1:])
        self._written = self._written.reshape(shape)[documents].reshape(-1, *shape[2:])
        self.totals, self._documents = self.totals[documents], self._documents[documents]
        self.is_done, self._best_has_ended = self.is_done[documents], self._best_has_ended[documents]
        return rows.reshape(-1, self.number)[documents].ravel()

    def end(self) -> None:
        """End all beams with their next token."""
        self._max_length = self.length + 1

    def output(self) -> Sequences:
        """The best finished beams of all documents."""
        if self._config.beam_stopping == "drgd":
            self._defer_short(self._config.min_new_tokens or 0)
        returned = self._config.num_return_sequences
        first_rows = np.arange(0, self._finished_scores.size, self.number).repeat(returned)
        sequences, beams = self._finished[:, :returned].reshape(-1, *self._finished.shape[2:]).swapaxes(0, 1)
        beams = np.where(beams < 0, -1, beams + first_rows[:, None])[:, self._prompt_length :]
        longest = int((beams >= 0).sum(-1).max())
        sequences = sequences[:, : self._prompt_length + longest]
        # as in transformers, where a padding token of 0 counts as none
        fill = self._padding or (self._ends[0] if len(self._ends) else -1)
        sequences = np.where(sequences >= 0, sequences, fill)
        return Sequences(sequences, self._finished_scores[:, :returned].ravel(), beams[:, :longest])

    def _defer_short(self, least: int) -> None:
        """Move finished beams with fewer tokens behind those with enough, if there are any."""
        tokens = self._finished[:, :, 0, self._prompt_length :]
        is_short = ((tokens >= 0) & ~_are_among(tokens, self._ends)).sum(-1) < least
        scores = np.where(is_short & ~is_short.all(1, keepdims=True), _ABSENT, self._finished_scores)
        order = _best(scores, self.number)
        self._finished_scores = np.take_along_axis(scores, order, 1)
        self._finished = np.take_along_axis(self._finished, order[..., None, None], 1)


def _are_among(tokens: np.ndarray, ends: Sequence[int]) -> np.ndarray:
    # several times as fast as `np.isin` for few
    return (tokens[..., None] == np.asarray(ends, np.int64)).any(-1)


def _best(scores: np.ndarray, number: int) -> np.ndarray:
    """The indices of the highest of scores (B, M) in descending order, (B, number)."""
    return np.argsort(-scores, axis=1, kind="stable")[:, :number]
