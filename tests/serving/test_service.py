"""The limit on beams and new tokens, for requests and for the checkpoint's defaults."""

import pytest

from hf_summ.serving import Limits, Service
from tests.serving.conftest import DOCUMENT

# the defaults of the fixture's pipeline
BEAMS, NEW_TOKENS = 4, 6


CASES_OF_PRODUCTS = [
    ({}, "4 beams × 6 new tokens are 24"),
    ({"num_beams": 3, "max_new_tokens": 20}, "3 beams × 20 new tokens are 60"),
    # the first token is not written
    ({"max_length": 20}, "4 beams × 19 new tokens are 76"),
]


@pytest.mark.parametrize(("settings", "product"), CASES_OF_PRODUCTS)
def test_beams_times_new_tokens_are_limited(summarizer, settings, product):
    number = int(product.rpartition(" ")[2])
    service = Service(lambda: summarizer, Limits(limit_beam_tokens=max(number, BEAMS * NEW_TOKENS))).start()
    (future,) = service.submit([DOCUMENT], settings)
    assert future.result(60)["summary_text"] == summarizer(DOCUMENT, **settings)[0]["summary_text"]
    service.stop()
    # a limit below the default, which `start` would refuse
    service.limits = Limits(limit_beam_tokens=number - 1)
    with pytest.raises(ValueError, match="lower `num_beams` or `max_new_tokens`") as refusal:
        service.submit([DOCUMENT], settings)
    assert str(refusal.value).startswith(f"{product}, but the service allows at most {number - 1}: ")


def test_defaults_have_the_limit_of_requests(summarizer):
    message = "--limit_beam_tokens 23: the default is 4 beams × 6 new tokens: raise the limit, or lower --num_beams or"
    with pytest.raises(ValueError, match=message):
        Service(lambda: summarizer, Limits(limit_beam_tokens=BEAMS * NEW_TOKENS - 1)).start()
