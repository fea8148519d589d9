"""A training run: `set_up` makes its parts and checks them, `run` trains, evaluates, predicts and publishes."""

import dataclasses
import gc
import logging
import shutil
import sys
import traceback
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
import torch
import transformers
from transformers import TrainerState, set_seed
from transformers.trainer import TRAINER_STATE_NAME

from hf_summ.common.messages import one_line
from hf_summ.common.records import shown
from hf_summ.training import reports
from hf_summ.training.adapters import is_adapted
from hf_summ.training.arguments import LoraArguments, RunArguments, SummarizationTrainingArguments
from hf_summ.training.building import Built, build
from hf_summ.training.cards import make_card
from hf_summ.training.checkpoints import check_fits, check_optimizer
from hf_summ.training.extraction import Extraction, load_extraction
from hf_summ.training.optimization import check_patterns, parse_learning_rates
from hf_summ.training.parsing import parse_arguments
from hf_summ.training.preparing import load_splits, prepare_split, processor_fingerprint, source_ranges
from hf_summ.training.resuming import (
    Resumption,
    RunRecord,
    check_folder,
    check_room,
    describe,
    find_resumption,
    last_complete_checkpoint,
    lock_folder,
    named_checkpoint,
)
from hf_summ.training.scores import Scorer
from hf_summ.training.trainer import SummarizationTrainer, make_trainer

logger = logging.getLogger(__name__)

# number of bytes below which a disk counts as full
_LEAST_ROOM = 2**20


@dataclass
class Parts:
    """The arguments of a run and what is made from them."""

    arguments: RunArguments
    argv: Sequence[str]
    corpus: datasets.DatasetDict
    built: Built
    scorer: Scorer | None
    extraction: Extraction | None
    description: dict[str, Any]
    lock: ExitStack
    record: RunRecord
    resumption: Resumption


def main(argv: list[str] | None = None) -> dict[str, float]:
    """Run `CONFIG.yaml [--flag value ...]` and return all metrics.

    Raises:
        ValueError: an argument, a corpus, a checkpoint or a setting that cannot work; the message says what would.
        FloatingPointError: the loss is no longer finite.
    """
    argv = sys.argv[1:] if argv is None else argv
    metrics = run(set_up(parse_arguments(argv), argv))
    end_processes()
    return metrics


def set_up(arguments: RunArguments, argv: Sequence[str] = ()) -> Parts:
    """Load corpus, model and processor, checking everything in the settings before anything long starts.

    Args:
        argv: the command line of the arguments, which run.yaml and the model card then show.
    """
    training, data = arguments.training, arguments.data
    _set_up_logging(training)
    _check_steps(training)
    rates = parse_learning_rates(training.learning_rates)
    scorer = None
    if training.do_eval or training.do_predict:
        scorer = Scorer(training.metrics, training.rouge_mode, data.language, training.several_references)
    corpus = load_splits(arguments)
    set_seed(training.seed)
    built = model, processor, lengths = build(arguments)
    check_patterns(model, rates)
    if scorer is not None:
        scorer.clean = getattr(processor, "clean", scorer.clean)
    if training.do_train:
        check_room(training, model)
    is_extracted = data.extract_share is not None or data.extract_tokens is not None
    extraction = load_extraction(arguments, processor) if is_extracted else None
    cut = (lengths.source, lengths.target)
    description = describe(arguments, argv, corpus, model.config.to_dict(), processor_fingerprint(processor), cut)
    if extraction is not None:
        extraction.check(corpus)
        extraction.describe(description["data"])
    with lock_folder(training) as lock:
        record = RunRecord(training.output_dir)
        resumption = find_resumption(training, record, description) if training.do_train else Resumption()
        if resumption.checkpoint is not None:
            check_fits(resumption.checkpoint, model)
            check_optimizer(resumption.checkpoint, training)
        if resumption.is_trained:
            built = build(_of_trained_model(arguments))
        reserved = lock.pop_all()
    return Parts(arguments, argv, corpus, built, scorer, extraction, description, reserved, record, resumption)


