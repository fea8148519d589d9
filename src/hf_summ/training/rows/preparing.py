"""Conversion of texts to token ids, cached by everything on which the result depends."""

import functools
import hashlib
import inspect
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import datasets
import numpy as np
from filelock import FileLock
from transformers import PreTrainedTokenizerBase
from transformers.dynamic_module_utils import get_relative_import_files

from hf_summ.checkpoints.loading import Processor
from hf_summ.common.files import hash_of_code
from hf_summ.data.columns import PREFIX_COLUMN, WORD_TAGS, has_references, source_column
from hf_summ.data.loading import cache_folder
from hf_summ.evaluation.words import split_words
from hf_summ.models.text_processing_highlight_transformer import read_phrases
from hf_summ.runtimes.any_model import with_prefix
from hf_summ.training.arguments import DataArguments, SummarizationTrainingArguments
from hf_summ.training.model import Built
from hf_summ.training.rows.batches import token_lengths

logger = logging.getLogger(__name__)

# number of rows of a stream that are shuffled at a time
_SHUFFLED = 10_000

# the number of rows whose full length is measured, and a length that none reaches
MEASURED, _ENDLESS = 200, 10**7


def choose_splits(
    corpus: datasets.DatasetDict, data: DataArguments, training: SummarizationTrainingArguments
) -> datasets.DatasetDict:
    """The splits that the run's steps read, limited to the requested coverage and numbers of samples."""
    steps = {
        "train": (training.do_train, data.max_train_samples, "--do_train", "--train_file"),
        "validation": (training.do_eval, data.max_eval_samples, "--do_eval or --eval_strategy", "--validation_file"),
        "test": (training.do_predict, data.max_predict_samples, "--do_predict", "--test_file"),
    }
    splits = datasets.DatasetDict()
    for split, (is_read, limit, step, flag) in steps.items():
        if not is_read:
            continue
        if split not in corpus:
            raise ValueError(f"{step} needs a {split} split: give {flag}; the corpus has {', '.join(corpus)}")
        rows = corpus[split]
        if isinstance(rows, datasets.IterableDataset):
            seed = training.seed if training.data_seed is None else training.data_seed
            rows = rows if limit is None else rows.take(limit)
            splits[split] = rows.shuffle(seed, buffer_size=_SHUFFLED)
            continue
        if split == "train" and data.min_coverage is not None:
            rows = _covered(rows, data.min_coverage, data.language)
        splits[split] = rows if limit is None else rows.select(range(min(limit, len(rows))))
    return splits


def _covered(rows: datasets.Dataset, least: float, language: str) -> datasets.Dataset:
    """The rows with the requested coverage: the share of summary words in the document (Grusky et al. 2018)."""

    def is_covered(document: str, summary: str) -> bool:
        vocabulary, words = set(split_words(document, language)), split_words(summary, language)
        return sum(word in vocabulary for word in words) >= least * len(words)

    covered = rows.filter(is_covered, input_columns=["document", "summary"], desc="filtering by coverage")
    if not len(covered):
        raise ValueError(f"--min_coverage {least}: none of the {len(rows):,} training rows has it: lower it")
    logger.info(f"train: {len(covered):,} of {len(rows):,} rows have a coverage of at least {least}")
    return covered


def prepare_splits(
    corpus: datasets.DatasetDict, built: Built, data: DataArguments, cache_dir: str | None, with_documents: bool
) -> dict[str, datasets.Dataset]:
    """The rows of each split as the model reads them; the number of truncated ones is logged.

    Rows to be scored keep all their references and, `with_documents`, their documents.
    """
    splits = {}
    for split, rows in corpus.items():
        target = built.lengths.target if split == "train" else built.lengths.evaluation_target
        lengths = (built.lengths.source, target)
        if isinstance(rows, datasets.IterableDataset):
            convert = functools.partial(encode, processor=built.processor, lengths=lengths, prefix=data.source_prefix)
            splits[split] = rows.map(convert, batched=True, remove_columns=rows.column_names)
            continue
        prepared = prepare(rows, built.processor, data, lengths, cache_dir, f"preparing {split}")
        logger.info(f"{split}: {len(rows):,} documents")
        if logger.isEnabledFor(logging.INFO):
            for truncation in describe_truncation(rows, prepared, built.processor, lengths, data.source_prefix):
                logger.info(f"{split}: {truncation}")
        columns = []
        if with_documents and split != "train":
            columns = [name for name in (source_column(rows.column_names), PREFIX_COLUMN) if name in rows.column_names]
        if has_references(rows.features) and split != "train":
            logger.info(f"{split}: summaries are scored against all texts in the column 'references'")
            columns.append("references")
        # columns are added to the cached rows, so that the cache does not depend on the metrics
        added = [rows.select_columns(columns)] if columns else []
        splits[split] = datasets.concatenate_datasets([prepared, *added], axis=1)
    return splits


def prepare(
    rows: datasets.Dataset,
    processor: Processor,
    data: DataArguments,
    lengths: tuple[int, int],
    cache_dir: str | None,
    description: str,
) -> datasets.Dataset:
    """Convert rows of `document` and `summary` to the model's fields, truncated to (source, target); keep `summary`.

    The result is cached under a fingerprint of the rows, the processor, the lengths and the code, which is equal in
    every run; a hash of the processor object is not.
    """
    files = {__file__}
    if not isinstance(processor, PreTrainedTokenizerBase):
        own = inspect.getfile(type(processor))
        files |= {own, *get_relative_import_files(own)}
    return cached_map(
        rows,
        functools.partial(encode, processor=processor, lengths=lengths, prefix=data.source_prefix),
        (processor_fingerprint(processor), *lengths, data.source_prefix, hash_of_code(files)),
        data,
        cache_dir,
        desc=description,
        num_proc=data.preprocessing_num_workers,
        remove_columns=[name for name in rows.column_names if name != "summary"],
    )


