"""Documents that are longer than a model reads."""

import itertools
import random

import pytest
from transformers import pipeline

from hf_summ.data import split_sentences
from hf_summ.runtimes.long_documents import SHORTENERS, ModelReader
from hf_summ.shortening import extract, partition, split_windows, windows
from tests.conftest import SENTENCES
from tests.extractive.summaries import stage_extracts


def text_of(sentences: int, seed: int = 0) -> str:
    """A document of so many sentences."""
    generator = random.Random(seed)
    return " ".join(generator.choice(SENTENCES) for _ in range(sentences))


def reader_of(summarizer) -> ModelReader:
    return ModelReader(summarizer, summarizer.source_limit, lambda texts: [text[:9] for text in texts])


def naive_partition(costs: list[int], most: int) -> tuple[int, int]:
    """The number of runs, and the cost of the most costly one, of the best partition of all."""
    best = (len(costs) + 1, 0)
    for number in range(len(costs)):
        for cuts in itertools.combinations(range(1, len(costs)), number):
            bounds = [0, *cuts, len(costs)]
            runs = [costs[start:end] for start, end in itertools.pairwise(bounds)]
            if all(sum(run) <= most or len(run) == 1 for run in runs):
                best = min(best, (len(runs), max(map(sum, runs))))
    return best


@pytest.mark.parametrize("seed", range(30))
def test_partitions_are_the_best_there_are(seed):
    generator = random.Random(seed)
    costs = [generator.randint(1, 12) for _ in range(generator.randint(1, 9))]
    most = generator.randint(max(costs) if seed % 3 else 1, 30)
    runs = partition(costs, most)
    assert [index for start, end in runs for index in range(start, end)] == list(range(len(costs)))
    assert (len(runs), max(sum(costs[start:end]) for start, end in runs)) == naive_partition(costs, most)


def test_windows_end_with_sentences_and_fit(summarizer):
    text, reader = text_of(30), reader_of(summarizer)
    places = split_windows(text, reader, "en")
    assert len(places) > 3
    assert [sentence for start, end in places for sentence in split_sentences(text[start:end])] == split_sentences(text)
    lengths = [reader.length(text[start:end]) for start, end in places]
    assert max(lengths) <= 100
    assert max(lengths) - min(lengths) <= 2 * max(reader.count(split_sentences(text)))
    assert (partition([], 3), split_windows("", reader, "en")) == ([], [])


CASES_OF_LONG_SENTENCES = ["word " * 300, "w" * 600, "高" * 300, "🙂" * 150]


@pytest.mark.parametrize("sentence", CASES_OF_LONG_SENTENCES, ids=["words", "one", "zh", "faces"])
def test_a_sentence_that_is_longer_than_a_window_is_cut(summarizer, sentence):
    text, reader = f"{SENTENCES[0]} {sentence} {SENTENCES[1]}", reader_of(summarizer)
    places = split_windows(text, reader, "en")
    assert "".join(text[start:end] for start, end in places).replace(" ", "") == text.replace(" ", "")
    assert all(reader.length(text[start:end]) <= 101 for start, end in places)


def test_characters_of_tokens(summarizer):
    text, reader = text_of(8), reader_of(summarizer)
    counts = [reader.count([text[:end]])[0] for end in range(len(text) + 1)]
    for tokens in (1, 2, 7, 30, counts[-1], counts[-1] + 5):
        end = reader.end_of(text, tokens)
        assert counts[end] <= tokens
        assert end == len(text) or counts[end + 1] > tokens


def test_what_fits_is_left_alone(summarizer):
    text = SENTENCES[0]
    plain = summarizer(text)
    details = {"source_tokens": reader_of(summarizer).length(text), "cut_tokens": 0, "read": [[0, len(text)]]}
    for way in ("truncate", *SHORTENERS):
        (record,) = summarizer(text, long_documents=way, return_details=True)
        told = record.pop("details")
        assert [record] == plain
        assert told.items() >= details.items()
        assert told["read_tokens"] == details["source_tokens"]


def test_truncation_says_where_it_ends(summarizer, caplog):
    text = text_of(20)
    (record,) = summarizer(text, return_details=True)
    details = record["details"]
    ((start, end),) = details["read"]
    assert start == 0
    reader = reader_of(summarizer)
    assert details["source_tokens"] == reader.length(text)
    assert details["read_tokens"] == 100
    assert details["cut_tokens"] == details["source_tokens"] - 100
    # a word that is cut may have other tokens than at its whole
    assert 97 <= reader.length(text[:end]) <= 100
    assert "set `long_documents` to 'windows' to read all of it" in caplog.text


