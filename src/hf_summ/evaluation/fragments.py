"""The fragments that a summary copies from its source, found in time linear in both lengths."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from hf_summ.data.sentences import split_sentences
from hf_summ.evaluation.words import split_words, split_words_and_marks


class Matches:
    """Where runs of consecutive `words` occur in `source`.

    A suffix automaton (Blumer et al. 1985) of the reversed words, so a state stands for runs with a common beginning.
    It reads the source in reverse too. State 0 stands for the empty run.

    Attributes:
        lengths: for each word, the length of the longest run that begins there and occurs in the source, 0 for none.
    """

    def __init__(self, words: Sequence[str], source: Sequence[str]):
        self._build(words)
        self._read(source)
        links, sizes, reached = self._links, self._sizes, self._reached
        self._longer: list[list[int]] = [[] for _ in links]
        by_size = sorted(range(1, len(links)), key=sizes.__getitem__)
        for state in reversed(by_size):
            self._longer[links[state]].append(state)
            if reached[state] and links[state]:
                reached[links[state]] = sizes[links[state]]
        # per state: the state of the longest run in the source among the beginnings of its runs
        longest = list(range(len(links)))
        for state in by_size:
            if not reached[state]:
                longest[state] = longest[links[state]]
        self._states = [longest[state] for state in self._suffixes]
        self.lengths = [reached[state] for state in self._states]

    def positions(self, start: int) -> list[int]:
        """All source positions, ascending, where the longest run that begins at word `start` occurs."""
        first, length = self._states[start], self.lengths[start]
        if not length:
            return []
        # positions of shorter runs of this state do not count; the runs of the states below begin with this run
        positions = [position for position, size in self._ends[first] if size == length]
        below = list(self._longer[first])
        while below:
            state = below.pop()
            positions += [position for position, _ in self._ends[state]]
            below += self._longer[state]
        return sorted(positions)

    def _build(self, words: Sequence[str]) -> None:
        """Build the automaton: steps by words, links to the longest run that also occurs elsewhere, sizes of runs."""
        steps: list[dict[str, int]] = [{}]
        links, sizes, self._suffixes = [-1], [0], [0] * len(words)
        last = 0
        for start in range(len(words) - 1, -1, -1):
            word, state, last = words[start], last, len(steps)
            self._suffixes[start] = last
            steps.append({})
            sizes.append(sizes[state] + 1)
            links.append(0)
            while state >= 0 and word not in steps[state]:
                steps[state][word] = last
                state = links[state]
            if state < 0:
                continue
            following = steps[state][word]
            if sizes[following] > sizes[state] + 1:
                # its longer runs do not occur here, so the shorter ones get a separate state
                longer, following = following, len(steps)
                steps.append(steps[longer].copy())
                sizes.append(sizes[state] + 1)
                links.append(links[longer])
                links[longer] = following
                while state >= 0 and steps[state].get(word) == longer:
                    steps[state][word] = following
                    state = links[state]
            links[last] = following
        self._steps, self._links, self._sizes = steps, links, sizes

    def _read(self, source: Sequence[str]) -> None:
        """Record for each state its positions in the source with their lengths, and the greatest length."""
        steps, links, sizes = self._steps, self._links, self._sizes
        self._ends: list[list[tuple[int, int]]] = [[] for _ in steps]
        reached = self._reached = [0] * len(steps)
        state = length = 0
        for position in range(len(source) - 1, -1, -1):
            word = source[position]
            if word not in steps[0]:
                state = length = 0
                continue
            while word not in steps[state]:
                state = links[state]
                length = sizes[state]
            state = steps[state][word]
            length += 1
            self._ends[state].append((position, length))
            reached[state] = max(reached[state], length)


class Fragment(NamedTuple):
    """Consecutive words of a summary that also occur in its source: `length` of them from word `start` on.

    `sentences` are the source sentences, counted from 0, in which the fragment begins, one entry per occurrence.
    Sentences without words, such as a line of dashes, are not counted.
    """

    start: int
    length: int
    sentences: tuple[int, ...]


class Alignment(NamedTuple):
    """A summary aligned with its source.

    `matches` gives for each word of the summary the length of the longest fragment that begins there, 0 for a word that
    is not in the source; the n-gram that begins there is novel if this is less than n.
    """

    words: list[str]
    matches: list[int]
    fragments: list[Fragment]
    source_words: int
    source_sentences: int


def copied_fragments(
    prediction: str, source: str, language: str = "en", count_punctuation: bool = False
) -> list[Fragment]:
    """The extractive fragments F(A, S) of a summary, in its order (Grusky et al. 2018).

    The search is greedy from the left: the longest fragment at a word, then the next after its end. Fragments do not
    overlap.

    Args:
        prediction, source: the summary and its document.
        language: as for `rouge_scores`.
        count_punctuation: whether punctuation marks are words too.
    """
    return align(prediction, source, language, count_punctuation).fragments


def align(prediction: str, source: str, language: str, count_punctuation: bool = False) -> Alignment:
    """Match the words of `prediction` with those of `source`."""
    split = partial(split_words_and_marks if count_punctuation else split_words, language=language)
    words = split(prediction)
    source_words: list[str] = []
    sentence_of: list[int] = []
    for sentence in split_sentences(source, language):
        in_sentence = split(sentence)
        sentence_of += [sentence_of[-1] + 1 if sentence_of else 0] * len(in_sentence)
        source_words += in_sentence
    matches = Matches(words, source_words)
    fragments: list[Fragment] = []
    # the sentences of a fragment that occurs many times in both texts are kept once
    sentences: dict[tuple[str, ...], tuple[int, ...]] = {}
    free = 0
    for start, length in enumerate(matches.lengths):
        if length and start >= free:
            free = start + length
            key = tuple(words[start:free])
            if key not in sentences:
                sentences[key] = tuple(sentence_of[position] for position in matches.positions(start))
            fragments.append(Fragment(start, length, sentences[key]))
    return Alignment(words, matches.lengths, fragments, len(source_words), sentence_of[-1] + 1 if sentence_of else 0)
