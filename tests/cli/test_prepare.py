"""`hf-summ prepare` on small files in the form in which each corpus is distributed."""

import dataclasses
import hashlib
import re
import signal
from pathlib import Path

import pytest

from hf_summ.cli import main
from hf_summ.data import Corpus, load
from hf_summ.data.corpora import SPLITS, file_flag
from hf_summ.data.distributions import PUBLIC_CORPORA
from tests.data.files import json_lines, read_rows, write, write_csv
from tests.data.test_xsum import write_xsum

# a row of each split, with characters that some writers of JSON escape
ROWS = {split: {"document": f"Es regnete / in {split} – immer.", "summary": f"Regen in {split}"} for split in SPLITS}


def write_xsum_corpus(folder):
    write_xsum(folder, {split: [split] for split in SPLITS})
    for split, row in ROWS.items():
        text = f"[SN]FIRST-SENTENCE[SN]\n{row['summary']}\n\n[SN]RESTBODY[SN]\n{row['document']}\n"
        write(folder / "bbc-summary-data" / f"{split}.summary", text)


def write_cnn_dailymail(folder):
    (folder / "cnn" / "stories").mkdir(parents=True)
    for (split, row), part in zip(ROWS.items(), ("train", "val", "test"), strict=True):
        address = f"http://www.cnn.com/{split}"
        write(folder / f"all_{part}.txt", f"{address}\n")
        story = f"{row['document']}\n\n@highlight\n\n{row['summary']}\n"
        write(folder / "cnn" / "stories" / f"{hashlib.sha1(address.encode()).hexdigest()}.story", story)


def write_newsroom(folder):
    for row, part in zip(ROWS.values(), ("train", "dev", "test"), strict=True):
        abstractive = {"text": row["document"], "summary": row["summary"], "density_bin": "abstractive"}
        mixed = {**abstractive, "density_bin": "mixed"}
        write(folder / f"{part}.jsonl.gz", json_lines([abstractive, mixed]))


def write_gigaword(folder):
    (folder / "train").mkdir()
    (folder / "Giga").mkdir()
    names = {"train": "train/train.{}.txt", "validation": "train/valid.{}.filter.txt"}
    for split, name in names.items():
        write(folder / name.format("article"), f"{ROWS[split]['document']}\n")
        write(folder / name.format("title"), f"{ROWS[split]['summary']}\n")
    write(folder / "Giga" / "input.txt", f"{ROWS['test']['document']}\n")
    write(folder / "Giga" / "task1_ref0.txt", f"{ROWS['test']['summary']}\n")


def write_multi_news(folder):
    for row, part in zip(ROWS.values(), ("train", "val", "test"), strict=True):
        write(folder / f"{part}.src.cleaned", f"{row['document']} ||||| Another.\n")
        write(folder / f"{part}.tgt", f"{row['summary']}\n")


def write_lcsts(folder):
    for (split, row), part in zip(ROWS.items(), ("I", "II", "III"), strict=True):
        text = f"<summary>{row['summary']}</summary><short_text>{row['document']}</short_text>"
        if split == "train":
            content = f"<doc id=3>{text}</doc>\n"
        else:
            content = ""
            for score in (2, 3):
                content += f"<doc id={score}><human_label>{score}</human_label>{text}</doc>\n"
        write(folder / f"PART_{part}.txt", content)


def write_swisstext(folder):
    rows = [{"source": f"Dokument {number}", "summary": f"Satz {number}"} for number in range(40)]
    write_csv(folder / "data_train.csv", rows)