def test_extraction_reads_the_sentences_that_it_names(summarizer, caplog):
    text = text_of(20)
    (record,) = summarizer(text, long_documents="extract", return_details=True)
    details, sentences = record["details"], split_sentences(text)
    kept = details["sentences"]
    assert [text[place["start"] : place["end"]] for place in kept] == [sentences[place["index"]] for place in kept]
    assert details["read"] == [[place["start"], place["end"]] for place in kept]
    # the first three come first, as far as they fit
    assert kept[0]["index"] == 0
    extract = " ".join(sentences[place["index"]] for place in kept)
    assert reader_of(summarizer).length(extract) == details["read_tokens"] <= 100
    assert summarizer(extract)[0]["summary_text"] == record["summary_text"]
    assert caplog.text == ""


@pytest.mark.thorough
def test_windows_are_summarized_and_then_their_summaries(summarizer, caplog):
    text = text_of(60)
    (record,) = summarizer(text, long_documents="windows", return_details=True)
    details, reader = record["details"], reader_of(summarizer)
    assert details["read"] == [[0, len(text)]]
    assert details["cut_tokens"] == 0
    places = split_windows(text, reader, "en")
    assert [(window["start"], window["end"]) for window in details["windows"]] == places
    summaries = [summarizer(text[start:end])[0]["summary_text"] for start, end in places]
    assert [window["summary_text"] for window in details["windows"]] == summaries
    assert [window["tokens"] for window in details["windows"]] == reader.count(
        [text[slice(*place)] for place in places]
    )
    joined, rounds = " ".join(summaries), 1
    while reader.length(joined) > 100:
        parts = [joined[slice(*place)] for place in split_windows(joined, reader, "en")]
        joined, rounds = " ".join(record["summary_text"] for record in summarizer(parts)), rounds + 1
    assert details["rounds"] == rounds
    assert summarizer(joined)[0]["summary_text"] == record["summary_text"]
    assert "were truncated" not in caplog.text


