"""Corpora as others write them: lists, columns, separators, types and folders."""

import bz2
import gzip
import json
import logging
import lzma

import datasets
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_summ.common.files import content_hash
from hf_summ.data import Corpus, fit_vocabulary, load
from hf_summ.data.lines import joined_lines
from hf_summ.data.lists import as_example
from hf_summ.data.streams import FileRows, stored, streamed_files
from hf_summ.evaluation.text_files import aligned, read_predictions, read_references
from hf_summ.offline.shards import Plan
from tests.reports.test_sentences import WRAPPED

SENTENCES = ["we study ferries on lakes .", "ferries float on water .", "we measure the waves ."]
HIGHLIGHTS = ["marby has a new library .", "it cost three million pounds ."]


def write(path, text):
    path.write_text(text, encoding="utf-8", newline="")
    return str(path)


def rows(tmp_path, name, text, **settings):
    return load(Corpus(train_file=write(tmp_path / name, text), **settings), str(tmp_path / "cache"))["train"].to_list()


@pytest.mark.parametrize("names", [("text", "summary"), ("article", "abstract"), ("source", "target")])
def test_lists_of_sentences_are_one_text(tmp_path, caplog, names):
    # maszhongming/MatchSum#36, huggingface/datasets#986: a model read a token of each sentence
    line = json.dumps(dict(zip(names, (SENTENCES, HIGHLIGHTS), strict=True)))
    (row,) = rows(tmp_path, "train.jsonl", line)
    assert row == {"document": " ".join(SENTENCES), "summary": " ".join(HIGHLIGHTS)}
    assert f"'{names[0]}' has lists of 3.0 texts on average, read as the sentences of one text" in caplog.text


# allenai/mmda#253: lists of words were joined by nothing; here, each was a line
def test_lists_of_words_are_one_text(tmp_path):
    (row,) = rows(tmp_path, "a.jsonl", json.dumps({"text": SENTENCES[0].split(), "summary": HIGHLIGHTS[0].split()}))
    assert row == {"document": SENTENCES[0], "summary": HIGHLIGHTS[0]}
    (row,) = rows(tmp_path, "b.jsonl", json.dumps({"text": ["大桥开通", "市长出席"], "summary": "大桥"}))
    assert row["document"] == "大桥开通\n市长出席"


# huggingface/trl, allenai/multi_lexsum: prompts with completions, and several sources
def test_columns_of_prompts_and_of_sources(tmp_path):
    (row,) = rows(tmp_path, "a.jsonl", json.dumps({"prompt": "A ferry sank.", "completion": "ferry sinks"}))
    assert row == {"document": "A ferry sank.", "summary": "ferry sinks"}
    (row,) = rows(
        tmp_path, "b.jsonl", json.dumps({"sources": ["The ferry sank.", "A storm."], "summary": "ferry sinks"})
    )
    assert (row["document"], row["summary"]) == ("The ferry sank. A storm.", "ferry sinks")


