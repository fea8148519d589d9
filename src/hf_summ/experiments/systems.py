"""The systems that a table compares: their training, and the summaries that they write.

A system is a row of the table on a data set, with one seed. A trained system has one or two training runs, of which the
second trains the model of the first further, and a decoding run, which summarizes the test documents. Systems whose
training has the same settings share training runs.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from datasets import Dataset
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
from hf_summ.experiments.scales import Scale
from hf_summ.experiments.scoring import WAITING, Outcome, texts_without_tags, why_not_run
from hf_summ.experiments.settings import (
    base_settings,
    decoding_fingerprint,
    decoding_settings,
    resolved_config,
    second_run_fingerprint,
    second_run_settings,
    training_fingerprint,
)
from hf_summ.experiments.tables import SUMMARY_VALUES, Flags, Row
from hf_summ.experiments.workplace import Workplace, settle_data, with_split
from hf_summ.extractive import ExtractiveSettings, extract
from hf_summ.models.configuration_highlight_transformer import HighlightTransformerConfig
from hf_summ.training.arguments import OF_EXTRACTION
from hf_summ.training.folder.ledger import FolderInUse

# Flags that make a run a training run without evaluation and decoding.
_TRAINING = {"do_train": True, "do_eval": False, "do_predict": False, "show_summaries": 0}


@dataclass(frozen=True)
class System:
    """A row on a data set, and the job that trains it.

    Args:
        row: the row, with one of the table's seeds among its flags if the table has seeds.
        dataset: a data set of the table.
        training: the last training run; None if the row is not trained or has a problem.
        decoding: flags of the decoding run, in addition to the flags of the training and of the row.
        problem: why the row is not run, or None.
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
    """Prepare the rows of a data set: fit what their training needs, such as vocabularies, and name their jobs.

    A row that cannot be prepared becomes a system with a problem. If the data set cannot be reached, all rows without
    another problem have this problem.

    Args:
        workplace: what all runs of the table share.
        rows: the rows to run on the data set.
        dataset: a data set of the table.

    Returns:
        A system for each row and seed, see `_rows_with_seeds`.
    """
    systems: list[System] = []
    unreachable = None
    for row in _rows_with_seeds(workplace, rows):
        training = None
        decoding: Flags = {}
        problem = why_not_run(row)
        # The first row finds that the data set cannot be reached. Further attempts would only take time.
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
    """Copies of the rows with the table's seeds: a copy of each trained row for each seed, and one of each other row.

    The seed is among the flags of the copy. All rows with the first seed come first, so that a report has every row
    soon. If the user gives a seed, or the table has no seeds, the rows are unchanged.
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
    """A copy of the row with the seed among its flags."""
    return replace(row, flags={**row.flags, "seed": seed})


def run_all(workplace: Workplace, systems: Sequence[System]) -> Iterator[list[Outcome]]:
    """Train the systems and let them summarize the test documents, one system after the other.

    A run that several systems share is performed once. If another process is performing the run of a system, the system
    is put off. When only such systems are left, this function waits for the other process. If a run fails, all systems
    that share the run fail.

    Yields:
        The outcomes of all systems, in the order of `systems`: first before any run, then after each system. A trained
        system that is not run yet has the problem `WAITING`. A system without training gets no summaries here.
    """
    outcomes: list[Outcome] = []
    # Position in `systems` and training job of each system that is not run yet.
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
        # The entries of `waiting` whose runs another process is performing.
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
                    # The file that the other process keeps locked during its run.
                    lock = error.lock
                    continue
                except JobFailed as error:
                    problem = one_line(error)
                    # Other systems that share the failed run are not tried.
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
    """Why one of a system's training runs failed earlier, or None.

    Args:
        training: the last training run of the system.
        failures: folder of a failed run -> why it failed.
    """
    for job in training.runs:
        if job.folder in failures:
            return failures[job.folder]
    return None


def _run(workplace: Workplace, system: System, training: Job) -> Outcome:
    """Perform the training and decoding runs of a system, unless they are finished, and read their results.

    Args:
        workplace: what all runs of the table share.
        system: the system.
        training: the last training run of the system.

    Returns:
        The outcome of the system, without measures: the summaries are not scored yet.

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


