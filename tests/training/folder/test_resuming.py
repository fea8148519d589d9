"""A run belongs to its settings and its folder, and goes on as if it had not been interrupted."""

import hashlib
import json
import logging
import re
import shutil
import time
from pathlib import Path

import pytest
import yaml
from safetensors.torch import load_file, save_file
from transformers import GenerationConfig

from hf_summ.training import run as training_run
from hf_summ.training.__main__ import IN_USE
from hf_summ.training.__main__ import main as run_recipe
from hf_summ.training.folder.ledger import LOCK, Ledger
from hf_summ.training.loop.callbacks import RunProgress
from hf_summ.training.parsing import parse_arguments
from hf_summ.training.run import main, run
from tests.conftest import save
from tests.training import tiny

SAVING = {"save_strategy": "steps", "save_steps": 2, "max_steps": 6, "schedule_period": 8}


@pytest.fixture
def out(tmp_path) -> Path:
    return tmp_path / "out"


def interrupt(out: Path, step: int) -> None:
    """Leave the folder as a kill after the checkpoint of a step does."""
    for folder in out.glob("checkpoint-*"):
        if int(folder.name.split("-")[1]) > step:
            shutil.rmtree(folder)
    for path in out.iterdir():
        if path.is_file() and path.name not in ("run.yaml", ".run.lock"):
            path.unlink()


def interrupted(path: str, out: Path) -> str:
    """The settings of a run that was killed after its checkpoint of step 4."""
    main([path])
    interrupt(out, 4)
    return path


def steps_of(out: Path) -> list[int]:
    return [step for (step, _) in tiny.history(out, "loss")]


# VALIDATION stands for the file of the validation data
CASES_OF_OTHER_SETTINGS = [
    (["--seed", "7"], "seed 42, now 7"),
    (["--learning_rate", "0.5"], "learning_rate 0.01, now 0.5"),
    (["--schedule", "noam"], "schedule cosine, now noam"),
    (["--train_tokens_per_batch", "100"], "train_tokens_per_batch 160, now 100"),
    (["--gradient_accumulation_steps", "2"], "gradient_accumulation_steps × processes 1, now 2"),
    (["--config_overrides", "dropout=0.3"], "config_overrides dropout 0.0, now 0.3"),
    (["--train_file", "VALIDATION"], r"content of the training data \w{16}, now \w{16}"),
    (["--max_source_length", "20"], "max_source_length 48, now 20"),
    (["--max_steps", "9"], "max_steps 6, now 9"),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("flags", "difference"), CASES_OF_OTHER_SETTINGS)
def test_other_settings_are_refused_with_what_differs_and_the_ways_out(settings, tmp_path, out, flags, difference):
    path = interrupted(settings(**SAVING), out)
    before = {file: file.read_bytes() for file in out.rglob("*") if file.is_file()}
    flags = [str(tmp_path / "validation.jsonl") if flag == "VALIDATION" else flag for flag in flags]
    way_out = "give another --output_dir, or start over, without its checkpoints, with --resume_from_checkpoint no$"
    message = rf"^{re.escape(str(out))}: its run has other settings \(.*({difference}).*\): {way_out}"
    with pytest.raises(ValueError, match=message):
        main([path, *flags])
    assert {file: file.read_bytes() for file in out.rglob("*") if file.is_file()} == before


@pytest.mark.thorough
def test_settings_that_change_no_update_and_a_moved_file_are_not_refused(settings, tmp_path, out):
    path = interrupted(settings(**SAVING), out)
    (tmp_path / "train.jsonl").rename(tmp_path / "moved.jsonl")
    main([path, "--train_file", str(tmp_path / "moved.jsonl"), "--save_steps", "1", "--num_beams", "2"])
    assert steps_of(out) == list(range(1, 7))
    assert {folder.name for folder in out.glob("checkpoint-*")} == {f"checkpoint-{step}" for step in (2, 4, 5, 6)}


@pytest.mark.thorough
def test_run_without_checkpoints_to_resume_from_starts_over(settings, out):
    path = settings(**SAVING, save_only_model=True)
    whole = main([path])
    interrupt(out, 4)
    assert main([path, "--seed", "7"])["train_loss"] != whole["train_loss"]
    interrupt(out, 4)
    assert main([path])["train_loss"] == whole["train_loss"]


