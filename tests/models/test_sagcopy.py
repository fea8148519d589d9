"""SAGCopy against a naive reading of the paper's equations, and its centralities against graphs of networkx."""

import math
from itertools import product

import networkx
import pytest
import torch
from huggingface_hub.errors import StrictDataclassError
from torch.nn.functional import gelu

from hf_summ import SagCopyConfig, SagCopyForConditionalGeneration
from hf_summ.models.modeling_sagcopy import attention_with_mean, centrality
from tests.conftest import first
from tests.models.architectures import SAGCOPY
from tests.models.naive import NaiveModel, assert_equals_naive

KINDS = ("outdegree", "indegree-1", "indegree-2", "indegree-3")


def naive_centrality(weights, kind, damping):
    """Equations 13 to 16 for one document: D[i][j] is the attention of word j to word i."""
    length = len(weights)
    edges = weights.T
    if kind == "outdegree":
        return torch.stack([edges[i].sum() for i in range(length)]) / length
    transitions = torch.stack([edges[i] / edges[i].sum() for i in range(length)])
    scores = torch.full((length,), 1 / length, dtype=weights.dtype)
    for turn in range(int(kind[-1])):
        arrived = torch.zeros_like(scores)
        for i in range(length):
            arrived[i] = sum(transitions[j, i] * scores[j] for j in range(length))
        scores = arrived if turn == 0 else damping * arrived + (1 - damping) * scores
    return scores


class NaiveSagCopy(NaiveModel):
    """docs/equations.md, section 5, for one document at a time."""

    def log_probs(self, decoder_input_ids, input_ids):
        config = self.config
        e, graph = self.encode(input_ids)
        self.central = None
        if graph is not None:
            self.central = naive_centrality(graph, config.centrality, config.centrality_damping)
        words = self.weights["model.shared.weight"][decoder_input_ids]
        h = self.read("model.decoder", words)
        for layer in range(config.decoder_layers):
            name = f"model.decoder.layers.{layer}"
            is_guided = self.central is not None and layer == config.decoder_layers - 1
            shift = self.shift(name) if is_guided else 0.0
            h, context, weights = self.decoder_layer(name, h, e, shift)
            self.copied = weights.mean(0)
        scores = h @ self.weights["model.shared.weight"].T
        p = (scores + self.weights.get("lm_head.bias", 0)).softmax(-1)
        if not config.copy:
            return p.log()
        gate = torch.sigmoid(self.linear("model.decoder.copy_gate", torch.cat((context, h, words), dim=-1)))
        return self.mixture(p, gate, self.copied, input_ids)

    def encode(self, input_ids):
        h = self.read("model.encoder", self.source_words(input_ids))
        weights = None
        for layer in range(self.config.encoder_layers):
            name = f"model.encoder.layers.{layer}"
            outputs, weights = self.attention(f"{name}.self_attention", h, h)
            h = self.layer(name, h, lambda h, outputs=outputs: outputs)
        return h, None if self.config.centrality == "none" else weights.mean(0)

    def read(self, side, words):
        """Words, scaled, with their positions, normalized."""
        config = self.config
        scale = math.sqrt(config.d_model) if config.scale_embedding else 1
        if config.positions == "learned":
            positions = self.weights[f"{side}.input_layer.positions.table.weight"][: len(words)]
        else:
            positions = self.sinusoid(len(words))
        h = scale * words + positions
        return self.norm(f"{side}.input_layer.norm", h) if config.embedding_norm else h

    def feed_forward(self, name, s):
        if self.config.activation == "relu":
            return super().feed_forward(name, s)
        return self.linear(f"{name}.outer", gelu(self.linear(f"{name}.inner", s)))

    def shift(self, name):
        """What equation 17 adds to the keys, (S, heads, width of a head)."""
        shift = self.weights[f"{name}.cross_attention.centrality_weight"].unflatten(-1, (self.config.num_heads, -1))
        return len(self.central) * self.central[:, None, None] * shift

    def loss(self, inputs, labels):
        """Equation 18, for each document."""
        if self.config.centrality == "none":
            return super().loss(inputs, labels)
        total = super().loss(inputs, labels)
        tokens = (labels != -100).sum()
        for row, length in enumerate(inputs["attention_mask"].sum(-1).tolist()):
            wanted = labels[row][labels[row] != -100]
            start = torch.tensor([self.config.decoder_start_token_id])
            self.log_probs(torch.cat((start, wanted[:-1])), inputs["input_ids"][row, :length])
            mean = sum(self.copied) / len(wanted)
            divergence = sum(mean[i] * (mean[i] / self.central[i]).log() for i in range(length))
            count = len(wanted) if self.config.guidance_sum == "tokens" else 1
            total = total + self.config.guidance_weight * count * divergence / tokens
        return total


