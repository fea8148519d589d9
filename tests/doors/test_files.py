"""Corpora and files of texts, also compressed or spoiled; data sets as their authors distribute them."""

import json

from hypothesis import strategies as st

from hf_summ.data import Corpus, load
from hf_summ.data.columns import has_text
from hf_summ.data.raw_formats import DATA_FORMATS
from hf_summ.evaluation.text_files import part_sentences, read_predictions, read_references, read_sources
from hf_summ.models.text_documents import readable
from tests.doors import strategies as our
from tests.doors.outcomes import door, tried, unchanged

_COLUMNS = (("document", "summary"), ("article", "highlights"), ("documents", "references"), ("summary", "document"))
_ENDINGS = st.sampled_from(("jsonl", "jsonl", "json", "csv", "source", "txt", "JSONL"))
_TABLES = ("jsonl", "json", "csv", "JSONL")


@door(data=st.data(), folder=our.folders, columns=st.sampled_from(_COLUMNS), is_named=st.booleans())
def test_corpora(data, folder, columns, is_named):
    ending, content, rows = data.draw(our.files(columns, _ENDINGS))
    (file := folder / f"train.{ending}").write_bytes(content)
    if "source" in ending:
        (folder / "train.target").write_text("a\nb\n")
    named = dict(zip(("text_column", "summary_column"), columns, strict=True)) if is_named else {}
    odd = st.sampled_from(("x" * 300 + ".jsonl", "\0.jsonl", "", "~", "/", ",", f"{file}x"))
    corpus = Corpus(train_file=data.draw(our.mostly(st.just(str(file)), odd)), **named)
    with unchanged(file):
        train = tried(lambda: load(corpus, cache_dir=str(folder / "cache")))["train"]
    texts = [(row["document"], row["summary"]) for row in train]
    assert texts
    assert all(has_text(text) and text.encode("utf-8") for pair in texts for text in pair)
    is_whole = all(row.keys() == {*columns} and all(type(text) is str for text in row.values()) for row in rows or ())
    if rows is not None and is_named and is_whole and ending.partition(".")[0] in _TABLES:
        pairs = [tuple(readable(row[column]) for column in columns) for row in rows]
        # a byte-order mark is dropped at the beginning of a line, as joined files have it there
        expected, found = ([[text.replace("\ufeff", "") for text in pair] for pair in one] for one in (pairs, texts))
        assert found == [pair for pair in expected if all(map(has_text, pair))]


@door(
    folder=our.folders,
    file=our.files(("prediction", "reference"), _ENDINGS),
    read=st.sampled_from((read_predictions, read_references, read_sources)),
    separator=st.sampled_from((None, None, "none", "|||", "")),
)
def test_files_of_texts(folder, file, read, separator):
    ending, content, _ = file
    (path := folder / f"texts.{ending}").write_bytes(content)
    with unchanged(path):
        texts, _ = tried(lambda: part_sentences(read(str(path)), separator))
    assert all(row and all(isinstance(text, str) for text in row) for row in texts.rows)
    assert len(texts.labels()) == len(texts.rows)


