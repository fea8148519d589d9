"""The steps of a training run: data, model, training, evaluation, prediction, model card."""

import gc
import logging
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import datasets
import torch
import transformers
from transformers import TrainerState, set_seed
from transformers.trainer import TRAINER_STATE_NAME

from hf_summ.checkpoints.adapters import is_adapted
from hf_summ.checkpoints.folders import checkpoint_folders
from hf_summ.common.processes import threads_for
from hf_summ.data.columns import reference_texts, source_column
from hf_summ.data.loading import load
from hf_summ.training.arguments import LoraArguments, RunArguments, SummarizationTrainingArguments
from hf_summ.training.folder.ledger import Ledger, locked
from hf_summ.training.folder.resuming import NO_CHECKPOINT, Resumption, describe, find_resumption, named_checkpoint
from hf_summ.training.loop.trainer import SummarizationTrainer, make_trainer
from hf_summ.training.model import build, trained_model
from hf_summ.training.optimization import check_optimization
from hf_summ.training.parsing import as_flag, parse_arguments
from hf_summ.training.results import reports
from hf_summ.training.results.cards import make_card
from hf_summ.training.results.reports import Scorer
from hf_summ.training.rows.extraction import Extraction, load_extraction
from hf_summ.training.rows.preparing import choose_splits, prepare_splits

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
    threads = torch.get_num_threads()
    try:
        return main(flags if config is None else [str(config), *flags])
    finally:
        torch.set_num_threads(threads)


def run(arguments: RunArguments, argv: Sequence[str] = (), on_start: Callable = lambda: None) -> dict[str, float]:
    """Train, evaluate and predict as requested, publish the trained model, and return all metrics.

    Steps that the same command has completed are not repeated.

    Args:
        argv: the command line of the arguments, shown in run.yaml.
        on_start: called when all settings are checked, before the first long step.

    Raises:
        ValueError: an invalid corpus, checkpoint or setting; the message says what to do.
        FloatingPointError: the loss is no longer finite.
        SystemExit: SIGTERM arrived, and `enable_jit_checkpoint` has saved a checkpoint.
    """
    training, data, start = arguments.training, arguments.data, arguments.model
    _set_up_logging(training)
    _check_steps(arguments)
    _set_threads()
    scorer = None
    if training.do_eval or training.do_predict:
        scorer = Scorer(training.metrics, training.rouge_mode, data.language, training.several_references)
    with training.main_process_first(desc="loading the corpus"):
        corpus = load(arguments.corpus, start.cache_dir, start.token, start.trust_remote_code)
        corpus = choose_splits(corpus, data, training)
    set_seed(training.seed)
    built = build(start, arguments.lora, data, arguments.generation, training.do_train)
    if training.do_train:
        check_optimization(built.model, training)
    extraction = load_extraction(data, start, built.processor, corpus)
    description = describe(arguments, argv, corpus, built, extraction)
    writes = training.has_output_dir and training.process_index == 0
    with locked(training.output_dir) if writes else nullcontext():
        ledger = Ledger(training.output_dir)
        resumption = find_resumption(training, ledger, description)
        on_start()
        steps = [step for step in ("train", "eval", "predict") if getattr(training, f"do_{step}")]
        is_finished = resumption.is_trained and all(ledger.is_finished(step, description) for step in steps)
        if is_finished and not training.push_to_hub:
            logger.info(f"{training.output_dir} already has the results of this command: remove it to start over")
            return ledger.results(*steps)
        if resumption.is_trained:
            saved = trained_model(start, training.output_dir)
            built = build(saved, LoraArguments(), data, arguments.generation, training.do_train)
        with training.main_process_first(desc="preparing the corpus"):
            if extraction is not None:
                # all later steps use the documents that the model reads
                for split, rows in list(corpus.items()):
                    corpus[split] = extraction.apply(rows, split, built.processor, data, start.cache_dir)
            replaces_unknown = getattr(built.model.generation_config, "replace_unk", None)
            # summaries may have words that only the documents spell
            reads_words = bool(replaces_unknown or getattr(built.processor, "unknown_ids", 0))
            with_documents = scorer is not None and (scorer.needs_documents or reads_words)
            prepared = prepare_splits(corpus, built, data, start.cache_dir, with_documents)
        trainer = make_trainer(built, data, training, scorer, prepared)
        if writes:
            if training.do_train and named_checkpoint(training) == NO_CHECKPOINT:
                # this run would later resume from those of the run before it
                for _, folder in checkpoint_folders(training.output_dir):
                    logger.info(f"{folder} is removed, because this run starts over")
                    shutil.rmtree(folder)
            ledger.begin(steps[1:] if resumption.is_trained else steps, description)
        metrics: dict[str, float] = {}
        if training.do_train:
            metrics |= _train(trainer, ledger, resumption, corpus["train"], data.source_prefix, extraction)
        if training.do_eval:
            metrics |= _finish(trainer, ledger, "eval", trainer.evaluate(), len(prepared["validation"]))
        if training.do_predict:
            assert scorer is not None
            scores = _predict(trainer, scorer, corpus["test"], prepared["test"], data.source_prefix)
            metrics |= _finish(trainer, ledger, "predict", scores, len(prepared["test"]))
        if training.do_train:
            card = make_card(trainer, arguments, corpus, built.lengths.source, metrics, scorer)
            publish = trainer.push_to_hub if training.push_to_hub else trainer.create_model_card
            publish(card=card)
            if training.process_index == 0:
                _print_names(trainer)
        return metrics


