"""`hf-summ serve` in new processes: readiness, workers that end, signals; and what it refuses."""

import concurrent.futures
import os
import signal
import socket
import statistics
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.cli.conftest import start
from tests.conftest import SENTENCES

BODY = {"inputs": SENTENCES[0], "parameters": {"num_beams": 1, "max_new_tokens": 4}}
LONG = {"inputs": SENTENCES[0], "parameters": {"num_beams": 4, "min_new_tokens": 150, "max_new_tokens": 150}}
CLIENTS = 16


def ready(process) -> str:
    """The URL of a service that says that it is ready."""
    for line in process.stderr:
        if line.startswith("hf-summ: ready: "):
            return line.removeprefix("hf-summ: ready: ").strip()
    raise AssertionError(process.wait())


def lines_until(lines: Iterable[str], text: str) -> Iterator[str]:
    """The lines up to the one that has a text."""
    for line in lines:
        yield line
        if text in line:
            return


def children(pid: int) -> list[int]:
    """The workers of a process."""
    child_pids = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
    workers = []
    for child_pid in child_pids:
        # Python's helper of spawned processes is a child too
        if "spawn_main" in Path(f"/proc/{child_pid}/cmdline").read_text(encoding="utf-8"):
            workers.append(int(child_pid))
    return workers


def kept_seconds(address: str) -> float:
    """The median time of an answer on a kept connection (Kludex/uvicorn#3149, kserve/kserve#6050: 40 ms late)."""
    with httpx.Client(base_url=address) as client:
        seconds = [client.get("/health").elapsed.total_seconds() for _ in range(30)]
    return statistics.median(seconds)


@pytest.mark.thorough
@pytest.mark.parametrize("workers", [1, 2])
def test_sigterm_loses_no_request(workplace, workers):
    flags = ["--workers", str(workers), "--drain_seconds", "120"]
    process = start("serve", "--model", "model", "--port", "0", *flags, cwd=workplace)
    clients = [httpx.Client(timeout=150) for _ in range(CLIENTS)]
    try:
        address = ready(process)
        for _ in range(1, workers):
            assert ready(process) == address
        assert kept_seconds(address) < 0.03
        # a page of another site could send this to an address of this machine
        assert httpx.get(f"{address}/info", headers={"Host": "evil.example"}).status_code == 400
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            # each connection has a worker
            health = [pool.submit(client.get, f"{address}/health") for client in clients]
            assert {answer.result().status_code for answer in health} == {200}
            answers = [pool.submit(client.post, address, json=LONG) for client in clients]
            time.sleep(0.2)
            assert not all(answer.done() for answer in answers)
            process.send_signal(signal.SIGTERM)
            assert {answer.result().status_code for answer in answers} == {200}
        _, errors = process.communicate(timeout=150)
    finally:
        process.kill()
        process.wait()
        for client in clients:
            client.close()
    # uvicorn without our code does the same: one process ends by the signal, several by themselves
    if workers == 1:
        assert process.returncode == -signal.SIGTERM
    else:
        assert process.returncode == 0
    assert "Traceback" not in errors


@pytest.mark.thorough
def test_a_worker_that_is_killed_is_replaced(workplace):
    process = start("serve", "--model", "model", "--port", "0", "--workers", "2", cwd=workplace)
    try:
        address = ready(process)
        ready(process)
        killed, remaining = children(process.pid)
        os.kill(killed, signal.SIGKILL)
        # the remaining worker answers while a new one is loading
        assert httpx.post(address, json=BODY, timeout=60).status_code == 200
        assert ready(process) == address
        workers = children(process.pid)
        assert len(workers) == 2
        assert killed not in workers
        assert remaining in workers
        assert httpx.post(address, json=BODY, timeout=60).status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.thorough
def test_workers_never_have_two_models(workplace):
    process = start("serve", "--model", "model", "--port", "0", "--workers", "2", cwd=workplace)
    try:
        address = ready(process)
        ready(process)
        model = workplace / "model"
        model.rename(workplace / "aside")
        first, second = children(process.pid)
        os.kill(first, signal.SIGKILL)
        lines = "".join(lines_until(process.stderr, "hf-summ: 1 of 2 workers answer"))
        assert "hf-summ: error: --model model: cannot be loaded: " in lines
        # the second worker goes on
        assert children(process.pid) == [second]
        assert httpx.post(address, json=BODY, timeout=60).status_code == 200
        # when no worker is left, new ones are started at once, which find another model
        (workplace / "aside").rename(model)
        (model / "generation_config.json").write_text("{}", encoding="utf-8")
        os.kill(second, signal.SIGKILL)
        _, errors = process.communicate(timeout=300)
        assert "hf-summ: error: --model model: has changed since the service began" in errors
        assert process.returncode == 2
        assert "hf-summ: ready" not in errors
        assert "Traceback" not in errors
    finally:
        process.kill()
        process.wait()


CASES_OF_BAD_INPUT = [
    ("--host 192.0.2.1", "--port 0: cannot listen on 192.0.2.1: "),
    ("--port 65536", "--port 65536: must be at most 65535"),
    ("--workers 0", "--workers 0: must be at least 1"),
    ("--limit_queue 0", "--limit_queue 0: must be at least 1"),
    ("--num_beams 0", "--num_beams 0: must be at least 1"),
    ("--num_beams 2 --limit_beam_tokens 1", "--limit_beam_tokens 1: the default is 2 beams × "),
    ("--api_key_file none", "[Errno 2] No such file or directory: 'none'"),
    ("--api_key_file key", "--api_key_file key: is blank; write a key into it"),
]


def test_bad_input_is_refused(workplace, refusal):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        message = refusal("serve", "--model", "model", "--port", port)
    reason = "cannot listen on 127.0.0.1: Address already in use; name another port or --host"
    assert message == f"--port {port}: {reason}"
    (workplace / "key").write_text(" \n")
    for flags, message in CASES_OF_BAD_INPUT:
        assert refusal("serve", "--model", "model", "--port", "0", *flags.split()).startswith(message)


@pytest.mark.thorough
def test_a_model_that_workers_cannot_load_ends_the_service(workplace):
    process = start("serve", "--model", "none", "--port", "0", "--workers", "2", cwd=workplace)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 2
    assert "Traceback" not in errors
    assert "hf-summ: error: --model none: cannot be loaded: " in errors


def test_a_missing_extra_is_named(workplace, refusal, monkeypatch):
    monkeypatch.delitem(sys.modules, "hf_summ.serving.server", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert refusal("serve", "--model", "model") == "`hf-summ serve` needs uvicorn: pip install 'hf-summ[serve]'"
