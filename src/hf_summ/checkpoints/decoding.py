"""The settings of `generate()` as flags, of the recipe and of the commands that summarize."""

import dataclasses

from hf_summ.common.flags import flag
from hf_summ.models.checks import SETTINGS


def decoding_flags(unset: str, needs_beams: tuple[str, ...] = ()) -> type:
    """A dataclass with a flag for each of `SETTINGS` that has a help.

    Args:
        unset: where the value of an unset flag comes from.
        needs_beams: conditions under which settings of beam search have no effect, see `Flag`.
    """
    fields = []
    for name, setting in SETTINGS.items():
        if setting.help:
            limits = setting.range if setting.type in (int, float) else None
            unless = needs_beams if setting.needs_beams else ()
            declared = flag("training decoding", setting.help, None, unset, limits, setting.needs, unless)
            fields.append((name, setting.type | None, declared))
    return dataclasses.make_dataclass("DecodingFlags", fields, namespace={"__module__": __name__})
