"""`hf-summ compare` on files of predictions."""

import pytest

from tests.data.files import json_lines, write


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """A folder to work in, with the predictions of three systems, and documents."""
    first_system, second_system, shifted_system, documents = [], [], [], []
    for number in range(8):
        row_id = f"n{number}"
        first_system.append({"id": row_id, "prediction": f"a {number}", "reference": f"the {number}"})
        second_system.append({"id": row_id, "prediction": f"b {number}"})
        shifted_system.append({"id": f"n{number + 1}", "prediction": row_id})
        documents.append({"id": row_id, "document": f"document {number}"})
    write(tmp_path / "a.jsonl", json_lines(first_system))
    write(tmp_path / "b.jsonl", json_lines(second_system))
    write(tmp_path / "other.jsonl", json_lines(shifted_system))
    write(tmp_path / "documents.jsonl", json_lines(documents))
    (tmp_path / "plain.txt").write_text("a\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_chosen_rows_are_shown_with_the_names_of_systems(run, workplace):
    argv = "compare a.jsonl b.jsonl --names BART GDLF --sources documents.jsonl --rows 8 2".split()
    output, notes = run(*argv)
    assert "hf-summ: documents.jsonl: documents from 'document'\n" in notes
    sections = []
    for row in (8, 2):
        number = row - 1
        sections.append(
            f"## Row {row}: n{number}\n\n**Document**\n\ndocument {number}\n\n**Reference**\n\nthe {number}\n\n"
            f"**BART**\n\na **{number}**\n\n**GDLF**\n\nb **{number}**"
        )
    assert output == "\n\n".join(sections) + "\n"
    run(*argv, "--shade", "document", "--output", "page.html")
    assert "a <mark>7</mark>" in (workplace / "page.html").read_text(encoding="utf-8")


def test_lists_are_several_documents_and_references(run, workplace):
    row = {"document": ["One.", "Two."], "prediction": "a", "reference": ["a .", "b ."]}
    write(workplace / "lists.jsonl", json_lines([row]))
    output, _ = run("compare", "lists.jsonl", "--sources", "lists.jsonl")
    assert "**Document**\n\nOne.\n\nTwo.\n\n**Reference**\n\na .\nb ." in output


def test_tags_between_sentences_are_line_ends(run, workplace):
    write(workplace / "tags.txt", "cats sleep<q>a dog barks\n")
    write(workplace / "tagged_references.txt", "birds sing<q>the dog runs\n")
    output, notes = run("compare", "tags.txt", "--references", "tagged_references.txt")
    assert (
        output
        == "## Row 1\n\n**Reference**\n\nbirds sing\nthe dog runs\n\n**tags.txt**\n\ncats sleep\na **dog** barks\n"
    )
    for file in ("tags.txt", "tagged_references.txt"):
        assert f"hf-summ: {file}: 1 of 1 rows contain <q>, read as the end of a sentence\n" in notes


def test_drawn_rows_depend_on_the_seed_alone(run, workplace):
    def titles(*flags: str) -> list[str]:
        output, _ = run("compare", "a.jsonl", *flags)
        return [line for line in output.splitlines() if line.startswith("## ")]

    drawn = titles()
    assert len(drawn) == 5
    assert titles() == drawn
    assert titles("--seed", "1") != drawn


CASES_OF_REFUSED_COMPARISONS = [
    (["plain.txt"], "plain.txt has predictions but no references: give the file of references with --references"),
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
