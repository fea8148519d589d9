"""DRGD against a naive implementation of the paper's equations and of its authors' program."""

import re
from itertools import product

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError

from hf_summ import DrgdConfig, DrgdForConditionalGeneration
from hf_summ.models.modeling_drgd import draw_noise, seeded_noise
from tests.models.architectures import DRGD, DRGD_PRINTED
from tests.models.naive import NaiveModel, assert_equals_naive


class NaiveDrgd(NaiveModel):
    """docs/equations.md, section 4, one step of one document at a time; `noise` are ε of the documents, (T, L) each."""

    def __init__(self, model, noise=None):
        super().__init__(model)
        # also if it is the embedding
        self.weights["lm_head.weight"] = model.lm_head.weight
        self.noise = noise
        self.document = 0
        self.kl = 0.0

    def gru(self, name, x, h, suffix="", reset_after=True):
        """The next state; by default, the cell is that of the encoder, which is torch's."""
        w_r, w_u, w_g = self.weights[f"{name}.weight_ih{suffix}"].chunk(3)
        u_r, u_u, u_g = self.weights[f"{name}.weight_hh{suffix}"].chunk(3)
        b_r, b_u, b_g = self.weights[f"{name}.bias_ih{suffix}"].chunk(3)
        c_r, c_u, c_g = self.weights[f"{name}.bias_hh{suffix}"].chunk(3)
        r = torch.sigmoid(w_r @ x + b_r + u_r @ h + c_r)
        u = torch.sigmoid(w_u @ x + b_u + u_u @ h + c_u)
        if reset_after:
            recurrent = r * (u_g @ h + c_g)
        else:
            recurrent = u_g @ (r * h) + c_g
        g = torch.tanh(w_g @ x + b_g + recurrent)
        return u * h + (1 - u) * g

    def encode(self, words):
        forward, backward = [], []
        h = torch.zeros(self.config.hidden_size, dtype=words.dtype)
        for word in words:
            h = self.gru("model.encoder.gru.forward_gru", word, h, "_l0")
            forward.append(h)
        h = torch.zeros_like(h)
        for word in words.flip(0):
            h = self.gru("model.encoder.gru.backward_gru", word, h, "_l0")
            backward.append(h)
        return torch.cat((torch.stack(forward), torch.stack(backward).flip(0)), dim=-1)

    def log_probs(self, decoder_input_ids, input_ids):
        config, embedding = self.config, self.weights["model.shared.weight"]
        # a summary starts with padding, whose vector is not learned
        embedding = torch.cat((embedding[:1].detach(), embedding[1:]))
        decoder, states = "model.decoder", "model.decoder.states"
        released = config.equations == "released"
        e = self.encode(embedding[input_ids])
        h1 = h2 = torch.tanh(self.linear(f"{decoder}.start", e.mean(0)))
        z = torch.zeros(config.latent_size, dtype=e.dtype)
        log_probs = []
        for position, y in enumerate(embedding[decoder_input_ids]):
            before = h1
            h1 = self.gru(f"{states}.first_gru", y, h2 if released else h1, reset_after=config.reset_after)
            scores = self.linear(f"{states}.key_projection", e) + self.weights[f"{states}.query_weight"] @ h1
            a = (torch.tanh(scores) @ self.weights[f"{states}.score_weight"][0]).softmax(0)
            c = a @ e
            x, h = (c, h1) if released else (torch.cat((y, c)), h2)
            h2 = self.gru(f"{states}.second_gru", x, h, reset_after=config.reset_after)
            if config.latent_size:
                z = self.latent(z, y, h1 if released else before, position)
            d, features = self.output(h2, z, y, c)
            p = self.linear("lm_head", features).softmax(-1)
            if config.copy:
                gate = torch.sigmoid(self.linear(f"{decoder}.copy_gate", torch.cat((d, c, y))))
                copied = torch.zeros_like(p).index_add(0, input_ids, a)
                p = (1 - gate) * p + gate * copied
            log_probs.append(p.log())
        self.document += 1
        return torch.stack(log_probs)

    def latent(self, z, y, h, position):
        chain = "model.decoder.latent_chain"
        total = self.linear(f"{chain}.word_projection", y)
        total = total + self.linear(f"{chain}.latent_projection", z)
        total = total + self.linear(f"{chain}.state_projection", h)
        g = torch.sigmoid(total)
        mean, log_variance = self.linear(f"{chain}.mean", g), self.linear(f"{chain}.log_variance", g)
        kl = sum((m**2 + v.exp() - 1 - v) / 2 for m, v in zip(mean, log_variance, strict=True))
        # only within the summary, whose target tokens the rows have
        self.kl = self.kl + kl.clamp(min=self.config.free_bits)
        if self.noise is None:
            return mean
        return mean + (log_variance / 2).exp() * self.noise[self.document][position]

    def output(self, h2, z, y, c):
        output = "model.decoder.output"
        d = h2
        if self.config.equations == "printed":
            if self.config.latent_size:
                d = torch.tanh(self.linear(f"{output}.projection", torch.cat((z, h2))))
            return d, d
        if self.config.latent_size:
            z = torch.tanh(self.linear(f"{output}.latent_projection", z))
            u = torch.sigmoid(self.linear(f"{output}.gate", torch.cat((h2, z))))
            d = u * h2 + (1 - u) * z
        return d, torch.tanh(self.linear(f"{output}.projection", torch.cat((d, y, c))))

    def loss(self, inputs, labels):
        nll = super().loss(inputs, labels)
        return nll + self.config.final_kl_weight * self.kl / (labels != -100).sum()


