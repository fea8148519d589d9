"""Tables from their files to their reports."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest

from hf_summ.data.sentences import split_sentences
from hf_summ.evaluation import perplexity
from hf_summ.evaluation.novelty import corpus_statistics
from hf_summ.experiments.report import latex, markdown
from hf_summ.experiments.run import run_table
from hf_summ.experiments.scoring import WAITING
from hf_summ.experiments.tables import load_table
from hf_summ.training.folder.ledger import Ledger
from tests.conftest import SENTENCES
from tests.data.files import json_lines, read_rows, write
from tests.evaluation.scores import rouge_rows
from tests.evaluation.tiny_language_models import save_language_model
from tests.experiments.made_up import TRANSFORMER, strict_json, write_data, write_table
from tests.training import tiny

# the tests of this module share a table that runs for a minute
pytestmark = pytest.mark.thorough

FLAGS = ["--max_steps=2", "--use_cpu", "--report_to", "none", "--disable_tqdm", "--max_predict_samples", "12"]
# two rows of one run that differ only in decoding
GREEDY = {"row": "greedy", "config_overrides": TRANSFORMER, "decoding": {"num_beams": 1}}
BEAMS = {"row": "beams", "config_overrides": TRANSFORMER, "decoding": {"num_beams": 2}}
FAILING = {"config_overrides": TRANSFORMER, "flags": {"learning_rates": {"nowhere": 1.0}}}
ROWS = [
    {**GREEDY, "published": [30, 20, 50, 9]},
    {**BEAMS, "published": [31, 20, 49, 8]},
    {"row": "LEAD-1", "extractive": "lead", "sentences": 1, "published": [20, 15, None, None]},
    {"row": "references", "gold": True},
    {"row": "others", "literature": "Somebody 2019", "published": [25, 18, None, None]},
    {"row": "without data", "unavailable": "its data are not public"},
    {"row": "to come", "config": "nowhere/xsum.yaml"},
]
MEASURES = ["rouge1", "rougeL", "novel4", "perplexity"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder in which the table was run; shared by the tests here, so never change it."""
    folder = tmp_path_factory.mktemp("tables")
    table = write_table(folder, measures=MEASURES, rows=ROWS, baseline="greedy", notes=["A note."])
    messages = []

    def announce(message: str) -> None:
        """Notes the message, and how many rows are still to come by the report of that moment."""
        written = folder / "made_up_tiny.md"
        to_come = None
        if written.exists():
            to_come = written.read_text(encoding="utf-8").count(WAITING)
        messages.append((message, to_come))

    report = run_table(table, "tiny", {}, FLAGS, str(folder), announce)
    (folder / "returned.json").write_text(json.dumps({"report": report, "messages": messages}))
    return folder


@pytest.fixture
def report(folder):
    return strict_json(folder / "made_up_tiny.json")


@pytest.fixture
def rows(report):
    (block,) = report["datasets"]
    return {row["row"]: row for row in block["rows"]}


def predictions(folder, beams):
    """The rows that were decoded with this number of beams."""
    for path in folder.glob("runs/*/decodings/*/predictions.jsonl"):
        if Ledger(path.parent).steps["predict"]["settings"]["num_beams"] == beams:
            return read_rows(path)
    raise AssertionError(f"no decoding has {beams} beams")


def test_report_is_returned_written_and_told(folder, report):
    returned = strict_json(folder / "returned.json")
    assert returned["report"] == report
    assert (folder / "made_up_tiny.md").read_text(encoding="utf-8") == markdown(report)
    assert (folder / "made_up_tiny.tex").read_text(encoding="utf-8") == latex(report)
    for plot in ("made_up_tiny.png", "made_up_tiny_curves.png"):
        assert (folder / plot).read_bytes().startswith(b"\x89PNG\r\n")
    message, to_come = returned["messages"][0]
    assert message.startswith("Somebody 2020, Table 1: Rows, scale tiny, in ")
    assert to_come is None
    assert [row["row"] for row in report["datasets"][0]["rows"]] == [row["row"] for row in ROWS]
    assert not list(folder.rglob(".*.part"))


def test_report_is_written_as_rows_come_in(folder):
    messages = strict_json(folder / "returned.json")["messages"]
    # two rows are runs, and the second of them needs no training
    rows_to_come = [to_come for message, to_come in messages if re.match(r"\[\d/2\]", message)]
    assert rows_to_come == [2, 1]
    texts = [message for message, _ in messages]
    assert texts.count("scoring LEAD-1 on xsum") == 1


