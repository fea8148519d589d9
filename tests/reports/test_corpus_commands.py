"""What commands tell of texts: columns, order, tags, references in several files, flags without effect."""

import json

import pytest

from hf_summ.cli import main
from hf_summ.data.languages import probable_language


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
    output, notes, _ = run(f"{line} --prediction_column summary")
    assert json.loads(output)["rouge"]["rouge1"]["predictions"]["fmeasure"] == 100
    assert "predictions are identical to the references, perhaps from the same column" in notes
    output, notes, _ = run(line, p_jsonl=[{"summary_text": "A bridge"}])
    assert "predictions from 'summary_text'" in notes


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


def test_the_first_sentences_of_each_of_several_documents(run):
    rows = [{"document": ["Fire broke out. Nobody was hurt.", "The mill burned."], "summary": "A mill burned."}]
    output, notes, _ = run("extract m.jsonl --sentences 1", m_jsonl=rows)
    assert output == "Fire broke out. The mill burned.\n"
    assert "1 of 1 rows have several documents: --sentences are those of each" in notes


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
@pytest.mark.parametrize("texts", ["p.txt --references r0.txt r1.txt", "p.txt --references r1.txt r0.txt", "l.jsonl"])
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
    for several in ("pooled", "mean"):
        output, notes, _ = run(f"evaluate --predictions {texts} --several {several} {options}", **files)
        report = json.loads(output)
        assert report["rouge"]["rouge1"]["predictions"]["precision"] == (50 + 100) / 2
        assert report["measures"]["bleu"]["predictions"]["mean"] == 100
        assert "1 of 2 pairs have several references" in notes


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


def test_a_number_of_words_excludes_one_of_sentences(run):
    assert run("extract a.txt --words 5", a_txt="One two three. Four five. Six.")[0] == "One two three. Four five.\n"
    assert run("extract a.txt --words 5 --sentences 1")[1:] == (
        "hf-summ: error: --sentences 1: has no effect beside --words 5: omit one of them\n",
        2,
    )


# languages of csebuetnlp/xl-sum and their neighbors, which are not named after others with a few equal words
@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("sw", "Rais wa nchi hiyo amesema kuwa serikali itaendelea kushirikiana na mashirika ya kimataifa."),
        ("ig", "Onye isi ala kwuru na gọọmentị ga-arụkọ ọrụ na otu mba ụwa iji meziwanye ndụ ndị mmadụ."),
        ("tl", "Sinabi ng pangulo na ang pamahalaan ay makikipagtulungan sa mga organisasyon."),
        ("cy", "Dywedodd arlywydd y wlad y bydd y llywodraeth yn parhau i gydweithio â sefydliadau i wella bywyd."),
        ("ca", "Va afegir que els projectes d'aigua i carreteres s'acabaran abans de final d'any per la gent."),
        ("hr", "Predsjednik države rekao je da će vlada nastaviti surađivati kako bi poboljšala život građana."),
        ("sr", "Председник државе је рекао да ће влада наставити да сарађује са међународним организацијама."),
        ("ms", "Beliau menambah bahawa projek air dan jalan raya akan siap sebelum akhir tahun ini."),
        ("id", "Ia menambahkan bahwa proyek air dan jalan akan selesai sebelum akhir tahun ini."),
        ("az", "Ölkə prezidenti bildirib ki, hökumət təşkilatlarla əməkdaşlığı davam etdirəcək və bu yaxşıdır."),
        ("af", "Die president van die land het gesê dat die regering sal voortgaan om saam te werk."),
        # vowel signs belong to words
        ("hi", "प्रधानमंत्री ने कहा कि सरकार लोगों के जीवन को बेहतर बनाने के लिए संगठनों के साथ काम करती रहेगी।"),
        ("mr", "पाणी आणि रस्त्यांचे प्रकल्प या वर्षाच्या अखेरीस पूर्ण होतील असे ते म्हणाले आहेत."),
    ],
)
def test_languages_are_told_apart(language, text):
    assert probable_language(text) == language
