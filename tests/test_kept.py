"""What must stay: the rows of corpora, the figures of evaluations and the texts of bundled models, held in kept.json.

A change that is meant to change them writes them anew, all or those that `-k` selects:
`RENEW_KEPT=1 python -m pytest tests/test_kept.py`. Texts of ../shared/data stand there as hashes, as they belong to
their publishers.
"""

import gzip
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.data.files import json_lines
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


def folder_of_model(name: str) -> Path:
    """The folder of a bundled model; the test is skipped in a clone without it."""
    from hf_summ.pretrained import FOLDER, bundled_model

    if not (FOLDER / name).is_dir():
        pytest.skip(f"a clone without {name}")
    return bundled_model(name)


def rows_of_file(path: Path, number: int) -> list[dict[str, Any]]:
    """The first rows of a file of JSON Lines, which is read without the package."""
    open_text = gzip.open if path.suffix == ".gz" else open
    with open_text(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in islice(file, number)]


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
    from hf_summ.data.distributions import PUBLIC_CORPORA

    write_swisstext(tmp_path)
    check_distribution("swisstext", PUBLIC_CORPORA["swisstext"].load(tmp_path, str(tmp_path / "cache")))


def test_each_format_has_a_distribution():
    from hf_summ.data.raw_formats import DATA_FORMATS

    assert {name.split(",")[0] for name in DISTRIBUTIONS} == DATA_FORMATS.keys()


# figures of evaluations


@dataclass(frozen=True)
class Case:
    """An evaluation of predictions that are sentences of a corpus's documents.

    Args:
        corpus: a corpus in ../shared/data, of whose test part the first rows are used.
        first, last: the predictions are the sentences from `first` to before `last`.
        arguments: those of `hf-summ evaluate`.
        rows: number of rows.
        has_lines: whether line ends are kept, and predictions have a sentence a line; elsewhere they become spaces.
    """

    corpus: str
    last: int
    arguments: str
    first: int = 0
    rows: int = 200
    has_lines: bool = False


CASES = {
    "arxiv_titles, rouge_score": Case("arxiv_titles", 1, "--rouge_mode rouge_score --metrics bleu chrf"),
    "cnn_highlights, lines": Case("cnn_highlights", 3, "--sentences lines", rows=106, has_lines=True),
    "cnn_highlights, split": Case("cnn_highlights", 3, "--sentences split --no_stemmer --word_limit 40", rows=106),
    "scitldr_a, best": Case("scitldr_a", 1, "--several best"),
    "scitldr_a, pooled": Case("scitldr_a", 1, "--several pooled --metrics chrf"),
    "lcsts_part3": Case("lcsts_part3", 1, "--language zh --units lcsts"),
    "lcsts_part3, characters": Case("lcsts_part3", 1, "--language zh --sources sources.jsonl"),
    "dewiki_lead": Case("dewiki_lead", 2, "--language de --sources sources.jsonl", rows=60),
    # as the tables of the thesis compare German texts
    "dewiki_lead, thesis": Case("dewiki_lead", 2, "--language en --rouge_types rouge1 rouge2 rougeL"),
    "dewiki_lead, subwords": Case("dewiki_lead", 2, "--language de --rouge_tokenizer tokenizer", rows=60),
    "reuters21578_headline": Case(
        "reuters21578_headline", 1, "--rouge_mode rouge155 --byte_limit 75 --rouge_types rouge1 rouge2 rougeL rougeSU4"
    ),
    "neus_multidoc": Case("neus_multidoc", 3, "--sources sources.jsonl", rows=150),
    "neus_multidoc, micro": Case(
        "neus_multidoc", 3, "--sources sources.jsonl --average micro --count tokens --count_punctuation", rows=100
    ),
    "bbc_xsum_style": Case("bbc_xsum_style", 1, "--against second.jsonl --sources sources.jsonl", rows=164),
}


def in_one_line(text: str) -> str:
    """A text with a space in place of all white space."""
    return " ".join(text.split())


