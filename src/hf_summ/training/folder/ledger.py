"""The ledger of an output folder: a lock, run.yaml with the commands behind its results, and the results themselves."""

import json
import logging
import math
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from hf_summ.common.files import write_atomically
from hf_summ.common.records import read_record, to_json, write_record

logger = logging.getLogger(__name__)

RUN_FILE, LOCK = "run.yaml", ".run.lock"
STEPS = ("train", "eval", "predict")


class FolderInUse(ValueError):
    """Another run holds the folder's `lock`."""

    def __init__(self, folder: str | Path):
        super().__init__(f"--output_dir {folder}: another run uses it: wait for its end, or give another folder")
        self.lock = Path(folder) / LOCK


@contextmanager
def locked(folder: str | Path) -> Generator[None]:
    """Create an output folder and hold its lock in this context.

    Raises:
        FolderInUse: another run holds the lock.
        OSError: the folder cannot be written to.
    """
    lock = FileLock(Path(folder) / LOCK, timeout=0)
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise FolderInUse(folder) from None
    except NotImplementedError:
        # some clusters' file systems do not support locks
        logger.warning(f"{folder} cannot be locked: start no other run there")
    try:
        yield
    finally:
        lock.release()


class Ledger:
    """The steps of an output folder, some of train, eval and predict, and their results.

    A step is finished once its results exist, which are written last.

    Attributes:
        steps: each step's description of the command that began it last, see `describe`.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self.steps: dict[str, dict[str, Any]] = read_record(self.folder / RUN_FILE, _problem_of) or {}

    def is_finished(self, step: str, description: Mapping[str, Any] | None = None) -> bool:
        """Whether a step is finished; given a description, also whether it is that of the step's command.

        The settings and data of evaluations must be equal; of training, what determines its weights.
        """
        if description is not None:
            compared = ("updates",) if step == "train" else ("settings", "data")
            before = self.steps.get(step, {})
            if any(before.get(name) != description[name] for name in compared):
                return False
        return self._results(step).exists()

    def begin(self, steps: Sequence[str], description: dict[str, Any]) -> None:
        """Record that a command has begun these steps, and remove their earlier results; with train, all results."""
        replaced = STEPS if "train" in steps else steps
        # first, as results without their description would count as those of the new one
        for step in replaced:
            self._results(step).unlink(missing_ok=True)
        kept = {step: before for step, before in self.steps.items() if step not in replaced}
        self.steps = kept | dict.fromkeys(steps, description)
        write_record(self.folder / RUN_FILE, self.steps)

    def finish(self, step: str, metrics: Mapping[str, float]) -> None:
        """Write a step's results, `<step>_results.json`."""
        write_atomically(self._results(step), to_json(metrics, indent=4, sort_keys=True) + "\n")

    def results(self, *steps: str) -> dict[str, float]:
        """The metrics of finished steps."""
        metrics: dict[str, float] = {}
        for step in steps:
            metrics |= json.loads(self._results(step).read_text(encoding="utf-8"))
        return {name: math.nan if value is None else value for name, value in metrics.items()}

    def _results(self, step: str) -> Path:
        return self.folder / f"{step}_results.json"


def _problem_of(steps: Any) -> str | None:
    entries = {"settings", "data", "updates"}
    is_known = steps.keys() <= set(STEPS) and all(entries <= description.keys() for description in steps.values())
    return None if is_known else "unknown steps"
