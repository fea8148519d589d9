"""The keys that `generate()` gains: against a search of all texts, and on real generation."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from transformers import LogitsProcessor

from tests.conftest import SENTENCES
from tests.models.architectures import GDLF, GDLF_COPY, build_with_processor
from tests.models.naive_search import all_texts
from tests.models.naive_words import byte_level_words


def best_text(model, inputs, longest, alpha, offset):
    """The text of the best score log p / ((k + n) / (k + 1))^α among all of up to `longest` tokens; k is the offset."""
    return max(
        (log_p / ((offset + len(tokens)) / (offset + 1)) ** alpha, tokens)
        for tokens, log_p, _ in all_texts(model, inputs, longest)
    )


CASES_OF_LENGTH_PENALTIES = [
    (0.9, None),
    (3.0, 40),
    pytest.param(0.0, None, marks=pytest.mark.thorough),
    pytest.param(3.0, None, marks=pytest.mark.thorough),
]


@pytest.mark.parametrize(("alpha", "offset"), CASES_OF_LENGTH_PENALTIES)
def test_gnmt_length_penalty_finds_the_best_of_all_texts(alpha, offset):
    model = GDLF.model(vocab_size=5)
    inputs = GDLF.inputs(rows=1, length=5)
    inputs["input_ids"] = inputs["input_ids"] % 5
    score, tokens = best_text(model, inputs, longest=4, alpha=alpha, offset=5 if offset is None else offset)
    settings = {"num_beams": 150, "max_new_tokens": 4, "early_stopping": "never"}
    settings |= {"gnmt_length_penalty": alpha, "gnmt_length_offset": offset}
    outputs = model.generate(**inputs, **settings, return_dict_in_generate=True, output_scores=True)
    assert tuple(outputs.sequences[0, 1:].tolist())[: len(tokens)] == tokens
    assert outputs.sequences_scores[0].item() == pytest.approx(score, abs=1e-4)


CASES_OF_DECODING = [{"num_beams": 1}, {"num_beams": 4}, {"do_sample": True, "top_p": 0.9}]


@pytest.mark.thorough
@pytest.mark.parametrize("settings", CASES_OF_DECODING, ids=str)
def test_generated_texts_keep_the_word_limits(settings, tiny_tokenizer):
    model, processor = build_with_processor(GDLF, tiny_tokenizer)
    inputs = processor(SENTENCES, return_tensors="pt")
    limits = {"min_new_words": 12, "no_repeat_word_ngram_size": 2}
    settings = {**settings, "max_new_tokens": 60, "logits_processor": [FavourShortTexts(tiny_tokenizer)]}
    free = model.generate(**inputs, **dict.fromkeys(limits, 0), **settings)
    held = model.generate(**inputs, **limits, **settings, tokenizer=processor)
    assert not all(keeps_limits(row, tiny_tokenizer) for row in free)
    assert all(keeps_limits(row, tiny_tokenizer) for row in held)


def test_penalties_that_cannot_work_are_named():
    model = GDLF.model()
    with pytest.raises(ValueError, match=r"`gnmt_length_penalty` is 1000000.0, too large for . tokens"):
        model.generate(**GDLF.inputs(), num_beams=2, max_new_tokens=6, gnmt_length_penalty=1e6)


@pytest.mark.parametrize("arguments", ["first", "named", "none"])
def test_the_source_is_found_wherever_it_is_given(arguments):
    model, input_ids = GDLF_COPY.model(), GDLF_COPY.inputs()["input_ids"]
    # without a mask, padding is told by the source's ids
    expected = model.generate(input_ids=input_ids, attention_mask=(input_ids != 0).long(), max_new_tokens=8)
    if arguments == "first":
        written = model.generate(input_ids, max_new_tokens=8)
    elif arguments == "named":
        written = model.generate(inputs=input_ids, max_new_tokens=8)
    else:
        written = model.generate(None, input_ids=input_ids, max_new_tokens=8)
    assert torch.equal(written, expected)


def test_generations_at_the_same_time_do_not_disturb_each_other(tiny_tokenizer):
    model, processor = build_with_processor(GDLF, tiny_tokenizer)
    inputs = processor(SENTENCES, return_tensors="pt")
    expected = model.generate(**inputs, tokenizer=processor)
    with ThreadPoolExecutor(4) as threads:
        futures = [threads.submit(model.generate, **inputs, tokenizer=processor) for _ in range(8)]
    for future in futures:
        torch.testing.assert_close(future.result(), expected)


class FavourShortTexts(LogitsProcessor):
    """Makes the end, and a few tokens that open words, likelier than an untrained model finds them."""

    def __init__(self, tokenizer):
        # a space alone is no word
        opening = [index for token, index in tokenizer.get_vocab().items() if token.startswith("Ġ") and token != "Ġ"]
        self.favoured = [tokenizer.eos_token_id, *sorted(opening)[:6]]

    def __call__(self, input_ids, scores):
        scores = scores.clone()
        scores[:, self.favoured] += 20.0
        return scores


def keeps_limits(ids, tokenizer):
    special = set(tokenizer.all_special_ids)
    words = byte_level_words(tokenizer.convert_ids_to_tokens([token for token in ids.tolist() if token not in special]))
    bigrams = list(itertools.pairwise(words))
    long_enough = len(words) >= 12 or tokenizer.eos_token_id not in ids
    return long_enough and len(bigrams) == len(set(bigrams))
