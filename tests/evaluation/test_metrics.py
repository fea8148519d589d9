"""The measures as metrics of the library `evaluate`."""

import pickle

import evaluate
import pytest

from hf_summ.evaluation import bleu, chrf, novelty, support
from hf_summ.evaluation.measures import MEASURES
from hf_summ.evaluation.metrics import metric
from hf_summ.evaluation.significance import rounded
from tests.conftest import run_python
from tests.evaluation.scores import rouge_means

PREDICTIONS = ["The mayor opened a bridge today.", "It cost 12 million in all."]
REFERENCES = ["The mayor opened the bridge today.", "It cost 12 million."]
SEVERAL = [[reference, "A bridge was opened."] for reference in REFERENCES]
SOURCES = ["The mayor opened a bridge. It rained.", "A bridge was opened. It cost 12 million, they say."]
TEXTS = {"predictions": PREDICTIONS, "references": REFERENCES}


@pytest.fixture(autouse=True)
def cache(tmp_path):
    return {"cache_dir": str(tmp_path)}


@pytest.mark.parametrize("keep_in_memory", [True, False])
def test_metrics_compute_what_the_functions_do(cache, keep_in_memory):
    settings = cache | {"keep_in_memory": keep_in_memory}
    assert metric("rouge", **settings).compute(**TEXTS) == rouge_means(**TEXTS, rouge_mode="rouge_score")
    assert metric("rouge", **settings).compute(**TEXTS, rouge_mode="rouge155") == rouge_means(**TEXTS)
    assert metric("bleu", **settings).compute(**TEXTS) == rounded(bleu(**TEXTS))
    micro = metric("novelty", **settings).compute(predictions=PREDICTIONS, sources=SOURCES, average="micro")
    assert micro == rounded(novelty(PREDICTIONS, SOURCES, average="micro"))
    supported = metric("support", **settings).compute(predictions=PREDICTIONS, sources=SOURCES)
    assert supported == rounded(support(PREDICTIONS, SOURCES))
    assert metric("chrf", **settings).compute(**TEXTS) == rounded(chrf(**TEXTS))


def test_lists_of_references_are_taken(cache):
    several = {"predictions": PREDICTIONS, "references": SEVERAL}
    assert metric("rouge", rouge_mode="rouge155", **cache).compute(**several) == rouge_means(**several)
    assert metric("bleu", **cache).compute(**several) == rounded(bleu(**several))
    listed = [[reference] for reference in REFERENCES]
    assert metric("rouge", **cache).compute(predictions=PREDICTIONS, references=listed) == rouge_means(
        **TEXTS, rouge_mode="rouge_score"
    )


# huggingface/evaluate#49, #286: `evaluate` takes the type of the first row for all, and a text for a list of letters
def test_rows_may_have_different_numbers_of_references(cache):
    expected = rouge_means(PREDICTIONS, [REFERENCES[0], SEVERAL[1]], rouge_mode="rouge_score")
    for rows in ([REFERENCES[0], SEVERAL[1]], [REFERENCES[:1], SEVERAL[1]]):
        assert metric("rouge", **cache).compute(predictions=PREDICTIONS, references=rows) == expected
        of_rows = metric("rouge", **cache)
        for prediction, row in zip(PREDICTIONS, rows, strict=True):
            of_rows.add(prediction=prediction, reference=row)
        assert of_rows.compute() == expected
    for texts in ({"predictions": "ab", "references": ["a", "b"]}, {"predictions": ["a", "b"], "references": "ab"}):
        with pytest.raises(TypeError, match=r"^`(predictions|references)` must be a list, but is str: 'ab'$"):
            metric("rouge", **cache).compute(**texts)
    for reference in (None, ["a", None]):
        with pytest.raises(ValueError, match="row 1 holds NoneType: None; give '' for an empty text"):
            metric("rouge", **cache).compute(predictions=["a", "b"], references=["a", reference])


def test_batches_add_up(cache):
    of_batches = metric("rouge", **cache)
    for prediction, reference in zip(PREDICTIONS, REFERENCES, strict=True):
        of_batches.add_batch(predictions=[prediction], references=[reference])
    assert of_batches.compute() == rouge_means(**TEXTS, rouge_mode="rouge_score")
    of_batches.add(prediction=PREDICTIONS[0], reference=REFERENCES[0])
    assert of_batches.compute() == rouge_means(PREDICTIONS[:1], REFERENCES[:1], rouge_mode="rouge_score")


def test_options_of_the_metric_hold_unless_compute_is_told_otherwise(cache):
    unstemmed = metric("rouge", rouge_mode="rouge155", use_stemmer=False, **cache)
    assert unstemmed.compute(**TEXTS) == rouge_means(**TEXTS, use_stemmer=False)
    assert unstemmed.compute(**TEXTS, rouge_mode="rouge_score") == rouge_means(
        **TEXTS, use_stemmer=False, rouge_mode="rouge_score"
    )


def test_metrics_can_be_combined(cache):
    others = [metric(name, **cache) for name in ("bleu", "novelty", "support")]
    combined = evaluate.combine([metric("rouge", rouge_mode="rouge155", **cache), *others])
    expected = rouge_means(**TEXTS) | rounded(bleu(**TEXTS))
    expected |= rounded(novelty(PREDICTIONS, SOURCES) | support(PREDICTIONS, SOURCES))
    assert combined.compute(**TEXTS, sources=SOURCES) == expected
    combined.add_batch(**TEXTS, sources=SOURCES)
    assert combined.compute() == expected


def test_metrics_of_one_name_do_not_collide(cache):
    # both write to the folder of the same metric at the same time, as two processes do
    first, second = metric("rouge", **cache), metric("rouge", **cache)
    first.add_batch(predictions=PREDICTIONS[:1], references=REFERENCES[:1])
    second.add_batch(predictions=PREDICTIONS[1:], references=REFERENCES[1:])
    assert first.compute() == rouge_means(PREDICTIONS[:1], REFERENCES[:1], rouge_mode="rouge_score")
    assert second.compute() == rouge_means(PREDICTIONS[1:], REFERENCES[1:], rouge_mode="rouge_score")


def test_metrics_are_pickled(cache):
    # huggingface/evaluate, tests/test_metric.py: test_dummy_metric_pickle
    again = pickle.loads(pickle.dumps(metric("rouge", rouge_mode="rouge155", **cache)))  # noqa: S301 (its own pickle)
    assert again.compute(**TEXTS) == rouge_means(**TEXTS)


@pytest.mark.parametrize("name", MEASURES)
def test_metrics_say_what_they_are(cache, name):
    info = metric(name, **cache).info
    assert info.module_name == name
    assert info.description == MEASURES[name].note
    assert "predictions: one text" in info.inputs_description
    assert all(url.startswith("https://") for url in info.reference_urls)


def test_what_does_not_exist_is_an_error(cache):
    with pytest.raises(TypeError, match="unexpected keyword argument 'tokenise'"):
        metric("bleu", **cache).compute(**TEXTS, tokenise="13a")
    with pytest.raises(ValueError, match=r"`name` is 'rogue', but must be one of rouge, "):
        metric("rogue")
    with pytest.raises(ValueError, match=r"inputs are missing: \['sources'\]"):
        metric("novelty", **cache).compute(**TEXTS)


def test_evaluate_is_loaded_with_the_metrics_only():
    code = "import sys, hf_summ.evaluation; assert 'evaluate' not in sys.modules"
    run_python("-c", code)