@st.composite
def _distributions(draw, name: str) -> tuple[str, dict[str, str]]:
    """A split, and the files that a data set's authors distribute for it."""
    rows = draw(st.lists(st.tuples(our.clean_texts, our.clean_texts), min_size=1, max_size=4))
    documents, summaries = ([" ".join(text.split("\n")) for text in column] for column in zip(*rows, strict=True))
    split, mark = draw(st.sampled_from(("train", "validation", "test"))), draw(st.integers(0, 5))
    match name:
        case "gigaword":
            stem = {"train": "train.{}.txt", "validation": "valid.{}.filter.txt"}.get(split, "{}.txt")
            names = ("input", "task1_ref0") if split == "test" else ("article", "title")
            files = {stem.format(names[0]): documents, stem.format(names[1]): summaries}
        case "duc":
            split, numbers = "test", ((0, 1), (0, 1, 2), (0, 1, 2, 3), (0,), (0, 2), (1, 2))[mark]
            files = {"input.txt": documents} | {f"task1_ref{number}.txt": summaries for number in numbers}
        case "multi_news":
            stem = {"train": "train.{}", "validation": "val.{}.cleaned", "test": "test.txt.{}"}[split]
            several = [f"{text} NEWLINE_CHAR b {'|||||' if mark else ''} c" for text in documents]
            files = {stem.format("src"): several, stem.format("tgt"): summaries}
        case "lcsts":
            label = ("", "", "1", "5", "five", "9")[mark]
            head = f"<human_label>{label}</human_label>" if label else ""
            tail = "</short_text>\n</doc>"
            several = [f"<doc id=0>\n{head}\n<summary>\n{b}\n</summary>\n<short_text>\n{a}\n{tail}" for a, b in rows]
            files = {f"PART_{({'train': 'I', 'validation': 'II'}).get(split, 'III')}.txt": several}
        case "newsroom":
            density = ("abstractive", "mixed", "extractive", "other", None, 3)[mark]
            several = [json.dumps({"text": a, "summary": b, "density_bin": density}) for a, b in rows]
            files = {"dev.jsonl" if split == "validation" else f"{split}.jsonl": several}
        case "cnn_dm":
            files = {
                f"{i}.story": [a, "", "@Highlight" if mark == 5 else "@highlight", "", b]
                for i, (a, b) in enumerate(rows)
            }
            files["list.txt"] = [*files, *["missing.story"] * (mark == 4)]
        case "xsum":
            head = "[SN]TITLE[SN]" if mark == 5 else "[SN]FIRST-SENTENCE[SN]"
            numbers = [str(row) for row in range(len(rows) + (mark == 4))]
            files = {
                f"bbc-summary-data/{i}.summary": [head, b, "", "[SN]RESTBODY[SN]", a] for i, (a, b) in enumerate(rows)
            }
            splits = dict.fromkeys(("train", "validation", "test"), numbers)
            files["XSum-TRAINING-DEV-TEST-SPLIT-90-5-5.json"] = [json.dumps(splits)]
        case "wmt16_en_de" | "wmt16_en_ro":
            split, target = "test", name[-2:]
            stem = {"de": "newstest2014-deen", "ro": "newstest2016-enro"}[target]
            files = {f"{stem}.en": documents, f"{stem}.{target}": summaries}
            if mark:
                files = {
                    f"dev/{stem}-{end}.sgm": [f'<seg id="1">{text}</seg>' for text in texts]
                    for end, texts in (("src.en", documents), (f"ref.{target}", summaries))
                }
    return split, {name: "".join(f"{line}\n" for line in content) for name, content in files.items()}


@door(
    data=st.data(),
    folder=our.folders,
    data_format=st.sampled_from(sorted(DATA_FORMATS)),
    read_as=our.mostly(st.none(), our.one_of("lcst", "", *DATA_FORMATS)),
    options=our.mostly(st.just({}), our.few(our.choices("min_score=1|5|0|9 density_bin=mixed|short"), 1)),
)
def test_distributions(data, folder, data_format, read_as, options):
    split, files = data.draw(_distributions(data_format))
    odd = data.draw(st.sampled_from([None, *sorted(files)]))
    for name, text in files.items():
        (file := folder / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data.draw(our.spoiled(text.encode())) if name == odd else text.encode())
    several = ",".join(str(folder / "data" / name) for name in files)
    named = data.draw(our.mostly(st.just(folder / "data"), st.sampled_from((file, several, folder / "missing"))))
    corpus = Corpus(**{f"{split}_file": str(named), "data_format": read_as or data_format, **options})

    with unchanged(folder / "data"):
        tried(corpus.check)
        rows = tried(lambda: load(corpus, cache_dir=str(folder / "cache"))[split])
    assert len(rows)
    assert all(has_text(row["document"]) and has_text(row["summary"]) for row in rows)