def _train(
    trainer: SummarizationTrainer,
    ledger: Ledger,
    resumption: Resumption,
    rows: datasets.Dataset,
    prefix: str,
    extraction: Extraction | None,
) -> dict[str, float]:
    """Train and return the metrics; if training is complete already, load its state and its metrics.

    Args:
        rows: the training documents, whose ranges the model's config gets.
        extraction: the stage before the model, which the config gets too.
    """
    training, model = trainer.args, trainer.model
    folder = training.output_dir
    if resumption.is_trained:
        logger.info(f"{folder} is already trained: only the remaining steps are run")
        trainer.state = TrainerState.load_from_json(str(Path(folder, TRAINER_STATE_NAME)))
        if trainer.is_world_process_zero():
            # the settings with which it is evaluated now
            model.generation_config.save_pretrained(folder)
        return ledger.results("train")
    # the stage of the checkpoint at the start is that of its training
    vars(model.config).pop("extraction", None)
    if extraction is not None and "train" in extraction.splits:
        model.config.extraction = extraction.settings
    if resumption.checkpoint is not None:
        logger.info(f"resuming from {resumption.checkpoint}")
    lora = f", of which LoRA's {model.num_parameters(only_trainable=True):,} are trained" if is_adapted(model) else ""
    logger.info(f"model: {model.num_parameters():,} parameters{lora}")
    if training.bf16 and training.device.type == "cpu":
        logger.info("training computes in bfloat16: --bf16 false trains in float32")
    output = trainer.train(resume_from_checkpoint=resumption.checkpoint)
    if not trainer.state.global_step:
        raise ValueError(
            "no update was made, because the training documents fill no batch: omit "
            "--dataloader_drop_last, or lower --per_device_train_batch_size"
        )
    trainer.save_model()
    trainer.save_state()
    is_stream = isinstance(trainer.train_dataset, datasets.IterableDataset)
    seen = trainer.state.global_step * training.train_batch_size * training.world_size
    samples = seen * training.gradient_accumulation_steps if is_stream else len(trainer.train_dataset)
    return _finish(trainer, ledger, "train", output.metrics, samples)


