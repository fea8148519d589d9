"""Every YAML under configs/ parses, builds and says where its values come from; the papers' rows follow from them."""

import functools
import itertools
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from transformers import AutoConfig, AutoModelForSeq2SeqLM, PreTrainedConfig, PreTrainedModel

import hf_summ  # noqa: F401 registers the architectures
from hf_summ.data.rows import ROW_FILES
from hf_summ.training.arguments import RunArguments, parse_arguments
from hf_summ.training.building import Lengths, generation_config
from hf_summ.training.overrides import apply_overrides, parse_overrides

CONFIGS = Path(__file__).parents[1] / "configs"
# tables and their scales are no runs
FILES = sorted(file for file in CONFIGS.rglob("*.yaml") if file.parent.name not in ("tables", "scales"))
# GDLF's parameter counts in millions (Tables 4 and 5); Tables 6 and 7 give none
GDLF = {
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
GDLF_TAGS = 180
# ROUGE-1, -2 and -L of the rows of Aksenov's thesis; those of Figure 7.1 are lost
THESIS = {
    "7.1": {
        "Transformer": "24.82 / 6.27 / 22.99",
        "Transformer + Beam Search": "25.04 / 7.83 / 23.08",
        "Transformer + Pointer Gen.": "31.95 / 14.49 / 30.02",
        "Transformer + Pointer Gen. + Beam Search": "36.04 / 17.14 / 33.34",
    },
    "7.2": {
        "Transformer": "36.40 / 20.69 / 34.14",
        "Transformer + Beam Search": "37.37 / 22.58 / 35.08",
        "Transformer + Pointer Gen.": "39.44 / 25.11 / 37.16",
        "Transformer + Pointer Gen. + Beam Search": "40.59 / 26.33 / 37.58",
    },
    "7.4": {
        "CopyTransformer": "31.95 / 14.49 / 30.02",
        "+ 1D conv.": "32.62 / 14.99 / 30.74",
        "+ 2D conv.": "32.72 / 15.12 / 30.85",
        "+ 2D round conv.": "32.68 / 15.01 / 30.76",
    },
    "7.5": {
        "Transformer": "24.82 / 6.27 / 22.99",
        "CopyTransformer": "31.95 / 14.49 / 30.02",
        "Bert Enc. + Transformer Dec.": "31.3 / 13.37 / 29.46",
        "Bert Enc. with RELU + Transformer Dec.": "29.84 / 12.3 / 28.17",
        "Bert-Transformer Enc. + Transformer Dec.": "32.5 / 14.68 / 30.68",
        "Bert-Transformer Enc. and Dec.": "33.23 / 14.99 / 31.26",
        "Transformer (full)": "23.18 / 5.15 / 21.48",
        "Bert-Transformer Enc. + Trans. Dec. (full)": "31.51 / 14.1 / 29.77",
    },
    "7.6": {
        "Transformer": "36.40 / 20.69 / 34.14",
        "CopyTransformer": "39.44 / 25.11 / 37.16",
        "Bert-transformer Enc. + Transformer Dec.": "44.01 / 29.60 / 41.65",
        "Bert-transformer Enc. and Dec.": "43.22 / 29.01 / 40.84",
        "Transformer (full)": "34.76 / 18.65 / 32.61",
        "Bert-transformer Enc. + Trans. Dec. (full)": "45 / 30.49 / 42.64",
    },
    "7.7": {
        "Transformer, α 1.0": "24.82 / 6.27 / 22.99",
        "Transformer+BERT-generator, α 0.9": "24.25 / 5.91 / 22.44",
        "Transformer+BERT-generator, α 0.7": "23.47 / 5.35 / 21.72",
    },
    "7.8": {
        "Transformer": "24.82 / 6.27 / 22.99",
        "Transformer+BERT-generator, train": "23.9 / 5.87 / 22.17",
        "Transformer+BERT-generator, train and test": "23.62 / 5.73 / 21.94",
    },
    "7.9": {
        "Stacking, BERT+Transformer": "35.28 / 17.12 / 33.31",
        "Stacking, BERT+Conv. Transformer": "35.4 / 16.82 / 33.31",
        "Concatenation, BERT+Transformer": "34.82 / 16.46 / 32.79",
        "Concatenation, BERT+Conv. Transformer": "35.26 / 16.79 / 33.22",
    },
    "7.10": {
        "CopyTransformer (our implementation)": "38.73 / 17.28 / 35.85",
        "Convolutional CopyTransformer": "38.98 / 17.69 / 35.97",
        "BERT+CopyTransformer": "40 / 18.42 / 37.15",
    },
    "7.11": {
        "CopyTransformer (our implementation)": "39.5 / 22.36 / 36.97",
        "Convolutional CopyTransformer": "40.54 / 23.62 / 38.06",
        "BERT+CopyTransformer (enc.)": "42.61 / 25.25 / 39.85",
    },
    "Figure 7.1": {
        "1D conv., window 7": "–",
        "1D conv., window 9": "–",
        "1D conv., window 11": "–",
        "1D conv., window 13": "–",
        "1D conv., window 15": "–",
    },
}
# rows whose names do not say that their decoder is on BERT, too
BERT_DECODERS = [("7.10", "BERT+CopyTransformer"), *(("7.9", row) for row in THESIS["7.9"])]


def readme_rows(header: str) -> list[list[str]]:
    """Cells of the table in configs/README.md whose header starts so."""
    lines = (CONFIGS / "README.md").read_text(encoding="utf-8").splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(header)) + 2
    rows = itertools.takewhile(lambda line: line.startswith("|"), lines[start:])
    return [[cell.strip().strip("`") for cell in row.strip("|").split("|")] for row in rows]


