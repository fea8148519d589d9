"""The ledger of an output folder: a lock, run.yaml with the commands behind its results, and the results themselves."""

import json
import logging
import math
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypedDict

from filelock import FileLock, Timeout

from hf_summ.common.files import write_atomically
from hf_summ.common.records import changed, read_record, to_json, write_record

logger = logging.getLogger(__name__)

RUN_FILE = "run.yaml"
LOCK = ".run.lock"
STEPS = ("train", "eval", "predict")
# the split that a step reads
_SPLITS = {"eval": "validation", "predict": "test"}
# flags that choose steps or describe the published model, and so change no results of evaluation and prediction
_OF_STEPS = {"do_eval", "do_predict", "license"}
# the entry of `updates` with a hash of the weights with which training begins
STARTING_WEIGHTS = "content of the starting weights"
# the entry of `updates` with hashes of the training data
TRAINING_DATA = "content of the training data"
# the entry of `updates` with the versions of spaCy and its pipeline, if it tags words
TAGGER = "tagger of words"
# the entry of `updates` with hashes of the validation data, if scores on it choose the weights
VALIDATION = "content of the validation data"
# entries of `updates` that earlier versions did not record
_LATER_ENTRIES = (STARTING_WEIGHTS, TAGGER, VALIDATION, "max_eval_samples")
# keys that the description of a step must have in run.yaml
_REQUIRED = {"settings", "data", "updates"}


class SplitOrigin(TypedDict, total=False):
    """Where the rows of a split come from: from files, or from a data set that is on the Hub or in a folder.

    Args:
        files: path -> hash of the file's content; for a stream of a folder, the hash of all its files.
        name: the data set's name.
        configuration: the data set's configuration, given for a stream.
        fingerprint: datasets' hash of the rows, which a stream does not have.
        extraction: the fingerprint of the extractive stage, if it shortened the documents.
        streaming: True for a stream.
        rows: the number of rows, which is unknown for a stream.
    """

    files: dict[str, str]
    name: str | None
    configuration: str | None
    fingerprint: str
    extraction: str
    streaming: bool
    rows: int


class Description(TypedDict):
    """What run.yaml says of a step: the command that began it, and all that its results depend on.

    Args:
        command: the command line, without secrets.
        versions: versions of libraries by name.
        data: the origin of each split that the command read.
        updates: all that determines the trained weights, by name.
        settings: the settings that the user gave, by flag, without secrets.
    """

    command: str
    versions: dict[str, str]
    data: dict[str, SplitOrigin]
    updates: dict[str, Any]
    settings: dict[str, object]


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
        steps: step -> the description of the command that began it last.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self.steps: dict[str, Description] = read_record(self.folder / RUN_FILE, _problem_of) or {}

    def is_finished(self, step: str, description: Description | None = None) -> bool:
        """Whether a step is finished.

        Args:
            step: "train", "eval" or "predict".
            description: if given, the step must have been finished by a command with the same description as far as it
                matters: the same `updates` for training; for evaluation and prediction, the same rows and settings,
                except for those that choose steps or publish the model.
        """
        if description is not None:
            earlier = self.steps.get(step)
            if earlier is None:
                return False
            if step == "train":
                is_same = not self.changed_updates(description)
            else:
                split = _SPLITS[step]
                has_same_rows = earlier["data"].get(split) == description["data"].get(split)
                is_same = has_same_rows and _settings_of_results(earlier) == _settings_of_results(description)
            if not is_same:
                return False
        return self._results_file(step).exists()

    def changed_updates(self, description: Description) -> list[str]:
        """What determines the trained weights and differs from the folder's training run, for messages.

        Entries that earlier versions did not record are not compared with their runs.
        """
        earlier_updates = self.steps["train"]["updates"]
        updates = dict(description["updates"])
        for name in _LATER_ENTRIES:
            if name not in earlier_updates:
                updates.pop(name, None)
        if not earlier_updates.get(TRAINING_DATA):
            # they recorded no hash of a stream
            updates.pop(TRAINING_DATA, None)
        return changed(earlier_updates, updates)

    def begin(self, steps: Sequence[str], description: Description) -> None:
        """Record that a command has begun these steps, and remove their earlier results.

        If `train` is among them, the results of all steps are removed, as they are of other weights.
        """
        replaced = STEPS if "train" in steps else steps
        descriptions = dict(self.steps)
        # The results are removed before the description is written. If the process died between the two, old results
        # would otherwise count as results of the new command.
        for step in replaced:
            self._results_file(step).unlink(missing_ok=True)
            descriptions.pop(step, None)
        for step in steps:
            descriptions[step] = description
        self.steps = descriptions
        write_record(self.folder / RUN_FILE, self.steps)

    def finish(self, step: str, metrics: Mapping[str, float]) -> None:
        """Write a step's results, `<step>_results.json`."""
        write_atomically(self._results_file(step), to_json(metrics, indent=4, sort_keys=True) + "\n")

    def results(self, *steps: str) -> dict[str, float]:
        """The metrics of finished steps, by name. A metric that is null in a step's file, as JSON lacks NaN, is NaN."""
        metrics: dict[str, float] = {}
        for step in steps:
            values = json.loads(self._results_file(step).read_text(encoding="utf-8"))
            for name, value in values.items():
                metrics[name] = math.nan if value is None else value
        return metrics

    def _results_file(self, step: str) -> Path:
        """The file with the results of a step."""
        return self.folder / f"{step}_results.json"


def _settings_of_results(description: Description) -> dict[str, object]:
    """The settings on which the results of evaluation and prediction may depend."""
    # imported here, as the arguments import torch, which takes seconds, and commands import this module before they
    # handle Ctrl-C
    from hf_summ.training.arguments import flags_of

    # flags with the effect "single" say how one run is published or what it resumes, and change no results
    left_out = flags_of("single") | _OF_STEPS
    return {name: value for name, value in description["settings"].items() if name not in left_out}


def _problem_of(steps: dict[str, dict[str, object]]) -> str | None:
    """What is wrong with the content of run.yaml, or None if nothing is.

    Args:
        steps: the content: step -> its description.
    """
    unknown_steps = steps.keys() - set(STEPS)
    if unknown_steps:
        return f"unknown steps {', '.join(sorted(unknown_steps))}"
    for step, description in steps.items():
        missing_keys = _REQUIRED - description.keys()
        if missing_keys:
            return f"{step} has no {', '.join(sorted(missing_keys))}"
    return None
