"""The report of a table as Markdown and LaTeX, with our values beside the published figures.

A report has a block for each data set. A block has a row for each row of the table, and a row has a cell for each
measure. A cell has our value, which was computed here, and the published figure, which the paper prints. `content.py`
describes all keys.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from hf_summ.common.pages import latex_figure, latex_table, latex_text, markdown_table
from hf_summ.evaluation import measures
from hf_summ.evaluation.report import shown_interval
from hf_summ.experiments.content import Block, Cell, Claim, ClaimCell, Relation, Report, ReportRow, ValueInterval
from hf_summ.experiments.tables import ROUGE_MEASURES

_CLAIMS = (
    "The papers' claims, as differences in ROUGE with 95% intervals by paired bootstrap over documents. "
    "A claim holds or fails if the interval excludes zero and the ranges over seeds do not overlap. Otherwise it is "
    "undecided: either more seeds are needed, or the given total number of documents, which would decide it with a "
    "probability of 80% if the measured difference is the true one."
)
_TRAININGS = (
    "Tokens trained per second (source and target, without padding; CPU seconds where the device is a CPU), documents "
    "summarized per second of wall time, the mean negative log-likelihood per training token in the last tenth of the "
    "updates, and its fall from the tenth before:"
)
# The measures of a whole corpus, which are not means over documents. Over seeds, they are pooled, see `over_seeds`.
_OF_CORPUS = ("perplexity", *measures.MEASURES["bleu"].titles, *measures.MEASURES["chrf"].titles)
# What a table shows in place of a missing number.
_NONE = "–"


def title_of(measure: str) -> str:
    """The column title of a measure, such as "R-1" for `rouge1`."""
    if measures.measure_of(measure) is None:
        return measure.replace("_", " ")
    title = measures.title_of(measure).removesuffix(", %").replace("ROUGE-", "R-")
    # Titles that begin with a word, such as "Novel 1-grams", are written in lower case here. Names such as "R-1" or
    # "BLEU" stay.
    if title[1:2].islower():
        title = title[0].lower() + title[1:]
    return title


def markdown(report: Report) -> str:
    """The report as a page of Markdown, with a section for each data set, and the table's notes at the end."""
    lines = [f"# {report['paper']}: {report['title']}", "", _settings_line(report), ""]
    for block in report["datasets"]:
        lines.extend(_markdown_of_block(report, block))
    for note in report["notes"]:
        lines.append(f"- {note}")
    return "\n".join(lines).rstrip() + "\n"


def _markdown_of_block(report: Report, block: Block) -> list[str]:
    """The section of a data set as lines of Markdown.

    It begins with the table of values. What follows depends on the content of the block: speeds and losses of training,
    how documents were shortened, differences from the baseline, claims, relations, and rows with problems.
    """
    lines = [f"## {block['dataset']}", "", data_line(report, block), ""]
    if _has_seeds(block):
        pooled = _pooled_measures(report)
        lines.extend([f"Means over seeds{pooled}, with 95% intervals over documents, and the range over seeds:", ""])
    lines.append(_scores(report, block))
    lines.extend(markdown_of_trainings(block["rows"]))
    lines.extend(_markdown_of_extractions(block["rows"]))
    if report["baseline"] is not None:
        lines.extend(["", _differences_line(report, block), "", _differences(report, block)])
    titles = _titles(report)
    if block.get("claims"):
        lines.append("")
        lines.extend(markdown_of_claims(block["claims"], titles, block["documents"]))
    if report["against"] is not None:
        for name, relation in block.get("relations", {}).items():
            lines.append("")
            lines.extend(markdown_of_relation(report["against"], name, relation, titles))
    failed_rows = []
    rows_not_run = []
    for row in block["rows"]:
        if row["problem"] and row["failed"]:
            failed_rows.append(row)
        elif row["problem"]:
            rows_not_run.append(row)
    lines.extend(_markdown_of_problems("Failed", failed_rows))
    lines.extend(_markdown_of_problems("Not run", rows_not_run))
    lines.append("")
    return lines


def _titles(report: Report) -> dict[str, str]:
    """Measure -> column title, for the measures of the report in their order."""
    return {measure: title_of(measure) for measure in report["measures"]}


def _has_seeds(block: Block) -> bool:
    """Whether any row of the block was trained with several seeds."""
    return any("seeds" in row for row in block["rows"])


def _pooled_measures(report: Report) -> str:
    """The measures that are not means over seeds, as a parenthesis after the words "means over seeds"; "" if none."""
    titles = []
    for measure, title in _titles(report).items():
        if measure in _OF_CORPUS:
            titles.append(title)
    if not titles:
        return ""
    return f" ({', '.join(titles)} of all seeds together)"


