"""`hf-summ serve` in processes of its own: readiness, workers that end, signals; and what it refuses."""

import concurrent.futures
import logging
import os
import re
import shlex
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from transformers.utils.logging import enable_progress_bar

from hf_summ.cli import main
from tests.cli.conftest import start
from tests.conftest import SENTENCES, first
from tests.serving.conftest import metric, wait_until

BODY = {"inputs": SENTENCES[0], "parameters": {"num_beams": 1, "max_new_tokens": 4}}
CLIENTS = 16
LOGGERS = ("uvicorn", "hf_summ.serving", "asyncio")


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Restores what a service in the test's process changes: progress bars, SIGTERM and loggers."""
    handler, loggers = signal.getsignal(signal.SIGTERM), [logging.getLogger(name) for name in LOGGERS]
    yield
    enable_progress_bar()
    signal.signal(signal.SIGTERM, handler)
    for logger in loggers:
        logger.handlers[:], logger.filters[:], logger.propagate = [], [], True


def ready(process) -> str:
    """The URL of a service that says that it is ready."""
    for line in process.stderr:
        if line.startswith("hf-summ: ready: "):
            return line.removeprefix("hf-summ: ready: ").strip()
    raise AssertionError(process.wait())


def children(pid: int) -> list[int]:
    """The workers of a process."""
    pids = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
    found = [int(one) for one in pids]
    # the spawning of processes has a helper
    return [one for one in found if "spawn_main" in Path(f"/proc/{one}/cmdline").read_text(encoding="utf-8")]


def statuses_until_ready(address: str, workers: int) -> set[int]:
    """The statuses of requests that are sent until this number of workers is ready."""
    statuses: set[int] = set()
    while metric(address, "ready_workers") != workers:
        # each on its own connection
        statuses.add(httpx.post(address, json=BODY, timeout=60).status_code)
        time.sleep(0.1)
    return statuses


def post_until_it_ends(address: str, statuses: list[int], has_begun: threading.Barrier) -> None:
    """Send requests on a kept connection until the server closes it."""
    with httpx.Client(base_url=address, timeout=60) as client, suppress(httpx.TransportError):
        while True:
            statuses.append(client.post("/", json=BODY).status_code)
            if len(statuses) == 1:
                has_begun.wait(60)


@pytest.mark.thorough
def test_workers_that_are_killed_are_replaced_and_sigterm_loses_no_request(workplace):
    process = start("serve", "--model", "model", "--port", "0", "--workers", "2", cwd=workplace)
    lines: list[str] = []
    try:
        address = ready(process)
        reader = threading.Thread(target=lambda: lines.extend(process.stderr))
        reader.start()
        early = statuses_until_ready(address, 2)
        first, second = children(process.pid)
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: metric(address, "ready_workers") == 1)
        # one of them answers while the other one is loading
        assert early | statuses_until_ready(address, 2) <= {200}
        assert second in children(process.pid)
        for worker in children(process.pid):
            os.kill(worker, signal.SIGKILL)
        # waits for a worker, but for the time until the supervisor has noticed
        time.sleep(2)
        assert httpx.post(address, json=BODY, timeout=300).status_code == 200
        wait_until(lambda: metric(address, "ready_workers") == 2, seconds=300)
        assert kept_seconds(address) < 0.03
        statuses: list[list[int]] = [[] for _ in range(CLIENTS)]
        has_begun = threading.Barrier(CLIENTS + 1)
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            for own in statuses:
                pool.submit(post_until_it_ends, address, own, has_begun)
            has_begun.wait(60)
            # a sum over both
            assert metric(address, 'requests_total{status="200"}') >= CLIENTS
            process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
    reader.join()
    # those that were accepted have been answered, and no others
    assert {status for own in statuses for status in own} == {200}
    # each line names its worker, and no bar shows how weights are loaded
    log = "".join(lines)
    assert re.search(rf' \[{second}\] 127\.0\.0\.1:\d+ - "POST / HTTP/1.1" 200\n', log)
    assert f"worker {first} has exited (-9): a new one replaces it\n" in log
    assert not re.search("Loading weights|Traceback|Cancel", log)


def kept_seconds(address: str) -> float:
    """The median time of an answer on a kept connection (Kludex/uvicorn#3149, kserve/kserve#6050: 40 ms late)."""
    with httpx.Client(base_url=address) as client:
        seconds = [client.get("/health").elapsed.total_seconds() for _ in range(30)]
    return statistics.median(seconds)


