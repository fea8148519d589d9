"""The description of a corpus of documents and summaries, on the Hub or in files, and of how to read its rows.

In this file, a format is a form in which the authors of a corpus distribute its files, such as XSum's pages with a list
of splits. `DATA_FORMATS` has all formats by their names.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hf_summ.common.flags import flag, given_settings, names
from hf_summ.data.raw_formats import DATA_FORMATS, DataFormat, format_of

SPLITS = ("train", "validation", "test")
# Pairs of LCSTS with a lower score are skipped, as in the published test set (Hu et al. 2015).
_MIN_SCORE = 3


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How to read a corpus: its columns, its format, and the rows to use.

    Args:
        text_column, summary_column: the names of the columns of documents and summaries. A value in these columns is a
            text, or a list of texts, which are several documents or several references.
        csv_separator: separator of the fields in CSV files.
        encoding: encoding of text files of rows. The files of all formats but `newsroom` are read in UTF-8.
        data_format: the name of the format in which the data set is distributed; a folder with the splits may then be
            given instead of files. `gigaword`: line-aligned articles and titles. `lcsts`: PART_I.txt to PART_III.txt.
            `multi_news`: X.src and X.tgt, or rows, with documents separated by `|||||` or
            `story_separator_special_tag`; also on the Hub. `duc`: input.txt, task1_ref0.txt and so on. `newsroom`: rows
            with `density_bin`; also on the Hub. `cnn_dm`: folders of .story files and lists of their addresses, or
            Gehrmann et al.'s train.txt.src and train.txt.tgt.tagged. `xsum`: the folder of bbc-summary-data and of the
            list of splits. `wmt16_en_de`, `wmt16_en_ro`: the folder of the unpacked parallel corpora and test sets, in
            any subfolders.
        min_score: for `lcsts`, pairs with a lower score (1 to 5) are skipped; 3 if not given.
        density_bin: for `newsroom`, only `abstractive`, `mixed` or `extractive` rows; all if not given.
    """

    text_column: str | None = flag("data", "Column of the documents", unset="the first usual name, such as document")
    summary_column: str | None = flag("data", "Column of the summaries", unset="the first usual name, such as summary")
    csv_separator: str | None = flag("data", "Separator of the fields in CSV files", unset="a comma; a tab in .tsv")
    encoding: str | None = flag("data", "Encoding of text files", unset="utf-8")
    data_format: str | None = flag(
        "data",
        f"Format in which the data set is distributed: {', '.join(DATA_FORMATS)}; it also reads folders of splits",
        unset="by file extension",
    )
    min_score: int | None = flag("data", "Lowest score of the pairs to use, 1 to 5, for lcsts", unset="3")
    density_bin: Literal["abstractive", "mixed", "extractive"] | None = flag(
        "data", "Rows to use, for newsroom", unset="all"
    )

    @property
    def format(self) -> DataFormat | None:
        """The format in which the data set is distributed, or None if `data_format` is None.

        Raises:
            ValueError: `data_format` is not a name of a format.
        """
        if self.data_format is None:
            return None
        return format_of(self.data_format)

    def option(self) -> int | str | None:
        """The value of the format's option, which selects rows: `min_score` of `lcsts`, `density_bin` of `newsroom`.

        Returns:
            The value, or None to use all rows. For `lcsts`, it is 3 if `min_score` is not given.

        Raises:
            ValueError: an option is given, but the corpus has another format.
        """
        if self.min_score is not None and self.data_format != "lcsts":
            raise ValueError(f"`min_score` is {self.min_score}, which needs `data_format` 'lcsts'")
        if self.density_bin is not None and self.data_format != "newsroom":
            raise ValueError(f"`density_bin` is {self.density_bin}, which needs `data_format` 'newsroom'")
        if self.data_format != "lcsts":
            return self.density_bin
        if self.min_score is None:
            return _MIN_SCORE
        return self.min_score


