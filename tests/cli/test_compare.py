"""`hf-summ compare` on files of predictions."""

import pytest

from tests.data.files import json_lines, write


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    def rows(name, **columns):
        lines = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        write(tmp_path / name, json_lines(lines))

    ids = [f"n{number}" for number in range(8)]
    rows("a.jsonl", id=ids, prediction=[f"a {number}" for number in range(8)], reference=[f"the {n}" for n in range(8)])
    rows("b.jsonl", id=ids, prediction=[f"b {number}" for number in range(8)])
    rows("other.jsonl", id=[*ids[1:], "n8"], prediction=ids)
    rows("documents.jsonl", id=ids, document=[f"document {number}" for number in range(8)])
    (tmp_path / "plain.txt").write_text("a\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_chosen_rows_are_shown_with_the_names_of_systems(run, workplace):
    argv = "compare a.jsonl b.jsonl --names BART GDLF --sources documents.jsonl --rows 8 2".split()
    output, notes = run(*argv)
    assert "hf-summ: documents.jsonl: documents from 'document'\n" in notes
    expected = (
        f"## Row {row}: n{row - 1}\n\n**Document**\n\ndocument {row - 1}\n\n**Reference**\n\nthe {row - 1}\n\n"
        f"**BART**\n\na **{row - 1}**\n\n**GDLF**\n\nb **{row - 1}**"
        for row in (8, 2)
    )
    assert output == "\n\n".join(expected) + "\n"
    run(*argv, "--shade", "document", "--output", "page.html")
    assert "a <mark>7</mark>" in (workplace / "page.html").read_text(encoding="utf-8")


def test_lists_are_several_documents_and_references(run, workplace):
    row = {"document": ["One.", "Two."], "prediction": "a", "reference": ["a .", "b ."]}
    write(workplace / "lists.jsonl", json_lines([row]))
    output, _ = run("compare", "lists.jsonl", "--sources", "lists.jsonl")
    assert "**Document**\n\nOne.\n\nTwo.\n\n**Reference**\n\na .\nb ." in output


def test_drawn_rows_depend_on_the_seed_alone(run, workplace):
    titles = [
        [line for line in run("compare", "a.jsonl", *seed)[0].splitlines() if line.startswith("## ")]
        for seed in ((), (), ("--seed", "1"))
    ]
    assert titles[0] == titles[1] != titles[2]
    assert len(titles[0]) == 5


CASES_OF_REFUSED_COMPARISONS = [
    (["plain.txt"], "plain.txt has no references beside its predictions: name their file with --references"),
    (["a.jsonl", "other.jsonl"], "the id 'n0' occurs 1 times in a.jsonl and 0 times in other.jsonl"),
    (["a.jsonl", "b.jsonl", "--names", "A"], "--names A: must be 2 different names, one for each file"),
    (["a.jsonl", "--rows", "9"], "--rows 9: must be from 1 to 8, the number of rows"),
    (["a.jsonl", "--rows", "1", "--seed", "3"], "--seed 3: has no effect beside --rows 1"),
    (["a.jsonl", "--shade", "document"], "--shade document: needs --sources"),
    (["a.jsonl", "--output", "page.txt"], "--output page.txt: must be a .md or .html file"),
    (["a.jsonl", "--sources", "old.md", "--output", "old.md"], "--output old.md: would replace the input"),
]


@pytest.mark.parametrize(("argv", "message"), CASES_OF_REFUSED_COMPARISONS)
def test_what_cannot_be_shown_is_told(refusal, workplace, argv, message):
    assert refusal("compare", *argv).startswith(message)
