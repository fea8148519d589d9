"""All areas of the torture, by name."""

from collections.abc import Mapping

from tests.torture import (
    area_cards,
    area_checkpoints,
    area_cost,
    area_extraction,
    area_files,
    area_flags,
    area_generation,
    area_pipeline,
    area_processors,
    area_raw,
    area_requests,
    area_rows,
    area_scoring,
    area_settings,
    area_texts,
    area_training,
    area_vocabulary,
    area_votes,
)
from tests.torture.cases import Maker

AREAS: Mapping[str, Maker] = {
    "texts": area_texts.make,
    "files": area_files.make,
    "raw": area_raw.make,
    "settings": area_settings.make,
    "vocabulary": area_vocabulary.make,
    "processors": area_processors.make,
    "checkpoints": area_checkpoints.make,
    "generation": area_generation.make,
    "pipeline": area_pipeline.make,
    "scoring": area_scoring.make,
    "extraction": area_extraction.make,
    "requests": area_requests.make,
    "cost": area_cost.make,
    "rows": area_rows.make,
    "votes": area_votes.make,
    "flags": area_flags.make,
    "training": area_training.make,
    "cards": area_cards.make,
}