def summaries_without_training(system: System, corpus: Dataset, language: str) -> list[str]:
    """The summaries of a system that is not trained.

    An extractive row selects sentences of each document. Any other row that is not trained, such as `gold`, scores the
    reference summaries themselves. Tags in the texts are read as ends of sentences.

    Args:
        system: a system whose row is not trained.
        corpus: the documents and their reference summaries.
        language: ISO 639 code of the language in which the documents and summaries are written.

    Raises:
        ValueError: the method or the number of sentences is wrong.
        ImportError: a library that the method needs is not installed.
    """
    row = system.row
    references = texts_without_tags(corpus["summary"])
    if row.extractive is None:
        return references
    documents = texts_without_tags(corpus[source_column(corpus.column_names)])
    sentences = row.sentences_of(system.dataset)
    if sentences == "reference":
        sentences = [len(split_sentences(reference, language)) for reference in references]
    settings = ExtractiveSettings(row.extractive, sentences, language=language)
    return extract(documents, settings, references)


def _jobs(workplace: Workplace, row: Row, dataset: str) -> tuple[Job, Flags]:
    """Fit what the runs of a row need, and describe the runs.

    Args:
        workplace: what all runs of the table share.
        row: a row that is trained.
        dataset: a data set of the table.

    Returns:
        The last training run, and the flags of the decoding run in addition to the flags of training and row.

    Raises:
        ValueError: wrong settings.
        ImportError: a library is not installed.
        OSError: the data set cannot be reached.
    """
    settings, scale = base_settings(workplace.table, row, dataset, workplace.scale, workplace.extra)
    settings = settle_data(workplace, dataset, settings, scale)
    settings.setdefault("language", workplace.language_of(dataset))
    settings = _with_processor(workplace, settings, row, scale)
    # The extractive stage shortens documents before a model reads them, in training, in decoding, or in both. The user
    # may give options of the stage for all rows, and the recipe refuses them in runs without the stage. So they are
    # taken out of the settings, and given only to the runs that have the stage.
    extraction_flags = {}
    for name in OF_EXTRACTION:
        if name in settings:
            extraction_flags[name] = settings.pop(name)
    if extracts(settings) or extracts(row.decoding):
        if "extract_idf" not in extraction_flags:
            extraction_flags["extract_idf"] = str(document_frequencies(workplace, settings))
    if extracts(settings):
        settings |= extraction_flags
    run_name = training_fingerprint(settings)
    training = Job(workplace.folder / "runs" / run_name, settings | _TRAINING)
    if row.second_run is not None:
        training = _second_training(workplace, row, training)
    if extracts(row.decoding):
        return training, extraction_flags
    return training, {}


def _with_processor(workplace: Workplace, settings: Flags, row: Row, scale: Scale) -> Flags:
    """The settings of a training run with `tokenizer_name`, the processor of the model; fits the processor if needed.

    If the scale has a vocabulary and the user names no processor, a processor is fitted to the training data. A
    Highlight-Transformer needs a processor that finds key phrases, so its processor is fitted for them too.

    Args:
        workplace: what all runs of the table share.
        settings: flags of the training run, with its data.
        row: the row that is trained.
        scale: the scale of the row.

    Raises:
        ValueError, OSError: as `_jobs`.
    """
    settings = dict(settings)
    # A wrong value of the configuration raises an error here, before anything is fitted.
    config = resolved_config(settings)
    if scale.vocabulary is not None and "tokenizer_name" not in workplace.extra:
        vocabulary = vocabulary_settings(workplace, settings, row, scale)
        processor_folder = fitted_processor(workplace, settings, vocabulary, config.get("tags", "none"))
        settings["tokenizer_name"] = str(processor_folder)
    if settings["model_type"] == HighlightTransformerConfig.model_type and settings.get("tokenizer_name"):
        settings["tokenizer_name"] = processor_with_phrases(workplace, settings)
    return settings


def _second_training(workplace: Workplace, row: Row, first_training: Job) -> Job:
    """The second training run of a row, which trains the model of the first training run further.

    The settings of the second run are the settings of the first training run with changes. The folder of the second run
    is beside the folder of the first run.

    Args:
        workplace: the scale of the table's runs, and the flags of the user.
        row: a row with a second run.
        first_training: the first training run, whose folder is named by the hash of its settings.
    """
    settings = second_run_settings(
        first_training.settings, row, workplace.scale, workplace.extra, start=first_training.folder
    )
    first_fingerprint = first_training.folder.name
    folder = first_training.folder.with_name(second_run_fingerprint(settings, first_fingerprint))
    return Job(folder, settings, first=first_training)
