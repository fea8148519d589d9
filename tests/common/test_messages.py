"""Forms of messages to users; the progress bar appears only if steps take long, and disappears at the end."""

import io

import pytest
from huggingface_hub.utils import disable_progress_bars, enable_progress_bars

from hf_summ.common import messages
from hf_summ.common.messages import check_choice, nearest, one_line, unknown_choice, unknown_flag

CASES_OF_MESSAGES = [
    ("two\nlines", "two lines"),
    (ValueError("  a\t b\r\n\n c "), "a b c"),
    ("", ""),
    (KeyError("x\ny"), r"'x\ny'"),
]


@pytest.mark.parametrize(("message", "line"), CASES_OF_MESSAGES)
def test_a_message_has_one_line(message, line):
    assert one_line(message) == line


CASES_OF_NEAREST_NAMES = [
    ("num_beam", "; did you mean --num_beams?"),
    ("NUM_BEAMS", "; did you mean --num_beams?"),
    ("rougelsum", "; did you mean --rougeLsum?"),
    ("11", "; did you mean --111?"),
    ("xyz", ""),
    ("", ""),
]


@pytest.mark.parametrize(("name", "hint"), CASES_OF_NEAREST_NAMES)
def test_a_hint_names_the_nearest_name(name, hint):
    assert nearest(name, ["num_beams", "rougeLsum", 111], prefix="--") == hint
    assert not nearest("rogue2", ["rouge2"], cutoff=0.9)


CASES_OF_UNKNOWN_FLAGS = [
    ("--max_length=9", "--max_length; did you mean --max_new_tokens?"),
    ("--min-length", "--min-length; did you mean --min_new_tokens?"),
    ("--num_beam", "--num_beam; did you mean --num_beams?"),
]


@pytest.mark.parametrize(("flag", "hint"), CASES_OF_UNKNOWN_FLAGS)
def test_an_unknown_flag_is_told_with_the_nearest(flag, hint):
    known = ["num_beams", "gnmt_length_offset", "max_new_tokens", "min_new_tokens"]
    assert unknown_flag([flag], known) == f"unknown flag {hint}"
    assert unknown_flag(["a.txt", "b.txt"], known) == "a.txt b.txt: does not belong to a flag"


def test_an_unknown_choice_is_told_with_all_choices():
    message = unknown_choice("`method`", "first", ("lead", "tail"))
    assert message == "`method` is 'first', but must be one of lead, tail"
    message = unknown_choice("--mode", "rouge-155", {"rouge155": 1, "rouge_score": 2})
    assert message == "--mode rouge-155: must be one of rouge155, rouge_score"
    # a choice is checked
    check_choice("`method`", "tail", ("lead", "tail"))
    for value in ("first", ["tail"], None):
        with pytest.raises(ValueError, match=r"`method` is '.*', but must be one of lead, tail"):
            check_choice("`method`", value, {"lead": 1, "tail": 2})


@pytest.mark.parametrize("patience", [3600.0, 0.0])
def test_a_progress_bar_is_shown_after_a_while(monkeypatch, patience):
    monkeypatch.setattr(messages, "_PATIENCE", patience)
    shown = io.StringIO()
    assert list(messages.progress_bar(iter("abc"), "spelling", 3, file=shown)) == ["a", "b", "c"]
    assert ("spelling" in shown.getvalue()) == (patience == 0)
    # the bar that was shown is erased
    assert not shown.getvalue().rpartition("\r")[2].strip()


def test_a_progress_bar_is_switched_off_with_those_of_the_libraries(monkeypatch):
    monkeypatch.setattr(messages, "_PATIENCE", 0.0)
    shown = io.StringIO()
    disable_progress_bars()
    try:
        assert list(messages.progress_bar("ab", "spelling", file=shown)) == ["a", "b"]
    finally:
        enable_progress_bars()
    assert not shown.getvalue()
