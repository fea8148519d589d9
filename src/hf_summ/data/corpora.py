"""The description of a corpus of documents and summaries, on the Hub or in files, and of how to read its rows."""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hf_summ.common.flags import flag, names
from hf_summ.data.lists import MEANINGS
from hf_summ.data.raw_formats import DataFormat, format_of

SPLITS = ("train", "validation", "test")
# the lowest score of LCSTS to use, as in the published test set (Hu et al. 2015)
_MIN_SCORE = 3


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How to read a corpus: its columns, its format, and the rows to use.

    Args:
        text_column, summary_column: columns of documents and summaries; guessed if not given (document/summary,
            article/highlights, text/summary, source/target, ...). Names of several columns, separated by commas, are
            read as a list.
        lists: what lists of texts in these columns are: `sentences` of one text, `documents`, `references`. `documents`
            decides for the column of documents, `references` for that of summaries, and `sentences` for the others;
            guessed where not given.
        data_format: the format in which the data set is distributed; a folder with the splits may then be given instead
            of files. `gigaword`: line-aligned articles and titles. `lcsts`: PART_I.txt to PART_III.txt.
            `multi_news`: X.src and X.tgt, or rows, with documents separated by `|||||` or
            `story_separator_special_tag`; also on the Hub. `duc`: input.txt, task1_ref0.txt and so on. `newsroom`: rows
            with `density_bin`; also on the Hub. `cnn_dm`: folders of .story files (`cnn/stories,dailymail/stories`), a
            list of such files, or the folder of these folders and of the lists of addresses. `xsum`: the folder of
            bbc-summary-data and of the list of splits. If not given, the file's extension determines the format.
        min_score: for `lcsts`, pairs with a lower score (1 to 5) are skipped; 3 if not given.
        density_bin: for `newsroom`, only `abstractive`, `mixed` or `extractive` rows; all if not given.
    """

    text_column: str | None = flag(
        "data", "Column of the documents, or several separated by commas", unset="guessed from the names"
    )
    summary_column: str | None = flag(
        "data", "Column of the summaries, or several separated by commas", unset="guessed from the names"
    )
    lists: list[str] | None = flag(
        "data",
        "What lists of texts in these columns are: sentences of one text, several documents, or several references; "
        "'sentences references' if documents are lists of sentences, and summaries of references",
        unset="guessed from numbers and lengths",
        nargs="+",
        choices=MEANINGS,
    )
    data_format: str | None = flag(
        "data",
        "Format in which the data set is distributed: gigaword, lcsts, multi_news, duc, newsroom, cnn_dm or xsum; a "
        "folder may then be given instead of files",
        unset="by file extension",
    )
    min_score: int | None = flag("data", "Lowest score of the pairs to use, 1 to 5, for lcsts", unset="3")
    density_bin: Literal["abstractive", "mixed", "extractive"] | None = flag(
        "data", "Rows to use, for newsroom", unset="all"
    )

    @property
    def format(self) -> DataFormat:
        """The format, which locates files and reads rows.

        Raises:
            ValueError: an unknown format.
        """
        return format_of(self.data_format)

    def option(self) -> Any:
        """The value of the format's option, or None if it has none.

        Raises:
            ValueError: an option of another format.
        """
        for name, owner in (("min_score", "lcsts"), ("density_bin", "newsroom")):
            value = getattr(self, name)
            if value is not None and self.data_format != owner:
                raise ValueError(f"`{name}` is {value}, which needs `data_format` '{owner}'")
        if self.data_format == "lcsts":
            return _MIN_SCORE if self.min_score is None else self.min_score
        return self.density_bin


@dataclass(frozen=True, kw_only=True)
class Corpus(Reading):
    """A corpus on the Hub (`dataset_name`) or in files: one file or a line-aligned pair for each split.

    A file is .json (a list of rows, one row per line, or an object of columns), .jsonl, .csv or .tsv, each also as .gz,
    .parquet, .arrow, or a folder of a split that `save_to_disk` of `datasets` wrote. A pair is `X.source` beside
    `X.target`, or `documents.txt,summaries.txt`. Equal corpora are read in the same way.
    """

    dataset_name: str | None = flag("data", "Data set on the Hub, or a folder that `datasets` can load", unset="files")
    dataset_config_name: str | None = flag("data", "Configuration of that data set", unset="its only one")
    streaming: bool | None = flag(
        "data",
        "Read the training rows of dataset_name as a stream, without storing them; needs max_steps",
        unset="they are downloaded and stored",
        needs=("dataset_name",),
    )
    train_file: str | None = flag(
        "data", "Documents and summaries for training: a file of rows, or X.source", unset="none"
    )
    validation_file: str | None = flag("data", "The same for validation", unset="none")
    test_file: str | None = flag("data", "The same for prediction", unset="none")
    prefix_column: str | None = flag(
        "data",
        "Column of the text to put before each document; a row without one has source_prefix",
        unset="source_prefix for all",
    )

    @classmethod
    def among(cls, settings: Mapping[str, Any]) -> "Corpus":
        """The corpus that settings describe; their other entries are ignored."""
        return cls(**{name: settings[name] for name in names(cls) if name in settings})

    @property
    def files(self) -> dict[str, str]:
        """Split -> its file, for splits that have one."""
        files = {split: getattr(self, file_flag(split)) for split in SPLITS}
        return {split: str(file) for split, file in files.items() if file is not None}

    def given(self) -> dict[str, Any]:
        """The fields that are not None."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}

    def only(self, splits: Iterable[str]) -> "Corpus":
        """The corpus with the files of these splits only."""
        others = [split for split in SPLITS if split not in set(splits)]
        return dataclasses.replace(self, **{file_flag(split): None for split in others})

    def paths(self, split: str) -> tuple[Path, ...]:
        """All files that make up a split, if it has any.

        Raises:
            ValueError: a file does not exist, is empty or of an unknown type.
        """
        return self.format.locate(self.files[split], split) if split in self.files else ()

    def check(self) -> None:
        """Check everything that can be checked without reading rows.

        Raises:
            ValueError: no data, or both a data set and files; an unknown format, or an option of another one; a file
                that does not exist, is empty or of an unknown type.
        """
        self.option()
        if (self.dataset_name is None) == (not self.files):
            problem = "exclude each other" if self.files else "are both unset"
            raise ValueError(f"`dataset_name` and files (`train_file`, ...) {problem}: set one of them")
        if self.dataset_name is not None and not self.format.is_on_hub:
            raise ValueError(f"`data_format` is '{self.data_format}', which is for files, not for {self.dataset_name}")
        for split in self.files:
            self.paths(split)


def file_flag(split: str) -> str:
    """The field of `Corpus` that names a split's file."""
    return f"{split}_file"
