"""A run over several processes: what each way computes and saves, and what is refused."""

import os
import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForSeq2SeqLM

from hf_summ.checkpoints.folders import checkpoint_problem
from hf_summ.data.vocabulary import fit_processor
from hf_summ.models.modeling_gdlf import GdlfForConditionalGeneration
from hf_summ.training.folder.averaging import average_checkpoints
from hf_summ.training.parsing import parse_arguments
from hf_summ.training.run import main
from tests.data.files import read_rows
from tests.training import tiny
from tests.training.conftest import check_two_processes, launch

SHARDS = '{"state_dict_type": "SHARDED_STATE_DICT"}'
KEYS = ("loss", "nll", "grad_norm", "learning_rate")
SCORES = ("eval_loss", "eval_nll", "eval_rouge1", "eval_gen_len")
EVALUATION = {"do_eval": True, "eval_strategy": "steps", "eval_steps": 2}


@pytest.mark.thorough
def test_shards_give_the_losses_of_one_process(settings, tmp_path):
    saving = {"eval_strategy": "steps", "eval_steps": 3, "save_strategy": "steps", "save_steps": 3}
    path = settings(do_eval=True, do_predict=True, max_steps=6, **saving)
    main([path, "--gradient_accumulation_steps", "2", "--output_dir", str(tmp_path / "alone")])

    def command(name: str, *flags: str) -> list[str]:
        return [path, "--fsdp", "--output_dir", str(tmp_path / name), *flags]

    resume_full = ["--resume_from_checkpoint", str(tmp_path / "full" / "checkpoint-3")]
    resume_shards = ["--resume_from_checkpoint", str(tmp_path / "shards" / "checkpoint-3")]
    sharded = ["--fsdp_config", SHARDS]
    commands = [
        command("full"),
        command("shards", *sharded),
        command("full2", *resume_full),
        command("shards2", *resume_shards, *sharded),
    ]
    output, _ = launch(commands)
    # the embedding is among the weights in shards: in each of two processes for each of four runs
    assert re.findall(r"shards of (\S+)", output).count("model.shared.weight") == 8

    expected = tiny.history(tmp_path / "alone", *KEYS)
    expected_scores = tiny.history(tmp_path / "alone", *SCORES)
    expected_weights = load_file(tmp_path / "alone" / "model.safetensors")
    full_weights = load_file(tmp_path / "full" / "model.safetensors")
    assert len(expected) == 6
    assert len(expected_scores) == 2
    code_files = {file.name for file in (tmp_path / "alone").glob("*.py")}
    for name in ("full", "shards", "full2", "shards2"):
        folder = tmp_path / name
        assert tiny.history(folder, *KEYS) == [pytest.approx(entry, rel=1e-4) for entry in expected], name
        assert tiny.history(folder, *SCORES) == [pytest.approx(entry, rel=1e-4) for entry in expected_scores], name
        assert tiny.read_json(folder / "predict_results.json")["predict_samples"] == 7
        # one whole model, with the code of its architecture
        saved = load_file(folder / "model.safetensors")
        assert saved.keys() == expected_weights.keys()
        for key, weight in saved.items():
            assert torch.equal(weight, full_weights[key])
        assert {file.name for file in folder.glob("*.py")} == code_files
        card = (folder / "README.md").read_text(encoding="utf-8")
        assert "- devices: 2 × cpu\n" in card
        assert f" with {sum(value.numel() for value in saved.values()):,} parameters" in card
        assert type(AutoModelForSeq2SeqLM.from_pretrained(folder)) is GdlfForConditionalGeneration

    checkpoint = tmp_path / "shards" / "checkpoint-3"
    assert checkpoint_problem(checkpoint) is None
    with pytest.raises(ValueError, match="its weights are in shards of FSDP, which only training reads"):
        average_checkpoints(checkpoint.parent, tmp_path / "mean", last=2)
    (checkpoint / "pytorch_model_fsdp_0" / ".metadata").unlink()
    assert checkpoint_problem(checkpoint) == "its pytorch_model_fsdp_0 is incomplete"
    average_checkpoints(tmp_path / "full", tmp_path / "mean", last=2)
    for file in (tmp_path / "mean").iterdir():
        assert file.suffix not in (".bin", ".pt", ".pth")


@pytest.mark.thorough
def test_model_with_a_frozen_bert_is_sharded(settings, bert_folder, tmp_path):
    bert = {"encoder_type": "bert_transformer", "decoder_embedding": "bert", "bert_name": bert_folder}
    bert |= {"bert_window_size": 16, "bert_window_stride": 8, "token_shift": True}
    model = {"model_type": "copy_transformer", "tokenizer_name": bert_folder}
    model |= {"config_overrides": tiny.TRANSFORMER | bert, "max_source_length": 48, "max_target_length": 16}
    path = settings(**model, **EVALUATION, max_steps=2)
    check_two_processes(path, tmp_path, KEYS, SCORES)
    expected = load_file(tmp_path / "alone" / "model.safetensors")
    weights = load_file(tmp_path / "shards" / "model.safetensors")
    assert weights.keys() == expected.keys()
    frozen = [name for name in expected if ".bert.bert." in name]
    assert frozen
    for name in frozen:
        assert torch.equal(weights[name], expected[name])


