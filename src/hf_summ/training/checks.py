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
from hf_summ.models.checks import FINITE, NOT_NEGATIVE, Range

# the parsed `--learning_rates`: pairs of a regular expression for names of parameters, and the rate of these parameters
Rates = list[tuple[str, float]]
# more than any machine or corpus needs
_MAX_COUNT = 10**6
COUNT = Range(1, _MAX_COUNT)
AT_LEAST_ONE = Range(1)
POSITIVE = Range(0, FINITE, excludes_least=True)
FRACTION = Range(0, 0.999999)
_SEED = Range(0, 2**32 - 1)
# conditions of `Flag`, one of which holds if the model is evaluated during training
EVALUATES = ("eval_strategy=steps", "eval_strategy=epoch")
_WITHOUT_EPSILON = ("optim=adafactor", "optim=sgd", "optim=rmsprop", "optim=adagrad")
_WITHOUT_BETAS = ("optimizer=adadelta", *_WITHOUT_EPSILON)

_UPDATES = "training updates"
# declarations that several flags share
_BETA = Flag(_UPDATES, FRACTION, unless=_WITHOUT_BETAS)
_OF_UPDATES = Flag(_UPDATES, NOT_NEGATIVE)
_OF_OPTIM = Flag(_UPDATES, unless=("optimizer",))
_OF_SCHEDULER = Flag(_UPDATES, unless=("schedule",))
_OF_BEST_MODEL = Flag(_UPDATES, needs=EVALUATES)
_OF_WORKERS = Flag(needs=("dataloader_num_workers",))
_OF_PUBLISHING = Flag("reporting single", needs=("push_to_hub",))
_OF_PRECISION = Flag("training decoding")
_REPORTING = Flag("reporting")
_SINGLE_RUN = Flag("reporting single")
# the declarations of transformers' flags; a flag without an entry affects the training, and has no range or conditions
INHERITED: Mapping[str, Flag] = {
    "per_device_train_batch_size": Flag(_UPDATES, COUNT, unless=("train_tokens_per_batch",)),
    "per_device_eval_batch_size": Flag("training decoding", COUNT, unless=("eval_tokens_per_batch",)),
    "train_sampling_strategy": Flag(_UPDATES, unless=("train_tokens_per_batch", "streaming")),
    "auto_find_batch_size": Flag(unless=("train_tokens_per_batch",)),
    "dataloader_drop_last": Flag(_UPDATES, unless=("train_tokens_per_batch",)),
    "gradient_accumulation_steps": Flag(_UPDATES, COUNT),
    "max_steps": Flag(_UPDATES, Range(1, 10**12)),
    "num_train_epochs": Flag(_UPDATES, Range(0, _MAX_COUNT, excludes_least=True), unless=("max_steps",)),
    "optim": _OF_OPTIM,
    "optim_args": _OF_OPTIM,
    "adam_beta1": _BETA,
    "adam_beta2": _BETA,
    "adam_epsilon": Flag(_UPDATES, NOT_NEGATIVE, unless=_WITHOUT_EPSILON),
    "learning_rate": Flag(_UPDATES, NOT_NEGATIVE, unless=("schedule=noam",)),
    "lr_scheduler_type": _OF_SCHEDULER,
    "lr_scheduler_kwargs": _OF_SCHEDULER,
    "warmup_steps": _OF_UPDATES,
    "weight_decay": _OF_UPDATES,
    "max_grad_norm": _OF_UPDATES,
    "neftune_noise_alpha": _OF_UPDATES,
    "label_smoothing_factor": Flag(_UPDATES, FRACTION),
    "seed": Flag("training decoding updates", _SEED),
    "data_seed": Flag(_UPDATES, _SEED),
    "fp16": Flag("training decoding updates"),
    "bf16_full_eval": _OF_PRECISION,
    "fp16_full_eval": _OF_PRECISION,
    "use_cpu": _OF_PRECISION,
    "generation_max_length": Flag(unless=("max_new_tokens", "val_max_target_length")),
    "generation_num_beams": Flag(unless=("num_beams",)),
    "eval_strategy": Flag(unless=("do_eval=False",)),
    "eval_on_start": Flag(needs=("eval_strategy", "do_eval"), unless=("do_eval=False",)),
    "eval_steps": Flag(range=POSITIVE, needs=("eval_strategy=steps",)),
    "eval_delay": Flag(range=NOT_NEGATIVE, needs=EVALUATES),
    "load_best_model_at_end": _OF_BEST_MODEL,
    "metric_for_best_model": _OF_BEST_MODEL,
    "greater_is_better": Flag(
        _UPDATES, needs=("metric_for_best_model", "load_best_model_at_end", "early_stopping_patience")
    ),
    "save_steps": Flag(range=POSITIVE, needs=("save_strategy=steps",)),
    "save_total_limit": Flag("reporting", COUNT),
    "logging_steps": Flag("reporting", POSITIVE, needs=("logging_strategy=steps",)),
    "do_train": _REPORTING,
    "do_eval": _REPORTING,
    "do_predict": _REPORTING,
    "output_dir": _REPORTING,
    "run_name": _REPORTING,
    "logging_strategy": _REPORTING,
    "log_level": _REPORTING,
    "disable_tqdm": _REPORTING,
    "dataloader_num_workers": Flag("reporting", Range(0, 1024)),
    "dataloader_pin_memory": _REPORTING,
    "dataloader_persistent_workers": _OF_WORKERS,
    "dataloader_prefetch_factor": _OF_WORKERS,
    "dataloader_multiprocessing_context": _OF_WORKERS,
    "push_to_hub": _SINGLE_RUN,
    "hub_model_id": _SINGLE_RUN,
    "resume_from_checkpoint": _SINGLE_RUN,
    "hub_strategy": _OF_PUBLISHING,
    "hub_private_repo": _OF_PUBLISHING,
    "hub_always_push": _OF_PUBLISHING,
    "hub_revision": _OF_PUBLISHING,
    "hub_token": Flag("secret"),
}
# flags of transformers that the recipe does not read -> what a user does instead
UNREAD = {
    "generation_config": "give its settings as flags, such as --num_beams",
    "sortish_sampler": "give --train_sampling_strategy group_by_length, or --train_tokens_per_batch",
    "eval_do_concat_batches": "omit it",
    "batch_eval_metrics": "omit it",
    "include_for_metrics": "omit it",
    "use_cache": "omit it",
}
# the advice in messages about libraries and kinds of parallelism that are not supported
_INSTEAD = "train with DDP (`accelerate launch`) or FSDP2 (`--fsdp`)"


