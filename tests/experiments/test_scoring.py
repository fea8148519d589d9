"""A table's measures against the functions that compute them, its claims, and correlations with divergence."""

import json

import datasets
import numpy as np
import pytest
from scipy.stats import spearmanr

from hf_summ.data import split_sentences
from hf_summ.evaluation import paired_bootstrap, perplexity
from hf_summ.evaluation.report import Evaluation, Settings
from hf_summ.evaluation.significance import Comparison, Scored, examples_to_decide, mean_over_rows, ratio
from hf_summ.experiments.blocks import block_of_scores
from hf_summ.experiments.report import markdown_of_claims
from hf_summ.experiments.run import run_table
from hf_summ.experiments.scoring import (
    WAITING,
    Outcome,
    claims,
    compare,
    over_seeds,
    rank_correlation,
    relation,
    score,
    verdict,
)
from hf_summ.experiments.tables import load_table
from tests.data.files import json_lines, write
from tests.evaluation.scores import novelty_rows, rouge_rows
from tests.experiments.made_up import equal_scores, make_table, write_data, write_table
from tests.training import tiny

ROUGE = ["rouge1", "rouge2", "rougeL", "rougeSU4"]
NOISE = np.random.default_rng(3).normal(0, 5, 200)
SPREAD = np.linspace(-4, 4, 200)
TITLES = {"rouge1": "R-1", "novel1": "novel 1-grams"}


@pytest.fixture
def corpus():
    return datasets.Dataset.from_list(tiny.rows(30, seed=3))


@pytest.fixture
def predictions():
    """The summaries of other rows, in which some words are right."""
    return [row["summary"] for row in tiny.rows(30, seed=4)]


def values(measures):
    """The value of each measure."""
    return {name: scored.value() for name, scored in measures.items()}


def means(scores, kind="fmeasure"):
    """The mean of each ROUGE type over all rows, as an approximate value."""
    expected = {}
    for rouge_type, scores_of_rows in scores.items():
        expected[rouge_type] = pytest.approx(getattr(scores_of_rows, kind).mean())
    return expected


CASES_OF_ROUGE_SETTINGS = [("recall", {"byte_limit": 20}), ("precision", {"word_limit": 3}), ("recall", {})]


@pytest.mark.parametrize(("kind", "limit"), CASES_OF_ROUGE_SETTINGS)
def test_rouge_is_cut_and_read_as_the_table_says(tmp_path, corpus, predictions, kind, limit):
    table = make_table(tmp_path, measures=ROUGE, rows=[{"row": "DC"}], rouge={"score": kind, **limit})
    scores = values(score(table, "en", corpus, predictions, None, None))
    assert scores == means(rouge_rows(predictions, corpus["summary"], rouge_types=ROUGE, **limit), kind)
    plain = make_table(tmp_path, measures=ROUGE, rows=[{"row": "DC"}])
    assert scores != values(score(plain, "en", corpus, predictions, None, None))


CASES_OF_PUBLISHED_TABLES = [
    # the program's texts are washed, and so are the references that they are compared with
    ("drgd_lcsts", "NBA球星：2014年，科比退役？", "nba球星年，科比退役？", 100.0),
    # the Perl script has no letter ü, and stems English
    ("thesis_7_11", "Die Häuser brannten.", "die h user brannten", 100.0),
]


@pytest.mark.parametrize(("name", "reference", "prediction", "expected"), CASES_OF_PUBLISHED_TABLES)
def test_tables_score_as_the_published_figures_were(name, reference, prediction, expected):
    table = load_table(name)
    corpus = datasets.Dataset.from_dict({"document": [""], "summary": [reference]})
    first_dataset = next(iter(table.datasets))
    scores = values(score(table, table.language_of(first_dataset), corpus, [prediction], None, None))
    assert scores["rouge2"] == pytest.approx(expected)


