"""The parts of a report of `hf-summ evaluate`, which is written as JSON: see `Evaluation.report`.

A row of an evaluation is a prediction with its references. A system is what wrote the predictions of all rows: the
evaluated system, whose name is "predictions", or another system with which it is compared. A type of ROUGE is, for
example, "rouge2", and a score is a figure of another measure, for example "chrf" or "novel1".
"""

from typing import Any, Literal, NotRequired, TypedDict

# The low and the high end of a 95% bootstrap interval, or None if there are too few rows for one.
Bounds = list[float] | None
# The parts of ROUGE.
RougePart = Literal["fmeasure", "precision", "recall"]


class RougeFigures(TypedDict):
    """A type of ROUGE of a system.

    Attributes:
        precision, recall, fmeasure: mean over the rows, in points, 0 to 100.
        intervals: part of ROUGE -> the bounds of this part's mean; None for a single row.
    """

    precision: float
    recall: float
    fmeasure: float
    intervals: dict[RougePart, Bounds]


class ScoreFigures(TypedDict):
    """A score of a system other than ROUGE.

    Attributes:
        mean: the mean over the rows that have a value, or the value of the corpus for a score that is not a mean, such
            as BLEU; None if no row has a value.
        interval: the bounds of `mean`; None for fewer than two rows with a value.
    """

    mean: float | None
    interval: Bounds


class Difference(TypedDict):
    """How much better the predictions are than another system, in a type of ROUGE or a score.

    Attributes:
        mean: the figure of the predictions minus the figure of the other system.
        interval: the bounds of `mean` by paired bootstrap; None for a single row.
        p_value: the two-sided p-value of approximate randomization.
        p_holm: `p_value`, adjusted by Holm's method for the tests of all figures and systems in the report.
        significant: whether `p_holm` is at most 0.05.
    """

    mean: float
    interval: Bounds
    p_value: float
    p_holm: float
    significant: bool


class Report(TypedDict):
    """All figures of an evaluation, ready for JSON.

    Attributes:
        files: the paths of the texts, which a command adds.
        settings: the fields of `Settings`, `stemming` in words, and the version of hf_summ.
        name: the name of the predictions in tables.
        pairs: the number of rows.
        rouge: type of ROUGE -> system -> figures.
        measures: score -> system -> figures. With sources, the scores are `support`, `copy_density` and `copy_rate`,
            and with or without sources the scores of the measures in `settings.metrics`.
        tested: the part of ROUGE that `differences` compare: recall if summaries are truncated, otherwise fmeasure.
        differences: other system -> type of ROUGE, or score against the references -> difference. A score for which too
            few rows have a value is left out.
        texts: system, and "references" -> score -> mean over the rows, None if no row has a value. Without sources, the
            only score is `length`, in words. With sources, the texts are compared with the sources, and have all scores
            that the references have. Of several references, the first is used.
        rows: system, and "references" -> score -> the number of rows that have a value. Scores that all rows have are
            left out.
        notes: what a reader of the figures needs to know, in sentences.
    """

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
