"""The report of `hf-summ evaluate`: its figures are those of the functions."""

import itertools
import json
from importlib.metadata import version

import numpy as np
import pytest

from hf_summ.evaluation import bootstrap_interval, holm, novelty, paired_bootstrap, paired_randomization, support
from hf_summ.evaluation.measures import MEASURES, Measure
from hf_summ.evaluation.report import Evaluation, Settings, as_latex, as_text
from hf_summ.evaluation.significance import mean_over_rows, rounded
from tests.evaluation.scores import novelty_rows, rouge_rows, support_rows

SPLITTER = f"sentences by sentencex {version('sentencex')}"
PREDICTIONS = ["The mayor opened a bridge.", "It cost 12 million.", "Nothing in common", "Rain fell all day."]
OTHERS = ["A bridge", "It cost a lot.", "Quite in common", ""]
REFERENCES = [["The mayor opened the bridge."], ["The bridge cost 12 million."], ["Another text"], ["It rained."]]
SOURCES = [f"{text} The mayor spoke." for (text,) in REFERENCES]
# what the tests do not look at may be missing or not
NO_STEMS = {"use_stemmer": False}


def build_report(*texts, **options):
    return Evaluation(*texts, **options).report()


def cells(line: str) -> list[str]:
    """The cells of a table's line."""
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize("mode", ["rouge155", "rouge_score"])
def test_figures_are_those_of_the_functions(mode):
    settings = Settings(rouge_mode=mode, **NO_STEMS, resamples=50, seed=3)
    report = build_report(PREDICTIONS, REFERENCES, against={"o.txt": OTHERS}, settings=settings)
    columns = {
        "predictions": rouge_rows(PREDICTIONS, REFERENCES, rouge_mode=mode, **NO_STEMS),
        "o.txt": rouge_rows(OTHERS, REFERENCES, rouge_mode=mode, **NO_STEMS),
    }
    assert list(report["rouge"]) == list(columns["predictions"])
    for metric, systems in report["rouge"].items():
        for name, figures in systems.items():
            for part, column in columns[name][metric]._asdict().items():
                interval = bootstrap_interval(column, 50, seed=3)
                assert figures[part] == column.mean()
                assert figures["intervals"][part] == pytest.approx([interval.low, interval.high])
    differences = report["differences"]["o.txt"]
    adjusted = holm([difference["p_value"] for difference in differences.values()])
    for (metric, difference), p_holm in zip(differences.items(), adjusted, strict=True):
        prediction_scores = columns["predictions"][metric].fmeasure
        system_scores = columns["o.txt"][metric].fmeasure
        compared = paired_bootstrap(prediction_scores, system_scores, 50, seed=3)
        assert difference == {
            "mean": compared.mean,
            "interval": [compared.low, compared.high],
            "p_value": paired_randomization(prediction_scores, system_scores, 50, seed=3),
            "p_holm": p_holm,
            "significant": p_holm <= 0.05,
        }
    assert report["pairs"] == 4
    assert json.loads(json.dumps(report))["settings"]["seed"] == 3


def test_a_difference_is_significant_if_its_adjusted_p_is():
    # better in 10 of 10 rows, which chance gives with p = 2 / 2^10; the others are equal, or worse in one row
    predictions, references = ["a b"] * 10, [["a b"]] * 10
    systems = {"worse": ["x"] * 10, "equal": predictions, "near": ["x"] + predictions[1:]}
    settings = Settings(**NO_STEMS, rouge_types=("rouge1", "rouge2"), resamples=20_000)
    report = build_report(predictions, references, against=systems, settings=settings)
    significant = []
    for name, differences in report["differences"].items():
        significant.extend((name, metric) for metric, difference in differences.items() if difference["significant"])
    assert significant == [("worse", "rouge1"), ("worse", "rouge2")]
    for name, p_value, p_holm in (("worse", 2 / 2**10, 6 * 2 / 2**10), ("equal", 1, 1), ("near", 1, 1)):
        difference = report["differences"][name]["rouge1"]
        assert difference["p_value"] == pytest.approx(p_value, rel=0.4)
        assert difference["p_holm"] == pytest.approx(p_holm, rel=0.4)
    assert "if p is at most 0.05 after Holm's adjustment for 6 tests. p is computed" in as_text(report)


