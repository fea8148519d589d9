"""Files and folders are written completely or not at all."""

import os
import stat
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hf_summ.common import files
from hf_summ.common.files import bundled_folder, moved_into_place, write_atomically


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


def test_folders_above_an_output_are_made(tmp_path):
    """`hf-summ export … --output a/b` ended after the export with an error, as there was no `a`."""
    with moved_into_place(tmp_path / "a" / "b" / "model") as part:
        part.mkdir()
    assert (tmp_path / "a" / "b" / "model").is_dir()
    assert len(list(tmp_path.rglob("*"))) == 3


def test_a_folder_that_holds_something_is_not_replaced(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").write_text("w")
    with pytest.raises(OSError, match="model"), moved_into_place(tmp_path / "model") as part:
        part.mkdir()
    assert list(tmp_path.iterdir()) == [tmp_path / "model"]
    assert (tmp_path / "model" / "weights").read_text() == "w"


def test_two_writers_do_not_share_a_half_made_file(tmp_path):
    with moved_into_place(tmp_path / "report.md") as part:
        part.write_text("half of the first")
        write_atomically(tmp_path / "report.md", "the second")
        assert (tmp_path / "report.md").read_text() == "the second"
        part.write_text("the first")
    assert (tmp_path / "report.md").read_text() == "the first"
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


CASES_OF_PERMISSIONS = [(0o755, 0o644), (0o750, 0o640), (0o700, 0o600)]


@pytest.mark.parametrize(("folder_mode", "file_mode"), CASES_OF_PERMISSIONS)
def test_files_are_shared_as_their_folder_is(tmp_path, folder_mode, file_mode):
    with moved_into_place(tmp_path / "model") as part:
        part.mkdir()
        part.chmod(folder_mode)
        # as safetensors writes
        (part / "model.safetensors").touch(mode=0o600)
    assert stat.S_IMODE((tmp_path / "model" / "model.safetensors").stat().st_mode) == file_mode
    assert stat.S_IMODE((tmp_path / "model").stat().st_mode) == folder_mode


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
