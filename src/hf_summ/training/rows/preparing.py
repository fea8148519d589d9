"""The splits that a run reads, and their texts as token ids, cached by everything on which the ids depend."""

import inspect
import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import datasets
import numpy as np
from filelock import FileLock
from transformers import PreTrainedTokenizerBase
from transformers.dynamic_module_utils import get_relative_import_files

from hf_summ.checkpoints.loading import Processor
from hf_summ.common.hashes import content_hash, hash_of_code, hash_of_values
from hf_summ.data.columns import PREFIX_COLUMN, WORD_TAGS, has_references, source_column
from hf_summ.data.loading import cache_folder
from hf_summ.evaluation.words import split_words
from hf_summ.models.text_processing_gdlf import pipeline_name
from hf_summ.models.text_processing_highlight_transformer import read_phrases
from hf_summ.runtimes.any_model import prefix_arguments, with_prefix
from hf_summ.training.arguments import DataArguments, SummarizationTrainingArguments
from hf_summ.training.model import RunModel
from hf_summ.training.rows.batches import token_lengths

logger = logging.getLogger(__name__)

# number of rows of a stream that are shuffled at a time
_SHUFFLED = 10_000

# number of truncated rows whose length before truncation is measured
MEASURED = 200
# a maximum length in tokens that no text reaches, so that nothing is truncated
_ENDLESS = 10**7


@dataclass(frozen=True)
class _Step:
    """A step of a run, as far as it concerns the split that it reads.

    Args:
        is_requested: whether the run has the step.
        max_samples: number of rows that are read at most, or None for all.
        flag: the flag that requests the step, in messages.
        file_flag: the flag that names a file of the split, in messages.
    """

    is_requested: bool
    max_samples: int | None
    flag: str
    file_flag: str


def choose_splits(
    corpus: datasets.DatasetDict, data: DataArguments, training: SummarizationTrainingArguments
) -> datasets.DatasetDict:
    """The splits that the run's steps read, limited to the requested coverage and numbers of samples.

    A stream is shuffled, `_SHUFFLED` rows at a time.

    Args:
        corpus: the splits of the corpus.
        data: the least coverage of training rows, and the largest number of rows of each split.
        training: which steps the run has, and the seeds.

    Raises:
        ValueError: the corpus lacks a split, or no training row has the requested coverage.
    """
    evaluation_flag = "--do_eval or --eval_strategy"
    steps = {
        "train": _Step(training.do_train, data.max_train_samples, "--do_train", "--train_file"),
        "validation": _Step(training.do_eval, data.max_eval_samples, evaluation_flag, "--validation_file"),
        "test": _Step(training.do_predict, data.max_predict_samples, "--do_predict", "--test_file"),
    }
    splits = datasets.DatasetDict()
    for split, step in steps.items():
        if not step.is_requested:
            continue
        if split not in corpus:
            raise ValueError(
                f"{step.flag} needs a {split} split: give {step.file_flag}; the corpus has {', '.join(corpus)}"
            )
        rows = corpus[split]
        if isinstance(rows, datasets.IterableDataset):
            if step.max_samples is not None:
                rows = rows.take(step.max_samples)
            seed = training.seed if training.data_seed is None else training.data_seed
            splits[split] = rows.shuffle(seed, buffer_size=_SHUFFLED)
            continue
        if split == "train" and data.min_coverage is not None:
            rows = _covered(rows, data.min_coverage, data.language)
        if step.max_samples is not None:
            rows = rows.select(range(min(step.max_samples, len(rows))))
        splits[split] = rows
    return splits


def _covered(rows: datasets.Dataset, least: float, language: str) -> datasets.Dataset:
    """The rows whose coverage is at least `least`, 0 to 1; a ValueError if there are none.

    The coverage is the share of the summary's words that the document contains (Grusky et al. 2018).
    """

    def is_covered(document: str, summary: str) -> bool:
        vocabulary, words = set(split_words(document, language)), split_words(summary, language)
        return sum(word in vocabulary for word in words) >= least * len(words)

    covered = rows.filter(is_covered, input_columns=["document", "summary"], desc="filtering by coverage")
    if not len(covered):
        raise ValueError(f"--min_coverage {least}: none of the {len(rows):,} training rows has it: lower it")
    logger.info(f"train: {len(covered):,} of {len(rows):,} rows have a coverage of at least {least}")
    return covered


