"""The consistent extractive stage of a run, which shortens documents to some of their sentences before the model.

It is described in `hf_summ.extractive.consistent`. Here stand the splits that it shortens, the cache of its results,
and the shares of sentences and tokens that it keeps.
"""

import functools
import inspect
import json
import logging
from dataclasses import dataclass

import datasets

from hf_summ.checkpoints.decoding import extracts
from hf_summ.checkpoints.loading import ModelArguments, Processor
from hf_summ.common.hashes import content_hash, hash_of_code, hash_of_values
from hf_summ.data import sentences
from hf_summ.data.columns import WORD_TAGS, source_column
from hf_summ.data.sentences import sentence_places
from hf_summ.evaluation import words
from hf_summ.evaluation.pair_models import NextSentenceModel
from hf_summ.evaluation.words import no_words_message
from hf_summ.extractive import consistent, frequencies
from hf_summ.extractive.consistent import UNCHECKED, ConsistentStage, Selection
from hf_summ.extractive.settings import ExtractiveSettings
from hf_summ.models.text_word_tags import pairs_of_texts, tags_within
from hf_summ.runtimes import long_documents
from hf_summ.training.arguments import DataArguments
from hf_summ.training.rows.preparing import MEASURED, cached_map, code_files, processor_fingerprint, whole_lengths

logger = logging.getLogger(__name__)

# --extract_splits -> the splits; validation goes with test, as checkpoints are chosen on documents like those of test
SPLITS_OF = {"train": ("train",), "test": ("validation", "test"), "both": ("train", "validation", "test")}
# the files with the code that determines the stage's results
_CODE = [__file__] + [inspect.getfile(module) for module in (consistent, frequencies, long_documents, sentences, words)]
# a column with a list for each document: the number of its kept sentences, the number of all its sentences, and whether
# it has words
_COUNTS = "extraction"


@dataclass(frozen=True)
class Extraction:
    """The stage that a run's flags describe.

    Args:
        splits: the splits whose documents are shortened.
        dependencies: all that the results depend on, except the documents and the code; JSON can represent them.
    """

    stage: ConsistentStage
    splits: tuple[str, ...]
    dependencies: tuple[object, ...]

    @property
    def fingerprint(self) -> str:
        """A hash of the stage, which distinguishes runs."""
        return hash_of_values(self.dependencies)[:16]

    @property
    def settings(self) -> dict[str, object]:
        """The flags that the user gave for this stage, as the model's config records them.

        The names of files and models are replaced by True, as they may not exist on other machines.
        """
        flags: dict[str, object] = {}
        if self.stage.settings.share is not None:
            flags["extract_share"] = self.stage.settings.share
        if self.stage.settings.tokens is not None:
            flags["extract_tokens"] = self.stage.settings.tokens
        if self.stage.idf is not None:
            flags["extract_idf"] = True
        if self.stage.judge is not None:
            flags["next_sentence_model"] = True
        return flags

    def apply(
        self, rows: datasets.Dataset, split: str, processor: Processor, data: DataArguments, cache_dir: str | None
    ) -> datasets.Dataset:
        """The rows of a split with shortened documents, from the cache if they are there.

        The shares of sentences and tokens that are kept are logged as information, and the number of documents without
        words as a warning. The share of tokens is measured on the first `MEASURED` rows.

        Args:
            rows: the rows of the split, each with a single document.
            split: the name of the split. If the stage does not shorten this split, the rows are returned unchanged.
            processor: the model's processor, which counts the tokens.
            cache_dir: the folder of the cache, or None for the usual cache of datasets.
        """
        if split not in self.splits or len(rows) == 0:
            return rows
        code = set(_CODE)
        if self.stage.settings.counter is not None:
            code |= code_files(processor)
        # the next-sentence model is on one device, so one process runs it
        workers = data.preprocessing_num_workers if self.stage.judge is None else None
        shortened = cached_map(
            rows,
            _shorten,
            list(self.dependencies) + [hash_of_code(code)],
            data,
            cache_dir,
            desc=f"extracting {split}",
            num_proc=workers,
            fn_kwargs={"stage": self.stage},
        )
        counts = shortened[_COUNTS]
        shortened = shortened.remove_columns(_COUNTS)
        kept_sentences = 0
        all_sentences = 0
        documents_with_words = 0
        for kept, total, has_words in counts:
            kept_sentences += kept
            all_sentences += total
            documents_with_words += has_words
        if logger.isEnabledFor(logging.INFO):
            # Tokens are counted only if the message is shown, as this takes long. All numbers are 0 if all texts are
            # blank, and the shares are then 0, too.
            tokens_before = sum(whole_lengths(rows[:MEASURED], processor, data.source_prefix))
            tokens_after = sum(whole_lengths(shortened[:MEASURED], processor, data.source_prefix))
            logger.info(
                f"{split}: the extractive stage keeps {kept_sentences / max(all_sentences, 1):.0%} of the sentences "
                f"and {tokens_after / max(tokens_before, 1):.0%} of the tokens"
            )
        if documents_with_words < len(rows):
            number = len(rows) - documents_with_words
            report = f"{number} of {len(rows):,} documents have no words and keep their first sentences"
            logger.warning(f"{split}: {no_words_message(report, self.stage.settings.language)}")
        return shortened


