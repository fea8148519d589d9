"""The page of a sheet, read as HTML and voted on in a real browser."""

import json
import re

import pytest

from hf_summ.votes import Item, Sheet, as_page, read_votes, vote_report
from tests.votes.made_up import made_sheets

HOSTILE = (
    "</p></div><script>document.title = 'run'</script> <img src=x onerror=\"document.title='run'\"> & ' \" &lt;b&gt;"
)

# The function puts another value in place of what the page keeps.
WRITE = """async (value) => {
    const writing = (await database).transaction("sheets", "readwrite");
    writing.objectStore("sheets").put(value, sheet);
    await finished(writing);
}"""


@pytest.fixture
def sheet():
    sheets, _ = made_sheets()
    return sheets[0]


def choose(tab, aspect: str, label: str) -> None:
    tab.check(f".item:not([hidden]) fieldset[data-aspect={aspect}] label:text-is('{label}') input")


def again(tab):
    """The page in another tab of the same browser, once it shows what is kept."""
    second_tab = tab.context.new_page()
    second_tab.goto(tab.url)
    second_tab.wait_for_selector("section:not([hidden])")
    return second_tab


def where(tab) -> str:
    return tab.inner_text("section:not([hidden]) h2")


def download(tab, folder):
    with tab.expect_download() as started:
        tab.click("#download")
    path = folder / started.value.suggested_filename
    started.value.save_as(path)
    return path


def test_votes_are_downloaded_and_collected(shown, tmp_path):
    sheets, key = made_sheets()
    tab = shown(as_page(sheets[1]))
    for number, item in enumerate(sheets[1].items):
        assert where(tab) == f"{number + 1} of 4"
        assert tab.locator(".item:not([hidden]) .columns .text").all_inner_texts() == list(item.summaries)
        if item.summaries[0].endswith("2."):
            choose(tab, "relevance", "Summary B")
        else:
            choose(tab, "relevance", "Summary A")
        choose(tab, "fluency", "Tie")
        tab.click("#next")
    assert tab.inner_text("#caption") == "All questions are answered. Thank you!"
    path = download(tab, tmp_path)
    assert path.name == "votes-voter-2.json"
    assert path.read_text(encoding="utf-8") == tab.input_value("#votes")
    votes = read_votes([path], key)
    assert "voter-2" not in votes.missing()
    figures = vote_report(votes, 50)["pairs"][0]["aspects"]
    assert (figures["relevance"]["wins"], figures["fluency"]["ties"]) == (4, 4)


@pytest.mark.thorough
def test_nothing_is_lost_when_the_page_is_closed(shown, tmp_path, sheet):
    tab = shown(as_page(sheet))
    choose(tab, "fluency", "Summary B")
    tab.click("#next")
    choose(tab, "relevance", "Tie")
    tab = again(tab)
    assert where(tab) == "2 of 4"
    assert tab.inner_text("#progress") == "0 of 4 done"
    assert tab.is_checked(f"input[name='{sheet.items[1].id} relevance'][value=tie]")
    tab.click("#previous")
    assert tab.is_checked(f"input[name='{sheet.items[0].id} fluency'][value=B]")
    choose(tab, "relevance", "Summary A")
    tab.click("#open")
    assert where(tab) == "2 of 4"
    for _ in range(3):
        tab.click("#next")
    assert tab.inner_text("#caption").startswith("3 of 4 are unanswered. ")
    rows = json.loads(download(tab, tmp_path).read_text(encoding="utf-8"))
    assert rows[0] == {"sheet": sheet.id, "item": sheet.items[0].id, "relevance": "A", "fluency": "B"}
    assert rows[1] == {"sheet": sheet.id, "item": sheet.items[1].id, "relevance": "tie", "fluency": None}
    tab.reload()
    assert where(tab) == "Your votes"


@pytest.mark.thorough
def test_two_tabs_do_not_forget_each_other(shown, sheet):
    tab = shown(as_page(sheet))
    second_tab = again(tab)
    choose(tab, "fluency", "Summary B")
    second_tab.wait_for_selector(f"input[name='{sheet.items[0].id} fluency'][value=B]:checked")
    choose(second_tab, "relevance", "Summary A")
    tab.wait_for_selector(f"input[name='{sheet.items[0].id} relevance'][value=A]:checked")
    assert tab.inner_text("#progress") == "1 of 4 done"


@pytest.mark.thorough
def test_another_sheet_has_votes_of_its_own(shown, tmp_path):
    sheets, _ = made_sheets()
    tab = shown(as_page(sheets[0]))
    choose(tab, "fluency", "Summary B")
    (tmp_path / "page.html").write_text(as_page(sheets[1]), encoding="utf-8")
    assert again(tab).locator("input:checked").count() == 0
    (tmp_path / "page.html").write_text(as_page(sheets[0]), encoding="utf-8")
    assert again(tab).locator("input:checked").count() == 1


