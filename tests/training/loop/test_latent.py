"""Training and evaluating with latent variables: their KL, its warm-up, and how a collapse shows."""

import numpy as np
import pytest
import torch

from hf_summ import DrgdConfig, DrgdForConditionalGeneration, DrgdProcessor
from hf_summ.training.loop.evaluation import active_units
from tests.training import tiny


@pytest.fixture
def make(tiny_tokenizer, tmp_path):
    """A trainer of a tiny DRGD; `config` are values of the model's."""

    def build(config=None, **settings):
        processor = DrgdProcessor(tiny_tokenizer, max_source_length=48, max_target_length=16)
        values = DrgdConfig(**{"embedding_size": 6, "hidden_size": 8, "latent_size": 4, **(config or {})})
        processor.align(values)
        torch.manual_seed(0)
        model = DrgdForConditionalGeneration(values)
        for parameter in model.parameters():
            parameter.data.add_(0.3 * torch.randn_like(parameter))
        rows = tiny.prepared(processor, 13)
        return tiny.trainer(model, processor, rows, tmp_path, **settings)

    return build


def test_evaluation_shows_what_the_latent_variables_are_worth(make):
    trainer = make(predict_with_generate=False, per_device_eval_batch_size=4)
    metrics = trainer.evaluate()
    model, rows = trainer.model.eval(), trainer.eval_dataset
    sums, means, tokens = {"kl": 0.0, "nll": 0.0, "nll_zero_latent": 0.0}, [], 0
    for row in rows:
        inputs = {name: torch.tensor([row[name]]) for name in ("input_ids", "attention_mask", "labels")}
        with torch.no_grad():
            outputs, without = model(**inputs), model(**inputs, zero_latent=True)
        length = inputs["labels"].shape[1]
        for name, part in (*outputs.loss_parts.items(), ("nll_zero_latent", without.loss_parts["nll"])):
            sums[name] += part.item() * length
        means.append(outputs.latent_means[0].mean(0).numpy())
        tokens += length
    for name, value in sums.items():
        assert metrics[f"eval_{name}"] == pytest.approx(value / tokens, rel=1e-4)
    assert sums["nll_zero_latent"] != pytest.approx(sums["nll"], rel=1e-3)
    assert metrics["eval_active_units"] == (np.var(means, axis=0) > 0.01).sum()


def test_units_are_active_whose_means_differ_between_documents():
    differing = np.array([0.0, 0.09, 0.11, 5.0])
    assert active_units([sign * differing for sign in (1, -1, 1, -1)]) == 2


def test_stand_has_no_latent_measures(make):
    metrics = make({"latent_size": 0}, predict_with_generate=False).evaluate()
    assert not {"eval_kl", "eval_active_units", "eval_nll_zero_latent"} & set(metrics)


@pytest.mark.thorough
@pytest.mark.parametrize("accumulation", [1, 2])
def test_weight_of_the_kl_rises_with_the_updates(make, accumulation):
    trainer = make({"kl_warmup_steps": 3, "kl_weight": 0.5}, gradient_accumulation_steps=accumulation)
    seen = []
    score = trainer.model._score
    trainer.model._score = lambda *args, **inputs: seen.append(trainer.model.kl_weight) or score(*args, **inputs)
    trainer.train()
    expected = [0.0, 0.5 / 3, 1.0 / 3, 0.5]
    assert seen == pytest.approx(np.repeat(expected, accumulation))


def test_loss_of_an_evaluation_has_the_final_weight_of_the_kl(make):
    trainer = make({"kl_warmup_steps": 100, "kl_weight": 0.5}, max_steps=2, predict_with_generate=False)
    trainer.train()
    metrics = trainer.evaluate()
    assert metrics["eval_kl"] > 0.01
    assert metrics["eval_loss"] == pytest.approx(metrics["eval_nll"] + 0.5 * metrics["eval_kl"], rel=1e-5)


def test_losses_are_logged_in_their_parts(make):
    trainer = make({"kl_weight": 0.5}, learning_rate=0.0, per_device_train_batch_size=13)
    trainer.train()
    for entry in trainer.state.log_history[:-1]:
        assert entry["loss"] == pytest.approx(entry["nll"] + 0.5 * entry["kl"], rel=1e-5)
        assert entry["kl"] > 0.01


def test_kl_that_is_not_finite_stops_the_run_with_what_to_try(make):
    trainer = make()
    trainer.model.model.decoder.latent_chain.log_variance.bias.data.fill_(200.0)
    message = r"^the loss is nan at step 1 \(kl nan, nll nan\): if the KL is not finite, try --learning_rates"
    with pytest.raises(FloatingPointError, match=message):
        trainer.train()


def test_gradients_are_clipped_by_value(make):
    trainer = make(max_steps=1, max_grad_value=1e-3, max_grad_norm=0.0, optimizer="adam")
    largest = []
    trainer.create_optimizer()
    trainer.optimizer.register_step_pre_hook(
        lambda *_: largest.extend(p.grad.abs().max().item() for p in trainer.model.parameters() if p.grad is not None)
    )
    trainer.train()
    assert max(largest) == pytest.approx(1e-3)
