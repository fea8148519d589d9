"""Made-up news with two events per example; the key phrase determines which event the summary reports.

`python -m hf_summ.data.steered_news --output FOLDER [--seed N --train N --validation N --test N]`
"""

import os
import random
from collections.abc import Iterator
from typing import Any

from hf_summ.data.toy_news import (
    DAYS,
    DISTRACTORS,
    EVENTS,
    NUMBERS,
    PLACES,
    names,
    run_command,
    write_splits,
)


def make_corpus(
    folder: str | os.PathLike, train: int = 20000, validation: int = 200, test: int = 200, seed: int = 1
) -> None:
    """Write train.jsonl, validation.jsonl and test.jsonl with `documents`, `summary`, `phrases`, `other` and `id`.

    An example has two documents of two sentences; each reports what a person did. Its only phrase, with value 1, is the
    name of the person in the summary; `other` has the phrase and the summary of the other event. Only the phrase
    distinguishes the events. As in the toy news, the people of validation and test are unseen in training.

    Raises:
        ValueError: a split of less than one example.
    """
    write_splits(folder, {"train": train, "validation": validation, "test": test}, examples, seed)


def examples(split: str, size: int, seed: int) -> Iterator[dict[str, Any]]:
    """`size` rows for one split, determined by the seed."""
    generator = random.Random(f"{seed} {split} steered")
    people = names(split)
    for number in range(size):
        persons, places = generator.sample(people, 4), generator.sample(PLACES, 4)
        figures = generator.sample(NUMBERS, 4)
        documents, summaries = [], []
        for place, event in enumerate(generator.sample(EVENTS, 2)):
            fact = {"name": persons[place], "place": places[place], "number": figures[place]}
            news, summary = generator.choice(event)
            other = {"name": persons[2 + place], "place": places[2 + place], "number": figures[2 + place]}
            # a distractor with at most one person, place and number
            aside = generator.choice([kind[0] for kind in DISTRACTORS if "{other" not in kind[0]])
            day = generator.choice(DAYS)
            documents.append(f"{news.format(**fact, day=day)} {aside.format(**other, day=day)}")
            summaries.append(summary.format(**fact))
        wanted = generator.randrange(2)
        yield {
            "documents": documents,
            "summary": summaries[wanted],
            "phrases": {persons[wanted]: 1.0},
            "other": {"summary": summaries[1 - wanted], "phrase": persons[1 - wanted]},
            "id": f"{split}-{number}",
        }


def main(argv: list[str] | None = None) -> None:
    """Write the corpus described by the command line."""
    sizes = {"train": 20000, "validation": 200, "test": 200}
    run_command("steered_news", "Write news whose key phrases select the event to summarize.", make_corpus, sizes, argv)


if __name__ == "__main__":
    main()