@dataclass(frozen=True, kw_only=True)
class Corpus(Reading):
    """A corpus on the Hub (`dataset_name`), or in files of rows for each split, and how to read it.

    A file is .jsonl, .json, .csv, .tsv, .parquet or .arrow, also compressed (.gz, .bz2, .xz, .zst); a pattern such as
    `train-*.parquet` or a folder stands for several. The folder of a split that `save_to_disk` of `datasets` wrote is
    also read. The fields of `Reading` are fields of this class too.

    Args:
        dataset_name: the name of a data set on the Hub, or a folder that `datasets` can load; None for files.
        dataset_config_name: the configuration of the data set on the Hub; None if the data set has only one.
        streaming: whether to read the training rows when they are needed, without storing them.
        train_file, validation_file, test_file: the file, folder or pattern of each split; None for a split without
            files.
        prefix_column: the column of the text to put before each document; None for no such column.
    """

    dataset_name: str | None = flag("data", "Data set on the Hub, or a folder that `datasets` can load", unset="files")
    dataset_config_name: str | None = flag("data", "Configuration of that data set", unset="its only one")
    streaming: bool | None = flag(
        "data",
        "Read the training rows as a stream, without storing them; needs max_steps",
        unset="they are downloaded or converted, and stored",
        needs=("max_steps",),
    )
    train_file: str | None = flag(
        "data", "Rows for training: a file, a folder, or a pattern such as 'train-*.jsonl'", unset="none"
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
        """The corpus that the settings of a command describe.

        Args:
            settings: name of a setting -> value. Settings that are not fields of this class are ignored.
        """
        fields = {name: settings[name] for name in names(cls) if name in settings}
        return cls(**fields)

    @property
    def files(self) -> dict[str, str]:
        """Split -> its file, folder or pattern, as the user gives it, for the splits that have one."""
        files = {}
        for split in SPLITS:
            file = getattr(self, file_flag(split))
            if file is not None:
                files[split] = str(file)
        return files

    def given(self) -> dict[str, Any]:
        """Name of a field -> value, for the fields that are not None."""
        return given_settings(dataclasses.asdict(self))

    def only(self, splits: Iterable[str]) -> "Corpus":
        """A copy of this corpus that has the files of some splits only.

        Args:
            splits: names of splits, in a list or the like. A single text must not be given: it would be read as its
                characters, none of which is a split, so that the copy would have no files.
        """
        kept = set(splits)
        unset_files = {}
        for split in SPLITS:
            if split not in kept:
                unset_files[file_flag(split)] = None
        return dataclasses.replace(self, **unset_files)

    def paths(self, split: str) -> list[Path]:
        """The paths of all files that make up a split.

        Args:
            split: train, validation or test.

        Returns:
            The paths in the order in which they are read; none if the split has no files.

        Raises:
            ValueError: a file does not exist.
        """
        # This module is imported here, as the import of `datasets` is slow.
        from hf_summ.data.files import files_of

        if split not in self.files:
            return []
        name = self.files[split]
        if self.format is not None:
            return list(self.format.locate(name, split))
        return [Path(file) for file in files_of(name)]

    def check(self) -> None:
        """Check everything that can be checked without reading rows.

        Raises:
            ValueError: there is no data, or both a data set and files; there is no format of this name, or a data set
                cannot have it; an option belongs to another format; `csv_separator` or `encoding` is given, but there
                are no files of rows; or a file does not exist.
        """
        # An option of another format raises the error.
        self.option()
        has_data_set = self.dataset_name is not None
        has_files = bool(self.files)
        if has_data_set == has_files:
            problem = "exclude each other" if has_files else "are both unset"
            raise ValueError(f"`dataset_name` and files (`train_file`, ...) {problem}: set one of them")
        if has_data_set and self.format is not None and not self.format.is_on_hub:
            raise ValueError(f"`data_format` is '{self.data_format}', which is for files, not for {self.dataset_name}")
        # Files in other formats are read in UTF-8, and data sets are read as their authors configured them.
        has_row_files = has_files and (self.format is None or self.format.read is None)
        for name in ("csv_separator", "encoding"):
            value = getattr(self, name)
            if value is not None and not has_row_files:
                source = self.dataset_name or f"`data_format` '{self.data_format}'"
                raise ValueError(f"`{name}` is '{value}', which is for files of rows, not for {source}")
        for split in self.files:
            # A missing file raises the error.
            self.paths(split)


def file_flag(split: str) -> str:
    """The name of the field of `Corpus` that has the file of a split: train_file for train."""
    return f"{split}_file"
