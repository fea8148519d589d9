"""Public corpora as their authors distribute them, the published numbers of their rows, and their conversion to files.

A split is train, validation or test. A pair is a row: a document with its summary.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from hf_summ.common.files import moved_into_place
from hf_summ.common.records import to_json
from hf_summ.data.corpora import SPLITS, Corpus, file_flag

if TYPE_CHECKING:
    from datasets import Dataset

# The seed of the random order in which the rows of a corpus without official splits are divided.
_SEED = 0


@dataclass(frozen=True)
class PublicCorpus:
    """A corpus as its authors distribute it.

    Args:
        source: the publication that gives the counts, as the subject of "has 5,000 rows" in messages.
        counts: the published numbers of training, validation and test pairs.
        reading: name of a field of `Reading` -> value. These fields say how to read the files.
        file: the name of the only file, whose rows are divided among the splits at random; None if each split has
            files.
        tolerance: the share of the published number by which the number of rows may differ without a message. It is
            above 0 where published numbers are rounded.
    """

    source: str
    counts: tuple[int, int, int]
    reading: Mapping[str, Any] = field(default_factory=dict)
    file: str | None = None
    tolerance: float = 0.0

    def load(self, folder: Path, cache_dir: str) -> "Mapping[str, Dataset]":
        """Load the corpus.

        Args:
            folder: the folder of the distributed files, unpacked.
            cache_dir: folder in which `datasets` stores converted files.

        Returns:
            Split -> its rows, with the columns that `load` of `hf_summ.data` makes.

        Raises:
            ValueError: as `load` of `hf_summ.data`, if a file is missing or cannot be read.
        """
        # This module is imported here, as it imports the library `datasets`, which is slow.
        from hf_summ.data.loading import load

        if self.file is None:
            files = {file_flag(split): str(folder) for split in SPLITS}
            return load(Corpus.among({**files, **self.reading}), cache_dir)
        rows = load(Corpus(train_file=str(folder / self.file), **self.reading), cache_dir)["train"]
        # The indices of all rows in random order. Each split gets a part of them, in proportion to its published count.
        order = random.Random(_SEED).sample(range(len(rows)), len(rows))
        splits = {}
        start = 0
        # The sum of the published counts of the splits so far.
        cumulative_count = 0
        for split, count in zip(SPLITS, self.counts, strict=True):
            cumulative_count += count
            end = round(len(rows) * cumulative_count / sum(self.counts))
            splits[split] = rows.select(sorted(order[start:end]))
            start = end
        return splits


# The publications that give the numbers of rows.
_KWON = "Kwon et al. 2021, Table 1,"
_AKSENOV = "Aksenov 2020, section 5.2,"
_TRANSLATION = "Kwon et al. 2021, section 6.5,"
# Name of a corpus -> the corpus.
PUBLIC_CORPORA = {
    "xsum": PublicCorpus(_KWON, (204_045, 11_332, 11_334), {"data_format": "xsum"}),
    "cnn_dailymail": PublicCorpus(_KWON, (287_113, 13_368, 11_490), {"data_format": "cnn_dm"}),
    "newsroom_abs": PublicCorpus(
        _KWON, (333_349, 36_480, 36_595), {"data_format": "newsroom", "density_bin": "abstractive"}
    ),
    "gigaword": PublicCorpus("Rush et al.'s release", (3_803_957, 189_651, 1_951), {"data_format": "gigaword"}),
    "multi_news": PublicCorpus("Fabbri et al. 2019", (44_972, 5_622, 5_622), {"data_format": "multi_news"}),
    # Of the validation pairs (PART_II) and test pairs (PART_III), only pairs with a score of at least 3 are counted.
    "lcsts": PublicCorpus("Hu et al. 2015, Table 1,", (2_400_591, 8_685, 725), {"data_format": "lcsts"}),
    "wmt16_en_de": PublicCorpus(
        _TRANSLATION, (4_500_000, 3_000, 3_000), {"data_format": "wmt16_en_de"}, tolerance=0.02
    ),
    "wmt16_en_ro": PublicCorpus(_TRANSLATION, (612_000, 2_000, 2_000), {"data_format": "wmt16_en_ro"}, tolerance=0.02),
    "swisstext": PublicCorpus(_AKSENOV, (90_000, 5_000, 5_000), file="data_train.csv"),
}


def prepare(name: str, folder: Path, output: Path) -> Iterator[str]:
    """Write a corpus as `train.jsonl`, `validation.jsonl` and `test.jsonl`.

    Rows have the columns of the corpus, among them `summary` and either `document` or, if an example has several
    documents, the list `documents`.

    Args:
        name: a key of `PUBLIC_CORPORA`.
        folder: the folder of the distributed files, unpacked.
        output: the folder for the new files, which is made if it does not exist.

    Yields:
        After each file, a message with the number of its rows. The message also has the published number, if the number
        of rows differs from it by more than the tolerance.

    Raises:
        KeyError: there is no corpus of this name.
        ValueError: a distributed file is missing or cannot be read.
    """
    corpus = PUBLIC_CORPORA[name]
    output.mkdir(parents=True, exist_ok=True)
    # The converted data set is as large as the rows, and is used only here.
    with TemporaryDirectory(dir=output, prefix=".") as cache_dir:
        loaded = corpus.load(folder, cache_dir)
        for split, expected in zip(SPLITS, corpus.counts, strict=True):
            path = output / f"{split}.jsonl"
            rows = loaded[split]
            with moved_into_place(path) as temporary, temporary.open("w", encoding="utf-8") as file:
                for row in rows:
                    if "documents" in row:
                        # `document` has all documents of the example, joined. If the file had it, `load` would choose
                        # it as the column of documents, instead of `documents`.
                        del row["document"]
                    file.write(to_json(row) + "\n")
            line = f"{path}: {len(rows):,} rows"
            if abs(len(rows) - expected) > corpus.tolerance * expected:
                line += f", but {corpus.source} has {expected:,}: is a file truncated, or of another version?"
            yield line
