"""The content of a paper's table: its rows, with their settings and published figures.

A table is a YAML file under `configs/tables/`. A published figure is a number that the paper prints. A table is run
at a scale, "tiny", "small" or "full", which sets the sizes of models and runs, see `scales.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from hf_summ.common.files import bundled_folder
from hf_summ.common.messages import check_choice, nearest, one_line
from hf_summ.common.records import parse_yaml
from hf_summ.evaluation import measures
from hf_summ.evaluation.rouge import ROUGE155_TYPES
from hf_summ.evaluation.words import check_units
from hf_summ.extractive.settings import METHODS
from hf_summ.models.checks import check_list

# Flags of the training recipe and their values. The flag `config_overrides` has values of the model's configuration.
Flags = dict[str, Any]
# The keys of a YAML or JSON object, such as a row of a table, and their values.
Entry = dict[str, Any]
# The number of sentences of an extract. "reference" means the number of sentences of the document's reference summary.
SentenceNumber = int | Literal["reference"]

# The measures that are types of ROUGE, such as "rouge1", named as in `hf_summ.evaluation`.
ROUGE_MEASURES = ROUGE155_TYPES
# Measures of a corpus: the number of rows of each split, and `corpus_statistics` of all splits together.
STATISTICS = tuple(
    "train_pairs validation_pairs test_pairs pairs document_words document_sentences summary_words summary_sentences "
    "document_vocabulary summary_vocabulary vocabulary source_target_ratio".split()
)
# Measures of a language model that judges a text.
JUDGEMENTS = ("recall", "detection", "accuracy")
# Measures of people's votes between two systems.
VOTES = ("win", "lose", "tie", "kappa")
# Kind of a table that does not score systems -> the measures of such tables.
_MEASURES_OF_KIND = {"statistics": STATISTICS, "language_models": JUDGEMENTS, "votes": VOTES}
# The units of tables; and kind of a table -> the units of such tables, if they are others.
_UNITS = ("words", "characters", "wordpieces")
_UNITS_OF_KIND = {"votes": ("documents", "percent"), "statistics": ("words", "spaced")}
# Values that the recipe may write for each summary to the file predictions.jsonl.
SUMMARY_VALUES = ("divergence",)
# The keys of a table's `rouge`, and the values of the key `score`.
_ROUGE_OPTIONS = ("score", "byte_limit", "word_limit", "language", "units")
_ROUGE_SCORES = ("fmeasure", "precision", "recall")
# The names of the scales.
SCALES = ("tiny", "small", "full")
# Keys of a table's file whose values are lists.
_LISTS = ("rows", "measures", "notes", "systems", "seeds")
# Fields of a row that is not trained. A row has at most one of them.
_UNTRAINED = ("extractive", "gold", "literature", "language_model", "unavailable")
# Fields of a row that are read only if the row is trained.
_TRAINING = ("config_overrides", "flags", "tiny", "small", "full", "second_run", "decoding", "decoding_overrides")


def scores_of_systems() -> tuple[str, ...]:
    """The measures of tables that score systems: scores of `hf_summ.evaluation` that need no model, and perplexity."""
    scores = []
    for measure in measures.MEASURES.values():
        if not measure.needs:
            scores.extend(measure.scores("rouge155"))
    # Perplexity is not in the table of measures, as it is computed from losses instead of texts.
    scores.append("perplexity")
    return tuple(scores)


@dataclass(frozen=True)
class SecondRun:
    """A training run that trains the model of a row's first training run further.

    Args:
        config_overrides: values of the model's configuration that differ from the first run.
        tiny, small, full: flags at the scale of this name that differ from the first run.
    """

    config_overrides: Flags = field(default_factory=dict)
    tiny: Flags = field(default_factory=dict)
    small: Flags = field(default_factory=dict)
    full: Flags = field(default_factory=dict)

    def settings_of_scale(self, scale_name: str) -> Flags:
        """The flags at a scale, one of `SCALES`, that differ from the first run."""
        return getattr(self, scale_name)


@dataclass(frozen=True)
class Row:
    """A row of a table: a system, a corpus, a judgment of a language model, or an aspect on which people voted.

    The file of a row is the file under `configs/` with the paper's settings for the row's training.

    Args:
        row: the row's name in the paper.
        config: the file of the row, for all data sets or for each; by default the file of the data set.
        config_overrides, flags: settings of the training that override the file's. If the flag `model_type` is another
            architecture than the file's, the `config_overrides` of the file are dropped.
        tiny, small, full: settings of the training at the scale of this name, which may include `config_overrides`.
        second_run: a second training run, which trains the model further.
        decoding, decoding_overrides: flags and values of the configuration that only the decoding reads. Rows that
            differ only in these share one training run.
        extractive: a method of `hf_summ.extractive`, which selects sentences of the documents without training.
        sentences: the number of sentences that an extractive row selects, for all data sets or for each.
        gold: whether the row scores the reference summaries.
        literature: the paper from which the row's figures are; the row is not run.
        unavailable: why the row cannot be run.
        language_model: name of the language model that judges a text.
        text: name of the judged text, whose file is `<text>.txt`.
        percentile: percentile of the model's probabilities above which the model accepts a token, 0 to 100.
        published: data set -> published figures in the order of the table's measures; None for a missing figure.
        parameters: number of the model's parameters in millions, according to the paper.
        above: names of rows that this row exceeds according to the paper, for tables without published figures.
    """

    row: str
    config: str | Mapping[str, str] | None = None
    config_overrides: Flags = field(default_factory=dict)
    flags: Flags = field(default_factory=dict)
    tiny: Flags = field(default_factory=dict)
    small: Flags = field(default_factory=dict)
    full: Flags = field(default_factory=dict)
    second_run: SecondRun | None = None
    decoding: Flags = field(default_factory=dict)
    decoding_overrides: Flags = field(default_factory=dict)
    extractive: str | None = None
    sentences: SentenceNumber | Mapping[str, SentenceNumber] = 3
    gold: bool = False
    literature: str | None = None
    unavailable: str | None = None
    language_model: str | None = None
    text: str = ""
    percentile: float = 0.0
    published: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)
    parameters: float | None = None
    above: Sequence[str] = ()

    @property
    def is_trained(self) -> bool:
        """Whether the row needs a trained model of this package."""
        return not self.untrained_fields

    @property
    def untrained_fields(self) -> list[str]:
        """The fields that say why the row is not trained, such as `gold`; empty for a trained row."""
        return [name for name in _UNTRAINED if getattr(self, name)]

    @property
    def settings(self) -> Flags:
        """The settings of the training that override the file's at every scale."""
        return {**self.flags, "config_overrides": self.config_overrides}

    def settings_of_scale(self, scale_name: str) -> Flags:
        """The settings of the training at a scale, one of `SCALES`. The property `settings` overrides them."""
        return getattr(self, scale_name)

    def sentences_of(self, dataset: str) -> SentenceNumber:
        """The number of sentences that an extractive row selects from the documents of a data set."""
        if isinstance(self.sentences, Mapping):
            return self.sentences[dataset]
        return self.sentences


