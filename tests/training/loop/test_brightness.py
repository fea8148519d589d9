"""A Highlight-Transformer in the recipe: its phrases, and its brightness, which falls with the epochs."""

import json

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM

from hf_summ.data.vocabulary import fit_phrases, load_tokenizer
from hf_summ.training.folder.averaging import average_checkpoints
from hf_summ.training.run import main
from tests.training import tiny
from tests.training.conftest import check_two_processes


@pytest.fixture
def highlights(settings, processor_folder, tmp_path):
    """Writes the YAML of a run of a tiny Highlight-Transformer, with phrases of its corpus."""
    texts = [row["document"] for row in tiny.rows(24)]
    fit_phrases(texts, load_tokenizer(processor_folder)).save_pretrained(tmp_path / "phrases")

    def write(**changes):
        overrides = {**tiny.TRANSFORMER, "brightness_decay": 0.25, **changes.pop("config_overrides", {})}
        return settings(
            model_type="highlight_transformer",
            tokenizer_name=str(tmp_path / "phrases"),
            config_overrides=overrides,
            **{"train_tokens_per_batch": 400, "max_steps": 10, "save_strategy": "steps", "save_steps": 4, **changes},
        )

    return write


def epochs_of(folder) -> int:
    return json.loads((folder / "config.json").read_text(encoding="utf-8"))["epochs_trained"]


@pytest.mark.thorough
def test_run_resumed_within_an_epoch_goes_on_with_its_brightness(highlights, tmp_path):
    path = highlights()
    main([path, "--output_dir", str(tmp_path / "whole")])
    state = json.loads((tmp_path / "whole/trainer_state.json").read_text(encoding="utf-8"))
    epochs = {entry["step"]: entry["epoch"] for entry in state["log_history"] if "loss" in entry}
    # the checkpoints are neither at an end nor in one epoch
    assert [int(epochs[step]) for step in (4, 8, 10)] == [1, 2, 2] != [epochs[step] for step in (4, 8, 10)]
    assert [epochs_of(tmp_path / "whole" / f"checkpoint-{step}") for step in (4, 8, 10)] == [1, 2, 2]
    resume = ["--resume_from_checkpoint", str(tmp_path / "whole/checkpoint-4")]
    main([path, "--output_dir", str(tmp_path / "resumed"), *resume])
    keys = ("loss", "nll", "grad_norm")
    expected = tiny.history(tmp_path / "whole", *keys)
    assert tiny.history(tmp_path / "resumed", *keys) == [pytest.approx(entry, rel=1e-6) for entry in expected]
    main([highlights(config_overrides={"brightness_decay": 1.0}), "--output_dir", str(tmp_path / "bright")])
    bright = tiny.history(tmp_path / "bright", *keys)
    # the first epoch is the same
    assert bright[1] == pytest.approx(expected[1])
    assert bright[6] != pytest.approx(expected[6])


def test_second_run_counts_on_from_the_epochs_of_its_model(tiny_tokenizer, tmp_path):
    processor = tiny.processor(tiny_tokenizer)
    rows = tiny.prepared(processor, 4)

    def epochs_of_run(folder, epochs, start, resume=None):
        """The epochs in the config of a model that had been trained for `start`, after a run of an update an epoch."""
        model = tiny.gdlf(processor)
        model.config.epochs_trained = start
        settings = {"per_device_train_batch_size": 4, "max_steps": epochs, "save_strategy": "steps", "save_steps": 1}
        tiny.trainer(model, processor, rows, tmp_path / folder, **settings).train(resume)
        return model.config.epochs_trained

    assert epochs_of_run("second", 2, start=3) == 3 + 2
    assert epochs_of(tmp_path / "second/checkpoint-1") == 3 + 1
    # whether a user resumes with the model at the start of the run or with the checkpoint's
    for start in (3, 4):
        resume = str(tmp_path / "second/checkpoint-1")
        assert epochs_of_run(f"resumed{start}", 2, start, resume) == 3 + 2


@pytest.mark.thorough
def test_best_checkpoint_has_its_own_brightness(highlights, tmp_path):
    evaluation = {"do_eval": True, "eval_strategy": "steps", "eval_steps": 4, "load_best_model_at_end": True}
    # so that the best is the first one
    best = {"metric_for_best_model": "loss", "greater_is_better": True}
    metrics = main([highlights(max_steps=12, **evaluation, **best)])
    state = json.loads((tmp_path / "out/trainer_state.json").read_text(encoding="utf-8"))
    assert state["best_model_checkpoint"].endswith("checkpoint-4")
    assert epochs_of(tmp_path / "out") == 1
    first = next(entry for entry in state["log_history"] if "eval_loss" in entry)
    assert metrics["eval_loss"] == pytest.approx(first["eval_loss"])
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out", dtype=torch.bfloat16)
    assert loaded.config.alpha == 30 * 0.25
    average_checkpoints(tmp_path / "out", tmp_path / "mean", last=2)
    assert epochs_of(tmp_path / "mean") == epochs_of(tmp_path / "out" / "checkpoint-12")


@pytest.mark.thorough
def test_phrases_of_a_corpus_are_read(highlights, tmp_path):
    rows = tiny.rows(12)
    losses = []
    for number, phrases in enumerate(({"Monday": 3.0}, {"Residents": 3.0}, None)):
        corpus = tmp_path / f"phrases{number}.jsonl"
        files = {"train_file": tiny.write_rows(corpus, [{**row, "phrases": phrases} for row in rows])}
        files |= {"validation_file": None, "test_file": None}
        path = highlights(**files, max_steps=1, save_strategy="no", save_steps=None)
        losses.append(main([path, "--output_dir", str(tmp_path / f"out{number}")])["train_loss"])
    assert len(set(losses)) == 3
    # rows of null are found as if there were no column
    tiny.write_rows(corpus, rows)
    assert main([path, "--output_dir", str(tmp_path / "without")])["train_loss"] == losses[2]


def test_training_without_frequencies_says_which_command_makes_them(highlights, processor_folder):
    with pytest.raises(ValueError, match="fit them with `hf-summ key-phrases CORPUS --processor FOLDER --output"):
        main([highlights(), "--tokenizer_name", processor_folder])


@pytest.mark.thorough
def test_two_processes_have_the_losses_and_the_brightness_of_one(highlights, tmp_path):
    rows = tiny.rows(24)
    pairs = [{"documents": [row["document"], rows[-1]["document"]], "summary": row["summary"]} for row in rows]
    corpus = tiny.write_rows(tmp_path / "several.jsonl", pairs)
    path = highlights(train_file=corpus, max_steps=6, do_eval=True, eval_strategy="steps", eval_steps=6)
    check_two_processes(path, tmp_path, ("loss", "nll", "grad_norm"), ("eval_loss", "eval_nll"))
    alone, *others = (epochs_of(tmp_path / name) for name in ("alone", "shards", "whole"))
    assert alone > 1
    assert others == [alone] * 2
