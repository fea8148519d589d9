"""The judge of hostile inputs and the runner of cases."""

import os
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest
from transformers import GenerationConfig

import hf_summ
from hf_summ.data import fit_vocabulary, split_sentences
from hf_summ.evaluation import rouge
from tests.torture import areas, journal, running
from tests.torture.cases import Case, Held, Ignored, Name, Refused
from tests.torture.checks import scores_problem, texts_problem, untouched
from tests.torture.commands import command
from tests.torture.judge import Outcome, Verdict, judge
from tests.torture.table import table, write


def verdict(attempt, problem=lambda result: None, **settings) -> Verdict:
    return judge(Case("a case", attempt, problem, **settings), seconds=0.3).verdict


def raised(error: Exception):
    def attempt():
        raise error

    return attempt


def test_result_that_passes_the_checks_is_sensible():
    assert verdict(lambda: [12.5, 100.0], scores_problem) is Verdict.SENSIBLE


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        ([float("nan")], scores_problem),
        ([101.0], scores_problem),
        (["a"], lambda texts: texts_problem(texts, 2)),
        (["a", None], lambda texts: texts_problem(texts, 2)),
        # a failing check means that the result is wrong
        (None, lambda texts: texts["summary"]),
    ],
)
def test_result_that_does_not_pass_is_wrong(result, problem):
    assert verdict(lambda: result, problem) is Verdict.WRONG


@pytest.mark.parametrize("ends", [lambda: "done", raised(ValueError("no"))])
def test_file_that_is_changed_is_wrong_whatever_came_of_it(tmp_path, ends):
    file = tmp_path / "train.jsonl"
    file.write_text("{}\n")
    after = untouched(tmp_path)

    def attempt():
        file.write_text("")
        return ends()

    assert verdict(attempt, after=after) is Verdict.WRONG
    file.write_text("{}\n")
    assert after() is None
    (tmp_path / "more").write_text("")
    assert after() == "changed: more"


@pytest.mark.parametrize(
    "attempt",
    [
        lambda: rouge(["a"], ["a", "b"]),
        lambda: split_sentences(None),
        lambda: fit_vocabulary([], vocab_size=5),
        lambda: command("evaluate", "--predictions", "missing.txt"),
        # from argparse
        lambda: command("evaluate", "--nothing"),
        lambda: command("evaluate", "--predictions", "a", "--resamples", "many"),
    ],
)
def test_error_of_ours_is_clear(attempt):
    assert verdict(attempt) is Verdict.CLEAR


@pytest.mark.parametrize(
    "attempt",
    [
        raised(ValueError("of the right type, but from elsewhere")),
        raised(KeyError("a")),
        raised(RuntimeError("a library's")),
        lambda: None.text,
        lambda: sys.exit(2),
        lambda: sys.exit("a message"),
    ],
)
def test_other_errors_are_deep(attempt):
    assert verdict(attempt) is Verdict.DEEP


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("raise ValueError('a line')", Verdict.CLEAR),
        ("raise FileNotFoundError('a line') from None", Verdict.CLEAR),
        ("raise ValueError('two\\nlines')", Verdict.DEEP),
        ("raise ValueError", Verdict.DEEP),
        ("raise KeyError('a line')", Verdict.DEEP),
        # not raised by `raise`, so not designed
        ("int('x')", Verdict.DEEP),
        ("len(None)", Verdict.DEEP),
        ("None < 1", Verdict.DEEP),
    ],
)
def test_line_of_the_package_decides(line, expected):
    code = compile(line, str(Path(hf_summ.__file__).parent / "made_up.py"), "exec")
    assert verdict(lambda: exec(code, {})) is expected


def test_check_of_transformers_is_clear_only_if_it_names_the_setting():
    def attempt():
        GenerationConfig(early_stopping="sometimes").validate()

    assert verdict(attempt, named=["early_stopping"]) is Verdict.CLEAR
    assert verdict(attempt, named=["num_beams"]) is Verdict.DEEP


def test_refusal_in_another_way_is_clear_if_it_is_a_line():
    assert verdict(raised(Refused("the body is not JSON"))) is Verdict.CLEAR
    assert verdict(raised(Refused(""))) is Verdict.DEEP
    assert verdict(raised(Refused("Traceback\n  of a server"))) is Verdict.DEEP