@pytest.mark.parametrize("limit", [{"byte_limit": 3}, {"word_limit": 1}])
def test_recall_of_cut_summaries_is_tested(limit):
    settings = Settings(**NO_STEMS, rouge_types=("rouge1",), **limit)
    report = build_report(["a b"] * 2, [["a b"]] * 2, against={"o": ["b x"] * 2}, settings=settings)
    scores = report["rouge"]["rouge1"]
    assert list(scores) == ["predictions", "o"]
    assert report["tested"] == "recall"
    difference = report["differences"]["o"]["rouge1"]
    assert difference["mean"] == scores["predictions"]["recall"] - scores["o"]["recall"]
    assert "| o                 | ROUGE-1 R |" in as_text(report)


def test_too_few_resamples_for_so_many_tests_are_noted():
    note = "with 119 resamples, none of 7 tests can be significant: use more"
    settings = Settings(**NO_STEMS, rouge_types=("rouge1",), resamples=119)
    systems = {str(number): ["a"] for number in range(6)}
    report = build_report(["a"], [["a"]], against=systems, settings=settings)
    assert note not in report["notes"]
    systems["6"] = ["a"]
    report = build_report(["a"], [["a"]], against=systems, settings=settings)
    assert note in report["notes"]


def test_novelty_and_support_are_those_of_each_column_of_texts():
    settings = Settings(**NO_STEMS, average="micro", count="tokens")
    report = build_report(PREDICTIONS, REFERENCES, SOURCES, {"o.txt": OTHERS}, settings)
    first_references = [row[0] for row in REFERENCES]
    columns = {"predictions": PREDICTIONS, "o.txt": OTHERS, "references": first_references}
    for name, texts in columns.items():
        expected = novelty(texts, SOURCES, average="micro", count="tokens") | support(texts, SOURCES)
        assert report["texts"][name] == rounded(expected), name


def test_support_and_copying_are_in_the_first_table():
    settings = Settings(**NO_STEMS, rouge_types=("rouge1",))
    predictions, references, sources = ["a b x", "", "b"], [["a"], ["a"], ["b"]], ["a b c", "a", "a b"]
    report = build_report(predictions, references, sources, settings=settings)
    rows = novelty_rows(["a b x", "b"], ["a b c", "a b"])
    rows["support"] = support_rows(["a b x", "b"], ["a b c", "a b"])
    assert list(report["measures"]) == ["support", "copy_density", "copy_rate"]
    for measure, systems in report["measures"].items():
        figures = systems["predictions"]
        interval = bootstrap_interval(rows[measure])
        assert figures["mean"] == pytest.approx(np.mean(rows[measure]), abs=1e-4)
        assert figures["interval"] == pytest.approx([interval.low, interval.high])
    table = as_text(report).split("\n\n")[0].splitlines()
    assert cells(table[0])[:3] == ["Metric", "F or mean", "95% interval"]
    # "a" is no content word: "b" of "b" and "x" is supported, and not both of them together; then "b" is.
    assert cells(table[3])[:2] == ["Support, %", "62.50 (2 of 3)"]
    # Two of three words are in a fragment of two, and one of one.
    assert len(table) == 6
    assert cells(table[4])[:2] == ["Copy density, words", "1.17 (2 of 3)"]
    assert cells(table[5])[:2] == ["Copied words, %", "83.33 (2 of 3)"]
    assert set(cells(table[5])[3:]) == {"-"}
    report = build_report(predictions, references, sources, {"other": ["a b x", "", "c"]}, settings)
    table = [cells(line) for line in as_text(report).split("\n\n")[0].splitlines()]
    assert table[0][:3] == ["Metric", "System", "F or mean"]
    metrics = ["ROUGE-1", "Support, %", "Copy density, words", "Copied words, %"]
    expected = list(itertools.product(metrics, ["Predictions", "other"]))
    assert [tuple(row[:2]) for row in table[2:]] == expected
    assert table[4][2] == "62.50 (2 of 3)"
    assert table[5][2] == "12.50 (2 of 3)"


def test_intervals_of_copying_are_of_means_over_rows():
    micro = build_report(["a b"], [["a"]], ["a"], settings=Settings(**NO_STEMS, average="micro"))
    assert micro["measures"]["copy_rate"]["predictions"] == {"mean": 50, "interval": None}
    nothing = build_report([""], [["a"]], ["a"], settings=Settings(**NO_STEMS))
    for measure in ("support", "copy_density"):
        assert nothing["measures"][measure]["predictions"] == {"mean": None, "interval": None}


