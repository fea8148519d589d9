"""The report of a table as Markdown and LaTeX: our figures beside the published ones."""

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
# A table shows this where it has no figure.
_NONE = "–"


def title_of(measure: str) -> str:
    """A measure's name as a column title."""
    if measures.measure_of(measure) is None:
        return measure.replace("_", " ")
    title = measures.title_of(measure).removesuffix(", %").replace("ROUGE-", "R-")
    # A title such as "Novel 1-grams" begins in lower case here, but not one such as "R-1" or "BLEU".
    if title[1:2].islower():
        title = title[0].lower() + title[1:]
    return title


def markdown(report: Report) -> str:
    """The report as Markdown."""
    lines = [f"# {report['paper']}: {report['title']}", "", _settings_line(report), ""]
    for block in report["datasets"]:
        lines.extend(_markdown_of_block(report, block))
    for note in report["notes"]:
        lines.append(f"- {note}")
    return "\n".join(lines).rstrip() + "\n"


def _markdown_of_block(report: Report, block: Block) -> list[str]:
    """The section of a data set as lines of Markdown."""
    lines = [f"## {block['dataset']}", "", data_line(report, block), ""]
    if _has_seeds(block):
        lines.extend(["Means over seeds, with 95% intervals over documents, and the range over seeds:", ""])
    lines.append(_scores(report, block))
    lines.extend(markdown_of_trainings(block["rows"]))
    lines.extend(_markdown_of_extractions(block["rows"]))
    if report["baseline"] is not None:
        lines.extend(["", _differences_line(report["baseline"], block), "", _differences(report, block)])
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
    """Measure -> its title."""
    return {measure: title_of(measure) for measure in report["measures"]}


def _has_seeds(block: Block) -> bool:
    """Whether a row was trained with several seeds."""
    return any("seeds" in row for row in block["rows"])


def _markdown_of_extractions(rows: Sequence[ReportRow]) -> list[str]:
    """How the documents of rows were shortened, as lines of Markdown; none if they were not."""
    items = []
    for row in rows:
        if "extraction" in row:
            items.append(f"- {row['row']}: {row['extraction']}")
    if not items:
        return []
    return ["", "Documents were shortened before the model read them; what was kept:", ""] + items


def _differences_line(baseline: str, block: Block) -> str:
    """The line above the table of differences."""
    runs = ""
    if _has_seeds(block):
        runs = "means over seeds, "
    elif _trained_rows(block):
        # A single run per row does not show the variation over seeds.
        runs = "of one run each, "
    return f"Differences from {baseline}, {runs}with 95% intervals by paired bootstrap over documents:"


def _markdown_of_problems(title: str, rows: Sequence[ReportRow]) -> list[str]:
    """A list of the rows with their problems as lines of Markdown; none without rows."""
    if not rows:
        return []
    lines = ["", f"{title}:", ""]
    for row in rows:
        lines.append(f"- {row['row']}: {row['problem']}")
    return lines


def latex(report: Report) -> str:
    """The scores as tables for a paper, one for each data set, and how to read them."""
    titles = list(_titles(report).values())
    parts = []
    for block in report["datasets"]:
        figures_of_rows = {}
        for row in block["rows"]:
            figures = []
            for measure in report["measures"]:
                figures.append(_latex_figure(row["measures"][measure]))
            figures_of_rows[row["row"]] = figures
        parts.append(latex_table(titles, figures_of_rows))
        legend = rf"{latex_text(block['dataset'])}: $\pm$ half the width of the 95\% interval over documents."
        if report["baseline"] is not None:
            legend += rf" $\dagger$ the interval of the difference from {latex_text(report['baseline'])} excludes 0."
        parts.append(legend)
    parts.append(latex_text(_settings_line(report)))
    return "\n\n".join(parts) + "\n"


def _latex_figure(cell: Cell) -> str:
    """Our value in LaTeX, with a dagger if the interval of its difference from the baseline excludes 0."""
    interval = None
    if "low" in cell:
        interval = (cell["low"], cell["high"])
    is_marked = False
    if "difference" in cell:
        difference = cell["difference"]
        is_marked = not difference["low"] <= 0 <= difference["high"]
    return latex_figure(cell["value"], interval, is_marked)


def _settings_line(report: Report) -> str:
    """The settings that all figures of a report have in common."""
    facts = [f"Scale {report['scale']}", f"hf_summ {report['hf_summ']}"]
    if any(measure.startswith("rouge") for measure in report["measures"]):
        rouge_facts = [f"ROUGE-1.5.5 of {report['unit']}"]
        for name, value in report["rouge"].items():
            rouge_facts.append(f"{name.replace('_', ' ')} {value}")
        facts.append(", ".join(rouge_facts))
    if report["kind"] == "votes":
        facts.append("votes in percent" if report["unit"] == "percent" else "documents per voter")
    if report["count_punctuation"]:
        facts.append("novelty counts punctuation marks as words")
    return "; ".join(facts) + "."


