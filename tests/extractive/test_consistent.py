"""The consistent extractive stage and its repair pass against a reading of the thesis word by word."""

import time
from fractions import Fraction

import numpy as np
import pytest
import torch

from hf_summ.data import split_sentences
from hf_summ.evaluation.words import split_words
from hf_summ.extractive import DocumentFrequencies
from hf_summ.extractive.consistent import close_gaps, keep_sentences, keep_share
from tests.conftest import SENTENCES
from tests.extractive import naive
from tests.extractive.summaries import extract_indices, extracts, stage_extracts, stage_indices

DOCUMENT = " ".join(SENTENCES)
WORDS = [split_words(sentence) for sentence in SENTENCES]
UNCHECKED = "ignore:no `next_sentence_model` is given:UserWarning"


def drawn(rng: np.random.Generator, number: int) -> list[list[str]]:
    """Sentences of few words, so that many are equal, and some empty."""
    sentences = []
    for _ in range(number):
        sentences.append(rng.choice(list("abcdefgh"), rng.integers(0, 6)).tolist())
    return sentences


def follows(first: str, second: str) -> float:
    """A made-up probability that depends on the letters of both sentences."""
    first_sum = sum(ord(letter) for letter in first)
    second_sum = sum(ord(letter) for letter in second)
    return (7 * first_sum + 3 * second_sum) % 11 / 10


def judge_by_letters(pairs) -> list[float]:
    """A judge that accepts half of all pairs, with many ties; it is asked about none twice."""
    assert len(set(pairs)) == len(pairs)
    return [follows(first, second) for first, second in pairs]


def each_costs_one(sentences) -> list[int]:
    return [1] * len(sentences)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_kept_within_a_budget(seed):
    rng = np.random.default_rng(seed)
    words = drawn(rng, rng.integers(0, 12))
    costs = rng.integers(1, 9, len(words)).tolist()
    budget = int(rng.integers(1, 30))
    kept = keep_sentences(words, costs, budget)
    assert kept == naive.keep_sentences(words, costs, budget)
    assert sum(costs[index] for index in kept) <= budget or kept == [0]


@pytest.mark.parametrize("seed", range(20))
def test_what_is_kept_of_a_share(seed):
    rng = np.random.default_rng(seed)
    words = drawn(rng, rng.integers(0, 25))
    for percent in (1, 7, 29, 50, 57, 70, 100):
        assert keep_share(words, percent / 100) == naive.keep_share(words, Fraction(percent, 100))


def test_the_first_three_come_before_the_best():
    words = [["a"], ["a", "c"], ["a", "d"], ["a", "b"], ["flood", "flood"], ["a", "e"]]
    assert keep_sentences(words, [1] * 6, 4) == [0, 1, 2, 4]
    assert keep_sentences(words, [1] * 6, 2) == [0, 1]
    # The second does not fit, but those after it do.
    assert keep_sentences(words, [1, 9, 1, 1, 1, 1], 3) == [0, 2, 4]
    assert keep_sentences(words, [9, 1, 1, 1, 1, 1], 3) == [0]
    assert keep_sentences(words, [1] * 6, 99) == [0, 1, 2, 3, 4, 5]
    assert keep_sentences([], [], 3) == []
    assert keep_share(words, 0.01) == [0, 1, 2, 4]


@pytest.mark.parametrize("seed", range(10))
def test_whole_documents_agree_with_the_thesis(seed):
    rng = np.random.default_rng(seed)
    texts = []
    for number in (0, 1, 2, 3, 4, 9, 40):
        texts.append([" ".join(words) + "." for words in drawn(rng, number) if words])
    documents = ["\n".join(sentences) for sentences in texts]
    chosen = stage_indices(documents, 0.2, next_sentence_model=judge_by_letters)
    summaries = stage_extracts(documents, 0.2, next_sentence_model=judge_by_letters)
    for sentences, document, indices, summary in zip(texts, documents, chosen, summaries, strict=True):
        assert split_sentences(document) == sentences
        words = [sentence[:-1].split() for sentence in sentences]
        kept = naive.keep_share(words, Fraction(1, 5))
        assert indices == naive.close_gaps(sentences, kept, follows)
        assert summary == " ".join(sentences[index] for index in indices)


def test_documents_do_not_change_each_other(monkeypatch):
    documents = []
    for place in range(7):
        sentences = [f"{text} {text[place:]}." for text in SENTENCES * 3]
        documents.append("\n".join(sentences))
    together = stage_extracts(documents, 0.3, next_sentence_model=judge_by_letters)
    alone = []
    for document in documents:
        alone.extend(stage_extracts([document], 0.3, next_sentence_model=judge_by_letters))
    assert together == alone
    monkeypatch.setattr("hf_summ.extractive.consistent._DOCUMENTS_AT_ONCE", 3)
    assert together == stage_extracts(documents, 0.3, next_sentence_model=judge_by_letters)


