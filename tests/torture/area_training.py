"""Flags of training runs, up to the first update: their checks, and what the optimizer and the batches take of them."""

import random
from pathlib import Path
from typing import Any

import torch

from hf_summ.training.arguments import GROUPS, RunArguments, flag_kinds
from hf_summ.training.building import build
from hf_summ.training.effects import _default
from hf_summ.training.parsing import _parser, make_arguments, merged, parse_flags, read_settings
from hf_summ.training.run import _check_steps
from hf_summ.training.scores import Scorer
from hf_summ.training.trainer import make_trainer
from tests.torture import values
from tests.torture.cases import Case, Ignored
from tests.torture.checks import first_problem
from tests.torture.workshop import Workshop
from tests.training import tiny

# flags whose effect shows before the first update, with values that have one where nothing silences them
_SHOWN = {
    name: found.split("|")
    for name, _, found in (
        item.partition("=")
        for item in """
        learning_rate=0.5|1e-3 learning_rates=shared=0.3|bias=0.7 warmup_steps=5|1 weight_decay=0.3 optim=adafactor|sgd
        optimizer=adadelta|adamw adam_beta1=0.5 adam_beta2=0.7 adam_epsilon=1e-3 adadelta_rho=0.4 noam_scale=7.0
        schedule=noam|cosine schedule_period=2 minimum_learning_rate=1e-4 lr_scheduler_type=constant|polynomial
        per_device_train_batch_size=3|4 train_tokens_per_batch=100|300 dataloader_drop_last=true max_steps=5|40
        train_sampling_strategy=group_by_length|sequential num_train_epochs=1.5|4
        """.split()
    )
}
# these change other cases, or need a network, another machine or minutes; or they are stored in another form
_ELSEWHERE = """output_dir push_to_hub deepspeed fsdp debug tf32 full_determinism torch_compile torch_compile_backend
    torch_compile_mode ddp_backend local_rank report_to hub_token token cache_dir log_level log_level_replica use_cpu
    dataloader_pin_memory include_num_input_tokens_seen""".split()


def make(draw: random.Random, shop: Workshop, folder: Path) -> Case:
    """A file of settings and a few flags, with sensible values or hostile ones."""
    base = draw.choice(({}, {}, {"schedule": None}, {"optimizer": None}, {"train_tokens_per_batch": None}))
    base |= draw.choice(({}, {"max_steps": None}, {"do_eval": True}))
    corpus = tiny.write_corpus(folder, train=3, validation=2)
    file = tiny.write_settings(folder, tokenizer_name=str(shop.checkpoint("gdlf")), **corpus, **base)
    others = sorted(flag_kinds().keys() - set(_ELSEWHERE))
    names = draw.sample(sorted(_SHOWN), k=draw.choice((0, 1, 2))) + draw.sample(others, k=draw.choice((0, 1, 1, 2)))
    given = {name: [f"--{name}={_value(draw, name)}"] for name in names}

    def settings(*left_out: str) -> dict[str, Any]:
        flags = [token for name in given if name not in left_out for token in given[name]]
        return merged(read_settings(file), parse_flags(flags))

    def problem(effect: tuple) -> str | None:
        arguments = make_arguments(settings())
        wanted = parse_flags([token for tokens in given.values() for token in tokens])
        return first_problem(
            *(_changed_problem(arguments, name, value) for name, value in wanted.items()),
            *(_ignored_problem(settings, name, effect) for name in wanted if name in _SHOWN),
        )

    return Case(f"{base} {given}", lambda: _effect(make_arguments(settings())), problem)


def _value(draw: random.Random, name: str) -> Any:
    if name in _SHOWN:
        return draw.choice(_SHOWN[name])
    action = next(action for action in _parser()._actions if action.dest == name)
    kind = draw.random()
    if kind < 0.5:
        return draw.choice((*(action.choices or ()), _default(name), "true", 1, 2, 0.5))
    return draw.choice((values.number(draw), values.junk(draw), "null", "none", "steps", "[]", "{}", "a=b"))


def _effect(arguments: RunArguments) -> tuple:
    """What a run does at its first update: its optimizer, the first rates, and the batches of an epoch."""
    training = arguments.training
    _check_steps(training)
    arguments.corpus.check()
    scorer = Scorer(training.metrics, training.rouge_mode, arguments.data.language, training.several_references)
    torch.manual_seed(0)
    built = build(arguments)
    rows = tiny.prepared(built.processor, 31)
    trainer = make_trainer(arguments, built, scorer, {"train": rows, "validation": rows})
    torch.manual_seed(0)
    batches = list(map(list, trainer.get_train_dataloader().batch_sampler))
    steps = training.max_steps if training.max_steps > 0 else int(len(batches) * training.num_train_epochs)
    trainer.create_optimizer_and_scheduler(steps)
    # without the parameters
    groups = [list(group.items())[1:] for group in trainer.optimizer.param_groups]
    rates = [[rate(step) for step in range(12)] for rate in getattr(trainer.lr_scheduler, "lr_lambdas", ())]
    return type(trainer.optimizer), groups, rates, batches, steps


def _changed_problem(arguments: RunArguments, name: str, value: Any) -> str | None:
    (group,) = (part for part, kind in zip(vars(arguments).values(), GROUPS, strict=True) if hasattr(part, name))
    found = getattr(group, name)
    found = getattr(found, "value", found)
    # transformers reads JSON in texts
    return (
        None
        if value is None or found == value or isinstance(found, dict)
        else Ignored(f"--{name} {value!r} is {found!r}")
    )


def _ignored_problem(settings: Any, name: str, effect: Any) -> str | None:
    if settings(name).get(name) == settings().get(name):
        return None
    try:
        without = _effect(make_arguments(settings(name)))
    except ValueError:
        # another flag needs it
        return None
    return Ignored(f"--{name} has no effect") if without == effect else None
