"""A small made-up news corpus, on which a model shows within minutes whether it learns to summarize.

`python -m hf_summ.data.toy_news --output FOLDER [--seed N --train N --validation N --test N]`
"""

import argparse
import json
import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from hf_summ.common.files import moved_into_place

SPLITS = ("train", "validation", "test")

FIRST_NAMES = (
    "Ana Boris Carla David Elena Felix Grace Hugo Irene Jonas Karin Liam Maria Nadia Omar Paula Quentin Rosa Samuel "
    "Tara Ulrich Vera Walter Xenia Yusuf Zoe Amir Bella Cyril Diana Emil Flora Greta Henry Ivan Julia"
).split()
SURNAMES = (
    "Abbott Becker Castro Dalton Ekberg Fischer Garcia Hansen Ivanov Jensen Keller Lopez Morris Novak Olsen Petrov "
    "Quinn Rossi Schmidt Turner Unger Vargas Weber Xavier Young Zimmer Adler Bishop Conrad Dreyer Evans Forster "
    "Grant Hoffman Ibsen Jordan Kramer Lindgren Meyer Norton"
).split()
PLACES = (
    "Arden Belmont Cromer Dover Elgin Fairview Gosport Halden Ilford Jarrow Kendal Lorne Malden Newark Orford Preston "
    "Quarry Redhill Selby Tilbury Upton Verona Walden Yarm Zell Ashford Bolton Corby Dunmore Exmouth"
).split()
NUMBERS = (12, 14, 15, 18, 20, 24, 25, 28, 30, 35, 36, 40, 45, 48, 50, 55, 60, 65, 70, 75, 80, 90, 120, 150)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

# two wordings per event, each with the article's sentence and a summary with other words and word order
EVENTS = (
    (
        (
            "On {day} {name} repaired {number} old buses in {place}.",
            "In {place}, {number} broken buses were fixed by {name}.",
        ),
        (
            "{name} got {number} old buses running again in {place} on {day}.",
            "{name} mended {number} buses in {place}.",
        ),
    ),
    (
        (
            "{name} planted {number} young trees in {place} on {day}.",
            "{place} has {number} new trees thanks to {name}.",
        ),
        (
            "On {day} {name} put {number} young trees into the soil of {place}.",
            "{number} trees were set in {place} by {name}.",
        ),
    ),
    (
        ("{name} rescued {number} lost sheep in {place} on {day}.", "{number} sheep in {place} were saved by {name}."),
        ("On {day} {name} found {number} lost sheep in {place}.", "{name} tracked down {number} sheep in {place}."),
    ),
    (
        (
            "On {day} {name} stole {number} gold coins in {place}.",
            "A theft of {number} coins in {place} is blamed on {name}.",
        ),
        (
            "{name} took {number} gold coins from a vault in {place} on {day}.",
            "{name} robbed a {place} bank of {number} coins.",
        ),
    ),
    (
        (
            "{name} opened {number} new schools in {place} on {day}.",
            "{place} gets {number} classrooms, founded by {name}.",
        ),
        (
            "On {day} {name} cut the ribbon of {number} new schools in {place}.",
            "{name} launched {number} schools in {place}.",
        ),
    ),
    (
        ("On {day} {name} bought {number} empty houses in {place}.", "{number} homes in {place} now belong to {name}."),
        ("{name} paid for {number} empty houses in {place} on {day}.", "{name} acquired {number} homes in {place}."),
    ),
    (
        (
            "{name} painted {number} grey walls in {place} on {day}.",
            "{place} shows off {number} murals made by {name}.",
        ),
        (
            "On {day} {name} covered {number} grey walls in {place} with colour.",
            "{name} decorated {number} walls in {place}.",
        ),
    ),
    (
        (
            "On {day} {name} sacked {number} night guards in {place}.",
            "In {place}, {number} guards lost their jobs under {name}.",
        ),
        (
            "{name} sent {number} night guards home for good in {place} on {day}.",
            "{name} dismissed {number} guards in {place}.",
        ),
    ),
    (
        (
            "{name} baked {number} plum cakes in {place} on {day}.",
            "{number} cakes came out of the {place} oven of {name}.",
        ),
        ("On {day} {name} sold {number} plum cakes in {place}.", "{name} found buyers for {number} cakes in {place}."),
    ),
    (
        (
            "On {day} {name} won {number} chess games in {place}.",
            "{place} saw {name} triumph in {number} matches of chess.",
        ),
        (
            "{name} lost {number} chess games in {place} on {day}.",
            "{name} was beaten in {number} matches of chess in {place}.",
        ),
    ),
)

# the article's other sentences, about other people, numbers, places and days, in several wordings
DISTRACTORS = (
    (
        "{name}, who lives in {place}, said that nobody had expected it.",
        "Nobody in {place} saw it coming, {name} told reporters.",
    ),
    (
        "About {number} people waited outside the station of {place} for news.",
        "A crowd of {number} gathered near the market of {place}.",
    ),
    ("It had rained in {place} for {number} hours.", "Forecasts for {place} speak of {number} hours of sun by {day}."),
    ("Mayor {name} did not answer any questions on {day}.", "A spokesman for {name} asked for patience until {day}."),
    (
        "The road from {place} to {other_place} was closed for {number} minutes.",
        "Trains between {place} and {other_place} ran {number} minutes late.",
    ),
    (
        "Last year {number} visitors came to {place} at this time.",
        "Some {number} visitors are expected in {place} by {day}.",
    ),
    (
        "{name} and {other_name} watched from a window across the street.",
        "Neighbours such as {name} and {other_name} heard the noise.",
    ),
    ("A full report is due in {number} days.", "The council meets again on {day} to talk about it."),
    (
        "The radio station of {place} broke the story at noon.",
        "A newspaper in {place} printed the story on page {number}.",
    ),
    ("{name}, aged {number}, called it the talk of the week.", "It was a long week, said {name}, aged {number}."),
)