def test_lists_in_a_stream_are_read_as_in_files(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    (tmp_path / "corpus").mkdir()
    lines = [{"source": SENTENCES, "target": HIGHLIGHTS, "about": ["a ferry", "a lake"]}, {"source": [], "target": []}]
    write(tmp_path / "corpus" / "train.jsonl", "\n".join(map(json.dumps, lines)))
    corpus = {"dataset_name": str(tmp_path / "corpus"), "streaming": True}
    (row,) = load(Corpus(**corpus), str(tmp_path / "cache"))["train"]
    other = {"about": '["a ferry", "a lake"]'}
    assert row == {"document": " ".join(SENTENCES), "summary": " ".join(HIGHLIGHTS), **other}
    assert "train: documents from 'source', summaries from 'target'" in caplog.text
    assert "'source' has lists of 1.5 texts on average, read as the sentences of one text" in caplog.text
    named = Corpus(**corpus, summary_column="about", lists=["documents", "references"])
    (row,) = load(named, str(tmp_path / "cache"))["train"]
    assert row == {
        "document": "\n\n".join(SENTENCES),
        "documents": SENTENCES,
        "summary": "a ferry",
        "references": ["a ferry", "a lake"],
        "target": json.dumps(HIGHLIGHTS),
    }


def test_tags_of_sentences_are_dropped_and_their_ends_kept(tmp_path):
    columns = {"article_text": ["a heading", "it works ."], "abstract_text": ["<S> one . </S>", "<S> two . </S>"]}
    (row,) = rows(tmp_path, "train.jsonl", json.dumps(columns))
    assert row == {"document": "a heading\nit works .", "summary": "one . two ."}
    # words on both sides of a tag were read as one
    (row,) = rows(
        tmp_path, "b.jsonl", json.dumps({"text": ["a b .<q>c d", "e"], "summary": ["a<q>ferry sank", "b<q>ferry sank"]})
    )
    assert (row["document"], row["references"]) == ("a b . c d\ne", ["a<q>ferry sank", "b<q>ferry sank"])


def test_a_setting_says_what_lists_are(tmp_path, caplog):
    line = json.dumps({"source": SENTENCES, "target": HIGHLIGHTS})
    (row,) = rows(tmp_path, "a.jsonl", line, lists=["sentences", "references"])
    assert (row["document"], row["references"]) == (" ".join(SENTENCES), HIGHLIGHTS)
    (row,) = rows(tmp_path, "b.jsonl", line, lists=["documents", "sentences"])
    assert (row["documents"], row["summary"]) == (SENTENCES, " ".join(HIGHLIGHTS))
    assert "lists of" not in caplog.text


def test_documents_and_paraphrases_are_no_sentences(tmp_path):
    texts = ["The mill burned. Two hours passed.", "A mill burned. It rained."]
    references = ["the old mill burned down", "a fire burned the mill down"]
    (row,) = rows(tmp_path, "a.jsonl", json.dumps({"article": texts, "highlights": references}))
    assert (row["documents"], row["references"]) == (texts, references)


@pytest.mark.parametrize("written", [json.dumps, str, lambda texts: "[" + "\n ".join(map(repr, texts)) + "]"])
def test_lists_written_in_csv(tmp_path, written):
    fields = ",".join('"' + written(texts).replace('"', '""') + '"' for texts in (SENTENCES, ["it's 1", "b"]))
    (row,) = rows(tmp_path, "a.csv", f"documents,references\n{fields}\n")
    assert (row["documents"], row["references"]) == (SENTENCES, ["it's 1", "b"])


@pytest.mark.parametrize("way", ["file", "name"])
def test_several_columns_are_a_list(tmp_path, way):
    columns = {"left": "L.", "right": "R.", "summary1": "a", "summary2": None, "summary3": "c"}
    names = {"text_column": "left,right", "summary_column": "summary1,summary2,summary3"}
    names |= {"lists": ["documents", "references"]}
    if way == "file":
        (row,) = rows(tmp_path, "a.jsonl", json.dumps(columns), **names)
    else:
        (tmp_path / "named").mkdir()
        features = datasets.Features({name: datasets.Value("string") for name in columns})
        datasets.Dataset.from_list([columns], features=features).to_parquet(tmp_path / "named" / "train.parquet")
        (row,) = load(Corpus(dataset_name=str(tmp_path / "named"), **names), str(tmp_path / "cache"))["train"]
    assert (row["documents"], row["references"], row["summary"]) == (["L.", "R."], ["a", "c"], "a")


@pytest.mark.parametrize(
    "text",
    [
        '{"text": ["a b", "c d"], "summary": ["a", "c"]}',
        '{"text": {"0": "a b", "1": "c d"}, "summary": {"0": "a", "1": "c"}}',
        '{\n  "text": ["a b", "c d"],\n  "summary": ["a", "c"]\n}',
        '{"data": [{"text": "a b", "summary": "a"}, {"text": "c d", "summary": "c"}]}',
        '{"version": "1.0", "data": [{"text": "a b", "summary": "a"}, {"text": "c d", "summary": "c"}]}',
        '{"5": {"text": "a b", "summary": "a"}, "6": {"text": "c d", "summary": "c"}}',
    ],
)
def test_json_of_columns_is_not_one_row(tmp_path, text):
    texts = [(row["document"], row["summary"]) for row in rows(tmp_path, "train.json", text)]
    assert texts == [("a b", "a"), ("c d", "c")]


def test_json_of_one_column_is_not_one_row(tmp_path):
    (tmp_path / "a.json").write_text(pandas.DataFrame({"text": ["a b", "c d"]}).to_json())
    assert [read()["text"] for _, read in FileRows([tmp_path / "a.json"]).read()] == ["a b", "c d"]


def test_columns_are_chosen_by_content_names_first_and_told(tmp_path, caplog):
    # IBM/unitxt#831: the body of Webis-TLDR-17 ends in its summary
    caplog.set_level(logging.INFO, logger="hf_summ.data")
    post = {"body": "Ferries float. TL;DR: they float", "content": "Ferries float.", "summary": "they float"}
    assert rows(tmp_path, "a.jsonl", json.dumps(post))[0]["document"] == "Ferries float."
    assert "documents from 'content', summaries from 'summary'" in caplog.text
    news = {"source": "Daily Mill", "title": "Bridge opens", "content": "The bridge opened."}
    assert rows(tmp_path, "b.jsonl", json.dumps(news))[0]["document"] == "The bridge opened."
    book = {"source": "A site", "title": "T", "Summary": "It ends.", "book": "A long book. It ends well."}
    assert rows(tmp_path, "c.jsonl", json.dumps(book))[0]["document"] == book["book"]
    assert "documents contain" not in caplog.text
    rows(tmp_path, "d.jsonl", json.dumps(post), text_column="body")
    assert "1 of 1 documents contain their whole summary" in caplog.text
    rows(tmp_path, "e.jsonl", json.dumps({"source": "Daily Mill", "summary": "The bridge opened."}))
    assert "1 of 1 documents are shorter than their summary" in caplog.text


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_separators_of_fields(tmp_path, separator):
    text = f'text{separator}summary\n"a, b{separator} c"{separator}d, e\n'
    expected = [{"document": f"a, b{separator} c", "summary": "d, e"}]
    assert rows(tmp_path, "a.csv", text) == expected
    if separator == "\t":
        assert rows(tmp_path, "a.tsv", text) == expected


# python/cpython#117286, BurntSushi/rust-csv#337: the marks were part of the text, or the row had more fields
def test_quotation_marks_after_spaces(tmp_path):
    (row,) = rows(tmp_path, "a.csv", 'text, summary, id\n"a, b ""c""", "d, e", f g\n')
    assert row == {"document": 'a, b "c"', "summary": "d, e", "id": "f g"}
    (row,) = rows(tmp_path, "a.tsv", 'text\tsummary\na\t "d" e\n')
    assert row["summary"] == ' "d" e'


def test_quotation_marks_between_tabs(tmp_path):
    # rewicks/ersatz#1, facebookresearch/pytext#777
    text = 'text\tsummary\n"Hello" he said.\tA "b"\n"Unclosed he said.\tc\n"d" e\tf\n'
    texts = [row["document"] for row in rows(tmp_path, "a.tsv", text)]
    assert texts == ['"Hello" he said.', '"Unclosed he said.', '"d" e']
    text = 'text\tsummary\n"He said ""b"".\nHe left."\tc\n'
    assert rows(tmp_path, "b.tsv", text) == [{"document": 'He said "b".\nHe left.', "summary": "c"}]


@pytest.mark.parametrize(
    "of", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())], ids=str
)
def test_types_of_text_in_tables(tmp_path, of):
    texts = pa.array(["a b", "c d"]).cast(of)
    lists = pa.array([["r"], ["s", "t"]], pa.large_list(pa.large_string()))
    table = pa.table({"text": texts, "references": lists})
    pq.write_table(table, tmp_path / "a.parquet")
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    for name in ("a.parquet", "a.arrow"):
        loaded = load(Corpus(train_file=str(tmp_path / name)), str(tmp_path / "cache"))["train"]
        assert loaded["document"][:] == ["a b", "c d"]
        assert loaded["references"][:] == [["r"], ["s", "t"]]
        streamed = FileRows(streamed_files([str(tmp_path / name)]))
        assert streamed.schema.field("text").type == pa.string()
        assert [stored(read(), streamed.schema)["text"] for _, read in streamed.read(1)] == ["c d"]


