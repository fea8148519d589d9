"""`hf-summ table` on made-up tables."""

import json
import signal
import time

import pytest
from filelock import FileLock

from hf_summ.cli import main
from hf_summ.experiments.tables import load_table, table_names
from tests.cli.conftest import start
from tests.experiments.made_up import TRANSFORMER, write_data, write_table

UNTRAINED = {"rows": [{"row": "references", "gold": True, "published": [100, 100]}]}
TWO = {"cnn_dailymail": "gdlf/cnn_dailymail.yaml", "xsum": "gdlf/xsum.yaml"}


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """A folder to work in, with a table that trains nothing, one that does, and data."""
    write_table(tmp_path, **UNTRAINED)
    write_table(tmp_path, name="two", datasets=TWO, rows=[{"row": "references", "gold": True}])
    write_data(tmp_path / "news")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_tables_are_listed(run):
    output, _ = run("table", "--list")
    lines = output.splitlines()
    assert [line.split()[0] for line in lines] == table_names()
    table = load_table("thesis_7_5")
    assert f"thesis_7_5           {table.paper}: {table.title}" in lines


def test_interrupted_table_says_how_it_goes_on(workplace, monkeypatch, capsys):
    def interrupt(*arguments, **settings):
        raise KeyboardInterrupt

    # what Ctrl-C raises while a row is trained
    monkeypatch.setattr("hf_summ.experiments.run.run_table", interrupt)
    assert main(["table", "made_up.yaml"]) == 130
    assert capsys.readouterr().err == "\nhf-summ: interrupted: rerun the command to resume where it stopped\n"


@pytest.mark.thorough
def test_report_is_printed_and_written(run, workplace):
    output, errors = run("table", "made_up.yaml", "--scale", "tiny")
    assert output == (workplace / "out" / "tables" / "made_up_tiny.md").read_text(encoding="utf-8")
    row = [line for line in output.splitlines() if line.startswith("| references")][-1]
    interval = "100.00 [100.00, 100.00]"
    assert [cell.strip() for cell in row.split("|")[2:-1]] == [interval, interval, "100", "100"]
    assert "Ours: made-up news, 40 test documents." in output
    assert errors.splitlines()[0] == "Somebody 2020, Table 1: Rows, scale tiny, in out/tables"
    assert "scoring references on xsum" in errors


# arguments, and the data sets of the report
CASES_OF_DATA_SETS = [
    (["made_up.yaml", "--data", "news"], ["xsum"]),
    (["made_up.yaml", "--data", "xsum=news"], ["xsum"]),
    (["two.yaml", "--data", "xsum=news"], ["xsum"]),
    (["two.yaml", "--data", "xsum=news", "--data=cnn_dailymail=news"], ["cnn_dailymail", "xsum"]),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("argv", "datasets"), CASES_OF_DATA_SETS)
def test_data_stand_for_data_sets(run, workplace, argv, datasets):
    run("table", *argv, "--output-dir", "reports")
    (path,) = (workplace / "reports").glob("*_small.json")
    blocks = json.loads(path.read_text(encoding="utf-8"))["datasets"]
    assert [block["dataset"] for block in blocks] == datasets
    assert {block["documents"] for block in blocks} == {7}


@pytest.mark.thorough
def test_flags_of_training_are_taken_before_and_after(run, workplace):
    output, _ = run("table", "--max_predict_samples=3", "made_up.yaml", "--scale", "tiny", "--text_column", "document")
    assert "Ours: made-up news, 3 test documents." in output