@pytest.mark.thorough
def test_sigterm_is_no_failure_of_one_process(workplace, capfd, caplog):
    def ask_and_end():
        wait_until(lambda: "ready: " in told(), seconds=300)
        # longer than the model reads
        body = {**BODY, "inputs": " ".join(SENTENCES * 20)}
        answered.append(httpx.post(texts[-1].rpartition("ready: ")[2].strip(), json=body, timeout=60).status_code)
        # on an address of this machine alone, as a page of another site would ask
        address = texts[-1].rpartition("ready: ")[2].strip()
        answered.append(httpx.get(f"{address}/info", headers={"Host": "evil.example"}).status_code)
        answered.append(kept_seconds(address) < 0.03)
        os.kill(os.getpid(), signal.SIGTERM)

    def told() -> str:
        texts.append(capfd.readouterr().err)
        return texts[-1]

    answered, texts = [], []
    client = threading.Thread(target=ask_and_end)
    client.start()
    with pytest.raises(SystemExit) as end:
        main(["serve", "--model", "model", "--port", "0"])
    client.join(60)
    told()
    assert (end.value.code, answered) == (0, [200, 400, True])
    assert re.search(rf' \[{os.getpid()}\] 127\.0\.0\.1:\d+ - "POST / HTTP/1.1" 200\n', texts[-1])
    assert "Loading weights" not in "".join(texts)
    # of which there would be one a request
    assert not [record for record in caplog.records if record.name.startswith("hf_summ")]


def test_bad_input_is_refused(workplace, refusal):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert refusal("serve", "--model", "model", "--port", port) == (
            f"--port {port}: cannot listen on 127.0.0.1: Address already in use; name another port or --host"
        )
    (workplace / "key").write_text(" \n")
    for flags, message in (
        ("--host 192.0.2.1", "--port 0: cannot listen on 192.0.2.1: "),
        ("--port 65536", "--port 65536: must be at most 65535"),
        ("--workers 0", "--workers 0: must be at least 1"),
        ("--limit_queue 0", "--limit_queue 0: must be at least 1"),
        ("--num_beams 0", "--num_beams 0: must be at least 1"),
        ("--num_beams 5 --limit_num_beams 4", "--limit_num_beams 4: --num_beams is 5 by default: raise the limit, or"),
        ("--api_key_file none", "[Errno 2] No such file or directory: 'none'"),
        ("--api_key_file key", "--api_key_file key: is blank; write a key into it"),
    ):
        assert refusal("serve", "--model", "model", "--port", "0", *flags.split()).startswith(message)


def test_handlers_of_others_are_left_open(workplace, refusal):
    closed = []

    class Handler(logging.Handler):
        def close(self):
            closed.append(self)
            super().close()

    handler = Handler()
    refusal("serve", "--model", "none", "--port", "0")
    assert closed == []
    handler.close()


@pytest.mark.thorough
def test_a_model_that_workers_cannot_load_ends_the_service(workplace):
    process = start("serve", "--model", "none", "--port", "0", "--workers", "2", cwd=workplace)
    _, errors = process.communicate(timeout=300)
    assert (process.returncode, "Traceback" in errors) == (2, False)
    assert "hf-summ: error: --model none: cannot be loaded: " in errors


SHORT = """
import sys
from transformers import pipeline
import hf_summ
from hf_summ.serving import Limits
from hf_summ.serving.server import bind, serve

class Short:
    def __init__(self):
        self.summarizer = pipeline("summarization", model="model")

    def __getattr__(self, name):
        return getattr(self.summarizer, name)

    def __call__(self, documents, **settings):
        return [] if "bad" in documents else self.summarizer(documents, **settings)

if __name__ == "__main__":
    serve(Short, Limits(), bind("127.0.0.1", 0), int(sys.argv[1]))
"""


@pytest.mark.thorough
@pytest.mark.parametrize("workers", first([1, 2]))
def test_the_end_of_a_decoding_thread_ends_its_process(workplace, workers):
    """A pipeline without a result for a document is a fault that no request explains."""
    (workplace / "short.py").write_text(SHORT)
    command = [sys.executable, "short.py", str(workers)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        address = ready(process)
        lost = httpx.post(address, json={"inputs": "bad"}, timeout=60)
        assert (lost.status_code, lost.json()["error"]) == (503, "the service is shutting down: try again later")
        if workers == 1:
            assert process.wait(60) == 1
            assert "the decoding thread has ended, and the process with it: zip() argument" in process.stderr.read()
        else:
            ready(process)
            assert httpx.post(address, json=BODY, timeout=300).status_code == 200
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.thorough
def test_idle_connections_do_not_flood_the_log(workplace):
    """academy-agents/academy#386: asyncio logs that it cannot accept a connection thousands of times a second."""
    command = f"ulimit -n 128; exec {shlex.quote(sys.executable)} -m hf_summ serve --model model --port 0"
    process = subprocess.Popen(["bash", "-c", command], stderr=subprocess.PIPE, text=True)
    lines: list[str] = []
    try:
        address = urlsplit(ready(process))
        reader = threading.Thread(target=lambda: lines.extend(process.stderr))
        reader.start()
        clients = [socket.create_connection((address.hostname, address.port)) for _ in range(150)]
        wait_until(lambda: any("out of system resource" in line for line in lines))
        time.sleep(3)
        for client in clients:
            client.close()
        assert httpx.get(f"{address.geturl()}/health", timeout=60).status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
    reader.join()
    assert 1 < len([line for line in lines if "out of system resource" in line]) < 8


def test_a_missing_extra_is_named(workplace, refusal, monkeypatch):
    monkeypatch.delitem(sys.modules, "hf_summ.serving.server", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert refusal("serve", "--model", "model") == "`hf-summ serve` needs uvicorn: pip install 'hf-summ[serve]'"
