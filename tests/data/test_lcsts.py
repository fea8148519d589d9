"""LCSTS as it is distributed: parts, scores, broken files."""

import random

import pytest

from tests.data.files import read_rows, write
from tests.shared_data import SHARED_DATA, reads_shared_data


def part(rows):
    """Rows in the layout of PART_II and PART_III or, without scores, of PART_I."""
    texts = []
    for number, row in enumerate(rows):
        summary, text = row[:2]
        label = ""
        if len(row) == 3:
            label = f"    <human_label>{row[2]}</human_label>\n"
        texts.append(
            f"<doc id={number}>\n{label}    <summary>\n        {summary}\n    </summary>\n"
            f"    <short_text>\n        {text}\n    </short_text>\n</doc>\n"
        )
    return "".join(texts)


SCORED = [("可穿戴技术", "本文总结了十个", 5), ("差的", "不相关", 1), ("可以", "还算相关", 3), ("不好", "有点相关", 2)]


def test_pairs_under_a_score_of_three_are_left_out(load, tmp_path):
    file = write(tmp_path / "PART_III.txt", part(SCORED))
    assert load(test_file=file, data_format="lcsts")["test"].to_list() == [
        {"document": "本文总结了十个", "summary": "可穿戴技术", "id": 0, "human_label": 5},
        {"document": "还算相关", "summary": "可以", "id": 2, "human_label": 3},
    ]


@pytest.mark.parametrize("least", [1, 2, 3, 4, 5])
def test_the_least_score_can_be_chosen(load, tmp_path, least):
    chance = random.Random(least)
    rows = [(f"标题{number}", f"正文{number}", chance.randint(1, 5)) for number in range(60)]
    file = write(tmp_path / "PART_III.txt", part(rows))
    loaded = load(test_file=file, data_format="lcsts", min_score=least)["test"]
    loaded_rows = [(row["summary"], row["document"], row["human_label"]) for row in loaded]
    assert loaded_rows == [row for row in rows if row[2] >= least]


def test_a_part_without_scores_is_taken_whole(load, tmp_path):
    file = write(tmp_path / "PART_I.txt.gz", part([row[:2] for row in SCORED]))
    loaded = load(train_file=file, data_format="lcsts", min_score=5)["train"]
    assert loaded["summary"][:] == [row[0] for row in SCORED]
    assert loaded.column_names == ["document", "summary", "id"]


@pytest.mark.parametrize("inner", ["", "DATA"])
def test_each_split_takes_its_part_of_the_folder(load, tmp_path, inner):
    (tmp_path / inner).mkdir(exist_ok=True)
    write(tmp_path / inner / "PART_I.txt", part([row[:2] for row in SCORED]))
    write(tmp_path / inner / "PART_II.txt", part(SCORED))
    write(tmp_path / inner / "PART_III.txt", part(SCORED[:1]))
    files = dict.fromkeys(("train_file", "validation_file", "test_file"), tmp_path)
    assert load(**files, data_format="lcsts").num_rows == {"train": 4, "validation": 2, "test": 1}


CASES_OF_WHITE_SPACE = [
    "<doc id=7><human_label>4</human_label><summary>标题</summary><short_text>正 & 文</short_text></doc>",
    '\ufeff\r\n<doc id="7">\r\n<human_label>\r\n4 </human_label>\r\n<summary>\u3000标题\r\n</summary>\r\n'
    "<short_text>\r\n\t正 & 文\u3000\r\n</short_text>\r\n</doc>\r\n\r\n",
    "\n\n  <doc id = 7 >\n<short_text> 正 & 文</short_text ><summary>\n\n标题</summary>\n<human_label>4"
    "</human_label>  </doc>   \n",
]


@pytest.mark.parametrize("text", CASES_OF_WHITE_SPACE)
def test_white_space_is_of_no_account(load, tmp_path, text):
    expected = [{"document": "正 & 文", "summary": "标题", "id": 7, "human_label": 4}]
    file = write(tmp_path / "PART_II.txt", text)
    assert load(test_file=file, data_format="lcsts")["test"].to_list() == expected


def test_documents_may_share_a_line_and_have_several(load, tmp_path):
    # Documents share a line.
    file = write(tmp_path / "PART_I.txt", part([("a", "b"), ("c", "d"), ("e", "f")]).replace("\n", ""))
    assert load(test_file=file, data_format="lcsts")["test"]["summary"][:] == ["a", "c", "e"]
    # A text of several lines keeps them.
    file = write(tmp_path / "PART_I.txt", part([("标题", "一。\n\n      二。 <b>&lt;")]))
    assert load(test_file=file, data_format="lcsts")["test"]["document"][:] == ["一。\n二。 <b>&lt;"]


WHOLE = part([("标题", "正文", 4)])
MUST_BE = "must be a complete <doc id=N> with one <summary>, one <short_text> and perhaps one <human_label>"


CASES_OF_BROKEN_FILES = [
    (WHOLE + "<doc id=1>\n<summary>\n题", f"PART_II.txt, line 10: {MUST_BE}"),
    (WHOLE + "\nstray\n" + WHOLE, f"line 11: {MUST_BE}, a whole number, but is 'stray'"),
    ("</doc>\n" + WHOLE, f"line 1: {MUST_BE}, a whole number, but is ''"),
    ("<doc>\n</doc>\n", f"line 1: {MUST_BE}"),
    (WHOLE.replace("</doc>\n", "") + WHOLE, f"line 1: {MUST_BE}"),
    (WHOLE + WHOLE.replace("</summary>", ""), f"line 10: {MUST_BE}"),
    (WHOLE.replace("short_text", "text"), MUST_BE),
    (WHOLE.replace("<short_text>", "<summary>x</summary><short_text>"), MUST_BE),
    (WHOLE.replace("<summary>", "<human_label>4</human_label><summary>"), MUST_BE),
    (WHOLE.replace(">4<", ">good<"), MUST_BE),
    (WHOLE.replace(">4<", "><"), MUST_BE),
    ("标题".encode("gbk") + b"\n", r"PART_II.txt, after line 0: cannot be read: .*utf-8"),
    (part(SCORED[1:2] * 3), r"PART_II.txt: none of the 3 rows passes `min_score` 3: change it"),
    ("\n", r"PART_II.txt: the split has no rows"),
]


@pytest.mark.parametrize(("content", "message"), CASES_OF_BROKEN_FILES)
def test_broken_files(load, tmp_path, content, message):
    with pytest.raises(ValueError, match=message):
        load(test_file=write(tmp_path / "PART_II.txt", content), data_format="lcsts")


def test_folder_without_the_split(load, tmp_path):
    with pytest.raises(ValueError, match=r"has no PART_III.txt and no DATA/PART_III.txt, the test split"):
        load(test_file=tmp_path, data_format="lcsts")


@reads_shared_data("lcsts_part3")
def test_the_published_test_set_has_725_pairs(load, tmp_path):
    folder = SHARED_DATA / "lcsts_part3"
    rows = read_rows(folder / "test.jsonl") + read_rows(folder / "validation.jsonl")
    texts = [(row["summary"], row["document"], row["human_label"]) for row in rows]
    loaded = load(test_file=write(tmp_path / "PART_III.txt", part(texts)), data_format="lcsts")["test"]
    assert len(rows) == 1106
    assert len(loaded) == 725
    expected = [(summary.strip(), text.strip()) for summary, text, score in texts if score >= 3]
    assert [(row["summary"], row["document"]) for row in loaded] == expected
