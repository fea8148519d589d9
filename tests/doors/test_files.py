"""Corpora and files of texts, also compressed or spoiled; data sets as their authors distribute them."""

import json
from typing import Any

from hypothesis import strategies as st

from hf_summ.data import Corpus, load
from hf_summ.data.columns import has_text
from hf_summ.data.raw_formats import DATA_FORMATS
from hf_summ.evaluation.text_files import read_predictions, read_references, read_sources, tags_to_line_ends
from hf_summ.models.text_documents import readable
from tests.doors import strategies
from tests.doors.outcomes import door, tried, unchanged

_COLUMNS = (("document", "summary"), ("article", "highlights"), ("documents", "references"), ("summary", "document"))
_ENDINGS = st.sampled_from(("jsonl", "jsonl", "json", "csv", "source", "txt", "JSONL"))
_TABLES = ("jsonl", "json", "csv", "JSONL")


@door(data=st.data(), folder=strategies.folders, columns=st.sampled_from(_COLUMNS), is_named=st.booleans())
def test_corpora(data, folder, columns, is_named):
    ending, content, rows = data.draw(strategies.files(columns, _ENDINGS))
    file = folder / f"train.{ending}"
    file.write_bytes(content)
    if "source" in ending:
        (folder / "train.target").write_text("a\nb\n")
    odd_names = st.sampled_from(("x" * 300 + ".jsonl", "\0.jsonl", "", "~", "/", ",", f"{file}x"))
    train_file = data.draw(strategies.mostly(st.just(str(file)), odd_names))
    if is_named:
        corpus = Corpus(train_file=train_file, text_column=columns[0], summary_column=columns[1])
    else:
        corpus = Corpus(train_file=train_file)
    with unchanged(file):
        train = tried(lambda: load(corpus, cache_dir=str(folder / "cache")))["train"]
    assert len(train) > 0
    for row in train:
        for text in (row["document"], row["summary"]):
            assert has_text(text)
            assert text.encode("utf-8")
    is_table = ending.partition(".")[0] in _TABLES
    if rows is not None and is_named and is_table and all(_is_pair(row, columns) for row in rows):
        # rows with a blank text are left out
        expected = []
        for row in rows:
            document, summary = _without_marks(readable(row[columns[0]])), _without_marks(readable(row[columns[1]]))
            if has_text(document) and has_text(summary):
                expected.append((document, summary))
        assert [(_without_marks(row["document"]), _without_marks(row["summary"])) for row in train] == expected


def _is_pair(row: dict[str, Any], columns: tuple[str, str]) -> bool:
    """Whether a row has a text in each of the columns, and nothing else."""
    return row.keys() == set(columns) and all(type(text) is str for text in row.values())


def _without_marks(text: str) -> str:
    """A text without byte-order marks, which are dropped at the beginning of lines, where joined files have them."""
    return text.replace("\ufeff", "")


@door(
    folder=strategies.folders,
    file=strategies.files(("prediction", "reference"), _ENDINGS),
    read=st.sampled_from((read_predictions, read_references, read_sources)),
    separator=st.sampled_from((None, None, "none", "|||", "")),
)
def test_files_of_texts(folder, file, read, separator):
    ending, content, _ = file
    path = folder / f"texts.{ending}"
    path.write_bytes(content)
    with unchanged(path):
        texts, _ = tried(lambda: tags_to_line_ends(read(str(path)), separator))
    for row in texts.rows:
        assert row
        assert all(isinstance(text, str) for text in row)
    assert len(texts.labels()) == len(texts.rows)


