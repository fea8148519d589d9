"""The loss of sampled summaries: equal to a naive sum over samples, for every architecture and for BART."""

import datasets
import numpy as np
import pytest
import torch

from hf_summ.checkpoints.adapters import takes
from hf_summ.data import fit_vocabulary
from hf_summ.models.text_documents import FIRST_POINTER
from hf_summ.training.loop import making
from hf_summ.training.loop.rewards import advantages, policy_losses, rouge_rewards
from hf_summ.training.loop.trainer import SummarizationTrainer
from hf_summ.training.run import main, train
from tests.models.architectures import EACH, GDLF, POINTER_GENERATOR, VOCAB_SIZE, build_with_processor
from tests.training import tiny

SAMPLES = [[[2, 7, 9, 3], [2, 8, 3]], [[2, 5, 3], [2, 6, 6, 6, 3]], [[2, 30, 11, 12], [2, 3]]]
WEIGHTS = torch.tensor([[0.5, -0.5], [0.1, -0.1], [-0.3, 0.3]], dtype=torch.float64)


def naive_loss(model, source):
    """-Σ over documents of the mean over samples of weight · log p, one sample at a time."""
    total = 0.0
    for row, samples in enumerate(SAMPLES):
        alone = {name: values[row : row + 1] for name, values in source.items()}
        for sample, weight in zip(samples, WEIGHTS[row], strict=True):
            given, wanted = torch.tensor([sample[:-1]]), torch.tensor(sample[1:])
            scores = model(**alone, decoder_input_ids=given).logits[0].log_softmax(-1)
            total = total - weight * scores[torch.arange(len(wanted)), wanted].sum() / len(samples)
    return total


@pytest.mark.parametrize("architecture", EACH)
def test_the_loss_and_its_gradients_are_those_of_samples_read_one_by_one(architecture):
    model, source = architecture.model(), architecture.inputs()
    check_loss(model, source)


def test_so_they_are_for_models_that_read_a_document_once_for_each_sample(tiny_tokenizer):
    check_loss(tiny.bart(tiny_tokenizer).double().eval(), GDLF.inputs())


def check_loss(model, source):
    source = {name: source[name] for name in source if takes(model, name)}
    model.generation_config.pad_token_id = 0
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    ours = policy_losses(model, model, source, [sample for samples in SAMPLES for sample in samples], WEIGHTS).sum()
    naive = naive_loss(model, source)
    assert ours.item() == pytest.approx(naive.item(), rel=1e-6)
    for pair in zip(*(torch.autograd.grad(loss, weights, allow_unused=True) for loss in (ours, naive)), strict=True):
        torch.testing.assert_close(*(torch.zeros(()) if one is None else one for one in pair), rtol=1e-5, atol=1e-8)


def test_a_sample_may_point_to_unknown_words():
    model = POINTER_GENERATOR.model(unknown_ids=9, unk_token_id=3)
    source = POINTER_GENERATOR.inputs(rows=2)
    source["input_ids"][1, 1] = VOCAB_SIZE + 4
    model.generation_config.pad_token_id = 0
    weights = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    loss = policy_losses(model, model, source, [[2, 7, 3], [2, FIRST_POINTER + 1, 3]], weights).sum()
    alone = {name: values[1:] for name, values in source.items()}
    scores = model(**alone, decoder_input_ids=torch.tensor([[2, 3]])).logits[0].log_softmax(-1)
    assert loss.item() == pytest.approx(-(scores[0, VOCAB_SIZE + 1] + scores[1, 3]).item(), rel=1e-6)


def test_rewards_and_advantages_by_hand():
    # rewards are means of three rouge scores
    rewards = rouge_rewards(["a b c", "", "x"], ["a b d", "a", "..."], "en")
    # two of three words and one of two pairs are shared; nothing without words
    assert rewards.tolist() == pytest.approx([(2 / 3 + 1 / 2 + 2 / 3) / 3, 0, 0])
    assert rouge_rewards(["x"], ["..."], "en").tolist() == [0]
    # an advantage is over the other samples
    rewards = torch.tensor([[1.0, 3.0, 8.0]])
    assert advantages(rewards).tolist() == [[1.0 - 5.5, 3.0 - 4.5, 8.0 - 2.0]]


