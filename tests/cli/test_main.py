"""The command line as a whole."""

import os
import pty
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from hf_summ import __version__, bundled_model
from hf_summ.cli import COMMANDS, main
from tests.cli.conftest import start
from tests.conftest import SENTENCES

ROOT = Path(__file__).parents[2]


def test_installed_command_is_this_one():
    (command,) = entry_points(group="console_scripts", name="hf-summ")
    assert command.load() is main


@pytest.mark.thorough
def test_a_new_process_reads_standard_input(run, workplace):
    text = f"{SENTENCES[0]} 🎉"
    (workplace / "a.txt").write_text(text, encoding="utf-8")
    argv = ["summarize", "--model", "model", "--format", "jsonl"]
    command = [sys.executable, "-m", "hf_summ", *argv]
    process = subprocess.run(command, input=text.encode(), capture_output=True, check=True)
    expected, _ = run(*argv, "a.txt")
    assert process.stdout.decode() == expected.replace("a.txt", "-")


TRAINING = f"train --do_train --model_type drgd --train_file rows.jsonl --tokenizer_name {bundled_model()} --output_dir"
# commands up to the name of their output
WRITING = [
    ["summarize", "a.txt", "--output"],
    ["extract", "a.txt", "--output"],
    ["evaluate", "--predictions", "a.txt", "--references", "a.txt", "--output"],
    ["evaluate", "--predictions", "a.txt", "--references", "a.txt", "--scores"],
    ["idf", "rows.jsonl", "--output"],
    TRAINING.split(),
    ["table", "gdlf_4", "--scale", "tiny", "--output_dir"],
    ["vocabulary", "rows.jsonl", "--tags", "none", "--output"],
    ["average", str(bundled_model()), str(bundled_model()), "--output"],
    ["prepare", "xsum", ".", "--output"],
    ["explain", "a.txt", "--output"],
]