GDLF_ROWS = readme_rows("| table | row | `config_overrides` |")
THESIS_ROWS = readme_rows("| table | row | file |")
OWN_VOCABULARY = [file for file in FILES if "tokenizer_name: processors/" in file.read_text(encoding="utf-8")]


def meta_model(config: PreTrainedConfig) -> PreTrainedModel:
    """The model without its weights; nothing is allocated."""
    with torch.device("meta"):
        return AutoModelForSeq2SeqLM.from_config(config)


def millions(config: PreTrainedConfig) -> float:
    """Parameters of the model, shared ones once."""
    return meta_model(config).num_parameters() / 1e6


def words(cell: str) -> list[str]:
    """Those of a table's cell; a dash stands for none."""
    return [] if cell == "–" else cell.split()


@functools.cache
def thesis_run(file: str, overrides: str, flags: str) -> tuple[RunArguments, PreTrainedModel]:
    """What a row of the thesis's tables is run with, and its model with its generation settings."""
    given = [token for item in words(overrides) for token in ("--config_overrides", item)]
    arguments = parse_arguments([str(CONFIGS / f"copy_transformer/{file}.yaml"), *given, *words(flags)])
    values = arguments.model.config_overrides
    if "masked_lm_name" in values:
        # a run reads this from the checkpoint, the same one whose configuration the file has
        assert values["masked_lm_name"] == values["bert_name"]
        values["masked_lm_config"] = values["bert_config"]
    model = meta_model(apply_overrides(AutoConfig.for_model(arguments.model.model_type), values))
    data = arguments.data
    lengths = Lengths(data.max_source_length, data.max_target_length, data.val_max_target_length)
    model.generation_config = generation_config(model, arguments.generation, lengths, length_is_told=True)
    return arguments, model


def keys(node: Any) -> list[str]:
    """All keys of nested mappings, in the file's order."""
    return [name for key, value in node.items() for name in (key, *(keys(value) if isinstance(value, dict) else ()))]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(CONFIGS)))
def test_yaml_parses_and_its_model_has_the_tabulated_size(file):
    arguments = parse_arguments([str(file)])
    config = AutoConfig.for_model(arguments.model.model_type)
    config = apply_overrides(config, arguments.model.config_overrides)
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


@pytest.mark.parametrize("file", OWN_VOCABULARY, ids=lambda file: str(file.relative_to(CONFIGS)))
def test_vocabulary_command_reads_corpus_files_and_makes_the_processor(file):
    text = file.read_text(encoding="utf-8").replace(" \\\n#", "")
    (command,) = re.findall(r"hf-summ vocabulary (.*)", text)
    names = list(itertools.takewhile(lambda token: not token.startswith("--"), command.split()))
    assert names
    content = yaml.safe_load(text)
    reading = {name: content[name] for name in ("data_format", "density_bin") if name in content}
    if reading:
        assert names == [content["train_file"]]
        told = command.split()
        assert {name: told[told.index(f"--{name}") + 1] for name in reading} == reading
    else:
        # X.source is read with its X.target
        assert {Path(name.removesuffix(".gz")).suffix for name in names} <= {*ROW_FILES, ".source"}
    assert f"--output {content['tokenizer_name']} --vocab_size {content['config_overrides']['vocab_size']} " in command