def write_wmt16(folder, language, training, validation, test):
    """The first corpus has the row; the others have a blank sentence, which is left out."""
    (folder / "training").mkdir()
    (folder / "dev").mkdir()
    for number, stem in enumerate(training):
        row = {"document": "", "summary": "leer"} if number else ROWS["train"]
        write(folder / "training" / f"{stem}.en", f"{row['document']}\n")
        write(folder / "training" / f"{stem}.{language}", f"{row['summary']}\n")
    for split, stem in (("validation", validation), ("test", test)):
        source, reference = ROWS[split]["document"], ROWS[split]["summary"]
        content = f'<srcset>\n<p>\n<seg id="1">{source}</seg>\n</p>\n'
        write(folder / "dev" / f"{stem}-src.en.sgm", content)
        # a translator's name stands before the references alone
        content = f'<refset>\n<doc sysid="ref">\n<p>\n<seg id="1">{reference}</seg>\n</p>\n'
        write(folder / "dev" / f"{stem}-ref.{language}.sgm", content)


def write_wmt16_en_de(folder):
    training = ["europarl-v7.de-en", "commoncrawl.de-en", "news-commentary-v11.de-en"]
    write_wmt16(folder, "de", training, "newstest2013", "newstest2014-deen")
    # the test set of another language and that of the opposite direction are not read
    for name in ("newstest2014-fren-src.en", "newstest2014-deen-src.de"):
        write(folder / "dev" / f"{name}.sgm", '<seg id="1">other</seg>\n')


def write_wmt16_en_ro(folder):
    write_wmt16(folder, "ro", ["europarl-v8.ro-en", "SETIMES.en-ro"], "newsdev2016-enro", "newstest2016-enro")


