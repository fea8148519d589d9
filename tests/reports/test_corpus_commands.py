"""What commands tell of corpora and ask: columns, marks, line ends, references in several files, a look at the data."""

import json
import textwrap

import pytest

from hf_summ.cli import main
from tests.reports.test_sentences import WRAPPED


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """Runs a command beside files of these contents, and returns its output, its notes and its status."""
    monkeypatch.chdir(tmp_path)

    def command(line, **files):
        for name, content in files.items():
            stem, _, ending = name.rpartition("_")
            rows = content if isinstance(content, str) else "".join(json.dumps(row) + "\n" for row in content)
            (tmp_path / f"{stem}.{ending}").write_text(rows, encoding="utf-8")
        status = main(line.split())
        output, notes = capsys.readouterr()
        return output, notes, status

    return command


GOLD = [{"summary": "A bridge opened on Monday."}]


def test_predictions_are_not_the_summaries_beside_them(run):
    # the gold summary beside a generated one was scored: 100
    rows = [{**GOLD[0], "generated_summary": "The mill burned."}]
    line = "evaluate --predictions p.jsonl --references g.jsonl --rouge_types rouge1 --format json"
    output, notes, _ = run(line, p_jsonl=rows, g_jsonl=GOLD)
    assert json.loads(output)["rouge"]["rouge1"]["predictions"]["fmeasure"] == 0
    assert "p.jsonl: predictions from 'generated_summary'" in notes
    assert "g.jsonl: references from 'summary'" in notes
    output, *_ = run(f"{line} --prediction_column summary")
    assert json.loads(output)["rouge"]["rouge1"]["predictions"]["fmeasure"] == 100
    output, notes, _ = run(line, p_jsonl=[{"summary_text": "A bridge"}])
    assert "predictions from 'summary_text'" in notes


@pytest.mark.parametrize("column", ["pred", "hyp", "Model_Summary", "completion", "sys_summ"])
def test_columns_that_are_named_like_predictions(run, column):
    line = "evaluate --predictions p.jsonl --references g.jsonl --rouge_types rouge1 --format json"
    rows = [{column: None, "model": "a bridge", **GOLD[0]}, {column: "The mill burned.", **GOLD[0]}]
    output, notes, _ = run(line, p_jsonl=rows, g_jsonl=2 * GOLD)
    assert json.loads(output)["rouge"]["rouge1"]["predictions"]["fmeasure"] == 0
    assert f"predictions from '{column}'" in notes
    _, notes, _ = run(line, p_jsonl=2 * [{"bart": "The mill burned.", **GOLD[0]}], g_jsonl=2 * GOLD)
    assert "predictions are identical to the references, perhaps from the same column" in notes


@pytest.mark.parametrize(
    ("predictions", "flags"),
    [
        # huggingface/datasets#6695
        (["A bridge", "A mill"], ""),
        ({"7": "A bridge", "8": "A mill"}, ""),
        ({"predictions": ["A bridge", "A mill"], "references": ["A bridge", "A mill"]}, ""),
        # the pipeline of transformers 4 returned a list for each text
        ([[{"summary_text": "A bridge"}], [{"summary_text": "A mill"}]], ""),
        # EleutherAI/lm-evaluation-harness and the batches of openai/openai-python: how their files look
        ([{"doc_id": 7, "resps": [["A bridge"]]}, {"doc_id": 8, "resps": [["A mill"]]}], ""),
        (
            [{"response": {"choices": [{"message": {"content": text}}]}} for text in ("A bridge", "A mill")],
            "--prediction_column response.choices.message.content",
        ),
    ],
)
def test_files_of_other_programs(run, tmp_path, predictions, flags):
    (tmp_path / "p.json").write_text(json.dumps(predictions))
    line = f"evaluate --predictions p.json --references r.txt --rouge_types rouge1 --format json {flags}"
    output, *_ = run(line, r_txt="A bridge\nA mill\n")
    assert json.loads(output)["rouge"]["rouge1"]["predictions"]["fmeasure"] == 100


def test_lists_in_each_line_are_rows(run):
    lines = '[{"summary_text": "A bridge"}]\n[{"summary_text": "A mill"}]\n'
    line = "evaluate --predictions p.jsonl --references r.txt --rouge_types rouge1 --format json"
    output, *_ = run(line, p_jsonl=lines, r_txt="A bridge\nA mill\n")
    assert json.loads(output)["rouge"]["rouge1"]["predictions"]["fmeasure"] == 100


