"""Corpora as their authors distribute them, with the published numbers of rows."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from hf_summ.common.files import moved_into_place
from hf_summ.common.records import to_json
from hf_summ.data.corpora import SPLITS, Corpus, file_flag

if TYPE_CHECKING:
    from datasets import Dataset

# seed of the shuffle that splits a corpus without official splits
_SEED = 0


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
                    file.write(to_json(row) + "\n")
            line = f"{path}: {len(loaded[split]):,} rows"
            if abs(len(loaded[split]) - expected) > corpus.tolerance * expected:
                line += f", but {corpus.source} has {expected:,}: is a file truncated, or of another version?"
            yield line
