"""Extractive summaries, and the consistent extractive stage."""

import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hf_summ.data import split_sentences
from hf_summ.extractive import (
    METHODS,
    DocumentFrequencies,
    consistent_extract,
    consistent_sentences,
    extract,
    extract_sentences,
)
from tests.torture import values
from tests.torture.area_texts import language
from tests.torture.cases import Case
from tests.torture.checks import first_problem, rows_problem, texts_problem, untouched, without_space
from tests.torture.commands import command
from tests.torture.workshop import Workshop


def make(draw: random.Random, shop: Workshop, folder: Path) -> Case:
    """Documents and a method, on the command line too, or settings of the consistent stage."""
    kind = draw.random()
    if kind < 0.5:
        return _consistent(draw, shop, folder)
    return _any_method(draw) if kind < 0.9 else _command(draw, folder)


def _command(draw: random.Random, folder: Path) -> Case:
    rows = [{"document": values.some_text(draw), "summary": values.some_text(draw)} for _ in range(3)]
    contents = {
        "rows.jsonl": "".join(json.dumps(row) + "\n" for row in rows).encode(),
        "text.txt": values.some_text(draw).encode("utf-8", "surrogatepass"),
    }
    files = [folder / name for name in draw.sample(sorted(contents), k=draw.choice((1, 2)))]
    for file in files:
        content = contents[file.name]
        file.write_bytes(values.spoiled(draw, content) if draw.random() < 0.2 else content)
    output = folder / draw.choice(("summaries.txt", "summaries.txt", "no/summaries.txt"))
    flags = ["--method", values.word(draw, *METHODS), "--sentences", draw.choice((1, 3, 0, "x"))]
    flags += ["--language", language(draw), "--output", output]

    def problem(_: None) -> str | None:
        number = output.read_text(encoding="utf-8").count("\n")
        # a spoiled file may have lost rows
        return None if len(files) <= number <= 4 else f"{number} summaries of {[file.name for file in files]}"

    return Case(f"extract {[*files, *flags]}", lambda: command("extract", *files, *flags), problem, untouched(*files))


def _any_method(draw: random.Random) -> Case:
    number = draw.choice((0, 1, 2, 3))
    documents: Any = [values.some_text(draw) for _ in range(number)]
    references: Any = [values.some_text(draw) for _ in range(number)]
    method, code = values.word(draw, *METHODS, *METHODS, "first"), language(draw)
    measure, splitter = (
        values.word(draw, "rouge12", "rouge1", "rouge2", "rougeL"),
        values.word(draw, "sentencex", "spacy"),
    )
    sentences: Any = draw.choice((1, 3, 3, 1000, 0, -1, 2.5, "3", None, True, [1] * number, [2] * 2, [0] * number))
    kind = draw.random()
    if kind < 0.06 and number:
        documents[-1] = values.not_text(draw)
    elif kind < 0.1 and number:
        references[0] = values.not_text(draw)
    elif kind < 0.14:
        references = draw.choice((None, references[1:], "a reference"))
    elif kind < 0.17 and number:
        documents = draw.choice((documents[0], None, tuple(documents)))
    settings = method, sentences, references, measure, code, splitter

    def attempt() -> tuple:
        return extract_sentences(documents, *settings), extract(documents, *settings)

    def problem(found: tuple) -> str | None:
        chosen, summaries = found
        return _choice_problem(documents, chosen, summaries, code, splitter)

    return Case(f"{settings!r:.300} of {documents!r:.300}", attempt, problem)


def _choice_problem(documents: Any, chosen: list, summaries: list, code: str, splitter: str) -> str | None:
    """What is wrong with the chosen sentences and the texts made of them."""
    if isinstance(documents, str):
        return "a single document is read as its characters"
    for indices, summary, document in zip(chosen, summaries, documents, strict=True):
        parts = split_sentences(document, code, splitter)
        whole = without_space("".join(parts[index] for index in indices))
        if without_space(summary) != whole or sorted(set(indices)) != indices:
            return f"sentences {indices} of {document!r:.80} became {summary!r:.80}"
    return first_problem(texts_problem(summaries, len(documents)), rows_problem(chosen, len(documents), "choices"))