@dataclass(frozen=True)
class Table:
    """A table of a paper.

    Args:
        name: the name of the table's file, without its extension.
        title: the title of the table.
        paper: authors and year of the paper, and number of the table.
        kind: "scores" of systems, "statistics" of corpora, "language_models" as judges of text, or people's "votes".
            Each row of votes is an aspect about which people were asked.
        unit: the unit of our values and the published figures: "words", "characters" or "wordpieces". Statistics count
            "words", or "spaced" words between white space. Votes are "documents" per voter, or "percent" of the votes.
        measures: some of `scores_of_systems()`, `STATISTICS`, `JUDGEMENTS` or `VOTES`, depending on the kind.
        datasets: data set -> file under `configs/` with the paper's settings for reading the data set and training on
            it; None if nothing is read or trained.
        rows: the rows.
        baseline: the row with which all other rows are compared.
        language: language of the texts, for all data sets or for each.
        rouge: options of ROUGE: `score` (fmeasure, recall or precision), `byte_limit`, `word_limit`, `units`, and the
            `language` whose words it compares, if it is not the language of the texts.
        count_punctuation: whether novelty counts punctuation marks as words, as the paper does.
        against: one of `SUMMARY_VALUES`, against which the measures are plotted.
        notes: sentences for readers of the report.
        systems: the two systems between which people voted; wins and losses are those of the first system.
        seeds: seeds with which each row is trained. Means and ranges over them are reported. Without seeds, each row is
            trained once.
        texts: folder under `configs/` with the texts of a table of language models, unless `--data` names another.
        train_seconds: CPU seconds of each training run at the scale full. The rows' `max_steps` are chosen
            so that each run takes about this time.
    """

    name: str
    title: str
    paper: str
    measures: tuple[str, ...]
    datasets: Mapping[str, str | None]
    rows: tuple[Row, ...]
    kind: str = "scores"
    unit: str = "words"
    baseline: str | None = None
    language: str | Mapping[str, str] = "en"
    rouge: Entry = field(default_factory=dict)
    count_punctuation: bool = False
    against: str | None = None
    notes: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    texts: str | None = None
    train_seconds: float | None = None

    @property
    def row_names(self) -> list[str]:
        """The names of the rows, in their order."""
        return [row.row for row in self.rows]

    @property
    def trained_rows(self) -> list[Row]:
        """The rows that need a trained model of this package."""
        return [row for row in self.rows if row.is_trained]

    @property
    def language_models(self) -> tuple[str, ...]:
        """The names of the language models that the rows compare, each once."""
        names: list[str] = []
        for row in self.rows:
            if row.language_model is not None and row.language_model not in names:
                names.append(row.language_model)
        return tuple(names)

    @property
    def texts_to_judge(self) -> tuple[str, ...]:
        """The names of the texts that language models judge, each once, in the order of the rows."""
        names: list[str] = []
        for row in self.rows:
            if row.language_model is not None and row.text not in names:
                names.append(row.text)
        return tuple(names)

    def language_of(self, dataset: str) -> str:
        """The ISO 639 code of a data set's texts."""
        if isinstance(self.language, str):
            return self.language
        return self.language.get(dataset, "en")

    def rows_of(self, dataset: str) -> list[Row]:
        """The rows that are run on a data set: rows with published figures for it, and rows without any figures."""
        rows = []
        for row in self.rows:
            if not row.published or dataset in row.published:
                rows.append(row)
        return rows

    def config_of(self, row: Row, dataset: str) -> str | None:
        """The file under `configs/` for a row's training, such as `gdlf/xsum.yaml`; None if there is no file."""
        config = row.config
        if isinstance(config, Mapping):
            config = config[dataset]
        return config or self.datasets[dataset]