@pytest.mark.parametrize(
    ("equations", "reset_after", "latent_size", "copy"),
    list(product(("released", "printed"), (False, True), (0, 5), (False, True))),
)
def test_loss_and_gradients_equal_the_equations(equations, reset_after, latent_size, copy):
    model = DRGD.model(equations=equations, reset_after=reset_after, latent_size=latent_size, copy=copy, kl_weight=0.7)
    assert_equals_naive(model, NaiveDrgd(model), DRGD.inputs(), DRGD.labels())


@pytest.mark.parametrize("settings", [{}, {"equations": "printed", "embedding_size": 8}], ids=str)
def test_tied_output_scores_words_by_their_embeddings(settings):
    model = DRGD.model(tie_output=True, **settings)
    assert model.lm_head.weight is model.model.shared.weight
    assert_equals_naive(model, NaiveDrgd(model), DRGD.inputs(), DRGD.labels())


@pytest.mark.parametrize(("architecture", "skip"), list(product((DRGD, DRGD_PRINTED), (False, True))))
def test_sampled_loss_and_gradients_equal_the_equations(architecture, skip):
    model = architecture.model(free_bits=3.0).train()
    # all of the noise that training draws
    torch.manual_seed(3)
    noise = draw_noise(torch.zeros(3, 6, dtype=torch.float64), 5, model.config.equations)
    naive = NaiveDrgd(model, noise)

    def forward(**inputs):
        torch.manual_seed(3)
        return model(**inputs, skip_logits=skip)

    forward.named_parameters = model.named_parameters
    assert_equals_naive(forward, naive, architecture.inputs(), architecture.labels())


@pytest.mark.parametrize("seed", [None, 1])
def test_released_noise_is_clipped(seed):
    def draw(equations):
        like, size = torch.zeros(1, 4), 10**6
        if seed is not None:
            return seeded_noise(like, size, equations, seed, seen=3)
        torch.manual_seed(0)
        return draw_noise(like, size, equations)

    # one number of 1.7 million is beyond 5
    clipped, free = draw("released"), draw("printed")
    assert clipped.abs().max() == 5 < free.abs().max()
    torch.testing.assert_close(clipped, free.clamp(-5, 5), rtol=0, atol=0)
    assert abs(free.std() - 1) < 0.01


SAMPLED = {"sample_latent": True, "latent_seed": 5, "min_new_tokens": 8, "max_new_tokens": 8}


CASES_OF_DECODING = [{}, {"num_beams": 4}, {"do_sample": True}]


@pytest.mark.thorough
@pytest.mark.parametrize("architecture", [DRGD, DRGD_PRINTED], ids=lambda architecture: architecture.name)
@pytest.mark.parametrize("settings", CASES_OF_DECODING, ids=str)
def test_sampled_latent_variables_are_the_same_however_a_document_is_decoded(architecture, settings):
    # a tied output of random weights repeats one word, whatever is sampled
    model, inputs = architecture.model(tie_output=False), architecture.inputs()

    def generate(inputs, **more):
        torch.manual_seed(7)
        return model.generate(**inputs, **{**SAMPLED, **settings, **more})

    together = generate(inputs)
    torch.testing.assert_close(generate(inputs, use_cache=False), together, rtol=0, atol=0)
    assert not torch.equal(generate(inputs, latent_seed=6), together)
    assert not torch.equal(generate(inputs, sample_latent=False), together)
    if "do_sample" in settings:
        return
    for row, length in enumerate(inputs["attention_mask"].sum(-1).tolist()):
        alone = generate({name: value[row : row + 1, :length] for name, value in inputs.items()})
        torch.testing.assert_close(alone[0], together[row], rtol=0, atol=0)