def test_language_of_the_user_is_that_of_extracts_and_scores(tmp_path):
    # English rules end sentences after the ordinal number, and split words at umlauts
    rows = [
        {"document": "Am 3. Oktober kam ein Zug. Es regnete.", "summary": "Am 3. Oktober kam ein Zug."},
        {"document": "Häuser brannten. Es regnete.", "summary": "H user"},
    ]
    path = write(tmp_path / "test.jsonl", json_lines(rows))
    # the flag is for trained rows, so the table has one, whose configuration does not exist
    table_rows = [{"row": "LEAD-1", "extractive": "lead", "sentences": 1}, {"row": "to come", "config": "no/xsum.yaml"}]
    table = write_table(tmp_path, measures=["rouge1"], rows=table_rows)
    flags = ["--test_file", path, "--language", "de"]
    (block,) = run_table(table, "small", {}, flags, str(tmp_path), lambda message: None)["datasets"]
    assert block["rows"][0]["measures"]["rouge1"]["value"] == pytest.approx((100 + 0) / 2)


def test_all_references_of_a_document_count(tmp_path, corpus, predictions):
    references = [[text, f"{text} It rained."] for text in corpus["summary"]]
    # the reference of a row without a list is its summary
    with_references = corpus.add_column("references", [None, *references[1:]])
    references[0] = [corpus["summary"][0]]
    table = make_table(tmp_path)
    scores = values(score(table, "en", with_references, predictions, None, None))
    assert scores == means(rouge_rows(predictions, references, rouge_types=["rouge1", "rougeL"]))
    assert scores != values(score(table, "en", corpus, predictions, None, None))


def test_tags_are_ends_of_sentences_and_no_words(tmp_path):
    first, second = "the bridge is open", "Ana sang"
    document, lists = f"{first}<q>{second}", [f"{first} [X_SEP] {second}", "it rained<q>"]
    tagged = datasets.Dataset.from_dict({"document": [document], "summary": [lists[0]], "references": [lists]})
    plain_lists = [f"{first}\n{second}", "it rained"]
    plain_columns = {"document": plain_lists[:1], "summary": plain_lists[:1], "references": [plain_lists]}
    table = make_table(tmp_path, measures=[*ROUGE, "novel1"], rows=[{"row": "DC"}])
    scores = values(score(table, "en", tagged, [f"<t> {second} </t> <t> {first} </t>"], None, None))
    plain_corpus = datasets.Dataset.from_dict(plain_columns)
    assert scores == values(score(table, "en", plain_corpus, [f"{second}\n{first}"], None, None))
    # all words of the document, none of which is novel
    assert scores["novel1"] == 0


@pytest.mark.parametrize("method", ["lead", "tail"])
def test_tags_end_the_sentences_of_extracts_and_of_references(tmp_path, method):
    row = {"document": "Ana sang<q>Ben ran<q>Eva read", "summary": "Ana sang<q>Eva read"}
    path = write(tmp_path / "test.jsonl", json_lines([row]))
    rows = [{"row": method, "extractive": method, "sentences": "reference"}, {"row": "references", "gold": True}]
    table = write_table(tmp_path, measures=["rouge1"], rows=rows)
    (block,) = run_table(table, "small", {}, ["--test_file", path], str(tmp_path), lambda message: None)["datasets"]
    # two of four words are right
    assert [row["measures"]["rouge1"]["value"] for row in block["rows"]] == [pytest.approx(50), pytest.approx(100)]


def test_statistics_count_no_tags(tmp_path):
    data = write_data(tmp_path / "news", train=1, validation=1, test=1)
    for split in ("train", "validation", "test"):
        row = {"document": "Ana sang<q>Ben ran", "summary": "<t> Ana sang </t> <t> Ben </t>"}
        write(data / f"{split}.jsonl", json_lines([row]))
    measures = ["document_words", "document_sentences", "summary_words", "summary_sentences", "vocabulary"]
    table = write_table(tmp_path, kind="statistics", measures=measures, rows=[{"row": "news"}])
    (block,) = run_table(table, "small", {"xsum": str(data)}, [], str(tmp_path), lambda message: None)["datasets"]
    assert [cell["value"] for cell in block["rows"][0]["measures"].values()] == [4, 2, 3, 2, 4]