def _predict(
    trainer: SummarizationTrainer, scorer: Scorer, rows: datasets.Dataset, prepared: datasets.Dataset, prefix: str
) -> dict[str, float]:
    """Summarize the test split, write and print the summaries, and compare them with LEAD; returns all scores.

    Args:
        rows: the test split.
        prepared: the same as the model reads it.
    """
    training = trainer.args
    output = trainer.predict(prepared, metric_key_prefix="predict")
    metrics = output.metrics
    if training.lead_sentences is not None:
        baseline = reports.lead_metrics(rows, training.lead_sentences, scorer)
        metrics |= {f"predict_{name}": value for name, value in baseline.items()}
    if output.predictions is None:
        trainer.log_metrics("predict", metrics)
        return metrics
    summaries = reports.decode(trainer.processing_class, output.predictions, rows[:], prefix)
    texts = summaries, reference_texts(rows), reports.as_documents(rows[source_column(rows.column_names)])
    metrics |= {f"predict_{name}": value for name, value in scorer.intervals(*texts).items()}
    if trainer.is_world_process_zero():
        losses = trainer.row_values or [{}] * len(summaries)
        values = [{**loss, **scores} for loss, scores in zip(losses, scorer.of_rows(*texts), strict=True)]
        reports.write_predictions(training.output_dir, rows, summaries, values)
        if training.show_summaries:
            print(reports.samples(rows, summaries, training.show_summaries), end="\n\n")
        print(reports.comparison(metrics, training.lead_sentences, scorer, len(rows)))
        print(f"all scores in {Path(training.output_dir, 'predict_results.json')}", flush=True)
    return metrics


def _finish(
    trainer: SummarizationTrainer, ledger: Ledger, step: str, metrics: dict[str, float], samples: int
) -> dict[str, float]:
    """Write a step's metrics, with the number of samples, as its results, and log them unless a table shows them."""
    metrics = metrics | {f"{step}_samples": samples}
    if step != "predict":
        trainer.log_metrics(step, metrics)
    if trainer.is_world_process_zero() and trainer.args.has_output_dir:
        ledger.finish(step, metrics)
    return metrics


def _print_names(trainer: SummarizationTrainer) -> None:
    """Print the names under which the model can be loaded."""
    names = [trainer.args.output_dir]
    if trainer.args.push_to_hub:
        names.append(trainer.hub_model_id)
    for name in names:
        quoted = shlex.quote(name)
        print(f"model in {quoted}: hf-summ summarize FILE --model {quoted}")


def _set_up_logging(training: SummarizationTrainingArguments) -> None:
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", datefmt="%H:%M:%S")
    level = training.get_process_log_level()
    logging.getLogger("hf_summ").setLevel(logging.INFO if training.should_log else logging.ERROR)
    datasets.utils.logging.set_verbosity(level)
    transformers.utils.logging.set_verbosity(level)


def _set_threads() -> None:
    """Use as many threads as idle processors can run, unless OMP_NUM_THREADS sets a number."""
    threads = threads_for(1, only_idle=True)
    if threads is None:
        return
    if threads < torch.get_num_threads():
        logger.info(f"torch uses {threads} of {torch.get_num_threads()} threads, because the machine is busy")
    torch.set_num_threads(threads)


def _check_steps(arguments: RunArguments) -> None:
    """Raise a ValueError if there is nothing to do, or the results could not be saved, resumed or loaded."""
    training, base = arguments.training, arguments.model.model_name_or_path
    if not (training.do_train or training.do_eval or training.do_predict):
        raise ValueError("nothing to do: give --do_train, --do_eval or --do_predict")
    if (training.do_train or training.do_predict) and not training.has_output_dir:
        raise ValueError("training and prediction need --output_dir, a folder for the model and the results")
    if training.push_to_hub and arguments.lora.lora_r is not None and base is not None and Path(base).exists():
        raise ValueError(
            f"--push_to_hub: an adapter of the local folder {base} cannot be loaded elsewhere: push that model first, "
            "and give its name on the Hub as --model_name_or_path"
        )
    if arguments.corpus.streaming:
        for name in ("train_tokens_per_batch", "min_coverage", "extract_share", "extract_tokens"):
            if getattr(training, name, None) or getattr(arguments.data, name, None):
                raise ValueError(f"--streaming: excludes --{name}, which reads all rows first")
    if training.n_gpu > 1:
        logger.warning(f"only 1 of {training.n_gpu} GPUs is used: start with `accelerate launch` to use them all")
        training._n_gpu = 1
    if training.do_train:
        named_checkpoint(training)


def end_processes() -> None:
    """Destroy the process group; otherwise processes may abort at interpreter exit."""
    gc.collect()
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
