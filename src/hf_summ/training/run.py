"""The steps of a training run: data, model, training, evaluation, prediction, model card."""

import gc
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import datasets
import torch
import transformers
from transformers import TrainerState, set_seed
from transformers.trainer import TRAINER_STATE_NAME

from hf_summ.checkpoints.adapters import is_adapted
from hf_summ.common.records import shown
from hf_summ.training.arguments import RunArguments, SummarizationTrainingArguments
from hf_summ.training.folder.resuming import (
    Resumption,
    RunRecord,
    check_folder,
    describe,
    find_resumption,
    lock_folder,
    named_checkpoint,
)
from hf_summ.training.loop.trainer import SummarizationTrainer, make_trainer
from hf_summ.training.model import build, build_trained
from hf_summ.training.parsing import as_flag, parse_arguments
from hf_summ.training.results import reports
from hf_summ.training.results.cards import make_card
from hf_summ.training.results.scores import Scorer
from hf_summ.training.rows.extraction import load_extraction
from hf_summ.training.rows.preparing import load_splits, prepare_splits, source_ranges

logger = logging.getLogger(__name__)


def main(argv: list[str] | None = None) -> dict[str, float]:
    """Run `CONFIG.yaml [--flag value ...]` and return all metrics; errors are those of `parse_arguments` and `run`."""
    argv = sys.argv[1:] if argv is None else argv
    metrics = run(parse_arguments(argv), argv)
    end_processes()
    return metrics


def train(config: str | Path | None = None, **settings: Any) -> dict[str, float]:
    """Train, evaluate and predict in Python, like `hf-summ train CONFIG --flag value`, and return all metrics.

    Args:
        config: a .yaml or .json file of settings, or the name of a bundled configuration such as `drgd/headline`.
        settings: flags by name, such as `train_file="train.jsonl"`, `max_steps=1000`; they take precedence, and None
            removes one.

    Raises:
        ValueError: an unknown or invalid setting, or as `run`.
        FloatingPointError: the loss is no longer finite.
    """
    flags = [token for name, value in settings.items() for token in as_flag(name, value)]
    return main(flags if config is None else [str(config), *flags])


def run(arguments: RunArguments, argv: Sequence[str] = (), on_start: Callable = lambda: None) -> dict[str, float]:
    """Train, evaluate and predict as requested, publish the trained model, and return all metrics.

    Steps that the same command has completed are not repeated.

    Args:
        argv: the command line of the arguments, shown in run.yaml and the model card.
        on_start: called when all settings are checked, before the first long step.

    Raises:
        ValueError: an invalid corpus, checkpoint or setting; the message says what to do.
        FloatingPointError: the loss is no longer finite.
    """
    training = arguments.training
    _set_up_logging(training)
    _check_steps(training)
    scorer = None
    if training.do_eval or training.do_predict:
        scorer = Scorer(training.metrics, training.rouge_mode, arguments.data.language, training.several_references)
    corpus = load_splits(arguments)
    set_seed(training.seed)
    built = build(arguments)
    extraction = load_extraction(arguments, built.processor, corpus)
    description = describe(arguments, argv, corpus, built, extraction)
    with lock_folder(training):
        record = RunRecord(training.output_dir)
        resumption = find_resumption(training, record, description, built.model)
        if resumption.is_trained:
            built = build_trained(arguments)
        on_start()
        steps = [step for step in ("train", "eval", "predict") if getattr(training, f"do_{step}")]
        is_finished = resumption.is_trained and all(record.has_finished(step, description) for step in steps)
        metrics = reports.read_results(training.output_dir, *steps) if is_finished else {}
        if is_finished:
            logger.info(f"{training.output_dir} has the results of this command already: remove it to start over")
            if not training.push_to_hub:
                return metrics
        if extraction is not None:
            # replaced for all later steps, which must use the documents that the model has read
            for split, rows in list(corpus.items()):
                corpus[split] = extraction.apply(rows, split, built.processor, arguments)
        prepared = prepare_splits(corpus, built, arguments, scorer)
        trainer = make_trainer(arguments, built, scorer, prepared)
        if trainer.is_world_process_zero() and training.has_output_dir and not is_finished:
            record.begin(steps[1:] if resumption.is_trained else steps, description, resumption)
        if training.do_train:
            metrics |= _train(arguments, trainer, corpus["train"], record, resumption)
        if training.do_eval and not is_finished:
            metrics |= reports.finish(trainer, record, "eval", trainer.evaluate(), len(prepared["validation"]))
        if training.do_predict and not is_finished:
            assert scorer is not None
            found = reports.predict(trainer, arguments, scorer, corpus["test"], prepared["test"])
            metrics |= reports.finish(trainer, record, "predict", found, len(prepared["test"]))
        if training.do_train:
            card = make_card(trainer, arguments, corpus, built.lengths.source, metrics, scorer, argv)
            publish = trainer.push_to_hub if training.push_to_hub else trainer.create_model_card
            publish(card=card)
        return metrics


def _train(
    arguments: RunArguments,
    trainer: SummarizationTrainer,
    rows: datasets.Dataset,
    record: RunRecord,
    resumption: Resumption,
) -> dict[str, float]:
    """Train and return the metrics; if training is complete already, load its state and its metrics."""
    folder, model = trainer.args.output_dir, trainer.model
    if resumption.is_trained:
        logger.info(f"{folder} is trained already: only the remaining steps are run")
        trainer.state = TrainerState.load_from_json(str(Path(folder, TRAINER_STATE_NAME)))
        return reports.read_results(folder, "train")
    trainer.start, trainer.applies_changes = resumption.start, bool(resumption.changes)
    # those of the checkpoint at the start describe other documents
    vars(model.config).pop("source_ranges", None)
    ranges = source_ranges(rows, trainer.processing_class, arguments.data.source_prefix)
    if ranges is not None:
        model.config.source_ranges = ranges
    if resumption.checkpoint is not None:
        changed = f" with other settings: {shown(resumption.changes)}" if resumption.changes else ""
        logger.info(f"resuming from {resumption.checkpoint}{changed}")
    trained = f"{model.num_parameters(only_trainable=True):,}"
    part = f", of which LoRA's {trained} are trained" if is_adapted(model) else ""
    logger.info(f"model: {model.num_parameters():,} parameters{part}")
    output = trainer.train(resume_from_checkpoint=resumption.checkpoint)
    trainer.save_model()
    trainer.save_state()
    return reports.finish(trainer, record, "train", output.metrics, len(trainer.train_dataset))


def _set_up_logging(training: SummarizationTrainingArguments) -> None:
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", datefmt="%H:%M:%S")
    level = training.get_process_log_level()
    logging.getLogger("hf_summ").setLevel(logging.INFO if training.should_log else logging.ERROR)
    datasets.utils.logging.set_verbosity(level)
    transformers.utils.logging.set_verbosity(level)


def _check_steps(training: SummarizationTrainingArguments) -> None:
    """Raise a ValueError if there is nothing to do, or the output folder or checkpoint is missing or unusable."""
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


def end_processes() -> None:
    """Destroy the process group; otherwise processes may abort at interpreter exit."""
    gc.collect()
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