def test_a_difference_that_too_few_rows_have_is_left_out_and_noted(monkeypatch):
    def length_with_number(predictions, references, settings):
        has_number = [any(character.isdigit() for character in text) for text in predictions]
        lengths = [float(len(text)) for text in predictions]
        return {"numbers": mean_over_rows(np.where(has_number, lengths, np.nan))}

    entry = Measure("numbers", {"numbers": "Characters beside numbers"}, length_with_number, "Lengths.")
    monkeypatch.setitem(MEASURES, "numbers", entry)
    settings = Settings(rouge_types=("rouge1", "rouge2", "rougeL"), metrics={"numbers": ""}, resamples=99)
    predictions = ["12 cats sat"] * 30
    against = {
        # a resample may miss the rows with a number
        "few": ["3 dogs"] * 2 + ["a dog"] * 28,
        "none": ["a dog"] * 30,
        "most": ["3 dogs"] * 25 + ["a dog"] * 5,
    }
    report = build_report(predictions, [["a cat sat"]] * 30, against=against, settings=settings)
    assert report["measures"]["numbers"]["few"] == {"mean": 6.0, "interval": [6.0, 6.0]}
    rouge_types = ["rouge1", "rouge2", "rougeL"]
    differences = report["differences"]
    assert [list(differences[system]) for system in against] == [rouge_types, rouge_types, [*rouge_types, "numbers"]]
    assert (differences["most"]["numbers"]["mean"], differences["most"]["numbers"]["interval"]) == (5.0, [5.0, 5.0])
    tests = [test for system in against for test in differences[system].values()]
    assert [test["p_holm"] for test in tests] == holm([test["p_value"] for test in tests])
    for system in ("few", "none"):
        note = f"no difference from {system} in Characters beside numbers: too few rows have a value"
        assert report["notes"].count(note) == 1
    assert "with 99 resamples, none of 10 tests can be significant: use more" in report["notes"]
    text = as_text(report)
    assert "Holm's adjustment for 10 tests" in text
    assert [line for line in text.splitlines() if line.startswith("| few ") and "Characters" in line] == []
    assert "Characters beside numbers" in as_latex(report)


def test_measures_that_no_row_has_are_null():
    report = build_report(["a"], [["b"]], ["a b"], settings=Settings(**NO_STEMS))
    assert report["texts"]["predictions"]["novel4"] is None
    assert "| Novel 4-grams, %            |           - |          - |" in as_text(report)


def test_lengths_are_counted_without_sources():
    report = build_report(PREDICTIONS, REFERENCES, settings=Settings(**NO_STEMS))
    assert report["texts"] == {"predictions": {"length": 16 / 4}, "references": {"length": 14 / 4}}


def test_tables_by_hand():
    # two pairs, one equal and one without a word in common
    settings = Settings(rouge_mode="rouge_score", rouge_types=("rouge1", "rougeLsum"), resamples=20_000)
    systems = {"good": ["a b", "d"], "same": ["a b", "c"]}
    report = build_report(["a b", "c"], [["a b"], ["d"]], against=systems, settings=settings)
    parts = as_text(report).split("\n\n")
    score_rows = [cells(line) for line in parts[0].splitlines()]
    difference_rows = [cells(line) for line in parts[1].splitlines()]
    assert score_rows[0] == ["Metric", "System", "F", "95% interval", "P", "95% interval", "R", "95% interval"]
    half, full = ["50.00", "[0.00, 100.00]"], ["100.00", "[100.00, 100.00]"]
    # F, precision and recall are the same.
    assert score_rows[2:] == [
        ["ROUGE-1", "Predictions"] + half * 3,
        ["ROUGE-1", "good"] + full * 3,
        ["ROUGE-1", "same"] + half * 3,
        ["ROUGE-Lsum", "Predictions"] + half * 3,
        ["ROUGE-Lsum", "good"] + full * 3,
        ["ROUGE-Lsum", "same"] + half * 3,
    ]
    columns = ["Predictions minus", "Metric", "Difference", "95% interval", "p", "p, Holm", "Significant"]
    assert difference_rows[0] == columns
    assert difference_rows[2:] == [
        ["good", "ROUGE-1 F", "-50.00", "[-100.00, +0.00]", "1.000", "1.000", "no"],
        ["good", "ROUGE-Lsum F", "-50.00", "[-100.00, +0.00]", "1.000", "1.000", "no"],
        ["same", "ROUGE-1 F", "+0.00", "[+0.00, +0.00]", "1.000", "1.000", "no"],
        ["same", "ROUGE-Lsum F", "+0.00", "[+0.00, +0.00]", "1.000", "1.000", "no"],
    ]
    rule = "A difference is significant if p is at most 0.05 after Holm's adjustment for 4 tests. "
    assert parts[2].startswith(rule)


