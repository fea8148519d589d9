"""Files and folders are written completely or not at all; names of checkpoints on a Hub that is there, or is not."""

import os
import stat
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hf_summ.common import files
from hf_summ.common.files import bundled_folder, check_hub_reachable, moved_into_place, write_atomically
from tests.conftest import run_python, start
from tests.hub import LocalHub

# nothing listens at this port
NOWHERE = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HUB_OFFLINE": "0"}
CODE = """
import sys
from huggingface_hub import hf_hub_download
from hf_summ.common.files import check_hub_reachable
name, *download = sys.argv[1:]
for file in download:
    hf_hub_download(name, file)
check_hub_reachable(name)
"""


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "results.json"
    write_atomically(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "new \ud83d")
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_half_made_folder_goes(tmp_path):
    def make() -> None:
        with moved_into_place(tmp_path / "model") as part:
            part.mkdir()
            (part / "half").write_text("h")
            raise RuntimeError("out of ideas")

    with pytest.raises(RuntimeError, match="out of ideas"):
        make()
    assert not list(tmp_path.iterdir())


def test_a_folder_that_holds_something_is_not_replaced(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").write_text("w")
    with pytest.raises(OSError, match="model"), moved_into_place(tmp_path / "model") as part:
        part.mkdir()
    assert list(tmp_path.iterdir()) == [tmp_path / "model"]
    assert (tmp_path / "model" / "weights").read_text() == "w"


def test_two_writers_do_not_share_a_half_made_file(tmp_path):
    with moved_into_place(tmp_path / "report.md") as part:
        part.write_text("half of ours")
        write_atomically(tmp_path / "report.md", "theirs")
        assert (tmp_path / "report.md").read_text() == "theirs"
        part.write_text("ours")
    assert (tmp_path / "report.md").read_text() == "ours"
    assert list(tmp_path.iterdir()) == [tmp_path / "report.md"]


def test_many_writers_at_once_leave_one_whole_text(tmp_path):
    texts = [f"{writer}" * 100_000 for writer in range(8)]
    with ThreadPoolExecutor(8) as writers:
        for text in texts * 4:
            writers.submit(write_atomically, tmp_path / "report.md", text)
    assert (tmp_path / "report.md").read_text() in texts
    assert list(tmp_path.iterdir()) == [tmp_path / "report.md"]


def test_links_stay_links(tmp_path):
    (tmp_path / "real").mkdir()
    for target in ("real/old", "real/new"):
        (tmp_path / "link").unlink(missing_ok=True)
        (tmp_path / "link").symlink_to(target)
        (tmp_path / "real" / "old").write_text("old")
        write_atomically(tmp_path / "link", "new")
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / target).read_text() == "new"


@pytest.mark.parametrize("mode", [0o600, 0o664])
def test_permissions_stay(tmp_path, mode):
    path = tmp_path / "report.md"
    path.write_text("old")
    path.chmod(mode)
    write_atomically(path, "new")
    assert stat.S_IMODE(path.stat().st_mode) == mode
    # and a new file has the usual ones
    write_atomically(tmp_path / "new", "new")
    (tmp_path / "plain").write_text("new")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize(("folder", "file"), [(0o755, 0o644), (0o750, 0o640), (0o700, 0o600)])
def test_files_are_shared_as_their_folder_is(tmp_path, folder, file):
    with moved_into_place(tmp_path / "model") as part:
        part.mkdir()
        part.chmod(folder)
        # as safetensors writes
        (part / "model.safetensors").touch(mode=0o600)
    assert stat.S_IMODE((tmp_path / "model" / "model.safetensors").stat().st_mode) == file
    assert stat.S_IMODE((tmp_path / "model").stat().st_mode) == folder


def test_a_name_may_be_as_long_as_names_can_be(tmp_path):
    for name in ("x" * 255, "é" * 127):
        write_atomically(tmp_path / name, "text")
        assert (tmp_path / name).read_text() == "text"


