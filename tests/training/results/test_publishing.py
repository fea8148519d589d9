"""What is pushed to the Hub, and what stays at home."""

from pathlib import Path

import pytest

from tests.conftest import ROOT, run_python
from tests.hub import LocalHub
from tests.training.conftest import PICKLES


@pytest.mark.thorough
def test_hub_gets_the_model_without_a_pickle(settings, tmp_path):
    saving = {"push_to_hub": True, "hub_model_id": "tester/bridges", "save_strategy": "steps", "save_steps": 4}
    path = settings(**saving, do_predict=True, report_to="tensorboard")
    with LocalHub() as hub:
        output, _ = run_python("run_summarization.py", path, cwd=ROOT, **hub.environment(tmp_path / "home"))
        assert output.endswith("model in tester/bridges: hf-summ summarize FILE --model tester/bridges\n")
        commits = hub.repositories["model", "tester/bridges"].commits
        assert not hub.unknown_requests
    # the first ones come with the checkpoints, while training goes on
    assert len(commits) > 2
    pushed = {name for _, files in commits for name in files}
    assert {"model.safetensors", "tokenizer.json", "README.md"} < pushed
    assert not [name for name in pushed if Path(name).suffix in PICKLES]
    assert not (tmp_path / "out" / "training_args.bin").exists()
    # what is of the corpus and of this machine stays at home
    kept = {"predictions.jsonl", "generated_predictions.txt", "run.yaml", ".run.lock"}
    assert {name for name in kept if (tmp_path / "out" / name).exists()} == kept
    assert list((tmp_path / "out").glob("runs/*/events*"))
    assert not [name for name in pushed if name in kept or "events" in name or "checkpoint" in name]
    settings_files = {name: content for _, files in commits for name, content in files.items() if "json" in name}
    assert not [name for name, content in settings_files.items() if str(tmp_path).encode() in content]


@pytest.mark.thorough
def test_the_same_command_pushes_a_finished_run_again(settings, tmp_path):
    path = settings(push_to_hub=True, hub_model_id="tester/bridges", do_eval=True)
    pushed = []
    for home in ("first", "second"):
        with LocalHub() as hub:
            run_python("run_summarization.py", path, cwd=ROOT, **hub.environment(tmp_path / home))
            commits = hub.repositories["model", "tester/bridges"].commits
        pushed.append({name: content for _, files in commits for name, content in files.items()})
    first, second = pushed
    assert second["model.safetensors"] == first["model.safetensors"]
    assert second["README.md"] == first["README.md"]