def test_wordpieces_are_scored_sentence_by_sentence(tmp_path, corpus, predictions):
    def wordpieces(text):
        """The first three letters of each word, and its other letters."""
        pieces = []
        for word in text.lower().split():
            pieces.append(word[:3])
            if len(word) > 3:
                pieces.append(f"##{word[3:]}")
        return pieces

    def in_wordpieces(text):
        """A text with a sentence a line and a space between wordpieces."""
        return "\n".join(" ".join(wordpieces(sentence)) for sentence in split_sentences(text))

    table = make_table(tmp_path, unit="wordpieces")
    predictions = [f"{text} It rained." for text in predictions]
    scores = values(score(table, "en", corpus, predictions, None, wordpieces))
    split_predictions = [in_wordpieces(text) for text in predictions]
    split_references = [in_wordpieces(text) for text in corpus["summary"]]
    expected = rouge_rows(split_predictions, split_references, rouge_types=["rouge1", "rougeL"], sentences="lines")
    assert scores == means(expected)
    assert scores != values(score(make_table(tmp_path), "en", corpus, predictions, None, None))
    with pytest.raises(ValueError, match="the table scores subwords, but this row has no model that defines them"):
        score(table, "en", corpus, predictions, None, None)


def test_intervals_are_those_of_evaluate(tmp_path, corpus, predictions):
    predictions[:5] = ["It is."] * 5
    table = make_table(tmp_path, measures=["rouge1", "support", "chrf"], rows=[{"row": "DC"}])
    scored = score(table, "en", corpus, predictions, None, None)
    references = [[text] for text in corpus["summary"]]
    settings = Settings(rouge_types=("rouge1",), metrics={"chrf": ""})
    report = Evaluation(predictions, references, corpus["document"], settings=settings).report()
    intervals = {name: report["measures"][name]["predictions"]["interval"] for name in ("support", "chrf")}
    intervals["rouge1"] = report["rouge"]["rouge1"]["predictions"]["intervals"]["fmeasure"]
    for name, ends in intervals.items():
        interval = scored[name].interval()
        assert ends == [interval.low, interval.high], name


def test_novelty_may_count_punctuation_marks(tmp_path, corpus, predictions):
    table = make_table(tmp_path, measures=["novel1"], rows=[{"row": "DC"}], count_punctuation=True)
    expected = novelty_rows(predictions, corpus["document"], count_punctuation=True)
    assert expected["novel1"] != novelty_rows(predictions, corpus["document"])["novel1"]
    scores = values(score(table, "en", corpus, predictions, None, None))
    assert scores == {"novel1": pytest.approx(np.nanmean(expected["novel1"]))}


def test_perplexity_is_of_all_tokens_and_only_of_models(tmp_path, corpus, predictions):
    table = make_table(tmp_path, measures=["perplexity", "rouge1"], rows=[{"row": "DC"}])
    losses = np.column_stack([np.linspace(5, 50, 30), np.arange(1, 31)])
    scored = score(table, "en", corpus, predictions, losses, None)
    assert list(scored) == ["perplexity", "rouge1"]
    assert values(scored)["perplexity"] == pytest.approx(float(perplexity(losses.sum(0))))
    assert "perplexity" not in score(table, "en", corpus, predictions, None, None)


def ends_of(comparison):
    """The mean and the interval of a comparison."""
    return comparison.mean, comparison.low, comparison.high


def test_difference_is_the_paired_bootstraps():
    generator = np.random.default_rng(1)
    scores, baseline_scores = generator.normal(31, 5, 200), generator.normal(30, 5, 200)
    comparison = compare(mean_over_rows(scores), mean_over_rows(baseline_scores))
    expected = paired_bootstrap(scores, baseline_scores)
    assert ends_of(comparison) == pytest.approx(ends_of(expected))
    assert compare(mean_over_rows(scores), mean_over_rows(scores)).mean == 0


def test_measure_without_a_value_for_resamples_has_no_interval():
    one_count = Scored(np.array([[60.0, 1], [0, 0], [0, 0], [0, 0]]), ratio)
    no_counts = Scored(np.zeros((4, 2)), ratio)
    infinite = Scored(np.array([[1e6, 1.0]] * 4), perplexity)
    assert (one_count.value(), one_count.interval()) == (60, None)
    assert (no_counts.value(), no_counts.interval()) == (None, None)
    assert (infinite.value(), infinite.interval()) == (None, None)
    assert compare(one_count, no_counts) is None
    assert compare(no_counts, mean_over_rows([1, 2, 3, 4])) is None


