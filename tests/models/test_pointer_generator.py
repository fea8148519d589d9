"""The pointer-generator against a naive implementation of its equations, and pointers to unknown words."""

import pytest
import torch

from hf_summ import PointerGeneratorConfig, PointerGeneratorForConditionalGeneration
from tests.models.architectures import POINTER_GENERATOR, VOCAB_SIZE
from tests.models.naive import NaiveModel, assert_equals_naive

# two unknown words, of which the first is repeated
FIRST, SECOND = VOCAB_SIZE + 7, VOCAB_SIZE + 900
POINTING = {"unknown_ids": 1000, "unk_token_id": 3}


class NaivePointerGenerator(NaiveModel):
    """docs/equations.md, section 7, one step of one document at a time."""

    def __init__(self, model):
        super().__init__(model)
        self.repetition = 0.0

    def lstm(self, name, x, h, c, suffix=""):
        gates = sum(
            self.weights[f"{name}.weight_{kind}{suffix}"] @ value + self.weights[f"{name}.bias_{kind}{suffix}"]
            for kind, value in (("ih", x), ("hh", h))
        )
        i, f, g, o = gates.chunk(4)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c

    def encode(self, words):
        states, ends = [], []
        for suffix, order in (("_l0", words), ("_l0_reverse", words.flip(0))):
            h = c = words.new_zeros(self.config.hidden_size)
            direction_states = []
            for word in order:
                h, c = self.lstm("model.encoder.lstm", word, h, c, suffix)
                direction_states.append(h)
            states.append(torch.stack(direction_states))
            ends.append((h, c))
        (forward_hidden, forward_cell), (backward_hidden, backward_cell) = ends
        hidden = torch.cat((forward_hidden, backward_hidden))
        cells = torch.cat((forward_cell, backward_cell))
        return torch.cat((states[0], states[1].flip(0)), dim=-1), hidden, cells

    def words(self, ids):
        unknown = self.config.unk_token_id
        return self.weights["model.shared.weight"][[id if id < VOCAB_SIZE else unknown for id in ids.tolist()]]

    def log_probs(self, decoder_input_ids, input_ids):
        config, decoder = self.config, "model.decoder"
        e, hidden, cells = self.encode(self.words(input_ids))
        h, c = self.linear(f"{decoder}.hidden_start", hidden).relu(), self.linear(f"{decoder}.cell_start", cells).relu()
        context, coverage, log_probs = e.new_zeros(e.shape[1]), e.new_zeros(len(e)), []
        for y in self.words(decoder_input_ids):
            x = self.linear(f"{decoder}.input_projection", torch.cat((y, context)))
            h, c = self.lstm(f"{decoder}.cell", x, h, c)
            layer = self.linear(f"{decoder}.attention.key_projection", e)
            layer = layer + self.linear(f"{decoder}.attention.query_projection", torch.cat((c, h)))
            if config.coverage:
                layer = layer + self.linear(f"{decoder}.attention.coverage_projection", coverage[:, None])
            a = self.linear(f"{decoder}.attention.score", layer.tanh())[:, 0].softmax(0)
            context = a @ e
            # the first step has no earlier attention
            self.repetition = self.repetition + torch.minimum(a, coverage).sum()
            coverage = coverage + a
            p = self.linear("lm_head", self.linear(f"{decoder}.output", torch.cat((h, context)))).softmax(-1)
            if config.copy:
                gate = torch.sigmoid(self.linear(f"{decoder}.copy_gate", torch.cat((context, c, h, x))))
                # generated words, and then all ids that unknown words may have
                extended = torch.cat(((1 - gate) * p, p.new_full((config.unknown_ids,), 1e-300)))
                p = extended.index_add(0, input_ids, gate * a)
            log_probs.append(p.log())
        return torch.stack(log_probs)

    def loss(self, inputs, labels):
        nll = super().loss(inputs, labels)
        is_paid = self.config.coverage_weight if self.config.coverage else 0.0
        return nll + is_paid * self.repetition / (labels != -100).sum()


@pytest.mark.thorough
def test_parameters_are_as_many_as_in_the_paper():
    """See et al. 2017, section 5: 21,499,600, and 1,153 to copy and 512 for coverage; torch's LSTMs have two biases."""
    sizes = [
        PointerGeneratorForConditionalGeneration(PointerGeneratorConfig(copy=copy, coverage=coverage)).num_parameters()
        for copy, coverage in ((False, False), (True, False), (True, True))
    ]
    assert sizes == [21_499_600 + 3 * 4 * 256 + further for further in (0, 1153, 1153 + 512)]


def with_unknown_words():
    inputs, labels = POINTER_GENERATOR.inputs(), POINTER_GENERATOR.labels()
    inputs["input_ids"][0, [1, 4]] = FIRST
    inputs["input_ids"][0, 6] = inputs["input_ids"][1, 0] = SECOND
    labels[0, 2], labels[0, 3], labels[1, 1] = FIRST, SECOND, SECOND
    return inputs, labels


@pytest.mark.parametrize("coverage", [False, True])
@pytest.mark.parametrize("copy", [False, True])
@pytest.mark.parametrize("skip_logits", [False, True])
def test_loss_and_gradients_equal_the_equations(copy, coverage, skip_logits):
    model = POINTER_GENERATOR.model(copy=copy, coverage=coverage, coverage_weight=0.7)

    def forward(**inputs):
        return model(**inputs, skip_logits=skip_logits)

    forward.named_parameters = model.named_parameters
    assert_equals_naive(forward, NaivePointerGenerator(model), POINTER_GENERATOR.inputs(), POINTER_GENERATOR.labels())


def test_unknown_words_are_copied_by_their_ids():
    model = POINTER_GENERATOR.model(**POINTING)
    inputs, labels = with_unknown_words()
    assert_equals_naive(model, NaivePointerGenerator(model), inputs, labels)


def test_unknown_word_of_a_summary_that_the_source_lacks_is_the_unknown_token():
    model, (inputs, labels) = POINTER_GENERATOR.model(**POINTING), with_unknown_words()
    labels[0, 2] = VOCAB_SIZE + 500
    loss = model(**inputs, labels=labels).loss
    labels[0, 2] = POINTING["unk_token_id"]
    torch.testing.assert_close(model(**inputs, labels=labels).loss, loss, rtol=0, atol=0)
    labels[0, 2] = VOCAB_SIZE + 1000
    with pytest.raises(ValueError, match="label 1040 is outside the vocabulary of 40"):
        model(**inputs, labels=labels)


CASES_OF_DECODING = [{}, {"num_beams": 3}, {"no_repeat_ngram_size": 2}]


@pytest.mark.parametrize("settings", CASES_OF_DECODING)
def test_generated_pointers_are_those_of_the_scores(settings):
    """Greedy search writes what one pass over its own text scores highest, whatever is padded beside it."""
    model, (inputs, _) = POINTER_GENERATOR.model(**POINTING), with_unknown_words()
    # copy always, so that pointers are written
    model.model.decoder.copy_gate.bias.data.fill_(20.0)
    written = model.generate(**inputs, max_new_tokens=6, min_new_tokens=6, **settings)
    pointed = written >= 2**30
    assert pointed[0].any()
    # only first occurrences are pointed to
    assert set((written[0][pointed[0]] - 2**30).tolist()) <= {1, 6}
    if settings:
        return
    ids = torch.where(pointed, VOCAB_SIZE + written - 2**30, written)
    scores = model(**inputs, decoder_input_ids=ids[:, :-1]).logits
    scores[..., model.config.eos_token_id] = -torch.inf
    assert torch.equal(scores.argmax(-1), ids[:, 1:])
