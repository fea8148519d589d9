"""Tables, data and workplaces small enough for a test."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from hf_summ.evaluation.significance import mean_over_rows
from hf_summ.experiments.tables import Table, load_table
from hf_summ.experiments.workplace import Workplace
from tests.training import tiny

TRANSFORMER = {"tags": "none", "gating": "glu", "layer_fusion": "none"}


def write_table(folder: Path, name: str = "made_up", **changes: Any) -> str:
    """Write a table of one trained row as YAML; returns its path. An entry that is changed to None is left out."""
    entries = {
        "title": "Rows",
        "paper": "Somebody 2020, Table 1",
        "measures": ["rouge1", "rougeL"],
        "datasets": {"xsum": "gdlf/xsum.yaml"},
        "rows": [{"row": "DC", "config_overrides": TRANSFORMER, "published": [30, 20]}],
    }
    entries |= changes
    content = {name: value for name, value in entries.items() if value is not None}
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return str(path)


def make_table(folder: Path, **changes: Any) -> Table:
    """Read the table that `write_table` writes."""
    return load_table(write_table(folder, **changes))


def make_workplace(folder: Path, table: Table, **changes: Any) -> Workplace:
    """A workplace for a table's runs at the scale tiny, with made-up data and without progress messages."""
    settings = {"scale": "tiny", "folder": folder, "data": {}, "extra": {}, "announce": lambda message: None}
    settings |= changes
    return Workplace(table, **settings)


def write_data(folder: Path, train: int = 24, validation: int = 5, test: int = 7) -> Path:
    """A folder with the three splits."""
    folder.mkdir()
    tiny.write_corpus(folder, train=train, validation=validation, test=test)
    return folder


def strict_json(path: Path) -> Any:
    """The content of a file, which must be strict JSON without NaN and infinities."""

    def refuse(name: str):
        raise AssertionError(f"{path} holds {name}")

    return json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)


def equal_scores(value):
    """A measure with the same value for every document, so that its interval is a point."""
    return mean_over_rows(np.full(9, float(value)))
