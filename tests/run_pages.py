"""Runs the code blocks of pages of the documentation: `run_pages.py PAGE.md ...`, from the folder that a reader is in.

A page's ```python and ```bash blocks run in their order, all in one process, as each would load the same libraries. Its
Python blocks are one script. Trainings end after a few updates of a narrow model.
"""

import re
import runpy
import shlex
import sys
import time
from pathlib import Path

from hf_summ import pretrained
from hf_summ.cli import main

LAUNCHED = ["accelerate", "launch", "run_summarization.py"]
SHORT = (
    "--max_steps=5 --save_strategy=steps --save_steps=1 --save_total_limit=5 --eval_strategy=steps --eval_steps=1 "
    "--max_new_tokens=6 --num_beams=1 --report_to=none --disable_tqdm=true"
).split()
# of a fresh model of ours
NARROW = ("d_model=16", "ffn_dim=16", "fusion_dim=16", "num_heads=2")


def run_page(page: Path) -> None:
    """The page's blocks.

    Raises:
        SystemExit: a command failed, or there is no telling how to run it.
    """
    names = {"__name__": "__main__"}
    text = page.read_text(encoding="utf-8")
    for block in re.finditer(r"^```(python|bash)\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL):
        language, code = block.groups()
        if language == "bash":
            for command in code.replace("\\\n", " ").splitlines():
                run_command(shlex.split(command, comments=True))
        else:
            # a traceback then has the page's own lines
            lines = text[: block.start(2)].count("\n")
            exec(compile("\n" * lines + code, page, "exec"), names)


def run_command(words: list[str]) -> None:
    if words[:3] == LAUNCHED:
        words = ["hf-summ", "train", *words[3:]]
    if words[:2] == ["hf-summ", "train"]:
        is_fresh = words[2].endswith(".yaml")
        narrow = ["--min_new_words=0", *(f"--config_overrides={value}" for value in NARROW)] if is_fresh else []
        words = [*words, *SHORT, *narrow]
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
    # of which the reader's folder has a tiny one
    pretrained.FOLDER = Path("pretrained")
    for path in sys.argv[1:]:
        began = time.process_time()
        run_page(Path(path))
        print(f"{path}: {time.process_time() - began:.1f} s of CPU", file=sys.stderr)
