"""Every YAML under configs/ parses, builds and says where its values come from; the paper's rows have its sizes."""

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from transformers import AutoConfig, AutoModelForSeq2SeqLM, PreTrainedConfig

import hf_summ  # noqa: F401 registers the architectures
from hf_summ.data.rows import ROW_FILES
from hf_summ.training.arguments import parse_arguments
from hf_summ.training.overrides import apply_overrides, parse_overrides

CONFIGS = Path(__file__).parents[1] / "configs"
FILES = sorted(CONFIGS.rglob("*.yaml"))
# the paper's parameter counts in millions (Tables 4 and 5); Tables 6 and 7 give none
PAPER = {
    "4": {
        "DC": 19.2,
        "DC+POS": 19.3,
        "DC+GATE": 21.8,
        "DC+LF": 23.1,
        "DC+POS+GATE": 22.0,
        "DC+POS+LF": 23.3,
        "DC+GATE+LF": 25.8,
        "GDLF": 25.9,
    },
    "5": {"DC": 19.2, "DC+HAGG": 28.6, "DC+LF": 23.1, "GDHAGG": 31.4, "GDLF": 25.9},
    "6": dict.fromkeys(("w/o any gating", "ReLU", "GTU", "GLU", "GCNN", "GATE w/o update", "GATE")),
    "7": dict.fromkeys(("DC", "DC+POS", "DC+NER", "DC+NER+POS")),
}
# the Stanford tagger's 45 tags with their four subword positions
PAPER_TAGS = 180


def readme_rows(header: str) -> list[list[str]]:
    """Cells of the table in configs/README.md whose header starts so."""
    lines = (CONFIGS / "README.md").read_text(encoding="utf-8").splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(header)) + 2
    rows = itertools.takewhile(lambda line: line.startswith("|"), lines[start:])
    return [[cell.strip().strip("`") for cell in row.strip("|").split("|")] for row in rows]


TABLE_ROWS = readme_rows("| table | row |")


def millions(config: PreTrainedConfig) -> float:
    """Parameters of the model, shared ones once; nothing is allocated."""
    with torch.device("meta"):
        model = AutoModelForSeq2SeqLM.from_config(config)
    return model.num_parameters() / 1e6


def keys(node: Any) -> list[str]:
    """All keys of nested mappings, in the file's order."""
    return [name for key, value in node.items() for name in (key, *(keys(value) if isinstance(value, dict) else ()))]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(CONFIGS)))
def test_yaml_parses_and_its_model_has_the_tabulated_size(file):
    arguments = parse_arguments([str(file)])
    config = AutoConfig.for_model(arguments.model.model_type)
    config = apply_overrides(config, parse_overrides(arguments.model.config_overrides))
    sizes = {row[0]: row[2] for row in readme_rows("| file | paper |")}
    assert sizes[str(file.relative_to(CONFIGS))] == f"{millions(config):.1f}M"


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(CONFIGS)))
def test_every_key_says_whether_it_is_stated_or_chosen(file):
    text = file.read_text(encoding="utf-8")
    lines = text.splitlines()
    found = []
    for previous, line in zip(["", *lines], lines, strict=False):
        if match := re.match(r"\s*(\w+):", line):
            found.append(match[1])
            own = line.partition("  # ")[2]
            above = previous if previous.lstrip().startswith("#") else ""
            assert re.search(r"\b(stated|chosen)\b", own or above), f"{file.name}: {match[1]}"
    assert found == keys(yaml.safe_load(text))


@pytest.mark.parametrize("file", sorted((CONFIGS / "gdlf").iterdir()), ids=lambda file: file.name)
def test_vocabulary_command_reads_corpus_files(file):
    text = file.read_text(encoding="utf-8").replace(" \\\n#", "")
    (command,) = re.findall(r"hf-summ vocabulary (.*)", text)
    names = list(itertools.takewhile(lambda token: not token.startswith("--"), command.split()))
    assert names
    # X.source is read with its X.target
    assert {Path(name.removesuffix(".gz")).suffix for name in names} <= {*ROW_FILES, ".source"}


def test_readme_tabulates_every_yaml():
    assert [row[0] for row in readme_rows("| file | paper |")] == [str(file.relative_to(CONFIGS)) for file in FILES]


def test_readme_tabulates_every_row_of_the_papers_tables():
    assert [(table, row) for table, row, *_ in TABLE_ROWS] == [(table, row) for table in PAPER for row in PAPER[table]]


@pytest.mark.parametrize(
    ("table", "row", "overrides", "published", "tabulated"),
    TABLE_ROWS,
    ids=[f"{row[0]} {row[1]}" for row in TABLE_ROWS],
)
def test_row_of_the_papers_tables_has_its_parameter_count(table, row, overrides, published, tabulated):
    base = parse_arguments([str(CONFIGS / "gdlf/xsum.yaml")]).model.config_overrides
    config = AutoConfig.for_model("gdlf", tag_vocab_size=PAPER_TAGS)
    counted = millions(apply_overrides(config, parse_overrides(base + overrides.split())))
    assert tabulated == f"{counted:.2f}M"
    if PAPER[table][row] is None:
        assert published == "–"
    else:
        assert published == f"{PAPER[table][row]}M"
        assert counted == pytest.approx(PAPER[table][row], abs=0.2)
