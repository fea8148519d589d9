"""What is fitted to the training data before a row is trained: vocabularies, key phrases, document frequencies.

Each result is a file or a folder whose name is a hash of all that determines its content. It is made once for all
tables that are run in the same output folder.
"""

from collections.abc import Iterator
from pathlib import Path

from datasets import Dataset

from hf_summ.data.columns import source_column
from hf_summ.data.vocabulary import fit_phrases, fit_processor, load_tokenizer
from hf_summ.experiments.scales import Scale
from hf_summ.experiments.settings import data_fingerprint, fingerprint, name_of_processor
from hf_summ.experiments.tables import Flags, Row
from hf_summ.experiments.workplace import Workplace, make_once, read_corpus
from hf_summ.extractive import DocumentFrequencies

# The settings of a vocabulary to fit. A scale has them in `vocabulary`, other settings in `config_overrides`.
_VOCABULARY_SETTINGS = ("vocab_size", "lowercase", "units", "digits_as_hash")


def vocabulary_settings(workplace: Workplace, settings: Flags, row: Row, scale: Scale) -> Flags:
    """The settings of the vocabulary to fit for a row, as far as they are given.

    Later values override earlier ones, in this order: `config_overrides` of the training, the vocabulary of the scale,
    `config_overrides` of the row, and `config_overrides` of the user.

    Args:
        workplace: the table, and the flags of the user.
        settings: flags of the row's training.
        row: the row.
        scale: a scale with a vocabulary.

    Returns:
        Some or all of `vocab_size`, `lowercase`, `units` and `digits_as_hash`.
    """
    values = dict(settings["config_overrides"])
    values |= scale.vocabulary or {}
    values |= row.config_overrides
    values |= workplace.extra.get("config_overrides", {})
    vocabulary = {}
    for name in _VOCABULARY_SETTINGS:
        if name in values:
            vocabulary[name] = values[name]
    return vocabulary


def fitted_processor(workplace: Workplace, settings: Flags, vocabulary: Flags, tags: str) -> Path:
    """The folder of a processor whose vocabulary is fitted to the training documents and summaries.

    The processor is fitted and saved if the folder does not exist.

    Args:
        workplace: the output folder of the table, and the function that reports progress.
        settings: flags of the training run, which name the training data.
        vocabulary: the settings of the vocabulary, from `vocabulary_settings`.
        tags: the kind of tags that the processor gives to words, or "none".

    Raises:
        ValueError: wrong settings of the vocabulary, or data that cannot be read.
        OSError: the data set cannot be reached.
    """
    data = data_fingerprint(settings, ("train",))

    def fit(draft: Path) -> None:
        """Fit the vocabulary, and write the processor to the folder `draft`."""
        units = vocabulary.get("units", "subwords")
        options = []
        for name, value in vocabulary.items():
            if name != "units":
                options.append(f"{name} {value}")
        options.append(f"tags {tags}")
        workplace.announce(f"fitting {units} to the training documents: {', '.join(options)}")
        rows = read_corpus(settings, ("train",))["train"]
        fit_processor(_documents_and_summaries(rows), tags=tags, **vocabulary).save_pretrained(draft)

    return make_once(workplace.folder / "processors" / fingerprint(data, vocabulary, tags), fit)


def _documents_and_summaries(rows: Dataset) -> Iterator[str]:
    """The document and the summary of each row in turn. Only one row is in memory at a time."""
    for row in rows:
        yield row["document"]
        yield row["summary"]


def processor_with_phrases(workplace: Workplace, settings: Flags) -> str:
    """A processor that can find key phrases: the settings' processor, or a copy that is fitted to training documents.

    A processor needs the document frequencies of words to find key phrases. If the processor of the settings has none,
    this function makes a copy with the frequencies of the training documents.

    Args:
        workplace: the output folder of the table, and the function that reports progress.
        settings: flags of the training run, with `tokenizer_name`.

    Returns:
        The name or the folder of the processor, as a value of `tokenizer_name`.

    Raises:
        ValueError: the data cannot be read.
        OSError: the processor does not exist, or the data set cannot be reached.
    """
    name = str(settings["tokenizer_name"])
    processor = load_tokenizer(name)
    if getattr(processor, "document_frequencies", None) is not None:
        return name
    length = settings["max_source_length"]
    data = data_fingerprint(settings, ("train",))

    def fit(draft: Path) -> None:
        """Count the phrases, and write the copy of the processor to the folder `draft`."""
        workplace.announce(f"fitting key phrases to the training documents, truncated to {length} tokens")
        rows = read_corpus(settings, ("train",))["train"]
        examples = rows[source_column(rows.column_names)]
        fit_phrases(examples, processor, max_source_length=length).save_pretrained(draft)

    folder = workplace.folder / "processors" / fingerprint(data, name_of_processor(settings), "phrases", length)
    return str(make_once(folder, fit))


def document_frequencies(workplace: Workplace, settings: Flags) -> Path:
    """The absolute path of the file with the document frequencies of words in the training documents.

    The words are counted and the file is written if it does not exist.

    Args:
        workplace: the output folder of the table, and the function that reports progress.
        settings: flags of a run, with `language` and the training data.

    Raises:
        ValueError: the data cannot be read.
        OSError: the data set cannot be reached.
    """
    language = settings["language"]
    name = fingerprint(data_fingerprint(settings, ("train",)), language)

    def count(draft: Path) -> None:
        """Count the words, and write their document frequencies to the file `draft`."""
        workplace.announce("counting the words of the training documents")
        documents = read_corpus(settings, ("train",))["train"]["document"]
        DocumentFrequencies.fit(documents, language).save(draft)

    return make_once(workplace.folder / "frequencies" / f"{name}.json", count).absolute()
