"""The repair pass of the consistent extractive stage: what is missing between two kept sentences is put back.

Aksenov 2020, section 4.1.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from hf_summ.common.messages import one_line
from hf_summ.models.checks import is_list, is_number

Pair = tuple[str, str]
# the probability that the second text of each pair goes on where the first ends
Judge = Callable[[Sequence[Pair]], Sequence[float]]

_ACCEPTED = 0.5


@dataclass(frozen=True)
class _Gap:
    """Two sentences that are neighbors among the kept ones, but not in their document."""

    document: int
    left: int
    right: int


def close_gaps(sentences: Sequence[Sequence[str]], kept: Sequence[Sequence[int]], judge: Judge) -> list[list[int]]:
    """The indices of kept sentences, with those that link two of them which do not go together.

    Of each two neighbors that the judge rejects (a probability of at most 0.5), one of the sentences between them is
    put back: among those that it accepts after the first and before the second, the one with the highest product of
    both probabilities, the earlier of equal ones. There may be none. New neighbors are not judged again.

    Args:
        sentences: of each document, all of its sentences.
        kept: of each document, the ascending indices of those that are kept.
        judge: is asked three times, each time about pairs of all documents at once, none twice.

    Raises:
        ValueError: the judge gives something else than as many probabilities as it was asked for.
    """
    neighbors = [
        _Gap(place, left, right)
        for place, indices in enumerate(kept)
        for left, right in pairwise(indices)
        # what stands side by side has nothing between it
        if right > left + 1
    ]
    pairs = {gap: (sentences[gap.document][gap.left], sentences[gap.document][gap.right]) for gap in neighbors}
    judged = _judged(pairs.values(), judge)
    rejected = [gap for gap in neighbors if judged[pairs[gap]] <= _ACCEPTED]
    trials = [(gap, middle) for gap in rejected for middle in range(gap.left + 1, gap.right)]

    def before(trial: tuple[_Gap, int]) -> Pair:
        gap, middle = trial
        return sentences[gap.document][gap.left], sentences[gap.document][middle]

    def after(trial: tuple[_Gap, int]) -> Pair:
        gap, middle = trial
        return sentences[gap.document][middle], sentences[gap.document][gap.right]

    first = _judged(map(before, trials), judge)
    trials = [trial for trial in trials if first[before(trial)] > _ACCEPTED]
    second = _judged(map(after, trials), judge)
    best: dict[_Gap, tuple[float, int]] = {}
    for trial in trials:
        gap, middle = trial
        score = first[before(trial)] * second[after(trial)]
        if second[after(trial)] > _ACCEPTED and score > best.get(gap, (0.0, 0))[0]:
            best[gap] = score, middle
    added: list[list[int]] = [[] for _ in kept]
    for gap, (_, middle) in best.items():
        added[gap.document].append(middle)
    return [sorted([*indices, *more]) for indices, more in zip(kept, added, strict=True)]


def _judged(pairs: Iterable[Pair], judge: Judge) -> Mapping[Pair, float]:
    """The probability of each pair; equal pairs have exactly the same one, whatever they were read beside."""
    asked = list(dict.fromkeys(pairs))
    return dict(zip(asked, _probabilities(judge(asked), len(asked)) if asked else (), strict=True))


def _probabilities(given: Any, number: int) -> list[float]:
    """What a judge gives for so many pairs, if these are probabilities; of NaN, none would be accepted in silence."""
    # arrays and tensors
    values = given.tolist() if hasattr(given, "tolist") else given
    if not is_list(values) or len(values) != number:
        raise ValueError(
            f"the next-sentence model must give {number} probabilities, one a pair, but gives "
            f"{type(given).__name__}: {one_line(repr(given)):.80}"
        )
    for value in values:
        if not is_number(value) or not 0 <= value <= 1:
            raise ValueError(f"the next-sentence model gives {value!r:.80} for a pair, but must give a probability")
    return list(map(float, values))
