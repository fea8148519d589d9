"""The settings of runs, and which runs are equal."""

import json
import os
import shutil
from pathlib import Path

import pytest
import yaml

from hf_summ.experiments.scales import load_scale
from hf_summ.experiments.settings import (
    base_settings,
    data_fingerprint,
    decoding_fingerprint,
    decoding_settings,
    flags_of_all_rows,
    missing_key,
    resolved_config,
    split_files,
    training_fingerprint,
    with_data,
)
from hf_summ.experiments.tables import Row, load_table
from hf_summ.training.arguments import flags_of
from hf_summ.training.parsing import parse_arguments, read_settings
from tests.experiments.made_up import TRANSFORMER, make_table, write_data

CONFIGS = Path(__file__).parents[2] / "configs"


DC = Row("DC")


def settle(table, row=DC, scale="tiny", **extra):
    """A row's flags on its table's only data set."""
    (dataset,) = table.datasets
    settings, _ = base_settings(table, row, dataset, scale, extra)
    return settings


@pytest.fixture
def training(tmp_path):
    """Makes the settings of a training on made-up data, with changes."""
    data = split_files(write_data(tmp_path / "news"))

    def make_settings(**changes):
        overrides = changes.pop("config_overrides", {})
        settings = settle(make_table(tmp_path), Row("DC", config_overrides={**TRANSFORMER, **overrides}))
        return {**with_data(settings, data), "tokenizer_name": "bert-base-uncased", **changes}

    return make_settings


# the scale, what the row and the user set, and the number of updates and the width that follow
SET_BY_ROW = {"max_steps": 7, "config_overrides": {"d_model": 48}}
SET_BY_USER = {"max_steps": 8, "config_overrides": {"d_model": 64}}
CASES_OF_PRECEDENCE = [
    ("full", {}, {}, 30000, 256),
    ("tiny", {}, {}, 6, 32),
    ("tiny", SET_BY_ROW, {}, 7, 48),
    ("tiny", SET_BY_ROW, SET_BY_USER, 8, 64),
]


@pytest.mark.parametrize(("scale", "row", "user", "updates", "width"), CASES_OF_PRECEDENCE)
def test_settings_are_the_papers_then_the_scales_the_rows_and_the_users(tmp_path, scale, row, user, updates, width):
    flags = dict(row)
    overrides = flags.pop("config_overrides", {})
    settings = settle(make_table(tmp_path), Row("DC", flags=flags, config_overrides=overrides), scale, **user)
    assert settings["max_steps"] == updates
    assert settings["config_overrides"]["d_model"] == width
    # what nobody else sets is the paper's
    assert settings["optimizer"] == "adamw"
    assert settings["config_overrides"]["label_smoothing"] == 0.1


def test_row_of_another_architecture_has_its_own_scale_and_the_vocabulary_of_its_data(tmp_path):
    row = Row("BART", flags={"model_type": "bart"}, config_overrides={"d_model": 48}, full={"max_steps": 9})
    table = make_table(tmp_path)
    tiny, tiny_scale = base_settings(table, row, "xsum", "tiny", {})
    full, full_scale = base_settings(table, row, "xsum", "full", {})
    assert (tiny["model_type"], tiny["max_steps"], full["max_steps"]) == ("bart", 6, 9)
    assert tiny["config_overrides"] == {**load_scale("bart", "tiny").config_overrides, "d_model": 48}
    # the file is of GDLF: nothing of its architecture stays
    assert full["config_overrides"] == {"d_model": 48}
    assert tiny_scale.vocabulary == {"vocab_size": 700, "lowercase": True}
    assert full_scale.vocabulary == {"lowercase": True}
    # and all else does
    assert full["optimizer"] == "adamw"
    with pytest.raises(ValueError, match="the architecture nowhere does not exist yet"):
        settle(make_table(tmp_path), Row("X", flags={"model_type": "nowhere"}))


