"""A run over several processes: what each way computes and saves, and what is refused."""

import json
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
    full, sharded, again = ([path, "--fsdp", "--output_dir", str(tmp_path / name)] for name in ("full", "shards", "x"))
    sharded += ["--fsdp_config", SHARDS]
    resumed = [
        [*again[:3], str(tmp_path / f"{name}2"), "--resume_from_checkpoint", str(tmp_path / name / "checkpoint-3")]
        for name in ("full", "shards")
    ]
    resumed[1] += ["--fsdp_config", SHARDS]
    output, _ = launch([full, sharded, *resumed])
    # the embedding is one of the weights that were found in shards
    assert re.findall(r"shards of (\S+)", output).count("model.shared.weight") == 8

    expected = tiny.history(tmp_path / "alone", *KEYS)
    scores = tiny.history(tmp_path / "alone", *SCORES)
    weights = load_file(tmp_path / "alone" / "model.safetensors")
    assert (len(expected), len(scores)) == (6, 2)
    files = {file.name for file in (tmp_path / "alone").glob("*.py")}
    for name in ("full", "shards", "full2", "shards2"):
        folder = tmp_path / name
        assert tiny.history(folder, *KEYS) == [pytest.approx(entry, rel=1e-4) for entry in expected], name
        assert tiny.history(folder, *SCORES) == [pytest.approx(entry, rel=1e-4) for entry in scores], name
        assert json.loads((folder / "predict_results.json").read_text())["predict_samples"] == 7
        # one whole model, with its own code
        saved, first = (load_file(path / "model.safetensors") for path in (folder, tmp_path / "full"))
        assert saved.keys() == weights.keys()
        assert all(torch.equal(value, first[key]) for key, value in saved.items())
        assert {file.name for file in folder.glob("*.py")} == files
        card = (folder / "README.md").read_text(encoding="utf-8")
        assert "- devices: 2 × cpu\n" in card
        assert f" with {sum(value.numel() for value in saved.values()):,} parameters" in card
        assert type(AutoModelForSeq2SeqLM.from_pretrained(folder)) is GdlfForConditionalGeneration

    checkpoint = tmp_path / "shards" / "checkpoint-3"
    assert checkpoint_problem(checkpoint) is None
    with pytest.raises(ValueError, match="its weights are in shards, which only training reads"):
        average_checkpoints(checkpoint.parent, tmp_path / "mean", last=2)
    (checkpoint / "pytorch_model_fsdp_0" / ".metadata").unlink()
    assert checkpoint_problem(checkpoint) == "its pytorch_model_fsdp_0 is incomplete"
    average_checkpoints(tmp_path / "full", tmp_path / "mean", last=2)
    assert not [file.name for file in (tmp_path / "mean").iterdir() if file.suffix in (".bin", ".pt", ".pth")]


@pytest.mark.thorough
def test_model_with_a_frozen_bert_is_sharded(settings, bert_folder, tmp_path):
    bert = {"encoder_type": "bert_transformer", "decoder_embedding": "bert", "bert_name": bert_folder}
    bert |= {"bert_window_size": 16, "bert_window_stride": 8, "token_shift": True}
    model = {"model_type": "copy_transformer", "tokenizer_name": bert_folder}
    model |= {"config_overrides": tiny.TRANSFORMER | bert, "max_source_length": 48, "max_target_length": 16}
    path = settings(**model, **EVALUATION, max_steps=2)
    check_two_processes(path, tmp_path, KEYS, SCORES)
    alone, full = (load_file(tmp_path / name / "model.safetensors") for name in ("alone", "shards"))
    frozen = [name for name in alone if ".bert.bert." in name]
    assert frozen
    assert alone.keys() == full.keys()
    assert all(torch.equal(alone[name], full[name]) for name in frozen)


@pytest.mark.thorough
def test_recurrent_model_over_two_processes(settings, tmp_path):
    fit_processor(["other words"] * 2, units="words", tags="none").save_pretrained(tmp_path / "words")
    # without latent variables, whose noise differs between processes
    sizes = {"embedding_size": 12, "hidden_size": 16, "latent_size": 0, "copy": True, "tie_output": True}
    model = {"model_type": "drgd", "tokenizer_name": str(tmp_path / "words"), "config_overrides": sizes}
    # every word is unknown
    path = settings(**model, **EVALUATION, replace_unk=True, max_steps=2)
    latent = [path, "--config_overrides", "latent_size=4", "--fsdp", "--output_dir", str(tmp_path / "latent")]
    check_two_processes(path, tmp_path, KEYS, SCORES, more=(latent,))
    # words were replaced: without them there is nothing to score
    assert tiny.history(tmp_path / "alone", "eval_rouge1")[0][0] > 0
    ((_, kl, *_),) = tiny.history(tmp_path / "latent", "eval_kl", "eval_nll_zero_latent", "eval_active_units")
    assert kl > 0


@pytest.mark.thorough
def test_guided_model_over_two_processes(settings, tmp_path):
    sizes = {**tiny.TRANSFORMER, "encoder_layers": 2, "guidance_sum": "documents"}
    evaluation = {**EVALUATION, "eval_steps": 3, "do_predict": True, "loss_reduction": "documents"}
    path = settings(model_type="sagcopy", config_overrides=sizes, max_target_length=16, max_steps=3, **evaluation)
    check_two_processes(path, tmp_path, ("loss", "nll", "guidance", "grad_norm"), (*SCORES, "eval_guidance"))
    divergences = [
        [row["divergence"] for row in read_rows(tmp_path / name / "predictions.jsonl")]
        for name in ("alone", "shards", "whole")
    ]
    assert len(divergences[0]) == 7
    assert divergences[1:] == [pytest.approx(divergences[0], rel=1e-3, abs=1e-5)] * 2


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--deepspeed", "zero3.json"], r"DeepSpeed is not supported: train with DDP \(`accelerate launch`\) or FSDP2"),
        (["--fsdp", "--fsdp_config", '{"version": 1}'], "FSDP version 1 is not supported: use version 2"),
        (["--fsdp", "--fsdp_config", "fsdp.json"], "FSDP version 1 is not supported"),
    ],
)
def test_other_ways_are_refused_as_flags(settings, tmp_path, monkeypatch, flags, message):
    monkeypatch.chdir(tmp_path)
    Path("fsdp.json").write_text('{"fsdp_version": 1}', encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        parse_arguments([settings(), *flags])


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"ACCELERATE_USE_DEEPSPEED": "true"}, "DeepSpeed is not supported"),
        ({"ACCELERATE_USE_FSDP": "true"}, "FSDP version 1 is not supported"),
        ({"PARALLELISM_CONFIG_TP_SIZE": "2"}, "parallelism of tensors, contexts and sequences is not supported: train"),
        ({"PARALLELISM_CONFIG_SP_SIZE": "2"}, "parallelism of tensors"),
    ],
)
def test_other_ways_are_refused_when_the_launcher_asks(settings, monkeypatch, variables, message):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=message):
        parse_arguments([settings()])


def test_shards_of_one_process_are_refused(settings, monkeypatch):
    # transformers passes the flags on to accelerate in the environment
    monkeypatch.setattr(os, "environ", os.environ.copy())
    with pytest.raises(ValueError, match=r"^--fsdp needs several processes: start the run with `accelerate launch`$"):
        parse_arguments([settings(), "--fsdp"])
