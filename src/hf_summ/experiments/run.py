"""The run of a paper's table, from the table's file to the report.

A table has rows and data sets. In a table that scores systems, a system is a row on a data set, with one seed. The part
of a report about one data set is called a block.
"""

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
from hf_summ.evaluation.rouge import subword_splitter
from hf_summ.experiments.blocks import block_of_scores, block_of_values, make_report
from hf_summ.experiments.content import Block, Relation, Report
from hf_summ.experiments.judgements import count_votes, judge_texts
from hf_summ.experiments.plots import write_plot
from hf_summ.experiments.report import latex, markdown
from hf_summ.experiments.scoring import (
    WAITING,
    Outcome,
    Pieces,
    claims,
    over_seeds,
    relation,
    score,
    texts_without_tags,
    why_not_run,
)
from hf_summ.experiments.settings import architecture_of, flags_of_all_rows, missing_key, split_files
from hf_summ.experiments.systems import System, plan, run_all, summaries_without_training
from hf_summ.experiments.tables import SCALES, Flags, Row, Table, load_table
from hf_summ.experiments.workplace import Workplace, dataset_settings, read_corpus, rows_to_summarize

# Kinds of tables that read texts or votes instead of corpora.
_JUDGED_KINDS = ("language_models", "votes")
# Flags that decide how a corpus is read, in addition to the fields of `Corpus`.
_READING_FLAGS = ("cache_dir", "trust_remote_code")


def _print_note(message: str) -> None:
    """Print a line to standard error."""
    # `sys.stderr` is looked up at each message, as a caller may redirect it.
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
    """Run a table: perform its unfinished runs, score its rows, and write its report.

    The report is written to `<table>_<scale>.json`, `.md` and `.tex`, and its plots to `<table>_<scale>.png` and
    `<table>_<scale>_curves.png`. For the validation split, `_validation` follows the scale in these names.

    Several processes may run tables in the same folder at the same time. Each of them performs runs that no other
    process is performing.

    Args:
        name: a table of `table_names()`, or a .yaml file.
        scale: "tiny", "small" or "full".
        data: data set of the table -> folder that replaces it; if given, only these data sets are run. For a table of
            language models, a folder of texts, `1.txt`, `2.txt`, …; for a table of votes, a report of
            `hf-summ votes collect`.
        flags: flags of the training recipe for every training run, as on a command line.
        output_dir: folder for reports, and for runs and vocabularies, which tables with the same folder share.
        announce: function that reports progress in a line of text; by default, it prints to standard error.
        rows: names of the rows to run and to report; by default all.
        split: the split whose documents are summarized, "test" or "validation".
        language_models: name of a language model in the table -> folder with the model to use in its place.

    Returns:
        The report. Each row that was not run or did not complete has a `problem`.

    Raises:
        ValueError: wrong arguments, or data that do not exist.
        OSError: the output folder cannot be written to.
    """
    table = load_table(name)
    check_choice("`scale`", scale, SCALES)
    check_choice("`split`", split, ("test", "validation"))
    if split != "test" and table.kind != "scores":
        raise ValueError(f"--split {split}: has no effect on {table.name}, which summarizes nothing")
    if language_models:
        table = _with_language_models(table, language_models)
    reported_table = replace(table, rows=_named_rows(table, rows))
    dataset_names = _datasets_to_run(table, scale, data)
    extra = flags_of_all_rows(flags)
    unapplied_keys = _check_flags(reported_table, extra, dataset_names)
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
    if len(dataset_names) < len(table.datasets):
        chosen_datasets = f" on {', '.join(dataset_names)}"
    announce(f"{table.paper}: {table.title}, scale {scale}{chosen_datasets}, in {folder}")
    for key, lacking_rows in unapplied_keys.items():
        announce(f"--config_overrides {key}: not applied to {', '.join(lacking_rows)}, whose configuration lacks it")
    if table.kind == "scores":
        # The report is written before any run, and again after each system, so that it can be read while the next
        # systems are trained. The last report is returned.
        for blocks in _blocks_of_scores(workplace, dataset_names):
            report = _write_report(workplace, blocks)
        return report
    blocks = []
    for dataset in dataset_names:
        if table.kind == "statistics":
            blocks.append(_statistics(workplace, dataset))
        else:
            blocks.append(_judged_block(workplace, table, dataset))
    return _write_report(workplace, blocks)


def _with_language_models(table: Table, folders: Mapping[str, str]) -> Table:
    """A copy of the table in which folders replace the names of language models.

    Args:
        table: the table.
        folders: name of a language model in the table -> folder with the model.

    Raises:
        ValueError: the table has no such language model.
    """
    for name in folders:
        check_choice("--language_model", name, table.language_models)
    rows = []
    for row in table.rows:
        if row.language_model is not None and row.language_model in folders:
            row = replace(row, language_model=folders[row.language_model])
        rows.append(row)
    return replace(table, rows=tuple(rows))


