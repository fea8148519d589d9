"""GDLF against a naive implementation of the paper's equations."""

import copy
import math
from functools import partial

import pytest
import torch
from torch._dynamo.utils import counters
from torch.nn.functional import gelu, layer_norm
from transformers import AutoModelForSeq2SeqLM, CompileConfig

from hf_summ import GdlfConfig
from hf_summ.models import layers_gdlf, modeling_gdlf
from hf_summ.models.layers_gdlf import DeepLayerFusion, compiler_works
from tests.models.architectures import GDLF, GDLF_COPY
from tests.models.naive import NaiveModel, assert_equals_naive, naive_convolution

GATINGS = ["none", "relu", "gtu", "glu", "gcnn", "gate_without_update", "gate"]


class NaiveGdlf(NaiveModel):
    """docs/equations.md, section 1, over a model's named weights."""

    def gated_convolution(self, name, h, memory, kernel, causal):
        """The first sub-layer's output and the new memory."""
        memories = []

        def convolve(read):
            outputs, new = self.convolution(f"{name}.convolution", read, memory, kernel, causal)
            memories.append(new)
            return outputs

        return self.sub_layer(f"{name}.convolution_norm", h, convolve), memories[0]

    def convolution(self, name, h, memory, kernel, causal):
        gating, width = self.config.gating, self.config.d_model
        if gating in ("none", "relu"):
            o = h if gating == "none" else h.clamp(min=0)
        else:
            projected = self.linear(f"{name}.gate.projection", h)
            values, gates = projected[:, :width], projected[:, width:].sigmoid()
            o = (values.tanh() if gating in ("gtu", "gcnn") else values) * gates
        taps = self.linear(f"{name}.convolution.kernel_projection", o)
        taps = taps.view(1, len(h), self.config.num_heads, kernel).softmax(-1)
        left = kernel - 1 if causal else (kernel - 1) // 2
        dc = self.linear(f"{name}.convolution.output_projection", naive_convolution(o[None], taps, left)[0])
        if gating == "gate":
            f, candidate, update = self.linear(f"{name}.memory_cell.projection", o).split(width, dim=-1)
            memory = f.sigmoid() * memory + candidate.tanh() * update.sigmoid()
        elif gating in ("gate_without_update", "gcnn"):
            read = o if gating == "gate_without_update" else h
            f = self.linear(f"{name}.memory_cell.projection", read).sigmoid()
            memory = f * memory + (1 - f) * read
        return dc + memory, memory

    def encode(self, input_ids, tag_ids):
        words = self.weights["model.shared.weight"][input_ids]
        if self.config.tags == "none":
            h = math.sqrt(self.config.d_model) * words
        else:
            tagged = torch.cat((words, self.weights["model.encoder.embed_tags.weight"][tag_ids]), dim=-1)
            h = self.norm("model.encoder.tag_norm", self.linear("model.encoder.tag_projection", tagged))
        h = h + self.sinusoid(len(h))
        memory, layers = torch.zeros_like(h), []
        for index, kernel in enumerate(self.config.encoder_kernel_sizes):
            name = f"model.encoder.layers.{index}"
            s, memory = self.gated_convolution(name, h, memory, kernel, causal=False)
            h = self.sub_layer(f"{name}.feed_forward_norm", s, partial(self.feed_forward, f"{name}.feed_forward"))
            layers.append(h)
        return self.fuse(layers)

    def fuse(self, layers):
        name = "model.encoder.fusion"
        if self.config.layer_fusion == "none":
            return self.top("model.encoder", layers[-1])
        if self.config.layer_fusion == "fusion":
            total = torch.stack(layers).sum(0)
            inner = gelu(self.linear(f"{name}.inner", total))
            return self.norm(f"{name}.layer_norm", self.linear(f"{name}.outer", inner))

        def aggregate(node, *inputs):
            inner = self.linear(f"{name}.nodes.{node}.inner", torch.cat(inputs, dim=-1)).sigmoid()
            outputs = self.linear(f"{name}.nodes.{node}.outer", inner)
            return self.norm(f"{name}.nodes.{node}.layer_norm", outputs + torch.stack(inputs).sum(0))

        if len(layers) == 3:
            h1, h2, h3 = layers
            return aggregate(1, aggregate(0, h1, h2), h3)
        h1, h2, h3, h4, h5 = layers
        return aggregate(2, aggregate(1, aggregate(0, h1, h2), h3, h4), h5)

    def decode(self, decoder_input_ids, source):
        h = math.sqrt(self.config.d_model) * self.weights["model.shared.weight"][decoder_input_ids]
        h = h + self.sinusoid(len(h))
        memory = torch.zeros_like(h)
        for index, kernel in enumerate(self.config.decoder_kernel_sizes):
            name = f"model.decoder.layers.{index}"
            s, memory = self.gated_convolution(name, h, memory, kernel, causal=True)
            attention = f"{name}.cross_attention"
            s = self.sub_layer(f"{attention}_norm", s, lambda s, name=attention: self.attention(name, s, source)[0])
            h = self.sub_layer(f"{name}.feed_forward_norm", s, partial(self.feed_forward, f"{name}.feed_forward"))
        return self.top("model.decoder", h)

    def log_probs(self, decoder_input_ids, input_ids, tag_ids):
        source = self.encode(input_ids, tag_ids)
        h = self.decode(decoder_input_ids, source)
        p = (h @ self.weights["model.shared.weight"].T).softmax(-1)
        if self.config.copy:
            attention = "model.decoder.copy_attention"
            q, k = self.linear(f"{attention}.q_proj", h), self.linear(f"{attention}.k_proj", source)
            a = (q @ k.T / math.sqrt(self.config.d_model)).softmax(-1)
            c = self.linear("copy_gate", h).sigmoid()
            p = (1 - c) * p + c * torch.zeros_like(p).index_add(1, input_ids, a)
        return p.log()


