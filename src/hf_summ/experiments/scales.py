"""The scales at which a table is run, read from `configs/scales/<architecture>.yaml`.

A scale sets the sizes of models and runs: "tiny" is for tests, "small" shows differences between rows, and "full" is
the scale of the papers. An architecture is named by its `model_type`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hf_summ.common.records import parse_yaml
from hf_summ.experiments.tables import Flags, configs_folder
from hf_summ.training.parsing import settings_of


@dataclass(frozen=True)
class Scale:
    """The settings of an architecture's rows at a scale.

    They override the settings of a paper's file, and the settings of a row override them.

    Args:
        name: one of `SCALES`.
        config_overrides: values of the model's configuration.
        flags: flags of the training recipe.
        vocabulary: settings of the vocabulary to fit to the training data: `vocab_size`, `lowercase`, `units` and
            `digits_as_hash`. If None, no vocabulary is fitted, and the flag `tokenizer_name` names the processor.
        toy_news: number of rows in each split of the made-up news, which are used unless the user gives data. If None,
            the data of the paper's file are used.
    """

    name: str
    config_overrides: Flags = field(default_factory=dict)
    flags: Flags = field(default_factory=dict)
    vocabulary: Mapping[str, str | int | bool] | None = None
    toy_news: Mapping[str, int] | None = None

    @property
    def settings(self) -> Flags:
        """The flags of the scale, with its `config_overrides`."""
        return {**self.flags, "config_overrides": self.config_overrides}


def load_scale(architecture: str, name: str) -> Scale:
    """Load a scale of an architecture.

    Args:
        architecture: the `model_type` of the architecture, such as "gdlf".
        name: one of `SCALES`.

    Raises:
        ValueError: the architecture has no scales, or a flag is wrong.
    """
    path = configs_folder() / "scales" / f"{architecture}.yaml"
    if not path.exists():
        raise ValueError(f"{path} does not exist: {architecture} has no scales, so its rows cannot be run")
    values = dict(parse_yaml(path.read_text(encoding="utf-8"))[name])
    values["flags"] = settings_of(values.get("flags", {}))
    return Scale(name, **values)
