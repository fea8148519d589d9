"""Summaries of the rows of a shard by one model, and counts of what a run has done."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from hf_summ.common.messages import no_warnings, one_line
from hf_summ.models.text_processing_highlight_transformer import read_phrases
from hf_summ.offline.shards import RowExample, Shard, Summary
from hf_summ.runtimes.documents import EXTRA_INPUTS
from hf_summ.runtimes.long_documents import Details

if TYPE_CHECKING:
    from hf_summ.runtimes.documents import DocumentSummarizer

# A function that is called with the number of rows that were finished since the last call.
Progress = Callable[[int], object]
# The seeds of shards are computed from the run's seed times this number. A large odd number keeps the seeds of
# different runs and shards apart. It has 32 bits, as torch reads no more bits of a seed on a CPU.
_STRIDE = 0x9E3779B1


@dataclass(frozen=True)
class Work:
    """How to summarize rows. It is sent to other processes, so it contains a function that loads the model.

    Args:
        load: returns the pipeline; its argument `device`, if given, is the default device.
        settings: settings of the pipeline's call.
        batch_size: number of documents per batch.
        phrases: key phrases for every document, which replace the key phrases of the rows, for models that read such.
        seed: seed of summaries that are sampled.
        uses_torch: whether the model is one of PyTorch, and not of exported graphs.
    """

    load: Callable[..., "DocumentSummarizer"]
    settings: dict[str, Any]
    batch_size: int
    phrases: dict[str, float] | None = None
    seed: int = 0
    uses_torch: bool = True


@dataclass
class Outcome:
    """What a run, or the summarizing of a shard, has done.

    Args:
        shards: number of shards. A run also counts the shards that earlier calls have written, but only in this count.
        rows: number of rows that were summarized, or that have the reason why there is no summary.
        failed: number of these rows without a summary.
        cut: number of these rows whose documents were shortened or truncated.
        full: number of the rows counted in `cut` of which the model read as many tokens as it can.
        source_tokens: number of tokens of the documents of the rows counted in `cut`.
        cut_tokens: number of these tokens that were removed.
        empty: number of rows with an empty summary.
        unfinished: number of rows whose summary has the most tokens allowed, and may be cut off.
    """

    shards: int = 0
    rows: int = 0
    failed: int = 0
    cut: int = 0
    full: int = 0
    source_tokens: int = 0
    cut_tokens: int = 0
    empty: int = 0
    unfinished: int = 0

    def add(self, shard: "Outcome") -> None:
        """Add a shard's counts."""
        for count in fields(Outcome):
            total = getattr(self, count.name) + getattr(shard, count.name)
            setattr(self, count.name, total)


def count_summaries(summaries: Sequence[Summary]) -> Outcome:
    """The counts of a shard with these summaries."""
    outcome = Outcome(shards=1, rows=len(summaries))
    for summary in summaries:
        if summary.text is None:
            outcome.failed += 1
        elif not summary.text.strip():
            outcome.empty += 1
        if summary.is_unfinished:
            outcome.unfinished += 1
        if summary.cut_tokens and summary.source_tokens:
            outcome.cut += 1
            if summary.is_full:
                outcome.full += 1
            outcome.source_tokens += summary.source_tokens
            outcome.cut_tokens += summary.cut_tokens
    return outcome