def cached_map(
    rows: datasets.Dataset,
    convert: Callable[[dict[str, list]], dict[str, list]],
    dependencies: Sequence[Any],
    data: DataArguments,
    cache_dir: str | None,
    **settings: Any,
) -> datasets.Dataset:
    """The rows, converted in batches and cached in a file.

    Args:
        convert: takes and returns columns.
        dependencies: all that the result depends on, except the rows.
        settings: passed to `Dataset.map`.
    """
    fingerprint = hashlib.sha256(json.dumps((rows._fingerprint, *dependencies)).encode()).hexdigest()[:32]
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


def encode(rows: dict[str, list], processor: Processor, lengths: tuple[int, int], prefix: str) -> dict[str, list]:
    """Convert a batch of rows to lists of token ids, truncated to (source, target) lengths.

    The package's processors read the texts of a column `documents` separately; a bare tokenizer reads them joined. A
    processor for key phrases takes them from the column `phrases`, and one for tags takes those from `word_tags`.

    Args:
        prefix: the text before the documents of rows that have none of their own.
    """
    source_length, target_length = lengths
    if not isinstance(processor, PreTrainedTokenizerBase):
        examples = with_prefixes(rows, source_column(rows), prefix)
        source = {}
        if "phrases" in rows and "phrases" in inspect.signature(processor.source_features).parameters:
            source["phrases"] = [read_phrases(value) for value in rows["phrases"]]
        if WORD_TAGS in rows and getattr(processor, "tags", "none") != "none":
            source[WORD_TAGS] = rows[WORD_TAGS]
        features = processor(
            examples, rows["summary"], max_length=source_length, max_target_length=target_length, **source
        )
        return dict(features)
    documents = with_prefixes(rows, "document", prefix)
    features = {"input_ids": _tokenize(processor, documents, source_length)}
    features["attention_mask"] = [[1] * len(row) for row in features["input_ids"]]
    return features | {"labels": _tokenize(processor, rows["summary"], target_length, as_target=True)}


def with_prefixes(rows: Mapping[str, Sequence], column: str, prefix: str) -> list:
    """The documents, or lists of several, in a column of rows, each with the row's prefix, otherwise with `prefix`."""
    own = rows.get(PREFIX_COLUMN) or [None] * len(rows[column])
    pairs = zip(rows[column], own, strict=True)
    return [with_prefix(example, prefix if before is None else before) for example, before in pairs]


def describe_truncation(
    rows: datasets.Dataset, prepared: datasets.Dataset, processor: Processor, lengths: tuple[int, int], prefix: str
) -> list[str]:
    """Lines for the user: the numbers of truncated documents and summaries, and the share of tokens that they keep.

    The share is measured on the first `MEASURED` rows that may be truncated.
    """
    lines = []
    for texts, column, limit in zip(("documents", "summaries"), ("input_ids", "labels"), lengths, strict=True):
        full = np.flatnonzero(token_lengths(prepared, column) >= limit)
        if not len(full):
            continue
        untruncated = np.array(whole_lengths(rows.select(full[:MEASURED])[:], processor, prefix, column))
        truncated = untruncated[untruncated > limit]
        if len(truncated):
            number = round(len(full) * len(truncated) / len(untruncated))
            about = "" if len(full) == len(untruncated) else "about "
            lines.append(
                f"{about}{number:,} of {len(rows):,} {texts} ({number / len(rows):.0%}) are truncated to "
                f"{limit:,} tokens, which keeps {(limit / truncated).mean():.0%} of their tokens"
            )
    return lines


def whole_lengths(rows: dict[str, list], processor: Processor, prefix: str, column: str = "input_ids") -> list[int]:
    """The number of tokens of each document, or with the column `labels` of each summary, before truncation."""
    return [len(row) for row in encode(rows, processor, (_ENDLESS, _ENDLESS), prefix)[column]]


def _tokenize(
    tokenizer: PreTrainedTokenizerBase, texts: list[str], length: int, as_target: bool = False
) -> list[list[int]]:
    """Token ids truncated to `length`, with an end token even if the tokenizer adds none."""
    end = tokenizer.eos_token_id
    # a language token may follow the end token
    ends = end in tokenizer("a")["input_ids"]
    key = "text_target" if as_target else "text"
    rows = tokenizer(**{key: texts}, max_length=length if ends else length - 1, truncation=True)["input_ids"]
    return rows if ends else [[*row, end] for row in rows]


def processor_fingerprint(processor: Processor) -> str:
    """A hash of a processor's settings and vocabulary."""
    tokenizer = getattr(processor, "tokenizer", processor)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        vocabulary = {"vocabulary": tokenizer.get_vocab()}
    else:
        # truncation and padding are state of the last call
        vocabulary = {k: v for k, v in json.loads(backend.to_str()).items() if k not in ("truncation", "padding")}
    languages = [getattr(tokenizer, name, None) for name in ("src_lang", "tgt_lang")]
    settings = {"class": type(processor).__name__, "special": tokenizer.special_tokens_map, "languages": languages}
    if processor is not tokenizer:
        settings |= {name: value for name, value in processor.to_dict().items() if name != "tokenizer"}
    text = json.dumps([vocabulary, settings], sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
