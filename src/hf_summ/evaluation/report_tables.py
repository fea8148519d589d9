"""The report of an evaluation as tables in Markdown and LaTeX.

`report_types` says what stands in a report: systems, types of ROUGE such as "rouge2", scores such as "novel1", and
figures, which are means with their intervals. A part of ROUGE is its precision, recall or F.
"""

import math
from dataclasses import dataclass

from hf_summ.common.pages import latex_figure, latex_table, latex_text, markdown_table
from hf_summ.data.sentences import splitter_version
from hf_summ.evaluation.measures import title_of
from hf_summ.evaluation.report_types import Report, RougePart

# The largest adjusted p of a difference that is called significant.
LEVEL = 0.05
# The parts of ROUGE in the order of the table, part -> letter in titles.
_LETTERS: dict[RougePart, str] = {"fmeasure": "F", "precision": "P", "recall": "R"}
# Units of ROUGE -> what the line of settings says of them.
_UNITS = {"words": "", "lcsts": ", characters kept by DRGD's program for LCSTS"}


@dataclass
class _Table:
    """A table.

    Attributes:
        columns: the titles of the columns.
        rows: the cells of each row.
        text_columns: the number of columns, from the left, that hold texts. The other columns hold figures.
    """

    columns: list[str]
    rows: list[list[str]]
    text_columns: int

    def markdown(self) -> str:
        return markdown_table(self.columns, self.rows, self.text_columns)


def as_text(report: Report) -> str:
    """The report in Markdown, aligned so that it is readable in a terminal too."""
    sections = [_scores_table(report).markdown()]
    if report["differences"]:
        sections.append(_differences_table(report).markdown())
        sections.append(_rule_line(report))
    sections.append(_texts_table(report).markdown())
    sections.append(_settings_line(report))
    return "\n\n".join(sections) + "\n"


def as_latex(report: Report) -> str:
    """The report's scores as a table in LaTeX, and below it how to read the table.

    The table has a row for each system, and a column for each type of ROUGE and each other score. A cell has the mean,
    half the width of its interval, and a dagger if the system differs significantly from the predictions. A mean
    without an interval stands alone, and `--` stands for a mean that is None. Of ROUGE, the table has only the part in
    which systems are compared, for example F.
    """
    rouge_part = report["tested"]
    columns = []
    cells_of_systems: dict[str, list[str]] = {}
    for rouge_type, rouge_of_systems in report["rouge"].items():
        columns.append(title_of(rouge_type))
        for name, rouge_figures in rouge_of_systems.items():
            mean = rouge_figures[rouge_part]
            interval = rouge_figures["intervals"][rouge_part]
            cell = latex_figure(mean, interval, _is_significant(report, name, rouge_type))
            cells_of_systems.setdefault(name, []).append(cell)
    for score, score_of_systems in report["measures"].items():
        columns.append(title_of(score))
        for name, score_figures in score_of_systems.items():
            cell = latex_figure(score_figures["mean"], score_figures["interval"], _is_significant(report, name, score))
            cells_of_systems.setdefault(name, []).append(cell)
    rows = {_system_title(report, name): cells for name, cells in cells_of_systems.items()}
    legend = rf"{_LETTERS[rouge_part]} of ROUGE, $\pm$ half the width of the 95\% bootstrap interval."
    if report["differences"]:
        legend += rf" $\dagger$ differs significantly from {latex_text(report['name'])}."
        legend += f" {latex_text(_rule_line(report))}"
    return "\n\n".join([latex_table(columns, rows), legend, latex_text(_settings_line(report))]) + "\n"


def _is_significant(report: Report, name: str, score: str) -> bool:
    """Whether a system differs significantly from the predictions in a type of ROUGE or a score.

    The answer is no for the predictions, and for scores that are not tested.
    """
    differences = report["differences"].get(name, {})
    return score in differences and differences[score]["significant"]


def _scores_table(report: Report) -> _Table:
    """The table of ROUGE and the other scores: a row for each score and system.

    The table has a column of the systems' names only if there are several systems. A type of ROUGE has F, precision and
    recall, each with its interval. Any other score has one mean and its interval.
    """
    has_names = len(report["differences"]) > 0
    columns = ["Metric"]
    if has_names:
        columns.append("System")
    columns.append("F or mean" if report["measures"] else "F")
    columns.extend(["95% interval", "P", "95% interval", "R", "95% interval"])
    rows = []
    for rouge_type, rouge_of_systems in report["rouge"].items():
        for name, rouge_figures in rouge_of_systems.items():
            row = [title_of(rouge_type)]
            if has_names:
                row.append(_system_title(report, name))
            for part in _LETTERS:
                row.append(f"{rouge_figures[part]:.2f}")
                row.append(shown_interval(rouge_figures["intervals"][part], ".2f"))
            rows.append(row)
    for score, score_of_systems in report["measures"].items():
        for name, score_figures in score_of_systems.items():
            row = [title_of(score)]
            if has_names:
                row.append(_system_title(report, name))
            row.append(_shown_mean(report, name, score, score_figures["mean"]))
            row.append(shown_interval(score_figures["interval"], ".2f"))
            # Only ROUGE has precision and recall, and their intervals.
            row.extend(["-", "-", "-", "-"])
            rows.append(row)
    return _Table(columns, rows, text_columns=2 if has_names else 1)