def test_row_with_a_file_of_its_architecture_has_its_values_and_its_vocabulary(tmp_path):
    row = Row("PG", config={"xsum": "pointer_generator/xsum.yaml"}, flags={"model_type": "pointer_generator"})
    settings, scale = base_settings(make_table(tmp_path), row, "xsum", "full", {})
    assert (settings["optim"], settings["config_overrides"]["recurrent_range"]) == ("adagrad", 0.02)
    assert settings["config_overrides"]["vocab_size"] == 50000
    assert scale.vocabulary == {"lowercase": True, "units": "words"}


def test_override_applies_to_the_rows_whose_configuration_has_its_key():
    table = load_table("thesis_7_10")
    extra = {"config_overrides": {"bert_name": "folder", "vocab_size": 9}}
    overrides = {}
    for row in table.rows:
        if row.is_trained:
            settings, _ = base_settings(table, row, "cnn_dailymail", "full", extra)
            overrides[row.row] = settings["config_overrides"]
    baseline = overrides.pop("BiLSTM + Pointer-Generator + Coverage")
    assert ("bert_name" in baseline, baseline["vocab_size"]) == (False, 9)
    assert {values["bert_name"] for values in overrides.values()} == {"folder"}
    assert missing_key("copy_transformer", "bert_config.hidden_size") is None
    assert "unknown key 'bert_nam'" in missing_key("copy_transformer", "bert_nam")


@pytest.mark.parametrize("scale", ["small", "full"])
@pytest.mark.parametrize("name", ["thesis_7_1", "gdlf_2"])
def test_a_short_run_shortens_every_row(name, scale):
    table = load_table(name)
    for row in table.rows:
        if row.is_trained:
            settings, _ = base_settings(table, row, "cnn_dailymail", scale, {"quick": 30, "logging_steps": 7})
            assert (settings["max_steps"], settings["warmup_steps"], settings["logging_steps"]) == (30, 3, 7)
            # a run reads the flags as given, and knows no file that it could shorten
            assert not settings.keys() & {"quick", "schedule", "noam_scale", "optim"}


def test_flags_of_the_user_add_rates_and_take_flags_away(tmp_path):
    # rates of a row are added to those of the user
    row = Row("DC", flags={"learning_rates": ["embed=1"]})
    assert settle(make_table(tmp_path), row, learning_rates=["gate=2"])["learning_rates"] == ["embed=1", "gate=2"]
    # null takes a flag away, and the seed has a default
    settings = settle(make_table(tmp_path), early_stopping_patience=None, num_beams=None)
    assert settings.keys() & {"early_stopping_patience", "num_beams"} == set()
    assert settings["seed"] == 42
    assert settle(make_table(tmp_path), seed=1)["seed"] == 1


CASES_OF_MISSING_CONFIGURATIONS = [
    (Row("X", config="nowhere/xsum.yaml"), "the architecture nowhere does not exist yet"),
    (Row("X", config="bart/xsum.yaml"), "bart/xsum.yaml: .*No such file"),
    (Row("X"), "texts has no configuration for training"),
]


@pytest.mark.parametrize(("row", "message"), CASES_OF_MISSING_CONFIGURATIONS)
def test_row_without_a_configuration_that_is_there(tmp_path, row, message):
    with pytest.raises(ValueError, match=message):
        settle(make_table(tmp_path, datasets={"texts": None}), row)


def test_data_of_the_user_leave_nothing_of_the_configurations():
    paper = read_settings(str(CONFIGS / "gdlf" / "xsum.yaml"))
    paper |= {"data_format": "newsroom", "density_bin": "abstractive", "dataset_config_name": "x"}
    settings = with_data(paper, {"test_file": "a.jsonl"})
    removed = {"dataset_name", "dataset_config_name", "text_column", "summary_column", "data_format", "density_bin"}
    assert paper.keys() - settings.keys() == removed
    assert settings["test_file"] == "a.jsonl"


