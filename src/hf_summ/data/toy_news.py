"""A small made-up news corpus, on which a model shows within minutes whether it learns to summarize.

`python -m hf_summ.data.toy_news --output FOLDER [--steered --seed N --train N --validation N --test N]`
"""

import argparse
import json
import os
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from hf_summ.common.files import check_is_local, moved_into_place

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

# of each event, two wordings of the article's sentence, each before a summary with other words and word order
_EVENTS = """
On {day} {name} repaired {number} old buses in {place}.
In {place}, {number} broken buses were fixed by {name}.
{name} got {number} old buses running again in {place} on {day}.
{name} mended {number} buses in {place}.
{name} planted {number} young trees in {place} on {day}.
{place} has {number} new trees thanks to {name}.
On {day} {name} put {number} young trees into the soil of {place}.
{number} trees were set in {place} by {name}.
{name} rescued {number} lost sheep in {place} on {day}.
{number} sheep in {place} were saved by {name}.
On {day} {name} found {number} lost sheep in {place}.
{name} tracked down {number} sheep in {place}.
On {day} {name} stole {number} gold coins in {place}.
A theft of {number} coins in {place} is blamed on {name}.
{name} took {number} gold coins from a vault in {place} on {day}.
{name} robbed a {place} bank of {number} coins.
{name} opened {number} new schools in {place} on {day}.
{place} gets {number} classrooms, founded by {name}.
On {day} {name} cut the ribbon of {number} new schools in {place}.
{name} launched {number} schools in {place}.
On {day} {name} bought {number} empty houses in {place}.
{number} homes in {place} now belong to {name}.
{name} paid for {number} empty houses in {place} on {day}.
{name} acquired {number} homes in {place}.
{name} painted {number} grey walls in {place} on {day}.
{place} shows off {number} murals made by {name}.
On {day} {name} covered {number} grey walls in {place} with colour.
{name} decorated {number} walls in {place}.
On {day} {name} sacked {number} night guards in {place}.
In {place}, {number} guards lost their jobs under {name}.
{name} sent {number} night guards home for good in {place} on {day}.
{name} dismissed {number} guards in {place}.
{name} baked {number} plum cakes in {place} on {day}.
{number} cakes came out of the {place} oven of {name}.
On {day} {name} sold {number} plum cakes in {place}.
{name} found buyers for {number} cakes in {place}.
On {day} {name} won {number} chess games in {place}.
{place} saw {name} triumph in {number} matches of chess.
{name} lost {number} chess games in {place} on {day}.
{name} was beaten in {number} matches of chess in {place}.
"""
# of each of the article's other sentences, two wordings about other people, numbers, places and days
_DISTRACTORS = """
{name}, who lives in {place}, said that nobody had expected it.
Nobody in {place} saw it coming, {name} told reporters.
About {number} people waited outside the station of {place} for news.
A crowd of {number} gathered near the market of {place}.
It had rained in {place} for {number} hours.
Forecasts for {place} speak of {number} hours of sun by {day}.
Mayor {name} did not answer any questions on {day}.
A spokesman for {name} asked for patience until {day}.
The road from {place} to {other_place} was closed for {number} minutes.
Trains between {place} and {other_place} ran {number} minutes late.
Last year {number} visitors came to {place} at this time.
Some {number} visitors are expected in {place} by {day}.
{name} and {other_name} watched from a window across the street.
Neighbours such as {name} and {other_name} heard the noise.
A full report is due in {number} days.
The council meets again on {day} to talk about it.
The radio station of {place} broke the story at noon.
A newspaper in {place} printed the story on page {number}.
{name}, aged {number}, called it the talk of the week.
It was a long week, said {name}, aged {number}.
"""


def _pairs(items: Sequence[Any]) -> list[tuple[Any, Any]]:
    return list(zip(items[::2], items[1::2], strict=True))


EVENTS = _pairs(_pairs(_EVENTS.strip().splitlines()))
DISTRACTORS = _pairs(_DISTRACTORS.strip().splitlines())


