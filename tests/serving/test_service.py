"""The cost of requests, estimated and bounded, and the settings that exclude each other."""

from math import ceil

import pytest

from hf_summ.serving import Limits
from hf_summ.serving.service import check_cost, check_defaults
from tests.conftest import SENTENCES

LONG = " ".join(SENTENCES) * 50
# a tiny GDLF reads so many tokens, and the fixture's writes 6, by the pipeline's 4 beams
READ, WRITTEN, BEAMS = 48, 6, 4


def work(summarizer, document=LONG, limits=None, **settings) -> int:
    return check_cost(document, settings, summarizer, limits or Limits())


def test_work_is_the_product_of_what_is_decoded(summarizer):
    assert work(summarizer) == BEAMS * WRITTEN * (READ + WRITTEN)
    assert work(summarizer, num_beams=3, max_new_tokens=20) == 3 * 20 * (READ + 20)
    # the first token is not written
    assert work(summarizer, max_length=20) == BEAMS * 19 * (READ + 19)
    assert work(summarizer, "", num_beams=2) == 2 * WRITTEN * WRITTEN
    # of windows, the tokens of a few parts are counted
    tokens = len(summarizer.tokenizer(LONG)["input_ids"])
    expected = ceil(tokens / READ) * BEAMS * WRITTEN * (READ + WRITTEN)
    assert work(summarizer, long_documents="windows") == pytest.approx(expected, rel=0.03)
    assert work(summarizer, "", long_documents="windows") == BEAMS * WRITTEN * WRITTEN


def test_too_much_work_is_refused_with_what_to_lower(summarizer):
    with pytest.raises(ValueError, match="lower") as refusal:
        work(summarizer, "word " * 20_000, long_documents="windows", num_beams=16, max_new_tokens=1024)
    assert str(refusal.value).startswith("the request is about ")
    assert (
        "windows × 16 beams × 1024 new tokens × 1072 tokens attended to by each, but the service takes at most 1e+07: "
        in (str(refusal.value))
    )
    assert str(refusal.value).endswith(
        "lower `num_beams` or `max_new_tokens`, set `long_documents` to extract, or shorten the document"
    )
    with pytest.raises(ValueError, match="lower `num_beams` or `max_new_tokens`, or shorten the document"):
        work(summarizer, limits=Limits(limit_work=10))


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"limit_num_beams": BEAMS - 1}, "--limit_num_beams 3: `num_beams` is 4 by default: raise the limit, or lower"),
        ({"limit_new_tokens": WRITTEN - 1}, "--limit_new_tokens 5: `max_new_tokens` is 6 by default: raise the limit"),
    ],
)
def test_defaults_have_the_limits_of_requests(summarizer, limits, message):
    check_defaults(summarizer, Limits(**{name: most + 1 for name, most in limits.items()}))
    with pytest.raises(ValueError, match=message):
        check_defaults(summarizer, Limits(**limits))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"min_new_tokens": 7}, "`min_new_tokens` is 7, but `max_new_tokens` is 6: set the former lower"),
        ({"min_new_words": 5, "max_new_tokens": 4}, "`min_new_words` is 5, but `max_new_tokens` is 4: set"),
        ({"min_length": 9, "max_length": 8}, "`min_length` is 9, but `max_length` is 8: set"),
        ({"min_new_tokens": 8, "max_length": 8}, "`min_new_tokens` is 8, but `max_length` is 8: set"),
    ],
)
def test_settings_that_exclude_each_other_are_named(summarizer, settings, message):
    with pytest.raises(ValueError, match=message):
        work(summarizer, **settings)
    reachable = {name: value - 1 if name.startswith("min") else value for name, value in settings.items()}
    assert work(summarizer, **reachable) > 0
