"""`hf-summ votes` on small files."""

import csv
import errno
import json
import re
from pathlib import Path

import pytest

from hf_summ.cli import votes
from hf_summ.votes import PROTOCOLS, Key, read_key, read_votes, vote_report
from hf_summ.votes.report import as_text
from tests.data.files import json_lines, write

FILES = {
    "ours.txt": [f"Ours {number}." for number in range(8)],
    "theirs.txt": [f"Theirs {number}." for number in range(8)],
    "third.txt": ["Theirs 0.", *(f"Third {number}." for number in range(1, 8))],
    "r.txt": [f"Reference {number}." for number in range(8)],
    "s.txt": [f"Document {number}." for number in range(8)],
}
SYSTEMS = ("--systems", "ours.txt", "theirs.txt", "--sources", "s.txt")
MAKE = (*SYSTEMS, "--documents", "6", "--voters", "2", "--output", "sheets", "--key", "key.json")


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    """A folder to work in, with systems' summaries, references and sources."""
    for name, texts in FILES.items():
        (tmp_path / name).write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fill(sheet: str, choose) -> None:
    """Fill in a sheet's table."""
    with open(sheet, encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    with open(sheet, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        for row in rows:
            choice = choose(row)
            writer.writerow({name: value or choice for name, value in row.items()})


def test_columns_are_named(run):
    rows = [{"abstract": f"Document {number}.", "tldr": f"Reference {number}."} for number in range(8)]
    write(Path("rows.jsonl"), json_lines(rows))
    argv = ("--sources", "rows.jsonl", "--references", "rows.jsonl")
    run("votes", "make", *MAKE, *argv, "--text_column", "abstract", "--summary_column", "tldr")
    page = Path("sheets/voter-1.html").read_text(encoding="utf-8")
    assert re.search(r"Document \d\.", page)
    assert re.search(r"Reference \d\.", page)


def for_ours(row) -> str:
    return "A" if row["summary A"].startswith("Ours") else "B"


def test_sheets_are_made_and_votes_collected(run):
    output, errors = run("votes", "make", *MAKE)
    assert (output, errors) == ("2 sheets of 6 items in sheets; keep key.json from the voters\n", "")
    names = sorted(path.name for path in Path("sheets").iterdir())
    assert names == ["voter-1.csv", "voter-1.html", "voter-2.csv", "voter-2.html"]
    page = Path("sheets/voter-1.html").read_text(encoding="utf-8")
    assert "ours" not in page
    assert "theirs.txt" not in page
    key = read_key("key.json")
    assert key.protocol.unit == PROTOCOLS["gdlf"].unit
    assert all(item.document.startswith("s.txt, row ") for item in key.items.values())
    sheets = ["sheets/voter-1.csv", "sheets/voter-2.csv"]
    for sheet in sheets:
        fill(sheet, for_ours)
    flags = ("--key", "key.json", "--complete", "--json", "report.json", "--resamples", "99")
    output, errors = run("votes", "collect", *sheets, *flags)
    report = vote_report(read_votes(sheets, key), 99)
    assert (output, errors) == (as_text(report), "")
    assert re.search(r"^\| Relevance +\| +6\.0 \| +0\.0 \| +0\.0 \|", output, flags=re.MULTILINE)
    files = {"votes": sheets, "key": "key.json"}
    assert json.loads(Path("report.json").read_text(encoding="utf-8")) == {"files": files, **report}


def test_votes_are_a_papers_table(run):
    Path("ours.txt").rename("GDLF.txt")
    Path("theirs.txt").rename("DC.txt")
    run("votes", "make", "--systems", "GDLF.txt", "DC.txt", *MAKE[3:])
    for number in (1, 2):
        fill(f"sheets/voter-{number}.csv", for_ours)
    run("votes", "collect", "sheets/voter-1.csv", "sheets/voter-2.csv", "--key", "key.json", "--json", "report.json")
    output, _ = run("table", "gdlf_3", "--data", "xsum=report.json")
    line = [line for line in output.splitlines() if line.startswith("| relevance")][-1]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells == ["relevance", "6.00", "0.00", "0.00", "–", "24.30", "22.00", "3.70", "–"]


def test_missing_votes_are_told_and_refused_if_all_are_asked_for(run, refusal):
    def tie_unless_document_1(row) -> str:
        return "" if row["document"] == "Document 1." else "tie"

    run("votes", "make", *MAKE, "--documents", "8")
    fill("sheets/voter-1.csv", tie_unless_document_1)
    argv = ("sheets/voter-1.csv", "sheets/voter-2.csv", "--key", "key.json")
    output, errors = run("votes", "collect", *argv)
    missing_vote, missing_voter = errors.splitlines()
    assert re.fullmatch(r"hf-summ: 1 of 8 votes of voter-1 are missing: i[0-9a-f]{12} \(relevance\)", missing_vote)
    assert missing_voter == "hf-summ: voter-2 has not voted at all"
    assert "documents: 7; voters: 1;" in output
    message = refusal("votes", "collect", *argv, "--complete", "--json", "report.json")
    assert message == f"--complete: {missing_vote.removeprefix('hf-summ: ')}; voter-2 has not voted at all"
    assert not Path("report.json").exists()


def test_three_systems_references_and_questions_of_the_users(run):
    aspects = ("--aspect", "truth=Which says less that the document does not?", "--aspect", "fluency = Which? = ")
    systems = ("--systems", "ours.txt", "theirs.txt", "third.txt", *SYSTEMS[-2:])
    argv = (*systems, "--references", "r.txt", *aspects, "--preset", "sagcopy", "--documents", "8", *MAKE[-4:])
    output, errors = run("votes", "make", *argv)
    assert output.startswith("3 sheets of 24 items")
    assert errors == "hf-summ: 1 of 24 items have the same summary on both sides\n"
    key = read_key("key.json")
    assert key.protocol.aspects == {"truth": "Which says less that the document does not?", "fluency": "Which? ="}
    assert key.protocol.digits == PROTOCOLS["sagcopy"].digits
    assert key.pairs() == [("ours.txt", "theirs.txt"), ("ours.txt", "third.txt"), ("theirs.txt", "third.txt")]
    assert "Reference 3." in Path("sheets/voter-3.html").read_text(encoding="utf-8")


def test_tags_are_removed_as_they_would_tell_systems_apart(run):
    Path("ours.txt").write_text("One <q> two.\n" * 8, encoding="utf-8")
    _, errors = run("votes", "make", *MAKE)
    assert errors == "hf-summ: ours.txt: 8 of 8 rows contain <q>, read as the end of a sentence\n"
    assert "<q>" not in Path("sheets/voter-1.csv").read_text(encoding="utf-8")


def test_bytes_that_are_no_text_are_replaced_in_the_key(run, refusal):
    first_name, second_name = "ours\udcff.txt", "ours\udcfe.txt"
    Path(second_name).write_bytes(Path("ours.txt").read_bytes())
    Path("ours.txt").rename(first_name)
    message = refusal("votes", "make", "--systems", first_name, second_name, *MAKE[3:])
    assert message == "--systems ours\ufffd.txt ours\ufffd.txt: these names are equal in the key: rename a file"
    run("votes", "make", "--systems", first_name, *MAKE[2:], "--aspect", "truth\udcff=Which says\nless?")
    key = read_key("key.json")
    assert key.protocol.aspects == {"truth\ufffd": "Which says less?"}
    assert key.pairs() == [("ours\ufffd.txt", "theirs.txt")]
    votes = Path("votes\udcff.csv")
    Path("sheets/voter-1.csv").rename(votes)
    fill(str(votes), lambda row: "A")
    output, _ = run("votes", "collect", str(votes), "--key", "key.json", "--json", "report.json")
    assert "ours\ufffd.txt against theirs.txt" in output
    assert json.loads(Path("report.json").read_text("utf-8"))["files"]["votes"] == ["votes\ufffd.csv"]


def test_rows_are_read_and_aligned_by_their_ids(run, refusal):
    def numbered_rows(texts: list[str], first_id: int = 0) -> list[dict]:
        rows = []
        for number, text in enumerate(texts):
            rows.append({"id": first_id + number, "document": f"D{number}", "prediction": text})
        return rows

    def sheets_in(folder: str) -> list[str]:
        return sorted(path.read_text("utf-8-sig") for path in Path(folder).glob("*.csv"))

    write(Path("a.jsonl"), json_lines(numbered_rows(FILES["ours.txt"])))
    rows = numbered_rows(FILES["theirs.txt"])
    write(Path("b.jsonl"), json_lines(rows))
    argv = ("--systems", "a.jsonl", "b.jsonl", "--sources", "a.jsonl", "--documents", "6", "--voters", "2")
    # the systems match each other by ids, though these sources have none
    plain = (*argv, "--sources", "s.txt")
    run("votes", "make", *argv, "--output", "sheets", "--key", "key.json")
    run("votes", "make", *plain, "--output", "plain", "--key", "plain.json")
    write(Path("b.jsonl"), json_lines(rows[::-1]))
    run("votes", "make", *argv, "--output", "reversed", "--key", "reversed.json")
    run("votes", "make", *plain, "--output", "reversed_plain", "--key", "reversed_plain.json")
    assert sheets_in("reversed") == sheets_in("sheets")
    assert sheets_in("reversed_plain") == sheets_in("plain")
    write(Path("b.jsonl"), json_lines(numbered_rows(FILES["theirs.txt"], first_id=7)))
    message = refusal("votes", "make", *argv, "--output", "other", "--key", "other.json")
    assert message.startswith("the id '0' occurs 1 times in a.jsonl and 0 times in b.jsonl: both files must have the")


def test_presets_are_the_protocols():
    assert tuple(PROTOCOLS) == votes._PROTOCOLS


CASES_OF_REFUSED_SHEETS = [
    (("--systems", "ours.txt", *MAKE[3:]), "--systems has only 'ours.txt', but votes compare at least two"),
    (("--systems", "ours.txt", "ours.txt", *MAKE[3:]), "--systems ours.txt ours.txt: these names are equal"),
    ((*MAKE, "--documents", "9"), "9 documents are required, but only 8 are not blank: lower --documents, or"),
    ((*MAKE, "--aspect", "fluency"), "--aspect 'fluency': must be a new name and a question, such as 'fluency=W"),
    ((*MAKE, "--aspect", "a=b", "--aspect", "a=c"), "--aspect 'a=c': must be a new name and a question"),
    ((*MAKE, "--summary_column", "tldr"), "--summary_column: needs --references"),
    ((*MAKE, "--output", "full"), "--output full: must be a new or empty folder"),
    ((*MAKE, "--key", "sheets/key.json"), "--key sheets/key.json: must not be in the folder sheets, which the"),
    ((*MAKE, "--key", "old.json"), "--key old.json: must be a new file in an existing folder"),
]


@pytest.mark.parametrize(("argv", "message"), CASES_OF_REFUSED_SHEETS)
def test_what_cannot_be_made_is_told(refusal, workplace, argv, message):
    (workplace / "full").mkdir()
    (workplace / "full" / "voter-1.html").touch()
    (workplace / "old.json").touch()
    before = sorted(workplace.rglob("*"))
    assert refusal("votes", "make", *argv).startswith(message)
    assert sorted(workplace.rglob("*")) == before


@pytest.mark.parametrize("place", ["draft", "key", "folder"])
def test_a_full_disk_leaves_neither_sheets_nor_a_key(run, refusal, workplace, monkeypatch, place):
    before = sorted(workplace.rglob("*"))

    def fail(*arguments, **settings):
        raise OSError(errno.ENOSPC, "No space left on device")

    # The disk is full when the first page, the key, or the folder's new name is written.
    with monkeypatch.context() as context:
        if place == "draft":
            context.setattr(Path, "write_text", fail)
        elif place == "key":
            context.setattr(Key, "to_json", fail)
        else:
            context.setattr("hf_summ.common.files.os.replace", fail)
        assert "No space left on device" in refusal("votes", "make", *MAKE)
    assert sorted(workplace.rglob("*")) == before
    run("votes", "make", *MAKE)
    assert read_key("key.json").items


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("filled.csv", "--key", "key.json", "--resamples", "0"), "--resamples 0: must be at least 1"),
        (("filled.csv", "--key", "key.json", "--json", "./key.json"), "--json ./key.json: would replace an input"),
    ],
)
def test_what_cannot_be_collected_is_told(run, refusal, workplace, argv, message):
    run("votes", "make", *MAKE)
    fill("sheets/voter-2.csv", for_ours)
    Path("sheets/voter-2.csv").rename("filled.csv")
    before = Path("key.json").read_bytes()
    assert refusal("votes", "collect", *argv).startswith(message)
    assert Path("key.json").read_bytes() == before
