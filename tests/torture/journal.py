"""A file of tried cases, from which a run resumes."""

import json
from pathlib import Path

from tests.torture.cases import Name
from tests.torture.judge import Outcome, Verdict
from tests.torture.running import Tried


def read(path: Path | None) -> dict[Name, Tried]:
    """The sensible and clear cases of an earlier run; others are tried again, as their faults may be fixed."""
    if path is None or not path.exists():
        return {}
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        name, told, verdict, result, seconds = json.loads(line)
        tried = Tried(Name.parse(name), told, Outcome(Verdict(verdict), result), seconds)
        if not tried.outcome.is_bad:
            found[tried.name] = tried
    return found


def write(path: Path | None, tried: Tried) -> None:
    """Add a case; several runs may add to one file."""
    if path is not None:
        line = json.dumps([str(tried.name), tried.told, *tried.outcome, round(tried.seconds, 4)])
        with path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