def _consistent(draw: random.Random, shop: Workshop, folder: Path) -> Case:
    documents: Any = [" ".join(values.some_text(draw) for _ in range(3)) for _ in range(draw.choice((0, 1, 2, 3)))]
    settings: dict[str, Any] = {}
    if draw.random() < 0.5:
        settings["share"] = draw.choice((0.01, 0.3, 0.5, 1, 1.0))
    else:
        settings["tokens"] = draw.choice((1, 5, 20, 100, 10**30))
        if draw.random() < 0.6:
            settings["counter"] = draw.choice((shop.tokenizer, len))
    if draw.random() < 0.7:
        settings["next_sentence_model"] = draw.choice((shop.next_sentence_model, *_JUDGES[:3]))
    if draw.random() < 0.3:
        settings["language"] = language(draw)
    if draw.random() < 0.3:
        settings["idf"] = _idf(draw, folder)
    if draw.random() < 0.1:
        settings["splitter"] = values.word(draw, "sentencex", "spacy")
    kind = draw.random()
    if kind < 0.1:
        settings["next_sentence_model"] = draw.choice(_JUDGES[3:])
    elif kind < 0.15:
        settings["counter"] = draw.choice(_COUNTERS)
    elif kind < 0.2:
        settings[draw.choice(("share", "tokens"))] = draw.choice((values.number(draw), values.junk(draw)))
    elif kind < 0.23:
        settings[draw.choice(("next_sentence_model", "idf", "counter", "language", "splitter"))] = values.junk(draw)
    elif kind < 0.26 and documents:
        documents[-1] = values.not_text(draw)
    elif kind < 0.28:
        documents = draw.choice((None, "a single document", 3, {"a": "b"}))
    settings = {name: settings[name] for name in draw.sample(sorted(settings), k=len(settings))}

    def attempt() -> tuple:
        return consistent_sentences(documents, **settings), consistent_extract(documents, **settings)

    def problem(found: tuple) -> str | None:
        code, splitter = settings.get("language", "en"), settings.get("splitter", "sentencex")
        return first_problem(
            _choice_problem(documents, *found, code, splitter),
            *(_kept_problem(*row, settings) for row in zip(documents, found[0], strict=True)),
        )

    told = {name: getattr(value, "__name__", value) for name, value in settings.items()}
    return Case(f"{told!r:.300} of {documents!r:.300}", attempt, problem)


def _kept_problem(document: str, kept: list[int], settings: dict[str, Any]) -> str | None:
    """What is wrong with the number of kept sentences."""
    sentences = split_sentences(document, settings.get("language", "en"), settings.get("splitter", "sentencex"))
    if sentences and kept[:1] != [0]:
        return f"the first sentence is not among {kept}"
    share = settings.get("share")
    if share is not None and (len(kept) < share * len(sentences) - 1e-6 or kept[:3] != [0, 1, 2][: len(sentences)]):
        return f"{kept} are not a share of {share} of {len(sentences)} sentences"
    if settings.get("counter") is len and settings.get("next_sentence_model") is None and len(kept) > 1:
        costs = sum(len(sentences[index]) for index in kept)
        return f"{costs} tokens are kept of {settings['tokens']}" if costs > settings["tokens"] else None
    return None


def _idf(draw: random.Random, folder: Path) -> Any:
    """Document frequencies, or a file of them, perhaps spoiled."""
    made = DocumentFrequencies.fit([values.some_text(draw) for _ in range(3)], "de" if draw.random() < 0.1 else "en")
    file = folder / "idf.json"
    made.save(file)
    kind = draw.random()
    if kind < 0.15:
        file.write_bytes(values.spoiled(draw, file.read_bytes()))
    elif kind < 0.4:
        content, _ = values.spoiled_json(draw, json.loads(file.read_text("utf-8")))
        file.write_text(json.dumps(content), encoding="utf-8")
    return draw.choice((made, file, str(file), str(folder), folder / "none.json")) if kind < 0.5 else made


# values of `next_sentence_model`: three valid judges, then invalid ones
_JUDGES: tuple[Any, ...] = (
    lambda pairs: [0.4] * len(pairs),
    lambda pairs: np.array([(len(one) * 7 + len(other)) % 10 / 10 for one, other in pairs]),
    lambda pairs: torch.tensor([(len(one) + len(other)) % 2 for one, other in pairs], dtype=torch.float32),
    lambda pairs: [math.nan] * len(pairs),
    lambda pairs: [(0.1, math.nan, 0.9)[place % 3] for place in range(len(pairs))],
    lambda pairs: [math.inf] * len(pairs),
    lambda pairs: [-1.0] * len(pairs),
    lambda pairs: [1.5] * len(pairs),
    lambda pairs: [0.3] * (len(pairs) - 1),
    lambda pairs: [0.3] * (len(pairs) + 1),
    lambda pairs: [],
    lambda pairs: None,
    lambda pairs: 0.3,
    lambda pairs: "0" * len(pairs),
    lambda pairs: ["0.3"] * len(pairs),
    lambda pairs: [None] * len(pairs),
    lambda pairs: [[0.3, 0.7]] * len(pairs),
    lambda pairs: np.zeros((len(pairs), 2)),
    lambda pairs: (0.3 for _ in pairs),
    lambda pairs: dict.fromkeys(pairs, 0.3),
    "no/model",
    "",
)
_COUNTERS: tuple[Any, ...] = (
    lambda text: 0,
    lambda text: -1,
    lambda text: math.nan,
    lambda text: 2.5,
    lambda text: 10**30,
    lambda text: None,
    lambda text: "3",
    lambda text: [1, 2],
    lambda text: True,
    "gpt2",
    3,
)
