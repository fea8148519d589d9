"""Highlight-Transformer against a naive n×n reading of the paper's equations."""

import math
import re
from itertools import product

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError

from hf_summ import CopyTransformerConfig, CopyTransformerForConditionalGeneration
from tests.models.architectures import HIGHLIGHT_TRANSFORMER
from tests.models.naive import NaiveModel, assert_equals_naive

SETTINGS = {"decoder_layers": 1, "lit_layers": [0, 1]}


class NaiveHighlightTransformer(NaiveModel):
    """docs/equations.md, section 3, for one document at a time, whose phrases are (start, end, value)."""

    def log_probs(self, decoder_input_ids, input_ids, phrase_starts, phrase_ends, phrase_values):
        config = self.config
        phrases = list(zip(phrase_starts.tolist(), phrase_ends.tolist(), phrase_values.tolist(), strict=True))
        e = self.encode(input_ids, phrases)
        embedding = self.weights["model.shared.weight"]
        h = math.sqrt(config.d_model) * embedding[decoder_input_ids] + self.sinusoid(len(decoder_input_ids))
        for layer in range(config.decoder_layers):
            h, _, weights = self.decoder_layer(f"model.decoder.layers.{layer}", h, e)
        h = self.top("model.decoder", h)
        p, gate = self.linear("lm_head", h).softmax(-1), torch.sigmoid(self.linear("copy_gate", h))
        return self.mixture(p, gate, weights[0], input_ids)

    def encode(self, input_ids, phrases):
        config = self.config
        h = math.sqrt(config.d_model) * self.source_words(input_ids) + self.sinusoid(len(input_ids))
        for layer in range(config.encoder_layers):
            name = f"model.encoder.layers.{layer}"
            lit = phrases if layer in config.lit_layers else None
            h = self.layer(name, h, lambda x, n=name, lit=lit: self.attend(f"{n}.self_attention", x, lit)[0])
        return self.top("model.encoder", h)

    def attend(self, name, x, phrases):
        def weigh(head, scores):
            is_lit = phrases is not None and head in self.config.lit_heads
            return self.highlight(scores, scores.softmax(-1), phrases) if is_lit else scores.softmax(-1)

        return self.attention(name, x, x, weigh=weigh)

    def highlight(self, scores, weights, phrases):
        alpha = self.config.brightness * self.config.brightness_decay**self.config.epochs_trained
        length = len(scores)
        bright, share = torch.zeros_like(scores), torch.zeros_like(scores, dtype=torch.bool)
        for start, end, value in phrases:
            for i in range(start, end):
                for j in range(start, end):
                    bright[i, j] += value
                    share[i, j] = True
        if self.config.highlighting == "weighted":
            return (scores + alpha * bright).softmax(-1)
        rows = []
        for i in range(length):
            if not share[i].any():
                alike = torch.full_like(weights[i], 1 / length)
                rows.append(weights[i] if self.config.highlighting == "additive" else alike)
                continue
            highlighted = (alpha * bright[i]).masked_fill(~share[i], -torch.inf).softmax(-1)
            if self.config.highlighting == "additive":
                mixed = weights[i] + highlighted
                rows.append(mixed / mixed.sum())
            else:
                rows.append(highlighted)
        return torch.stack(rows)


def inputs_with_nested_phrases():
    """A batch whose phrases overlap, are nested and occur twice."""
    inputs = HIGHLIGHT_TRANSFORMER.inputs()
    starts = [[0, 1, 5, 5, 8], [1, 2, 3, 0, 0], [0, 0, 0, 0, 0]]
    ends = [[4, 3, 7, 6, 11], [3, 5, 6, 0, 0], [0, 0, 0, 0, 0]]
    values = [[0.5, 0.3, 0.2, 0.2, -0.6], [0.1, 0.9, 0.1, 0.0, 0.0], [0.0] * 5]
    inputs |= {"phrase_starts": torch.tensor(starts), "phrase_ends": torch.tensor(ends)}
    return inputs | {"phrase_values": torch.tensor(values, dtype=torch.float64)}


CASES_OF_HIGHLIGHTING = [
    *product(("weighted", "additive"), ([0], [3, 1], [0, 1, 2, 3]), (True,)),
    # without plain heads, its queries would have no gradients
    *product(("replacement",), ([0], [3, 1]), (True,)),
    ("weighted", [0, 3], False),
]


@pytest.mark.parametrize(("highlighting", "lit_heads", "shift"), CASES_OF_HIGHLIGHTING, ids=str)
def test_loss_and_gradients_equal_the_equations(highlighting, lit_heads, shift):
    settings = {"highlighting": highlighting, "lit_heads": lit_heads, "token_shift": shift, "epochs_trained": 2}
    model = HIGHLIGHT_TRANSFORMER.model(**SETTINGS, **settings)
    naive = NaiveHighlightTransformer(model)
    assert_equals_naive(model, naive, inputs_with_nested_phrases(), HIGHLIGHT_TRANSFORMER.labels())


