"""Flags of the recipe and of the commands that summarize.

The flags are the settings of `generate()`, and the settings of the extractive stage, which selects sentences of a
document for the model to read.
"""

import dataclasses
from collections.abc import Mapping

from hf_summ.common.flags import flag
from hf_summ.models.checks import Range
from hf_summ.runtimes.settings import SETTINGS


def decoding_flags(unset: str, needs_beams: tuple[str, ...] = ()) -> type:
    """Make a dataclass with one flag for each setting of `generate()` that has a help.

    Args:
        unset: text for the flags' help, which says where the value of an unset flag comes from.
        needs_beams: conditions under which the settings of beam search have no effect. `Flag` describes conditions.
    """
    fields = []
    for name, setting in SETTINGS.items():
        if not setting.help:
            continue
        limits = None
        if setting.type in (int, float):
            limits = setting.range
        unless: tuple[str, ...] = ()
        if setting.needs_beams:
            unless = needs_beams
        declaration = flag("training decoding", setting.help, None, unset, limits, setting.needs, unless)
        fields.append((name, setting.type | None, declaration))
    return dataclasses.make_dataclass("DecodingFlags", fields, namespace={"__module__": __name__})


def extraction_flags(*conditions: str) -> type:
    """Make a dataclass with the flags of the consistent extractive stage.

    Args:
        conditions: conditions under which the stage is applied even if neither `extract_share` nor `extract_tokens` is
            set. `Flag` describes conditions.
    """
    effects = "training decoding updates"
    needs_stage = ("extract_share", "extract_tokens") + conditions

    @dataclasses.dataclass
    class ExtractionFlags:
        """The extractive stage before the model."""

        extract_share: float | None = flag(
            effects,
            "Share of each document's sentences that the consistent extractive stage keeps",
            unset="all",
            range=Range(0, 1, excludes_least=True),
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
            needs=needs_stage,
        )
        next_sentence_model: str | None = flag(
            effects,
            "BERT with a next-sentence head, with which the stage restores sentences: a folder or a Hub repository",
            unset="no sentences are restored",
            needs=needs_stage,
        )

    return ExtractionFlags


def extracts(settings: Mapping[str, object]) -> bool:
    """Whether settings, by the names of the flags, apply the consistent extractive stage."""
    return settings.get("extract_share") is not None or settings.get("extract_tokens") is not None
