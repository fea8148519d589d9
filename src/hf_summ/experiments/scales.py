"""The scales of a table's rows: shrunk to seconds, to hours on two cores, or not at all."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from hf_summ.common.mappings import parse_yaml
from hf_summ.common.messages import nearest, unknown_choice
from hf_summ.experiments.tables import configs_folder
from hf_summ.training.parsing import settings_of

SCALES = ("tiny", "small", "full")


@dataclass(frozen=True)
class Scale:
    """Values that replace those of a configuration and are replaced by a row's.

    Args:
        config_overrides, flags: as in a configuration.
        vocabulary: `vocab_size`, `lowercase`, `units` and `digits_as_hash` of the vocabulary to fit to the training
            documents; None uses the configuration's `tokenizer_name`.
        toy_news: number of rows in each split of the made-up corpus to use if no data are given; None uses the paper's
            data.
    """

    name: str
    config_overrides: Mapping[str, Any] = field(default_factory=dict)
    flags: Mapping[str, Any] = field(default_factory=dict)
    vocabulary: Mapping[str, Any] | None = None
    toy_news: Mapping[str, int] | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that replace a configuration's."""
        return {**self.flags, "config_overrides": self.config_overrides}


def check_scale(name: str) -> None:
    """Check that there is a scale of that name.

    Raises:
        ValueError: there is none.
    """
    if name not in SCALES:
        raise ValueError(unknown_choice("`scale`", name, SCALES))


def load_scale(architecture: str, name: str) -> Scale:
    """Load the scale of that name for an architecture, named by its `model_type`.

    Raises:
        ValueError: an unknown scale, an architecture without scales, or an unknown entry of the scale.
    """
    check_scale(name)
    path = configs_folder() / "scales" / f"{architecture}.yaml"
    if not path.exists():
        raise ValueError(f"{path} does not exist: {architecture} has no scales, so its rows cannot be run")
    entry = parse_yaml(path.read_text(encoding="utf-8"))[name]
    known = [item.name for item in fields(Scale) if item.name != "name"]
    for key in entry:
        if key not in known:
            raise ValueError(f"{path}: {name}: unknown key {key!r}{nearest(key, known)}")
    try:
        return Scale(name, **{**entry, "flags": settings_of(entry.get("flags", {}))})
    except ValueError as error:
        raise ValueError(f"{path}: {name}: flags: {error}") from None
