"""The content of a table's report, as it is written to its JSON file."""

from typing import NotRequired, TypedDict


class ValueInterval(TypedDict):
    """A value with the ends of its 95% bootstrap interval over documents."""

    value: float
    low: float
    high: float


class Difference(ValueInterval):
    """A system's measure minus the baseline's, with its interval and two-sided p-value."""

    p_value: float


class OurValue(TypedDict):
    """What was computed for a measure of a row.

    Keys:
        value: the measure of the corpus, or None if it is unknown or undefined.
        low, high: the ends of its 95% bootstrap interval over documents, where it has one.
        seeds: the value of each seed's run, if there are several.
        rows: the number of documents that have a value, if it is not all of them.
    """

    value: float | None
    low: NotRequired[float]
    high: NotRequired[float]
    seeds: NotRequired[list[float]]
    rows: NotRequired[int]


class Cell(OurValue):
    """What a report says about a measure of a row: our value, the published figure, and both differences.

    Keys:
        published: the published figure, or None if there is none.
        published_difference: the published figure minus the baseline's, or None if one of them is not published.
        verdict: whether the direction of that difference holds here, see `scoring.verdict`.
        difference: our difference from the baseline.
    """

    published: float | None
    published_difference: NotRequired[float | None]
    verdict: NotRequired[str | None]
    difference: NotRequired[Difference]


class RunFacts(TypedDict, total=False):
    """Facts about a row's trained model; a row that is not trained has none.

    Keys:
        run: the name of the training run's folder.
        parameters: the number of the model's parameters.
        updates, epochs: how long it was trained, over all training runs of the row.
        seed: the random seed.
        documents_per_second: documents summarized per second.
        curve: the update and the negative log-likelihood per token of each log entry.
        tokens, seconds: tokens and seconds of training, if they are known.
        extraction: how documents were shortened before the model read them, if they were.
        seeds: all seeds, if the other facts are those of several runs.
    """

    run: str
    parameters: int
    updates: int
    epochs: float
    seed: int
    documents_per_second: float
    curve: list[list[float]]
    tokens: float
    seconds: float
    extraction: str
    seeds: list[int]


class ReportRow(RunFacts):
    """A row of a report on one data set.

    Keys:
        row: the row's name.
        problem: why it has no measures, or None.
        failed: whether it was run and did not complete.
        measures: measure -> its cell.
    """

    row: str
    problem: str | None
    failed: bool
    measures: dict[str, Cell]


class ClaimCell(TypedDict):
    """A claim in one measure.

    Keys:
        difference: the row's measure minus that of the row which it should exceed.
        verdict: "holds", "fails" or "undecided"; None at the scale tiny.
        documents: the number of documents that would decide the claim, or None if no number would.
    """

    difference: ValueInterval
    verdict: str | None
    documents: float | None


class Claim(TypedDict):
    """A claim of a paper: the row named `row` exceeds the row named `above`. It is tested in each of `measures`."""

    row: str
    above: str
    measures: dict[str, ClaimCell]


class Span(TypedDict):
    """Documents whose value is from `low` to `high`: their number, and the means of their scores by measure."""

    low: float
    high: float
    documents: int
    scores: dict[str, float]


class Relation(TypedDict):
    """How the scores of a row's summaries depend on a value of each summary; see `scoring.relation`."""

    points: list[list[float]]
    correlations: dict[str, ValueInterval | None]
    spans: list[Span]


class Block(TypedDict):
    """The part of a report about one data set.

    Keys:
        dataset: the name of the data set in the table.
        data: the name of the data that were read.
        documents: the number of summarized documents or, for votes, of documents with votes; None if no
            documents were read.
        rows: the rows.
        voters: the number of people who voted, for votes.
        claims: the tested claims, for scores of systems.
        relations: row -> its relation, for tables that plot their measures against a value.
    """

    dataset: str
    data: str
    documents: int | None
    rows: list[ReportRow]
    voters: NotRequired[int]
    claims: NotRequired[list[Claim]]
    relations: NotRequired[dict[str, Relation]]


class Report(TypedDict):
    """A whole table; `table` is its name, `datasets` has a block for each data set, and most other keys are `Table`'s.

    `hf_summ` is the version of this package. `scale` and `split` are those of `run_table`.
    """

    table: str
    title: str
    paper: str
    kind: str
    scale: str
    split: str
    unit: str
    measures: list[str]
    baseline: str | None
    rouge: dict[str, str | int]
    count_punctuation: bool
    against: str | None
    notes: list[str]
    hf_summ: str
    datasets: list[Block]