CASES_OF_SETTINGS = [
    {"centrality": "outdegree"},
    {"centrality": "indegree-1"},
    {"centrality": "indegree-2"},
    {"centrality": "indegree-3"},
    {"centrality": "indegree-3", "centrality_damping": 0.85, "guidance_sum": "documents", "guidance_weight": 0.3},
    {"centrality": "outdegree", "scale_embedding": False, "output_bias": True, "activation": "relu"},
    {"centrality": "indegree-1", "positions": "sinusoids", "embedding_norm": False, "guidance_weight": 0.0},
    {"centrality": "none"},
    {"centrality": "none", "copy": False},
    {"centrality": "indegree-2", "token_shift": True},
]


@pytest.mark.parametrize("overrides", CASES_OF_SETTINGS, ids=str)
@pytest.mark.parametrize("attention", first(["sdpa", "eager"]))
def test_loss_and_gradients_equal_the_equations(overrides, attention):
    model = SAGCOPY.model(**{"centrality_damping": 1.0, **overrides})
    model.set_attn_implementation(attention)
    for training in (False, True):
        # in training, all logits are skipped
        model.train(training)
        assert_equals_naive(model, NaiveSagCopy(model), SAGCOPY.inputs(), SAGCOPY.labels())


def random_attention(rows=3, length=9, seed=0):
    """Weights (B, S, S) as an encoder gives them, and which positions are tokens."""
    generator = torch.Generator().manual_seed(seed)
    is_token = torch.arange(length)[None] < torch.tensor([length, length - 4, 1])[:rows, None]
    scores = 3 * torch.randn(rows, length, length, generator=generator, dtype=torch.float64)
    return scores.masked_fill(~is_token[:, None], -torch.inf).softmax(-1), is_token


@pytest.mark.parametrize(("kind", "damping"), list(product(KINDS, (1.0, 0.85))))
def test_centralities_are_those_of_a_graph(kind, damping):
    weights, is_token = random_attention()
    found = centrality(weights, is_token, kind, damping)
    torch.testing.assert_close(found.sum(1), torch.ones(3, dtype=torch.float64))
    assert (found[~is_token] == 0).all()
    for row in range(3):
        length = int(is_token[row].sum())
        graph = networkx.DiGraph()
        graph.add_nodes_from(range(length))
        # an edge of the paper's D goes from the word that is attended to
        for query in range(length):
            for key in range(length):
                graph.add_edge(key, query, weight=float(weights[row, query, key]))
        if kind == "outdegree":
            expected = [graph.out_degree(word, weight="weight") / length for word in range(length)]
        else:
            walk = networkx.google_matrix(graph, alpha=1.0, nodelist=range(length))
            scores = [1 / length] * length
            for turn in range(int(kind[-1])):
                arrived = scores @ walk
                scores = arrived if turn == 0 else damping * arrived + (1 - damping) * scores
            expected = scores.tolist()
        torch.testing.assert_close(found[row, :length], torch.tensor(expected, dtype=torch.float64))


# The length of the documents, and how many weights a chunk has at most.
CASES_OF_CHUNKS = [(1, 2**20), (128, 2**20), (150, 2**20), (150, 1)]