def test_latex_has_a_row_for_each_system_and_a_column_for_each_measure():
    references = [["a b"]] * 20
    settings = Settings(**NO_STEMS, resamples=200, rouge_types=("rouge1", "rougeL"))
    systems = {"o_1.txt": ["y"] * 20, "half": ["a b", "y"] * 10}
    report = build_report(["a b"] * 20, references, ["a b y"] * 20, systems, settings, name="GDLF_us")
    table, legend, line = as_latex(report).split("\n\n")
    low, high = report["rouge"]["rouge1"]["half"]["intervals"]["fmeasure"]
    half = rf"$50.00 \pm {(high - low) / 2:.2f}^{{\dagger}}$"
    none = r"$0.00 \pm 0.00^{\dagger}$"
    full = r"$100.00 \pm 0.00$"
    rows = []
    for row in table.splitlines():
        if row.endswith(r"\\"):
            rows.append(row.removesuffix(r" \\").split(" & ")[:3])
    assert rows == [
        ["", "ROUGE-1", "ROUGE-L"],
        [r"GDLF\_us", full, full],
        [r"o\_1.txt", none, none],
        ["half", half, half],
    ]
    assert r"$\dagger$ differs significantly from GDLF\_us. A difference is significant if p" in legend
    assert r"hf\_summ" in line


@pytest.mark.parametrize(("resamples", "shown"), [(200, "0.005"), (9999, "0.0001")])
def test_a_sure_difference_has_no_p_value_of_zero(resamples, shown):
    settings = Settings(**NO_STEMS, resamples=resamples, rouge_types=("rouge1",))
    report = build_report(["a b"] * 30, [["a b"]] * 30, against={"x": ["y"] * 30}, settings=settings)
    assert report["differences"]["x"]["rouge1"]["p_value"] == 1 / (resamples + 1)
    assert f" {shown} | " in as_text(report)
    assert any(note.startswith("there are only 30 pairs, so the bootstrap's intervals") for note in report["notes"])


def test_scores_of_each_row():
    labels = ["line 1", "line 3"]
    systems = {"o.txt": OTHERS[:2]}
    evaluation = Evaluation(PREDICTIONS[:2], REFERENCES[:2], SOURCES[:2], systems, Settings(**NO_STEMS), labels)
    rows = list(evaluation.rows())
    assert [(row["system"], row["row"]) for row in rows] == [
        ("predictions", "line 1"),
        ("predictions", "line 3"),
        ("o.txt", "line 1"),
        ("o.txt", "line 3"),
    ]
    scores = rouge_rows(OTHERS[:2], REFERENCES[:2], **NO_STEMS)["rouge2"]
    assert [row["rouge2_recall"] for row in rows[2:]] == list(scores.recall)
    # Two words have no trigram.
    assert novelty_rows(OTHERS[:1], SOURCES[:1])["novel2"][0] == rows[2]["novel2"]
    assert rows[2]["novel3"] is None
    assert [row["support"] for row in rows[2:]] == support_rows(OTHERS[:2], SOURCES[:2]).tolist()


def test_a_source_without_words_costs_its_row_and_is_named():
    labels = [f"s.txt, line {number}" for number in (1, 2, 3, 4)]
    sources = SOURCES[:1] + [" "] + SOURCES[2:]
    evaluation = Evaluation(PREDICTIONS, REFERENCES, sources, settings=Settings(**NO_STEMS), labels=labels)
    report = evaluation.report()
    assert report["notes"] == ["1 of 4 sources have no words and are left out of novelty and support: s.txt, line 2"]
    predictions = PREDICTIONS[:1] + PREDICTIONS[2:]
    sources = SOURCES[:1] + SOURCES[2:]
    assert report["texts"]["predictions"] == rounded(novelty(predictions, sources) | support(predictions, sources))
    for measure in ("novel1", "support"):
        assert [row[measure] is None for row in evaluation.rows()] == [False, True, False, False]


