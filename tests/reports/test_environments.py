"""Full disks, threads, and files that are none."""

import copy
import json
import logging
import os
import resource
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from transformers import pipeline
from transformers.utils.logging import get_logger

from hf_summ.cli import main
from hf_summ.common.files import write_atomically
from hf_summ.common.processes import omp_threads, threads_for
from hf_summ.pretrained import bundled_model
from hf_summ.runtimes import OnnxSummarizer
from tests.conftest import SENTENCES, save
from tests.models.architectures import DRGD, build_with_processor
from tests.reports.tiny_models import foreign

PROGRAM = [sys.executable, "-m", "hf_summ"]


def write_rows(path: Path, word: str = "mayor") -> str:
    rows = [{"document": f"The {word} opened bridge {row}.", "summary": f"{word} opens"} for row in range(9)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.fixture
def full_disk():
    """Files may have no more than a few kilobytes, as on a full disk."""
    soft_limit, hard_limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous_handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (9000, hard_limit))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft_limit, hard_limit))
    signal.signal(signal.SIGXFSZ, previous_handler)


def test_a_full_disk_ends_the_command_in_one_line_and_leaves_nothing(tmp_path, full_disk, capsys):
    rows = write_rows(tmp_path / "rows.jsonl")
    assert main(["vocabulary", rows, "--output", str(tmp_path / "made"), "--tags", "none"]) == 2
    last_line = capsys.readouterr().err.splitlines()[-1]
    assert "file too large" in last_line.lower()
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]


def test_a_full_disk_is_named_with_the_output(tmp_path, full_disk):
    with pytest.raises(OSError, match=rf"File too large: '{tmp_path}/report.md'"):
        write_atomically(tmp_path / "report.md", "x" * 10_000)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["vocabulary", "key-phrases"])
def test_a_folder_with_files_is_not_replaced(tmp_path, capsys, command, tiny_tokenizer):
    folder, rows = tmp_path / "used", write_rows(tmp_path / "rows.jsonl")
    tiny_tokenizer.save_pretrained(folder)
    processor = save(tmp_path / "other", tiny_tokenizer)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    flags = {"vocabulary": ["--tags", "none"], "key-phrases": ["--processor", processor]}
    assert main([command, rows, "--output", str(folder), *flags[command]]) == 2
    assert f"--output {folder}: must be a new or empty folder" in capsys.readouterr().err
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


# from_pretrained replaces functions of torch while it loads
@pytest.mark.thorough
def test_threads_load_at_the_same_time(tmp_path, tiny_tokenizer):
    model = foreign("bart", tiny_tokenizer)
    folder = save(tmp_path, model, tiny_tokenizer)
    barrier = threading.Barrier(4)

    def load() -> dict[str, torch.Tensor]:
        barrier.wait()
        return pipeline("summarization", model=folder, device="cpu").model.state_dict()

    for _ in range(3):
        with ThreadPoolExecutor(4) as threads:
            loading = [threads.submit(load) for _ in range(4)]
        for future in loading:
            weights = future.result()
            for name, weight in model.state_dict().items():
                assert torch.equal(weights[name], weight)


# weights whose products exceed float16
@pytest.mark.parametrize("beams", [1, 2])
@pytest.mark.parametrize("name", ["drgd", "bart"])
def test_products_that_are_not_finite_are_noted(tiny_tokenizer, caplog, name, beams):
    model, processor = build_with_processor(DRGD, tiny_tokenizer)
    if name == "bart":
        model = foreign("bart", tiny_tokenizer)
    model.get_input_embeddings().weight.data[:] = float("nan")
    logging.getLogger("transformers").propagate = True
    get_logger("transformers").warning_once.cache_clear()
    logging.getLogger("hf_summ.models").propagate = True
    with caplog.at_level(logging.WARNING):
        if name == "bart":
            pipeline("summarization", model=model, tokenizer=processor.tokenizer, num_beams=beams)(SENTENCES[0])
        else:
            inputs = processor(SENTENCES[:1], return_tensors="pt")
            model.generate(**inputs, num_beams=beams, max_new_tokens=3, tokenizer=processor)
    assert caplog.text.count("the model computes NaN") == 1


def test_settings_that_are_empty_lists_are_settings(tiny_tokenizer):
    pipe = pipeline("summarization", model=foreign("bart", tiny_tokenizer), tokenizer=copy.deepcopy(tiny_tokenizer))
    settings = {"num_beams": 1, "max_new_tokens": 3}
    assert pipe(SENTENCES[0], suppress_tokens=[], **settings) == pipe(SENTENCES[0], **settings)


# transformers saves no code of __main__, but names its file
@pytest.mark.thorough
def test_classes_of_a_notebook_are_saved_as_ours(tiny_tokenizer, tmp_path):
    folder = save(tmp_path / "drgd", *build_with_processor(DRGD, tiny_tokenizer))
    program = """
import sys
import hf_summ
class Model(hf_summ.DrgdForConditionalGeneration): pass
class Processor(hf_summ.DrgdProcessor): pass
for subclass in (Model, Processor):
    loaded = subclass.from_pretrained(sys.argv[1])
    loaded.save_pretrained(sys.argv[2])
    assert type(loaded) is subclass
"""
    saved = tmp_path / "saved"
    subprocess.run([sys.executable, "-c", program, folder, str(saved)], check=True)
    config = json.loads((saved / "config.json").read_text())
    assert config["architectures"] == ["DrgdForConditionalGeneration"]
    for name in config["auto_map"].values():
        assert (saved / f"{name.partition('.')[0]}.py").exists()
    assert pipeline("summarization", model=str(saved))(SENTENCES[0], max_new_tokens=2)


# values of OMP_NUM_THREADS, and the number of threads that they set (pydata/numexpr#421, #318)
CASES_OF_THREADS = [("4,2", 4), (" 3 ", 3), ("", None), ("1.0", None), ("0", None)]


@pytest.mark.parametrize(("value", "threads"), CASES_OF_THREADS)
def test_any_number_of_threads_may_be_set(monkeypatch, value, threads):
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert omp_threads() == threads
    assert (threads_for(1) is None) == (threads is not None)
    assert OnnxSummarizer(bundled_model("arxiv-tldr"))("We present a parser.", num_beams=1, max_new_tokens=2)


# OHF-Voice/wyoming-piper#64: from version 1.29, ONNX Runtime sends events to its vendor
@pytest.mark.thorough
def test_no_telemetry_is_sent(tmp_path):
    (tmp_path / "a.txt").write_text(SENTENCES[0])
    home = tmp_path / "home"
    home.mkdir()
    # on machines of continuous integration, none is sent in any case
    environment = {**os.environ, "HOME": str(home)}
    for name in ("ORT_DISABLE_TELEMETRY", "CI", "HF_HOME", "XDG_CACHE_HOME"):
        environment.pop(name, None)
    subprocess.run([*PROGRAM, "summarize", "a.txt"], cwd=tmp_path, env=environment, check=True)
    assert not list(home.rglob("*onnxruntime*"))
