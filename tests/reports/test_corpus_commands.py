"""What commands tell of texts: columns, order, tags, references in several files, flags without effect."""

import json

import pytest

from hf_summ.cli import main


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """Runs a command beside files of these contents (`a_txt` is a.txt), and returns its output, notes and status."""
    monkeypatch.chdir(tmp_path)

    def command(line, **files):
        for name, content in files.items():
            stem, _, ending = name.rpartition("_")
            if not isinstance(content, str):
                content = "".join(json.dumps(row) + "\n" for row in content)
            (tmp_path / f"{stem}.{ending}").write_text(content, encoding="utf-8")
        status = main(line.split())
        output, notes = capsys.readouterr()
        return output, notes, status

    return command


GOLD = [{"summary": "A bridge opened on Monday."}]


def test_predictions_are_not_the_summaries_beside_them(run):
    # the reference beside a generated summary was scored, with 100
    rows = [{"summary": "A bridge opened on Monday.", "generated_summary": "The mill burned."}]
    line = "evaluate --predictions p.jsonl --references g.jsonl --rouge_types rouge1 --format json"
    output, notes, _ = run(line, p_jsonl=rows, g_jsonl=GOLD)
    assert json.loads(output)["rouge"]["rouge1"]["predictions"]["fmeasure"] == 0
    assert "p.jsonl: predictions from 'generated_summary'" in notes
    assert "g.jsonl: references from 'summary'" in notes
    output, notes, _ = run(f"{line} --prediction_column summary")
    assert json.loads(output)["rouge"]["rouge1"]["predictions"]["fmeasure"] == 100
    assert "predictions are identical to the references, perhaps from the same column" in notes
    _, notes, _ = run(line, p_jsonl=[{"summary_text": "A bridge"}])
    assert "predictions from 'summary_text'" in notes


# the names of huggingface/evaluate and rouge-score
def test_types_of_rouge_score_are_named(run):
    line = "evaluate --predictions p.txt --references p.txt --rouge_types rouge1 rougeLsum"
    _, notes, _ = run(line, p_txt="A bridge opened.")
    assert "rougeLsum of rouge-score is rougeL here" in notes


def test_texts_that_have_another_order_are_noted(run):
    # nlpyang/hiersumm#2, nlpyang/PreSumm#242: candidates of other documents, and one candidate for all
    line = "evaluate --predictions p.txt --references r.txt --rouge_types rouge1"
    references = [f"a bridge of town{number} opened" for number in range(24)]
    note = "predictions are no closer to their own references than to those of other rows"

    def notes_of(predictions: list[str]) -> str:
        _, notes, _ = run(line, p_txt="\n".join(predictions), r_txt="\n".join(references))
        return notes

    assert note in notes_of(references[::-1])
    assert note in notes_of(references[:1] * 24)
    assert note not in notes_of([f"town{number}" for number in range(24)])


def test_the_first_sentences_of_each_of_several_documents(run):
    rows = [{"document": ["Fire broke out. Nobody was hurt.", "The mill burned."], "summary": "A mill burned."}]
    output, _, _ = run("extract m.jsonl --sentences 1", m_jsonl=rows)
    assert output == "Fire broke out. The mill burned.\n"


# magic282/NeuSum: a tag between sentences, in documents too
def test_tags_are_no_words_of_documents_and_predictions(run):
    rows = [{"document": "Fire broke out .##SENT##Nobody was hurt .##SENT##The mill burned .", "summary": "A mill"}]
    output, notes, _ = run("extract m.jsonl --sentences 2", m_jsonl=rows)
    assert output == "Fire broke out . Nobody was hurt .\n"
    assert "m.jsonl: 1 of 1 rows contain ##SENT##, read as the end of a sentence" in notes
    line = "evaluate --predictions p.txt --references r.txt --rouge_types rouge1 --format json"
    files = {"p_txt": "Fire broke out .##SENT##A mill burned .", "r_txt": "Fire broke out. A mill burned."}
    output, _, _ = run(line, **files)
    assert json.loads(output)["rouge"]["rouge1"]["predictions"]["fmeasure"] == 100


def test_references_in_several_files_and_in_lists(run):
    # pltrdy/files2rouge#18, Hannibal046/SDDS#6
    rows = [{"prediction": "A mill burned.", "gold": ["A fire.", "A mill burned."]}]
    files = {"p_txt": "A mill burned.", "ref0_txt": "A fire.", "ref1_txt": "A mill burned.", "d_jsonl": rows}
    options = "--rouge_types rouge1 --several best --format json"
    for texts in ("p.txt --references ref0.txt ref1.txt", "d.jsonl --summary_column gold"):
        output, notes, _ = run(f"evaluate --predictions {texts} {options}", **files)
        assert json.loads(output)["rouge"]["rouge1"]["predictions"]["fmeasure"] == 100
        assert "1 of 1 pairs have several references" in notes


# mjpost/sacrebleu#130, WebNLG/GenerationEval#7: line-aligned files and lists have blanks where a row has fewer
ARGUMENTS_OF_TEXTS = ["p.txt --references r0.txt r1.txt", "p.txt --references r1.txt r0.txt", "l.jsonl"]


@pytest.mark.parametrize("texts", ARGUMENTS_OF_TEXTS)
def test_blank_references_beside_others_are_none(run, texts):
    files = {
        "p_txt": "A mill burned.\nIt rained.",
        "r0_txt": "A mill burned.\nIt rained.",
        "r1_txt": "Fire.\n \n",
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


CASES_OF_FLAGS_WITHOUT_EFFECT = [
    ("--text_column x", "--text_column: needs --sources"),
    ("--language de --no_stemmer", "--no_stemmer: has no effect beside --language de"),
    ("--against p.txt p.txt", "--against p.txt: is named twice"),
]


@pytest.mark.parametrize(("options", "message"), CASES_OF_FLAGS_WITHOUT_EFFECT)
def test_flags_without_effect(run, options, message):
    _, notes, status = run(f"evaluate --predictions p.txt --references p.txt {options}", p_txt="a")
    assert status == 2
    assert message in notes
