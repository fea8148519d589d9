"""The steps of a training run: data, model, training, evaluation, prediction, model card."""

import gc
import logging
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
import torch
import transformers
from transformers import TrainerState, set_seed
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import align_special_tokens

from hf_summ.checkpoints.adapters import is_adapted
from hf_summ.checkpoints.folders import checkpoint_folders
from hf_summ.common.hashes import hashes_while_read
from hf_summ.common.processes import threads_for
from hf_summ.data.columns import reference_texts, source_column
from hf_summ.data.loading import load
from hf_summ.training.arguments import LoraArguments, RunArguments, SummarizationTrainingArguments
from hf_summ.training.folder.ledger import Description, Ledger, locked
from hf_summ.training.folder.resuming import NO_CHECKPOINT, Resumption, describe, find_resumption, named_checkpoint
from hf_summ.training.loop.making import make_trainer
from hf_summ.training.loop.trainer import SummarizationTrainer
from hf_summ.training.model import RunModel, build, chooses_sentences, trained_model
from hf_summ.training.optimization import check_optimization
from hf_summ.training.parsing import as_flag, parse_arguments
from hf_summ.training.results import reports
from hf_summ.training.results.cards import make_card
from hf_summ.training.results.reports import Scorer
from hf_summ.training.rows.extraction import Extraction, load_extraction
from hf_summ.training.rows.preparing import choose_splits, prepare_splits

logger = logging.getLogger(__name__)


def main(argv: list[str] | None = None) -> dict[str, float]:
    """Run `CONFIG.yaml [--flag value ...]`, and return all metrics.

    Args:
        argv: the arguments of the command line; by default the arguments of this process.

    Raises:
        ValueError, FloatingPointError, SystemExit: an error of `parse_arguments` or of `run`.
    """
    if argv is None:
        argv = sys.argv[1:]
    metrics = run(parse_arguments(argv), argv)
    end_processes()
    return metrics


def train(config: str | Path | None = None, **settings: Any) -> dict[str, float]:
    """Train, evaluate and predict in Python, like `hf-summ train CONFIG --flag value`, and return all metrics.

    Args:
        config: a .yaml or .json file of settings, or the name of a bundled configuration such as `drgd/headline`.
        settings: flags by name, such as `train_file="train.jsonl"` and `max_steps=1000`. They take precedence over the
            file, and a flag with the value None is treated as if the file did not set it.

    Raises:
        ValueError: an unknown or invalid setting, or as `run`.
        FloatingPointError: the loss is no longer finite.
    """
    argv: list[str] = []
    if config is not None:
        argv.append(str(config))
    for name, value in settings.items():
        argv.extend(as_flag(name, value))
    threads = torch.get_num_threads()
    try:
        return main(argv)
    finally:
        torch.set_num_threads(threads)


@dataclass
class _Setup:
    """What a run works with, once its settings are checked.

    Args:
        arguments: all arguments of the run.
        scorer: scores the summaries of evaluation and prediction; None if the run only trains.
        corpus: the rows of the splits that the run reads.
        run_model: the model, its processor and the lengths of its texts.
        extraction: the stage that shortens documents before the model reads them; None if there is none.
        description: the description of the run, see `describe`.
    """

    arguments: RunArguments
    scorer: Scorer | None
    corpus: datasets.DatasetDict
    run_model: RunModel
    extraction: Extraction | None
    description: Description

    @property
    def writes(self) -> bool:
        """Whether this process writes to the output folder: the first process, if there is a folder."""
        training = self.arguments.training
        return training.has_output_dir and training.process_index == 0


def run(
    arguments: RunArguments, argv: Sequence[str] = (), on_start: Callable[[], object] | None = None
) -> dict[str, float]:
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
    paths: list[Path] = []
    for split in arguments.corpus.files:
        paths.extend(arguments.corpus.paths(split))
    # The description has hashes of the files, so the files must not change between the reading and the description.
    with hashes_while_read(paths):
        setup = _set_up(arguments, argv)
    lock = locked(arguments.training.output_dir) if setup.writes else nullcontext()
    with lock:
        return _run_steps(setup, on_start)


