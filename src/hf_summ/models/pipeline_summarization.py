"""`pipeline("summarization")`, which transformers 5 removed, for every sequence-to-sequence model."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any

import torch
from huggingface_hub.utils import tqdm
from torch.utils.data import Dataset, IterableDataset
from transformers import AutoTokenizer, BatchEncoding, GenerationConfig, Pipeline
from transformers.tokenization_utils_base import TruncationStrategy
from transformers.utils import logging

from .checks import (
    check_generation_config,
    check_generation_settings,
    check_integer,
    check_own_settings,
    check_texts,
    check_tokenizer,
    in_floats,
    is_list,
)
from .pipeline_long_documents import (
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
from .text_documents import DOCUMENT_SEPARATOR, checked_ranges, difference, readable, task_parameters, with_prefix

logger = logging.get_logger(__name__)

# two names of one limit; `generate()` always prefers the second
_LIMITS = (("max_length", "max_new_tokens"), ("min_length", "min_new_tokens"))

# the end of a warning of a truncated document
_HINT = "; set `long_documents` to 'windows' to read all of it, or to 'extract' to read its most important sentences"


class SummarizationPipeline(Pipeline):
    """Summarizes texts, like the pipeline of transformers 4; docs/tutorials/migrating.md tabulates the differences.

    Call it with a text, or with a list, column, series or array of texts. Iterators and PyTorch data sets are read
    lazily. A list in a list is one example of several documents, with one summary.

    - `phrases`: key phrases of the text, or of each text of the list, for models that read them; see
      `HighlightTransformerProcessor`. By default they are found.
    - `truncation` (True): whether to truncate a text that is too long for the model, with a warning, or to refuse it.
    - `long_documents` ("truncate"): how to read a text that is too long for the model. "extract" selects its most
      important sentences, as many as fit. "windows" summarizes its parts, joins the summaries, and repeats this until
      they fit. Both need hf_summ, and read `batch_size` texts of an iterator at a time.
    - `language` ("en"): ISO 639 code of the texts, for sentence splitting.
    - `source_prefix`: text before each document, for models that were trained with several; by default the config's.
    - `return_details` (False): whether to add `details` to each record: the parts of the text read; see `details_of`.
    - `batch_size` (1): number of texts per call of `generate`.
    - `show_progress` (False): whether to show a progress bar over many texts.
    - `return_tensors` (False): whether to return token ids, without texts unless `return_text` is set as well.
    - `stop_sequence`: a text that ends summaries.
    - `runtime`: "onnx" in the constructor runs the output of `hf-summ export` in ONNX Runtime.
    - All other arguments go to `generate`. Unset arguments fall back to the constructor, then the config's
      `task_specific_params`, then the generation config, then 4 beams and 256 tokens.

    Returns:
        For a text, a list of `{"summary_text"}`, one per returned sequence; for a list, one such record per text, or a
        list of records with several sequences. For an iterator or data set, an iterator over lists of records. The
        summary of a blank text is blank.
    """

    # loaded with the checkpoint, or given
    _load_processor = None
    _load_tokenizer = None
    _load_image_processor = False
    _load_feature_extractor = False
    _load_video_processor = False
    _pipeline_calls_generate = True
    _default_generation_config = GenerationConfig(max_new_tokens=256, num_beams=4)

    def __init__(
        self,
        model,
        tokenizer=None,
        processor=None,
        *,
        long_documents=TRUNCATE,
        language="en",
        source_prefix=None,
        runtime=None,
        **kwargs,
    ):
        check_long_documents(long_documents)
        if runtime is not None:
            if not hasattr(model, "with_runtime"):
                raise ValueError(
                    f"`runtime` is {runtime!r:.80}, but {model.config.model_type} models have none: omit it"
                )
            model = model.with_runtime(runtime)
            kwargs.setdefault("device", "cpu")
        self.long_documents = long_documents
        self.language = language
        self.source_prefix = source_prefix
        self._source_ranges = checked_ranges(getattr(model.config, "source_ranges", None))
        # our architectures only
        problem = model.weights_problem() if hasattr(model, "weights_problem") else None
        if problem is not None:
            raise ValueError(f"{model.name_or_path} {problem}: copy it again, or name another checkpoint")
        if hasattr(tokenizer, "tokenizer"):
            processor, tokenizer = tokenizer, None
        if tokenizer is None and processor is not None:
            tokenizer = processor.tokenizer
        if tokenizer is None and not model.name_or_path:
            raise ValueError("the pipeline needs a tokenizer: give the model's own as `processor` or `tokenizer`")
        if tokenizer is None:
            # transformers failed to load it without a reason: load it again, to raise the error
            tokenizer = AutoTokenizer.from_pretrained(model.name_or_path, **getattr(model, "hub_settings", {}))
        check_tokenizer(tokenizer)
        super().__init__(model, tokenizer=tokenizer, processor=processor, **kwargs)
        self._generate_kwargs = {**_clear_aliases(self._task_settings()), **_clear_aliases(self._generate_kwargs)}
        self._bound_default_length()

    def _bound_default_length(self) -> None:
        """Limit the default length of summaries to the decoder's positions."""
        positions, default = self._target_positions(), self._generation_defaults["max_new_tokens"]
        if positions is None or positions >= default:
            return
        self._generation_defaults["max_new_tokens"] = positions
        if not {"max_new_tokens", "max_length"} & self._get_set_generation_params(self._generate_kwargs).keys():
            logger.warning(f"summaries are limited to {positions} tokens, the number of the decoder's positions")

    def _target_positions(self) -> int | None:
        """The number of the decoder's positions; None if unlimited."""
        config = self.model.config.get_text_config(decoder=True)
        names = ("max_decoder_position_embeddings", "max_position_embeddings")
        return next((number for name in names if (number := getattr(config, name, None)) is not None), None)

    def _sanitize_parameters(
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
    ):
        # `framework` is of transformers 4; now all models are of PyTorch
        preprocess = {} if truncation is None else {"truncation": _truncates(truncation)}
        if return_details is not None:
            preprocess["return_details"] = return_details
        if source_prefix is not None:
            preprocess["source_prefix"] = source_prefix
        if stop_sequence is not None:
            stops = [stop_sequence] if isinstance(stop_sequence, str) else stop_sequence
            check_texts("stop_sequence", stops)
            if not all(stops):
                raise ValueError("`stop_sequence` is empty: give a text that ends summaries")
            generate["stop_strings"] = stop_sequence
        postprocess = {
            name: value
            for name, value in (
                ("return_tensors", return_tensors),
                ("return_text", return_text),
                ("clean_up_tokenization_spaces", clean_up_tokenization_spaces),
            )
            if value is not None
        }
        return preprocess, generate, postprocess

    def __call__(
        self, documents, *args, show_progress: bool = False, phrases=None, long_documents=None, language=None, **kwargs
    ):
        """Summarize `documents`; see the class."""
        if kwargs.get("batch_size") is not None:
            check_integer("batch_size", kwargs["batch_size"], 1)
        columns = getattr(documents, "column_names", getattr(documents, "columns", None))
        if columns is not None:
            raise TypeError(f"`documents` has the columns {', '.join(map(str, columns))}: give one of them")
        shorten = self._shortener(long_documents or self.long_documents, language or self.language, phrases, kwargs)
        if isinstance(documents, (str, bytes, Mapping)) or not isinstance(documents, (Iterable, Dataset)):
            (example,) = shorten(iter([_Example(documents, phrases)]))
            return next(with_warnings(iter([super().__call__(example, *args, **kwargs)])))
        is_eager = isinstance(documents, Sized) and not isinstance(documents, Dataset)
        documents = list(documents) if is_eager else documents
        length = len(documents) if isinstance(documents, Sized) else None
        if phrases is not None and (length is None or not is_list(phrases) or len(phrases) != length):
            number = "a list of" if length is None else length
            raise ValueError(f"`phrases` must be a list, with an entry for each of {number} documents: {phrases!r:.80}")
        if length is not None:
            documents = _Examples(documents, phrases)
        if shorten is not iter:
            # a generator, as the shortener needs the model of this process
            documents = _generated(shorten(_generated(documents)))
        elif length is None and not isinstance(documents, IterableDataset):
            documents = _generated(documents)
        results = super().__call__(documents, *args, **kwargs)
        bar = tqdm(results, total=length, desc="summarizing", disable=not show_progress)
        summaries = with_warnings(iter(bar))
        if not is_eager:
            return summaries if length is None else _SizedIterator(summaries, length)
        summaries = list(summaries)
        return [records[0] for records in summaries] if all(len(records) == 1 for records in summaries) else summaries

    def _shortener(self, name: str, language: str, phrases, settings: dict[str, Any]) -> Callable:
        """A function from an iterator of examples to one of shortened examples; `iter` if nothing shortens them."""
        check_long_documents(name)
        if name == TRUNCATE:
            return iter
        if phrases is not None and name == "windows":
            raise ValueError("`phrases` cannot be located in windows: set `long_documents` to 'extract' or 'truncate'")
        prefix, limit = settings.get("source_prefix"), self.source_limit
        reader = ModelReader(self, limit, lambda texts: self._summaries(texts, settings), prefix)

        def shorten(examples: Iterator) -> Iterator[_Example]:
            for chunk in in_chunks(map(_Example.of, examples), settings.get("batch_size") or self._batch_size or 1):
                for example in chunk:
                    _check_document(example.document)
                readings = SHORTENERS[name]([example.document for example in chunk], reader, language)
                for example, reading in zip(chunk, readings, strict=True):
                    yield _Example(example.document, example.phrases, reading)

        return shorten

    def _summaries(self, texts: Sequence[str], settings: dict[str, Any]) -> list[str]:
        """Summarize parts of documents with the settings of the call."""
        own = {"num_return_sequences": 1, "return_tensors": False, "return_text": True, "return_details": False}
        results = super().__call__(_Examples(texts), **{**settings, **own})
        return [records[0]["summary_text"] for records, _ in results]

    def save_pretrained(self, save_directory, **kwargs):
        """transformers' `save_pretrained`, and the processor with its settings, which transformers omits."""
        super().save_pretrained(save_directory, **kwargs)
        if self.processor is not None:
            self.processor.save_pretrained(save_directory, **kwargs)

    def preprocess(self, example, truncation=True, return_details=False, source_prefix=None):
        example = _Example.of(example)
        source = {} if example.phrases is None else {"phrases": example.phrases}
        if source and "phrase_starts" not in getattr(self.processor, "model_input_names", ()):
            raise ValueError("`phrases` are given, but the model does not read key phrases: leave them out")
        _check_document(example.document)
        document = example.document if example.reading is None else example.reading.example
        limit = self.source_limit
        reader = ModelReader(self, limit, lambda texts: [], source_prefix)
        inputs, length, counts = self._read(with_prefix(document, reader.prefix), limit, source)
        self._check_ids(inputs["input_ids"])
        texts = [document] if isinstance(document, str) else document
        note: dict[str, Any] = {"blank": not any(text.strip() for text in texts)}
        if limit is not None and length > limit:
            who = "the document has" if isinstance(document, str) else f"the {len(document)} documents have"
            message = f"{who} {length} tokens, but the model reads at most {limit}"
            if not truncation:
                raise ValueError(f"{message}: shorten it, or call the pipeline with `truncation=True`")
            hint = _HINT if example.reading is None and SHORTENERS else ""
            note["cut"] = f"{message}: {cut_of(document, length, limit, counts)}{hint}"
            note |= {"length": length, "limit": limit, "hint": hint}
        tokens = length if example.reading is None else example.reading.source_tokens
        reason = None if note["blank"] else difference(example.document, tokens, self._source_ranges)
        unlike = {} if reason is None else {"unlike": reason}
        note |= unlike
        if getattr(self.processor, "restore_case", False):
            note["restored_from"] = example.document
        if return_details:
            note["details"] = details_of(example.document, reader, length, counts, example.reading) | unlike
        inputs["note"] = note
        return inputs

    def _check_ids(self, token_ids: torch.Tensor) -> None:
        number = self.model.get_input_embeddings().num_embeddings
        largest = int(token_ids.max()) if token_ids.numel() else 0
        if largest >= number:
            token = self.tokenizer.convert_ids_to_tokens(largest)
            raise ValueError(f"the tokenizer gives the id {largest} ({token!r}), but the model has {number} tokens")

    def _task_settings(self) -> dict[str, Any]:
        """The settings of `generate()` in the config's `task_specific_params`, which transformers 4 read."""
        names = {*vars(GenerationConfig()), *getattr(self.model, "generation_keys", ())}
        return {name: value for name, value in task_parameters(self.model.config).items() if name in names}

    def _read(self, document: str | list[str], limit: int | None, source: dict):
        """The model's inputs, truncated to `limit` tokens, their full length, and each document's read and full length.

        The last is None if documents are joined into one text.
        """
        if hasattr(self.processor, "source_features"):
            text = document if isinstance(document, str) else [document]
            inputs = self.processor(text, return_tensors="pt", max_length=limit, return_lengths=True, **source)
            length = inputs.pop("lengths").item()
            lengths = inputs.pop("kept_lengths")[0], inputs.pop("document_lengths")[0]
            # summaries may point to its words
            inputs["document"] = document
            return inputs, length, list(zip(*lengths, strict=True))
        if not isinstance(document, str):
            document = DOCUMENT_SEPARATOR.join(document)
        cuts = limit is not None
        # return the truncated tokens as well, to count them without tokenizing twice
        encoded = self.tokenizer(
            [readable(document)], truncation=cuts, max_length=limit, return_overflowing_tokens=cuts, verbose=False
        )
        ids, *overflow = encoded["input_ids"]
        special = self.tokenizer.num_special_tokens_to_add()
        # Python tokenizers count the truncated tokens; fast ones return them as further rows
        length = len(ids) + sum(encoded.get("num_truncated_tokens", ())) + sum(len(row) - special for row in overflow)
        fields = {name: encoded[name][:1] for name in self.tokenizer.model_input_names if name in encoded}
        return BatchEncoding(fields, tensor_type="pt"), length, None

    @property
    def source_limit(self) -> int | None:
        """The number of tokens that the model reads, special ones included; None if it has no limit."""
        limits = [
            # the processor's limit first: its tokenizer may come from a model with fewer positions
            getattr(self.processor, "max_source_length", self.tokenizer.model_max_length),
            getattr(self.model.config, "max_position_embeddings", None),
        ]
        return min((limit for limit in limits if limit is not None and limit < 10**9), default=None)

    def _forward(self, inputs, **generate_kwargs):
        # an adapter's forward accepts any argument, but its base model may not
        model = self.model.get_base_model() if hasattr(self.model, "get_base_model") else self.model
        accepted = inspect.signature(model.forward).parameters
        further = {name: inputs[name] for name in ("document", "note") if name in inputs}
        inputs = {name: value for name, value in inputs.items() if name in accepted}
        documents = inputs["input_ids"].shape[0]
        notes = [further["note"]] if isinstance(further["note"], dict) else further["note"]
        written = [row for row, note in enumerate(notes) if not note["blank"]]
        settings = {"tokenizer": self.tokenizer, **self.generation_settings(**generate_kwargs)}
        if not written:
            config = settings.get("generation_config") or self.model.generation_config
            sequences = settings.get("num_return_sequences") or config.num_return_sequences or 1
            return {"output_ids": torch.zeros(documents, sequences, 0, dtype=torch.long), **further}
        if len(written) < documents:
            inputs = {name: value[written] for name, value in inputs.items()}
        try:
            output_ids = self.model.generate(**inputs, **settings)
        except OverflowError as error:
            penalty = settings.get("length_penalty")
            raise ValueError(f"`length_penalty` is {penalty}, too large for a summary's length: lower it") from error
        output_ids = output_ids.view(len(written), -1, output_ids.shape[-1])
        if len(written) < documents:
            filled = output_ids.new_zeros(documents, *output_ids.shape[1:])
            filled[written] = output_ids
            output_ids = filled
        return {"output_ids": output_ids, **further}

    def _check_length(self, settings: Mapping[str, Any]) -> None:
        positions, limits = self._target_positions(), self._get_set_generation_params(settings)
        name = "max_length" if limits.get("max_new_tokens") is None else "max_new_tokens"
        if positions is not None and (limits.get(name) or 0) > positions:
            raise ValueError(f"`{name}` is {limits[name]}, but the model's decoder has {positions} positions: lower it")

    def generation_settings(self, **settings: Any) -> dict[str, Any]:
        """The settings that the pipeline passes to `generate()`.

        Args:
            settings: the call's settings.

        Raises:
            TypeError: `generation_config` is no GenerationConfig.
            ValueError: as `check_own_settings` and `check_generation_settings`.
        """
        check_generation_config(settings.get("generation_config"))
        check_own_settings(settings, self.model)
        settings = self._prepare_generate_kwargs(_clear_aliases(settings), return_dict_in_generate=False)
        # None means unset for other settings, but beam search would raise lengths to this power
        if settings.get("length_penalty", 1.0) is None:
            del settings["length_penalty"]
        config = settings.get("generation_config")
        check_generation_settings({**({} if config is None else vars(config)), **settings})
        self._check_length(settings)
        return settings | in_floats(settings)

    def postprocess(self, outputs, return_tensors=False, return_text=None, clean_up_tokenization_spaces=None):
        sequences, document = outputs["output_ids"][0], outputs["note"].pop("restored_from", None)
        if outputs["note"]["blank"]:
            sequences = sequences[:, :0]
        records: list[dict[str, Any]] = [{} for _ in sequences]
        if return_tensors:
            records = [{"summary_token_ids": token_ids} for token_ids in sequences]
        if return_text or not return_tensors:
            source = {"documents": [outputs["document"]]} if "document" in outputs else {}
            texts = (self.processor or self.tokenizer).batch_decode(
                sequences, skip_special_tokens=True, clean_up_tokenization_spaces=clean_up_tokenization_spaces, **source
            )
            if document is not None:
                texts = self.processor.restore(texts, [document])
            for record, text in zip(records, texts, strict=True):
                record["summary_text"] = text.strip()
        if "details" in outputs["note"]:
            for record in records:
                record["details"] = outputs["note"]["details"]
        return records, outputs["note"]