VARIANTS = [
    *({"gating": gating} for gating in GATINGS),
    {"layer_fusion": "none"},
    {"layer_fusion": "hierarchical"},
    # three nodes, the last of which reads a single layer
    {"layer_fusion": "hierarchical", "encoder_layers": 5, "encoder_kernel_sizes": [3] * 5},
    {"norm": "pre"},
    {"norm": "pre", "gating": "gcnn", "layer_fusion": "none"},
    {"tags": "none"},
    {"tags": "none", "gating": "glu", "layer_fusion": "none"},
    {"label_smoothing": 0.0},
    {"copy": True, "norm": "pre", "tags": "pos"},
    {"copy": True, "norm": "pre", "tags": "none"},
    {"copy": True, "norm": "post", "tags": "pos"},
    {"copy": True, "norm": "post", "tags": "none"},
    {"copy": True, "gating": "glu", "layer_fusion": "none", "label_smoothing": 0.0},
]


@pytest.mark.parametrize("overrides", VARIANTS, ids=str)
def test_loss_and_gradients_equal_the_naive_reading(overrides):
    model = GDLF.model(**overrides)
    assert_equals_naive(model, NaiveGdlf(model), GDLF.inputs(), GDLF.labels())


def test_training_skips_the_logits_only_if_the_model_copies():
    inputs, labels = GDLF.inputs(), GDLF.labels()
    model = GDLF.model(copy=True).train()
    assert_equals_naive(model, NaiveGdlf(model), inputs, labels)
    assert model(**inputs, labels=labels).logits is None
    assert GDLF.model().train()(**inputs, labels=labels, skip_logits=True).logits is not None


def test_tags_are_needed_by_a_model_with_tags_alone():
    inputs = GDLF.inputs()
    del inputs["tag_ids"]
    with pytest.raises(ValueError, match="needs `tag_ids`"):
        GDLF.model()(**inputs, labels=GDLF.labels())
    model, inputs, labels = GDLF.model(tags="none"), GDLF.inputs(), GDLF.labels()
    with_tags = model(**inputs, labels=labels).loss
    del inputs["tag_ids"]
    torch.testing.assert_close(model(**inputs, labels=labels).loss, with_tags, rtol=0, atol=0)


@pytest.mark.thorough
def test_compiled_convolution_gives_the_same_loss():
    inputs, labels = GDLF.inputs(), GDLF.labels()
    expected = GDLF.model()(**inputs, labels=labels).loss
    compiled = GDLF.model(conv_implementation="compiled")(**inputs, labels=labels).loss
    torch.testing.assert_close(compiled, expected)


@pytest.mark.thorough
@pytest.mark.parametrize("architecture", [GDLF, GDLF_COPY], ids=lambda architecture: architecture.name)
def test_compiled_steps_write_the_same(architecture, caplog):
    model = architecture.model()
    # compiles a graph of its own
    assert compiler_works()
    counters.clear()
    modeling_gdlf._announce_graph.cache_clear()
    beams = {"num_beams": 3, "no_repeat_ngram_size": 2}
    # the last two use the graphs of those before
    for rows, settings in ((1, {}), (1, beams), (3, beams), (2, beams | {"num_beams": 2}), (1, {"num_beams": 4})):
        inputs = architecture.inputs(rows=rows)
        expected = model.generate(**inputs, **settings, max_new_tokens=9)
        found = model.generate(**inputs, **settings, max_new_tokens=9, compile_config=CompileConfig())
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert counters["stats"]["unique_graphs"] == caplog.text.count("compiling decoding steps for ") == 3
    assert not counters["graph_break"]
    assert model.generation_config.compile_config is None
    copy.deepcopy(model)


