"""Schedules against the formulas as printed, and optimizers against their settings."""

import math

import pytest
import torch
from torch import nn

from hf_summ.training.arguments import SummarizationTrainingArguments
from hf_summ.training.checks import parse_learning_rates
from hf_summ.training.optimization import build_schedule, check_patterns, parameter_groups


def rates(updates: int, learning_rate: float, **settings) -> list[float]:
    """The rate of each update."""
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=learning_rate)
    settings = {"warmup_steps": 4, "learning_rate": learning_rate, "use_cpu": True} | settings
    schedule = build_schedule(optimizer, SummarizationTrainingArguments(**settings), updates, 16)
    found = []
    for _ in range(updates):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return found


def test_noam():
    expected = [2 * 16**-0.5 * min(step**-0.5, step * 4**-1.5) for step in range(1, 13)]
    assert rates(12, 1.0, schedule="noam", noam_scale=2.0) == pytest.approx(expected)
    assert max(expected) == expected[3]


def fairseq_cosine(update: int, peak: float, low: float, warmup: int, period: int) -> float:
    """fairseq's CosineLRScheduleWithRestarts with t_mult 1, lr_shrink 1 and warm-up from 0."""
    if update < warmup:
        return update * peak / warmup
    current = update - warmup
    i = math.floor(current / period)
    return low + 0.5 * (peak - low) * (1 + math.cos(math.pi * (current - period * i) / period))


@pytest.mark.parametrize("low", [0.0, 1e-4])
def test_cosine_restarts_every_period(low):
    expected = [fairseq_cosine(update, 1e-3, low, 4, 6) for update in range(24)]
    found = rates(24, 1e-3, schedule="cosine", schedule_period=6, minimum_learning_rate=low)
    assert found == pytest.approx(expected)
    assert [update for update in range(24) if found[update] == pytest.approx(1e-3)] == [4, 10, 16, 22]


def test_cosine_without_period_ends_at_the_last_update():
    assert rates(20, 1e-3, schedule="cosine")[-1] == pytest.approx(fairseq_cosine(19, 1e-3, 0.0, 4, 16))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"schedule": "noam", "warmup_steps": 0}, "--warmup_steps 0: the noam schedule needs at least 1"),
        ({"schedule": "cosine", "minimum_learning_rate": 1.0}, "--minimum_learning_rate 1.0: must be from 0 to"),
    ],
)
def test_schedules_that_cannot_be(settings, message):
    with pytest.raises(ValueError, match=message):
        rates(1, 0.1, **settings)


@pytest.fixture
def model() -> nn.Module:
    return nn.ModuleDict({"embed": nn.Embedding(3, 2), "inner": nn.Linear(2, 2), "norm": nn.LayerNorm(2)})


def test_groups_by_rate_and_decay(model):
    model["inner"].bias.requires_grad_(False)
    found = parameter_groups(model, 0.1, [("embed|inner", 0.2), ("inner", 0.3)], 0.01, ["embed.weight", "inner.weight"])
    names = {parameter: name for name, parameter in model.named_parameters()}
    by_name = {names[p]: (group["lr"], group["weight_decay"]) for group in found for p in group["params"]}
    norm = {"norm.weight": (0.1, 0.0), "norm.bias": (0.1, 0.0)}
    assert by_name == {"embed.weight": (0.2, 0.01), "inner.weight": (0.3, 0.01), **norm}
    assert found[0]["lr"] == 0.1


def test_rates_are_read():
    assert parse_learning_rates(["^a=b.*=1e-4", "x=0"]) == [("^a=b.*", 1e-4), ("x", 0.0)]


CASES_OF_WRONG_RATES = [
    ("embed", "could not convert"),
    ("(=1", r"'\(=1': missing \)"),
    ("a=fast", "'a=fast': could not convert string to float: 'fast'"),
    ("a=-1", "'a=-1': must be regex=rate with a rate of at least 0"),
]


@pytest.mark.parametrize(("item", "message"), CASES_OF_WRONG_RATES)
def test_rates_that_are_none(item, message):
    with pytest.raises(ValueError, match=message):
        parse_learning_rates([item])


def test_patterns_of_no_or_all_parameters_are_told(model, caplog):
    # pattern without parameter
    check_patterns(model, ["embed=1"])
    with pytest.raises(ValueError, match=r"'embde' matches no trainable parameter; some are embed.weight"):
        check_patterns(model, ["embde=1"])
    # patterns that match all parameters are noted
    check_patterns(model, ["embed=1", ".=2"])
    assert caplog.messages == ["--learning_rates: match all trainable parameters, so --learning_rate has no effect"]