CASES_OF_REFUSED_TABLES = [
    ([], "no table: name one; --list shows them"),
    (["gdlf_44"], "unknown table gdlf_44; did you mean gdlf_4?"),
    (["two.yaml", "--data", "news"], "--data news: name what it replaces: cnn_dailymail, xsum"),
    (["made_up.yaml", "--data", "nowhere"], "nowhere: there is no train.jsonl, but there must be exactly one file"),
    (["made_up.yaml", "--max_stepps", "3"], "unknown flag --max_stepps; did you mean --max_steps?"),
    (["made_up.yaml", "--rows", "reference"], "--rows reference: made_up has no such row; did you mean references?"),
    (["made_up.yaml", "--language_model", "bert"], "--language_model bert: the table has nothing that it could"),
    (["made_up.yaml", "--num_beams", "3"], "--num_beams: has no effect on made_up, which trains and decodes nothing"),
    (["lrec_section_5_2", "--num_beams", "3"], "--num_beams: has no effect on lrec_section_5_2, which trains and"),
    (["gdlf_1", "--split", "validation"], "--split validation: has no effect on gdlf_1, which summarizes nothing"),
    (
        ["thesis_4_2", "--language_model", "gpt2=folder"],
        "--language_model gpt2: must be one of google-bert/bert-base-uncased",
    ),
    (
        ["thesis_7_10", "--scale", "tiny", "--config_overrides", "d_modle=3"],
        "--config_overrides d_modle: unknown key 'd_modle' in pointer_generator",
    ),
]


@pytest.mark.parametrize(("argv", "message"), CASES_OF_REFUSED_TABLES)
def test_what_cannot_work_is_told(refusal, workplace, argv, message):
    (workplace / "out").mkdir()
    assert refusal("table", *argv).startswith(message)
    assert not list((workplace / "out").iterdir())


def test_a_table_of_which_a_row_could_not_run_ends_with_1(capsys, workplace):
    # the language models of the row cannot be downloaded here
    assert main(["table", "thesis_4_2", "--rows", "90%, text 1"]) == 1
    line = "hf-summ: error: some rows could not be run, for reasons given in the table: 90%, text 1"
    assert line in capsys.readouterr().err


def test_rows_of_literature_are_no_error(run, workplace):
    rows = UNTRAINED["rows"] + [{"row": "others", "literature": "Somebody 2019", "published": [1, 2]}]
    write_table(workplace, name="read", rows=rows)
    output, _ = run("table", "read.yaml", "--rows", "others", "--data", "news")
    assert "- others: literature: Somebody 2019" in output
    assert "references" not in output


@pytest.mark.thorough
@pytest.mark.parametrize(("sent", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_stopped_command_stops_the_training(workplace, sent, status):
    write_table(workplace, name="long", rows=[{"row": "endless", "config_overrides": TRANSFORMER}])
    flags = ("--max_steps", "100000", "--use_cpu", "--report_to", "none")
    process = start("table", "long.yaml", "--scale", "tiny", *flags, cwd=workplace)
    while not list(workplace.glob("out/tables/runs/*/checkpoint-*")):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.1)
    process.send_signal(sent)
    process.communicate()
    assert process.returncode == status
    (lock,) = workplace.glob("out/tables/runs/*/.run.lock")
    # the lock is free
    with FileLock(lock, timeout=0):
        assert not list(workplace.glob("out/tables/runs/*/train_results.json"))
    assert "- endless: not run yet" in (workplace / "out" / "tables" / "long_tiny.md").read_text(encoding="utf-8")


@pytest.mark.thorough
def test_a_failed_run_ends_in_an_error_beside_the_whole_table(capsys, workplace):
    rows = UNTRAINED["rows"] + [{"row": "broken", "config_overrides": TRANSFORMER}]
    write_table(workplace, name="failing", rows=rows)
    assert main(["table", "failing.yaml", "--scale", "tiny", "--learning_rates", "nowhere=1"]) == 1
    output, errors = capsys.readouterr()
    assert output == (workplace / "out" / "tables" / "failing_tiny.md").read_text(encoding="utf-8")
    assert "- broken: --learning_rates: 'nowhere' matches no trainable parameter" in output
    assert "| references | 100.00" in output
    message = "hf-summ: error: some rows could not be run, for reasons given in the table: broken"
    assert errors.splitlines()[-1] == message
