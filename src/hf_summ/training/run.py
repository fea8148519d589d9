"""A training run: corpus, model, training, evaluation, prediction."""

import dataclasses
import functools
import gc
import logging
import shutil
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
import torch
import transformers
from filelock import FileLock
from transformers import EvalPrediction, PreTrainedModel, TrainerState, set_seed
from transformers.trainer import TRAINER_STATE_NAME

from hf_summ.common.messages import one_line
from hf_summ.common.records import shown
from hf_summ.data import SummarizationCollator
from hf_summ.data.columns import has_references, reference_texts, source_column
from hf_summ.data.loading import load
from hf_summ.models.losses import IGNORED_LABEL
from hf_summ.models.text_documents import DOCUMENT_SEPARATOR
from hf_summ.models.text_tagging import load_tagger
from hf_summ.training import reports
from hf_summ.training.adapters import is_adapted
from hf_summ.training.arguments import LoraArguments, RunArguments, SummarizationTrainingArguments
from hf_summ.training.building import Lengths, Processor, build
from hf_summ.training.cards import make_card
from hf_summ.training.checkpoints import check_fits, check_optimizer, last_complete_checkpoint
from hf_summ.training.extraction import Extraction, check_documents, load_extraction
from hf_summ.training.optimization import check_patterns, parse_learning_rates
from hf_summ.training.parallelism import asks_for_fsdp
from hf_summ.training.parsing import parse_arguments
from hf_summ.training.preparing import describe_cuts, prefixed, prepare, processor_fingerprint
from hf_summ.training.records import RunRecord, describe
from hf_summ.training.resuming import (
    Resumption,
    check_folder,
    check_room,
    find_resumption,
    lock_folder,
    named_checkpoint,
)
from hf_summ.training.scores import Scorer
from hf_summ.training.trainer import SummarizationTrainer

logger = logging.getLogger(__name__)

# number of bytes below which a disk counts as full
_LEAST_ROOM = 2**20


@dataclass
class Parts:
    """The objects of a run."""

    corpus: datasets.DatasetDict
    model: PreTrainedModel
    processor: Processor
    lengths: Lengths
    resumption: Resumption
    scorer: Scorer | None
    extraction: Extraction | None
    record: RunRecord
    description: dict[str, Any]
    lock: FileLock | None


def main(argv: list[str] | None = None) -> dict[str, float]:
    """Run `CONFIG.yaml [--flag value ...]` and return all metrics.

    Raises:
        ValueError: an argument, a corpus, a checkpoint or a setting that cannot work; the message says what would.
        FloatingPointError: the loss is no longer finite.
    """
    argv = sys.argv[1:] if argv is None else argv
    arguments = parse_arguments(argv)
    metrics = run(arguments, set_up(arguments, argv), argv)
    end_processes()
    return metrics


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
        run(arguments, parts, argv)
    except KeyboardInterrupt:
        if training is not None and training.do_train and training.process_index == 0:
            # on a line below the progress bar
            print(f"\n{prefix}{_way_on(training, 'interrupted')}", file=sys.stderr)
        return 130
    except Exception as error:
        is_running = training is not None
        told = one_line(error)
        if is_running and _is_full(training.output_dir):
            # the libraries tell of it in many ways
            told = _way_on(training, f"{training.output_dir} is on a disk that is full: make room; stopped")
        elif not isinstance(error, (ValueError, OSError, ImportError, FloatingPointError)):
            raise
        elif is_running and (isinstance(error, OSError) or not _is_ours(error)):
            # another library's error, hours into a run, is reported with its traceback
            raise
        print(f"{prefix}error: {told}", file=sys.stderr)
        return 1 if is_running else 2
    end_processes()
    return 0


