"""BLEU and chrF against sacrebleu, and by hand or their definitions."""

import sys

import numpy as np
import pytest
import sacrebleu
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from hf_summ.evaluation import bleu, chrf
from hf_summ.evaluation.bleu import TITLES

PREDICTIONS = ["The mayor opened a bridge.", "It cost 12 million in all.", "a", "", "Rain fell all day, they say."]
REFERENCES = [
    ["The mayor opened the bridge.", "A bridge was opened."],
    ["It cost 12 million."],
    ["ab", "a b"],
    ["Something"],
    ["", "It rained."],
]
WORDS = "the mayor opened a bridge , and it cost 12 million".split()


def made_texts(number, seed, lengths=(1, 12)):
    generator = np.random.default_rng(seed)
    return [" ".join(generator.choice(WORDS, generator.integers(*lengths))).capitalize() for _ in range(number)]


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("references", [1, 3])
def test_score_and_signature_are_sacrebleus(language, references, caplog):
    predictions = made_texts(40, 0)
    columns = [made_texts(40, seed) for seed in range(1, references + 1)]
    rows = columns[0] if references == 1 else [list(row) for row in zip(*columns, strict=True)]
    metric = BLEU(tokenize="zh" if language == "zh" else "13a")
    expected = metric.corpus_score(predictions, columns)
    caplog.set_level("INFO", "hf_summ")
    scores = bleu(predictions, rows, language)
    assert f"bleu_signature: {metric.get_signature()}" in caplog.text
    assert tuple(scores) == tuple(TITLES)
    values = [scored.value() for scored in scores.values()]
    expected_values = [expected.score] + expected.precisions + [expected.bp]
    assert values == pytest.approx(expected_values, abs=1e-9)


def test_rows_may_have_different_numbers_of_references(caplog):
    predictions = ["The mayor opened a bridge"] * 2
    rows = [["The mayor opened it", "A bridge"], ["A bridge of the mayor"]]
    columns = [["The mayor opened it", "A bridge of the mayor"], ["A bridge", None]]
    caplog.set_level("INFO", "hf_summ")
    expected = sacrebleu.corpus_bleu(predictions, columns)
    assert bleu(predictions, rows)["bleu"].value() == pytest.approx(expected.score, abs=1e-9)
    assert "bleu_signature: nrefs:var|" in caplog.text


CASES_OF_ORDERS_WITHOUT_A_MATCH = [
    ("mayor the bridge a", "the mayor opened a bridge"),
    ("a bridge", "a bridge of it"),
    ("it the mayor opened", "the mayor opened a bridge"),
    ("nothing", "the mayor"),
    ("", "the mayor"),
]


@pytest.mark.parametrize(("prediction", "reference"), CASES_OF_ORDERS_WITHOUT_A_MATCH)
def test_orders_without_a_match_are_smoothed_as_sacrebleu_does(prediction, reference):
    score = sacrebleu.corpus_bleu([prediction], [[reference]]).score
    assert bleu([prediction], [reference])["bleu"].rows()[0] == pytest.approx(score, abs=1e-9)


def test_many_sums_at_once_are_each_scored():
    scored = bleu(made_texts(12, 0), made_texts(12, 1))["bleu"]
    groups = scored.statistics.reshape(2, 3, 2, 10).sum(2)
    scores = scored.measure(groups)
    assert scores.shape == (2, 3)
    assert scores[1, 2] == pytest.approx(scored.measure(groups[1, 2]))


CASES_OF_TOKENIZERS = [("zh-TW", "zh"), ("ZH_cn", "zh"), ("cmn", "zh"), ("de", "13a")]


@pytest.mark.parametrize(("language", "tokenizer"), CASES_OF_TOKENIZERS)
def test_languages_have_the_tokenizers_that_sacrebleu_gives_them(language, tokenizer, caplog):
    caplog.set_level("INFO", "hf_summ")
    bleu(["市长打开了新桥。"], ["市长打开了桥。"], language)
    assert f"tok:{tokenizer}|" in caplog.text


@pytest.mark.parametrize(
    ("predictions", "references", "message"),
    [(["a"], [[]], "row 0 has no reference"), (["a", "b"], ["", [" "]], "all references are blank")],
)
def test_what_cannot_be_scored_is_an_error(predictions, references, message):
    with pytest.raises(ValueError, match=message):
        bleu(predictions, references)


@pytest.mark.parametrize(("measure", "name"), [(bleu, "BLEU"), (chrf, "chrF")])
def test_without_sacrebleu_the_extra_is_named(monkeypatch, measure, name):
    monkeypatch.setitem(sys.modules, f"sacrebleu.metrics.{name.lower()}", None)
    with pytest.raises(ImportError, match=rf"{name} needs sacrebleu: pip install 'hf-summ\[bleu\]'"):
        measure(["a"], ["a"])


def test_tokenizer_that_is_not_installed_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "MeCab", None)
    with pytest.raises(ImportError, match="sacrebleu's tokenizer 'ja-mecab' cannot be used: Japanese tokenization"):
        bleu(["橋"], ["橋"], "ja")


def test_chrf_is_sacrebleus():
    first_references = [row[0] for row in REFERENCES]
    second_references = []
    for row in REFERENCES:
        if len(row) == 2:
            second_references.append(row[1])
        else:
            second_references.append(None)
    streams = [first_references, second_references]
    scored = chrf(PREDICTIONS, REFERENCES)["chrf"]
    assert scored.value() == pytest.approx(CHRF().corpus_score(PREDICTIONS, streams).score, abs=1e-9)
    # sacrebleu's sentence score leaves out no blank reference either
    expected = [CHRF().sentence_score(text, row).score for text, row in zip(PREDICTIONS, REFERENCES, strict=True)]
    assert scored.rows() == pytest.approx(expected)