def _markdown_of_extractions(rows: Sequence[ReportRow]) -> list[str]:
    """How the documents of each row were shortened, as lines of Markdown: a list of the rows with shortened documents.

    If no documents were shortened, there are no lines.
    """
    items = []
    for row in rows:
        if "extraction" in row:
            items.append(f"- {row['row']}: {row['extraction']}")
    if not items:
        return []
    return ["", "Documents were shortened before the model read them; what was kept:", ""] + items


def _differences_line(report: Report, block: Block) -> str:
    """The sentence above the table of differences, which says over what the intervals were computed.

    Args:
        report: a report with a baseline.
        block: a block of the report.
    """
    runs = ""
    if _has_seeds(block):
        runs = f"means over seeds{_pooled_measures(report)}, "
    elif _trained_rows(block):
        # Readers must know that the differences of single runs may come from the seed.
        runs = "of one run each, "
    return f"Differences from {report['baseline']}, {runs}with 95% intervals by paired bootstrap over documents:"


def _markdown_of_problems(title: str, rows: Sequence[ReportRow]) -> list[str]:
    """A list of rows and their problems, as lines of Markdown; no lines if there are no rows.

    Args:
        title: the line above the list, without a colon.
        rows: rows that have a problem.
    """
    if not rows:
        return []
    lines = ["", f"{title}:", ""]
    for row in rows:
        lines.append(f"- {row['row']}: {row['problem']}")
    return lines


def latex(report: Report) -> str:
    """Our values as LaTeX tables for a paper, one for each data set, with legends. Published figures are not shown."""
    titles = list(_titles(report).values())
    parts = []
    for block in report["datasets"]:
        # Name of a row -> our value in each measure, as LaTeX.
        values_of_rows = {}
        for row in block["rows"]:
            values = []
            for measure in report["measures"]:
                values.append(_latex_value(row["measures"][measure]))
            values_of_rows[row["row"]] = values
        parts.append(latex_table(titles, values_of_rows))
        legend = rf"{latex_text(block['dataset'])}: $\pm$ half the width of the 95\% interval over documents."
        if report["baseline"] is not None:
            legend += rf" $\dagger$ the interval of the difference from {latex_text(report['baseline'])} excludes 0."
        parts.append(legend)
    parts.append(latex_text(_settings_line(report)))
    return "\n\n".join(parts) + "\n"


def _latex_value(cell: Cell) -> str:
    """Our value as LaTeX, with a dagger if the interval of our difference from the baseline excludes 0."""
    interval = None
    if "low" in cell:
        interval = (cell["low"], cell["high"])
    is_marked = False
    if "difference" in cell:
        difference = cell["difference"]
        is_marked = not difference["low"] <= 0 <= difference["high"]
    return latex_figure(cell["value"], interval, is_marked)


def _settings_line(report: Report) -> str:
    """A line with the settings that all our values in a report share, such as the scale and options of ROUGE."""
    settings = [f"Scale {report['scale']}", f"hf_summ {report['hf_summ']}"]
    if any(measure.startswith("rouge") for measure in report["measures"]):
        rouge_settings = [f"ROUGE-1.5.5 of {report['unit']}"]
        for name, value in report["rouge"].items():
            rouge_settings.append(f"{name.replace('_', ' ')} {value}")
        settings.append(", ".join(rouge_settings))
    if report["kind"] == "votes":
        settings.append("votes in percent" if report["unit"] == "percent" else "documents per voter")
    if report["count_punctuation"]:
        settings.append("novelty counts punctuation marks as words")
    return "; ".join(settings) + "."


def data_line(report: Report, block: Block) -> str:
    """A line that names the data behind our values, and says whether published figures can be compared with the values.

    Args:
        report: the report, with the scale, the split and the user's flags.
        block: a block of the report, or a copy of a block with fewer rows.
    """
    parts = [f"Ours: {block['data']}"]
    if block["documents"] is not None:
        parts.append(f"{block['documents']} {report['split']} documents")
    if "voters" in block:
        parts.append(f"{block['voters']} voters")
    trained_rows = _trained_rows(block)
    if trained_rows:
        updates = _numbers_of_updates(block)
        # If the rows have different numbers of updates, the table of scores shows them in a column instead.
        if len(updates) == 1:
            parts.append(f"updates {updates.pop()}")
        seeds = set()
        for row in trained_rows:
            seeds.update(row["seeds"] if "seeds" in row else [row["seed"]])
        parts.append(f"seed {', '.join(str(seed) for seed in sorted(seeds))}")
    line = ", ".join(parts) + "."
    if not _has_published(block):
        return f"{line} No figures are published for these rows."
    line += f" Published: {block['dataset']}."
    is_full = report["scale"] == "full" and not report["flags"]
    # Published figures are of test sets.
    has_same_documents = block["data"] == block["dataset"] and report["split"] == "test"
    if not (is_full and has_same_documents):
        line += " Our figures can be compared with each other, but not with the published ones."
    return line


