"""The page of an explanation, read as HTML and used in a real browser."""

import dataclasses
import itertools
import re
from html.parser import HTMLParser

import pytest

from hf_summ.inspection import Explanation, SourceWord, SummaryWord, as_page, explain
from tests.conftest import SENTENCES
from tests.models.architectures import HIGHLIGHT_TRANSFORMER, SAGCOPY, build_with_processor

HOSTILE = "</p><script>document.title = 'run'</script> <img src=x onerror=\"document.title='run'\"> & ' \" &lt;b&gt;"


def made_up(text: str = "one two three two", summary: str = "two four", documents: int = 1) -> Explanation:
    """An explanation in which the summary's second word is new, and its others were copied.

    They were copied more from the source's second word than from its fourth.
    """
    source_words = []
    for number in range(documents):
        for place, match in enumerate(re.finditer(r"\S+", text)):
            values = {"copied": 0.1 * (place % 4), "centrality": 0.25}
            source_words.append(SourceWord(number, match.start(), match.end(), match[0], True, values))
    summary_words = []
    for place, match in enumerate(re.finditer(r"\S+", summary)):
        if place == 1:
            copied, origins, is_novel = 0.0, [], True
        else:
            copied, origins, is_novel = 0.9, [(1, 0.85), (3, 0.05)], False
        word = SummaryWord(match.start(), match.end(), match[0], 0.5, 0.75, copied, origins, is_novel)
        summary_words.append(word)
    return Explanation("org/model", "sagcopy", [text] * documents, summary, source_words, summary_words)


class Reader(HTMLParser):
    """Collects a page's elements, and the texts of its title and its paragraphs."""

    def __init__(self, page: str):
        super().__init__()
        self.elements: list[tuple[str, dict]] = []
        self.open: list[str] = []
        self.texts: dict[str, str] = {"p": "", "title": ""}
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag in self.texts:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag in self.open:
            self.open.remove(tag)

    def handle_data(self, data):
        for tag in self.open:
            self.texts[tag] += data


def test_texts_are_escaped():
    page = as_page(made_up(HOSTILE, HOSTILE))
    reader = Reader(page)
    tags = [tag for tag, _ in reader.elements]
    assert tags.count("script") == 1
    assert "img" not in tags
    assert reader.texts["p"].count(HOSTILE) == 2
    for _, attributes in reader.elements:
        for name in attributes:
            assert not name.startswith("on")
    # a page loads nothing
    page = as_page(made_up())
    assert not re.search(r"https?:|\bsrc=|url\(|@import", page)
    policies = [attributes["content"] for _, attributes in Reader(page).elements if "http-equiv" in attributes]
    assert policies[0].startswith("default-src 'none'; ")


@pytest.mark.thorough
def test_1000_words_are_below_200_kb(tiny_tokenizer):
    architecture = dataclasses.replace(SAGCOPY, settings={**SAGCOPY.settings, "max_positions": 5000})
    model, processor = build_with_processor(architecture, tiny_tokenizer)
    processor.max_source_length = 10_000
    words = " ".join(SENTENCES).split()
    document = " ".join(itertools.islice(itertools.cycle(words), 1000))
    explanation = explain(model, processor, document, document[:600])
    assert len([word for word in explanation.source_words if word.is_read]) >= 1000
    assert len(explanation.source_words[0].values) == 4
    assert len(as_page(explanation).encode()) < 200_000


def test_what_was_cut_off_is_shown_and_shortened():
    text = "one two " + "never " * 1000
    words = []
    for place, match in enumerate(re.finditer(r"\S+", text)):
        is_read = place < 2
        values = {"copied": 0.0} if is_read else {}
        words.append(SourceWord(0, match.start(), match.end(), match[0], is_read, values))
    page = as_page(Explanation("m", "drgd", [text], "", words, []))
    texts = Reader(page).texts["p"]
    assert "Not read: the last 1000 words, which exceed the model's maximum length." in texts
    assert 300 < texts.count("never ") < 400
    # nothing of the first document was read
    words = [SourceWord(0, 0, 3, "one", False), SourceWord(1, 0, 3, "two", True, {"copied": 0.0})]
    texts = Reader(as_page(Explanation("m", "drgd", ["one", "two"], "", words, []))).texts["p"]
    assert "Not read: all 1 word, which exceeds" in texts


@pytest.mark.thorough
def test_a_word_of_the_source_points_at_those_it_attends_to(shown):
    explanation = made_up()
    linked = [dataclasses.replace(word, links=[(2, 0.5), (0, 0.05)]) for word in explanation.source_words]
    tab = shown(as_page(dataclasses.replace(explanation, source_words=linked)))
    tab.click("#source b >> nth=1")
    assert tab.inner_text("#caption") == "“two” attends to “… one two three two …” 0.5, “… one two three two …” 0.05."
    assert tab.locator("#source b.origin").all_inner_texts() == ["one", "three"]
    tab.keyboard.press("ArrowRight")
    assert tab.inner_text("#caption").startswith("“three” attends to ")
    tab.click("#summary button >> nth=0")
    assert tab.inner_text("#caption").startswith("“two” has probability")
    assert tab.locator("#source b[aria-pressed=true]").count() == 0


