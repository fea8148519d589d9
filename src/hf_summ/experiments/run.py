"""Runs of a paper's table, from its file to its report."""

import json
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from datasets import Dataset
from filelock import FileLock
from transformers import AutoProcessor

from hf_summ.common.files import bundled_folder, write_atomically
from hf_summ.common.flags import names
from hf_summ.common.messages import check_choice, nearest, one_line
from hf_summ.common.records import to_json
from hf_summ.data.corpora import Corpus
from hf_summ.evaluation.language_models import compare_language_models, load_language_model
from hf_summ.evaluation.novelty import corpus_statistics
from hf_summ.evaluation.text_files import read_text
from hf_summ.experiments.plots import write_plot
from hf_summ.experiments.report import block_of_scores, block_of_values, latex, make_report, markdown
from hf_summ.experiments.scoring import WAITING, Outcome, Pieces, claims, over_seeds, relation, score, why_not_run
from hf_summ.experiments.settings import architecture_of, flags_of_all_rows, missing_key, split_files
from hf_summ.experiments.systems import (
    System,
    Workplace,
    dataset_settings,
    plan,
    read_corpus,
    rows_to_summarize,
    run_all,
    summaries_without_training,
)
from hf_summ.experiments.tables import JUDGEMENTS, SCALES, VOTES, Row, Table, load_table


def judge_texts(table: Table, dataset: str, folder: str | None) -> dict[str, Any]:
    """The block of a table of language models; in each row, a model judges a text at a percentile.

    Args:
        folder: folder with the texts as `<text>.txt`, for each `text` of the rows; the last one has random words. By
            default the table's own.
    """
    data = folder or table.texts
    if data is None:
        files = ", ".join(f"{name}.txt" for name in _texts(table))
        return _without_data(table, dataset, f"no texts: give --data {dataset}=FOLDER with {files}")
    # those of the table are beside it
    path = bundled_folder("configs") / data if folder is None else Path(folder)
    texts = {name: read_text(path / f"{name}.txt") for name in _texts(table)}
    judged: dict[str, Outcome] = {}
    for name in table.language_models:
        judged |= _judge(name, [row for row in table.rows if row.language_model == name], texts)
    outcomes = [judged.get(row.row, Outcome(row, why_not_run(row))) for row in table.rows]
    return block_of_values(table, dataset, data, outcomes)


def count_votes(table: Table, dataset: str, file: str | None) -> dict[str, Any]:
    """The block of a table of people's votes; each row is an aspect about which they were asked.

    Args:
        file: report of `hf-summ votes collect --json`, whose files of predictions have the systems' names.
    """
    if file is None:
        return _without_data(table, dataset, f"no votes: give --data {dataset}=REPORT.json of `hf-summ votes collect`")
    counts, pairs = _read_votes(file, table.unit)
    names, rows = [system.lower() for system in table.systems], [row.row for row in table.rows]
    matching = [(systems, aspects) for systems, aspects in pairs if sorted(map(str.lower, systems)) == sorted(names)]
    if len(matching) != 1:
        compared = one_line(", ".join(" with ".join(systems) for systems, _ in pairs))
        raise ValueError(
            f"{file} compares {compared}, but {table.name} {' with '.join(table.systems)}: name the files of "
            "predictions like these systems when you make the sheets"
        )
    ((first, _), aspects) = matching[0]
    if not aspects.keys() >= set(rows):
        raise ValueError(
            f"{file} has votes on {one_line(', '.join(aspects))}, but {table.name} on {', '.join(rows)}: make the "
            "sheets with the paper's `--preset`"
        )
    measures = VOTES if first.lower() == names[0] else ("lose", "win", *VOTES[2:])
    outcomes = [Outcome(row, measures=dict(zip(measures, aspects[row.row], strict=True))) for row in table.rows]
    return block_of_values(table, dataset, file, outcomes) | counts


