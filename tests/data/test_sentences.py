"""Where sentences end, by either splitter."""

import random
import sys
import time

import pytest

from hf_summ.data import lead, split_sentences
from hf_summ.data.sentences import SPLITTERS
from hf_summ.data.sentences.splitting import _sentencizer

TEXT = "Dr. Lopez went to Washington, D.C. on Monday. She paid $3.50 for it!\nA title without a stop\n\nLast one? Yes."


@pytest.mark.parametrize("splitter", SPLITTERS)
def test_sentences_end_at_stops_and_line_ends_but_not_in_abbreviations(splitter):
    assert split_sentences(TEXT, splitter=splitter) == [
        "Dr. Lopez went to Washington, D.C. on Monday.",
        "She paid $3.50 for it!",
        "A title without a stop",
        "Last one?",
        "Yes.",
    ]


def test_spacy_ends_sentences_between_quotation_marks_and_sentencex_does_not():
    text = "“I ran. I fell,” he said. “Then?”"
    assert split_sentences(text, splitter="sentencex") == ["“I ran. I fell,” he said.", "“Then?”"]
    assert split_sentences(text, splitter="spacy") == ["“I ran.", "I fell,” he said.", "“Then?”"]


@pytest.mark.parametrize(
    "sentences",
    [
        ["He came.", '"I saw it."', "'So?'", "(He had.)", "“Yes.”", '["No."]'],
        # a mark that opens nothing stays where it is, as does one that closes
        ['Is it? "'],
        ["He came . '", "Then he left ."],
    ],
)
def test_what_opens_a_quotation_belongs_to_it(sentences):
    assert split_sentences(" ".join(sentences), splitter="spacy") == sentences


@pytest.mark.parametrize(
    "sentences",
    [
        ["`` I ran , '' he said .", "`` We fell . ''", "Mr. Smith , 42 , left the U.S. ."],
        # only their number tells whether these marks open or close a quotation, which may have several sentences
        ['" I ran .', 'I fell , " he said .', '" No . "', "They left for St. Ives .", '" Yes . "'],
        ['" i ran .', 'i fell , " he said .', '" no . "', "they left ."],
        # what goes on in lower case, where there are capitals
        ["He asked : `` Why ? '' and left .", '" No ! " she said .', "It went . . . on .", "Then . . .", "Yes . '"],
        ["sales rose ! !", "( they fell . )", "why ?"],
    ],
)
def test_a_stop_by_itself_ends_a_sentence_of_tokenized_text(sentences):
    assert split_sentences(" ".join(sentences)) == sentences


@pytest.mark.thorough
@pytest.mark.parametrize(
    "text", [". " * 100_000, " " * 100_000 + ".", ' . " ' * 50_000 + "a", " .  '' " * 50_000 + "!"]
)
def test_stops_without_sentences_take_no_longer(text):
    assert "".join(split_sentences(text)).count(".") == text.count(".")


@pytest.mark.thorough
@pytest.mark.parametrize("marks", ['"(', "“‘", "(.) ", "… ", "«!» "])
def test_marks_are_read_in_linear_time(marks):
    began = time.process_time()
    split_sentences(marks * (500_000 // len(marks)))
    assert time.process_time() - began < 10


@pytest.mark.parametrize("text", ["", " \n\t\n "])
@pytest.mark.parametrize("splitter", SPLITTERS)
def test_blank_text_has_no_sentences(text, splitter):
    assert split_sentences(text, splitter=splitter) == []
    assert lead(text, 3) == ""


@pytest.mark.parametrize("language", ["de", "zh", "ace"])
def test_line_ends_part_sentences_in_every_language(language):
    assert split_sentences("eine zeile\nund noch eine", language) == ["eine zeile", "und noch eine"]


def test_control_characters_and_emoji_stay():
    assert split_sentences("A\x00b 🙂 here. Then more.") == ["A\x00b 🙂 here.", "Then more."]


@pytest.mark.thorough
@pytest.mark.parametrize("splitter", SPLITTERS)
def test_sentences_are_parts_of_any_text_and_hold_all_of_it(splitter):
    rng = random.Random(0)
    pieces = ["A", "b", "Mr.", "n't", ".", "!", "…", "。", '"', "“", "'", "(", " ", "  ", "\t", "\n", "\x85", "\0"]
    # spaces of more than a byte, a lone surrogate, a letter with a mark of its own
    pieces += ["\u00a0", "\u2028", "\u3000", "\ud800", "e\u0301", "🙂"]
    for _ in range(2000):
        text = "".join(rng.choices(pieces, k=rng.randint(0, 25)))
        end = 0
        for sentence in split_sentences(text, splitter=splitter):
            assert sentence == sentence.strip() != ""
            start = text.index(sentence, end)
            assert not text[end:start].strip()
            end = start + len(sentence)
        assert not text[end:].strip()


@pytest.mark.parametrize("splitter", SPLITTERS)
def test_a_wide_space_and_a_lone_surrogate_are_kept(splitter):
    text = "Vitamin\u00a0B\u00a0. She wrote \ud83d. It went."
    assert split_sentences(text, splitter=splitter)[-2:] == ["She wrote \ud83d.", "It went."]
    assert lead(text, 1, splitter=splitter).startswith("Vitamin B .")


def test_a_line_longer_than_spacys_models_read_is_split():
    assert len(split_sentences("This is one. " * 100_000, splitter="spacy")) == 100_000


def test_a_region_does_not_change_the_rules():
    # a German abbreviation and ordinal
    text = "Am 3. Mai kam z. B. Frau Huber. Sie blieb."
    assert split_sentences(text, "de_AT") == split_sentences(text, "de") != split_sentences(text, "en")


@pytest.mark.parametrize(
    ("language", "splitter", "message"),
    [
        ("Klingon", "sentencex", "`language` is 'Klingon', but must be an ISO 639 code, such as en"),
        ("en", "nltk", "`splitter` is 'nltk', but must be one of sentencex, spacy"),
        ("de", "spacy", "`splitter` is 'spacy', which is for English, not for 'de': set it to 'sentencex'"),
    ],
)
def test_unknown_splitters_and_languages_are_an_error(language, splitter, message):
    with pytest.raises(ValueError, match=message):
        split_sentences("One. Two.", language, splitter)


def test_missing_spacy_names_the_extra(monkeypatch):
    _sentencizer.cache_clear()
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(ImportError, match=r"pip install 'hf-summ\[extractive\]'"):
        split_sentences("One. Two.", splitter="spacy")


def test_lead_by_hand():
    # lead is the first sentences on one line
    assert lead(TEXT, 1) == "Dr. Lopez went to Washington, D.C. on Monday."
    assert lead(TEXT, 3).endswith("She paid $3.50 for it! A title without a stop")
    # lead of a short document is the document
    assert lead(" One. Two. ", 5) == "One. Two."
    # lead finds each of equal sentences
    assert lead("No. No. No. Yes.", 2) == "No. No."
    # lead puts no spaces where the script has none
    assert lead("你好。再见。完了。", 2, language="zh") == "你好。再见。"
    # lead of no sentences is an error
    with pytest.raises(ValueError, match="`sentences` is 0, but must be at least 1"):
        lead(TEXT, 0)


@pytest.mark.thorough
def test_long_words_are_read_quickly_and_whole():
    text = f"One ended. Two is {'(' * 100_000} three. Four {'x.' * 1000} Five."
    began = time.process_time()
    sentences = split_sentences(text, splitter="spacy")
    assert time.process_time() - began < 10
    assert sentences == ["One ended.", f"Two is {'(' * 100_000} three.", f"Four {'x.' * 1000}", "Five."]