@pytest.mark.thorough
@pytest.mark.parametrize("saving", [SAVING, {}])
def test_finished_run_has_its_settings(settings, saving):
    path = settings(**saving)
    main([path])
    with pytest.raises(ValueError, match=r"its run has other settings \(seed 42, now 7\): give another"):
        main([path, "--seed", "7"])


@pytest.mark.thorough
def test_train_loss_covers_the_whole_run_after_resuming(settings, out):
    path = settings(**SAVING, logging_steps=3)
    whole = main([path])["train_loss"]
    for step in (2, 4):
        interrupt(out, step)
        assert main([path])["train_loss"] == pytest.approx(whole, rel=1e-6)


@pytest.mark.thorough
def test_second_run_in_a_folder_waits_for_the_first(settings, capsys):
    path = settings()

    def start_second() -> None:
        assert run_recipe([path]) == IN_USE

    run(parse_arguments([path]), [path], start_second)
    assert re.search(r"error: --output_dir \S+: another run uses it: wait for its end, or", capsys.readouterr().err)
    main([path, "--no_do_train", "--do_eval", "--model_name_or_path", str(Path(path).with_name("out"))])


@pytest.mark.thorough
def test_starting_over_removes_the_checkpoints(settings, out, caplog):
    path = settings(**SAVING)
    main([path])
    over = [path, "--seed", "7", "--save_steps", "4"]
    main([*over, "--output_dir", str(out.with_name("whole"))])
    main([*over, "--resume_from_checkpoint", "no"])
    assert {folder.name for folder in out.glob("checkpoint-*")} == {"checkpoint-4", "checkpoint-6"}
    interrupt(out, 4)
    caplog.clear()
    main(over)
    assert f"resuming from {out / 'checkpoint-4'}" in caplog.text
    assert tiny.history(out, "loss") == tiny.history(out.with_name("whole"), "loss")


@pytest.mark.thorough
def test_checkpoint_that_is_named_is_gone_back_to(settings, out, caplog):
    path = settings(**SAVING)
    main([path])
    whole = tiny.history(out, "loss")
    back = [path, "--resume_from_checkpoint", str(out / "checkpoint-2")]
    for folder in (out, out.with_name("other")):
        caplog.clear()
        with caplog.at_level(logging.INFO):
            main([*back, "--output_dir", str(folder)])
        assert f"resuming from {out / 'checkpoint-2'}" in caplog.text
        assert tiny.history(folder, "loss") == whole
    with pytest.raises(ValueError, match=rf"^{out}: its run has other settings \(seed 42, now 7\)"):
        main([*back, "--output_dir", str(out.with_name("third")), "--seed", "7"])


CASES_OF_INCOMPLETE_CHECKPOINTS = [
    # --save_only_model leaves such a checkpoint
    ({"trainer_state.json": "{}"}, "it has no scheduler.pt, and no state of the optimizer"),
    # a killed run leaves such checkpoints
    ({"scheduler.pt": ""}, "it has no complete trainer_state.json"),
    ({"scheduler.pt": "", "trainer_state.json": "{"}, "it has no complete trainer_state.json"),
]


@pytest.mark.parametrize(("files", "problem"), CASES_OF_INCOMPLETE_CHECKPOINTS)
def test_named_checkpoint_must_have_all_that_training_resumes_from(settings, tmp_path, files, problem):
    folder = tmp_path / "checkpoint-2"
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_text(content)
    way_out = "to start a new run from its weights, give it as --model_name_or_path"
    message = f"^--resume_from_checkpoint {folder}: {problem}: {way_out}$"
    with pytest.raises(ValueError, match=message):
        tiny.check([settings(resume_from_checkpoint=str(folder))])
    assert not (tmp_path / "out").exists()


@pytest.mark.thorough
def test_loss_that_is_not_finite_ends_the_run(settings, out):
    path = settings(**SAVING)
    with pytest.raises(FloatingPointError, match="start over, with --resume_from_checkpoint no, a lower --learning_ra"):
        main([path, "--learning_rate", "1e30"])
    main([path, "--resume_from_checkpoint", "no"])
    assert steps_of(out) == list(range(1, 7))


def noted(folder: Path) -> dict:
    """What a run or a checkpoint notes of its progress."""
    return json.loads((folder / "trainer_state.json").read_text())["stateful_callbacks"]["RunProgress"]["attributes"]


