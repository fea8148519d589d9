"""The description of a corpus of documents and summaries, on the Hub or in files, and of how to read its rows."""

import dataclasses
import json
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from hf_summ.common.files import moved_into_place
from hf_summ.common.flags import flag, names
from hf_summ.data.columns import MEANINGS
from hf_summ.data.raw_formats import DATA_FORMATS, DataFormat, format_of

if TYPE_CHECKING:
    from datasets import Dataset

SPLITS = ("train", "validation", "test")
# the lowest score of LCSTS to use, as in the published test set (Hu et al. 2015)
_MIN_SCORE = 3
# seed of the shuffle that splits a corpus without official splits
_SEED = 0


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How to read a corpus: its columns, its format, and the rows to use.

    Args:
        text_column, summary_column: columns of documents and summaries; guessed if not given (document/summary,
            article/highlights, text/summary, source/target, ...). Names of several columns, separated by commas, are
            read as a list; `article.document` is a text within an object.
        lists: what lists of texts in these columns are: `sentences` of one text, `documents`, `references`. `documents`
            decides for the column of documents, `references` for that of summaries, and `sentences` for the others;
            guessed where not given.
        lines: what line ends within documents and summaries are, see `hf_summ.data.lines.joined_lines`; texts
            are left as they are if not given, and split into sentences as with `auto`.
        data_format: the format in which the data set is distributed; a folder with the splits may then be given instead
            of files. `gigaword`: line-aligned articles and titles. `lcsts`: PART_I.txt to PART_III.txt.
            `multi_news`: X.src and X.tgt, or rows, with documents separated by `|||||` or
            `story_separator_special_tag`; also on the Hub. `duc`: input.txt, task1_ref0.txt and so on. `newsroom`: rows
            with `density_bin`; also on the Hub. `cnn_dm`: folders of .story files (`cnn/stories,dailymail/stories`), a
            list of such files, or the folder of these folders and of the lists of addresses. `xsum`: the folder of
            bbc-summary-data and of the list of splits. `wmt16_en_de`, `wmt16_en_ro`: the folder of the unpacked
            parallel corpora and test sets, in any subfolders. If not given, the file's extension determines the format.
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
    lines: Literal["auto", "wrapped", "sentences"] | None = flag(
        "data",
        "What line ends within texts are: ends of sentences, spaces (wrapped), or spaces in text that is wrapped at a "
        "width (auto); words that are divided there are joined",
        unset="texts stay as they are",
    )
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
    .bz2, .xz or .zst, .parquet, .arrow, or a folder of a split that `save_to_disk` of `datasets` wrote. A pattern such
    as `train-*.parquet` names several, which are read in the order of their names. A pair is `X.source` beside
    `X.target`, `documents.txt,summaries.txt`, or two folders with a text in each file. Equal corpora are read in the
    same way.
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
        "data",
        "Documents and summaries for training: a file of rows, a pattern such as 'train-*.jsonl', X.source, or "
        "two folders, 'articles,summaries'",
        unset="none",
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


@dataclass(frozen=True)
class PublicCorpus:
    """A corpus as its authors distribute it.

    Args:
        source: the publication that gives the counts.
        counts: numbers of training, validation and test pairs.
        reading: settings of `Reading`.
        file: the only file, which is divided at random; by default the format locates the files of the splits.
        tolerance: the share by which numbers of rows may differ from published ones that are rounded.
    """

    source: str
    counts: tuple[int, int, int]
    reading: Mapping[str, Any] = field(default_factory=dict)
    file: str | None = None
    tolerance: float = 0.0

    def load(self, folder: Path, cache_dir: str) -> "Mapping[str, Dataset]":
        """The splits."""
        # imports the libraries of data sets
        from hf_summ.data.loading import load

        if self.file is None:
            files = dict.fromkeys(map(file_flag, SPLITS), str(folder))
            return load(Corpus.among({**files, **self.reading}), cache_dir)
        rows = load(Corpus(train_file=str(folder / self.file), **self.reading), cache_dir)["train"]
        order = random.Random(_SEED).sample(range(len(rows)), len(rows))
        ends = [round(len(rows) * count / sum(self.counts)) for count in accumulate(self.counts)]
        return {
            split: rows.select(sorted(order[start:end]))
            for split, start, end in zip(SPLITS, [0, *ends], ends, strict=False)
        }


_KWON, _AKSENOV = "Kwon et al. 2021, Table 1,", "Aksenov 2020, section 5.2,"
_TRANSLATION = "Kwon et al. 2021, section 6.5,"
PUBLIC_CORPORA = {
    "xsum": PublicCorpus(_KWON, (204_045, 11_332, 11_334), {"data_format": "xsum"}),
    "cnn_dailymail": PublicCorpus(_KWON, (287_113, 13_368, 11_490), {"data_format": "cnn_dm"}),
    "newsroom_abs": PublicCorpus(
        _KWON, (333_349, 36_480, 36_595), {"data_format": "newsroom", "density_bin": "abstractive"}
    ),
    "gigaword": PublicCorpus("Rush et al.'s release", (3_803_957, 189_651, 1_951), {"data_format": "gigaword"}),
    "multi_news": PublicCorpus("Fabbri et al. 2019", (44_972, 5_622, 5_622), {"data_format": "multi_news"}),
    # the counts of PART_II and PART_III are of pairs with a score of 3 or more
    "lcsts": PublicCorpus("Hu et al. 2015, Table 1,", (2_400_591, 8_685, 725), {"data_format": "lcsts"}),
    "wmt16_en_de": PublicCorpus(
        _TRANSLATION, (4_500_000, 3_000, 3_000), {"data_format": "wmt16_en_de"}, tolerance=0.02
    ),
    "wmt16_en_ro": PublicCorpus(_TRANSLATION, (612_000, 2_000, 2_000), {"data_format": "wmt16_en_ro"}, tolerance=0.02),
    "swisstext": PublicCorpus(_AKSENOV, (90_000, 5_000, 5_000), file="data_train.csv"),
}


def prepare(name: str, folder: Path, output: Path) -> Iterator[str]:
    """Write `train.jsonl`, `validation.jsonl` and `test.jsonl`, rows of `document` (or `documents`) and `summary`.

    Args:
        name: one of `PUBLIC_CORPORA`.
        folder: the distribution's files, unpacked.
        output: folder for the rows.

    Yields:
        For each file, a line with its number of rows, and with the published number if they differ.
    """
    corpus = PUBLIC_CORPORA[name]
    output.mkdir(parents=True, exist_ok=True)
    # the converted data set is as large as the rows and used only here
    with TemporaryDirectory(dir=output, prefix=".") as cache_dir:
        loaded = corpus.load(folder, cache_dir)
        for split, expected in zip(SPLITS, corpus.counts, strict=True):
            path = output / f"{split}.jsonl"
            with moved_into_place(path) as temporary, temporary.open("w", encoding="utf-8") as file:
                for row in loaded[split]:
                    if "documents" in row:
                        # the joined documents are for models that read a single one
                        del row["document"]
                    file.write(json.dumps(row, ensure_ascii=False) + "\n")
            line = f"{path}: {len(loaded[split]):,} rows"
            if abs(len(loaded[split]) - expected) > corpus.tolerance * expected:
                line += f", but {corpus.source} has {expected:,}: is a file truncated, or of another version?"
            yield line