def _set_up(arguments: RunArguments, argv: Sequence[str]) -> _Setup:
    """Check the settings of a run, read its corpus, and build its model.

    Args:
        argv: the command line of the arguments.
    """
    training, data, model_arguments = arguments.training, arguments.data, arguments.model
    _set_up_logging(training)
    _check_steps(arguments)
    _use_one_gpu(training)
    if training.do_train:
        # this raises a ValueError if training cannot resume from the checkpoint of --resume_from_checkpoint
        named_checkpoint(training)
    _set_threads()
    scorer = None
    if training.do_eval or training.do_predict:
        scorer = Scorer(training.metrics, training.rouge_mode, data.language, training.several_references)
    with training.main_process_first(desc="loading the corpus"):
        corpus = load(
            arguments.corpus, model_arguments.cache_dir, model_arguments.token, model_arguments.trust_remote_code
        )
        corpus = choose_splits(corpus, data, training)
    set_seed(training.seed)
    run_model = build(model_arguments, arguments.lora, data, arguments.generation, training.do_train)
    if training.push_to_hub:
        _check_base_is_shared(run_model.model)
    if training.do_train:
        check_optimization(run_model.model, training)
    extraction = load_extraction(data, model_arguments, run_model.processor, corpus)
    description = describe(arguments, argv, corpus, run_model, extraction)
    return _Setup(arguments, scorer, corpus, run_model, extraction, description)


def _run_steps(setup: _Setup, on_start: Callable[[], object] | None) -> dict[str, float]:
    """Run the requested steps that are not complete, and return the metrics of all requested steps.

    Args:
        setup: what the run works with.
        on_start: called before the first long step, unless it is None.
    """
    arguments, training = setup.arguments, setup.arguments.training
    ledger = Ledger(training.output_dir)
    resumption = find_resumption(training, ledger, setup.description)
    if on_start is not None:
        on_start()
    requested_steps = [step for step in ("train", "eval", "predict") if getattr(training, f"do_{step}")]
    remaining_steps = []
    for step in requested_steps:
        if not (resumption.is_trained and ledger.is_finished(step, setup.description)):
            remaining_steps.append(step)
    if not remaining_steps and not training.push_to_hub:
        logger.info(f"{training.output_dir} already has the results of this command: remove it to start over")
        return ledger.results(*requested_steps)

    if resumption.is_trained:
        # The remaining steps use the trained model in place of the model at the start, but decode with the settings of
        # this command. The folder may have settings of an earlier command that this one does not give.
        decoding = setup.run_model.model.generation_config
        saved = trained_model(arguments.model, training.output_dir)
        setup.run_model = build(
            saved, LoraArguments(), arguments.data, arguments.generation, training.do_train, decoding
        )
    with training.main_process_first(desc="preparing the corpus"):
        _shorten(setup)
        prepared = prepare_splits(
            setup.corpus, setup.run_model, arguments.data, arguments.model.cache_dir, _scores_by_documents(setup)
        )
    trainer = make_trainer(setup.run_model, arguments.data, training, setup.scorer, prepared)
    if setup.writes:
        if training.do_train and named_checkpoint(training) == NO_CHECKPOINT:
            _remove_checkpoints(training.output_dir)
        ledger.begin(remaining_steps, setup.description)

    steps = _Steps(setup, prepared, trainer, ledger)
    metrics: dict[str, float] = {}
    for step in requested_steps:
        if step == "train":
            # a complete training is not repeated: its state is loaded, which log entries and the model card show
            metrics |= steps.train(resumption)
        elif step not in remaining_steps:
            metrics |= ledger.results(step)
        elif step == "eval":
            metrics |= steps.evaluate()
        else:
            metrics |= steps.predict()
    if training.do_train:
        steps.publish(metrics)
    return metrics


def _shorten(setup: _Setup) -> None:
    """Put the shortened documents in place of the whole ones in `setup.corpus`, if there is an extractive stage."""
    if setup.extraction is None:
        return
    data, cache_dir = setup.arguments.data, setup.arguments.model.cache_dir
    for split, rows in list(setup.corpus.items()):
        setup.corpus[split] = setup.extraction.apply(rows, split, setup.run_model.processor, data, cache_dir)


def _scores_by_documents(setup: _Setup) -> bool:
    """Whether scoring needs the documents: for a metric, or as only they spell words or the case of summaries."""
    if setup.scorer is None:
        return False
    replaces_unknown = bool(getattr(setup.run_model.model.generation_config, "replace_unk", None))
    points_to_words = bool(getattr(setup.run_model.processor, "unknown_ids", 0))
    restores_case = bool(getattr(setup.run_model.processor, "restore_case", False))
    is_decoded_by_documents = (
        replaces_unknown or points_to_words or restores_case or chooses_sentences(setup.run_model.model)
    )
    return setup.scorer.needs_documents or is_decoded_by_documents