def articles(split: str, size: int, seed: int) -> Iterator[dict[str, str]]:
    """`size` rows of `document`, `summary` and `id` for one split, determined by the seed.

    An article has six or seven sentences. One of them, never among the first three, is the news: who did what, where,
    and how many. It is recognizable by its wording; the others mention other people, places and numbers. The summary
    paraphrases it, and the wording of the news determines the paraphrase.
    """
    generator = random.Random(f"{seed} {split}")
    people = names(split)
    for number in range(size):
        document, summary = article(generator, people)
        yield {"document": document, "summary": summary, "id": f"{split}-{number}"}


def steered_examples(split: str, size: int, seed: int) -> Iterator[dict[str, Any]]:
    """`size` rows of `documents`, `summary`, `phrases`, `other` and `id` for one split, determined by the seed.

    An example has two documents of two sentences; each reports what a person did. Its only phrase, with value 1, is the
    name of the person in the summary; `other` has the phrase and the summary of the other event. Only the phrase
    distinguishes the events.
    """
    generator = random.Random(f"{seed} {split} steered")
    people = names(split)
    for number in range(size):
        persons, places = generator.sample(people, 4), generator.sample(PLACES, 4)
        figures = generator.sample(NUMBERS, 4)
        documents, summaries = [], []
        for index, event in enumerate(generator.sample(EVENTS, 2)):
            fact, other = ({"name": persons[i], "place": places[i], "number": figures[i]} for i in (index, 2 + index))
            news, summary = generator.choice(event)
            # a distractor with at most one person, place and number
            aside = generator.choice([first for first, _ in DISTRACTORS if "{other" not in first])
            day = generator.choice(DAYS)
            documents.append(f"{news.format(**fact, day=day)} {aside.format(**other, day=day)}")
            summaries.append(summary.format(**fact))
        target = generator.randrange(2)
        yield {
            "documents": documents,
            "summary": summaries[target],
            "phrases": {persons[target]: 1.0},
            "other": {"summary": summaries[1 - target], "phrase": persons[1 - target]},
            "id": f"{split}-{number}",
        }


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
    wordings = [generator.choice(pair) for pair in generator.sample(DISTRACTORS, count - 1)]
    wordings.insert(generator.randrange(3, count), news)
    sentences = [wording.format(**fact) for wording, fact in zip(wordings, facts, strict=True)]
    return " ".join(sentences), summary.format(**facts[wordings.index(news)])


def make_corpus(
    folder: str | os.PathLike,
    examples: Callable[[str, int, int], Iterable[dict[str, Any]]] = articles,
    /,
    train: int = 20000,
    validation: int = 500,
    test: int = 500,
    seed: int = 1,
) -> None:
    """Write train.jsonl, validation.jsonl and test.jsonl, rows of `articles` or of `steered_examples`.

    Full names occur in one split only, so the people of validation and test, and their news, are unseen in training.
    """
    check_is_local("--output", folder)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for split, size in (("train", train), ("validation", validation), ("test", test)):
        with (
            moved_into_place(folder / f"{split}.jsonl") as temporary,
            open(temporary, "w", encoding="utf-8", newline="\n") as file,
        ):
            file.writelines(json.dumps(row) + "\n" for row in examples(split, size, seed))


def main(argv: list[str] | None = None) -> None:
    """Write the corpus described by the command line."""
    parser = argparse.ArgumentParser(prog="python -m hf_summ.data.toy_news", description="Write a toy news corpus.")
    parser.add_argument("--output", required=True, help="Folder for train.jsonl, validation.jsonl and test.jsonl")
    parser.add_argument(
        "--steered", action="store_true", help="Write pairs of documents; a key phrase selects the event to summarize"
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="Random seed; equal seeds give equal articles (default: %(default)s)"
    )
    for split, size in (("train", 20000), ("validation", 500), ("test", 500)):
        parser.add_argument(f"--{split}", type=int, default=size, help="Number of articles (default: %(default)s)")
    settings = vars(parser.parse_args(argv))
    output, examples = settings.pop("output"), steered_examples if settings.pop("steered") else articles
    make_corpus(output, examples, **settings)
    print(f"{output}: {settings['train']} articles for training, {settings['validation'] + settings['test']} held out")


if __name__ == "__main__":
    main()
