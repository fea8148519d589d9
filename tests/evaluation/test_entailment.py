"""Entailment by a tiny random model, one pair at a time."""

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, BertForSequenceClassification, BertModel, PreTrainedTokenizerFast

from hf_summ.data import split_sentences
from hf_summ.evaluation import pair_models
from hf_summ.evaluation.pair_models import EntailmentModel, entailment_scores
from tests.conftest import SENTENCES
from tests.evaluation.tiny_entailment import POSITIONS, naive_probabilities, save_entailment_model

SUMMARIES = ["The bridge cost 12 million. Ana Lopez opened it.", "", SENTENCES[0], "Critics.", "The river."]
# of several passages, a short one, none, and a sentence that is longer than a passage
SOURCES = [" ".join(SENTENCES), "Rain.", SENTENCES[1], "", f"The bridge. {'; '.join(SENTENCES).replace('.', '')}"]


@pytest.fixture
def folder(tmp_path) -> str:
    return save_entailment_model(tmp_path)


def naive(folder: str, summary: str, source: str) -> float:
    """The definition, one pair at a time; passages are counted as they are read."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = BertForSequenceClassification.from_pretrained(folder)
    claims = split_sentences(summary)
    longest = max(claims, key=lambda claim: len(tokenizer.tokenize(claim)), default="")
    passages: list[str] = []
    for sentence in split_sentences(source):
        grown = f"{passages[-1]} {sentence}" if passages else sentence
        if passages and len(tokenizer.tokenize(f"{grown} {longest}")) <= POSITIONS - 3:
            passages[-1] = grown
        else:
            passages.append(sentence)
    if not (claims and passages):
        return float("nan")
    best = [max(naive_probabilities(tokenizer, model, passage, claim)[1] for passage in passages) for claim in claims]
    return 100 * sum(best) / len(best)


def test_scores_are_those_of_one_pair_at_a_time(folder, monkeypatch):
    model = EntailmentModel(folder)
    passages = [list(model.passages(source, ["The river."], "en")) for source in SOURCES]
    assert [len(found) for found in passages] == [3, 1, 1, 0, 2]
    expected = [naive(folder, *pair) for pair in zip(SUMMARIES, SOURCES, strict=True)]
    assert np.isnan(expected).tolist() == [False, True, False, True, False]
    assert len({round(score, 1) for score in expected if score == score}) == 3
    assert entailment_scores(model, SUMMARIES, SOURCES) == pytest.approx(expected, abs=1e-3, nan_ok=True)
    monkeypatch.setattr(pair_models, "_TOKENS_AT_ONCE", 90)
    assert entailment_scores(model, SUMMARIES, SOURCES) == pytest.approx(expected, abs=1e-3, nan_ok=True)
    assert np.isnan(entailment_scores(model, [""], [""])).all()
    with pytest.raises(ValueError, match="2 predictions but 1 sources"):
        entailment_scores(model, ["a", "b"], ["a"])


# langchain-ai/langchain#1487: the tokens of separate sentences are fewer than those of their passage
def test_passages_have_room_for_the_space_between_sentences(folder):
    model, tokenizer = EntailmentModel(folder), Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.train_from_iterator(["Ferries float."] * 9, trainers.BpeTrainer(show_progress=False))
    model.tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokenizer)
    passages = list(model.passages("Ferries. " * 40, ["float"], "en"))
    assert " ".join(passages) == ("Ferries. " * 40).strip()
    assert max(len(model.tokenizer.tokenize(passage)) for passage in passages) + 1 <= POSITIONS


def test_models_that_cannot_judge_are_named(folder, tmp_path):
    # pickled weights are refused
    weights = BertForSequenceClassification.from_pretrained(folder).state_dict()
    (tmp_path / "model.safetensors").unlink()
    torch.save(weights, tmp_path / "pytorch_model.bin")
    with pytest.raises(ValueError, match=r"cannot be loaded as .* no file named model.safetensors"):
        EntailmentModel(folder)
    message = r"nowhere cannot be loaded as a natural language inference model \(.*: if the Hub is out of"
    with pytest.raises(ValueError, match=message):
        EntailmentModel(str(tmp_path / "nowhere"))
    name = save_entailment_model(tmp_path, labels=("not_entailment", "Neutral"))
    with pytest.raises(ValueError, match=r"has the labels not_entailment, neutral: name a .* the label 'entailment'$"):
        EntailmentModel(name)
    name = save_entailment_model(tmp_path, kind=BertModel)
    with pytest.raises(ValueError, match=r"no weights for classifier.weight \(2 are missing\): name a checkpoint that"):
        EntailmentModel(name)