class ShardSummarizer:
    """Summarizes shards with a model, which it loads.

    Args:
        work: how to load the model and to summarize.
        text_column: the column of the documents, for messages.
        device: the default device of the model; the pipeline chooses it if None.
    """

    def __init__(self, work: Work, text_column: str, device: str | None = None):
        self._work = work
        self._text_column = text_column
        if device is None:
            self._summarizer = work.load()
        else:
            self._summarizer = work.load(device=device)
        processor = getattr(self._summarizer, "processor", None)
        input_names = getattr(processor, "model_input_names", ())
        self._settings = dict(work.settings)
        # A checkpoint may set several return sequences.
        self._settings["num_return_sequences"] = 1
        self._settings["return_details"] = True
        # The model reads these columns beside the document.
        self._extra_columns = []
        for column, (input_name, _) in EXTRA_INPUTS.items():
            if input_name in input_names:
                self._extra_columns.append(column)

    def summarize(self, shard: Shard, progress: Progress) -> list[Summary]:
        """The summaries of a shard's rows, in the order of the rows.

        Documents are batched by length. If the model cannot summarize a row, `error` has the reason, and the other rows
        of the batch are summarized one by one.

        Args:
            shard: the shard.
            progress: called first with the number of blank rows, then for each other row.

        Raises:
            ValueError: the shard has several rows, and the model refuses all of them. The cause is then probably a
                wrong setting, with which it would refuse the rows of all shards.
        """
        # Sampled texts must not depend on the process that generates them, nor on the shards before.
        self._summarizer.set_seed((self._work.seed * _STRIDE + shard.number) % 2**32)
        blank = Summary(None, error=f"'{self._text_column}' is blank")
        summaries = [blank] * len(shard.examples)
        examples = {}
        for index, example in enumerate(shard.examples):
            if example is not None:
                examples[index] = example
        progress(len(shard.examples) - len(examples))
        # The longest documents come first: if memory is too small, the error comes early.
        order = sorted(examples, key=lambda index: _length(examples[index].text), reverse=True)
        with no_warnings(self._summarizer.read):
            results = self._summaries([examples[index] for index in order])
            for index, summary in zip(order, results, strict=True):
                summaries[index] = summary
                progress(1)
        errors = []
        for index in examples:
            if summaries[index].text is None:
                errors.append(summaries[index].error)
        if len(errors) > 1 and len(errors) == len(examples):
            raise ValueError(f"none of {len(errors):,} rows can be summarized: {errors[0]}")
        return summaries

    def _summaries(self, examples: list[RowExample]) -> Iterator[Summary]:
        """Summarize examples in batches, in their order.

        The examples of a batch that fails are summarized one by one, and the examples behind them in batches again. If
        the model refuses an example, the `Summary` has no text, and its `error` has the reason.
        """
        done = 0
        while done < len(examples):
            try:
                for summary in self._run_pipeline(examples[done:], self._work.batch_size):
                    done += 1
                    yield summary
            except Exception:
                # The call may have yielded several batches before the batch that fails.
                for example in examples[done : done + self._work.batch_size]:
                    done += 1
                    yield self._summary_or_error(example)

    def _summary_or_error(self, example: RowExample) -> Summary:
        """The summary of an example; if the model refuses it, a `Summary` with the reason."""
        try:
            return next(self._run_pipeline([example], 1))
        except Exception as error:
            return Summary(None, error=reason_of(error))

    def _run_pipeline(self, examples: list[RowExample], batch_size: int) -> Iterator[Summary]:
        """Yield the pipeline's summary of each example, in order.

        The pipeline decodes a batch when its first summary is asked for.
        """
        texts = _LazyTexts([example.text for example in examples])
        extra_inputs = self._extra_inputs(examples)
        with _panics_as_errors():
            results = self._summarizer(texts, batch_size=batch_size, **extra_inputs, **self._settings)
            for example, records in zip(examples, results, strict=True):
                # `num_return_sequences` is 1, so each document has one record.
                summary_text = records[0]["summary_text"]
                details = records[0]["details"]
                yield Summary(
                    summary_text,
                    details["source_tokens"],
                    details["cut_tokens"],
                    note=_note(example, summary_text, details),
                    is_unfinished=details["finish_reason"] == "length",
                    is_full=details["read_tokens"] == self._summarizer.source_limit,
                )

    def _extra_inputs(self, examples: Sequence[RowExample]) -> dict[str, Any]:
        """For each column that the model reads beside the documents, the values of the examples.

        A column in which no example has a value is left out. `Work.phrases` replaces the key phrases of the rows.
        """
        extra_inputs: dict[str, Any] = {}
        for name in self._extra_columns:
            values = []
            has_values = False
            for example in examples:
                value = example.extra_inputs.get(name)
                if name == "phrases":
                    value = self._work.phrases or read_phrases(value)
                if value is not None:
                    has_values = True
                values.append(value)
            if has_values:
                extra_inputs[name] = values
        return extra_inputs


class _LazyTexts:
    """Texts for the pipeline, which can be indexed but not iterated over.

    The pipeline reads such texts one by one and yields summaries one by one, so that summaries before an error are not
    lost. From a list, it would return all summaries at once.
    """

    def __init__(self, texts: Sequence[str | list[str]]):
        self._texts = texts

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, index: int) -> str | list[str]:
        return self._texts[index]


def _length(text: str | list[str]) -> int:
    """The number of characters of a document, or of several documents."""
    if isinstance(text, str):
        return len(text)
    return sum(len(document) for document in text)


def _note(example: RowExample, summary: str, details: Details) -> str:
    """What a reader should look at in a row: a summary of part of the document, or one that looks wrong.

    Args:
        example: what the model read of the row.
        summary: the text of the summary.
        details: the pipeline's `details` of the summary.
    """
    notes = []
    if details["cut_tokens"]:
        notes.append(f"the model read {details['read_tokens'] / details['source_tokens']:.0%} of the document")
    if not summary.strip():
        notes.append("the summary is empty")
    elif details["finish_reason"] == "length":
        notes.append("the summary has the most tokens allowed, and may be cut off")
    if len(summary) > _length(example.text):
        notes.append("the summary is longer than the document")
    return "; ".join(notes)


@contextmanager
def _panics_as_errors() -> Generator[None]:
    """A context in which a panic of a library in Rust, such as the tokenizer's, is a RuntimeError.

    The exception of a panic is no `Exception`, and cannot be sent from one process to another.
    """
    try:
        yield
    except BaseException as error:
        # Each library has its own class with this name, and no module has the class.
        if type(error).__name__ != "PanicException":
            raise
        raise RuntimeError(reason_of(error)) from error


def reason_of(error: BaseException) -> str:
    """The message of an error in one line, or the name of its type if it has none."""
    return one_line(error) or type(error).__name__