def test_endless_loop_is_held():
    def attempt():
        while True:
            try:
                sum(range(1000))
            except Exception:
                continue

    outcome = judge(Case("a loop", attempt), seconds=0.2)
    assert (outcome.verdict, outcome.is_bad) == (Verdict.HELD, True)
    assert "more than 0.2 s" in outcome.told


def test_problem_of_time_is_held():
    assert verdict(lambda: None, lambda result: Held("3 requests are decoded without a client")) is Verdict.HELD


def test_setting_without_effect_is_ignored():
    assert verdict(lambda: None, lambda result: Ignored("--seed 3")) is Verdict.IGNORED


def test_process_that_ends_is_deep_and_the_others_are_tried(monkeypatch, capfd):
    def make(draw, shop, folder):
        kind = draw.randrange(3)
        return Case(f"kind {kind}", lambda: os.kill(os.getpid(), signal.SIGKILL) if kind == 0 else kind)

    monkeypatch.setitem(areas.AREAS, "killers", make)
    monkeypatch.setattr(running, "_PER_CHILD", 5)
    names = running.names(["killers"], seed=3, number=12)
    found = list(running.run_in_children(names, shop=None))
    assert [tried.name for tried in found] == names
    expected = [Verdict.DEEP if name.draw().randrange(3) == 0 else Verdict.SENSIBLE for name in names]
    assert [tried.outcome.verdict for tried in found] == expected
    assert {*expected} == {Verdict.DEEP, Verdict.SENSIBLE}
    assert "the process ended (-9)" in {tried.outcome.told for tried in found}


def test_case_that_waits_is_held(monkeypatch):
    monkeypatch.setitem(areas.AREAS, "waiters", lambda draw, shop, folder: Case("waits", signal.pause))
    monkeypatch.setattr(running, "_PATIENCE", 0.2)
    one, other = running.run_in_children(running.names(["waiters"], 0, 2), shop=None)
    assert one.outcome == other.outcome == Outcome(Verdict.HELD, "no answer within 0.2 s")


def test_case_that_cannot_be_made_is_no_success(monkeypatch):
    monkeypatch.setitem(areas.AREAS, "broken", lambda draw, shop, folder: folder["a"])
    assert running.run(Name("broken", 0, 0), shop=None).outcome.is_bad


def test_names_are_read_back():
    assert Name.parse(str(Name("files", 3, 14))) == Name("files", 3, 14)
    with pytest.raises(ValueError, match="'files:3' is not a case: write AREA:SEED:INDEX"):
        Name.parse("files:3")
    with pytest.raises(ValueError, match="there is no area 'file': name one of texts, files, raw"):
        running.run(Name("file", 0, 0), shop=None)


def test_cases_are_dealt_out_evenly():
    names = running.names(["a", "b"], seed=4, number=5)
    assert [str(name) for name in names] == ["a:4:0", "b:4:0", "a:4:1", "b:4:1", "a:4:2"]


def test_run_goes_on_without_what_passed(tmp_path):
    file = tmp_path / "journal"
    assert journal.read(file) == journal.read(None) == {}
    tried = [
        running.Tried(Name("texts", 0, place), "a text", Outcome(verdict, "a line"), 0.25)
        for place, verdict in enumerate(Verdict)
    ]
    for each in tried:
        journal.write(file, each)
    assert journal.read(file) == {each.name: each for each in tried[:2]}
    # mended
    mended = tried[3]._replace(outcome=tried[0].outcome)
    journal.write(file, mended)
    assert journal.read(file)[mended.name] == mended


def test_table_is_written_between_the_marks(tmp_path):
    counts = Counter({("texts", Verdict.CLEAR): 1200, ("files", Verdict.WRONG): 1, ("files", Verdict.SENSIBLE): 3})
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- made by make torture -->\nold\n<!-- until here -->\nafter\n")
    for _ in range(2):
        write(page, counts, seed=7, minutes=2.4)
        text = page.read_text()
        assert text.startswith("before\n")
        assert text.endswith("after\n")
        assert "old" not in text
        assert "`make torture`, seed 7, 1,204 cases in 2 minutes of one core" in text
        assert text.count(table(counts)) == 1
    assert table(counts).splitlines()[-1].split() == "| all | 3 | 1,200 | 0 | 0 | 0 | 1 | 1,204 |".split()
    page.write_text("nothing")
    with pytest.raises(ValueError, match="has no marks between which to write"):
        write(page, counts, seed=7, minutes=2.4)
