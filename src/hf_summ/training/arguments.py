"""The arguments of a run: dataclasses of flags, each with its help and what it affects."""

import dataclasses
import os
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from transformers import Seq2SeqTrainingArguments
from transformers.integrations import is_tensorboard_available

from hf_summ.checkpoints.decoding import decoding_flags, extraction_flags
from hf_summ.checkpoints.loading import ModelArguments
from hf_summ.common.files import check_is_local
from hf_summ.common.flags import Flag, flag, given_settings
from hf_summ.common.messages import nearest, one_line
from hf_summ.data.corpora import Corpus
from hf_summ.evaluation.measures import MEASURES, falling_scores, names_of_metrics, parse_metrics
from hf_summ.evaluation.rouge import ROUGE_MODES
from hf_summ.models.checks import NOT_NEGATIVE, Range
from hf_summ.models.text_documents import readable
from hf_summ.runtimes.settings import SETTINGS
from hf_summ.training.checks import (
    AT_LEAST_ONE,
    COUNT,
    EVALUATES,
    FRACTION,
    INHERITED,
    POSITIVE,
    check_devices,
    check_inherited,
    parse_learning_rates,
)

# the values of flags by name; None means that a flag is not given, or that another setting removes it
FlagValues = dict[str, Any]

_SHARE = Range(0, 1, excludes_least=True)
# a target has at least one token besides the end token, and at most as many tokens as can be generated
_TARGET_LENGTH = Range(2, SETTINGS["max_new_tokens"].range.most)
# flags of the extractive stage without effect, unless `extract_share` or `extract_tokens` applies the stage
OF_EXTRACTION = ("extract_idf", "next_sentence_model", "extract_splits")


@dataclass
class LoraArguments:
    """LoRA (Hu et al. 2021): low-rank matrices are trained, and the model's weights are frozen."""

    lora_r: int | None = flag(
        "model updates", "Rank of LoRA's matrices", unset="no LoRA; all weights are trained", range=COUNT
    )
    lora_alpha: float | None = flag(
        "model updates",
        "LoRA's alpha; its updates are scaled by lora_alpha / lora_r",
        unset="twice lora_r",
        range=POSITIVE,
        needs=("lora_r",),
    )
    lora_dropout: float | None = flag(
        "training updates",
        "Dropout rate of the inputs of LoRA's matrices",
        unset="0",
        range=FRACTION,
        needs=("lora_r",),
    )
    lora_target_modules: list[str] | None = flag(
        "model updates",
        "Linear layers to adapt, by the ends of their names",
        unset="the architecture's: the query and value projections",
        needs=("lora_r",),
        nargs="+",
    )


# the classes that these functions make are Any, because type checkers do not know them
_Extraction: Any = extraction_flags()
_DecodingFlags: Any = decoding_flags("the model's")


@dataclass
class DataArguments(_Extraction):
    """How the corpus is truncated and prepared."""

    max_source_length: int | None = flag(
        "training decoding",
        "Maximum number of tokens of a document; longer ones are truncated",
        unset="the processor's, or 1024",
        range=Range(2, 10**7),
    )
    max_target_length: int | None = flag(
        "training decoding",
        "Maximum number of tokens of a training summary; longer ones are truncated",
        unset="the processor's, or 128",
        range=_TARGET_LENGTH,
    )
    val_max_target_length: int | None = flag(
        "training decoding",
        "Maximum number of tokens of a summary in validation and test, of the reference and of the generated one",
        unset="max_target_length",
        range=_TARGET_LENGTH,
    )
    min_coverage: float | None = flag(
        "training updates",
        "Train only on rows whose document contains at least this share of the summary's words, as a model can only "
        "guess the remaining words",
        unset="all rows",
        range=_SHARE,
    )
    restore_case: bool | None = flag(
        "training decoding",
        "Spell and join the words of summaries as their documents do, for a vocabulary in lower case; it is saved in "
        "the processor",
        unset="the processor's",
    )
    max_train_samples: int | None = flag(
        "training updates", "Train only on the first n documents", unset="all", range=AT_LEAST_ONE
    )
    max_eval_samples: int | None = flag(
        "training", "Validate only on the first n documents", unset="all", range=AT_LEAST_ONE
    )
    max_predict_samples: int | None = flag(
        "decoding", "Predict only the first n documents", unset="all", range=AT_LEAST_ONE
    )
    source_prefix: str = flag(
        "training decoding updates",
        "Text to put before each document, as for T5; it is saved in the checkpoint, and the pipeline adds it too",
        default="",
        unset="none",
    )
    ignore_pad_token_for_loss: bool = flag("training decoding updates", "Exclude padding from the loss", default=True)
    pad_to_max_length: bool = flag("training decoding updates", "Pad all batches to the maximum lengths", default=False)
    preprocessing_num_workers: int | None = flag(
        "reporting decoding", "Number of processes that prepare the data", unset="1", range=Range(1, 1024)
    )
    overwrite_cache: bool = flag("reporting decoding", "Ignore cached data and prepare it again", default=False)
    language: str = flag(
        "training decoding updates",
        "ISO 639 code of the texts' language; metrics and the extractive stage split words and sentences by its rules, "
        "and the model card names it",
        unset="the rules of en, and none in the card",
    )
    lang: str | None = flag(
        "training decoding updates",
        "Code of the language in the tokenizer of a multilingual model, such as ro_RO for mBART",
        unset="the tokenizer's",
    )
    target_lang: str | None = flag(
        "training decoding updates",
        "Code of the summaries' language in that tokenizer, if it is not the documents' language",
        unset="lang",
    )
    extract_splits: typing.Literal["train", "test", "both"] | None = flag(
        "training decoding updates",
        "Splits whose documents the extractive stage shortens: train, test (with validation), or both",
        unset="both",
        needs=("extract_share", "extract_tokens"),
    )

    def __post_init__(self):
        """Set the default language, and record whether a language is given."""
        self.language_is_given = self.language is not None
        self.language = self.language or "en"