@st.composite
def _distributions(draw, name: str) -> tuple[str, dict[str, str]]:
    """A split, and the files that a data set's authors distribute for it."""
    rows = draw(st.lists(st.tuples(strategies.clean_texts, strategies.clean_texts), min_size=1, max_size=4))
    documents = [document.replace("\n", " ") for document, _ in rows]
    summaries = [summary.replace("\n", " ") for _, summary in rows]
    split = draw(st.sampled_from(("train", "validation", "test")))
    # the number of a variant of the distribution
    variant = draw(st.integers(0, 5))
    # the lines of each file
    files: dict[str, list[str]] = {}
    match name:
        case "gigaword":
            names = {
                "train": ("train.article.txt", "train.title.txt"),
                "validation": ("valid.article.filter.txt", "valid.title.filter.txt"),
                "test": ("input.txt", "task1_ref0.txt"),
            }
            document_file, summary_file = names[split]
            files[document_file], files[summary_file] = documents, summaries
        case "duc":
            split = "test"
            files["input.txt"] = documents
            numbers_of_references = [(0, 1), (0, 1, 2), (0, 1, 2, 3), (0,), (0, 2), (1, 2)]
            for number in numbers_of_references[variant]:
                files[f"task1_ref{number}.txt"] = summaries
        case "multi_news":
            names = {
                "train": ("train.src", "train.tgt"),
                "validation": ("val.src.cleaned", "val.tgt.cleaned"),
                "test": ("test.txt.src", "test.txt.tgt"),
            }
            document_file, summary_file = names[split]
            separator = "|||||" if variant else ""
            files[document_file] = [f"{text} NEWLINE_CHAR b {separator} c" for text in documents]
            files[summary_file] = summaries
        case "lcsts":
            label = ("", "", "1", "5", "five", "9")[variant]
            label_line = f"<human_label>{label}</human_label>" if label else ""
            lines = []
            for document, summary in rows:
                lines += ["<doc id=0>", label_line, "<summary>", summary, "</summary>"]
                lines += ["<short_text>", document, "</short_text>", "</doc>"]
            parts = {"train": "PART_I.txt", "validation": "PART_II.txt", "test": "PART_III.txt"}
            files[parts[split]] = lines
        case "newsroom":
            density = ("abstractive", "mixed", "extractive", "other", None, 3)[variant]
            lines = []
            for document, summary in rows:
                lines.append(json.dumps({"text": document, "summary": summary, "density_bin": density}))
            parts = {"train": "train.jsonl", "validation": "dev.jsonl", "test": "test.jsonl"}
            files[parts[split]] = lines
        case "cnn_dm":
            highlight = "@Highlight" if variant == 5 else "@highlight"
            for number, (document, summary) in enumerate(rows):
                files[f"{number}.story"] = [document, "", highlight, "", summary]
            stories = list(files)
            if variant == 4:
                stories.append("missing.story")
            files["list.txt"] = stories
        case "xsum":
            heading = "[SN]TITLE[SN]" if variant == 5 else "[SN]FIRST-SENTENCE[SN]"
            for number, (document, summary) in enumerate(rows):
                content = [heading, summary, "", "[SN]RESTBODY[SN]", document]
                files[f"bbc-summary-data/{number}.summary"] = content
            # one more than there are files
            number_of_ids = len(rows) + 1 if variant == 4 else len(rows)
            ids = [str(number) for number in range(number_of_ids)]
            splits = {"train": ids, "validation": ids, "test": ids}
            files["XSum-TRAINING-DEV-TEST-SPLIT-90-5-5.json"] = [json.dumps(splits)]
        case "wmt16_en_de" | "wmt16_en_ro":
            split = "test"
            target = name[-2:]
            stem = {"de": "newstest2014-deen", "ro": "newstest2016-enro"}[target]
            if variant == 0:
                files[f"{stem}.en"] = documents
                files[f"{stem}.{target}"] = summaries
            else:
                files[f"dev/{stem}-src.en.sgm"] = [f'<seg id="1">{text}</seg>' for text in documents]
                files[f"dev/{stem}-ref.{target}.sgm"] = [f'<seg id="1">{text}</seg>' for text in summaries]
    return split, {name: "".join(f"{line}\n" for line in lines) for name, lines in files.items()}


@door(
    data=st.data(),
    folder=strategies.folders,
    data_format=st.sampled_from(sorted(DATA_FORMATS)),
    read_as=strategies.mostly(st.none(), strategies.one_of("lcst", "", *DATA_FORMATS)),
    options=strategies.mostly(
        st.just({}), strategies.few(strategies.choices("min_score=1|5|0|9 density_bin=mixed|short"), 1)
    ),
)
def test_distributions(data, folder, data_format, read_as, options):
    split, files = data.draw(_distributions(data_format))
    spoiled_name = data.draw(st.sampled_from([None, *sorted(files)]))
    for name, text in files.items():
        file = folder / "data" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        content = text.encode()
        if name == spoiled_name:
            content = data.draw(strategies.spoiled(content))
        file.write_bytes(content)
    all_files = ",".join(str(folder / "data" / name) for name in files)
    odd_paths = st.sampled_from((file, all_files, folder / "missing"))
    path = data.draw(strategies.mostly(st.just(folder / "data"), odd_paths))
    settings = {f"{split}_file": str(path), "data_format": read_as or data_format, **options}
    corpus = Corpus(**settings)

    with unchanged(folder / "data"):
        tried(corpus.check)
        rows = tried(lambda: load(corpus, cache_dir=str(folder / "cache"))[split])
    assert len(rows)
    assert all(has_text(row["document"]) and has_text(row["summary"]) for row in rows)
