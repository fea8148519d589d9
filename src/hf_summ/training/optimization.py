"""Optimizers and schedules that the papers use and transformers lacks."""

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
    """Check the flags of a run's loss and optimizer that depend on its model, or on each other."""
    smoothing = training.label_smoothing_factor
    if smoothing and hasattr(model.config, "label_smoothing"):
        raise ValueError(
            f"--label_smoothing_factor {smoothing}: {model.config.model_type} smooths its own loss; set "
            f"--config_overrides label_smoothing={smoothing}"
        )
    Trainer.get_optimizer_cls_and_kwargs(training, model)
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)])
    try:
        get_scheduler(training.lr_scheduler_type, optimizer, 1, 2, training.lr_scheduler_kwargs)
    except (TypeError, ValueError) as error:
        name, reason = training.lr_scheduler_type.value, one_line(error)
        raise ValueError(f"--lr_scheduler_type {name}: {reason}; see --lr_scheduler_kwargs") from error
    items = (training.optim_args or "").split(",")
    for item in filter(None, items):
        without = copy.copy(training)
        without.optim_args = ",".join(other for other in items if other is not item) or None
        settings = [Trainer.get_optimizer_cls_and_kwargs(args, model) for args in (training, without)]
        if settings[0] == settings[1]:
            raise ValueError(f"--optim_args {item:.80}: has no effect with --optim {training.optim.value}: omit it")
    check_patterns(model, training.learning_rates)


def check_patterns(model: nn.Module, learning_rates: Iterable[str]) -> None:
    """Raise a ValueError for an item of `learning_rates` whose pattern matches no trainable parameter.

    If the patterns together match all of them, a warning says that `learning_rate` has no effect.
    """
    patterns = [pattern for pattern, _ in parse_learning_rates(learning_rates)]
    names = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    for pattern in patterns:
        if not any(re.search(pattern, name) for name in names):
            some = ", ".join(names[:5])
            raise ValueError(f"--learning_rates: {pattern!r:.80} matches no trainable parameter; some are {some}")
    if patterns and all(any(re.search(pattern, name) for pattern in patterns) for name in names):
        logger.warning("--learning_rates: match all trainable parameters, so --learning_rate has no effect")


def parameter_groups(
    model: nn.Module, learning_rate: float, rates: Rates, weight_decay: float, decayed: Iterable[str]
) -> list[dict]:
    """Trainable parameters grouped by rate and weight decay.

    `decayed` names the parameters with weight decay; if several patterns match a name, the last one applies.
    """
    decayed = set(decayed)
    groups: dict[tuple[float, float], dict] = {}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        rate = next((rate for pattern, rate in reversed(rates) if re.search(pattern, name)), learning_rate)
        decay = weight_decay if name in decayed else 0.0
        group = groups.setdefault((rate, decay), {"params": [], "lr": rate, "weight_decay": decay})
        group["params"].append(parameter)
    # the rate of the first group is logged
    return sorted(groups.values(), key=lambda group: group["lr"] != learning_rate)


def noam_factor(d_model: int, warmup_steps: int, scale: float = 1.0) -> Callable[[int], float]:
    """`scale · d_model^-0.5 · min(step^-0.5, step · warmup^-1.5)` for the update after `done` completed ones.

    The optimizer's rate must be 1, as the formula gives the whole rate (Vaswani et al. 2017, equation 3).
    """
    if warmup_steps < 1:
        raise ValueError(f"--warmup_steps {warmup_steps}: the noam schedule needs at least 1")

    def factor(done: int) -> float:
        step = done + 1
        return scale * d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)

    return factor


def cosine_factor(warmup_steps: int, period: int, minimum: float = 0.0) -> Callable[[int], float]:
    """Linear warm-up from 0 to 1, then cosine annealing to `minimum` with a warm restart every `period` updates.

    This is fairseq's `cosine` schedule with equal periods that all start from the same rate.
    """

    def factor(done: int) -> float:
        if done < warmup_steps:
            return done / warmup_steps
        position = (done - warmup_steps) % period / period
        return minimum + 0.5 * (1.0 - minimum) * (1.0 + math.cos(math.pi * position))

    return factor


def build_schedule(
    optimizer: torch.optim.Optimizer, arguments: SummarizationTrainingArguments, training_steps: int, d_model: int
) -> LambdaLR:
    """The arguments' schedule, `noam` or `cosine`; every group's rate is multiplied by the same factor."""
    warmup_steps = arguments.get_warmup_steps(training_steps)
    if arguments.schedule == "noam":
        return LambdaLR(optimizer, noam_factor(d_model, warmup_steps, arguments.noam_scale))
    rate, minimum = arguments.learning_rate, arguments.minimum_learning_rate
    if not 0 <= minimum <= rate:
        raise ValueError(f"--minimum_learning_rate {minimum}: must be from 0 to --learning_rate ({rate})")
    period = arguments.schedule_period or max(1, training_steps - warmup_steps)
    return LambdaLR(optimizer, cosine_factor(warmup_steps, period, minimum / rate if rate else 0.0))
