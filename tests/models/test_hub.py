"""Checkpoints on the Hub: pushed and loaded by name with the package, and loaded from the folder alone without it."""

import json
from pathlib import Path

import pytest
from transformers import AutoModelForSeq2SeqLM, AutoProcessor, BertConfig, BertModel

from hf_summ import CopyTransformerConfig, CopyTransformerForConditionalGeneration, Int8Config
from hf_summ.checkpoints.pretrained_parts import read_pretrained_parts
from tests.conftest import SENTENCES, first, run_python, save
from tests.models.architectures import ARCHITECTURES, GDLF, build_with_processor

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
    some = {"quantization_int8.py", "text_case.py", "generation_sentences.py", "text_sentences.py"}
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
