"""Beams that are ranked by their support in the source."""

import itertools
import random

import pytest
import torch

from hf_summ.data import fit_vocabulary
from hf_summ.models.text_words import SupportInSource
from tests.conftest import SENTENCES
from tests.models.architectures import COPY_TRANSFORMER, DRGD, GDLF, build_with_processor

DOCUMENT = "The river bridge opened. Critics, who had 12 doubts, called its price too high."


@pytest.mark.parametrize(
    ("summary", "support"),
    [
        # short words are no content words, and numbers are
        ("The river bridge", (2 / 2 + 1 / 1) / 2),
        ("12 doubts", (2 / 2 + 1 / 1) / 2),
        # five words lie between them, six do not
        ("bridge price", (2 / 2 + 0 / 1) / 2),
        ("opened price", (2 / 2 + 1 / 1) / 2),
        # the second of equal words does not count, and is no neighbor of the first
        ("bridge, bridge", (1 / 2 + 0 / 1) / 2),
        ("River: a flooded river", (1 / 3 + 0 / 2) / 2),
        ("bridge", 1.0),
        ("flood", 0.0),
        ("the old", 0.0),
        ("", 0.0),
    ],
)
def test_support_of_summaries(summary, support):
    assert SupportInSource(DOCUMENT)(summary) == pytest.approx(support)


def test_each_ideograph_is_a_content_word():
    supported = SupportInSource("市长开放大桥")
    assert supported("大桥开放") == pytest.approx((4 / 4 + 3 / 3) / 2)
    assert supported("大桥很长") == pytest.approx((3 / 4 + 1 / 3) / 2)


def naive_support(document: list[str], summary: list[str]) -> float:
    """Of words that all are content words, by looking at all places of the document."""
    known = [word in document and word not in summary[:place] for place, word in enumerate(summary)]
    near = []
    for first, second in itertools.pairwise(summary):
        places = [(i, j) for i, a in enumerate(document) for j, b in enumerate(document) if (a, b) == (first, second)]
        near.append(first != second and any(abs(i - j) <= 5 for i, j in places))
    return (sum(known) / len(known) + sum(near) / len(near)) / 2


def test_support_equals_its_naive_twin():
    draw = random.Random(0)
    words = ["".join(letters) for letters in itertools.product("ab", repeat=4)]
    for _ in range(200):
        document, summary = draw.choices(words, k=draw.randrange(1, 30)), draw.choices(words, k=draw.randrange(2, 9))
        expected = naive_support(document, summary)
        assert SupportInSource(" ".join(document))(" ".join(summary)) == pytest.approx(expected)


@pytest.fixture(params=[GDLF, COPY_TRANSFORMER, DRGD], ids=lambda architecture: architecture.name)
def written(request):
    """A model that writes words, its processor and their inputs."""
    tokenizer = fit_vocabulary(SENTENCES, units="words", vocab_size=400, min_frequency=1, show_progress=False)
    model, processor = build_with_processor(request.param, tokenizer)
    return model, processor, processor(SENTENCES, return_tensors="pt")


@pytest.mark.thorough
@pytest.mark.parametrize("weight", [0.5, 50.0])
def test_best_beams_by_score_and_support_are_returned(written, weight):
    model, processor, inputs = written
    settings = {"num_beams": 4, "max_new_tokens": 12, "tokenizer": processor}
    beams = model.generate(
        **inputs, **settings, num_return_sequences=4, return_dict_in_generate=True, output_scores=True
    )
    texts = processor.batch_decode(beams.sequences, skip_special_tokens=True)
    documents = processor.batch_decode(inputs["input_ids"], skip_special_tokens=True)
    scores = beams.sequences_scores + weight * torch.tensor(
        [SupportInSource(documents[row // 4])(text) for row, text in enumerate(texts)]
    )
    order = scores.view(-1, 4).argsort(descending=True) + 4 * torch.arange(len(documents))[:, None]
    scored = {"num_return_sequences": 2, "return_dict_in_generate": True, "output_scores": True}
    ranked = model.generate(**inputs, **settings, **scored, support_weight=weight)
    first_two = order[:, :2].reshape(-1)
    torch.testing.assert_close(ranked.sequences_scores, scores[first_two])
    length = ranked.sequences.shape[1]
    assert torch.equal(ranked.sequences, beams.sequences[first_two, :length])
    assert (beams.sequences[first_two, length:] == model.config.pad_token_id).all()
    assert torch.equal(ranked.beam_indices, beams.beam_indices[first_two, : ranked.beam_indices.shape[1]])
    best = model.generate(**inputs, **settings, support_weight=weight)
    assert torch.equal(best, beams.sequences[order[:, 0], : best.shape[1]])
    # a positional argument, and a dictionary without scores
    again = model.generate(
        inputs.pop("input_ids"), **inputs, **settings, support_weight=weight, return_dict_in_generate=True
    )
    assert torch.equal(again.sequences, best)
    assert again.scores is None
    assert again.sequences_scores is None


@pytest.mark.thorough
def test_support_changes_the_order_of_beams(written):
    """Else the test above would prove nothing."""
    model, processor, inputs = written
    settings = {"num_beams": 4, "max_new_tokens": 12, "tokenizer": processor}
    texts = [processor.batch_decode(model.generate(**inputs, **settings, support_weight=weight)) for weight in (0, 50)]
    assert texts[0] != texts[1]


def test_greedy_search_has_nothing_to_rank(written):
    model, processor, inputs = written
    settings = {"num_beams": 1, "max_new_tokens": 5, "tokenizer": processor}
    plain = model.generate(**inputs, **settings)
    assert torch.equal(model.generate(**inputs, **settings, support_weight=1.0), plain)


def test_missing_documents_and_tokenizers_are_reported(written):
    model, processor, inputs = written
    settings = {"num_beams": 2, "max_new_tokens": 3, "support_weight": 1.0}
    with pytest.raises(ValueError, match="`support_weight` and `replace_unk` need the tokenizer, and this model was"):
        model.generate(**inputs, **settings)
    encoded = model.get_encoder()(**inputs)
    with pytest.raises(ValueError, match=r"^`support_weight` needs the documents: give `input_ids` to `generate`, or"):
        model.generate(
            encoder_outputs=encoded, attention_mask=inputs["attention_mask"], **settings, tokenizer=processor
        )
    with pytest.raises(ValueError, match=r"`support_weight` is -1.0, but must be a number from 0 to 10000"):
        model.generate(**inputs, **{**settings, "support_weight": -1.0})
