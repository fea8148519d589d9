"""What transformers', PEFT's and accelerate's users ask of any model, and ours failed."""

import pytest
import torch
from accelerate import cpu_offload
from torch import nn
from transformers import AutoModelForSeq2SeqLM
from transformers.modeling_outputs import BaseModelOutput

from hf_summ.models.quantization_int8 import Int8Linear
from tests.conftest import SENTENCES
from tests.models.architectures import COPY_TRANSFORMER_BERT, DRGD, DRGD_PRINTED, EACH, GDLF, Architecture, generate


@pytest.fixture(params=EACH)
def architecture(request) -> Architecture:
    return request.param


# https://github.com/huggingface/accelerate/issues/1900: a divided model writes other texts
@pytest.mark.thorough
@pytest.mark.parametrize("use_cache", [True, False])
def test_a_divided_model_writes_the_same(architecture, tmp_path, use_cache):
    whole, inputs = architecture.model().float(), architecture.inputs()
    inputs = {name: value.float() if value.is_floating_point() else value for name, value in inputs.items()}
    whole.save_pretrained(tmp_path / "model")
    size = 4 * sum(weight.numel() for weight in whole.parameters())
    limits = {"max_memory": {"cpu": int(size * 0.7)}, "offload_folder": str(tmp_path / "disk")}
    divided = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "model", device_map="auto", **limits)
    assert "disk" in divided.hf_device_map.values()
    settings = {"num_beams": 3, "num_return_sequences": 3, "use_cache": use_cache}
    expected = generate(whole, inputs, **settings)
    assert torch.equal(generate(divided, inputs, **settings), expected)
    # without any knowledge of the model's arguments
    assert torch.equal(generate(cpu_offload(whole, execution_device="cpu"), inputs, **settings), expected)


def test_attention_has_gradients(architecture):
    """The recorded weights are those that the output was computed from, equal to the unrecorded ones."""
    model, inputs, labels = architecture.model(), architecture.inputs(), architecture.labels()
    model.set_attn_implementation("eager")
    outputs = model(**inputs, labels=labels, output_attentions=True)
    torch.testing.assert_close(outputs.loss, model(**inputs, labels=labels).loss)
    gradients = torch.autograd.grad(outputs.loss, outputs.cross_attentions)
    assert all(gradient.any() for gradient in gradients)


@pytest.mark.parametrize("made", [DRGD, DRGD_PRINTED], ids=lambda made: made.name)
def test_recorded_attention_leaves_the_gradients_of_weights(made):
    found = []
    for recorded in (False, True):
        model = made.model()
        outputs = model(**made.inputs(), labels=made.labels(), output_attentions=recorded)
        outputs.loss.backward()
        found.append({name: weight.grad for name, weight in model.named_parameters()})
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.thorough
@pytest.mark.parametrize("beams", [1, 3])
def test_states_of_an_encoder_may_lack_the_words(architecture, beams):
    model, inputs = architecture.model(), architecture.inputs()
    settings = {name: value for name, value in inputs.items() if name != "tag_ids" and not name.startswith("phrase_")}
    expected = generate(model, inputs, num_beams=beams)
    states = model.get_encoder()(**inputs)
    if states.keys() & {"centrality", "last_states"}:
        # which is a part of its result
        return
    encoded = BaseModelOutput(last_hidden_state=states.last_hidden_state)
    assert torch.equal(generate(model, settings, num_beams=beams, encoder_outputs=encoded), expected)


# transformers 4 inferred the mask: its pages on BART and PEGASUS give `generate` nothing but the ids
@pytest.mark.parametrize("beams", [1, 3])
def test_padding_is_recognized_without_a_mask(architecture, beams):
    model, inputs = architecture.model(), architecture.inputs()
    expected = generate(model, inputs, num_beams=beams)
    del inputs["attention_mask"]
    assert torch.equal(generate(model, inputs, num_beams=beams), expected)
    source = inputs.pop("input_ids")
    assert torch.equal(model.generate(source, **inputs, max_new_tokens=9, min_new_tokens=3, num_beams=beams), expected)


@pytest.mark.parametrize("mask", [[0, 0, 1, 1, 1], [1, 0, 1, 0, 1], [1, 1, 1, 0, 0], [0, 0, 0, 0, 1]], ids=str)
@pytest.mark.parametrize("made", [DRGD, DRGD_PRINTED], ids=lambda made: made.name)
def test_padding_may_be_anywhere(made, mask):
    model, mask = made.model(), torch.tensor([mask, [1, 1, 1, 1, 1]])
    ids, targets = torch.tensor([[5, 6, 7, 8, 9], [9, 8, 7, 6, 5]]), torch.tensor([[1, 6, 7], [1, 5, 5]])
    found = model(input_ids=ids, attention_mask=mask, decoder_input_ids=targets).logits
    for row in range(2):
        alone = ids[row : row + 1, mask[row].bool()]
        expected = model(input_ids=alone, decoder_input_ids=targets[row : row + 1]).logits
        torch.testing.assert_close(found[row : row + 1], expected)


def test_attention_is_also_that_of_a_nested_bert(tmp_path):
    COPY_TRANSFORMER_BERT.model().save_pretrained(tmp_path)
    for attention in ("eager", "sdpa"):
        model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, attn_implementation=attention)
        assert model.config._attn_implementation == attention
        assert model.model.encoder.bert.bert.config._attn_implementation == attention


def test_arguments_of_processors_may_be_nested(architecture, tiny_tokenizer):
    processor = architecture.processor(tiny_tokenizer)
    expected = processor(SENTENCES, max_length=6, return_tensors="pt")
    found = processor(SENTENCES, text_kwargs={"max_length": 6}, common_kwargs={"return_tensors": "pt"})
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    name = type(processor).__name__
    with pytest.raises(TypeError, match=rf"^{name}.__call__\(\) got an unexpected keyword argument 'truncaton'$"):
        processor(SENTENCES, truncaton=True)


def test_tags_of_another_length_are_named():
    inputs = GDLF.inputs()
    with pytest.raises(ValueError, match=r"^`tag_ids` is \(3, 10\), but must be \(3, 11\), a tag for each subword"):
        GDLF.model()(**{**inputs, "tag_ids": inputs["tag_ids"][:, :-1]}, labels=GDLF.labels())


@pytest.mark.parametrize("made", [DRGD, DRGD_PRINTED, COPY_TRANSFORMER_BERT], ids=lambda made: made.name)
def test_linear_layers_are_quantized_by_torch(made):
    model = made.model().float()
    quantized = torch.ao.quantization.quantize_dynamic(model, {nn.Linear, nn.GRU, nn.GRUCell}, dtype=torch.qint8)
    assert quantized.weights_problem() is None
    assert generate(quantized, made.inputs(), num_beams=2).shape[0] == 3
    losses = [candidate(**made.inputs(), labels=made.labels()).loss for candidate in (model, quantized)]
    torch.testing.assert_close(losses[1], losses[0], rtol=0.05, atol=0.05)


# https://github.com/pytorch/pytorch/issues/195066: products of a dimension of size 1 are undefined on CPUs with VNNI
@pytest.mark.parametrize("inputs", [1, 2, 3])
@pytest.mark.parametrize("rows", [1, 5, 40])
def test_products_of_few_inputs_are_exact(inputs, rows):
    torch.manual_seed(0)
    weight, values = (torch.randint(-127, 128, (number, inputs), dtype=torch.int8) for number in (16, rows))
    layer = Int8Linear(nn.Parameter(weight, requires_grad=False), nn.Parameter(torch.ones(16)), None)
    assert torch.equal(layer._products(values).long(), values.long() @ weight.long().T)
