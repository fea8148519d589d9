"""The consistent extractive stage before a run's model: the splits that it shortens, and the shares that it keeps."""

import functools
import hashlib
import inspect
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import datasets

from hf_summ.checkpoints.decoding import extracts
from hf_summ.checkpoints.loading import ModelArguments, Processor
from hf_summ.common.files import content_hash, hash_of_code
from hf_summ.data import sentences
from hf_summ.data.columns import WORD_TAGS, source_column
from hf_summ.data.sentences import sentence_places
from hf_summ.evaluation import words
from hf_summ.evaluation.pair_models import NextSentenceModel
from hf_summ.evaluation.words import no_words
from hf_summ.extractive import consistent, frequencies
from hf_summ.extractive.consistent import UNCHECKED, ConsistentStage, Selection
from hf_summ.extractive.settings import ExtractiveSettings
from hf_summ.models.text_documents import readable
from hf_summ.models.text_processing_gdlf import pairs_of_texts, tags_within
from hf_summ.training.arguments import DataArguments
from hf_summ.training.rows.preparing import MEASURED, cached_map, processor_fingerprint, whole_lengths

logger = logging.getLogger(__name__)

# validation goes with test: checkpoints are chosen on documents like those of test
SPLITS_OF = {"train": ("train",), "test": ("validation", "test"), "both": ("train", "validation", "test")}
# the code on which its results depend, besides this file
_CODE = [inspect.getfile(module) for module in (consistent, frequencies, sentences, words)]
# for each document: the numbers of its kept and of all its sentences, and whether it has words
_COUNTS = "extraction"


@dataclass(frozen=True)
class Extraction:
    """The stage that a run's flags describe.

    Args:
        splits: the splits whose documents it shortens.
        dependencies: all that its results depend on, except the documents and the code.
    """

    stage: ConsistentStage
    splits: tuple[str, ...]
    dependencies: tuple[Any, ...]

    @property
    def fingerprint(self) -> str:
        """A hash of the stage, which distinguishes runs."""
        return hashlib.sha256(json.dumps(self.dependencies).encode()).hexdigest()[:16]

    @property
    def settings(self) -> dict[str, Any]:
        """The flags of the stage, with True for files, whose names are those of this machine."""
        values = {"extract_share": self.stage.settings.share, "extract_tokens": self.stage.settings.tokens}
        values |= {"extract_idf": self.stage.idf is not None, "next_sentence_model": self.stage.judge is not None}
        return {name: value for name, value in values.items() if value not in (None, False)}

    def apply(
        self, rows: datasets.Dataset, split: str, processor: Processor, data: DataArguments, cache_dir: str | None
    ) -> datasets.Dataset:
        """The rows of a split with shortened documents, from the cache if they are there.

        Logs the shares of sentences and tokens that are kept; that of tokens is measured on the first `MEASURED` rows.
        """
        if split not in self.splits or not len(rows):
            return rows
        # the next-sentence model is on one device
        workers = data.preprocessing_num_workers if self.stage.judge is None else None
        convert, code = functools.partial(_shorten, stage=self.stage), hash_of_code([__file__, *_CODE])
        dependencies = *self.dependencies, code
        short = cached_map(rows, convert, dependencies, data, cache_dir, desc=f"extracting {split}", num_proc=workers)
        counts, short = short[_COUNTS], short.remove_columns(_COUNTS)
        if logger.isEnabledFor(logging.INFO):
            selected, total, with_words = (sum(column) for column in zip(*counts, strict=True))
            before, after = (
                sum(whole_lengths(documents[:MEASURED], processor, data.source_prefix)) for documents in (rows, short)
            )
            logger.info(
                f"{split}: the extractive stage keeps {selected / max(total, 1):.0%} of the sentences and "
                f"{after / before:.0%} of the tokens"
            )
            if with_words < len(rows):
                number = len(rows) - with_words
                report = f"{number} of {len(rows):,} documents have no words and keep their first sentences"
                logger.warning(f"{split}: {no_words(report, self.stage.settings.language)}")
        return short


def load_extraction(
    data: DataArguments, hub: ModelArguments, processor: Processor, corpus: datasets.DatasetDict
) -> Extraction | None:
    """The stage that the flags describe, with its model, or None if they describe none.

    Args:
        hub: the folder and the token of downloads.
    """
    if not extracts(vars(data)):
        return None
    splits = SPLITS_OF[data.extract_splits or "both"]
    for split in set(splits) & corpus.keys():
        if source_column(corpus[split].column_names) != "document":
            raise ValueError(
                f"--extract_splits: the examples of {split} have several documents each, but the extractive stage "
                "shortens single ones: omit --extract_share and --extract_tokens"
            )
    counts_tokens = data.extract_tokens is not None
    counter = functools.partial(_token_counts, getattr(processor, "tokenizer", processor)) if counts_tokens else None
    settings = ExtractiveSettings.of_flags(vars(data), language=data.language, counter=counter)
    stage = ConsistentStage.load(settings, cache_dir=hub.cache_dir, token=hub.token)
    # results depend on the files' contents, not on their names
    contents = []
    if data.extract_idf is not None:
        contents.append(content_hash(data.extract_idf))
    if isinstance(stage.judge, NextSentenceModel):
        contents.append(stage.judge.fingerprint())
    else:
        logger.warning(UNCHECKED)
    values = settings.share, settings.tokens, settings.idf is not None, settings.language
    return Extraction(stage, splits, (*values, *contents, processor_fingerprint(processor) if counts_tokens else None))


def _token_counts(tokenizer: Any, sentences: Sequence[str]) -> list[int]:
    """The number of a model's tokens in each sentence."""
    # a tokenizer rejects an empty list
    if not sentences:
        return []
    texts = [readable(sentence) for sentence in sentences]
    return [len(row) for row in tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]]


def _shorten(rows: dict[str, list], stage: ConsistentStage) -> dict[str, list]:
    selections = list(stage.choose(rows["document"]))
    columns: dict[str, list] = {"document": [], _COUNTS: []}
    for kept in selections:
        columns["document"].append(kept.summary())
        # a blank document is none of those without words
        columns[_COUNTS].append([len(kept.indices), len(kept.sentences), kept.has_words or not kept.sentences])
    if WORD_TAGS in rows:
        columns[WORD_TAGS] = [_tags_of(kept, tags) for kept, tags in zip(selections, rows[WORD_TAGS], strict=True)]
    return columns


def _tags_of(kept: Selection, tags: Any) -> str:
    """The tags of the kept sentences, given those of the document."""
    spans = sentence_places(kept.text, kept.sentences)
    (pairs,) = pairs_of_texts(tags)
    return json.dumps(tags_within(kept.text, pairs, [spans[index] for index in kept.indices]))