@pytest.mark.parametrize(("length", "at_once"), CASES_OF_CHUNKS)
def test_attention_in_chunks_equals_that_of_all_weights(length, at_once, monkeypatch):
    monkeypatch.setattr("hf_summ.models.modeling_sagcopy._CHUNK_WEIGHTS", at_once)
    generator = torch.Generator().manual_seed(0)
    draw = [torch.randn(2, 3, length, 4, generator=generator, dtype=torch.float64) for _ in range(4)]
    mask = (torch.arange(length)[None] < torch.tensor([length, max(length - 20, 1)])[:, None])[:, None, None]
    inputs = [tensor.requires_grad_() for tensor in draw[:3]]
    mean_gradient = torch.randn(2, length, length, generator=generator, dtype=torch.float64)

    def naive(queries, keys, values):
        scores = (queries @ keys.transpose(2, 3)) * 0.5
        weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
        return (weights @ values).transpose(1, 2), weights.mean(1)

    results = []

    def in_chunks(queries, keys, values):
        return attention_with_mean(queries, keys, values, mask, 0.5)

    for attend in (naive, in_chunks):
        context, mean = attend(*inputs)
        total = (context * draw[3].transpose(1, 2)).sum() + (mean * mean_gradient).sum()
        results.append((context, mean, *torch.autograd.grad(total, inputs)))
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected)
    with torch.no_grad():
        torch.testing.assert_close(attention_with_mean(*inputs, mask, 0.5), results[0][:2])