def run(parts: Parts) -> dict[str, float]:
    """Train, evaluate and predict as requested, and return all metrics.

    What the same command has already done is left as it is.
    """
    with parts.lock:
        return _run(parts)


def _run(parts: Parts) -> dict[str, float]:
    training, record, is_trained = parts.arguments.training, parts.record, parts.resumption.is_trained
    wanted = {"train": training.do_train, "eval": training.do_eval, "predict": training.do_predict}
    steps = [step for step, is_wanted in wanted.items() if is_wanted]
    if is_trained and all(record.has_finished(step, parts.description) for step in steps):
        logger.info(f"{training.output_dir} has the results of this command already: remove it to start over")
        results = [reports.read_results(training.output_dir, step) for step in steps]
        return {name: value for found in results for name, value in found.items()}
    prepared = _prepare(parts)
    trainer = make_trainer(parts.arguments, parts.built, parts.scorer, prepared)
    if trainer.is_world_process_zero() and training.has_output_dir:
        begun = [step for step in steps if not (step == "train" and is_trained)]
        record.begin(begun, parts.description, parts.resumption)
    metrics: dict[str, float] = {}
    if training.do_train:
        metrics |= _trained(trainer) if is_trained else _train(trainer, parts)
    if training.do_eval:
        metrics |= reports.finish(trainer, record, "eval", trainer.evaluate(), len(prepared["validation"]))
    if training.do_predict:
        assert parts.scorer is not None
        found = reports.predict(trainer, parts.arguments, parts.scorer, parts.corpus["test"], prepared["test"])
        metrics |= reports.finish(trainer, record, "predict", found, len(prepared["test"]))
    if training.do_train:
        _publish(trainer, parts, metrics)
    return metrics


def _prepare(parts: Parts) -> dict[str, datasets.Dataset]:
    """The rows of each split as the model reads them; the extractive stage shortens those of the corpus as well."""
    arguments, scorer = parts.arguments, parts.scorer
    replaces = getattr(parts.built.model.generation_config, "replace_unk", None)
    needs_documents = None if scorer is None else scorer.needs_documents or bool(replaces)
    prepared = {}
    for split, rows in list(parts.corpus.items()):
        if parts.extraction is not None:
            # also for what reads the documents later: they are what the model has read
            rows = parts.corpus[split] = parts.extraction.apply(rows, split, parts.built.processor, arguments)
        scored = None if split == "train" else needs_documents
        prepared[split] = prepare_split(rows, split, parts.built, arguments, scored)
    return prepared


def _train(trainer: SummarizationTrainer, parts: Parts) -> dict[str, float]:
    resumption, model = parts.resumption, trainer.model
    trainer.start, trainer.applies_changes = resumption.start, bool(resumption.changes)
    data = parts.arguments.data
    model.config.source_ranges = source_ranges(parts.corpus["train"], parts.built.processor, data.source_prefix)
    if resumption.checkpoint is not None:
        changed = f" with other settings: {shown(resumption.changes)}" if resumption.changes else ""
        logger.info(f"resuming from {resumption.checkpoint}{changed}")
    trained = f"{model.num_parameters(only_trainable=True):,}"
    part = f", of which LoRA's {trained} are trained" if is_adapted(model) else ""
    logger.info(f"model: {model.num_parameters():,} parameters{part}")
    output = trainer.train(resume_from_checkpoint=resumption.checkpoint)
    trainer.save_model()
    trainer.save_state()
    return reports.finish(trainer, parts.record, "train", output.metrics, len(trainer.train_dataset))


def _trained(trainer: SummarizationTrainer) -> dict[str, float]:
    """The metrics of a training that is complete; the trainer gets its state."""
    folder = trainer.args.output_dir
    logger.info(f"{folder} is trained already: only the rest of the command is done")
    trainer.state = TrainerState.load_from_json(str(Path(folder, TRAINER_STATE_NAME)))
    return reports.read_results(folder, "train")


def _of_trained_model(arguments: RunArguments) -> RunArguments:
    """The arguments with which the model of a complete training is loaded from the output folder."""
    folder = arguments.training.output_dir
    started = {"config_name": None, "tokenizer_name": None, "config_overrides": {}, "model_revision": "main"}
    model = dataclasses.replace(arguments.model, model_name_or_path=folder, **started)
    return dataclasses.replace(arguments, model=model, lora=LoraArguments())