@pytest.mark.parametrize(
    ("name", "compress"),
    [
        ("a.ndjson", bytes),
        ("a.jsonl.gz", gzip.compress),
        ("a.jsonlines.bz2", bz2.compress),
        ("a.jsonl.xz", lzma.compress),
    ],
)
def test_names_and_compressions_of_rows(tmp_path, name, compress):
    # huggingface/datasets#2497
    content = compress(b'{"text": "a b", "summary": "a"}\n' * 9)
    (tmp_path / name).write_bytes(content)
    corpus = Corpus(train_file=str(tmp_path / name))
    assert load(corpus, str(tmp_path / "cache"))["train"]["document"][:] == ["a b"] * 9
    if compress is not bytes:
        (tmp_path / name).write_bytes(content[:-8])
        with pytest.raises(ValueError, match="not a complete"):
            load(corpus, str(tmp_path / "cache"))


# tensorflow/datasets, scientific_papers.py and big_patent.py: arXiv, PubMed and BigPatent as they are distributed
@pytest.mark.parametrize(("name", "compress"), [("train.txt", bytes), ("a_1.gz", gzip.compress), ("b", bytes)])
def test_rows_in_files_of_other_names(tmp_path, name, compress):
    line = b'{"article_text": ["a b .", "c d ."], "abstract_text": ["<S> a . </S>"], "labels": null}\n'
    (tmp_path / name).write_bytes(compress(line * 2))
    file = str(tmp_path / name)
    assert load(Corpus(train_file=file), str(tmp_path / "cache"))["train"]["document"][:] == ["a b . c d ."] * 2
    assert read_references(file, "abstract_text").rows == [["a ."]] * 2
    (tmp_path / name).write_bytes(compress(b'{"a": 1} is text\n' + line))
    assert len(read_predictions(file).rows) == 2


