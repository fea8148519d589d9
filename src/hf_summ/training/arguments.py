"""The arguments of a run: dataclasses of flags, each with its help and what it affects."""

import dataclasses
import functools
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from accelerate.utils import DynamoBackend
from transformers import Seq2SeqTrainingArguments
from transformers.integrations import is_tensorboard_available
from transformers.integrations.integration_utils import (
    INTEGRATION_TO_CALLBACK,
    get_available_reporting_integrations,
)
from transformers.training_args import ParallelMode
from transformers.utils import is_liger_kernel_available

from hf_summ.checkpoints.loading import ModelArguments
from hf_summ.common.flags import flag
from hf_summ.common.messages import nearest, one_line, unknown_choice
from hf_summ.data.corpora import Corpus
from hf_summ.evaluation.measures import FALLING, MEASURES, NAMED, check_metrics
from hf_summ.evaluation.rouge import ROUGE_MODES
from hf_summ.models.checks import SETTINGS
from hf_summ.models.text_documents import readable
from hf_summ.training.checks import check_bounds, check_license, check_parallelism
from hf_summ.training.optimization import parse_learning_rates

# flags that need `extract_share` or `extract_tokens`
OF_EXTRACTION = ("extract_idf", "next_sentence_model", "extract_splits")


def _extraction_flag(help: str, unset: str) -> Any:
    """A flag of the extractive stage, which affects the texts of training and of decoding."""
    return flag("training decoding updates", help, unset=unset)


@dataclass
class LoraArguments:
    """LoRA (Hu et al. 2021): low-rank matrices are trained, and the model's weights are frozen."""

    lora_r: int | None = flag("model updates", "Rank of LoRA's matrices", unset="no LoRA; all weights are trained")
    lora_alpha: float | None = flag(
        "model updates", "LoRA's alpha; its updates are scaled by lora_alpha / lora_r", unset="twice lora_r"
    )
    lora_dropout: float | None = flag("training updates", "Dropout rate of the inputs of LoRA's matrices", unset="0")
    lora_target_modules: list[str] | None = flag(
        "model updates",
        "Linear layers to adapt, by the ends of their names",
        unset="the architecture's: the query and value projections",
        nargs="+",
    )

    def __post_init__(self):
        check_bounds(self)


@dataclass
class DataArguments:
    """How the corpus is truncated and prepared."""

    max_source_length: int | None = flag(
        "training decoding",
        "Maximum number of tokens of a document; longer ones are truncated",
        unset="the processor's, or 1024",
    )
    max_target_length: int | None = flag(
        "training decoding",
        "Maximum number of tokens of a training summary; longer ones are truncated",
        unset="the processor's, or 128",
    )
    val_max_target_length: int | None = flag(
        "training decoding",
        "The same for validation and test, and the maximum length of generated summaries",
        unset="max_target_length",
    )
    min_coverage: float | None = flag(
        "training updates",
        "Train only on rows whose document contains at least this share of the summary's words; a model can only guess "
        "the others",
        unset="all rows",
    )
    restore_case: bool | None = flag(
        "training decoding",
        "Spell and join the words of summaries as their documents do, for a vocabulary in lower case; it is saved in "
        "the processor",
        unset="the processor's",
    )
    max_train_samples: int | None = flag("training updates", "Train only on the first n documents", unset="all")
    max_eval_samples: int | None = flag("training", "Validate only on the first n documents", unset="all")
    max_predict_samples: int | None = flag("decoding", "Predict only the first n documents", unset="all")
    source_prefix: str = flag(
        "training decoding updates",
        "Text to put before each document, as for T5; it is saved in the checkpoint, and the pipeline adds it too",
        default="",
        unset="none",
    )
    ignore_pad_token_for_loss: bool = flag("training decoding updates", "Exclude padding from the loss", default=True)
    pad_to_max_length: bool = flag("training decoding updates", "Pad all batches to the maximum lengths", default=False)
    preprocessing_num_workers: int | None = flag(
        "reporting decoding", "Number of processes that prepare the data", unset="1"
    )
    overwrite_cache: bool = flag("reporting decoding", "Ignore cached data and prepare it again", default=False)
    language: str = flag(
        "training decoding",
        "ISO 639 code of the texts' language; metrics and the extractive stage split words and sentences by its rules, "
        "and the model card names it",
        unset="the rules of en, and none in the card",
    )
    extract_share: float | None = _extraction_flag(
        "Share of each document's sentences that the consistent extractive stage keeps", "all"
    )
    extract_tokens: int | None = _extraction_flag(
        "Number of tokens that the stage keeps, instead of extract_share", "all"
    )
    extract_idf: str | None = _extraction_flag(
        "File of document frequencies for the stage, written by `hf-summ idf`", "those within each document"
    )
    next_sentence_model: str | None = _extraction_flag(
        "BERT with a next-sentence head, with which the stage restores sentences: a folder or a Hub repository",
        "no sentences are restored",
    )
    extract_splits: typing.Literal["train", "test", "both"] | None = _extraction_flag(
        "Splits that the stage shortens: train, test (with validation), or both", "both"
    )

    def __post_init__(self):
        check_bounds(self)
        self.language_is_given = self.language is not None
        if not self.language_is_given:
            self.language = "en"
        if self.extract_share is not None and self.extract_tokens is not None:
            raise ValueError("--extract_share and --extract_tokens exclude each other: give only one of them")


