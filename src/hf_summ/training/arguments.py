"""What a run can be told: dataclasses of flags, and `CONFIG.yaml [--flag value ...]` read into them."""

import dataclasses
import json
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import yaml
from transformers import HfArgumentParser, Seq2SeqTrainingArguments
from transformers.integrations import is_tensorboard_available

from hf_summ.common.messages import nearest
from hf_summ.training.scores import FALLING, METRICS, score_names


@dataclass
class ModelArguments:
    """Which model and processor, from a checkpoint or fresh."""

    model_name_or_path: str | None = field(
        default=None, metadata={"help": "Checkpoint to start from: a folder or a Hub repository."}
    )
    model_type: str | None = field(
        default=None, metadata={"help": "Architecture of a model with fresh weights, for example gdlf or bart."}
    )
    config_name: str | None = field(
        default=None, metadata={"help": "Folder or repository whose config.json shapes the fresh model."}
    )
    tokenizer_name: str | None = field(
        default=None, metadata={"help": "Processor or tokenizer: a folder or a Hub repository."}
    )
    config_overrides: list[str] = field(
        default_factory=list,
        metadata={"action": "extend", "help": "Config value as key=JSON, dotted keys allowed; repeatable."},
    )
    cache_dir: str | None = field(default=None, metadata={"help": "Where downloads and prepared data are kept."})
    model_revision: str = field(default="main", metadata={"help": "Branch, tag or commit of the checkpoint."})
    token: str | None = field(default=None, metadata={"help": "Hub token for private repositories."})
    trust_remote_code: bool = field(default=False, metadata={"help": "Run code that comes with a Hub repository."})
    resize_position_embeddings: bool | None = field(
        default=None, metadata={"help": "Enlarge learned positions to max_source_length (unset: do, and say so)."}
    )


@dataclass
class DataArguments:
    """Which corpus, and how it is cut."""

    dataset_name: str | None = field(default=None, metadata={"help": "Data set on the Hub, or a folder."})
    dataset_config_name: str | None = field(default=None, metadata={"help": "Configuration of that data set."})
    train_file: str | None = field(default=None, metadata={"help": "json, jsonl, csv (.gz too) or aligned pair."})
    validation_file: str | None = field(default=None, metadata={"help": "The same, for validation."})
    test_file: str | None = field(default=None, metadata={"help": "The same, for prediction."})
    text_column: str | None = field(default=None, metadata={"help": "Column of the documents (unset: guessed)."})
    summary_column: str | None = field(default=None, metadata={"help": "Column of the summaries (unset: guessed)."})
    data_format: str | None = field(
        default=None,
        metadata={
            "help": "How a data set was distributed: gigaword, lcsts, multi_news, duc, newsroom or cnn_dm; the files "
            "may then be folders (unset: by the file's ending)."
        },
    )
    min_score: int | None = field(
        default=None, metadata={"help": "lcsts: leave out pairs that were scored lower, 1 to 5 (unset: 3)."}
    )
    density_bin: str | None = field(
        default=None, metadata={"help": "newsroom: abstractive, mixed or extractive rows only (unset: all)."}
    )
    max_source_length: int | None = field(
        default=None, metadata={"help": "Source tokens kept (unset: the processor's own, or 1024)."}
    )
    max_target_length: int | None = field(
        default=None, metadata={"help": "Summary tokens kept in training (unset: the processor's own, or 128)."}
    )
    val_max_target_length: int | None = field(
        default=None, metadata={"help": "The same for validation and test, and how long summaries are generated."}
    )
    max_train_samples: int | None = field(default=None, metadata={"help": "Train on the first n documents only."})
    max_eval_samples: int | None = field(default=None, metadata={"help": "Validate on the first n only."})
    max_predict_samples: int | None = field(default=None, metadata={"help": "Predict the first n only."})
    source_prefix: str = field(default="", metadata={"help": "Put before each document, as T5 wants it."})
    ignore_pad_token_for_loss: bool = field(default=True, metadata={"help": "No loss on padding."})
    pad_to_max_length: bool = field(default=False, metadata={"help": "Pad all batches to the maximum lengths."})
    preprocessing_num_workers: int | None = field(default=None, metadata={"help": "Processes that prepare data."})
    overwrite_cache: bool = field(default=False, metadata={"help": "Prepare the data again."})
    language: str = field(
        default="en",
        metadata={"help": "ISO 639 code of the summaries' language, for the metrics' words and sentences."},
    )

    def __post_init__(self):
        _check_at_least(1, self, "max_train_samples", "max_eval_samples", "max_predict_samples")
        # one of the tokens is the end token
        _check_at_least(2, self, "max_source_length", "max_target_length", "val_max_target_length")


