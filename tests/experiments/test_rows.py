"""The papers' rows in configs/README.md."""

import shlex

import pytest

from docs.extensions import configuration_rows as rows
from docs.extensions.configuration_rows import fill, flag_items, model_config, override_items, rows_of
from hf_summ.experiments.tables import Row, configs_folder, load_table
from hf_summ.training.parsing import parse_flags
from tests.experiments.made_up import TRANSFORMER, write_table

README = configs_folder() / "README.md"


def cells(text):
    """The cells of the head and those of the lines of a Markdown table."""
    head, _, *lines = text.splitlines()
    return cells_of(head), [cells_of(line) for line in lines]


def cells_of(line):
    """The cells of a line of a Markdown table."""
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.thorough
def test_readme_has_the_rows_of_the_tables():
    text = README.read_text(encoding="utf-8")
    assert text.count("<!-- rows of ") == text.count("<!-- end of rows -->") == 2
    assert fill(text) == text, "run `python docs/extensions/configuration_rows.py`"


@pytest.mark.thorough
def test_only_what_stands_between_the_markers_is_written():
    before, after = "One.\n\n<!-- rows of gdlf: from tables -->\n", "<!-- end of rows -->\n\nTwo.\n"
    text = fill(f"{before}| old |\n{after}")
    assert text == f"{before}{rows_of('gdlf')}\n{after}"
    assert fill("No markers.\n") == "No markers.\n"


CASES_OF_ROWS = [
    Row("DC", config_overrides={**TRANSFORMER, "encoder_kernel_sizes": [3, 7], "dropout": 0.25, "use_cache": True}),
    Row("DC", flags={"max_steps": 3}, decoding={"num_beams": 2, "length_penalty": 0.9, "early_stopping": False}),
    Row("DC", config_overrides={"gating": "glu"}, decoding_overrides={"tags": "1"}),
]


@pytest.mark.parametrize("row", CASES_OF_ROWS)
def test_items_of_a_row_are_read_back_as_what_they_were(row):
    tokens = [f"--config_overrides={item}" for item in override_items(row)]
    for item in flag_items(row):
        tokens.extend(shlex.split(item))
    expected = {**row.flags, **row.decoding}
    overrides = {**row.config_overrides, **row.decoding_overrides}
    if overrides:
        expected["config_overrides"] = overrides
    assert parse_flags(tokens) == expected


def test_rows_have_figures_where_their_tables_are_alike(tmp_path, monkeypatch):
    """Only trained rows are listed, in the order of the tables' numbers, on the data sets that they have."""
    datasets = {"cnn_dailymail": "gdlf/cnn_dailymail.yaml", "xsum": "gdlf/xsum.yaml"}
    trained = {"row": "DC", "config_overrides": {"gating": "glu"}, "flags": {"max_steps": 3}}
    untrained = [{"row": "LEAD", "extractive": "lead"}, {"row": "new", "config": "nowhere/xsum.yaml"}]
    tables = {
        "made_10": {"rows": [{**trained, "published": [30, 20.5]}], "paper": "Somebody 2020, Figure 10"},
        "made_2": {"rows": [*untrained, {"row": "GDLF"}]},
        "many_1": {"rows": [{**trained, "parameters": 19.2, "published": {"xsum": [1, 2]}}], "datasets": datasets},
    }
    paths = {name: write_table(tmp_path, name, **entries) for name, entries in tables.items()}
    monkeypatch.setattr(rows, "table_names", lambda: sorted(paths))
    monkeypatch.setattr(rows, "load_table", lambda name: load_table(paths[name]))
    assert cells(rows_of("made")) == (
        ["table", "row", "files", "`config_overrides`", "other flags", "R-1 / R-L"],
        [
            ["1", "GDLF", "`xsum`", "–", "–", "–"],
            ["Figure 10", "DC", "`xsum`", "`gating=glu`", "`--max_steps 3`", "30 / 20.50"],
        ],
    )
    head, (line,) = cells(rows_of("many"))
    assert head == ["table", "row", "files", "`config_overrides`", "other flags", "paper", "ours"]
    assert line[2:-1] == ["`xsum`", "`gating=glu`", "`--max_steps 3`", "19.2M"]


def test_parameters_are_counted_with_the_papers_tags():
    assert model_config("gdlf/xsum.yaml", Row("GDLF")).tag_vocab_size == 180