@pytest.mark.filterwarnings(UNCHECKED)
def test_a_number_of_tokens_as_each_counter_has_them(tiny_tokenizer):
    def counter(sentences):
        return [len(tiny_tokenizer.tokenize(sentence)) for sentence in sentences]

    lengths = [len(words) for words in WORDS]
    assert stage_indices([DOCUMENT], tokens=sum(lengths[:3])) == [[0, 1, 2]]
    assert stage_indices([DOCUMENT], tokens=sum(lengths)) == [[0, 1, 2, 3, 4]]
    assert stage_indices([DOCUMENT], tokens=4, counter=each_costs_one) == [keep_sentences(WORDS, [1] * 5, 4)]
    costs = counter(SENTENCES)
    kept = stage_indices([DOCUMENT, ""], tokens=sum(costs) - 1, counter=counter)
    assert kept == [keep_sentences(WORDS, costs, sum(costs) - 1), []]
    assert len(kept[0]) == 4


@pytest.mark.filterwarnings(UNCHECKED)
def test_what_the_repair_puts_back_comes_on_top_of_the_budget():
    sentences = SENTENCES[:4] + ["Rain and rain and rain."]
    settings = {"tokens": 4, "counter": each_costs_one}
    assert stage_indices(["\n".join(sentences)], **settings) == [[0, 1, 2, 4]]

    def judge(pairs):
        return [float(sentences[3] in pair) for pair in pairs]

    kept = stage_indices(["\n".join(sentences)], next_sentence_model=judge, **settings)
    assert kept == [[0, 1, 2, 3, 4]]


@pytest.mark.filterwarnings(UNCHECKED)
def test_frequencies_of_a_corpus_change_the_choice(tmp_path):
    document = "One. Two. Three. The flood. The cat. The dog. The flood."
    # Without a corpus, words of two sentences weigh less than those of one.
    assert stage_indices([document], tokens=4, counter=each_costs_one) == [[0, 1, 2, 3]]
    table = DocumentFrequencies.fit(["the flood", "the flood", "the flood", "the cat", "a cat", "x"])
    table.save(tmp_path / "idf.json")
    for idf in (table, tmp_path / "idf.json", str(tmp_path / "idf.json")):
        assert stage_indices([document], tokens=4, counter=each_costs_one, idf=idf) == [[0, 1, 2, 5]]


@pytest.mark.filterwarnings(UNCHECKED)
def test_the_stage_is_a_method_of_extract():
    assert extracts([DOCUMENT], "consistent", share=0.2) == stage_extracts([DOCUMENT], 0.2)
    assert extracts([SENTENCES], "consistent", share=0.2) == stage_extracts(["\n\n".join(SENTENCES)], 0.2)
    assert extract_indices([DOCUMENT], "consistent", 4) == [keep_sentences(WORDS, [1] * 5, 4)]


def test_says_that_pairs_are_not_checked():
    with pytest.warns(UserWarning, match="no `next_sentence_model` is given, so the coherence"):
        assert stage_extracts(["One. Two. Three. Four."], 0.5) == ["One. Two. Three."]


CASES_OF_WRONG_SETTINGS = [
    ({"share": 0}, "`share` is 0, but must be above 0 and at most 1"),
    ({"share": 1.01}, "`share` is 1.01, but must be above 0 and at most 1"),
    ({"share": float("nan")}, "`share` is nan, but must be above 0"),
    ({"tokens": 0}, "`tokens` is 0, but must be at least 1"),
    ({"share": 0.5, "tokens": 9}, "`share` and `tokens` exclude each other: set only one"),
    ({}, "needs `share` or `tokens`"),
    ({"share": 0.5, "method": "lead"}, "`share` has an effect only if `method` is consistent, but `method` is lead"),
    ({"share": 0.5, "idf": "nowhere.json"}, "nowhere.json is not a file written by `hf-summ idf`"),
    ({"share": 0.5, "idf": DocumentFrequencies({}, 2, "de")}, "the document frequencies are for language 'de', but"),
]


@pytest.mark.filterwarnings(UNCHECKED)
@pytest.mark.parametrize(("settings", "message"), CASES_OF_WRONG_SETTINGS)
def test_errors(settings, message):
    with pytest.raises(ValueError, match=message):
        stage_extracts(["One. Two."], **settings)


CASES_OF_WRONG_TYPES = [
    ("One. Two.", {"share": 0.5}, "`documents` must be a list, but is str: 'One. Two.'"),
    (["One.", None], {"share": 0.5}, "`documents` must be strings, but row 1 is NoneType: None"),
    (["One."], {"tokens": 2.5}, "`tokens` must be an integer, but is float: 2.5"),
    (["One."], {"share": 0.5, "language": []}, "`language` must be a string, but is list"),
]


@pytest.mark.filterwarnings(UNCHECKED)
@pytest.mark.parametrize(("documents", "settings", "message"), CASES_OF_WRONG_TYPES)
def test_values_of_other_types(documents, settings, message):
    with pytest.raises(TypeError, match=message):
        stage_extracts(documents, **settings)


