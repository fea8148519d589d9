"""The content of a paper's table: its rows with their settings and published figures, and the scales of a run."""

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

# measures of a row, named as in `hf_summ.evaluation`
ROUGE_MEASURES = ROUGE155_TYPES
# measures of a corpus: the sizes of its splits, and `corpus_statistics` over all splits
STATISTICS = tuple(
    "train_pairs validation_pairs test_pairs pairs document_words document_sentences summary_words summary_sentences "
    "document_vocabulary summary_vocabulary vocabulary source_target_ratio".split()
)
JUDGEMENTS = ("recall", "detection", "accuracy")
VOTES = ("win", "lose", "tie", "kappa")
_KINDS = {"statistics": STATISTICS, "language_models": JUDGEMENTS, "votes": VOTES}
_UNITS = ("words", "characters", "wordpieces")
_UNITS_OF = {"votes": ("documents", "percent"), "statistics": ("words", "spaced")}
# values of each summary in predictions.jsonl
SUMMARY_VALUES = ("divergence",)
_ROUGE_OPTIONS = ("score", "byte_limit", "word_limit", "language", "units")
_ROUGE_SCORES = ("fmeasure", "precision", "recall")
# fields of rows that are not trained; each excludes the others
_UNTRAINED = ("extractive", "gold", "literature", "language_model", "unavailable")
SCALES = ("tiny", "small", "full")


def scores_of_systems() -> tuple[str, ...]:
    """The measures of a system's row: those of `hf_summ.evaluation` that need no model, and perplexity."""
    scores = []
    for measure in measures.MEASURES.values():
        if not measure.needs:
            scores.extend(measure.scores("rouge155"))
    return (*scores, "perplexity")


@dataclass(frozen=True)
class SecondRun:
    """A training run that starts from the weights of a row's first run.

    Args:
        config_overrides: values of the model's configuration in addition to those of the first run.
        tiny, small, full: flags for one scale in addition to those of the first run.
    """

    config_overrides: Mapping[str, Any] = field(default_factory=dict)
    tiny: Mapping[str, Any] = field(default_factory=dict)
    small: Mapping[str, Any] = field(default_factory=dict)
    full: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """A row of a table.

    Args:
        row: its name in the paper.
        config: file under `configs/` for its training, for all data sets or for each; by default its data set's.
        config_overrides, flags: settings of its training in addition to that file; with another `model_type`, the
            file's `config_overrides` are dropped.
        tiny, small, full: further settings for one scale, including `config_overrides`: sizes, rate, number of updates.
        second_run: a second training run, which gives the row's model.
        decoding, decoding_overrides: generation flags and config values of its decoding only; rows that differ only in
            these share one training run.
        extractive: a method of `hf_summ.extractive` instead of training, with its number of `sentences`, for all data
            sets or for each; "reference" takes as many as each reference has.
        gold: whether the row scores the references.
        literature: the paper with its figures; the row is not run.
        unavailable: why it cannot be run.
        language_model: checkpoint that judges the text `text` of the data at `percentile`.
        published: data set -> figures in the order of the table's measures, None where the paper has none.
        parameters: number of its model's parameters, in millions, if the paper gives it.
        above: rows that it exceeds according to its paper, for tables without published figures.
    """

    row: str
    config: str | Mapping[str, str] | None = None
    config_overrides: Mapping[str, Any] = field(default_factory=dict)
    flags: Mapping[str, Any] = field(default_factory=dict)
    tiny: Mapping[str, Any] = field(default_factory=dict)
    small: Mapping[str, Any] = field(default_factory=dict)
    full: Mapping[str, Any] = field(default_factory=dict)
    second_run: SecondRun | None = None
    decoding: Mapping[str, Any] = field(default_factory=dict)
    decoding_overrides: Mapping[str, Any] = field(default_factory=dict)
    extractive: str | None = None
    sentences: int | Literal["reference"] | Mapping[str, int | Literal["reference"]] = 3
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
        return not any(getattr(self, name) for name in _UNTRAINED)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of its training, besides its file's."""
        return {**self.flags, "config_overrides": self.config_overrides}

    def sentences_of(self, dataset: str) -> int | Literal["reference"]:
        """The number of sentences of an extract for a data set, or "reference"."""
        return self.sentences[dataset] if isinstance(self.sentences, Mapping) else self.sentences


