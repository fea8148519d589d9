"""An environment with the libraries of `docker/requirements-onnx.txt` and the package alone."""

import os
import sys
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
REQUIREMENTS = ROOT / "docker" / "requirements-onnx.txt"
# without the site-packages of this process
PYTHON = (sys.executable, "-S")
COMMAND = (*PYTHON, "-c", "import sys; from hf_summ.cli import main; sys.exit(main())")


def requirements() -> list[Requirement]:
    """The pinned libraries of the file."""
    lines = REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    return [Requirement(line) for line in lines if not line.startswith("#")]


def with_dependencies(*libraries: str) -> set[str]:
    """The names of installed libraries and of all that they need."""
    names = set()
    waiting = [canonicalize_name(library) for library in libraries]
    while waiting:
        name = waiting.pop()
        if name in names:
            continue
        names.add(name)
        for line in distribution(name).requires or ():
            requirement = Requirement(line)
            if not requirement.marker or requirement.marker.evaluate():
                waiting.append(canonicalize_name(requirement.name))
    return names


def link_libraries(folder: Path, *further: str) -> dict[str, str]:
    """Link the libraries of the file and further ones; returns the environment of a process that has no others."""
    pinned = {canonicalize_name(requirement.name) for requirement in requirements()}
    for library in pinned | with_dependencies(*further):
        for file in distribution(library).files or ():
            top = file.parts[0]
            if top not in ("..", "__pycache__") and not (folder / top).exists():
                (folder / top).symlink_to(str(distribution(library).locate_file(top)))
    libraries = os.pathsep.join((str(ROOT / "src"), str(folder)))
    return {"PATH": os.environ["PATH"], "PYTHONPATH": libraries, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
