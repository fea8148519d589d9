"""Runs of a paper's table, from its file to its report."""

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from datasets import Dataset
from filelock import FileLock
from transformers import AutoProcessor

from hf_summ.common.files import write_atomically
from hf_summ.common.flags import names
from hf_summ.common.messages import check_choice, nearest, one_line
from hf_summ.common.records import to_json
from hf_summ.data.corpora import Corpus
from hf_summ.evaluation.novelty import corpus_statistics
from hf_summ.experiments.blocks import block_of_scores, block_of_values, make_report
from hf_summ.experiments.content import Block, Relation, Report
from hf_summ.experiments.judgements import count_votes, judge_texts
from hf_summ.experiments.plots import write_plot
from hf_summ.experiments.report import latex, markdown
from hf_summ.experiments.scoring import WAITING, Outcome, Pieces, claims, over_seeds, relation, score, why_not_run
from hf_summ.experiments.settings import architecture_of, flags_of_all_rows, missing_key, split_files
from hf_summ.experiments.systems import System, plan, run_all, summaries_without_training
from hf_summ.experiments.tables import SCALES, Flags, Row, Table, load_table
from hf_summ.experiments.workplace import Workplace, dataset_settings, read_corpus, rows_to_summarize

# Kinds of tables that read no corpora, but texts or votes.
_JUDGED_KINDS = ("language_models", "votes")
# Flags that decide how a corpus is read, in addition to the fields of `Corpus`.
_READING_FLAGS = ("cache_dir", "trust_remote_code")


