"""What transformers', PEFT's and accelerate's users ask of any model, and ours failed."""

import pytest
import torch
from accelerate import cpu_offload
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call, grad, vmap
from torch.nn.utils import prune
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM
from transformers.modeling_outputs import BaseModelOutput

from hf_summ.models.quantization_int8 import Int8Linear
from tests.models.architectures import (
    COPY_TRANSFORMER,
    COPY_TRANSFORMER_BERT,
    COPY_TRANSFORMER_BERT_OUTPUT,
    DRGD,
    DRGD_PRINTED,
    EACH,
    GDLF,
    HIGHLIGHT_TRANSFORMER,
    POINTER_GENERATOR,
    SAGCOPY,
    TINY_BERT,
    Architecture,
    generate,
)


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


CASES_OF_PADDING = [[0, 0, 1, 1, 1], [1, 0, 1, 0, 1], [1, 1, 1, 0, 0], [0, 0, 0, 0, 1]]


@pytest.mark.parametrize("mask", CASES_OF_PADDING, ids=str)
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


@pytest.mark.parametrize("settings", [{"encoder_type": "bert"}, {"decoder_embedding": "bert_module"}], ids=str)
def test_attention_reaches_only_nested_models_that_have_it(settings, tmp_path):
    # MPNet has no "sdpa"
    nested = {**TINY_BERT, "model_type": "mpnet", "max_position_embeddings": 66}
    windows = {"bert_window_size": 8, "bert_window_stride": 4}
    model = COPY_TRANSFORMER.model(**settings, **windows, bert_config=nested, convolutional_attention="none")
    model.save_pretrained(tmp_path)
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, attn_implementation="sdpa")
    assert model.config._attn_implementation == "sdpa"
    assert model.config.bert_config._attn_implementation != "sdpa"
    assert model(**COPY_TRANSFORMER.inputs(), labels=COPY_TRANSFORMER.labels()).loss.isfinite()
    fresh = AutoModelForSeq2SeqLM.from_config(AutoConfig.from_pretrained(tmp_path), attn_implementation="sdpa")
    # the named BERT is read with its configuration
    AutoModel.from_config(fresh.config.bert_config)
    fresh.set_attn_implementation("sdpa")


def test_tags_of_another_length_are_named():
    inputs = GDLF.inputs()
    with pytest.raises(ValueError, match=r"^`tag_ids` is \(3, 10\), but must be \(3, 11\), a tag for each subword"):
        GDLF.model()(**{**inputs, "tag_ids": inputs["tag_ids"][:, :-1]}, labels=GDLF.labels())


@pytest.mark.parametrize("made", [DRGD, DRGD_PRINTED, COPY_TRANSFORMER_BERT], ids=lambda made: made.name)
def test_linear_layers_are_quantized_by_torch(made):
    model = made.model().float()
    quantized = torch.ao.quantization.quantize_dynamic(model, {nn.Linear, nn.GRU, nn.GRUCell}, dtype=torch.qint8)
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


def replicate(model: nn.Module) -> nn.Module:
    """A replica as `nn.DataParallel` makes one for each GPU: its weights are no parameters."""
    replicas = {module: module._replicate_for_data_parallel() for module in model.modules()}
    weights = {weight: weight.view_as(weight) for weight in model.parameters()}
    for module, replica in replicas.items():
        for name, child in module.named_children():
            setattr(replica, name, replicas[child])
        for name, weight in module._parameters.items():
            if weight is None:
                replica.register_parameter(name, None)
            else:
                setattr(replica, name, weights[weight])
    return replicas[model]


# pytorch/pytorch#49828: the recurrent layers had no weights there, and BERT was not trained
@pytest.mark.parametrize("made", [DRGD, POINTER_GENERATOR, COPY_TRANSFORMER_BERT_OUTPUT], ids=lambda made: made.name)
def test_replicas_of_data_parallel_are_trained(made):
    gradients = []
    for prepare in (lambda model: model, replicate):
        model = made.model()
        prepare(model)(**made.inputs(), labels=made.labels()).loss.backward()
        gradients.append({name: weight.grad for name, weight in model.named_parameters()})
    torch.testing.assert_close(gradients[1], gradients[0])


# pytorch/pytorch#33618: pruned weights are attributes beside their parameters
@pytest.mark.parametrize("made", [DRGD, POINTER_GENERATOR], ids=lambda made: made.name)
def test_recurrent_weights_are_pruned(made):
    model, expected = made.model(), made.model()
    for module, same in zip(list(model.modules()), list(expected.modules()), strict=True):
        if isinstance(module, (nn.RNNBase, nn.RNNCellBase)):
            for name, _ in list(module.named_parameters()):
                prune.random_unstructured(module, name, 0.5)
                getattr(same, name).data.mul_(getattr(module, f"{name}_mask"))
    losses = [candidate(**made.inputs(), labels=made.labels()).loss for candidate in (model, expected)]
    torch.testing.assert_close(*losses)


