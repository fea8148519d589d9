"""The trainer: exact losses, its own optimizers, an evaluation that counts every row once."""

import json
import math

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import GenerationConfig
from transformers.testing_utils import CaptureLogger
from transformers.utils import logging

from hf_summ.data import SummarizationCollator
from hf_summ.evaluation import perplexity
from hf_summ.training.loop.evaluation import strip_padding
from tests.doors.outcomes import strict_json
from tests.models.architectures import COPY_TRANSFORMER, GDLF, SAGCOPY
from tests.training import tiny


@pytest.fixture(scope="module")
def processor(tiny_tokenizer):
    return tiny.processor(tiny_tokenizer)


@pytest.fixture(scope="module")
def rows(processor):
    return tiny.prepared(processor, 13)


@pytest.fixture
def make(processor, rows, tmp_path):
    """A trainer of a tiny model; settings are training arguments."""

    def build(model=None, compute_metrics=None, processing_class=processor, rows=rows, **settings):
        torch.manual_seed(0)
        model = tiny.gdlf(processor) if model is None else model
        return tiny.trainer(model, processing_class, rows, tmp_path, compute_metrics, **settings)

    return build


def logged(trainer, key):
    return [entry[key] for entry in trainer.state.log_history if key in entry]


def losses(trainer, key="loss"):
    trainer.train()
    return logged(trainer, key)


# kinds of models, and what their losses are means over
CASES_OF_ACCUMULATION = [
    ("gdlf", "tokens"),
    ("bart", "tokens"),
    ("gdlf", "documents"),
    ("gdlf", "document_means"),
    ("bart", "document_means"),
]


@pytest.mark.parametrize(("kind", "reduction"), CASES_OF_ACCUMULATION)
def test_accumulation_is_the_same_as_a_big_batch(make, tiny_tokenizer, kind, reduction):
    def run(**settings):
        if kind == "bart":
            torch.manual_seed(0)
            settings |= {"model": tiny.bart(tiny_tokenizer), "processing_class": tiny_tokenizer}
        trainer = make(loss_reduction=reduction, optimizer="adam", **settings)
        trainer.train()
        return [(entry["loss"], entry["nll"], entry["grad_norm"]) for entry in trainer.state.log_history[:-1]]

    big = run(per_device_train_batch_size=4, train_sampling_strategy="sequential")
    small = run(per_device_train_batch_size=2, gradient_accumulation_steps=2, train_sampling_strategy="sequential")
    assert len(big) == 4
    torch.testing.assert_close(torch.tensor(small), torch.tensor(big), rtol=1e-5, atol=1e-6)


def test_loss_by_documents_is_the_sum_over_a_summarys_tokens(make, rows):
    settings = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2, "max_steps": 1}

    def first_update(reduction):
        trainer = make(loss_reduction=reduction, train_sampling_strategy="sequential", max_grad_norm=0.0, **settings)
        trainer.train()
        return [trainer.state.log_history[0][name] for name in ("loss", "nll", "grad_norm")]

    length = sum(len(labels) for labels in rows["labels"][:4]) / 4
    loss, nll, norm = first_update("tokens")
    # the logged nll stays per token
    assert first_update("documents") == pytest.approx([length * loss, nll, length * norm], rel=1e-5)


def test_loss_by_means_of_documents_is_the_mean_over_a_summarys_tokens_then_over_summaries(make, processor, rows):
    model = tiny.gdlf(processor)
    collator = SummarizationCollator(processor, model=model)
    columns = ("input_ids", "attention_mask", "labels")
    means = []
    for row in range(4):
        example = {name: rows[row][name] for name in columns}
        means.append(model(**collator([example])).loss.item())
    settings = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2, "max_steps": 1}
    trainer = make(model, loss_reduction="document_means", train_sampling_strategy="sequential", **settings)
    trainer.train()
    assert trainer.state.log_history[0]["loss"] == pytest.approx(np.mean(means), rel=1e-5)