@pytest.mark.parametrize("column", ["idx", "article_id", "fname"])
def test_rows_are_matched_by_ids_of_other_names(run, column):
    # zcgzcgzcg1/MediaSum#5, nlpyang/BertSum#35
    line = "evaluate --predictions p.jsonl --references g.jsonl --rouge_types rouge1 --format json"
    rows = [{column: 1, "prediction": "b"}, {column: 0, "prediction": "a"}]
    gold = [{column: 0, "summary": "a"}, {column: 1, "summary": "b"}]
    output, notes, _ = run(line, p_jsonl=rows, g_jsonl=gold)
    assert json.loads(output)["rouge"]["rouge1"]["predictions"]["fmeasure"] == 100
    assert f"g.jsonl: rows are matched with those of p.jsonl by '{column}'" in notes
    assert run(line, p_jsonl=rows, g_jsonl=[{"other_id": 5, "summary": "b"}, {"other_id": 6, "summary": "a"}])[2] == 0


def test_columns_of_ids_may_have_other_names(run):
    # docs.langchain4j.dev, MistralAiBatchResultEntry: lines of a batch's output have any order
    line = "evaluate --predictions p.jsonl --references g.jsonl --rouge_types rouge1 --format json"
    batch = [
        {"id": f"request {text}", "custom_id": id, "response": {"body": {"choices": [{"message": {"content": text}}]}}}
        for id, text in (("b1", "mill"), ("a2", "ferry"))
    ]
    gold = [{"id": "a2", "summary": "ferry"}, {"id": "b1", "summary": "mill"}]
    named = f"{line} --prediction_column response.body.choices.message.content"
    output, notes, _ = run(named, p_jsonl=batch, g_jsonl=gold)
    assert json.loads(output)["rouge"]["rouge1"]["predictions"]["fmeasure"] == 100
    assert "g.jsonl: rows are matched with those of p.jsonl by 'id' and 'custom_id'" in notes
    # numbers may be those of rows
    rows = [{"idx": 0, "prediction": "a"}, {"idx": 1, "prediction": "b"}]
    gold = [{"doc_id": 1, "summary": "a"}, {"doc_id": 0, "summary": "b"}]
    output, notes, _ = run(line, p_jsonl=rows, g_jsonl=gold)
    assert json.loads(output)["rouge"]["rouge1"]["predictions"]["fmeasure"] == 100
    assert "'doc_id' and 'idx' have the same numbers as p.jsonl in another order" in notes


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("A bridge was open@@ ed .", "@@"),
        ("a bridge was open ##ed .", "##"),
        ("▁A ▁bridge ▁open ed", "▁"),
        ("A Ġbridge Ġopened", "Ġ"),
        # huggingface/tokenizers#1793
        ("a</w> bridge</w> open ed</w>", "</w>"),
        # OpenNMT/OpenNMT#361, OpenNMT/OpenNMT#420
        ("A bridge open ￭ed ￭.", "￭"),
        ("a￨C bridge￨L opened￨L", "￨"),
        ("A [UNK] opened", "[UNK]"),
        ("A bridge -LRB- old -RRB- opened", "-LRB-"),
        ("A bridge. NEWLINE_CHAR It opened", "NEWLINE_CHAR"),
        ("A bridge ||||| It opened", "|||||"),
        ("A bridge opened.<|im_end|>", "<|im_end|>"),
        # google/gemma.cpp#276, ml-explore/mlx-swift-examples#89
        ("A bridge opened.<end_of_turn>", "<end_of_turn>"),
        # OpenRLHF/OpenRLHF#969, sgl-project/sglang#12824: the advice for subwords would have removed all spaces
        ("A bridge opened.<｜end▁of▁sentence｜>", "<｜end▁of▁sentence｜>"),
        ("<think>A bridge</think> It opened.", "<think>"),
        ("It&rsquo;s a bridge &#x2014; it opened", "&rsquo;"),
        # pltrdy/files2rouge#24, abisee/pointer-generator#12: tags are words
        ("<p>A bridge<br /> opened</p>", "<p>"),
        ("A bridge<BR>opened.", "<BR>"),
        ("A bridge.\\nIt opened", "\\n"),
        ("Un pont a Ã©tÃ© ouvert", "Ã©"),
        ("Un pont a \ufffdt\ufffd ouvert", "\ufffd"),
        # py-pdf/pypdf#2046, jsvine/pdfplumber#598, yfedoseev/pdf_oxide#1412
        ("The oﬃce of the bridge opened.", "ﬃ"),
        ("A bridge was op\xadened.", "U+00AD"),
        # stenolabs/stenoai#272, ytdl-org/youtube-dl#23454
        ("00:00:01.000 --> 00:00:04.000 A bridge opened.", "00:01.000 -->"),
        # UniversalDependencies/docs#1010
        ("A bridge was op\u200bened.", "U+200B"),
        ("Here is a summary of the text: A bridge opened", "Here is a summary of the text:"),
        ("**Résumé :** Un pont", "**Résumé :"),
        ("## Summary - A bridge opened", "## Summary"),
        ("1. **A bridge** opened", "**A bridge**"),
        ("TL;DR: A bridge opened", "TL;DR:"),
        ("摘要：大桥开通。", "摘要："),
    ],
)
def test_marks_of_other_programs_are_noted(run, text, mark):
    # google/sentencepiece, rsennrich/subword-nmt: subwords were scored as words
    line = "evaluate --predictions p.txt --references r.txt --rouge_types rouge1"
    _, notes, _ = run(line, p_txt=text, r_txt="A bridge opened.")
    assert f"p.txt: 1 of 1 texts contain {mark}: " in notes
    assert ("s/▁/ /g" in notes) == (mark == "▁")
    _, notes, _ = run(line, p_txt="A bridge opened. ## A heading, the ##th of #s, a@b.c, AT&T; <3 a <b> \\nu, Â, âge")
    assert "contain" not in notes


