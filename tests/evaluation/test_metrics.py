"""The measures as metrics of the library `evaluate`."""

import subprocess
import sys

import evaluate
import pytest

from hf_summ.evaluation import bleu, novelty, rouge, support
from hf_summ.evaluation.metrics import Bleu, Novelty, Rouge, Support

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
    assert Rouge(**settings).compute(**TEXTS) == rouge(**TEXTS)
    assert Rouge(**settings).compute(**TEXTS, rouge_mode="rouge155") == rouge(**TEXTS, rouge_mode="rouge155")
    assert Bleu(**settings).compute(**TEXTS) == bleu(**TEXTS)
    found = Novelty(**settings).compute(predictions=PREDICTIONS, sources=SOURCES, average="micro")
    assert found == novelty(PREDICTIONS, SOURCES, average="micro")
    assert Support(**settings).compute(predictions=PREDICTIONS, sources=SOURCES) == support(PREDICTIONS, SOURCES)


def test_several_references_are_taken(cache):
    several = {"predictions": PREDICTIONS, "references": SEVERAL}
    assert Rouge(rouge_mode="rouge155", **cache).compute(**several) == rouge(**several, rouge_mode="rouge155")
    assert Bleu(**cache).compute(**several) == bleu(**several)


def test_lists_of_one_reference_are_that_reference(cache):
    listed = [[reference] for reference in REFERENCES]
    assert Rouge(**cache).compute(predictions=PREDICTIONS, references=listed) == rouge(**TEXTS)


def test_batches_add_up(cache):
    metric = Rouge(**cache)
    for prediction, reference in zip(PREDICTIONS, REFERENCES, strict=True):
        metric.add_batch(predictions=[prediction], references=[reference])
    assert metric.compute() == rouge(**TEXTS)
    metric.add(prediction=PREDICTIONS[0], reference=REFERENCES[0])
    assert metric.compute() == rouge(PREDICTIONS[:1], REFERENCES[:1])


def test_options_of_the_metric_hold_unless_compute_is_told_otherwise(cache):
    metric = Rouge(rouge_mode="rouge155", use_stemmer=False, **cache)
    assert metric.compute(**TEXTS) == rouge(**TEXTS, rouge_mode="rouge155", use_stemmer=False)
    assert metric.compute(**TEXTS, rouge_mode="rouge_score") == rouge(**TEXTS, use_stemmer=False)


def test_metrics_can_be_combined(cache):
    combined = evaluate.combine(
        [Rouge(rouge_mode="rouge155", **cache), Bleu(**cache), Novelty(**cache), Support(**cache)]
    )
    expected = rouge(**TEXTS, rouge_mode="rouge155") | bleu(**TEXTS)
    expected |= novelty(PREDICTIONS, SOURCES) | support(PREDICTIONS, SOURCES)
    assert combined.compute(**TEXTS, sources=SOURCES) == expected
    combined.add_batch(**TEXTS, sources=SOURCES)
    assert combined.compute() == expected


def test_metrics_of_one_name_do_not_collide(cache):
    # both write to the folder of the same metric at the same time, as two processes do
    first, second = Rouge(**cache), Rouge(**cache)
    first.add_batch(predictions=PREDICTIONS[:1], references=REFERENCES[:1])
    second.add_batch(predictions=PREDICTIONS[1:], references=REFERENCES[1:])
    assert first.compute() == rouge(PREDICTIONS[:1], REFERENCES[:1])
    assert second.compute() == rouge(PREDICTIONS[1:], REFERENCES[1:])


@pytest.mark.parametrize("kind", [Rouge, Bleu, Novelty, Support])
def test_metrics_say_what_they_are(cache, kind):
    info = kind(**cache).info
    assert info.module_name == kind.__name__.lower()
    assert info.description
    # support is of no paper
    assert info.citation.startswith("@inproceedings") or kind is Support
    assert "predictions: one text" in info.inputs_description
    assert all(url.startswith("https://aclanthology.org/") for url in info.reference_urls)


def test_option_that_does_not_exist_is_an_error(cache):
    with pytest.raises(TypeError, match="unexpected keyword argument 'tokenise'"):
        Bleu(tokenise="13a", **cache)


def test_novelty_without_sources_is_an_error(cache):
    with pytest.raises(ValueError, match=r"inputs are missing: \['sources'\]"):
        Novelty(**cache).compute(**TEXTS)


def test_evaluate_is_loaded_with_the_metrics_only():
    code = "import sys, hf_summ.evaluation; assert 'evaluate' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
