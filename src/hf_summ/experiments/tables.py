"""The content of a paper's table: its rows with their settings and published figures, and the scales of a run."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import yaml

from hf_summ.common.files import bundled_folder
from hf_summ.common.messages import nearest, unknown_choice
from hf_summ.common.records import parse_yaml
from hf_summ.evaluation import measures
from hf_summ.evaluation.rouge import ROUGE155_TYPES
from hf_summ.extractive.extraction import METHODS

# measures of a row, named as in `hf_summ.evaluation`
ROUGE_MEASURES = ROUGE155_TYPES
MEASURES = (
    *(score for measure in measures.MEASURES.values() if not measure.needs for score in measure.scores("rouge155")),
    "perplexity",
)
# measures of a corpus: the sizes of its splits, and `corpus_statistics` over all splits
STATISTICS = (
    "train_pairs",
    "validation_pairs",
    "test_pairs",
    "pairs",
    "document_words",
    "document_sentences",
    "summary_words",
    "summary_sentences",
    "document_vocabulary",
    "summary_vocabulary",
    "vocabulary",
    "source_target_ratio",
)
JUDGEMENTS = ("recall", "detection", "accuracy")
VOTES = ("win", "lose", "tie", "kappa")
_MEASURES_OF = {"scores": MEASURES, "statistics": STATISTICS, "language_models": JUDGEMENTS, "votes": VOTES}
_UNITS = ("words", "wordpieces")
_UNITS_OF_VOTES = ("documents", "percent")
# values of each summary in predictions.jsonl
SUMMARY_VALUES = ("divergence",)
_ROUGE_OPTIONS = ("score", "byte_limit", "word_limit")
_ROUGE_SCORES = ("fmeasure", "precision", "recall")
# fields of rows that are not trained; a row has at most one of them
_UNTRAINED = ("extractive", "gold", "literature", "language_model", "unavailable")
SCALES = ("tiny", "small", "full")


@dataclass(frozen=True)
class Row:
    """A row of a table.

    Args:
        row: its name in the paper.
        config: file under `configs/` for its training; by default its data set's.
        config_overrides, flags: settings of its training in addition to that file; with another `model_type`, the
            file's `config_overrides` are dropped.
        full: further settings for the scale full only, including `config_overrides`: sizes, rate and number of updates.
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
    config: str | None = None
    config_overrides: Mapping[str, Any] = field(default_factory=dict)
    flags: Mapping[str, Any] = field(default_factory=dict)
    full: Mapping[str, Any] = field(default_factory=dict)
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
        unit: the unit of the published and our scores: "words" or "wordpieces"; of votes, "documents" per voter or
            "percent".
        measures: some of `MEASURES`, `STATISTICS`, `JUDGEMENTS` or `VOTES`, depending on the kind.
        datasets: data set -> file under `configs/` for reading it and training on it; None if nothing is trained.
        baseline: the row with which the others are compared.
        language: language of the texts, for all data sets or for each.
        rouge: options of ROUGE: `score` (fmeasure, recall or precision), `byte_limit`, `word_limit`.
        count_punctuation: whether novelty counts punctuation marks as words, as the paper does.
        against: a value that the recipe writes for each summary, against which the measures are plotted.
        notes: notes for readers of the figures.
        systems: the two systems between which people voted; wins and losses are the first one's.
        seeds: seeds of each row's training runs, whose mean and range are reported; by default, a row is trained once.
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
    train_seconds: float | None = None

    def language_of(self, dataset: str) -> str:
        """The ISO 639 code of a data set's texts."""
        return self.language if isinstance(self.language, str) else self.language.get(dataset, "en")

    def config_of(self, row: Row, dataset: str) -> str | None:
        """The file under `configs/` for a row's training."""
        return row.config or self.datasets[dataset]


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
    """Load a table by its name, or from a user's .yaml file.

    Raises:
        ValueError: the table or file does not exist, is not YAML, or has a wrong entry; the message names file and row.
    """
    path = Path(name) if name.endswith((".yaml", ".yml")) else configs_folder() / "tables" / f"{name}.yaml"
    try:
        content = parse_yaml(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        hint = nearest(name, table_names())
        raise ValueError(f"unknown table {name}{hint}; the tables are {', '.join(table_names())}") from None
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ValueError(f"{path} cannot be read as YAML: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path} must contain `key: value` lines")
    try:
        return _table(path.stem, content)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _table(name: str, content: dict[str, Any]) -> Table:
    _check_keys(content, Table, "table", left_out=("name",))
    lists = ("measures", "notes", "systems", "seeds")
    for key, kind in (*((key, list) for key in ("rows", *lists)), ("datasets", dict)):
        if key in content and not isinstance(content[key], kind):
            needed = "a list" if kind is list else "a mapping of data sets"
            raise ValueError(f"`{key}` is {content[key]!r:.80}, but must be {needed}")
    content = content | {key: tuple(content[key]) for key in lists if key in content}
    rows = [_row(entry, content) for entry in content["rows"]]
    values: dict[str, Any] = {**content, "name": name, "rows": tuple(rows)}
    table = Table(**values)
    known = _MEASURES_OF.get(table.kind)
    if known is None:
        raise ValueError(unknown_choice("`kind`", table.kind, _MEASURES_OF))
    for measure in table.measures:
        if measure not in known:
            raise ValueError(unknown_choice("measure", measure, known))
    units = _UNITS_OF_VOTES if table.kind == "votes" else _UNITS
    if table.unit not in units:
        raise ValueError(unknown_choice("`unit`", table.unit, units))
    if len(table.systems) != (2 if table.kind == "votes" else 0):
        raise ValueError(f"`systems` is {list(table.systems)}, but only votes have them, between two")
    if table.against is not None:
        if table.against not in SUMMARY_VALUES:
            raise ValueError(unknown_choice("`against`", table.against, SUMMARY_VALUES))
        if not all(measure in ROUGE_MEASURES for measure in table.measures):
            raise ValueError("`against` needs measures of single summaries: only ROUGE")
        if table.seeds:
            raise ValueError("`against` and `seeds` exclude each other: summaries of several runs have several values")
    names = [row.row for row in rows]
    for row in names:
        if names.count(row) > 1:
            raise ValueError(f"row '{row}' occurs twice: rows need unique names")
    for row in rows:
        for other in row.above:
            if other not in names or other == row.row:
                raise ValueError(f"row '{row.row}': above: '{other}' is not another row{nearest(other, names)}")
    if table.baseline is not None and table.baseline not in names:
        raise ValueError(f"`baseline` is '{table.baseline}', but must be a row{nearest(table.baseline, names)}")
    for option in table.rouge:
        if option not in _ROUGE_OPTIONS:
            raise ValueError(unknown_choice("rouge: option", option, _ROUGE_OPTIONS))
    if table.rouge.get("score", "fmeasure") not in _ROUGE_SCORES:
        raise ValueError(unknown_choice("rouge: score", table.rouge["score"], _ROUGE_SCORES))
    return table


def _row(entry: Any, table: dict[str, Any]) -> Row:
    if not isinstance(entry, dict) or "row" not in entry:
        raise ValueError(f"rows: {entry!r:.80} is not a row: it needs `row` with its name")
    name, datasets = entry["row"], table["datasets"]
    try:
        _check_keys(entry, Row, "row")
        published = entry.get("published", {})
        if isinstance(published, list):
            if len(datasets) != 1:
                raise ValueError(f"published: name the data set, which is one of {', '.join(datasets)}")
            published = {next(iter(datasets)): published}
        if not isinstance(published, dict):
            raise ValueError(f"published: {published!r:.80} must be a list of figures, or one for each data set")
        for dataset, figures in published.items():
            if dataset not in datasets:
                raise ValueError(f"published: {dataset} is not a data set of the table{nearest(dataset, datasets)}")
            wrong = [figure for figure in figures if not isinstance(figure, int | float | None)]
            if wrong:
                raise ValueError(
                    f"published: {dataset} has {wrong[0]!r:.80}, but figures must be numbers, or null for none"
                )
            if len(figures) != len(table["measures"]):
                raise ValueError(
                    f"published: {len(figures)} figures of {dataset} but {len(table['measures'])} measures"
                )
        sentences = entry.get("sentences", 0)
        numbers = sentences if isinstance(sentences, dict) else dict.fromkeys(datasets, sentences)
        if numbers.keys() != datasets.keys() or not all(
            isinstance(number, int) or number == "reference" for number in numbers.values()
        ):
            raise ValueError(f'sentences: give one number or "reference", or one for each of {", ".join(datasets)}')
        settings = {group: _settings(entry, group) for group in ("flags", "full", "decoding")}
        figures_of = {dataset: tuple(figures) for dataset, figures in published.items()}
        row = Row(**entry | settings | {"published": figures_of})
        _check_row(row)
    except ValueError as error:
        raise ValueError(f"row '{name}': {error}") from None
    return row


def _check_row(row: Row) -> None:
    # imported here: the recipe's flags take seconds to import
    from hf_summ.training.arguments import flags_of

    kinds = [name for name in _UNTRAINED if getattr(row, name)]
    if len(kinds) > 1:
        raise ValueError(f"`{'` and `'.join(kinds)}` exclude each other: set only one")
    trained = [
        name for name in ("config_overrides", "flags", "full", "decoding", "decoding_overrides") if getattr(row, name)
    ]
    if kinds and kinds[0] != "unavailable" and trained:
        raise ValueError(f"`{trained[0]}` needs training, but a row with `{kinds[0]}` has none")
    if row.extractive is not None and row.extractive not in METHODS:
        raise ValueError(unknown_choice("`extractive`", row.extractive, METHODS))
    if row.language_model is not None and not (row.text and row.percentile):
        raise ValueError("`language_model` needs `text` and `percentile`")
    for name in row.decoding:
        if name not in flags_of("decoding"):
            raise ValueError(f"decoding: {name} is not a decoding flag{nearest(name, flags_of('decoding'))}")


def _settings(entry: Mapping[str, Any], group: str) -> dict[str, Any]:
    from hf_summ.training.parsing import settings_of

    try:
        return settings_of(entry.get(group, {}))
    except ValueError as error:
        raise ValueError(f"{group}: {error}") from None


def _check_keys(entry: Mapping[str, Any], kind: Any, what: str, left_out: Iterable[str] = ()) -> None:
    fields = {item.name: item for item in dataclasses.fields(kind) if item.name not in left_out}
    for key in entry:
        if key not in fields:
            raise ValueError(f"unknown key {key!r:.80} of a {what}{nearest(str(key), fields)}")
    for name, item in fields.items():
        if item.default is item.default_factory is dataclasses.MISSING and name not in entry:
            raise ValueError(f"a {what} needs `{name}`")


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


def check_scale(name: str) -> None:
    """Check that there is a scale of that name.

    Raises:
        ValueError: there is none.
    """
    if name not in SCALES:
        raise ValueError(unknown_choice("`scale`", name, SCALES))


def load_scale(architecture: str, name: str) -> Scale:
    """Load the scale of that name for an architecture, named by its `model_type`.

    Raises:
        ValueError: an unknown scale, an architecture without scales, or an unknown entry of the scale.
    """
    from hf_summ.training.parsing import settings_of

    check_scale(name)
    path = configs_folder() / "scales" / f"{architecture}.yaml"
    if not path.exists():
        raise ValueError(f"{path} does not exist: {architecture} has no scales, so its rows cannot be run")
    entry = parse_yaml(path.read_text(encoding="utf-8"))[name]
    known = [item.name for item in fields(Scale) if item.name != "name"]
    for key in entry:
        if key not in known:
            raise ValueError(f"{path}: {name}: unknown key {key!r:.80}{nearest(key, known)}")
    try:
        return Scale(name, **{**entry, "flags": settings_of(entry.get("flags", {}))})
    except ValueError as error:
        raise ValueError(f"{path}: {name}: flags: {error}") from None