# the names of huggingface/evaluate and rouge-score
def test_types_of_rouge_score_are_named(run):
    line = "evaluate --predictions p.txt --references p.txt --rouge_types rouge1 rougeLsum"
    assert "rougeLsum of rouge-score is rougeL here" in run(line, p_txt="A bridge opened.")[1]


def test_texts_that_have_another_order_are_noted(run):
    # nlpyang/hiersumm#2, nlpyang/PreSumm#242: candidates of other documents, and one candidate for all
    line = "evaluate --predictions p.txt --references r.txt --rouge_types rouge1"
    words = [f"a bridge of town{number} opened" for number in range(24)]
    note = "predictions are no closer to their own references than to those of other rows"
    files = {"r_txt": "\n".join(words)}
    assert note in run(line, p_txt="\n".join(reversed(words)), **files)[1]
    assert note in run(line, p_txt="\n".join(words[:1] * 24), **files)[1]
    assert note not in run(line, p_txt="\n".join(f"town{number}" for number in range(24)), **files)[1]


def test_texts_of_two_forms_are_noted(run):
    # abisee/pointer-generator#65, Alex-Fabbri/Multi-News#4
    line = "evaluate --predictions p.txt --references r.txt --rouge_types rouge1"
    _, notes, _ = run(line, p_txt="He did n't leave -LRB- yet -RRB- .", r_txt="He didn't leave (yet).")
    assert "p.txt is tokenized and r.txt is not, so that words such as didn't differ" in notes
    _, notes, _ = run(line, p_txt="He didn't leave (yet).", r_txt="He did n't leave -LRB- yet -RRB- .")
    assert "r.txt is tokenized and p.txt is not" in notes
    assert "r.txt: 1 of 1 texts contain -LRB-" in notes
    _, notes, _ = run(line, r_txt="He didn't leave.")
    assert "tokenized" not in notes
    # BLEU, chrF and models tell capitals apart
    _, notes, _ = run(f"{line} --metrics chrf", p_txt="he didn't leave yet.")
    assert "p.txt is in lower case and r.txt is not, which only ROUGE, novelty and support ignore" in notes
    assert "lower case" not in run(line)[1] + run(f"{line} --metrics chrf", r_txt="he left.")[1]


def test_lists_of_predictions_are_sentences_of_one(run):
    # yixinL7/BRIO: files of candidates
    line = "evaluate --predictions p.jsonl --references r.txt --rouge_types rouge1"
    similar = ["The old bridge opened on Monday", "On Monday the old bridge was opened"]
    _, notes, _ = run(line, p_jsonl=[{"prediction": similar}], r_txt="A bridge opened.")
    assert "'prediction' has lists of similar texts, which are joined: keep one summary per row" in notes
    _, notes, _ = run(line, p_jsonl=[{"prediction": ["The bridge opened.", "It cost three million."]}])
    assert "lists" not in notes


MULTI_NEWS = [
    {"document": "Fire broke out. NEWLINE_CHAR Nobody was hurt. ||||| The mill burned.", "summary": "A mill burned."}
]


