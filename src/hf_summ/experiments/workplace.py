"""What all runs of a table share: the output folder, the scale, the user's flags, and the data that runs read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from datasets import Dataset, DatasetDict
from datasets.exceptions import DatasetsError
from filelock import FileLock

from hf_summ.common.files import moved_into_place
from hf_summ.data.columns import DOCUMENTS_COLUMN, PREFIX_COLUMN
from hf_summ.data.corpora import SPLITS, Corpus, file_flag
from hf_summ.data.loading import load
from hf_summ.data.toy_news import make_corpus
from hf_summ.experiments.scales import Scale
from hf_summ.experiments.settings import base_settings, data_fingerprint, fingerprint, with_data
from hf_summ.experiments.tables import Flags, Row, Table
from hf_summ.training.arguments import flags_of


@dataclass(frozen=True)
class Workplace:
    """What all runs of a table share.

    Args:
        table: the table, with only the rows to run.
        scale: one of `SCALES`.
        folder: the output folder, for runs, vocabularies and made-up data. Tables with the same folder share training
            runs.
        data: data set of the table -> the files that the user gave in its place, as the flags `train_file` and so on.
        extra: flags of the user for every training run.
        announce: function that reports progress in a line of text.
        folders: data set of the table -> the folder or file that the user gave in its place.
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

    def language_of(self, dataset: str) -> str:
        """The ISO 639 code of the texts that are read for a data set of the table.

        It is the flag `language` of the user or, without the flag, the language that the table gives the data set.
        """
        return self.extra.get("language") or self.table.language_of(dataset)

    @property
    def changing_flags(self) -> list[str]:
        """The names of the user's flags that change the data, the models, their training or their summaries, sorted.

        The seed is not one of them, as other seeds repeat the same experiment.
        """
        harmless = flags_of("reporting") | {"seed", "trust_remote_code"}
        # `quick` stands for flags of these kinds
        changing = flags_of("data", "model", "updates", "decoding") - harmless | {"quick"}
        return sorted(changing.intersection(self.extra))

    def given_folder(self, dataset: str) -> str | None:
        """The folder or file that the user gave for a data set of the table; None if there is none.

        A folder `xsum` is "./xsum", as reports take the name "xsum" for the data set of the paper.
        """
        folder = self.folders.get(dataset)
        if folder == dataset:
            return f"./{folder}"
        return folder

    def data_name(self, dataset: str) -> str:
        """The name that a report gives to the data that are read for a data set of the table.

        It is the folder that the user gave for the data set, or the file or data set among the user's flags. Without
        such data, it is "made-up news" at the scale tiny, and the name of the data set in the table at other scales.
        """
        folder = self.given_folder(dataset)
        if folder is not None:
            return folder
        corpus = Corpus.among(self.extra)
        for name in (corpus.files.get("test"), corpus.dataset_name, *corpus.files.values()):
            if name is not None:
                return name
        if self.scale == "tiny":
            return "made-up news"
        return dataset


def rows_to_summarize(workplace: Workplace, settings: Flags) -> Dataset:
    """The documents that a run summarizes, with their reference summaries.

    Args:
        workplace: the split to summarize.
        settings: flags that name the data, and may limit the number of documents by `max_predict_samples`.

    Raises:
        ValueError, OSError: as `read_corpus`.
    """
    corpus = read_corpus(settings, (workplace.split,), settings.get("max_predict_samples"))
    return corpus[workplace.split]


def with_split(workplace: Workplace, settings: Flags) -> Flags:
    """The settings changed so that the test split, which runs summarize, is the workplace's split.

    If this is another split than "test", its rows are written to a file once, and the file is the only data of the
    changed settings. A flag alone could not do this, as a data set on the Hub or in the format of its authors cannot
    rename its splits.

    Args:
        workplace: the split to summarize, and the output folder.
        settings: flags of a run, with the data.

    Raises:
        ValueError, OSError: as `read_corpus`.
    """
    if workplace.split == "test":
        return settings

    def write(draft: Path) -> None:
        """Write the rows of the split to the file `draft`."""
        rows = read_corpus(settings, (workplace.split,))[workplace.split]
        if DOCUMENTS_COLUMN in rows.column_names:
            # Rows with a list of documents also have the column `document`, in which the documents are joined into one
            # text. The recipe joins them again when it reads the file.
            rows = rows.remove_columns("document")
        rows.to_json(draft, force_ascii=False)

    name = fingerprint(data_fingerprint(settings, (workplace.split,)))
    file = make_once(workplace.folder / workplace.split / f"{name}.jsonl", write)
    data = {"test_file": str(file.absolute())}
    if settings.get("prefix_column"):
        data["prefix_column"] = PREFIX_COLUMN
    return with_data(settings, data)


def read_corpus(settings: Flags, splits: Sequence[str] = SPLITS, limit: int | None = None) -> DatasetDict:
    """Read the data of a run: split -> its rows, with the columns `document` and `summary`.

    Args:
        settings: flags of the run.
        splits: the splits to read.
        limit: the number of rows to keep of each split, from its beginning; by default all.

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
    except (RuntimeError, DatasetsError) as error:
        # One cause is a data set that is a script, which `datasets` does not run any more.
        raise ValueError(f"{corpus.dataset_name or 'the corpus'} cannot be read: {error}") from error
    rows_of_splits = {}
    for split in splits:
        if split not in loaded:
            raise ValueError(f"the corpus has no {split} split, but only {', '.join(loaded)}")
        rows = loaded[split]
        if limit is not None:
            rows = rows.select(range(min(limit, len(rows))))
        rows_of_splits[split] = rows
    return DatasetDict(rows_of_splits)


def dataset_settings(workplace: Workplace, dataset: str) -> Flags:
    """The flags with which a data set of the table is read for rows that are not trained.

    Raises:
        ValueError: as `base_settings`.
    """
    # The flags of a trained row without settings of its own are the settings of the data set's file.
    row_without_settings = Row(dataset)
    settings, scale = base_settings(workplace.table, row_without_settings, dataset, workplace.scale, workplace.extra)
    return settle_data(workplace, dataset, settings, scale)


def settle_data(workplace: Workplace, dataset: str, settings: Flags, scale: Scale) -> Flags:
    """The settings of a run with the data that it reads.

    They are the first of these that exist: the data that the user gave for the data set, the data among the user's
    flags, made-up news if the scale has them, and the data of the paper's file, which are in the settings already.

    Args:
        workplace: the data and flags of the user, and the output folder, in which made-up news are created.
        dataset: a data set of the table.
        settings: flags of a row's training, from `base_settings`.
        scale: the scale of the row.
    """
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
    """Make a file or a folder that several commands share, unless it exists.

    A lock beside the path makes other commands wait until the file or folder is complete.

    Args:
        path: the path of the file or folder.
        make: function that makes the file or folder at a temporary path, which is its argument.

    Returns:
        `path`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock"):
        if not path.exists():
            with moved_into_place(path) as draft:
                make(draft)
    return path
