"""The outcomes of a table's rows."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hf_summ.experiments.tables import Row

# what a report says of a row that is still to come
WAITING = "not run yet"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a row on a data set.

    Args:
        problem: why it has no measures: it is not run or, if `failed`, did not complete.
        predictions: one summary per test document; None for rows that are not trained.
        losses: (N, 2), negative log-likelihood and number of tokens of each reference; None for rows that are not
            trained.
        values: name -> (N,), what the recipe wrote beside each summary.
        facts: facts about the trained model: its run, parameters, updates, epochs and seed.
        measures: measures by name: `Scored` for systems, numbers in tables that do not compare systems.
    """

    row: Row
    problem: str | None = None
    failed: bool = False
    predictions: list[str] | None = None
    losses: np.ndarray | None = None
    values: Mapping[str, np.ndarray] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    measures: Mapping[str, Any] = field(default_factory=dict)


def why_not_run(row: Row) -> str | None:
    """What a table says of a row that is not run, or None for other rows."""
    return row.unavailable if row.literature is None else f"literature: {row.literature}"