def test_row_over_seeds_is_the_mean_of_its_trainings(tmp_path):
    first, second = np.random.default_rng(1).normal(30, 5, (2, 200))
    trained_twice, trained_once = make_table(tmp_path, rows=[{"row": "DC"}, {"row": "GDLF"}]).rows

    def outcome_of(row, seed, scores):
        return Outcome(row, facts={"seed": seed}, measures={"rouge1": mean_over_rows(scores)})

    outcomes = [
        outcome_of(trained_twice, 1, first),
        outcome_of(trained_once, 1, first),
        outcome_of(trained_twice, 2, second),
    ]
    pooled, single = over_seeds(outcomes)
    assert [pooled.row.row, single.row.row] == ["DC", "GDLF"]
    assert pooled.measures["rouge1"].seeds == (pytest.approx(first.mean()), pytest.approx(second.mean()))
    interval = pooled.measures["rouge1"].interval()
    expected = mean_over_rows((first + second) / 2).interval()
    assert ends_of(interval) == pytest.approx(ends_of(expected))
    assert pooled.facts["seeds"] == [1, 2]
    assert "seeds" not in single.facts
    assert single.measures["rouge1"].seeds == ()


def test_seeds_with_values_for_different_numbers_of_documents_have_the_same_weight(tmp_path):
    (row,) = make_table(tmp_path).rows
    nan = np.nan
    # Of twelve summaries, one, then ten, then none has a bigram.
    scores_of_seeds = [[100] + [nan] * 11, [0] * 10 + [nan] * 2, [nan] * 12]
    outcomes = []
    for seed, scores in enumerate(scores_of_seeds):
        outcomes.append(Outcome(row, facts={"seed": seed}, measures={"novel2": mean_over_rows(scores)}))
    (pooled,) = over_seeds(outcomes)
    novelty = pooled.measures["novel2"]
    assert novelty.seeds == (100, 0)
    assert novelty.value() == pytest.approx(50)
    # Ten documents have a value with one of the seeds.
    assert novelty.number() == 10
    interval = over_seeds([outcomes[1], outcomes[1]])[0].measures["novel2"].interval()
    assert interval == outcomes[1].measures["novel2"].interval()


def test_what_runs_recorded_is_averaged_over_seeds(tmp_path):
    (row,) = make_table(tmp_path).rows
    curves_of_seeds = {1: [[10, 4.0], [20, 3.0], [30, 2.0]], 2: [[10, 5.0], [20, 3.5]]}
    outcomes = []
    for seed, curve in curves_of_seeds.items():
        facts = {"seed": seed, "updates": 20 + seed, "tokens": 1000 * seed, "documents_per_second": 1.5 * seed}
        facts["curve"] = curve
        outcomes.append(Outcome(row, facts=facts, measures={"rouge1": mean_over_rows([1, 2])}))
    (pooled,) = over_seeds(outcomes)
    means = {"updates": 21, "tokens": 1500, "documents_per_second": 2.25, "curve": [[10, 4.5], [20, 3.25]]}
    assert pooled.facts == {**means, "seed": 1, "seeds": [1, 2]}


def test_row_has_the_seeds_that_are_done_and_fails_with_one(tmp_path):
    (row,) = make_table(tmp_path).rows
    done = Outcome(row, measures={"rouge1": mean_over_rows([1, 2])})
    waiting = Outcome(row, WAITING)
    failed = Outcome(row, "it broke", failed=True)
    assert over_seeds([waiting, done]) == [done]
    assert over_seeds([waiting, waiting]) == [waiting]
    (pooled,) = over_seeds([done, failed])
    assert (pooled.measures, pooled.problem, pooled.failed) == (done.measures, "it broke", True)
    assert over_seeds([waiting, failed]) == [failed]


# the published difference, the interval of ours, and the verdict
CASES_OF_VERDICTS = [
    (0.3, 0.1, 0.9, "holds"),
    (0.3, -0.9, -0.1, "fails"),
    (-0.3, -0.9, -0.1, "holds"),
    (-0.3, 0.1, 0.9, "fails"),
    (0.3, -0.1, 0.9, "undecided"),
    (-0.3, -0.1, 0.9, "undecided"),
    (0.3, 0.0, 0.9, "undecided"),
    (0.0, 0.1, 0.9, None),
    (None, 0.1, 0.9, None),
]


@pytest.mark.parametrize(("published", "low", "high", "expected"), CASES_OF_VERDICTS)
def test_verdict_is_on_the_published_direction(published, low, high, expected):
    # whether higher is better does not matter: a lower published perplexity holds if ours is lower, too
    assert verdict(published, Comparison((low + high) / 2, low, high, pairs=100)) == expected