@dataclass(frozen=True)
class _Example:
    """A document, or several to summarize together.

    Args:
        document: the user's document.
        phrases: its key phrases, if given.
        reading: the shortened document, if the model reads that instead.
    """

    document: Any
    phrases: Any = None
    reading: Reading | None = None

    @classmethod
    def of(cls, item: Any) -> "_Example":
        """Wrap an item, unless it is an example already."""
        return item if isinstance(item, cls) else cls(item)


class _Examples(Dataset):
    """Documents as examples, each with its phrases if given."""

    def __init__(self, documents, phrases=None):
        self.documents = documents
        self.phrases = phrases

    def __len__(self):
        return len(self.documents)

    def __getitem__(self, index):
        return _Example(self.documents[index], None if self.phrases is None else self.phrases[index])


def _generated(documents: Any) -> Iterator:
    """Generate the documents of an iterable or a data set; transformers reads generators lazily."""
    # torch's data sets need only be indexable
    yield from documents if isinstance(documents, Iterable) else map(documents.__getitem__, range(len(documents)))


class _SizedIterator(Iterator):
    """An iterator whose length is known."""

    def __init__(self, items: Iterator, length: int):
        self._items, self._length = items, length

    def __next__(self):
        return next(self._items)

    def __len__(self):
        return self._length


def _clear_aliases(settings: dict[str, Any]) -> dict[str, Any]:
    """For each limit that is set under one name, unset its other name, so that the checkpoint's value does not win."""
    aliases = {alias: name for pair in _LIMITS for name, alias in (pair, pair[::-1])}
    return {**{alias: None for alias, name in aliases.items() if settings.get(name) is not None}, **settings}


def _truncates(truncation) -> bool:
    """Whether to truncate, from a `truncation` value of transformers' tokenizers."""
    strategies = [strategy.value for strategy in TruncationStrategy]
    if not isinstance(truncation, bool) and truncation not in strategies:
        raise ValueError(f"`truncation` is {truncation!r:.80}, but must be a bool or one of {', '.join(strategies)}")
    return truncation not in (False, TruncationStrategy.DO_NOT_TRUNCATE.value)


def _check_document(document: Any) -> None:
    for text in document if isinstance(document, list) else [document]:
        if not isinstance(text, str):
            raise TypeError(f"a document must be a string, but is {type(text).__name__}: {text!r:.80}")