@pytest.mark.parametrize("highlighting", ["weighted", "additive"])
def test_without_phrases_it_is_a_copy_transformer(highlighting):
    model = HIGHLIGHT_TRANSFORMER.model(highlighting=highlighting)
    names = {
        name: getattr(model.config, name) for name in CopyTransformerConfig().to_dict() if hasattr(model.config, name)
    }
    config = CopyTransformerConfig(**{name: value for name, value in names.items() if name != "model_type"})
    plain = CopyTransformerForConditionalGeneration(config).double().eval()
    plain.load_state_dict(model.state_dict())
    inputs, labels = HIGHLIGHT_TRANSFORMER.inputs(), HIGHLIGHT_TRANSFORMER.labels()
    phrases = {name: inputs.pop(name) for name in ("phrase_starts", "phrase_ends", "phrase_values")}
    expected = plain(**inputs, labels=labels)
    nothing = {name: torch.zeros_like(value) for name, value in phrases.items()}
    for given in ({}, nothing):
        outputs = model(**inputs, **given, labels=labels)
        torch.testing.assert_close(outputs.logits, expected.logits, rtol=0, atol=0)
        torch.testing.assert_close(outputs.loss, expected.loss, rtol=0, atol=0)
    assert not torch.allclose(model(**inputs, **phrases, labels=labels).loss, expected.loss)


@pytest.mark.parametrize("highlighting", ["weighted", "additive", "replacement"])
def test_recorded_weights_are_those_that_were_used(highlighting):
    model = HIGHLIGHT_TRANSFORMER.model(**SETTINGS, highlighting=highlighting)
    inputs = inputs_with_nested_phrases()
    expected = model(**inputs, decoder_input_ids=torch.ones(3, 1, dtype=torch.long))
    model.set_attn_implementation("eager")
    outputs = model(**inputs, decoder_input_ids=torch.ones(3, 1, dtype=torch.long), output_attentions=True)
    torch.testing.assert_close(outputs.logits, expected.logits)
    weights = outputs.encoder_attentions[0]
    assert weights.shape == (3, 4, 11, 11)
    # a row of padding is nobody's
    sums = weights.sum(-1)[inputs["attention_mask"].bool()[:, None].expand(-1, 4, -1)]
    torch.testing.assert_close(sums, torch.ones_like(sums))
    naive = NaiveHighlightTransformer(model)
    embedded = 4 * naive.source_words(inputs["input_ids"][0]) + naive.sinusoid(11)
    read = naive.norm("model.encoder.layers.0.self_attention_norm", embedded)
    columns = (inputs[name][0].tolist() for name in ("phrase_starts", "phrase_ends", "phrase_values"))
    _, expected = naive.attend("model.encoder.layers.0.self_attention", read, list(zip(*columns, strict=True)))
    torch.testing.assert_close(weights[0], expected)


@pytest.mark.parametrize("highlighting", ["weighted", "additive", "replacement"])
def test_gradients_reach_recorded_weights(highlighting):
    model = HIGHLIGHT_TRANSFORMER.model(highlighting=highlighting, encoder_layers=1, lit_layers=[0])
    model.set_attn_implementation("eager")
    layer = model.model.encoder.layers[0].self_attention
    values = []
    layer.v_proj.register_forward_hook(lambda module, arguments, output: values.append(output.unflatten(2, (4, -1))))
    contexts = []
    layer.out_proj.register_forward_pre_hook(lambda module, arguments: contexts.append(arguments[0]))
    inputs = inputs_with_nested_phrases()
    outputs = model(**inputs, labels=HIGHLIGHT_TRANSFORMER.labels(), output_attentions=True)
    weights, context = outputs.encoder_attentions[0], contexts[0]
    found, context_gradient = torch.autograd.grad(outputs.loss, (weights, context))
    expected = torch.einsum("bqhd,bkhd->bhqk", context_gradient.unflatten(2, (4, -1)), values[0])
    torch.testing.assert_close(found, expected)
    assert found.abs().amax((0, 2, 3)).min() > 0


