"""The rules of decoding, in numpy: which tokens must not follow a text, which texts are kept, and when the search ends.

The loops around a PyTorch model and around ONNX graphs score the next tokens, and these classes choose among them. In
shapes, B is the number of documents, and R the number of rows, which is B times the number of beams.
"""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .text_documents import WordTable

Tokens = Sequence[int] | np.ndarray
# the score of a missing beam
_ABSENT = np.float32(-1e9)
# indices into the second axis of `Beams._written`: token ids, and the beam that each token continued
_IDS, _PARENTS = 0, 1


class Rule:
    """A rule that forbids or forces the next tokens of a text.

    Attributes:
        yields: whether the rule gives way where it would leave no token: the tokens that it forbids then stay possible.
        ends: whether the rule ends texts. If `forbidden` returns any token for a text, no token may follow that text.
    """

    yields = False
    ends = False

    def forbidden(self, ids: list[int]) -> Tokens:
        """The tokens that must not follow the text with these ids."""
        return ()

    def forced(self, length: int) -> Sequence[int]:
        """The only tokens that may follow texts of this length; if there are none, the rule forces nothing."""
        return ()

    def pairs(self, texts: Sequence[list[int]]) -> tuple[np.ndarray, np.ndarray]:
        """The forbidden pairs of a text and a next token: the texts' indices and the tokens, both of shape (P,)."""
        tokens = [np.asarray(self.forbidden(ids), np.int64) for ids in texts]
        counts = [len(forbidden) for forbidden in tokens]
        return np.repeat(np.arange(len(texts)), counts), np.concatenate(tokens)


class BadWords(Rule):
    """Forbids the last token of each word after its others, as transformers does, but never an end token alone."""

    def __init__(self, words: Sequence[Sequence[int]], end_token_ids: Sequence[int] = ()):
        self.words: list[list[int]] = []
        for word in words:
            is_end = len(word) == 1 and word[0] in end_token_ids
            if not is_end:
                self.words.append(list(word))

    def forbidden(self, ids: list[int]) -> Tokens:
        return [word[-1] for word in self.words if ids[len(ids) + 1 - len(word) :] == word[:-1]]


@dataclass
class Force(Rule):
    """Forces texts of `length` tokens, with the prompt, to continue with one of `tokens`. It overrides other rules."""

    # their scores become zero, as those of `forced_bos_token_id` in transformers
    tokens: Sequence[int]
    length: int

    def forced(self, length: int) -> Sequence[int]:
        return self.tokens if length == self.length else ()


@dataclass
class MinLength(Rule):
    """Forbids the end of a text that has fewer than `length` tokens, including the prompt."""

    length: int
    end_token_ids: Sequence[int]

    def forbidden(self, ids: list[int]) -> Tokens:
        return self.end_token_ids if len(ids) < self.length else ()


@dataclass
class NoRepeatNGram(Rule):
    """Forbids tokens that would repeat `size` tokens of the text, including the prompt, as transformers does."""

    size: int

    def forbidden(self, ids: list[int]) -> Tokens:
        width = self.size - 1
        start = len(ids) - width
        last = ids[max(start, 0) :]
        return [ids[index + width] for index in range(start) if ids[index : index + width] == last]


@dataclass
class MinNewWords(Rule):
    """Forbids the end of a text with fewer than `number` words after the prompt, including the unfinished word."""

    # in scripts without spaces between words, the table counts characters instead
    number: int
    table: WordTable
    prompt_length: int
    end_token_ids: Sequence[int]
    # the end stays possible where it is the only token, such as when it is forced at the last step
    yields = True

    def forbidden(self, ids: list[int]) -> Tokens:
        return self.end_token_ids if self.table.count(ids, self.prompt_length) < self.number else ()


