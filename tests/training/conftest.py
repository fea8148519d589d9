"""Fixtures and helpers for the tests of training."""

import json
from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertForPreTraining

from hf_summ.training.run import main
from tests.conftest import ROOT, run_python, save, word_piece_tokenizer
from tests.training import tiny

CPU = {"ACCELERATE_USE_CPU": "1"}
# the arguments of Python with which a script runs in two processes
TWO = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--main_process_port", "0"]
PICKLES = {".bin", ".pt", ".pth", ".pkl"}
SCORES = {10: 3.0, 20: 5.0, 30: 4.0}


@pytest.fixture(scope="session")
def processor_folder(tiny_tokenizer, tmp_path_factory) -> str:
    """A saved processor."""
    return save(tmp_path_factory.mktemp("processor"), tiny.processor(tiny_tokenizer))


@pytest.fixture(scope="session")
def bert_folder(tmp_path_factory) -> str:
    """A folder with a tiny BERT and its vocabulary, like one that is downloaded."""
    tokenizer = word_piece_tokenizer([row["document"] for row in tiny.rows(24)], 200)
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 16}
    bert = BertForPreTraining(BertConfig(vocab_size=len(tokenizer), **sizes))
    return save(tmp_path_factory.mktemp("bert"), tokenizer, bert)


@pytest.fixture
def settings(tmp_path, processor_folder):
    """Writes the YAML of a short run over a new corpus."""
    files = tiny.write_corpus(tmp_path, train=24, validation=5, test=7)

    def write(**changes):
        defaults = {"cache_dir": str(tmp_path / "cache"), "tokenizer_name": processor_folder}
        return tiny.write_settings(tmp_path, **defaults | files | changes)

    return write


@pytest.fixture
def run_folder(tmp_path, tiny_tokenizer) -> Path:
    """Three checkpoints of a tiny GDLF as the Trainer leaves them."""
    processor = tiny.processor(tiny_tokenizer)
    model = tiny.gdlf(processor)
    history = []
    for step, score in SCORES.items():
        history.append({"step": step, "eval_loss": 1.0, "eval_rouge2": score})
    for step in SCORES:
        folder = tmp_path / "run" / f"checkpoint-{step}"
        torch.nn.init.normal_(model.model.shared.weight)
        save(folder, model, processor)
        for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
            torch.save({"state": {}}, folder / name)
        state = {"global_step": step, "best_metric": 5.0, "best_global_step": 20, "log_history": history}
        (folder / "trainer_state.json").write_text(json.dumps(state))
    (tmp_path / "run" / "checkpoint-other").mkdir()
    return tmp_path / "run"


def launch(commands: list[list[str]], script: str = "sharded_processes.py") -> tuple[str, str]:
    """Run commands in turn in two processes, which by default shard their models; returns output and messages."""
    path = str(Path(__file__).with_name(script))
    return run_python(*TWO, path, json.dumps(commands), cwd=ROOT, **CPU)


def check_two_processes(
    path: str, folder: Path, *series: tuple[str, ...], further_commands: tuple[list[str], ...] = ()
) -> None:
    """Runs of two processes, whose models are whole or in shards, log these values as one process does."""
    main([path, "--gradient_accumulation_steps", "2", "--output_dir", str(folder / "alone")])
    launch([[path, "--fsdp", "--output_dir", str(folder / "shards")], *further_commands])
    launch([[path, "--output_dir", str(folder / "whole")]], "two_processes.py")
    for keys in series:
        entries = tiny.history(folder / "alone", *keys)
        assert entries
        expected = [pytest.approx(entry, rel=1e-4) for entry in entries]
        assert tiny.history(folder / "shards", *keys) == expected
        assert tiny.history(folder / "whole", *keys) == expected
