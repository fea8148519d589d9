"""Files of settings, flags of the recipe, and values of configurations."""

import itertools
import json
import math
from functools import cache

import torch
import yaml
from hypothesis import strategies as st

from hf_summ.checkpoints.overrides import apply_overrides
from hf_summ.training.arguments import FLAGS
from hf_summ.training.parsing import bundled_configs, parse_arguments
from tests.doors import models, strategies
from tests.doors.outcomes import door, tried, unchanged

_FLAGS = sorted(FLAGS)
_WORDS = "null true False no 1e400 1_000 0x10 - -- = é [1, { none 1e-5".split()
_values = st.sampled_from((*_WORDS, "a b")) | strategies.junk.map(str) | strategies.numbers.map(str)


@cache
def _bundled(name: str) -> dict:
    return yaml.safe_load(bundled_configs()[name].read_text(encoding="utf-8"))


@st.composite
def _flags(draw) -> list[str]:
    """The tokens of a flag; its name is mostly one of the recipe's."""
    name = draw(st.sampled_from(_FLAGS))
    value = draw(_values)
    odd_names = st.sampled_from((name[:-1], name.replace("_", "-")))
    name = draw(strategies.mostly(st.just(name), odd_names))
    forms = ([f"--{name}", value], [f"--{name}={value}"], [f"--{name}"], [f"--no_{name}"], [value])
    return draw(st.sampled_from(forms))


@door(
    data=st.data(),
    folder=strategies.folders,
    settings=st.sampled_from(sorted(bundled_configs())).map(_bundled),
    suffix=st.sampled_from((".yaml", ".yaml", ".yml", ".json", ".txt", "")),
    flags=st.lists(_flags(), max_size=2),
)
def test_files_of_settings(data, folder, settings, suffix, flags):
    settings = data.draw(st.just(settings) | strategies.spoiled_json(settings))
    settings |= data.draw(strategies.few(dict.fromkeys(_FLAGS, strategies.storable), 1))
    if suffix == ".json":
        text = json.dumps(settings)
    else:
        text = yaml.safe_dump(settings, allow_unicode=True)
    content = text.encode("utf-8", "surrogatepass")
    file = folder / f"settings{suffix}"
    file.write_bytes(data.draw(strategies.mostly(st.just(content), strategies.spoiled(content))))
    argv = [str(file), *itertools.chain.from_iterable(flags)]
    with unchanged(file):
        training = tried(lambda: parse_arguments(argv)).training
    for name in ("learning_rate", "num_train_epochs", "max_grad_norm", "weight_decay", "warmup_steps"):
        assert math.isfinite(getattr(training, name)), name


@door(data=st.data(), model_type=models.types)
def test_configurations(data, model_type):
    architecture = models.ARCHITECTURES[model_type]
    values = {**architecture.config().to_dict(), **architecture.settings}
    changes = {}
    for name, value in sorted(values.items()):
        changes[name] = strategies.storable | strategies.spoiled_json(value)
    settings = {**architecture.settings, **data.draw(strategies.few(changes, 2))}

    def build_empty():
        config = apply_overrides(architecture.config(), settings)
        # the weights take no memory, because sizes may exceed any machine's
        with torch.device("meta"):
            return architecture.head_class(config)

    model = tried(build_empty)
    assert all(weight.numel() for weight in model.parameters())
