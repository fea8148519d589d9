"""The figures of a report as tables to read and to cite."""

from typing import Any

from hf_summ.common.markdown import markdown_table
from hf_summ.evaluation.report import OURS

_PARTS = {"fmeasure": "F", "precision": "P", "recall": "R"}
# of ROUGE, where they are not the language's words
_UNITS = {
    "words": "",
    "characters": ", by characters of everything",
    "lcsts": ", by characters without punctuation and digits",
    "spaced": ", by what stands between spaces",
}
_TITLES = {
    "copy_rate": "Copied words, %",
    "copy_position": "Position of copied words, %",
    "copy_density": "Copy density, words",
    "compression": "Compression",
    "length": "Length, words",
}


def as_text(report: dict[str, Any]) -> str:
    """The report in Markdown, aligned so that it is readable in a terminal too."""
    others = next(iter(report["rouge"].values()))["against"]
    compared = [_difference_table(report, name) for name in others]
    return "\n\n".join((_rouge_table(report), *compared, _texts_table(report), _settings_line(report))) + "\n"


def _rouge_table(report: dict[str, Any]) -> str:
    copying = report["copying"]
    columns = ["Metric", "F or mean" if copying else "F", "95% interval"]
    for title in list(_PARTS.values())[1:]:
        columns += [title, "95% interval"]
    rows = []
    for metric, figures in report["rouge"].items():
        row = [_rouge_title(metric)]
        for part in _PARTS:
            row += [f"{figures[part]:.2f}", shown_interval(figures["intervals"][part], ".2f")]
        rows.append(row)
    for measure, found in copying.items():
        mean = "-" if found["mean"] is None else f"{found['mean']:.2f}"
        rows.append([measure_title(measure), mean, shown_interval(found["interval"], ".2f"), *["-"] * 4])
    return markdown_table(columns, rows)


def _difference_table(report: dict[str, Any], name: str) -> str:
    columns = [f"Against {name}", "Theirs", "Difference", "95% interval", "p, bootstrap", "p, randomization"]
    rows = []
    for metric, figures in report["rouge"].items():
        theirs = figures["against"][name]
        for part, title in _PARTS.items():
            found = theirs["differences"][part]
            row = [f"{_rouge_title(metric)} {title}", f"{theirs[part]:.2f}", f"{found['mean']:+.2f}"]
            row += [
                shown_interval(found["interval"], "+.2f"),
                shown_p_value(found["p_value"]),
                shown_p_value(found["p_randomization"]),
            ]
            rows.append([*row, "yes" if found["significant"] else "no"])
    return markdown_table([*columns, "Significant"], rows)


def _rouge_title(metric: str) -> str:
    return f"ROUGE-{metric.removeprefix('rouge')}"


def shown_interval(bounds: list[float] | None, form: str) -> str:
    """`[low, high]`, each in the format."""
    return "none" if bounds is None else f"[{bounds[0]:{form}}, {bounds[1]:{form}}]"


def shown_p_value(p_value: float | None) -> str:
    """Three digits, or the first that is not 0."""
    if p_value is None:
        return "none"
    # many resamples give values below the third digit
    return f"{p_value:.3f}" if p_value >= 0.001 else f"{p_value:.1g}"


def _texts_table(report: dict[str, Any]) -> str:
    named = list(report["texts"])
    rows = []
    for measure in report["texts"]["predictions"]:
        values = (report["texts"][name][measure] for name in named)
        rows.append([measure_title(measure), *("-" if value is None else f"{value:.2f}" for value in values)])
    return markdown_table(["Texts", *(name.capitalize() if name in OURS else name for name in named)], rows)


def measure_title(measure: str) -> str:
    """The title of one of `novelty`'s measures in a table."""
    if measure in _TITLES:
        return _TITLES[measure]
    kind, size = measure[:-1], measure[-1]
    return f"{kind.capitalize()} {size}-grams, %"


def _settings_line(report: dict[str, Any]) -> str:
    """The settings on which the figures depend, in one line to cite with them."""
    settings = report["settings"]
    parts = [
        f"{settings['rouge_mode']}: macro means in points over {report['pairs']} pairs",
        f"stemming: {settings['stemming']}",
        f"language {settings['language']}" + _UNITS[settings["units"]],
        f"sentences by {settings['splitter']}" if settings["sentences"] == "split" else "one sentence per line",
    ]
    parts += [
        f"cut after {settings[name]} {unit}"
        for name, unit in (("byte_limit", "bytes"), ("word_limit", "words"))
        if settings[name] is not None
    ]
    parts.append(f"{settings['resamples']} resamples, seed {settings['seed']}")
    if len(report["texts"]["predictions"]) > 1:
        marks = " with punctuation marks" if settings["count_punctuation"] else ""
        parts.append(f"novelty: {settings['average']} over {settings['count']}{marks}")
    return f"{'; '.join(parts)}; hf_summ {settings['hf_summ']}"