def test_separators_of_a_corpus_are_no_words(run):
    line = "extract m.jsonl --sentences 1"
    output, notes, _ = run(f"{line} --method tail", m_jsonl=MULTI_NEWS)
    assert output == "The mill burned.\n"
    assert "--data_format multi_news" in notes
    output, notes, _ = run(f"{line} --data_format multi_news")
    assert output == "Fire broke out. The mill burned.\n"
    plain = [{"document": "Fire broke out. Nobody was hurt. The mill burned."}]
    line = "evaluate --predictions p.txt --references p.txt --format json --sources"
    ratios = [
        json.loads(run(f"{line} {name}", p_txt="A mill burned.", s_jsonl=plain)[0])["texts"]["predictions"]
        for name in ("m.jsonl", "s.jsonl", "m.jsonl --data_format multi_news")
    ]
    assert ratios[0] == ratios[1] == ratios[2]


# magic282/NeuSum: a tag between sentences, in documents too
def test_tags_are_no_words_of_documents_and_predictions(run):
    rows = [{"document": "Fire broke out .##SENT##Nobody was hurt .##SENT##The mill burned .", "summary": "A mill"}]
    output, notes, _ = run("extract m.jsonl --sentences 2", m_jsonl=rows)
    assert output == "Fire broke out . Nobody was hurt .\n"
    assert "m.jsonl: 1 of 1 rows contain ##SENT##, read as the end of a sentence" in notes
    line = "evaluate --predictions p.txt --references r.txt --rouge_types rouge1 --format json"
    output, notes, _ = run(
        line, p_txt="Fire broke out .##SENT##A mill burned .", r_txt="Fire broke out. A mill burned."
    )
    assert json.loads(output)["rouge"]["rouge1"]["predictions"]["fmeasure"] == 100
    assert "subwords" not in notes


def test_references_in_several_files_and_columns(run):
    # pltrdy/files2rouge#18, Hannibal046/SDDS#6
    rows = [{"prediction": "A mill burned.", "summary1": "A fire.", "summary2": "A mill burned."}]
    files = {"p_txt": "A mill burned.", "ref0_txt": "A fire.", "ref1_txt": "A mill burned.", "d_jsonl": rows}
    options = "--rouge_types rouge1 --several best --format json"
    for texts in ("p.txt --references ref0.txt ref1.txt", "d.jsonl", "d.jsonl --summary_column summary1,summary2"):
        output, notes, _ = run(f"evaluate --predictions {texts} {options}", **files)
        assert json.loads(output)["rouge"]["rouge1"]["predictions"]["fmeasure"] == 100
        assert "1 of 1 pairs have several references" in notes


# mjpost/sacrebleu#130, WebNLG/GenerationEval#7: line-aligned files and columns have blanks where a row has fewer
@pytest.mark.parametrize(
    "texts", ["p.txt --references r0.txt r1.txt", "p.txt --references r1.txt r0.txt", "c.csv", "l.jsonl"]
)
def test_blank_references_beside_others_are_none(run, texts):
    files = {
        "p_txt": "A mill burned.\nIt rained.",
        "r0_txt": "A mill burned.\nIt rained.",
        "r1_txt": "Fire.\n \n",
        "c_csv": "prediction,ref0,ref1\nA mill burned.,A mill burned.,Fire.\nIt rained.,It rained.,\n",
        "l_jsonl": [
            {"prediction": "A mill burned.", "references": ["Fire.", "A mill burned."]},
            {"prediction": "It rained.", "references": [None, "It rained.", ""]},
        ],
    }
    options = "--metrics bleu --rouge_types rouge1 --format json"
    for several, precision in (("pooled", (50 + 100) / 2), ("best", 100)):
        output, notes, _ = run(f"evaluate --predictions {texts} --several {several} {options}", **files)
        report = json.loads(output)
        assert report["rouge"]["rouge1"]["predictions"]["precision"] == precision
        assert report["measures"]["bleu"]["predictions"]["mean"] == 100
        assert "1 of 2 pairs have several references" in notes


# sacrebleu's `--num-refs`: references in one line, as other columns in lines without a header, were words of one text
def test_tabs_in_lines_are_noted(run):
    files = {"p_txt": "A mill burned.\nIt rained.", "r_txt": "A mill burned.\tA fire.\nIt rained.\t"}
    _, notes, _ = run("evaluate --predictions p.txt --references r.txt", **files)
    assert "r.txt: 1 of 2 lines have tabs" in notes
    assert "p.txt: " not in notes


# kmfoda/booksum: the summary is in one column, and an object with it in another
def test_references_are_the_summaries_of_training(run):
    rows = [{"chapter": "A", "summary": '{"name": "One", "summary": ["A mill"]}', "summary_text": "A mill burned."}]
    output, notes, _ = run("evaluate --predictions p.txt --references b.jsonl", p_txt="A mill", b_jsonl=rows)
    assert "b.jsonl: references from 'summary_text'" in notes


