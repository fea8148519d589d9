"""The blocks of tables that read no corpora: language models that judge texts, and people's votes on systems."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hf_summ.common.files import bundled_folder
from hf_summ.common.messages import one_line
from hf_summ.evaluation.language_models import compare_language_models, load_language_model
from hf_summ.evaluation.text_files import read_text
from hf_summ.experiments.blocks import block_of_values
from hf_summ.experiments.content import Block
from hf_summ.experiments.scoring import Outcome, why_not_run
from hf_summ.experiments.tables import JUDGEMENTS, Entry, Row, Table


def judge_texts(table: Table, dataset: str, folder: str | None) -> Block:
    """The block of a table of language models; in each row, a model judges a text at a percentile.

    Args:
        table: the table.
        dataset: the table's name of the texts.
        folder: folder with the texts as `<text>.txt`, for each `text` of the rows; the last text has random words. By
            default the table's own folder.
    """
    names = table.texts_to_judge
    if folder is not None:
        data = folder
        path = Path(folder)
    elif table.texts is not None:
        data = table.texts
        path = bundled_folder("configs") / table.texts
    else:
        files = ", ".join(f"{name}.txt" for name in names)
        return _block_without_data(table, dataset, f"no texts: give --data {dataset}=FOLDER with {files}")
    texts = {name: read_text(path / f"{name}.txt") for name in names}
    judged: dict[str, Outcome] = {}
    for language_model in table.language_models:
        rows = []
        for row in table.rows:
            if row.language_model == language_model:
                rows.append(row)
        judged |= _judge(language_model, rows, texts)
    outcomes = []
    for row in table.rows:
        if row.row in judged:
            outcomes.append(judged[row.row])
        else:
            outcomes.append(Outcome(row, why_not_run(row)))
    return block_of_values(table, dataset, data, outcomes)


def _judge(language_model: str, rows: Sequence[Row], texts: Mapping[str, str]) -> dict[str, Outcome]:
    """Name of a row -> its outcome, for all rows of a language model.

    Args:
        language_model: folder or name on the Hub.
        rows: the rows in which it judges a text.
        texts: name -> text; the last text has random words.
    """
    *written_names, random_name = texts
    written_texts = [(name, texts[name]) for name in written_names]
    percentiles: list[float] = []
    for row in rows:
        if row.percentile not in percentiles:
            percentiles.append(row.percentile)
    try:
        loaded_model = load_language_model(language_model)
        compared = compare_language_models([loaded_model], written_texts, percentiles, texts[random_name])
    except (ValueError, OSError) as error:
        return {row.row: Outcome(row, one_line(error)) for row in rows}
    judged_texts = {}
    for judged_text in compared["models"][0]["rows"]:
        judged_texts[judged_text["percentile"], judged_text["text"]] = judged_text
    outcomes = {}
    for row in rows:
        # The comparison has a name of its own for the random words.
        name = "random words" if row.text == random_name else row.text
        judged_text = judged_texts[row.percentile, name]
        figures = {measure: judged_text[measure] for measure in JUDGEMENTS}
        outcomes[row.row] = Outcome(row, figures=figures)
    return outcomes


@dataclass(frozen=True)
class AspectVotes:
    """People's votes between two systems in one aspect, in the unit of the table.

    Args:
        wins, losses, ties: votes for the first system, for the second one, and for neither; None without votes.
        kappa: Fleiss' kappa, or None if it cannot be computed.
    """

    wins: float | None
    losses: float | None
    ties: float | None
    kappa: float | None


@dataclass(frozen=True)
class PairVotes:
    """People's votes between two systems.

    Args:
        first, second: the names of the systems.
        aspects: aspect -> the votes in it.
    """

    first: str
    second: str
    aspects: Mapping[str, AspectVotes]


@dataclass(frozen=True)
class VoteCounts:
    """What a table reads from a report of `hf-summ votes collect`: numbers of documents and voters, and the votes."""

    documents: int
    voters: int
    pairs: Sequence[PairVotes]


def count_votes(table: Table, dataset: str, file: str | None) -> Block:
    """The block of a table of people's votes; each row is an aspect about which they were asked.

    Args:
        table: the table.
        dataset: a data set of the table.
        file: report of `hf-summ votes collect --json`, whose files of predictions have the systems' names.

    Raises:
        ValueError: the file is no such report, or has votes on other systems or aspects.
    """
    if file is None:
        needed = f"no votes: give --data {dataset}=REPORT.json of `hf-summ votes collect`"
        return _block_without_data(table, dataset, needed)
    counts = _read_votes(file, table.unit)
    pair = _pair_of_table(table, counts.pairs, file)
    if not set(table.row_names) <= pair.aspects.keys():
        raise ValueError(
            f"{file} has votes on {one_line(', '.join(pair.aspects))}, but {table.name} on "
            f"{', '.join(table.row_names)}: make the sheets with the paper's `--preset`"
        )
    is_swapped = pair.first.lower() != table.systems[0].lower()
    outcomes = []
    for row in table.rows:
        votes = pair.aspects[row.row]
        wins, losses = votes.wins, votes.losses
        if is_swapped:
            wins, losses = losses, wins
        figures = {"win": wins, "lose": losses, "tie": votes.ties, "kappa": votes.kappa}
        outcomes.append(Outcome(row, figures=figures))
    block = block_of_values(table, dataset, file, outcomes)
    block["documents"] = counts.documents
    block["voters"] = counts.voters
    return block


def _pair_of_table(table: Table, pairs: Sequence[PairVotes], file: str) -> PairVotes:
    """The votes between the two systems of a table, whose order and case may differ in the report.

    Raises:
        ValueError: the report does not have exactly one pair of these systems.
    """
    table_systems = sorted(system.lower() for system in table.systems)
    matching_pairs = []
    for pair in pairs:
        if sorted([pair.first.lower(), pair.second.lower()]) == table_systems:
            matching_pairs.append(pair)
    if len(matching_pairs) == 1:
        return matching_pairs[0]
    compared = one_line(", ".join(f"{pair.first} with {pair.second}" for pair in pairs))
    raise ValueError(
        f"{file} compares {compared}, but {table.name} {' with '.join(table.systems)}: name the files of predictions "
        "like these systems when you make the sheets"
    )


def _read_votes(file: str, unit: str) -> VoteCounts:
    """Read a report of `hf-summ votes collect --json`.

    Args:
        file: the report.
        unit: the unit of the table, "percent" or "documents".

    Raises:
        ValueError: the file is no such report.
    """
    try:
        report = json.loads(Path(file).read_text(encoding="utf-8"))
        documents = report["documents"]
        voters = report["voters"]
        pairs = []
        for pair in report["pairs"]:
            aspects = {}
            for aspect, figures in pair["aspects"].items():
                aspects[aspect] = _aspect_votes(figures, voters, unit)
            pairs.append(PairVotes(_system_name(pair["first"]), _system_name(pair["second"]), aspects))
    except (OSError, AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise ValueError(
            f"{file} is not a report of votes ({one_line(error)}): name one written by `hf-summ votes collect --json`"
        ) from error
    return VoteCounts(documents, voters, pairs)


def _system_name(path: str) -> str:
    """The name of a system, whose file of predictions may be in a folder and have extensions such as .jsonl.gz."""
    return Path(path).name.split(".")[0]


def _aspect_votes(figures: Entry, voters: int, unit: str) -> AspectVotes:
    """The votes in an aspect, in the unit of the table.

    Args:
        figures: `wins`, `losses` and `ties`, which are numbers of votes, and `kappa`.
        voters: the number of people who voted.
        unit: "percent" of the votes, or "documents" per voter.
    """
    numbers = [figures["wins"], figures["losses"], figures["ties"]]
    kappa = figures["kappa"]
    # The number of votes that counts as 1 in the unit.
    divisor = voters
    if unit == "percent":
        divisor = sum(numbers) / 100
    wins = losses = ties = None
    if divisor:
        wins, losses, ties = [count / divisor for count in numbers]
    return AspectVotes(wins, losses, ties, None if kappa is None else float(kappa))


def _block_without_data(table: Table, dataset: str, needed: str) -> Block:
    """The block of a data set that was not given; each row that would be run has the problem `needed`."""
    outcomes = []
    for row in table.rows:
        outcomes.append(Outcome(row, why_not_run(row) or needed))
    return block_of_values(table, dataset, dataset, outcomes)