# maszhongming/Effective_Extractive_Summarization#1 and Cohan's arXiv: labels of sentences, or none, beside an abstract
@pytest.mark.parametrize(
    ("article", "abstract", "labels"),
    [
        ("article", "abstract", {"label": [0, 3]}),
        *(("article_text", "abstract_text", {"labels": own}) for own in (None, [], "")),
    ],
)
def test_abstracts_of_articles_are_references(tmp_path, article, abstract, labels):
    (tmp_path / "a.jsonl").write_text(json.dumps({article: ["a b ."], abstract: ["a ."], **labels}))
    assert (read := read_references(str(tmp_path / "a.jsonl"))).column == abstract
    assert read.texts() == ["a ."]


# Law-AI/summarization, dataset/README.md: documents, and the summaries of one or two experts
@pytest.mark.parametrize("names", [("1953_L_1.txt", "10.txt"), ("q1_b.txt", "q1_c.txt"), ("tech/1.txt", "sport/1.txt")])
def test_folders_with_a_text_in_each_file(tmp_path, names):
    for folder in ("judgement", "A1", "A2"):
        for name in names:
            file = tmp_path / folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{folder} of\n{name}\n")
    (tmp_path / "A1" / ".hidden").mkdir()
    (tmp_path / "A1" / ".hidden" / "1.txt").write_text("none")
    judgement, first, second = (str(tmp_path / folder) for folder in ("judgement", "A1", "A2"))
    cache = str(tmp_path / "cache")
    loaded = load(Corpus(train_file=f"{judgement},{first}"), cache)["train"].sort("document")
    assert loaded["document"][:] == [f"judgement of\n{name}" for name in sorted(names)]
    assert loaded["summary"][:] == [f"A1 of\n{name}" for name in sorted(names)]
    loaded = load(Corpus(train_file=f"{judgement},{first},{second}"), cache)["train"].sort("document")
    assert loaded["references"][0] == [f"A1 of\n{min(names)}", f"A2 of\n{min(names)}"]
    (tmp_path / "A1" / names[0]).unlink()
    with pytest.raises(ValueError, match=r"judgement and .*A1: only one has"):
        load(Corpus(train_file=f"{judgement},{first}"), cache)


