"""Checkpoints on the Hub: pushed and loaded by name with the package, and loaded from the folder alone without it."""

import json
from pathlib import Path

import pytest
from huggingface_hub import HfApi, ModelCard, RepoUrl
from transformers import AutoModelForSeq2SeqLM, AutoProcessor, BertConfig, BertModel

from hf_summ import CopyTransformerConfig, CopyTransformerForConditionalGeneration, Int8Config
from hf_summ.checkpoints.pretrained_parts import read_pretrained_parts
from hf_summ.models.checks import without_local_paths
from tests.conftest import SENTENCES, first, run_python, save
from tests.models.architectures import ARCHITECTURES, COPY_TRANSFORMER_BERT, GDLF, build_with_processor

# transformers reads the Hub's address at import, so whatever talks to the Hub of a test is a process of its own
PUSH = """
import sys
from transformers import AutoModelForSeq2SeqLM, AutoProcessor
import hf_summ
for name in sys.argv[3:]:
    AutoModelForSeq2SeqLM.from_pretrained(name).push_to_hub(f"org/{name}")
    AutoProcessor.from_pretrained(name).save_pretrained(f"of-{name}", push_to_hub=True, repo_id=f"org/{name}")
"""

LOAD = """
import json, sys
from transformers import AutoModelForSeq2SeqLM, AutoProcessor, pipeline
if sys.argv[1] == "installed":
    import hf_summ
    trust = {}
else:
    # as if the package were not there
    sys.modules["hf_summ"] = None
    trust = {"trust_remote_code": True}
documents = json.loads(sys.argv[2])
for name in sys.argv[3:]:
    processor = AutoProcessor.from_pretrained(f"org/{name}", **trust)
    model = AutoModelForSeq2SeqLM.from_pretrained(f"org/{name}", **trust)
    ids = model.generate(**processor(documents, return_tensors="pt"), num_beams=2)
    texts = [text.strip() for text in processor.batch_decode(ids, skip_special_tokens=True)]
    records = pipeline("summarization", model=f"org/{name}", **trust)(documents, num_beams=2)
    # a checkpoint that is saved again is as whole as the one it came from
    model.save_pretrained(f"{sys.argv[1]}-{name}")
    processor.save_pretrained(f"{sys.argv[1]}-{name}")
    again = pipeline("summarization", model=f"{sys.argv[1]}-{name}", **trust)(documents, num_beams=2)
    assert again == records, (again, records)
    print("RESULT", json.dumps([type(model).__module__.split(".")[0], texts, [r["summary_text"] for r in records]]))
"""


def run(program: str, *arguments: str, environment: dict[str, str], folder: Path) -> list:
    output, _ = run_python("-c", program, *arguments, cwd=folder, **environment)
    lines = output.splitlines()
    return [json.loads(line.removeprefix("RESULT ")) for line in lines if line.startswith("RESULT ")]


@pytest.mark.thorough
@pytest.mark.parametrize("architectures", first([[GDLF], ARCHITECTURES]), ids=len)
def test_hub_round_trip_with_and_without_the_package(architectures, local_hub, tiny_tokenizer, tmp_path):
    names = [architecture.name for architecture in architectures]
    expected = []
    for architecture in architectures:
        model, processor = build_with_processor(architecture, tiny_tokenizer)
        save(tmp_path / architecture.name, model, processor)
        inputs = processor(SENTENCES, return_tensors="pt")
        ids = model.generate(**inputs, num_beams=2, tokenizer=processor)
        expected.append([text.strip() for text in processor.batch_decode(ids, skip_special_tokens=True)])
    if len(architectures) > 1:
        # a checkpoint in 8 bits, whose way of loading is not known to transformers
        names.append("gdlf-int8")
        config = Int8Config(least_weights=0)
        model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "gdlf", quantization_config=config)
        processor = AutoProcessor.from_pretrained(tmp_path / "gdlf")
        save(tmp_path / names[-1], model, processor)
        ids = model.generate(**processor(SENTENCES, return_tensors="pt"), num_beams=2)
        expected.append([text.strip() for text in processor.batch_decode(ids, skip_special_tokens=True)])
    for where, program in {"installed": PUSH + LOAD, "alone": LOAD}.items():
        home = local_hub.environment(tmp_path / f"home-{where}")
        results = run(program, where, json.dumps(SENTENCES), *names, environment=home, folder=tmp_path)
        assert len(results) == len(names)
        for (module, texts, records), summaries in zip(results, expected, strict=True):
            assert module == ("hf_summ" if where == "installed" else "transformers_modules")
            assert texts == records == summaries
    for architecture in architectures:
        files = local_hub.files(f"org/{architecture.name}")
        assert "model.safetensors" in files
        assert "pipeline_summarization.py" in files
        # what another architecture alone needs stays behind
        foreign_types = {candidate.model_type for candidate in ARCHITECTURES} - {architecture.model_type}
        for path in files:
            assert not any(model_type in path for model_type in foreign_types)
        assert not any(path.endswith((".bin", ".pt", ".pkl")) for path in files)


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda architecture: architecture.name)
def test_code_of_a_checkpoint_is_small(architecture, tiny_tokenizer, tmp_path):
    save(tmp_path, *build_with_processor(architecture, tiny_tokenizer))
    files = {path.name: path.stat().st_size for path in tmp_path.glob("*.py")}
    assert len(files) <= 18
    assert sum(files.values()) <= 300_000
    # what only some checkpoints need
    some = {"quantization_int8.py", "text_case.py", "generation_sentences.py", "text_candidates.py"}
    assert not files.keys() & {*some, "layers_language_model.py"}


