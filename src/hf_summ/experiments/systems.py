"""The systems of a table's rows: their training and their summaries."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import datasets
import numpy as np
from filelock import FileLock
from safetensors import safe_open

from hf_summ.checkpoints.decoding import extracts
from hf_summ.common.files import moved_into_place
from hf_summ.common.messages import one_line
from hf_summ.data.columns import DOCUMENTS_COLUMN, PREFIX_COLUMN, source_column
from hf_summ.data.corpora import SPLITS, Corpus, file_flag
from hf_summ.data.loading import load
from hf_summ.data.sentences import split_sentences
from hf_summ.data.toy_news import make_corpus
from hf_summ.data.vocabulary import fit_phrases, fit_processor, load_tokenizer
from hf_summ.experiments.jobs import Job, JobFailed, perform
from hf_summ.experiments.scoring import WAITING, Outcome, why_not_run
from hf_summ.experiments.settings import (
    base_settings,
    data_fingerprint,
    decoding_fingerprint,
    decoding_settings,
    fingerprint,
    name_of_processor,
    resolved_config,
    second_run_fingerprint,
    second_run_settings,
    training_fingerprint,
    with_data,
)
from hf_summ.experiments.tables import SUMMARY_VALUES, Row, Scale, Table
from hf_summ.extractive import DocumentFrequencies, ExtractiveSettings, extract
from hf_summ.models.configuration_highlight_transformer import HighlightTransformerConfig
from hf_summ.training.arguments import OF_EXTRACTION
from hf_summ.training.folder.ledger import FolderInUse, Ledger

# a scale's settings of the vocabulary to fit
_FITTED = ("vocab_size", "lowercase", "units", "digits_as_hash")
_TRAINING = {"do_train": True, "do_eval": False, "do_predict": False, "show_summaries": 0}


@dataclass(frozen=True)
class System:
    """A row on a data set, and the job that trains it.

    Args:
        training: the job that trains it; None for rows that are not trained.
        decoding: flags of its decoding only.
        problem: why it is not run, or None if it is.
    """

    row: Row
    dataset: str
    training: Job | None = None
    decoding: Mapping[str, Any] = field(default_factory=dict)
    problem: str | None = None

    @property
    def name(self) -> str:
        """The row and its data set."""
        return f"{self.row.row} on {self.dataset}"


@dataclass(frozen=True)
class Workplace:
    """Settings that all systems of a table share.

    Args:
        folder: folder for runs, vocabularies and made-up data; tables with the same folder share training runs.
        data: data set -> files of its splits, for data sets that the user replaces.
        extra: flags of the recipe for every training run.
        announce: function that reports progress.
        folders: data set -> folder of those files, as given by the user.
        split: the split whose documents are summarized, "test" or "validation".
    """

    table: Table
    scale: str
    folder: Path
    data: Mapping[str, Mapping[str, str]]
    extra: Mapping[str, Any]
    announce: Callable[[str], None]
    folders: Mapping[str, str] = field(default_factory=dict)
    split: str = "test"

    def data_name(self, dataset: str) -> str:
        """The report's name for the data that are read for a data set."""
        if dataset in self.folders:
            return self.folders[dataset]
        corpus = Corpus.among(self.extra)
        for name in (corpus.files.get("test"), corpus.dataset_name, *corpus.files.values()):
            if name is not None:
                return name
        return "made-up news" if self.scale == "tiny" else dataset


def plan(workplace: Workplace, rows: Sequence[Row], dataset: str) -> list[System]:
    """The systems of rows with their training jobs, one for each of the table's seeds; fits their vocabularies.

    A data set that cannot be reached is requested once, and is the problem of all rows.
    """
    systems: list[System] = []
    unreachable = None
    seeds = () if "seed" in workplace.extra else workplace.table.seeds
    first, *more = [{"seed": seed} for seed in seeds] or [{}]
    # all rows with the first seed come first, so that a report has every row soon
    runs = [(row, first) for row in rows] + [(row, seed) for seed in more for row in rows if row.is_trained]
    for row in (replace(row, flags={**row.flags, **seed}) for row, seed in runs):
        training, decoding, problem = None, {}, why_not_run(row)
        if row.is_trained and unreachable is None:
            try:
                training, decoding = _jobs(workplace, row, dataset)
            except OSError as error:
                unreachable = one_line(error)
            except (ValueError, ImportError) as error:
                problem = one_line(error)
        systems.append(System(row, dataset, training, decoding, problem))
    return [replace(system, problem=system.problem or unreachable) for system in systems]