@pytest.mark.thorough
def test_recurrent_model_over_two_processes(settings, tmp_path):
    fit_processor(["other words"] * 2, units="words", tags="none").save_pretrained(tmp_path / "words")
    # without latent variables, whose noise differs between processes
    sizes = {"embedding_size": 12, "hidden_size": 16, "latent_size": 0, "copy": True, "tie_output": True}
    model = {"model_type": "drgd", "tokenizer_name": str(tmp_path / "words"), "config_overrides": sizes}
    # every word is unknown
    path = settings(**model, **EVALUATION, replace_unk=True, max_steps=2)
    latent = [path, "--config_overrides", "latent_size=4", "--fsdp", "--output_dir", str(tmp_path / "latent")]
    check_two_processes(path, tmp_path, KEYS, SCORES, further_commands=(latent,))
    # words were replaced: without them there is nothing to score
    assert tiny.history(tmp_path / "alone", "eval_rouge1")[0][0] > 0
    evaluations = tiny.history(tmp_path / "latent", "eval_kl", "eval_nll_zero_latent", "eval_active_units")
    assert len(evaluations) == 1
    assert evaluations[0][1] > 0


@pytest.mark.thorough
def test_guided_model_over_two_processes(settings, tmp_path):
    sizes = {**tiny.TRANSFORMER, "encoder_layers": 2, "guidance_sum": "documents"}
    evaluation = {**EVALUATION, "eval_steps": 3, "do_predict": True, "loss_reduction": "documents"}
    path = settings(model_type="sagcopy", config_overrides=sizes, max_target_length=16, max_steps=3, **evaluation)
    check_two_processes(path, tmp_path, ("loss", "nll", "guidance", "grad_norm"), (*SCORES, "eval_guidance"))

    def divergences(name: str) -> list[float]:
        return [row["divergence"] for row in read_rows(tmp_path / name / "predictions.jsonl")]

    expected = divergences("alone")
    assert len(expected) == 7
    assert divergences("shards") == pytest.approx(expected, rel=1e-3, abs=1e-5)
    assert divergences("whole") == pytest.approx(expected, rel=1e-3, abs=1e-5)


@pytest.mark.thorough
def test_two_processes_resume_within_an_epoch_in_every_order(settings, tmp_path):
    # 24 rows are 6 updates of an epoch, so the second epoch is interrupted
    path = settings(
        train_tokens_per_batch=None, per_device_train_batch_size=2, max_steps=11, save_strategy="steps", save_steps=8
    )
    strategies = ("random", "group_by_length", "batch_rebalance")
    commands = []
    for strategy in strategies:
        command = [path, "--train_sampling_strategy", strategy]
        checkpoint = str(tmp_path / strategy / "checkpoint-8")
        commands.append([*command, "--output_dir", str(tmp_path / strategy)])
        resumed_folder = str(tmp_path / f"{strategy}_resumed")
        commands.append([*command, "--output_dir", resumed_folder, "--resume_from_checkpoint", checkpoint])
    launch(commands, "two_processes.py")
    for strategy in strategies:
        expected = tiny.history(tmp_path / strategy, "loss", "grad_norm")
        assert len(expected) == 11
        assert tiny.history(tmp_path / f"{strategy}_resumed", "loss", "grad_norm") == expected, strategy


CASES_OF_FLAGS = [
    (["--deepspeed", "zero3.json"], r"DeepSpeed is not supported: train with DDP \(`accelerate launch`\) or FSDP2"),
    (["--fsdp", "--fsdp_config", '{"version": 1}'], "FSDP version 1 is not supported: use version 2"),
    (["--fsdp", "--fsdp_config", "fsdp.json"], "FSDP version 1 is not supported"),
]


@pytest.mark.parametrize(("flags", "message"), CASES_OF_FLAGS)
def test_other_ways_are_refused_as_flags(settings, tmp_path, monkeypatch, flags, message):
    monkeypatch.chdir(tmp_path)
    Path("fsdp.json").write_text('{"fsdp_version": 1}', encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        parse_arguments([settings(), *flags])


# variables of the environment that `accelerate launch` sets
CASES_OF_LAUNCHERS = [
    ("ACCELERATE_USE_DEEPSPEED", "true", "DeepSpeed is not supported"),
    ("ACCELERATE_USE_FSDP", "true", "FSDP version 1 is not supported"),
    ("PARALLELISM_CONFIG_TP_SIZE", "2", "parallelism of tensors, contexts and sequences is not supported: train"),
    ("PARALLELISM_CONFIG_SP_SIZE", "2", "parallelism of tensors"),
]


@pytest.mark.parametrize(("variable", "value", "message"), CASES_OF_LAUNCHERS)
def test_other_ways_are_refused_when_the_launcher_asks(settings, monkeypatch, variable, value, message):
    monkeypatch.setenv(variable, value)
    with pytest.raises(ValueError, match=message):
        parse_arguments([settings()])


def test_shards_of_one_process_are_refused(settings, monkeypatch):
    # transformers passes the flags on to accelerate in the environment
    monkeypatch.setattr(os, "environ", os.environ.copy())
    with pytest.raises(ValueError, match=r"^--fsdp needs several processes: start the run with `accelerate launch`$"):
        parse_arguments([settings(), "--fsdp"])
