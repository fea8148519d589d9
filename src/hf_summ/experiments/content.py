"""The content of a table's report, as it is written to the report's JSON file.

In a report, "ours" is what this package computed, and a "published figure" is a number that the paper prints.
"""

from typing import NotRequired, TypedDict


class ValueInterval(TypedDict):
    """A value with the ends of its 95% bootstrap interval over documents."""

    value: float
    low: float
    high: float


class Difference(ValueInterval):
    """The value of a system minus the value of the baseline in one measure, with a two-sided p-value."""

    p_value: float


class OurValue(TypedDict):
    """What was computed here for a row in one measure.

    Keys:
        value: the value for the whole corpus, or None if it is unknown or undefined.
        low, high: the ends of the value's 95% bootstrap interval over documents; absent without an interval.
        seeds: the value of each seed's run; absent unless the row was run with several seeds.
        rows: the number of documents that have a value; absent if all documents have one.
    """

    value: float | None
    low: NotRequired[float]
    high: NotRequired[float]
    seeds: NotRequired[list[float]]
    rows: NotRequired[int]


class Cell(OurValue):
    """What a report says about a row in one measure: our value, the published figure, and both differences.

    The last three keys are absent without a baseline, in the row of the baseline, and in tables that score no systems.

    Keys:
        published: the published figure, or None if there is none.
        published_difference: the published figure minus the baseline's published figure; None if one of them is
            missing.
        verdict: whether the direction of the published difference holds here, see `scoring.verdict`.
        difference: our value minus our value of the baseline; absent if one of them is missing.
    """

    published: float | None
    published_difference: NotRequired[float | None]
    verdict: NotRequired[str | None]
    difference: NotRequired[Difference]


class RunFacts(TypedDict, total=False):
    """Facts about a row's trained model. All keys are absent in a row that is not trained.

    Keys:
        run: the name of the last training run's folder.
        parameters: the number of the model's parameters.
        updates, epochs: the length of the training, summed over the one or two training runs of the row.
        seed: the random seed of the training.
        documents_per_second: the number of documents summarized per second of wall time.
        curve: one pair for each log entry of the training: the update, and the negative log-likelihood per token.
        tokens, seconds: the number of tokens and of seconds of the training; absent if unknown.
        extraction: how documents were shortened before the model read them; absent if they were not.
        seeds: the seeds of all runs; absent unless the row was run with several seeds. Then `tokens`, `seconds`,
            `documents_per_second` and `curve` are means over the seeds, and other facts are of the first seed.
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
        problem: why the row has no values, or None. With several seeds, some may have values and others a problem.
        failed: whether the row was run and did not complete.
        measures: measure -> the row's cell.
    """

    row: str
    problem: str | None
    failed: bool
    measures: dict[str, Cell]


class ClaimCell(TypedDict):
    """The test of a claim in one measure.

    Keys:
        difference: the value of the claim's row minus the value of the row that it should exceed.
        verdict: "holds", "fails" or "undecided"; None at the scale tiny.
        documents: the total number of documents that would probably decide the claim, see `examples_to_decide`; None if
            it is infinite or only one document was summarized.
    """

    difference: ValueInterval
    verdict: str | None
    documents: float | None


class Claim(TypedDict):
    """A claim of a paper, that the row `row` exceeds the row `above`, and the test of the claim in each measure."""

    row: str
    above: str
    measures: dict[str, ClaimCell]


class Span(TypedDict):
    """A group of documents whose summaries have a value from `low` to `high`.

    Keys:
        low, high: the least and the greatest value in the group.
        documents: the number of documents in the group.
        scores: measure -> the mean score of the group's summaries.
    """

    low: float
    high: float
    documents: int
    scores: dict[str, float]


class Relation(TypedDict):
    """How the scores of a row's summaries depend on a value of each summary, such as the divergence of the model.

    Keys:
        points: one list for each document: the value, and then the score in each measure.
        correlations: measure -> Spearman's correlation of the scores with the value; None if it is undefined.
        spans: the documents in groups of about equal size, from low to high values.
    """

    points: list[list[float]]
    correlations: dict[str, ValueInterval | None]
    spans: list[Span]


class Block(TypedDict):
    """The part of a report about one data set.

    Keys:
        dataset: the name of the data set in the table.
        data: the name of the data that were read. It is `dataset` unless the user gave other data.
        documents: the number of summarized documents or, in a table of votes, of documents with votes; None in other
            tables and if no documents were read.
        rows: the rows.
        voters: the number of people who voted; only in tables of votes.
        claims: the tested claims; only in tables that score systems.
        relations: name of a row -> the row's relation; only in tables that plot their measures against a value.
    """

    dataset: str
    data: str
    documents: int | None
    rows: list[ReportRow]
    voters: NotRequired[int]
    claims: NotRequired[list[Claim]]
    relations: NotRequired[dict[str, Relation]]


class Report(TypedDict):
    """The report of a table.

    `table` is the table's name, `datasets` has a block for each data set, and `hf_summ` is the version of this package.
    `scale` and `split` are the arguments of `run_table`, and `flags` names the user's flags that change the experiment.
    The other keys are fields of `Table`.
    """

    table: str
    title: str
    paper: str
    kind: str
    scale: str
    split: str
    flags: list[str]
    unit: str
    measures: list[str]
    baseline: str | None
    rouge: dict[str, str | int]
    count_punctuation: bool
    against: str | None
    notes: list[str]
    hf_summ: str
    datasets: list[Block]
