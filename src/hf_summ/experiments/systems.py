"""The systems of a table's rows: what they are trained by, and the summaries that they give."""

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import datasets
import numpy as np
from filelock import FileLock
from safetensors import safe_open

from hf_summ.data import load_corpus
from hf_summ.data.toy_news import make_corpus
from hf_summ.data.vocabulary import fit_processor
from hf_summ.experiments.jobs import Job, JobBusy, JobFailed, perform
from hf_summ.experiments.scales import Scale
from hf_summ.experiments.settings import (
    SPLITS,
    base_settings,
    data_fingerprint,
    data_flags,
    decoding_fingerprint,
    decoding_settings,
    fingerprint,
    resolved_config,
    training_fingerprint,
    with_data,
)
from hf_summ.experiments.tables import Row, Table
from hf_summ.extractive import extract

_TRAINING = {"do_train": True, "do_eval": False, "do_predict": False, "show_summaries": 0}
# flags that put other data in the place of a configuration's
_NAMES_OF_DATA = ("dataset_name", *(f"{split}_file" for split in SPLITS))


@dataclass
class System:
    """A row on a data set: what runs it, and what came of it.

    Args:
        problem: why it is not run, or did not reach its end, which `failed` says.
        predictions: a summary a test document.
        losses: (N, 2): negative log likelihood and tokens of each reference; None for what is not trained.
        facts: of the trained model: its run, parameters, updates, epochs and seed.
    """

    row: Row
    dataset: str
    training: Job | None = None
    problem: str | None = None
    failed: bool = False
    predictions: list[str] | None = None
    losses: np.ndarray | None = None
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, Any] | None:
        """What its training is told."""
        return None if self.training is None else self.training.settings

    @property
    def name(self) -> str:
        """The row and its data set."""
        return f"{self.row.row} on {self.dataset}"


@dataclass(frozen=True)
class Workplace:
    """What all systems of a table share.

    Args:
        folder: where runs, vocabularies and made-up data are kept; tables that share it share their trainings.
        data: data set -> its split files, for those that are not read as the configurations say.
        extra: flags of the recipe that every training is given.
        announce: told what is done.
        folders: data set -> folder of those files as the user named it.
        unreachable: data set -> what was said when it could not be had, so that it is not asked for by every row.
    """

    table: Table
    scale: str
    folder: Path
    data: Mapping[str, Mapping[str, str]]
    extra: Mapping[str, Any]
    announce: Callable[[str], None]
    folders: Mapping[str, str] = field(default_factory=dict)
    unreachable: dict[str, str] = field(default_factory=dict)

    def data_name(self, dataset: str) -> str:
        """What is read in a data set's place, for a report."""
        if dataset in self.folders:
            return self.folders[dataset]
        named = [str(self.extra[name]) for name in ("test_file", *_NAMES_OF_DATA) if name in self.extra]
        if named:
            return named[0]
        return "made-up news" if self.scale == "tiny" else dataset


def plan(workplace: Workplace, row: Row, dataset: str) -> System:
    """The system of a row, with the job that trains it, its vocabulary fitted."""
    system = System(row, dataset, problem=why_not_run(row))
    if row.is_trained and dataset in workplace.unreachable:
        system.problem = workplace.unreachable[dataset]
    elif row.is_trained:
        try:
            system.training = _training(workplace, row, dataset)
        except OSError as error:
            system.problem = workplace.unreachable[dataset] = " ".join(str(error).split())
        except (ValueError, ImportError) as error:
            system.problem = " ".join(str(error).split())
    return system


def why_not_run(row: Row) -> str | None:
    """What a table says of a row that is not run; None for the others."""
    return row.unavailable if row.literature is None else f"literature: {row.literature}"


def run_all(workplace: Workplace, systems: Sequence[System]) -> None:
    """Trains and decodes, each run once; what other processes are at is waited for at the end.

    Summaries and problems are written into the systems.
    """
    waiting = [(system, system.training) for system in systems if system.training is not None]
    failures: dict[Path, str] = {}
    while waiting:
        busy = []
        for number, (system, training) in enumerate(waiting, start=1):
            workplace.announce(f"[{number}/{len(waiting)}] {system.name}: {training.folder}")
            try:
                if training.folder not in failures:
                    _run(system, training)
            except JobBusy as error:
                busy.append((system, training))
                lock = error.lock
            except JobFailed as error:
                failures[error.folder] = system.problem = " ".join(str(error).split())
            # what failed for one row would for all that share its training
            system.problem = failures.get(training.folder, system.problem)
            system.failed = system.problem is not None
        if len(busy) == len(waiting):
            workplace.announce(f"another process is at {', '.join(system.name for system, _ in busy)}: waiting for it")
            with FileLock(lock):
                pass
        waiting = busy


