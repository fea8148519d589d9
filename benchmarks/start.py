"""CPU seconds and memory of commands on one abstract, each in processes of its own that alternate with the others."""

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

ABSTRACT = Path(__file__).parents[1] / "examples" / "abstract.txt"
COMMANDS = {
    "help": ["summarize", "--help"],
    "ONNX Runtime": ["summarize", str(ABSTRACT)],
    "PyTorch": ["summarize", str(ABSTRACT), "--runtime", "pytorch"],
}
_MAIN = "import sys; from hf_summ.cli import main; sys.exit(main())"


def cost(arguments: list[str]) -> tuple[float, float]:
    """CPU seconds of a command, and the peak of its memory in MB."""
    command = [sys.executable, "-c", _MAIN, *arguments]
    # as in an installed package, the first round writes the bytecode
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": ""}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e6


def main() -> None:
    """Print a row for each command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="Rounds after one of warming up (default: 5)")
    parser.add_argument("--model", help="A further folder of graphs to summarize with (default: none)")
    arguments = parser.parse_args()
    rounds = arguments.rounds
    if arguments.model:
        COMMANDS[arguments.model] = ["summarize", str(ABSTRACT), "--model", arguments.model]
    costs = [{name: cost(arguments) for name, arguments in COMMANDS.items()} for _ in range(rounds + 1)][1:]
    print("| command | CPU seconds | range | MB |\n|---|---|---|---|")
    for name in COMMANDS:
        seconds, memory = zip(*(of_round[name] for of_round in costs), strict=True)
        extent = f"{min(seconds):.2f} to {max(seconds):.2f}"
        print(f"| {name} | {statistics.median(seconds):.2f} | {extent} | {statistics.median(memory):.0f} |")


if __name__ == "__main__":
    main()
