"""transformers' own flags: effects, ranges, conditions, and checks of settings before the long steps of a run."""

import math
import os
import re
from collections.abc import Iterable, Mapping

from accelerate.parallelism_config import ParallelismConfig
from accelerate.utils import DynamoBackend, parse_flag_from_env
from transformers import Seq2SeqTrainingArguments, TrainingArguments
from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK, get_available_reporting_integrations
from transformers.training_args import ParallelMode
from transformers.utils import is_liger_kernel_available

from hf_summ.common.flags import Flag
from hf_summ.common.messages import check_choice
from hf_summ.models.checks import FINITE, Range

# of `--learning_rates`: patterns of names, each with its rate
Rates = list[tuple[str, float]]
# more than any machine or corpus needs
_MAX_COUNT = 10**6
COUNT, AT_LEAST_ONE = Range(1, _MAX_COUNT), Range(1)
POSITIVE, NOT_NEGATIVE, FRACTION = Range(0, FINITE, above=True), Range(0, FINITE), Range(0, 0.999999)
# the model is evaluated during training
EVALUATES = ("eval_strategy=steps", "eval_strategy=epoch")

_UPDATES = "training updates"
_BY_TOKENS, _BY_OPTIMIZER, _BY_SCHEDULE = ("train_tokens_per_batch",), ("optimizer",), ("schedule",)
_WITHOUT_EPSILON = tuple(f"optim={name}" for name in ("adafactor", "sgd", "rmsprop", "adagrad"))
_BETA = Flag(_UPDATES, FRACTION, unless=("optimizer=adadelta", *_WITHOUT_EPSILON))
_SEED, _TO_PUBLISH = Range(0, 2**32 - 1), ("push_to_hub",)
# those without an entry affect the training
INHERITED: Mapping[str, Flag] = {
    "per_device_train_batch_size": Flag(_UPDATES, COUNT, unless=_BY_TOKENS),
    "per_device_eval_batch_size": Flag("training decoding", COUNT, unless=("eval_tokens_per_batch",)),
    "train_sampling_strategy": Flag(_UPDATES, unless=(*_BY_TOKENS, "streaming")),
    "auto_find_batch_size": Flag(unless=_BY_TOKENS),
    "dataloader_drop_last": Flag(_UPDATES, unless=_BY_TOKENS),
    "gradient_accumulation_steps": Flag(_UPDATES, COUNT),
    "max_steps": Flag(_UPDATES, Range(1, 10**12)),
    "num_train_epochs": Flag(_UPDATES, Range(0, _MAX_COUNT, above=True), unless=("max_steps",)),
    "optim": Flag(_UPDATES, unless=_BY_OPTIMIZER),
    "optim_args": Flag(_UPDATES, unless=_BY_OPTIMIZER),
    "adam_beta1": _BETA,
    "adam_beta2": _BETA,
    "adam_epsilon": Flag(_UPDATES, NOT_NEGATIVE, unless=_WITHOUT_EPSILON),
    "learning_rate": Flag(_UPDATES, NOT_NEGATIVE, unless=("schedule=noam",)),
    "lr_scheduler_type": Flag(_UPDATES, unless=_BY_SCHEDULE),
    "lr_scheduler_kwargs": Flag(_UPDATES, unless=_BY_SCHEDULE),
    **dict.fromkeys(("warmup_steps", "weight_decay", "max_grad_norm"), Flag(_UPDATES, NOT_NEGATIVE)),
    "neftune_noise_alpha": Flag(_UPDATES, NOT_NEGATIVE),
    "label_smoothing_factor": Flag(_UPDATES, FRACTION),
    "seed": Flag("training decoding updates", _SEED),
    "data_seed": Flag(_UPDATES, _SEED),
    "fp16": Flag("training decoding updates"),
    **dict.fromkeys(("bf16_full_eval", "fp16_full_eval", "use_cpu"), Flag("training decoding")),
    "generation_max_length": Flag(unless=("max_new_tokens", "val_max_target_length")),
    "generation_num_beams": Flag(unless=("num_beams",)),
    "eval_strategy": Flag(unless=("do_eval=False",)),
    "eval_on_start": Flag(needs=("eval_strategy", "do_eval"), unless=("do_eval=False",)),
    "eval_steps": Flag(range=POSITIVE, needs=("eval_strategy=steps",)),
    "eval_delay": Flag(range=NOT_NEGATIVE, needs=EVALUATES),
    **dict.fromkeys(("load_best_model_at_end", "metric_for_best_model"), Flag(_UPDATES, needs=EVALUATES)),
    "greater_is_better": Flag(
        _UPDATES, needs=("metric_for_best_model", "load_best_model_at_end", "early_stopping_patience")
    ),
    "save_steps": Flag(range=POSITIVE, needs=("save_strategy=steps",)),
    "save_total_limit": Flag("reporting", COUNT),
    "logging_steps": Flag("reporting", POSITIVE, needs=("logging_strategy=steps",)),
    **dict.fromkeys(("do_train", "do_eval", "do_predict", "output_dir", "run_name"), Flag("reporting")),
    **dict.fromkeys(("logging_strategy", "log_level", "disable_tqdm"), Flag("reporting")),
    "dataloader_num_workers": Flag("reporting", Range(0, 1024)),
    "dataloader_pin_memory": Flag("reporting"),
    "dataloader_persistent_workers": Flag(needs=("dataloader_num_workers",)),
    **dict.fromkeys(
        ("dataloader_prefetch_factor", "dataloader_multiprocessing_context"), Flag(needs=("dataloader_num_workers",))
    ),
    **dict.fromkeys(("push_to_hub", "hub_model_id", "resume_from_checkpoint"), Flag("reporting single")),
    **dict.fromkeys(("hub_strategy", "hub_private_repo", "hub_always_push", "hub_revision"), Flag(needs=_TO_PUBLISH)),
    "hub_token": Flag("secret"),
}
# flags that the recipe does not read -> what to do
UNREAD = {
    "generation_config": "give its settings as flags, such as --num_beams",
    "sortish_sampler": "give --train_sampling_strategy group_by_length, or --train_tokens_per_batch",
    **dict.fromkeys(("eval_do_concat_batches", "batch_eval_metrics", "include_for_metrics", "use_cache"), "omit it"),
}
_INSTEAD = "train with DDP (`accelerate launch`) or FSDP2 (`--fsdp`)"


