"""What came of a table's rows."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hf_summ.experiments.tables import Row


@dataclass(frozen=True)
class Outcome:
    """What came of a row on a data set.

    Args:
        problem: why it has no measures: it is not run, or did not reach its end, which `failed` says.
        predictions: a summary a test document; None for what is not trained.
        losses: (N, 2): negative log likelihood and tokens of each reference; None for what is not trained.
        facts: of the trained model: its run, parameters, updates, epochs and seed.
        measures: by their names: `Scored` of systems, numbers in tables that compare none.
    """

    row: Row
    problem: str | None = None
    failed: bool = False
    predictions: list[str] | None = None
    losses: np.ndarray | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    measures: Mapping[str, Any] = field(default_factory=dict)


def why_not_run(row: Row) -> str | None:
    """What a table says of a row that is not run; None for the others."""
    return row.unavailable if row.literature is None else f"literature: {row.literature}"