def _read_votes(file: str, unit: str) -> tuple[dict[str, int], list[tuple[list[str], dict[str, Any]]]]:
    """The numbers of documents and voters, and each pair's systems with the wins, losses, ties and κ by aspect."""
    try:
        report = json.loads(Path(file).read_text(encoding="utf-8"))
        counts = {name: report[name] for name in ("documents", "voters")}
        pairs = []
        for pair in report["pairs"]:
            # paths, with folders and extensions such as .jsonl.gz
            systems = [Path(pair[name]).name.split(".")[0] for name in ("first", "second")]
            aspects = pair["aspects"].items()
            pairs.append((systems, {aspect: _shares(figures, counts["voters"], unit) for aspect, figures in aspects}))
        return counts, pairs
    except (OSError, AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise ValueError(
            f"{file} is not a report of votes ({one_line(error)}): name one written by `hf-summ votes collect --json`"
        ) from error


def _shares(figures: Mapping[str, Any], voters: int, unit: str) -> list[float | None]:
    numbers, kappa = [figures[name] for name in ("wins", "losses", "ties")], figures["kappa"]
    total = voters if unit == "documents" else sum(numbers) / 100
    return [*(number / total if total else None for number in numbers), None if kappa is None else float(kappa)]


def _without_data(table: Table, dataset: str, needed: str) -> dict[str, Any]:
    return block_of_values(table, dataset, dataset, [Outcome(row, why_not_run(row) or needed) for row in table.rows])


def _judge(name: str, rows: list[Row], texts: dict[str, str]) -> dict[str, Outcome]:
    """Row name -> outcome, for the rows of one language model."""
    *written, random = texts
    percentiles = list(dict.fromkeys(row.percentile for row in rows))
    try:
        compared = compare_language_models(
            [load_language_model(name)], [(text, texts[text]) for text in written], percentiles, texts[random]
        )
    except (ValueError, OSError) as error:
        return {row.row: Outcome(row, one_line(error)) for row in rows}
    # the row of random words is the last one of each percentile
    lines = {(line["percentile"], line["text"]): line for line in compared["models"][0]["rows"]}
    outcomes = {}
    for row in rows:
        line = lines[row.percentile, row.text if row.text != random else "random words"]
        outcomes[row.row] = Outcome(row, measures={name: line[name] for name in JUDGEMENTS})
    return outcomes


def _texts(table: Table) -> list[str]:
    return list(dict.fromkeys(row.text for row in table.rows if row.language_model is not None))


def _print_note(message: str) -> None:
    # stderr at this moment, as it may be replaced
    print(message, file=sys.stderr, flush=True)


# kind of table that reads no corpora -> the function that computes its blocks
_JUDGED = {"language_models": judge_texts, "votes": count_votes}
# flags that decide how a corpus is read, besides its own
_READING = ("cache_dir", "trust_remote_code")


def _with_language_models(table: Table, folders: Mapping[str, str]) -> Table:
    """The table with folders in place of the names of its language models."""
    for name in folders:
        check_choice("--language_model", name, table.language_models)
    rows = []
    for row in table.rows:
        name = row.language_model
        if name is None:
            rows.append(row)
        else:
            rows.append(replace(row, language_model=folders.get(name, name)))
    return replace(table, rows=tuple(rows))


def _named_rows(table: Table, names_of_rows: Sequence[str]) -> tuple[Row, ...]:
    """The table's rows with these names; without names, all."""
    for name in names_of_rows:
        if all(name != row.row for row in table.rows):
            names_of_table = [row.row for row in table.rows]
            hint = f"{nearest(name, names_of_table)}; its rows are {', '.join(names_of_table)}"
            raise ValueError(f"--rows {name}: {table.name} has no such row{hint}")
    return tuple(row for row in table.rows if not names_of_rows or row.row in names_of_rows)


def _check_flags(table: Table, extra: Mapping[str, Any], datasets: Sequence[str]) -> dict[str, list[str]]:
    """Refuse flags without effect; returns the keys of `config_overrides` that rows lack, with these rows."""
    trained = [row for row in table.rows if row.is_trained]
    effective: Collection[str] = extra
    if table.kind in _JUDGED:
        effective = ()
    elif table.kind == "statistics":
        effective = (*names(Corpus), *_READING)
    elif not trained:
        effective = (*names(Corpus), *_READING, "max_predict_samples")
    for flag in extra:
        if flag not in effective:
            raise ValueError(f"--{flag}: has no effect on {table.name}, which trains and decodes nothing")
    unapplied = {}
    for key in extra.get("config_overrides", {}):
        lacking = {}
        for row in trained:
            problems = [missing_key(architecture_of(table, row, dataset), key) for dataset in datasets]
            if all(problems):
                lacking[row.row] = problems[0]
        if len(lacking) == len(trained):
            raise ValueError(lacking[trained[0].row])
        if lacking:
            unapplied[key] = list(lacking)
    return unapplied


def run_table(
    name: str,
    scale: str,
    data: Mapping[str, str],
    flags: Sequence[str],
    output_dir: str,
    announce: Callable[[str], None] = _print_note,
    rows: Sequence[str] = (),
    split: str = "test",
    language_models: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Train and score a table's unfinished rows, and write `<table>_<scale>.json`, `.md`, `.tex` and plots `.png`.

    Several processes may run tables in one folder at the same time: each takes runs that no other process is running.

    Args:
        name: a table of `table_names()`, or a .yaml file.
        scale: "tiny", "small" or "full".
        data: data set -> folder that replaces it; if given, only these data sets are run. For tables of language
            models, a folder of texts, `1.txt`, `2.txt`, …; for tables of votes, a report of `hf-summ votes collect`.
        flags: flags of the training recipe for every training run.
        output_dir: folder for reports, and for runs and vocabularies, which other tables share.
        rows: the rows to run and to report; by default all.
        split: "test" or "validation": the split whose documents are summarized; the report's name has the latter.
        language_models: language model of the table -> folder with it.

    Returns:
        The report, with a `problem` for each row that was not run or did not complete.
    """
    table = load_table(name)
    check_choice("`scale`", scale, SCALES)
    check_choice("`split`", split, ("test", "validation"))
    if split != "test" and table.kind != "scores":
        raise ValueError(f"--split {split}: has no effect on {table.name}, which summarizes nothing")
    if language_models:
        table = _with_language_models(table, language_models)
    chosen = replace(table, rows=_named_rows(table, rows))
    datasets = _datasets(table, scale, data)
    extra = flags_of_all_rows(flags)
    unapplied = _check_flags(chosen, extra, datasets)
    judge = _JUDGED.get(table.kind)
    reading = extra.get("data_format")
    files = {} if judge else {dataset: split_files(folder, reading) for dataset, folder in data.items()}
    folder = Path(output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    workplace = Workplace(chosen, scale, folder, files, extra, announce, data, split)
    on = "" if len(datasets) == len(table.datasets) else f" on {', '.join(datasets)}"
    announce(f"{table.paper}: {table.title}, scale {scale}{on}, in {folder}")
    for key, lacking in unapplied.items():
        announce(f"--config_overrides {key}: not applied to {', '.join(lacking)}, whose configuration lacks it")
    if judge:
        # a row of judgements may need the texts of the others
        blocks = [judge(table, dataset, data.get(dataset)) for dataset in datasets]
        names_of_rows = {row.row for row in chosen.rows}
        for block in blocks:
            block["rows"] = [row for row in block["rows"] if row["row"] in names_of_rows]
        return _written(workplace, blocks)
    if table.kind == "statistics":
        return _written(workplace, [_statistics(workplace, dataset) for dataset in datasets])
    report = {}
    # the report is written after each row, and can be read while others are trained
    for blocks in _scores(workplace, datasets):
        report = _written(workplace, blocks)
    return report


def _written(workplace: Workplace, blocks: list[dict[str, Any]]) -> dict[str, Any]:
    """Write all files, under a lock, as other commands may write the same report."""
    report = make_report(workplace.table, workplace.scale, blocks, workplace.split)
    folder, stem = workplace.folder, f"{report['table']}_{report['scale']}"
    if workplace.split != "test":
        stem += f"_{workplace.split}"
    with FileLock(folder / f".{stem}.lock"):
        write_atomically(folder / f"{stem}.json", to_json(report, indent=2) + "\n")
        write_atomically(folder / f"{stem}.md", markdown(report))
        write_atomically(folder / f"{stem}.tex", latex(report))
        try:
            write_plot(report, folder / f"{stem}.png")
        except ImportError as error:
            workplace.announce(str(error))
    return report


def _datasets(table: Table, scale: str, data: Mapping[str, str]) -> list[str]:
    """The data sets to run: those given, otherwise all; at the scale tiny only the first, replaced by made-up news."""
    for dataset in data:
        if dataset not in table.datasets:
            hint = f"{nearest(dataset, table.datasets)}; it has {', '.join(table.datasets)}"
            raise ValueError(f"--data {dataset}: {table.name} has no such data set{hint}")
    if data:
        return [dataset for dataset in table.datasets if dataset in data]
    return list(table.datasets)[: 1 if scale == "tiny" else None]


def _rows(table: Table, dataset: str) -> list[Row]:
    """The rows of a data set: those with published figures for it, or without any figures."""
    return [row for row in table.rows if not row.published or dataset in row.published]


def _scores(workplace: Workplace, datasets: Sequence[str]) -> Iterator[list[dict[str, Any]]]:
    """The blocks of all data sets, yielded again after each trained row."""
    plans = {dataset: plan(workplace, _rows(workplace.table, dataset), dataset) for dataset in datasets}
    # (data set, number in its plan) -> the scored outcome
    scored: dict[tuple[str, int], Outcome] = {}
    for outcomes in run_all(workplace, [system for systems in plans.values() for system in systems]):
        of_systems = iter(outcomes)
        blocks = []
        for dataset, systems in plans.items():
            pairs = [
                (system, scored.get((dataset, number), outcome))
                for number, (system, outcome) in enumerate(zip(systems, of_systems, strict=False))
            ]
            block, of_data = _block(workplace, dataset, pairs)
            blocks.append(block)
            scored |= {(dataset, number): outcome for number, outcome in enumerate(of_data) if outcome.measures}
        yield blocks


def _block(
    workplace: Workplace, dataset: str, pairs: Sequence[tuple[System, Outcome]]
) -> tuple[dict[str, Any], list[Outcome]]:
    """The block of one data set, and its scored outcomes."""
    table, documents, outcomes = workplace.table, None, [outcome for _, outcome in pairs]
    if any(outcome.problem is None for outcome in outcomes):
        try:
            # the settings of a trained system are known to work; those of a waiting one are second choice
            trainings = [
                system.training.settings
                for problem in (None, WAITING)
                for system, outcome in pairs
                if system.training is not None and outcome.problem == problem
            ]
            settings = trainings[0] if trainings else dataset_settings(workplace, dataset)
            corpus = rows_to_summarize(workplace, settings)
        except (ValueError, OSError) as error:
            outcomes = [one if one.problem else replace(one, problem=one_line(error)) for one in outcomes]
        else:
            documents = len(corpus)
            outcomes = [_scored(workplace, system, outcome, corpus) for system, outcome in pairs]
    rows = over_seeds(outcomes)
    block = block_of_scores(table, dataset, workplace.data_name(dataset), documents, rows)
    block["claims"] = claims(rows)
    if table.against is not None:
        block["relations"] = {
            outcome.row.row: relation(
                outcome.values[table.against],
                {measure: scored.statistics[:, 0] for measure, scored in outcome.measures.items()},
            )
            for outcome in outcomes
            if outcome.measures and table.against in outcome.values
        }
    return block, outcomes


def _scored(workplace: Workplace, system: System, outcome: Outcome, corpus: Dataset) -> Outcome:
    """The outcome with its measures, or with the problem."""
    if outcome.problem is not None or outcome.measures:
        return outcome
    table = workplace.table
    workplace.announce(f"scoring {system.name}")
    try:
        predictions = outcome.predictions or summaries_without_training(table, system, corpus)
        pieces = _pieces(system) if table.unit == "wordpieces" else None
        language = table.language_of(system.dataset)
        return replace(outcome, measures=score(table, language, corpus, predictions, outcome.losses, pieces))
    except (ValueError, ImportError) as error:
        return replace(outcome, problem=one_line(error))


def _pieces(system: System) -> Pieces | None:
    """The function that splits text into the subwords of a trained system's model."""
    if system.training is None:
        return None
    processor = AutoProcessor.from_pretrained(system.training.folder)
    return getattr(processor, "tokenizer", processor).tokenize


def _statistics(workplace: Workplace, dataset: str) -> dict[str, Any]:
    outcomes = [_counted(workplace, row, dataset) for row in _rows(workplace.table, dataset)]
    return block_of_values(workplace.table, dataset, workplace.data_name(dataset), outcomes)


def _counted(workplace: Workplace, row: Row, dataset: str) -> Outcome:
    problem = why_not_run(row)
    if problem is not None:
        return Outcome(row, problem)
    workplace.announce(f"counting {row.row} on {dataset}")
    try:
        corpus = read_corpus(dataset_settings(workplace, dataset))
        sizes = {f"{split}_pairs": len(rows) for split, rows in corpus.items()}
        documents, summaries = (
            [text for rows in corpus.values() for text in rows[column]] for column in ("document", "summary")
        )
        return Outcome(
            row,
            measures=sizes
            | corpus_statistics(documents, summaries, workplace.table.language_of(dataset), workplace.table.unit),
        )
    except (ValueError, OSError) as error:
        return Outcome(row, one_line(error))
