"""The report of a table as data: its blocks, which are the parts about single data sets, and the whole report."""

from collections.abc import Mapping, Sequence

from hf_summ import __version__
from hf_summ.evaluation.significance import Comparison, Scored
from hf_summ.experiments.content import Block, Cell, OurValue, Report, ReportRow
from hf_summ.experiments.scoring import Outcome, compare, verdict
from hf_summ.experiments.tables import Row, Table


def make_report(table: Table, scale: str, blocks: Sequence[Block], split: str = "test") -> Report:
    """The whole table as data, ready for JSON.

    Args:
        table: the table.
        scale: one of `SCALES`. At "tiny", all verdicts are removed from the blocks.
        blocks: one per data set, see `block_of_scores`.
        split: the split whose documents were summarized.
    """
    if scale == "tiny":
        # After seconds of training, scores allow no comparison with a paper's.
        for block in blocks:
            _remove_verdicts(block)
    return {
        "table": table.name,
        "title": table.title,
        "paper": table.paper,
        "kind": table.kind,
        "scale": scale,
        "split": split,
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
    """Set the verdicts of a block's differences and claims to None."""
    for row in block["rows"]:
        for cell in row["measures"].values():
            if "verdict" in cell:
                cell["verdict"] = None
    for claim in block.get("claims", []):
        for claim_cell in claim["measures"].values():
            claim_cell["verdict"] = None


def block_of_scores(table: Table, dataset: str, data: str, documents: int | None, outcomes: Sequence[Outcome]) -> Block:
    """The block of a data set: its rows, with scores of systems and differences from the baseline.

    Args:
        table: the table.
        dataset: the name of the data set in the table.
        data: the data read instead of the data set, or the data set's name.
        documents: number of summarized documents; None if the data cannot be read.
        outcomes: one per row, with measures.
    """
    baseline_scores: Mapping[str, Scored] = {}
    baseline_figures: Mapping[str, float | None] = {}
    for outcome in outcomes:
        if outcome.row.row == table.baseline:
            baseline_scores = outcome.measures
            baseline_figures = _published(table, outcome.row, dataset)
    rows = []
    for outcome in outcomes:
        published = _published(table, outcome.row, dataset)
        is_compared = table.baseline is not None and outcome.row.row != table.baseline
        cells = {}
        for measure in table.measures:
            scored = outcome.measures.get(measure)
            cell: Cell = {**_our_value(scored), "published": published[measure]}
            if is_compared:
                comparison = None
                if scored is not None and measure in baseline_scores:
                    comparison = compare(scored, baseline_scores[measure])
                _add_differences(cell, baseline_figures.get(measure), comparison)
            cells[measure] = cell
        rows.append(_row(outcome, cells))
    return {"dataset": dataset, "data": data, "documents": documents, "rows": rows}


def block_of_values(table: Table, dataset: str, data: str, outcomes: Sequence[Outcome]) -> Block:
    """The block of a data set in a table that does not compare systems: its rows, with numbers.

    Args:
        table: the table.
        dataset: the name of the data set in the table.
        data: the data read instead of the data set, or the data set's name.
        outcomes: one per row, with figures.
    """
    rows = []
    for outcome in outcomes:
        published = _published(table, outcome.row, dataset)
        cells: dict[str, Cell] = {}
        for measure in table.measures:
            cells[measure] = {"value": outcome.figures.get(measure), "published": published[measure]}
        rows.append(_row(outcome, cells))
    return {"dataset": dataset, "data": data, "documents": None, "rows": rows}


def _our_value(scored: Scored | None) -> OurValue:
    """A score as it stands in a cell of the report.

    There is no interval if the value is undefined in resamples, and no `rows` if all documents have a value.
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


def _row(outcome: Outcome, cells: dict[str, Cell]) -> ReportRow:
    """A row of the report, with the facts about its trained model."""
    return {
        "row": outcome.row.row,
        "problem": outcome.problem,
        "failed": outcome.failed,
        **outcome.facts,
        "measures": cells,
    }


def _published(table: Table, row: Row, dataset: str) -> dict[str, float | None]:
    """Measure -> the figure that was published for a row on a data set, or None."""
    if dataset not in row.published:
        return dict.fromkeys(table.measures)
    return dict(zip(table.measures, row.published[dataset], strict=True))


def _add_differences(cell: Cell, published_baseline: float | None, comparison: Comparison | None) -> None:
    """Add the differences from the baseline to a cell: the published one, our verdict on it, and our own.

    Args:
        cell: the cell of a row that is not the baseline.
        published_baseline: the figure that was published for the baseline, or None.
        comparison: our difference from the baseline, or None.
    """
    published_difference = None
    if cell["published"] is not None and published_baseline is not None:
        published_difference = round(float(cell["published"] - published_baseline), 6)
    cell["published_difference"] = published_difference
    cell["verdict"] = verdict(published_difference, comparison)
    if comparison is not None:
        cell["difference"] = {
            "value": comparison.mean,
            "low": comparison.low,
            "high": comparison.high,
            "p_value": comparison.p_value,
        }
