"""Checkpoints saved by earlier versions load, and give the same numbers as when they were saved."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForSeq2SeqLM, AutoProcessor
from transformers.dynamic_module_utils import get_relative_imports

import hf_summ  # noqa: F401 registers the architectures
from tests.conftest import save
from tests.models.architectures import GDLF, build_with_processor

# a folder per version with one per checkpoint: the files that it saved, and what they gave then as `expected`
VERSIONS = Path(__file__).parent / "checkpoints"
MODELS = sorted(path.parent for path in VERSIONS.glob("*/*/model.safetensors"))
PROCESSORS = sorted(path.parent for path in VERSIONS.glob("*/*/processor_config.json"))


def name_of(folder: Path) -> str:
    return str(folder.relative_to(VERSIONS))


@pytest.mark.parametrize("folder", MODELS, ids=name_of)
def test_saved_model_computes_what_it_did(folder):
    expected = load_file(folder / "expected.safetensors")
    inputs = {name: expected[name] for name in ("input_ids", "attention_mask", "tag_ids") if name in expected}
    model, loaded = AutoModelForSeq2SeqLM.from_pretrained(folder, output_loading_info=True)
    assert not loaded["missing_keys"]
    assert not loaded["unexpected_keys"]
    outputs = model(**inputs, labels=expected["labels"])
    torch.testing.assert_close(outputs.loss[None], expected["loss"])
    torch.testing.assert_close(outputs.logits, expected["logits"])
    generated = model.generate(**inputs, max_new_tokens=6, num_beams=3)
    torch.testing.assert_close(generated, expected["generated"])


def test_saved_code_is_complete(tiny_tokenizer, tmp_path):
    model, processor = build_with_processor(GDLF, tiny_tokenizer)
    model.generation_config.whole_sentences = True
    save(tmp_path, model, processor)
    files = {path.name for path in tmp_path.glob("*.py")}
    assert {"generation_sentences.py", "text_candidates.py", "text_repairs.py"} <= files
    for file in tmp_path.glob("*.py"):
        imported = {f"{name}.py" for name in get_relative_imports(file)}
        assert imported <= files


@pytest.mark.thorough
@pytest.mark.parametrize("folder", PROCESSORS, ids=name_of)
def test_saved_processor_reads_as_it_did(folder):
    pytest.importorskip("spacy")
    told = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    processor = AutoProcessor.from_pretrained(folder)
    encoded = processor(text=told["texts"], text_target=told["summaries"], padding=True)
    assert encoded.data == told["encoded"]
