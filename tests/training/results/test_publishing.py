"""What is pushed to the Hub, and what stays at home."""

from pathlib import Path

import pytest
from transformers import TrainerState
from transformers.utils.hub import hf_api

from hf_summ.training.results.privacy import PRIVATE, uploads_without
from tests.conftest import ROOT, run_python
from tests.hub import LocalHub
from tests.training import tiny
from tests.training.conftest import PICKLES


@pytest.mark.parametrize("folder", ["/mnt/ana/out", "secret/out"])
def test_uploaded_state_of_a_run_has_no_folder_of_this_machine(tmp_path, monkeypatch, folder):
    state = TrainerState(global_step=8, best_global_step=4, best_model_checkpoint=f"{folder}/checkpoint-4")
    state.save_to_json(str(tmp_path / "trainer_state.json"))
    uploads = []

    def upload(api, folder_path, ignore_patterns, repo_id):
        uploads.append(tiny.read_json(Path(folder_path) / "trainer_state.json"))

    monkeypatch.setattr(type(hf_api()), "upload_folder", upload)
    with uploads_without(PRIVATE):
        hf_api().upload_folder(repo_id="tester/news", folder_path=str(tmp_path))
    state.best_model_checkpoint = "checkpoint-4"
    assert [TrainerState(**content) for content in uploads] == [state]


@pytest.mark.thorough
def test_hub_gets_the_model_without_a_pickle(settings, tmp_path):
    saving = {"push_to_hub": True, "hub_model_id": "tester/bridges", "save_strategy": "steps", "save_steps": 4}
    saving |= {"eval_strategy": "steps", "eval_steps": 4, "load_best_model_at_end": True}
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