# huggingface/trl#6372: what others add to a call of the output layer, such as DeepSpeed's gathering of its weight
@pytest.mark.parametrize("register", ["register_forward_hook", "register_forward_pre_hook"])
def test_hooks_of_the_output_layer_run(register):
    model, calls = COPY_TRANSFORMER.model(), []
    getattr(model.lm_head, register)(lambda *_: calls.append(1))
    model(**COPY_TRANSFORMER.inputs(), labels=COPY_TRANSFORMER.labels(), skip_logits=True)
    assert len(calls) == 1
    model.float().generate(**COPY_TRANSFORMER.inputs(), num_beams=2, max_new_tokens=3, min_new_tokens=3)
    assert len(calls) == 4


def test_a_hook_of_all_modules_runs_once_for_the_embedding():
    model, calls = COPY_TRANSFORMER.model(), []

    def count(*_):
        calls.append(1)

    for module in model.modules():
        if isinstance(module, nn.Embedding):
            module.register_forward_hook(count)
    model.get_encoder()(**COPY_TRANSFORMER.inputs())
    assert len(calls) == 1


# captum replaces what this embedding returns for the source, which the decoder's words do not fit
def test_hooks_of_the_words_of_bert_are_those_of_the_encoder():
    model, shapes = COPY_TRANSFORMER_BERT.model(), []
    words = model.get_submodule(f"model.{model.model.bert_embedding_name()}")
    words.register_forward_hook(lambda module, inputs, output: shapes.append(inputs[0].shape))
    labels = COPY_TRANSFORMER_BERT.labels()
    model(**COPY_TRANSFORMER_BERT.inputs(), labels=labels)
    assert shapes
    assert labels.shape not in shapes


OTHER_FAMILIES = [GDLF, COPY_TRANSFORMER, DRGD, HIGHLIGHT_TRANSFORMER, POINTER_GENERATOR, SAGCOPY]
other_families = pytest.mark.parametrize(
    "made",
    [
        pytest.param(made, id=made.name, marks=() if made is SAGCOPY else pytest.mark.thorough)
        for made in OTHER_FAMILIES
    ],
)


# Dao-AILab/flash-attention#2071: gradients of each row, as of influence functions and differential privacy
@other_families
def test_gradients_of_each_row(made):
    model, batch = made.model(), {**made.inputs(), "labels": made.labels()}

    def loss(weights, row):
        return functional_call(model, weights, (), {name: value[None] for name, value in row.items()}).loss

    weights = {name: weight.detach() for name, weight in model.named_parameters()}
    gradients = vmap(grad(loss), in_dims=(None, 0))(weights, batch)
    for row in range(len(batch["labels"])):
        model.zero_grad()
        model(**{name: value[row : row + 1] for name, value in batch.items()}).loss.backward()
        expected = {name: weight.grad for name, weight in model.named_parameters()}
        torch.testing.assert_close({name: value[row] for name, value in gradients.items()}, expected)


# pytorch/pytorch#126738: operations and memory are counted without values
@other_families
def test_steps_of_training_without_values(made):
    with FakeTensorMode() as mode:
        model = made.head_class(made.config()).train()
        batch = {name: mode.from_tensor(value) for name, value in {**made.inputs(), "labels": made.labels()}.items()}
        model(**batch).loss.backward()
    with torch.device("meta"):
        model = made.head_class(made.config()).train()
    batch = {name: value.to("meta") for name, value in {**made.inputs(), "labels": made.labels()}.items()}
    model(**batch).loss.backward()


# pytorch/pytorch#108108: a traced graph fixed what its example lacked, such as padding or more phrases
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
@other_families
def test_traced_graphs_read_padding(made):
    model, example = made.model(), made.inputs(rows=2)
    example["attention_mask"] = torch.ones_like(example["attention_mask"])
    for name in example.keys() & {"phrase_starts", "phrase_ends"}:
        example[name] = torch.tensor([[0, 0, 0], [0, 0, 0]]) + (name == "phrase_ends")

    class Scores(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, targets, *sources):
            inputs = dict(zip(example, sources, strict=True))
            return self.model(**inputs, decoder_input_ids=targets, use_cache=False).logits

    targets = model.prepare_decoder_input_ids_from_labels(made.labels(rows=2))
    graph = torch.jit.trace(Scores(), (targets, *example.values()), check_trace=False)
    inputs = made.inputs(rows=2, length=13, seed=5)
    expected = model(**inputs, decoder_input_ids=targets).logits
    torch.testing.assert_close(graph(targets, *inputs.values()), expected)
