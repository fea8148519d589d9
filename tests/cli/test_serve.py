"""`hf-summ serve` in processes of its own: readiness, workers that end, signals; and what it refuses."""

import concurrent.futures
import logging
import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest
from transformers.utils.logging import enable_progress_bar

from hf_summ.cli import main
from hf_summ.serving import Limits
from hf_summ.serving.server import bind, serve_with_workers
from tests.cli.conftest import start
from tests.conftest import SENTENCES
from tests.serving.conftest import metric, wait_until

BODY = {"inputs": SENTENCES[0], "parameters": {"num_beams": 1, "max_new_tokens": 4}}
CLIENTS = 16


@pytest.fixture(autouse=True)
def progress_bars() -> Iterator[None]:
    """Restores progress bars, which a service in the test's process disables."""
    yield
    enable_progress_bar()


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
    """The statuses of requests that are sent until so many workers are ready."""
    statuses: set[int] = set()
    while True:
        # a connection for each
        statuses.add(httpx.post(address, json=BODY, timeout=60).status_code)
        if metric(address, "ready_workers") == workers:
            return statuses


def ask_until_it_ends(address: str, answers: list[str], has_begun: threading.Barrier) -> None:
    """Ask again and again, after a refusal when it says, until nobody listens."""
    with httpx.Client(base_url=address, timeout=60) as client:
        while True:
            try:
                response = client.post("/", json=BODY)
            except httpx.ConnectError:
                return
            except httpx.TransportError as error:
                answers.append(type(error).__name__)
                return
            answers.append(str(response.status_code))
            if len(answers) == 1:
                has_begun.wait(60)
            time.sleep(float(response.headers.get("retry-after", 0)))


@pytest.mark.thorough
def test_a_worker_that_is_killed_is_replaced_and_sigterm_loses_no_request(workplace):
    process = start("serve", "--model", "model", "--port", "0", "--workers", "2", cwd=workplace)
    lines: list[str] = []
    try:
        address = ready(process)
        reader = threading.Thread(target=lambda: [lines.append(line) for line in process.stderr])
        reader.start()
        first, second = children(process.pid)
        early = statuses_until_ready(address, 2)
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: f"hf-summ: worker {first} has exited (-9): a new one replaces it\n" in lines)
        assert second in children(process.pid)
        wait_until(lambda: metric(address, "ready_workers") == 1)
        # one of them answers while the other one is loading
        assert early | statuses_until_ready(address, 2) == {200}
        for worker in children(process.pid):
            os.kill(worker, signal.SIGKILL)
        refused = httpx.post(address, json=BODY, timeout=60)
        assert (refused.status_code, refused.json()) == (503, {"error": "no worker is ready: try again later"})
        assert (httpx.get(f"{address}/health").text, refused.headers["retry-after"]) == ("alive\n", "5")
        wait_until(lambda: metric(address, "ready_workers") == 2, seconds=300)
        answers: list[list[str]] = [[] for _ in range(CLIENTS)]
        has_begun = threading.Barrier(CLIENTS + 1)
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            for own in answers:
                pool.submit(ask_until_it_ends, address, own, has_begun)
            has_begun.wait(60)
            # a sum over both
            assert metric(address, 'requests_total{status="200"}') >= CLIENTS
            process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
    reader.join()
    assert {status for own in answers for status in own} <= {"200", "503"}
    assert all(own[0] == "200" for own in answers)
    # each line names its worker, and no bar shows how weights are loaded
    assert any(re.search(rf" worker {second}: 127\.0\.0\.1 POST / 200 ", line) for line in lines)
    assert len([line for line in lines if re.search(r" worker \d+: ending: \d+ requests are unfinished$", line)]) == 2
    assert "Loading weights" not in "".join(lines)


def test_sigterm_is_no_failure_of_one_process(workplace, capfd, caplog):
    def ask_and_end():
        wait_until(lambda: "ready: " in told(), seconds=300)
        # longer than the model reads
        body = {**BODY, "inputs": " ".join(SENTENCES * 20)}
        answered.append(httpx.post(texts[-1].rpartition("ready: ")[2].strip(), json=body, timeout=60).status_code)
        # on an address of this machine alone, as a page of another site would ask
        address = texts[-1].rpartition("ready: ")[2].strip()
        answered.append(httpx.get(f"{address}/info", headers={"Host": "evil.example"}).status_code)
        os.kill(os.getpid(), signal.SIGTERM)

    def told() -> str:
        texts.append(capfd.readouterr().err)
        return texts[-1]

    answered, texts = [], []
    handler = signal.getsignal(signal.SIGTERM)
    client = threading.Thread(target=ask_and_end)
    client.start()
    with pytest.raises(SystemExit) as end:
        main(["serve", "--model", "model", "--port", "0"])
    client.join(60)
    told()
    assert (end.value.code, answered) == (0, [200, 403])
    # a line of each request, and of the end
    lines = [line.split(" ", 3)[3] for line in texts[-1].splitlines() if " POST " in line or " ending" in line]
    assert re.sub(r"\d+\.\d+ s", "0.1 s", "\n".join(lines)) == (
        "127.0.0.1 POST / 200 0.1 s\nending: 0 requests are unfinished"
    )
    assert "Loading weights" not in "".join(texts)
    # of which there would be one a request
    assert not [record for record in caplog.records if record.name.startswith("hf_summ")]
    assert signal.getsignal(signal.SIGTERM) is handler


def test_bad_input_is_refused(workplace, refusal):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert refusal("serve", "--model", "model", "--port", port) == (
            f"--port {port}: cannot listen on 127.0.0.1: Address already in use; name another port or --host"
        )
    message = refusal("serve", "--model", "model", "--port", "0", "--host", "192.0.2.1")
    assert message.startswith("--port 0: cannot listen on 192.0.2.1: ")
    assert refusal("serve", "--model", "model", "--port", "65536") == "--port 65536: must be at most 65535"
    assert refusal("serve", "--model", "model", "--workers", "0") == "--workers 0: must be at least 1"
    assert refusal("serve", "--model", "model", "--limit_queue", "0") == "--limit_queue 0: must be at least 1"
    assert refusal("serve", "--model", "model", "--num_beams", "0") == "--num_beams 0: must be at least 1"
    message = refusal("serve", "--model", "model", "--port", "0", "--api_key_file", "none")
    assert message == "--api_key_file none: cannot be read: No such file or directory"
    (workplace / "key").write_text(" \n")
    message = refusal("serve", "--model", "model", "--port", "0", "--api_key_file", "key")
    assert message == "--api_key_file key: is blank; write a key into it"


def test_a_model_that_cannot_be_loaded_ends_the_service(workplace, refusal):
    message = refusal("serve", "--model", "none", "--port", "0")
    assert message.startswith("--model none: cannot be loaded: no such folder, and no such repository on the Hub")


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


def test_a_model_that_a_worker_cannot_load_ends_the_service():
    with pytest.raises(ValueError, match="invalid literal for int"):
        serve_with_workers(partial(int, "no model"), Limits(), bind("127.0.0.1", 0), 1)


def test_a_default_beyond_a_limit_is_refused(workplace, refusal):
    serve = ("serve", "--model", "model", "--port", "0", "--num_beams", "5")
    assert refusal(*serve, "--limit_num_beams", "4") == (
        "--limit_num_beams 4: --num_beams is 5 by default: raise the limit, or lower --num_beams"
    )


def test_a_missing_extra_is_named(workplace, refusal, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert refusal("serve", "--model", "model") == "`hf-summ serve` needs uvicorn: pip install 'hf-summ[serve]'"