def test_rows_that_differ_in_decoding_are_one_training(folder, rows):
    greedy, beams = rows["greedy"], rows["beams"]
    (results,) = folder.glob("runs/*/train_results.json")
    run = results.parent
    assert run.name == greedy["run"] == beams["run"]
    assert len(list(run.glob("decodings/*/predict_results.json"))) == 2
    for row in (greedy, beams):
        facts = {name: row[name] for name in ("updates", "seed", "failed", "problem")}
        assert facts == {"updates": 2, "seed": 42, "failed": False, "problem": None}
        assert row["parameters"] > 10_000
        assert row["documents_per_second"] > 0
        ((update, nll),) = row["curve"]
        assert update == 2
        assert 3 < nll < 9
    assert greedy["tokens"] == beams["tokens"] < 2 * 1024
    assert 0 < greedy["seconds"] < 60


@pytest.mark.parametrize(("row", "beams"), [("greedy", 1), ("beams", 2)])
def test_trained_rows_have_the_scores_of_their_summaries(folder, report, rows, row, beams):
    written = predictions(folder, beams)
    assert report["datasets"][0]["documents"] == len(written) == 12
    scores = rouge_rows(
        [entry["prediction"] for entry in written],
        [entry["summary"] for entry in written],
        rouge_types=["rouge1", "rougeL"],
    )
    cells = rows[row]["measures"]
    for measure, values in scores.items():
        assert cells[measure]["value"] == pytest.approx(values.fmeasure.mean())
        assert cells[measure]["low"] <= cells[measure]["value"] <= cells[measure]["high"]
    sums = np.array([[entry["nll"], entry["tokens"]] for entry in written]).sum(0)
    assert cells["perplexity"]["value"] == pytest.approx(float(perplexity(sums)))


def test_differences_are_to_the_baseline(rows):
    assert "difference" not in rows["greedy"]["measures"]["rouge1"]
    for row in ("beams", "LEAD-1", "references"):
        cell = rows[row]["measures"]["rouge1"]
        expected = cell["value"] - rows["greedy"]["measures"]["rouge1"]["value"]
        assert cell["difference"]["value"] == pytest.approx(expected)
    # the decoding changes no loss
    assert rows["beams"]["measures"]["perplexity"]["difference"]["value"] == 0
    # its published score is below the baseline's, which is not judged after so short a training
    lead = rows["LEAD-1"]["measures"]["rouge1"]
    assert lead["published_difference"] == -10
    assert lead["verdict"] is None


def test_untrained_rows_are_scored_on_the_same_documents(folder, rows):
    assert rows["references"]["measures"]["rouge1"]["value"] == pytest.approx(100)
    assert rows["references"]["measures"]["perplexity"]["value"] is None
    written = [entry["summary"] for entry in predictions(folder, 1)]
    test = read_rows(next(folder.glob("toy_news/*-*")) / "test.jsonl")
    assert written == [entry["summary"] for entry in test[:12]]
    lead = [split_sentences(entry["document"])[0] for entry in test[:12]]
    expected = rouge_rows(lead, written, rouge_types=["rouge1"])["rouge1"].fmeasure.mean()
    assert rows["LEAD-1"]["measures"]["rouge1"]["value"] == pytest.approx(expected)


def test_failed_run_is_told_in_one_line_and_not_tried_for_every_row(tmp_path):
    rows = [{"row": "failing", **FAILING}, {"row": "failing with beams", **FAILING, "decoding": {"num_beams": 2}}]
    folder = tmp_path / "out"
    (block,) = run_table(write_table(tmp_path, rows=rows), "tiny", {}, FLAGS, str(folder))["datasets"]
    failed = {row["row"]: row["problem"] for row in block["rows"] if row["failed"]}
    assert list(failed) == ["failing", "failing with beams"]
    assert failed["failing"] == failed["failing with beams"]
    assert failed["failing"].startswith("--learning_rates: 'nowhere' matches no trainable parameter")
    (run,) = folder.glob("runs/*")
    assert not (run / "train_results.json").exists()
    assert (run / "log.txt").read_text(encoding="utf-8").count("error: ") == 1


def test_row_is_trained_with_each_seed_and_reported_once(tmp_path):
    rows = [{"row": "LEAD-1", "extractive": "lead"}, {**GREEDY, "above": ["LEAD-1"]}]
    table = write_table(tmp_path, rows=rows, seeds=[1, 2])
    run_table(table, "tiny", {}, FLAGS, str(tmp_path / "out"))
    (block,) = strict_json(tmp_path / "out" / "made_up_tiny.json")["datasets"]
    lead, trained = block["rows"]
    assert trained["seeds"] == [1, 2]
    assert trained["problem"] is None
    assert "seeds" not in lead
    cell = trained["measures"]["rouge1"]
    assert cell["value"] == pytest.approx(sum(cell["seeds"]) / 2)
    difference = block["claims"][0]["measures"]["rouge1"]["difference"]["value"]
    assert difference == pytest.approx(cell["value"] - lead["measures"]["rouge1"]["value"])


