"""BERT's next-sentence head, read in batches."""

import itertools

import pytest
from transformers import (
    AutoTokenizer,
    BertForMaskedLM,
    BertForNextSentencePrediction,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
)

from hf_summ.evaluation import pair_models
from hf_summ.evaluation.pair_models import NextSentenceModel
from tests.conftest import SENTENCES
from tests.evaluation.tiny_pair_model import POSITIONS, naive_probabilities, save_pair_model
from tests.extractive.summaries import stage_extracts

# The last pair is longer than the model's positions.
PAIRS = list(itertools.product(SENTENCES, SENTENCES)) + [("Rain.", " ".join(SENTENCES))]


def saved(folder, kind=BertForNextSentencePrediction) -> str:
    name = save_pair_model(folder, kind)
    if kind is BertForNextSentencePrediction:
        # The bias is set so that the model rejects half of the pairs.
        model, tokenizer = kind.from_pretrained(name), AutoTokenizer.from_pretrained(name)
        settings = {"padding": True, "truncation": True, "max_length": POSITIONS, "return_token_type_ids": True}
        inputs = tokenizer(PAIRS, return_tensors="pt", **settings)
        logits = model(**inputs).logits
        model.cls.seq_relationship.bias.data[1] += (logits[:, 0] - logits[:, 1]).median()
        model.save_pretrained(folder)
    return name


def test_batches_give_what_the_model_gives_alone(tmp_path, monkeypatch):
    name = saved(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(name)
    model = BertForNextSentencePrediction.from_pretrained(name)
    expected = []
    for first, second in PAIRS:
        expected.append(naive_probabilities(tokenizer, model, first, second)[0])
    assert min(expected) < 0.45 < 0.55 < max(expected)
    judge = NextSentenceModel(name)
    assert judge(PAIRS) == pytest.approx(expected, abs=1e-5)
    monkeypatch.setattr(pair_models, "_TOKENS_AT_ONCE", 90)
    monkeypatch.setattr(pair_models, "_PAIRS_AT_ONCE", 5)
    assert judge(PAIRS) == pytest.approx(expected, abs=1e-5)
    assert judge([]) == []
    # No tokenizer reads a lone surrogate.
    assert 0 < judge([("\ud83d", "Snow.")])[0] < 1


def test_the_stage_takes_a_checkpoint_by_name(tmp_path, monkeypatch):
    name = saved(tmp_path)
    judged_pairs: list = []
    judge = NextSentenceModel.__call__

    def judge_and_record(self, pairs):
        judged_pairs.extend(pairs)
        return judge(self, pairs)

    monkeypatch.setattr(NextSentenceModel, "__call__", judge_and_record)
    sentences = []
    for number in range(4):
        sentences.extend(f"Day {number}: {sentence}" for sentence in SENTENCES)
    stage_extracts(["\n".join(sentences)], 0.2, next_sentence_model=name)
    # The third sentence and the one that is kept after it are no neighbors.
    successors_of_the_third = [second for first, second in judged_pairs if first == sentences[2]]
    assert set(successors_of_the_third) & set(sentences[4:])


@pytest.mark.parametrize("kind", [BertModel, BertForMaskedLM])
def test_a_bert_without_the_head_is_refused(tmp_path, kind):
    name = saved(tmp_path, kind)
    message = (
        r"has no weights for cls.seq_relationship.weight \(\d are missing\): name a checkpoint that was saved with"
    )
    with pytest.raises(ValueError, match=message):
        stage_extracts(["One."], 0.5, next_sentence_model=name)


def test_an_architecture_without_the_head_is_refused(tmp_path):
    config = DistilBertConfig(vocab_size=9, dim=8, n_layers=1, n_heads=1, hidden_dim=8)
    DistilBertModel(config).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="is a distilbert, which has no next-sentence head: name a checkpoint"):
        NextSentenceModel(str(tmp_path))
