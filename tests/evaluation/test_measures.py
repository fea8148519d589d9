"""The table of measures."""

import math

import numpy as np
import pytest

from hf_summ.data import fit_vocabulary, split_sentences
from hf_summ.evaluation import novelty, rouge, support
from hf_summ.evaluation.measures import (
    MEASURES,
    Measure,
    Settings,
    falling_scores,
    measure_of,
    names_of_metrics,
    parse_metrics,
    title_of,
)
from hf_summ.evaluation.metrics import metric
from hf_summ.evaluation.report import Evaluation, as_text
from hf_summ.evaluation.significance import Scored, bootstrap_interval, mean_over_rows, ratio, rounded
from hf_summ.experiments.tables import scores_of_systems
from hf_summ.training.results.reports import Scorer
from tests.conftest import SENTENCES, word_piece_tokenizer
from tests.evaluation.scores import rouge_rows

PREDICTIONS = ["The mayor opened a bridge.", "It cost 12 million.", "Rain fell."]
REFERENCES = ["The mayor opened the bridge.", "The bridge cost 12 million.", "It rained."]
SOURCES = [f"{text} The mayor spoke." for text in REFERENCES]
WITHOUT_MODEL = [name for name, measure in MEASURES.items() if not measure.needs]


@pytest.mark.parametrize("name", WITHOUT_MODEL)
@pytest.mark.parametrize("mode", ["rouge155", "rouge_score"])
def test_every_measure_computes_the_scores_that_it_names(name, mode):
    measure = MEASURES[name]
    compared_texts = SOURCES if measure.reads == "sources" else REFERENCES
    scores = measure.compute(PREDICTIONS, compared_texts, Settings(rouge_mode=mode))
    assert tuple(scores) == measure.scores(mode)
    for name_of_score, score in scores.items():
        assert score.rows().shape == (3,)
        assert measure_of(name_of_score) is measure
        assert title_of(name_of_score)
    assert set(measure.columns) <= set(measure.titles) >= set(measure.falling)


def test_names_of_scores_are_unique_and_lower_is_better_for_some():
    scores = []
    for measure in MEASURES.values():
        scores.extend(measure.titles)
    assert len(set(scores)) == len(scores)
    assert set(falling_scores()) - set(scores) == {"nll", "perplexity"}
    assert measure_of("perplexity") is None
    assert names_of_metrics() == "rouge, bleu, chrf, bertscore=MODEL, novelty, support"


def test_a_measure_from_outside_is_one_like_the_others(monkeypatch, tmp_path):
    """As the page on evaluation says: a function and an entry."""

    def shouts(predictions, references, settings):
        return {"shouts": mean_over_rows([100.0 * text.isupper() for text in predictions])}

    measure = Measure("shouts", {"shouts": "Shouts"}, shouts, "A note.", falling=("shouts",))
    monkeypatch.setitem(MEASURES, "shouts", measure)
    assert (title_of("shouts"), measure_of("shouts").name) == ("Shouts", "shouts")
    assert "shouts" in falling_scores()
    assert names_of_metrics().endswith(", shouts")
    assert parse_metrics(["shouts"]) == {"shouts": ""}
    assert "shouts" in scores_of_systems()
    predictions = ["A BRIDGE", "a bridge"]
    metric_of_evaluate = metric("shouts", cache_dir=str(tmp_path))
    assert metric_of_evaluate.compute(predictions=predictions, references=predictions) == {"shouts": 50}
    assert Scorer(["rouge", "shouts"], "rouge_score", "en")(predictions, ["a", "b"])["shouts"] == 50
    evaluation = Evaluation(predictions, [["a"], ["b"]], settings=Settings(metrics={"shouts": ""}))
    assert "| Shouts" in as_text(evaluation.report())


CASES_OF_WRONG_METRICS = [
    ("meteor", "--metrics meteor: must be one of rouge, bleu,"),
    ("bertscore", "--metrics bertscore: needs a model: name its encoder, as in bertscore=MODEL"),
    ("chrf=x", "--metrics chrf=x: needs no model: give chrf alone"),
]


def test_metrics_name_their_models():
    assert parse_metrics(["rouge", "bertscore=a/bert=1", "chrf"]) == {"rouge": "", "bertscore": "a/bert=1", "chrf": ""}
    for name, message in CASES_OF_WRONG_METRICS:
        with pytest.raises(ValueError, match=message):
            parse_metrics(["rouge", name])


