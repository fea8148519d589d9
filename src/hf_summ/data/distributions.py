"""Corpora as their authors distribute them, with the published numbers of rows."""

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

# The seed of the shuffle that divides a corpus without official splits.
_SEED = 0


@dataclass(frozen=True)
class PublicCorpus:
    """A corpus as its authors distribute it.

    Args:
        source: the publication that gives the counts.
        counts: published numbers of training, validation and test pairs.
        reading: fields of `Reading`.
        file: the only file, whose rows are divided among the splits at random; by default each split has files.
        tolerance: the share by which the numbers of rows may differ from the published ones, where these are rounded.
    """

    source: str
    counts: tuple[int, int, int]
    reading: Mapping[str, Any] = field(default_factory=dict)
    file: str | None = None
    tolerance: float = 0.0

    def load(self, folder: Path, cache_dir: str) -> "Mapping[str, Dataset]":
        """Split -> its rows.

        Args:
            folder: the distribution's files, unpacked.
            cache_dir: folder in which `datasets` stores converted files.
        """
        # This module is imported here, as it imports the libraries of data sets.
        from hf_summ.data.loading import load

        if self.file is None:
            files = {file_flag(split): str(folder) for split in SPLITS}
            return load(Corpus.among({**files, **self.reading}), cache_dir)
        rows = load(Corpus(train_file=str(folder / self.file), **self.reading), cache_dir)["train"]
        order = random.Random(_SEED).sample(range(len(rows)), len(rows))
        splits = {}
        start = published = 0
        for split, count in zip(SPLITS, self.counts, strict=True):
            # The splits have the published shares of the rows.
            published += count
            end = round(len(rows) * published / sum(self.counts))
            splits[split] = rows.select(sorted(order[start:end]))
            start = end
        return splits


_KWON = "Kwon et al. 2021, Table 1,"
_AKSENOV = "Aksenov 2020, section 5.2,"
_TRANSLATION = "Kwon et al. 2021, section 6.5,"
PUBLIC_CORPORA = {
    "xsum": PublicCorpus(_KWON, (204_045, 11_332, 11_334), {"data_format": "xsum"}),
    "cnn_dailymail": PublicCorpus(_KWON, (287_113, 13_368, 11_490), {"data_format": "cnn_dm"}),
    "newsroom_abs": PublicCorpus(
        _KWON, (333_349, 36_480, 36_595), {"data_format": "newsroom", "density_bin": "abstractive"}
    ),
    "gigaword": PublicCorpus("Rush et al.'s release", (3_803_957, 189_651, 1_951), {"data_format": "gigaword"}),
    "multi_news": PublicCorpus("Fabbri et al. 2019", (44_972, 5_622, 5_622), {"data_format": "multi_news"}),
    # Of the validation and test pairs, PART_II and PART_III, only those with a score of at least 3 are counted.
    "lcsts": PublicCorpus("Hu et al. 2015, Table 1,", (2_400_591, 8_685, 725), {"data_format": "lcsts"}),
    "wmt16_en_de": PublicCorpus(
        _TRANSLATION, (4_500_000, 3_000, 3_000), {"data_format": "wmt16_en_de"}, tolerance=0.02
    ),
    "wmt16_en_ro": PublicCorpus(_TRANSLATION, (612_000, 2_000, 2_000), {"data_format": "wmt16_en_ro"}, tolerance=0.02),
    "swisstext": PublicCorpus(_AKSENOV, (90_000, 5_000, 5_000), file="data_train.csv"),
}


def prepare(name: str, folder: Path, output: Path) -> Iterator[str]:
    """Write a corpus as `train.jsonl`, `validation.jsonl` and `test.jsonl`.

    Their rows have `document`, or `documents` if there are several, and `summary`.

    Args:
        name: one of `PUBLIC_CORPORA`.
        folder: the distribution's files, unpacked.
        output: folder for the rows.

    Yields:
        For each file, a line with its number of rows, and with the published number if they differ.
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
                        # Models that read a single document would read the joined documents, which are left out.
                        del row["document"]
                    file.write(to_json(row) + "\n")
            line = f"{path}: {len(rows):,} rows"
            if abs(len(rows) - expected) > corpus.tolerance * expected:
                line += f", but {corpus.source} has {expected:,}: is a file truncated, or of another version?"
            yield line