def run_all(workplace: Workplace, systems: Sequence[System]) -> Iterator[list[Outcome]]:
    """Train and decode, each run once; waits at the end for runs of other processes.

    Yields:
        The outcomes of all systems in order: first before any run, then after each. Outcomes of systems without
        training stay empty.
    """
    outcomes = {
        index: Outcome(system.row, system.problem or (None if system.training is None else WAITING))
        for index, system in enumerate(systems)
    }
    yield list(outcomes.values())
    waiting = [(index, system.training) for index, system in enumerate(systems) if system.training is not None]
    failures: dict[Path, str] = {}
    while waiting:
        busy = []
        for number, (index, training) in enumerate(waiting, start=1):
            system = systems[index]
            workplace.announce(f"[{number}/{len(waiting)}] {system.name}: {training.folder}")
            try:
                if _failure(training, failures) is None:
                    outcomes[index] = _run(workplace, system, training)
            except FolderInUse as error:
                busy.append((index, training))
                lock = error.lock
                continue
            except JobFailed as error:
                failures[error.folder] = one_line(error)
                outcomes[index] = Outcome(system.row, one_line(error), failed=True)
            # rows that share a failed training run fail together
            problem = _failure(training, failures)
            if problem is not None:
                outcomes[index] = Outcome(system.row, problem, failed=True)
            yield list(outcomes.values())
        if len(busy) == len(waiting):
            names = ", ".join(systems[index].name for index, _ in busy)
            workplace.announce(f"waiting for another process that is running {names}")
            with FileLock(lock):
                pass
        waiting = busy


def _failure(training: Job, failures: Mapping[Path, str]) -> str | None:
    """Why one of the runs of a training failed, or None.

    Args:
        failures: folder of a failed run -> why.
    """
    for job in training.runs:
        if job.folder in failures:
            return failures[job.folder]
    return None