@pytest.mark.parametrize("units", ["words", "characters"])
def test_copied_names_that_the_vocabulary_lacks_are_rewarded(tmp_path, monkeypatch, units):
    known = ["opened the park with .", "a opened park"]
    tokenizer = fit_vocabulary(known, units=units, min_frequency=1, show_progress=False)
    model, processor = build_with_processor(POINTER_GENERATOR, tokenizer)
    # the right name, a wrong one, and none
    texts = ["Ж opened the park .", "Щ opened the park .", "opened the park ."]
    reference = texts[0]
    documents = ["Ж opened the park with Щ .", "the park : Щ opened the park with Ж ."]
    rows = datasets.Dataset.from_dict({**processor(documents, [reference] * 2), "summary": [reference] * 2})
    trainer = tiny.trainer(model, processor, rows, tmp_path, reward_samples=3, max_steps=1)

    def copying_samples(inputs, sampling):
        samples = []
        for source in inputs["input_ids"].tolist():
            for labels in processor(documents[:1] * 3, texts)["labels"]:
                sample = [model.config.decoder_start_token_id]
                for token in labels:
                    is_unknown = token >= len(tokenizer)
                    sample.append(FIRST_POINTER + source.index(token) if is_unknown else token)
                samples.append(sample)
        return samples

    rewards = []

    def reward(samples, references):
        rewards.append(rouge_rewards(samples, references, "ru"))
        return rewards[-1]

    monkeypatch.setattr(trainer, "generate_ids", copying_samples)
    trainer.reward = reward
    trainer.train()
    expected = [1, (3 / 4 + 2 / 3 + 3 / 4) / 3, (6 / 7 + 4 / 5 + 6 / 7) / 3]
    assert rewards[0].tolist() == pytest.approx(expected * 2)
    assert rouge_rewards(texts, [reference] * 3, "ru").tolist() == pytest.approx(expected)


def test_a_single_sample_has_no_baseline(tiny_tokenizer, tmp_path):
    processor = tiny.processor(tiny_tokenizer)
    model = tiny.gdlf(processor)
    trainer = tiny.trainer(model, processor, tiny.prepared(processor, 4), tmp_path, reward_samples=1, max_steps=1)
    with pytest.raises(ValueError, match="`reward_samples` is 1, but must be at least 2, as the baseline"):
        trainer.train()


@pytest.mark.parametrize("kind", ["gdlf", "bart"])
def test_training_raises_the_reward(tiny_tokenizer, tmp_path, kind):
    processor = tiny.processor(tiny_tokenizer)
    torch.manual_seed(0)
    model = tiny.bart(tiny_tokenizer) if kind == "bart" else tiny.gdlf(processor)
    model.generation_config.update(max_new_tokens=8, num_beams=3, no_repeat_ngram_size=1)
    before = model.generation_config.to_dict()
    rewarded = {"reward_samples": 4, "reward_share": 1.0, "reward_temperature": 1.0, "max_steps": 40}
    trainer = tiny.trainer(model, processor, tiny.prepared(processor, 13), tmp_path, **rewarded)
    trainer.reward = lambda texts, references: np.array([text.count("t") / 8 for text in texts])
    trainer.train()
    rewards = [entry["reward"] for entry in trainer.state.log_history if "reward" in entry]
    assert np.mean(rewards[-5:]) > 2 * np.mean(rewards[:5])
    assert model.generation_config.to_dict() == before


def lengths(texts, references):
    """A reward: the number of characters of each text."""
    return np.array([len(text) for text in texts])


def test_a_replaced_reward_is_that_of_a_run(settings, tmp_path, monkeypatch):
    monkeypatch.setattr(SummarizationTrainer, "reward", staticmethod(lambda texts, references: np.full(len(texts), 7)))
    train(settings(reward_samples=2, max_steps=2))
    assert [reward for _, reward in tiny.history(tmp_path / "out", "reward")] == [7, 7]


def test_the_reward_of_a_run_is_rouge_in_its_language(settings, monkeypatch):
    languages = set()

    def rewards(texts, references, language="en"):
        languages.add(language)
        return np.zeros(len(texts))

    monkeypatch.setattr(making, "rouge_rewards", rewards)
    monkeypatch.setattr(SummarizationTrainer, "reward", staticmethod(rewards))
    train(settings(reward_samples=2, max_steps=1, language="ru"))
    assert languages == {"ru"}


@pytest.mark.thorough
def test_a_resumed_run_draws_the_samples_of_a_whole_one(settings, tmp_path, monkeypatch):
    # an untrained model has no ROUGE
    monkeypatch.setattr(SummarizationTrainer, "reward", staticmethod(lengths))
    path = settings(reward_samples=3, max_steps=6, save_strategy="steps", save_steps=3, do_eval=False, do_predict=False)
    main([path, "--output_dir", str(tmp_path / "whole")])
    resume = ["--resume_from_checkpoint", str(tmp_path / "whole/checkpoint-3")]
    main([path, "--output_dir", str(tmp_path / "half"), *resume])
    whole, half = (tiny.history(tmp_path / name, "loss", "nll", "reward") for name in ("whole", "half"))
    assert any(reward > 0 for _, _, _, reward in whole[3:])
    assert half == whole
