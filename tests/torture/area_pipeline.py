"""Calls of `pipeline("summarization")`: types of documents, nested lists, settings, ways to read long documents."""

import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd

from hf_summ.models.text_documents import readable
from tests.torture import values
from tests.torture.area_generation import settings_of_generate
from tests.torture.area_texts import language
from tests.torture.cases import Case
from tests.torture.checks import details_problem, first_problem
from tests.torture.workshop import ARCHITECTURES, READ, READERS, Workshop


def make(draw: random.Random, shop: Workshop, folder: Path) -> Case:
    """A call with documents of any type and any settings."""
    documents, examples = _documents(draw)
    number = None if examples is None else len(examples)
    settings = settings_of_generate(draw) if draw.random() < 0.5 else {}
    if draw.random() < 0.5:
        model_type = draw.choice(READERS)
        summarizer, limit = shop.reader(model_type), READ
        settings |= _ways(draw)
    else:
        model_type = draw.choice(sorted(ARCHITECTURES))
        summarizer, limit = shop.pipeline(model_type), math.inf
    others: dict[str, Any] = {
        "batch_size": draw.choice((1, 2, 10**6, 0, -1, 2.5, "2", None)),
        "truncation": draw.choice((True, False, "longest_first", "most", 3, None)),
        "return_tensors": draw.choice((True, False, "pt")),
        "return_text": draw.choice((True, False, None)),
        "clean_up_tokenization_spaces": draw.choice((True, False)),
        "stop_sequence": draw.choice((".", " the", "", ["."], 3)),
        "max_length": draw.choice((1, 5, 0, -1, 10**30, "5", None, 2.5)),
        "min_length": draw.choice((0, 3, 100, -1, "x")),
        "framework": draw.choice(("pt", "tf")),
        "generation_config": draw.choice((None, {"num_beams": 2}, 3)),
        "show_progress": draw.choice((True, "yes")),
        "nothing": 3,
    }
    settings |= {name: value for name, value in others.items() if draw.random() < 0.08}
    if draw.random() < (0.3 if model_type == "highlight_transformer" else 0.05):
        settings["phrases"] = draw.choice(
            ({"new bridge": 1.0}, ["new bridge"], [["new bridge"]] * (number or 1), [None] * (number or 1), 3, "bridge")
        )
    if "max_length" not in settings:
        settings.setdefault("max_new_tokens", 4)

    def call() -> Any:
        found = summarizer(documents, **settings)
        # an iterator returns an iterator
        return list(found) if isinstance(found, Iterator) else found

    def problem(found: Any) -> str | None:
        if examples is None:
            return f"{documents!r:.60} has the result {found!r:.80}"
        if not isinstance(found, list) or (not isinstance(documents, str) and len(found) != len(examples)):
            return f"{number} documents, but the result is {found!r:.80}"
        if not found:
            return None
        sequences = settings.get("num_return_sequences") or 1
        records = [record for row in found for record in (row if isinstance(row, list) else [row])]
        if len(records) != len(examples) * sequences:
            return f"{number} documents, {sequences} sequences each, but {len(records)} summaries"
        code = settings.get("language") or "en"
        return first_problem(
            *(_record_problem(record, examples[row // sequences], code, limit) for row, record in enumerate(records))
        )

    told = documents if isinstance(documents, str | list) else type(documents).__name__
    return Case(f"{model_type} {told!r:.250} {settings}", call, problem, named=settings)


def _ways(draw: random.Random) -> dict[str, Any]:
    """How to read documents that are too long."""
    found: dict[str, Any] = {"long_documents": draw.choice(("truncate", "extract", "extract", "windows", "windows"))}
    if draw.random() < 0.05:
        found["long_documents"] = draw.choice((None, "", "cut", "a\nb", "\ud800", 3, True, ["extract"], "x" * 3000))
    if draw.random() < 0.6:
        found["return_details"] = True
    elif draw.random() < 0.1:
        found["return_details"] = values.junk(draw)
    if draw.random() < 0.3:
        found["language"] = language(draw) if draw.random() < 0.9 else values.junk(draw)
    return found


def _record_problem(record: Any, example: str | list[str], code: str, limit: float) -> str | None:
    if not isinstance(record, dict) or not record:
        return f"a record is {record!r:.80}"
    if not isinstance(record.get("summary_text", ""), str):
        return f"a summary is {record['summary_text']!r:.80}"
    return details_problem(example, record["details"], code, limit) if "details" in record else None


def _documents(draw: random.Random) -> tuple[Any, list[Any] | None]:
    """The documents of the call, and their examples; None if the call must be refused."""
    texts: list[Any] = [values.some_text(draw) for _ in range(draw.choice((1, 2, 3)))]
    match draw.randrange(14):
        case 0 | 1 | 2:
            return texts[0], texts[:1]
        case 3 | 4:
            return texts, texts
        case 5:
            examples = [texts, [texts[0]]]
            return examples, examples
        case 6:
            return tuple(texts), texts
        case 7:
            return (text for text in texts), texts
        case 8:
            return np.array(texts, dtype=object), texts
        case 9:
            return pd.Series(list(map(readable, texts))), list(map(readable, texts))
        case 10:
            clean = list(map(readable, texts))
            return datasets.Dataset.from_dict({"document": clean})["document"], clean
        case 11:
            return [], []
        case 12:
            texts[draw.randrange(len(texts))] = values.not_text(draw)
            return texts, texts if all(map(_is_example, texts)) else None
    found = draw.choice(
        (None, 3, 2.5, b"bytes", {"text": "a"}, [[["deep"]]], pd.DataFrame({"a": [1]}), {"a"}, [3], [None], object())
    )
    return found, ["a"] if isinstance(found, set) else None


def _is_example(value: Any) -> bool:
    parts = value if isinstance(value, list) else [value]
    return all(isinstance(part, str) for part in parts)
