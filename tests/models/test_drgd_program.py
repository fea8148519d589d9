"""DRGD's decoder against a port of its authors' program for LCSTS (docs/equations.md, section 4)."""

import pytest
import torch
from torch.func import functional_call

from hf_summ import DrgdConfig, DrgdForConditionalGeneration
from hf_summ.models.modeling_drgd import draw_noise

DOCUMENTS, SOURCE, TARGET, WORDS = 3, 7, 5, 30
# the program adds states to latent variables, which are as many
EMBEDDING, STATE = 6, 8
# its weights, (inputs, outputs), by what they read and write; r and u are gates, g the candidate of a GRU
SHAPES = {
    "embedding": (WORDS, EMBEDDING),
    **{"start": (2 * STATE, STATE), "start_b": (STATE,)},
    **{"y_ru": (EMBEDDING, 2 * STATE), "h_ru": (STATE, 2 * STATE), "ru_b": (2 * STATE,)},
    **{"y_g": (EMBEDDING, STATE), "h_g": (STATE, STATE), "g_b": (STATE,)},
    **{"c_ru2": (2 * STATE, 2 * STATE), "h_ru2": (STATE, 2 * STATE), "ru2_b": (2 * STATE,)},
    **{"c_g2": (2 * STATE, STATE), "h_g2": (STATE, STATE), "g2_b": (STATE,)},
    **{"e_att": (2 * STATE, 2 * STATE), "att_b": (2 * STATE,), "h_att": (STATE, 2 * STATE), "att": (2 * STATE, 1)},
    **{"y_z": (EMBEDDING, STATE), "z_b": (STATE,), "z_z": (STATE, STATE), "h_z": (STATE, STATE)},
    **{"mean": (STATE, STATE), "mean_b": (STATE,), "variance": (STATE, STATE), "variance_b": (STATE,)},
    **{"z_d": (STATE, STATE), "d_b": (STATE,), "h_u": (STATE, STATE), "z_u": (STATE, STATE), "u_b": (STATE,)},
    **{"d_o": (STATE, EMBEDDING), "o_b": (EMBEDDING,), "c_o": (2 * STATE, EMBEDDING), "y_o": (EMBEDDING, EMBEDDING)},
    **{"o": (EMBEDDING, WORDS), "logit_b": (WORDS,)},
}


def program(w, source, source_mask, labels, noise):
    """All positions' probabilities (T, B, V), and the loss; everything but the weights has positions first."""
    source_mask, mask = source_mask[..., None].double(), (labels != -100)[..., None].double()
    h = torch.tanh((source * source_mask).sum(0) / source_mask.sum(0) @ w["start"] + w["start_b"])
    words = w["embedding"][labels.clamp(min=0)]
    words = torch.cat((torch.zeros_like(words[:1]), words[:-1]))
    z, outputs, divergences = torch.zeros_like(h), [], []
    for y, present, eps in zip(words, mask, noise, strict=True):
        r, u = torch.sigmoid(h @ w["h_ru"] + y @ w["y_ru"] + w["ru_b"]).split(STATE, dim=-1)
        first = u * h + (1 - u) * torch.tanh((h * r) @ w["h_g"] + y @ w["y_g"] + w["g_b"])
        first = present * first + (1 - present) * h
        hidden = torch.sigmoid(z @ w["z_z"] + first @ w["h_z"] + y @ w["y_z"] + w["z_b"])
        mean, variance = hidden @ w["mean"] + w["mean_b"], (hidden @ w["variance"] + w["variance_b"]).exp()
        z = mean + variance.sqrt() * eps
        attention = (torch.tanh(source @ w["e_att"] + w["att_b"] + first @ w["h_att"]) * source_mask) @ w["att"]
        attention = (attention - attention.amax(0)).exp() * source_mask
        context = (attention / attention.sum(0) * source).sum(0)
        r, u = torch.sigmoid(context @ w["c_ru2"] + first @ w["h_ru2"] + w["ru2_b"]).split(STATE, dim=-1)
        h = u * first + (1 - u) * torch.tanh(context @ w["c_g2"] + (first * r) @ w["h_g2"] + w["g2_b"])
        h = present * h + (1 - present) * first
        latent = torch.tanh(z @ w["z_d"] + w["d_b"])
        gate = torch.sigmoid(h @ w["h_u"] + latent @ w["z_u"] + w["u_b"])
        features = (h * gate + (1 - gate) * latent) @ w["d_o"] + y @ w["y_o"] + context @ w["c_o"] + w["o_b"]
        outputs.append((torch.tanh(features) @ w["o"] + w["logit_b"]).softmax(-1))
        # over documents, where all other means are over steps and variables
        divergences.append(-0.5 * (1 + variance.log() - mean**2 - variance).sum(0))
    probabilities = torch.stack(outputs)
    nll = -probabilities.gather(-1, labels.clamp(min=0)[..., None]).log() * mask
    return probabilities, nll.sum(0).mean() + torch.stack(divergences).mean()