@dataclass
class GenerationArguments:
    """How summaries are decoded; what is given is written into generation_config.json."""

    num_beams: int | None = field(default=None, metadata={"help": "Beams (1: greedy)."})
    length_penalty: float | None = field(default=None, metadata={"help": "Score / length ** this; above 0: longer."})
    early_stopping: bool | None = field(default=None, metadata={"help": "Stop at num_beams finished candidates."})
    no_repeat_ngram_size: int | None = field(default=None, metadata={"help": "No n-gram of tokens occurs twice."})
    no_repeat_word_ngram_size: int | None = field(default=None, metadata={"help": "No n-gram of words twice."})
    min_new_tokens: int | None = field(default=None, metadata={"help": "Tokens at least."})
    min_new_words: int | None = field(default=None, metadata={"help": "Words at least."})
    max_new_tokens: int | None = field(default=None, metadata={"help": "Tokens at most."})
    gnmt_length_penalty: float | None = field(default=None, metadata={"help": "Score / ((5 + n) / 6) ** this."})
    coverage_penalty: float | None = field(
        default=None, metadata={"help": "Takes this off a beam's score for each source position copied from twice."}
    )
    lm_rejected_factor: float | None = field(
        default=None, metadata={"help": "What the masked language model finds unlikely is multiplied by this (0 to 1)."}
    )
    lm_accepted_factor: float | None = field(
        default=None, metadata={"help": "What the masked language model finds likely is multiplied by this (from 1)."}
    )
    lm_percentile: float | None = field(default=None, metadata={"help": "Percentile above which it likes a token."})
    lm_top_tokens: int | None = field(default=None, metadata={"help": "How many likeliest tokens it looks at."})
    repetition_penalty: float | None = field(default=None, metadata={"help": "Above 1: repeated tokens are dear."})
    do_sample: bool | None = field(default=None, metadata={"help": "Sample instead of searching."})
    temperature: float | None = field(default=None, metadata={"help": "Sampling temperature."})
    top_k: int | None = field(default=None, metadata={"help": "Sample among the k likeliest."})
    top_p: float | None = field(default=None, metadata={"help": "Sample among those that hold this probability."})

    def __post_init__(self):
        _check_at_least(1, self, "num_beams")
        _check_at_least(
            0, self, "min_new_words", "no_repeat_word_ngram_size", "gnmt_length_penalty", "coverage_penalty"
        )

    def given(self) -> dict[str, Any]:
        """The settings that were given."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}


@dataclass
class SummarizationTrainingArguments(Seq2SeqTrainingArguments):
    """transformers' own flags with defaults that suit summarization, and what is missing there."""

    predict_with_generate: bool = field(default=True, metadata={"help": "Generate summaries and score them."})
    report_to: list[str] | None = field(
        default=None, metadata={"help": "Where to log (unset: tensorboard when installed, else nowhere)."}
    )
    restore_callback_states_from_checkpoint: bool = field(
        default=True, metadata={"help": "Early stopping goes on counting after a resume."}
    )
    logging_nan_inf_filter: bool = field(
        default=False, metadata={"help": "Hide losses that are not finite; off, as such a loss stops the run."}
    )
    metrics: list[str] = field(
        default_factory=lambda: ["rouge"],
        metadata={"help": "Scores of the generated summaries: rouge, bleu, novelty; one or several."},
    )
    rouge_mode: typing.Literal["rouge_score", "rouge155"] = field(
        default="rouge_score",
        metadata={"help": "ROUGE of Google's rouge-score, or as the Perl script ROUGE-1.5.5 computes it."},
    )
    optimizer: typing.Literal["adam", "adadelta"] | None = field(
        default=None, metadata={"help": "adam or adadelta (unset: transformers' --optim)."}
    )
    adadelta_rho: float = field(default=0.95, metadata={"help": "Adadelta's decay."})
    learning_rates: list[str] = field(
        default_factory=list,
        metadata={"action": "extend", "help": "regex=rate: parameters with a rate of their own; the last match wins."},
    )
    schedule: typing.Literal["noam", "cosine"] | None = field(
        default=None, metadata={"help": "noam or cosine (unset: transformers' --lr_scheduler_type)."}
    )
    schedule_period: int | None = field(
        default=None, metadata={"help": "Updates from one cosine restart to the next (unset: all after warm-up)."}
    )
    minimum_learning_rate: float = field(default=0.0, metadata={"help": "Where the cosine schedule comes down to."})
    noam_scale: float = field(default=1.0, metadata={"help": "Factor of the Noam schedule; replaces learning_rate."})
    train_tokens_per_batch: int | None = field(
        default=None,
        metadata={
            "help": "Source + target tokens, padding counted, per device and batch (unset: batches in examples)."
        },
    )
    eval_tokens_per_batch: int | None = field(
        default=None, metadata={"help": "The same for evaluation and prediction."}
    )
    early_stopping_patience: int | None = field(
        default=None, metadata={"help": "Stop after so many evaluations without a better metric_for_best_model."}
    )
    early_stopping_threshold: float = field(default=0.0, metadata={"help": "What counts as better."})
    lead_sentences: int | None = field(
        default=None, metadata={"help": "Score the first n sentences of each document beside the model."}
    )
    show_summaries: int = field(default=0, metadata={"help": "Print n summaries beside their references at the end."})

    def __post_init__(self):
        self.has_output_dir = self.output_dir is not None
        if not self.has_output_dir:
            # an evaluation alone leaves nothing behind
            self.output_dir, self.report_to = ".", ["none"]
        if self.report_to is None:
            self.report_to = ["tensorboard" if is_tensorboard_available() else "none"]
        self._check_metrics()
        self._resolve_best_metric()
        super().__post_init__()
        _check_at_least(1, self, "train_tokens_per_batch", "eval_tokens_per_batch", "schedule_period")
        _check_at_least(1, self, "early_stopping_patience", "lead_sentences")

    def _check_metrics(self):
        for metric in self.metrics:
            if metric not in METRICS:
                hint = nearest(metric, METRICS) or f"; choose of {', '.join(METRICS)}"
                raise ValueError(f"--metrics {metric}: there is no such metric{hint}")

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
        # transformers takes every metric that is not called loss for one where more is better
        if self.greater_is_better is None and name in FALLING:
            self.greater_is_better = False

    def _check_best_metric(self):
        """Raises ValueError for a score that the run does not compute, and for a name that is a slip of the pen."""
        name = self.metric_for_best_model.removeprefix("eval_")
        told = f"--metric_for_best_model {self.metric_for_best_model}"
        ways = [(metric, mode) for metric in METRICS for mode in ("rouge_score", "rouge155")]
        known = ["loss", "gen_len", *FALLING, *(score for way in ways for score in score_names(*way))]
        computing = [way for way in ways if name in score_names(*way)]
        if not computing:
            # any other name may be a part of the model's loss
            hint = "" if name in known else nearest(name, known, cutoff=0.8)
            if hint:
                raise ValueError(f"{told}: there is no such metric{hint}")
            return
        told = f"{told}: is not computed"
        if not self.predict_with_generate:
            raise ValueError(f"{told} without --predict_with_generate")
        if not any(metric in self.metrics and mode == self.rouge_mode for metric, mode in computing):
            metric, mode = computing[0]
            needed = f"--metrics {' '.join(dict.fromkeys([*self.metrics, metric]))}"
            raise ValueError(f"{told}; add {needed}{f' --rouge_mode {mode}' if metric == 'rouge' else ''}")