def parse_learning_rates(items: Iterable[str]) -> Rates:
    """Parse `["regex=rate", ...]` into pairs of a regular expression and a rate.

    Raises:
        ValueError: an item lacks a valid regular expression, or a finite rate of at least 0.
    """
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
    """Check what transformers would check only after the corpus is prepared, and what the models do not support.

    Raises:
        ValueError: a setting is invalid or not supported.
        ImportError: a setting needs a library that is not installed.
    """
    if arguments.deepspeed or parse_flag_from_env("ACCELERATE_USE_DEEPSPEED"):
        raise ValueError(f"DeepSpeed is not supported: {_INSTEAD}")
    sizes = arguments.parallelism_config or ParallelismConfig()
    if sizes.tp_enabled or sizes.cp_enabled or sizes.sp_enabled:
        raise ValueError(f"parallelism of tensors, contexts and sequences is not supported: {_INSTEAD}")
    for name in arguments.report_to or ():
        check_choice("--report_to", name, ["none", "all"] + list(INTEGRATION_TO_CALLBACK))
        is_available = name in ("none", "all") or name in get_available_reporting_integrations()
        if not is_available:
            raise ImportError(f"--report_to {name}: needs {name}: pip install {name}, or give --report_to none")
    if arguments.use_liger_kernel and not is_liger_kernel_available():
        raise ImportError("--use_liger_kernel: needs liger-kernel: pip install liger-kernel")
    if arguments.torch_compile_backend is not None:
        backends = [backend.value.lower() for backend in DynamoBackend]
        check_choice("--torch_compile_backend", arguments.torch_compile_backend.lower(), backends)
    if arguments.torch_compile_mode is not None:
        # this import takes seconds, so it stands here
        from torch._inductor import list_mode_options

        check_choice("--torch_compile_mode", arguments.torch_compile_mode, list_mode_options())


def check_devices(arguments: TrainingArguments) -> None:
    """Raise a ValueError for fp16 on a CPU, for FSDP of version 1, and for FSDP in a single process."""
    if arguments.mixed_precision == "fp16" and arguments.device.type == "cpu":
        # accelerate would silently train in full precision
        raise ValueError("--fp16 needs a GPU: on a CPU, give --bf16 instead, or neither")
    if arguments.fsdp:
        version = arguments.fsdp_config.get("version", 2)
    else:
        # the defaults of transformers and of accelerate differ
        version = os.environ.get("FSDP_VERSION", 1)
    if asks_for_fsdp(arguments) and int(version) == 1:
        raise ValueError("FSDP version 1 is not supported: use version 2, which shards each weight separately")
    if arguments.fsdp and arguments.parallel_mode != ParallelMode.DISTRIBUTED:
        raise ValueError("--fsdp needs several processes: start the run with `accelerate launch`")


def asks_for_fsdp(arguments: TrainingArguments) -> bool:
    """Whether a flag or `accelerate launch` enables FSDP."""
    return bool(arguments.fsdp) or parse_flag_from_env("ACCELERATE_USE_FSDP")