def _trained_rows(block: Block) -> list[ReportRow]:
    """The rows of the block that were trained. Only these rows have a number of updates."""
    return [row for row in block["rows"] if "updates" in row]


def _numbers_of_updates(block: Block) -> set[int]:
    """The numbers of updates with which the rows of the block were trained, each once."""
    return {row["updates"] for row in _trained_rows(block)}


def _has_published(block: Block) -> bool:
    """Whether any row of the block has a published figure in any measure."""
    for row in block["rows"]:
        for cell in row["measures"].values():
            if cell["published"] is not None:
                return True
    return False


def _scores(report: Report, block: Block) -> str:
    """The Markdown table of our values.

    It also has a column of parameters if a row was trained, a column of updates if the rows have different numbers of
    updates, and a column of published figures for each measure if a figure is published.
    """
    titles = list(_titles(report).values())
    has_parameters = any("parameters" in row for row in block["rows"])
    has_different_updates = len(_numbers_of_updates(block)) > 1
    has_published = _has_published(block)
    head = ["row"]
    if has_parameters:
        head.append("parameters")
    if has_different_updates:
        head.append("updates")
    head.extend(titles)
    if has_published:
        for title in titles:
            head.append(f"published {title}")
    lines = []
    for row in block["rows"]:
        line = [row["row"]]
        if has_parameters:
            line.append(f"{row['parameters'] / 1e6:.2f}M" if "parameters" in row else "")
        if has_different_updates:
            line.append(str(row.get("updates", "")))
        for measure in report["measures"]:
            line.append(_value(row["measures"][measure], block["documents"]))
        if has_published:
            for measure in report["measures"]:
                line.append(number(row["measures"][measure]["published"]))
        lines.append(line)
    return markdown_table(head, lines)


def _differences(report: Report, block: Block) -> str:
    """The Markdown table of our differences from the baseline, without the row of the baseline itself.

    If figures are published for the block, each measure also has a column of published differences and, except at the
    scale tiny, a column of verdicts.
    """
    has_published = _has_published(block)
    has_verdicts = has_published and report["scale"] != "tiny"
    head = ["row"]
    for measure in report["measures"]:
        head.append(title_of(measure))
        if has_published:
            head.append("published")
        if has_verdicts:
            head.append("")
    lines = []
    for row in block["rows"]:
        if row["row"] == report["baseline"]:
            continue
        line = [row["row"]]
        for measure in report["measures"]:
            cell = row["measures"][measure]
            line.append(_interval(cell.get("difference"), "+.2f"))
            if has_published:
                line.append(number(cell["published_difference"], "+"))
            if has_verdicts:
                line.append(cell["verdict"] or _NONE)
        lines.append(line)
    return markdown_table(head, lines)


def _value(cell: Cell, documents: int | None) -> str:
    """Our value as a table shows it, such as "31.20 [30.10, 32.40] 30.80 to 31.70 (95 of 100)".

    The parts after the value are its interval, the range of the values of several seeds, and the number of documents
    that have a value. A part is left out if the cell does not have it, and the range also if there is no interval.

    Args:
        cell: the cell.
        documents: the number of summarized documents.
    """
    text = number(cell["value"])
    if "low" in cell:
        text = _interval(cell, ".2f")
        values_of_seeds = cell.get("seeds")
        if values_of_seeds:
            text += f" {min(values_of_seeds):.2f} to {max(values_of_seeds):.2f}"
    documents_with_value = cell.get("rows")
    if documents_with_value:
        text += f" ({documents_with_value} of {documents})"
    return text


def number(value: float | None, sign: str = "") -> str:
    """A number as tables show it, with two decimals unless it is an integer or at least 1000; a dash for none.

    Args:
        value: the number; None and NaN are shown as a dash.
        sign: "+" also shows the sign of a positive number.
    """
    if value is None or math.isnan(value):
        return _NONE
    # An integer is a count, or a figure that was published without decimals.
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:{sign},.0f}"
    return f"{value:{sign}.2f}"