def _run(workplace: Workplace, system: System, training: Job) -> Outcome:
    for job in training.runs:
        perform(job)
    summarized = with_split(workplace, training.settings)
    settings = decoding_settings(summarized, system.row, training.folder, **system.decoding)
    decoding = Job(training.folder / "decodings" / decoding_fingerprint(settings), settings)
    perform(decoding)
    with open(decoding.folder / "predictions.jsonl", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    losses = [[line["nll"], line["tokens"]] for line in lines if "nll" in line]
    return Outcome(
        system.row,
        predictions=[line["prediction"] for line in lines],
        losses=np.array(losses, dtype=np.float64) if len(losses) == len(lines) else None,
        values={name: np.array([line[name] for line in lines]) for name in SUMMARY_VALUES if name in lines[0]},
        facts=_facts(workplace, system.row, training, decoding) | _extraction(settings),
    )


def _facts(workplace: Workplace, row: Row, training: Job, decoding: Job) -> dict[str, Any]:
    states = [json.loads((job.folder / "trainer_state.json").read_text(encoding="utf-8")) for job in training.runs]
    parameters = 0
    for file in training.folder.glob("*.safetensors"):
        with safe_open(file, framework="np") as tensors:
            # shared weights are saved once
            for name in tensors.keys():  # noqa: SIM118 (safe_open is not a mapping)
                parameters += int(np.prod(tensors.get_slice(name).get_shape()))
    results = json.loads((decoding.folder / "predict_results.json").read_text(encoding="utf-8"))
    tokens = [_tokens(job, state["epoch"]) for job, state in zip(training.runs, states, strict=True)]
    seconds = [_seconds(workplace, row, state) for state in states]
    measured = {"tokens": _total(tokens), "seconds": _total(seconds)}
    return {
        "run": training.folder.name,
        "parameters": parameters,
        "updates": sum(state["global_step"] for state in states),
        "epochs": round(sum(state["epoch"] for state in states), 2),
        "seed": training.settings["seed"],
        "documents_per_second": results["predict_samples_per_second"],
        "curve": _curve(states),
        **{name: value for name, value in measured.items() if value},
    }


def _curve(states: Sequence[Mapping[str, Any]]) -> list[list[float]]:
    """The update and the NLL of each log entry; updates are counted over all runs.

    Args:
        states: the trainer's state after each run.
    """
    curve = []
    before = 0
    for state in states:
        for entry in state["log_history"]:
            if "nll" in entry:
                curve.append([before + entry["step"], entry["nll"]])
        before += state["global_step"]
    return curve


def _total(values: Sequence[float | None]) -> float | None:
    """The sum, or None if a value is unknown."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _tokens(training: Job, epochs: float) -> int | None:
    """The approximate number of source and target training tokens, estimated from the first pairs; None if unknown."""
    # imported here, as the process that starts runs does not need them
    from hf_summ.training.rows.preparing import MEASURED, encode

    settings, run = training.settings, Ledger(training.folder).steps["train"]
    # the documents were shortened before encoding, so their lengths are unknown
    if extracts(settings):
        return None
    try:
        pairs = read_corpus(settings, ("train",), MEASURED)["train"]
    except (ValueError, OSError):
        return None
    processor = load_tokenizer(str(training.folder))
    lengths = run["updates"]["max_source_length"], run["updates"]["max_target_length"]
    encoded = encode(pairs[:], processor, lengths, settings.get("source_prefix", ""))
    tokens = sum(len(row) for column in ("input_ids", "labels") for row in encoded[column])
    return round(epochs * run["data"]["train"]["rows"] * tokens / len(pairs))


def _seconds(workplace: Workplace, row: Row, state: Mapping[str, Any]) -> float | None:
    """The seconds of training that the run recorded, see `RunProgress`, or its share of the table's `train_seconds`."""
    noted = state["stateful_callbacks"]["RunProgress"]["attributes"].get("seconds")
    if noted or workplace.scale != "full" or workplace.table.train_seconds is None:
        return noted
    return workplace.table.train_seconds * state["global_step"] / row.full["max_steps"]


def _extraction(settings: Mapping[str, Any]) -> dict[str, str]:
    """How the documents were shortened, for a report; empty if they were not."""
    if not extracts(settings):
        return {}
    share = settings.get("extract_share")
    size = f"{share:.0%} of the sentences" if share is not None else f"{settings['extract_tokens']} tokens"
    model = settings.get("next_sentence_model")
    judge = "without a next-sentence model, so unchecked" if model is None else f"checked by {model}"
    return {"extraction": f"{size}, {judge}"}


def summaries_without_training(table: Table, system: System, corpus: datasets.Dataset) -> list[str]:
    """The references, or the sentences that an extractive row selects from the documents."""
    row, dataset = system.row, system.dataset
    references = list(corpus["summary"])
    if row.extractive is None:
        return references
    documents = list(corpus[source_column(corpus.column_names)])
    language, number = table.language_of(dataset), row.sentences_of(dataset)
    numbers = [len(split_sentences(text, language)) for text in references] if number == "reference" else number
    return extract(documents, ExtractiveSettings(row.extractive, numbers, language=language), references)


def rows_to_summarize(workplace: Workplace, settings: Mapping[str, Any]) -> datasets.Dataset:
    """The documents that are decoded with these settings, with their summaries."""
    return read_corpus(settings, (workplace.split,), settings.get("max_predict_samples"))[workplace.split]


def with_split(workplace: Workplace, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings whose test documents are those of the workplace's split."""
    if workplace.split == "test":
        return settings

    def write(draft: Path) -> None:
        rows = read_corpus(settings, (workplace.split,))[workplace.split]
        if DOCUMENTS_COLUMN in rows.column_names:
            # the joined documents are for models that read a single one
            rows = rows.remove_columns("document")
        rows.to_json(draft, force_ascii=False)

    # rows of a file, as a data set on the Hub or in its authors' format cannot rename its splits
    name = fingerprint(data_fingerprint(settings, (workplace.split,)))
    file = _make_once(workplace.folder / workplace.split / f"{name}.jsonl", write)
    columns = {"prefix_column": PREFIX_COLUMN} if settings.get("prefix_column") else {}
    return with_data(settings, {"test_file": str(file.absolute()), **columns})


def read_corpus(
    settings: Mapping[str, Any], splits: Sequence[str] = SPLITS, limit: int | None = None
) -> datasets.DatasetDict:
    """Read the splits of a run with these settings, and keep the first `limit` rows of each."""
    corpus = Corpus.among(settings).only(splits)
    access = settings.get("cache_dir"), settings.get("token"), settings.get("trust_remote_code", False)
    try:
        loaded = load(corpus, *access)
    except (RuntimeError, datasets.exceptions.DatasetsError) as error:
        # for example, the data set is a script
        raise ValueError(f"{corpus.dataset_name or 'the corpus'} cannot be read: {error}") from error
    missing = [split for split in splits if split not in loaded]
    if missing:
        raise ValueError(f"the corpus has no {missing[0]} split, but only {', '.join(loaded)}")
    chosen = {split: loaded[split] for split in splits}
    return datasets.DatasetDict(
        {split: rows if limit is None else rows.select(range(min(limit, len(rows)))) for split, rows in chosen.items()}
    )


def dataset_settings(workplace: Workplace, dataset: str) -> dict[str, Any]:
    """The settings of a data set for rows that are not trained."""
    return settle_data(
        workplace, dataset, *base_settings(workplace.table, Row(dataset), dataset, workplace.scale, workplace.extra)
    )


def settle_data(workplace: Workplace, dataset: str, settings: dict[str, Any], scale: Scale) -> dict[str, Any]:
    """The settings with the data to read: the user's, made-up data, or the configuration's."""
    corpus = Corpus.among(workplace.extra)
    if dataset in workplace.data:
        return with_data(settings, {**corpus.given(), **workplace.data[dataset]})
    if corpus.dataset_name is not None or corpus.files:
        return with_data(settings, corpus.given())
    if (sizes := scale.toy_news) is None:
        return settings
    folder = workplace.folder / "toy_news" / "-".join(str(sizes[split]) for split in SPLITS)
    _make_once(folder, lambda draft: make_corpus(draft, **sizes))
    return with_data(settings, {file_flag(split): str(folder / f"{split}.jsonl") for split in SPLITS})


def _jobs(workplace: Workplace, row: Row, dataset: str) -> tuple[Job, dict[str, Any]]:
    """The job that trains a row, and the flags of its decoding only."""
    settings, scale = base_settings(workplace.table, row, dataset, workplace.scale, workplace.extra)
    settings = settle_data(workplace, dataset, settings, scale)
    settings["language"] = settings.get("language", workplace.table.language_of(dataset))
    config = resolved_config(settings)
    if scale.vocabulary is not None and "tokenizer_name" not in workplace.extra:
        own = {**row.config_overrides, **workplace.extra.get("config_overrides", {})}
        values = {**settings["config_overrides"], **scale.vocabulary, **own}
        fitted = {name: values[name] for name in _FITTED if name in values}
        settings["tokenizer_name"] = str(_vocabulary(workplace, settings, fitted, config.get("tags", "none")))
    if settings["model_type"] == HighlightTransformerConfig.model_type and settings.get("tokenizer_name"):
        settings["tokenizer_name"] = _with_phrases(workplace, settings)
    # the user may give flags of the extractive stage for all rows; they apply to rows that have the stage
    of_stage = {name: settings.pop(name) for name in OF_EXTRACTION if name in settings}
    if extracts(settings) or extracts(row.decoding):
        of_stage.setdefault("extract_idf", str(_frequencies(workplace, settings)))
    if extracts(settings):
        settings |= of_stage
    training = Job(workplace.folder / "runs" / training_fingerprint(settings), settings | _TRAINING)
    if row.second_run is not None:
        training = _second_job(workplace, row, training)
    return training, of_stage if extracts(row.decoding) else {}


def _second_job(workplace: Workplace, row: Row, first: Job) -> Job:
    """The job that trains the model of a row's first job further."""
    settings = second_run_settings(first.settings, row, workplace.scale, workplace.extra, first.folder)
    name = second_run_fingerprint(settings, first.folder.name)
    return Job(first.folder.with_name(name), settings, first)


def _vocabulary(workplace: Workplace, settings: dict[str, Any], fitted: dict[str, Any], tags: str) -> Path:
    """The processor folder with a vocabulary fitted to the training documents; created if it does not exist."""
    data = data_fingerprint(settings, ("train",))

    def fit(draft: Path) -> None:
        sizes = ", ".join(f"{name} {value}" for name, value in fitted.items() if name != "units")
        workplace.announce(f"fitting {fitted.get('units', 'subwords')} to the training documents: {sizes}, tags {tags}")
        rows = read_corpus(settings, ("train",))["train"]
        texts = (text for row in rows for text in (row["document"], row["summary"]))
        fit_processor(texts, tags=tags, **fitted).save_pretrained(draft)

    return _make_once(workplace.folder / "processors" / fingerprint(data, fitted, tags), fit)


def _with_phrases(workplace: Workplace, settings: dict[str, Any]) -> str:
    """The settings' processor if it can find key phrases, or its copy with frequencies of the training documents."""
    name = str(settings["tokenizer_name"])
    processor = load_tokenizer(name)
    if getattr(processor, "document_frequencies", None) is not None:
        return name
    length = settings["max_source_length"]
    data = data_fingerprint(settings, ("train",))

    def fit(draft: Path) -> None:
        workplace.announce(f"fitting key phrases to the training documents, truncated to {length} tokens")
        rows = read_corpus(settings, ("train",))["train"]
        examples = rows[source_column(rows.column_names)]
        fit_phrases(examples, processor, max_source_length=length).save_pretrained(draft)

    folder = workplace.folder / "processors" / fingerprint(data, name_of_processor(settings), "phrases", length)
    return str(_make_once(folder, fit))


def _frequencies(workplace: Workplace, settings: dict[str, Any]) -> Path:
    """The file with the training documents' document frequencies; created if it does not exist."""
    language = settings["language"]
    name = fingerprint(data_fingerprint(settings, ("train",)), language)

    def count(draft: Path) -> None:
        workplace.announce("counting the words of the training documents")
        DocumentFrequencies.fit(read_corpus(settings, ("train",))["train"]["document"], language).save(draft)

    return _make_once(workplace.folder / "frequencies" / f"{name}.json", count).absolute()


def _make_once(path: Path, make: Callable[[Path], None]) -> Path:
    """Make a file or a folder that commands share, unless one of them has made it; returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock"):
        if not path.exists():
            with moved_into_place(path) as draft:
                make(draft)
    return path