def test_wrapped_lines_are_noted(run):
    joined = WRAPPED.replace("\n", " ")
    line = "evaluate --predictions p.txt --references p.txt --sources s.jsonl --format json"
    values = []
    for document, lines in ((WRAPPED, "auto"), (joined, "auto"), (WRAPPED, "sentences"), (WRAPPED, "wrapped")):
        summary = "Programs read a long text and write one that keeps what matters most."
        output, notes, _ = run(f"{line} --lines {lines}", p_txt=summary, s_jsonl=[{"document": document}])
        values.append(json.loads(output)["measures"]["support"]["predictions"]["mean"])
        assert ("wrapped lines" in notes) == (document == WRAPPED and lines == "auto")
    assert values[0] == values[1] == values[3] > values[2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--text_column x", "--text_column: needs --sources"),
        ("--language de --no_stemmer", "--no_stemmer: has no effect beside --language de"),
        ("--against p.txt p.txt", "--against p.txt: is named twice"),
    ],
)
def test_flags_without_effect(run, options, message):
    _, notes, status = run(f"evaluate --predictions p.txt --references p.txt {options}", p_txt="a")
    assert (status, message in notes) == (2, True)


def spoiled() -> list[dict]:
    """A corpus with faults."""
    text = "The city opened a library in the old mill, and it cost three million pounds. The mayor was there."
    rows = [{"content": f"{text} Visitor {number} came in.", "summary": "A library opened."} for number in range(8)]
    # a copy with other space
    rows += [{**rows[0], "content": rows[0]["content"].replace(" ", "\n ")}, {"content": "", "summary": "x"}]
    rows[1]["content"] += " A library opened."
    rows[2]["content"] = textwrap.fill(" ".join([WRAPPED.replace("\n", " ")] * 2), 60)
    rows[3]["content"] += " NEWLINE_CHAR It rained."
    rows[4]["content"] = "В городе открыли новую библиотеку, и это стоило три миллиона, как он сказал на открытии."
    return rows


def test_a_look_at_a_corpus(run):
    output, *_ = run("data a.jsonl b.jsonl --format json", a_jsonl=spoiled(), b_jsonl=spoiled()[5:7])
    report = json.loads(output)
    first, second = report["files"]
    assert (first["rows"], first["blank"], first["duplicate_documents"], first["duplicate_pairs"]) == (10, 1, 1, 1)
    assert first["columns"] == {"document": "content", "summary": "summary", "others": []}
    assert (first["summary_in_document"], first["document_shorter"], first["wrapped"]) == (1, 0, 1)
    assert first["marks"] == {"document": {"NEWLINE_CHAR": 1}, "summary": {}}
    assert (first["language"], first["scripts"]) == ("en", {"LATIN": 8, "CYRILLIC": 1})
    assert second["documents_in"] == {"a.jsonl": 2}
    assert second["document_words"] == {"median": 23, "p95": 23, "max": 23}
    assert second["document_subwords"]["max"] >= 23
    assert second["document_beyond"] == {"limit": 300, "rows": 0}
    assert 0 < second["coverage"] <= 100
    findings = "\n".join(report["findings"])
    for finding in (
        "a.jsonl: 1 of 10 rows have a blank document or summary",
        "a.jsonl: 1 of 10 pairs occur earlier in the file",
        "b.jsonl: 2 of 2 documents are in a.jsonl too",
        "a.jsonl, 'content': 1 of 10 texts contain NEWLINE_CHAR: --data_format multi_news",
        "a.jsonl: 1 of 9 documents have wrapped lines",
        # mahnazkoupaee/WikiHow-Dataset#12: nan
        "a.jsonl: 9 of 10 summaries are 'A library opened.': remove them if it stands for none",
        "a.jsonl: 1 of 9 documents are mostly in another script, CYRILLIC",
    ):
        assert finding in findings
    output, notes, _ = run("data a.jsonl --model none --sample 4")
    assert "| Documents from" in output
    assert "subwords" not in output
    assert "hf-summ: a.jsonl: 1 of 10 pairs occur earlier" in notes


def test_shifted_pairs_are_found(run):
    towns = [
        f"The mayor of town{number} said that it is the bridge of street{number} that was opened"
        for number in range(24)
    ]
    short = [f"It is the bridge of street{number} that opened" for number in range(24)]
    for summaries, is_shifted in ((short, False), (short[1:] + short[:1], True)):
        rows = [{"document": text, "summary": summary} for text, summary in zip(towns, summaries, strict=True)]
        assert ("the pairs may be shifted" in run("data a.jsonl --model none", a_jsonl=rows)[1]) == is_shifted
