"""The reports of tables that read no corpora: of language models that judge texts, and of people's votes on systems.

The part of a report about one data set is called a block. A published figure is a number that a paper prints.
"""

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
    """The block of a table of language models, which are compared as judges of texts.

    Each row names a language model, a text and a percentile, and its values say how well the model judges the text. The
    model accepts a token if the token's probability, given the tokens before it, is above this percentile of the
    probabilities of all tokens in the vocabulary. A row without a language model is not judged. Its problem is the
    reason that `why_not_run` gives, such as that its figures are from other literature.

    Args:
        table: a table of the kind "language_models". The last of `table.texts_to_judge` consists of random words.
        dataset: the name of the texts in the table.
        folder: a folder that has the file `<text>.txt` for each of `table.texts_to_judge`. By default, it is the folder
            under `configs/` that the table names as `texts`. If the table names none, the rows of the block have the
            problem that there are no texts.

    Raises:
        ValueError, OSError: a text cannot be read.
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
    # Name of a row with a language model -> its outcome.
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
    """Let a language model judge texts. If it cannot be loaded, or cannot judge the texts, its rows have a problem.

    Args:
        language_model: folder or name on the Hub.
        rows: the rows in which this language model judges a text.
        texts: name -> text. The last text consists of random words.

    Returns:
        Name of a row -> the outcome, for all of `rows`.
    """
    names = list(texts)
    random_name = names[-1]
    written_texts = [(name, texts[name]) for name in names[:-1]]
    percentiles: list[float] = []
    for row in rows:
        if row.percentile not in percentiles:
            percentiles.append(row.percentile)
    try:
        loaded_model = load_language_model(language_model)
        compared = compare_language_models([loaded_model], written_texts, percentiles, texts[random_name])
    except (ValueError, OSError) as error:
        return {row.row: Outcome(row, one_line(error)) for row in rows}
    # Percentile and name of a text -> how the model judged the text, in measures such as `recall`.
    judged_texts = {}
    for judged_text in compared["models"][0]["rows"]:
        judged_texts[judged_text["percentile"], judged_text["text"]] = judged_text
    outcomes = {}
    for row in rows:
        # `compare_language_models` names the random words itself.
        name = "random words" if row.text == random_name else row.text
        judged_text = judged_texts[row.percentile, name]
        numbers = {measure: judged_text[measure] for measure in JUDGEMENTS}
        outcomes[row.row] = Outcome(row, numbers=numbers)
    return outcomes


@dataclass(frozen=True)
class AspectVotes:
    """People's votes between two systems in one aspect, in the unit of the table: percent, or documents per voter.

    Args:
        wins, losses, ties: votes for the first system, for the second system, and for neither; None if nobody voted.
        kappa: Fleiss' kappa, the agreement of the voters; None if it cannot be computed.
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
        aspects: name of an aspect, such as "fluency" -> the votes in this aspect.
    """

    first: str
    second: str
    aspects: Mapping[str, AspectVotes]


@dataclass(frozen=True)
class VoteCounts:
    """The content of a report of `hf-summ votes collect`, as far as a table needs it.

    Args:
        documents: the number of documents with votes.
        voters: the number of people who voted.
        pairs: the votes between each two systems.
    """

    documents: int
    voters: int
    pairs: Sequence[PairVotes]


def count_votes(table: Table, dataset: str, file: str | None) -> Block:
    """The block of a table of people's votes. Each row is an aspect about which people were asked.

    Args:
        table: a table of the kind "votes".
        dataset: a data set of the table.
        file: a report of `hf-summ votes collect --json`. The files of predictions on which people voted must be named
            like `table.systems`. If None, all rows have the problem that there are no votes.

    Raises:
        ValueError: the file is not such a report, or has votes on other systems or other aspects.
    """
    if file is None:
        needed = f"no votes: give --data {dataset}=REPORT.json of `hf-summ votes collect`"
        return _block_without_data(table, dataset, needed)
    counts = _read_votes(file, table.unit)
    pair = _pair_of_table(table, counts.pairs, file)
    if not set(table.row_names) <= pair.aspects.keys():
        raise ValueError(
            f"{file} has votes on {one_line(', '.join(pair.aspects))}, but {table.name} has rows "
            f"for {', '.join(table.row_names)}: make the sheets with the paper's `--preset`"
        )
    # The report may have the systems in the opposite order, so that its wins are the losses of the table.
    is_swapped = pair.first.lower() != table.systems[0].lower()
    outcomes = []
    for row in table.rows:
        votes = pair.aspects[row.row]
        wins, losses = votes.wins, votes.losses
        if is_swapped:
            wins, losses = losses, wins
        numbers = {"win": wins, "lose": losses, "tie": votes.ties, "kappa": votes.kappa}
        outcomes.append(Outcome(row, numbers=numbers))
    block = block_of_values(table, dataset, file, outcomes)
    block["documents"] = counts.documents
    block["voters"] = counts.voters
    return block


def _pair_of_table(table: Table, pairs: Sequence[PairVotes], file: str) -> PairVotes:
    """Find the votes between the two systems of a table. Upper and lower case and the systems' order do not matter.

    Args:
        table: the table.
        pairs: the votes of the report.
        file: the file of the report, for the message.

    Raises:
        ValueError: the report does not have exactly one entry for these two systems.
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
        f"{file} compares {compared}, but {table.name} compares {' with '.join(table.systems)}: give the files of "
        "predictions the names of these systems before you make the sheets"
    )