def test_a_pipe_is_written_to(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor() as readers:
        read = readers.submit((tmp_path / "pipe").read_text)
        write_atomically(tmp_path / "pipe", "text")
        assert read.result() == "text"
    assert (tmp_path / "pipe").is_fifo()


def test_devices_are_written_to(tmp_path):
    before = os.stat("/dev/null")
    write_atomically("/dev/null", "text")
    assert os.stat("/dev/null").st_ino == before.st_ino
    code = "from hf_summ.common.files import write_atomically; write_atomically('/dev/stdout', 'text')"
    with open(tmp_path / "out", "w") as out:
        out.write("before ")
        out.flush()
        subprocess.run([sys.executable, "-c", code], stdout=out, check=True)
    assert (tmp_path / "out").read_text() == "before text"


def test_bundled_folders_are_those_that_the_wheel_has_inside(tmp_path, monkeypatch):
    root = Path(__file__).parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    build = project["tool"]["hatch"]["build"]["targets"]
    included = build["wheel"]["force-include"]
    assert included == {name: f"hf_summ/{name}" for name in ("configs", "model_cards")}
    for name in included:
        assert bundled_folder(name) == root / name
        assert f"/{name}" in build["sdist"]["include"]
    assert (bundled_folder("model_cards") / "template.md").is_file()
    # an installed package has its bundled folders inside
    (tmp_path / "hf_summ" / "configs").mkdir(parents=True)
    monkeypatch.setattr(files, "__file__", str(tmp_path / "hf_summ" / "common" / "files.py"))
    assert bundled_folder("configs") == tmp_path / "hf_summ" / "configs"
    assert bundled_folder("model_cards") == tmp_path.parent / "model_cards"


def check(home: Path, *argv: str, **environment: str) -> str:
    """The last line that a process prints which checks a name after it has downloaded files of it."""
    _, errors = start("-c", CODE, *argv, **{"HF_HOME": str(home), **environment}).communicate()
    assert "Retrying" not in errors
    return errors.strip().rpartition("\n")[2]


@pytest.mark.thorough
def test_only_what_is_neither_here_nor_on_the_hub_is_out_of_reach(tmp_path):
    folder = tmp_path / "processor"
    folder.mkdir()
    (folder / "tokenizer_config.json").write_text("{}")
    with LocalHub() as hub:
        hub.publish("org/processor", folder)
        there = hub.environment(tmp_path)
        # the Hub's own answer is reported by what loads the checkpoint
        assert check(tmp_path, "org/other", **there) == check(tmp_path, "org/processor", **there) == ""
        assert check(tmp_path, "org/processor", "tokenizer_config.json", **there) == ""
    assert check(tmp_path, str(folder), **NOWHERE) == ""
    # huggingface/huggingface_hub#4487: each file would be retried
    note = check(tmp_path, "org/processor", **NOWHERE)
    assert note.startswith("hf-summ: the Hub cannot be reached (")
    assert note.endswith("): HF_HUB_OFFLINE=1 is set; org/processor is read from this machine")
    assert check(tmp_path, "org/other", **NOWHERE).startswith(
        "OSError: org/other is not on this machine, and the Hub cannot be reached ("
    )


@pytest.mark.parametrize("name", ["a/b", "a/b/c", "./a", ""])
def test_hub_is_not_asked_offline_or_for_what_is_no_name(name):
    check_hub_reachable(name)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "argv",
    [
        "summarize rows.jsonl --text_column text --output_column own --output out --model org/other",
        "summarize rows.txt --model other",
        "train --train_file rows.jsonl --do_train --output_dir out --model_name_or_path other",
        "compare-lms rows.txt --models other other",
    ],
)
def test_no_command_waits_for_a_hub_that_is_not_there(tmp_path, argv):
    (tmp_path / "rows.txt").write_text("A text.\n")
    (tmp_path / "rows.jsonl").write_text('{"text": "A text.", "summary": "It."}\n')
    _, errors = run_python("-m", "hf_summ", *argv.split(), status=2, cwd=tmp_path, **NOWHERE)
    assert "is not on this machine" in errors.splitlines()[-1]
    assert "Retrying" not in errors