def _remove_checkpoints(folder: str) -> None:
    """Remove the checkpoints of an earlier run, from which this run would later resume."""
    for _, checkpoint in checkpoint_folders(folder):
        logger.info(f"{checkpoint} is removed, because this run starts over")
        shutil.rmtree(checkpoint)


@dataclass
class _Steps:
    """The steps of a run, each of which returns its metrics.

    Args:
        setup: what the run works with.
        prepared: the rows of each split as the model reads them.
        trainer: trains, evaluates and predicts.
        ledger: the ledger of the output folder, to which each step adds its results.
    """

    setup: _Setup
    prepared: Mapping[str, datasets.Dataset]
    trainer: SummarizationTrainer
    ledger: Ledger

    def train(self, resumption: Resumption) -> dict[str, float]:
        """Train, or resume the training; if training is complete already, load its state and its metrics.

        Args:
            resumption: the checkpoint from which training resumes, if any, and whether training is complete.

        Raises:
            ValueError: the training documents suffice for no update.
        """
        trainer, training, model = self.trainer, self.trainer.args, self.trainer.model
        if resumption.is_trained:
            return self._load_training()
        # The config names the extractive stage of the model's training. A checkpoint at the start of the run has the
        # stage of its earlier training there, which this run replaces or removes.
        vars(model.config).pop("extraction", None)
        extraction = self.setup.extraction
        if extraction is not None and "train" in extraction.splits:
            model.config.extraction = extraction.settings
        if resumption.checkpoint is not None:
            logger.info(f"resuming from {resumption.checkpoint}")
        lora = ""
        if is_adapted(model):
            lora = f", of which LoRA's {model.num_parameters(only_trainable=True):,} are trained"
        logger.info(f"model: {model.num_parameters():,} parameters{lora}")
        if training.bf16 and training.device.type == "cpu":
            logger.info("training computes in bfloat16: --bf16 false trains in float32")
        output = trainer.train(resume_from_checkpoint=resumption.checkpoint)
        if not trainer.state.global_step:
            raise ValueError(
                "no update was made, because the training documents fill no batch: omit "
                "--dataloader_drop_last, or lower --per_device_train_batch_size or --gradient_accumulation_steps"
            )
        trainer.save_model()
        trainer.save_state()
        return self._finish("train", output.metrics, self._training_samples())

    def _load_training(self) -> dict[str, float]:
        """Load the state of a training that is complete, and return the metrics of the training."""
        folder = self.trainer.args.output_dir
        logger.info(f"{folder} is already trained: only the remaining steps are run")
        self.trainer.state = TrainerState.load_from_json(str(Path(folder, TRAINER_STATE_NAME)))
        # training does the same: decoding has the tokenizer's special tokens
        align_special_tokens(self.trainer.model, self.trainer.processing_class)
        if self.trainer.is_world_process_zero():
            # the model is evaluated with the settings of this command, so they are saved too
            self.trainer.model.generation_config.save_pretrained(folder)
        return self.ledger.results("train")

    def _training_samples(self) -> int:
        """The number of training examples; of a stream, which has no length, the number of examples in all updates."""
        trainer, training = self.trainer, self.trainer.args
        if not isinstance(trainer.train_dataset, datasets.IterableDataset):
            return len(trainer.train_dataset)
        batches = trainer.state.global_step * training.gradient_accumulation_steps
        return batches * training.train_batch_size * training.world_size

    def evaluate(self) -> dict[str, float]:
        """Evaluate the model on the validation split."""
        metrics = self.trainer.evaluate()
        return self._finish("eval", metrics, len(self.prepared["validation"]))

    def predict(self) -> dict[str, float]:
        """Summarize the test split, write and print the summaries, and compare them with LEAD."""
        trainer, training, scorer = self.trainer, self.trainer.args, self.setup.scorer
        assert scorer is not None
        rows = self.setup.corpus["test"]
        output = trainer.predict(self.prepared["test"], metric_key_prefix="predict")
        metrics = output.metrics
        if training.lead_sentences is not None:
            for name, value in reports.lead_metrics(rows, training.lead_sentences, scorer).items():
                metrics[f"predict_{name}"] = value
        if output.predictions is None:
            trainer.log_metrics("predict", metrics)
        else:
            summaries = reports.decode(
                trainer.processing_class,
                output.predictions,
                rows[:],
                self.setup.arguments.data.source_prefix,
                chooses_sentences(trainer.model),
            )
            metrics |= self._report(summaries, metrics)
        return self._finish("predict", metrics, len(self.prepared["test"]))

    def _report(self, summaries: Sequence[str], metrics: dict[str, float]) -> dict[str, float]:
        """Write and print the summaries of the test split and their scores.

        Args:
            summaries: one summary for each row of the split.
            metrics: the metrics of the prediction.

        Returns:
            The bounds of the intervals of the scores, as further metrics.
        """
        trainer, training, scorer = self.trainer, self.trainer.args, self.setup.scorer
        assert scorer is not None
        rows = self.setup.corpus["test"]
        references = reference_texts(rows)
        documents = reports.as_documents(rows[source_column(rows.column_names)])
        bounds = {}
        for name, value in scorer.intervals(summaries, references, documents).items():
            bounds[f"predict_{name}"] = value
        if trainer.is_world_process_zero():
            row_losses = trainer.row_values or [{}] * len(summaries)
            row_scores = scorer.row_scores(summaries, references, documents)
            values = [{**losses, **scores} for losses, scores in zip(row_losses, row_scores, strict=True)]
            reports.write_predictions(training.output_dir, rows, summaries, values)
            if training.show_summaries:
                print(reports.samples(rows, summaries, training.show_summaries), end="\n\n")
            print(reports.comparison(metrics | bounds, training.lead_sentences, scorer, len(rows)))
            print(f"all scores in {Path(training.output_dir, 'predict_results.json')}", flush=True)
        return bounds

    def publish(self, metrics: Mapping[str, float]) -> None:
        """Write the model card, push the trained model if that is requested, and print the names of the model."""
        setup, trainer = self.setup, self.trainer
        source_length = setup.run_model.lengths.source
        card = make_card(trainer, setup.arguments, setup.corpus, source_length, metrics, setup.scorer)
        if trainer.args.push_to_hub:
            trainer.push_to_hub(card=card)
        else:
            trainer.create_model_card(card=card)
        if trainer.args.process_index == 0:
            _print_names(trainer)

    def _finish(self, step: str, metrics: dict[str, float], samples: int) -> dict[str, float]:
        """Write a step's metrics as its results, and log them, except for "predict", which has logged or printed them.

        Args:
            step: "train", "eval" or "predict".
            metrics: the metrics that the step has computed.
            samples: the number of the step's examples, which is added to the metrics.

        Returns:
            All metrics of the step.
        """
        metrics = metrics | {f"{step}_samples": samples}
        if step != "predict":
            self.trainer.log_metrics(step, metrics)
        if self.trainer.is_world_process_zero() and self.trainer.args.has_output_dir:
            self.ledger.finish(step, metrics)
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
    """Show log messages with their times.

    Our messages are shown from INFO on in the process that logs, and from ERROR on in others. Messages of datasets and
    transformers are shown from the level of `--log_level` on, in replicas from `--log_level_replica` on.
    """
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
    """Raise a ValueError if no step is requested, or the results cannot be saved, or a flag does not allow a stream."""
    training = arguments.training
    if not (training.do_train or training.do_eval or training.do_predict):
        raise ValueError("nothing to do: give --do_train, --do_eval or --do_predict")
    if (training.do_train or training.do_predict) and not training.has_output_dir:
        raise ValueError("training and prediction need --output_dir, a folder for the model and the results")
    if arguments.corpus.streaming:
        for name in ("train_tokens_per_batch", "min_coverage", "extract_share", "extract_tokens"):
            if getattr(training, name, None) or getattr(arguments.data, name, None):
                raise ValueError(f"--streaming: cannot be combined with --{name}, which reads all rows before training")


def _use_one_gpu(training: SummarizationTrainingArguments) -> None:
    """Let this process use one of its GPUs, and log a warning if it has several: transformers would use all of them."""
    if training.n_gpu > 1:
        logger.warning(f"only 1 of {training.n_gpu} GPUs is used: start with `accelerate launch` to use them all")
        training._n_gpu = 1


def _check_base_is_shared(model: Any) -> None:
    """Raise a ValueError if the model is an adapter of a local folder, which other machines do not have."""
    if not is_adapted(model):
        return
    base = model.active_peft_config.base_model_name_or_path
    if Path(base).exists():
        raise ValueError(
            f"--push_to_hub: an adapter of the local folder {base} cannot be loaded elsewhere: push that model first, "
            "and train an adapter of it by its name on the Hub"
        )


def end_processes() -> None:
    """Destroy the process group; otherwise processes may abort at interpreter exit."""
    gc.collect()
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