def test_one_pair_has_no_interval():
    report = build_report(["a b"], [["a c"]], against={"o": ["c"]}, settings=Settings(**NO_STEMS))
    for interval in report["rouge"]["rouge1"]["predictions"]["intervals"].values():
        assert interval is None
    difference = report["differences"]["o"]["rouge1"]
    assert difference["interval"] is None
    assert (difference["p_value"], difference["p_holm"]) == (1, 1)
    assert difference["significant"] is False
    assert "there is only one pair, so there is no interval" in report["notes"]
    assert "|     -16.67 |         none | 1.000 |   1.000 |          no |" in as_text(report)


@pytest.mark.parametrize("name", ["predictions", "references"])
def test_names_of_other_systems_are_their_own(name):
    with pytest.raises(ValueError, match=f"`against` has a system named '{name}'"):
        Evaluation(["a"], [["a"]], against={name: ["a"]})


def test_blank_texts_are_counted():
    predictions, references = ["a", " ", ""], [["a"], ["b"], ["", " "]]
    systems = {"o.txt": ["", "b", "c"]}
    report = build_report(predictions, references, against=systems, settings=Settings(**NO_STEMS))
    assert report["notes"] == [
        "2 of 3 predictions are blank and score 0",
        "1 of 3 texts of o.txt are blank and score 0",
        "1 of 3 references are blank: their pairs score 0",
        "there are only 3 pairs, so the bootstrap's intervals are too narrow (with 20 pairs, 8% of the "
        "intervals of chance differences exclude 0): rely on p",
        "1 of 3 pairs have several references: scores pool the matches with all (--several best takes the best score); "
        "lengths are those of the first",
    ]
    assert report["rouge"]["rouge1"]["predictions"]["fmeasure"] == pytest.approx(100 / 3)


CASES_OF_THE_BEST_REFERENCE = [
    (Settings(rouge_mode="rouge_score"), "each score is that of the best one"),
    (Settings(several="best"), "each score is that of the best one"),
]


@pytest.mark.parametrize(("settings", "said"), CASES_OF_THE_BEST_REFERENCE)
def test_what_counts_of_several_references_is_noted(settings, said):
    report = build_report(["a"], [["a", "b"]], settings=settings)
    assert f"1 of 1 pairs have several references: {said}; " in "".join(report["notes"])


@pytest.mark.parametrize("mode", ["rouge155", "rouge_score"])
def test_other_alphabets_in_english_mode_are_noted_once(mode):
    settings = Settings(rouge_mode=mode, **NO_STEMS)
    report = build_report(["Müller kam"], [["Müller kam spät"]], against={"o": ["er kam"]}, settings=settings)
    notes_of_letters = [note for note in report["notes"] if "have 2 letters outside a to z" in note]
    assert len(notes_of_letters) == 1


# settings, and a part of the line
CASES_OF_SETTINGS_LINES = [
    (Settings(), "stemming: Porter and WordNet's exceptions;"),
    (Settings(rouge_mode="rouge_score"), "stemming: Porter (NLTK's);"),
    (Settings(use_stemmer=False), "stemming: none"),
    (Settings(language="de"), "stemming: none; language de; sentences"),
    (Settings(language="zh", units="lcsts"), "language zh, characters kept by DRGD's program for LCSTS"),
    (Settings(sentences="lines"), "one sentence per line"),
    (Settings(byte_limit=75), f"{SPLITTER}; truncated after 75 bytes; 1000 resamples, seed 0"),
    (Settings(word_limit=9, seed=4), "truncated after 9 words; 1000 resamples, seed 4"),
]


@pytest.mark.parametrize(("settings", "said"), CASES_OF_SETTINGS_LINES)
def test_settings_line_says_what_the_scores_depend_on(settings, said):
    line = as_text(build_report(["a"], [["a"]], settings=settings)).splitlines()[-1]
    assert line.startswith(f"{settings.rouge_mode}: macro means in points over 1 pairs; ")
    assert said in line


def test_settings_line_says_how_novelty_is_counted():
    report = build_report(["a"], [["a"]], ["a b"], settings=Settings(average="micro", count="tokens"))
    assert "novelty: micro over tokens" in as_text(report)
    assert "novelty" not in as_text(build_report(["a"], [["a"]]))