def test_document_of_padding_alone_changes_no_other():
    inputs, labels = HIGHLIGHT_TRANSFORMER.inputs(), HIGHLIGHT_TRANSFORMER.labels()
    inputs["attention_mask"][2] = 0
    labels[2] = -100
    first_inputs = {name: value[:2] for name, value in inputs.items()}
    for highlighting in ("weighted", "additive", "replacement"):
        losses, gradients = [], []
        for batch, targets in ((inputs, labels), (first_inputs, labels[:2])):
            model = HIGHLIGHT_TRANSFORMER.model(highlighting=highlighting)
            loss = model(**batch, labels=targets).loss
            loss.backward()
            losses.append(loss.item())
            gradients.append([parameter.grad for parameter in model.parameters()])
        assert losses[0] == pytest.approx(losses[1])
        torch.testing.assert_close(gradients[0], gradients[1])


def test_default_heads_and_layers_are_the_first():
    config = HIGHLIGHT_TRANSFORMER.config(lit_heads=None, lit_layers=None, num_heads=8, encoder_layers=5)
    assert (config.heads_that_highlight, config.layers_that_highlight) == ([0, 1], [0, 1])
    small = HIGHLIGHT_TRANSFORMER.config(lit_heads=None, lit_layers=None, num_heads=2, encoder_layers=1)
    assert (small.heads_that_highlight, small.layers_that_highlight) == ([0], [0])


CASES_OF_INCONSISTENT_SETTINGS = [
    ({"lit_heads": [4]}, r"`lit_heads` is \[4\], but must be different numbers from 0 to 3$"),
    ({"lit_layers": [-1]}, r"`lit_layers` is \[-1\], but must be different numbers from 0 to 1$"),
    ({"lit_heads": [1, 1]}, r"`lit_heads` is \[1, 1\], but must be different numbers"),
    ({"lit_layers": []}, r"`lit_layers` is empty: to switch highlighting off, set `highlighting=\"none\"`$"),
    ({"num_heads": 3, "lit_heads": None}, r"`d_model` \(16\) must be a multiple of `num_heads` \(3\)$"),
]


@pytest.mark.parametrize(("settings", "message"), CASES_OF_INCONSISTENT_SETTINGS)
def test_inconsistent_configuration_is_refused(settings, message):
    with pytest.raises(StrictDataclassError) as caught:
        HIGHLIGHT_TRANSFORMER.config(**settings)
    assert re.search(message, str(caught.value.__cause__))


def test_phrases_that_do_not_fit_are_refused():
    model, inputs = HIGHLIGHT_TRANSFORMER.model(), HIGHLIGHT_TRANSFORMER.inputs()
    labels = HIGHLIGHT_TRANSFORMER.labels()
    with pytest.raises(ValueError, match=r"^a phrase ends at 12, but the source has only 11 tokens$"):
        model(**{**inputs, "phrase_ends": inputs["phrase_ends"].clamp(min=12)}, labels=labels)
    with pytest.raises(ValueError, match=r"must have one shape, but have \(3, 3\), \(3, 3\), \(3, 2\)$"):
        model(**{**inputs, "phrase_values": inputs["phrase_values"][:, :2]}, labels=labels)
    with pytest.raises(ValueError, match=r"^`phrase_starts`, `phrase_ends` and `phrase_values` belong together"):
        model(**{name: value for name, value in inputs.items() if name != "phrase_ends"}, labels=labels)


def test_padding_is_never_lit():
    model, labels = HIGHLIGHT_TRANSFORMER.model(), HIGHLIGHT_TRANSFORMER.labels()
    inputs = inputs_with_nested_phrases()
    scores = []
    # the second text has seven tokens
    for end in (7, 9):
        ends = inputs["phrase_ends"].clone()
        ends[1, 1] = end
        scores.append(model(**{**inputs, "phrase_ends": ends}, labels=labels).logits)
    torch.testing.assert_close(scores[1], scores[0])


def test_older_config_has_the_values_of_its_time():
    kind = HIGHLIGHT_TRANSFORMER.config_class
    found = [(config.layer_norm_eps, config.embedding_init) for config in (kind(), kind.from_dict({}))]
    assert found == [(1e-6, "xavier"), (1e-5, "normal")]


@pytest.mark.parametrize("highlighting", ["weighted", "additive", "replacement"])
def test_the_value_of_a_phrase_without_overlap_counts_with_weighted_alone(highlighting):
    model = HIGHLIGHT_TRANSFORMER.model(highlighting=highlighting).double()
    inputs = {"input_ids": torch.tensor([[5, 6, 7, 8, 9, 1]]), "labels": torch.tensor([[5, 6, 1]])}
    losses = []
    for value in (1.0, -1.0):
        phrase = {"phrase_starts": [[2]], "phrase_ends": [[4]], "phrase_values": [[value]]}
        phrase = {name: torch.tensor(rows) for name, rows in phrase.items()}
        losses.append(model(**inputs, **phrase).loss.item())
    assert (losses[0] == losses[1]) == (highlighting != "weighted")
