"""Runs the code blocks of pages of the documentation: `run_pages.py PAGE.md ...`, from the folder that a reader is in.

A page's ```python and ```bash blocks run in their order, all in one process, as each would load the same libraries. Its
Python blocks are one script. Trainings end after a few updates of a narrow model. An ```output block is what the block
before it prints, where … stands for anything. The cells of a notebook are its blocks.
"""

import contextlib
import io
import json
import re
import runpy
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from hf_summ.cli import main

LAUNCHED = ["accelerate", "launch", "run_summarization.py"]
SHORT = (
    "--max_steps=5 --save_strategy=steps --save_steps=1 --save_total_limit=5 --eval_strategy=steps --eval_steps=1 "
    "--max_new_tokens=6 --num_beams=1 --report_to=none --disable_tqdm=true"
).split()
# the sizes of a fresh model, by the folder of its configuration
NARROW = {
    "drgd": ("embedding_size=16", "hidden_size=16"),
    "pointer_generator": ("embedding_size=16", "hidden_size=16"),
    "gdlf": ("d_model=16", "ffn_dim=16", "fusion_dim=16", "num_heads=2"),
}


def run_page(page: Path) -> None:
    """The page's blocks.

    Raises:
        SystemExit: a command failed, has no rule by which to run it, or printed something else than the page shows.
    """
    names = {"__name__": "__main__"}
    printed = ""
    for language, code, lines in blocks(page):
        if language == "output":
            # long lines are wrapped on the page
            pattern = re.escape(in_one_line(code)).replace("…", ".*")
            if not re.fullmatch(pattern, in_one_line(printed)):
                raise SystemExit(f"{page}, line {lines}: the block above printed\n{printed}")
            continue
        with contextlib.redirect_stdout(io.StringIO()) as output:
            if language == "bash":
                for command in code.replace("\\\n", " ").splitlines():
                    run_command(shlex.split(command, comments=True))
            else:
                # a traceback then has the page's own lines
                exec(compile("\n" * lines + code, page, "exec"), names)
        printed = output.getvalue()


def in_one_line(text: str) -> str:
    """A text with a space in place of all white space."""
    return " ".join(text.split())


def blocks(page: Path) -> Iterator[tuple[str, str, int]]:
    """Kind and text of each block, with the number of lines above it, of which a notebook has none."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".ipynb":
        for cell in json.loads(text)["cells"]:
            if cell["cell_type"] == "code":
                # without the line that installs the package
                code = re.sub("^%pip.*", "", "".join(cell["source"]), flags=re.MULTILINE)
                language = "bash" if code.startswith("%%bash\n") else "python"
                yield language, code.removeprefix("%%bash\n"), 0
                for output in cell["outputs"]:
                    yield "output", "".join(output["text"]), 0
        return
    for block in re.finditer(r"^```(python|bash|output)\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL):
        language, code = block.groups()
        yield language, code, text[: block.start(2)].count("\n")


def run_command(words: list[str]) -> None:
    if words[:3] == LAUNCHED:
        words = ["hf-summ", "train", *words[3:]]
    if words[:2] == ["hf-summ", "train"]:
        words = words + SHORT
        architecture = Path(words[2]).parent.name
        if architecture in NARROW:
            words += [f"--config_overrides={value}" for value in NARROW[architecture]]
            words.append("--min_new_words=0")
    if words[:1] == ["hf-summ"]:
        code = main(words[1:])
        if code:
            raise SystemExit(f"{shlex.join(words)} ended with {code}")
    elif words[:2] == ["python", "-m"]:
        sys.argv = words[2:]
        runpy.run_module(words[2], run_name="__main__")
    elif words:
        raise SystemExit(f"{shlex.join(words)}: no test runs this: make its block ```console")


if __name__ == "__main__":
    for path in sys.argv[1:]:
        began = time.process_time()
        run_page(Path(path))
        print(f"{path}: {time.process_time() - began:.1f} s of CPU", file=sys.stderr)