def test_splits_are_found_by_their_names(tmp_path):
    for name in ("train.jsonl.gz", "dev.csv", "test.parquet", "SOURCE.md"):
        (tmp_path / name).touch()
    names = {"train_file": "train.jsonl.gz", "validation_file": "dev.csv", "test_file": "test.parquet"}
    assert split_files(tmp_path) == {flag: str(tmp_path / name) for flag, name in names.items()}


def test_splits_may_be_links_to_files_of_other_names(tmp_path):
    (tmp_path / "blob").touch()
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.jsonl").symlink_to("blob")
    assert split_files(tmp_path)["validation_file"] == str(tmp_path / "valid.jsonl")


def test_folders_that_hold_no_splits_are_told(tmp_path):
    with pytest.raises(ValueError, match=r"nowhere: there is no train\.jsonl, but there must be exactly one file"):
        split_files(tmp_path / "nowhere")
    (tmp_path / "train.jsonl").touch()
    with pytest.raises(ValueError, match=r"there is no validation\.jsonl, but there must be exactly one file for"):
        split_files(tmp_path)
    for name in ("val.json", "dev.jsonl.gz", "test.jsonl"):
        (tmp_path / name).touch()
    with pytest.raises(ValueError, match=r"there are val\.json and dev\.jsonl\.gz, but there must be exactly one file"):
        split_files(tmp_path)


def test_folder_of_a_distribution_stands_for_its_splits(tmp_path):
    for name in ("train.jsonl.gz", "dev.jsonl", "test.jsonl"):
        (tmp_path / name).write_bytes(b"x")
    files = {f"{split}_file": str(tmp_path) for split in ("train", "validation", "test")}
    assert split_files(tmp_path, "newsroom") == files
    with pytest.raises(ValueError, match=r"has no PART_I\.txt and no DATA/PART_I\.txt"):
        split_files(tmp_path, "lcsts")
    with pytest.raises(ValueError, match=r"`data_format` is 'newsrom', but must be one of .*newsroom"):
        split_files(tmp_path, "newsrom")


CASES_OF_FLAGS = [
    ([], {}),
    (["--max-steps=5", "--max_steps", "6"], {"max_steps": 6}),
    (["--bf16", "--seed", "1"], {"bf16": True, "seed": 1}),
    (
        ["--no_ignore_pad_token_for_loss", "--no-early-stopping"],
        {"ignore_pad_token_for_loss": False, "early_stopping": False},
    ),
    (["--length_penalty", "-0.5"], {"length_penalty": -0.5}),
    (["--eval_strategy", "no"], {"eval_strategy": "no"}),
    (["--early_stopping_patience", "null"], {"early_stopping_patience": None}),
    (["--metrics", "rouge", "bleu"], {"metrics": ["rouge", "bleu"]}),
    (["--learning_rates", "[ab]=1", "--learning_rates", "c=2"], {"learning_rates": ["[ab]=1", "c=2"]}),
    (["--run_name", "a: b"], {"run_name": "a: b"}),
    (["--run_name=--x"], {"run_name": "--x"}),
    (
        ["--config_overrides", "d_model=4", "--config_overrides", "d_model=8", "--config_overrides", 'tags="1"'],
        {"config_overrides": {"d_model": 8, "tags": "1"}},
    ),
]


@pytest.mark.parametrize(("tokens", "flags"), CASES_OF_FLAGS)
def test_flags_are_read_as_their_values(tokens, flags):
    assert flags_of_all_rows(tokens) == flags


CASES_OF_WRONG_FLAGS = [
    (["--extract_idf", "no.json"], "^no.json is not a file written by `hf-summ idf`"),
    (["--scal", "tiny"], r"unknown flag --scal; did you mean --scale\?"),
    (["--no_max_steps"], r"unknown flag --no_max_steps; did you mean --max_steps\?"),
    (["--resume_from_checkpoint", "x"], "--resume_from_checkpoint: cannot be shared by the rows of a table.*;"),
    (["--push_to_hub"], "--push_to_hub: cannot be shared by the rows of a table"),
    (["--token", "hf_x"], "--token: would be written to the settings of each run; set HF_TOKEN instead"),
]


