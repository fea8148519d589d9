"""CNN/DailyMail's .story files."""

import logging

import pytest

from tests.data.files import write

STORY = "(CNN) -- It rained.\n\nThen it stopped. \n\n\n@highlight\n\nIt rained\n\n@highlight\n\nIt stopped\n"
ROW = {"document": "(CNN) -- It rained.\nThen it stopped.", "summary": "It rained\nIt stopped"}


def write_stories(folder, **stories):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in stories.items():
        write(folder / f"{name}.story", text)
    return folder


def numbered(number):
    return f"text {number}\n\n@highlight\n\nh{number}\n"


CASES_OF_STORIES = [
    STORY,
    STORY.replace("\n", "\r\n"),
    STORY.rstrip("\n"),
    STORY.replace("\n\n", "\n"),
    STORY.replace("@", "  @"),
    "\ufeff" + STORY,
]


@pytest.mark.parametrize("text", CASES_OF_STORIES)
def test_highlights_become_the_lines_of_the_summary(load, tmp_path, text):
    folder = write_stories(tmp_path / "stories", ab12=text)
    assert load(train_file=folder, data_format="cnn_dm")["train"].to_list() == [{**ROW, "id": "ab12"}]


def test_the_word_highlight_in_a_line_is_text(load, tmp_path):
    folder = write_stories(tmp_path, a="an @highlight here\n@highlight\na @highlight there\n")
    (row,) = load(train_file=folder, data_format="cnn_dm")["train"].to_list()
    assert row == {"document": "an @highlight here", "summary": "a @highlight there", "id": "a"}


def test_several_folders_in_the_order_of_names(load, tmp_path):
    cnn = write_stories(tmp_path / "cnn" / "stories", b=numbered(2), a=numbered(1))
    mail = write_stories(tmp_path / "dailymail" / "stories", c=numbered(3), a=numbered(4))
    write(cnn / "readme.txt", "no story")
    loaded = load(train_file=f"{cnn}, {mail}", data_format="cnn_dm")["train"]
    assert loaded["summary"][:] == ["h1", "h2", "h4", "h3"]
    one = load(train_file=mail / "c.story", data_format="cnn_dm")["train"]
    assert one["summary"][:] == ["h3"]


def test_a_list_names_the_stories_of_a_split(load, tmp_path):
    write_stories(tmp_path / "cnn", a=numbered(1), b=numbered(2), c=numbered(3))
    names = write(tmp_path / "test.txt", "cnn/c.story\n\ncnn/a.story\n")
    loaded = load(test_file=names, data_format="cnn_dm")["test"]
    assert loaded["id"][:] == ["c", "a"]


@pytest.mark.parametrize("lists", ["", "url_lists"])
def test_lists_of_addresses_name_the_stories_of_each_split(load, tmp_path, lists):
    # by `printf http://a/1 | sha1sum`, and of http://a/2
    first, second = "1feefadbc173033154263b26347149f56aa664d6", "9474a573557ba1c213807a208f5565e6d591e1e5"
    write_stories(tmp_path / "cnn" / "stories", **{first: numbered(1)})
    write_stories(tmp_path / "dailymail" / "stories", **{second: numbered(2)})
    (tmp_path / lists).mkdir(exist_ok=True)
    write(tmp_path / lists / "all_train.txt", "http://a/2\nhttp://a/1\n")
    write(tmp_path / lists / "all_val.txt", "http://a/1\n")
    loaded = load(train_file=tmp_path, validation_file=tmp_path, data_format="cnn_dm")
    assert {name: rows["summary"][:] for name, rows in loaded.items()} == {"train": ["h2", "h1"], "validation": ["h1"]}
    named = tmp_path / lists / "all_val.txt"
    assert load(test_file=named, data_format="cnn_dm")["test"]["id"][:] == [first]
    write(named, "http://a/1\nhttp://a/3\n")
    with pytest.raises(ValueError, match=r"all_val.txt, line 2: .*cnn/stories/\w{40}.story does not exist: name a"):
        load(validation_file=tmp_path, data_format="cnn_dm")


def test_empty_hidden_and_bare_stories_are_blank(load, tmp_path, caplog):
    folder = write_stories(tmp_path, a=STORY, b="", c="text only\n", d="@highlight\n\nalone\n")
    # macOS leaves hidden files, which are no stories
    write(folder / "._a.story", b"\x00\x05\x16\x07\xff")
    with caplog.at_level(logging.WARNING, logger="hf_summ"):
        loaded = load(train_file=folder, data_format="cnn_dm")["train"]
    assert loaded["id"][:] == ["a"]
    (record,) = caplog.records
    assert f"{folder}: 3 of 4 rows have a blank document or summary and are left out" in record.message


def test_stories_that_change_are_read_anew(load, tmp_path):
    folder = write_stories(tmp_path / "stories", a=numbered(1), b=numbered(2))
    assert load(train_file=folder, data_format="cnn_dm")["train"]["summary"][:] == ["h1", "h2"]
    write_stories(folder, b=numbered(345))
    assert load(train_file=folder, data_format="cnn_dm")["train"]["summary"][:] == ["h1", "h345"]
    (folder / "a.story").unlink()
    assert load(train_file=folder, data_format="cnn_dm")["train"]["summary"][:] == ["h345"]


def test_lists_and_stories_that_cannot_be_read(load, tmp_path):
    # list with a name that is not there
    write_stories(tmp_path, a=numbered(1))
    names = write(tmp_path / "list.txt", "a.story\nb.story\n")
    with pytest.raises(ValueError, match=r"list.txt, line 2: .*b.story does not exist: name a .story file"):
        load(train_file=names, data_format="cnn_dm")
    # list without names
    names = write(tmp_path / "list.txt", "\n")
    with pytest.raises(ValueError, match=r"list.txt: the split has no rows"):
        load(train_file=names, data_format="cnn_dm")
    # story that is not utf8
    folder = write_stories(tmp_path, a=numbered(1), b=b"text\n" + "é\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"b.story, after line 0: cannot be read: .*utf-8"):
        load(train_file=folder, data_format="cnn_dm")


CASES_OF_MISSING_STORIES = [
    ("", "the split has no rows"),
    ("nowhere", "nowhere does not exist"),
    ("nowhere.story", "nowhere.story does not exist"),
]


@pytest.mark.parametrize(("name", "message"), CASES_OF_MISSING_STORIES)
def test_stories_that_are_not_there(load, tmp_path, name, message):
    with pytest.raises(ValueError, match=message):
        load(train_file=tmp_path / name, data_format="cnn_dm")