@dataclass
class NoRepeatWordNGram(Rule):
    """Forbids tokens that would repeat n words of the text, where n is `size`.

    The unfinished word counts as it stands: `the red ca` repeats `the red ca`, but not `the red cat`. No finished text
    contains the same n words twice (Paulus et al. 2018, for n = 3), regardless of its split into tokens.
    """

    size: int
    table: WordTable
    prompt_length: int
    # words whose n-grams may repeat, as with OpenNMT's `ignore_when_blocking`
    ignored: Collection[str] = ()

    def forbidden(self, ids: list[int]) -> Tokens:
        ids = ids[self.prompt_length :]
        if not ids:
            return ()
        last = ids[-1]
        words = self.table.words(ids)
        tokens: list[int] = []
        # if the next token starts a word, the words so far are complete, and it would be the n-th
        for word in self._followers(words, len(words)):
            for token in self.table.tokens.get(word, ()):
                if self.table.opens_after(last, token):
                    tokens.append(token)
        # any other token continues the last word, which would become the n-th
        unfinished = words[-1] if words else ""
        for word in self._followers(words, len(words) - 1):
            if not word.startswith(unfinished) or word == unfinished:
                continue
            for token in self.table.tokens.get(word.removeprefix(unfinished), ()):
                if not self.table.opens_after(last, token):
                    tokens.append(token)
        return tokens

    def _followers(self, words: list[str], position: int) -> set[str]:
        """The words that must not stand at a position, as they followed the same n - 1 words before."""
        size = self.size - 1
        context = words[max(position - size, 0) : position]
        followers = set()
        for end in range(size, position):
            if words[end - size : end] == context and _must_be_unique(words[end - size : end + 1], self.ignored):
                followers.add(words[end])
        return followers


@dataclass
class EndRepetitions(Rule):
    """Ends a text after it has repeated `size` tokens or words, as OpenNMT does."""

    size: int
    # a function from token ids to the list of what is compared, tokens or words
    units: Callable[[list[int]], list]
    prompt_length: int
    # words whose n-grams may repeat
    ignored: Collection[str] = ()
    ends = True

    def forbidden(self, ids: list[int]) -> Tokens:
        units = self.units(ids[self.prompt_length :])
        last = units[-self.size :]
        for start in range(len(units) - self.size):
            if units[start : start + self.size] == last:
                # a rule that ends texts returns any token, which only signals the end (see `Rule.ends`)
                return ids[:1] if _must_be_unique(last, self.ignored) else ()
        return ()


def _must_be_unique(ngram: Sequence[str | int], ignored: Collection[str]) -> bool:
    """Whether an n-gram must not repeat, as it has no ignored word."""
    return not any(word in ignored for word in ngram)


def word_rules(
    config, table: Callable[[], WordTable], prompt_length: int, end_token_ids: Sequence[int]
) -> Iterator[Rule]:
    """The rules for the settings that hf_summ adds to a generation config; `table` is called only if words count."""
    ends_beams = config.ngram_blocking == "beam"
    if ends_beams and config.no_repeat_ngram_size:
        yield EndRepetitions(config.no_repeat_ngram_size, list, prompt_length)
    if config.min_new_words:
        yield MinNewWords(config.min_new_words, table(), prompt_length, end_token_ids)
    size = config.no_repeat_word_ngram_size
    if size:
        ignored = frozenset((getattr(config, "ignore_when_blocking", None) or "").split())
        if ends_beams:
            yield EndRepetitions(size, table().words, prompt_length, ignored)
        else:
            yield NoRepeatWordNGram(size, table(), prompt_length, ignored)


def coverage_growth(coverage, step):
    """The growth (R,) of the penalty for repeated copying, Σ_i max(coverage_i, 1) - S (Aksenov 2020, section 6.3).

    Args:
        coverage: (R, S), an array or a tensor: the sum of the copy distributions of all steps, including the last.
        step: (R, S), the copy distribution of the last step.
    """
    penalty = (coverage.clip(min=1.0) - 1.0).sum(-1)
    penalty_before = ((coverage - step).clip(min=1.0) - 1.0).sum(-1)
    return penalty - penalty_before


class GnmtLengthPenalty(float):
    """The exponent α of the GNMT length penalty, ((k + n) / (k + 1))^α, with k = 5 (Wu et al. 2016, equation 14).

    Beam search divides a hypothesis's score by `length ** length_penalty`, which this class makes the GNMT penalty.
    """

    offset: float

    def __new__(cls, exponent: float, offset: float | None = None):
        penalty = super().__new__(cls, exponent)
        penalty.offset = 5.0 if offset is None else offset
        return penalty

    def __rpow__(self, length):
        try:
            return ((self.offset + length) / (self.offset + 1.0)) ** float(self)
        except OverflowError as error:
            raise ValueError(f"`gnmt_length_penalty` is {float(self)}, too large for {length} tokens") from error


