"""Runs cases by name, in this process or in child processes."""

import multiprocessing
import resource
import shutil
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from hf_summ.common.messages import one_line
from hf_summ.models.text_documents import readable
from tests.torture.areas import AREAS
from tests.torture.cases import Name
from tests.torture.judge import Outcome, Verdict, judge
from tests.torture.workshop import Workshop

# wall-clock seconds after which a silent child is given up: it may wait, or loop in a library's code
_PATIENCE = 120
# cases per child, which bounds leaks
_PER_CHILD = 200
# largest number of characters of a line in the report
_LONGEST = 600
# bytes of memory beyond those shared with the parent; a case that needs more fails instead of the machine
_MEMORY = 6 * 2**30


def names(areas: Sequence[str], seed: int, number: int) -> list[Name]:
    """The names of `number` cases, evenly distributed over the areas."""
    return [Name(areas[place % len(areas)], seed, place // len(areas)) for place in range(number)]


class Tried(NamedTuple):
    """A tried case: its name, its input in a line, its outcome, and its CPU seconds."""

    name: Name
    told: str
    outcome: Outcome
    seconds: float = 0.0


def run(name: Name, shop: Workshop) -> Tried:
    """Make and try a case in this process.

    Raises:
        ValueError: the area does not exist.
    """
    if name.area not in AREAS:
        raise ValueError(f"there is no area {name.area!r}: name one of {', '.join(AREAS)}")
    start = time.process_time()
    seed = zlib.crc32(str(name).encode())
    np.random.seed(seed)
    torch.manual_seed(seed)
    folder = Path(tempfile.mkdtemp(prefix="torture_"))
    try:
        try:
            case = AREAS[name.area](name.draw(), shop, folder)
        except Exception as error:
            return Tried(name, "", Outcome(Verdict.DEEP, f"the case itself cannot be made: {error!r:.300}"))
        outcome = judge(case)
        # terminals cannot show surrogates
        told, found = (one_line(readable(text)) for text in (case.told, outcome.told))
        kept = Outcome(outcome.verdict, found[:_LONGEST])
        return Tried(name, told[:_LONGEST], kept, time.process_time() - start)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_in_children(todo: Sequence[Name], shop: Workshop) -> Iterator[Tried]:
    """Try cases in child processes; the end of a process is an outcome too."""
    left = iter(todo)
    while chunk := list(islice(left, _PER_CHILD)):
        while chunk:
            done = 0
            for outcome in _in_child(chunk, shop):
                yield outcome
                done += 1
            chunk = chunk[done:]


def _in_child(chunk: list[Name], shop: Workshop) -> Iterator[Tried]:
    # forked, so that models are made only once
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_work, args=(chunk, shop, sender))
    child.start()
    sender.close()
    for name in chunk:
        try:
            if not receiver.poll(_PATIENCE):
                child.kill()
                yield Tried(name, "", Outcome(Verdict.HELD, f"no answer within {_PATIENCE} s"))
                break
            tried = receiver.recv()
        except EOFError:
            child.join()
            yield Tried(name, "", Outcome(Verdict.DEEP, f"the process ended ({child.exitcode})"))
            break
        yield tried
    child.join()
    receiver.close()


def _work(chunk: list[Name], shop: Workshop, sender) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
    for name in chunk:
        sender.send(run(name, shop))