@dataclass
class RunArguments:
    """All that one run was told."""

    model: ModelArguments
    data: DataArguments
    generation: GenerationArguments
    training: SummarizationTrainingArguments


class _Parser(HfArgumentParser):
    """HfArgumentParser that raises instead of printing the usage of three hundred flags."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def parse_arguments(argv: list[str]) -> RunArguments:
    """Reads `CONFIG.yaml [--flag value ...]`, `CONFIG.json [...]` or flags alone; flags win over the file.

    Flags that name corpus files put aside a data set that the file names, and the other way round.

    Raises:
        ValueError: a file that cannot be read, a key or flag that does not exist (the nearest is named), a wrong value.
    """
    parser = _Parser(
        (ModelArguments, DataArguments, GenerationArguments, SummarizationTrainingArguments),
        prog="run_summarization.py",
        usage="%(prog)s CONFIG.yaml [--flag value ...]",
        allow_abbrev=False,
    )
    flags = [_switched_off(token) for token in argv]
    from_file: list[str] = []
    if flags and not flags[0].startswith("-"):
        path = flags.pop(0)
        from_file = _file_tokens(path, _without_replaced_data(read_config_file(path), flags))
        try:
            parser.parse_known_args(from_file)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
    *parsed, unknown = parser.parse_args_into_dataclasses(
        from_file + flags, return_remaining_strings=True, look_for_args_file=False
    )
    if unknown:
        raise ValueError(_unknown_flags(unknown))
    return RunArguments(*parsed)


def _without_replaced_data(content: dict[str, Any], flags: list[str]) -> dict[str, Any]:
    """A file's entries without those of its data, columns and format included, where flags name other data."""
    given = {flag.removeprefix("--").partition("=")[0].replace("-", "_") for flag in flags}
    files, hub = {"train_file", "validation_file", "test_file"}, {"dataset_name", "dataset_config_name"}
    reading = {"text_column", "summary_column", "data_format", "min_score", "density_bin"}
    replaced: set[str] = set()
    if given & files and content.keys() & hub:
        replaced = hub | reading
    elif "dataset_name" in given:
        replaced = files | hub | reading
    return {key: value for key, value in content.items() if key not in replaced}