# they also affect training: checkpoints are chosen by their summaries, and the settings are saved
_DecodingFlags: Any = dataclasses.make_dataclass(
    "_DecodingFlags",
    [
        (name, setting.kind | None, flag("training decoding", setting.help, unset="the model's"))
        for name, setting in SETTINGS.items()
        if setting.help
    ],
    namespace={"__module__": __name__},
)


@dataclass
class GenerationArguments(_DecodingFlags):
    """How summaries are decoded; the given settings are written to generation_config.json."""

    def __post_init__(self):
        check_bounds(self)

    def given(self) -> dict[str, Any]:
        """The settings that are not None."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}


# transformers' flags that affect the updates of a training run
_OF_UPDATES = (
    *("per_device_train_batch_size", "gradient_accumulation_steps", "num_train_epochs", "max_steps", "data_seed"),
    *("learning_rate", "lr_scheduler_type", "lr_scheduler_kwargs", "warmup_steps", "max_grad_norm", "weight_decay"),
    *("optim", "optim_args", "adam_beta1", "adam_beta2", "adam_epsilon", "label_smoothing_factor"),
    *("train_sampling_strategy", "dataloader_drop_last", "neftune_noise_alpha"),
)


@dataclass
class SummarizationTrainingArguments(Seq2SeqTrainingArguments):
    """transformers' flags, with defaults for summarization, and further flags."""

    # what transformers' flags affect, unless it is training alone
    KINDS: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(_OF_UPDATES, "training updates"),
        **dict.fromkeys(("bf16", "fp16", "seed"), "training decoding updates"),
        **dict.fromkeys(("bf16_full_eval", "fp16_full_eval", "use_cpu"), "training decoding"),
        **dict.fromkeys(("per_device_eval_batch_size",), "training decoding"),
        **dict.fromkeys(("do_train", "do_eval", "do_predict", "output_dir", "run_name"), "reporting"),
        **dict.fromkeys(("logging_steps", "logging_strategy", "log_level", "disable_tqdm"), "reporting"),
        **dict.fromkeys(("save_total_limit", "dataloader_num_workers", "dataloader_pin_memory"), "reporting"),
        **dict.fromkeys(("push_to_hub", "hub_model_id", "resume_from_checkpoint"), "reporting single"),
        "hub_token": "secret",
    }

    predict_with_generate: bool = flag("training", "Generate summaries and score them", default=True)
    report_to: list[str] | None = flag(
        "reporting", "Integrations that log the run", unset="tensorboard if installed, otherwise none"
    )
    accept_changes: bool = flag(
        "reporting single",
        "Resume an interrupted run from its last checkpoint although settings have changed",
        default=False,
    )
    restore_callback_states_from_checkpoint: bool = flag(
        "training", "Restore the count of early stopping when resuming", default=True
    )
    logging_nan_inf_filter: bool = flag(
        "training", "Omit losses that are not finite from the log, instead of stopping the run", default=False
    )
    metrics: list[str] = flag(
        "training",
        f"Metrics of the generated summaries: one or more of {NAMED}",
        default=["rouge", "support"],
    )
    rouge_mode: typing.Literal["rouge_score", "rouge155"] = flag(
        "training",
        "ROUGE as computed by Google's rouge-score or by the Perl script ROUGE-1.5.5",
        default="rouge_score",
    )
    several_references: typing.Literal["best", "mean", "pooled"] | None = flag(
        "training",
        "ROUGE with several references: the best score, the mean over references, or matches pooled over references",
        unset="best with rouge_score, pooled with rouge155",
    )
    loss_reduction: typing.Literal["tokens", "documents"] = flag(
        "training updates",
        "Divisor of an update's summed training loss: its number of target tokens or of documents",
        default="tokens",
    )
    optimizer: typing.Literal["adam", "adamw", "adadelta"] | None = flag(
        "training updates",
        "Optimizer: adam (weight decay in the gradient), adamw (decoupled decay, like fairseq's adam) or adadelta",
        unset="transformers' --optim",
    )
    adadelta_rho: float = flag("training updates", "Decay rate of Adadelta", default=0.95)
    learning_rates: list[str] = flag(
        "training updates",
        "Learning rates of parameters as regex=rate; the last regex that matches a name applies; may be repeated",
        default=[],
        unset="one rate for all",
        action="extend",
    )
    schedule: typing.Literal["noam", "cosine"] | None = flag(
        "training updates", "Learning rate schedule: noam or cosine", unset="transformers' --lr_scheduler_type"
    )
    schedule_period: int | None = flag(
        "training updates", "Number of updates between restarts of the cosine schedule", unset="no restarts"
    )
    minimum_learning_rate: float = flag("training updates", "Lowest learning rate of the cosine schedule", default=0.0)
    noam_scale: float = flag(
        "training updates", "Factor of the Noam schedule; learning_rate is ignored with it", default=1.0
    )
    max_grad_value: float | None = flag(
        "training updates",
        "Magnitude to which the gradient's elements are clipped",
        unset="no clipping",
    )
    train_tokens_per_batch: int | None = flag(
        "training updates",
        "Maximum number of source and target tokens, including padding, in a device's batch",
        unset="batches of per_device_train_batch_size examples",
    )
    eval_tokens_per_batch: int | None = flag(
        "training decoding",
        "The same for evaluation and prediction",
        unset="batches of per_device_eval_batch_size examples",
    )
    early_stopping_patience: int | None = flag(
        "training",
        "Number of evaluations without a better metric_for_best_model, counted after warm-up, after which to stop",
        unset="never",
    )
    early_stopping_threshold: float = flag(
        "training", "Minimum improvement of the metric that counts as better", default=0.0
    )
    lead_sentences: int | None = flag("reporting", "Also score the LEAD baseline of the first n sentences", unset="off")
    show_summaries: int = flag("reporting", "Number of summaries to print at the end, with their references", default=0)
    push_results: bool = flag(
        "reporting single",
        "Push predictions, their references and event files too, with --push_to_hub",
        default=False,
    )
    license: str | None = flag(
        "reporting",
        "License of the trained model for its card, as a Hub identifier such as apache-2.0",
        unset="none in the card",
    )

    def __post_init__(self):
        check_bounds(self)
        check_parallelism(self)
        self.has_output_dir = self.output_dir is not None
        if not self.has_output_dir:
            # a run that only evaluates writes nothing
            self.output_dir, self.report_to = ".", ["none"]
        elif readable(self.output_dir) != self.output_dir:
            # which tokenizers cannot write to, after the training
            raise ValueError(
                f"--output_dir {one_line(readable(self.output_dir))}: its name is not UTF-8; give another one"
            )
        if self.report_to is None:
            self.report_to = ["tensorboard" if is_tensorboard_available() else "none"]
        self._check_libraries()
        if self.license is not None:
            check_license(self.license)
        parse_learning_rates(self.learning_rates)
        if self.optim_args is not None and not all(item.count("=") == 1 for item in self.optim_args.split(",")):
            raise ValueError(f"--optim_args {self.optim_args}: write key=value, with commas between several")
        check_metrics(self.metrics)
        self._resolve_best_metric()
        try:
            super().__post_init__()
        except Exception as error:
            # transformers' checks raise errors of many types, with multi-line messages
            raise ValueError(one_line(error)) from error
        if self.device.type == "cpu":
            # as with `use_cpu`; torch would warn
            self.dataloader_pin_memory = False
        if self.mixed_precision == "fp16" and self.device.type == "cpu":
            # accelerate would silently train in full precision
            raise ValueError("--fp16 needs a GPU: on a CPU, give --bf16 instead, or neither")
        if self.fsdp and self.parallel_mode != ParallelMode.DISTRIBUTED:
            raise ValueError("--fsdp needs several processes: start the run with `accelerate launch`")

    def _check_libraries(self):
        for name in self.report_to or ():
            if name in ("all", "none", *get_available_reporting_integrations()):
                continue
            if name not in INTEGRATION_TO_CALLBACK:
                raise ValueError(unknown_choice("--report_to", name, ("none", *INTEGRATION_TO_CALLBACK)))
            raise ImportError(f"--report_to {name}: needs {name}: pip install {name}, or give --report_to none")
        if self.use_liger_kernel and not is_liger_kernel_available():
            raise ImportError("--use_liger_kernel: needs liger-kernel: pip install liger-kernel")
        backends = [backend.value.lower() for backend in DynamoBackend]
        if self.torch_compile_backend is not None and self.torch_compile_backend.lower() not in backends:
            raise ValueError(unknown_choice("--torch_compile_backend", self.torch_compile_backend, backends))
        if self.torch_compile_mode is not None:
            # imported here: it takes seconds
            from torch._inductor import list_mode_options

            modes = list_mode_options()
            if self.torch_compile_mode not in modes:
                raise ValueError(unknown_choice("--torch_compile_mode", self.torch_compile_mode, modes))
        if isinstance(self.generation_config, str | Path):
            from transformers import Seq2SeqTrainer

            try:
                Seq2SeqTrainer.load_generation_config(self.generation_config)
            except (OSError, ValueError) as error:
                raise ValueError(f"--generation_config {self.generation_config}: {one_line(error)}") from None

    def _resolve_best_metric(self):
        if self.early_stopping_patience is not None:
            self.load_best_model_at_end = True
        if self.load_best_model_at_end and self.metric_for_best_model is None:
            scores = {"rouge": "rouge2", "bleu": "bleu"} if self.predict_with_generate else {}
            self.metric_for_best_model = next((scores[name] for name in scores if name in self.metrics), "loss")
        if self.metric_for_best_model is None:
            return
        self._check_best_metric()
        name = self.metric_for_best_model.removeprefix("eval_")
        # transformers assumes that higher is better for every metric except the loss
        if self.greater_is_better is None and name in FALLING:
            self.greater_is_better = False

    def _check_best_metric(self):
        """Raise a ValueError for a score that the run does not compute, and for a misspelled name."""
        name = self.metric_for_best_model.removeprefix("eval_")
        named = f"--metric_for_best_model {self.metric_for_best_model}"
        scores = {(measure.name, mode): measure.scores(mode) for measure in MEASURES.values() for mode in ROUGE_MODES}
        computing = [way for way, names in scores.items() if name in names]
        if not computing:
            # any other name may be a component of the model's loss
            names = ["loss", "gen_len", *FALLING, *(score for names in scores.values() for score in names)]
            hint = "" if name in names else nearest(name, names, cutoff=0.8)
            if hint:
                raise ValueError(f"{named}: unknown metric{hint}")
            return
        if not self.predict_with_generate:
            raise ValueError(f"{named}: not computed without --predict_with_generate")
        metrics = check_metrics(self.metrics)
        if not any(metric in metrics and mode == self.rouge_mode for metric, mode in computing):
            metric, mode = computing[0]
            added = f"{metric}=MODEL" if MEASURES[metric].needs else metric
            needed = f"--metrics {' '.join(dict.fromkeys([*self.metrics, added]))}"
            raise ValueError(
                f"{named}: not computed; add {needed}{f' --rouge_mode {mode}' if metric == 'rouge' else ''}"
            )


