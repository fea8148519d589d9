"""Gigaword, Multi-News and DUC: line-aligned files."""

import logging
import random

import pytest

from tests.data.files import lines, write

ARTICLES = ["police said tuesday that ## people left .", "the <unk> bank rose #.# percent", "UNK"]
TITLES = ["## people leave", "unk bank rises", "UNK"]
PAIRS = [{"document": article, "summary": title} for article, title in zip(ARTICLES, TITLES, strict=True)]


def write_all(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, texts in files.items():
        write(folder / name, lines(texts))
    return folder


# gigaword


CASES_OF_FILE_NAMES = [
    ("train.article.txt", "train.title.txt"),
    ("train.article.txt.gz", "train.title.txt.gz"),
    ("train.article.txt.gz", "train.title.txt"),
    ("valid.article.filter.txt", "valid.title.filter.txt"),
    ("input.txt", "task1_ref0.txt"),
]


@pytest.mark.parametrize(("articles", "titles"), CASES_OF_FILE_NAMES)
def test_the_titles_of_gigaword_stand_beside_the_articles(load, tmp_path, articles, titles):
    write_all(tmp_path / "article", {articles: ARTICLES, titles: TITLES})
    corpus = load(train_file=tmp_path / "article" / articles, data_format="gigaword")
    # placeholders are part of the corpus
    assert corpus["train"].to_list() == PAIRS


@pytest.mark.parametrize(("inner", "test"), [("", ""), ("train", "Giga")])
def test_each_split_takes_its_part_of_a_gigaword_folder(load, tmp_path, inner, test):
    parts = {"train": ["a", "b", "c"], "valid.filter": ["d"], "valid": ["e", "f"]}
    for part, texts in parts.items():
        split, _, kind = part.partition(".")
        ending = f".{kind}.txt" if kind else ".txt"
        write_all(tmp_path / inner, {f"{split}.article{ending}": texts, f"{split}.title{ending}": texts})
    write_all(tmp_path / test, {"input.txt": ["g", "h"], "task1_ref0.txt": ["g", "h"]})
    files = dict.fromkeys(("train_file", "validation_file", "test_file"), tmp_path)
    corpus = load(**files, data_format="gigaword")
    assert {split: rows["summary"][:] for split, rows in corpus.items()} == {
        "train": ["a", "b", "c"],
        "validation": ["d"],
        "test": ["g", "h"],
    }


CASES_OF_MISSING_FILES = [
    ("gigaword", "", r"has no train.article.txt and no train/train.article.txt, the train split: name"),
    ("gigaword", "x.article.txt", r"has no headlines beside it: .*x.title.txt does not exist"),
    ("gigaword", "input.txt", r"has no headlines beside it: .*task1_ref0.txt"),
    ("gigaword", "other.txt", r"other.txt has no headlines beside it"),
    ("gigaword", "nowhere", r"nowhere does not exist"),
    ("multi_news", "", r"has no train.src.cleaned and no train.src and no train.txt.src"),
    ("multi_news", "a.src", r"a.src has no summaries beside it: .*a.tgt does not exist"),
    ("multi_news", "other.txt", r"other.txt has no summaries beside it: it must have .src in its name"),
    ("multi_news", "nowhere", r"nowhere does not exist"),
]


@pytest.mark.parametrize(("data_format", "name", "message"), CASES_OF_MISSING_FILES)
def test_files_that_are_not_there(load, tmp_path, data_format, name, message):
    files = {"x.article.txt": ["a"], "input.txt": ["a"], "other.txt": ["a"], "a.src": ["a"]}
    write_all(tmp_path, files)
    with pytest.raises(ValueError, match=message):
        load(train_file=tmp_path / name, data_format=data_format)


# multi_news


STORIES = [
    "A first story. NEWLINE_CHAR NEWLINE_CHAR Its end. ||||| Another story. |||||",
    "Only one. |||||",
    "  ||||| Old. story_separator_special_tag New. NEWLINE_CHAR Newer.||||| ",
]
NEWS = [
    {
        "document": "A first story.\n\nIts end.\n\nAnother story.",
        "documents": ["A first story.\n\nIts end.", "Another story."],
        "summary": "– Two stories.",
    },
    {"document": "Only one.", "documents": ["Only one."], "summary": "– One."},
    {"document": "Old.\n\nNew.\nNewer.", "documents": ["Old.", "New.\nNewer."], "summary": "– Three."},
]
SUMMARIES = [row["summary"] for row in NEWS]


CASES_OF_MULTI_NEWS_NAMES = [
    ("train.src", "train.tgt"),
    ("train.src.cleaned", "train.tgt"),
    ("train.src.cleaned.gz", "train.tgt.gz"),
    ("train.txt.src.fixed.txt", "train.txt.tgt.fixed.txt"),
]


@pytest.mark.parametrize(("source", "target"), CASES_OF_MULTI_NEWS_NAMES)
def test_multi_news_has_lists_of_documents(load, tmp_path, source, target):
    write_all(tmp_path, {source: STORIES, target: SUMMARIES})
    assert load(train_file=tmp_path / source, data_format="multi_news")["train"].to_list() == NEWS


def test_each_split_takes_its_part_of_a_multi_news_folder(load, tmp_path):
    for index, stem in enumerate(("train", "val", "test")):
        write_all(tmp_path, {f"{stem}.src": STORIES[index : index + 1], f"{stem}.tgt": SUMMARIES[index : index + 1]})
    # corrected files take precedence
    write_all(tmp_path, {"test.src.cleaned": ["Corrected. |||||"]})
    files = dict.fromkeys(("train_file", "validation_file", "test_file"), tmp_path)
    corpus = load(**files, data_format="multi_news")
    assert corpus["train"].to_list() == NEWS[:1]
    assert corpus["validation"].to_list() == NEWS[1:2]
    assert corpus["test"]["documents"][:] == [["Corrected."]]


def test_separators_without_documents_are_blank(load, tmp_path, caplog):
    write_all(tmp_path, {"d.src": ["One. ||||| ||||| Two.", "||||| |||||"], "d.tgt": ["– s", "– t"]})
    with caplog.at_level(logging.WARNING, logger="hf_summ"):
        loaded = load(train_file=tmp_path / "d.src", data_format="multi_news")["train"]
    assert loaded["documents"][:] == [["One.", "Two."]]
    assert "1 of 2 rows have a blank document or summary and are left out" in caplog.text


def test_multi_news_joined_and_separated_again(load, tmp_path):
    chance = random.Random(3)
    words = ["the", "|", "||", "fell", "NEWLINE_CHARS", "–", "a|b"]
    clusters = []
    for _ in range(50):
        cluster = []
        for _ in range(chance.randint(1, 5)):
            text = " ".join(chance.choices(words, k=5))
            cluster.append(f"x {text} x")
        clusters.append(cluster)
    lines_of_clusters = [" ||||| ".join(cluster) for cluster in clusters]
    write_all(tmp_path, {"a.src": lines_of_clusters, "a.tgt": ["s"] * 50})
    loaded = load(train_file=tmp_path / "a.src", data_format="multi_news")["train"]
    assert loaded["documents"][:] == clusters


# duc


DUC = {
    "input.txt": ["first text", "second text"],
    "task1_ref0.txt": ["first", ""],
    "task1_ref1.txt": ["one", "two"],
    "task1_ref2.txt": ["uno", "due"],
}
REFERENCES = [
    {"document": "first text", "summary": "first", "references": ["first", "one", "uno"]},
    # a blank reference does not count
    {"document": "second text", "summary": "two", "references": ["two", "due"]},
]


def test_duc_has_several_references(load, tmp_path):
    write_all(tmp_path, DUC)
    for name in (tmp_path, tmp_path / "input.txt"):
        assert load(test_file=name, data_format="duc")["test"].to_list() == REFERENCES


def test_gigaword_may_be_tested_on_duc(load, tmp_path):
    write_all(tmp_path / "giga", {"train.article.txt": ARTICLES, "train.title.txt": TITLES})
    write_all(tmp_path / "giga" / "DUC2004", DUC)
    corpus = load(train_file=tmp_path / "giga", test_file=tmp_path / "giga" / "DUC2004", data_format="gigaword")
    assert corpus["train"].to_list() == PAIRS
    assert corpus["test"].to_list() == REFERENCES


def test_references_of_duc_are_ordered_by_number(load, tmp_path):
    write_all(tmp_path, {"input.txt": ["t"]})
    for number in range(12):
        write_all(tmp_path, {f"task1_ref{number}.txt.gz": [f"r{number}"]})
    write_all(tmp_path, {"task1_refs.txt": ["not", "one"]})
    loaded = load(test_file=tmp_path, data_format="duc")["test"]
    assert loaded["references"][0] == [f"r{number}" for number in range(12)]


# the file that is removed, and the message about it
CASES_OF_MISSING_DUC_FILES = [
    (["input.txt"], r"has no input.txt, the test split: name the file"),
    (["task1_ref0.txt"], r"input.txt has no references beside it: .*task1_ref0.txt does not exist"),
    (["task1_ref1.txt"], r"input.txt has no references beside it: .*task1_ref1.txt does not exist"),
    (list(DUC)[1:], r"input.txt has no references beside it: .*task1_ref0.txt"),
]


@pytest.mark.parametrize(("without", "message"), CASES_OF_MISSING_DUC_FILES)
def test_duc_with_a_missing_file(load, tmp_path, without, message):
    write_all(tmp_path, {name: texts for name, texts in DUC.items() if name not in without})
    with pytest.raises(ValueError, match=message):
        load(test_file=tmp_path, data_format="duc")


CASES_OF_UNEQUAL_DUC_FILES = [
    ("task1_ref2.txt", ["a"], r"task1_ref2.txt has only 1 lines, fewer than the file"),
    ("input.txt", ["a"] * 5, r"task1_ref0.txt has only 2 lines, fewer than the file"),
    ("task1_ref1.txt", ["a"] * 4, r"input.txt has only 2 lines, fewer than the file"),
]


@pytest.mark.parametrize(("name", "texts", "message"), CASES_OF_UNEQUAL_DUC_FILES)
def test_duc_of_different_length(load, tmp_path, name, texts, message):
    write_all(tmp_path, DUC | {name: texts})
    with pytest.raises(ValueError, match=message):
        load(test_file=tmp_path, data_format="duc")