def prepare_splits(
    corpus: datasets.DatasetDict, run_model: RunModel, data: DataArguments, cache_dir: str | None, with_documents: bool
) -> dict[str, datasets.Dataset]:
    """The rows of each split as the model reads them; the number of truncated texts is logged.

    Summaries of the validation and test splits are scored, so the rows of these splits keep all their references.

    Args:
        run_model: the model, its processor, and the lengths to which texts are truncated.
        with_documents: whether the rows of these splits also keep their documents and prefixes.
    """
    processor = run_model.processor
    _warn_of_equal_prefixes(corpus, processor, data.source_prefix)
    splits = {}
    for split, rows in corpus.items():
        is_scored = split != "train"
        target_length = run_model.lengths.evaluation_target if is_scored else run_model.lengths.target
        lengths = (run_model.lengths.source, target_length)
        if isinstance(rows, datasets.IterableDataset):
            settings = {"processor": processor, "lengths": lengths, "prefix": data.source_prefix}
            splits[split] = rows.map(encode, batched=True, remove_columns=rows.column_names, fn_kwargs=settings)
            continue
        prepared = prepare(rows, processor, data, lengths, cache_dir, f"preparing {split}")
        logger.info(f"{split}: {len(rows):,} documents")
        if logger.isEnabledFor(logging.INFO):
            for truncation in describe_truncation(rows, prepared, processor, lengths, data.source_prefix):
                logger.info(f"{split}: {truncation}")
        # these columns are added to the cached rows, so that the cache does not depend on the metrics
        added_columns = []
        if with_documents and is_scored:
            added_columns.append(source_column(rows.column_names))
            if PREFIX_COLUMN in rows.column_names:
                added_columns.append(PREFIX_COLUMN)
        if has_references(rows.features) and is_scored:
            logger.info(f"{split}: summaries are scored against all texts in the column 'references'")
            added_columns.append("references")
        if added_columns:
            prepared = datasets.concatenate_datasets([prepared, rows.select_columns(added_columns)], axis=1)
        splits[split] = prepared
    return splits


def _warn_of_equal_prefixes(corpus: datasets.DatasetDict, processor: Processor, prefix: str) -> None:
    """Warn once if two prefixes in the column `prefix` have the same ids, so that the model cannot tell them apart.

    Words that the vocabulary lacks have the same id. The rows of a stream are not examined.

    Args:
        prefix: as in `encode`.
    """
    tokenizer = getattr(processor, "tokenizer", processor)
    prefix_of_ids: dict[tuple[int, ...], str] = {}
    for rows in corpus.values():
        if isinstance(rows, datasets.IterableDataset) or PREFIX_COLUMN not in rows.column_names:
            continue
        for row_prefix in dict.fromkeys(rows[PREFIX_COLUMN]):
            text = prefix if row_prefix is None else row_prefix
            ids = tuple(tokenizer(text)["input_ids"])
            first_prefix = prefix_of_ids.setdefault(ids, text)
            if first_prefix != text:
                logger.warning(
                    f"the prefixes {first_prefix!r:.80} and {text!r:.80} are the same tokens to the model, which "
                    "cannot tell them apart: change one, or fit a vocabulary by `hf-summ vocabulary --prefix_column`"
                )
                return


def prepare(
    rows: datasets.Dataset,
    processor: Processor,
    data: DataArguments,
    lengths: tuple[int, int],
    cache_dir: str | None,
    description: str,
) -> datasets.Dataset:
    """Convert rows of documents and summaries to the model's inputs, and keep the column `summary`.

    The result is cached under a fingerprint of the rows, the processor, the lengths, the prefix and the code: this file
    and those of the processor. The fingerprint is equal in every run. The hash that datasets makes of a processor would
    differ between runs, as a processor has a state.

    Args:
        lengths: the numbers of tokens to which documents and summaries are truncated.
        cache_dir: the folder of the cache, or None for the usual cache of datasets.
        description: the title of the progress bar.
    """
    removed_columns = list(rows.column_names)
    removed_columns.remove("summary")
    source_length, target_length = lengths
    dependencies = [
        processor_fingerprint(processor),
        tagger_fingerprint(processor),
        source_length,
        target_length,
        data.source_prefix,
        hash_of_code({__file__} | code_files(processor)),
    ]
    return cached_map(
        rows,
        encode,
        dependencies,
        data,
        cache_dir,
        desc=description,
        num_proc=data.preprocessing_num_workers,
        remove_columns=removed_columns,
        fn_kwargs={"processor": processor, "lengths": lengths, "prefix": data.source_prefix},
    )


