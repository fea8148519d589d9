"""What is fitted to the training documents before a row is trained: vocabularies, key phrases, document frequencies.

Each is a file or a folder whose name is a hash of what determines it. It is made once for all tables in a folder.
"""

from collections.abc import Iterator
from pathlib import Path

import datasets

from hf_summ.data.columns import source_column
from hf_summ.data.vocabulary import fit_phrases, fit_processor, load_tokenizer
from hf_summ.experiments.settings import data_fingerprint, fingerprint, name_of_processor
from hf_summ.experiments.tables import Flags, Row, Scale
from hf_summ.experiments.workplace import Workplace, make_once, read_corpus
from hf_summ.extractive import DocumentFrequencies

# The settings of a vocabulary to fit. They are in a scale or among the values of the model's configuration.
_VOCABULARY_SETTINGS = ("vocab_size", "lowercase", "units", "digits_as_hash")


def vocabulary_settings(workplace: Workplace, settings: Flags, row: Row, scale: Scale) -> Flags:
    """The settings of the vocabulary to fit for a row.

    Later values override earlier ones: first the configuration's, then the scale's, the row's and the user's.

    Args:
        workplace: the workplace.
        settings: flags of the row's training, whose `config_overrides` are the configuration's.
        row: the row.
        scale: a scale with a vocabulary.
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
    """The folder of a processor with a vocabulary fitted to the training documents; created if it does not exist.

    Args:
        workplace: the workplace.
        settings: flags of the training run.
        vocabulary: the settings of the vocabulary.
        tags: the kind of tags that the processor gives to words, or "none".
    """
    data = data_fingerprint(settings, ("train",))

    def fit(draft: Path) -> None:
        facts = []
        for name, value in vocabulary.items():
            if name != "units":
                facts.append(f"{name} {value}")
        facts.append(f"tags {tags}")
        units = vocabulary.get("units", "subwords")
        workplace.announce(f"fitting {units} to the training documents: {', '.join(facts)}")
        rows = read_corpus(settings, ("train",))["train"]
        fit_processor(_documents_and_summaries(rows), tags=tags, **vocabulary).save_pretrained(draft)

    return make_once(workplace.folder / "processors" / fingerprint(data, vocabulary, tags), fit)


def _documents_and_summaries(rows: datasets.Dataset) -> Iterator[str]:
    """All texts of a corpus, so that only one row is in memory at a time."""
    for row in rows:
        yield row["document"]
        yield row["summary"]


def processor_with_phrases(workplace: Workplace, settings: Flags) -> str:
    """The settings' processor if it can find key phrases, or its copy with frequencies of the training documents."""
    name = str(settings["tokenizer_name"])
    processor = load_tokenizer(name)
    if getattr(processor, "document_frequencies", None) is not None:
        return name
    length = settings["max_source_length"]
    data = data_fingerprint(settings, ("train",))

    def fit(draft: Path) -> None:
        workplace.announce(f"fitting key phrases to the training documents, truncated to {length} tokens")
        rows = read_corpus(settings, ("train",))["train"]
        examples = rows[source_column(rows.column_names)]
        fit_phrases(examples, processor, max_source_length=length).save_pretrained(draft)

    folder = workplace.folder / "processors" / fingerprint(data, name_of_processor(settings), "phrases", length)
    return str(make_once(folder, fit))


def document_frequencies(workplace: Workplace, settings: Flags) -> Path:
    """The file with the training documents' document frequencies; created if it does not exist."""
    language = settings["language"]
    name = fingerprint(data_fingerprint(settings, ("train",)), language)

    def count(draft: Path) -> None:
        workplace.announce("counting the words of the training documents")
        documents = read_corpus(settings, ("train",))["train"]["document"]
        DocumentFrequencies.fit(documents, language).save(draft)

    return make_once(workplace.folder / "frequencies" / f"{name}.json", count).absolute()