def test_summaries_that_do_not_shorten_end_it(summarizer):
    text, limit = text_of(12), summarizer.source_limit
    (reading,) = windows([text], ModelReader(summarizer, limit, lambda texts: [part + " x" for part in texts]), "en")
    assert (reading.example, reading.details) == (text, {})
    # the second round's are as long as what they are of
    rounds = iter([lambda part: part[: len(part) // 2], lambda part: part])

    def summarize(texts: list[str]) -> list[str]:
        shorten = next(rounds)
        return [shorten(part) for part in texts]

    (reading,) = windows([text], ModelReader(summarizer, limit, summarize), "en")
    assert len(reading.example) < len(text) * 0.6
    assert reading.details["rounds"] == 1


@pytest.mark.thorough
@pytest.mark.parametrize("way", ["truncate", "extract", "windows"])
def test_lists_streams_and_batches_agree(summarizer, way):
    texts = [text_of(number, number) for number in (1, 12, 3, 25)] + [""]
    alone = [summarizer(text, long_documents=way, return_details=True) for text in texts]
    settings = {"long_documents": way, "return_details": True}
    assert summarizer(texts, **settings) == [records[0] for records in alone]
    assert list(summarizer(iter(texts), batch_size=2, **settings)) == alone
    assert summarizer(texts, batch_size=3, **settings) == [records[0] for records in alone]
    assert alone[-1][0]["summary_text"] == ""
    several = summarizer(texts, num_return_sequences=2, num_beams=2, **settings)
    assert [len(records) for records in several] == [2] * 5


@pytest.mark.thorough
@pytest.mark.parametrize("blank", ["", " \t", "\u3000\n"])
def test_blank_documents_of_an_example_that_is_cut(summarizer, blank):
    example = [text_of(12, 1), blank, text_of(9, 3)]
    (record,) = summarizer([example], return_details=True)
    (without,) = summarizer([example[::2]], return_details=True)
    first, second, third = record["details"]["read"]
    assert [first, third] == without["details"]["read"]
    # where all is one text, the first document fills the model
    assert all(end <= len(blank) for _, end in second)


@pytest.mark.thorough
@pytest.mark.parametrize("way", ["truncate", "extract", "windows"])
def test_several_documents_of_an_example(summarizer, way):
    example = [text_of(12, 1), text_of(2, 2), text_of(9, 3)]
    (record,) = summarizer([example], long_documents=way, return_details=True)
    details = record["details"]
    assert len(details["read"]) == 3
    for text, ranges in zip(example, details["read"], strict=True):
        assert all(0 <= start < end <= len(text) for start, end in ranges)
    if way == "extract":
        assert details["read_tokens"] <= 100
        for place in details["sentences"]:
            assert [place["start"], place["end"]] in details["read"][place["document"]]
    if way == "windows":
        assert {window["document"] for window in details["windows"]} == {0, 1, 2}
        assert details["cut_tokens"] == 0
    else:
        assert 0 < details["cut_tokens"] < details["source_tokens"]


@pytest.mark.thorough
def test_the_constructor_sets_what_a_call_leaves_open(summarizer):
    parts = {name: getattr(summarizer, name) for name in ("model", "tokenizer", "processor")}
    settings = {"long_documents": "extract", "max_new_tokens": 4, "return_details": True}
    made = pipeline("summarization", **parts, **settings)
    text = text_of(20)
    assert "sentences" in made(text)[0]["details"]
    assert "windows" in made(text, long_documents="windows")[0]["details"]


def test_ways_that_there_are_not(summarizer, monkeypatch):
    for make in (
        lambda: summarizer("a text", long_documents="skip"),
        lambda: pipeline(
            "summarization", model=summarizer.model, tokenizer=summarizer.tokenizer, long_documents="skip"
        ),
    ):
        with pytest.raises(ValueError, match="`long_documents` is 'skip', but must be one of truncate, extract,"):
            make()
    with pytest.raises(ValueError, match="cannot be located in windows"):
        summarizer("a text", long_documents="windows", phrases={"a": 1.0})
    for way in ("extract", "windows"):
        # also if this document would not need it
        for text in ("a text", text_of(20)):
            with pytest.raises(ValueError, match="`language` is 'Klingon'"):
                summarizer(text, long_documents=way, language="Klingon")
    with pytest.raises(TypeError, match="document 0 must be a string, but is int"):
        summarizer([3], long_documents="extract")


# every fifth one has words that others have too, and is chosen
NUMBERED = [f"Number {number} {f'odd{number}' if number % 5 else 'is as usual'}." for number in range(10, 70)]
TEXT = " ".join(NUMBERED)


def judge(pairs):
    """Accepts sentences of `NUMBERED` that are near each other, more so the nearer they are."""
    numbers = [[int(text.split()[1]) for text in pair] for pair in pairs]
    return [max(0.9 - 0.1 * (second - first), 0.0) for first, second in numbers]


@pytest.mark.parametrize("kept", [{"share": 0.1}, {"tokens": 120}])
def test_the_stage_of_training_shortens_every_document(summarizer, kept):
    documents = [TEXT, " ".join(NUMBERED[:14]), " ".join(NUMBERED[22:])]
    reader = reader_of(summarizer)
    counter = {"counter": reader.count} if "tokens" in kept else {}
    settings = {f"extract_{name}": value for name, value in kept.items()}
    readings = extract(documents, reader, "en", **settings, next_sentence_model=judge)
    wanted = stage_extracts(documents, **kept, **counter, next_sentence_model=judge)
    assert [reading.example for reading in readings] == wanted
    assert wanted != [reading.example for reading in extract(documents, reader, "en", **settings)]
    with pytest.raises(ValueError, match="`share` and `tokens` exclude each other"):
        extract(documents, reader, "en", extract_share=0.5, extract_tokens=9)


def test_what_fits_the_model_is_repaired_too(summarizer):
    (reading,) = extract([TEXT], reader_of(summarizer), "en", next_sentence_model=judge)
    (plain,) = extract([TEXT], reader_of(summarizer), "en")
    assert reading.example != plain.example
    assert reader_of(summarizer).length(reading.example) <= 100


def test_a_model_that_was_trained_behind_the_stage_says_so(summarizer, caplog):
    model = summarizer.model
    parts = {"model": model, "tokenizer": summarizer.tokenizer, "processor": summarizer.processor, "max_new_tokens": 4}
    (short,) = stage_extracts([TEXT], share=0.1, next_sentence_model=judge)
    (wanted,) = pipeline("summarization", **parts)(short)
    model.config.extraction = {"extract_share": 0.1, "next_sentence_model": True}
    pipeline("summarization", **parts)
    assert "whole ones: set `extract_share=0.1`, `next_sentence_model`" in caplog.text
    caplog.clear()
    shortening = pipeline("summarization", **parts, extract_share=0.1, next_sentence_model=judge, return_details=True)
    assert "whole ones" not in caplog.text
    (record,) = shortening(TEXT)
    assert record["summary_text"] == wanted["summary_text"]
    assert 0 < record["details"]["read_tokens"] < record["details"]["source_tokens"]
    with pytest.raises(ValueError, match="`extract_share` and `long_documents='windows'` exclude each other"):
        shortening(TEXT, long_documents="windows")


def test_a_model_without_a_limit_reads_everything(summarizer):
    text = text_of(30)
    for shorten in SHORTENERS.values():
        (reading,) = shorten([text], ModelReader(summarizer, None, lambda texts: []), "en")
        assert (reading.example, reading.details) == (text, {})
