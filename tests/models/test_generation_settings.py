"""Settings of `generate()` together."""

import pytest
from transformers import GenerationConfig

from tests.conftest import SENTENCES
from tests.models.architectures import GDLF, build_with_processor


@pytest.mark.parametrize("sampling", [False, True])
def test_end_that_is_forced_comes_before_the_least_words(tiny_tokenizer, sampling):
    model, processor = build_with_processor(GDLF, tiny_tokenizer, tags="none")
    model.config.tags = "none"
    inputs = processor(SENTENCES[0], return_tensors="pt")
    settings = {"min_new_words": 50, "max_new_tokens": 4, "forced_eos_token_id": 2, "do_sample": sampling}
    ids = model.generate(**inputs, tokenizer=processor, **settings)
    assert ids[0, -1] == 2


def test_without_an_end_words_are_still_counted(tiny_tokenizer):
    model, processor = build_with_processor(GDLF, tiny_tokenizer, tags="none")
    inputs = processor(SENTENCES[0], return_tensors="pt")
    config = GenerationConfig(**{**model.generation_config.to_dict(), "eos_token_id": None, "min_new_words": 2})
    assert model.generate(**inputs, tokenizer=processor, generation_config=config).shape[1] > 2
