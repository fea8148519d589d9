"""Which corpus of documents and summaries: on the Hub or in files, and how its rows are read."""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_summ.common.flags import flag, names
from hf_summ.data.raw_formats import DataFormat, check_format, format_of

if TYPE_CHECKING:
    import datasets

SPLITS = ("train", "validation", "test")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How the rows of a corpus are read: by which columns, in which format, and which of them count.

    Args:
        text_column, summary_column: columns that are not named are guessed (document/summary, article/highlights,
            text/summary, source/target, ...).
        data_format: how the files were distributed; they may then be folders, of which the split's part is taken.
            `gigaword`: line-aligned articles and titles. `lcsts`: PART_I.txt to PART_III.txt. `multi_news`: X.src and
            X.tgt, or rows, documents separated by `|||||` or `story_separator_special_tag`; on the Hub too. `duc`:
            input.txt and task1_ref0.txt and on. `newsroom`: rows with `density_bin`; on the Hub too. `cnn_dm`: folders
            of .story files (`cnn/stories,dailymail/stories`), or a list of such files. Without it, the file's ending
            says how to read it.
        min_score: of `lcsts`: pairs that were given a lower score (1 to 5) are left out; 3 unless given.
        density_bin: of `newsroom`: only `abstractive`, `mixed` or `extractive` rows; all unless given.
    """

    text_column: str | None = flag("data", "column of the documents", unset="guessed by its name")
    summary_column: str | None = flag("data", "column of the summaries", unset="guessed by its name")
    data_format: str | None = flag(
        "data",
        "how the data set was distributed: gigaword, lcsts, multi_news, duc, newsroom or cnn_dm; a folder may then "
        "stand for its files",
        unset="by the file's ending",
    )
    min_score: int | None = flag("data", "lcsts: leave out pairs with a lower score, 1 to 5", unset="3")
    density_bin: str | None = flag("data", "newsroom: abstractive, mixed or extractive rows alone", unset="all rows")

    @property
    def format(self) -> DataFormat:
        """The format's own way of finding and reading rows.

        Raises:
            ValueError: there is no such format.
        """
        return format_of(self.data_format)

    def option(self) -> Any:
        """The value of the option that the format has; None where it has none.

        Raises:
            ValueError: there is no such format, the option is another format's, or its value cannot occur.
        """
        return check_format(self.data_format, self.min_score, self.density_bin)


@dataclass(frozen=True, kw_only=True)
class Corpus(Reading):
    """A corpus on the Hub (`dataset_name`), or in files: one a split, or a pair that is aligned line by line.

    A file is .json (a list of rows, or a row a line), .jsonl or .csv, each also as .gz; a pair is `X.source` with
    `X.target` beside it, or `documents.txt,summaries.txt`. Equal corpora are read alike.
    """

    dataset_name: str | None = flag("data", "data set on the Hub, or a folder that `datasets` reads", unset="files")
    dataset_config_name: str | None = flag("data", "configuration of that data set", unset="its only one")
    train_file: str | None = flag(
        "data", "documents and summaries to train on: json, jsonl, csv or X.source, also .gz", unset="none"
    )
    validation_file: str | None = flag("data", "the same, to validate on", unset="none")
    test_file: str | None = flag("data", "the same, to predict", unset="none")

    @classmethod
    def among(cls, settings: Mapping[str, Any]) -> "Corpus":
        """The corpus that settings name, which may hold more than that."""
        return cls(**{name: settings[name] for name in names(cls) if name in settings})

    @property
    def files(self) -> dict[str, str]:
        """Split -> its file, for those that have one."""
        files = {split: getattr(self, file_flag(split)) for split in SPLITS}
        return {split: str(file) for split, file in files.items() if file is not None}

    def given(self) -> dict[str, Any]:
        """The fields that were given."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}

    def only(self, splits: Iterable[str]) -> "Corpus":
        """The corpus without the files of other splits."""
        others = [split for split in SPLITS if split not in set(splits)]
        return dataclasses.replace(self, **{file_flag(split): None for split in others})

    def paths(self, split: str) -> tuple[Path, ...]:
        """All files that make up a split; none where it has none.

        Raises:
            ValueError: a file is not there, empty or of no known kind.
        """
        return self.format.locate(self.files[split], split) if split in self.files else ()

    def check(self) -> None:
        """Refuses what can be refused before a row is read.

        Raises:
            ValueError: no data or two kinds of it are named; a format that does not exist, or an option of another
                one; a file that is not there, empty or of no known kind.
        """
        self.option()
        if self.dataset_name is not None and self.files:
            files = ", ".join(self.files.values())
            raise ValueError(f"both dataset_name ({self.dataset_name}) and files ({files}) are given: leave one out")
        if self.dataset_name is not None and not self.format.is_on_hub:
            raise ValueError(
                f"data_format {self.data_format} reads files as they were distributed, not {self.dataset_name}: leave "
                "it out, or give train_file, validation_file or test_file"
            )
        if self.dataset_name is None and not self.files:
            raise ValueError("no data: give dataset_name, or train_file, validation_file or test_file")
        for split in self.files:
            self.paths(split)

    def load(
        self, cache_dir: str | None = None, token: str | bool | None = None, trust_remote_code: bool = False
    ) -> "datasets.DatasetDict":
        """Its rows, with the columns `document` and `summary`, in its splits train, validation and test.

        Files are checked on every call, and converted once for as long as they do not change.

        Other columns are kept; one called `document` or `summary` that is not the chosen one gives way to it. CSV
        fields stay strings; values that differ in type within a column become strings of JSON. Lone surrogates, which
        no tokenizer can read, become U+FFFD. Rows with a blank document or summary are left out with one warning a
        split.

        A column of documents that holds lists of texts is kept as `documents`, and `document` is these, joined by a
        blank line. One of summaries that holds lists is kept as `references`, and `summary` is the first: models learn
        and are scored on `summary`, `references` is there for scoring with several. Blank members of both lists are
        left out.

        Args:
            cache_dir: where `datasets` keeps what it downloads and converts.
            token: of the Hub, for private data sets.
            trust_remote_code: handed to `datasets`, whose versions from 4 on say that they run no data set's code.

        Raises:
            ValueError: see `check`; a line that is not a row (cut-off JSON, wrong number of CSV fields, not UTF-8);
                missing or unusable columns; paired files of different length; no row that is not blank, or none that
                passes the format's option. Messages name file and line.
            OSError: the data set cannot be reached.
        """
        # the command line asks for the flags alone, and should not wait for `datasets`
        from hf_summ.data.loading import load_files, load_from_hub

        self.check()
        if self.dataset_name is None:
            return load_files(self, cache_dir)
        return load_from_hub(self, cache_dir, token, trust_remote_code)


def file_flag(split: str) -> str:
    """The field of `Corpus` that names a split's file."""
    return f"{split}_file"