def data_line(report: Report, block: Block) -> str:
    """The data of our figures on a data set, and whether the published figures are comparable."""
    facts = [f"Ours: {block['data']}"]
    if block["documents"] is not None:
        facts.append(f"{block['documents']} {report['split']} documents")
    if "voters" in block:
        facts.append(f"{block['voters']} voters")
    trained_rows = _trained_rows(block)
    if trained_rows:
        updates = _numbers_of_updates(block)
        # Different numbers of updates are shown in the rows.
        if len(updates) == 1:
            facts.append(f"updates {updates.pop()}")
        seeds = set()
        for row in trained_rows:
            seeds.update(row["seeds"] if "seeds" in row else [row["seed"]])
        facts.append(f"seed {', '.join(str(seed) for seed in sorted(seeds))}")
    line = ", ".join(facts) + "."
    if not _has_published(block):
        return f"{line} No figures are published for these rows."
    line += f" Published: {block['dataset']}."
    if report["scale"] != "full" or block["data"] != block["dataset"]:
        line += " Our figures can be compared with each other, but not with the published ones."
    return line


def _trained_rows(block: Block) -> list[ReportRow]:
    """The rows whose models were trained."""
    return [row for row in block["rows"] if "updates" in row]


def _numbers_of_updates(block: Block) -> set[int]:
    """The different numbers of updates with which the rows of a block were trained."""
    return {row["updates"] for row in _trained_rows(block)}


def _has_published(block: Block) -> bool:
    """Whether any figure is published for the rows of a block."""
    for row in block["rows"]:
        for cell in row["measures"].values():
            if cell["published"] is not None:
                return True
    return False


def _scores(report: Report, block: Block) -> str:
    """The table of our scores and the published ones in Markdown, with parameters and updates where they differ."""
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
    """The table of differences from the baseline in Markdown, with published differences and verdicts if there are."""
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
    """Our value as a table shows it, with its interval, the range over seeds, and how many documents have a value."""
    text = number(cell["value"])
    if "low" in cell:
        text = _interval(cell, ".2f")
        if cell.get("seeds"):
            text += f" {min(cell['seeds']):.2f} to {max(cell['seeds']):.2f}"
    if cell.get("rows"):
        text += f" ({cell['rows']} of {documents})"
    return text


def number(value: float | None, sign: str = "") -> str:
    """A figure as tables show it, or a dash for none.

    Args:
        value: the figure; NaN counts as none.
        sign: "+" also shows the sign of positive figures.
    """
    if value is None or math.isnan(value):
        return _NONE
    # The figure is a count, was published without decimals, or is large.
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:{sign},.0f}"
    return f"{value:{sign}.2f}"


def markdown_of_claims(tested: Sequence[Claim], titles: Mapping[str, str], documents: int | None) -> list[str]:
    """The claims as lines of Markdown, with their verdicts where they have one.

    Args:
        tested: from `claims` of `hf_summ.experiments.scoring`.
        titles: measure -> its title.
        documents: number of summarized documents; None if they cannot be read, so that no claim was tested.
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
    """A claim in one measure as a table shows it: the difference, the verdict, and what would decide it."""
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


def _interval(figures: Cell | ValueInterval | None, form: str) -> str:
    """A value and its interval as a table shows them, such as "31.20 [30.10, 32.40]"; a dash for none.

    Args:
        figures: `value`, `low` and `high`.
        form: the format of each number, such as "+.2f".
    """
    if figures is None:
        return _NONE
    return f"{figures['value']:{form}} {shown_interval([figures['low'], figures['high']], form)}"


def markdown_of_relation(value: str, row: str, relation: Relation, titles: Mapping[str, str]) -> list[str]:
    """The correlations and the spans as lines of Markdown.

    Args:
        value, row: names of the value and of the system.
        relation: from `relation` of `hf_summ.experiments.scoring`.
        titles: measure -> its title.
    """
    correlations = []
    head = [value, "documents"]
    for measure, figures in relation["correlations"].items():
        correlations.append(f"{titles[measure]} {_interval(figures, '+.3f')}")
        head.append(titles[measure])
    listed = ", ".join(correlations)
    sentence = f"{row}: Spearman's correlation of each summary's {value} with its {listed}. By {value}:"
    lines = []
    for span in relation["spans"]:
        line = [f"{span['low']:.3f} to {span['high']:.3f}", str(span["documents"])]
        for mean_score in span["scores"].values():
            line.append(f"{mean_score:.2f}")
        lines.append(line)
    return [sentence, "", markdown_table(head, lines)]


def markdown_of_trainings(rows: Sequence[ReportRow]) -> list[str]:
    """The recorded speeds and losses of a report's rows, as lines of Markdown; none if nothing was recorded."""
    lines = []
    for row in rows:
        if row.get("curve"):
            lines.append(_training(row))
    if not lines:
        return []
    head = ["row", "tokens/s", "documents/s", "nll", "fall"]
    return ["", _TRAININGS, "", markdown_table(head, lines)]


def _training(row: ReportRow) -> list[str]:
    """The cells of a trained row: its name, its speeds, and its loss at the end with the fall of the loss before."""
    losses = [loss for _, loss in row["curve"]]
    # The entries are evenly spaced, so that a tenth of them is a tenth of the updates.
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