@pytest.mark.thorough
def test_checkpoint_notes_its_start_losses_and_seconds(settings, out):
    path, begun = settings(**SAVING, eval_strategy="steps", eval_steps=2), time.process_time()
    main([path])
    taken = time.process_time() - begun
    losses = [loss for _, loss in tiny.history(out, "loss")]
    found = noted(out / "checkpoint-4")
    assert found == {"loss_sum": pytest.approx(sum(losses[:4])), "seconds": found["seconds"]}
    assert 0 < noted(out / "checkpoint-2")["seconds"] < found["seconds"] < noted(out)["seconds"] < taken


def test_seconds_of_evaluations_are_left_out():
    progress = RunProgress()
    progress._clock = iter([1.0, 10.0, 12.5]).__next__
    for event in (progress.on_step_end, progress.on_evaluate, progress.on_step_end):
        event(None, None, None)
    assert progress.seconds == 1.0 + 2.5


@pytest.mark.thorough
@pytest.mark.parametrize("before", [1000.0, None])
def test_resumed_run_goes_on_counting_seconds_if_they_are_known(settings, out, before):
    path = interrupted(settings(**SAVING), out)
    state = out / "checkpoint-4" / "trainer_state.json"
    content = json.loads(state.read_text())
    content["stateful_callbacks"]["RunProgress"]["attributes"]["seconds"] = before
    state.write_text(json.dumps(content))
    main([path])
    found = noted(out)["seconds"]
    assert found is None if before is None else before < found < before + 100


@pytest.mark.thorough
def test_decoding_of_a_finished_run_may_change(settings, out):
    path = settings(do_eval=True)
    main([path])
    weights = (out / "model.safetensors").read_bytes()
    metrics = main([path, "--num_beams", "3"])
    assert (out / "model.safetensors").read_bytes() == weights
    assert GenerationConfig.from_pretrained(out).num_beams == 3
    assert main([path, "--num_beams", "3"]) == metrics


@pytest.mark.thorough
def test_decoding_of_a_finished_run_is_that_of_the_command(settings, tmp_path, out, tiny_tokenizer):
    model = tiny.bart(tiny_tokenizer)
    model.generation_config.update(num_beams=3, no_repeat_ngram_size=2, bos_token_id=9)
    start = save(tmp_path / "start", model, tiny_tokenizer)
    command = [settings(max_steps=1, model_type=None, config_overrides=None), "--model_name_or_path", start]
    main([*command, "--num_beams", "4", "--length_penalty", "3", "--no_repeat_ngram_size", "5"])
    # what the second command does not give, the start has
    second_command = [*command, "--do_eval", "--max_new_tokens", "6"]
    main(second_command)
    main([*second_command, "--output_dir", str(tmp_path / "fresh")])
    decoding = GenerationConfig.from_pretrained(out)
    assert (decoding.num_beams, decoding.length_penalty, decoding.no_repeat_ngram_size) == (3, None, 2)
    assert decoding.bos_token_id == tiny_tokenizer.bos_token_id
    assert decoding.to_dict() == GenerationConfig.from_pretrained(tmp_path / "fresh").to_dict()


@pytest.mark.thorough
def test_finished_command_leaves_its_results_as_they_are(settings, out, caplog):
    path = settings(**SAVING, do_eval=True, do_predict=True)
    metrics = main([path])
    # the lock is no result
    results = [file for file in out.rglob("*") if file.is_file() and file.name != LOCK]
    before = {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in results}
    with caplog.at_level(logging.INFO):
        assert main([path]) == metrics
    results = [file for file in out.rglob("*") if file.is_file() and file.name != LOCK]
    assert {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in results} == before
    assert f"{out} already has the results of this command: remove it to start over" in caplog.text


def test_finished_evaluation_is_not_repeated_by_a_command_that_also_predicts(settings, out):
    path = settings(max_steps=1, do_eval=True)
    metrics = main([path])
    written = (out / "eval_results.json").stat().st_mtime_ns
    more = main([path, "--do_predict"])
    assert more.items() > metrics.items()
    assert "predict_rouge1" in more
    assert (out / "eval_results.json").stat().st_mtime_ns == written
    assert {step: "do_predict" in command["settings"] for step, command in Ledger(out).steps.items()} == {
        "train": False,
        "eval": False,
        "predict": True,
    }