@dataclass
class GenerationArguments(_DecodingFlags):
    """How summaries are decoded; the given settings are written to generation_config.json.

    They affect training too, because checkpoints are chosen by their summaries and saved with these settings.
    """

    def given(self) -> FlagValues:
        """The settings that are not None."""
        return given_settings(dataclasses.asdict(self))


@dataclass
class SummarizationTrainingArguments(Seq2SeqTrainingArguments):
    """transformers' flags, some with other defaults, and further flags for summarization."""

    predict_with_generate: bool = flag("training", "Generate summaries and score them", default=True)
    report_to: list[str] | None = flag(
        "reporting", "Integrations that log the run", unset="tensorboard if installed, otherwise none"
    )
    bf16: bool | None = flag(
        "training decoding updates",
        "Compute in bfloat16 what autocast allows, with weights in float32",
        unset="off; on for training on a CPU with AVX512-BF16, unless accelerate sets a precision",
    )
    restore_callback_states_from_checkpoint: bool = flag(
        "training", "Restore the count of early stopping when resuming", default=True
    )
    logging_nan_inf_filter: bool = flag(
        "training", "Omit losses that are not finite from the log; they stop the run all the same", default=False
    )
    metrics: list[str] = flag(
        "training",
        f"Metrics of the generated summaries: one or more of {names_of_metrics()}",
        default=["rouge", "support"],
        needs=("predict_with_generate",),
    )
    rouge_mode: typing.Literal["rouge_score", "rouge155"] = flag(
        "training",
        "ROUGE as computed by Google's rouge-score or by the Perl script ROUGE-1.5.5",
        default="rouge_score",
        needs=("metrics=rouge",),
    )
    several_references: typing.Literal["best", "pooled"] | None = flag(
        "training",
        "ROUGE with several references: the best score, or matches pooled over references",
        unset="best with rouge_score, pooled with rouge155",
        needs=("metrics=rouge",),
    )
    loss_reduction: typing.Literal["tokens", "documents", "document_means"] = flag(
        "training updates",
        "Reduction of an update's training loss: the sum over target tokens, divided by the number of target tokens "
        "(tokens) or of documents (documents); or the mean over each summary's tokens, then over documents "
        "(document_means)",
        default="tokens",
    )
    reward_samples: int | None = flag(
        "training updates",
        "Number of summaries to sample for each document of a batch; training makes samples with a higher ROUGE more "
        "probable; for a model that already summarizes",
        unset="no sampling",
        range=Range(2, 1000),
    )
    reward_share: float = flag(
        "training updates",
        "Weight of the loss of the samples in the training loss; the rest is the weight of the cross-entropy",
        default=0.99,
        range=_SHARE,
        needs=("reward_samples",),
    )
    reward_temperature: float = flag(
        "training updates",
        "Temperature of the sampling",
        default=0.8,
        range=SETTINGS["temperature"].range,
        needs=("reward_samples",),
    )
    optimizer: typing.Literal["adam", "adamw", "adadelta"] | None = flag(
        "training updates",
        "Optimizer: adam (weight decay in the gradient), adamw (decoupled decay, like fairseq's adam) or adadelta",
        unset="transformers' --optim",
    )
    adadelta_rho: float = flag(
        "training updates", "Decay rate of Adadelta", default=0.95, range=FRACTION, needs=("optimizer=adadelta",)
    )
    adagrad_accumulator: float = flag(
        "training updates",
        "Initial value of Adagrad's accumulators; at 0, the first update moves each weight by the learning rate",
        default=0.0,
        range=NOT_NEGATIVE,
        needs=("optim=adagrad",),
    )
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
        "training updates",
        "Number of updates between restarts of the cosine schedule",
        unset="no restarts",
        range=AT_LEAST_ONE,
        needs=("schedule=cosine",),
    )
    minimum_learning_rate: float = flag(
        "training updates",
        "Lowest learning rate of the cosine schedule",
        default=0.0,
        range=NOT_NEGATIVE,
        needs=("schedule=cosine",),
    )
    noam_scale: float = flag(
        "training updates",
        "Factor of the Noam schedule; learning_rate is ignored with it",
        default=1.0,
        range=POSITIVE,
        needs=("schedule=noam",),
    )
    max_grad_value: float | None = flag(
        "training updates",
        "Magnitude to which the gradient's elements are clipped",
        unset="no clipping",
        range=POSITIVE,
    )
    train_tokens_per_batch: int | None = flag(
        "training updates",
        "Maximum number of source and target tokens, including padding, in a device's batch",
        unset="batches of per_device_train_batch_size examples",
        range=AT_LEAST_ONE,
    )
    eval_tokens_per_batch: int | None = flag(
        "training decoding",
        "Maximum number of source and target tokens, including padding, in a device's batch of evaluation or "
        "prediction",
        unset="batches of per_device_eval_batch_size examples",
        range=AT_LEAST_ONE,
    )
    early_stopping_patience: int | None = flag(
        "training updates",
        "Stop after this number of evaluations without a better metric_for_best_model, counted after warm-up",
        unset="never",
        range=AT_LEAST_ONE,
        needs=EVALUATES,
    )
    lead_sentences: int | None = flag(
        "reporting", "Also score the LEAD baseline of the first n sentences", unset="off", range=AT_LEAST_ONE
    )
    quick: int | None = flag(
        "training",
        "Number of updates of a short run; the schedule of a settings file, and its steps between evaluations and "
        "checkpoints, are replaced by ones for a run of this length; flags take precedence",
        unset="the run that the settings describe",
        range=AT_LEAST_ONE,
    )
    show_summaries: int = flag(
        "reporting", "Number of summaries to print at the end, with their references", default=0, range=NOT_NEGATIVE
    )
    license: str | None = flag(
        "reporting",
        "License of the trained model for its card, as a Hub identifier such as apache-2.0",
        unset="none in the card",
    )

    def __post_init__(self):
        """Check the flags, and set those whose defaults depend on other flags or on the machine.

        Raises:
            ValueError: a flag is invalid, or not supported.
            ImportError: a flag needs a library that is not installed.
        """
        self.has_output_dir = self.output_dir is not None
        if not self.has_output_dir:
            # a run that only evaluates writes nothing
            self.output_dir = "."
            self.report_to = ["none"]
        elif readable(self.output_dir) != self.output_dir:
            # tokenizers could not be saved to such a folder after the training
            raise ValueError(f"--output_dir {one_line(readable(self.output_dir))}: its name is not UTF-8; give another")
        check_is_local("--output_dir", self.output_dir)
        if self.report_to is None:
            self.report_to = ["tensorboard" if is_tensorboard_available() else "none"]
        check_inherited(self)
        parse_learning_rates(self.learning_rates)
        self._resolve_best_metric()
        try:
            super().__post_init__()
        except Exception as error:
            # transformers' checks raise errors of many types, with multi-line messages
            raise ValueError(one_line(error)) from error
        self._resolve_precision()
        if self.device.type == "cpu":
            # transformers does this for `use_cpu` alone, and torch would warn
            self.dataloader_pin_memory = False
        check_devices(self)

    def _resolve_precision(self):
        """Set `mixed_precision` to bfloat16 where that is the default, and let `bf16` and `fp16` agree with it."""
        is_unset = self.bf16 is None and not self.fp16 and "ACCELERATE_MIXED_PRECISION" not in os.environ
        if is_unset and self.do_train and self.device.type == "cpu" and torch.cpu._is_avx512_bf16_supported():
            # bfloat16 allows so many more updates in the same time that ROUGE is better (docs/speed.md)
            self.mixed_precision = "bf16"
        # if `accelerate launch` sets the precision, the run is recorded and padded as with the flags
        precision = self.mixed_precision
        self.bf16 = precision == "bf16"
        self.fp16 = precision == "fp16"

    def _resolve_best_metric(self):
        """Set `metric_for_best_model` and `greater_is_better`, if they are needed and not given.

        Raises:
            ValueError: the metric is a score that the run does not compute, or is similar to the name of a score.
        """
        metrics: Mapping[str, str] = {}
        if self.predict_with_generate:
            metrics = parse_metrics(self.metrics)
        if self.early_stopping_patience is not None:
            self.load_best_model_at_end = True
        if self.load_best_model_at_end and self.metric_for_best_model is None:
            if "rouge" in metrics:
                self.metric_for_best_model = "rouge2"
            elif "bleu" in metrics:
                self.metric_for_best_model = "bleu"
            else:
                self.metric_for_best_model = "loss"
        if self.metric_for_best_model is None:
            return
        name = self.metric_for_best_model.removeprefix("eval_")
        computed = ["loss"]
        for metric in metrics:
            computed.extend(MEASURES[metric].scores(self.rouge_mode))
        if name in _all_scores() and name not in computed:
            raise ValueError(
                f"--metric_for_best_model {self.metric_for_best_model}: not computed with these --metrics, "
                f"--rouge_mode and --predict_with_generate: choose from {', '.join(computed)}"
            )
        # any other name may be a component of the model's loss, unless it is almost a known name
        known = ["gen_len", *falling_scores(), *computed]
        if name not in known:
            hint = nearest(name, known, cutoff=0.8)
            if hint:
                raise ValueError(f"--metric_for_best_model {self.metric_for_best_model}: unknown metric{hint}")
        # transformers would assume that a higher value is better for every metric except the loss
        if self.greater_is_better is None and name in falling_scores():
            self.greater_is_better = False


