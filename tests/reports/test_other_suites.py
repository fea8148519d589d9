"""What users of transformers, PEFT and accelerate expect of any model, and our models once failed."""

from itertools import product

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
from tests.conftest import SENTENCES
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


def architecture_name(made: Architecture) -> str:
    """The name of an architecture in the ids of tests."""
    return made.name


@pytest.fixture(params=EACH)
def architecture(request) -> Architecture:
    return request.param


# https://github.com/huggingface/accelerate/issues/1900: a divided model writes other texts
@pytest.mark.thorough
@pytest.mark.parametrize("use_cache", [True, False])
def test_a_divided_model_writes_the_same(architecture, tmp_path, use_cache):
    whole, inputs = architecture.model().float(), architecture.inputs()
    for name, value in inputs.items():
        if value.is_floating_point():
            inputs[name] = value.float()
    whole.save_pretrained(tmp_path / "model")
    size = 4 * sum(weight.numel() for weight in whole.parameters())
    limits = {"max_memory": {"cpu": int(size * 0.7)}, "offload_folder": str(tmp_path / "disk")}
    divided = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "model", device_map="auto", **limits)
    assert "disk" in divided.hf_device_map.values()
    settings = {"num_beams": 3, "num_return_sequences": 3, "use_cache": use_cache}
    expected = generate(whole, inputs, **settings)
    assert torch.equal(generate(divided, inputs, **settings), expected)
    # this function of accelerate knows nothing of the model's arguments
    offloaded = cpu_offload(whole, execution_device="cpu")
    assert torch.equal(generate(offloaded, inputs, **settings), expected)


def test_attention_has_gradients(architecture):
    """The output is computed from the recorded weights, and is the same as without recording."""
    model, inputs, labels = architecture.model(), architecture.inputs(), architecture.labels()
    model.set_attn_implementation("eager")
    outputs = model(**inputs, labels=labels, output_attentions=True)
    torch.testing.assert_close(outputs.loss, model(**inputs, labels=labels).loss)
    gradients = torch.autograd.grad(outputs.loss, outputs.cross_attentions)
    assert all(gradient.any() for gradient in gradients)


@pytest.mark.parametrize("made", [DRGD, DRGD_PRINTED], ids=architecture_name)
def test_recorded_attention_leaves_the_gradients_of_weights(made):
    def gradients(output_attentions: bool) -> dict[str, torch.Tensor]:
        model = made.model()
        model(**made.inputs(), labels=made.labels(), output_attentions=output_attentions).loss.backward()
        return {name: weight.grad for name, weight in model.named_parameters()}

    torch.testing.assert_close(gradients(output_attentions=True), gradients(output_attentions=False))


@pytest.mark.thorough
@pytest.mark.parametrize("beams", [1, 3])
def test_states_of_an_encoder_may_lack_the_words(architecture, beams):
    model, inputs = architecture.model(), architecture.inputs()
    expected = generate(model, inputs, num_beams=beams)
    states = model.get_encoder()(**inputs)
    # these encoders return more than the states
    if states.keys() & {"centrality", "last_states"}:
        return
    # tags and phrases are read by the encoder alone
    settings = {}
    for name, value in inputs.items():
        if name != "tag_ids" and not name.startswith("phrase_"):
            settings[name] = value
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


CASES_OF_PADDING = [[0, 0, 1, 1, 1], [1, 0, 1, 0, 1], [1, 1, 0, 1, 1], [1, 1, 1, 0, 0], [0, 0, 0, 0, 1]]


@pytest.mark.parametrize("mask", CASES_OF_PADDING, ids=str)
@pytest.mark.parametrize("made", [DRGD, DRGD_PRINTED, POINTER_GENERATOR], ids=architecture_name)
def test_padding_may_be_anywhere(made, mask):
    model, mask = made.model(), torch.tensor([mask, [1, 1, 1, 1, 1]])
    ids, targets = torch.tensor([[5, 6, 7, 8, 9], [9, 8, 7, 6, 5]]), torch.tensor([[1, 6, 7], [1, 5, 5]])
    logits = model(input_ids=ids, attention_mask=mask, decoder_input_ids=targets).logits
    for row in range(2):
        ids_without_padding = ids[row : row + 1, mask[row].bool()]
        expected = model(input_ids=ids_without_padding, decoder_input_ids=targets[row : row + 1]).logits
        torch.testing.assert_close(logits[row : row + 1], expected)


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


def test_arguments_of_processors_may_be_nested(architecture, tiny_tokenizer):
    processor = architecture.processor(tiny_tokenizer)
    call = f"{type(processor).__name__}.__call__"
    texts = {"text": SENTENCES, "text_target": SENTENCES}
    expected = processor(**texts, max_length=6, max_target_length=4, return_tensors="pt")
    nested = {"text_kwargs": {"max_length": 6}, "common_kwargs": {"return_tensors": "pt", "max_length": 5}}
    found = processor(**texts, **nested, max_target_length=4)
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    with pytest.raises(TypeError, match="got multiple values for keyword argument 'padding'"):
        processor(SENTENCES, padding=True, text_kwargs={"padding": True})
    for name, given in product(("truncaton", "padding_side", "length"), ("text", "text_target")):
        for unknown in ({name: 1}, {"text_kwargs": {name: 1}}):
            message = rf"^{call}\(\) got an unexpected keyword argument '{name}'$"
            with pytest.raises(TypeError, match=message):
                processor(**{given: SENTENCES}, **unknown)


def test_tags_of_another_length_are_named():
    inputs = GDLF.inputs()
    with pytest.raises(ValueError, match=r"^`tag_ids` is \(3, 10\), but must be \(3, 11\), a tag for each subword"):
        GDLF.model()(**{**inputs, "tag_ids": inputs["tag_ids"][:, :-1]}, labels=GDLF.labels())