def _differences_table(report: Report) -> _Table:
    """The table of the predictions' differences from other systems: a row for each other system and score."""
    columns = [f"{report['name']} minus", "Metric", "Difference", "95% interval", "p", "p, Holm", "Significant"]
    rows = []
    for name, differences in report["differences"].items():
        for score, difference in differences.items():
            title = title_of(score)
            if score in report["rouge"]:
                title += f" {_LETTERS[report['tested']]}"
            rows.append(
                [
                    name,
                    title,
                    f"{difference['mean']:+.2f}",
                    shown_interval(difference["interval"], "+.2f"),
                    shown_p_value(difference["p_value"]),
                    shown_p_value(difference["p_holm"]),
                    "yes" if difference["significant"] else "no",
                ]
            )
    return _Table(columns, rows, text_columns=2)


def _rule_line(report: Report) -> str:
    """When a difference is called significant, and how p and the intervals are computed."""
    tests = 0
    for differences in report["differences"].values():
        tests += len(differences)
    return (
        f"A difference is significant if p is at most {LEVEL} after Holm's adjustment for {tests} tests. p is "
        "computed by approximate randomization; the intervals are those of the paired bootstrap, without adjustment."
    )


def _texts_table(report: Report) -> _Table:
    """The table of means of texts: a row for each score, and a column for each system and for the references."""
    texts = report["texts"]
    columns = ["Texts"]
    for name in texts:
        columns.append(_system_title(report, name))
    rows = []
    for score in texts["predictions"]:
        row = [title_of(score)]
        for name, means in texts.items():
            row.append(_shown_mean(report, name, score, means[score]))
        rows.append(row)
    return _Table(columns, rows, text_columns=1)


def _system_title(report: Report, name: str) -> str:
    """The title of a system, or of the "references", in tables."""
    if name == "predictions":
        return report["name"]
    if name == "references":
        return "References"
    return name


def shown_interval(bounds: list[float] | None, form: str) -> str:
    """An interval as `[low, high]`, or "none".

    Args:
        bounds: low and high, or None for no interval.
        form: format of both numbers, such as ".2f".
    """
    if bounds is None:
        return "none"
    low, high = bounds
    return f"[{low:{form}}, {high:{form}}]"


def shown_p_value(p_value: float | None) -> str:
    """A p-value with three decimal places, or "none" for None.

    Below 0.001, it is shown with the first digit that is not 0.
    """
    if p_value is None:
        return "none"
    if p_value >= 0.001:
        return f"{p_value:.3f}"
    # With many resamples, values can be smaller than 0.001.
    return f"{p_value:.1g}"


def _shown_mean(report: Report, name: str, score: str, mean: float | None) -> str:
    """The mean of a score of a system or of the "references", as `shown_value` shows it."""
    return shown_value(mean, report["rows"][name].get(score), report["pairs"])


def shown_value(value: float | None, rows: float | None, pairs: int) -> str:
    """A value with two decimal places, or "-" for None, NaN and infinity.

    Args:
        value: the mean of a score over rows.
        rows: the number of rows over which `value` is the mean, which is shown in brackets; None if these are all rows.
        pairs: the number of all rows.
    """
    if value is None or not math.isfinite(value):
        return "-"
    if rows is None:
        return f"{value:.2f}"
    return f"{value:.2f} ({rows} of {pairs})"


def _settings_line(report: Report) -> str:
    """The settings on which the figures depend, in one line, which is cited together with the figures."""
    settings = report["settings"]
    facts = [
        f"{settings['rouge_mode']}: macro means in points over {report['pairs']} pairs",
        f"stemming: {settings['stemming']}",
    ]
    if settings["rouge_tokenizer"]:
        facts.append(f"language {settings['language']}, subwords of {settings['rouge_tokenizer']}")
    else:
        facts.append(f"language {settings['language']}{_UNITS[settings['units']]}")
    if settings["sentences"] == "split":
        facts.append(f"sentences by {splitter_version()}")
    else:
        facts.append("one sentence per line")
    if settings["byte_limit"] is not None:
        facts.append(f"truncated after {settings['byte_limit']} bytes")
    if settings["word_limit"] is not None:
        facts.append(f"truncated after {settings['word_limit']} words")
    facts.append(f"{settings['resamples']} resamples, seed {settings['seed']}")
    # Without sources, the length is the only score of texts.
    if len(report["texts"]["predictions"]) > 1:
        marks = " with punctuation marks" if settings["count_punctuation"] else ""
        facts.append(f"novelty: {settings['average']} over {settings['count']}{marks}")
    for name, model in settings["metrics"].items():
        if model:
            facts.append(f"{name} by {model}")
    return f"{'; '.join(facts)}; hf_summ {settings['hf_summ']}"
