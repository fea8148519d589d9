"""`hf-summ compare-lms` on tiny language models."""

import json
import re
import shutil

import pytest

from hf_summ.evaluation.language_models import compare_language_models, load_language_model
from tests.conftest import SENTENCES
from tests.evaluation.tiny_language_models import KINDS, save_language_model


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with a model of each kind; shared by the tests here, so never change it."""
    folder = tmp_path_factory.mktemp("models")
    for kind in KINDS:
        save_language_model(kind, folder / kind)
    return folder


@pytest.fixture
def workplace(saved, tmp_path, monkeypatch):
    """A folder to work in, with the models, two texts and random words."""
    shutil.copytree(saved, tmp_path, dirs_exist_ok=True)
    # a byte-order mark is not part of a text
    (tmp_path / "a.txt").write_text(f"{SENTENCES[0]}\n", encoding="utf-8-sig")
    (tmp_path / "b.txt").write_text(SENTENCES[1], encoding="utf-8")
    (tmp_path / "random.txt").write_text("river euros asked Monday flood", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_tables_and_report(run, workplace):
    output, _ = run("compare-lms", "a.txt", "b.txt", "--models", *KINDS, "--seed", "3", "--output", "report.json")
    report = json.loads((workplace / "report.json").read_text(encoding="utf-8"))
    texts = [("a.txt", SENTENCES[0]), ("b.txt", SENTENCES[1])]
    models = [load_language_model(kind) for kind in KINDS]
    assert report == compare_language_models(models, texts, seed=3)
    tables = output.split("\n\n")
    assert tables[::2] == [
        "masked (masked language model, first tokens not judged)",
        "causal (causal language model)",
        "permutation (permutation language model, first tokens not judged)",
    ]
    for table, compared in zip(tables[1::2], report["models"], strict=True):
        lines = table.strip().splitlines()
        assert cells(lines[0]) == ["Percentile", "Text", "Recall", "Detection", "Accuracy"]
        # line 1 is the rule below the heading
        rows = [cells(line) for line in lines[2:]]
        assert [row[0] for row in rows] == ["90%", "", "", "95%", "", "", "99%", "", ""]
        for row, figures in zip(rows, compared["rows"], strict=True):
            percentages = [percentage(figures[measure]) for measure in ("recall", "detection", "accuracy")]
            assert row[1:] == [figures["text"]] + percentages


def cells(row: str) -> list[str]:
    """The cells of a row of a Markdown table."""
    return [cell.strip() for cell in row.strip("|").split("|")]


def percentage(value: float | None) -> str:
    """A measure as tables show it."""
    return "-" if value is None else f"{value:.1f}%"


def test_random_text_and_percentiles_are_the_users(run, workplace):
    flags = ("--models", "causal", "--random_text", "random.txt", "--percentiles", "50", "99.5")
    output, _ = run("compare-lms", "a.txt", *flags)
    models, texts = [load_language_model("causal")], [("a.txt", SENTENCES[0])]
    expected = compare_language_models(models, texts, [50, 99.5], "river euros asked Monday flood")
    shown = re.findall(r"random words +\| +- \| +([\d.]+)%", output)
    rows = [row for row in expected["models"][0]["rows"] if row["text"] == "random words"]
    assert shown == [f"{row['detection']:.1f}" for row in rows]
    assert "| 99.5%      |" in output


CASES_OF_REFUSED_TEXTS = [
    (["a.txt", "nowhere.txt"], "No such file or directory: 'nowhere.txt'"),
    (["a.txt", "latin.txt"], r"latin.txt: cannot be read: .utf-8. codec"),
    (["a.txt", "blank.txt"], "blank.txt is blank: give a text to judge"),
    (["a.txt", "--random_text", "nowhere.txt"], "No such file or directory: 'nowhere.txt'"),
    (["a.txt", "--output", "nowhere/report.json"], "--output nowhere/report.json: must be a file in an existing"),
]


@pytest.mark.parametrize(("argv", "message"), CASES_OF_REFUSED_TEXTS)
def test_what_cannot_work_is_told_before_a_model_is_loaded(refusal, workplace, argv, message):
    (workplace / "latin.txt").write_bytes("café".encode("latin-1"))
    (workplace / "blank.txt").write_text(" \n", encoding="utf-8")
    # checking the model first would report that it does not exist
    assert re.search(message, refusal("compare-lms", *argv, "--models", "nowhere"))
