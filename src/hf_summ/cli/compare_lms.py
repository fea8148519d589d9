"""`hf-summ compare-lms`: how well language models distinguish written text from its shuffle and from random words."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_summ.cli.summarizers import check_output_file
from hf_summ.common.pages import markdown_table
from hf_summ.common.records import to_json

if TYPE_CHECKING:
    from hf_summ.evaluation.language_models import JudgedText


def add_parser(commands) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "compare-lms",
        description="Judge each token of the texts, of their shuffles and of random words by its probability given the "
        "previous tokens: a token is accepted if its probability is above a percentile of the probabilities of all "
        "tokens in the model's vocabulary. Print a table for each model. The row of a text has recall (share of its "
        "tokens that are accepted), detection (share of its shuffle's tokens that are rejected) and accuracy (mean of "
        "the two). The row of the random words has detection only. Only a causal model with a start token judges the "
        "first token of a text.",
    )
    parser.add_argument("files", nargs="+", metavar="TEXT_FILE", help="Texts in UTF-8, such as a reference summary")
    parser.add_argument(
        "--models",
        nargs="+",
        required=True,
        metavar="NAME",
        help="Masked (BERT), causal (GPT2) or permutation (XLNet) language models: folders, or names on the Hub",
    )
    parser.add_argument(
        "--random_text",
        metavar="FILE",
        help="Random words (default: as many as the texts have, drawn from the whole words in the first model's "
        "vocabulary)",
    )
    parser.add_argument(
        "--percentiles",
        nargs="+",
        type=float,
        default=[90.0, 95.0, 99.0],
        metavar="P",
        help="Percentiles above which tokens are accepted, 0 to 100 (default: 90 95 99)",
    )
    parser.add_argument("--seed", type=int, default=42, help="Random seed of shuffles and random words (default: 42)")
    parser.add_argument("--output", metavar="REPORT.json", help="File for the figures (default: none)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Compare the language models, print their tables, and write the figures."""
    from hf_summ.evaluation.text_files import read_text

    check_output_file(arguments)
    # The texts are read before the libraries of the models are imported, as errors in them are quick to find.
    texts = [(file, read_text(file)) for file in arguments.files]
    random_text = None
    if arguments.random_text is not None:
        random_text = read_text(arguments.random_text)
    from hf_summ.evaluation.language_models import compare_language_models, load_language_model

    language_models = [load_language_model(name) for name in arguments.models]
    report = compare_language_models(language_models, texts, arguments.percentiles, random_text, arguments.seed)
    if arguments.output is not None:
        from hf_summ.common.files import write_atomically

        write_atomically(Path(arguments.output), to_json(report, indent=2) + "\n")
    tables = [_table(figures) for figures in report["models"]]
    print("\n\n".join(tables))


def _table(figures: dict[str, Any]) -> str:
    """A language model's figures as a title and a table in Markdown.

    Args:
        figures: one of the `models` in the report of `compare_language_models`.
    """
    kind = f"{figures['kind']} language model"
    if not figures["judges_first_token"]:
        kind += ", first tokens not judged"
    rows = []
    previous_percentile = None
    judged_texts: list[JudgedText] = figures["rows"]
    for judged in judged_texts:
        # A percentile has several rows, one after the other, and is shown in the first of them.
        percentile_cell = ""
        if judged["percentile"] != previous_percentile:
            percentile_cell = f"{judged['percentile']:g}%"
        previous_percentile = judged["percentile"]
        recall, detection = _percentage(judged["recall"]), _percentage(judged["detection"])
        rows.append([percentile_cell, judged["text"], recall, detection, _percentage(judged["accuracy"])])
    table = markdown_table(["Percentile", "Text", "Recall", "Detection", "Accuracy"], rows, left=2)
    return f"{figures['model']} ({kind})\n\n{table}"


def _percentage(value: float | None) -> str:
    """A cell with a number of percent, or a dash without a number."""
    return "-" if value is None else f"{value:.1f}%"
