"""A look at a corpus before a model is trained on it: rows, repeated and shared documents, lengths, examples."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import datasets
import numpy as np

from hf_summ.common.messages import one_line
from hf_summ.common.pages import markdown_table
from hf_summ.data.columns import Columns, choose_columns
from hf_summ.data.corpora import Corpus
from hf_summ.data.loading import load, read_split

_EXAMPLES = 3
# The seed of the samples.
_SEED = 0
# Texts are shortened to so many characters in the table of examples.
_SHOWN = 160


@dataclass(frozen=True)
class Limits:
    """The numbers of subwords that a model reads of a document, and of a summary in training."""

    documents: int
    summaries: int


@dataclass(frozen=True)
class Lengths:
    """Numbers of subwords of texts, and the share of texts that are longer than the model's limit."""

    median: int
    percentile_95: int
    maximum: int
    limit: int
    truncated: float


@dataclass(frozen=True)
class Example:
    """A row of a corpus."""

    document: str
    summary: str


@dataclass(frozen=True)
class FileReport:
    """What a file of a corpus contains.

    Args:
        file: the name of the file.
        columns: the columns of its documents and summaries.
        rows: number of rows.
        blank: number of rows with a blank document or summary, which are left out.
        repeated: number of rows whose document occurs in an earlier row of the file.
        shared: earlier file -> number of rows whose document occurs there too.
        documents, summaries: lengths of a sample of rows; None without a model.
        examples: some rows.
    """

    file: str
    columns: Columns
    rows: int
    blank: int
    repeated: int
    shared: dict[str, int]
    documents: Lengths | None
    summaries: Lengths | None
    examples: list[Example]


# A function from texts to their numbers of subwords.
Counter = Callable[[Sequence[str]], Sequence[int]]


def report_files(
    corpora: Sequence[Corpus], count: Counter | None = None, limits: Limits | None = None, sample: int = 10_000
) -> list[FileReport]:
    """A report of each file of a corpus.

    Args:
        corpora: each with one file, as its `train_file`.
        count: counts the subwords of texts; without it, no lengths are reported.
        limits: those of the model with these subwords; without them, no lengths are reported.
        sample: number of rows, drawn at random, whose lengths are counted.
    """
    reports: list[FileReport] = []
    hashes_of_files: dict[str, set[bytes]] = {}
    for corpus in corpora:
        file = corpus.files["train"]
        written_rows = read_split(corpus, "train")
        columns = choose_columns(written_rows.column_names, corpus.text_column, corpus.summary_column, None, file)
        rows = load(corpus)["train"]
        hashes = [_hash(text) for text in rows["document"]]
        shared = {}
        for earlier_file, earlier_hashes in hashes_of_files.items():
            occurring = [text_hash for text_hash in hashes if text_hash in earlier_hashes]
            shared[earlier_file] = len(occurring)
        hashes_of_files[file] = set(hashes)
        drawn = rows.select(_draw(len(rows), sample))
        documents = summaries = None
        if count is not None and limits is not None:
            documents = _lengths(count(list(drawn["document"])), limits.documents)
            summaries = _lengths(count(list(drawn["summary"])), limits.summaries)
        report = FileReport(
            file=file,
            columns=columns,
            rows=len(written_rows),
            blank=len(written_rows) - len(rows),
            repeated=len(hashes) - len(hashes_of_files[file]),
            shared=shared,
            documents=documents,
            summaries=summaries,
            examples=_examples(rows),
        )
        reports.append(report)
    return reports


def as_tables(reports: Sequence[FileReport]) -> str:
    """The reports as tables in Markdown: a row a file, then examples."""
    files = markdown_table(
        ["file", "documents", "summaries", "rows", "blank", "repeated", "shared with an earlier file"],
        [_file_cells(report) for report in reports],
        left=3,
    )
    sections = [files]
    length_rows = []
    for report in reports:
        for name, lengths in (("documents", report.documents), ("summaries", report.summaries)):
            if lengths is not None:
                length_rows.append(_length_cells(f"{report.file}, {name}", lengths))
    if length_rows:
        header = ["subwords", "median", "95%", "maximum", "the model's limit", "truncated"]
        sections.append(markdown_table(header, length_rows))
    example_rows = []
    for report in reports:
        for example in report.examples:
            example_rows.append([report.file, _shortened(example.document), _shortened(example.summary)])
    sections.append(markdown_table(["file", "document", "summary"], example_rows, left=3))
    return "\n\n".join(sections)


def _file_cells(report: FileReport) -> list[str]:
    """The cells of a file in the first table."""
    shared = [f"{number:,} ({file})" for file, number in report.shared.items() if number]
    return [
        report.file,
        report.columns.document,
        report.columns.summary,
        f"{report.rows:,}",
        f"{report.blank:,}",
        f"{report.repeated:,}",
        ", ".join(shared) or "0",
    ]


def _length_cells(name: str, lengths: Lengths) -> list[str]:
    """The cells of a file's documents or summaries in the table of lengths."""
    return [
        name,
        f"{lengths.median:,}",
        f"{lengths.percentile_95:,}",
        f"{lengths.maximum:,}",
        f"{lengths.limit:,}",
        f"{lengths.truncated:.1%}",
    ]


def _hash(text: str) -> bytes:
    """A hash of a text's words, which is equal for texts that differ only in white space."""
    words = " ".join(text.split())
    return blake2b(words.encode("utf-8"), digest_size=8).digest()


def _draw(number: int, sample: int) -> list[int]:
    """The indices of a sample of `number` rows, in order; they are equal in every run."""
    if number <= sample:
        return list(range(number))
    return sorted(random.Random(_SEED).sample(range(number), sample))


def _lengths(counts: Sequence[int], limit: int) -> Lengths:
    """The lengths of texts with these numbers of subwords, and a model's limit."""
    median, percentile_95, maximum = np.percentile(counts, [50, 95, 100])
    truncated = float(np.mean(np.asarray(counts) > limit))
    return Lengths(int(median), int(percentile_95), int(maximum), limit, truncated)


def _examples(rows: datasets.Dataset) -> list[Example]:
    drawn = rows.select(_draw(len(rows), _EXAMPLES))
    return [Example(row["document"], row["summary"]) for row in drawn]


def _shortened(text: str) -> str:
    line = one_line(text)
    if len(line) <= _SHOWN:
        return line
    return line[: _SHOWN - 1] + "…"
