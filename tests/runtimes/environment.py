"""An environment with the libraries of `docker/requirements-onnx.txt` and the package alone."""

import os
import sys
from importlib.metadata import distribution
from pathlib import Path

ROOT = Path(__file__).parents[2]
REQUIREMENTS = ROOT / "docker" / "requirements-onnx.txt"


def libraries() -> list[str]:
    """The names in the file."""
    lines = REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    return [line.partition("==")[0] for line in lines if not line.startswith("#")]


def link_libraries(folder: Path, *further: str) -> dict[str, str]:
    """Link these libraries and further ones into a folder -> the environment of a process that has no others.

    The process is started as `[*PYTHON, ...]`.
    """
    for library in (*libraries(), *further):
        for file in distribution(library).files or ():
            top = file.parts[0]
            if top not in ("..", "__pycache__") and not (folder / top).exists():
                (folder / top).symlink_to(Path(str(distribution(library).locate_file(top))))
    settings = {"PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(folder))), "OMP_NUM_THREADS": "1"}
    return {"PATH": os.environ["PATH"], "HF_HUB_OFFLINE": "1", **settings}


# without the site-packages of this process
PYTHON = (sys.executable, "-S")
COMMAND = (*PYTHON, "-c", "import sys; from hf_summ.cli import main; sys.exit(main())")
