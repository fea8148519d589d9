"""Flags of the recipe and of the commands that summarize: settings of `generate()`, and of the extractive stage."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from hf_summ.common.flags import flag
from hf_summ.models.checks import Range
from hf_summ.runtimes.settings import SETTINGS


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


def extraction_flags(*others: str) -> type:
    """A dataclass with the flags of the consistent extractive stage.

    Args:
        others: conditions under which the stage is applied, see `Flag`, besides those of these flags.
    """
    effects, applied = "training decoding updates", ("extract_share", "extract_tokens", *others)

    @dataclasses.dataclass
    class ExtractionFlags:
        """The extractive stage before the model."""

        extract_share: float | None = flag(
            effects,
            "Share of each document's sentences that the consistent extractive stage keeps",
            unset="all",
            range=Range(0, 1, above=True),
            unless=("extract_tokens",),
        )
        extract_tokens: int | None = flag(
            effects,
            "Number of tokens that the stage keeps, instead of extract_share",
            unset="all",
            range=Range(1, 10**7),
        )
        extract_idf: str | None = flag(
            effects,
            "File of document frequencies for the stage, written by `hf-summ idf`",
            unset="those within each document",
            needs=applied,
        )
        next_sentence_model: str | None = flag(
            effects,
            "BERT with a next-sentence head, with which the stage restores sentences: a folder or a Hub repository",
            unset="no sentences are restored",
            needs=applied,
        )

    return ExtractionFlags


def extracts(settings: Mapping[str, Any]) -> bool:
    """Whether the settings include the consistent extractive stage."""
    return any(settings.get(name) is not None for name in ("extract_share", "extract_tokens"))
