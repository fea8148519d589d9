"""Parameter groups with several learning rates, schedules that transformers lacks, and checks of both."""

import copy
import logging
import math
import re
from collections.abc import Callable, Iterable

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR
from transformers import PreTrainedModel, Trainer, get_scheduler

from hf_summ.common.messages import one_line
from hf_summ.training.arguments import SummarizationTrainingArguments
from hf_summ.training.checks import Rates, parse_learning_rates

logger = logging.getLogger(__name__)


def check_optimization(model: PreTrainedModel, training: SummarizationTrainingArguments) -> None:
    """Check the flags of a run's loss and optimizer that depend on its model, or on each other.

    Raises:
        ValueError: a flag has no effect or an invalid value with this model; the message says what to do.
    """
    smoothing = training.label_smoothing_factor
    if smoothing and hasattr(model.config, "label_smoothing"):
        raise ValueError(
            f"--label_smoothing_factor {smoothing}: {model.config.model_type} smooths its own loss; set "
            f"--config_overrides label_smoothing={smoothing}"
        )
    # this raises an error for invalid `optim_args`
    Trainer.get_optimizer_cls_and_kwargs(training, model)
    _check_scheduler(training)
    _check_optim_args(model, training)
    check_patterns(model, training.learning_rates)


def _check_scheduler(training: SummarizationTrainingArguments) -> None:
    """Raise a ValueError unless transformers can make the schedule."""
    # any optimizer suffices for the check
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)])
    try:
        get_scheduler(training.lr_scheduler_type, optimizer, 1, 2, training.lr_scheduler_kwargs)
    except (TypeError, ValueError) as error:
        name = training.lr_scheduler_type.value
        raise ValueError(f"--lr_scheduler_type {name}: {one_line(error)}; see --lr_scheduler_kwargs") from error


def _check_optim_args(model: PreTrainedModel, training: SummarizationTrainingArguments) -> None:
    """Raise a ValueError for an item `key=value` of `optim_args` that the optimizer does not read."""
    items = (training.optim_args or "").split(",")
    optimizer_settings = Trainer.get_optimizer_cls_and_kwargs(training, model)
    for position, item in enumerate(items):
        if not item:
            continue
        remaining_items = items[:position] + items[position + 1 :]
        without_item = copy.copy(training)
        without_item.optim_args = ",".join(remaining_items) or None
        if Trainer.get_optimizer_cls_and_kwargs(without_item, model) == optimizer_settings:
            raise ValueError(f"--optim_args {item:.80}: has no effect with --optim {training.optim.value}: omit it")


def check_patterns(model: nn.Module, learning_rates: Iterable[str]) -> None:
    """Check the patterns of `--learning_rates` against the names of a model's trainable parameters.

    If the patterns together match all trainable parameters, a warning says that `learning_rate` has no effect.

    Args:
        learning_rates: items `regex=rate`.

    Raises:
        ValueError: a pattern matches no trainable parameter.
    """
    rates = parse_learning_rates(learning_rates)
    names = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    matched_names: set[str] = set()
    for pattern, _ in rates:
        matches = [name for name in names if re.search(pattern, name)]
        if not matches:
            examples = ", ".join(names[:5])
            raise ValueError(f"--learning_rates: {pattern!r:.80} matches no trainable parameter; some are {examples}")
        matched_names.update(matches)
    if rates and len(matched_names) == len(names):
        logger.warning("--learning_rates: match all trainable parameters, so --learning_rate has no effect")


def parameter_groups(
    model: nn.Module, learning_rate: float, rates: Rates, weight_decay: float, decayed: Iterable[str]
) -> list[dict]:
    """Trainable parameters grouped by rate and weight decay, as torch's optimizers read them.

    Groups with `learning_rate` come first, because the rate of the first group is logged.

    Args:
        learning_rate: the rate of parameters that no pattern matches.
        rates: patterns of names, each with its rate; the last pattern that matches a name applies.
        decayed: the names of the parameters with weight decay.
    """
    decayed = set(decayed)
    groups: dict[tuple[float, float], dict] = {}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        rate = learning_rate
        for pattern, pattern_rate in rates:
            if re.search(pattern, name):
                rate = pattern_rate
        decay = weight_decay if name in decayed else 0.0
        group = groups.setdefault((rate, decay), {"params": [], "lr": rate, "weight_decay": decay})
        group["params"].append(parameter)
    first_groups, further_groups = [], []
    for group in groups.values():
        if group["lr"] == learning_rate:
            first_groups.append(group)
        else:
            further_groups.append(group)
    return first_groups + further_groups


def noam_factor(d_model: int, warmup_steps: int, scale: float = 1.0) -> Callable[[int], float]:
    """The Noam schedule (Vaswani et al. 2017, equation 3), as a function of the number of completed updates.

    The function returns `scale · d_model^-0.5 · min(step^-0.5, step · warmup_steps^-1.5)`, where `step` is the number
    of the next update, from 1. This is the whole learning rate, so the optimizer's own rate must be 1.

    Raises:
        ValueError: there are no warm-up steps.
    """
    if warmup_steps < 1:
        raise ValueError(f"--warmup_steps {warmup_steps}: the noam schedule needs at least 1")

    def factor(done: int) -> float:
        """The learning rate of the update after this number of updates."""
        step = done + 1
        return scale * d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)

    return factor


def cosine_factor(warmup_steps: int, period: int, minimum: float = 0.0) -> Callable[[int], float]:
    """The factor of the learning rate in a cosine schedule, as a function of the number of completed updates.

    The factor rises from 0 to 1 in the warm-up. Then it falls along a cosine from 1 to `minimum` in every period of
    `period` updates. This is fairseq's `cosine` schedule with equal periods that all start from the same rate.
    """

    def factor(done: int) -> float:
        """The factor after this number of updates."""
        if done < warmup_steps:
            return done / warmup_steps
        # the position in the current period, from 0 to 1
        position = (done - warmup_steps) % period / period
        return minimum + 0.5 * (1.0 - minimum) * (1.0 + math.cos(math.pi * position))

    return factor


def build_schedule(
    optimizer: torch.optim.Optimizer, arguments: SummarizationTrainingArguments, training_steps: int, d_model: int
) -> LambdaLR:
    """The arguments' schedule, `noam` or `cosine`; every group's rate is multiplied by the same factor.

    Args:
        optimizer: the optimizer whose rates are scheduled.
        arguments: the arguments of the run, which set `schedule`.
        training_steps: number of updates of the whole run.
        d_model: the model's width, which the Noam schedule depends on.

    Raises:
        ValueError: the minimum rate is above the learning rate, or the Noam schedule has no warm-up.
    """
    warmup_steps = arguments.get_warmup_steps(training_steps)
    if arguments.schedule == "noam":
        return LambdaLR(optimizer, noam_factor(d_model, warmup_steps, arguments.noam_scale))
    rate = arguments.learning_rate
    minimum = arguments.minimum_learning_rate
    if not 0 <= minimum <= rate:
        raise ValueError(f"--minimum_learning_rate {minimum}: must be from 0 to --learning_rate ({rate})")
    period = arguments.schedule_period or max(1, training_steps - warmup_steps)
    minimum_factor = minimum / rate if rate else 0.0
    return LambdaLR(optimizer, cosine_factor(warmup_steps, period, minimum_factor))
