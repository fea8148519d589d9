"""What all systems of a table share: its folder and flags, and the data that its runs read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import datasets
from filelock import FileLock

from hf_summ.common.files import moved_into_place
from hf_summ.data.columns import DOCUMENTS_COLUMN, PREFIX_COLUMN
from hf_summ.data.corpora import SPLITS, Corpus, file_flag
from hf_summ.data.loading import load
from hf_summ.data.toy_news import make_corpus
from hf_summ.experiments.settings import base_settings, data_fingerprint, fingerprint, with_data
from hf_summ.experiments.tables import Flags, Row, Scale, Table


@dataclass(frozen=True)
class Workplace:
    """Settings that all systems of a table share.

    Args:
        table: the table, with the rows to run.
        scale: one of `SCALES`.
        folder: folder for runs, vocabularies and made-up data; tables with the same folder share training runs.
        data: data set -> files of its splits, as flags, for data sets that the user replaces.
        extra: flags of the recipe for every training run.
        announce: function that reports progress.
        folders: data set -> folder of those files, as given by the user.
        split: the split whose documents are summarized, "test" or "validation".
    """

    table: Table
    scale: str
    folder: Path
    data: Mapping[str, Mapping[str, str]]
    extra: Flags
    announce: Callable[[str], None]
    folders: Mapping[str, str] = field(default_factory=dict)
    split: str = "test"

    def data_name(self, dataset: str) -> str:
        """The report's name for the data that are read for a data set."""
        if dataset in self.folders:
            return self.folders[dataset]
        corpus = Corpus.among(self.extra)
        for name in (corpus.files.get("test"), corpus.dataset_name, *corpus.files.values()):
            if name is not None:
                return name
        if self.scale == "tiny":
            return "made-up news"
        return dataset


def rows_to_summarize(workplace: Workplace, settings: Flags) -> datasets.Dataset:
    """The documents that are decoded with these settings, with their summaries."""
    corpus = read_corpus(settings, (workplace.split,), settings.get("max_predict_samples"))
    return corpus[workplace.split]


def with_split(workplace: Workplace, settings: Flags) -> Flags:
    """The settings whose test documents are those of the workplace's split.

    The documents of another split are written to a file, as a data set on the Hub or in its authors' format cannot
    rename its splits.
    """
    if workplace.split == "test":
        return settings

    def write(draft: Path) -> None:
        rows = read_corpus(settings, (workplace.split,))[workplace.split]
        if DOCUMENTS_COLUMN in rows.column_names:
            # The joined documents are for models that read a single one.
            rows = rows.remove_columns("document")
        rows.to_json(draft, force_ascii=False)

    name = fingerprint(data_fingerprint(settings, (workplace.split,)))
    file = make_once(workplace.folder / workplace.split / f"{name}.jsonl", write)
    data = {"test_file": str(file.absolute())}
    if settings.get("prefix_column"):
        data["prefix_column"] = PREFIX_COLUMN
    return with_data(settings, data)


def read_corpus(settings: Flags, splits: Sequence[str] = SPLITS, limit: int | None = None) -> datasets.DatasetDict:
    """Read the splits of a run with these settings, and keep the first `limit` rows of each.

    Raises:
        ValueError: the corpus cannot be read, or has no such split.
        OSError: the data set cannot be reached.
    """
    corpus = Corpus.among(settings).only(splits)
    try:
        loaded = load(
            corpus,
            cache_dir=settings.get("cache_dir"),
            token=settings.get("token"),
            trust_remote_code=settings.get("trust_remote_code", False),
        )
    except (RuntimeError, datasets.exceptions.DatasetsError) as error:
        # This happens, for example, if the data set is a script.
        raise ValueError(f"{corpus.dataset_name or 'the corpus'} cannot be read: {error}") from error
    rows_of_splits = {}
    for split in splits:
        if split not in loaded:
            raise ValueError(f"the corpus has no {split} split, but only {', '.join(loaded)}")
        rows = loaded[split]
        if limit is not None:
            rows = rows.select(range(min(limit, len(rows))))
        rows_of_splits[split] = rows
    return datasets.DatasetDict(rows_of_splits)


def dataset_settings(workplace: Workplace, dataset: str) -> Flags:
    """The flags with which a data set is read for rows that are not trained."""
    row_without_settings = Row(dataset)
    settings, scale = base_settings(workplace.table, row_without_settings, dataset, workplace.scale, workplace.extra)
    return settle_data(workplace, dataset, settings, scale)


def settle_data(workplace: Workplace, dataset: str, settings: Flags, scale: Scale) -> Flags:
    """The settings with the data to read: the user's, made-up data, or the configuration's."""
    corpus = Corpus.among(workplace.extra)
    if dataset in workplace.data:
        return with_data(settings, {**corpus.given(), **workplace.data[dataset]})
    if corpus.dataset_name is not None or corpus.files:
        return with_data(settings, corpus.given())
    if scale.toy_news is None:
        return settings
    sizes = scale.toy_news
    folder = workplace.folder / "toy_news" / "-".join(str(sizes[split]) for split in SPLITS)

    def make(draft: Path) -> None:
        make_corpus(draft, **sizes)

    make_once(folder, make)
    files = {}
    for split in SPLITS:
        files[file_flag(split)] = str(folder / f"{split}.jsonl")
    return with_data(settings, files)


def make_once(path: Path, make: Callable[[Path], None]) -> Path:
    """Make a file or a folder that commands share, unless one of them has made it.

    Args:
        path: the file or folder.
        make: makes it at the path that it is given.

    Returns:
        The path.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock"):
        if not path.exists():
            with moved_into_place(path) as draft:
                make(draft)
    return path
