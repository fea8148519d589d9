"""The figures of votes as tables to read and to cite."""

from typing import Any

from hf_summ.common.markdown import markdown_table
from hf_summ.evaluation.report_tables import shown_interval, shown_p_value


def as_text(report: dict[str, Any]) -> str:
    """The report in Markdown, aligned so that it is readable in a terminal too."""
    tables = []
    for pair in report["pairs"]:
        tables.append(f"{pair['first']} against {pair['second']}")
        tables += [_votes_table(report, pair), _preference_table(pair), _sides_table(pair)]
    return "\n\n".join((*tables, _settings_line(report))) + "\n"


def _votes_table(report: dict[str, Any], pair: dict[str, Any]) -> str:
    """The table that papers print, with two more measures of agreement."""
    unit = "documents" if report["unit"] == "documents" else "%"
    columns = [f"Votes, {unit}", "Win", "Lose", "Tie", "Kappa", "Alpha", "Ordinal alpha"]
    rows = []
    for aspect, figures in pair["aspects"].items():
        numbers = [figures[name] for name in ("wins", "losses", "ties")]
        # as many as a voter has on average, or a share of all votes
        whole = report["voters"] if report["unit"] == "documents" else sum(numbers) / 100
        shares = [f"{number / whole:.{report['digits']}f}" if whole else "-" for number in numbers]
        agreement = (figures[name] for name in ("kappa", "alpha", "ordinal_alpha"))
        rows.append([_title(aspect), *shares, *("-" if value is None else f"{value:.3f}" for value in agreement)])
    return markdown_table(columns, rows)


def _preference_table(pair: dict[str, Any]) -> str:
    columns = ["Win - lose, points", "Mean", "95% interval", "p", "Documents to decide"]
    rows = []
    for aspect, figures in pair["aspects"].items():
        found, more = figures["preference"], figures["more_documents"]
        if found is None:
            rows.append([_title(aspect), *["-"] * 4])
            continue
        if found["p_value"] is None:
            needed = "-"
        else:
            needed = "not at this effect" if more is None else f"about {more} more" if more else "decided"
        row = [_title(aspect), f"{found['mean']:+.1f}", shown_interval(found["interval"], "+.1f")]
        rows.append([*row, shown_p_value(found["p_value"]), needed])
    return markdown_table(columns, rows)


def _sides_table(pair: dict[str, Any]) -> str:
    rows = []
    for aspect, figures in pair["aspects"].items():
        a, b = figures["sides"]["A"], figures["sides"]["B"]
        share = f"{100 * a / (a + b):.1f}" if a + b else "-"
        rows.append([_title(aspect), str(a), str(b), share, shown_p_value(figures["sides"]["p_value"])])
    return markdown_table(["Wins by side", "A", "B", "A, %", "p"], rows)


def _title(aspect: str) -> str:
    return aspect[:1].upper() + aspect[1:]


def _settings_line(report: dict[str, Any]) -> str:
    settings = report["settings"]
    return (
        f"documents: {report['documents']}; voters: {report['voters']}; {settings['resamples']} resamples, seed "
        f"{settings['seed']}; hf_summ {settings['hf_summ']}"
    )
