"""Sentences, words, tags and washed texts."""

import random
from pathlib import Path

from hf_summ.data import lead, split_sentences
from hf_summ.evaluation.text_files import tag_pattern, without_tags
from hf_summ.evaluation.words import check_units, split_words, split_words_and_marks
from hf_summ.models.text_documents import readable
from hf_summ.models.text_washing import washed
from tests.torture import values
from tests.torture.cases import Case
from tests.torture.checks import texts_problem, without_space
from tests.torture.workshop import Workshop

LANGUAGES = ("en", "EN-gb", "de", "zh", "ja", "hi", "th", "ar", "tr", "fi", "xx", "yue", "en_US")
_NO_LANGUAGES = ("English", "", "e", "中文", "en us", "1", "abcd", "en\nus", "x" * 3000)


def language(draw: random.Random) -> str:
    """A language code, or an invalid one."""
    return draw.choice(LANGUAGES) if draw.random() < 0.9 else draw.choice(_NO_LANGUAGES)


def make(draw: random.Random, shop: Workshop, folder: Path) -> Case:
    """A text, and one way of splitting or washing it."""
    text, code = values.text(draw), language(draw)
    what = draw.randrange(5)
    if what < 4 and draw.random() < 0.04:
        text = values.not_text(draw)
    told = f"{text!r:.300} in {code}"
    match what:
        case 0 | 1:
            splitter = values.word(draw, "sentencex", "sentencex", "spacy", "spaces")

            def parts_problem(sentences: list[str]) -> str | None:
                whole = without_space("".join(sentences))
                if whole != without_space(text):
                    return f"sentences lose or add something: {sentences!r:.200}"
                if any(not sentence.strip() or sentence != sentence.strip() for sentence in sentences):
                    return f"a blank or padded sentence among {sentences!r:.200}"
                # each sentence occurs in the text, in order
                end = 0
                for sentence in sentences:
                    end = text.index(sentence, end) + len(sentence)
                return None

            return Case(
                f"split_sentences {told} by {splitter}", lambda: split_sentences(text, code, splitter), parts_problem
            )
        case 2:
            number = draw.choice((1, 2, 3, 100, 0, -1))

            def lead_problem(summary: str) -> str | None:
                kept, whole = without_space(summary), without_space(text)
                return None if whole.startswith(kept) and (kept or not whole) else f"LEAD is {summary!r:.100}"

            return Case(f"lead {number} {told}", lambda: lead(text, number, code), lead_problem)
        case 3:
            units = values.word(draw, "words", "characters", "lcsts", "spaced", "syllables")
            marks = draw.random() < 0.3

            def split():
                check_units(units, code)
                return split_words_and_marks(text, code) if marks else split_words(text, code, units)

            def words_problem(words: list[str]) -> str | None:
                blank = next((word for word in words if not word.strip()), None)
                return None if blank is None else f"a blank word {blank!r}"

            return Case(f"split_words {units} {told}", split, words_problem)
    separator = draw.choice((None, None, "|||", "<q>", " ", "", ".*", "\n", "("))

    def wash() -> list[str]:
        found = without_tags(text, tag_pattern(separator))
        return [readable(found), washed(readable(text), "lcsts")]

    def readable_problem(found: list[str]) -> str | None:
        for part in found:
            part.encode("utf-8")
        return texts_problem(found, 2)

    return Case(f"tags {separator!r} and washing of {told}", wash, readable_problem)
