"""`hf-summ evaluate` on small files."""

import json
import re

import pytest

from hf_summ.evaluation import chrf
from hf_summ.evaluation.report import Evaluation, Settings, as_latex, as_text
from tests.data.files import json_lines, read_rows, write

PREDICTIONS = ["The mayor opened a bridge.", "It cost 12 million.", "Nothing in common"]
BASELINE = ["A bridge", "It cost a lot.", "Quite in common"]
REFERENCES = ["The mayor opened the bridge.", "The bridge cost 12 million.", "Another text"]
SOURCES = [f"{text} The mayor spoke." for text in REFERENCES]
FILES = {"p.txt": PREDICTIONS, "o.txt": BASELINE, "r.txt": REFERENCES, "s.txt": SOURCES}
PAIR = ("--predictions", "p.txt", "--references", "r.txt")


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """A folder to work in, with predictions of two systems, references and sources; and rows of them."""
    for name, texts in FILES.items():
        (tmp_path / name).write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    write_rows(tmp_path / "rows.jsonl", "prediction", "summary", "document")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_rows(path, prediction_column, reference_column, source_column):
    """Write predictions, references and sources to columns of these names."""
    rows = []
    for prediction, reference, source in zip(PREDICTIONS, REFERENCES, SOURCES, strict=True):
        rows.append({prediction_column: prediction, reference_column: reference, source_column: source})
    write(path, json_lines(rows))


def build_report(*texts, **options):
    return Evaluation(*texts, **options).report()


@pytest.fixture
def references() -> list[list[str]]:
    return [[reference] for reference in REFERENCES]


def test_tables_and_files_are_those_of_the_report(run, workplace, references):
    argv = (*PAIR, "--sources", "s.txt", "--against", "o.txt", "--output", "report.json")
    output, notes = run("evaluate", *argv, "--resamples", "50", "--seed", "3")
    expected = build_report(PREDICTIONS, references, SOURCES, {"o.txt": BASELINE}, Settings(resamples=50, seed=3))
    assert output == as_text(expected)
    assert notes.splitlines() == [f"hf-summ: {note}" for note in expected["notes"]]
    report = json.loads((workplace / "report.json").read_text(encoding="utf-8"))
    files = {"predictions": "p.txt", "references": ["r.txt"], "sources": "s.txt", "against": ["o.txt"]}
    assert report == {"files": files, **json.loads(json.dumps(expected))}
    markdown = (workplace / "report.md").read_text(encoding="utf-8")
    assert output.strip() in markdown
    for line in ("predictions: p.txt", "references: r.txt", "sources: s.txt", "against: o.txt"):
        assert f"- {line}\n" in markdown
    for note in expected["notes"]:
        assert f"- {note}\n" in markdown
    assert not list(workplace.glob(".*"))


def test_every_format_has_the_same_report_and_notes(run, workplace):
    argv = ("evaluate", *PAIR, "--against", "o.txt", "--output", "report.json", "--format")
    output, notes = run(*argv, "json")
    assert output == (workplace / "report.json").read_text(encoding="utf-8")
    report = json.loads(output)
    assert run(*argv, "latex") == (as_latex(report), notes)
    assert run(*argv, "markdown") == (as_text(report), notes)
    assert as_text(report).strip() in (workplace / "report.md").read_text(encoding="utf-8")


def test_a_note_on_tags_in_several_columns_of_a_file_is_given_once(run, workplace):
    row = {"prediction": "A <q> b", "summary": "A <q> c", "document": "A <q> d"}
    write(workplace / "tagged.jsonl", json_lines([row, row]))
    argv = ("--predictions", "tagged.jsonl", "--sources", "tagged.jsonl", "--format", "json")
    output, said = run("evaluate", *argv)
    note = "tagged.jsonl: 2 of 2 rows contain <q>, read as the end of a sentence"
    assert json.loads(output)["notes"].count(note) == 1
    assert said.count(note) == 1


def test_systems_have_names(run, refusal, workplace):
    argv = ("evaluate", *PAIR, "--against", "o.txt", "--names")
    output, _ = run(*argv, "GDLF", "BART")
    assert "| GDLF minus | Metric" in output
    assert "| ROUGE-1   | BART   |" in output
    assert refusal(*argv, "GDLF") == "--names GDLF: must be 2 different names, one for each file"


def test_scores_of_each_document(run, workplace, references):
    run("evaluate", *PAIR, "--sources", "s.txt", "--against", "o.txt", "r.txt", "--scores", "scores.jsonl")
    rows = read_rows(workplace / "scores.jsonl")
    systems = {"o.txt": BASELINE, "r.txt": REFERENCES}
    labels = ["p.txt, row 1", "p.txt, row 2", "p.txt, row 3"]
    assert rows == list(Evaluation(PREDICTIONS, references, SOURCES, systems, labels=labels).rows())


def test_further_measures_are_compared_with_other_systems(run, workplace, references):
    output, _ = run("evaluate", *PAIR, "--against", "o.txt", "--metrics", "chrf", "bleu")
    settings = Settings(metrics={"chrf": "", "bleu": ""})
    assert output == as_text(build_report(PREDICTIONS, references, against={"o.txt": BASELINE}, settings=settings))
    score = chrf(PREDICTIONS, REFERENCES)["chrf"].value()
    baseline_score = chrf(BASELINE, REFERENCES)["chrf"].value()
    assert f"| chrF      | Predictions | {score:>9.2f} |" in output
    assert re.search(rf"^\| o.txt +\| chrF +\| +\{score - baseline_score:+.2f} \|", output, re.MULTILINE)


