"""The same shards in this process and in several, and what is left when processes are killed."""

import dataclasses
import multiprocessing
import os
import signal
import subprocess
import time
from functools import partial
from pathlib import Path

import pytest

from hf_summ.cli import main
from hf_summ.offline import Outcome
from hf_summ.offline.engines import in_processes, in_this_process
from hf_summ.offline.run import run_plan
from tests.cli.conftest import start
from tests.conftest import SENTENCES
from tests.data.files import json_lines, write
from tests.offline.conftest import ROWS, plan, rows_of, rows_with, work


@pytest.mark.thorough
def test_a_killed_process_ends_the_run_which_resumes(mortal):
    rows = rows_with("deadly", 25)
    job, whole = plan(mortal, "out", rows), plan(mortal, "whole", rows)
    counted: list[int] = []

    def run(number: int) -> Outcome:
        engine = partial(in_processes, work(mortal, is_mortal=True), job, processes=number)
        return run_plan(job, {}, lambda done, _: engine(done, counted.append))

    with pytest.raises(ValueError, match="a process ended before its rows were summarized: if memory was too"):
        run(1)
    assert (counted, job.done()) == ([10, 10], {0, 1})
    # what killed it is gone, and two processes write the same as this one
    assert (run(2).rows, counted) == (20, [10] * 4)
    assert run_plan(whole, {}, partial(in_this_process, work(mortal), whole)).rows == 40
    assert rows_of(mortal / "out") == rows_of(mortal / "whole")
    assert [row["id"] for row in rows_of(mortal / "out")] == list(range(40))


@pytest.mark.thorough
def test_an_error_of_a_process_is_an_error_of_the_run(mortal):
    job = plan(mortal, "out", ROWS)
    broken = dataclasses.replace(work(mortal), settings={"max_new_tokens": 0})
    with pytest.raises(ValueError, match=r"none of 10 rows can be summarized: .*`max_new_tokens` is 0"):
        run_plan(job, {}, partial(in_processes, broken, job, processes=2))


@pytest.mark.thorough
def test_an_interrupted_run_does_not_wait_for_begun_shards(mortal):
    job = plan(mortal, "out", rows_with("endless", 15))
    engine = partial(in_processes, work(mortal, is_mortal=True), job, processes=2)
    interrupted = []

    def interrupt(rows: int) -> None:
        interrupted.append(time.monotonic())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_plan(job, {}, lambda done, _: engine(done, interrupt))
    assert time.monotonic() - interrupted[0] < 20
    assert multiprocessing.active_children() == []
    # without the shard of the endless text
    assert {0} <= job.done() <= {0, 2, 3}


def children(process: int) -> list[int]:
    """The ids of a process's children."""
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def wait_for_end_of(processes: list[int]) -> None:
    """Fails if a process still runs after ten seconds: those that watch the others end last."""
    for _ in range(200):
        running = [process for process in processes if is_running(process)]
        if not running:
            return
        time.sleep(0.05)
    pytest.fail(f"{running} are still running")


def is_running(process: int) -> bool:
    # Ray, which another test uses, makes this process the parent of ended workers, which then stay as zombies
    status = Path(f"/proc/{process}/status")
    return status.exists() and "State:\tZ" not in status.read_text()


FLAGS = ("--output", "out", "--model", "bart", "--max_new_tokens", "1", "--num_beams", "1", "--device", "cpu")
COMMAND = ("summarize", "rows.jsonl", *FLAGS, "--rows_per_shard", "50", "--batch_size", "50")


def start_command(folder: Path) -> subprocess.Popen:
    """Start a command of two processes on 4,000 rows, and wait for its first shard."""
    rows = [{"id": index, "text": SENTENCES[index % 5]} for index in range(4000)]
    write(folder / "rows.jsonl", json_lines(rows))
    process = start(*COMMAND, "--num_processes", "2", cwd=folder)
    while not list(Path("out").glob("shard-*")):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    return process


@pytest.mark.thorough
def test_killed_command_goes_on_and_leaves_no_processes(mortal, capsys):
    process = start_command(mortal)
    workers = children(process.pid)
    process.kill()
    process.communicate()
    before = {path: path.stat().st_mtime_ns for path in Path("out").glob("shard-*")}
    assert len(workers) >= 2
    assert 0 < len(before) < 80
    assert main(list(COMMAND)) == 0
    assert f"{4000 - 50 * len(before):,} rows summarized: 80 shards" in capsys.readouterr().err
    assert [row["id"] for row in rows_of(mortal / "out")] == list(range(4000))
    assert {path: path.stat().st_mtime_ns for path in before} == before
    wait_for_end_of(workers)


@pytest.mark.thorough
def test_a_command_whose_process_is_killed_ends_with_one_line(mortal):
    process = start_command(mortal)
    workers = children(process.pid)
    # the first child watches the others' semaphores
    os.kill(workers[-1], signal.SIGKILL)
    _, errors = process.communicate()
    assert process.returncode == 2
    last_line = errors.splitlines()[-1]
    message = last_line.partition(": if memory")[0]
    assert message == "hf-summ: error: a process ended before its rows were summarized"
    wait_for_end_of(workers)