def cached_map(
    rows: datasets.Dataset,
    convert: Callable[..., dict[str, list]],
    dependencies: Sequence[object],
    data: DataArguments,
    cache_dir: str | None,
    **settings: Any,
) -> datasets.Dataset:
    """The rows, converted in batches and cached in a file.

    Args:
        convert: takes a batch of columns by name, and the arguments in `fn_kwargs`; returns columns.
        dependencies: all that the result depends on, except the rows; JSON can represent them.
        data: whether results that are in the cache are converted again.
        cache_dir: the folder of the cache, or None for the usual cache of datasets.
        settings: further arguments of `Dataset.map`.
    """
    fingerprint = hash_of_values([rows._fingerprint] + list(dependencies))[:32]
    file = str(cache_folder(cache_dir) / f"{fingerprint}.arrow")
    # runs that start together on one corpus convert it once
    with FileLock(f"{file}.lock"):
        return rows.map(
            convert,
            batched=True,
            load_from_cache_file=not data.overwrite_cache,
            cache_file_name=file,
            new_fingerprint=fingerprint,
            **settings,
        )


def encode(rows: Mapping[str, list], processor: Processor, lengths: tuple[int, int], prefix: str) -> dict[str, list]:
    """Convert a batch of rows to lists of token ids.

    The package's processors read the texts of a column `documents` separately; a bare tokenizer reads the column
    `document`. A processor for key phrases takes them from the column `phrases`, and one for tags of words takes them
    from the column `word_tags`.

    Args:
        rows: the columns of the batch by name.
        lengths: the numbers of tokens to which documents and summaries are truncated.
        prefix: the text before the documents of rows that have no prefix in the column `prefix`.

    Returns:
        The model's inputs by name, among them `input_ids`, `attention_mask` and `labels`, with a list for each row.
    """
    source_length, target_length = lengths
    if isinstance(processor, PreTrainedTokenizerBase):
        documents = with_prefixes(rows, "document", prefix)
        input_ids = _tokenize(processor, documents, source_length)
        return {
            "input_ids": input_ids,
            "attention_mask": [[1] * len(ids) for ids in input_ids],
            "labels": _tokenize(processor, rows["summary"], target_length, as_target=True),
        }
    examples = with_prefixes(rows, source_column(rows), prefix)
    annotations: dict[str, list] = dict(prefix_arguments(processor, prefixes_of_rows(rows, prefix)))
    if "phrases" in rows and "phrases" in inspect.signature(processor.source_features).parameters:
        annotations["phrases"] = [read_phrases(phrases) for phrases in rows["phrases"]]
    if WORD_TAGS in rows and getattr(processor, "tags", "none") != "none":
        annotations[WORD_TAGS] = rows[WORD_TAGS]
    features = processor(
        examples, rows["summary"], max_length=source_length, max_target_length=target_length, **annotations
    )
    return dict(features)


def with_prefixes(rows: Mapping[str, Sequence], column: str, prefix: str) -> list:
    """The documents in a column, each after its row's prefix in the column `prefix`, or else after `prefix`.

    An entry of the column is a text, or a list of several documents.
    """
    prefixed = []
    for example, row_prefix in zip(rows[column], prefixes_of_rows(rows, prefix), strict=True):
        prefixed.append(with_prefix(example, row_prefix))
    return prefixed


def prefixes_of_rows(rows: Mapping[str, Sequence], prefix: str) -> list[str]:
    """The prefix of each row in the column `prefix`, or else `prefix`."""
    row_prefixes = rows.get(PREFIX_COLUMN) or [None] * len(rows[source_column(rows)])
    return [prefix if row_prefix is None else row_prefix for row_prefix in row_prefixes]