@pytest.mark.thorough
def test_no_local_path_is_published(local_hub, tiny_tokenizer, tmp_path):
    bert = tmp_path / "secret" / "bert"
    sizes = {"hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 32}
    BertModel(BertConfig(vocab_size=len(tiny_tokenizer), **sizes)).save_pretrained(bert)
    config = CopyTransformerConfig(
        vocab_size=len(tiny_tokenizer), d_model=16, num_heads=2, encoder_type="bert", bert_name=str(bert)
    )
    read_pretrained_parts(config)
    CopyTransformerForConditionalGeneration(config).save_pretrained(tmp_path / "model")
    program = """
from transformers import AutoModelForSeq2SeqLM
import hf_summ
model = AutoModelForSeq2SeqLM.from_pretrained("model")
name = model.config.bert_name
model.push_to_hub("org/model")
assert model.config.bert_name == name
again = AutoModelForSeq2SeqLM.from_pretrained("org/model")
print("RESULT", repr(again.config.bert_name).replace("'", '"'))
"""
    environment = local_hub.environment(tmp_path / "home")
    assert run(program, environment=environment, folder=tmp_path) == ["bert"]
    assert all(b"secret" not in content for content in local_hub.files("org/model").values())


@pytest.fixture
def uploads(monkeypatch) -> dict[str, dict[str, bytes]]:
    """The files that were uploaded to each repository, except the card. Nothing leaves this process."""
    files_of_repository = {}

    def create_commit(api, repo_id, operations, **_):
        files = {}
        for operation in operations:
            if operation.path_in_repo != "README.md":
                files[operation.path_in_repo] = Path(operation.path_or_fileobj).read_bytes()
        files_of_repository[repo_id] = files

    def create_repo(api, repo_id, **_):
        return RepoUrl(f"https://huggingface.co/{repo_id}")

    monkeypatch.setattr(HfApi, "create_repo", create_repo)
    monkeypatch.setattr(HfApi, "create_commit", create_commit)
    monkeypatch.setattr(ModelCard, "load", lambda *_, **__: ModelCard("---\nlicense: mit\n---\n"))
    return files_of_repository


def test_whole_sentences_are_published_with_their_code(tiny_tokenizer, tmp_path, uploads):
    model, _ = build_with_processor(GDLF, tiny_tokenizer)
    model.generation_config.whole_sentences = True
    model.save_pretrained(tmp_path / "model", push_to_hub=True, repo_id="org/saved")
    model.push_to_hub("org/pushed")
    assert uploads["org/saved"] == uploads["org/pushed"]
    assert {"generation_sentences.py", "text_candidates.py", "text_repairs.py"} < uploads["org/saved"].keys()
    assert b"from .generation_sentences import" in uploads["org/saved"]["modeling_gdlf.py"]


def test_weights_of_the_caller_are_published(tiny_tokenizer, tmp_path, uploads):
    model, _ = build_with_processor(GDLF, tiny_tokenizer)
    weights = {name: weight + 1 for name, weight in model.state_dict().items()}
    model.save_pretrained(tmp_path / "model", state_dict=weights, push_to_hub=True, repo_id="org/model")
    assert uploads["org/model"]["model.safetensors"] == (tmp_path / "model" / "model.safetensors").read_bytes()


def test_8_bits_are_published_with_their_code(tiny_tokenizer, tmp_path, uploads):
    model, _ = build_with_processor(GDLF, tiny_tokenizer)
    model.config.quantization_config = Int8Config()
    model.config.save_pretrained(str(tmp_path / "config"), push_to_hub=True, repo_id="org/saved")
    model.config.push_to_hub("org/pushed")
    assert uploads["org/saved"] == uploads["org/pushed"]
    assert "quantization_int8.py" in uploads["org/saved"]


@pytest.mark.parametrize("published", ["model", "config"])
def test_no_upload_has_a_local_path(tiny_tokenizer, tmp_path, uploads, published):
    bert = tmp_path / "secret" / "bert"
    bert.mkdir(parents=True)
    model, _ = build_with_processor(COPY_TRANSFORMER_BERT, tiny_tokenizer)
    model.config.bert_name = str(bert)
    component = model if published == "model" else model.config
    component.save_pretrained(str(tmp_path / "saved"), push_to_hub=True, repo_id="org/saved")
    component.push_to_hub("org/pushed")
    assert uploads["org/saved"] == uploads["org/pushed"]
    assert all(b"secret" not in content for content in uploads["org/saved"].values())
    assert json.loads(uploads["org/saved"]["config.json"])["bert_name"] == "bert"
    # the folder on this machine keeps the path
    assert json.loads((tmp_path / "saved" / "config.json").read_text())["bert_name"] == str(bert)
    assert model.config.bert_name == str(bert)


# with an adapter of transformers, `save_pretrained` writes no config.json
def test_adapters_are_uploaded_without_the_path_of_their_base(tmp_path):
    base = tmp_path / "secret" / "base"
    base.mkdir(parents=True)
    file = tmp_path / "adapter_config.json"
    text = json.dumps({"base_model_name_or_path": str(base), "r": 8})
    file.write_text(text)
    with without_local_paths(tmp_path):
        assert json.loads(file.read_text()) == {"base_model_name_or_path": "base", "r": 8}
    assert file.read_text() == text


# accelerate's examples save in every process, of which one is the main process
def test_other_processes_save_no_code(tiny_tokenizer, tmp_path):
    model, _ = build_with_processor(GDLF, tiny_tokenizer)
    model.generation_config.whole_sentences = True
    model.save_pretrained(tmp_path, is_main_process=False)
    assert not list(tmp_path.glob("*.py"))
