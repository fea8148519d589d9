"""BLEU and chrF against sacrebleu, and by hand or their definitions."""

import sys

import numpy as np
import pytest
import sacrebleu
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from hf_summ.evaluation import bleu, bleu_statistics, chrf, chrf_statistics, corpus_bleu, corpus_chrf
from hf_summ.evaluation.bleu import TITLES, tokenizer_for

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


@pytest.mark.parametrize("settings", [{}, {"lowercase": True}, {"tokenize": "char"}, {"tokenize": "intl"}])
@pytest.mark.parametrize("references", [1, 3])
def test_score_and_signature_are_sacrebleus(settings, references):
    predictions = made_texts(40, 0)
    columns = [made_texts(40, seed) for seed in range(1, references + 1)]
    rows = columns[0] if references == 1 else [list(row) for row in zip(*columns, strict=True)]
    metric = BLEU(**settings)
    expected = metric.corpus_score(predictions, columns)
    found = bleu(predictions, rows, **settings)
    assert found.pop("bleu_signature") == str(metric.get_signature())
    assert tuple(found) == tuple(TITLES)
    assert list(found.values()) == pytest.approx([expected.score, *expected.precisions, expected.bp], abs=1e-4)
    sums = bleu_statistics(predictions, rows, **settings).sum(0)
    assert corpus_bleu(sums) == pytest.approx(expected.score, abs=1e-9)


def test_rows_may_have_different_numbers_of_references():
    predictions, rows = (
        ["The mayor opened a bridge"] * 2,
        [["The mayor opened it", "A bridge"], ["A bridge of the mayor"]],
    )
    found = bleu(predictions, rows)
    expected = sacrebleu.corpus_bleu(
        predictions, [["The mayor opened it", "A bridge of the mayor"], ["A bridge", None]]
    )
    assert found["bleu"] == pytest.approx(expected.score, abs=1e-4)
    assert found["bleu_signature"].startswith("nrefs:var|")


@pytest.mark.parametrize(
    ("prediction", "reference"),
    [
        ("mayor the bridge a", "the mayor opened a bridge"),
        ("a bridge", "a bridge of it"),
        ("it the mayor opened", "the mayor opened a bridge"),
        ("nothing", "the mayor"),
        ("", "the mayor"),
    ],
)
def test_orders_without_a_match_are_smoothed_as_sacrebleu_does(prediction, reference):
    score = sacrebleu.corpus_bleu([prediction], [[reference]]).score
    assert corpus_bleu(bleu_statistics([prediction], [reference]))[0] == pytest.approx(score, abs=1e-9)


def test_many_sums_at_once_are_each_scored():
    statistics = bleu_statistics(made_texts(12, 0), made_texts(12, 1))
    groups = statistics.reshape(2, 3, 2, 10).sum(2)
    scores = corpus_bleu(groups)
    assert scores.shape == (2, 3)
    assert scores[1, 2] == pytest.approx(corpus_bleu(groups[1, 2]))


def test_chinese_and_japanese_have_tokenizers_of_their_own():
    found = [tokenizer_for(language) for language in ("zh", "zh-TW", "ZH_cn", "ja", "ko", "de")]
    assert found == ["zh", "zh", "zh", "ja-mecab", "ko-mecab", "13a"]
    assert bleu(["市长打开了新桥。"], ["市长打开了桥。"], tokenize="zh")["bleu"] > 30


def test_tokenized_predictions_are_warned_of():
    texts = ["A bridge ."] * 100
    with pytest.warns(UserWarning, match=r"100 predictions end in ' \.', like tokenized text"):
        bleu_statistics(texts, texts)


@pytest.mark.parametrize(
    ("predictions", "references", "settings", "message"),
    [
        (["a"], [[]], {}, "row 0 has no reference"),
        (["a", "b"], ["", [" "]], {}, "all references are blank"),
        (["a"], ["a"], {"tokenize": "moses"}, "`tokenize` is 'moses', but must be one of 13a, char"),
    ],
)
def test_what_cannot_be_scored_is_an_error(predictions, references, settings, message):
    for function in (bleu, bleu_statistics):
        with pytest.raises(ValueError, match=message):
            function(predictions, references, **settings)


@pytest.mark.parametrize(("measure", "name"), [(bleu, "BLEU"), (chrf, "chrF")])
def test_without_sacrebleu_the_extra_is_named(monkeypatch, measure, name):
    monkeypatch.setitem(sys.modules, f"sacrebleu.metrics.{name.lower()}", None)
    with pytest.raises(ImportError, match=rf"{name} needs sacrebleu: pip install 'hf-summ\[bleu\]'"):
        measure(["a"], ["a"])


def test_tokenizer_that_is_not_installed_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "MeCab", None)
    with pytest.raises(ImportError, match="sacrebleu's tokenizer 'ja-mecab' cannot be used: Japanese tokenization"):
        bleu(["橋"], ["橋"], tokenize="ja-mecab")


def test_chrf_is_sacrebleus():
    streams = [[row[number] if number < len(row) else None for row in REFERENCES] for number in range(2)]
    expected = CHRF().corpus_score(PREDICTIONS, streams).score
    assert chrf(PREDICTIONS, REFERENCES) == {"chrf": pytest.approx(expected, abs=1e-4)}
    # sums of rows have the scores of their sentences
    statistics = chrf_statistics(PREDICTIONS, REFERENCES)
    assert statistics.shape == (5, 18)
    # sacrebleu's sentence score leaves out no blank reference either
    expected = [CHRF().sentence_score(text, row).score for text, row in zip(PREDICTIONS, REFERENCES, strict=True)]
    assert corpus_chrf(statistics) == pytest.approx(expected)
