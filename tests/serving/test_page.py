"""The page in a real browser: by keyboard, on a narrow screen, with hostile texts."""

import httpx
import pytest

from tests.conftest import SENTENCES
from tests.serving.conftest import served

HOSTILE = "<img src=x onerror=\"document.title='run'\"> & 🌉 <b>bold</b>"


@pytest.fixture
def opened(browser, address):
    """Opens the page, and checks at the end that it had no errors and sent requests to the service alone."""
    problems, urls, contexts = [], [], []

    def open_page(**settings):
        context = browser.new_context(**settings)
        contexts.append(context)
        tab = context.new_page()
        tab.on("console", lambda message: problems.append(message.text))
        tab.on("pageerror", lambda error: problems.append(str(error)))
        tab.on("request", lambda request: urls.append(request.url))
        tab.goto(address)
        # Chromium complains if a test is faster than the first rendering, which focuses the text
        tab.wait_for_selector("#document:focus")
        return tab

    yield open_page
    for context in contexts:
        context.close()
    # the browser writes a line about each answer that is an error
    assert [problem for problem in problems if "status of 4" not in problem] == []
    for url in urls:
        assert url.startswith((address, "data:"))


def test_the_policy_is_strict(address):
    response = httpx.get(address)
    policy = response.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert "<script>" not in response.text
    assert "style=" not in response.text


@pytest.mark.thorough
def test_by_keyboard(opened, address, summarizer):
    tab = opened()
    # the text has the focus
    tab.keyboard.type(SENTENCES[0])
    tab.keyboard.press("Tab")
    tab.keyboard.press("Tab")
    tab.keyboard.type("2")
    tab.keyboard.press("Tab")
    tab.keyboard.type("3")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#result:not([hidden])")
    expected = summarizer(SENTENCES[0], num_beams=2, max_new_tokens=3)[0]["summary_text"]
    assert tab.text_content("#summary") == expected
    assert tab.text_content("#status") == "Done."
    assert tab.evaluate("document.activeElement.id") == "of-summary"
    tab.focus("#document")
    with tab.expect_response(f"{address}/") as answer:
        tab.keyboard.press("Control+Enter")
    assert answer.value.status == 200


@pytest.mark.thorough
def test_errors_are_told(opened):
    tab = opened()
    tab.fill("#document", " ".join(SENTENCES * 40))
    tab.click("#submit")
    tab.wait_for_selector("#status.wrong")
    message = tab.text_content("#status")
    assert message == "There is no summary: the body has more than 10000 characters: shorten it."
    assert tab.is_hidden("#result")


@pytest.mark.thorough
def test_sentences_that_were_read_are_marked(opened, summarizer):
    text = " ".join(SENTENCES)
    tab = opened()
    tab.fill("#document", text)
    tab.check("input[value=extract]")
    tab.click("#submit")
    tab.wait_for_selector("#result:not([hidden])")
    (record,) = summarizer(text, long_documents="extract", return_details=True)
    assert tab.text_content("#summary") == record["summary_text"]
    sentences = [text[start:end] for start, end in record["details"]["read"]]
    assert tab.locator("#read mark").all_text_contents() == sentences


@pytest.mark.thorough
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_was_read_is_marked_on_a_narrow_screen(opened, scheme):
    tab = opened(viewport={"width": 400, "height": 800}, color_scheme=scheme)
    text = f"{HOSTILE} " + "long" * 200
    start = HOSTILE.index("<b>")
    details = {"source_tokens": 50, "read_tokens": 20, "cut_tokens": 30, "read": [[0, 3], [start, start + 3]]}
    tab.evaluate("([source, result]) => show(source, result)", [text, {"summary_text": HOSTILE, "details": details}])
    assert tab.locator("#read mark").all_text_contents() == [text[:3], "<b>"]
    assert tab.text_content("#read") == text
    assert tab.text_content("#summary") == HOSTILE
    assert tab.text_content("#caption") == "The model read 20 of 50 tokens, marked below."
    assert tab.locator("#result img").count() == 0
    assert tab.evaluate("document.documentElement.scrollWidth") <= 400
    colors = tab.evaluate("[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]")
    if scheme == "light":
        assert colors == ["rgb(255, 255, 255)", "rgb(27, 27, 27)"]
    else:
        assert colors == ["rgb(22, 22, 22)", "rgb(241, 241, 241)"]


@pytest.mark.thorough
def test_a_key_is_asked_for_until_it_is_right(browser, summarizer, tmp_path):
    (tmp_path / "key").write_text("a key")
    keys = iter(("wrong", "a key"))
    with served(lambda: summarizer, api_key_file=str(tmp_path / "key")) as running:
        tab = browser.new_page()
        tab.on("dialog", lambda dialog: dialog.accept(next(keys)))
        tab.goto(running.address)
        for _ in range(2):
            tab.fill("#document", SENTENCES[0])
            tab.click("#submit")
            tab.wait_for_selector("#result:not([hidden])")
            assert tab.text_content("#summary") == summarizer(SENTENCES[0])[0]["summary_text"]
        assert list(keys) == []
        tab.close()
