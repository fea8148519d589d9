"""Where sentences end."""

import random
import time

import pytest

from hf_summ.data import lead, split_sentences

TEXT = "Dr. Lopez went to Washington, D.C. on Monday. She paid $3.50 for it!\nA title without a stop\n\nLast one? Yes."


def test_sentences_end_at_stops_and_line_ends_but_not_in_abbreviations():
    assert split_sentences(TEXT) == [
        "Dr. Lopez went to Washington, D.C. on Monday.",
        "She paid $3.50 for it!",
        "A title without a stop",
        "Last one?",
        "Yes.",
    ]


def test_a_quotation_is_in_one_sentence():
    assert split_sentences("“I ran. I fell,” he said. “Then?”") == ["“I ran. I fell,” he said.", "“Then?”"]


CASES_OF_TOKENIZED_TEXTS = [
    ["`` I ran , '' he said .", "`` We fell . ''", "Mr. Smith , 42 , left the U.S. ."],
    # only their number tells whether these marks open or close a quotation, which may have several sentences
    ['" I ran .', 'I fell , " he said .', '" No . "', "They left for St. Ives .", '" Yes . "'],
    ['" i ran .', 'i fell , " he said .', '" no . "', "they left ."],
    # what goes on in lower case, where there are capitals
    ["He asked : `` Why ? '' and left .", '" No ! " she said .', "It went . . . on .", "Then . . .", "Yes . '"],
    ["sales rose ! !", "( they fell . )", "why ?"],
]


@pytest.mark.parametrize("sentences", CASES_OF_TOKENIZED_TEXTS)
def test_a_stop_by_itself_ends_a_sentence_of_tokenized_text(sentences):
    assert split_sentences(" ".join(sentences)) == sentences


@pytest.mark.thorough
@pytest.mark.parametrize(
    "text", [". " * 100_000, " " * 100_000 + ".", ' . " ' * 50_000 + "a", " .  '' " * 50_000 + "!"]
)
def test_stops_without_sentences_take_no_longer(text):
    assert "".join(split_sentences(text)).count(".") == text.count(".")


@pytest.mark.thorough
@pytest.mark.parametrize("marks", ['"(', "“‘", "(.) ", "… ", "«!» ", "{", "<.", "{.} ", "《‹"])
def test_marks_are_read_in_linear_time(marks):
    began = time.process_time()
    split_sentences(marks * (500_000 // len(marks)))
    assert time.process_time() - began < 10


@pytest.mark.parametrize("text", ["", " \n\t\n "])
def test_blank_text_has_no_sentences(text):
    assert split_sentences(text) == []
    assert lead(text, 3) == ""


@pytest.mark.parametrize("language", ["de", "zh", "ace"])
def test_line_ends_part_sentences_in_every_language(language):
    assert split_sentences("eine zeile\nund noch eine", language) == ["eine zeile", "und noch eine"]


def test_control_characters_and_emoji_stay():
    assert split_sentences("A\x00b 🙂 here. Then more.") == ["A\x00b 🙂 here.", "Then more."]


@pytest.mark.thorough
def test_sentences_are_parts_of_any_text_and_hold_all_of_it():
    rng = random.Random(0)
    pieces = ["A", "b", "Mr.", "n't", ".", "!", "…", "。", '"', "“", "'", "(", " ", "  ", "\t", "\n", "\x85", "\0"]
    # spaces of more than a byte, a lone surrogate, a letter with a mark of its own
    pieces += ["\u00a0", "\u2028", "\u3000", "\ud800", "e\u0301", "🙂"]
    for _ in range(2000):
        text = "".join(rng.choices(pieces, k=rng.randint(0, 25)))
        end = 0
        for sentence in split_sentences(text):
            assert sentence == sentence.strip() != ""
            start = text.index(sentence, end)
            assert not text[end:start].strip()
            end = start + len(sentence)
        assert not text[end:].strip()


def test_a_wide_space_and_a_lone_surrogate_are_kept():
    text = "Vitamin\u00a0B\u00a0. She wrote \ud83d. It went."
    assert split_sentences(text)[-2:] == ["She wrote \ud83d.", "It went."]
    assert lead(text, 1).startswith("Vitamin B .")


def test_a_region_does_not_change_the_rules():
    # a German abbreviation and ordinal
    text = "Am 3. Mai kam z. B. Frau Huber. Sie blieb."
    assert split_sentences(text, "de_AT") == split_sentences(text, "de") != split_sentences(text, "en")


def test_an_unknown_language_is_an_error():
    with pytest.raises(ValueError, match="`language` is 'Klingon', but must be an ISO 639 code, such as en"):
        split_sentences("One. Two.", "Klingon")


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


# sentencex's time grows with the cube of the number of the first marks, and with the square of that of the others
@pytest.mark.parametrize("unit", ['"《', "'", "“", "‹", "`", "！…", "।•", "•!:"])
def test_time_grows_with_the_length_of_a_line(unit):
    began = time.process_time()
    split_sentences(unit * 12_000)
    assert time.process_time() - began < 2


@pytest.mark.parametrize("sentence", ["He said so. ", "“It is late,” he said. ", "It ran (so they say). ", "Is 'it'? "])
def test_a_long_line_has_the_sentences_of_short_ones(sentence):
    # many windows, which begin within a sentence each
    assert split_sentences(sentence * 3_000) == [sentence.strip()] * 3_000
    # a sentence that is longer than a window is not cut
    longest = "word, " * 10_000 + "end."
    assert split_sentences(f"{sentence}{longest} {sentence}") == [sentence.strip(), longest, sentence.strip()]


def test_a_window_ends_no_pair():
    # the pair at the end of a window has its second mark in the next one
    quotation = '"It is late. It is dark," he said.'
    for words in range(1_640, 1_680):
        begin = "early " * (words - 1) + "early."
        assert split_sentences(f"{begin} {quotation} {begin} {quotation}") == [begin, quotation] * 2
