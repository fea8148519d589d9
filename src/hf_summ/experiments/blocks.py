"""The report of a table as data.

A report consists of blocks, one for each data set of the table. A block has a row for each row of the table, and a row
has a cell for each measure. A cell holds two numbers: the value that was computed here, called ours, and the published
figure, which the paper prints for the same row, data set and measure.
"""

from collections.abc import Mapping, Sequence

from hf_summ import __version__
from hf_summ.evaluation.significance import Scored
from hf_summ.experiments.content import Block, Cell, OurValue, Report, ReportRow
from hf_summ.experiments.scoring import Outcome, compare, do_seeds_overlap, verdict
from hf_summ.experiments.tables import Row, Table


def make_report(
    table: Table, scale: str, blocks: Sequence[Block], split: str = "test", flags: Sequence[str] = ()
) -> Report:
    """The whole report, ready for JSON.

    Args:
        table: the table, with the rows that are reported.
        scale: one of `SCALES`. At "tiny", this function sets all verdicts in `blocks` to None.
        blocks: the block of each data set, from `block_of_scores` or `block_of_values`.
        split: the split whose documents were summarized, "test" or "validation".
        flags: the names of the user's flags that change the experiment, see `Workplace.changing_flags`.
    """
    if scale == "tiny":
        # A model is trained for seconds at this scale, so its scores say nothing about a paper's differences.
        for block in blocks:
            _remove_verdicts(block)
    return {
        "table": table.name,
        "title": table.title,
        "paper": table.paper,
        "kind": table.kind,
        "scale": scale,
        "split": split,
        "flags": list(flags),
        "unit": table.unit,
        "measures": list(table.measures),
        "baseline": table.baseline,
        "rouge": dict(table.rouge),
        "count_punctuation": table.count_punctuation,
        "against": table.against,
        "notes": list(table.notes),
        "hf_summ": __version__,
        "datasets": list(blocks),
    }


def _remove_verdicts(block: Block) -> None:
    """Set the verdicts of a block's cells and of its claims to None, in place."""
    for row in block["rows"]:
        for cell in row["measures"].values():
            if "verdict" in cell:
                cell["verdict"] = None
    for claim in block.get("claims", []):
        for claim_cell in claim["measures"].values():
            claim_cell["verdict"] = None


def block_of_scores(table: Table, dataset: str, data: str, documents: int | None, outcomes: Sequence[Outcome]) -> Block:
    """The block of a data set in a table that scores systems.

    Each cell has our score and the published figure. If the table has a baseline, the cells of all other rows also have
    both differences from it: the difference of our scores, and the difference of the published figures. A published
    difference is None if one of its two figures is not published, or if the baseline is not among the outcomes. Our
    difference is absent if one of the two rows has no score.

    Args:
        table: the table.
        dataset: the name of the data set in the table.
        data: the name of the data that were read. It is `dataset` unless the user gave other data.
        documents: the number of summarized documents, or None if the data were not read.
        outcomes: the outcome of each reported row. A row with a problem may have no measures; its cells have no value.
    """
    our_baseline: Mapping[str, Scored] = {}
    published_baseline: Mapping[str, float | None] = {}
    for outcome in outcomes:
        if outcome.row.row == table.baseline:
            our_baseline = outcome.measures
            published_baseline = _published_figures(table, outcome.row, dataset)
    rows = []
    for outcome in outcomes:
        published = _published_figures(table, outcome.row, dataset)
        is_compared = table.baseline is not None and outcome.row.row != table.baseline
        cells = {}
        for measure in table.measures:
            scored = outcome.measures.get(measure)
            cell: Cell = {**_our_value(scored), "published": published[measure]}
            if is_compared:
                _add_differences(cell, published_baseline.get(measure), scored, our_baseline.get(measure))
            cells[measure] = cell
        rows.append(_report_row(outcome, cells))
    return {"dataset": dataset, "data": data, "documents": documents, "rows": rows}


def block_of_values(table: Table, dataset: str, data: str, outcomes: Sequence[Outcome]) -> Block:
    """The block of a data set in a table of statistics, language models or votes, which has numbers instead of scores.

    Each cell has our number and the published figure, without intervals or differences. `documents` of the block is
    None, as no documents are summarized; the caller may set it.

    Args:
        table: the table.
        dataset: the name of the data set in the table.
        data: the name of the data that were read. It is `dataset` unless the user gave other data.
        outcomes: the outcome of each reported row. A row with a problem has no numbers; its cells have the value None.
    """
    rows = []
    for outcome in outcomes:
        published = _published_figures(table, outcome.row, dataset)
        cells: dict[str, Cell] = {}
        for measure in table.measures:
            cells[measure] = {"value": outcome.numbers.get(measure), "published": published[measure]}
        rows.append(_report_row(outcome, cells))
    return {"dataset": dataset, "data": data, "documents": None, "rows": rows}


def _our_value(scored: Scored | None) -> OurValue:
    """Our part of a report's cell.

    The ends of the interval, `low` and `high`, are absent if the score is undefined in a bootstrap resample or fewer
    than two documents have a value. `rows`, the number of documents with a value, is absent if all of them have one.

    Args:
        scored: the score of a system, or None if the system was not scored in the measure.
    """
    if scored is None:
        return {"value": None}
    our_value: OurValue = {"value": scored.value()}
    interval = scored.interval()
    if interval is not None:
        our_value["low"] = interval.low
        our_value["high"] = interval.high
    if scored.seeds:
        our_value["seeds"] = list(scored.seeds)
    documents_with_value = scored.number()
    if documents_with_value != len(scored.statistics):
        our_value["rows"] = documents_with_value
    return our_value


def _report_row(outcome: Outcome, cells: dict[str, Cell]) -> ReportRow:
    """A row of the report: its name, its problem, the facts about its trained model, and its cells by measure."""
    return {
        "row": outcome.row.row,
        "problem": outcome.problem,
        "failed": outcome.failed,
        **outcome.facts,
        "measures": cells,
    }


def _published_figures(table: Table, row: Row, dataset: str) -> dict[str, float | None]:
    """Measure -> the figure that the paper prints for a row on a data set; None for a measure without a figure."""
    if dataset not in row.published:
        return dict.fromkeys(table.measures)
    return dict(zip(table.measures, row.published[dataset], strict=True))


def _add_differences(
    cell: Cell, published_baseline: float | None, scored: Scored | None, our_baseline: Scored | None
) -> None:
    """Add the published difference from the baseline, the verdict on it, and our difference to a cell, in place.

    If our difference is undefined, the verdict is None, and the cell gets no `difference`.

    Args:
        cell: the cell of a row that is not the baseline, with the row's published figure.
        published_baseline: the published figure of the baseline in the same measure, or None.
        scored: our score of the row, or None.
        our_baseline: our score of the baseline in the same measure, or None.
    """
    published_difference = None
    if cell["published"] is not None and published_baseline is not None:
        published_difference = round(float(cell["published"] - published_baseline), 6)
    cell["published_difference"] = published_difference
    cell["verdict"] = None
    if scored is None or our_baseline is None:
        return
    comparison = compare(scored, our_baseline)
    if comparison is None:
        return
    cell["verdict"] = verdict(published_difference, comparison, do_seeds_overlap(scored, our_baseline))
    cell["difference"] = {
        "value": comparison.mean,
        "low": comparison.low,
        "high": comparison.high,
        "p_value": comparison.p_value,
    }