def _run(system: System, training: Job) -> None:
    """Trains and decodes."""
    perform(training)
    settings = decoding_settings(training.settings, system.row, training.output)
    decoding = Job(training.folder / "decodings" / decoding_fingerprint(settings), settings)
    perform(decoding)
    with open(decoding.output / "predictions.jsonl", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    system.predictions = [row["prediction"] for row in rows]
    if all("nll" in row for row in rows):
        system.losses = np.array([[row["nll"], row["tokens"]] for row in rows], dtype=np.float64)
    system.facts = _facts(training)


def _facts(training: Job) -> dict[str, Any]:
    """What a report says of a trained model."""
    state = json.loads((training.output / "trainer_state.json").read_text(encoding="utf-8"))
    parameters = 0
    for file in training.output.glob("*.safetensors"):
        with safe_open(file, framework="np") as tensors:
            # shared weights are saved once
            for name in tensors.keys():  # noqa: SIM118 (safe_open is no mapping)
                parameters += int(np.prod(tensors.get_slice(name).get_shape()))
    return {
        "run": training.folder.name,
        "parameters": parameters,
        "updates": state["global_step"],
        "epochs": round(state["epoch"], 2),
        "seed": training.settings["seed"],
    }


def summaries_without_training(workplace: Workplace, system: System, corpus: datasets.Dataset) -> list[str]:
    """The references, or what an extractive row takes from the documents.

    Raises:
        ValueError, ImportError: see `extract`.
    """
    row = system.row
    references = list(corpus["summary"])
    if row.extractive is None:
        return references
    language = workplace.table.language_of(system.dataset)
    return extract(
        list(corpus["document"]), row.extractive, row.sentences_of(system.dataset), references, language=language
    )


def rows_to_summarize(settings: Mapping[str, Any]) -> datasets.Dataset:
    """The documents that a decoding of these settings summarizes, with their summaries."""
    return read_corpus(settings, ("test",), settings.get("max_predict_samples"))["test"]


def read_corpus(
    settings: Mapping[str, Any], splits: Sequence[str] = SPLITS, limit: int | None = None
) -> datasets.DatasetDict:
    """The splits that a run of these settings reads, the first `limit` rows of each.

    Raises:
        ValueError: see `load_corpus`; a data set that `datasets` cannot read; a split that the corpus does not have.
        OSError: the data set cannot be reached.
    """
    told = {key: settings[key] for key in inspect.signature(load_corpus).parameters if key in settings}
    told = {key: value for key, value in told.items() if not key.endswith("_file") or key[: -len("_file")] in splits}
    try:
        corpus = load_corpus(**told)
    except (RuntimeError, datasets.exceptions.DatasetsError) as error:
        # such as a data set that is a script
        raise ValueError(f"{told.get('dataset_name', 'the corpus')} cannot be read: {error}") from error
    missing = [split for split in splits if split not in corpus]
    if missing:
        raise ValueError(f"the corpus has no {missing[0]} split, only {', '.join(corpus)}")
    kept = {split: corpus[split] for split in splits}
    return datasets.DatasetDict(
        {split: rows if limit is None else rows.select(range(min(limit, len(rows)))) for split, rows in kept.items()}
    )


def dataset_settings(workplace: Workplace, dataset: str) -> dict[str, Any]:
    """The settings of a data set as such, for rows that train nothing."""
    return settle_data(
        workplace, dataset, *base_settings(workplace.table, Row(dataset), dataset, workplace.scale, workplace.extra)
    )


def settle_data(workplace: Workplace, dataset: str, settings: dict[str, Any], scale: Scale) -> dict[str, Any]:
    """The settings with the data that are really read: the user's, made-up ones, or the configuration's."""
    told = data_flags(workplace.extra)
    if dataset in workplace.data:
        return with_data(settings, {**told, **workplace.data[dataset]})
    if any(name in told for name in _NAMES_OF_DATA):
        return with_data(settings, told)
    if scale.toy_news is None:
        return settings
    folder = workplace.folder / "toy_news" / "-".join(str(scale.toy_news[split]) for split in SPLITS)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not folder.is_dir():
            part = folder.with_name(f".{folder.name}.part")
            make_corpus(part, **scale.toy_news)
            part.rename(folder)
    return with_data(settings, {f"{split}_file": str(folder / f"{split}.jsonl") for split in SPLITS})


def _training(workplace: Workplace, row: Row, dataset: str) -> Job:
    settings, scale = base_settings(workplace.table, row, dataset, workplace.scale, workplace.extra)
    settings = settle_data(workplace, dataset, settings, scale)
    settings["language"] = settings.get("language", workplace.table.language_of(dataset))
    config = resolved_config(settings)
    if scale.vocabulary is not None and "tokenizer_name" not in workplace.extra:
        own = {**row.config_overrides, **workplace.extra.get("config_overrides", {})}
        values = {**settings["config_overrides"], **scale.vocabulary, **own}
        subwords = {name: values[name] for name in ("vocab_size", "lowercase") if name in values}
        settings["tokenizer_name"] = str(_vocabulary(workplace, settings, subwords, config.get("tags", "none")))
    name = training_fingerprint(settings)
    return Job(workplace.folder / "runs" / name, settings | _TRAINING)


def _vocabulary(workplace: Workplace, settings: dict[str, Any], subwords: dict[str, Any], tags: str) -> Path:
    """The processor folder of subwords fitted on the training documents, made if it is not there."""
    data = data_fingerprint(settings, ("train",))
    folder = workplace.folder / "processors" / fingerprint(data, subwords, tags)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not folder.is_dir():
            told = ", ".join(f"{name} {value}" for name, value in subwords.items())
            workplace.announce(f"fitting subwords on the training documents: {told}, tags {tags}")
            rows = read_corpus(settings, ("train",))["train"]
            texts = (text for row in rows for text in (row["document"], row["summary"]))
            part = folder.with_name(f".{folder.name}.part")
            fit_processor(texts, tags=tags, **subwords).save_pretrained(part)
            part.rename(folder)
    return folder
