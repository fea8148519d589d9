"""The identity of a checkpoint, by which runs and workers know that it is the same."""

import json

import pytest
from peft import LoraConfig, get_peft_model

from tests.conftest import save
from tests.models.architectures import GDLF, build_with_processor
from tests.models.test_hub import run

PUSH = """
import sys
from huggingface_hub import HfApi
for name in sys.argv[1:]:
    HfApi().create_repo(f"org/{name}")
    HfApi().upload_folder(repo_id=f"org/{name}", folder_path=name)
"""
READ = """
import json, sys
from hf_summ.runtimes.folders import model_identity
for name in sys.argv[1:]:
    print("RESULT", json.dumps(model_identity(f"org/{name}", None)))
"""


@pytest.mark.thorough
def test_a_repository_is_its_commit_and_an_adapter_is_that_of_its_base_too(local_hub, tiny_tokenizer, tmp_path):
    model, processor = build_with_processor(GDLF, tiny_tokenizer)
    save(tmp_path / "base", model, processor)
    adapted = get_peft_model(model, LoraConfig(target_modules=list(GDLF.lora_modules)))
    adapted.save_pretrained(tmp_path / "adapter")
    file = tmp_path / "adapter" / "adapter_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "base_model_name_or_path": "org/base"}))
    environment = local_hub.environment(tmp_path / "home")
    run(PUSH, "base", "adapter", environment=environment, folder=tmp_path)
    base, adapter = run(READ, "base", "adapter", environment=environment, folder=tmp_path)
    assert base["model"] == "org/base"
    assert len(base["content"]) == 40
    assert adapter["base"] == base
    assert len(adapter["content"]) == 40