@dataclass(frozen=True)
class Table:
    """A table of a paper.

    Args:
        name: the file's name.
        paper: authors, year and number of the table.
        kind: "scores" of systems, "statistics" of corpora, "language_models" as judges of text, or people's "votes",
            with an aspect in each row.
        unit: the unit of the published and our scores: "words", "characters" or "wordpieces"; of statistics,
            "words" or "spaced", those between white space; of votes, "documents" per voter or "percent".
        measures: some of `scores_of_systems()`, `STATISTICS`, `JUDGEMENTS` or `VOTES`, depending on the kind.
        datasets: data set -> file under `configs/` for reading it and training on it; None if nothing is trained.
        baseline: the row with which the others are compared.
        language: language of the texts, for all data sets or for each.
        rouge: options of ROUGE: `score` (fmeasure, recall or precision), `byte_limit`, `word_limit`, `units`, and the
            `language` whose words it compares, if not that of the texts.
        count_punctuation: whether novelty counts punctuation marks as words, as the paper does.
        against: a value that the recipe writes for each summary, against which the measures are plotted.
        notes: notes for readers of the figures.
        systems: the two systems between which people voted; wins and losses are the first one's.
        seeds: seeds of each row's training runs, whose mean and range are reported; by default, a row is trained once.
        texts: folder under `configs/` with the texts of a table of language models, unless `--data` names another.
        train_seconds: CPU seconds of each training run at the scale full, which determine the rows' `max_steps`.
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
    rouge: Mapping[str, Any] = field(default_factory=dict)
    count_punctuation: bool = False
    against: str | None = None
    notes: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    texts: str | None = None
    train_seconds: float | None = None

    @property
    def language_models(self) -> tuple[str, ...]:
        """The names of the language models that the rows compare."""
        names = [row.language_model for row in self.rows if row.language_model is not None]
        return tuple(dict.fromkeys(names))

    def language_of(self, dataset: str) -> str:
        """The ISO 639 code of a data set's texts."""
        return self.language if isinstance(self.language, str) else self.language.get(dataset, "en")

    def config_of(self, row: Row, dataset: str) -> str | None:
        """The file under `configs/` for a row's training."""
        config = row.config
        if isinstance(config, Mapping):
            config = config[dataset]
        return config or self.datasets[dataset]


def configs_folder() -> Path:
    """The folder of the configurations."""
    return bundled_folder("configs")


def table_names() -> list[str]:
    """The bundled tables."""
    return sorted(file.stem for file in (configs_folder() / "tables").glob("*.yaml"))


def table_titles() -> dict[str, str]:
    """Bundled table -> its paper and title; rows are not checked."""
    contents = {
        name: parse_yaml((configs_folder() / "tables" / f"{name}.yaml").read_text("utf-8")) for name in table_names()
    }
    return {name: f"{content['paper']}: {content['title']}" for name, content in contents.items()}