def test_second_table_takes_the_runs_of_the_first(folder, rows, tmp_path, monkeypatch):
    def refuse(*arguments, **settings):
        raise AssertionError("a process is started")

    table = write_table(tmp_path, name="other", measures=MEASURES, rows=[BEAMS, {**GREEDY, "row": "again"}])
    monkeypatch.setattr(subprocess, "Popen", refuse)
    (block,) = run_table(table, "tiny", {}, FLAGS, str(folder))["datasets"]
    again = {row["row"]: row for row in block["rows"]}
    first_rows = {"beams": rows["beams"], "again": rows["greedy"]}
    for name, first_row in first_rows.items():
        assert again[name]["run"] == first_row["run"]
        assert again[name]["measures"]["rougeL"]["value"] == first_row["measures"]["rougeL"]["value"]
    assert strict_json(folder / "other_tiny.json")["datasets"] == [block]


def untrained(folder, **changes):
    """A table of an extract and the references, which needs no process."""
    rows = [{"row": "LEAD-1", "extractive": "lead", "sentences": 1}, {"row": "references", "gold": True}]
    entries = {"rows": rows, **changes}
    return write_table(folder, **entries)


def test_users_data_stand_for_a_data_set(tmp_path):
    data = write_data(tmp_path / "news")
    datasets = {"cnn_dailymail": "gdlf/cnn_dailymail.yaml", "xsum": "gdlf/xsum.yaml"}
    lead = {"row": "LEAD-1", "extractive": "lead", "sentences": 1}
    lead["published"] = {name: [20, 15] for name in datasets}
    table = untrained(tmp_path, datasets=datasets, rows=[lead])
    messages = []
    (block,) = run_table(table, "small", {"xsum": str(data)}, [], str(tmp_path / "out"), messages.append)["datasets"]
    assert messages[0] == f"Somebody 2020, Table 1: Rows, scale small on xsum, in {tmp_path / 'out'}"
    assert (block["dataset"], block["data"], block["documents"]) == ("xsum", str(data), 7)
    text = (tmp_path / "out" / "made_up_small.md").read_text(encoding="utf-8")
    assert f"Ours: {data}, 7 test documents. Published: xsum. Our figures can be compared with each other, but" in text


