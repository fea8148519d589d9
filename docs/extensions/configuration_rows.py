"""The trained rows of the papers' tables, as shown between the markers of configs/README.md.

`python docs/extensions/configuration_rows.py` regenerates them from configs/tables.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import CONFIG_MAPPING, AutoConfig, AutoModelForSeq2SeqLM, PreTrainedConfig

from hf_summ.checkpoints.overrides import apply_overrides, override_item
from hf_summ.common.files import write_atomically
from hf_summ.common.pages import markdown_table
from hf_summ.experiments.report import number, title_of
from hf_summ.experiments.tables import Row, Table, configs_folder, load_table, table_names
from hf_summ.training.parsing import read_settings

_MARKED = re.compile(r"(<!-- rows of (\w+): .*? -->\n).*?(<!-- end of rows -->)", re.DOTALL)
# values that the processor determines: the Stanford tagger's 45 tags with four subword positions each
_WITH_PROCESSOR = {"gdlf": {"tag_vocab_size": 180}}


def fill(text: str) -> str:
    """The document with the rows between each pair of markers regenerated.

    The markers are `<!-- rows of PREFIX: ... -->` and `<!-- end of rows -->`, with the prefix of the tables' names.
    """
    return _MARKED.sub(lambda match: f"{match[1]}{rows_of(match[2])}\n{match[3]}", text)


def rows_of(prefix: str) -> str:
    """The trained rows of all tables whose names start with the prefix, in Markdown.

    Each row has its settings, the published figures if all tables have one data set and the same measures, and the
    model's number of parameters if the paper gives any.
    """
    tables = [load_table(name) for name in sorted(table_names(), key=_order) if name.split("_")[0] == prefix]
    rows = [(table, row) for table in tables for row in table.rows if table.kind == "scores" and _is_there(table, row)]
    columns = {
        "table": [table.paper.rpartition(", ")[2].removeprefix("Table ") for table, _ in rows],
        "row": [row.row for _, row in rows],
        "files": [
            ", ".join(f"`{config}`" for config in configs) for configs in _names([_configs(*row) for row in rows])
        ],
        "`config_overrides`": [_with_second_run(override_items(row), second_overrides(row)) for _, row in rows],
    }
    flags = [_with_second_run(flag_items(row), second_flags(row)) for _, row in rows]
    if any(flags):
        columns["other flags"] = flags
    if len({table.measures for table, _ in rows}) == 1 and all(len(table.datasets) == 1 for table, _ in rows):
        title = " / ".join(map(title_of, rows[0][0].measures))
        columns[title] = [" / ".join(map(number, *row.published.values())) if row.published else "" for _, row in rows]
    if any(row.parameters is not None for _, row in rows):
        columns["paper"] = ["" if row.parameters is None else f"{row.parameters}M" for _, row in rows]
        columns["ours"] = [f"{millions(model_config(_configs(table, row)[0], row)):.2f}M" for table, row in rows]
    lines = [[cell or "–" for cell in cells] for cells in zip(*columns.values(), strict=True)]
    return markdown_table(list(columns), lines, left=len(columns))


def override_items(row: Row) -> list[str]:
    """A row's values of the model's configuration, in the form of `--config_overrides`."""
    values = {**row.config_overrides, **row.decoding_overrides}
    return [override_item(name, value) for name, value in values.items()]


def second_overrides(row: Row) -> list[str]:
    """The values of the model's configuration in a row's second run, in the form of `--config_overrides`."""
    if row.second_run is None:
        return []
    return [override_item(name, value) for name, value in row.second_run.config_overrides.items()]


def second_flags(row: Row) -> list[str]:
    """The other flags of a row's second run at the scale full, in the form of the command line."""
    if row.second_run is None:
        return []
    return [f"--{name} {value}" for name, value in row.second_run.full.items()]


def flag_items(row: Row) -> list[str]:
    """A row's other flags, in the form of the command line."""
    items = []
    for name, value in {**row.flags, **row.decoding}.items():
        # the row's file names its architecture
        if name != "model_type":
            items.append(f"--{name} {value:g}" if isinstance(value, float) else f"--{name} {value}")
    return items


def model_config(config: str, row: Row) -> PreTrainedConfig:
    """The configuration of a row's model, from a file under `configs/`."""
    settings = read_settings(str(configs_folder() / config))
    model_type = settings["model_type"]
    start = AutoConfig.for_model(model_type, **_WITH_PROCESSOR.get(model_type, {}))
    return apply_overrides(start, {**settings["config_overrides"], **row.config_overrides, **row.decoding_overrides})


def millions(config: PreTrainedConfig) -> float:
    """The number of parameters of a configuration's model, in millions; shared ones are counted once."""
    # this device allocates no memory
    with torch.device("meta"):
        return AutoModelForSeq2SeqLM.from_config(config).num_parameters() / 1e6


def main() -> None:
    """Regenerate the rows in configs/README.md."""
    path = configs_folder() / "README.md"
    write_atomically(path, fill(path.read_text(encoding="utf-8")))


def _is_there(table: Table, row: Row) -> bool:
    """Whether a row is trained, and its architectures exist."""
    return row.is_trained and all(Path(config).parts[0] in CONFIG_MAPPING for config in _configs(table, row))


def _configs(table: Table, row: Row) -> list[str]:
    """The files of a row, for each of its data sets."""
    configs = [table.config_of(row, name) for name in table.datasets if not row.published or name in row.published]
    return [config for config in dict.fromkeys(configs) if config is not None]


def _names(configs: Sequence[Sequence[str]]) -> list[list[str]]:
    """Files without their extension, and without their folder if it is the same for all."""
    is_one = len({Path(config).parent for several in configs for config in several}) == 1
    return [
        [Path(config).stem if is_one else config.removesuffix(".yaml") for config in several] for several in configs
    ]


def _with_second_run(first: Sequence[str], second: Sequence[str]) -> str:
    """The items of a row's training, and behind `then` those of its second run."""
    if not second:
        return _quoted(first)
    return f"{_quoted(first) or '–'}, then {_quoted(second)}"


def _quoted(items: Sequence[str]) -> str:
    return f"`{' '.join(items)}`" if items else ""


def _order(name: str) -> list[tuple[bool, int, str]]:
    """A sort key that orders numbers by value, and before words."""
    return [(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in name.split("_")]


if __name__ == "__main__":
    main()