@pytest.mark.parametrize("made", [DRGD, DRGD_PRINTED, COPY_TRANSFORMER_BERT], ids=architecture_name)
def test_linear_layers_are_quantized_by_torch(made):
    model = made.model().float()
    quantized = torch.ao.quantization.quantize_dynamic(model, {nn.Linear, nn.GRU, nn.GRUCell}, dtype=torch.qint8)
    assert generate(quantized, made.inputs(), num_beams=2).shape[0] == 3
    expected = model(**made.inputs(), labels=made.labels()).loss
    loss = quantized(**made.inputs(), labels=made.labels()).loss
    torch.testing.assert_close(loss, expected, rtol=0.05, atol=0.05)


# https://github.com/pytorch/pytorch/issues/195066: products of a dimension of size 1 are undefined on CPUs with VNNI
@pytest.mark.parametrize("inputs", [1, 2, 3])
@pytest.mark.parametrize("rows", [1, 5, 40])
def test_products_of_few_inputs_are_exact(inputs, rows):
    torch.manual_seed(0)
    weight = torch.randint(-127, 128, (16, inputs), dtype=torch.int8)
    values = torch.randint(-127, 128, (rows, inputs), dtype=torch.int8)
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
@pytest.mark.parametrize("made", [DRGD, POINTER_GENERATOR, COPY_TRANSFORMER_BERT_OUTPUT], ids=architecture_name)
def test_replicas_of_data_parallel_are_trained(made):
    model, replicated_model = made.model(), made.model()
    model(**made.inputs(), labels=made.labels()).loss.backward()
    # gradients of the replica's weights reach the parameters
    replicate(replicated_model)(**made.inputs(), labels=made.labels()).loss.backward()
    expected = {name: weight.grad for name, weight in model.named_parameters()}
    gradients = {name: weight.grad for name, weight in replicated_model.named_parameters()}
    torch.testing.assert_close(gradients, expected)


# pytorch/pytorch#33618: pruned weights are attributes beside their parameters
@pytest.mark.parametrize("made", [DRGD, POINTER_GENERATOR], ids=architecture_name)
def test_recurrent_weights_are_pruned(made):
    pruned, masked = made.model(), made.model()
    for module, masked_module in zip(list(pruned.modules()), list(masked.modules()), strict=True):
        if isinstance(module, (nn.RNNBase, nn.RNNCellBase)):
            for name, _ in list(module.named_parameters()):
                prune.random_unstructured(module, name, 0.5)
                getattr(masked_module, name).data.mul_(getattr(module, f"{name}_mask"))
    expected = masked(**made.inputs(), labels=made.labels()).loss
    torch.testing.assert_close(pruned(**made.inputs(), labels=made.labels()).loss, expected)


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
    word_embedding = model.get_submodule(f"model.{model.model.bert_embedding_name()}")
    word_embedding.register_forward_hook(lambda module, inputs, output: shapes.append(inputs[0].shape))
    labels = COPY_TRANSFORMER_BERT.labels()
    model(**COPY_TRANSFORMER_BERT.inputs(), labels=labels)
    assert shapes
    assert labels.shape not in shapes


THOROUGH_FAMILIES = [GDLF, COPY_TRANSFORMER, DRGD, HIGHLIGHT_TRANSFORMER, POINTER_GENERATOR]
CASES_OF_FAMILIES = [pytest.param(made, id=made.name, marks=pytest.mark.thorough) for made in THOROUGH_FAMILIES]
CASES_OF_FAMILIES.append(pytest.param(SAGCOPY, id=SAGCOPY.name))
each_family = pytest.mark.parametrize("made", CASES_OF_FAMILIES)


# Dao-AILab/flash-attention#2071: gradients of each row, as of influence functions and differential privacy
@each_family
def test_gradients_of_each_row(made):
    model, batch = made.model(), {**made.inputs(), "labels": made.labels()}

    def loss(weights, row):
        batch_of_one = {name: value[None] for name, value in row.items()}
        return functional_call(model, weights, (), batch_of_one).loss

    weights = {name: weight.detach() for name, weight in model.named_parameters()}
    gradients = vmap(grad(loss), in_dims=(None, 0))(weights, batch)
    for row in range(len(batch["labels"])):
        batch_of_one = {name: value[row : row + 1] for name, value in batch.items()}
        model.zero_grad()
        model(**batch_of_one).loss.backward()
        for name, weight in model.named_parameters():
            torch.testing.assert_close(gradients[name][row], weight.grad)


# pytorch/pytorch#126738: operations and memory are counted without values
@each_family
def test_steps_of_training_without_values(made):
    batch = {**made.inputs(), "labels": made.labels()}
    with FakeTensorMode() as mode:
        model = made.head_class(made.config()).train()
        fake_batch = {name: mode.from_tensor(value) for name, value in batch.items()}
        model(**fake_batch).loss.backward()
    with torch.device("meta"):
        model = made.head_class(made.config()).train()
    meta_batch = {name: value.to("meta") for name, value in batch.items()}
    model(**meta_batch).loss.backward()


# pytorch/pytorch#108108: a traced graph fixed what its example lacked, such as padding or more phrases
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
@each_family
def test_traced_graphs_read_padding(made):
    model, example = made.model(), made.inputs(rows=2)
    example["attention_mask"] = torch.ones_like(example["attention_mask"])
    if "phrase_starts" in example:
        example["phrase_starts"] = torch.zeros(2, 3, dtype=torch.long)
        example["phrase_ends"] = torch.ones(2, 3, dtype=torch.long)

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