@pytest.mark.thorough
@pytest.mark.parametrize("argv", WRITING)
def test_outputs_that_cannot_be_written_are_named_in_a_line(argv, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("A text.\n")
    (tmp_path / "rows.jsonl").write_text('{"document": "A text.", "summary": "A text."}\n')
    # nobody can write below a file
    endings = {"--output": ".json", "--scores": ".jsonl"}
    output = "a.txt/out" + endings.get(argv[-1], "")
    with suppress(SystemExit):
        assert main([*argv, output]) == 2
    last_line = capsys.readouterr().err.splitlines()[-1]
    assert re.search(r"error: .*a\.txt", last_line), last_line


# whylabs/whylogs#107, nextflow-io/nextflow#1185: a local folder `s3:`, which is lost with its container
COMMANDS_WITH_OUTPUT = [
    *WRITING,
    ["summarize", "rows.jsonl", "--text_column", "document", "--output"],
    ["key-phrases", "rows.jsonl", "--processor", "a", "--output"],
    ["export", "arxiv-tldr", "--to", "onnx", "--output"],
    ["convert", "mass", "a.pt", "a.txt", "--output"],
    ["compare", "a.txt", "--output"],
    ["compare-lms", "a.txt", "--models", "a", "--output"],
    ["votes", "make", "--systems", "a.txt", "b.txt", "--sources", "a.txt", "--key", "k.json", "--output"],
    ["votes", "make", "--systems", "a.txt", "b.txt", "--sources", "a.txt", "--output", "sheets", "--key"],
    ["votes", "collect", "a.json", "--key", "k.json", "--json"],
]


@pytest.mark.parametrize("argv", COMMANDS_WITH_OUTPUT, ids=lambda argv: f"{argv[0]} {argv[-1]}")
@pytest.mark.parametrize("output", ["s3://bucket/out.json", "gs://bucket/out"])
def test_outputs_named_by_a_url_are_refused(argv, output, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([*argv, output]) == 2
    last_line = capsys.readouterr().err.splitlines()[-1]
    assert last_line.endswith(f"{argv[-1]} {output}: is a URL: name a local file or folder, and upload it afterwards")
    assert not list(tmp_path.iterdir())


@pytest.mark.thorough
def test_output_that_nobody_reads_ends_the_command_quietly(tmp_path):
    process = start("table", "--list", cwd=tmp_path)
    process.stdout.close()
    assert (process.stderr.read(), process.wait()) == ("", 141)


def test_interrupt_ends_the_command_in_one_line(tmp_path):
    os.mkfifo(tmp_path / "article.txt")
    process = start("summarize", "article.txt", "--model", "none", cwd=tmp_path)
    while True:
        try:
            writer = os.open(tmp_path / "article.txt", os.O_WRONLY | os.O_NONBLOCK)
            break
        except OSError:
            # the command does not read yet
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    # a signal that comes just before the read waits until the read ends
    os.close(writer)
    assert process.communicate() == ("", "\nhf-summ: interrupted: rerun the command to start over\n")
    assert process.returncode == 130


COMMANDS_WITH_DRAFTS = [
    ["extract", "a.txt", "--output", "out.txt"],
    ["idf", "rows.jsonl", "--output", "idf.json"],
    ["average", str(bundled_model()), str(bundled_model()), "--output", "mean"],
    "votes make --systems a.txt b.txt --sources a.txt --documents 1 --key key.json --output sheets".split(),
]


@pytest.mark.parametrize("argv", COMMANDS_WITH_DRAFTS, ids=lambda argv: argv[0])
def test_sigterm_leaves_no_temporary_file(tmp_path, monkeypatch, ignored_sigterm, argv):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("A mayor opened a bridge.\n")
    (tmp_path / "b.txt").write_text("A bridge was opened.\n")
    (tmp_path / "rows.jsonl").write_text('{"document": "A text.", "summary": "A text."}\n')
    before = sorted(tmp_path.iterdir())

    def stop(source: Path, target: Path) -> None:
        signal.raise_signal(signal.SIGTERM)

    # the signal comes just before the complete draft gets its name
    monkeypatch.setattr("hf_summ.common.files.os.replace", stop)
    with pytest.raises(SystemExit) as end:
        main(argv)
    assert end.value.code == 143
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["-m", "hf_summ", "train", "x.yaml"], "\nhf-summ: interrupted: rerun the command to start over\n"),
        ([str(ROOT / "run_summarization.py"), "x.yaml"], "\ninterrupted: rerun the command to start over\n"),
    ],
)
def test_interrupt_while_libraries_are_imported_ends_in_one_line(argv, message):

    def take_interrupts() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    command = [sys.executable, *argv]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=take_interrupts)
    while "libtorch" not in Path(f"/proc/{process.pid}/maps").read_text():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert process.communicate()[1] == message
    assert process.returncode == 130


# seconds of computing that may pass, and arguments of Python
CASES_OF_STARTS = [
    (0.3, ["-c", "import hf_summ"]),
    (0.4, ["-m", "hf_summ", "--version"]),
    (0.4, ["-m", "hf_summ", "--help"]),
    (1.0, ["-m", "hf_summ", "table", "--list"]),
    (1.5, ["-m", "hf_summ", "evaluate", "--predictions", "texts.txt", "--references", "texts.txt"]),
]
for name in COMMANDS:
    if name != "train":
        CASES_OF_STARTS.append((1.0, ["-m", "hf_summ", name, "--help"]))


@pytest.mark.thorough
@pytest.mark.parametrize(("seconds", "argv"), CASES_OF_STARTS, ids=str)
def test_start_takes_little_time(tmp_path, seconds, argv):
    """The limits are twice to ten times the measured times; a heavy import takes ten times as long."""
    (tmp_path / "texts.txt").write_text("\n".join(SENTENCES * 20), encoding="utf-8")
    code = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
        "used = resource.getrusage(resource.RUSAGE_CHILDREN); print(used.ru_utime + used.ru_stime)"
    )
    command = [sys.executable, "-c", code, sys.executable, *argv]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert float(process.stdout) < seconds


CASES_OF_WRONG_USE = [
    (["sumarize"], "hf-summ: error: argument COMMAND: invalid choice: 'sumarize' (choose from "),
    (["serve", "--batch-sise=3"], "hf-summ serve: error: unknown flag --batch-sise; did you mean --batch_size?"),
    (["explain", "--output", "a.html", "-x"], "-x: does not belong to a flag"),
    (["summarize", "--format", "json"], "argument --format: invalid choice: 'json' (choose from "),
    (["average", "run", "--output", "mean", "--last", "1", "--best", "1"], "--best: not allowed with argument"),
]