def _publish(trainer: SummarizationTrainer, parts: Parts, metrics: dict[str, float]) -> None:
    """Write the model card, and push to the Hub if requested."""
    documents = {split: len(rows) for split, rows in parts.corpus.items()}
    score_names = [name for names in parts.scorer.columns for name in names] if parts.scorer is not None else []
    card = make_card(trainer, parts.arguments, documents, parts.built.lengths.source, metrics, score_names, parts.argv)
    if parts.arguments.training.push_to_hub:
        trainer.push_to_hub(card=card)
    else:
        trainer.create_model_card(card)


def _set_up_logging(training: SummarizationTrainingArguments) -> None:
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", datefmt="%H:%M:%S")
    level = training.get_process_log_level()
    logging.getLogger("hf_summ").setLevel(logging.INFO if training.should_log else logging.ERROR)
    datasets.utils.logging.set_verbosity(level)
    transformers.utils.logging.set_verbosity(level)


def _check_steps(training: SummarizationTrainingArguments) -> None:
    """Raise a ValueError if there is nothing to do, or no place or beginning for it."""
    if not (training.do_train or training.do_eval or training.do_predict):
        raise ValueError("nothing to do: give --do_train, --do_eval or --do_predict")
    if (training.do_train or training.do_predict) and not training.has_output_dir:
        raise ValueError("training and prediction need --output_dir, a folder for the model and the results")
    if training.n_gpu > 1:
        logger.warning(f"only 1 of {training.n_gpu} GPUs is used: start with `accelerate launch` to use them all")
        training._n_gpu = 1
    if training.has_output_dir:
        check_folder(training)
    if training.do_train:
        named_checkpoint(training)


# the command line


def console_main(argv: list[str] | None = None, prefix: str = "") -> int:
    """`main` for a command line: errors that users can fix are printed in one line, which begins with `prefix`.

    Returns:
        0 on success, 2 if something given to it cannot work, 1 if that only appears later, 130 after Ctrl-C.
    """
    argv = sys.argv[1:] if argv is None else argv
    training = None
    try:
        arguments = parse_arguments(argv)
        parts = set_up(arguments, argv)
        training = arguments.training
        run(parts)
    except KeyboardInterrupt:
        if training is not None and training.do_train and training.process_index == 0:
            # on a line below the progress bar
            print(f"\n{prefix}{_resume_hint(training, 'interrupted')}", file=sys.stderr)
        return 130
    except Exception as error:
        is_running = training is not None
        message = one_line(error)
        if is_running and _is_full(training.output_dir):
            # the libraries report it in many ways
            message = _resume_hint(training, f"{training.output_dir} is on a disk that is full: make room; stopped")
        elif not isinstance(error, (ValueError, OSError, ImportError, FloatingPointError)):
            raise
        elif is_running and (isinstance(error, OSError) or not _is_ours(error)):
            # another library's error, hours into a run, is reported with its traceback
            raise
        print(f"{prefix}error: {message}", file=sys.stderr)
        return 1 if is_running else 2
    end_processes()
    return 0


def end_processes() -> None:
    """Leave the process group, without which processes may abort at interpreter exit."""
    gc.collect()
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _resume_hint(training: SummarizationTrainingArguments, what: str) -> str:
    """How to continue a run that ended as `what` says."""
    checkpoint = last_complete_checkpoint(training.output_dir)
    if checkpoint is None:
        return f"{what} before the first checkpoint: the same command starts over"
    return f"{what}: the same command resumes from {checkpoint}"


def _is_full(folder: str) -> bool:
    """Whether next to nothing can be written to an output folder any more."""
    return Path(folder).is_dir() and shutil.disk_usage(folder).free < _LEAST_ROOM


def _is_ours(error: Exception) -> bool:
    """Whether the package itself raised the error, so that its message is sufficient."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return frame.f_globals.get("__name__", "").startswith("hf_summ.")