def test_files_that_share_numbers_are_matched_by_names(tmp_path):
    # rajdeep345/ECTSum: systems of other documents in the same quarter were scored against each other
    for folder, names in (("ours", "ab"), ("gold", "bc")):
        (tmp_path / folder).mkdir()
        for name in names:
            (tmp_path / folder / f"{name}_q1.txt").write_text("A text.")
    ours, gold = (read_predictions(str(tmp_path / folder)) for folder in ("ours", "gold"))
    with pytest.raises(ValueError, match=r"a_q1\.txt"):
        aligned(gold, ours)


# nlpyang/PreSumm, data_builder.py
def test_columns_of_preprocessed_corpora(tmp_path):
    (row,) = rows(tmp_path, "a.json", json.dumps([{"src": [["a", "b", "."]], "tgt": "a"}]))
    assert row == {"document": "a b .", "summary": "a"}


def test_carriage_returns(tmp_path):
    # pandas-dev/pandas#10018: one in a field without quotation marks
    text = 'text,summary\r\na\rb,c\r\n"d\re",f\ng,h'
    assert [row["document"] for row in rows(tmp_path, "b.csv", text)] == ["a\rb", "d\re", "g"]
    with pytest.raises(ValueError, match=r"a\.csv: its lines end with CR alone: convert them"):
        rows(tmp_path, "a.csv", "text,summary\ra b,a\rc d,c\r")


def test_folders_that_datasets_saved(tmp_path):
    saved = datasets.Dataset.from_dict({"text": ["a b", "c d"], "summary": ["a", "c"]})
    saved.save_to_disk(tmp_path / "one", num_shards=2)
    datasets.DatasetDict({"validation": saved}).save_to_disk(tmp_path / "splits")
    folder = str(tmp_path / "one")
    for corpus in (Corpus(train_file=folder), Corpus(dataset_name=folder)):
        assert load(corpus, str(tmp_path / "cache"))["train"]["document"][:] == ["a b", "c d"]
    assert content_hash(folder) == content_hash(folder) != content_hash(tmp_path / "splits")
    # a split of another name was left out in silence
    datasets.DatasetDict({"training": saved, "val": saved, "testing": saved}).save_to_disk(tmp_path / "others")
    for name, splits in (("splits", ["validation"]), ("others", ["train", "validation", "test"])):
        loaded = load(Corpus(dataset_name=str(tmp_path / name)), str(tmp_path / "cache"))
        assert list(loaded) == splits
        assert loaded["validation"]["summary"][:] == ["a", "c"]
    assert [read()["text"] for _, read in FileRows(streamed_files([folder])).read()] == ["a b", "c d"]


def test_offline_summaries_read_lists_of_sentences_as_texts(caplog):
    assert as_example(SENTENCES, "source") == " ".join(SENTENCES)
    assert "'source' has lists of sentences" in caplog.text
    assert as_example(SENTENCES, "documents") == SENTENCES
    assert as_example(["One. Two.", None, " ", "Three. Four."], "source") == ["One. Two.", "Three. Four."]


def test_columns_without_text_are_not_guessed(tmp_path):
    # as BookSum on the Hub: `content` is null, and `summary` an object that is written as text
    book = {
        "content": None,
        "summary": '{"name": "Chapter 1"}',
        "chapter": "It ended well.",
        "summary_text": "It ends.",
    }
    (row,) = rows(tmp_path, "a.jsonl", json.dumps(book))
    assert (row["document"], row["summary"]) == ("It ended well.", "It ends.")
    assert rows(tmp_path, "b.jsonl", json.dumps({"document": 7, "text": "a b", "summary": "a"}))[0]["document"] == "a b"
    # a text that is missing in the first row alone
    lines = [{"text": "a b", "summary": None, "title": "t"}, {"text": "a b", "summary": "a", "title": "t"}]
    assert rows(tmp_path, "c.jsonl", "\n".join(map(json.dumps, lines)))[0]["summary"] == "a"
    (tmp_path / "named").mkdir()
    datasets.Dataset.from_list([book]).to_parquet(tmp_path / "named" / "train.parquet")
    for streaming in (None, True):
        corpus = Corpus(dataset_name=str(tmp_path / "named"), streaming=streaming)
        (row,) = load(corpus, str(tmp_path / "cache"))["train"]
        assert (row["document"], row["summary"]) == ("It ended well.", "It ends.")


