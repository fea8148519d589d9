"""What summarizers do around their model, in PyTorch or in another runtime: read documents, and write records."""

import logging
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from typing import Any

from hf_summ.models.checks import check_integer, check_texts, is_list, truncates
from hf_summ.models.generation_sentences import Candidate, candidates_of
from hf_summ.models.text_documents import DOCUMENT_SEPARATOR, readable, tokenize
from hf_summ.runtimes.any_model import source_positions, target_positions, task_parameters, with_prefix
from hf_summ.runtimes.long_documents import (
    SHORTENERS,
    TRUNCATE,
    ModelReader,
    Reading,
    check_long_documents,
    cut_of,
    details_of,
    in_chunks,
    with_warnings,
)
from hf_summ.runtimes.settings import CHOICE_SETTINGS, SETTINGS

logger = logging.getLogger(__name__)

# two names of one limit; `generate()` of transformers always prefers the second
_LIMITS = (("max_length", "max_new_tokens"), ("min_length", "min_new_tokens"))
# of `generate()`, for a summary with its first token
_MAX_LENGTH = 20
# the end of a warning of a truncated document
_HINT = "; set `long_documents` to 'windows' to read all of it, or to 'extract' to read its most important sentences"
# settings of the extractive stage before the model, see `hf_summ.shortening.extract`
EXTRACTION = ("extract_share", "extract_tokens", "extract_idf", "next_sentence_model")
# what may be given beside a document -> the model's input that it becomes, and its name
SOURCES = {"phrases": ("phrase_starts", "key phrases"), "word_tags": ("tag_ids", "word tags")}


@dataclass(frozen=True)
class Example:
    """A document, or several to summarize together.

    Args:
        document: the user's document.
        source: what is given beside it, by the name of the processor's argument.
        reading: the shortened document, if the model reads that instead.
    """

    document: Any
    source: Mapping[str, Any] = field(default_factory=dict)
    reading: Reading | None = None

    def __post_init__(self):
        if not isinstance(self.document, (str, list)) and is_list(self.document):
            # such as an array, which pandas reads from a column of lists
            object.__setattr__(self, "document", list(self.document))
        if isinstance(self.document, list) and any(map(is_missing, self.document)):
            texts = [text for text in self.document if not is_missing(text)]
            object.__setattr__(self, "document", texts or "")

    @classmethod
    def of(cls, item: Any) -> "Example":
        """Wrap an item of a list, unless it is an example already; a missing value is a blank document."""
        if isinstance(item, cls):
            return item
        return cls("" if is_missing(item) else item)


def is_missing(value: Any) -> bool:
    """Whether a value of a list or of a data frame's column stands for a missing text: None, NaN, or pandas' NA."""
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or type(value).__name__ == "NAType"


class Examples(Sequence):
    """Documents as examples, each with what is given beside it: argument of the processor -> one value per document."""

    def __init__(self, documents, source: Mapping[str, Sequence] | None = None):
        self.documents = documents
        self.source = source or {}

    def __len__(self):
        return len(self.documents)

    def __getitem__(self, index):
        document = self.documents[index]
        source = {name: values[index] for name, values in self.source.items()}
        return Example("" if is_missing(document) else document, source)