def test_smoothing_of_a_foreign_model_is_not_in_its_nll(make, tiny_tokenizer):
    def run(smoothing):
        torch.manual_seed(0)
        model = tiny.bart(tiny_tokenizer)
        trainer = make(model, processing_class=tiny_tokenizer, label_smoothing_factor=smoothing, max_steps=1)
        trainer.train()
        return trainer.state.log_history[0]

    plain, smoothed = run(0.0), run(0.5)
    assert smoothed["nll"] == pytest.approx(plain["nll"])
    assert smoothed["loss"] != pytest.approx(plain["loss"])


def test_parts_of_the_loss_are_means_over_the_updates_since_the_last_log(make):
    first, second, third, fourth = losses(make(), "nll")
    means = losses(make(logging_steps=2), "nll")
    assert means == pytest.approx([(first + second) / 2, (third + fourth) / 2], rel=1e-5)


# training arguments, the class of the optimizer, and values of its first group
CASES_OF_OPTIMIZERS = [
    ({"optimizer": "adam", "adam_beta2": 0.98, "adam_epsilon": 1e-9}, torch.optim.Adam, {"betas": (0.9, 0.98)}),
    ({"optimizer": "adadelta", "adadelta_rho": 0.9}, torch.optim.Adadelta, {"rho": 0.9}),
    ({"learning_rates": ["lm_head|shared=0.5"]}, torch.optim.AdamW, {"lr": 0.01}),
    ({"optim": "adagrad", "adagrad_accumulator": 0.1}, torch.optim.Adagrad, {"initial_accumulator_value": 0.1}),
    (
        {"optim": "adagrad", "adagrad_accumulator": 0.1, "learning_rates": ["shared=0.5"]},
        torch.optim.Adagrad,
        {"lr": 0.01, "initial_accumulator_value": 0.1},
    ),
]


@pytest.mark.parametrize(("settings", "kind", "expected"), CASES_OF_OPTIMIZERS)
def test_optimizers(make, settings, kind, expected):
    optimizer = make(weight_decay=0.1, **settings).create_optimizer()
    assert type(optimizer) is kind
    group = optimizer.param_groups[0]
    assert {name: group[name] for name in expected} == expected


# facebookresearch/schedule_free#22, #48: without `eval()`, the weights that are trained are evaluated and saved
def test_schedule_free_optimizers_choose_the_weights_to_evaluate_and_save(make, tmp_path):
    class Halving(torch.optim.SGD):
        factor = 1.0

        @torch.no_grad()
        def scale(self, factor):
            for parameter in self.param_groups[0]["params"]:
                parameter.mul_(factor / self.factor)
            self.factor = factor

        def train(self):
            self.scale(1.0)

        def eval(self):
            self.scale(0.5)

    def run(optimizer, **settings):
        trainer = make(lr_scheduler_type="constant", **settings)
        trainer.optimizer = optimizer(trainer.model.parameters(), lr=0.1)
        trainer.train()
        return trainer

    reference = run(torch.optim.SGD, max_steps=3)
    earlier_reference = run(torch.optim.SGD, max_steps=2)
    saving = {"save_strategy": "steps", "save_steps": 2, "eval_strategy": "steps", "eval_steps": 3}
    trainer = run(Halving, max_steps=3, **saving)
    assert logged(trainer, "loss") == logged(reference, "loss")
    for name, weight in reference.model.state_dict().items():
        assert torch.equal(trainer.model.state_dict()[name], weight / 2)
    for name, weight in load_file(tmp_path / "checkpoint-2" / "model.safetensors").items():
        assert torch.equal(weight, earlier_reference.model.state_dict()[name] / 2)
    assert logged(trainer, "eval_loss") == [trainer.evaluate()["eval_loss"]]


