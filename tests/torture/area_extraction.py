"""Extractive summaries."""

import random
from pathlib import Path
from typing import Any

from hf_summ.data import split_sentences
from hf_summ.extractive import METHODS, extract, extract_sentences
from tests.torture import values
from tests.torture.area_texts import language
from tests.torture.cases import Case
from tests.torture.checks import first_problem, rows_problem, texts_problem, without_space
from tests.torture.workshop import Workshop


def make(draw: random.Random, shop: Workshop, folder: Path) -> Case:
    """Documents and a method."""
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
        if isinstance(documents, str):
            return "a single document is taken for its characters"
        for indices, summary, document in zip(chosen, summaries, documents, strict=True):
            parts = split_sentences(document, code, splitter)
            whole = without_space("".join(parts[index] for index in indices))
            if without_space(summary) != whole or sorted(set(indices)) != indices:
                return f"sentences {indices} of {document!r:.80} became {summary!r:.80}"
        return first_problem(texts_problem(summaries, len(documents)), rows_problem(chosen, len(documents), "choices"))

    return Case(f"{settings!r:.300} of {documents!r:.300}", attempt, problem)