class DocumentSummarizer:
    """The part of a summarizer that needs no model.

    A subclass has `_run` and `search_settings`, and the attributes:

    Attributes:
        model: has the `config`, and the settings that the architecture adds as `generation_keys`.
        processor: the architecture's, or None.
        tokenizer: the processor's, or the model's own.
        batch_size: default number of texts that are decoded together.
        show_progress: whether calls with several texts show their progress by default.
    """

    model: Any
    processor: Any
    tokenizer: Any
    batch_size: Any
    show_progress = False

    def _set_reading(self, long_documents: str, language: str, source_prefix: str | None, **extraction: Any) -> None:
        """Set the defaults of reading documents; `extraction` has the settings of the extractive stage."""
        check_long_documents(long_documents)
        self.long_documents = long_documents
        self.language = language
        self.source_prefix = source_prefix
        self._extraction = {name: value for name, value in extraction.items() if value is not None}
        self._shortens_all = not {"extract_share", "extract_tokens"}.isdisjoint(self._extraction)
        trained = getattr(self.model.config, "extraction", None)
        if trained and not self._shortens_all:
            settings = (f"`{name}`" if value is True else f"`{name}={value}`" for name, value in trained.items())
            logger.warning(
                "the extractive stage shortened the documents of the model's training, but here it reads whole ones: "
                f"set {', '.join(settings)}"
            )

    def _run(self, examples, *args, **settings) -> Any:
        """The records and the note of an example, or an iterator of those of several examples."""
        raise NotImplementedError

    def search_settings(self, **settings: Any) -> dict[str, Any]:
        """All settings of a call's search for summaries: the call's, and those that replace unset ones."""
        raise NotImplementedError

    def __call__(
        self,
        documents,
        *args,
        show_progress: bool | None = None,
        phrases=None,
        word_tags=None,
        long_documents=None,
        language=None,
        **kwargs,
    ):
        """Summarize `documents`; see `SummarizationPipeline`."""
        if kwargs.get("batch_size") is not None:
            check_integer("batch_size", kwargs["batch_size"], 1)
            kwargs["batch_size"] = int(kwargs["batch_size"])
        self._warn_of_search_settings(kwargs)
        columns = getattr(documents, "column_names", getattr(documents, "columns", None))
        if columns is not None:
            raise TypeError(f"`documents` has the columns {', '.join(map(str, columns))}: give one of them")
        given = {"phrases": phrases, "word_tags": word_tags}
        source = {name: value for name, value in given.items() if value is not None}
        shorten = self._shortener(long_documents or self.long_documents, language or self.language, source, kwargs)
        is_lazy = _is_data_set(documents) or (hasattr(documents, "__getitem__") and not isinstance(documents, Iterable))
        if isinstance(documents, (str, bytes, Mapping)) or not (is_lazy or isinstance(documents, Iterable)):
            (example,) = shorten(iter([Example(documents, source)]))
            return next(with_warnings(iter([self._run(example, *args, **kwargs)])))
        is_eager = isinstance(documents, Sized) and not is_lazy
        if is_eager:
            documents = list(documents)
            # before the first is summarized
            for row, document in enumerate(documents):
                _check_document(Example.of(document).document, f"document {row}")
        length = len(documents) if isinstance(documents, Sized) else None
        for name, values in source.items():
            if length is None or not is_list(values) or len(values) != length:
                number = "a list of" if length is None else length
                raise ValueError(
                    f"`{name}` must be a list, with an entry for each of {number} documents: {values!r:.80}"
                )
            # rows of a Series would be looked up by its labels
            source[name] = list(values)
        if length is not None:
            documents = Examples(documents, source)
        if shorten is not iter:
            # a generator, as the shortener needs the model of this process
            documents = generated(shorten(generated(documents)))
        results = self._run(documents, *args, **kwargs)
        if show_progress is None:
            show_progress = self.show_progress and length is not None and length > 1
        if show_progress:
            from huggingface_hub.utils import tqdm

            # otherwise it would be shown in terminals only
            results = tqdm(results, total=length, desc="summarizing", disable=False)
        summaries = with_warnings(iter(results))
        if not is_eager:
            return summaries if length is None else _SizedIterator(summaries, length)
        summaries = list(summaries)
        return [records[0] for records in summaries] if all(len(records) == 1 for records in summaries) else summaries

    def _warn_of_search_settings(self, settings: Mapping[str, Any]) -> None:
        """Warn of a call's first setting that a choice among whole sentences does not read."""
        name = self.setting_without_search(settings)
        if name is not None:
            logger.warning(
                f"`{name}` has no effect, as the summary is a whole sentence of the document: set `whole_sentences` to "
                "False for a search"
            )

    def setting_without_search(self, settings: Mapping[str, Any]) -> str | None:
        """The first of these settings that steers a search, if a choice among whole sentences replaces it."""
        for name, value in settings.items():
            if value is None or name not in SETTINGS or name in CHOICE_SETTINGS:
                continue
            chooses = settings.get("whole_sentences")
            if chooses is None:
                chooses = self.search_settings().get("whole_sentences")
            return name if chooses else None
        return None

    def _split_settings(
        self,
        truncation=None,
        return_tensors=None,
        return_text=None,
        return_details=None,
        source_prefix=None,
        clean_up_tokenization_spaces=None,
        stop_sequence=None,
        framework=None,
        **generate,
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """The settings of a call for `read`, the search and `to_records`."""
        # `framework` is of transformers 4; now all models are of PyTorch
        truncation = None if truncation is None else truncates(truncation)
        preprocess = {"truncation": truncation, "return_details": return_details, "source_prefix": source_prefix}
        if stop_sequence is not None:
            stops = [stop_sequence] if isinstance(stop_sequence, str) else stop_sequence
            check_texts("stop_sequence", stops)
            if not all(stops):
                raise ValueError("`stop_sequence` is empty: give a text that ends summaries")
            generate["stop_strings"] = stop_sequence
        postprocess = {
            "return_tensors": return_tensors,
            "return_text": return_text,
            "clean_up_tokenization_spaces": clean_up_tokenization_spaces,
        }
        preprocess, postprocess = (
            {name: value for name, value in settings.items() if value is not None}
            for settings in (preprocess, postprocess)
        )
        return preprocess, generate, postprocess

    def _shortener(self, name: str, language: str, source: Mapping[str, Any], settings: dict[str, Any]) -> Callable:
        """A function from an iterator of examples to one of shortened examples; `iter` if nothing shortens them."""
        if self._shortens_all:
            if name == "windows":
                raise ValueError("`extract_share` and `long_documents='windows'` exclude each other: set only one")
            name = "extract"
        check_long_documents(name)
        if name == TRUNCATE:
            return iter
        stage = self._extraction if name == "extract" else {}
        if source and name == "windows":
            given = next(iter(source))
            raise ValueError(f"`{given}` cannot be located in windows: set `long_documents` to 'extract' or 'truncate'")
        prefix, limit = settings.get("source_prefix"), self.source_limit
        reader = ModelReader(self, limit, lambda texts: self._summaries(texts, settings), prefix)

        def shorten(examples: Iterator) -> Iterator[Example]:
            for chunk in in_chunks(map(Example.of, examples), settings.get("batch_size") or self.batch_size or 1):
                for example in chunk:
                    _check_document(example.document)
                readings = SHORTENERS[name]([example.document for example in chunk], reader, language, **stage)
                for example, reading in zip(chunk, readings, strict=True):
                    yield Example(example.document, example.source, reading)

        return shorten

    def _summaries(self, texts: Sequence[str], settings: dict[str, Any]) -> list[str]:
        """Summarize parts of documents with the settings of the call."""
        own = {"num_return_sequences": 1, "return_tensors": False, "return_text": True, "return_details": False}
        results = self._run(Examples(texts), **{**settings, **own})
        return [records[0]["summary_text"] for records, _ in results]

    def read(
        self, example: Any, truncation: bool = True, return_details: bool = False, source_prefix: str | None = None
    ) -> tuple[dict[str, list], dict[str, Any], dict[str, Any]]:
        """The model's inputs for an example, each a list of one row.

        Args:
            example: a document, or an `Example`.
            truncation, return_details, source_prefix: as for `SummarizationPipeline`.

        Returns:
            Also what `to_records` needs: the document to which ids may point, and the note of the example: whether it
            is blank or truncated, and its `details`.
        """
        example = Example.of(example)
        source = {name: [value] for name, value in example.source.items() if value is not None}
        for name in source:
            field_name, noun = SOURCES[name]
            if field_name not in getattr(self.processor, "model_input_names", ()):
                raise ValueError(f"`{name}` are given, but the model does not read {noun}: omit them")
        _check_document(example.document)
        if "word_tags" in source and example.reading is not None and example.reading.ranges is not None:
            tags = self.processor.tags_within(example.document, *source["word_tags"], example.reading.ranges)
            source["word_tags"] = [tags]
        document = example.document if example.reading is None else example.reading.example
        limit = self.source_limit
        reader = ModelReader(self, limit, lambda texts: [], source_prefix)
        inputs, length, counts = self._encoded(with_prefix(document, reader.prefix), limit, source)
        self._check_ids(inputs["input_ids"][0])
        texts = [document] if isinstance(document, str) else document
        note: dict[str, Any] = {
            "blank": not any(text.strip() for text in texts),
            "text": DOCUMENT_SEPARATOR.join(texts),
        }
        if limit is not None and length > limit:
            who = "the document has" if isinstance(document, str) else f"the {len(document)} documents have"
            message = f"{who} {length} tokens, but the model reads at most {limit}"
            if not truncation:
                raise ValueError(f"{message}: shorten it, or call the pipeline with `truncation=True`")
            hint = _HINT if example.reading is None and SHORTENERS else ""
            note["cut"] = f"{message}: {cut_of(document, length, limit, counts)}{hint}"
            note |= {"length": length, "limit": limit, "hint": hint}
        if getattr(self.processor, "restore_case", False):
            note["restored_from"] = example.document
        if return_details:
            note["details"] = details_of(example.document, reader, length, counts, example.reading)
        # summaries may point to its words
        pointed = {} if counts is None else {"document": with_prefix(document, reader.prefix)}
        return inputs, pointed, note

    def _add_candidates(self, notes: Iterable[dict[str, Any]], settings: Mapping[str, Any]) -> None:
        """Add to each note the sentences among which `whole_sentences` chooses, if it is set.

        Args:
            settings: all settings of the search.
        """
        if not settings.get("whole_sentences"):
            return
        most, _ = ends_of(settings)
        end, is_own = self.tokenizer.eos_token_id, hasattr(self.processor, "source_features")
        for note in notes:
            if not note["blank"]:
                note["candidates"] = candidates_of(note["text"], self.tokenizer, end, most, special_tokens=not is_own)

    def _check_ids(self, token_ids: Sequence[int]) -> None:
        number, largest = self._number_of_tokens(), max(token_ids, default=0)
        if largest >= number:
            token = self.tokenizer.convert_ids_to_tokens(largest)
            raise ValueError(f"the tokenizer gives the id {largest} ({token!r}), but the model has {number} tokens")

    def _number_of_tokens(self) -> int:
        """The number of tokens that the model can read."""
        # a processor may tell unknown words apart by further ids
        return self.model.config.vocab_size + getattr(self.processor, "unknown_ids", 0)

    def _task_settings(self, names: Iterable[str]) -> dict[str, Any]:
        """The settings of these names in the config's `task_specific_params`, which transformers 4 read."""
        names = {*names, *getattr(self.model, "generation_keys", ())}
        return {name: value for name, value in task_parameters(self.model.config).items() if name in names}

    def _encoded(
        self, document: str | list[str], limit: int | None, source: dict
    ) -> tuple[dict[str, list], int, list[tuple[int, int]] | None]:
        """The model's inputs, truncated to `limit` tokens, their full length, and each document's read and full length.

        The last is None if documents are joined into one text.
        """
        if hasattr(self.processor, "source_features"):
            inputs = dict(self.processor([document], max_length=limit, return_lengths=True, **source))
            (length,) = inputs.pop("lengths")
            lengths = inputs.pop("kept_lengths")[0], inputs.pop("document_lengths")[0]
            return inputs, length, list(zip(*lengths, strict=True))
        text = readable(document if isinstance(document, str) else DOCUMENT_SEPARATOR.join(document))
        encoded = tokenize(self.tokenizer, [text], return_special_tokens_mask=True)
        (special,) = encoded["special_tokens_mask"]
        own = [position for position, is_special in enumerate(special) if not is_special]
        # truncated here: the tokenizer's own setting is shared by all threads
        read = len(special) if limit is None else max(limit - (len(special) - len(own)), 0)
        cut = set(own[read:])
        inputs = {
            name: [[value for position, value in enumerate(encoded[name][0]) if position not in cut]]
            for name in self.tokenizer.model_input_names
            if name in encoded
        }
        return inputs, len(special), None

    def _check_length(self, settings: Mapping[str, Any]) -> None:
        positions = target_positions(self.model)
        name = "max_length" if settings.get("max_new_tokens") is None else "max_new_tokens"
        if positions is not None and (settings.get(name) or 0) > positions:
            raise ValueError(f"`{name}` is {settings[name]}, but the decoder has {positions} positions: lower it")

    @property
    def source_limit(self) -> int | None:
        """The number of tokens that the model reads, special ones included; None if it has no limit."""
        limits = [
            # the processor's limit first: its tokenizer may come from a model with fewer positions
            getattr(self.processor, "max_source_length", self.tokenizer.model_max_length),
            source_positions(self.model),
        ]
        return min((limit for limit in limits if limit is not None and limit < 10**9), default=None)

    def to_records(
        self,
        sequences,
        note: dict[str, Any],
        pointed: Mapping[str, Any],
        return_tensors=False,
        return_text=None,
        clean_up_tokenization_spaces=None,
    ) -> list[dict[str, Any]]:
        """The records of an example's sequences of ids.

        Args:
            sequences: (n, L).
            note, pointed: as `read` returns them, with the `ends` of summaries, see `ends_of`.
            return_tensors, return_text: whether a record has its ids, and its text, which it has by default.
            clean_up_tokenization_spaces: as for the tokenizer's `batch_decode`.
        """
        document = note.pop("restored_from", None)
        limit, ends = note.pop("ends")
        if note["blank"]:
            sequences = sequences[:, :0]
        records: list[dict[str, Any]] = [{} for _ in sequences]
        if return_tensors:
            records = [{"summary_token_ids": token_ids} for token_ids in sequences]
        if return_text or not return_tensors:
            source = {"documents": [pointed["document"]]} if pointed else {}
            texts = (self.processor or self.tokenizer).batch_decode(
                sequences, skip_special_tokens=True, clean_up_tokenization_spaces=clean_up_tokenization_spaces, **source
            )
            if "candidates" in note:
                texts = [_text_of(token_ids, note["candidates"]) for token_ids in sequences]
            elif document is not None:
                texts = self.processor.restore(texts, [document])
            for record, text in zip(records, texts, strict=True):
                record["summary_text"] = text.strip()
        if "details" in note:
            for record, ids in zip(records, sequences, strict=True):
                is_cut = len(ids) > limit and int(ids[limit]) not in ends
                record["details"] = {**note["details"], "finish_reason": "length" if is_cut else "stop"}
        return records


def _text_of(token_ids: Any, candidates: Iterable[Candidate]) -> str:
    """The text of the candidate that these ids are, after their first token."""
    ids = [int(token) for token in token_ids[1:]]
    return next(candidate.text for candidate in candidates if ids[: len(candidate.ids)] == candidate.ids)


def _is_data_set(documents: Any) -> bool:
    """Whether documents are a data set of PyTorch, which is read lazily."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(documents, torch.utils.data.Dataset)


def generated(documents: Any) -> Iterator:
    """Generate the documents of an iterable or a data set, which need only be indexable."""
    yield from documents if isinstance(documents, Iterable) else map(documents.__getitem__, range(len(documents)))


class _SizedIterator(Iterator):
    """An iterator whose length is known."""

    def __init__(self, items: Iterator, length: int):
        self._items, self._length = items, length

    def __next__(self):
        return next(self._items)

    def __len__(self):
        return self._length


def ends_of(settings: Mapping[str, Any]) -> tuple[int, set[int | None]]:
    """The most tokens after the first one, and those that the last of them is if a summary is complete."""
    limit = settings.get("max_new_tokens") or (settings.get("max_length") or _MAX_LENGTH) - 1
    ends = settings.get("eos_token_id")
    # an end that is forced may come in mid-sentence
    is_forced = settings.get("forced_eos_token_id") is not None
    own = [] if is_forced else ends if isinstance(ends, list) else [ends]
    return limit, {settings.get("pad_token_id"), *own}


def clear_aliases(settings: dict[str, Any]) -> dict[str, Any]:
    """For each limit that is set under one name, unset its other name, so that the checkpoint's value does not win."""
    aliases = {alias: name for pair in _LIMITS for name, alias in (pair, pair[::-1])}
    return {**{alias: None for alias, name in aliases.items() if settings.get(name) is not None}, **settings}


def _check_document(document: Any, name: str = "a document") -> None:
    for text in document if isinstance(document, list) else [document]:
        if not isinstance(text, str):
            raise TypeError(f"{name} must be a string, but is {type(text).__name__}: {text!r:.80}")