def test_weight_decay_spares_norms_and_biases(make):
    trainer = make(optimizer="adam", weight_decay=0.1, learning_rates=["shared=0.5"])
    optimizer = trainer.create_optimizer()
    names = {parameter: name for name, parameter in trainer.model.named_parameters()}
    decayed, fast = set(), []
    for group in optimizer.param_groups:
        group_names = [names[parameter] for parameter in group["params"]]
        if group["weight_decay"]:
            decayed.update(group_names)
        if group["lr"] == 0.5:
            fast.extend(group_names)
    assert decayed == {name for name in names.values() if "norm" not in name and "bias" not in name}
    assert fast == ["model.shared.weight"]


@pytest.mark.parametrize("is_filtered", [False, True])
def test_loss_that_is_not_finite_stops_the_run_before_anything_is_saved(make, tmp_path, is_filtered):
    saving = {"save_strategy": "steps", "save_steps": 3}
    trainer = make(max_steps=9, logging_steps=100, logging_nan_inf_filter=is_filtered, **saving)
    seen = []

    def spoil(module, inputs, output):
        seen.append(1)
        if len(seen) == 6:
            output.loss = output.loss * math.nan
        return output

    trainer.model.register_forward_hook(spoil)
    with pytest.raises(FloatingPointError, match=r"the loss is nan at step 6 \(nll \d\.\d+\): start over, with"):
        trainer.train()
    assert [path.name for path in tmp_path.glob("checkpoint-*")] == ["checkpoint-3"]


@pytest.mark.parametrize("is_whole", [True, False])
def test_tied_weights_are_not_missed_in_a_checkpoint(make, tmp_path, is_whole):
    make(max_steps=1, save_strategy="steps", save_steps=1).train()
    weights = tmp_path / "checkpoint-1" / "model.safetensors"
    if not is_whole:
        tensors = load_file(weights)
        del tensors["model.encoder.layers.0.feed_forward.inner.bias"]
        save_file(tensors, weights, {"format": "pt"})
    trainer = make(max_steps=2)
    with CaptureLogger(logging.get_logger("transformers.trainer")) as captured:
        trainer.train(resume_from_checkpoint=str(weights.parent))
    missing = "missing keys in the checkpoint model loaded: ['model.encoder.layers.0.feed_forward.inner.bias"
    assert (missing in captured.out) == (not is_whole)
    assert ("missing keys" in captured.out) == (not is_whole)
    assert "lm_head" not in captured.out
    assert trainer.model.lm_head.weight is trainer.model.model.shared.weight


def test_resuming_at_the_end_makes_no_update(make, tmp_path):
    make(max_steps=1, save_strategy="steps", save_steps=1).train()
    trainer = make(max_steps=1)
    trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-1"))
    assert trainer.state.global_step == 1
    for name, weight in load_file(tmp_path / "checkpoint-1" / "model.safetensors").items():
        assert torch.equal(trainer.model.state_dict()[name], weight)


def test_run_that_moved_after_its_last_update_ends_with_its_best_weights(make, tmp_path):
    scores = iter([2.0, 1.0])
    saving = {"eval_strategy": "steps", "eval_steps": 1, "save_strategy": "steps", "save_steps": 1, "max_steps": 2}
    saving |= {"load_best_model_at_end": True, "metric_for_best_model": "rouge2"}

    def make_trainer(folder):
        trainer = make(compute_metrics=lambda _: {"rouge2": next(scores)}, output_dir=str(tmp_path / folder), **saving)
        trainer.model.generation_config.max_new_tokens = 2
        return trainer

    make_trainer("old").train()
    (tmp_path / "old").rename(tmp_path / "new")
    trainer = make_trainer("new")
    trainer.train(resume_from_checkpoint=str(tmp_path / "new/checkpoint-2"))
    assert trainer.state.best_model_checkpoint == str(tmp_path / "new/checkpoint-1")
    for name, weight in load_file(tmp_path / "new/checkpoint-1/model.safetensors").items():
        assert torch.equal(trainer.model.state_dict()[name], weight)