def test_readme_tabulates_every_yaml():
    assert [row[0] for row in readme_rows("| file | paper |")] == [str(file.relative_to(CONFIGS)) for file in FILES]


@pytest.mark.parametrize(("paper", "rows"), [(GDLF, GDLF_ROWS), (THESIS, THESIS_ROWS)], ids=["GDLF", "thesis"])
def test_readme_tabulates_every_row_of_the_papers_tables(paper, rows):
    assert [(table, row) for table, row, *_ in rows] == [(table, row) for table in paper for row in paper[table]]


@pytest.mark.parametrize(
    ("table", "row", "overrides", "published", "tabulated"),
    GDLF_ROWS,
    ids=[f"{row[0]} {row[1]}" for row in GDLF_ROWS],
)
def test_row_of_gdlfs_tables_has_its_parameter_count(table, row, overrides, published, tabulated):
    base = parse_arguments([str(CONFIGS / "gdlf/xsum.yaml")]).model.config_overrides
    config = AutoConfig.for_model("gdlf", tag_vocab_size=GDLF_TAGS)
    counted = millions(apply_overrides(config, parse_overrides(base + overrides.split())))
    assert tabulated == f"{counted:.2f}M"
    if GDLF[table][row] is None:
        assert published == "–"
    else:
        assert published == f"{GDLF[table][row]}M"
        assert counted == pytest.approx(GDLF[table][row], abs=0.2)


@pytest.mark.parametrize(
    ("table", "row", "settings", "published"),
    [(table, row, settings, published) for table, row, *settings, published in THESIS_ROWS],
    ids=[f"{row[0]} {row[1]}" for row in THESIS_ROWS],
)
def test_row_of_the_thesiss_tables_is_what_it_is_called(table, row, settings, published):
    assert published == THESIS[table][row]
    arguments, model = thesis_run(*settings)
    config, generation, name = model.config, model.generation_config, row.lower()
    is_final = table in ("7.10", "7.11")
    sizes = config.d_model, config.encoder_layers, config.decoder_layers, config.num_heads
    assert sizes == ((512, 6, 6, 8) if is_final else (256, 3, 3, 4))
    assert config.convolutional_layers == (3 if is_final else 1)
    copies = {"7.1": "pointer", "7.2": "pointer", "7.5": "copy", "7.6": "copy", "7.7": "copy", "7.8": "copy"}
    assert config.copy == (copies.get(table, "") in name)
    assert config.uses_bert == bool(re.search("bert(?!-generator)", name))
    assert (config.decoder_embedding == "bert") == ("enc. and dec." in name or (table, row) in BERT_DECODERS)
    assert (config.bert_reduction == "relu") == ("relu" in name)
    assert config.side_layers == ("concatenation" in name)
    assert (config.convolutional_attention != "none") == ("conv" in name)
    assert (model.masked_lm is not None) == ("bert-generator" in name)
    assert (arguments.data.max_source_length > 512) == ("(full)" in name)
    assert generation.num_beams == (4 if is_final else 15 if "beam" in name else 1)
    # what generate() would refuse
    assert config.copy or not generation.coverage_penalty
    told = arguments.generation
    assert model.masked_lm is not None or told.lm_rejected_factor is told.lm_accepted_factor is None


def test_rows_of_the_thesiss_tables_are_the_same_where_their_scores_are():
    rows_of = defaultdict(set)
    for _, row, *settings, published in THESIS_ROWS:
        arguments, model = thesis_run(*settings)
        run = model.config.to_json_string(), model.generation_config.to_json_string(), arguments.data.max_source_length
        # where the scores are lost no two rows are the same
        rows_of[run].add(row if published == "–" else published)
    # the figure's row that Table 7.4 has as well
    assert [rows for rows in rows_of.values() if len(rows) > 1] == [{"32.62 / 14.99 / 30.74", "1D conv., window 11"}]
    found = [row for rows in rows_of.values() for row in rows]
    assert len(found) == len(set(found))