@pytest.mark.parametrize(("argv", "message"), CASES_OF_WRONG_USE)
def test_wrong_use_is_named(capsys, argv, message):
    with pytest.raises(SystemExit) as end:
        main(argv)
    assert end.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


CASES_OF_HELP = [
    (["--version"], f"hf-summ {__version__}\n"),
    (["--help"], "Summarize text files"),
    (["summarize", "--help"], "usage: hf-summ summarize "),
    (["help"], "Summarize text files"),
    (["help", "votes", "make"], "usage: hf-summ votes make "),
]


def test_version_and_help(capsys):
    for argv, text in CASES_OF_HELP:
        with pytest.raises(SystemExit) as end:
            main(argv)
        assert end.value.code == 0
        assert text in capsys.readouterr().out
    assert main([]) == 0
    assert "Summarize text files" in capsys.readouterr().out


def test_flags_are_in_groups(capsys):
    with pytest.raises(SystemExit):
        main(["summarize", "--help"])
    lines = capsys.readouterr().out.splitlines()
    titles = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert "The checkpoint, the device and the precision:" in titles
    assert "Rows of files and data sets, written in shards to a folder:" in titles
    assert len(titles) > 8
    # --help alone is in no group
    start_of_options = lines.index("options:") + 1
    end_of_options = lines.index("", start_of_options)
    assert end_of_options - start_of_options == 1


def test_a_terminal_says_what_is_awaited(tmp_path):
    primary, secondary = pty.openpty()
    argv = [sys.executable, "-m", "hf_summ", "extract"]
    process = subprocess.Popen(argv, cwd=tmp_path, stdin=secondary, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    os.close(secondary)
    note = process.stderr.readline().decode()
    expected = "waiting for a text: type or paste it, and end it with Ctrl-D on a new line; --help shows more"
    assert note == f"hf-summ: {expected}\n"
    os.write(primary, f"{SENTENCES[0]}\n\x04".encode())
    output, _ = process.communicate()
    os.close(primary)
    assert (output.decode(), process.returncode) == (f"{SENTENCES[0]}\n", 0)


# streams that a shell closes, arguments, the exit status, the output, and the last line of standard error
CASES_OF_CLOSED_STREAMS = [
    ("2>&-", ["extract", "a.txt", "blank.txt"], 0, f"{SENTENCES[0]}\n\n", ""),
    ("2>&-", ["extract", "a.txt", "--output", "a.txt/\udcff"], 2, "", ""),
    (">&-", ["extract", "a.txt"], 0, "", ""),
    ("<&-", ["extract", "-"], 2, "", "hf-summ: error: none of the 1 documents has any words"),
    ("<&- >&- 2>&-", ["extract", "-"], 2, "", ""),
]


def run_with_closed(streams: str, *argv: str, cwd: Path) -> subprocess.CompletedProcess:
    """Run Python with closed standard streams, which are named as in a shell."""
    command = ["sh", "-c", f'exec "$@" {streams}', "sh", sys.executable, *argv]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True)


@pytest.mark.parametrize(("closed", "argv", "status", "output", "message"), CASES_OF_CLOSED_STREAMS)
def test_closed_streams_are_empty_and_get_no_message(tmp_path, closed, argv, status, output, message):
    (tmp_path / "a.txt").write_text(SENTENCES[0], encoding="utf-8")
    (tmp_path / "blank.txt").touch()
    process = run_with_closed(closed, "-m", "hf_summ", *argv, cwd=tmp_path)
    assert (process.returncode, process.stdout) == (status, output)
    assert "Traceback" not in process.stderr
    assert process.stderr.startswith(message)
    assert bool(process.stderr) == bool(message)


def test_processes_of_a_command_inherit_the_streams_that_it_opens(tmp_path):
    code = (
        "import subprocess, sys; from hf_summ.common.processes import open_missing_streams; open_missing_streams(); "
        "subprocess.run([sys.executable, '-c', 'import sys; print(sys.stdin, sys.stderr)'])"
    )
    process = run_with_closed("<&- 2>&-", "-c", code, cwd=tmp_path)
    assert "<stdin>" in process.stdout
    assert "<stderr>" in process.stdout