def _named_rows(table: Table, names_of_rows: Sequence[str]) -> tuple[Row, ...]:
    """The rows of the table that have one of the names, in the table's order; without names, all rows.

    Raises:
        ValueError: the table has no row of that name.
    """
    for name in names_of_rows:
        if name not in table.row_names:
            hint = f"{nearest(name, table.row_names)}; its rows are {', '.join(table.row_names)}"
            raise ValueError(f"--rows {name}: {table.name} has no such row{hint}")
    if not names_of_rows:
        return table.rows
    return tuple(row for row in table.rows if row.row in names_of_rows)


def _datasets_to_run(table: Table, scale: str, data: Mapping[str, str]) -> list[str]:
    """The names of the table's data sets that are run, in the table's order.

    If the user gives data, only the data sets for which the user gives data are run, at every scale. Without data of
    the user, all data sets are run or, at the scale tiny, only the first.

    Args:
        table: the table.
        scale: one of `SCALES`.
        data: data set of the table -> what the user gives in its place.

    Raises:
        ValueError: the table has no data set of that name.
    """
    for dataset in data:
        if dataset not in table.datasets:
            hint = f"{nearest(dataset, table.datasets)}; it has {', '.join(table.datasets)}"
            raise ValueError(f"--data {dataset}: {table.name} has no such data set{hint}")
    if data:
        return [dataset for dataset in table.datasets if dataset in data]
    all_datasets = list(table.datasets)
    if scale == "tiny":
        # At this scale, all data sets are replaced by the same made-up news, so that one of them is enough.
        return all_datasets[:1]
    return all_datasets


def _check_flags(table: Table, extra: Flags, dataset_names: Sequence[str]) -> dict[str, list[str]]:
    """Check that the user's flags have an effect on a table.

    A key of `config_overrides` has an effect on a row if the configuration of the row's architecture has this key.

    Args:
        table: the table, with only the rows to run.
        extra: flags of the user for every training run.
        dataset_names: the data sets to run.

    Returns:
        Key of `config_overrides` -> the names of the rows that lack the key on all data sets; only for keys that some
        of the rows lack.

    Raises:
        ValueError: a flag has no effect, or all trained rows lack a key.
    """
    trained_rows = table.trained_rows
    effective_flags = _effective_flags(table, extra)
    for flag in extra:
        if flag not in effective_flags:
            raise ValueError(f"--{flag}: has no effect on {table.name}, which trains and decodes nothing")
    unapplied_keys = {}
    for key in extra.get("config_overrides", {}):
        # Name of a row that lacks the key on all data sets -> the message that says so.
        problems = {}
        for row in trained_rows:
            # A row may have different architectures on different data sets.
            problems_of_row = []
            for dataset in dataset_names:
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
    """The names of flags that have an effect on a table.

    If the table trains rows, these are all flags that are given. If it only reads corpora, they are the flags that
    decide what is read. A table of language models or votes reads no corpora, and no flag has an effect.

    Args:
        table: the table, with only the rows to run.
        extra: flags of the user for every training run.
    """
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
    """Make the report from the blocks of all data sets, and write the report's files.

    A lock is held meanwhile, as another command may write the same report. Without matplotlib, the plots are left out,
    and a message says so.

    Raises:
        OSError: the output folder cannot be written to.
    """
    report = make_report(workplace.table, workplace.scale, blocks, workplace.split, workplace.changing_flags)
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
    """The block of a table of language models or votes, with only the rows to report.

    Args:
        workplace: what the user gave, and the table with only the rows to report.
        table: the table with all its rows. A row may be judged with texts that only other rows name.
        dataset: a data set of the table.
    """
    folder_or_report = workplace.given_folder(dataset)
    if table.kind == "votes":
        block = count_votes(table, dataset, folder_or_report)
    else:
        block = judge_texts(table, dataset, folder_or_report)
    reported_rows = []
    for row in block["rows"]:
        if row["row"] in workplace.table.row_names:
            reported_rows.append(row)
    block["rows"] = reported_rows
    return block


