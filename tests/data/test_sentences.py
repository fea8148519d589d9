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


@pytest.mark.parametrize("text", ["", " \n\t\n "])
def test_blank_text_has_no_sentences(text):
    assert split_sentences(text) == []
    assert lead(text, 3) == ""


@pytest.mark.parametrize("language", ["de", "zh", "no such language"])
def test_line_ends_part_sentences_in_every_language(language):
    assert split_sentences("eine zeile\nund noch eine", language) == ["eine zeile", "und noch eine"]


def test_control_characters_and_emoji_stay():
    assert split_sentences("A\x00b 🙂 here. Then more.") == ["A\x00b 🙂 here.", "Then more."]


def test_lead_is_the_first_sentences_on_one_line():
    assert lead(TEXT, 1) == "Dr. Lopez went to Washington, D.C. on Monday."
    assert lead(TEXT, 3).endswith("She paid $3.50 for it! A title without a stop")


def test_lead_of_a_short_document_is_the_document():
    assert lead(" One. Two. ", 5) == "One. Two."


def test_lead_finds_each_of_equal_sentences():
    assert lead("No. No. No. Yes.", 2) == "No. No."


def test_lead_puts_no_spaces_where_the_script_has_none():
    assert lead("你好。再见。完了。", 2, language="zh") == "你好。再见。"


def test_lead_of_no_sentences_is_an_error():
    with pytest.raises(ValueError, match="at least 1 sentence, not 0"):
        lead(TEXT, 0)