@pytest.mark.filterwarnings(UNCHECKED)
def test_documents_with_little_to_choose_from():
    documents = ["", " \n", "One.", "Just one", "你好世界。Hello there. Привет мир."]
    assert stage_extracts(documents, 0.5, language="zh") == ["", ""] + documents[2:]
    with pytest.warns(UserWarning, match="1 of 2 documents have no words and keep their first sentences: rows 1, cou"):
        assert stage_extracts(["One.", "你好。\n世界。\n下雨了。\n再见。"], 0.5) == ["One.", "你好。 世界。 下雨了。"]


@pytest.mark.thorough
@pytest.mark.filterwarnings(UNCHECKED)
def test_a_million_words_take_seconds():
    rng = np.random.default_rng(0)
    sentences = []
    for numbers in np.minimum(rng.zipf(1.3, (5000, 200)), 30_000):
        words = [f"w{number}" for number in numbers]
        sentences.append(" ".join(words) + ".")
    document = " ".join(sentences)
    start = time.process_time()
    kept = stage_indices([document], tokens=512)
    assert time.process_time() - start < 30
    assert kept == [[0, 1]]


def judge_of(table: dict[str, float], asked: list | None = None):
    """The probabilities of the table, and 0.9 of other pairs; notes what it is asked about."""

    def judge(pairs):
        if asked is not None:
            asked.append(list(pairs))
        return [table.get("".join(pair), 0.9) for pair in pairs]

    return judge


# the kept sentences of "abcde", probabilities of pairs other than 0.9, and what is kept after the repair
CASES_OF_GAPS = [
    # accepted pairs stay as they are
    ([0, 4], {}, [0, 4]),
    # nothing lies between a rejected pair
    ([0, 1], {"ab": 0.1}, [0, 1]),
    # the most probable of those that are accepted on both sides
    ([0, 4], {"ae": 0.1, "ac": 0.95}, [0, 2, 4]),
    ([0, 4], {"ae": 0.1, "ab": 0.99, "be": 0.5, "ac": 0.51, "ad": 0.6}, [0, 3, 4]),
    # the earlier of two that tie
    ([0, 4], {"ae": 0.5}, [0, 1, 4]),
    ([0, 4], {"ae": 0.1, "ab": 0.6, "be": 0.8, "ac": 0.8, "ce": 0.6, "ad": 0.2}, [0, 1, 4]),
    # none is accepted on both sides
    ([0, 3], {"ad": 0.1, "ab": 0.1, "cd": 0.1}, [0, 3]),
    # once: what is put back is not judged again
    ([0, 2, 4], {"ac": 0.1, "ce": 0.1, "ab": 0.51, "bc": 0.51}, [0, 1, 2, 3, 4]),
    ([0], {}, [0]),
    ([], {}, []),
]


@pytest.mark.parametrize(("kept", "table", "expected"), CASES_OF_GAPS)
def test_what_is_put_back(kept, table, expected):
    judge = judge_of(table)
    assert close_gaps(["abcde"], [kept], judge) == [expected]
    assert naive.close_gaps("abcde", kept, lambda first, second: judge([(first, second)])[0]) == expected


# what a judge gives for one pair, and the message
CASES_OF_WRONG_PROBABILITIES = [
    ([0.3, 0.7], r"must give 1 probabilities, one per pair, but gives list: \[0.3, 0.7\]"),
    (None, "but gives NoneType: None"),
    (torch.tensor(0.3), r"but gives Tensor: tensor\(0.3"),
    ([float("nan")], r"but gives list: \[nan\]"),
    ([1.5], r"gives list: \[1.5\]"),
    ([-0.5], r"gives list: \[-0.5\]"),
    (["0.3"], r"gives list: \['0.3'\]"),
    (np.zeros((1, 2)), "gives ndarray"),
]


@pytest.mark.parametrize(("given", "message"), CASES_OF_WRONG_PROBABILITIES)
def test_what_are_no_probabilities(given, message):
    with pytest.raises(ValueError, match=message):
        close_gaps([["a", "b", "c"]], [[0, 2]], lambda pairs: given)


@pytest.mark.parametrize("kind", [list, tuple, np.array, torch.tensor])
def test_probabilities_of_any_kind(kind):
    judge = judge_of({"ac": 0.25})
    assert close_gaps([["a", "b", "c"]], [[0, 2]], lambda pairs: kind(judge(pairs))) == [[0, 1, 2]]


def test_documents_are_judged_together_and_no_pair_twice():
    asked: list = []
    judge = judge_of({"ad": 0.1}, asked)
    kept = close_gaps(["abcd", "abcd", "axd", ""], [[0, 3], [0, 3], [0, 2], []], judge)
    assert kept == [[0, 1, 3], [0, 1, 3], [0, 1, 2], []]
    assert asked == [[("a", "d")], [("a", "b"), ("a", "c"), ("a", "x")], [("b", "d"), ("c", "d"), ("x", "d")]]
