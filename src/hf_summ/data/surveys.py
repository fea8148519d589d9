"""What the chosen columns of a corpus contain, seen row by row: lists, and what looks wrong."""

import logging
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from hf_summ.data.corpora import Corpus
from hf_summ.data.former_columns import (
    LIST_COLUMNS,
    PREFIX_COLUMN,
    blank_columns,
    choose_columns,
    has_text,
    text_or_texts,
)
from hf_summ.data.lists import Lists
from hf_summ.data.rows import ROW_FILES, kind_of_file
from hf_summ.models.text_documents import readable

# rows from which columns with text are found
PEEKED = 100
# shorter summaries, such as a word, may occur in a document by chance
_LEAST_SUMMARY = 10


class Doubts:
    """What looks wrong in pairs of documents and summaries, counted row by row."""

    def __init__(self):
        self.rows = self.within = self.shorter = 0

    def add(self, document: str | list[str | None], summary: str | list[str | None]) -> None:
        """Count a row."""
        texts, summaries = ([value] if isinstance(value, str) else value for value in (document, summary))
        short = next(filter(has_text, summaries), "") or ""
        self.rows += 1
        self.within += len(short) >= _LEAST_SUMMARY and any(short.strip() in text for text in texts if text)
        self.shorter += sum(len(text or "") for text in texts) < len(short)

    def notes(self) -> list[str]:
        """A line for each doubt about most of the rows."""
        findings = {
            f"{self.within:,} of {self.rows:,} documents contain their whole summary": self.within,
            f"{self.shorter:,} of {self.rows:,} documents are shorter than their summary": self.shorter,
        }
        hint = "unless it is meant, name other columns with `text_column` and `summary_column`"
        return [f"{finding}: {hint}" for finding, number in findings.items() if 2 * number > self.rows]


class ColumnSurvey:
    """The chosen columns of a corpus, seen row by row: what they contain, and what to tell of them.

    Args:
        chosen: `document`, `summary` and perhaps `prefix` -> their columns.
    """

    def __init__(self, corpus: Corpus, chosen: dict[str, str]):
        self.chosen, self._separate = chosen, corpus.format.separate
        self._seen = {column: Lists(column, chosen[column], corpus.lists) for column in LIST_COLUMNS}
        # chosen column -> whether its values are lists of texts
        self._is_list: dict[str, bool] = {}
        self.doubts = Doubts()

    @property
    def lists(self) -> tuple[str, ...]:
        """Those of `document` and `summary` that have lists of documents or references."""
        return tuple(c for c in LIST_COLUMNS if self._is_list.get(c) and c not in self.sentences)

    @property
    def sentences(self) -> tuple[str, ...]:
        """Those that have lists of sentences."""
        return tuple(column for column, seen in self._seen.items() if seen.rows and seen.meaning == "sentences")

    def look_at(self, row: dict[str, Any], where: str) -> dict[str, Any] | None:
        """Check a row, and return its texts by `chosen`'s keys, or None if its document or summary has no text."""
        texts: dict[str, Any] = {}
        for column, name in self.chosen.items():
            value = text_or_texts(row, name, where)
            if column == "document" and self._separate is not None and isinstance(value, str):
                value = self._separate(value)
            is_list = isinstance(value, list)
            # a prefix is never a list
            if value is not None and self._is_list.setdefault(column, is_list and column != PREFIX_COLUMN) != is_list:
                form = "list" if is_list else "str"
                raise ValueError(f"{where}: '{name}' is {form}, unlike in other rows: {value!r:.60}")
            if is_list and (column != "document" or self._separate is None):
                self._seen[column].add(value)
            texts[column] = value
        if not (has_text(texts["document"]) and has_text(texts["summary"])):
            return None
        self.doubts.add(texts["document"], texts["summary"])
        return texts

    def meanings(self) -> dict[str, str]:
        """What the lists of each column that has some are."""
        return {column: seen.meaning for column, seen in self._seen.items() if seen.rows}

    def notes(self) -> list[str]:
        """What is guessed of lists, and what looks wrong in pairs."""
        notes = [seen.note() for seen in self._seen.values()]
        return [note for note in (*notes, *self.doubts.notes()) if note is not None]

    def messages(self, where: str) -> list[tuple[int, str]]:
        """Messages with their levels of logging: the columns, what their lists are, and what looks wrong in them."""
        # a file's name may not be UTF-8
        where = readable(where)
        columns = f"{where}: documents from '{self.chosen['document']}', summaries from '{self.chosen['summary']}'"
        return [(logging.INFO, columns), *((logging.WARNING, f"{where}: {note}") for note in self.notes())]


def choose_corpus_columns(corpus: Corpus, paths: Sequence[Path], row: dict[str, Any], where: str) -> dict[str, str]:
    """The columns of a file's rows, of which this is one, see `choose_columns`; formats of their own have no others."""
    names = (corpus.text_column, corpus.summary_column) if has_column_names(paths) else (None, None)
    chosen = choose_columns(list(row), *names, where, corpus.prefix_column)
    if not blank_columns([row]) & {*chosen.values()}:
        return chosen
    first = (row for _, row in islice(corpus.format.read(tuple(paths), False), PEEKED))
    return choose_columns(list(row), *names, where, corpus.prefix_column, blank_columns(first))


def has_column_names(paths: Sequence[Path]) -> bool:
    """Whether these files of a split have rows with named columns."""
    return kind_of_file(paths[0]) in ROW_FILES
