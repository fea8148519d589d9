"""A tiny model, rows in shards of ten, and processes that end in the middle of them."""

import importlib
from argparse import Namespace
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from hf_summ.cli.summarizers import load_summarizer
from hf_summ.data.files import read_files
from hf_summ.offline.engines import Work
from hf_summ.offline.shards import Plan
from tests.conftest import SENTENCES, save
from tests.data.files import json_lines, write
from tests.training.tiny import bart

ROWS = [{"id": index, "text": " ".join(SENTENCES[: index % 5 + 1])} for index in range(40)]
# a module that other processes import: a deadly text ends the first process that reads it, and a fatal text every
# process; an endless text is read for a minute; each process writes to a file when it loads the model
_MORTAL = """
import os
import time
from pathlib import Path
from hf_summ.cli.summarizers import load_summarizer

def load(arguments, device=None):
    Path(arguments.once).with_name(f"loaded-{os.getpid()}").open("a").write("once ")
    summarizer = load_summarizer(arguments)
    read = summarizer.preprocess

    def preprocess(example, **settings):
        document = getattr(example, "document", example)
        if "endless" in document:
            time.sleep(60)
        if "fatal" in document:
            os._exit(9)
        if "deadly" in document and os.path.exists(arguments.once):
            os.remove(arguments.once)
            os.kill(os.getpid(), 9)
        return read(example, **settings)

    summarizer.preprocess = preprocess
    return summarizer
"""


@pytest.fixture
def mortal(tmp_path, monkeypatch, tiny_tokenizer) -> Path:
    """A folder with a tiny BART in `bart`, and a module `mortal` whose `load` gives a model that ends its process."""
    save(tmp_path / "bart", bart(tiny_tokenizer), tiny_tokenizer)
    write(tmp_path / "mortal.py", _MORTAL)
    write(tmp_path / "once", "")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def work(folder: Path, is_mortal: bool = False) -> Work:
    """Summarizing rows in batches of four, by a model that deadly texts end if it is mortal."""
    load = load_summarizer
    if is_mortal:
        load = importlib.import_module("mortal").load
    flags = {"device": "cpu", "trust_remote_code": False, "revision": None, "dtype": None, "phrase": None}
    arguments = Namespace(model=str(folder / "bart"), once=str(folder / "once"), **flags)
    return Work(partial(load, arguments), {"max_new_tokens": 2, "num_beams": 1}, 4)


def plan(folder: Path, output: str, rows: list[dict]) -> Plan:
    """The plan to write the rows' summaries to a folder, in shards of ten."""
    file = write(folder / "rows.jsonl", json_lines(rows))
    return Plan(read_files(file), "text", None, "summary", 10, folder / output, "parquet")


def rows_with(word: str, number: int) -> list[dict]:
    """`ROWS`, of which the text with this number begins with the word."""
    rows = list(ROWS)
    rows[number] = {"id": number, "text": f"{word} {ROWS[number]['text']}"}
    return rows


def rows_of(folder: Path) -> list[dict]:
    """All rows that are written."""
    rows = []
    for path in sorted(folder.glob("shard-*.parquet")):
        rows.extend(pq.read_table(path).to_pylist())
    return rows
