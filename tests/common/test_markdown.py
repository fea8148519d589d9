"""Markdown tables."""

from hf_summ.common.pages import markdown_table


def test_columns_are_aligned():
    rows = [["GDLF", "33.80", "a|b"], ["", "5.00", "-"]]
    assert markdown_table(["model", "R-1", "x"], rows).splitlines() == [
        "| model |   R-1 |    x |",
        "| ----- | ----: | ---: |",
        r"| GDLF  | 33.80 | a\|b |",
        "|       |  5.00 |    - |",
    ]


def test_columns_of_words_stand_left():
    assert markdown_table(["a", "b", "c"], [["x", "yyyy", "1"]], left=2).splitlines() == [
        "| a   | b    |   c |",
        "| --- | ---- | --: |",
        "| x   | yyyy |   1 |",
    ]


def test_no_rows():
    assert markdown_table(["only"], []) == "| only |\n| ---- |"
