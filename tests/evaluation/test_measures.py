"""The table of measures."""

import math

import numpy as np
import pytest

from hf_summ.data import split_sentences
from hf_summ.evaluation import novelty, rouge, support
from hf_summ.evaluation.measures import (
    MEASURES,
    Measure,
    Settings,
    check_metrics,
    falling_scores,
    measure_of,
    names_of_metrics,
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
    texts = PREDICTIONS, SOURCES if measure.reads == "sources" else REFERENCES
    scores = measure.compute(*texts, Settings(rouge_mode=mode))
    assert tuple(scores) == measure.scores(mode)
    assert all(score.rows().shape == (3,) for score in scores.values())
    assert all(measure_of(score) is measure and title_of(score) for score in scores)
    assert set(measure.columns) <= set(measure.titles) >= set(measure.falling)


def test_names_of_scores_are_unique_and_lower_is_better_for_some():
    scores = [score for measure in MEASURES.values() for score in measure.titles]
    assert len(set(scores)) == len(scores)
    assert set(falling_scores()) - set(scores) == {"nll", "perplexity"}
    assert measure_of("perplexity") is None
    assert names_of_metrics() == "rouge, bleu, chrf, bertscore=MODEL, novelty, support"


def test_a_measure_from_outside_is_one_like_the_others(monkeypatch, tmp_path):
    """As the page on evaluation says: a function and an entry."""

    def shouts(predictions, references, settings):
        return {"shouts": mean_over_rows([100.0 * text.isupper() for text in predictions])}

    monkeypatch.setitem(
        MEASURES, "shouts", Measure("shouts", {"shouts": "Shouts"}, shouts, "A note.", falling=("shouts",))
    )
    assert (title_of("shouts"), measure_of("shouts").name) == ("Shouts", "shouts")
    assert "shouts" in falling_scores()
    assert names_of_metrics().endswith(", shouts")
    assert check_metrics(["shouts"]) == {"shouts": ""}
    assert "shouts" in scores_of_systems()
    predictions = ["A BRIDGE", "a bridge"]
    assert metric("shouts", cache_dir=str(tmp_path)).compute(predictions=predictions, references=predictions) == {
        "shouts": 50
    }
    assert Scorer(["rouge", "shouts"], "rouge_score", "en")(predictions, ["a", "b"])["shouts"] == 50
    evaluation = Evaluation(predictions, [["a"], ["b"]], settings=Settings(metrics={"shouts": ""}))
    assert "| Shouts" in as_text(evaluation.report())


def test_metrics_name_their_models():
    assert check_metrics(["rouge", "bertscore=a/bert=1", "chrf"]) == {"rouge": "", "bertscore": "a/bert=1", "chrf": ""}
    for given, message in (
        ("meteor", "--metrics meteor: must be one of rouge, bleu,"),
        ("bertscore", "--metrics bertscore: needs a model: name its encoder, as in bertscore=MODEL"),
        ("chrf=x", "--metrics chrf=x: needs no model: give chrf alone"),
    ):
        with pytest.raises(ValueError, match=message):
            check_metrics(["rouge", given])


def test_a_score_has_a_value_rows_and_an_interval():
    values = np.array([50.0, math.nan, 100.0, 0.0])
    scored = mean_over_rows(values)
    assert (scored.value(), scored.number()) == (50, 3)
    assert scored.rows() == pytest.approx(values, nan_ok=True)
    interval, expected = scored.interval(200, seed=3), bootstrap_interval(values[[0, 2, 3]], 200, seed=3)
    assert (interval.low, interval.high, interval.pairs) == pytest.approx((expected.low, expected.high, 3))
    assert rounded({"score": scored, "none": mean_over_rows([math.nan])}) == pytest.approx(
        {"score": 50, "none": math.nan}, nan_ok=True
    )
    # no interval of a single value, or where a resample has none
    assert mean_over_rows([1.0, math.nan]).interval() is None
    assert Scored(np.array([[1.0, 1], [1, -1]]), ratio).interval() is None


def test_a_measure_says_over_how_many_rows_it_is_a_mean():
    # like a model that has learnt to end only: support is of the rows with words
    predictions = [*PREDICTIONS, ". . .", ". ."]
    texts = predictions, [[text] for text in (*REFERENCES, "Snow", "Wind")], [*SOURCES, "Snow fell.", "Wind rose."]
    evaluation = Evaluation(*texts, settings=Settings(rouge_types=("rouge1",)))
    supported = support(predictions, texts[2])["support"].value()
    report = evaluation.report()
    assert report["rows"]["predictions"]["support"] == 3
    assert "support" not in report["rows"]["references"]
    assert f"| Support, %          | {supported:.2f} (3 of 5) |" in as_text(report)
    novel = novelty(predictions, texts[2])["novel2"].value()
    assert f" {novel:.2f} (3 of 5) | " in as_text(report)


def test_rouge_of_a_tokenizers_subwords(tmp_path):
    tokenizer = word_piece_tokenizer(SENTENCES, 60)
    tokenizer.save_pretrained(tmp_path)
    texts = [f"{SENTENCES[0]} {SENTENCES[1]}", SENTENCES[2]], [[SENTENCES[1]], [SENTENCES[3], SENTENCES[2].upper()]]

    def cut(text):
        if isinstance(text, list):
            return [cut(one) for one in text]
        return "\n".join(" ".join(tokenizer.tokenize(sentence)) for sentence in split_sentences(text))

    own = {"rouge_mode": "rouge155", "rouge_tokenizer": str(tmp_path)}
    expected = rouge_rows(*([cut(text) for text in side] for side in texts), sentences="lines", several="pooled")
    settings = Settings(**own)
    assert [scores.fmeasure.tolist() for scores in rouge(*texts, settings).values()] == [
        scores.fmeasure.tolist() for scores in expected.values()
    ]
    assert f"language en, subwords of {tmp_path}" in as_text(Evaluation(*texts, settings=settings).report())
    with pytest.raises(ValueError, match=r"^`rouge_tokenizer` is 'no/such', but cannot be loaded: "):
        rouge(*texts, Settings(rouge_mode="rouge155", rouge_tokenizer="no/such"))
