"""Adapters of PEFT, with default settings and others, and what shares their causes."""

import copy

import pytest
import torch
from peft import (
    AutoPeftModelForSeq2SeqLM,
    IA3Config,
    LoraConfig,
    PrefixTuningConfig,
    TrainableTokensConfig,
    get_peft_model,
)
from safetensors.torch import save_model
from transformers import AutoModelForSeq2SeqLM

from hf_summ.registration import LORA_TARGET_MODULES
from tests.models.architectures import COPY_TRANSFORMER_BERT, DRGD_PRINTED, SAGCOPY_OUTDEGREE, generate

WORDS = [{"modules_to_save": ["embed_tokens"]}, {"target_modules": ["embed_tokens"]}]


@pytest.mark.thorough
def test_lora_with_default_target_modules(architecture, tmp_path):
    base = architecture.model().float()
    base.save_pretrained(tmp_path / "base")
    base = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "base")
    assert tuple(LORA_TARGET_MODULES[architecture.model_type]) == architecture.lora_modules
    # no target modules: they are known for each architecture
    adapted = get_peft_model(base, LoraConfig(task_type="SEQ_2_SEQ_LM", r=2, init_lora_weights=False))
    inputs = architecture.inputs()
    adapted.eval()
    expected = generate(adapted, inputs, num_beams=3)
    torch.testing.assert_close(expected, generate(adapted, inputs, num_beams=3, use_cache=False))
    loss = adapted(**inputs, labels=architecture.labels()).loss
    loss.backward()
    trained = [name for name, value in adapted.named_parameters() if value.requires_grad]
    assert trained
    assert all("lora_" in name for name in trained)
    adapted.save_pretrained(tmp_path / "adapter")
    loaded = AutoPeftModelForSeq2SeqLM.from_pretrained(tmp_path / "adapter").eval()
    torch.testing.assert_close(generate(loaded, inputs, num_beams=3), expected)
    check_merged(loaded, architecture, tmp_path, adapted)


def check_merged(adapted, architecture, folder, expected) -> None:
    """Merged and saved, it is the same model, with the same weights shared."""
    settings = {**architecture.inputs(), "labels": architecture.labels()}
    merged = adapted.merge_and_unload()
    merged.save_pretrained(folder / "merged")
    loaded, report = AutoModelForSeq2SeqLM.from_pretrained(folder / "merged", output_loading_info=True)
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    torch.testing.assert_close(loaded.eval()(**settings).loss, expected(**settings).loss, rtol=1e-4, atol=1e-5)
    assert shared_names(loaded) == shared_names(merged)


def shared_names(model) -> list[list[str]]:
    """The names of each weight that has several."""
    names: dict[int, list[str]] = {}
    for name, value in model.state_dict(keep_vars=True).items():
        names.setdefault(value.data_ptr(), []).append(name)
    return sorted(found for found in names.values() if len(found) > 1)


@pytest.mark.thorough
def test_all_linear_layers_but_the_output_are_adapted(architecture, tmp_path):
    base = architecture.model().float()
    settings = LoraConfig(task_type="SEQ_2_SEQ_LM", r=2, init_lora_weights=False, target_modules="all-linear")
    adapted = get_peft_model(base, settings).eval()
    assert "lm_head" not in adapted.targeted_module_names
    check_merged(copy.deepcopy(adapted), architecture, tmp_path, adapted)


@pytest.mark.thorough
def test_ia3_with_default_target_modules(architecture, tmp_path):
    architecture.model().float().save_pretrained(tmp_path / "base")
    base = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "base")
    adapted = get_peft_model(base, IA3Config(task_type="SEQ_2_SEQ_LM", init_ia3_weights=False)).eval()
    trained = [name for name, value in adapted.named_parameters() if value.requires_grad]
    assert any(".k_proj." in name or "key_projection" in name for name in trained)
    assert any(".feed_forward.outer." in name for name in trained) == (
        architecture.model_type not in ("drgd", "pointer_generator")
    )
    adapted.save_pretrained(tmp_path / "adapter")
    loaded = AutoPeftModelForSeq2SeqLM.from_pretrained(tmp_path / "adapter").eval()
    check_merged(loaded, architecture, tmp_path, adapted)


def test_prefix_tuning_is_refused(architecture):
    sizes = {"num_layers": 2, "num_attention_heads": 4, "token_dim": 16}
    prefix = PrefixTuningConfig(task_type="SEQ_2_SEQ_LM", num_virtual_tokens=3, **sizes)
    adapted = get_peft_model(architecture.model().float(), prefix)
    with pytest.raises(ValueError, match="for prefix tuning, which adds one, use LoRA instead"):
        adapted(**architecture.inputs(), labels=architecture.labels())


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
    with pytest.raises(ValueError, match="`adapter_names` needs one text a document: set `num_beams=1"):
        adapted.generate(**inputs, adapter_names=names, num_beams=2, **settings)


@pytest.mark.parametrize("length", [5, 11], ids="tokens-{}".format)
def test_each_document_has_its_adapter_in_all_linear_layers(architecture, length):
    """More documents than the windows that BERT reads at once; 11 tokens are two windows."""
    lora = {"init_lora_weights": False, "target_modules": "all-linear"}
    adapted = adapt(architecture.model(), **lora).double().eval()
    adapted.add_adapter("other", LoraConfig(task_type="SEQ_2_SEQ_LM", r=2, **lora))
    adapted.double()
    rows = 12
    inputs = {**architecture.inputs(rows, length), "decoder_input_ids": architecture.labels(rows).clamp(min=4)}
    names = ["default", "other", "other"] * (rows // 3)
    with torch.no_grad():
        together = adapted(**inputs, adapter_names=names).logits
        for name in ("default", "other"):
            adapted.set_adapter(name)
            is_adapted = torch.tensor([row_name == name for row_name in names])
            torch.testing.assert_close(together[is_adapted], adapted(**inputs).logits[is_adapted])


@pytest.mark.parametrize("kind", [TrainableTokensConfig, LoraConfig])
@pytest.mark.parametrize("architecture", [DRGD_PRINTED, SAGCOPY_OUTDEGREE], ids=lambda architecture: architecture.name)
def test_trained_tokens_keep_the_bias_of_a_tied_output(architecture, kind):
    settings = {"trainable_token_indices": [5, 6]} if kind is LoraConfig else {"token_indices": [5, 6]}
    model = architecture.model()
    assert model.lm_head.bias.any()
    plain = loss_of(model, architecture)
    adapted = get_peft_model(model, kind(task_type="SEQ_2_SEQ_LM", **settings)).eval()
    torch.testing.assert_close(loss_of(adapted, architecture), plain)
    for name, weight in adapted.named_parameters():
        if "trainable_tokens_delta" in name:
            weight.data += 0.5
    expected = loss_of(adapted, architecture)
    assert (expected - plain).abs() > 1e-3
    with adapted.disable_adapter():
        torch.testing.assert_close(loss_of(adapted, architecture), plain)
    torch.testing.assert_close(loss_of(adapted.merge_and_unload(), architecture), expected)