# what the browser keeps, and where the page opens
CASES_OF_BROKEN_STATES = [
    (None, "1 of 4"),
    ([], "1 of 4"),
    ({"place": "x", "votes": [None]}, "1 of 4"),
    ({"place": 1e9, "votes": []}, "Your votes"),
]


@pytest.mark.thorough
def test_what_is_kept_wrongly_does_no_harm(shown, sheet):
    tab = shown(as_page(sheet))
    for state, expected in CASES_OF_BROKEN_STATES:
        tab.evaluate(WRITE, state)
        tab.reload()
        assert where(tab) == expected
        assert tab.inner_text("#progress") == "0 of 4 done"


@pytest.mark.thorough
@pytest.mark.parametrize("refusing", ["IDBObjectStore.prototype.put", "IDBFactory.prototype.open"])
def test_a_browser_that_keeps_nothing_says_so(shown, sheet, refusing):
    tab = shown(as_page(sheet))
    tab.add_init_script(f"{refusing} = () => {{ throw new Error('full'); }};")
    tab.reload()
    assert where(tab) == "1 of 4"
    assert tab.inner_text("#kept").startswith("This browser cannot save votes: do not close the page before")
    choose(tab, "fluency", "Tie")
    choose(tab, "relevance", "Tie")
    assert tab.inner_text("#progress") == "1 of 4 done"


@pytest.mark.thorough
def test_everything_works_from_the_keyboard(shown, sheet):
    tab = shown(as_page(sheet))
    assert where(tab) == "1 of 4"
    keys = ["Tab", "Tab", "Space", "Tab", "Space", "ArrowRight", "ArrowRight", "Tab", "Enter"]
    for key in keys:
        tab.keyboard.press(key)
    # The keys reach the document, where the arrows scroll, then the first aspect, the second, and the next item.
    assert where(tab) == "2 of 4"
    assert tab.evaluate("document.activeElement.textContent") == "2 of 4"
    row = json.loads(tab.input_value("#votes"))[0]
    assert (row["relevance"], row["fluency"]) == ("A", "tie")
    for key in ["Tab", "Tab", "ArrowRight", "Tab", "Space", "Tab", "Enter"]:
        tab.keyboard.press(key)
    # The first of the buttons leads back.
    assert where(tab) == "1 of 4"
    row = json.loads(tab.input_value("#votes"))[1]
    assert (row["relevance"], row["fluency"]) == ("B", "A")


@pytest.mark.thorough
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1200])
def test_it_fits_and_can_be_read(shown, scheme, width):
    item = Item("i1", "word " * 2000, "x" * 300, ("y" * 300, "<b>bold</b>"))
    aspects = {"informativeness and " * 9: "z" * 200, "fluency": "Which?"}
    page = as_page(Sheet("voter-1", aspects, [item]))
    tab = shown(page, viewport={"width": width, "height": 800}, color_scheme=scheme)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    columns = tab.locator(".columns > div")
    first_box, second_box = columns.nth(0).bounding_box(), columns.nth(1).bounding_box()
    # Only a wide page has the summaries side by side.
    assert (first_box["y"] == second_box["y"]) == (width == 1200)
    # A long document scrolls in a separate box, so that summaries and questions stay near.
    assert tab.locator("[role=region]").bounding_box()["height"] < 400
    colors = "(name) => getComputedStyle(document.querySelector('h2'))[name]"
    text_colors = {"light": "rgb(27, 27, 27)", "dark": "rgb(241, 241, 241)"}
    assert tab.evaluate(colors, "color") == text_colors[scheme]
    tab.click("#next")
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.thorough
def test_hostile_texts_do_nothing(shown):
    item = Item("i1", HOSTILE, "half \ud800", (HOSTILE, " "))
    page = as_page(Sheet("voter-1", {"fluency": HOSTILE}, [item]))
    assert page.count("<script>") == 1
    assert "<img" not in page
    tab = shown(page)
    assert tab.title() == "Which summary is better?"
    assert where(tab) == "1 of 1"
    assert tab.locator(".item .text").all_inner_texts() == [HOSTILE, "half \ufffd", HOSTILE, "(blank)"]
    assert tab.inner_text("fieldset p") == HOSTILE


@pytest.mark.thorough
def test_a_page_stands_alone(sheet):
    page = as_page(sheet)
    assert not re.search(r"https?:|\bsrc=|url\(|@import", page)
    assert "content=\"default-src 'none'; style-src 'sha256-" in page


@pytest.mark.thorough
def test_right_to_left_texts_begin_at_the_right(shown):
    item = Item("i1", "שלום", None, ("שלום", "word"))
    tab = shown(as_page(Sheet("voter-1", {"fluency": "?"}, [item])))
    directions = "[...document.querySelectorAll('.item .text')].map((text) => getComputedStyle(text).direction)"
    assert tab.evaluate(directions) == ["rtl", "rtl", "ltr"]