def read_config_file(path: str) -> dict[str, Any]:
    """A YAML or JSON mapping of flags.

    Raises:
        ValueError: no such file, another ending, not readable as YAML or JSON, or not a mapping.
    """
    file = Path(path)
    if file.suffix not in (".yaml", ".yml", ".json"):
        raise ValueError(f"{path}: the first argument is a .yaml or .json file; flags start with --")
    try:
        text = file.read_text(encoding="utf-8")
        content = json.loads(text) if file.suffix == ".json" else yaml.safe_load(text)
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror})") from None
    except (yaml.YAMLError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: cannot be read as {file.suffix[1:]}: {error}") from None
    if not isinstance(content, dict) or not content:
        raise ValueError(f"{path}: holds no `key: value` lines")
    return content


def flag_names() -> dict[str, type]:
    """Every flag with its type."""
    groups = (ModelArguments, DataArguments, GenerationArguments, SummarizationTrainingArguments)
    return {
        name: kind
        for group in groups
        for name, kind in typing.get_type_hints(group).items()
        if name in group.__dataclass_fields__ and group.__dataclass_fields__[name].init
    }


def _file_tokens(path: str, content: dict[str, Any]) -> list[str]:
    """The file's entries as command line tokens, so that one parser converts and checks both."""
    kinds = flag_names()
    tokens = []
    for key, value in content.items():
        if key not in kinds:
            raise ValueError(f"{path}: there is no key {key!r}{nearest(str(key), kinds)}")
        if value is None:
            continue
        if key == "config_overrides" and isinstance(value, dict):
            value = [f"{name}={json.dumps(item)}" for name, item in value.items()]
        elif key == "learning_rates" and isinstance(value, dict):
            value = [f"{name}={item}" for name, item in value.items()]
        elif isinstance(value, dict):
            value = json.dumps(value)
        elif isinstance(value, bool) and not _is_boolean(kinds[key]):
            # YAML reads a bare `no` as false, transformers spells "never" as no
            value = "yes" if value else "no"
        if isinstance(value, list):
            if value:
                tokens += [f"--{key}", *map(str, value)]
        else:
            tokens.append(f"--{key}={value}")
    return tokens


def _check_at_least(least: int, arguments: Any, *names: str) -> None:
    for name in names:
        value = getattr(arguments, name)
        if value is not None and value < least:
            raise ValueError(f"--{name} {value}: give a number of at least {least}, or leave it out")


def _switched_off(token: str) -> str:
    """`--no_X` as `--X=false` for every boolean; the parser knows it for those only that are on by default."""
    name = token.replace("-", "_").removeprefix("__no_")
    return f"--{name}=false" if token.startswith("--no") and _is_boolean(flag_names().get(name)) else token


def _is_boolean(kind: Any) -> bool:
    is_union = typing.get_origin(kind) in (typing.Union, types.UnionType)
    return kind is bool or (is_union and bool in typing.get_args(kind))


def _unknown_flags(unknown: list[str]) -> str:
    names = [token for token in unknown if token.startswith("--")]
    if not names:
        return f"{' '.join(unknown)}: belongs to no flag; the file with the settings comes first"
    name = names[0].split("=")[0].lstrip("-").replace("-", "_")
    return f"there is no flag --{name}{nearest(name, flag_names(), prefix='--')}"
