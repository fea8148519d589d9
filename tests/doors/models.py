"""The tiny models and checkpoints of these tests; copy one before changing it."""

import copy
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from hf_summ import SummarizationPipeline
from hf_summ.data import fit_vocabulary
from tests import conftest
from tests.conftest import save
from tests.models.architectures import (
    COPY_TRANSFORMER,
    DRGD,
    GDLF,
    HIGHLIGHT_TRANSFORMER,
    SAGCOPY,
    build_with_processor,
)
from tests.training.tiny import bart

ARCHITECTURES = {made.model_type: made for made in (GDLF, COPY_TRANSFORMER, DRGD, HIGHLIGHT_TRANSFORMER, SAGCOPY)}
types = st.sampled_from(sorted(ARCHITECTURES))
# one has no processor of ours, one reads key phrases, and one reads each document separately
READERS = ("bart", "drgd", "gdlf", "highlight_transformer")
# number of tokens of a reader's model input
READ = 60


@cache
def tokenizer() -> Any:
    """A byte-level BPE of 400 tokens."""
    return fit_vocabulary(conftest.SENTENCES, vocab_size=400, show_progress=False)


@cache
def model(model_type: str) -> tuple[Any, Any]:
    """An architecture's tiny model and its processor, which needs no tagger; or a BART and its tokenizer."""
    if model_type == "bart":
        return bart(tokenizer()), tokenizer()
    tags = {"tags": "none"} if model_type == "gdlf" else {}
    return build_with_processor(ARCHITECTURES[model_type], tokenizer(), **tags)


@cache
def checkpoint(model_type: str) -> Path:
    """A folder with an architecture's model and processor, without the code for the Hub."""
    made, processor = model(model_type)
    folder = Path(tempfile.mkdtemp(prefix=model_type, dir=conftest.CACHE))
    save(folder, made, processor)
    for code in folder.glob("*.py"):
        code.unlink()
    return folder


@cache
def reader(kind: str) -> SummarizationPipeline:
    """The pipeline of a model for which most documents are too long."""
    made, processor = map(copy.copy, model(kind))
    setattr(processor, "model_max_length" if kind == "bart" else "max_source_length", READ)
    given = {"tokenizer": processor} if kind == "bart" else {"processor": processor}
    return SummarizationPipeline(made.eval(), **given, max_new_tokens=4, num_beams=1)