def make_corpus(
    folder: str | os.PathLike, train: int = 20000, validation: int = 500, test: int = 500, seed: int = 1
) -> None:
    """Write train.jsonl, validation.jsonl and test.jsonl with `document`, `summary` and `id`.

    An article has six or seven sentences. One of them, never among the first three, is the news: who did what, where,
    and how many. It is recognizable by its wording; the others mention other people, places and numbers. The summary
    paraphrases it, and the wording of the news determines the paraphrase. Full names occur in one split only, so the
    people of validation and test, and their news, are unseen in training.

    Raises:
        ValueError: a split of less than one article.
    """
    write_splits(folder, {"train": train, "validation": validation, "test": test}, articles, seed)


def write_splits(
    folder: str | os.PathLike,
    sizes: Mapping[str, int],
    rows: Callable[[str, int, int], Iterable[dict[str, Any]]],
    seed: int,
) -> None:
    """Write `<split>.jsonl` for each split with `rows(split, size, seed)`.

    Raises:
        ValueError: a split of less than one row.
    """
    for split, size in sizes.items():
        if size < 1:
            raise ValueError(f"`{split}` is {size}, but must be at least 1")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for split, size in sizes.items():
        with (
            moved_into_place(folder / f"{split}.jsonl") as part,
            open(part, "w", encoding="utf-8", newline="\n") as file,
        ):
            for row in rows(split, size, seed):
                file.write(json.dumps(row) + "\n")


def articles(split: str, size: int, seed: int) -> Iterator[dict[str, str]]:
    """`size` rows of `document`, `summary` and `id` for one split, determined by the seed."""
    generator = random.Random(f"{seed} {split}")
    people = names(split)
    for number in range(size):
        document, summary = article(generator, people)
        yield {"document": document, "summary": summary, "id": f"{split}-{number}"}


def names(split: str) -> list[str]:
    """The people of a split: of ten diagonals of first names by surnames, eight for training, one for each other."""
    diagonals = {"train": range(8), "validation": (8,), "test": (9,)}[split]
    return [
        f"{first} {surname}"
        for row, first in enumerate(FIRST_NAMES)
        for column, surname in enumerate(SURNAMES)
        if (row + column) % 10 in diagonals
    ]


def article(generator: random.Random, people: list[str]) -> tuple[str, str]:
    """A document and its summary; no person, place or number occurs in it twice."""
    count = generator.choice((6, 7))
    everyone, places = generator.sample(people, 2 * count), generator.sample(PLACES, 2 * count)
    figures = generator.sample(NUMBERS, count)
    facts = [
        {
            "name": everyone[2 * index],
            "other_name": everyone[2 * index + 1],
            "place": places[2 * index],
            "other_place": places[2 * index + 1],
            "number": figures[index],
            "day": generator.choice(DAYS),
        }
        for index in range(count)
    ]
    news, summary = generator.choice(generator.choice(EVENTS))
    wordings = [generator.choice(kind) for kind in generator.sample(DISTRACTORS, count - 1)]
    wordings.insert(generator.randrange(3, count), news)
    sentences = [wording.format(**fact) for wording, fact in zip(wordings, facts, strict=True)]
    return " ".join(sentences), summary.format(**facts[wordings.index(news)])


def main(argv: list[str] | None = None) -> None:
    """Write the corpus described by the command line."""
    sizes = {"train": 20000, "validation": 500, "test": 500}
    run_command("toy_news", "Write a toy news corpus.", make_corpus, sizes, argv)


def run_command(
    module: str, description: str, make: Callable[..., None], sizes: Mapping[str, int], argv: list[str] | None
) -> None:
    """The command line of a corpus: `python -m hf_summ.data.MODULE --output FOLDER [--seed N --train N ...]`."""
    parser = argparse.ArgumentParser(prog=f"python -m hf_summ.data.{module}", description=description)
    parser.add_argument("--output", required=True, help="Folder for train.jsonl, validation.jsonl and test.jsonl")
    parser.add_argument(
        "--seed", type=int, default=1, help="Random seed; equal seeds give equal articles (default: %(default)s)"
    )
    for split, size in sizes.items():
        what = "training articles" if split == "train" else f"{split} articles"
        parser.add_argument(f"--{split}", type=int, default=size, help=f"Number of {what} (default: %(default)s)")
    arguments = parser.parse_args(argv)
    try:
        make(arguments.output, arguments.train, arguments.validation, arguments.test, arguments.seed)
    except ValueError as error:
        parser.error(str(error))
    print(
        f"{arguments.output}: {arguments.train} articles for training, {arguments.validation + arguments.test} held out"
    )


if __name__ == "__main__":
    main()
