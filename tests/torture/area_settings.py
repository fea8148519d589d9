"""Settings: YAML and JSON files, flags, and values of configurations."""

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import torch
import yaml

from hf_summ.checkpoints.overrides import apply_overrides, parse_overrides
from hf_summ.training.arguments import RunArguments, flag_kinds
from hf_summ.training.parsing import bundled_configs, parse_arguments
from tests.torture import values
from tests.torture.cases import Case
from tests.torture.checks import untouched
from tests.torture.workshop import ARCHITECTURES, Workshop

_WORDS = (
    "null",
    "true",
    "False",
    "no",
    "1e400",
    "1_000",
    "0x10",
    "-",
    "--",
    "=",
    "a b",
    "é",
    "[1,",
    "{",
    "none",
    "1e-5",
)


def make(draw: random.Random, shop: Workshop, folder: Path) -> Case:
    """A file of settings with a few flags, or a configuration with changed values."""
    return draw.choice((_run, _run, _configuration, _overrides))(draw, folder)


@cache
def _bundled(name: str) -> str:
    return bundled_configs()[name].read_text(encoding="utf-8")


def _run(draw: random.Random, folder: Path) -> Case:
    text = _bundled(draw.choice(sorted(bundled_configs())))
    kind = draw.random()
    suffix = draw.choice((".yaml", ".yaml", ".yml", ".json", ".txt", ""))
    if kind < 0.5:
        settings = yaml.safe_load(text)
        for _ in range(draw.choice((1, 1, 2))):
            name = draw.choice((*settings, *sorted(flag_kinds())))
            if name in settings and draw.random() < 0.6:
                settings[name], _ = values.spoiled_json(draw, settings[name])
            else:
                settings[name] = values.storable_junk(draw)
        text = json.dumps(settings) if suffix == ".json" else yaml.safe_dump(settings, allow_unicode=True)
    content = text.encode("utf-8", "surrogatepass")
    if kind > 0.7:
        content = values.spoiled(draw, content)
    file = folder / f"settings{suffix}"
    file.write_bytes(content)
    flags = [token for _ in range(draw.choice((0, 1, 2))) for token in _flag(draw)]
    argv = [str(file), *flags]
    return Case(
        f"{file.name} of {content[-200:]!r} {flags}", lambda: parse_arguments(argv), _parsed_problem, untouched(file)
    )


def _flag(draw: random.Random) -> list[str]:
    name = draw.choice(sorted(flag_kinds()))
    if draw.random() < 0.1:
        name = name[:-1] if draw.random() < 0.5 else name.replace("_", "-")
    value = draw.choice((*_WORDS, str(values.junk(draw)), str(values.number(draw)), str(values.number(draw))))
    return draw.choice(([f"--{name}", value], [f"--{name}={value}"], [f"--{name}"], [f"--no_{name}"], [value]))


def _parsed_problem(arguments: Any) -> str | None:
    if not isinstance(arguments, RunArguments):
        return f"no arguments, but {arguments!r:.80}"
    training = arguments.training
    for name in ("learning_rate", "num_train_epochs", "max_grad_norm", "weight_decay", "warmup_steps"):
        value = getattr(training, name)
        # neither NaN nor infinity
        if not isinstance(value, int | float) or value - value != 0:
            return f"{name} is {value!r}"
    return None


def _configuration(draw: random.Random, folder: Path) -> Case:
    made = ARCHITECTURES[draw.choice(sorted(ARCHITECTURES))]
    settings = dict(made.settings)
    for _ in range(draw.choice((1, 2))):
        name = draw.choice(sorted(made.config().to_dict()))
        before = settings.get(name, getattr(made.config(), name, None))
        settings[name] = values.storable_junk(draw) if draw.random() < 0.4 else values.spoiled_json(draw, before)[0]

    def build():
        config = apply_overrides(made.config(), settings)
        # without memory: sizes may exceed any machine's
        with torch.device("meta"):
            return made.head_class(config)

    def problem(model: Any) -> str | None:
        empty = [name for name, weight in model.named_parameters() if not weight.numel()]
        return f"weights without a value: {empty[0]}" if empty else None

    return Case(f"{made.model_type} of {settings}", build, problem)


def _overrides(draw: random.Random, folder: Path) -> Case:
    made = ARCHITECTURES[draw.choice(sorted(ARCHITECTURES))]
    keys = [*made.config().to_dict(), "bert_config.hidden_size", "encoder_kernel_sizes.0", "a.b", "", ".", "d_model."]
    items = []
    for _ in range(draw.choice((1, 2))):
        value = draw.choice((*_WORDS, json.dumps(values.storable_junk(draw)), str(values.number(draw))))
        items.append(f"{draw.choice(keys)}{draw.choice(('=', '=', '=', '', '=='))}{value}")
    return Case(
        f"{made.model_type} with {items}",
        lambda: apply_overrides(made.config(), parse_overrides(items)),
        lambda config: None if isinstance(config, made.config_class) else f"no config, but {config!r:.80}",
    )
