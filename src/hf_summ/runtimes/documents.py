"""What summarizers do around their model, in PyTorch or in another runtime: read documents, and write records."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any

from hf_summ.models.checks import check_integer, check_texts, truncates
from hf_summ.models.generation_sentences import candidates_of, text_of
from hf_summ.runtimes.any_model import (
    prefix_arguments,
    source_positions,
    target_positions,
    task_parameters,
    with_prefix,
)
from hf_summ.runtimes.encoding import ReadExample, encode_by_tokenizer, encoded_features, pad_by_tokenizer
from hf_summ.runtimes.examples import (
    Example,
    Examples,
    SizedIterator,
    check_document,
    check_no_table,
    extra_input_lists,
    generated,
    is_read_lazily,
    is_single,
    without_lists_of_one,
)
from hf_summ.runtimes.long_documents import (
    SHORTENERS,
    TRUNCATE,
    ModelReader,
    Note,
    Record,
    check_long_documents,
    cut_of,
    details_of,
    in_chunks,
    joined_text,
    summary_ends,
    texts_of,
    with_warnings,
)
from hf_summ.runtimes.settings import CHOICE_SETTINGS, SETTINGS

logger = logging.getLogger(__name__)

# arguments of a call or of the constructor by name, whose values have many types
Settings = dict[str, Any]
# a function that shortens each of some examples
Shorten = Callable[[Iterator], Iterator[Example]]

# models without a limit have a number as large as this one or larger
_NO_LIMIT = 10**9
# the end of a warning of a truncated document
_HINT = "; set `long_documents` to 'windows' to read all of it, or to 'extract' to read its most important sentences"
# settings of the extractive stage before the model, see `hf_summ.shortening.extract`
_EXTRACTION = ("extract_share", "extract_tokens", "extract_idf", "next_sentence_model")
# for each argument that may be given beside a document, the model's input that it becomes, and its name in messages
EXTRA_INPUTS = {"phrases": ("phrase_starts", "key phrases"), "word_tags": ("tag_ids", "word tags")}
# a summary of a part of a document is one text
_PART_SETTINGS = {"num_return_sequences": 1, "return_tensors": False, "return_text": True, "return_details": False}


class DocumentSummarizer:
    """The part of a summarizer that needs no model.

    `read` converts an example to the model's inputs, the search of a subclass finds the ids of its summaries, and
    `to_records` decodes them. A subclass has `_run`, `search_settings` and `set_seed`, and the attributes:

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
    batch_size: int | None
    show_progress = False

    def _set_reading_defaults(
        self, long_documents: str, language: str, source_prefix: str | None, settings: Settings
    ) -> None:
        """Set how calls read documents unless they have settings of their own.

        Args:
            long_documents, language, source_prefix: as for `SummarizationPipeline`.
            settings: the constructor's other settings. Those of the extractive stage are removed from it.
        """
        check_long_documents(long_documents)
        self.long_documents = long_documents
        self.language = language
        self.source_prefix = source_prefix
        self._extraction = without_none({name: settings.pop(name, None) for name in _EXTRACTION})
        self._shortens_all = "extract_share" in self._extraction or "extract_tokens" in self._extraction
        if not self._shortens_all:
            self._warn_of_whole_documents()

    def _warn_of_whole_documents(self) -> None:
        """Warn that the model gets whole documents, if the extractive stage had shortened those of its training."""
        trained_extraction = getattr(self.model.config, "extraction", None)
        if not trained_extraction:
            return
        trained_settings = []
        for name, value in trained_extraction.items():
            setting = name if value is True else f"{name}={value}"
            trained_settings.append(f"`{setting}`")
        logger.warning(
            "the model was trained on documents that the extractive stage had shortened, but here it gets whole "
            f"documents: set {', '.join(trained_settings)}"
        )

    def _run(self, examples, *args, **settings):
        """Summarize one example or several.

        Args:
            examples: an `Example`, or an iterable or a data set of examples or documents.
            args, settings: the call's arguments that `__call__` does not name.

        Returns:
            For an `Example`, a pair: what `to_records` returns for it, and its `Note`, of which warnings are made. For
            several examples, an iterator over such pairs.
        """
        raise NotImplementedError

    def search_settings(self, **settings: object) -> Settings:
        """All settings of a call's search for summaries: the call's, and those that replace unset ones."""
        raise NotImplementedError

    def set_seed(self, seed: int) -> None:
        """Seed the sampling of the following calls by `seed`, a number of at most 32 bits."""
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
        check_no_table(documents)
        extra_inputs = without_none({"phrases": phrases, "word_tags": word_tags})
        long_documents = long_documents or self.long_documents
        shorten = self._shortener(long_documents, language or self.language, extra_inputs, kwargs)
        if is_single(documents):
            example = Example(documents, extra_inputs)
            if shorten is not None:
                (example,) = shorten(iter([example]))
            result = self._run(example, *args, **kwargs)
            return next(with_warnings(iter([result])))
        is_eager = isinstance(documents, Sized) and not is_read_lazily(documents)
        rows = list(documents) if is_eager else documents
        if is_eager:
            # every document is checked before the first one is summarized
            for index, document in enumerate(rows):
                check_document(Example.of(document).document, f"document {index}")
        number = len(rows) if isinstance(rows, Sized) else None
        input_lists = extra_input_lists(extra_inputs, number)
        # if the number is unknown, there are no extra inputs, and the summarizer reads the rows as they are
        examples = rows if number is None else Examples(rows, input_lists)
        if shorten is not None:
            # a generator, as other processes of a data loader would lack the model, which the shortener needs
            examples = shorten(generated(examples))
        results = self._run(examples, *args, **kwargs)
        if show_progress is None:
            show_progress = self.show_progress and number is not None and number > 1
        if show_progress:
            from huggingface_hub.utils import tqdm

            # without `disable=False` the bar is shown in terminals only
            results = tqdm(results, total=number, desc="summarizing", disable=False)
        # reading begins here, even if the caller reads the summaries later
        summaries = with_warnings(iter(results))
        if is_eager:
            return without_lists_of_one(list(summaries))
        if number is None:
            return summaries
        return SizedIterator(summaries, number)

    def _warn_of_search_settings(self, settings: Mapping[str, object]) -> None:
        """Warn of a call's first setting that a choice among whole sentences does not read."""
        name = self.setting_without_search(settings)
        if name is not None:
            logger.warning(
                f"`{name}` has no effect, as the summary is a whole sentence of the document: set `whole_sentences` to "
                "False for a search"
            )

    def setting_without_search(self, settings: Mapping[str, object]) -> str | None:
        """The name of a setting that has no effect, as the model chooses among whole sentences instead of searching.

        Args:
            settings: the settings of a call. Those in `CHOICE_SETTINGS` also have an effect on the choice.

        Returns:
            The first such name; None if there is none, or if the model searches.
        """
        names_of_search = []
        for name, value in settings.items():
            if value is not None and name in SETTINGS and name not in CHOICE_SETTINGS:
                names_of_search.append(name)
        if not names_of_search:
            return None
        chooses_sentences = settings.get("whole_sentences")
        if chooses_sentences is None:
            chooses_sentences = self.search_settings().get("whole_sentences")
        return names_of_search[0] if chooses_sentences else None

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
    ) -> tuple[Settings, Settings, Settings]:
        """The settings of a call for `read`, for the search and for `to_records`; transformers calls it by this name.

        `framework`, an argument of transformers 4, is ignored, as all models are PyTorch's now.
        """
        if truncation is not None:
            truncation = truncates(truncation)
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
        return without_none(preprocess), generate, without_none(postprocess)

    def _shortener(
        self, name: str, language: str, extra_inputs: Mapping[str, object], settings: Settings
    ) -> Shorten | None:
        """The function that shortens the examples of a call; None if the call only truncates them.

        Args:
            name: the value of `long_documents`.
            language: ISO 639 code of the documents.
            extra_inputs: what is given beside the documents.
            settings: the other settings of the call.

        Raises:
            ValueError: the settings exclude each other, or `name` is not a value of `long_documents`.
        """
        if self._shortens_all:
            if name == "windows":
                set_name = "extract_share" if "extract_share" in self._extraction else "extract_tokens"
                raise ValueError(f"`{set_name}` and `long_documents='windows'` exclude each other: set only one")
            name = "extract"
        check_long_documents(name)
        if name == TRUNCATE:
            return None
        if extra_inputs and name == "windows":
            given = next(iter(extra_inputs))
            raise ValueError(f"`{given}` cannot be located in windows: set `long_documents` to 'extract' or 'truncate'")
        stage_settings = self._extraction if name == "extract" else {}
        chunk_size = settings.get("batch_size") or self.batch_size or 1

        def summarize(texts: Sequence[str]) -> list[str]:
            results = self._run(Examples(texts), **{**settings, **_PART_SETTINGS})
            return [records[0]["summary_text"] for records, _ in results]

        reader = ModelReader(self, self.source_limit, summarize, settings.get("source_prefix"))

        def shorten(items: Iterator) -> Iterator[Example]:
            for chunk in in_chunks(items, chunk_size):
                examples = [Example.of(item) for item in chunk]
                for example in examples:
                    check_document(example.document)
                documents = [example.document for example in examples]
                readings = SHORTENERS[name](documents, reader, language, **stage_settings)
                for example, reading in zip(examples, readings, strict=True):
                    yield Example(example.document, example.extra_inputs, reading)

        return shorten

    def read(
        self, example: object, truncation: bool = True, return_details: bool = False, source_prefix: str | None = None
    ) -> ReadExample:
        """Read an example: the model's inputs, and what else the next steps need.

        Args:
            example: a document, or an `Example`.
            truncation, return_details, source_prefix: as for `SummarizationPipeline`.

        Raises:
            TypeError: a document is not a text.
            ValueError: the example is too long and may not be truncated, or the model does not read what is given
                beside the document, or it lacks an id of the tokenizer.
        """
        example = Example.of(example)
        reading = example.reading
        extra_inputs = self._extra_inputs_of(example)
        document = example.document if reading is None else reading.example
        reader = ModelReader(self, self.source_limit, _no_summaries, source_prefix)
        prefixed = with_prefix(document, reader.prefix)
        if self._is_ours:
            extra_inputs.update(prefix_arguments(self.processor, [reader.prefix]))
            encoded = encoded_features(self.processor.source_features([prefixed], reader.limit, **extra_inputs))
            copy_source = prefixed
        else:
            encoded = encode_by_tokenizer(self.tokenizer, joined_text(prefixed), reader.limit)
            copy_source = None
        self._check_ids(encoded.inputs["input_ids"])
        is_blank = not any(text.strip() for text in texts_of(document))
        note: Note = {"blank": is_blank, "document": document}
        if reader.limit is not None and encoded.length > reader.limit:
            subject = "the document has" if isinstance(document, str) else f"the {len(document)} documents have"
            message = f"{subject} {encoded.length} tokens, but the model reads at most {reader.limit}"
            if not truncation:
                raise ValueError(f"{message}: shorten it, or call the pipeline with `truncation=True`")
            hint = _HINT if reading is None else ""
            cut = cut_of(document, encoded.length, reader.limit, encoded.counts)
            note["cut"] = f"{message}: {cut}{hint}"
            note["length"] = encoded.length
            note["limit"] = reader.limit
            note["hint"] = hint
        if getattr(self.processor, "restore_case", False):
            note["restored_from"] = example.document
        if return_details:
            note["details"] = details_of(example.document, reader, encoded.length, encoded.counts, reading)
        return ReadExample(encoded.inputs, note, copy_source)

    @property
    def _is_ours(self) -> bool:
        """Whether the processor is that of one of our architectures."""
        return hasattr(self.processor, "source_features")

    def _extra_inputs_of(self, example: Example) -> dict[str, list]:
        """What an example has beside its document, as a batch of one: name -> list of one value.

        Raises:
            TypeError: a document is not a text.
            ValueError: the model does not read such an input.
        """
        extra_inputs = {}
        for name, value in example.extra_inputs.items():
            if value is not None:
                extra_inputs[name] = [value]
        for name in extra_inputs:
            input_name, noun = EXTRA_INPUTS[name]
            if input_name not in getattr(self.processor, "model_input_names", ()):
                raise ValueError(f"`{name}` are given, but the model does not read {noun}: omit them")
        check_document(example.document)
        ranges = None if example.reading is None else example.reading.ranges
        if "word_tags" in extra_inputs and ranges is not None:
            # the tags of the words that are read
            tags = self.processor.tags_within(example.document, extra_inputs["word_tags"][0], ranges)
            extra_inputs["word_tags"] = [tags]
        return extra_inputs

    def add_search_notes(self, examples: Sequence[ReadExample], settings: Settings) -> None:
        """Add to the notes of examples what depends on the settings of the search.

        All notes get `ends`. If `whole_sentences` is set, the notes of examples that are not blank get `candidates`.

        Args:
            settings: all settings of the search.
        """
        ends = summary_ends(settings)
        for example in examples:
            example.note["ends"] = ends
        if settings.get("whole_sentences"):
            for example in examples_to_summarize(examples):
                # the tokenizers of our architectures are used without special tokens; `candidates_of` adds the end
                example.note["candidates"] = candidates_of(
                    example.note["document"], self.tokenizer, ends.max_tokens, special_tokens=not self._is_ours
                )

    def padded(self, examples: Iterable[ReadExample]) -> Mapping[str, Any]:
        """The model's inputs for a batch by name, padded on the right: the processor's tensors, or lists of rows.

        Args:
            examples: what `read` returns for each example of the batch.
        """
        rows = [example.inputs for example in examples]
        if self._is_ours:
            return self.processor.pad(rows)
        return pad_by_tokenizer(self.tokenizer, rows)

    def _check_ids(self, token_ids: Sequence[int]) -> None:
        """Raise a ValueError if the model has no token of one of these ids."""
        number = self._number_of_tokens()
        largest = max(token_ids, default=0)
        if largest >= number:
            token = self.tokenizer.convert_ids_to_tokens(largest)
            raise ValueError(f"the tokenizer gives the id {largest} ({token!r}), but the model has {number} tokens")

    def _number_of_tokens(self) -> int:
        """The number of tokens that the model can read."""
        # a processor may tell unknown words apart by further ids
        return self.model.config.vocab_size + getattr(self.processor, "unknown_ids", 0)

    def _task_settings(self, names: Iterable[str]) -> Settings:
        """The settings of these names in the config's `task_specific_params`, which transformers 4 read."""
        known_names = set(names).union(getattr(self.model, "generation_keys", ()))
        return {name: value for name, value in task_parameters(self.model.config).items() if name in known_names}

    def _check_length(self, settings: Settings) -> None:
        """Raise a ValueError if the decoder has no positions for the longest summary that these settings allow."""
        positions = target_positions(self.model)
        name = "max_length" if settings.get("max_new_tokens") is None else "max_new_tokens"
        if positions is not None and (settings.get(name) or 0) > positions:
            raise ValueError(f"`{name}` is {settings[name]}, but the decoder has {positions} positions: lower it")

    @property
    def source_limit(self) -> int | None:
        """The number of tokens that the model reads, special ones included; None if it has no limit."""
        # the processor's limit comes first, as its tokenizer may be that of a model with fewer positions
        text_limit = getattr(self.processor, "max_source_length", self.tokenizer.model_max_length)
        limits = []
        for limit in (text_limit, source_positions(self.model)):
            if limit is not None and limit < _NO_LIMIT:
                limits.append(limit)
        return min(limits, default=None)

    def to_records(
        self, sequences, example: ReadExample, return_tensors=False, return_text=None, clean_up_tokenization_spaces=None
    ) -> list[Record]:
        """The records of an example's summaries.

        Args:
            sequences: (n, L), an array or a tensor with the ids of each summary.
            example: as `read` returns it, with what `add_search_notes` adds.
            return_tensors, return_text: whether a record has its ids, and its text, which it has by default.
            clean_up_tokenization_spaces: as for the tokenizer's `batch_decode`.
        """
        note = example.note
        if note["blank"]:
            sequences = sequences[:, :0]
        records: list[Record] = [{} for _ in sequences]
        if return_tensors:
            for record, token_ids in zip(records, sequences, strict=True):
                record["summary_token_ids"] = token_ids
        if return_text or not return_tensors:
            settings: Settings = {"clean_up_tokenization_spaces": clean_up_tokenization_spaces}
            if example.copy_source is not None:
                settings["documents"] = [example.copy_source]
                settings["max_length"] = self.source_limit
            decoder = self.processor or self.tokenizer
            texts = decoder.batch_decode(sequences, skip_special_tokens=True, **settings)
            if "candidates" in note:
                texts = [text_of(token_ids, note["candidates"], self.tokenizer) for token_ids in sequences]
            elif "restored_from" in note:
                texts = self.processor.restore(texts, [note["restored_from"]])
            for record, text in zip(records, texts, strict=True):
                record["summary_text"] = text.strip()
        if "details" in note:
            for record, token_ids in zip(records, sequences, strict=True):
                is_cut = not note["blank"] and note["ends"].cuts_off(token_ids)
                finish_reason = "length" if is_cut else "stop"
                record["details"] = {**note["details"], "finish_reason": finish_reason}
        return records


def examples_to_summarize(examples: Sequence[ReadExample]) -> list[ReadExample]:
    """The examples that are not blank. The model does not read blank examples, whose summaries are blank."""
    return [example for example in examples if not example.note["blank"]]


def without_none(settings: Settings) -> Settings:
    """The settings whose value is not None."""
    return {name: value for name, value in settings.items() if value is not None}


def _no_summaries(texts: Sequence[str]) -> list[str]:
    """For a `ModelReader` that only measures texts."""
    return []