def parse_learning_rates(items: Iterable[str]) -> Rates:
    """Parse `["regex=rate", ...]` into pairs."""
    rates = []
    for item in items:
        pattern, _, text = item.rpartition("=")
        try:
            rate = float(text)
            if not pattern or not 0 <= rate < math.inf:
                raise ValueError("must be regex=rate with a rate of at least 0, such as embed=1e-4")
            re.compile(pattern)
        except (ValueError, re.error) as error:
            raise ValueError(f"--learning_rates {item!r:.80}: {error}") from None
        rates.append((pattern, rate))
    return rates


def check_inherited(arguments: Seq2SeqTrainingArguments) -> None:
    """Check what transformers would check only after the corpus is prepared, and what the models do not support."""
    if arguments.deepspeed or parse_flag_from_env("ACCELERATE_USE_DEEPSPEED"):
        raise ValueError(f"DeepSpeed is not supported: {_INSTEAD}")
    sizes = arguments.parallelism_config or ParallelismConfig()
    if sizes.tp_enabled or sizes.cp_enabled or sizes.sp_enabled:
        raise ValueError(f"parallelism of tensors, contexts and sequences is not supported: {_INSTEAD}")
    for name in arguments.report_to or ():
        check_choice("--report_to", name, ("none", "all", *INTEGRATION_TO_CALLBACK))
        if name not in ("all", "none", *get_available_reporting_integrations()):
            raise ImportError(f"--report_to {name}: needs {name}: pip install {name}, or give --report_to none")
    if arguments.use_liger_kernel and not is_liger_kernel_available():
        raise ImportError("--use_liger_kernel: needs liger-kernel: pip install liger-kernel")
    if (backend := arguments.torch_compile_backend) is not None:
        check_choice("--torch_compile_backend", backend.lower(), [backend.value.lower() for backend in DynamoBackend])
    if (mode := arguments.torch_compile_mode) is not None:
        # imported here: it takes seconds
        from torch._inductor import list_mode_options

        check_choice("--torch_compile_mode", mode, list_mode_options())


def check_devices(arguments: TrainingArguments) -> None:
    """Raise a ValueError for fp16 on a CPU, for FSDP of version 1, and for FSDP in a single process."""
    if arguments.mixed_precision == "fp16" and arguments.device.type == "cpu":
        # accelerate would silently train in full precision
        raise ValueError("--fp16 needs a GPU: on a CPU, give --bf16 instead, or neither")
    version = arguments.fsdp_config.get("version", 2) if arguments.fsdp else os.environ.get("FSDP_VERSION", 1)
    if asks_for_fsdp(arguments) and int(version) == 1:
        raise ValueError("FSDP version 1 is not supported: use version 2, which shards each weight separately")
    if arguments.fsdp and arguments.parallel_mode != ParallelMode.DISTRIBUTED:
        raise ValueError("--fsdp needs several processes: start the run with `accelerate launch`")


def asks_for_fsdp(arguments: TrainingArguments) -> bool:
    """Whether a flag or `accelerate launch` enables FSDP."""
    return bool(arguments.fsdp) or parse_flag_from_env("ACCELERATE_USE_FSDP")