def sentences_of(text: str) -> list[str]:
    """The sentences of a text by a rule that is not the package's, which may be corrected."""
    return [sentence for sentence in re.split(r"(?<=[.!?])\s+|(?<=[。！？])", text) if sentence.strip()]


def write_evaluation(case: Case, folder: Path) -> None:
    """Files of rows: predictions with references, predictions of a second system, and sources."""
    file = file_of(case.corpus, "test")
    assert file is not None
    joined = str if case.has_lines else in_one_line
    separator = "\n" if case.has_lines else " "
    predictions, second, sources = [], [], []
    for row in rows_of_file(file, case.rows):
        documents = row.get("documents") or [row["document"]]
        sentences = [in_one_line(sentence) for sentence in sentences_of(" ".join(documents))]
        prediction = {"prediction": separator.join(sentences[case.first : case.last])}
        if "references" in row:
            prediction["references"] = [joined(text) for text in row["references"]]
        else:
            prediction["summary"] = joined(row["summary"])
        predictions.append(prediction)
        second.append({"prediction": separator.join(sentences[case.last : case.last + 2])})
        if "documents" in row:
            sources.append({"documents": [joined(text) for text in documents]})
        else:
            sources.append({"document": joined(row["document"])})
    for name, rows in {"predictions": predictions, "second": second, "sources": sources}.items():
        (folder / f"{name}.jsonl").write_text(json_lines(rows), encoding="utf-8")


def numbers_in(value: Any, path: str = "") -> dict[str, float | int]:
    """The numbers of nested JSON, each under the keys and indices that lead to it."""
    if isinstance(value, Mapping):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    elif isinstance(value, float | int) and not isinstance(value, bool):
        return {path: value}
    else:
        return {}
    numbers = {}
    for key, member in items:
        numbers |= numbers_in(member, f"{path}/{key}" if path else str(key))
    return numbers


@reads_shared_data(*{case.corpus for case in CASES.values()})
@pytest.mark.parametrize("name", CASES)
def test_figures_of_evaluations(tmp_path, monkeypatch, capsys, name):
    from hf_summ.cli import main

    monkeypatch.chdir(tmp_path)
    case = CASES[name]
    write_evaluation(case, tmp_path)
    if "--rouge_tokenizer" in case.arguments:
        (tmp_path / "tokenizer").symlink_to(folder_of_model("arxiv-tldr"))
    arguments = ["evaluate", "--predictions", "predictions.jsonl", "--format", "json", "--resamples", "100"]
    assert main(arguments + case.arguments.split()) == 0
    report = json.loads(capsys.readouterr().out)
    # the seed and the number of resamples, which are given
    del report["settings"]
    check_kept("figures", name, numbers_in(report))


# texts of bundled models

NUMBER_OF_ABSTRACTS = 100
SETTINGS: dict[str, Any] = {"batch_size": 8}


def load_pipeline(name: str) -> Callable[..., Any]:
    """The pipeline of a bundled model by PyTorch."""
    from transformers import pipeline

    return pipeline("summarization", model=folder_of_model(name), device="cpu")


def load_graphs(name: str) -> Callable[..., Any]:
    """The summarizer of a bundled model by its graphs."""
    pytest.importorskip("onnxruntime")
    from hf_summ.runtimes import OnnxSummarizer

    return OnnxSummarizer(folder_of_model(name), threads=1)


SUMMARIZERS = {
    "arxiv-tldr": load_pipeline,
    "arxiv-tldr, graphs": load_graphs,
    "arxiv-title": load_pipeline,
    "arxiv-title, graphs": load_graphs,
}


@reads_shared_data("arxiv_titles")
@pytest.mark.parametrize("name", SUMMARIZERS)
def test_texts_of_bundled_models(name):
    rows = rows_of_file(SHARED_DATA / "arxiv_titles" / "validation.jsonl.gz", NUMBER_OF_ABSTRACTS)
    summarize = SUMMARIZERS[name](name.split(",")[0])
    records = summarize([row["document"] for row in rows], **SETTINGS)
    texts = [record["summary_text"] for record in records]
    # the abstracts are CC0
    check_kept("summaries", name, {"texts": len(texts), "first": texts[:3], "all": hash_of(texts)})