@pytest.mark.thorough
@pytest.mark.parametrize("saving", [SAVING, {}])
def test_finished_training_is_only_evaluated_by_a_command_that_asks_for_more(settings, out, saving):
    path = settings(**saving)
    train = main([path])
    weights = (out / "model.safetensors").read_bytes()
    more = [path, "--do_predict", "--do_eval", "--logging_steps", "2"]
    metrics = main(more)
    assert metrics.items() > train.items()
    assert (out / "model.safetensors").read_bytes() == weights
    card = (out / "README.md").read_text(encoding="utf-8")
    main([*more, "--output_dir", str(out.with_name("whole"))])
    whole = (out.with_name("whole") / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| ROUGE.*|^- updates.*", card, re.MULTILINE) == re.findall(
        r"^\| ROUGE.*|^- updates.*", whole, re.MULTILINE
    )
    first, *others = Ledger(out).steps.items()
    assert (first[0], first[1]["settings"].get("do_eval")) == ("train", None)
    assert {step: command["settings"]["logging_steps"] for step, command in others} == {"eval": 2, "predict": 2}


def raise_weights(file: Path) -> None:
    """Change the weights in a file, as training does."""
    weights = {name: weight + 0.01 for name, weight in load_file(file).items()}
    save_file(weights, file, {"format": "pt"})


def test_weights_of_the_start_belong_to_a_run(settings, tmp_path, out, tiny_tokenizer, caplog):
    caplog.set_level(logging.INFO)
    processor = tiny.processor(tiny_tokenizer)
    start = save(tmp_path / "start", tiny.gdlf(processor), processor)
    # the learning rate of the first update is 0
    command = [settings(max_steps=2), "--model_name_or_path", start]
    metrics = main(command)
    # a run may also replace the weights with which it began
    in_place = [*command, "--output_dir", start]
    assert main(in_place)["train_loss"] == metrics["train_loss"]
    assert main(in_place)["train_loss"] == metrics["train_loss"]
    with pytest.raises(
        ValueError, match=r"settings \(content of the starting weights \w{16}, now \w{16}\): give another"
    ):
        main(command)
    # earlier versions did not record the weights
    record = out / "run.yaml"
    lines = record.read_text(encoding="utf-8").splitlines(keepends=True)
    record.write_text("".join(line for line in lines if "starting weights" not in line), encoding="utf-8")
    caplog.clear()
    assert main(command) == metrics
    assert "already has the results of this command" in caplog.text


@pytest.mark.thorough
def test_validation_data_that_choose_the_weights_belong_to_a_run(settings, tmp_path, out):
    saving = {"save_strategy": "steps", "save_steps": 1, "eval_strategy": "steps", "eval_steps": 1, "max_steps": 1}
    command = [settings(**saving, do_eval=True, load_best_model_at_end=True, predict_with_generate=False)]
    other_rows = ["--validation_file", str(tmp_path / "train.jsonl")]
    fewer_rows = ["--max_eval_samples", "3"]
    main(command)
    with pytest.raises(ValueError, match=r"settings \(content of the validation data \w{16}, now \w{16}\): give"):
        main([*command, *other_rows])
    with pytest.raises(ValueError, match=r"settings \(max_eval_samples not set, now 3\): give another"):
        main([*command, *fewer_rows])
    # earlier versions did not record the validation data there
    record = out / "run.yaml"
    steps = yaml.safe_load(record.read_text(encoding="utf-8"))
    del steps["train"]["updates"]["content of the validation data"]
    del steps["train"]["updates"]["max_eval_samples"]
    record.write_text(yaml.safe_dump(steps), encoding="utf-8")
    assert main([*command, *other_rows])["eval_samples"] == 24
    # the last weights are kept, whatever their scores
    last = [*command, "--no_load_best_model_at_end", "--output_dir", str(out.with_name("last"))]
    main(last)
    assert main([*last, *fewer_rows])["eval_samples"] == 3


