"""Shared words of texts, and pages of several systems' summaries."""

import pytest

from hf_summ.inspection.side_by_side import as_html, as_markdown, shared_spans

TEXTS = {"Document": "Rain fell.", "Reference": "Ana won <the> race.", "A": "On Monday Ana won.", "B": "Rain fell."}


CASES_OF_SHARED_FRAGMENTS = [
    ("Ana Lopez won, on Monday.", "On Monday Ana Lopez won.", "en", ["Ana Lopez won, on Monday."]),
    ("The well-known race", "a well run race", "en", ["well-known race"]),
    # a hyphenated word is shaded once, though its two parts are shared one by one
    ("well-known", "known well", "en", ["well-known"]),
    ("Der Fluß stieg", "der fluß fiel", "de", ["Der Fluß"]),
    ("科比今天退役", "科比退役", "zh", ["科比", "退役"]),
    ("Nothing", "else", "en", []),
    ("", "else", "en", []),
]


@pytest.mark.parametrize(("text", "compared", "language", "shared"), CASES_OF_SHARED_FRAGMENTS)
def test_spans_are_those_of_shared_fragments(text, compared, language, shared):
    assert [text[start:end] for start, end in shared_spans(text, compared, language)] == shared


def test_texts_behind_the_shaded_one_are_compared_with_it():
    page = as_markdown({"Row 1": TEXTS}, "Reference")
    assert page == (
        "## Row 1\n\n**Document**\n\nRain fell.\n\n**Reference**\n\nAna won <the> race.\n\n"
        "**A**\n\nOn Monday **Ana won.**\n\n**B**\n\nRain fell.\n"
    )
    assert "**B**\n\n**Rain fell.**" in as_markdown({"Row 1": TEXTS}, "Document")
    assert "**Ana" not in as_markdown({"Row 1": TEXTS}, None)
    # a page escapes texts
    page = as_html({"<1>": TEXTS}, "Reference")
    assert "<h2>&lt;1&gt;</h2>" in page
    assert "Ana won &lt;the&gt; race." in page
    assert "On Monday <mark>Ana won.</mark>" in page
    # the page has a dark scheme, as the other pages have
    assert "@media (prefers-color-scheme: dark)" in page