@pytest.mark.parametrize(("tokens", "message"), CASES_OF_WRONG_FLAGS)
def test_flags_that_cannot_be_are_told(tokens, message):
    with pytest.raises(ValueError, match=message):
        flags_of_all_rows(tokens)


def test_flags_survive_the_way_through_a_runs_file(tmp_path):
    tokens = "--no_early_stopping --learning_rate 1e-3 --length_penalty -0.5 --metrics rouge bleu --eval_strategy no"
    tokens += ' --learning_rates [ab]=1 --learning_rates c=2 --use_cpu --config_overrides d_model=8 tags="none"'
    path = tmp_path / "settings.yaml"
    settings = {**flags_of_all_rows(tokens.split()), "output_dir": str(tmp_path)}
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    from_file = parse_arguments([str(path)])
    from_flags = parse_arguments([*tokens.split(), "--output_dir", str(tmp_path)])
    assert from_file == from_flags


def test_same_training_however_it_is_written(training, tmp_path):
    first = training_fingerprint(training())
    defaults = resolved_config(training())
    same = [
        training(config_overrides={"use_cache": True, "kernel_dropout": defaults["kernel_dropout"]}),
        training(output_dir="elsewhere", cache_dir="cache", report_to="none", logging_steps=1, save_total_limit=9),
        training(max_predict_samples=3, lead_sentences=2, show_summaries=1, do_eval=True, dataloader_num_workers=2),
        dict(reversed(training().items())),
    ]
    shutil.copy(tmp_path / "news" / "train.jsonl", tmp_path / "renamed.jsonl")
    same.append(training(train_file=str(tmp_path / "renamed.jsonl")))
    for settings in same:
        assert training_fingerprint(settings) == first
    # the test documents do not count
    (tmp_path / "news" / "test.jsonl").write_text('{"document": "A.", "summary": "B."}\n', encoding="utf-8")
    assert training_fingerprint(training()) == first


@pytest.mark.thorough
def test_whatever_changes_the_weights_is_another_training(training, tmp_path):
    different = [
        {},
        {"seed": 1},
        {"max_steps": 7},
        {"bf16": True},
        {"max_train_samples": 5},
        {"text_column": "document"},
        {"config_overrides": {"gating": "gate"}},
        {"config_overrides": {"dropout": 0.2}},
        {"tokenizer_name": "bert-base-cased"},
        {"tokenizer_name": "google-bert/bert-base-uncased"},
        {"model_name_or_path": "nowhere"},
        {"validation_file": training()["train_file"]},
    ]
    names = [training_fingerprint(training(**changes)) for changes in different]
    train = tmp_path / "news" / "train.jsonl"
    train.write_text(train.read_text(encoding="utf-8").replace("Ana", "Eva"), encoding="utf-8")
    names.append(training_fingerprint(training()))
    assert len(set(names)) == len(different) + 1


def test_file_of_the_same_size_that_changed_is_read_again(training, tmp_path):
    train = tmp_path / "news" / "train.jsonl"
    state = train.stat()
    first = training_fingerprint(training())
    train.write_text(train.read_text(encoding="utf-8").replace("Ana", "Eva"), encoding="utf-8")
    os.utime(train, ns=(state.st_atime_ns, state.st_mtime_ns + 1))
    assert training_fingerprint(training()) != first


def test_processors_are_told_apart_by_what_they_hold(training, tmp_path):
    """Users' folders may have any name; those of fitted processors are named by their fingerprints."""

    def fingerprint_with(place, content):
        folder = tmp_path / place / "processor"
        folder.mkdir(parents=True)
        (folder / "tokenizer.json").write_text(content)
        return training_fingerprint(training(tokenizer_name=str(folder)))

    first = fingerprint_with("one", "a")
    assert fingerprint_with("two", "b") != first
    assert fingerprint_with("three", "a") == first
    fitted = training(tokenizer_name="here/processors/0123456789abcdef")
    copied = training(tokenizer_name="there/processors/0123456789abcdef")
    assert training_fingerprint(fitted) == training_fingerprint(copied)