@pytest.mark.thorough
def test_weights_of_parts_and_of_an_adapters_base_belong_to_a_run(settings, tmp_path, bert_folder, tiny_tokenizer):
    parts = tmp_path / "parts"
    shutil.copytree(bert_folder, parts)
    overrides = {**tiny.SIZES, "encoder_type": "bert_transformer", "decoder_embedding": "bert", "bert_name": str(parts)}
    model = {"model_type": "copy_transformer", "tokenizer_name": bert_folder, "config_overrides": overrides}
    processor = tiny.processor(tiny_tokenizer)
    base = save(tmp_path / "base", tiny.gdlf(processor), processor)
    of_parts = [settings(**model, max_steps=1, output_dir=str(tmp_path / "of_parts"))]
    main(of_parts)
    unset = {"model_type": None, "config_overrides": None, "tokenizer_name": None}
    path = settings(**unset, max_steps=1)
    adapter = str(tmp_path / "adapter")
    of_base = [path, "--model_name_or_path", base, "--lora_r", "2", "--output_dir", adapter]
    of_adapter = [path, "--model_name_or_path", adapter, "--output_dir", str(tmp_path / "of_adapter")]
    for command in (of_base, of_adapter):
        main(command)
    raise_weights(parts / "model.safetensors")
    raise_weights(tmp_path / "base" / "model.safetensors")
    for command in (of_base, of_adapter):
        with pytest.raises(ValueError, match="content of the starting weights"):
            main(command)
    of_parts = [settings(**model, max_steps=1, output_dir=str(tmp_path / "of_parts"))]
    with pytest.raises(ValueError, match="content of the starting weights"):
        main(of_parts)


def test_record_describes_the_run(settings, tmp_path, out):
    path = settings(source_prefix="say: ", text_column="document")
    main([path, "--token", "hf_secret", "--seed", "7"])
    text = (out / "run.yaml").read_text(encoding="utf-8")
    (command,) = yaml.safe_load(text).values()
    assert "hf_secret" not in text
    assert command["command"] == f"hf-summ train {path} --seed 7"
    train = tmp_path / "train.jsonl"
    digest = hashlib.sha256(train.read_bytes()).hexdigest()
    assert command["data"]["train"] == {"files": {str(train): digest[:16]}, "rows": 24}
    assert (command["settings"]["source_prefix"], command["settings"]["seed"]) == ("say: ", 7)
    assert {"hf_summ", "transformers", "torch"} <= command["versions"].keys()
    assert command["updates"]["config_overrides ffn_dim"] == 32


@pytest.mark.thorough
def test_changed_folder_of_streamed_rows_is_refused(settings, tmp_path, out):
    folder = tmp_path / "news"
    folder.mkdir()
    tiny.write_corpus(folder, train=24)
    no_files = {"train_file": None, "validation_file": None, "test_file": None}
    batches = {"train_tokens_per_batch": None, "per_device_train_batch_size": 4}
    path = settings(**no_files, **batches, **SAVING, dataset_name=str(folder), streaming=True)
    interrupted(path, out)
    with (folder / "train.jsonl").open("a") as file:
        file.write(json.dumps({"document": "A ferry sank.", "summary": "ferry sinks"}) + "\n")
    with pytest.raises(ValueError, match=r"its run has other settings \(content of the training data \w{16}, now"):
        main([path])


def test_training_data_that_change_while_they_are_read_are_refused(settings, tmp_path, out, monkeypatch):
    path = settings(**SAVING)
    load = training_run.load

    def slow_load(*data):
        corpus = load(*data)
        tiny.write_corpus(tmp_path, train=20)
        return corpus

    monkeypatch.setattr(training_run, "load", slow_load)
    with pytest.raises(ValueError, match=r"/train\.jsonl: changed while it was read: rerun the command once"):
        main([path])
    assert not list(out.glob("checkpoint-*"))


def test_start_logs_what_will_be_done(settings, caplog):
    flags = ["--max_source_length", "20", "--max_steps", "12000", "--learning_rate", "1e20"]
    with pytest.raises(FloatingPointError), caplog.at_level(logging.INFO):
        main([settings(train_tokens_per_batch=2000), *flags])
    assert re.search(r"model: [\d,]+ parameters", caplog.text)
    assert "train: 24 documents" in caplog.text
    cut = re.search(
        r"train: (\d+) of 24 documents \(\d+%\) are truncated to 20 tokens, which keeps (\d+)% of their", caplog.text
    )
    assert cut is not None
    assert re.search(r"training: 12,000 updates in 12,000 epochs", caplog.text)
    assert "12,000 epochs: each document is seen 12,000 times; if that is too often, lower --max_steps" in caplog.text


@pytest.mark.thorough
@pytest.mark.parametrize(("warmup", "is_reported"), [("2", False), ("5", True)])
def test_a_warmup_longer_than_the_training_is_reported(settings, caplog, warmup, is_reported):
    with caplog.at_level(logging.WARNING):
        main([settings(max_steps=2), "--warmup_steps", warmup])
    assert (f"warms up for {warmup} updates, but the run has 2: it never reaches" in caplog.text) == is_reported