def load_table(name: str) -> Table:
    """Load a table by its name, or from a user's .yaml file."""
    path = Path(name) if name.endswith((".yaml", ".yml")) else configs_folder() / "tables" / f"{name}.yaml"
    try:
        return _table(path.stem, parse_yaml(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        hint = nearest(name, table_names())
        raise ValueError(f"unknown table {name}{hint}; the tables are {', '.join(table_names())}") from None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, yaml.YAMLError) as error:
        raise ValueError(f"{path}: {one_line(error)}") from error


def _table(name: str, content: dict[str, Any]) -> Table:
    lists = {key: content[key] for key in ("rows", "measures", "notes", "systems", "seeds") if key in content}
    for key, values in lists.items():
        check_list(key, values)
    rows = tuple(_row(entry, content) for entry in content["rows"])
    fields: dict[str, Any] = {key: tuple(values) for key, values in lists.items()} | {"name": name, "rows": rows}
    table = Table(**content | fields)
    check_choice("`kind`", table.kind, ("scores", *_KINDS))
    measures_of_kind = _KINDS.get(table.kind) or scores_of_systems()
    for measure in table.measures:
        check_choice("measure", measure, measures_of_kind)
    check_choice("`unit`", table.unit, _UNITS_OF.get(table.kind, _UNITS))
    if table.against is not None:
        check_choice("`against`", table.against, SUMMARY_VALUES)
        if not all(measure in ROUGE_MEASURES for measure in table.measures):
            raise ValueError("`against` needs measures of single summaries: only ROUGE")
        if table.seeds:
            raise ValueError("`against` and `seeds` exclude each other: summaries of several runs have several values")
    names = [row.row for row in rows]
    for row in rows:
        if names.count(row.row) > 1:
            raise ValueError(f"row '{row.row}' occurs twice: rows need unique names")
        for other in row.above:
            check_choice(f"row '{row.row}': `above`", other, [name for name in names if name != row.row])
    check_choice("`baseline`", table.baseline, [*names, None])
    for option in table.rouge:
        check_choice("rouge: option", option, _ROUGE_OPTIONS)
    check_choice("rouge: score", table.rouge.get("score", "fmeasure"), _ROUGE_SCORES)
    if "units" in table.rouge:
        for dataset in table.datasets:
            check_units(table.rouge["units"], table.rouge.get("language", table.language_of(dataset)))
    return table


def _row(entry: dict[str, Any], table: dict[str, Any]) -> Row:
    # imported here: the recipe's flags take seconds to import
    from hf_summ.training.parsing import settings_of

    datasets, published = table["datasets"], entry.get("published", {})
    try:
        if isinstance(published, list):
            if len(datasets) != 1:
                raise ValueError(f"published: name the data set, which is one of {', '.join(datasets)}")
            published = dict.fromkeys(datasets, published)
        for dataset, figures in published.items():
            check_choice("published: data set", dataset, datasets)
            are_numbers = all(isinstance(figure, int | float | None) for figure in figures)
            if len(figures) != len(table["measures"]) or not are_numbers:
                raise ValueError(f"published: {dataset} needs a number or null for each measure, but has {figures}")
        values: dict[str, Any] = {
            **entry,
            **{group: settings_of(entry.get(group, {})) for group in ("flags", *SCALES, "decoding")},
            "published": {dataset: tuple(figures) for dataset, figures in published.items()},
        }
        if "second_run" in entry:
            values["second_run"] = _second_run(entry["second_run"])
        row = Row(**values)
        for name, value in (("sentences", row.sentences), ("config", row.config)):
            if isinstance(value, dict) and value.keys() != datasets.keys():
                raise ValueError(f"{name}: give one value, or one for each of {', '.join(datasets)}")
        _check_row(row)
    except (ValueError, TypeError) as error:
        raise ValueError(f"row '{entry.get('row')}': {error}") from error
    return row


def _second_run(entry: dict[str, Any]) -> SecondRun:
    from hf_summ.training.parsing import settings_of

    groups = {group: settings_of(entry.get(group, {})) for group in SCALES}
    return SecondRun(**{**entry, **groups})


def _check_row(row: Row) -> None:
    from hf_summ.training.arguments import flags_of

    untrained = [name for name in _UNTRAINED if getattr(row, name)]
    if len(untrained) > 1:
        raise ValueError(f"`{'` and `'.join(untrained)}` exclude each other: set only one")
    of_training = ("config_overrides", "flags", *SCALES, "second_run", "decoding", "decoding_overrides")
    trained = [name for name in of_training if getattr(row, name)]
    if untrained and untrained[0] != "unavailable" and trained:
        raise ValueError(f"`{trained[0]}` needs training, but a row with `{untrained[0]}` has none")
    check_choice("`extractive`", row.extractive, [*METHODS, None])
    if row.language_model is not None and not (row.text and row.percentile):
        raise ValueError("`language_model` needs `text` and `percentile`")
    for name in row.decoding:
        if name not in flags_of("decoding"):
            raise ValueError(f"decoding: {name} is not a decoding flag{nearest(name, flags_of('decoding'))}")


@dataclass(frozen=True)
class Scale:
    """Values that override a configuration's, and that a row's values override.

    Args:
        config_overrides, flags: as in a configuration.
        vocabulary: `vocab_size`, `lowercase`, `units` and `digits_as_hash` of the vocabulary to fit to the training
            documents; None uses the configuration's `tokenizer_name`.
        toy_news: number of rows in each split of the made-up corpus, which is used if no data are given; None uses the
            paper's data.
    """

    name: str
    config_overrides: Mapping[str, Any] = field(default_factory=dict)
    flags: Mapping[str, Any] = field(default_factory=dict)
    vocabulary: Mapping[str, Any] | None = None
    toy_news: Mapping[str, int] | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that override a configuration's."""
        return {**self.flags, "config_overrides": self.config_overrides}


def load_scale(architecture: str, name: str) -> Scale:
    """Load the scale of that name, one of `SCALES`, for an architecture, named by its `model_type`."""
    from hf_summ.training.parsing import settings_of

    path = configs_folder() / "scales" / f"{architecture}.yaml"
    if not path.exists():
        raise ValueError(f"{path} does not exist: {architecture} has no scales, so its rows cannot be run")
    entry = parse_yaml(path.read_text(encoding="utf-8"))[name]
    return Scale(name, **{**entry, "flags": settings_of(entry.get("flags", {}))})
