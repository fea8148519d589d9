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


@dataclass(frozen=True)
class TrainerState:
    """What a training run recorded, from its file `trainer_state.json`.

    Args:
        updates: the number of updates.
        epochs: the number of epochs, which may be a fraction.
        losses: the update and the negative log-likelihood per token of each log entry.
        seconds: the seconds of training, see `RunProgress`; None if they were not recorded.
    """

    updates: int
    epochs: float
    losses: Sequence[tuple[int, float]]
    seconds: float | None


def read_trainer_state(folder: Path) -> TrainerState:
    """Read what the training run in a folder recorded."""
    content = json.loads((folder / "trainer_state.json").read_text(encoding="utf-8"))
    losses = []
    for entry in content["log_history"]:
        if "nll" in entry:
            losses.append((entry["step"], entry["nll"]))
    progress = content["stateful_callbacks"]["RunProgress"]["attributes"]
    return TrainerState(content["global_step"], content["epoch"], losses, progress.get("seconds"))


def facts_of_run(workplace: Workplace, row: Row, training: Job, decoding: Job) -> RunFacts:
    """The facts about a row's trained model.

    Args:
        workplace: the workplace.
        row: the row.
        training: its finished training, of one or two runs.
        decoding: its finished decoding.
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
    """The number of parameters of the model in a folder; shared ones count once, as they are saved once."""
    parameters = 0
    for file in folder.glob("*.safetensors"):
        with safe_open(file, framework="np") as tensors:
            for name in tensors.keys():  # noqa: SIM118 (safe_open is not a mapping)
                parameters += int(np.prod(tensors.get_slice(name).get_shape()))
    return parameters


def _curve(states: Sequence[TrainerState]) -> list[list[float]]:
    """The update and the loss of each log entry; updates are counted over all runs.

    Args:
        states: what each run recorded.
    """
    curve: list[list[float]] = []
    updates_before = 0
    for state in states:
        for update, loss in state.losses:
            curve.append([updates_before + update, loss])
        updates_before += state.updates
    return curve


def _total(values: Sequence[float | None]) -> float | None:
    """The sum, or None if a value is unknown."""
    total = 0
    for value in values:
        if value is None:
            return None
        total += value
    return total


def _training_tokens(training: Job, epochs: float) -> int | None:
    """The approximate number of source and target training tokens, estimated from the first pairs; None if unknown."""
    # This import is here because the process that starts runs does not need these modules.
    from hf_summ.training.rows.preparing import MEASURED, encode

    settings = training.settings
    description = Ledger(training.folder).steps["train"]
    # The documents were shortened before encoding, so their lengths are unknown.
    if extracts(settings):
        return None
    try:
        pairs = read_corpus(settings, ("train",), MEASURED)["train"]
    except (ValueError, OSError):
        return None
    processor = load_tokenizer(str(training.folder))
    lengths = description["updates"]["max_source_length"], description["updates"]["max_target_length"]
    encoded = encode(pairs[:], processor, lengths, settings.get("source_prefix", ""))
    tokens = 0
    for column in ("input_ids", "labels"):
        for token_ids in encoded[column]:
            tokens += len(token_ids)
    return round(epochs * description["data"]["train"]["rows"] * tokens / len(pairs))


def training_seconds(workplace: Workplace, row: Row, state: TrainerState) -> float | None:
    """The seconds of training that a run recorded; otherwise its share of the table's `train_seconds`; None if unknown.

    Args:
        workplace: the workplace.
        row: the row.
        state: what the run recorded.
    """
    table_seconds = workplace.table.train_seconds
    if state.seconds or workplace.scale != "full" or table_seconds is None:
        return state.seconds
    return table_seconds * state.updates / row.full["max_steps"]


def extraction_of(settings: Flags) -> str | None:
    """How the documents of a decoding were shortened, for a report; None if they were not."""
    if not extracts(settings):
        return None
    size = f"{settings.get('extract_tokens')} tokens"
    if settings.get("extract_share") is not None:
        size = f"{settings['extract_share']:.0%} of the sentences"
    model = settings.get("next_sentence_model")
    if model is None:
        return f"{size}, without a next-sentence model, so unchecked"
    return f"{size}, checked by {model}"
