"""Files of settings, flags of the recipe, and values of configurations."""

import json
import math
from functools import cache

import torch
import yaml
from hypothesis import strategies as st

from hf_summ.checkpoints.overrides import apply_overrides
from hf_summ.training.arguments import FLAGS
from hf_summ.training.parsing import bundled_configs, parse_arguments
from tests.doors import models
from tests.doors import strategies as our
from tests.doors.outcomes import door, tried, unchanged

_FLAGS = sorted(FLAGS)
_WORDS = "null true False no 1e400 1_000 0x10 - -- = é [1, { none 1e-5".split()
_values = st.sampled_from((*_WORDS, "a b")) | our.junk.map(str) | our.numbers.map(str)


@cache
def _bundled(name: str) -> dict:
    return yaml.safe_load(bundled_configs()[name].read_text(encoding="utf-8"))


@st.composite
def _flags(draw) -> list[str]:
    name, value = draw(st.sampled_from(_FLAGS)), draw(_values)
    name = draw(our.mostly(st.just(name), st.sampled_from((name[:-1], name.replace("_", "-")))))
    return draw(
        st.sampled_from(([f"--{name}", value], [f"--{name}={value}"], [f"--{name}"], [f"--no_{name}"], [value]))
    )


@door(
    data=st.data(),
    folder=our.folders,
    settings=st.sampled_from(sorted(bundled_configs())).map(_bundled),
    suffix=st.sampled_from((".yaml", ".yaml", ".yml", ".json", ".txt", "")),
    flags=st.lists(_flags(), max_size=2),
)
def test_files_of_settings(data, folder, settings, suffix, flags):
    settings = data.draw(st.just(settings) | our.spoiled_json(settings))
    settings |= data.draw(our.few(dict.fromkeys(_FLAGS, our.storable), 1))
    text = json.dumps(settings) if suffix == ".json" else yaml.safe_dump(settings, allow_unicode=True)
    content = text.encode("utf-8", "surrogatepass")
    (file := folder / f"settings{suffix}").write_bytes(data.draw(our.mostly(st.just(content), our.spoiled(content))))
    with unchanged(file):
        training = tried(lambda: parse_arguments([str(file), *(token for flag in flags for token in flag)])).training
    for name in ("learning_rate", "num_train_epochs", "max_grad_norm", "weight_decay", "warmup_steps"):
        assert math.isfinite(getattr(training, name)), name


@door(data=st.data(), model_type=models.types)
def test_configurations(data, model_type):
    made = models.ARCHITECTURES[model_type]
    known = {**made.config().to_dict(), **made.settings}
    changes = {name: our.storable | our.spoiled_json(value) for name, value in sorted(known.items())}
    settings = {**made.settings, **data.draw(our.few(changes, 2))}

    def build_empty():
        config = apply_overrides(made.config(), settings)
        # without memory: sizes may exceed any machine's
        with torch.device("meta"):
            return made.head_class(config)

    assert all(weight.numel() for weight in tried(build_empty).parameters())
