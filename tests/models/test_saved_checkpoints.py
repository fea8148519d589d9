"""Checkpoints saved by earlier versions load, and give the same numbers as when they were saved."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForSeq2SeqLM, AutoProcessor

import hf_summ  # noqa: F401 registers the architectures

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


@pytest.mark.thorough
@pytest.mark.parametrize("folder", PROCESSORS, ids=name_of)
def test_saved_processor_reads_as_it_did(folder):
    pytest.importorskip("spacy")
    told = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    processor = AutoProcessor.from_pretrained(folder)
    encoded = processor(text=told["texts"], text_target=told["summaries"], padding=True)
    assert encoded.data == told["encoded"]
