"""Scores: ROUGE, BLEU, novelty, support, significance, statistics, and `hf-summ evaluate`."""

import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np

from hf_summ.evaluation import (
    bleu,
    bleu_statistics,
    bootstrap_interval,
    copy_positions,
    corpus_bleu,
    corpus_statistics,
    novelty,
    novelty_scores,
    paired_bootstrap,
    paired_randomization,
    phrase_recall_scores,
    support_scores,
)
from hf_summ.evaluation.rouge import rouge_scores_in_mode
from tests.torture import values
from tests.torture.area_texts import language
from tests.torture.cases import Case
from tests.torture.checks import first_problem, no_constant, rows_problem, scores_problem, untouched
from tests.torture.commands import command
from tests.torture.workshop import Workshop

_TYPES = ("rouge1", "rouge2", "rouge3", "rougeL", "rougeLsum", "rougeSU4", "rougeSU*", "rouge-1", "")
# measures of novelty that are not shares
_UNBOUNDED = ("copy_density", "compression", "length")


def make(draw: random.Random, shop: Workshop, folder: Path) -> Case:
    """Pairs of texts or of scores, and a measure of them."""
    return draw.choice((_rouge, _rouge, _novelty, _bleu, _significance, _others, _evaluate))(draw, folder)


def _pairs(draw: random.Random) -> tuple[Any, Any, str]:
    """Predictions and references, mostly in equal numbers."""
    number = draw.choice((1, 2, 3, 6))
    predictions: Any = [values.some_text(draw) for _ in range(number)]
    others: Any = [values.some_text(draw) for _ in range(number)]
    if draw.random() < 0.25:
        # nearly equal texts, for high scores
        others = [text[: len(text) // 2] + text[len(text) // 2 + 1 :] for text in predictions]
    kind = draw.random()
    if kind < 0.05:
        others[draw.randrange(number)] = values.not_text(draw)
    elif kind < 0.1:
        predictions[draw.randrange(number)] = values.not_text(draw)
    elif kind < 0.13:
        others = others[1:]
    elif kind < 0.16:
        predictions, others = predictions[0], draw.choice((others[0], others))
    elif kind < 0.18:
        predictions = draw.choice((None, 3, predictions[0]))
    return predictions, others, f"{predictions!r:.200} and {others!r:.200}"


def _rouge(draw: random.Random, folder: Path) -> Case:
    predictions, references, told = _pairs(draw)
    if isinstance(references, list) and draw.random() < 0.3:
        references = [
            [row, *(values.text(draw) for _ in range(draw.choice((0, 1, 2))))] if draw.random() < 0.8 else row
            for row in references
        ]
        if references and draw.random() < 0.1:
            references[0] = []
    mode, code = values.word(draw, "rouge_score", "rouge155", "rouge155", "rouge"), language(draw)
    options: dict[str, Any] = {
        "rouge_types": draw.choices(_TYPES, k=draw.choice((0, 1, 2))),
        "sentences": values.word(draw, "split", "lines", "words"),
        "several": values.word(draw, None, "best", "mean", "pooled", "most"),
        "units": draw.choice(("words", "characters", "lcsts", "spaced")),
        "byte_limit": draw.choice((None, 1, 75, 0, -1, 10**30)),
        "word_limit": draw.choice((None, 1, 100, 0, -1, 10**30)),
        "splitter": draw.choice(("sentencex", "spacy", "x")),
    }
    options = {name: value for name, value in options.items() if draw.random() < 0.25}

    def problem(scores: dict) -> str | None:
        return first_problem(
            *(scores_problem(column) for measure in scores.values() for column in measure),
            *(
                rows_problem(column, len(predictions), f"scores of {name}")
                for name, measure in scores.items()
                for column in measure
            ),
            _characters_problem(predictions),
            None if scores else "no measure and no error",
        )

    return Case(
        f"{mode} {code} {options} of {told}",
        lambda: rouge_scores_in_mode(
            mode, predictions, references, use_stemmer=draw.random() < 0.5, language=code, **options
        ),
        problem,
    )


def _characters_problem(texts: Any) -> str | None:
    return f"a single text is taken for {len(texts)} texts" if isinstance(texts, str) else None


def _novelty(draw: random.Random, folder: Path) -> Case:
    predictions, sources, told = _pairs(draw)
    code, count = language(draw), values.word(draw, "types", "types", "tokens", "all")
    average, marks, bins = values.word(draw, "macro", "micro"), draw.random() < 0.3, draw.choice((1, 10, 0, 1000))

    def measure() -> tuple:
        return (
            novelty_scores(predictions, sources, code, count, marks),
            novelty(predictions, sources, code, average, count, marks),
            copy_positions(predictions, sources, code, bins),
            support_scores(predictions, sources, code),
        )

    def problem(found: tuple) -> str | None:
        rows, means, positions, supports = found
        rows = {**rows, "support": supports.tolist()}
        bounded = [value for name, row in rows.items() if name not in _UNBOUNDED for value in row]
        others = [value for name, row in rows.items() if name in _UNBOUNDED for value in row]
        # NaN is a row without a value, as documented
        shares, sizes = ([value for value in column if not math.isnan(value)] for column in (bounded, others))
        return first_problem(
            scores_problem(shares),
            scores_problem(sizes, most=1e9),
            scores_problem(positions),
            *(rows_problem(row, len(predictions), name) for name, row in rows.items()),
            *(scores_problem([value], most=1e9) for value in means.values() if not math.isnan(value)),
            _characters_problem(predictions),
        )

    return Case(f"novelty {code} {count} {average} {bins} of {told}", measure, problem)


def _bleu(draw: random.Random, folder: Path) -> Case:
    predictions, references, told = _pairs(draw)
    tokenize = values.word(draw, "13a", "char", "zh", "intl", "none", "words")

    def measure() -> tuple:
        statistics = bleu_statistics(predictions, references, tokenize=tokenize)
        return bleu(predictions, references, tokenize=tokenize), statistics, corpus_bleu(statistics)

    def problem(found: tuple) -> str | None:
        score, statistics, rows = found
        return first_problem(
            scores_problem([score["bleu"]]),
            scores_problem(rows),
            rows_problem(statistics, len(predictions), "statistics"),
            _characters_problem(predictions),
        )

    return Case(f"BLEU {tokenize} of {told}", measure, problem)


def _significance(draw: random.Random, folder: Path) -> Case:
    size = draw.choice((0, 1, 2, 5, 50))
    ours = [draw.choice((0.0, 100.0, draw.random() * 100)) for _ in range(size)]
    theirs = [draw.choice((0.0, draw.random() * 100, score)) for score in ours]
    scores: list[Any] = [ours, theirs]
    if draw.random() < 0.3 and size:
        scores[draw.randrange(2)][draw.randrange(size)] = draw.choice((*values.HOSTILE_NUMBERS, None, "3", "a", [1]))
    if draw.random() < 0.15:
        scores[0] = draw.choice((scores[0][1:], [scores[0]], None, "12", 3.0, np.zeros((size, 2)), {}))
    resamples, confidence = draw.choice((1, 2, 100, 1000, 0, -1, 2.5)), draw.choice((95, 99.9, 0, 100, 101, math.nan))
    seed = draw.choice((0, 1, 2**40, -1))

    def compare() -> tuple:
        interval = bootstrap_interval(scores[0], resamples, confidence)
        sums = np.array([[float(score), 1.0] for score in scores[0]])
        return (
            interval,
            paired_bootstrap(*scores, resamples, confidence, seed),
            bootstrap_interval(sums, resamples, measure=lambda sums: sums[..., 0] / sums[..., 1]),
            paired_randomization(*scores, resamples, seed),
        )

    def problem(found: tuple) -> str | None:
        *intervals, p_value = found
        for interval in intervals:
            if not all(map(math.isfinite, (interval.mean, interval.low, interval.high))):
                return f"not finite: {interval}"
            if interval.low > interval.high:
                return f"ends in the wrong order: {interval}"
        return scores_problem([p_value, intervals[1].p_value], 1e-12, 1)

    return Case(f"significance of {scores} {resamples} {confidence} {seed}", compare, problem)


def _others(draw: random.Random, folder: Path) -> Case:
    documents, summaries, told = _pairs(draw)
    code = language(draw)
    if draw.random() < 0.5:

        def counts_problem(found: dict) -> str | None:
            return first_problem(scores_problem(found.values(), most=1e9), _characters_problem(documents))

        return Case(
            f"statistics {code} of {told}", lambda: corpus_statistics(documents, summaries, code), counts_problem
        )
    phrases: Any = [[values.text(draw) for _ in range(draw.choice((0, 1, 3)))] for _ in range(len(summaries))]
    if draw.random() < 0.1 and phrases:
        phrases[0] = draw.choice(("a phrase", None, [None], {"a": 1}))

    def recall_problem(found: np.ndarray) -> str | None:
        given = found[~np.isnan(found)]
        is_text = any(isinstance(row, str) for row in phrases)
        return first_problem(
            scores_problem(given),
            rows_problem(found, len(summaries), "scores"),
            _characters_problem(summaries),
            "a phrase is read as its characters" if is_text else None,
        )

    return Case(
        f"phrase recall {code} of {summaries!r:.200} and {phrases!r:.200}",
        lambda: phrase_recall_scores(summaries, phrases, code),
        recall_problem,
    )


def _evaluate(draw: random.Random, folder: Path) -> Case:
    number = draw.choice((1, 2, 4))
    files, flags = [], []
    for name in ("predictions", "references", "sources", "against"):
        if name != "predictions" and draw.random() < 0.3:
            continue
        rows = number if draw.random() < 0.95 else number + 1
        ending = draw.choice((".txt", ".txt", ".jsonl", ".csv.gz"))
        texts = [values.some_text(draw).replace("\n", " ") for _ in range(rows)]
        if ending == ".jsonl":
            column = {"sources": "document", "against": "prediction", "predictions": "prediction"}.get(
                name, "reference"
            )
            lines = [json.dumps({column: text, "summary": text, "id": row}) for row, text in enumerate(texts)]
        else:
            lines = texts
        content = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")
        if draw.random() < 0.15:
            content = values.spoiled(draw, content)
        file = folder / f"{name}{ending}"
        file.write_bytes(content)
        files.append(file)
        flags += [f"--{name}", file]
    output = folder / draw.choice(("report.json", "report.txt", "no/report.json"))
    scores = folder / "scores.jsonl"
    more: list[list] = [
        ["--language", language(draw)],
        ["--resamples", draw.choice((10, 100, 0, -1, "x"))],
        ["--seed", draw.choice((0, -1, 2**40))],
        ["--rouge_mode", draw.choice(("rouge155", "rouge_score"))],
        ["--rouge_types", *draw.choices(_TYPES, k=2)],
        ["--separator", draw.choice(("none", "|||", "", " "))],
        ["--several", draw.choice(("mean", "best", "pooled"))],
        ["--word_limit", draw.choice((1, 0, 50))],
        ["--units", draw.choice(("characters", "words", "spaced"))],
        ["--average", draw.choice(("micro", "mean"))],
        ["--count_punctuation"],
        ["--format", draw.choice(("latex", "json", "html"))],
        [
            "--metrics",
            draw.choice(("chrf", "bleu", f"entailment={folder}", f"bertscore={folder / 'none'}", "support=x")),
        ],
        ["--nothing", "3"],
    ]
    flags += [token for part in more if draw.random() < 0.12 for token in part]
    flags += ["--output", output, "--scores", scores]

    def problem(_: None) -> str | None:
        report = json.loads(output.read_text(encoding="utf-8"), parse_constant=no_constant)
        lines = scores.read_text(encoding="utf-8").splitlines()
        systems = [figures for metric in report["rouge"].values() for figures in metric.values()]
        figures = [value for system in systems for value in system.values()]
        return first_problem(
            rows_problem(lines, report["pairs"] * (2 if "--against" in flags else 1), "lines of scores"),
            scores_problem(value for value in figures if isinstance(value, float)),
            *(None for line in lines if json.loads(line, parse_constant=no_constant)),
        )

    def left() -> str | None:
        parts = [path.name for path in folder.iterdir() if path.name.endswith(".part")]
        return untouched_files() or (f"left over: {parts[0]}" if parts else None)

    untouched_files = untouched(*files)
    return Case(
        f"evaluate {[str(flag) for flag in flags]} {[file.read_bytes()[:80] for file in files]}",
        lambda: command("evaluate", *flags),
        problem,
        left,
    )
