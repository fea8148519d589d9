"""Facts about a row's trained model, read from the folders of its runs, for the report."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import safe_open

from hf_summ.checkpoints.decoding import extracts
from hf_summ.data.vocabulary import load_tokenizer
from hf_summ.experiments.content import RunFacts
from hf_summ.experiments.jobs import Job
from hf_summ.experiments.tables import Flags, Row
from hf_summ.experiments.workplace import Workplace, read_corpus
from hf_summ.training.folder.ledger import Ledger

# The number of training pairs whose tokens are counted to estimate the tokens of a whole training.
_COUNTED_PAIRS = 200


@dataclass(frozen=True)
class TrainerState:
    """What a training run recorded, from its file `trainer_state.json`.

    Args:
        updates: the number of updates.
        epochs: the number of epochs, which may be a fraction.
        losses: one pair for each log entry: the update, and the mean negative log-likelihood per token.
        seconds: the seconds of training, see `RunProgress`; None if they were not recorded.
    """

    updates: int
    epochs: float
    losses: Sequence[tuple[int, float]]
    seconds: float | None


def read_trainer_state(folder: Path) -> TrainerState:
    """Read what the training run in a folder recorded.

    Raises:
        FileNotFoundError: the folder has no `trainer_state.json`.
        KeyError: the file was not written by the recipe of this package.
    """
    content = json.loads((folder / "trainer_state.json").read_text(encoding="utf-8"))
    losses = []
    for entry in content["log_history"]:
        if "nll" in entry:
            losses.append((entry["step"], entry["nll"]))
    progress = content["stateful_callbacks"]["RunProgress"]["attributes"]
    return TrainerState(content["global_step"], content["epoch"], losses, progress.get("seconds"))


def facts_of_run(workplace: Workplace, row: Row, training: Job, decoding: Job) -> RunFacts:
    """The facts about a row's trained model.

    Unknown tokens, unknown or zero seconds, and the extraction of documents that were not shortened are left out.

    Args:
        workplace: the table and the settings of its runs.
        row: the row, with the seed of its training among its flags.
        training: the row's last training run, which is finished; `training.runs` lists all its training runs.
        decoding: the row's decoding run, which is finished.
    """
    states = [read_trainer_state(job.folder) for job in training.runs]
    results = json.loads((decoding.folder / "predict_results.json").read_text(encoding="utf-8"))
    facts: RunFacts = {
        "run": training.folder.name,
        "parameters": _number_of_parameters(training.folder),
        "updates": sum(state.updates for state in states),
        "epochs": round(sum(state.epochs for state in states), 2),
        "seed": training.settings["seed"],
        "documents_per_second": results["predict_samples_per_second"],
        "curve": _curve(states),
    }
    tokens = []
    seconds = []
    for job, state in zip(training.runs, states, strict=True):
        tokens.append(_training_tokens(job, state.epochs))
        seconds.append(training_seconds(workplace, row, state))
    total_tokens = _total(tokens)
    if total_tokens:
        facts["tokens"] = total_tokens
    total_seconds = _total(seconds)
    if total_seconds:
        facts["seconds"] = total_seconds
    extraction = extraction_of(decoding.settings)
    if extraction is not None:
        facts["extraction"] = extraction
    return facts


def _number_of_parameters(folder: Path) -> int:
    """The number of parameters of the model in a folder. Shared parameters count once, as they are saved once."""
    parameters = 0
    for file in folder.glob("*.safetensors"):
        with safe_open(file, framework="np") as tensors:
            for name in tensors.keys():  # noqa: SIM118 (safe_open is not a mapping)
                parameters += int(np.prod(tensors.get_slice(name).get_shape()))
    return parameters


def _curve(states: Sequence[TrainerState]) -> list[list[float]]:
    """One pair for each log entry of all training runs: the update, counted over all runs, and the loss.

    Args:
        states: what each training run recorded, in the order of the runs.
    """
    curve: list[list[float]] = []
    updates_before = 0
    for state in states:
        for update, loss in state.losses:
            curve.append([updates_before + update, loss])
        updates_before += state.updates
    return curve


def _total(values: Sequence[float | None]) -> float | None:
    """The sum of the values; None stands for an unknown value, with which the sum is unknown too."""
    total = 0
    for value in values:
        if value is None:
            return None
        total += value
    return total


def _training_tokens(training: Job, epochs: float) -> int | None:
    """About how many source and target tokens a training run read in all its epochs.

    The estimate is the mean number of tokens in the first training pairs, times the number of all training pairs, times
    the epochs.

    Args:
        training: a finished training run.
        epochs: the number of its epochs, which may be a fraction.

    Returns:
        The number; None if the run shortened its documents or read a stream, or if the training data can no longer be
        read.
    """
    # This module imports the models, which only a finished training needs.
    from hf_summ.training.rows.preparing import encode

    settings = training.settings
    if extracts(settings) or settings.get("streaming"):
        # The run encoded shortened documents, whose lengths are not known here, or a stream, whose number of pairs is
        # unknown.
        return None
    # The run's ledger has a record of the training step. `updates` of the record has all settings that determine the
    # weights, and `rows` is the number of pairs on which the run trained.
    record = Ledger(training.folder).steps["train"]
    lengths = record["updates"]["max_source_length"], record["updates"]["max_target_length"]
    try:
        pairs = read_corpus(settings, ("train",), _COUNTED_PAIRS)["train"]
    except (ValueError, OSError):
        return None
    processor = load_tokenizer(str(training.folder))
    encoded = encode(pairs[:], processor, lengths, settings.get("source_prefix", ""))
    tokens = 0
    for column in ("input_ids", "labels"):
        for token_ids in encoded[column]:
            tokens += len(token_ids)
    training_pairs = record["data"]["train"]["rows"]
    return round(epochs * training_pairs * tokens / len(pairs))


def training_seconds(workplace: Workplace, row: Row, state: TrainerState) -> float | None:
    """The seconds of a training run, as recorded or, for a run without a record, as the table states them.

    A table may state the seconds of its training runs at the scale full, `train_seconds`. They are multiplied by the
    share of updates that the run has of the row's `max_steps` at this scale.

    Args:
        workplace: the table and the scale of its runs.
        row: the row. If the table has `train_seconds`, the row has `max_steps` for the scale full.
        state: what the training run recorded.

    Returns:
        The seconds; None if they were neither recorded nor stated.
    """
    table_seconds = workplace.table.train_seconds
    if state.seconds or workplace.scale != "full" or table_seconds is None:
        return state.seconds
    return table_seconds * state.updates / row.full["max_steps"]


def extraction_of(settings: Flags) -> str | None:
    """How a run shortened its documents before the model read them, as a report says it; None if it did not.

    Args:
        settings: flags of a decoding run.
    """
    if not extracts(settings):
        return None
    size = f"{settings.get('extract_tokens')} tokens"
    if settings.get("extract_share") is not None:
        size = f"{settings['extract_share']:.0%} of the sentences"
    model = settings.get("next_sentence_model")
    if model is None:
        return f"{size}, without a next-sentence model, so unchecked"
    return f"{size}, checked by {model}"