def test_verdict_needs_a_run_and_more_than_one_document():
    assert verdict(0.3, None) is None
    assert verdict(0.3, Comparison(0.5, 0.5, 0.5, pairs=1)) == "undecided"


# the values of the baseline's seeds and of the row's, and the verdict on a published difference above zero
CASES_OF_VERDICTS_OVER_SEEDS = [
    ([20.0, 26.0], [24.0, 25.0], "undecided"),
    ([20.0, 22.0], [24.0, 25.0], "holds"),
    ([24.0, 25.0], [20.0, 22.0], "fails"),
    # the baseline has no second seed, as it is not trained or its second seed is still to come
    ([24.5], [24.0, 26.0], "undecided"),
    ([23.0], [24.0, 26.0], "holds"),
]


@pytest.mark.parametrize("measure", ["rouge1", "perplexity"])
@pytest.mark.parametrize(("baseline_values", "row_values", "expected"), CASES_OF_VERDICTS_OVER_SEEDS)
def test_verdict_needs_seeds_that_do_not_overlap(tmp_path, measure, baseline_values, row_values, expected):
    rows = [{"row": "DC", "published": [30]}, {"row": "GDLF", "published": [32]}]
    table = make_table(tmp_path, measures=[measure], rows=rows, baseline="DC")
    outcomes = []
    for row, values_of_seeds in zip(table.rows, [baseline_values, row_values], strict=True):
        for seed, value in enumerate(values_of_seeds, start=1):
            scored = equal_scores(value)
            if measure == "perplexity":
                scored = Scored(np.array([[20 * np.log(value), 20.0]] * 9), perplexity)
            outcomes.append(Outcome(row, facts={"seed": seed}, measures={measure: scored}))
    block = block_of_scores(table, "xsum", "xsum", 9, over_seeds(outcomes))
    cell = block["rows"][1]["measures"][measure]
    # the interval over documents excludes zero, as all documents have the same scores
    assert cell["difference"]["low"] * cell["difference"]["high"] > 0
    assert cell["verdict"] == expected


@pytest.fixture
def judge(tmp_path):
    """Judges the claim that GDLF is above DC, by the scores of all documents and the values of the seeds."""
    lower, higher = make_table(tmp_path, rows=[{"row": "DC"}, {"row": "GDLF", "above": ["DC"]}]).rows

    def outcome_of(row, scores, seeds):
        counts = np.full(len(scores), len(seeds) or 1)
        rouge = Scored(np.column_stack([scores * counts, counts]), ratio, seeds)
        return Outcome(row, measures={"rouge1": rouge, "novel1": rouge})

    def judged(scores, baseline_scores, seeds=(), baseline_seeds=()):
        return claims([outcome_of(lower, baseline_scores, baseline_seeds), outcome_of(higher, scores, seeds)])

    return judged


# the mean gain of the claim's row, the values of its seeds and of those of its baseline, and the verdict
CASES_OF_CLAIMS = [
    (2, (), (), "holds"),
    (-2, (), (), "fails"),
    (0.1, (), (), "undecided"),
    (2, (31, 32), (29, 30), "holds"),
    (-2, (29, 30), (31, 32), "fails"),
    # a training of the baseline was better than one of the claim's row
    (2, (30, 34), (29, 31), "undecided"),
    # a row with one value, as its second seed is still to come or it is not trained: 30 for the baseline, or 32
    (2, (31, 33), (), "holds"),
    (2, (29, 35), (), "undecided"),
    (2, (), (29, 31), "holds"),
    (2, (), (27, 33), "undecided"),
    (-2, (26, 31), (), "undecided"),
    (0.1, (31, 32), (29, 30), "undecided"),
]


@pytest.mark.parametrize(("gain", "seeds", "baseline_seeds", "expected"), CASES_OF_CLAIMS)
def test_claim_needs_the_documents_and_the_seeds(judge, gain, seeds, baseline_seeds, expected):
    baseline_scores = 30 + NOISE
    scores = baseline_scores + gain + SPREAD
    (claim,) = judge(scores, baseline_scores, seeds, baseline_seeds)
    assert (claim["row"], claim["above"], list(claim["measures"])) == ("GDLF", "DC", ["rouge1"])
    cell = claim["measures"]["rouge1"]
    assert cell["difference"]["value"] == pytest.approx(gain)
    assert cell["documents"] == examples_to_decide(scores - baseline_scores)
    assert cell["verdict"] == expected