def test_missing_texts_of_pandas_are_blank(tmp_path, caplog):
    # json.dumps of a data frame's rows writes NaN
    text = '{"text": "a b", "summary": NaN}\n{"text": "c d", "summary": "c"}\n'
    assert rows(tmp_path, "a.jsonl", text) == [{"document": "c d", "summary": "c"}]
    assert "1 of 2 rows have a blank document or summary" in caplog.text
    # pandas-dev/pandas#25353, biolab/orange3-prototypes#177: astype(str) makes words of missing texts
    text = "text,summary\nnan,a\na b,<NA>\nNan bread rose.,Nan\n"
    assert rows(tmp_path, "a.csv", text) == [{"document": "Nan bread rose.", "summary": "Nan"}]


# the chats that huggingface/trl and OpenAI's service are trained on, and those of ShareGPT
@pytest.mark.parametrize(
    ("column", "speaker", "text", "user", "assistant"),
    [("messages", "role", "content", "user", "assistant"), ("conversations", "from", "value", "human", "gpt")],
)
def test_turns_of_a_chat_are_documents_and_summaries(tmp_path, column, speaker, text, user, assistant):
    turns = [("system", "You summarize."), (user, "A ferry sank."), (user, "No one was hurt."), (assistant, "It sank.")]
    row = {column: [{speaker: name, text: own} for name, own in turns]}
    names = {"text_column": f"{column}.{user}", "summary_column": f"{column}.{assistant}"}
    expected = {"document": "A ferry sank.\nNo one was hurt.", "summary": "It sank."}
    (read,) = rows(tmp_path, "a.jsonl", json.dumps(row), **names)
    assert {name: read[name] for name in expected} == expected
    (tmp_path / "named").mkdir()
    datasets.Dataset.from_list([row]).to_parquet(tmp_path / "named" / "train.parquet")
    named = load(Corpus(dataset_name=str(tmp_path / "named"), **names), str(tmp_path / "cache"))["train"]
    assert {name: named[0][name] for name in expected} == expected
    with pytest.raises(ValueError, match=rf"name one with `text_column`; in a chat, {column}.{user} or "):
        rows(tmp_path, "b.jsonl", json.dumps(row))


def test_dialogues_and_documents_as_objects(tmp_path):
    # Yale-LILY/QMSum, complementizer/wcep-mds-dataset, nlpyang/PreSumm: how their files look
    turns = [{"speaker": "A", "content": "Hi."}, {"speaker": "B", "content": "It works."}]
    articles = [{"title": "t", "text": "A fire. It rained."}, {"title": "u", "text": "A mill burned. Rain fell."}]
    words = [["A", "fire", "."], ["It", "rained", "."]]
    lines = {"meeting": turns, "articles": articles, "words": words, "summary": "It works."}
    texts = {
        "meeting": "A: Hi.\nB: It works.",
        "articles": "A fire. It rained.\n\nA mill burned. Rain fell.",
        "words": "A fire . It rained .",
    }
    (tmp_path / "named").mkdir()
    datasets.Dataset.from_list([lines]).to_parquet(tmp_path / "named" / "train.parquet")
    for column, text in texts.items():
        names = {"text_column": column}
        assert rows(tmp_path, f"{column}.jsonl", json.dumps(lines), **names)[0]["document"] == text
        for streaming in (None, True):
            corpus = Corpus(dataset_name=str(tmp_path / "named"), streaming=streaming, **names)
            assert next(iter(load(corpus, str(tmp_path / "cache"))["train"]))["document"] == text