def markdown_of_claims(tested: Sequence[Claim], titles: Mapping[str, str], documents: int | None) -> list[str]:
    """The tests of a paper's claims as lines of Markdown: an explanation, and a table with a line for each claim.

    Args:
        tested: the claims of a block, from `claims` of `hf_summ.experiments.scoring`.
        titles: measure -> column title. Only types of ROUGE become columns, as claims are tested in them only.
        documents: the number of summarized documents; None if they were not read, so that no claim was tested.
    """
    head = ["row", "above"]
    lines = [[claim["row"], claim["above"]] for claim in tested]
    for measure, title in titles.items():
        if measure in ROUGE_MEASURES:
            head.append(title)
            for line, claim in zip(lines, tested, strict=True):
                line.append(_claim(claim["measures"].get(measure), documents))
    return [_CLAIMS, "", markdown_table(head, lines, left=2)]


def _claim(cell: ClaimCell | None, documents: int | None) -> str:
    """The test of a claim in one measure as a table shows it: the difference, the verdict, and what would decide it.

    An undecided claim is followed by the number of documents that would probably decide it, or by a dash if this number
    is not known. If the number is at most the number of summarized documents, the claim is undecided only because the
    seeds disagree, and "more seeds" follows.

    Args:
        cell: the test; None shows a dash, as the claim was not tested in the measure.
        documents: the number of summarized documents.
    """
    if cell is None:
        return _NONE
    difference = _interval(cell["difference"], "+.2f")
    if cell["verdict"] is None:
        return difference
    if cell["verdict"] != "undecided":
        return f"{difference} {cell['verdict']}"
    needed_documents = cell["documents"]
    if needed_documents is None:
        return f"{difference} undecided: {_NONE}"
    if documents is not None and needed_documents <= documents:
        return f"{difference} undecided: more seeds"
    return f"{difference} undecided: {needed_documents:,} documents"


def _interval(numbers: Cell | ValueInterval | None, form: str) -> str:
    """A value and its interval as a table shows them, such as "31.20 [30.10, 32.40]".

    Args:
        numbers: `value`, and the ends of its interval, `low` and `high`; None shows a dash.
        form: the format of each number, such as "+.2f".
    """
    if numbers is None:
        return _NONE
    return f"{numbers['value']:{form}} {shown_interval([numbers['low'], numbers['high']], form)}"


def markdown_of_relation(value: str, row: str, relation: Relation, titles: Mapping[str, str]) -> list[str]:
    """How the scores of a row's summaries depend on a value of each summary, as lines of Markdown.

    A sentence lists the correlation of the value with each score. A table has a line for each span, which is a group
    of documents whose summaries have similar values.

    Args:
        value: name of the value, such as "divergence".
        row: name of the row.
        relation: from `relation` of `hf_summ.experiments.scoring`.
        titles: measure -> column title.
    """
    correlations = []
    head = [value, "documents"]
    for measure, correlation in relation["correlations"].items():
        correlations.append(f"{titles[measure]} {_interval(correlation, '+.3f')}")
        head.append(titles[measure])
    listed_correlations = ", ".join(correlations)
    sentence = f"{row}: Spearman's correlation of each summary's {value} with its {listed_correlations}. By {value}:"
    lines = []
    for span in relation["spans"]:
        line = [f"{span['low']:.3f} to {span['high']:.3f}", str(span["documents"])]
        for mean_score in span["scores"].values():
            line.append(f"{mean_score:.2f}")
        lines.append(line)
    return [sentence, "", markdown_table(head, lines)]


def markdown_of_trainings(rows: Sequence[ReportRow]) -> list[str]:
    """A table of the trained rows' speeds and losses, as lines of Markdown; no lines if no row recorded its losses."""
    lines = []
    for row in rows:
        if row.get("curve"):
            lines.append(_training(row))
    if not lines:
        return []
    head = ["row", "tokens/s", "documents/s", "nll", "fall"]
    return ["", _TRAININGS, "", markdown_table(head, lines)]


def _training(row: ReportRow) -> list[str]:
    """A line of the table of trainings, for a row whose losses were recorded.

    Returns:
        Five cells: the name of the row, tokens trained per second, documents summarized per second, the mean loss in
        the last tenth of the training, and by how much the loss fell from the tenth before.
    """
    losses = [loss for _, loss in row["curve"]]
    # A curve has an entry for every so many updates, so that a tenth of its entries is a tenth of the updates.
    tenth = max(1, len(losses) // 10)
    last_loss = np.mean(losses[-tenth:])
    losses_before = losses[-2 * tenth : -tenth]
    fall = _NONE
    if losses_before:
        fall = f"{np.mean(losses_before) - last_loss:+.3f}"
    tokens_per_second = _NONE
    if "tokens" in row and "seconds" in row:
        tokens_per_second = f"{row['tokens'] / row['seconds']:,.0f}"
    return [row["row"], tokens_per_second, f"{row['documents_per_second']:.1f}", f"{last_loss:.3f}", fall]