def shown(claim):
    """The cell of a claim's ROUGE-1 in Markdown."""
    head, empty, table = markdown_of_claims([claim], TITLES, 200)
    assert head.startswith("The papers' claims")
    assert empty == ""
    titles, _, row = table.splitlines()
    assert cells_of(titles) == ["row", "above", "R-1"]
    name, baseline, cell = cells_of(row)
    assert (name, baseline) == ("GDLF", "DC")
    return cell


def cells_of(line):
    """The cells of a line of a table in Markdown."""
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_undecided_claim_says_what_would_decide(judge):
    (claim,) = judge(30 + NOISE + 0.1 + SPREAD, 30 + NOISE)
    documents = claim["measures"]["rouge1"]["documents"]
    assert documents > 200
    assert shown(claim).startswith("+0.10 [")
    assert shown(claim).endswith(f"] undecided: {documents:,} documents")
    (claim,) = judge(30 + NOISE + 2 + SPREAD, 30 + NOISE, (30, 34), (29, 31))
    assert shown(claim).endswith("] undecided: more seeds")
    (claim,) = judge(30 + NOISE + 2 + SPREAD, 30 + NOISE)
    assert shown(claim).endswith("] holds")


def test_what_cannot_be_decided_is_shown_so(judge):
    # equal systems are decided by nothing
    (claim,) = judge(30 + NOISE, 30 + NOISE)
    assert claim["measures"]["rouge1"]["documents"] is None
    assert shown(claim) == "+0.00 [+0.00, +0.00] undecided: –"
    # a single document decides nothing
    (claim,) = judge(np.array([31.0]), np.array([30.0]))
    cell = claim["measures"]["rouge1"]
    assert (cell["verdict"], cell["documents"]) == ("undecided", None)


def test_claim_on_a_row_that_is_still_to_come_is_empty(tmp_path):
    lower, higher = make_table(tmp_path, rows=[{"row": "DC"}, {"row": "GDLF", "above": ["DC"]}]).rows
    (claim,) = claims([Outcome(lower, "not run yet"), Outcome(higher, "not run yet")])
    assert claim["measures"] == {}
    assert shown(claim) == "–"


def test_correlation_is_spearmans():
    generator = np.random.default_rng(0)
    values = generator.normal(size=200)
    # rounded scores have ties
    scores = np.round(values + generator.normal(size=200), 0)
    correlation = rank_correlation(values, scores)
    assert correlation["value"] == pytest.approx(spearmanr(values, scores).statistic)
    assert correlation["low"] < correlation["value"] < correlation["high"]
    assert rank_correlation(values, -scores)["value"] == pytest.approx(-correlation["value"])
    assert rank_correlation(values, np.zeros(200)) is None


def test_spans_have_as_many_documents_and_their_means():
    values = np.array([5.0, 1.0, 2.0, 8.0, 3.0, 4.0, 6.0, 7.0, 9.0])
    related = relation(values, {"rouge1": 10 * values})
    assert [span["documents"] for span in related["spans"]] == [2, 1, 1, 1, 1, 1, 1, 1]
    assert related["spans"][0] == {"low": 1.0, "high": 2.0, "documents": 2, "scores": {"rouge1": 15.0}}
    assert related["points"][0] == [5.0, 50.0]
    assert relation(values[:3], {"rouge1": values[:3]})["spans"][-1]["high"] == 5.0


@pytest.mark.thorough
def test_figure_of_the_paper_is_run(tmp_path):
    report = run_table("sagcopy_figure_2", "tiny", {}, [], str(tmp_path), announce=lambda message: None)
    (block,) = report["datasets"]
    related = block["relations"]["SAGCopy Indegree-1"]
    assert len(related["points"]) == block["documents"] == 40
    assert sum(span["documents"] for span in related["spans"]) == 40
    for point in related["points"]:
        divergence = point[0]
        assert divergence >= 0
    assert json.loads((tmp_path / "sagcopy_figure_2_tiny.json").read_text(encoding="utf-8")) == report
    text = (tmp_path / "sagcopy_figure_2_tiny.md").read_text(encoding="utf-8")
    assert "SAGCopy Indegree-1: Spearman's correlation of each summary's divergence with its R-1" in text
    assert "| divergence " in text
    assert (tmp_path / "sagcopy_figure_2_tiny.png").read_bytes().startswith(b"\x89PNG")