@pytest.mark.parametrize("way", ["file", "name", "stream"])
def test_names_of_texts_within_objects(tmp_path, way):
    # esdurmus/Wikilingua, Yale-LILY/QMSum, yaolu/Multi-XScience, openai/summarize-from-feedback: how their files look
    line = {
        "article": {"document": ["Open it.", "Pay it."], "summary": ["Open.", "Pay."]},
        "queries": [{"query": "q", "answer": "It opened Monday."}, {"query": "r", "answer": "A bridge opened Monday."}],
        "abstract": "We study. It works.",
        "refs": {"abstract": ["One one. Two.", "Three. Four."], "mid": ["1", "2"]},
        "words": [[["A", "fire", "."], ["It", "rained", "."]], [["A", "mill", "burned", "."]]],
    }
    (tmp_path / "named").mkdir()
    datasets.Dataset.from_list([line]).to_parquet(tmp_path / "named" / "train.parquet")
    corpus = {"train_file": write(tmp_path / "a.jsonl", json.dumps(line))}
    if way != "file":
        corpus = {"dataset_name": str(tmp_path / "named"), "streaming": True if way == "stream" else None}

    def row(text, summary):
        (row,) = load(Corpus(text_column=text, summary_column=summary, **corpus), str(tmp_path / "cache"))["train"]
        return row

    lists = row("article.document", "queries.answer")
    assert (lists["document"], lists["references"]) == (
        "Open it. Pay it.",
        ["It opened Monday.", "A bridge opened Monday."],
    )
    assert row("abstract,refs.abstract", "article.summary")["documents"] == [
        line["abstract"],
        *line["refs"]["abstract"],
    ]
    assert row("words", "abstract")["document"].split() == "A fire . It rained . A mill burned .".split()
    source = FileRows(streamed_files([str(tmp_path / ("a.jsonl" if way == "file" else "named/train.parquet"))]))
    plan = Plan(source, "article.document", ["abstract"], "summary", 9, tmp_path, "jsonl")
    plan.check()
    assert next(plan.shards(set())).rows[0].text == "Open it. Pay it."
    with pytest.raises(ValueError, match="no 'text' in an object of document, summary"):
        row("article.text", "abstract")
    with pytest.raises(ValueError, match=r"name a text within, such as queries\.query"):
        row("abstract", "queries")


@pytest.mark.parametrize("streaming", [None, True])
def test_line_ends_of_a_corpus(tmp_path, streaming):
    joined = " ".join(joined_lines(WRAPPED).split())
    texts = {None: WRAPPED, "auto": joined, "wrapped": joined, "sentences": WRAPPED.replace("\n", "\n\n")}
    row = {"document": WRAPPED, "summary": "A cat sat\non a mat."}
    (tmp_path / "named").mkdir()
    datasets.Dataset.from_list([row]).to_parquet(tmp_path / "named" / "train.parquet")
    for lines, text in texts.items():
        corpora = [{"dataset_name": str(tmp_path / "named"), "streaming": streaming}]
        corpora += [] if streaming else [{"train_file": write(tmp_path / "a.jsonl", json.dumps(row))}]
        for corpus in corpora:
            (loaded,) = load(Corpus(lines=lines, **corpus), str(tmp_path / "cache"))["train"]
            assert loaded["document"] == text
        # too short to be wrapped
        assert (loaded["summary"] == row["summary"]) == (lines in (None, "auto"))


# wireservice/csvkit#426, thephpleague/csv#543: as of a sheet with empty columns
def test_empty_columns_of_sheets_have_no_names(tmp_path):
    (row,) = rows(tmp_path, "a.csv", "document,summary,,\nA ferry sank.,ferry sinks,,\n")
    assert (row["document"], row["summary"]) == ("A ferry sank.", "ferry sinks")


# huggingface/tokenizers#86, #497: a few damaged texts took the time of the whole corpus many times
def test_a_long_word_takes_linear_time():
    text = "ab" * 10**6
    tokenizer = fit_vocabulary([text], 300, show_progress=False)
    assert tokenizer.decode(tokenizer(text).input_ids, skip_special_tokens=True) == text
