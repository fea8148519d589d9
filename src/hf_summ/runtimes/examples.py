"""The documents that a summarizer is called with, as examples: texts, lists, columns, iterators and data sets."""

import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hf_summ.models.checks import is_list
from hf_summ.runtimes.long_documents import Reading, Record


@dataclass(frozen=True)
class Example:
    """A document, or several to summarize together.

    Args:
        document: the user's document, or a list of documents. It may be of a wrong type until it is checked.
        extra_inputs: what is given beside the document, such as phrases, by the name of the processor's argument.
        reading: the shortened document, if the model reads that instead.
    """

    document: Any
    extra_inputs: Mapping[str, object] = field(default_factory=dict)
    reading: Reading | None = None

    def __post_init__(self):
        document = self.document
        if not isinstance(document, (str, list)) and is_list(document):
            # such as an array, which pandas reads from a column of lists
            document = list(document)
        if isinstance(document, list):
            texts = [text for text in document if not is_missing(text)]
            if len(texts) < len(document):
                document = texts or ""
        # the only way to set an attribute of a frozen dataclass
        object.__setattr__(self, "document", document)

    @classmethod
    def of(cls, item: object) -> "Example":
        """Wrap an item of a list, unless it is an example already; a missing value is a blank document."""
        if isinstance(item, cls):
            return item
        return cls(blank_if_missing(item))


class Examples(Sequence):
    """A sequence of examples.

    Args:
        documents: a sequence of documents.
        extra_inputs: what is given beside them: for each argument of the processor, a sequence of one value per
            document.
    """

    def __init__(self, documents, extra_inputs: Mapping[str, Sequence] | None = None):
        self.documents = documents
        self.extra_inputs = extra_inputs or {}

    def __len__(self):
        return len(self.documents)

    def __getitem__(self, index):
        extra_inputs = {name: values[index] for name, values in self.extra_inputs.items()}
        return Example(blank_if_missing(self.documents[index]), extra_inputs)


class SizedIterator(Iterator):
    """An iterator whose length is known."""

    def __init__(self, items: Iterator, length: int):
        self._items = items
        self._length = length

    def __next__(self):
        return next(self._items)

    def __len__(self):
        return self._length


def is_missing(value: object) -> bool:
    """Whether a value of a list or of a data frame's column stands for a missing text: None, NaN, or pandas' NA."""
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or type(value).__name__ == "NAType"


def blank_if_missing(document: object) -> object:
    """The document, or a blank one if it is missing."""
    if is_missing(document):
        return ""
    return document


def check_document(document: object, name: str = "a document") -> None:
    """Raise a TypeError, which begins with this name, unless a document is a text or a list of texts."""
    texts = document if isinstance(document, list) else [document]
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"{name} must be a string, but is {type(text).__name__}: {text!r:.80}")


def check_no_table(documents: object) -> None:
    """Raise a TypeError if documents are a table, such as a data frame, instead of one of its columns."""
    columns = getattr(documents, "column_names", None)
    if columns is None:
        columns = getattr(documents, "columns", None)
    if columns is not None:
        names = ", ".join(str(column) for column in columns)
        raise TypeError(f"`documents` has the columns {names}: give one of them")


def is_read_lazily(documents: object) -> bool:
    """Whether documents are a data set of PyTorch, or an object that can only be indexed."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(documents, torch.utils.data.Dataset):
        return True
    return hasattr(documents, "__getitem__") and not isinstance(documents, Iterable)


def is_single(documents: object) -> bool:
    """Whether this is one document, or a value of a wrong type, instead of several documents."""
    if isinstance(documents, (str, bytes, Mapping)):
        return True
    return not isinstance(documents, Iterable) and not is_read_lazily(documents)


def generated(documents: Any) -> Iterator:
    """Generate the documents of an iterable or a data set, which need only have a length and an index."""
    if isinstance(documents, Iterable):
        yield from documents
    else:
        for index in range(len(documents)):
            yield documents[index]


def extra_input_lists(extra_inputs: Mapping[str, Sequence], number: int | None) -> dict[str, list]:
    """What is given beside several documents, each as a list with a value per document.

    Args:
        extra_inputs: an argument's values by its name.
        number: the number of documents; None if it is unknown.

    Raises:
        ValueError: the values do not have this number, or it is unknown.
    """
    lists = {}
    for name, values in extra_inputs.items():
        if number is None or not is_list(values) or len(values) != number:
            expected = "a list of" if number is None else number
            raise ValueError(f"`{name}` must be a list, with an entry for each of {expected} documents: {values!r:.80}")
        # a list, as rows of a Series would be looked up by its labels
        lists[name] = list(values)
    return lists


def without_lists_of_one(summaries: list[list[Record]]) -> list:
    """The record of each document if each document has one; otherwise the list of records of each document."""
    if any(len(records) != 1 for records in summaries):
        return summaries
    return [records[0] for records in summaries]
