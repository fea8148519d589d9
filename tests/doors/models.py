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

ARCHITECTURES = {
    "gdlf": GDLF,
    "copy_transformer": COPY_TRANSFORMER,
    "drgd": DRGD,
    "highlight_transformer": HIGHLIGHT_TRANSFORMER,
    "sagcopy": SAGCOPY,
}
types = st.sampled_from(sorted(ARCHITECTURES))
# BART has no processor of ours, the Highlight-Transformer reads key phrases and each document separately
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
    architecture = ARCHITECTURES[model_type]
    if model_type == "gdlf":
        return build_with_processor(architecture, tokenizer(), tags="none")
    return build_with_processor(architecture, tokenizer())


@cache
def checkpoint(model_type: str) -> Path:
    """A folder with an architecture's model and processor, without the code for the Hub."""
    folder = Path(tempfile.mkdtemp(prefix=model_type, dir=conftest.CACHE))
    save(folder, *model(model_type))
    for code_file in folder.glob("*.py"):
        code_file.unlink()
    return folder


@cache
def reader(kind: str) -> SummarizationPipeline:
    """The pipeline of a model for which most documents are too long."""
    shared_model, shared_processor = model(kind)
    # the shared ones stay as they are
    reading_model, processor = copy.copy(shared_model).eval(), copy.copy(shared_processor)
    if kind == "bart":
        processor.model_max_length = READ
        return SummarizationPipeline(reading_model, tokenizer=processor, max_new_tokens=4, num_beams=1)
    processor.max_source_length = READ
    return SummarizationPipeline(reading_model, processor=processor, max_new_tokens=4, num_beams=1)
