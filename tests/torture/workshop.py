"""The tiny models, processors and checkpoints that cases share; copy one before changing it."""

import copy
import dataclasses
import tempfile
from collections.abc import Callable
from functools import cached_property, wraps
from pathlib import Path

import torch

from tests.conftest import SENTENCES
from tests.models.architectures import (
    COPY_TRANSFORMER,
    DRGD,
    GDLF,
    HIGHLIGHT_TRANSFORMER,
    SAGCOPY,
    Architecture,
    build_with_processor,
)
from tests.training.tiny import bart

ARCHITECTURES = {made.model_type: made for made in (GDLF, COPY_TRANSFORMER, DRGD, HIGHLIGHT_TRANSFORMER, SAGCOPY)}
# one has no processor, one reads key phrases, and one reads each document separately
READERS = ("bart", "drgd", "gdlf", "highlight_transformer")
# numbers of tokens: of a reader's model input, and of a summary
READ, WRITTEN = 60, 4
# limits of work for one service, and of seconds for another
FRUGAL, HASTY = 50_000, 1.5
# the tests run without a tagger
_UNTAGGED = {"gdlf": {"tags": "none"}}


def _made_once(make: Callable) -> Callable:
    """A method of one argument whose results are cached in the object."""

    @wraps(make)
    def kept(self, model_type: str):
        made = vars(self).setdefault(make.__name__ + "_made", {})
        if model_type not in made:
            made[model_type] = make(self, model_type)
        return made[model_type]

    return kept


class Workshop:
    """Makes each object when it is first used."""

    def __init__(self):
        self._ends: list[Callable[[], object]] = []

    @cached_property
    def tokenizer(self):
        """A byte-level BPE of 400 tokens."""
        from hf_summ.data import fit_vocabulary

        return fit_vocabulary(SENTENCES, vocab_size=400, show_progress=False)

    @cached_property
    def next_sentence_model(self):
        """A BERT that judges pairs of sentences."""
        from hf_summ.extractive.next_sentence import NextSentenceModel
        from tests.extractive.test_next_sentence import saved

        torch.manual_seed(0)
        return NextSentenceModel(saved(self._folder / "next_sentence"))

    @_made_once
    def model(self, model_type: str):
        """An architecture's tiny model and its processor."""
        return build_with_processor(self._architecture(model_type), self.tokenizer, **_UNTAGGED.get(model_type, {}))

    @_made_once
    def pipeline(self, model_type: str):
        """An architecture's pipeline for summaries of a few tokens."""
        from transformers import pipeline

        return pipeline("summarization", model=str(self.checkpoint(model_type)), device="cpu")

    @_made_once
    def reader(self, kind: str):
        """The pipeline of a model for which most documents are too long."""
        from hf_summ import SummarizationPipeline

        if kind == "bart":
            tokenizer = copy.deepcopy(self.tokenizer)
            tokenizer.model_max_length = READ
            return SummarizationPipeline(bart(tokenizer).eval(), tokenizer, max_new_tokens=WRITTEN, num_beams=1)
        model, processor = map(copy.copy, self.model(kind))
        processor.max_source_length = READ
        return SummarizationPipeline(model.eval(), processor=processor, max_new_tokens=WRITTEN, num_beams=1)

    @_made_once
    def trained(self, kind: str):
        """The model and processor of a BART's or an architecture's run."""
        return (bart(self.tokenizer), self.tokenizer) if kind == "bart" else self.model(kind)

    @_made_once
    def service(self, kind: str):
        """A running service of a reader's pipeline."""
        return self._service(kind, limit_new_tokens=2 * WRITTEN, limit_num_beams=4)

    @_made_once
    def frugal_service(self, kind: str):
        """A service that accepts long summaries, but little work."""
        return self._service(kind, limit_work=FRUGAL)

    @_made_once
    def hasty_service(self, kind: str):
        """A service that accepts any work, but ends it soon."""
        return self._service(kind, limit_work=1e15, limit_decode_seconds=HASTY)

    def _service(self, kind: str, **limits):
        from hf_summ.serving import Limits, Service

        summarizer = self.reader(kind)
        service = Service(
            lambda: summarizer, Limits(batch_wait=2, limit_body=20_000, limit_source_tokens=2000, **limits)
        )
        self._ends.append(service.stop)
        return service.start()

    def close(self) -> None:
        """End the services."""
        while self._ends:
            self._ends.pop()()

    @_made_once
    def checkpoint(self, model_type: str) -> Path:
        """A folder with an architecture's model and processor, without the code for the Hub."""
        model, processor = self.model(model_type)
        model.config.source_ranges = {"tokens_per_character": [0.1, 1.0], "characters": [10, 500]}
        folder = self._folder / model_type
        model.save_pretrained(folder)
        processor.save_pretrained(folder)
        for code in folder.glob("*.py"):
            code.unlink()
        return folder

    def make_all(self) -> None:
        """Make everything before forking, so that no process makes it again."""
        for model_type in ARCHITECTURES:
            self.pipeline(model_type)
        for kind in READERS:
            # not its service: forks do not have its thread
            self.reader(kind)
        _ = self.next_sentence_model

    @cached_property
    def _folder(self) -> Path:
        self._temporary = tempfile.TemporaryDirectory(prefix="torture_workshop_")
        return Path(self._temporary.name)

    @staticmethod
    def _architecture(model_type: str) -> Architecture:
        made = ARCHITECTURES[model_type]
        return dataclasses.replace(made, settings={**made.settings, **_UNTAGGED.get(model_type, {})})
