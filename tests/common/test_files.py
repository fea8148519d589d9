"""Files and folders are written completely or not at all."""

import json
import os
import tomllib
from pathlib import Path

import pytest

from hf_summ.common import files
from hf_summ.common.files import moved_into_place, shipped_folder, write_atomically


def test_written_files_replace_the_old_ones(tmp_path):
    path = tmp_path / "results.json"
    write_atomically(path, "old")
    write_atomically(path, json.dumps({"a": "ü"}, ensure_ascii=False))
    assert json.loads(path.read_text(encoding="utf-8")) == {"a": "ü"}
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "results.json"
    write_atomically(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "new \ud83d")
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_stands_there_when_it_is_whole(tmp_path):
    with moved_into_place(tmp_path / "model") as part:
        part.mkdir()
        (part / "weights").write_text("w")
        assert not (tmp_path / "model").exists()
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["weights"]
    assert list(tmp_path.iterdir()) == [tmp_path / "model"]


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


def test_two_processes_do_not_share_a_half_made_file(tmp_path, monkeypatch):
    with moved_into_place(tmp_path / "report.md") as part:
        part.write_text("half of ours")
        with monkeypatch.context() as another:
            another.setattr(os, "getpid", lambda: -1)
            write_atomically(tmp_path / "report.md", "theirs")
        assert (tmp_path / "report.md").read_text() == "theirs"
        part.write_text("ours")
    assert (tmp_path / "report.md").read_text() == "ours"
    assert list(tmp_path.iterdir()) == [tmp_path / "report.md"]


def test_shipped_folders_are_those_that_the_wheel_has_inside():
    root = Path(__file__).parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    build = project["tool"]["hatch"]["build"]["targets"]
    included = build["wheel"]["force-include"]
    assert included == {name: f"hf_summ/{name}" for name in ("configs", "model_cards")}
    for name in included:
        assert shipped_folder(name) == root / name
        assert f"/{name}" in build["sdist"]["include"]
    assert (shipped_folder("model_cards") / "template.md").is_file()


def test_an_installed_package_has_its_shipped_folders_inside(tmp_path, monkeypatch):
    (tmp_path / "hf_summ" / "configs").mkdir(parents=True)
    monkeypatch.setattr(files, "__file__", str(tmp_path / "hf_summ" / "common" / "files.py"))
    assert shipped_folder("configs") == tmp_path / "hf_summ" / "configs"
    assert shipped_folder("model_cards") == tmp_path.parent / "model_cards"
