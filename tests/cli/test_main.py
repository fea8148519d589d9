"""The command line as a whole."""

import os
import signal
import subprocess
import sys
import time
from importlib.metadata import entry_points

import pytest

from hf_summ import __version__
from hf_summ.cli import main
from tests.cli.conftest import start
from tests.conftest import SENTENCES


def test_installed_command_is_this_one():
    (command,) = entry_points(group="console_scripts", name="hf-summ")
    assert command.load() is main


def test_new_process_reads_standard_input(run, workplace):
    text = f"{SENTENCES[0]} 🎉"
    (workplace / "a.txt").write_text(text, encoding="utf-8")
    argv = ["summarize", "--model", "model", "--format", "jsonl"]
    process = subprocess.run(
        [sys.executable, "-m", "hf_summ", *argv], input=text.encode(), capture_output=True, check=True
    )
    expected, _ = run(*argv, "a.txt")
    assert process.stdout.decode() == expected.replace("a.txt", "-")


@pytest.mark.parametrize("argv", [["--help"], ["table", "--list"]])
def test_output_that_nobody_reads_ends_the_command_quietly(tmp_path, argv):
    process = start(*argv, cwd=tmp_path)
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
    assert process.communicate() == ("", "\nhf-summ: interrupted: the same command starts over\n")
    assert process.returncode == 130


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["sumarize"], "invalid choice: 'sumarize' (choose from"),
        (["summarize", "a.txt"], "the following arguments are required: --model"),
        (["average", "run", "--output", "mean", "--last", "1", "--best", "1"], "--best: not allowed with argument"),
    ],
)
def test_wrong_use_is_named(capsys, argv, message):
    with pytest.raises(SystemExit) as end:
        main(argv)
    assert end.value.code == 2
    assert message in capsys.readouterr().err


def test_version_and_help(capsys):
    for argv, said in (["--version"], f"hf-summ {__version__}\n"), (["--help"], "Summarize text files"):
        with pytest.raises(SystemExit) as end:
            main(argv)
        assert end.value.code == 0
        assert said in capsys.readouterr().out