def describe_truncation(
    rows: datasets.Dataset, prepared: datasets.Dataset, processor: Processor, lengths: tuple[int, int], prefix: str
) -> list[str]:
    """Lines for the user: the numbers of truncated documents and summaries, and the share of tokens that they keep.

    A row of the full length may have been truncated. Only the first `MEASURED` of these rows are measured, and the
    numbers for all rows are estimated from them.

    Args:
        rows: the texts.
        prepared: the same rows as `prepare` converted them.
        lengths: the numbers of tokens to which documents and summaries were truncated.
        prefix: as in `encode`.
    """
    columns = {"documents": "input_ids", "summaries": "labels"}
    lines = []
    for (texts, column), limit in zip(columns.items(), lengths, strict=True):
        full = np.flatnonzero(token_lengths(prepared, column) >= limit)
        if len(full) == 0:
            continue
        measured = rows.select(full[:MEASURED])[:]
        lengths_before = np.array(whole_lengths(measured, processor, prefix, column))
        truncated = lengths_before[lengths_before > limit]
        if len(truncated) == 0:
            continue
        number = round(len(full) * len(truncated) / len(lengths_before))
        about = "" if len(full) == len(lengths_before) else "about "
        kept_share = (limit / truncated).mean()
        lines.append(
            f"{about}{number:,} of {len(rows):,} {texts} ({number / len(rows):.0%}) are truncated to "
            f"{limit:,} tokens, which keeps {kept_share:.0%} of their tokens"
        )
    return lines


def whole_lengths(rows: Mapping[str, list], processor: Processor, prefix: str, column: str = "input_ids") -> list[int]:
    """The number of tokens of each document or summary as the model reads it, before truncation.

    Special tokens count, and the documents of an example count together.

    Args:
        rows: the columns of the texts by name.
        prefix: as in `encode`.
        column: `input_ids` for documents, or `labels` for summaries.
    """
    if isinstance(processor, PreTrainedTokenizerBase):
        features = encode(rows, processor, (_ENDLESS, _ENDLESS), prefix)
    elif column == "labels":
        features = processor(text_target=rows["summary"], max_target_length=_ENDLESS)
    else:
        # The other inputs, such as tags of words, take long and do not change the number.
        sources = processor.read_sources(with_prefixes(rows, source_column(rows), prefix))
        return [source.row.full_length for source in sources]
    return [len(ids) for ids in features[column]]


def _tokenize(
    tokenizer: PreTrainedTokenizerBase, texts: list[str], length: int, as_target: bool = False
) -> list[list[int]]:
    """The token ids of each text, at most `length`, with an end token even if the tokenizer adds none.

    Args:
        as_target: whether the texts are summaries, which some tokenizers encode differently.
    """
    end = tokenizer.eos_token_id
    # the end token need not be the last one, as a language token may follow it
    adds_end = end in tokenizer("a")["input_ids"]
    max_length = length if adds_end else length - 1
    if as_target:
        token_ids = tokenizer(text_target=texts, max_length=max_length, truncation=True)["input_ids"]
    else:
        token_ids = tokenizer(text=texts, max_length=max_length, truncation=True)["input_ids"]
    if adds_end:
        return token_ids
    return [ids + [end] for ids in token_ids]


def code_files(processor: Processor) -> set[str]:
    """The files with the code of a processor; none for a bare tokenizer."""
    if isinstance(processor, PreTrainedTokenizerBase):
        return set()
    processor_file = inspect.getfile(type(processor))
    return {processor_file, *get_relative_import_files(processor_file)}


def processor_fingerprint(processor: Processor) -> str:
    """A hash of a processor's settings and vocabulary."""
    tokenizer = getattr(processor, "tokenizer", processor)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        vocabulary = {"vocabulary": tokenizer.get_vocab()}
    else:
        vocabulary = json.loads(backend.to_str())
        # the last call of the tokenizer left these, which are not settings
        vocabulary.pop("truncation", None)
        vocabulary.pop("padding", None)
    settings = {
        "class": type(processor).__name__,
        "special": tokenizer.special_tokens_map,
        "languages": [getattr(tokenizer, "src_lang", None), getattr(tokenizer, "tgt_lang", None)],
    }
    if processor is not tokenizer:
        processor_settings = processor.to_dict()
        processor_settings.pop("tokenizer", None)
        settings.update(processor_settings)
    return hash_of_values([vocabulary, settings])


def tagger_fingerprint(processor: Processor) -> str | None:
    """What determines the word tags of a processor: spaCy's version, and the version or the files of its pipeline.

    Returns:
        spaCy's version with the pipeline's version or hash; None if the processor reads no tags, or was given a
        pipeline as an object.

    Raises:
        ValueError, ImportError: as `pipeline_name`.
    """
    tagger = getattr(processor, "tagger", None)
    if not isinstance(tagger, str) or getattr(processor, "tags", "none") == "none":
        return None
    name = pipeline_name(tagger)
    pipeline = content_hash(name) if os.path.isabs(name) else f"{name} {version(name)}"
    return f"spacy {version('spacy')}, {pipeline}"
