"""A report on a corpus before a model is trained on it: rows, repeated and shared documents, lengths, examples.

A text is blank if it is missing or has only white space.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import datasets
import numpy as np

from hf_summ.common.messages import one_line
from hf_summ.common.pages import markdown_table
from hf_summ.data.columns import Columns, choose_columns
from hf_summ.data.corpora import Corpus
from hf_summ.data.loading import load, passing, read_split

# The number of rows of each file that are shown as examples.
_EXAMPLES = 3
# The seed of the random samples of rows.
_SEED = 0
# The largest number of characters of a text in the table of examples; longer texts are shortened.
_SHOWN = 160


@dataclass(frozen=True)
class Limits:
    """The largest numbers of subwords that a model reads of a document, and of a summary in training."""

    documents: int
    summaries: int


@dataclass(frozen=True)
class Lengths:
    """The lengths of some texts in subwords.

    Attributes:
        median, percentile_95, maximum: the median, the 95th percentile and the maximum of the lengths.
        limit: the largest number of subwords that the model reads of a text.
        truncated: the share of texts that are longer than the limit, from 0 to 1.
    """

    median: int
    percentile_95: int
    maximum: int
    limit: int
    truncated: float


@dataclass(frozen=True)
class Example:
    """The document and the summary of a row of a corpus."""

    document: str
    summary: str


@dataclass(frozen=True)
class FileReport:
    """What a file of a corpus contains. All figures but `rows` and `blank` are about the rows that are kept.

    Args:
        file: the name of the file.
        columns: the names of the columns of documents and summaries in the file.
        rows: the number of rows in the file.
        blank: the number of rows that are left out, as their document or summary is blank. Rows that an option of the
            format leaves out, such as `min_score`, are not among them; their number is logged.
        repeated: the number of rows whose document occurs in an earlier row of the file.
        shared: name of an earlier file -> the number of rows whose document occurs in that file too.
        documents, summaries: the lengths of the documents and of the summaries in a sample of the rows; None without a
            model.
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


# A function of loaded rows, which are a list for each column by name. It returns the number of subwords of each
# document, and of each summary, as the model reads them.
Counter = Callable[[Mapping[str, list]], tuple[Sequence[int], Sequence[int]]]


def report_files(
    corpora: Sequence[Corpus], count: Counter | None = None, limits: Limits | None = None, sample: int = 10_000
) -> list[FileReport]:
    """Report what each file of a corpus contains.

    Two documents are equal if they differ only in white space.

    Args:
        corpora: a corpus for each file, which is its `train_file`.
        count: counts the subwords of rows; without it, no lengths are reported.
        limits: the limits of the model that reads these subwords; without them, no lengths are reported.
        sample: the number of rows, drawn at random, whose lengths are counted.

    Returns:
        A report for each file, in the order of `corpora`.

    Raises:
        ValueError: as `load`, if a file cannot be read.
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
        documents = None
        summaries = None
        if count is not None and limits is not None:
            document_lengths, summary_lengths = count(drawn[:])
            documents = _lengths(document_lengths, limits.documents)
            summaries = _lengths(summary_lengths, limits.summaries)
        report = FileReport(
            file=file,
            columns=columns,
            rows=len(written_rows),
            blank=len(passing(written_rows, corpus)) - len(rows),
            repeated=len(hashes) - len(hashes_of_files[file]),
            shared=shared,
            documents=documents,
            summaries=summaries,
            examples=_examples(rows),
        )
        reports.append(report)
    return reports


def as_tables(reports: Sequence[FileReport]) -> str:
    """Write reports as tables in Markdown, separated by blank lines.

    The first table has a row for each file. The second, if there are lengths, has the lengths of the documents and of
    the summaries of each file. The last has the examples.
    """
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
    """The cells of a row in the first table of `as_tables`."""
    shared = [f"{shared_rows:,} ({file})" for file, shared_rows in report.shared.items() if shared_rows]
    return [
        report.file,
        report.columns.document,
        report.columns.summary or "-",
        f"{report.rows:,}",
        f"{report.blank:,}",
        f"{report.repeated:,}",
        ", ".join(shared) or "0",
    ]


def _length_cells(name: str, lengths: Lengths) -> list[str]:
    """The cells of a row in the table of lengths.

    Args:
        name: what has these lengths, such as "train.jsonl, documents".
    """
    return [
        name,
        f"{lengths.median:,}",
        f"{lengths.percentile_95:,}",
        f"{lengths.maximum:,}",
        f"{lengths.limit:,}",
        f"{lengths.truncated:.1%}",
    ]


def _hash(text: str) -> bytes:
    """A hash of the words of a text (8 bytes), which is equal for texts that differ only in white space."""
    words = " ".join(text.split())
    # A report holds the hashes of all documents in memory, so they are short. No file stores them.
    return blake2b(words.encode("utf-8"), digest_size=8).digest()


def _draw(rows: int, sample: int) -> list[int]:
    """Draw the indices of some rows at random. They are in ascending order, and equal in every run.

    Args:
        rows: the number of all rows.
        sample: the number of indices to draw. If there are not more rows than this, all indices are returned.
    """
    if rows <= sample:
        return list(range(rows))
    return sorted(random.Random(_SEED).sample(range(rows), sample))


def _lengths(counts: Sequence[int], limit: int) -> Lengths:
    """Summarize the lengths of texts.

    Args:
        counts: the number of subwords of each text; at least one.
        limit: the largest number of subwords that the model reads of a text.
    """
    median, percentile_95, maximum = np.percentile(counts, [50, 95, 100])
    truncated = float(np.mean(np.asarray(counts) > limit))
    return Lengths(int(median), int(percentile_95), int(maximum), limit, truncated)


def _examples(rows: datasets.Dataset) -> list[Example]:
    """Some rows of a file, drawn at random."""
    drawn = rows.select(_draw(len(rows), _EXAMPLES))
    return [Example(row["document"], row["summary"]) for row in drawn]


def _shortened(text: str) -> str:
    """A text in one line of at most `_SHOWN` characters; an ellipsis takes the place of what is left out."""
    line = one_line(text)
    if len(line) <= _SHOWN:
        return line
    return line[: _SHOWN - 1] + "…"