def _blocks_of_scores(workplace: Workplace, dataset_names: Sequence[str]) -> Iterator[list[Block]]:
    """Run the systems of a table, and score them as they finish.

    Yields:
        A block for each data set: first before any run, then after each system, with the results that there are.
    """
    systems: list[System] = []
    systems_of_datasets: dict[str, list[System]] = {}
    for dataset in dataset_names:
        systems_of_datasets[dataset] = plan(workplace, workplace.table.rows_of(dataset), dataset)
        systems.extend(systems_of_datasets[dataset])
    # Position in `systems` -> outcome with scores. The outcomes of `run_all` never have scores. Without this
    # mapping, all systems would be scored again after each system.
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
    """Score the outcomes of a data set that have no problem.

    If the documents of the data set cannot be read, all outcomes without another problem get this problem.

    Args:
        workplace: what all runs of the table share.
        dataset: a data set of the table.
        systems: the systems of the data set.
        outcomes: the outcome of each of these systems.

    Returns:
        The number of summarized documents, and the outcome of each system with scores or a problem. The number is None
        if all outcomes had a problem or the documents cannot be read.
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
    """The flags with which the documents of a data set are read for scoring.

    They are the flags of a training run on the data set. If no system is trained, they are the flags of the data set.

    Args:
        workplace: what all runs of the table share.
        dataset: a data set of the table.
        systems: the systems of the data set.
        outcomes: the outcome of each of these systems.
    """
    # Trained systems, which have no problem, are preferred, as their flags are known to work. Systems that wait for
    # training are the second choice.
    for problem in (None, WAITING):
        for system, outcome in zip(systems, outcomes, strict=True):
            if system.training is not None and outcome.problem == problem:
                return system.training.settings
    return dataset_settings(workplace, dataset)


def _block(workplace: Workplace, dataset: str, documents: int | None, outcomes: Sequence[Outcome]) -> Block:
    """The block of a data set in a table that scores systems, with claims and relations.

    Args:
        workplace: the table, and the names of the user's data.
        dataset: a data set of the table.
        documents: the number of summarized documents, or None if they were not read.
        outcomes: the outcome of each system of the data set. A row with several seeds has several systems.
    """
    table = workplace.table
    row_outcomes = over_seeds(outcomes)
    block = block_of_scores(table, dataset, workplace.data_name(dataset), documents, row_outcomes)
    block["claims"] = claims(row_outcomes)
    if table.against is not None:
        relations: dict[str, Relation] = {}
        for outcome in outcomes:
            if outcome.measures and table.against in outcome.values:
                # Such tables have only measures of ROUGE, whose first statistic of a summary is the summary's score.
                scores = {measure: scored.statistics[:, 0] for measure, scored in outcome.measures.items()}
                relations[outcome.row.row] = relation(outcome.values[table.against], scores)
        block["relations"] = relations
    return block


def _scored(workplace: Workplace, system: System, outcome: Outcome, corpus: Dataset) -> Outcome:
    """Score the outcome of a system, unless it has a problem or is scored already.

    Args:
        workplace: what all runs of the table share.
        system: the system.
        outcome: the outcome of the system. Its `predictions` are None if the system is not trained, and the summaries
            are then made here.
        corpus: the summarized documents with their reference summaries.

    Returns:
        The outcome with measures or, if the system cannot be scored, with a problem.
    """
    if outcome.problem is not None or outcome.measures:
        return outcome
    table = workplace.table
    language = workplace.language_of(system.dataset)
    workplace.announce(f"scoring {system.name}")
    try:
        predictions = outcome.predictions
        if not predictions:
            predictions = summaries_without_training(system, corpus, language)
        # Only a table that scores subwords needs the function that splits texts. A system without training has no model
        # with subwords, so `pieces` stays None, and `score` raises a ValueError for such a table.
        pieces = None
        if table.unit == "wordpieces":
            pieces = _pieces(system, table.rouge.get("language", language))
        measures = score(table, language, corpus, predictions, outcome.losses, pieces)
    except (ValueError, ImportError) as error:
        return replace(outcome, problem=one_line(error))
    return replace(outcome, measures=measures)


def _pieces(system: System, language: str) -> Pieces | None:
    """See `subword_splitter`, here for the subwords of a system's model; None if the system is not trained."""
    if system.training is None:
        return None
    processor = AutoProcessor.from_pretrained(system.training.folder)
    # The processor of a checkpoint without a processor class is the tokenizer itself.
    tokenizer = getattr(processor, "tokenizer", processor)
    return subword_splitter(tokenizer, language)


def _statistics(workplace: Workplace, dataset: str) -> Block:
    """The block of a data set in a table of statistics of corpora."""
    outcomes = []
    for row in workplace.table.rows_of(dataset):
        outcomes.append(_counted(workplace, row, dataset))
    return block_of_values(workplace.table, dataset, workplace.data_name(dataset), outcomes)


def _counted(workplace: Workplace, row: Row, dataset: str) -> Outcome:
    """Compute the statistics of a row's corpus.

    Returns:
        The outcome with the number of rows of each split, such as `train_pairs`, and with the statistics of all splits
        together. Tags in the texts are read as ends of sentences. If the row is not run or the corpus cannot be read,
        the outcome has a problem instead.
    """
    problem = why_not_run(row)
    if problem is not None:
        return Outcome(row, problem)
    workplace.announce(f"counting {row.row} on {dataset}")
    try:
        # The number of rows of a stream is unknown.
        corpus = read_corpus({**dataset_settings(workplace, dataset), "streaming": None})
        numbers: dict[str, float | None] = {}
        documents: list[str] = []
        summaries: list[str] = []
        for split, rows in corpus.items():
            numbers[f"{split}_pairs"] = len(rows)
            documents.extend(texts_without_tags(rows["document"]))
            summaries.extend(texts_without_tags(rows["summary"]))
        language = workplace.language_of(dataset)
        numbers |= corpus_statistics(documents, summaries, language, workplace.table.unit)
    except (ValueError, OSError) as error:
        return Outcome(row, one_line(error))
    return Outcome(row, numbers=numbers)