def test_data_in_a_folder_named_like_the_data_set_are_not_the_paper_s(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_data(tmp_path / "xsum")
    lead = {"row": "LEAD-1", "extractive": "lead", "sentences": 1, "published": [20, 15]}
    table = untrained(tmp_path, rows=[lead])
    run_table(table, "full", {"xsum": "xsum"}, [], str(tmp_path))
    text = (tmp_path / "made_up_full.md").read_text(encoding="utf-8")
    assert "Ours: ./xsum, 7 test documents. Published: xsum. Our figures can be compared with each other, but" in text


def test_validation_documents_are_summarized_and_scored_if_asked_for(tmp_path):
    """A trained row then has summaries of both splits."""
    data = write_data(tmp_path / "news")
    table = write_table(tmp_path, rows=[GREEDY, {"row": "references", "gold": True}])
    counts = {}
    for split in ("test", "validation"):
        (block,) = run_table(table, "tiny", {"xsum": str(data)}, FLAGS, str(tmp_path / "out"), split=split)["datasets"]
        greedy, references = block["rows"]
        assert greedy["problem"] is None
        assert references["measures"]["rouge1"]["value"] == pytest.approx(100)
        counts[split] = block["documents"]
    assert counts == {"test": 7, "validation": 5}
    (run,) = (tmp_path / "out").glob("runs/*/")
    numbers_of_summaries = [len(read_rows(file)) for file in run.glob("decodings/*/predictions.jsonl")]
    assert sorted(numbers_of_summaries) == [5, 7]
    text = (tmp_path / "out" / "made_up_tiny_validation.md").read_text(encoding="utf-8")
    assert "5 validation documents" in text
    assert "7 test documents" in (tmp_path / "out" / "made_up_tiny.md").read_text(encoding="utf-8")


def test_head_and_tail_have_as_many_sentences_as_the_reference(tmp_path):
    sentences = [f"{name} opened bridge {number}." for number, name in enumerate(["Ana", "Ben", "Eva", "Tom"])]
    document = " ".join(sentences)
    references = [f"{sentences[0]} {sentences[3]}", sentences[1]]
    rows = [{"document": document, "summary": reference} for reference in references]
    path = write(tmp_path / "test.jsonl", json_lines(rows))
    ends = [{"row": name, "extractive": name, "sentences": "reference"} for name in ("lead", "tail")]
    table = write_table(tmp_path, rows=ends, baseline="lead")
    (block,) = run_table(table, "small", {}, ["--test_file", path], str(tmp_path))["datasets"]
    heads = [" ".join(sentences[:2]), sentences[0]]
    tails = [" ".join(sentences[2:]), sentences[3]]
    for row, summaries in zip(block["rows"], [heads, tails], strict=True):
        scores = rouge_rows(summaries, references, rouge_types=["rouge1"])["rouge1"]
        assert row["measures"]["rouge1"]["value"] == pytest.approx(scores.fmeasure.mean())
    # the title says nothing of trainings, as there were none
    assert "\nDifferences from lead, with 95% intervals" in (tmp_path / "made_up_small.md").read_text(encoding="utf-8")


def test_files_and_columns_may_be_flags(tmp_path):
    rows = [{"story": row["document"], "title": row["summary"]} for row in tiny.rows(4)]
    path = write(tmp_path / "test.jsonl", json_lines(rows))
    flags = ["--test_file", path, "--text_column=story", "--summary_column=title"]
    (block,) = run_table(untrained(tmp_path), "small", {}, flags, str(tmp_path))["datasets"]
    assert (block["data"], block["documents"]) == (path, 4)
    assert block["rows"][1]["measures"]["rouge1"]["value"] == pytest.approx(100)


def test_summaries_too_short_for_a_measure_leave_it_empty(tmp_path):
    data = write_data(tmp_path / "news")
    for split in ("train", "validation", "test"):
        row = {"document": "Ana Lopez opened the bridge.", "summary": "A bridge"}
        write(data / f"{split}.jsonl", json_lines([row] * 3))
    # a table's name may have a dot
    table = untrained(tmp_path, name="rows.v2", measures=["rouge1", "novel3"], baseline="LEAD-1")
    run_table(table, "small", {"xsum": str(data)}, [], str(tmp_path))
    (block,) = strict_json(tmp_path / "rows.v2_small.json")["datasets"]
    lead, references = block["rows"]
    assert lead["measures"]["novel3"]["value"] == 0
    cell = references["measures"]["novel3"]
    assert cell["value"] is None
    assert cell["verdict"] is None
    assert "difference" not in cell


def test_report_is_written_without_matplotlib_too(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    messages = []
    run_table(untrained(tmp_path), "tiny", {}, [], str(tmp_path), messages.append)
    assert messages[-1] == "plots need matplotlib: pip install 'hf-summ[tables]'"
    assert strict_json(tmp_path / "made_up_tiny.json")["table"] == "made_up"
    assert not list(tmp_path.glob("*.png"))


def test_rows_of_another_data_set_are_left_out(tmp_path):
    data = write_data(tmp_path / "news")
    rows = [
        {"row": "LEAD-1", "extractive": "lead", "sentences": 1, "published": {"xsum": [20, 15]}},
        {"row": "references", "gold": True, "published": {"cnn_dailymail": [100, 100]}},
    ]
    datasets = {"cnn_dailymail": "gdlf/cnn_dailymail.yaml", "xsum": "gdlf/xsum.yaml"}
    # the baseline is left out, too
    table = write_table(tmp_path, datasets=datasets, rows=rows, baseline="references")
    (block,) = run_table(table, "small", {"xsum": str(data)}, [], str(tmp_path))["datasets"]
    assert [row["row"] for row in block["rows"]] == ["LEAD-1"]
    assert block["rows"][0]["measures"]["rouge1"]["published_difference"] is None


@pytest.mark.parametrize("flags", [[], ["--streaming"]])
def test_statistics_are_those_of_all_splits(tmp_path, flags):
    data = write_data(tmp_path / "news")
    measures = ["train_pairs", "validation_pairs", "test_pairs", "pairs", "document_words", "vocabulary"]
    rows = [{"row": "news", "published": [20, None, 7, 30, 400.5, None]}]
    table = write_table(tmp_path, kind="statistics", measures=measures, rows=rows)
    (block,) = run_table(table, "small", {"xsum": str(data)}, flags, str(tmp_path))["datasets"]
    # the rows of the three splits, as `write_data` makes them
    pairs = tiny.rows(24, seed=0) + tiny.rows(5, seed=1) + tiny.rows(7, seed=2)
    expected = corpus_statistics([row["document"] for row in pairs], [row["summary"] for row in pairs])
    expected |= {"train_pairs": 24, "validation_pairs": 5, "test_pairs": 7}
    cells = block["rows"][0]["measures"]
    assert list(cells) == measures
    for name, cell in cells.items():
        assert cell["value"] == expected[name]
    assert cells["document_words"]["published"] == 400.5


def judgements(folder, model):
    """A table in which a model judges two texts and random words."""
    rows = []
    for text in ("1", "2", "3"):
        row = {"row": f"text {text}", "language_model": model, "text": text, "percentile": 50}
        rows.append({**row, "published": [80, 60, 70]})
    rows.append({"row": "a person", "literature": "Somebody 2019"})
    measures = ["recall", "detection", "accuracy"]
    return write_table(folder, kind="language_models", measures=measures, datasets={"texts": None}, rows=rows)


def test_language_models_judge_the_users_texts(tmp_path):
    table = judgements(tmp_path, "org/judge")
    models = {"org/judge": save_language_model("causal", tmp_path / "model")}
    texts = {"1": SENTENCES[0], "2": SENTENCES[1], "3": "river euros asked Monday flood"}
    for name, text in texts.items():
        (tmp_path / f"{name}.txt").write_text(text, encoding="utf-8")
    data, out = {"texts": str(tmp_path)}, str(tmp_path / "out")
    run_table(table, "small", data, [], out, language_models=models)
    (block,) = strict_json(tmp_path / "out" / "made_up_small.json")["datasets"]
    first_text, second_text, random_words, person = block["rows"]
    for row in (first_text, second_text):
        values = {name: cell["value"] for name, cell in row["measures"].items()}
        assert values["accuracy"] == pytest.approx((values["recall"] + values["detection"]) / 2)
    # nobody wrote the random words, so there is nothing to recall
    assert random_words["measures"]["recall"]["value"] is None
    assert random_words["measures"]["detection"]["value"] >= 0
    assert person["problem"] == "literature: Somebody 2019"
    # a row has the same figures without the row of the random words
    (part,) = run_table(table, "small", data, [], out, rows=["text 1"], language_models=models)["datasets"]
    assert part["rows"] == [first_text]


def test_language_models_without_texts_say_what_they_need(tmp_path):
    (block,) = run_table(judgements(tmp_path, "nowhere"), "small", {}, [], str(tmp_path))["datasets"]
    expected = "no texts: give --data texts=FOLDER with 1.txt, 2.txt, 3.txt"
    assert [row["problem"] for row in block["rows"]] == [expected] * 3 + ["literature: Somebody 2019"]


CASES_OF_FLAGS_WITHOUT_EFFECT = [("language_models", ["--num_beams", "2"]), ("statistics", ["--max_steps", "2"])]


@pytest.mark.parametrize(("kind", "flags"), CASES_OF_FLAGS_WITHOUT_EFFECT)
def test_flags_without_effect_on_a_table_are_told(tmp_path, kind, flags):
    name = {"language_models": "thesis_4_2", "statistics": "thesis_5_1"}[kind]
    with pytest.raises(ValueError, match=f"{flags[0]}: has no effect on {name}, which trains and decodes nothing"):
        run_table(name, "small", {}, flags, str(tmp_path))


def test_the_thesis_judges_the_texts_of_its_box(tmp_path):
    (block,) = run_table("thesis_4_2", "small", {}, [], str(tmp_path))["datasets"]
    problems = {row["problem"].partition(" cannot be loaded as a language model")[0] for row in block["rows"]}
    assert problems == {row.language_model for row in load_table("thesis_4_2").rows}
    assert block["data"] == "tables/box_4_1"


CASES_OF_WRONG_ARGUMENTS = [
    ({"scale": "huge"}, "`scale` is 'huge', but must be one of tiny, small, full"),
    ({"data": {"xsun": "news"}}, r"--data xsun: made_up has no such data set; did you mean xsum\?; it has xsum"),
    ({"data": {"xsum": "nowhere"}}, "nowhere: there is no train.jsonl, but there must be exactly one file"),
]


@pytest.mark.parametrize(("changes", "message"), CASES_OF_WRONG_ARGUMENTS)
def test_what_cannot_work_is_told_before_anything_starts(tmp_path, changes, message):
    output = tmp_path / "o"
    arguments = {"name": untrained(tmp_path), "scale": "tiny", "data": {}, "flags": [], "output_dir": str(output)}
    arguments |= changes
    with pytest.raises(ValueError, match=message):
        run_table(**arguments)
    assert not output.exists()