WRITERS = {
    "xsum": write_xsum_corpus,
    "cnn_dailymail": write_cnn_dailymail,
    "newsroom_abs": write_newsroom,
    "gigaword": write_gigaword,
    "multi_news": write_multi_news,
    "lcsts": write_lcsts,
    "wmt16_en_de": write_wmt16_en_de,
    "wmt16_en_ro": write_wmt16_en_ro,
    "swisstext": write_swisstext,
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """The folder of a distribution, `raw` in the folder to work in."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "raw").mkdir()
    return tmp_path / "raw"


def read(split: str) -> list[dict]:
    return read_rows(Path(f"rows/{split}.jsonl"))


CORPORA_WITH_SPLITS = [name for name in PUBLIC_CORPORA if name != "swisstext"]


@pytest.mark.thorough
@pytest.mark.parametrize("corpus", CORPORA_WITH_SPLITS)
def test_rows_of_each_corpus(run, folder, tmp_path, corpus):
    WRITERS[corpus](folder)
    output, _ = run("prepare", corpus, "raw", "--output", "rows")
    assert {path.name for path in Path("rows").iterdir()} == {f"{split}.jsonl" for split in SPLITS}
    for split, expected, line in zip(SPLITS, PUBLIC_CORPORA[corpus].counts, output.splitlines(), strict=True):
        (row,) = read(split)
        document = row.get("document") or row["documents"][0]
        assert {"document": document, "summary": row["summary"]} == ROWS[split]
        assert line.startswith(f"rows/{split}.jsonl: 1 rows, but ")
        assert line.endswith(f" has {expected:,}: is a file truncated, or of another version?")
    # the recipe reads the same rows of the prepared files and of the distribution
    prepared_files = {file_flag(split): f"rows/{split}.jsonl" for split in SPLITS}
    prepared = load(Corpus(**prepared_files), str(tmp_path / "cache"))
    raw_files = {file_flag(split): "raw" for split in SPLITS}
    raw = load(Corpus(**raw_files, **PUBLIC_CORPORA[corpus].reading), str(tmp_path / "cache"))
    assert prepared.keys() == raw.keys()
    for split, rows in prepared.items():
        assert rows.to_list() == raw[split].to_list()


def test_tags_of_sentences_in_gehrmanns_files_are_ends_of_lines(run, folder):
    for part in ("train", "val", "test"):
        write(folder / f"{part}.txt.src", "a mayor opened a bridge . it rained .\nsecond\n")
        write(folder / f"{part}.txt.tgt.tagged", "<t> a bridge opens . </t> <t> it rains . </t>\n<t> two </t>\n")
    run("prepare", "cnn_dailymail", "raw", "--output", "rows")
    for split in SPLITS:
        assert read(split) == [
            {"document": "a mayor opened a bridge . it rained .", "summary": "a bridge opens .\nit rains ."},
            {"document": "second", "summary": "two"},
        ]
    (folder / "test.txt.tgt.tagged").unlink()
    with pytest.raises(ValueError, match=r"test\.txt\.tgt\.tagged does not exist"):
        load(Corpus(test_file="raw", data_format="cnn_dm"))


def test_one_file_is_divided_in_the_same_way_each_time(run, folder):
    write_swisstext(folder)
    run("prepare", "swisstext", "raw", "--output", "rows")
    parts = {split: read(split) for split in SPLITS}
    assert [len(rows) for rows in parts.values()] == [36, 2, 2]
    numbers = []
    for rows in parts.values():
        numbers.extend(int(row["document"].split()[1]) for row in rows)
    assert sorted(numbers) == list(range(40))
    assert numbers[36:] != list(range(36, 40))
    run("prepare", "swisstext", "raw", "--output", "rows")
    assert {split: read(split) for split in SPLITS} == parts


def test_the_published_number_of_rows_is_not_noted(run, folder, monkeypatch):
    write_gigaword(folder)
    exact = dataclasses.replace(PUBLIC_CORPORA["gigaword"], counts=(1, 1, 1))
    monkeypatch.setitem(PUBLIC_CORPORA, "gigaword", exact)
    output, _ = run("prepare", "gigaword", "raw", "--output", "rows")
    assert output == "rows/train.jsonl: 1 rows\nrows/validation.jsonl: 1 rows\nrows/test.jsonl: 1 rows\n"
    # 1 is within the tolerance of 2
    rounded = dataclasses.replace(exact, counts=(2, 1, 1), tolerance=0.5)
    monkeypatch.setitem(PUBLIC_CORPORA, "gigaword", rounded)
    same_output, _ = run("prepare", "gigaword", "raw", "--output", "rows")
    assert same_output == output


def test_a_missing_side_of_a_translation_is_named(refusal, folder):
    write_wmt16_en_ro(folder)
    (folder / "training" / "SETIMES.en-ro.ro").unlink()
    message = refusal("prepare", "wmt16_en_ro", "raw", "--output", "rows")
    assert message.startswith("raw has no SETIMES*.en-ro.ro and no SETIMES*.en-ro-ref.ro.sgm, the train split")


def test_sigterm_leaves_no_copy_of_the_corpus(folder, monkeypatch, ignored_sigterm):
    write_gigaword(folder)

    def stop(row: dict) -> str:
        # the converted data set, and the draft of a file
        assert len(list(Path("rows").iterdir())) == 2
        signal.raise_signal(signal.SIGTERM)
        return "{}"

    monkeypatch.setattr("hf_summ.data.distributions.to_json", stop)
    with pytest.raises(SystemExit) as end:
        main(["prepare", "gigaword", "raw", "--output", "rows"])
    assert end.value.code == 143
    assert not list(Path("rows").iterdir())


CASES_OF_REFUSED_CORPORA = [
    (["nowhere", "--output", "rows"], "^nowhere does not exist"),
    (["raw", "--output", "raw/../raw"], "^--output raw/../raw: would replace files of the corpus: name another"),
    (["raw", "--output", "file"], "File exists: 'file'$"),
    (["raw", "--output", "rows"], "^raw has no train.article.txt and no train/train.article.txt"),
]


@pytest.mark.parametrize(("argv", "message"), CASES_OF_REFUSED_CORPORA)
def test_what_cannot_work_is_told(refusal, argv, message):
    Path("file").touch()
    assert re.search(message, refusal("prepare", "gigaword", *argv))
    assert not list(Path().glob("rows/*"))