def set_up(arguments: RunArguments, argv: Sequence[str] = ()) -> Parts:
    """Load corpus, model and processor, checking everything in the settings before anything long starts.

    Args:
        argv: the command line of the arguments, which run.yaml then shows.
    """
    training = arguments.training
    _set_up_logging(arguments)
    if not (training.do_train or training.do_eval or training.do_predict):
        raise ValueError("nothing to do: give --do_train, --do_eval or --do_predict")
    if (training.do_train or training.do_predict) and not training.has_output_dir:
        raise ValueError("training and prediction need --output_dir, a folder for the model and the results")
    if training.n_gpu > 1:
        logger.warning(f"only 1 of {training.n_gpu} GPUs is used: start with `accelerate launch` to use them all")
        training._n_gpu = 1
    rates = parse_learning_rates(training.learning_rates)
    if training.has_output_dir:
        check_folder(training)
    if training.do_train:
        named_checkpoint(training)
    scorer = _scorer(arguments)
    with training.main_process_first(desc="loading the corpus"):
        access = arguments.model.cache_dir, arguments.model.token, arguments.model.trust_remote_code
        corpus = _needed_splits(load(arguments.corpus, *access), arguments)
    set_seed(training.seed)
    model, processor, lengths = build(arguments)
    if scorer is not None:
        scorer.clean = getattr(processor, "clean", scorer.clean)
    check_patterns(model, rates)
    if getattr(processor, "tags", "none") != "none":
        # rather than in the first document, or in another process
        load_tagger(processor.tagger, processor.tags)
    if training.do_train:
        check_room(training, model)
    extraction = load_extraction(arguments, processor)
    check_documents(extraction, corpus)
    cut = (lengths.source, lengths.target)
    description = describe(arguments, argv, corpus, model.config.to_dict(), processor_fingerprint(processor), cut)
    if extraction is not None:
        extraction.describe(description["data"])
    lock = lock_folder(training)
    try:
        record = RunRecord(training.output_dir)
        resumption = find_resumption(training, record, description) if training.do_train else Resumption()
        if resumption.checkpoint is not None:
            check_fits(resumption.checkpoint, model)
            check_optimizer(resumption.checkpoint, training)
        if resumption.is_trained:
            model, processor, lengths = build(_of_trained_model(arguments))
    except BaseException:
        if lock is not None:
            lock.release()
        raise
    return Parts(corpus, model, processor, lengths, resumption, scorer, extraction, record, description, lock)


def run(arguments: RunArguments, parts: Parts, argv: Sequence[str] = ()) -> dict[str, float]:
    """Train, evaluate and predict as requested, and return all metrics.

    What the same command has already done is left as it is.

    Args:
        argv: the command line of the arguments, which the model card then shows.
    """
    try:
        return _run(arguments, parts, argv)
    finally:
        if parts.lock is not None:
            parts.lock.release()


def _run(arguments: RunArguments, parts: Parts, argv: Sequence[str]) -> dict[str, float]:
    training, record, is_trained = arguments.training, parts.record, parts.resumption.is_trained
    wanted = {"train": training.do_train, "eval": training.do_eval, "predict": training.do_predict}
    steps = [step for step, is_wanted in wanted.items() if is_wanted]
    if is_trained and all(record.has_finished(step) and _is_of(record, step, parts) for step in steps):
        logger.info(f"{training.output_dir} has the results of this command already: remove it to start over")
        return {
            name: value for step in steps for name, value in reports.read_results(training.output_dir, step).items()
        }
    prepared = _prepare_splits(arguments, parts)
    trainer = _trainer(arguments, prepared, parts)
    if trainer.is_world_process_zero() and training.has_output_dir:
        begun = [step for step in steps if not (step == "train" and is_trained)]
        record.begin(begun, parts.description, parts.resumption.start, parts.resumption.noted_changes)
    metrics: dict[str, float] = {}
    if is_trained:
        metrics |= _trained(trainer)
    elif training.do_train:
        metrics |= _train(trainer, parts)
    if training.do_eval:
        metrics |= _report(trainer, parts, "eval", trainer.evaluate(), len(prepared["validation"]))
    if training.do_predict:
        metrics |= _predict(trainer, arguments, parts, prepared["test"])
    if training.do_train:
        _publish(trainer, arguments, parts, metrics, argv)
    return metrics


def _is_of(record: RunRecord, step: str, parts: Parts) -> bool:
    """Whether a step's results are of a command with the same settings."""
    before = record.of(step)
    return before is not None and all(before[name] == parts.description[name] for name in ("settings", "data"))


