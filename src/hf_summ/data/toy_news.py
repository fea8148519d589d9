"""A small made-up news corpus, on which a model shows within minutes whether it learns to summarize.

An article reports one event, such as a person planting trees; its other sentences distract from the event. The sentence
that reports the event is called the news. Sentences are templates such as "On {day} {name} sold {number} plum cakes in
{place}.", which are filled with names, places, numbers and days.

`python -m hf_summ.data.toy_news --output FOLDER [--steered --seed N --train N --validation N --test N]`
"""

import argparse
import json
import os
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

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

# Four lines are two ways to report an event of one kind, such as chess games that are won or lost. The first line is
# the news of an article, and the second its summary, in other words and another order. The third is another news, and
# the fourth its summary.
_EVENT_LINES = """
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
# Two lines are two wordings of a sentence that distracts from the event. They are about other people, numbers, places
# and days than the news.
_DISTRACTOR_LINES = """
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


class Wording(NamedTuple):
    """A way to report an event: the templates of an article's sentence (the news) and of the summary."""

    news: str
    summary: str


def _events() -> list[tuple[Wording, Wording]]:
    """The events of `_EVENT_LINES`, in their order: for each kind of event, two ways to report it."""
    lines = _EVENT_LINES.strip().splitlines()
    events = []
    for start in range(0, len(lines), 4):
        news, summary, second_news, second_summary = lines[start : start + 4]
        events.append((Wording(news, summary), Wording(second_news, second_summary)))
    return events


def _distractors() -> list[tuple[str, str]]:
    """The templates of `_DISTRACTOR_LINES`, in their order: two wordings for each distracting sentence."""
    lines = _DISTRACTOR_LINES.strip().splitlines()
    return list(zip(lines[::2], lines[1::2], strict=True))


# The templates of news and summaries, and of sentences that distract from the news.
EVENTS = _events()
DISTRACTORS = _distractors()


def articles(split: str, size: int, seed: int) -> Iterator[dict[str, str]]:
    """Yield the rows of one split: articles with a summary of their news. Equal arguments yield equal rows.

    An article has six or seven sentences. One of them, never among the first three, is the news: who did what, where,
    and how many. The news is recognizable by its wording; the other sentences mention other people, places and numbers.
    The summary paraphrases the news, and the wording of the news determines the paraphrase.

    Args:
        split: train, validation or test.
        size: the number of rows.
        seed: the seed of all random choices.

    Yields:
        `document`, `summary` and `id`, such as test-0.
    """
    generator = random.Random(f"{seed} {split}")
    people = names(split)
    for row in range(size):
        document, summary = article(generator, people)
        yield {"document": document, "summary": summary, "id": f"{split}-{row}"}


def steered_examples(split: str, size: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of one split: pairs of documents, where a key phrase says which document to summarize.

    Each of the two documents has two sentences: the news, which reports what a person did, and a distracting sentence.
    The summary summarizes the news of one of the two documents. The key phrase is the name of the person in this news;
    nothing else says which document to summarize. Equal arguments yield equal rows.

    Args:
        split: train, validation or test.
        size: the number of rows.
        seed: the seed of all random choices.

    Yields:
        `documents`, a list of two texts; `summary`; `phrases`, a mapping of the key phrase to 1.0; `other`, a mapping
        with the `summary` and the `phrase` of the other document; and `id`, such as test-0.
    """
    generator = random.Random(f"{seed} {split} steered")
    people = names(split)
    # Distracting sentences that mention at most one person, place and number.
    simple_distractors = [wording for wording, _ in DISTRACTORS if "{other" not in wording]
    for row in range(size):
        persons = generator.sample(people, 4)
        places = generator.sample(PLACES, 4)
        figures = generator.sample(NUMBERS, 4)
        # Two facts for the news of the documents, and two for the distracting sentences.
        facts = []
        for person, place, figure in zip(persons, places, figures, strict=True):
            facts.append({"name": person, "place": place, "number": figure})
        documents, summaries = [], []
        for index, event in enumerate(generator.sample(EVENTS, 2)):
            news, summary = generator.choice(event)
            distractor = generator.choice(simple_distractors)
            day = generator.choice(DAYS)
            fact, distracting_fact = facts[index], facts[2 + index]
            documents.append(f"{news.format(**fact, day=day)} {distractor.format(**distracting_fact, day=day)}")
            summaries.append(summary.format(**fact))
        target = generator.randrange(2)
        yield {
            "documents": documents,
            "summary": summaries[target],
            "phrases": {persons[target]: 1.0},
            "other": {"summary": summaries[1 - target], "phrase": persons[1 - target]},
            "id": f"{split}-{row}",
        }


def names(split: str) -> list[str]:
    """The full names of the people in a split, in a fixed order; no full name is in two splits.

    A full name belongs to one of ten groups: the index of the first name plus the index of the surname, modulo 10. The
    groups 0 to 7 are for training, 8 is for validation, and 9 is for the test.

    Args:
        split: train, validation or test.
    """
    groups = {"train": range(8), "validation": (8,), "test": (9,)}[split]
    people = []
    for row, first_name in enumerate(FIRST_NAMES):
        for column, surname in enumerate(SURNAMES):
            if (row + column) % 10 in groups:
                people.append(f"{first_name} {surname}")
    return people


def article(generator: random.Random, people: list[str]) -> tuple[str, str]:
    """Make an article and its summary, as `articles` describes them.

    Args:
        generator: makes all random choices.
        people: the full names to choose from.

    Returns:
        The document, in which no person, place or number occurs twice, and the summary.
    """
    # The number of sentences.
    count = generator.choice((6, 7))
    persons = generator.sample(people, 2 * count)
    places = generator.sample(PLACES, 2 * count)
    figures = generator.sample(NUMBERS, count)
    # For each sentence, what fills its template.
    facts = []
    for index in range(count):
        fact = {
            "name": persons[2 * index],
            "other_name": persons[2 * index + 1],
            "place": places[2 * index],
            "other_place": places[2 * index + 1],
            "number": figures[index],
            "day": generator.choice(DAYS),
        }
        facts.append(fact)
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
    """Write train.jsonl, validation.jsonl and test.jsonl.

    No full name is in two splits, so the people of validation and test, and what they did, are unseen in training.

    Args:
        folder: the folder for the files, which is made if it does not exist.
        examples: makes the rows of a split, given the split, the number of rows and the seed: `articles` or
            `steered_examples`.
        train, validation, test: numbers of rows.
        seed: the seed of all random choices.

    Raises:
        ValueError: `folder` is an address, as `check_is_local` says.
    """
    check_is_local("--output", folder)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for split, size in (("train", train), ("validation", validation), ("test", test)):
        with (
            moved_into_place(folder / f"{split}.jsonl") as temporary,
            open(temporary, "w", encoding="utf-8", newline="\n") as file,
        ):
            for row in examples(split, size, seed):
                file.write(json.dumps(row) + "\n")


def main(argv: list[str] | None = None) -> None:
    """Write the corpus that the command line describes, and print its size.

    Args:
        argv: the arguments of the command line; by default the arguments of this process.
    """
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
    arguments = parser.parse_args(argv)
    examples = steered_examples if arguments.steered else articles
    make_corpus(
        arguments.output,
        examples,
        train=arguments.train,
        validation=arguments.validation,
        test=arguments.test,
        seed=arguments.seed,
    )
    held_out = arguments.validation + arguments.test
    print(f"{arguments.output}: {arguments.train} articles for training, {held_out} held out")


if __name__ == "__main__":
    main()