def model_weights(w):
    """The program's weights under the names of the model, gates together and transposed."""
    decoder = "model.decoder"
    states, chain, output = f"{decoder}.states", f"{decoder}.latent_chain", f"{decoder}.output"
    layers = {
        f"{decoder}.start": (w["start"], w["start_b"]),
        f"{states}.key_projection": (w["e_att"], w["att_b"]),
        f"{chain}.word_projection": (w["y_z"], w["z_b"]),
        f"{chain}.latent_projection": (w["z_z"], None),
        f"{chain}.state_projection": (w["h_z"], None),
        f"{chain}.mean": (w["mean"], w["mean_b"]),
        f"{chain}.log_variance": (w["variance"], w["variance_b"]),
        f"{output}.latent_projection": (w["z_d"], w["d_b"]),
        f"{output}.gate": (torch.cat((w["h_u"], w["z_u"])), w["u_b"]),
        f"{output}.projection": (torch.cat((w["d_o"], w["y_o"], w["c_o"])), w["o_b"]),
        "lm_head": (w["o"], w["logit_b"]),
    }
    weights = {"model.shared.weight": w["embedding"]}
    weights[f"{states}.query_weight"] = w["h_att"].T
    weights[f"{states}.score_weight"] = w["att"].T
    for name, (weight, bias) in layers.items():
        weights[f"{name}.weight"] = weight.T
        if bias is not None:
            weights[f"{name}.bias"] = bias
    for name, x, suffix in (("first", "y", ""), ("second", "c", "2")):
        gru = f"{states}.{name}_gru"
        weights[f"{gru}.weight_ih"] = torch.cat((w[f"{x}_ru{suffix}"], w[f"{x}_g{suffix}"]), dim=-1).T
        weights[f"{gru}.weight_hh"] = torch.cat((w[f"h_ru{suffix}"], w[f"h_g{suffix}"]), dim=-1).T
        weights[f"{gru}.bias_ih"] = torch.cat((w[f"ru{suffix}_b"], w[f"g{suffix}_b"]))
        weights[f"{gru}.bias_hh"] = torch.zeros(3 * STATE, dtype=torch.float64)
    return weights


@pytest.mark.parametrize("is_compiling", [False, True])
def test_probabilities_loss_and_gradients_are_the_programs(monkeypatch, is_compiling):
    # the form that torch.compile reads, too
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: is_compiling)
    torch.manual_seed(0)
    w = {name: torch.randn(*shape, dtype=torch.float64) * 0.5 for name, shape in SHAPES.items()}
    w["embedding"][0] = 0.0
    mask = torch.ones(DOCUMENTS, SOURCE, dtype=torch.bool)
    mask[1, 4:] = False
    source = torch.randn(DOCUMENTS, SOURCE, 2 * STATE, dtype=torch.float64)
    # of one length, as its KL counts padding
    labels = torch.randint(1, WORDS, (DOCUMENTS, TARGET))
    inputs = {**w, "source": source}
    for value in inputs.values():
        value.requires_grad_()
    source = source * mask[..., None]

    config = DrgdConfig(vocab_size=WORDS, embedding_size=EMBEDDING, hidden_size=STATE, latent_size=STATE)
    config.kl_weight = DOCUMENTS / (TARGET * STATE)
    model = DrgdForConditionalGeneration(config).double().train()
    given = {"encoder_outputs": (source,), "attention_mask": mask, "labels": labels, "skip_logits": False}
    torch.manual_seed(1)
    # divided by documents, as with `loss_reduction: documents`
    outputs = functional_call(model, model_weights(w), kwargs={**given, "num_items_in_batch": DOCUMENTS})
    torch.manual_seed(1)
    noise = draw_noise(source[:, :TARGET], STATE, "released").transpose(0, 1)
    probabilities, loss = program(w, source.transpose(0, 1), mask.T, labels.T, noise)

    close = {"rtol": 0, "atol": 1e-10}
    torch.testing.assert_close(outputs.logits.log_softmax(-1), probabilities.log().transpose(0, 1), **close)
    torch.testing.assert_close(outputs.loss, loss, **close)
    tensors = list(inputs.values())
    actual = torch.autograd.grad(outputs.loss, tensors, retain_graph=True)
    expected = torch.autograd.grad(loss, tensors, retain_graph=True)
    for name, gradient, expected_gradient in zip(inputs, actual, expected, strict=True):
        assert expected_gradient.any()
        torch.testing.assert_close(gradient, expected_gradient, **close, msg=lambda text, name=name: f"{name}: {text}")