class PaddingLearningCollator(SummarizationCollator):
    """The collator of --no_ignore_pad_token_for_loss: padding is a label like any other."""

    def __call__(self, features: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        batch = super().__call__(features)
        labels = batch["labels"]
        batch["labels"] = labels.masked_fill(labels == IGNORED_LABEL, self.processor.pad_token_id)
        return batch


def score(predictions: EvalPrediction, processor: Processor, scorer: Scorer, prefix: str) -> dict[str, float]:
    """The run's scores of generated token ids, and their mean length; `prefix` was put before each document."""
    examples = predictions.inputs
    texts = decode(processor, predictions.predictions, examples, prefix)
    documents = None
    if examples is not None:
        documents = [example if isinstance(example, str) else DOCUMENT_SEPARATOR.join(example) for example in examples]
    scores = scorer(texts, predictions.label_ids, documents)
    lengths = [len(tokens) for tokens in predictions.predictions]
    return scores | {"gen_len": round(sum(lengths) / len(lengths), 2)}


def decode(
    processor: Processor,
    predictions: list[list[int]],
    examples: Sequence[str] | Sequence[list[str]] | None,
    prefix: str,
) -> list[str]:
    """Decode token ids to texts, with words of the documents that they may point at."""
    source = {}
    if examples is not None and hasattr(processor, "source_features"):
        source["documents"] = prefixed(examples, prefix)
    return [text.strip() for text in processor.batch_decode(predictions, skip_special_tokens=True, **source)]


def end_processes() -> None:
    """Leave the process group, without which processes may abort at interpreter exit."""
    gc.collect()
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _way_on(training: SummarizationTrainingArguments, what: str) -> str:
    """How to continue a run that `what` says the end of."""
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


def _set_up_logging(arguments: RunArguments) -> None:
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", datefmt="%H:%M:%S")
    level = arguments.training.get_process_log_level()
    logging.getLogger("hf_summ").setLevel(logging.INFO if arguments.training.should_log else logging.ERROR)
    datasets.utils.logging.set_verbosity(level)
    transformers.utils.logging.set_verbosity(level)


def _needed_splits(corpus: datasets.DatasetDict, arguments: RunArguments) -> datasets.DatasetDict:
    """The splits that the run uses, cut to the requested numbers of samples."""
    data, training = arguments.data, arguments.training
    wanted = {
        "train": (training.do_train, data.max_train_samples, "--do_train", "--train_file"),
        "validation": (training.do_eval, data.max_eval_samples, "--do_eval or --eval_strategy", "--validation_file"),
        "test": (training.do_predict, data.max_predict_samples, "--do_predict", "--test_file"),
    }
    splits = {}
    for split, (is_wanted, limit, why, flag) in wanted.items():
        if not is_wanted:
            continue
        if split not in corpus:
            raise ValueError(f"{why} needs a {split} split: give {flag}; the corpus has {', '.join(corpus)}")
        rows = corpus[split]
        splits[split] = rows if limit is None else rows.select(range(min(limit, len(rows))))
    return datasets.DatasetDict(splits)


def _prepare_splits(arguments: RunArguments, parts: Parts) -> dict[str, datasets.Dataset]:
    prepared = {}
    for split, rows in list(parts.corpus.items()):
        target = parts.lengths.target if split == "train" else parts.lengths.evaluation_target
        lengths, description = (parts.lengths.source, target), f"preparing {split}"
        with arguments.training.main_process_first(desc=description):
            if parts.extraction is not None:
                # also for what reads the documents later: they are what the model has read
                rows = parts.corpus[split] = parts.extraction.apply(rows, split, parts.processor, arguments)
            prepared[split] = prepare(rows, parts.processor, arguments, lengths, description)
        if arguments.training.should_log:
            logger.info(f"{split}: {len(rows):,} documents")
            for cut in describe_cuts(rows, prepared[split], parts.processor, lengths, arguments.data.source_prefix):
                logger.info(f"{split}: {cut}")
        if split == "train" or parts.scorer is None:
            continue
        scored_with = [source_column(rows.column_names)] if _needs_documents(parts) else []
        if has_references(rows.features):
            logger.info(f"{split}: summaries are scored against all texts in the column 'references'")
            scored_with.append("references")
        if scored_with:
            # beside the prepared rows, not in them, so that the cache does not depend on the metrics
            columns = [prepared[split], rows.select_columns(scored_with)]
            prepared[split] = datasets.concatenate_datasets(columns, axis=1)
    return prepared


def _needs_documents(parts: Parts) -> bool:
    """Whether summaries are read, or scored, with their documents."""
    scorer = parts.scorer
    return scorer is not None and (
        scorer.needs_documents or bool(getattr(parts.model.generation_config, "replace_unk", None))
    )


def _scorer(arguments: RunArguments) -> Scorer | None:
    """The scorer of the run's summaries, or None if it generates none."""
    training = arguments.training
    if not (training.do_eval or training.do_predict):
        return None
    return Scorer(
        training.metrics,
        training.rouge_mode,
        arguments.data.language,
        arguments.model.cache_dir,
        training.several_references,
    )


def _trainer(arguments: RunArguments, prepared: dict[str, datasets.Dataset], parts: Parts) -> SummarizationTrainer:
    training, scorer = arguments.training, parts.scorer
    trainer = SummarizationTrainer(
        parts.model,
        training,
        train_dataset=prepared.get("train"),
        eval_dataset=prepared.get("validation"),
        data_collator=_collator(arguments, parts),
        processing_class=parts.processor,
        compute_metrics=scorer
        and functools.partial(score, processor=parts.processor, scorer=scorer, prefix=arguments.data.source_prefix),
    )
    if asks_for_fsdp(training) and not trainer.is_fsdp_enabled:
        logger.warning("FSDP is off, as accelerate shards over GPUs alone: each process has the whole model")
    return trainer


def _collator(arguments: RunArguments, parts: Parts) -> SummarizationCollator:
    data, training = arguments.data, arguments.training
    kind = SummarizationCollator if data.ignore_pad_token_for_loss else PaddingLearningCollator
    return kind(
        parts.processor,
        model=parts.model,
        # half precision is only fast on multiples of eight
        pad_to_multiple_of=8 if training.fp16 or training.bf16 else None,
        pad_to_max_length=data.pad_to_max_length,
        max_source_length=parts.lengths.source,
        max_target_length=max(parts.lengths.target, parts.lengths.evaluation_target),
    )


def _train(trainer: SummarizationTrainer, parts: Parts) -> dict[str, float]:
    resumption = parts.resumption
    trainer.start = resumption.start
    trainer.applies_changes = bool(resumption.changes)
    if resumption.checkpoint is not None:
        changed = f" with other settings: {shown(resumption.changes)}" if resumption.changes else ""
        logger.info(f"resuming from {resumption.checkpoint}{changed}")
    logger.info(f"model: {_sizes(trainer.model)}")
    output = trainer.train(resume_from_checkpoint=resumption.checkpoint)
    trainer.save_model()
    trainer.save_state()
    return _report(trainer, parts, "train", output.metrics, len(trainer.train_dataset))


def _sizes(model: Any) -> str:
    trained = model.num_parameters(only_trainable=True)
    part = "" if not is_adapted(model) else f", of which LoRA's {trained:,} are trained"
    return f"{model.num_parameters():,} parameters{part}"


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


def _predict(
    trainer: SummarizationTrainer, arguments: RunArguments, parts: Parts, prepared: datasets.Dataset
) -> dict[str, float]:
    training, rows, scorer = arguments.training, parts.corpus["test"], parts.scorer
    assert scorer is not None
    output = trainer.predict(prepared, metric_key_prefix="predict")
    metrics = output.metrics
    if training.lead_sentences is not None:
        baseline = reports.lead_metrics(rows, training.lead_sentences, scorer)
        metrics |= {f"predict_{name}": value for name, value in baseline.items()}
    predictions = None
    if output.predictions is not None:
        examples = list(rows[source_column(rows.column_names)])
        predictions = decode(parts.processor, output.predictions, examples, arguments.data.source_prefix)
        intervals = scorer.intervals(predictions, reference_texts(rows))
        metrics |= {f"predict_{name}": value for name, value in intervals.items()}
    if predictions is not None and trainer.is_world_process_zero():
        reports.write_predictions(training.output_dir, rows, predictions, trainer.row_values)
        if training.show_summaries:
            print(reports.samples(rows, predictions, training.show_summaries), end="\n\n")
        print(reports.comparison(metrics, training.lead_sentences, scorer), flush=True)
    return _report(trainer, parts, "predict", metrics, len(prepared))


def _report(
    trainer: SummarizationTrainer, parts: Parts, step: str, metrics: dict[str, float], samples: int
) -> dict[str, float]:
    """Log the metrics and write them to the output folder, as the results of a finished step."""
    metrics = metrics | {f"{step}_samples": samples}
    trainer.log_metrics(step, metrics)
    if trainer.is_world_process_zero() and trainer.args.has_output_dir:
        reports.write_results(trainer.args.output_dir, step, metrics)
        parts.record.finish(step)
    return metrics


def _publish(
    trainer: SummarizationTrainer,
    arguments: RunArguments,
    parts: Parts,
    metrics: dict[str, float],
    argv: Sequence[str],
) -> None:
    """Write the model card, and push to the Hub if requested."""
    documents = {split: len(rows) for split, rows in parts.corpus.items()}
    score_names = [name for names in parts.scorer.columns for name in names] if parts.scorer is not None else []
    card = make_card(trainer, arguments, documents, parts.lengths.source, metrics, score_names, argv)
    if arguments.training.push_to_hub:
        trainer.push_to_hub(card=card)
    else:
        trainer.create_model_card(card)
