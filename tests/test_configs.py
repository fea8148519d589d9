"""Every YAML under configs/ parses, builds and says where its values come from."""

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from transformers import AutoConfig

import hf_summ  # noqa: F401 registers the architectures
from docs.extensions.configuration_rows import millions
from hf_summ.checkpoints.overrides import apply_overrides
from hf_summ.data.files import is_row_file
from hf_summ.pretrained import model_folder
from hf_summ.training.parsing import parse_arguments

CONFIGS = Path(__file__).parents[1] / "configs"
# tables and their scales are not runs
FILES = sorted(file for file in CONFIGS.rglob("*.yaml") if file.parent.name not in ("tables", "scales"))


def readme_rows(header: str) -> list[list[str]]:
    """Cells of the table in configs/README.md whose header starts with the given text."""
    lines = (CONFIGS / "README.md").read_text(encoding="utf-8").splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(header)) + 2
    rows = itertools.takewhile(lambda line: line.startswith("|"), lines[start:])
    cells_of_rows = []
    for row in rows:
        cells_of_rows.append([cell.strip().strip("`") for cell in row.strip("|").split("|")])
    return cells_of_rows


def config_of_arguments(arguments: Any) -> Any:
    """The configuration of the new DRGD that a run trains."""
    return apply_overrides(AutoConfig.for_model("drgd"), arguments.model.config_overrides)


def test_variants_in_headers_are_what_they_are_called():
    """StanD, and DRGD as printed, as a reader runs them; in both no rate is left that the program sets for DRGD."""
    for name in ("lcsts", "gigaword"):
        file = CONFIGS / "drgd" / f"{name}.yaml"
        flags_of_variants = re.findall(r"^#   \.\.\. (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
        flags_of_stand, flags_of_printed = flags_of_variants
        stand = parse_arguments([str(file), *flags_of_stand.split()])
        printed = parse_arguments([str(file), *flags_of_printed.split()])
        assert not stand.training.learning_rates
        assert not printed.training.learning_rates
        assert config_of_arguments(stand).latent_size == 0
        assert config_of_arguments(printed).equations == "printed"
        assert config_of_arguments(printed).final_kl_weight == 1.0


# those whose vocabulary is fitted
FILES_WITH_A_VOCABULARY = [file for file in FILES if "tokenizer_name: processors/" in file.read_text(encoding="utf-8")]


def keys(node: Any) -> list[str]:
    """All keys of nested mappings, in the file's order."""
    names = []
    for key, value in node.items():
        names.append(key)
        if isinstance(value, dict):
            names.extend(keys(value))
    return names


def config_of(file: Path) -> Any:
    """The configuration of the model that a file trains: of a new one, a bundled one or another file's output."""
    model = parse_arguments([str(file)]).model
    start = model.model_name_or_path
    if start is None:
        config = AutoConfig.for_model(model.model_type)
    elif start.startswith("out/"):
        config = config_of(CONFIGS / f"{start.removeprefix('out/')}.yaml")
    else:
        config = AutoConfig.from_pretrained(model_folder(start))
    return apply_overrides(config, model.config_overrides)


@pytest.mark.thorough
@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(CONFIGS)))
def test_yaml_parses_and_its_model_has_the_tabulated_size(file):
    config = config_of(file)
    sizes = {row[0]: row[2] for row in readme_rows("| file | paper |")}
    assert sizes[str(file.relative_to(CONFIGS))] == f"{millions(config):.1f}M"


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(CONFIGS)))
def test_every_key_says_whether_it_is_stated_or_chosen(file):
    text = file.read_text(encoding="utf-8")
    lines = text.splitlines()
    found_keys = []
    for previous_line, line in itertools.pairwise(["", *lines]):
        match = re.match(r"\s*(\w+):", line)
        if match is None:
            continue
        key = match[1]
        found_keys.append(key)
        comment = line.partition("  # ")[2]
        if not comment and previous_line.lstrip().startswith("#"):
            comment = previous_line
        assert re.search(r"\b(stated|released|chosen)\b", comment), f"{file.name}: {key}"
    assert found_keys == keys(yaml.safe_load(text))


@pytest.mark.parametrize("file", FILES_WITH_A_VOCABULARY, ids=lambda file: str(file.relative_to(CONFIGS)))
def test_vocabulary_command_reads_corpus_files_and_makes_the_processor(file):
    text = file.read_text(encoding="utf-8").replace(" \\\n#", "")
    (command,) = re.findall(r"hf-summ vocabulary (.*)", text)
    names = list(itertools.takewhile(lambda token: not token.startswith("--"), command.split()))
    assert names
    content = yaml.safe_load(text)
    reading = {name: content[name] for name in ("data_format", "density_bin") if name in content}
    if reading:
        assert names == [content["train_file"]]
        words = command.split()
        for flag, value in reading.items():
            assert words[words.index(f"--{flag}") + 1] == value
    else:
        for name in names:
            assert is_row_file(name)
    name = content["tokenizer_name"]
    # phrases are added to the processor with the vocabulary
    for fitted in re.findall(r"hf-summ key-phrases (.*)", text):
        assert fitted.split()[0] == names[0]
        name = name.removesuffix("_phrases")
        assert f"--processor {name} --output {content['tokenizer_name']}" in fitted
    # a BERT's vocabulary is pruned, not fitted
    size = "" if "--prune_bert" in command else f"--vocab_size {content['config_overrides']['vocab_size']} "
    assert f"--output {name} {size}" in command


def test_readme_tabulates_every_yaml():
    assert [row[0] for row in readme_rows("| file | paper |")] == [str(file.relative_to(CONFIGS)) for file in FILES]


GDLF_FILES = [file for file in FILES if "model_type: gdlf" in file.read_text(encoding="utf-8")]


@pytest.mark.parametrize("file", GDLF_FILES)
def test_gdlf_stops_as_its_program_does(file):
    assert parse_arguments([str(file)]).generation.early_stopping is True
