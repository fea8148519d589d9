"""The format that an `Accept` header prefers."""

import pytest

from hf_summ.serving.formats import preferred

OFFERED = ("application/json", "text/turtle", "application/ld+json")


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        (None, "application/json"),
        ("", "application/json"),
        ("*/*", "application/json"),
        ("text/turtle", "text/turtle"),
        ("TEXT/Turtle; charset=utf-8", "text/turtle"),
        ("text/*", "text/turtle"),
        ("application/ld+json, */*;q=0.5", "application/ld+json"),
        ("text/turtle;q=0.3, application/ld+json;q=0.7, application/json;q=0.5", "application/ld+json"),
        # the most specific range counts, not the last one
        ("application/*, application/json;q=0.1", "application/ld+json"),
        ("*/*, application/json;q=0, application/ld+json;q=0", "text/turtle"),
        ("text/turtle;q=0.5, text/turtle;q=0.9, application/json;q=0.8", "text/turtle"),
        ("text/turtle;q=1.0;level=1, application/json;q=0.9", "text/turtle"),
        # of what is no range, nothing is taken
        ("text/turtle;q=much, application/json;q=0.1", "application/json"),
        ("text/turtle;q=nan, application/json;q=0.1", "application/json"),
        ("turtle, application/json;q=0.1", "application/json"),
        ("application/json;q=0", None),
        ("image/png, text/html", None),
        ("turtle", None),
    ],
)
def test_preferred(accept, chosen):
    assert preferred(accept, OFFERED) == chosen