@dataclass
class RunArguments:
    """All arguments of a run."""

    model: ModelArguments
    lora: LoraArguments
    corpus: Corpus
    data: DataArguments
    generation: GenerationArguments
    training: SummarizationTrainingArguments


# all groups of flags, in the order of `RunArguments`
GROUPS = (ModelArguments, LoraArguments, Corpus, DataArguments, GenerationArguments, SummarizationTrainingArguments)


@functools.cache
def flag_kinds() -> Mapping[str, frozenset[str]]:
    """Every flag with its kinds; see `hf_summ.common.flags.KINDS`."""
    theirs = {name: frozenset(kinds.split()) for name, kinds in SummarizationTrainingArguments.KINDS.items()}
    fields = [field for group in GROUPS for field in dataclasses.fields(group) if field.init]
    return {
        field.name: field.metadata.get("kinds") or theirs.get(field.name, frozenset({"training"})) for field in fields
    }


def flags_of(*kinds: str) -> frozenset[str]:
    """The names of the flags of any of these kinds."""
    return frozenset(name for name, found in flag_kinds().items() if found & set(kinds))


@functools.cache
def repeatable() -> frozenset[str]:
    """The names of the flags whose values add up if they are given again."""
    return frozenset(
        field.name for group in GROUPS for field in dataclasses.fields(group) if "action" in field.metadata
    )