def test_dropped_weights_are_the_same_in_both_passes():
    generator = torch.Generator().manual_seed(0)
    queries, keys, values = torch.randn(3, 1, 2, 150, 3, generator=generator, dtype=torch.float64)
    direction = torch.randn(queries.shape, generator=generator, dtype=torch.float64)

    def total(moved):
        torch.manual_seed(5)
        context, mean = attention_with_mean(queries + moved * direction, keys, values, None, 0.5, dropout=0.4)
        return (context * context).sum() + (mean * mean).sum()

    moved = torch.zeros((), dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(total(moved), moved)
    step = 1e-6
    torch.testing.assert_close(slope, (total(step) - total(-step)) / (2 * step), rtol=1e-6, atol=1e-6)
    context, mean = attention_with_mean(queries, keys, torch.ones_like(values), None, 0.5, dropout=0.4)
    # the mean is of the weights before they are dropped
    torch.testing.assert_close(mean.sum(-1), torch.ones(1, 150, dtype=torch.float64))
    assert 0.8 < context.mean() < 1.2
    assert context.std() > 0.05


def test_encoder_outputs_that_a_user_hands_in_keep_the_centrality():
    model = SAGCOPY.model()
    inputs, labels = SAGCOPY.inputs(), SAGCOPY.labels()
    expected = model(**inputs, labels=labels)
    batch = {"attention_mask": inputs["attention_mask"], "labels": labels}
    encoded = model.model.encoder(**inputs)
    assert encoded.centrality.shape == inputs["input_ids"].shape
    model.set_attn_implementation("eager")
    recorded = model.model.encoder(**inputs, output_hidden_states=True, output_attentions=True)
    for outputs in (encoded, recorded):
        actual = model(encoder_outputs=outputs, **batch)
        torch.testing.assert_close(actual.loss, expected.loss)
        torch.testing.assert_close(actual.centrality, expected.centrality)
    with pytest.raises(ValueError, match="guided copying needs `encoder_outputs` as the model's encoder returns them"):
        model(inputs["input_ids"], encoder_outputs=(encoded.last_hidden_state,), **batch)


def test_documents_of_one_token_and_of_padding_alone():
    for kind in KINDS:
        model = SAGCOPY.model(centrality=kind)
        inputs = {"input_ids": torch.tensor([[5, 0], [0, 0]]), "attention_mask": torch.tensor([[1, 0], [0, 0]])}
        labels = torch.tensor([[5, 2], [6, 2]])
        outputs = model(**inputs, labels=labels)
        assert outputs.centrality.tolist() == [[1, 0], [0, 0]]
        # all copying is from the only token, and nothing can be copied from the empty document
        assert outputs.loss_parts["guidance"].item() == pytest.approx(0, abs=1e-12)
        outputs.loss.backward()
        assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_has_no_nan(dtype):
    # attention that is all on one word
    model = SAGCOPY.model()
    model.model.encoder.layers[-1].self_attention.q_proj.weight.data.mul_(50)
    model.model.decoder.layers[-1].cross_attention.q_proj.weight.data.mul_(50)
    outputs = model.to(dtype)(**SAGCOPY.inputs(), labels=SAGCOPY.labels())
    assert outputs.centrality.dtype == torch.float32
    outputs.loss.backward()
    assert outputs.loss.isfinite()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("is_mixed", [True, False])
def test_centrality_sums_to_one_in_half_precision(is_mixed, attention):
    # some tokens receive less attention than half precision can represent
    model = SAGCOPY.model(centrality="indegree-3", centrality_damping=1.0, attn_implementation=attention).float()
    model.model.encoder.layers[-1].self_attention.q_proj.weight.data.mul_(120)
    if not is_mixed:
        model.half()
    with torch.autocast("cpu", torch.float16, enabled=is_mixed):
        outputs = model.model.encoder(**SAGCOPY.inputs(length=60))
    assert outputs.centrality.dtype == torch.float32
    torch.testing.assert_close(outputs.centrality.sum(-1), torch.ones(3))


def test_parts_of_the_loss():
    model = SAGCOPY.model(guidance_weight=3.0, label_smoothing=0.0)
    outputs = model(**SAGCOPY.inputs(), labels=SAGCOPY.labels())
    parts = outputs.loss_parts
    assert parts["guidance"] > 0
    torch.testing.assert_close(outputs.loss, parts["nll"] + 3 * parts["guidance"])
    assert "guidance" not in SAGCOPY.model(centrality="none")(**SAGCOPY.inputs(), labels=SAGCOPY.labels()).loss_parts


def test_text_longer_than_the_positions_is_named():
    model = SAGCOPY.model(max_positions=8)
    message = r"the text has 11 tokens, but the model has 8 positions"
    with pytest.raises(ValueError, match=message):
        model(**SAGCOPY.inputs(), labels=SAGCOPY.labels())
    with pytest.raises(ValueError, match="the text has 9 tokens"):
        model.generate(**SAGCOPY.inputs(length=6), max_new_tokens=20, min_new_tokens=20)


CASES_OF_IMPOSSIBLE_SETTINGS = [
    ({"activation": "gelo"}, "`activation` is 'gelo', but must be one of"),
    ({"copy": False}, '`centrality="indegree-1"` needs `copy`: for the plain MASS, set it to "none"'),
]


@pytest.mark.parametrize(("settings", "message"), CASES_OF_IMPOSSIBLE_SETTINGS)
def test_impossible_configurations_are_named(settings, message):
    with pytest.raises(StrictDataclassError, match=message):
        SagCopyConfig(**settings)


def test_untrained_weight_of_the_centrality_changes_nothing():
    torch.manual_seed(0)
    guided = SagCopyForConditionalGeneration(SAGCOPY.config()).eval()
    assert not guided.model.decoder.layers[-1].cross_attention.centrality_weight.any()
    plain = SagCopyForConditionalGeneration(SAGCOPY.config(centrality="none")).eval()
    missing, unexpected = plain.load_state_dict(guided.state_dict(), strict=False)
    assert (missing, unexpected) == ([], ["model.decoder.layers.1.cross_attention.centrality_weight"])
    inputs, labels = SAGCOPY.inputs(), SAGCOPY.labels()
    torch.testing.assert_close(plain(**inputs, labels=labels).logits, guided(**inputs, labels=labels).logits)