class Sequences(NamedTuple):
    """The results of a search, N = B times the number of returned texts.

    Attributes:
        sequences: (N, L), the texts' ids with the prompt, padded.
        scores: (N,), the texts' scores; None for greedy search.
        beams: (N, L - prompt), the row that each token continued, and -1 after the end; None for greedy search.
    """

    sequences: np.ndarray
    scores: np.ndarray | None = None
    beams: np.ndarray | None = None


class _Search:
    """The state of a search: which documents of the batch it still reads, and when it is over."""

    def __init__(self, prompts: np.ndarray, config, end_ids: Sequence[int], padding: int | None):
        self._config, self._end_ids, self._padding = config, end_ids, padding or 0
        self.length, self._max_length = prompts.shape[1], config.max_length
        self._deadline = None if config.max_time is None else time.monotonic() + config.max_time
        # the indices of the batch's documents among all documents
        self._documents = np.arange(len(prompts) // config.num_beams)
        self.is_done = np.zeros(len(self._documents), bool)

    @property
    def is_over(self) -> bool:
        """Whether the search for all documents is over."""
        return self.length == self._max_length or bool(self.is_done.all())

    def _end_if_late(self) -> None:
        """End all texts with their next token if `max_time` is over."""
        if self._deadline is not None and time.monotonic() > self._deadline:
            self._max_length = self.length + 1


class Texts(_Search):
    """The texts of greedy search, or of sampling without beams.

    They have the interface of `Beams`, but no `totals`, as each document has only one text.
    """

    number = candidates = 1
    totals = None

    def __init__(self, prompts: np.ndarray, config, end_ids: Sequence[int], padding: int | None):
        super().__init__(prompts, config, end_ids, padding)
        self.ids = prompts
        # the texts of all documents, including those that have left the batch
        self._written = np.full((len(prompts), config.max_length), self._padding)
        self._written[:, : self.length] = prompts

    def advance(self, totals: np.ndarray, beams: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """Append the tokens (R, 1), and return all rows (R,), which they continue. `totals` and `beams` are unused."""
        self._end_if_late()
        tokens = np.where(self.is_done[:, None], self._padding, tokens)
        self.ids = np.concatenate((self.ids, tokens), axis=1)
        self._written[self._documents, self.length] = tokens[:, 0]
        self.length += 1
        self.is_done = self.is_done | _are_among(tokens[:, 0], self._end_ids)
        return np.arange(len(tokens))

    def select(self, documents: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """See `Beams.select`."""
        self.ids = self.ids[documents]
        self._documents = self._documents[documents]
        self.is_done = self.is_done[documents]
        return rows[documents]

    def output(self) -> Sequences:
        """The texts of all documents."""
        return Sequences(self._written[:, : self.length])


class Beams(_Search):
    """The state of beam search: the running beams of the documents in the batch, and the finished beams of all.

    Args:
        prompts: (R, T), the ids with which the beams begin. The beams of a document are neighbors.
        config: the generation config.
        end_ids: the ids that end a beam.
        padding: the id that fills up finished beams, if there is one.

    Attributes:
        number, candidates: beams of a document, and the candidates that `advance` needs for each document.
        totals: (B, beams), the sums of the log-probabilities of the running beams.
        length: the number of ids of a running beam, including the prompt.
        is_done: (B,), whether the search for a document is over.
    """

    def __init__(self, prompts: np.ndarray, config, end_ids: Sequence[int], padding: int | None):
        super().__init__(prompts, config, end_ids, padding)
        self._prompt_length = self.length
        self.number = self.candidates = config.num_beams
        if not config.beam_stopping:
            # enough to replace all beams that end, which the published programs of `beam_stopping` do not
            self.candidates *= max(2, 1 + len(end_ids))
        # (R, 2, L), see `_IDS` and `_PARENTS`; -1 is an unwritten position, and the parent of the prompt's ids
        self._written = np.full((len(prompts), 2, config.max_length), -1)
        self._written[:, _IDS, : self.length] = prompts
        # (all documents, beams, 2, L), in descending order of their scores; at first no beam is finished
        self._finished = self._written.reshape(-1, self.number, 2, config.max_length).copy()
        self._finished_scores = np.full(self._finished.shape[:2], _ABSENT)
        self.totals = self._finished_scores.copy()
        # at first all beams of a document are equal, so that only the first one counts
        self.totals[:, 0] = 0.0
        # (B,), whether at some step the document's best candidate ended
        self._best_has_ended = self.is_done.copy()

    @property
    def ids(self) -> np.ndarray:
        """The ids of the running beams, (R, length)."""
        return self._written[:, _IDS, : self.length]

    def advance(self, totals: np.ndarray, beams: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """Continue with the best candidates, keep those that end, and return the rows (R,) that the new beams continue.

        Args:
            totals: (B, candidates), the candidates' sums of log-probabilities, in descending order.
            beams, tokens: (B, candidates), the beams that the candidates continue, from 0, and their tokens.
        """
        self._end_if_late()
        number = self.number
        first_rows = np.arange(0, self.totals.size, number)[:, None]
        if self._config.beam_stopping == "drgd":
            # each finished beam leaves the search one beam fewer
            width = number - self._number_finished()
            totals = np.where(np.arange(number) < width[:, None], totals, -np.inf)
        if self._config.ngram_blocking == "beam":
            self._keep_repetitions(totals)
        has_end_token = _are_among(tokens, self._end_ids)
        is_end = has_end_token | (self.length + 1 == self._max_length)
        if is_end.any():
            # only the first candidates may finish, and the others only replace them
            scores = self._scores(totals[:, :number], has_end_token[:, :number])
            is_finished = is_end[:, :number] & ~self.is_done[:, None]
            rows = beams[:, :number] + first_rows
            written = self._continued(rows, beams[:, :number], tokens[:, :number])
            self._finish(written, np.where(is_finished, scores, -np.inf))
            self._best_has_ended |= is_end[:, 0]
            if self._config.beam_stopping:
                totals = np.where(is_end, -np.inf, totals)
            else:
                totals = totals + _ABSENT * is_end
            order = _highest(totals, number)
            totals = np.take_along_axis(totals, order, 1)
            beams = np.take_along_axis(beams, order, 1)
            tokens = np.take_along_axis(tokens, order, 1)
        self.totals = totals[:, :number].astype(np.float32, copy=False)
        beams = beams[:, :number]
        rows = (beams + first_rows).ravel()
        self._written = self._continued(rows, beams.ravel(), tokens[:, :number].ravel())
        self.length += 1
        self.is_done |= self._ended()
        return rows

    def _continued(self, rows: np.ndarray, beams: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """The ids and parents, (..., 2, L), of rows (...) of the batch after tokens (...) are appended to them."""
        written = self._written[rows]
        written[..., _IDS, self.length] = tokens
        written[..., _PARENTS, self.length] = beams
        return written

    def _scores(self, totals: np.ndarray, has_end_token: np.ndarray) -> np.ndarray:
        """The scores of beams that finish at this step: their totals, normalized by their lengths."""
        length = self.length + 1 - self._prompt_length
        penalty = self._config.length_penalty
        scores = totals / length**penalty
        if self._config.beam_stopping == "drgd":
            # DRGD's program does not count the end token: beams that stop without it have one token more
            scores = np.where(has_end_token, scores, totals / (length + 1) ** penalty)
        return scores

    def _finish(self, written: np.ndarray, scores: np.ndarray) -> None:
        """Keep the best of the finished and of further beams, `written` (B, N, 2, L) with scores (B, N) or -inf."""
        scores = np.concatenate((self._finished_scores[self._documents], scores), axis=1)
        written = np.concatenate((self._finished[self._documents], written), axis=1)
        order = _highest(scores, self.number)
        self._finished_scores[self._documents] = np.take_along_axis(scores, order, 1)
        self._finished[self._documents] = np.take_along_axis(written, order[..., None, None], 1)

    def _keep_repetitions(self, totals: np.ndarray) -> None:
        """Finish a document's running beams as they are if repetitions end all of them, and no other has finished."""
        is_stuck = np.isneginf(totals[:, 0]) & ~self.is_done & (self._number_finished() == 0)
        if is_stuck.any():
            scores = self._scores(self.totals, np.zeros_like(self.totals, bool))
            written = self._written.reshape(*self.totals.shape, 2, -1)
            self._finish(written, np.where(is_stuck[:, None], scores, -np.inf))

    def _number_finished(self) -> np.ndarray:
        """The number of finished beams of each document of the batch, (B,)."""
        return (self._finished[self._documents, :, _IDS, self._prompt_length] >= 0).sum(1)

    def _ended(self) -> np.ndarray:
        """Whether the search for each document (B,) ends."""
        if not self._config.beam_stopping:
            return self._cannot_improve()
        has_ended = np.isneginf(self.totals[:, 0])  # no beam runs any more
        if self._config.beam_stopping == "opennmt":
            has_ended |= self._best_has_ended & (self._number_finished() >= self._config.num_return_sequences)
        return has_ended

    def _cannot_improve(self) -> np.ndarray:
        """Whether no running beam of a document (B,) is expected to surpass its worst finished beam, by its total."""
        penalty, early_stopping = self._config.length_penalty, self._config.early_stopping
        # as in transformers: "never" expects the best score that any length can give
        length = self._max_length if early_stopping == "never" and penalty > 0 else self.length
        best_scores = self.totals[:, 0] / (length - self._prompt_length) ** penalty
        # negated, so that NaN counts as worse
        is_worse = ~(best_scores > self._finished_scores[self._documents, -1])
        if early_stopping is True:
            is_worse |= self._number_finished() == self.number
        return is_worse

    def select(self, documents: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Continue with some documents of the batch only, and return those of `rows` (R,) that belong to them."""
        length = self._written.shape[2]
        written = self._written.reshape(-1, self.number, 2, length)
        self._written = written[documents].reshape(-1, 2, length)
        self.totals, self._documents = self.totals[documents], self._documents[documents]
        self.is_done, self._best_has_ended = self.is_done[documents], self._best_has_ended[documents]
        return rows.reshape(-1, self.number)[documents].ravel()

    def output(self) -> Sequences:
        """The best finished beams of all documents."""
        if self._config.beam_stopping == "drgd":
            self._defer_short(self._config.min_new_tokens or 0)
        returned = self._config.num_return_sequences
        best = self._finished[:, :returned].reshape(-1, *self._finished.shape[2:])
        sequences, parents = best[:, _IDS], best[:, _PARENTS]
        # from the beam of a document to the row of the batch
        first_rows = np.arange(0, self._finished_scores.size, self.number).repeat(returned)
        parents = np.where(parents < 0, -1, parents + first_rows[:, None])[:, self._prompt_length :]
        longest = int((parents >= 0).sum(-1).max())
        sequences = sequences[:, : self._prompt_length + longest]
        # as in transformers, a padding token of 0 counts as none
        fill = self._padding or (self._end_ids[0] if len(self._end_ids) else -1)
        sequences = np.where(sequences >= 0, sequences, fill)
        return Sequences(sequences, self._finished_scores[:, :returned].ravel(), parents[:, :longest])

    def _defer_short(self, least: int) -> None:
        """Move finished beams with fewer than `least` tokens behind those with enough, if a document has any."""
        ids = self._finished[:, :, _IDS, self._prompt_length :]
        is_token = (ids >= 0) & ~_are_among(ids, self._end_ids)
        is_short = is_token.sum(-1) < least
        scores = np.where(is_short & ~is_short.all(1, keepdims=True), _ABSENT, self._finished_scores)
        order = _highest(scores, self.number)
        self._finished_scores = np.take_along_axis(scores, order, 1)
        self._finished = np.take_along_axis(self._finished, order[..., None, None], 1)


def _are_among(tokens: np.ndarray, ids: Sequence[int]) -> np.ndarray:
    """Whether each token is one of `ids`; an array of the tokens' shape."""
    # several times as fast as `np.isin` for few ids
    return (tokens[..., None] == np.asarray(ids, np.int64)).any(-1)


def _highest(scores: np.ndarray, number: int) -> np.ndarray:
    """The indices of the highest of scores (B, M) in descending order, (B, number)."""
    return np.argsort(-scores, axis=1, kind="stable")[:, :number]
