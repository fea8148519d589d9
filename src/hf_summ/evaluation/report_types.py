"""The parts of a report of `hf-summ evaluate`, which is written as JSON: see `Evaluation.report`."""

from typing import Any, Literal, NotRequired, TypedDict

# The bounds of a 95% interval, or None for too few rows.
Bounds = list[float] | None
# A part of ROUGE's scores.
RougePart = Literal["fmeasure", "precision", "recall"]


class RougeFigures(TypedDict):
    """A system's ROUGE of a type: macro means in points, 0 to 100, and their intervals by part."""

    precision: float
    recall: float
    fmeasure: float
    intervals: dict[RougePart, Bounds]


class ScoreFigures(TypedDict):
    """A system's score other than ROUGE: the mean over the rows that have a value, or the corpus's value."""

    mean: float | None
    interval: Bounds


class Difference(TypedDict):
    """A score of the predictions minus that of another system."""

    mean: float
    interval: Bounds
    p_value: float
    p_holm: float
    significant: bool


class Report(TypedDict):
    """All figures of an evaluation; `files` are the paths of its texts, which a command knows."""

    files: NotRequired[dict[str, Any]]
    settings: dict[str, Any]
    name: str
    pairs: int
    rouge: dict[str, dict[str, RougeFigures]]
    measures: dict[str, dict[str, ScoreFigures]]
    tested: RougePart
    differences: dict[str, dict[str, Difference]]
    texts: dict[str, dict[str, float | None]]
    rows: dict[str, dict[str, int]]
    notes: list[str]