def test_rows_bring_their_references(run, workplace, references):
    output, _ = run("evaluate", "--predictions", "rows.jsonl", "--sources", "rows.jsonl")
    assert output == as_text(build_report(PREDICTIONS, references, SOURCES))
    # the references' file may be one of rows while the predictions are lines
    same_output, _ = run("evaluate", *PAIR[:2], "--references", "rows.jsonl", "--sources", "rows.jsonl")
    assert same_output == output


def test_columns_are_named(run, refusal, workplace, references):
    write_rows(workplace / "other.jsonl", "prediction", "gist", "abstract")
    argv = ("evaluate", "--predictions", "other.jsonl", "--sources", "other.jsonl", "--text_column", "abstract")
    hint = "the columns are gist: name one with --summary_column"
    assert refusal(*argv) == f"other.jsonl: no summary column; {hint}"
    output, _ = run(*argv, "--summary_column", "gist")
    assert output == as_text(build_report(PREDICTIONS, references, SOURCES))


CASES_OF_SETTINGS = [
    ((), Settings()),
    (("--rouge_mode", "rouge_score"), Settings(rouge_mode="rouge_score")),
    (("--rouge_mode", "rouge_score", "--no_stemmer"), Settings(rouge_mode="rouge_score", use_stemmer=False)),
    (("--byte_limit", "9"), Settings(byte_limit=9)),
    (("--word_limit", "3"), Settings(word_limit=3)),
    (("--sentences", "lines"), Settings(sentences="lines")),
    (("--several", "best"), Settings(several="best")),
    (("--language", "de"), Settings(language="de")),
    (("--language", "zh", "--units", "lcsts"), Settings(language="zh", units="lcsts")),
    (("--rouge_types", "rouge1", "rougeSU*"), Settings(rouge_types=("rouge1", "rougeSU*"))),
    (("--average", "micro", "--count", "tokens"), Settings(average="micro", count="tokens")),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("options", "settings"), CASES_OF_SETTINGS)
def test_settings_are_the_users(run, workplace, references, options, settings):
    output, _ = run("evaluate", *PAIR, "--sources", "s.txt", *options)
    assert output == as_text(build_report(PREDICTIONS, references, SOURCES, settings=settings))


# tags, and the flags that name them
CASES_OF_TAGS = [("<q>", ()), ("</s> <s>", ()), ("|||", ("--separator", " ||| "))]


@pytest.mark.parametrize(("tag", "options"), CASES_OF_TAGS)
def test_tags_end_sentences(run, workplace, tag, options):
    # in one line or without the tags, only the order of the words within a sentence would count
    texts = {"p.txt": f"a cat sat {tag} a dog ran {tag}\n", "r.txt": f"a dog ran {tag} a cat sat\n"}
    for name, text in texts.items():
        (workplace / name).write_text(text, encoding="utf-8")
    full_score = re.compile(r"^\| ROUGE-L +(\| 100.00 \| +none ){3}", re.MULTILINE)
    output, notes = run("evaluate", *PAIR, *options)
    assert full_score.search(output)
    first_tag = tag.split()[0]
    assert f"hf-summ: p.txt: 1 of 1 rows contain {first_tag}, read as the end of a sentence\n" in notes
    output, notes = run("evaluate", *PAIR, "--separator", "none")
    assert not full_score.search(output)
    assert "end of a sentence" not in notes
    _, notes = run("evaluate", *PAIR, "--separator", "###")
    assert "hf-summ: no text contains the separator '###'\n" in notes


CASES_OF_REFUSED_EVALUATIONS = [
    ((*PAIR[:3], "short.txt"), "p.txt has 3 texts and short.txt has 2: the files must match row by row"),
    ((*PAIR, "--average", "micro"), "--average micro: needs --sources"),
    ((*PAIR, "--metrics", "support"), "--metrics support: needs --sources, with which it compares the summaries"),
    ((*PAIR, "--scores", "scores.csv"), "--scores scores.csv: must be a .jsonl file in an existing folder"),
    (("--predictions", "s.jsonl", *PAIR[2:], "--scores", "s.jsonl"), "--scores s.jsonl: would replace the input"),
    (("--predictions", "empty", *PAIR[2:]), "empty is a folder without files"),
    ((*PAIR, "--rouge_types", "rougeLsum"), "ROUGE type rougeLsum of rouge-score is rougeL here"),
    ((*PAIR, "--rouge_mode", "rouge_score", "--byte_limit", "75"), "--rouge_mode is 'rouge_score', which has no"),
    ((*PAIR, "--language", "Klingon"), "--language is 'Klingon', but must be an ISO 639 code"),
    ((*PAIR, "--resamples", "0"), "--resamples 0: must be at least 1"),
    ((*PAIR, "--separator", " "), "--separator is ' ', but must be a tag or a mark between sentences"),
    ((*PAIR, "--output", "report.md"), "--output report.md: must be a .json file"),
    (("--predictions", "p.md", *PAIR[2:], "--output", "p.json"), "--output p.json: would replace the input p.md;"),
]


@pytest.mark.parametrize(("argv", "message"), CASES_OF_REFUSED_EVALUATIONS)
def test_what_cannot_work_is_told(refusal, workplace, argv, message):
    (workplace / "short.txt").write_text("a\nb\n")
    (workplace / "s.jsonl").write_text('{"summary": "a"}\n')
    before = sorted(workplace.iterdir())
    assert re.search(message, refusal("evaluate", *argv))
    assert sorted(workplace.iterdir()) == before