def _read_votes(file: str, unit: str) -> VoteCounts:
    """Read a report of `hf-summ votes collect --json`.

    Args:
        file: the report.
        unit: the unit to which votes are converted, "percent" or "documents", see `_aspect_votes`.

    Raises:
        ValueError: the file cannot be read, or is not such a report.
    """
    try:
        report = json.loads(Path(file).read_text(encoding="utf-8"))
        documents = report["documents"]
        voters = report["voters"]
        pairs = []
        for pair in report["pairs"]:
            aspects = {}
            for aspect, counts in pair["aspects"].items():
                aspects[aspect] = _aspect_votes(counts, voters, unit)
            pairs.append(PairVotes(_system_name(pair["first"]), _system_name(pair["second"]), aspects))
    except (OSError, AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise ValueError(
            f"{file} is not a report of votes ({one_line(error)}): name one written by `hf-summ votes collect --json`"
        ) from error
    return VoteCounts(documents, voters, pairs)


def _system_name(path: str) -> str:
    """The name of a system from the path of its predictions: the file's name up to the first dot."""
    return Path(path).name.split(".")[0]


def _aspect_votes(counts: Entry, voters: int, unit: str) -> AspectVotes:
    """Convert the votes in an aspect to a unit. In the unit "documents", these are the documents per voter.

    Args:
        counts: an aspect of the report: the numbers of votes `wins`, `losses` and `ties`, and `kappa`.
        voters: the number of people who voted.
        unit: "percent" of the votes, or "documents" per voter.

    Raises:
        KeyError, TypeError, ValueError: wrong content of the report.
    """
    numbers_of_votes = [counts["wins"], counts["losses"], counts["ties"]]
    kappa = counts["kappa"]
    # The number of votes that is 1 percent, or 1 document per voter.
    votes_per_unit = voters
    if unit == "percent":
        votes_per_unit = sum(numbers_of_votes) / 100
    # Without votes or voters, there is nothing to divide by.
    wins = losses = ties = None
    if votes_per_unit:
        wins, losses, ties = [votes / votes_per_unit for votes in numbers_of_votes]
    return AspectVotes(wins, losses, ties, None if kappa is None else float(kappa))


def _block_without_data(table: Table, dataset: str, needed: str) -> Block:
    """The block of a data set for which the user gave no data.

    Args:
        table: the table.
        dataset: a data set of the table.
        needed: what the user must give, which is the problem of each row that would be run.
    """
    outcomes = []
    for row in table.rows:
        outcomes.append(Outcome(row, why_not_run(row) or needed))
    return block_of_values(table, dataset, dataset, outcomes)
