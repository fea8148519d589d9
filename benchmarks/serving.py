"""`hf-summ serve` under load: requests per CPU second of the service, with 1, 16 and 64 clients at once.

A client sends its next request on each response, or after `Retry-After` if the request was refused. Without `--model`,
a GDLF with random weights writes summaries of 20 tokens with 4 beams, of made-up news, and then a BART of equal size.
Run: python benchmarks/serving.py
"""

import argparse
import asyncio
import itertools
import json
import math
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from measuring import print_table
from peers import bart, small_gdlf

from hf_summ.data.toy_news import articles

NEW_TOKENS = 20
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Load:
    """The results for a number of clients: responses by status ("lost" if none), and seconds of summaries."""

    clients: int
    answers: Counter = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: float = 0.0
    peak_mebibytes: float = 0.0

    @property
    def rate(self) -> float:
        """Answered requests per CPU second of the service."""
        return len(self.seconds) / self.cpu_seconds


def made_up(number: int, folder: Path) -> list[str]:
    """Make texts of one to three articles, and write checkpoints for them to the folder: GDLF and BART."""
    texts = [article["document"] for article in articles("test", 3 * number, seed=1)]
    model, processor = small_gdlf(texts, vocab_size=2000)
    for name, system, reader in (("GDLF", model, processor), ("BART", bart(model), processor.tokenizer)):
        system.generation_config.update(max_new_tokens=NEW_TOKENS, min_new_tokens=NEW_TOKENS, num_beams=4)
        for part in (system, reader):
            part.save_pretrained(folder / name)
    generator = random.Random(0)
    return [" ".join(generator.sample(texts, generator.randint(1, 3))) for _ in range(number)]


@contextmanager
def service(model: str, flags: list[str]) -> Iterator[tuple[subprocess.Popen, int]]:
    """Run a service; yield its process and port when it is ready."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "hf_summ", "serve", "--model", model, "--port", str(port), *flags]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not is_ready(port):
            if process.poll() is not None:
                raise SystemExit(f"the service exited: {' '.join(command)}")
            time.sleep(0.2)
        yield process, port
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready") as answer:
            return answer.status == 200
    except OSError:
        return False


def cpu_seconds(pid: int) -> float:
    """CPU seconds of a process, over all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def peak_mebibytes(pid: int) -> float:
    """The peak memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


class Connection:
    """A client's connection, reopened after the service closes it; it uses less CPU time than a library's."""

    def __init__(self, port: int):
        self._port = port
        self._writer: asyncio.StreamWriter | None = None

    async def post(self, body: bytes) -> tuple[int, float]:
        """Send a request; return its status, and the seconds to wait before the next one.

        Raises:
            OSError, EOFError: there was no response.
        """
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writer.write(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
        headers = dict(line.split(": ", 1) for line in head.splitlines()[1:] if line)
        await self._reader.readexactly(int(headers["content-length"]))
        if headers.get("connection") == "close":
            self.close()
        return int(head.split()[1]), float(headers.get("retry-after", 0))

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


async def client(port: int, bodies: Iterator[bytes], end: float, load: Load) -> None:
    """Send requests until the time is over."""
    connection = Connection(port)
    while time.monotonic() < end:
        began = time.monotonic()
        try:
            status, wait = await connection.post(next(bodies))
        except (OSError, EOFError):
            load.answers["lost"] += 1
            connection.close()
            continue
        load.answers[status] += 1
        if status == 200:
            load.seconds.append(time.monotonic() - began)
        await asyncio.sleep(min(wait, max(0.0, end - time.monotonic())))
    connection.close()


async def measure(process: subprocess.Popen, port: int, bodies: Iterator[bytes], clients: int, seconds: float) -> Load:
    """Run concurrent clients for a number of seconds."""
    load = Load(clients)
    before, end = cpu_seconds(process.pid), time.monotonic() + seconds
    await asyncio.gather(*(client(port, bodies, end, load) for _ in range(clients)))
    load.cpu_seconds = cpu_seconds(process.pid) - before
    load.peak_mebibytes = peak_mebibytes(process.pid)
    return load


def percentiles_of(seconds: list[float]) -> list[float]:
    """The 1st to the 99th."""
    return statistics.quantiles(seconds, n=100) if len(seconds) > 1 else (seconds or [math.nan]) * 99


def row(load: Load, alone: Load) -> list[str]:
    """A line of the table."""
    percentiles = percentiles_of(load.seconds)
    refused = load.answers.total() - load.answers[200] - load.answers["lost"]
    return [
        str(load.clients),
        f"{load.rate:.1f}",
        f"{load.rate / alone.rate:.2f}",
        f"{1000 * percentiles[49]:.0f}",
        f"{1000 * percentiles[98]:.0f}",
        str(load.answers[200]),
        str(refused),
        str(load.answers["lost"]),
        f"{load.peak_mebibytes:.0f}",
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="Checkpoint to serve (default: a GDLF with random weights)")
    parser.add_argument("--texts", help="JSON Lines file with a text in `document` (default: made-up news)")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 16, 64], help="(default: 1 16 64)")
    parser.add_argument("--seconds", type=float, default=15, help="Seconds for each number of clients (default: 15)")
    # arguments after a bare -- go to the service
    parser.add_argument("flags", nargs="*", help="Flags of `hf-summ serve`, after --")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        texts = made_up(200, Path(folder))
        if arguments.texts is not None:
            with open(arguments.texts, encoding="utf-8") as lines:
                texts = [json.loads(line)["document"] for line in lines]
        bodies = itertools.cycle([json.dumps({"inputs": text}).encode() for text in texts])
        models = [arguments.model] if arguments.model else [f"{folder}/GDLF", f"{folder}/BART"]
        rows = []
        for model in models:
            with service(model, arguments.flags) as (process, port):
                loads = [
                    asyncio.run(measure(process, port, bodies, clients, arguments.seconds))
                    for clients in arguments.clients
                ]
            rows += [[Path(model).name, *row(load, loads[0])] for load in loads]
    columns = ["model", "clients", "requests per CPU second", "times one client's", "p50, ms", "p99, ms"]
    columns += ["answered", "refused", "lost", "peak, MiB"]
    print_table("requests under load", columns, rows)


if __name__ == "__main__":
    main()
