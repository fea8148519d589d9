"""The processors of all architectures: texts to model inputs, and back."""

import random
from pathlib import Path
from typing import Any

from tests.torture import values
from tests.torture.cases import Case
from tests.torture.checks import first_problem, rows_problem, texts_problem
from tests.torture.workshop import ARCHITECTURES, Workshop

_LENGTHS = (None, None, 2, 5, 50, 1, 0, -3, 10**30, 2.5, "7", True)


def make(draw: random.Random, shop: Workshop, folder: Path) -> Case:
    """A processor's call, or its settings."""
    model_type = draw.choice(sorted(ARCHITECTURES))
    return (_settings if draw.random() < 0.15 else _call)(draw, shop, model_type)


def documents(draw: random.Random) -> Any:
    """One text, several, or several of several documents; sometimes none of these."""
    rows: Any = [values.some_text(draw) for _ in range(draw.choice((1, 2, 3)))]
    kind = draw.random()
    if kind < 0.3:
        return rows[0]
    if kind < 0.55:
        return rows if draw.random() < 0.8 else tuple(rows)
    if kind < 0.8:
        return [[values.some_text(draw) for _ in range(draw.choice((0, 1, 3, 40)))] for _ in rows]
    if kind < 0.9:
        rows[draw.randrange(len(rows))] = values.not_text(draw)
        return rows
    return draw.choice((*(values.junk(draw) for _ in range(5)), [], [rows, rows[0]], [[rows]], iter(rows)))


def _call(draw: random.Random, shop: Workshop, model_type: str) -> Case:
    _, processor = shop.model(model_type)
    text = documents(draw)
    settings: dict[str, Any] = {
        "text_target": draw.choice((values.text(draw), [values.text(draw)] * 2, None, values.not_text(draw))),
        "truncation": draw.choice((True, False, None, "longest_first", 3)),
        "max_length": draw.choice(_LENGTHS),
        "max_target_length": draw.choice(_LENGTHS),
        "padding": draw.choice((True, False, "longest", "max_length", "most", None, 3)),
        "pad_to_multiple_of": draw.choice((None, 8, 1, 0, -8, 2.5)),
        "return_tensors": draw.choice((None, "pt", "pt", "np", "x", 3)),
        "return_lengths": draw.choice((True, False)),
    }
    settings = {name: value for name, value in settings.items() if draw.random() < 0.3}
    if model_type == "highlight_transformer" and draw.random() < 0.4:
        settings["phrases"] = draw.choice(
            (["new bridge"], {"new bridge": 2.0}, [{"a": 1}, None], {"a": values.number(draw)}, values.junk(draw))
        )

    def problem(features: Any) -> str | None:
        number = 1 if isinstance(text, str) else len(text) if isinstance(text, list | tuple) else None
        rows = features["input_ids"]
        rows = rows if isinstance(rows, list) else rows.tolist()
        if isinstance(text, str) and isinstance(rows[0], int):
            rows = [rows]
        limit = settings.get("max_length") or processor.max_source_length
        is_cut = settings.get("truncation", True) and not settings.get("pad_to_multiple_of")
        longest = max(map(len, rows))
        size = len(processor.tokenizer)
        strange = [token for row in rows for token in row if not 0 <= token < size]
        return first_problem(
            None if number is None else rows_problem(rows, number, "rows of ids"),
            f"{longest} ids for at most {limit}" if is_cut and longest > limit else None,
            f"the id {strange[0]}" if strange else None,
            None
            if all(processor.eos_token_id in row for row in rows) or model_type == "copy_transformer"
            else "no end",
            texts_problem(processor.batch_decode(rows, skip_special_tokens=True), len(rows)),
        )

    return Case(f"{model_type} {text!r:.300} {settings}", lambda: processor(text, **settings), problem, named=settings)


def _settings(draw: random.Random, shop: Workshop, model_type: str) -> Case:
    made = ARCHITECTURES[model_type]
    _, processor = shop.model(model_type)
    known = [name for name in processor.to_dict() if name not in ("processor_class", "tokenizer", "auto_map")]
    changed = {name: values.junk(draw) for name in draw.sample(known, k=draw.choice((1, 1, 2)))}
    tags = {"tags": "none"} if model_type == "gdlf" else {}

    def build():
        built = made.processor_class(shop.tokenizer, **{**made.processor_settings, **tags, **changed})
        return built("Mayor Ana Lopez opened the new bridge.", "A bridge.")

    def problem(features: Any) -> str | None:
        ids = features["input_ids"]
        return None if ids and all(isinstance(token, int) for token in ids) else f"the ids are {ids!r:.80}"

    return Case(f"{model_type} with {changed}", build, problem, named=changed)