def configs_folder() -> Path:
    """The folder `configs/`, with the settings of the papers, the tables and the scales."""
    return bundled_folder("configs")


def table_names() -> list[str]:
    """The names of the bundled tables, sorted."""
    return sorted(file.stem for file in (configs_folder() / "tables").glob("*.yaml"))


def table_titles() -> dict[str, str]:
    """Name of a bundled table -> paper and title, such as "Kwon et al. 2021, Table 4: Ablation study"."""
    titles = {}
    for name in table_names():
        content = parse_yaml(_bundled_table(name).read_text("utf-8"))
        titles[name] = f"{content['paper']}: {content['title']}"
    return titles


def _bundled_table(name: str) -> Path:
    """The path of a bundled table's file, which may not exist."""
    return configs_folder() / "tables" / f"{name}.yaml"


def load_table(name: str) -> Table:
    """Load a table and check its content.

    Args:
        name: one of `table_names()`, or the path of a .yaml file.

    Raises:
        ValueError: there is no such table, or its file has wrong content.
    """
    path = _bundled_table(name)
    if name.endswith((".yaml", ".yml")):
        path = Path(name)
    try:
        return _table_of(path.stem, parse_yaml(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        hint = nearest(name, table_names())
        raise ValueError(f"unknown table {name}{hint}; the tables are {', '.join(table_names())}") from None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, yaml.YAMLError) as error:
        raise ValueError(f"{path}: {one_line(error)}") from error


def _table_of(name: str, content: Entry) -> Table:
    """Make a table from the content of its file, and check it.

    Args:
        name: the file's name without its extension.
        content: the fields of `Table`, in which rows are mappings, and lists stand for tuples.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: wrong content.
    """
    lists = {}
    for key in _LISTS:
        if key in content:
            check_list(key, content[key])
            lists[key] = tuple(content[key])
    rows = [_row_of(entry, content) for entry in content["rows"]]
    fields: Entry = content | lists | {"name": name, "rows": tuple(rows)}
    table = Table(**fields)
    _check_measures(table)
    _check_rows(table)
    _check_rouge_options(table)
    return table


def _check_measures(table: Table) -> None:
    """Check `kind`, `measures`, `unit` and `against` of a table; raise a ValueError if one is wrong."""
    check_choice("`kind`", table.kind, ["scores", *_MEASURES_OF_KIND])
    measures_of_kind = _MEASURES_OF_KIND.get(table.kind)
    if measures_of_kind is None:
        measures_of_kind = scores_of_systems()
    for measure in table.measures:
        check_choice("measure", measure, measures_of_kind)
    check_choice("`unit`", table.unit, _UNITS_OF_KIND.get(table.kind, _UNITS))
    if table.against is None:
        return
    check_choice("`against`", table.against, SUMMARY_VALUES)
    if not set(table.measures) <= set(ROUGE_MEASURES):
        raise ValueError("`against` needs measures of single summaries: only ROUGE")
    if table.seeds:
        raise ValueError("`against` and `seeds` exclude each other: summaries of several runs have several values")


def _check_rows(table: Table) -> None:
    """Check that rows have unique names, and `above` and `baseline` name rows; raise a ValueError otherwise."""
    names = table.row_names
    for index, row in enumerate(table.rows):
        if names.count(row.row) > 1:
            raise ValueError(f"row '{row.row}' occurs twice: rows need unique names")
        names_of_others = names[:index] + names[index + 1 :]
        for exceeded_row in row.above:
            check_choice(f"row '{row.row}': `above`", exceeded_row, names_of_others)
    check_choice("`baseline`", table.baseline, [*names, None])


def _check_rouge_options(table: Table) -> None:
    """Check `rouge` of a table, its options of ROUGE; raise a ValueError if one is wrong."""
    for option in table.rouge:
        check_choice("rouge: option", option, _ROUGE_OPTIONS)
    check_choice("rouge: score", table.rouge.get("score", "fmeasure"), _ROUGE_SCORES)
    if "units" not in table.rouge:
        return
    for dataset in table.datasets:
        language = table.rouge.get("language", table.language_of(dataset))
        check_units(table.rouge["units"], language)


def _row_of(entry: Entry, table: Entry) -> Row:
    """Make a row from its entry in a table's file, and check it.

    Args:
        entry: the fields of `Row`. A list `published` has the figures of the only data set.
        table: the content of the whole file.

    Raises:
        ValueError: wrong content; the message names the row.
        AttributeError: `published` is neither a list nor a mapping.
    """
    # This import is here because the recipe's flags take seconds to import.
    from hf_summ.training.parsing import settings_of

    datasets = table["datasets"]
    published = entry.get("published", {})
    try:
        if isinstance(published, list):
            if len(datasets) != 1:
                raise ValueError(f"published: name the data set, which is one of {', '.join(datasets)}")
            published = dict.fromkeys(datasets, published)
        values = dict(entry)
        values["published"] = _published_figures(published, table)
        for group in ("flags", *SCALES, "decoding"):
            values[group] = settings_of(entry.get(group, {}))
        if "second_run" in entry:
            values["second_run"] = _second_run_of(entry["second_run"])
        row = Row(**values)
        # The values of these fields may be mappings from data sets.
        for name in ("sentences", "config"):
            value = getattr(row, name)
            if isinstance(value, dict) and value.keys() != datasets.keys():
                raise ValueError(f"{name}: give one value, or one for each of {', '.join(datasets)}")
        _check_row(row)
    except (ValueError, TypeError) as error:
        raise ValueError(f"row '{entry.get('row')}': {error}") from error
    return row


def _published_figures(
    published: Mapping[str, Sequence[float | None]], table: Entry
) -> dict[str, tuple[float | None, ...]]:
    """A row's published figures: data set -> a figure, or None, for each of the table's measures.

    Args:
        published: data set -> list of figures in the file.
        table: the content of the whole file.

    Raises:
        ValueError: an unknown data set, or its figures are not one number or null for each measure.
    """
    figures_of_datasets = {}
    for dataset, figures in published.items():
        check_choice("published: data set", dataset, table["datasets"])
        are_numbers = all(isinstance(figure, int | float | None) for figure in figures)
        if len(figures) != len(table["measures"]) or not are_numbers:
            raise ValueError(f"published: {dataset} needs a number or null for each measure, but has {figures}")
        figures_of_datasets[dataset] = tuple(figures)
    return figures_of_datasets


def _second_run_of(entry: Entry) -> SecondRun:
    """Make a second training run from its entry in a table's file.

    Raises:
        ValueError, TypeError: wrong content.
    """
    # This import is here because the recipe's flags take seconds to import.
    from hf_summ.training.parsing import settings_of

    values = dict(entry)
    for scale_name in SCALES:
        values[scale_name] = settings_of(entry.get(scale_name, {}))
    return SecondRun(**values)


def _check_row(row: Row) -> None:
    """Check that a row's fields fit each other; raise a ValueError if they do not."""
    # This import is here because the recipe's flags take seconds to import.
    from hf_summ.training.arguments import flags_of

    untrained_fields = row.untrained_fields
    if len(untrained_fields) > 1:
        raise ValueError(f"`{'` and `'.join(untrained_fields)}` exclude each other: set only one")
    training_fields = [name for name in _TRAINING if getattr(row, name)]
    # A row that is unavailable may say how the paper trained it.
    if untrained_fields and training_fields and not row.unavailable:
        raise ValueError(f"`{training_fields[0]}` needs training, but a row with `{untrained_fields[0]}` has none")
    check_choice("`extractive`", row.extractive, [*METHODS, None])
    if row.language_model is not None and not (row.text and row.percentile):
        raise ValueError("`language_model` needs `text` and `percentile`")
    decoding_flags = flags_of("decoding")
    for name in row.decoding:
        if name not in decoding_flags:
            raise ValueError(f"decoding: {name} is not a decoding flag{nearest(name, decoding_flags)}")