def test_sampled_latent_variables_without_a_seed_follow_torchs():
    model, inputs = DRGD.model(), DRGD.inputs()
    settings = {**SAMPLED, "latent_seed": None}

    def generate(seed):
        torch.manual_seed(seed)
        return model.generate(**inputs, **settings)

    assert torch.equal(generate(1), generate(1))
    assert not torch.equal(generate(1), generate(2))


def test_sampled_loss_is_that_of_the_seeds_noise():
    model = DRGD.model()
    noise = seeded_noise(torch.zeros(3, 6, dtype=torch.float64), 5, "released", seed=5, seen=0)
    loss = model(**DRGD.inputs(), labels=DRGD.labels(), latent_seed=5).loss
    torch.testing.assert_close(loss, NaiveDrgd(model, noise).loss(DRGD.inputs(), DRGD.labels()))


def test_sampling_is_refused_where_there_are_no_latent_variables():
    with pytest.raises(ValueError, match=r"`latent_size=0` has no latent variables$"):
        DRGD.model(latent_size=0).generate(**DRGD.inputs(), sample_latent=True)


def test_a_summary_starts_with_a_zero_vector_that_is_not_learned():
    torch.manual_seed(0)
    model = DrgdForConditionalGeneration(DRGD.config())
    model(**DRGD.inputs(), labels=DRGD.labels()).loss.backward()
    assert model.config.decoder_start_token_id == model.config.pad_token_id == 0
    assert not model.model.shared.weight[0].any()
    assert not model.model.shared.weight.grad[0].any()


def test_new_weights_are_the_programs():
    torch.manual_seed(0)
    model = DrgdForConditionalGeneration(DrgdConfig(vocab_size=2000, embedding_size=100, hidden_size=80))
    weights = {name: value.detach() for name, value in model.named_parameters()}
    assert weights["model.shared.weight"].std() == pytest.approx(0.01, rel=0.02)
    for gru in ("encoder.gru.forward_gru.weight_hh_l0", "decoder.states.second_gru.weight_hh"):
        for gate in weights[f"model.{gru}"].chunk(3):
            torch.testing.assert_close(gate @ gate.T, torch.eye(80), rtol=0, atol=1e-5)
    # Xavier's, of each gate by itself
    gate = weights["model.decoder.states.first_gru.weight_ih"].chunk(3)[0]
    assert gate.std() == pytest.approx((2 / 180) ** 0.5, rel=0.05)
    assert not any(value.any() for name, value in weights.items() if "bias" in name)


def test_words_are_left_out_of_the_decoders_input_in_training_alone():
    model = DRGD.model(latent_size=0, word_dropout=0.999)
    inputs, labels = DRGD.inputs(), DRGD.labels()
    changed_labels = (labels + 1).where((labels > 4) & (labels < 39), labels)
    assert not torch.equal(labels, changed_labels)

    def scores(labels):
        return model(**inputs, decoder_input_ids=labels.clamp(min=0)).logits

    assert not torch.equal(scores(labels), scores(changed_labels))
    model.train()
    torch.manual_seed(0)
    torch.testing.assert_close(scores(labels), scores(changed_labels), rtol=0, atol=0)


@pytest.mark.parametrize("architecture", [DRGD, DRGD_PRINTED], ids=lambda architecture: architecture.name)
def test_autocast_stays_close_to_full_precision(architecture):
    model, inputs, labels = architecture.model().float(), architecture.inputs(), architecture.labels()
    expected = model(**inputs, labels=labels).loss
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(**inputs, labels=labels, skip_logits=True).loss
    torch.testing.assert_close(loss, expected, rtol=0.02, atol=0.02)
    loss.backward()
    assert all(value.grad.isfinite().all() and value.grad.any() for value in model.parameters())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_variances_beyond_half_precision_stay_finite(dtype):
    model = DRGD.model()
    # e¹² is more than float16 has
    model.model.decoder.latent_chain.log_variance.bias.data.fill_(12.0)
    model = model.to(dtype).train()
    torch.manual_seed(0)
    outputs = model(**DRGD.inputs(), labels=DRGD.labels())
    assert outputs.loss.isfinite()
    assert outputs.loss_parts["kl"].item() > 5 * 0.5 * 2.718**11


CASES_OF_INCONSISTENT_SETTINGS = [
    ({"free_bits": 6.0}, r"`free_bits` is 6.0, but must be at most `latent_size` \(5\)$"),
    ({"tie_output": True, "equations": "printed"}, r"`tie_output` with .* needs an equal `hidden_size` \(8\) and"),
]


@pytest.mark.parametrize(("settings", "message"), CASES_OF_INCONSISTENT_SETTINGS)
def test_inconsistent_configuration_is_refused(settings, message):
    with pytest.raises(StrictDataclassError) as caught:
        DRGD.config(**settings)
    assert re.search(message, str(caught.value.__cause__))