@pytest.mark.thorough
def test_a_word_points_at_where_it_was_copied_from(shown):
    tab = shown(as_page(made_up()))
    assert tab.inner_text("#caption") == "No word of the summary is chosen."
    tab.click("#summary button >> nth=0")
    assert tab.inner_text("#caption") == (
        "“two” has probability 0.5. It was copied with probability 0.9 (gate 0.75), from "
        "“… one two three two …” 0.85, “… one two three two …” 0.05."
    )
    assert tab.locator("#source b.origin").all_inner_texts() == ["two", "two"]
    assert tab.locator("#source b.origin.weak").get_attribute("id") == "word-4"
    tab.click("#caption a >> nth=0")
    assert tab.url.endswith("#word-2")
    # a second click on the word chooses nothing
    tab.click("#summary button >> nth=0")
    assert tab.locator("#source b.origin").count() == 0
    tab.click("#summary button.novel")
    assert tab.inner_text("#caption").endswith(" It does not occur in the source.")


@pytest.mark.thorough
def test_everything_works_from_the_keyboard(shown):
    tab = shown(as_page(made_up(summary="two four six")))
    tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")
    pressed = tab.locator("#summary button[aria-pressed=true]")
    assert pressed.inner_text() == "two"
    for key, word in (("ArrowRight", "four"), ("End", "six"), ("ArrowRight", "six"), ("ArrowLeft", "four")):
        tab.keyboard.press(key)
        assert pressed.inner_text() == word
        assert tab.evaluate("document.activeElement.textContent") == word
    tab.keyboard.press("Escape")
    assert pressed.count() == 0
    # the words are one stop; then the table, and the choice of shades
    tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")
    assert tab.is_visible("#summary-words")
    tab.keyboard.press("Tab")
    tab.keyboard.press("ArrowDown")
    assert tab.is_checked("input[value='2']")
    assert "the word's centrality" in tab.inner_text(".caption-shade:not([hidden])")


@pytest.mark.thorough
def test_shades_are_of_what_was_chosen(shown):
    tab = shown(as_page(made_up()))
    shades = "[...document.querySelectorAll('#source b')].map((word) => Number(word.style.getPropertyValue('--value')))"
    assert tab.evaluate(shades) == pytest.approx([0, 1 / 3, 2 / 3, 1])
    tab.check("text=centrality")
    assert tab.evaluate(shades) == [1, 1, 1, 1]
    # the shades of the summary are of what was copied, whatever the gate
    assert [word.gate for word in made_up().summary_words] == [0.75, 0.75]
    assert tab.evaluate(shades.replace("#source b", "#summary button")) == [0.9, 0.0]


@pytest.mark.thorough
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1200])
def test_it_fits_and_can_be_read(shown, tiny_tokenizer, scheme, width):
    """Nothing is wider than the window, and the darkest shade leaves text a contrast of 4.5 (WCAG 2.2, 1.4.3)."""
    model, processor = build_with_processor(HIGHLIGHT_TRANSFORMER, tiny_tokenizer)
    page = as_page(explain(model, processor, [*SENTENCES[:3], "x" * 300], SENTENCES[0]))
    tab = shown(page, viewport={"width": width, "height": 800}, color_scheme=scheme)
    tab.click("#summary button >> nth=0")
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.locator("h3").count() == 4
    contrast = """() => {
        const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
        const word = [...document.querySelectorAll("#source b")]
            .find((word) => word.style.getPropertyValue("--value") == 1);
        const light = (colors) => {
            colors.forEach((color) => { canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1); });
            const parts = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((part) => part / 255);
            const linear = parts.map((part) => part <= .04045 ? part / 12.92 : ((part + .055) / 1.055) ** 2.4);
            return .2126 * linear[0] + .7152 * linear[1] + .0722 * linear[2];
        };
        const paper = getComputedStyle(document.body).backgroundColor;
        const style = getComputedStyle(word);
        const both = [light([paper, style.backgroundColor]), light([style.color])].sort((a, b) => b - a);
        return (both[0] + .05) / (both[1] + .05);
    }"""
    assert tab.evaluate(contrast) >= 4.5


@pytest.mark.thorough
def test_hostile_texts_do_nothing(shown):
    tab = shown(as_page(made_up(HOSTILE, HOSTILE)))
    for number in range(tab.locator("#summary button").count()):
        tab.click(f"#summary button >> nth={number}")
    assert tab.title() == "Where a summary came from: org/model"
    assert tab.inner_text(".text") == HOSTILE


@pytest.mark.thorough
def test_right_to_left_texts_are_walked_the_other_way(shown):
    tab = shown(as_page(made_up("שלום עולם שלום עולם", "שלום עולם")))
    tab.focus("#summary button >> nth=0")
    tab.keyboard.press("ArrowLeft")
    assert tab.evaluate("document.activeElement.textContent") == "עולם"


@pytest.mark.thorough
def test_a_summary_without_words(shown):
    tab = shown(as_page(made_up(summary="")))
    assert tab.inner_text("#caption") == "No word of the summary is chosen."