def _print_note(message: str) -> None:
    # Standard error is looked up at each message, as it may be replaced.
    print(message, file=sys.stderr, flush=True)


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
) -> Report:
    """Train and score a table's unfinished rows, and write `<table>_<scale>.json`, `.md`, `.tex` and plots `.png`.

    Several processes may run tables in one folder at the same time: each takes runs that no other process is running.

    Args:
        name: a table of `table_names()`, or a .yaml file.
        scale: "tiny", "small" or "full".
        data: data set -> folder that replaces it; if given, only these data sets are run. For tables of language
            models, a folder of texts, `1.txt`, `2.txt`, …; for tables of votes, a report of `hf-summ votes collect`.
        flags: flags of the training recipe for every training run.
        output_dir: folder for reports, and for runs and vocabularies, which other tables share.
        announce: function that reports progress.
        rows: the rows to run and to report; by default all.
        split: "test" or "validation": the split whose documents are summarized; the report's name has the latter.
        language_models: language model of the table -> folder with it.

    Returns:
        The report, with a `problem` for each row that was not run or did not complete.

    Raises:
        ValueError: wrong arguments, or data that are not there.
    """
    table = load_table(name)
    check_choice("`scale`", scale, SCALES)
    check_choice("`split`", split, ("test", "validation"))
    if split != "test" and table.kind != "scores":
        raise ValueError(f"--split {split}: has no effect on {table.name}, which summarizes nothing")
    if language_models:
        table = _with_language_models(table, language_models)
    reported_table = replace(table, rows=_named_rows(table, rows))
    datasets = _datasets(table, scale, data)
    extra = flags_of_all_rows(flags)
    unapplied_keys = _check_flags(reported_table, extra, datasets)
    files = {}
    if table.kind not in _JUDGED_KINDS:
        for dataset, data_folder in data.items():
            files[dataset] = split_files(data_folder, extra.get("data_format"))
    folder = Path(output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    workplace = Workplace(
        table=reported_table,
        scale=scale,
        folder=folder,
        data=files,
        extra=extra,
        announce=announce,
        folders=data,
        split=split,
    )
    chosen_datasets = ""
    if len(datasets) < len(table.datasets):
        chosen_datasets = f" on {', '.join(datasets)}"
    announce(f"{table.paper}: {table.title}, scale {scale}{chosen_datasets}, in {folder}")
    for key, lacking_rows in unapplied_keys.items():
        announce(f"--config_overrides {key}: not applied to {', '.join(lacking_rows)}, whose configuration lacks it")
    if table.kind == "scores":
        # The report is written after each row, and can be read while the next rows are trained.
        for blocks in _blocks_of_scores(workplace, datasets):
            report = _write_report(workplace, blocks)
        return report
    blocks = []
    for dataset in datasets:
        if table.kind == "statistics":
            blocks.append(_statistics(workplace, dataset))
        else:
            blocks.append(_judged_block(workplace, table, dataset))
    return _write_report(workplace, blocks)


def _with_language_models(table: Table, folders: Mapping[str, str]) -> Table:
    """The table with folders in place of the names of its language models."""
    for name in folders:
        check_choice("--language_model", name, table.language_models)
    rows = []
    for row in table.rows:
        if row.language_model is not None and row.language_model in folders:
            row = replace(row, language_model=folders[row.language_model])
        rows.append(row)
    return replace(table, rows=tuple(rows))


def _named_rows(table: Table, names_of_rows: Sequence[str]) -> tuple[Row, ...]:
    """The table's rows with these names; without names, all."""
    for name in names_of_rows:
        if name not in table.row_names:
            hint = f"{nearest(name, table.row_names)}; its rows are {', '.join(table.row_names)}"
            raise ValueError(f"--rows {name}: {table.name} has no such row{hint}")
    if not names_of_rows:
        return table.rows
    return tuple(row for row in table.rows if row.row in names_of_rows)


def _datasets(table: Table, scale: str, data: Mapping[str, str]) -> list[str]:
    """The data sets to run: those given, otherwise all; at the scale tiny only the first, replaced by made-up news."""
    for dataset in data:
        if dataset not in table.datasets:
            hint = f"{nearest(dataset, table.datasets)}; it has {', '.join(table.datasets)}"
            raise ValueError(f"--data {dataset}: {table.name} has no such data set{hint}")
    if data:
        return [dataset for dataset in table.datasets if dataset in data]
    if scale == "tiny":
        return list(table.datasets)[:1]
    return list(table.datasets)


def _check_flags(table: Table, extra: Flags, datasets: Sequence[str]) -> dict[str, list[str]]:
    """Refuse flags without effect on a table.

    Args:
        table: the table, with the rows to run.
        extra: flags of the user for every training run.
        datasets: the data sets to run.

    Returns:
        Key of `config_overrides` that some rows lack -> the names of these rows.

    Raises:
        ValueError: a flag has no effect, or all rows lack a key.
    """
    trained_rows = table.trained_rows
    effective_flags = _effective_flags(table, extra)
    for flag in extra:
        if flag not in effective_flags:
            raise ValueError(f"--{flag}: has no effect on {table.name}, which trains and decodes nothing")
    unapplied_keys = {}
    for key in extra.get("config_overrides", {}):
        # Name of a row that lacks the key on all data sets -> why.
        problems = {}
        for row in trained_rows:
            problems_of_row = []
            for dataset in datasets:
                architecture = architecture_of(table, row, dataset)
                problems_of_row.append(missing_key(architecture, key))
            if all(problems_of_row):
                problems[row.row] = problems_of_row[0]
        if len(problems) == len(trained_rows):
            raise ValueError(problems[trained_rows[0].row])
        if problems:
            unapplied_keys[key] = list(problems)
    return unapplied_keys


def _effective_flags(table: Table, extra: Flags) -> Collection[str]:
    """The flags that have an effect on a table: all that are given if it trains, otherwise those that read data."""
    if table.kind in _JUDGED_KINDS:
        return ()
    if table.kind == "scores" and table.trained_rows:
        return extra
    reading_flags = set(names(Corpus))
    reading_flags.update(_READING_FLAGS)
    if table.kind == "scores":
        reading_flags.add("max_predict_samples")
    return reading_flags


def _write_report(workplace: Workplace, blocks: Sequence[Block]) -> Report:
    """Make the report, and write all its files under a lock, as other commands may write the same report."""
    report = make_report(workplace.table, workplace.scale, blocks, workplace.split)
    folder = workplace.folder
    stem = f"{report['table']}_{report['scale']}"
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


def _judged_block(workplace: Workplace, table: Table, dataset: str) -> Block:
    """The block of a table of language models or votes, with the rows of the workplace's table.

    Args:
        workplace: the workplace.
        table: the table with all its rows, as a row may need the texts of rows that are not reported.
        dataset: a data set of the table.
    """
    compute = count_votes if table.kind == "votes" else judge_texts
    block = compute(table, dataset, workplace.folders.get(dataset))
    reported_rows = []
    for row in block["rows"]:
        if row["row"] in workplace.table.row_names:
            reported_rows.append(row)
    block["rows"] = reported_rows
    return block


def _blocks_of_scores(workplace: Workplace, datasets: Sequence[str]) -> Iterator[list[Block]]:
    """The blocks of all data sets, yielded again after each trained row."""
    systems: list[System] = []
    systems_of_datasets: dict[str, list[System]] = {}
    for dataset in datasets:
        systems_of_datasets[dataset] = plan(workplace, workplace.table.rows_of(dataset), dataset)
        systems.extend(systems_of_datasets[dataset])
    # Position of a system -> its outcome with scores, so that no system is scored twice.
    scored_outcomes: dict[int, Outcome] = {}
    for outcomes in run_all(workplace, systems):
        for position, outcome in scored_outcomes.items():
            outcomes[position] = outcome
        blocks = []
        start = 0
        for dataset, dataset_systems in systems_of_datasets.items():
            end = start + len(dataset_systems)
            documents, dataset_outcomes = _score_outcomes(workplace, dataset, dataset_systems, outcomes[start:end])
            blocks.append(_block(workplace, dataset, documents, dataset_outcomes))
            for position, outcome in enumerate(dataset_outcomes, start=start):
                if outcome.measures:
                    scored_outcomes[position] = outcome
            start = end
        yield blocks


def _score_outcomes(
    workplace: Workplace, dataset: str, systems: Sequence[System], outcomes: Sequence[Outcome]
) -> tuple[int | None, list[Outcome]]:
    """Read the documents of a data set, and score the outcomes that are ready.

    Args:
        workplace: the workplace.
        dataset: the data set.
        systems: its systems.
        outcomes: the outcome of each system.

    Returns:
        The number of summarized documents, None if no outcome is ready or they cannot be read, and the outcomes with
        their measures or problems.
    """
    if all(outcome.problem is not None for outcome in outcomes):
        return None, list(outcomes)
    try:
        corpus = rows_to_summarize(workplace, _settings_for_reading(workplace, dataset, systems, outcomes))
    except (ValueError, OSError) as error:
        failed_outcomes = []
        for outcome in outcomes:
            if not outcome.problem:
                outcome = replace(outcome, problem=one_line(error))
            failed_outcomes.append(outcome)
        return None, failed_outcomes
    scored_outcomes = []
    for system, outcome in zip(systems, outcomes, strict=True):
        scored_outcomes.append(_scored(workplace, system, outcome, corpus))
    return len(corpus), scored_outcomes


def _settings_for_reading(
    workplace: Workplace, dataset: str, systems: Sequence[System], outcomes: Sequence[Outcome]
) -> Flags:
    """The flags with which the documents of a data set are read: those of a training run, if there is one."""
    # The settings of a trained system are known to work. Those of a waiting one are second choice.
    for problem in (None, WAITING):
        for system, outcome in zip(systems, outcomes, strict=True):
            if system.training is not None and outcome.problem == problem:
                return system.training.settings
    return dataset_settings(workplace, dataset)


def _block(workplace: Workplace, dataset: str, documents: int | None, outcomes: Sequence[Outcome]) -> Block:
    """The block of a data set of a table that scores systems.

    Args:
        workplace: the workplace.
        dataset: the data set.
        documents: the number of summarized documents.
        outcomes: the outcome of each system, which are several for a row with several seeds.
    """
    table = workplace.table
    row_outcomes = over_seeds(outcomes)
    block = block_of_scores(table, dataset, workplace.data_name(dataset), documents, row_outcomes)
    block["claims"] = claims(row_outcomes)
    if table.against is not None:
        relations: dict[str, Relation] = {}
        for outcome in outcomes:
            if outcome.measures and table.against in outcome.values:
                # The first statistic of a summary is its score in ROUGE.
                scores = {measure: scored.statistics[:, 0] for measure, scored in outcome.measures.items()}
                relations[outcome.row.row] = relation(outcome.values[table.against], scores)
        block["relations"] = relations
    return block


def _scored(workplace: Workplace, system: System, outcome: Outcome, corpus: Dataset) -> Outcome:
    """The outcome of a system with its measures, or with the problem; unchanged if it already has one of them."""
    if outcome.problem is not None or outcome.measures:
        return outcome
    table = workplace.table
    workplace.announce(f"scoring {system.name}")
    try:
        predictions = outcome.predictions
        if not predictions:
            predictions = summaries_without_training(table, system, corpus)
        pieces = None
        if table.unit == "wordpieces":
            pieces = _pieces(system)
        language = table.language_of(system.dataset)
        measures = score(table, language, corpus, predictions, outcome.losses, pieces)
    except (ValueError, ImportError) as error:
        return replace(outcome, problem=one_line(error))
    return replace(outcome, measures=measures)


def _pieces(system: System) -> Pieces | None:
    """The function that splits text into the subwords of a trained system's model; None for other systems."""
    if system.training is None:
        return None
    processor = AutoProcessor.from_pretrained(system.training.folder)
    # A processor has a tokenizer, or is one.
    tokenizer = getattr(processor, "tokenizer", processor)
    return tokenizer.tokenize


def _statistics(workplace: Workplace, dataset: str) -> Block:
    """The block of a data set of a table of statistics."""
    outcomes = []
    for row in workplace.table.rows_of(dataset):
        outcomes.append(_counted(workplace, row, dataset))
    return block_of_values(workplace.table, dataset, workplace.data_name(dataset), outcomes)


def _counted(workplace: Workplace, row: Row, dataset: str) -> Outcome:
    """The outcome of a row of statistics: the sizes of all splits, and the statistics over all splits together."""
    problem = why_not_run(row)
    if problem is not None:
        return Outcome(row, problem)
    table = workplace.table
    workplace.announce(f"counting {row.row} on {dataset}")
    try:
        corpus = read_corpus(dataset_settings(workplace, dataset))
        figures: dict[str, float | None] = {}
        documents: list[str] = []
        summaries: list[str] = []
        for split, rows in corpus.items():
            figures[f"{split}_pairs"] = len(rows)
            documents.extend(rows["document"])
            summaries.extend(rows["summary"])
        figures |= corpus_statistics(documents, summaries, table.language_of(dataset), table.unit)
    except (ValueError, OSError) as error:
        return Outcome(row, one_line(error))
    return Outcome(row, figures=figures)