def _all_scores() -> set[str]:
    """The names of all scores that some run can compute."""
    scores: set[str] = set()
    for measure in MEASURES.values():
        for mode in ROUGE_MODES:
            scores.update(measure.scores(mode))
    return scores


@dataclass
class RunArguments:
    """All arguments of a run.

    Args:
        given: the settings that the user gave; in place of `quick`, those of the short run.
    """

    model: ModelArguments
    lora: LoraArguments
    corpus: Corpus
    data: DataArguments
    generation: GenerationArguments
    training: SummarizationTrainingArguments
    given: FlagValues


# all groups of flags, in the order of the fields of `RunArguments`
GROUPS = (ModelArguments, LoraArguments, Corpus, DataArguments, GenerationArguments, SummarizationTrainingArguments)


def _flags_by_name() -> dict[str, Flag]:
    """Name of each flag -> its declaration.

    A field of ours contains its declaration. The declaration of a field of transformers is in `INHERITED`, or is empty
    if it is not there, and gets the default of the field. Fields without `init` are not flags.
    """
    flags = {}
    for group in GROUPS:
        for field in dataclasses.fields(group):
            if not field.init:
                continue
            declaration = field.metadata.get("flag")
            if declaration is None:
                inherited = INHERITED.get(field.name, Flag())
                declaration = dataclasses.replace(inherited, default=field.default)
            flags[field.name] = declaration
    return flags


def _repeatable_flags() -> set[str]:
    """The names of the flags that may be given several times, and then have a list of all their values."""
    names = set()
    for group in GROUPS:
        for field in dataclasses.fields(group):
            if "action" in field.metadata:
                names.add(field.name)
    return names


FLAGS: Mapping[str, Flag] = _flags_by_name()
REPEATABLE = _repeatable_flags()


def flags_of(*effects: str) -> frozenset[str]:
    """The names of the flags with any of these effects, see `EFFECTS` of `common/flags.py`."""
    names = set()
    for name, declaration in FLAGS.items():
        if not set(effects).isdisjoint(declaration.effects.split()):
            names.add(name)
    return frozenset(names)
