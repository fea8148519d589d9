"""The scores of a run's summaries."""

import datasets
import pytest

from hf_summ.data import lead
from hf_summ.data.vocabulary import fit_processor
from hf_summ.evaluation import bleu, chrf
from hf_summ.evaluation.significance import rounded
from hf_summ.training.results.reports import Scorer, lead_metrics
from hf_summ.training.run import main
from tests.data.files import read_rows
from tests.evaluation.scores import rouge_means
from tests.training import tiny


def test_tags_between_sentences_are_their_ends():
    scorer = Scorer(["rouge"], "rouge155", "en")
    texts = ["a cat sat <q> a dog ran"], ["<t> a dog ran </t> <t> a cat sat </t>"]
    with pytest.warns(UserWarning, match="tags such as <q>, read as the ends of sentences"):
        scores = scorer(*texts)
    assert (scores["rouge1"], scores["rougeL"]) == (100, 100)


def test_tags_end_the_first_sentences_of_a_document():
    rows = datasets.Dataset.from_dict({"document": ["a cat sat <q> a dog ran"], "summary": ["a cat sat"]})
    with pytest.warns(UserWarning, match="tags such as <q>"):
        scores = lead_metrics(rows, 1, Scorer(["rouge"], "rouge155", "en"))
    assert scores["lead1_rouge1"] == 100


@pytest.mark.parametrize("several", ["best", "pooled", None])
def test_several_references_are_scored_as_asked(several):
    scorer = Scorer(["rouge", "bleu"], "rouge_score", "en", several)
    predictions, references = ["a b", "c"], [["a x", "b a"], ["c"]]
    scores = scorer(predictions, references)
    expected = rouge_means(predictions, references, several=several, rouge_mode="rouge_score")
    assert {name: scores[name] for name in expected} == expected
    assert scores["bleu"] == rounded(bleu(predictions, references))["bleu"]
    assert scores["references"] == 1.5
    intervals = scorer.intervals(predictions, references)
    assert intervals["rouge1_low"] <= expected["rouge1"] <= intervals["rouge1_high"]
    assert "references" not in scorer(predictions, ["a", "b"])


def test_a_run_reads_and_keeps_several_references(settings, tmp_path, caplog):
    references = []
    for split, number, seed in (("validation", 5, 1), ("test", 7, 2)):
        rows = tiny.rows(number, seed)
        # a row may have none, and blank ones are not scored
        texts = [[row["summary"], "They closed it.", " "] for row in rows[1:]]
        several = zip(rows, [[], *texts], strict=True)
        tiny.write_rows(tmp_path / f"{split}.jsonl", [row | {"references": each} for row, each in several])
        references = [[rows[0]["summary"]], *([first, second] for first, second, _ in texts)]
    path = settings(do_eval=True, do_predict=True, lead_sentences=1, several_references="pooled", max_steps=1)
    metrics = main([path])
    rows = read_rows(tmp_path / "out/predictions.jsonl")
    assert [row["references"] for row in rows] == references
    expected = rouge_means([row["prediction"] for row in rows], references, several="pooled", rouge_mode="rouge_score")
    assert {name: metrics[f"predict_{name}"] for name in expected} == pytest.approx(expected)
    baseline = rouge_means(
        [lead(row["document"], 1) for row in tiny.rows(7, 2)], references, several="pooled", rouge_mode="rouge_score"
    )
    assert {name: metrics[f"predict_lead1_{name}"] for name in baseline} == pytest.approx(baseline)
    assert (metrics["eval_references"], metrics["predict_references"]) == (1.8, 1.86)
    assert "test: summaries are scored against all texts in the column 'references'" in caplog.text
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "Test documents have 1.86 references on average; scores pool the matches with all." in card


def test_validation_and_prediction_score_the_same_restored_summaries(settings, tmp_path):
    rows = [row | {"summary": "It was on Monday."} for row in tiny.rows(12)]
    processor = fit_processor([row["document"] for row in rows], vocab_size=300, lowercase=True, tags="none")
    processor.save_pretrained(tmp_path / "uncased")
    words = {"tokenizer_name": str(tmp_path / "uncased"), "restore_case": True}
    corpus = tiny.write_rows(tmp_path / "same.jsonl", rows)
    files = {"train_file": corpus, "validation_file": corpus, "test_file": corpus}
    training = {"max_steps": 20, "learning_rate": 0.05}
    # chrF distinguishes capital letters, and reads no documents
    metrics = main([settings(**words, **files, **training, do_eval=True, do_predict=True, metrics=["chrf"])])
    predictions = [row["prediction"] for row in read_rows(tmp_path / "out/predictions.jsonl")]
    assert {prediction[:2] for prediction in predictions} == {"It"}
    expected = rounded(chrf(predictions, [row["summary"] for row in rows]))["chrf"]
    assert (metrics["eval_chrf"], metrics["predict_chrf"]) == (expected, expected)
    assert metrics["predict_chrf_low"] == pytest.approx(expected)