def test_data_of_the_hub_count_by_name_and_files_by_contents(tmp_path):
    on_the_hub = {"dataset_name": "news", "text_column": "a", "cache_dir": "x", "token": "secret", "seed": 1}
    assert data_fingerprint(on_the_hub) == {"dataset_name": "news", "text_column": "a"}
    files = split_files(write_data(tmp_path / "news"))
    assert data_fingerprint(files, ("test",)).keys() == {"test"}
    with pytest.raises(ValueError, match=r"nowhere\.jsonl does not exist"):
        data_fingerprint({"test_file": "nowhere.jsonl"})


def test_data_set_in_a_folder_counts_by_its_content(training, tmp_path):
    folder = write_data(tmp_path / "folder")

    def fingerprints(folder=folder):
        settings = with_data(training(), {"dataset_name": str(folder)})
        return [training_fingerprint(settings), decoding_fingerprint(settings), data_fingerprint(settings, ("train",))]

    first = fingerprints()
    # What the system or `datasets` writes into the folder is not its content, and neither is its place.
    (folder / ".DS_Store").write_text("x")
    (folder / "cache-1f.arrow").write_text("x")
    shutil.copytree(folder, tmp_path / "copy")
    assert fingerprints() == fingerprints(tmp_path / "copy") == first
    with (folder / "train.jsonl").open("a") as file:
        file.write(json.dumps({"document": "A ferry sank.", "summary": "ferry sinks"}) + "\n")
    for changed, before in zip(fingerprints(), first, strict=True):
        assert changed != before


def test_decoding_has_the_settings_that_concern_it(training):
    row = Row("DC", decoding={"num_beams": 7}, decoding_overrides={"window_size": 3})
    of_training = training(bf16=True, trust_remote_code=True, max_predict_samples=4, streaming=True)
    settings = decoding_settings(of_training, row, Path("run/output"))
    assert settings["num_beams"] == 7
    assert settings["config_overrides"] == {"window_size": 3}
    assert settings["model_name_or_path"] == "run/output"
    assert settings["do_predict"] is True
    assert settings.keys() >= {"bf16", "trust_remote_code", "seed", "test_file", "max_predict_samples"}
    training_only = {"train_file", "validation_file", "do_train", "max_steps", "tokenizer_name", "model_type"}
    assert not settings.keys() & (training_only | {"output_dir", "streaming"})
    # all flags that are left are declared to affect decodings or data
    assert settings.keys() <= flags_of("decoding", "data") | {"config_overrides", "model_name_or_path", "do_predict"}


def test_decodings_are_told_apart(training, tmp_path):
    def name(row=DC, model="run/output", **changes):
        return decoding_fingerprint(decoding_settings(training(**changes), row, Path(model)))

    first = name()
    assert name(model="elsewhere/output") == name(cache_dir="cache", max_steps=9, learning_rate=1.0) == first
    changed = [
        name(Row("DC", decoding={"num_beams": 7})),
        name(Row("DC", decoding_overrides={"window_size": 3})),
        name(max_predict_samples=4),
        name(bf16=True),
        name(test_file=training()["train_file"]),
    ]
    assert len({first, *changed}) == 6


def test_rows_that_tables_have_in_common_are_one_training(tmp_path):
    files = split_files(write_data(tmp_path / "news"))

    def fingerprint_of(name, label):
        table = load_table(name)
        row = next(row for row in table.rows if row.row == label)
        settings, _ = base_settings(table, row, "xsum", "tiny", {})
        return training_fingerprint({**with_data(settings, files), "tokenizer_name": "x"})

    glu, gate = fingerprint_of("gdlf_6", "GLU"), fingerprint_of("gdlf_6", "GATE")
    assert fingerprint_of("gdlf_4", "DC") == glu
    assert fingerprint_of("gdlf_4", "DC+GATE") == gate
    assert glu != gate