@pytest.mark.parametrize(("reduction", "accumulation"), [("documents", 1), ("tokens", 2)])
def test_stream_is_read_again_and_resumed_in_any_pass(
    make, processor, rows, tmp_path, monkeypatch, reduction, accumulation
):
    # a pass has 3 batches, the last of which has 1 row
    stream = rows.select(range(5)).to_iterable_dataset().shuffle(0, buffer_size=100)
    per_pass = 3 // accumulation
    expected = []
    for number in range(2 * per_pass + 1):
        stream.set_epoch(number // per_pass)
        order = [row["input_ids"] for row in stream]
        start = number % per_pass * 2 * accumulation
        expected.append((number // per_pass, order[start : start + 2 * accumulation]))

    def run(resume=None):
        """The epochs before each update, its documents, and its loss."""
        model = tiny.gdlf(processor)
        model.config.epochs_trained = 0
        updates = {}
        settings = {"gradient_accumulation_steps": accumulation, "per_device_train_batch_size": 2}
        settings |= {"loss_reduction": reduction, "max_steps": len(expected), "optimizer": "adam"}
        trainer = make(model, rows=stream, save_strategy="steps", save_steps=1, **settings)
        compute_loss = trainer.compute_loss

        def recorded(model, inputs, *args, **kwargs):
            documents = updates.setdefault(trainer.state.global_step, (trainer.model.config.epochs_trained, []))[1]
            for ids, mask in zip(inputs["input_ids"], inputs["attention_mask"], strict=True):
                documents.append(ids[mask.bool()].tolist())
            return compute_loss(model, inputs, *args, **kwargs)

        monkeypatch.setattr(trainer, "compute_loss", recorded)
        trainer.train(resume)
        return updates, logged(trainer, "loss"), logged(trainer, "grad_norm")

    updates, whole_losses, norms = run()
    assert list(updates.values()) == expected
    # at the end of the first pass, and in the second
    for step in (per_pass, per_pass + 1):
        resumed, *values = run(str(tmp_path / f"checkpoint-{step}"))
        assert list(resumed.values()) == expected[step:]
        assert values == [whole_losses, norms]


@pytest.mark.thorough
def test_early_stopping_goes_on_after_a_resume(make, tmp_path):
    def last_step(checkpoint=None, **settings):
        settings |= {"eval_strategy": "steps", "eval_steps": 2, "save_strategy": "steps", "save_steps": 2}
        settings |= {"max_steps": 20, "early_stopping_patience": 2}
        trainer = make(compute_metrics=lambda predictions: {"rouge2": 1.0}, **settings)
        trainer.model.generation_config.max_new_tokens = 2
        trainer.train(resume_from_checkpoint=checkpoint)
        return trainer.state.global_step

    assert last_step() == 6
    assert last_step(checkpoint=str(tmp_path / "checkpoint-4")) == 6
    # its patience was exhausted before it was killed
    assert last_step(checkpoint=str(tmp_path / "checkpoint-6")) == 6
    # the evaluations at 2 and 4 are within the warm-up
    assert last_step(warmup_steps=5) == 8


@pytest.mark.parametrize("kind", ["gdlf", "bart"])
def test_losses_are_known_row_by_row(make, rows, processor, tiny_tokenizer, kind):
    settings = {"eval_tokens_per_batch": 200, "predict_with_generate": False}
    if kind == "bart":
        settings |= {"model": tiny.bart(tiny_tokenizer), "processing_class": tiny_tokenizer}
    trainer = make(**settings)
    metrics = trainer.evaluate()
    model = trainer.model.eval()
    expected = []
    for row in rows.remove_columns("summary"):
        batch = trainer.data_collator([row])
        log_probs = model(**batch).logits.log_softmax(-1)
        expected.append(-log_probs.gather(-1, batch["labels"][..., None]).sum().item())
    assert [row["nll"] for row in trainer.row_values] == pytest.approx(expected, rel=1e-5)
    assert [row["tokens"] for row in trainer.row_values] == [len(row["labels"]) for row in rows]
    sums = np.array([list(row.values()) for row in trainer.row_values]).sum(0)
    assert metrics["eval_nll"] == pytest.approx(sums[0] / sums[1], rel=1e-5)
    # GDLF's loss is smoothed
    is_plain = metrics["eval_loss"] == pytest.approx(metrics["eval_nll"], rel=1e-5)
    assert is_plain == (kind == "bart")
    assert perplexity(sums) == pytest.approx(metrics["eval_perplexity"], rel=1e-5)


def test_summaries_of_a_guided_model_have_their_divergence(make, rows, tiny_tokenizer):
    processor = SAGCOPY.processor(tiny_tokenizer)
    model = SAGCOPY.head_class(SAGCOPY.config_for(processor))
    model.generation_config.max_new_tokens = 6
    trainer = make(model, processing_class=processor, eval_tokens_per_batch=200, predict_with_generate=True)
    output = trainer.predict(trainer.eval_dataset)
    assert output.metrics["test_guidance"] > 0
    for row, values, summary in zip(rows, trainer.row_values, output.predictions, strict=True):
        labels = torch.tensor([summary[1:]])
        outputs = model(input_ids=torch.tensor([row["input_ids"]]), labels=labels)
        attention = outputs.copy_attentions.mean(1)
        divergence = (attention * (attention / outputs.centrality).log()).sum().item()
        assert values == {"divergence": pytest.approx(divergence, abs=1e-5)}


def test_model_that_skips_its_logits_has_no_losses_by_row(make, tiny_tokenizer):
    processor = COPY_TRANSFORMER.processor(tiny_tokenizer)
    model = COPY_TRANSFORMER.head_class(COPY_TRANSFORMER.config_for(processor))
    trainer = make(model, processing_class=processor, predict_with_generate=False)
    assert math.isfinite(trainer.evaluate()["eval_perplexity"])
    assert trainer.row_values == []


@pytest.mark.thorough
@pytest.mark.parametrize("settings", [{"eval_tokens_per_batch": 120}, {"per_device_eval_batch_size": 5}])
def test_predictions_come_in_the_order_of_the_data_set(make, rows, settings):
    given_references = []

    def remember(predictions):
        given_references.append(predictions.label_ids)
        return {"number": len(predictions.predictions)}

    trainer = make(compute_metrics=remember, **settings)
    trainer.model.generation_config.update(max_new_tokens=5, no_repeat_ngram_size=1)
    torch.nn.init.normal_(trainer.model.model.shared.weight, std=2.0)
    output = trainer.predict(rows, metric_key_prefix="predict")
    expected = []
    for index in range(len(rows)):
        expected.append(trainer.predict(rows.select([index])).predictions[0])
    assert output.predictions == expected
    assert len({tuple(tokens) for tokens in expected}) > 1
    assert output.metrics["predict_number"] == len(rows)
    assert trainer.predict(rows).label_ids == rows["summary"][:]
    assert given_references[-1] == rows["summary"][:]
    for tokens in output.predictions:
        assert min(tokens) >= 0


def test_rows_without_labels_have_predictions_and_no_losses(make, rows):
    trainer = make()
    trainer.model.generation_config.max_new_tokens = 3
    output = trainer.predict(rows.remove_columns("labels"))
    assert output.predictions == trainer.predict(rows).predictions
    assert not {"test_loss", "test_perplexity"} & output.metrics.keys()


@pytest.mark.thorough
def test_padding_of_beams_is_not_part_of_a_text():
    model, inputs = GDLF.model(), GDLF.inputs(rows=6)
    # no token twice, so that the end comes sooner or later
    settings = {"num_beams": 4, "max_new_tokens": 40, "no_repeat_ngram_size": 1}
    together = model.generate(**inputs, **settings).tolist()
    # transformers pads beams with the end token where the padding token's id is 0
    assert any(row[-2:] == [2, 2] for row in together)
    for row, length in enumerate(inputs["attention_mask"].sum(-1).tolist()):
        single = {name: value[row : row + 1, :length] for name, value in inputs.items()}
        (expected,) = model.generate(**single, **settings).tolist()
        assert strip_padding(together[row], 0, [2]) == expected
    # a text that starts with the end token, as BART's do, and has no word
    assert strip_padding([2, 2, 1, 1], 1, [2]) == [2, 2]


@pytest.mark.thorough
@pytest.mark.parametrize("max_grad_norm", [0.0, 1.0])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_gradient_that_is_not_finite_stops_the_run_before_it_is_saved(make, tmp_path, max_grad_norm, value):
    trainer = make(max_steps=8, logging_steps=8, save_strategy="steps", save_steps=2, max_grad_norm=max_grad_norm)

    def spoil(gradient):
        if trainer.state.global_step == 3:
            return gradient * value
        return gradient

    trainer.model.model.shared.weight.register_hook(spoil)
    with pytest.raises(FloatingPointError, match=r"^the gradient norm is (nan|inf) at step 4: start over"):
        trainer.train()
    assert [path.name for path in tmp_path.glob("checkpoint-*")] == ["checkpoint-2"]


def test_weights_that_are_not_finite_are_never_saved(make, tmp_path):
    trainer = make(max_steps=2)
    trainer.train()
    trainer.model.model.shared.weight.data[1, 2] = math.inf
    with pytest.raises(FloatingPointError, match=r"^model\.shared\.weight is not finite after step 2: start over"):
        trainer.save_model()
    assert not list(tmp_path.rglob("*.safetensors"))


def test_generation_settings_stay_the_users(make, tmp_path):
    trainer = make(compute_metrics=lambda predictions: {}, generation_num_beams=2)
    trainer.model.generation_config = GenerationConfig(
        max_new_tokens=4, no_repeat_word_ngram_size=2, pad_token_id=0, eos_token_id=2, decoder_start_token_id=1
    )
    before = trainer.model.generation_config.to_dict()
    trainer.evaluate()
    assert trainer.model.generation_config.to_dict() == before
    tmp_path.chmod(0o755)
    trainer.save_model()
    # a service has another user
    assert (tmp_path / "model.safetensors").stat().st_mode & 0o777 == 0o644
    saved = json.loads((tmp_path / "generation_config.json").read_text())
    assert saved["no_repeat_word_ngram_size"] == 2
    assert "max_length" not in saved


def test_generation_settings_stay_the_users_when_generation_fails(make):
    trainer = make(compute_metrics=lambda predictions: {})
    trainer.model.generation_config.max_new_tokens = 5
    before = trainer.model.generation_config.to_dict()

    def fill_in_and_fail(module, arguments, settings):
        if "labels" not in settings:
            # as some versions of transformers do
            module.generation_config.max_length = 21
            raise RuntimeError("out of memory")

    trainer.model.register_forward_pre_hook(fill_in_and_fail, with_kwargs=True)
    with pytest.raises(RuntimeError, match="out of memory"):
        trainer.evaluate()
    assert trainer.model.generation_config.to_dict() == before


def test_token_batches_train_and_report_their_size(make):
    trainer = make(train_tokens_per_batch=150, max_steps=-1, num_train_epochs=1, logging_steps=1)
    updates = len(losses(trainer))
    batches = trainer.get_train_dataloader().batch_sampler
    assert updates == len(batches) > 2
    assert trainer.get_total_train_batch_size(trainer.args) == round(13 / len(batches))


def test_the_state_of_a_run_is_json(make, tmp_path):
    # a score without a value, as support in documents without words
    trainer = make(compute_metrics=lambda predictions: {"support": math.nan, "rouge1": 1.5}, max_steps=2)
    trainer.train()
    trainer.evaluate()
    trainer.save_state()
    (file,) = tmp_path.rglob("trainer_state.json")
    state = strict_json(file.read_text(encoding="utf-8"))
    evaluations = [entry for entry in state["log_history"] if "eval_rouge1" in entry]
    assert len(evaluations) == 1
    assert evaluations[0]["eval_support"] is None
    assert evaluations[0]["eval_rouge1"] == 1.5
