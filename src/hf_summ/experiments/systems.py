"""The systems of a table's rows: their training and their summaries."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import datasets
import numpy as np
from filelock import FileLock

from hf_summ.checkpoints.decoding import extracts
from hf_summ.common.messages import one_line
from hf_summ.data.columns import source_column
from hf_summ.data.sentences import split_sentences
from hf_summ.experiments.facts import facts_of_run
from hf_summ.experiments.fitting import (
    document_frequencies,
    fitted_processor,
    processor_with_phrases,
    vocabulary_settings,
)
from hf_summ.experiments.jobs import Job, JobFailed, perform
from hf_summ.experiments.scoring import WAITING, Outcome, why_not_run
from hf_summ.experiments.settings import (
    base_settings,
    decoding_fingerprint,
    decoding_settings,
    resolved_config,
    second_run_fingerprint,
    second_run_settings,
    training_fingerprint,
)
from hf_summ.experiments.tables import SUMMARY_VALUES, Flags, Row, Table
from hf_summ.experiments.workplace import Workplace, settle_data, with_split
from hf_summ.extractive import ExtractiveSettings, extract
from hf_summ.models.configuration_highlight_transformer import HighlightTransformerConfig
from hf_summ.training.arguments import OF_EXTRACTION
from hf_summ.training.folder.ledger import FolderInUse

_TRAINING = {"do_train": True, "do_eval": False, "do_predict": False, "show_summaries": 0}


@dataclass(frozen=True)
class System:
    """A row on a data set, and the job that trains it.

    Args:
        row: the row, with the seed of its training if the table has several.
        dataset: the data set.
        training: the job that trains it; None for rows that are not trained.
        decoding: flags of its decoding only.
        problem: why it is not run, or None if it is.
    """

    row: Row
    dataset: str
    training: Job | None = None
    decoding: Flags = field(default_factory=dict)
    problem: str | None = None

    @property
    def name(self) -> str:
        """The row and its data set."""
        return f"{self.row.row} on {self.dataset}"


def plan(workplace: Workplace, rows: Sequence[Row], dataset: str) -> list[System]:
    """The systems of rows with their training jobs, one for each of the table's seeds; fits their vocabularies.

    A data set that cannot be reached is requested once, and is the problem of all rows.
    """
    systems: list[System] = []
    unreachable = None
    for row in _rows_with_seeds(workplace, rows):
        training = None
        decoding: Flags = {}
        problem = why_not_run(row)
        if row.is_trained and unreachable is None:
            try:
                training, decoding = _jobs(workplace, row, dataset)
            except OSError as error:
                unreachable = one_line(error)
            except (ValueError, ImportError) as error:
                problem = one_line(error)
        systems.append(System(row, dataset, training, decoding, problem))
    return [replace(system, problem=system.problem or unreachable) for system in systems]


def _rows_with_seeds(workplace: Workplace, rows: Sequence[Row]) -> list[Row]:
    """The rows with each of the table's seeds among their flags; untrained rows only once.

    All rows with the first seed come first, so that a report has every row soon. If the user gives a seed, or the table
    has none, the rows are unchanged.
    """
    seeds = workplace.table.seeds
    if not seeds or "seed" in workplace.extra:
        return list(rows)
    first_seed, *further_seeds = seeds
    rows_with_seeds = [_with_seed(row, first_seed) for row in rows]
    for seed in further_seeds:
        for row in rows:
            if row.is_trained:
                rows_with_seeds.append(_with_seed(row, seed))
    return rows_with_seeds


def _with_seed(row: Row, seed: int) -> Row:
    """The row with a seed among its flags."""
    return replace(row, flags={**row.flags, "seed": seed})


def run_all(workplace: Workplace, systems: Sequence[System]) -> Iterator[list[Outcome]]:
    """Train and decode, each run once; waits at the end for runs of other processes.

    Yields:
        The outcomes of all systems in order: first before any run, then after each. Outcomes of systems without
        training stay empty.
    """
    outcomes: list[Outcome] = []
    # The positions and the training jobs of systems whose runs are still to come.
    waiting: list[tuple[int, Job]] = []
    for position, system in enumerate(systems):
        problem = system.problem
        if system.training is not None:
            waiting.append((position, system.training))
            problem = problem or WAITING
        outcomes.append(Outcome(system.row, problem))
    yield list(outcomes)
    # Folder of a failed run -> why it failed.
    failures: dict[Path, str] = {}
    while waiting:
        # The part of `waiting` whose runs another process is running.
        busy: list[tuple[int, Job]] = []
        for number, (position, training) in enumerate(waiting, start=1):
            system = systems[position]
            workplace.announce(f"[{number}/{len(waiting)}] {system.name}: {training.folder}")
            problem = _failure(training, failures)
            if problem is None:
                try:
                    outcomes[position] = _run(workplace, system, training)
                except FolderInUse as error:
                    busy.append((position, training))
                    lock = error.lock
                    continue
                except JobFailed as error:
                    problem = one_line(error)
                    # Rows that share a failed training run fail together.
                    failures[error.folder] = problem
            if problem is not None:
                outcomes[position] = Outcome(system.row, problem, failed=True)
            yield list(outcomes)
        if len(busy) == len(waiting):
            names = ", ".join(systems[position].name for position, _ in busy)
            workplace.announce(f"waiting for another process that is running {names}")
            # The other process releases the lock when its run ends.
            with FileLock(lock):
                pass
        waiting = busy


def _failure(training: Job, failures: Mapping[Path, str]) -> str | None:
    """Why one of the runs of a training failed, or None.

    Args:
        training: the training, of one or two runs.
        failures: folder of a failed run -> why.
    """
    for job in training.runs:
        if job.folder in failures:
            return failures[job.folder]
    return None


def _run(workplace: Workplace, system: System, training: Job) -> Outcome:
    """Train and decode a system, unless that is done; its outcome has summaries and facts, but no measures yet.

    Raises:
        JobFailed: a run could not start or complete.
        FolderInUse: another process is running one of the runs.
    """
    for job in training.runs:
        perform(job)
    settings = decoding_settings(
        with_split(workplace, training.settings), system.row, training.folder, **system.decoding
    )
    decoding = Job(training.folder / "decodings" / decoding_fingerprint(settings), settings)
    perform(decoding)
    with open(decoding.folder / "predictions.jsonl", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    losses = None
    if all("nll" in line for line in lines):
        losses = np.array([[line["nll"], line["tokens"]] for line in lines], dtype=np.float64)
    values = {}
    for name in SUMMARY_VALUES:
        if name in lines[0]:
            values[name] = np.array([line[name] for line in lines])
    return Outcome(
        system.row,
        predictions=[line["prediction"] for line in lines],
        losses=losses,
        values=values,
        facts=facts_of_run(workplace, system.row, training, decoding),
    )


def summaries_without_training(table: Table, system: System, corpus: datasets.Dataset) -> list[str]:
    """The references, or the sentences that an extractive row selects from the documents."""
    row = system.row
    references = list(corpus["summary"])
    if row.extractive is None:
        return references
    documents = list(corpus[source_column(corpus.column_names)])
    language = table.language_of(system.dataset)
    sentences = row.sentences_of(system.dataset)
    if sentences == "reference":
        sentences = [len(split_sentences(reference, language)) for reference in references]
    settings = ExtractiveSettings(row.extractive, sentences, language=language)
    return extract(documents, settings, references)


def _jobs(workplace: Workplace, row: Row, dataset: str) -> tuple[Job, Flags]:
    """The job that trains a row, and the flags of its decoding only; fits what they need.

    Raises:
        ValueError: wrong settings.
        ImportError: a library is not installed.
        OSError: the data set cannot be reached.
    """
    settings, scale = base_settings(workplace.table, row, dataset, workplace.scale, workplace.extra)
    settings = settle_data(workplace, dataset, settings, scale)
    settings.setdefault("language", workplace.table.language_of(dataset))
    # This raises an error if a value of the configuration is wrong.
    config = resolved_config(settings)
    if scale.vocabulary is not None and "tokenizer_name" not in workplace.extra:
        vocabulary = vocabulary_settings(workplace, settings, row, scale)
        processor_folder = fitted_processor(workplace, settings, vocabulary, config.get("tags", "none"))
        settings["tokenizer_name"] = str(processor_folder)
    if settings["model_type"] == HighlightTransformerConfig.model_type and settings.get("tokenizer_name"):
        settings["tokenizer_name"] = processor_with_phrases(workplace, settings)
    # The user may give flags of the extractive stage for all rows. They apply to rows that have the stage, in training
    # or in decoding.
    extraction_flags = {}
    for name in OF_EXTRACTION:
        if name in settings:
            extraction_flags[name] = settings.pop(name)
    if extracts(settings) or extracts(row.decoding):
        if "extract_idf" not in extraction_flags:
            extraction_flags["extract_idf"] = str(document_frequencies(workplace, settings))
    if extracts(settings):
        settings |= extraction_flags
    training = Job(workplace.folder / "runs" / training_fingerprint(settings), settings | _TRAINING)
    if row.second_run is not None:
        training = _second_job(workplace, row, training)
    if extracts(row.decoding):
        return training, extraction_flags
    return training, {}


def _second_job(workplace: Workplace, row: Row, first: Job) -> Job:
    """The row's second training job, which trains the model of its first job further."""
    settings = second_run_settings(first.settings, row, workplace.scale, workplace.extra, first.folder)
    name = second_run_fingerprint(settings, first.folder.name)
    return Job(first.folder.with_name(name), settings, first)