def test_a_score_has_a_value_rows_and_an_interval():
    values = np.array([50.0, math.nan, 100.0, 0.0])
    scored = mean_over_rows(values)
    assert (scored.value(), scored.number()) == (50, 3)
    assert scored.rows() == pytest.approx(values, nan_ok=True)
    interval = scored.interval(200, seed=3)
    expected = bootstrap_interval(values[[0, 2, 3]], 200, seed=3)
    assert (interval.low, interval.high, interval.pairs) == pytest.approx((expected.low, expected.high, 3))
    means = rounded({"score": scored, "none": mean_over_rows([math.nan])})
    assert means == pytest.approx({"score": 50, "none": math.nan}, nan_ok=True)
    # A single value has no interval, and neither has a measure that is undefined for a resample.
    assert mean_over_rows([1.0, math.nan]).interval() is None
    assert Scored(np.array([[1.0, 1], [1, -1]]), ratio).interval() is None


def test_a_measure_says_over_how_many_rows_it_is_a_mean():
    # The last rows are those of a model that has learned only to end: support is of the rows with words.
    predictions = PREDICTIONS + [". . .", ". ."]
    references = [[text] for text in REFERENCES + ["Snow", "Wind"]]
    sources = SOURCES + ["Snow fell.", "Wind rose."]
    evaluation = Evaluation(predictions, references, sources, settings=Settings(rouge_types=("rouge1",)))
    supported = support(predictions, sources)["support"].value()
    report = evaluation.report()
    assert report["rows"]["predictions"]["support"] == 3
    assert "support" not in report["rows"]["references"]
    assert f"| Support, %          | {supported:.2f} (3 of 5) |" in as_text(report)
    novel = novelty(predictions, sources)["novel2"].value()
    assert f" {novel:.2f} (3 of 5) | " in as_text(report)


def test_rouge_of_a_tokenizers_subwords(tmp_path):
    tokenizer = word_piece_tokenizer(SENTENCES, 60)
    tokenizer.save_pretrained(tmp_path)
    predictions = [f"{SENTENCES[0]} {SENTENCES[1]}", SENTENCES[2]]
    references = [[SENTENCES[1]], [SENTENCES[3], SENTENCES[2].upper()]]

    def as_subwords(text: str) -> str:
        """The subwords of each sentence on a line."""
        lines = []
        for sentence in split_sentences(text):
            lines.append(" ".join(tokenizer.tokenize(sentence)))
        return "\n".join(lines)

    cut_predictions = [as_subwords(text) for text in predictions]
    cut_references = []
    for row in references:
        cut_references.append([as_subwords(text) for text in row])
    expected = rouge_rows(cut_predictions, cut_references, sentences="lines", several="pooled")
    settings = Settings(rouge_mode="rouge155", rouge_tokenizer=str(tmp_path))
    scores = rouge(predictions, references, settings)
    assert len(scores) == len(expected)
    for values, expected_values in zip(scores.values(), expected.values(), strict=True):
        assert values.fmeasure.tolist() == expected_values.fmeasure.tolist()
    report = Evaluation(predictions, references, settings=settings).report()
    assert f"language en, subwords of {tmp_path}" in as_text(report)
    with pytest.raises(ValueError, match=r"^`rouge_tokenizer` is 'no/such', but cannot be loaded: "):
        rouge(predictions, references, Settings(rouge_mode="rouge155", rouge_tokenizer="no/such"))


@pytest.mark.filterwarnings("ignore:the references have .* letters outside a to z")
def test_rouge_of_the_bytes_of_a_tokenizer(tmp_path):
    # The tokens of characters outside ASCII are bytes, except for ä and Ä.
    tokenizer = fit_vocabulary(["aä bä cä aÄ bÄ cÄ"], vocab_size=263, min_frequency=1, show_progress=False)
    tokenizer.save_pretrained(tmp_path)

    def rouge1(prediction: str, reference: str, language: str) -> float:
        settings = Settings(language=language, rouge_types=("rouge1",), rouge_tokenizer=str(tmp_path))
        return rouge([prediction], [reference], settings)["rouge1"].fmeasure[0]

    # ö and ü share the first of two bytes, so that four of five subwords match
    assert rouge1("Köse", "Küse", "de") == pytest.approx(80)
    assert rouge1("Köse", "Käse", "de") == pytest.approx(100 * 2 * 3 / (5 + 4))
    assert rouge1("schön", "schön", "de") == 100
    # the case of whole characters and punctuation do not count, as in words
    assert rouge1("(KÄSE, Ä!)", "käse ä", "de") == pytest.approx(100)
    # English has no letters but a to z
    assert rouge1("Köse", "Küse", "en") == 100
    assert rouge1("Köse", "Käse", "en") == 100