@pytest.mark.parametrize("key", ["output_attentions", "output_hidden_states"])
def test_compiled_steps_return_no_inner_states(key):
    message = "^`compile_config` and output_attentions or output_hidden_states exclude each other: set only one$"
    model = GDLF.model()
    with pytest.raises(ValueError, match=message):
        model.generate(**GDLF.inputs(), compile_config=CompileConfig(), return_dict_in_generate=True, **{key: True})
    model.set_attn_implementation("eager")
    setattr(model.config, key, True)
    with pytest.raises(ValueError, match=message):
        model.generate(**GDLF.inputs(), compile_config=CompileConfig())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_fusion_starts_as_the_norm_of_the_sum(dtype, tmp_path):
    config = GDLF.config(fusion_dim=40)
    fresh = AutoModelForSeq2SeqLM.from_config(config, dtype=dtype)
    # a checkpoint without fusion
    AutoModelForSeq2SeqLM.from_config(GDLF.config(layer_fusion="none")).save_pretrained(tmp_path)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, config=config, dtype=dtype)
    for model in (fresh, loaded):
        layers = torch.randn(2, 3, 7, config.d_model, dtype=dtype)
        fused = model.model.encoder.fusion(list(layers))
        expected = layer_norm(layers.sum(0), [config.d_model])
        torch.testing.assert_close(fused, expected, rtol=0, atol=1e-5 if dtype == torch.float32 else 0.05)


@pytest.mark.parametrize("fusion_dim", [32, 20])
def test_small_fusion_starts_as_the_norm_of_the_sums_projection(fusion_dim):
    """At a width of 16, 32 is enough for the sum, and 20 keeps 10 of its directions."""
    config = GDLF.config(fusion_dim=fusion_dim)
    fusion = AutoModelForSeq2SeqLM.from_config(config).model.encoder.fusion
    directions = fusion.inner.weight[: fusion_dim // 2]
    projection = directions.T @ directions
    assert torch.linalg.matrix_rank(projection, atol=1e-4) == fusion_dim // 2
    torch.testing.assert_close(projection @ projection, projection, rtol=0, atol=1e-5)
    layers = torch.randn(2, 3, 7, config.d_model)
    expected = layer_norm(layers.sum(0) @ projection, [config.d_model])
    torch.testing.assert_close(fusion(list(layers)), expected, rtol=0, atol=1e-4)


def test_fusion_may_start_as_all_linear_layers_do():
    config = GDLF.config(fusion_dim=40, fusion_init="xavier")
    fusion = AutoModelForSeq2SeqLM.from_config(config).model.encoder.fusion
    limit = math.sqrt(6 / (config.d_model + 40))
    for weight in (fusion.inner.weight, fusion.outer.weight):
        assert 0.9 * limit < weight.abs().max() <= limit
    assert not torch.equal(fusion.inner.weight, fusion.outer.weight.T)


def test_layers_fused_in_parts_equal_those_fused_at_once(monkeypatch):
    fusion = DeepLayerFusion(6, 20).double()
    layers = [torch.randn(3, 7, 6, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    found = []
    for positions in (512, 5):
        for limit in ("_TRAINED_POSITIONS", "_POSITIONS"):
            monkeypatch.setattr(layers_gdlf, limit, positions)
        with torch.no_grad():
            read = fusion(layers)
        fused = fusion(layers)
        found.append([read, fused, *torch.autograd.grad(fused.square().sum(), [*layers, *fusion.parameters()])])
    torch.testing.assert_close(*found)


def test_long_document_needs_no_position_limit():
    model = GDLF.model()
    length = 3000
    inputs = {"input_ids": torch.full((1, length), 5), "tag_ids": torch.full((1, length), 1)}
    assert model.generate(**inputs, max_new_tokens=3).shape == (1, 4)


CASES_OF_IMPOSSIBLE_SETTINGS = [
    ({"encoder_kernel_sizes": [3, 7]}, "has 2 kernel sizes .* `encoder_layers` is 7"),
    ({"decoder_layers": 2}, "has 6 kernel sizes .* `decoder_layers` is 2"),
    ({"decoder_kernel_sizes": [3, 7, 15, 31, 31, 4]}, "contains 4, but must be odd and positive"),
    ({"num_heads": 7}, r"`d_model` \(256\) must be a multiple of `num_heads` \(7\)"),
    ({"d_model": "wide"}, "d_model"),
]


@pytest.mark.parametrize(("overrides", "message"), CASES_OF_IMPOSSIBLE_SETTINGS)
def test_config_that_cannot_be_built_says_why(overrides, message):
    with pytest.raises(Exception, match=message):
        GdlfConfig(**overrides)