def load_extraction(
    data: DataArguments, hub: ModelArguments, processor: Processor, corpus: datasets.DatasetDict
) -> Extraction | None:
    """The stage that the flags describe, with its next-sentence model, or None if they describe none.

    Args:
        hub: the folder and the token of downloads.
        processor: the model's processor, which counts tokens for --extract_tokens.
        corpus: the splits that the run reads.

    Raises:
        ValueError: examples of a split that is to be shortened have several documents.
    """
    if not extracts(vars(data)):
        return None
    splits = SPLITS_OF[data.extract_splits or "both"]
    for split in splits:
        if split in corpus and source_column(corpus[split].column_names) != "document":
            raise ValueError(
                f"--extract_splits: the examples of {split} have several documents each, but the extractive stage "
                "shortens single ones: omit --extract_share and --extract_tokens"
            )
    counts_tokens = data.extract_tokens is not None
    counter = None
    if counts_tokens:
        counter = functools.partial(long_documents.token_counts, processor)
    settings = ExtractiveSettings.from_flags(vars(data), language=data.language, counter=counter)
    stage = ConsistentStage.load(settings, cache_dir=hub.cache_dir, token=hub.token)
    # results depend on the contents of the files, and not on their names
    dependencies: list[object] = [settings.share, settings.tokens, settings.idf is not None, settings.language]
    if data.extract_idf is not None:
        dependencies.append(content_hash(data.extract_idf))
    if isinstance(stage.judge, NextSentenceModel):
        dependencies.append(stage.judge.fingerprint())
    else:
        logger.warning(UNCHECKED)
    dependencies.append(processor_fingerprint(processor) if counts_tokens else None)
    return Extraction(stage, splits, tuple(dependencies))


def _shorten(rows: dict[str, list], stage: ConsistentStage) -> dict[str, list]:
    """The shortened documents of a batch of rows, their counts in the column `_COUNTS`, and the tags of their words.

    Args:
        rows: the columns of the batch by name.
    """
    selections = list(stage.select(rows["document"]))
    columns: dict[str, list] = {"document": [], _COUNTS: []}
    for selection in selections:
        columns["document"].append(selection.summary())
        # a blank document has no sentences, and is not reported as one without words
        has_words = selection.has_words or not selection.sentences
        columns[_COUNTS].append([len(selection.indices), len(selection.sentences), has_words])
    if WORD_TAGS in rows:
        columns[WORD_TAGS] = []
        for selection, tags in zip(selections, rows[WORD_TAGS], strict=True):
            columns[WORD_TAGS].append(_kept_tags(selection, tags))
    return columns


def _kept_tags(selection: Selection, tags: str | list) -> str:
    """The words of the kept sentences with their tags, as JSON.

    Args:
        selection: the sentences of the document, and which of them are kept.
        tags: a pair for each word of the whole document, the word and its tag; or JSON of these pairs.
    """
    spans = sentence_places(selection.text, selection.sentences)
    kept_spans = [spans[index] for index in selection.indices]
    (pairs,) = pairs_of_texts(tags)
    return json.dumps(tags_within(selection.text, pairs, kept_spans))
