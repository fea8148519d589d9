"""What must stay: the rows of corpora, the figures of evaluations and the texts of bundled models, held in kept.json.

A change that is meant to change them writes them anew, all or those that `-k` selects:
`RENEW_KEPT=1 python -m pytest tests/test_kept.py`. Texts of ../shared/data stand there as hashes, as they belong to
their publishers.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.distributions import DISTRIBUTIONS, write_swisstext
from tests.shared_data import SHARED_DATA, reads_shared_data

pytestmark = pytest.mark.thorough

KEPT = Path(__file__).with_name("kept.json")
IS_RENEWED = "RENEW_KEPT" in os.environ
SPLITS = ("train", "validation", "test")
TEXT_COLUMNS = ("document", "summary", "documents", "references")
CORPORA = """allsides_lead allsides_sent_headline arxiv_titles bbc_xsum_style cnn_highlights dewiki_lead lcsts_part3
neus_fulltext neus_multidoc reuters21578_headline scitldr_a xwlb_headline""".split()


def check_kept(part: str, name: str, value: dict[str, Any]) -> None:
    """Compare a value with the one in kept.json, or write it there; floats may differ by 1e-9."""
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.is_file() else {}
    if IS_RENEWED:
        kept.setdefault(part, {})[name] = value
        KEPT.write_text(json.dumps(kept, ensure_ascii=False, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        return
    expected = kept[part][name]
    assert value.keys() == expected.keys()
    for key in expected:
        if isinstance(expected[key], float):
            assert value[key] == pytest.approx(expected[key], rel=0, abs=1e-9), key
        else:
            assert value[key] == expected[key], key


def hash_of(value: Any) -> str:
    """The SHA-256 of a value's JSON."""
    return hashlib.sha256(json.dumps(value).encode("ascii")).hexdigest()


def texts_of_row(row: dict[str, Any]) -> list[Any]:
    """The texts of a row in the order of `TEXT_COLUMNS`, with None for columns that the corpus lacks."""
    return [row.get(column) for column in TEXT_COLUMNS]


def hash_of_rows(rows: Iterable[dict[str, Any]]) -> str:
    """The SHA-256 of the texts of all rows."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(hash_of(texts_of_row(row)).encode("ascii"))
    return digest.hexdigest()


# corpora


def file_of(corpus: str, split: str) -> Path | None:
    """The file of a split of a corpus in ../shared/data, or None if it has no such split."""
    for ending in ("jsonl.gz", "jsonl"):
        file = SHARED_DATA / corpus / f"{split}.{ending}"
        if file.is_file():
            return file
    return None


@reads_shared_data(*CORPORA)
@pytest.mark.parametrize("name", CORPORA)
def test_rows_of_corpora(tmp_path, name):
    from hf_summ.data import Corpus, load

    files = {f"{split}_file": str(file_of(name, split)) for split in SPLITS if file_of(name, split)}
    loaded = load(Corpus(**files), cache_dir=str(tmp_path))
    value = {}
    for split, rows in loaded.items():
        value[split] = {
            "rows": len(rows),
            "columns": [column for column in TEXT_COLUMNS if column in rows.column_names],
            "first": hash_of(texts_of_row(rows[0])),
            "last": hash_of(texts_of_row(rows[-1])),
            "all": hash_of_rows(rows),
        }
    check_kept("corpora", name, value)


# published formats


def check_distribution(name: str, loaded: Mapping[str, Any]) -> None:
    """Compare the splits of an invented distribution, whose texts may be stored."""
    value = {}
    for split, rows in loaded.items():
        value[split] = {"rows": len(rows), "first": rows[0], "last": rows[-1], "all": hash_of_rows(rows)}
    check_kept("distributions", name, value)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_rows_of_published_formats(tmp_path, name):
    from hf_summ.data import Corpus, load

    folder = tmp_path / "distribution"
    folder.mkdir()
    settings = DISTRIBUTIONS[name](folder)
    check_distribution(name, load(Corpus(**settings), cache_dir=str(tmp_path / "cache")))


def test_rows_of_swisstext(tmp_path):
    from hf_summ.data.corpora import PUBLIC_CORPORA

    write_swisstext(tmp_path)
    check_distribution("swisstext", PUBLIC_CORPORA["swisstext"].load(tmp_path, str(tmp_path / "cache")))


def test_each_format_has_a_distribution():
    from hf_summ.data.raw_formats import DATA_FORMATS

    assert {name.split(",")[0] for name in DISTRIBUTIONS} == DATA_FORMATS.keys()
