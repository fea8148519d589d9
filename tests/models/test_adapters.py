"""Adapters of PEFT, beyond those with default settings, and what shares their causes: each fails in another way."""

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_model
from transformers import AutoModelForSeq2SeqLM

from tests.models.architectures import COPY_TRANSFORMER_BERT, EACH, Architecture

WORDS = [
    {"modules_to_save": ["embed_tokens"]},
    {"target_modules": ["embed_tokens"]},
    {"trainable_token_indices": [5, 6, 7]},
]


@pytest.fixture(params=EACH)
def architecture(request) -> Architecture:
    return request.param


def adapt(model, **settings):
    return get_peft_model(model.float(), LoraConfig(task_type="SEQ_2_SEQ_LM", r=2, **settings))


def loss_of(model, architecture) -> torch.Tensor:
    return model(**architecture.inputs(), labels=architecture.labels()).loss


@pytest.mark.thorough
@pytest.mark.parametrize("settings", WORDS, ids=lambda settings: next(iter(settings)))
def test_adapted_words_learn_and_are_saved(architecture, settings, tmp_path):
    if "target_modules" in settings and architecture.settings.get("decoder_embedding") in ("bert", "bert_module"):
        # there it is two layers, which PEFT refuses
        settings = {"target_modules": ["encoder.embed_tokens", "words"]}
    adapted = adapt(architecture.model(), **settings)
    trained = [weight for weight in adapted.parameters() if weight.requires_grad]
    for _ in range(3):
        loss_of(adapted, architecture).backward()
        with torch.no_grad():
            for weight in trained:
                weight -= 0.5 * weight.grad
    assert all(weight.grad.any() for weight in trained)
    expected = loss_of(adapted.eval(), architecture)
    if "trainable_token_indices" in settings and architecture.variant in ("printed", "outdegree"):
        pytest.xfail("PEFT leaves out the bias of an output layer that shares the words' weight")
    if "target_modules" in settings:
        # merging adds both to the shared weight, of which PEFT warns
        return
    merged = adapted.merge_and_unload()
    torch.testing.assert_close(loss_of(merged, architecture), expected)
    merged.save_pretrained(tmp_path)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    torch.testing.assert_close(loss_of(loaded, architecture), expected)


@pytest.mark.thorough
def test_checkpoint_of_safetensors_is_read(architecture, tmp_path):
    """Its `save_model` stores a shared weight under the first of its names."""
    model = architecture.model().float()
    model.config.save_pretrained(tmp_path)
    save_model(model, str(tmp_path / "model.safetensors"))
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    torch.testing.assert_close(loss_of(loaded, architecture), loss_of(model, architecture))


@pytest.mark.parametrize("modules", ["all-linear", ["query", "value"]], ids=str)
def test_adapters_of_a_frozen_bert_learn(modules):
    adapted = adapt(COPY_TRANSFORMER_BERT.model(), target_modules=modules, init_lora_weights=False).train()
    loss_of(adapted, COPY_TRANSFORMER_BERT).backward()
    trained = {name: weight for name, weight in adapted.named_parameters() if weight.requires_grad}
    assert any(".bert." in name for name in trained)
    assert all("lora_" in name and weight.grad.any() for name, weight in trained.items())


def test_each_document_has_its_adapter(architecture):
    lora = {"init_lora_weights": False, "target_modules": list(architecture.lora_modules[:1])}
    adapted = adapt(architecture.model(), **lora).eval()
    adapted.add_adapter("other", LoraConfig(task_type="SEQ_2_SEQ_LM", r=2, **lora))
    inputs, names = architecture.inputs(), ["default", "other", "default"]
    # most tokens end a text, so that the documents end at different steps
    settings = {"max_new_tokens": 8, "eos_token_id": list(range(2, 30))}
    together = adapted.generate(**inputs, adapter_names=names, **settings)
    for row, name in enumerate(names):
        adapted.set_adapter(name)
        length = int(inputs["attention_mask"][row].sum())
        size = {field: length if value.shape[1] == 11 else None for field, value in inputs.items()}
        alone = adapted.generate(
            **{key: value[row : row + 1, : size[key]] for key, value in inputs.items()}, **settings
        )
        assert together[row, : alone.shape[1]].tolist() == alone[0].tolist()
    with pytest.raises(ValueError, match="`adapter_names` needs one text a document: set `num_beams`"):
        adapted.generate(**inputs, adapter_names=names, num_beams=2, **settings)
