"""Documents that are longer than a model reads."""

import itertools
import random

import pytest
from transformers import pipeline

from hf_summ.data import split_sentences
from hf_summ.runtimes.long_documents import SHORTENERS, ModelReader, details_of
from hf_summ.shortening import extract, partition, split_windows, windows
from tests.conftest import SENTENCES
from tests.extractive.summaries import stage_extracts


def text_of(sentences: int, seed: int = 0) -> str:
    """A document of this number of sentences."""
    generator = random.Random(seed)
    return " ".join(generator.choice(SENTENCES) for _ in range(sentences))


def reader_of(summarizer) -> ModelReader:
    """A reader with the summarizer's limit, by which a summary is the first nine characters of a text."""
    return ModelReader(summarizer, summarizer.source_limit, lambda texts: [text[:9] for text in texts])


def naive_partition(costs: list[int], most: int) -> tuple[int, int]:
    """The number of runs of the best of all partitions, and the cost of its most costly run."""
    best = (len(costs) + 1, 0)
    for number_of_cuts in range(len(costs)):
        for cuts in itertools.combinations(range(1, len(costs)), number_of_cuts):
            bounds = [0, *cuts, len(costs)]
            runs = [costs[start:end] for start, end in itertools.pairwise(bounds)]
            is_allowed = all(sum(run) <= most or len(run) == 1 for run in runs)
            if is_allowed:
                highest = max(sum(run) for run in runs)
                best = min(best, (len(runs), highest))
    return best


@pytest.mark.parametrize("seed", range(30))
def test_partitions_are_the_best_there_are(seed):
    generator = random.Random(seed)
    costs = [generator.randint(1, 12) for _ in range(generator.randint(1, 9))]
    # for every third seed, an item may cost more than a run may
    least = max(costs) if seed % 3 else 1
    most = generator.randint(least, 30)
    indices = []
    costs_of_runs = []
    for start, end in partition(costs, most):
        indices.extend(range(start, end))
        costs_of_runs.append(sum(costs[start:end]))
    assert indices == list(range(len(costs)))
    assert (len(costs_of_runs), max(costs_of_runs)) == naive_partition(costs, most)


def test_windows_end_with_sentences_and_fit(summarizer):
    text, reader = text_of(30), reader_of(summarizer)
    places = split_windows(text, reader, "en")
    assert len(places) > 3
    sentences = []
    lengths = []
    for start, end in places:
        window = text[start:end]
        sentences.extend(split_sentences(window))
        lengths.append(reader.length(window))
    assert sentences == split_sentences(text)
    assert max(lengths) <= 100
    assert max(lengths) - min(lengths) <= 2 * max(reader.count(sentences))
    assert partition([], 3) == []
    assert split_windows("", reader, "en") == []


CASES_OF_LONG_SENTENCES = ["word " * 300, "w" * 600, "高" * 300, "🙂" * 150]


@pytest.mark.parametrize("sentence", CASES_OF_LONG_SENTENCES, ids=["words", "one", "zh", "faces"])
def test_a_sentence_that_is_longer_than_a_window_is_cut(summarizer, sentence):
    text, reader = f"{SENTENCES[0]} {sentence} {SENTENCES[1]}", reader_of(summarizer)
    windows_of_text = [text[start:end] for start, end in split_windows(text, reader, "en")]
    assert "".join(windows_of_text).replace(" ", "") == text.replace(" ", "")
    for window in windows_of_text:
        assert reader.length(window) <= 101


def test_characters_of_tokens(summarizer):
    text, reader = text_of(8), reader_of(summarizer)
    counts = [reader.count([text[:end]])[0] for end in range(len(text) + 1)]
    for tokens in (1, 2, 7, 30, counts[-1], counts[-1] + 5):
        end = reader.end_of(text, tokens)
        assert counts[end] <= tokens
        if end < len(text):
            assert counts[end + 1] > tokens


def test_what_fits_is_left_alone(summarizer):
    text = SENTENCES[0]
    plain = summarizer(text)
    details = {"source_tokens": reader_of(summarizer).length(text), "cut_tokens": 0, "read": [[0, len(text)]]}
    for way in ("truncate", *SHORTENERS):
        (record,) = summarizer(text, long_documents=way, return_details=True)
        details_of_record = record.pop("details")
        assert [record] == plain
        assert details_of_record.items() >= details.items()
        assert details_of_record["read_tokens"] == details["source_tokens"]


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
    kept = [sentences[place["index"]] for place in details["sentences"]]
    ranges = [[place["start"], place["end"]] for place in details["sentences"]]
    assert [text[start:end] for start, end in ranges] == kept
    assert details["read"] == ranges
    # the first three sentences are kept, as far as they fit
    assert details["sentences"][0]["index"] == 0
    shortened = " ".join(kept)
    assert reader_of(summarizer).length(shortened) == details["read_tokens"] <= 100
    assert summarizer(shortened)[0]["summary_text"] == record["summary_text"]
    assert caplog.text == ""


def truncated_details(summarizer, example, **settings) -> dict:
    """The details of an extract that is longer than the model's 100 tokens, with the texts of its ranges as `texts`."""
    extracting = pipeline("summarization", **components_of(summarizer), max_new_tokens=4, **settings)
    (record,) = extracting([example] if isinstance(example, list) else example, return_details=True)
    details = record["details"]
    assert details["read_tokens"] == 100
    if isinstance(example, str):
        example, details["read"] = [example], [details["read"]]
    texts = []
    for text, ranges in zip(example, details["read"], strict=True):
        texts.append([text[start:end] for start, end in ranges])
    return details | {"texts": texts}


def test_an_extract_that_is_too_long_is_read_to_its_hundredth_token(summarizer):
    # the extract has single spaces
    text = text_of(30).replace(" ", "   ")
    details = truncated_details(summarizer, text, extract_share=0.9)
    (texts,) = details["texts"]
    # a word that is cut may have other tokens than at its whole
    read = " ".join(" ".join(texts).split())
    assert 97 <= reader_of(summarizer).length(read) <= 100
    spans = [(place["start"], place["end"]) for place in details["sentences"]]
    assert len(spans) == len(texts) < 20
    # all but the last sentence are read whole
    (*whole_ranges, last_range) = details["read"][0]
    assert [tuple(span) for span in whole_ranges] == spans[:-1]
    assert last_range[0] == spans[-1][0]
    assert last_range[1] <= spans[-1][1]


def test_a_sentence_that_is_longer_than_the_model_reads_is_read_to_its_hundredth_token(summarizer):
    text = " ".join(f"bridge {number} of the river" for number in range(80))
    details = truncated_details(summarizer, text, long_documents="extract")
    (expected,) = summarizer(text, return_details=True)
    ((start, end),) = expected["details"]["read"]
    assert details["texts"] == [[text[start:end].rstrip()]]
    assert details["sentences"] == [{"index": 0, "start": 0, "end": len(text)}]


def test_several_documents_whose_extract_is_too_long(summarizer):
    example = [text_of(12, 1), "", text_of(9, 3)]
    details = truncated_details(summarizer, example, extract_share=0.9)
    read = [" ".join(texts) for texts in details["texts"]]
    assert 94 <= reader_of(summarizer).length(read) <= 100
    starts = [(place["document"], place["start"]) for place in details["sentences"]]
    read_starts = []
    for document, ranges in enumerate(details["read"]):
        read_starts.extend((document, start) for start, _ in ranges)
    assert starts == read_starts


@pytest.mark.thorough
def test_windows_are_summarized_and_then_their_summaries(summarizer, caplog):
    text = text_of(60)
    (record,) = summarizer(text, long_documents="windows", return_details=True)
    details, reader = record["details"], reader_of(summarizer)
    assert details["read"] == [[0, len(text)]]
    assert details["cut_tokens"] == 0
    places = split_windows(text, reader, "en")
    assert [(window["start"], window["end"]) for window in details["windows"]] == places
    windows_of_text = [text[start:end] for start, end in places]
    summaries = [summarizer(window)[0]["summary_text"] for window in windows_of_text]
    assert [window["summary_text"] for window in details["windows"]] == summaries
    assert [window["tokens"] for window in details["windows"]] == reader.count(windows_of_text)
    joined, rounds = " ".join(summaries), 1
    while reader.length(joined) > 100:
        parts = [joined[start:end] for start, end in split_windows(joined, reader, "en")]
        joined = " ".join(part_record["summary_text"] for part_record in summarizer(parts))
        rounds += 1
    assert details["rounds"] == rounds
    assert summarizer(joined)[0]["summary_text"] == record["summary_text"]
    assert "were truncated" not in caplog.text


def test_rounds_end_when_summaries_are_as_long_as_their_texts(summarizer):
    text, limit = text_of(12), summarizer.source_limit

    def lengthen(texts: list[str]) -> list[str]:
        return [part + " x" for part in texts]

    (reading,) = windows([text], ModelReader(summarizer, limit, lengthen), "en")
    assert (reading.example, reading.details) == (text, {})
    calls = []

    def halve_once(texts: list[str]) -> list[str]:
        """The first halves of the texts; in the second round, the texts as they are."""
        calls.append(texts)
        assert len(calls) <= 2
        if len(calls) == 1:
            return [part[: len(part) // 2] for part in texts]
        return texts

    (reading,) = windows([text], ModelReader(summarizer, limit, halve_once), "en")
    assert len(reading.example) < len(text) * 0.6
    assert reading.details["rounds"] == 1


def test_summaries_of_windows_may_be_truncated(summarizer):
    text = text_of(60)

    def halve_long(texts: list[str]) -> list[str]:
        """The first halves of the texts if these are the whole document."""
        if sum(map(len, texts)) > 0.9 * len(text):
            return [part[: len(part) // 2] for part in texts]
        return texts

    reader = ModelReader(summarizer, 100, halve_long)
    (reading,) = windows([text], reader, "en")
    assert reading.details["rounds"] == 1
    length = reader.length(reading.example)
    assert length > 100
    details = details_of(text, reader, length, None, reading)
    assert details["read"] == [[0, len(text)]]
    assert details["cut_tokens"] == details["source_tokens"] - details["read_tokens"] == length - 100


@pytest.mark.thorough
@pytest.mark.parametrize("way", ["truncate", "extract", "windows"])
def test_lists_streams_and_batches_agree(summarizer, way):
    texts = [text_of(number, number) for number in (1, 12, 3, 25)] + [""]
    settings = {"long_documents": way, "return_details": True}
    results = [summarizer(text, **settings) for text in texts]
    records = [record for (record,) in results]
    assert summarizer(texts, **settings) == records
    assert list(summarizer(iter(texts), batch_size=2, **settings)) == results
    assert summarizer(texts, batch_size=3, **settings) == records
    assert records[-1]["summary_text"] == ""
    pairs = summarizer(texts, num_return_sequences=2, num_beams=2, **settings)
    assert [len(pair) for pair in pairs] == [2] * 5


@pytest.mark.thorough
@pytest.mark.parametrize("blank", ["", " \t", "\u3000\n"])
def test_blank_documents_of_an_example_that_is_cut(summarizer, blank):
    first, second = text_of(12, 1), text_of(9, 3)
    (record,) = summarizer([[first, blank, second]], return_details=True)
    (record_without_blank,) = summarizer([[first, second]], return_details=True)
    ranges_of_first, ranges_of_blank, ranges_of_second = record["details"]["read"]
    assert [ranges_of_first, ranges_of_second] == record_without_blank["details"]["read"]
    # there may be none: a model that reads all documents as one text is full after the first
    for _, end in ranges_of_blank:
        assert end <= len(blank)


@pytest.mark.thorough
@pytest.mark.parametrize("way", ["truncate", "extract", "windows"])
def test_several_documents_of_an_example(summarizer, way):
    example = [text_of(12, 1), text_of(2, 2), text_of(9, 3)]
    (record,) = summarizer([example], long_documents=way, return_details=True)
    details = record["details"]
    assert len(details["read"]) == 3
    for text, ranges in zip(example, details["read"], strict=True):
        for start, end in ranges:
            assert 0 <= start < end <= len(text)
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
    settings = {"long_documents": "extract", "max_new_tokens": 4, "return_details": True}
    extracting = pipeline("summarization", **components_of(summarizer), **settings)
    text = text_of(20)
    assert "sentences" in extracting(text)[0]["details"]
    assert "windows" in extracting(text, long_documents="windows")[0]["details"]


def components_of(summarizer) -> dict:
    """The components of a pipeline, to build another one."""
    return {"model": summarizer.model, "tokenizer": summarizer.tokenizer, "processor": summarizer.processor}


def test_ways_that_there_are_not(summarizer):
    message = "`long_documents` is 'skip', but must be one of truncate, extract,"
    with pytest.raises(ValueError, match=message):
        summarizer("a text", long_documents="skip")
    with pytest.raises(ValueError, match=message):
        pipeline("summarization", model=summarizer.model, tokenizer=summarizer.tokenizer, long_documents="skip")
    with pytest.raises(ValueError, match="cannot be located in windows"):
        summarizer("a text", long_documents="windows", phrases={"a": 1.0})
    for way in ("extract", "windows"):
        # the language is checked for documents that fit, too
        for text in ("a text", text_of(20)):
            with pytest.raises(ValueError, match="`language` is 'Klingon'"):
                summarizer(text, long_documents=way, language="Klingon")
    with pytest.raises(TypeError, match="document 0 must be a string, but is int"):
        summarizer([3], long_documents="extract")


def numbered_sentences() -> list[str]:
    """Sentences of which every fifth has words that occur in others, and is chosen."""
    sentences = []
    for number in range(10, 70):
        words = f"odd{number}" if number % 5 else "is as usual"
        sentences.append(f"Number {number} {words}.")
    return sentences


NUMBERED = numbered_sentences()
TEXT = " ".join(NUMBERED)


def judge(pairs):
    """A model of next sentences, which gives a higher probability to sentences of `NUMBERED` that are nearer."""
    probabilities = []
    for first, second in pairs:
        distance = int(second.split()[1]) - int(first.split()[1])
        probabilities.append(max(0.9 - 0.1 * distance, 0.0))
    return probabilities


@pytest.mark.parametrize("kept", [{"share": 0.1}, {"tokens": 120}])
def test_the_stage_of_training_shortens_every_document(summarizer, kept):
    documents = [TEXT, " ".join(NUMBERED[:14]), " ".join(NUMBERED[22:])]
    reader = reader_of(summarizer)
    settings = {f"extract_{name}": value for name, value in kept.items()}
    stage_settings = dict(kept)
    if "tokens" in kept:
        stage_settings["counter"] = reader.count
    expected = stage_extracts(documents, **stage_settings, next_sentence_model=judge)
    readings = extract(documents, reader, "en", **settings, next_sentence_model=judge)
    assert [reading.example for reading in readings] == expected
    unchecked_readings = extract(documents, reader, "en", **settings)
    assert [reading.example for reading in unchecked_readings] != expected
    with pytest.raises(ValueError, match="`share` and `tokens` exclude each other"):
        extract(documents, reader, "en", extract_share=0.5, extract_tokens=9)


def test_what_fits_the_model_is_repaired_too(summarizer):
    (reading,) = extract([TEXT], reader_of(summarizer), "en", next_sentence_model=judge)
    (plain,) = extract([TEXT], reader_of(summarizer), "en")
    assert reading.example != plain.example
    assert reader_of(summarizer).length(reading.example) <= 100


def test_a_model_that_was_trained_behind_the_stage_says_so(summarizer, caplog):
    components = {**components_of(summarizer), "max_new_tokens": 4}
    (shortened,) = stage_extracts([TEXT], share=0.1, next_sentence_model=judge)
    (expected,) = pipeline("summarization", **components)(shortened)
    summarizer.model.config.extraction = {"extract_share": 0.1, "next_sentence_model": True}
    pipeline("summarization", **components)
    assert "whole documents: set `extract_share=0.1`, `next_sentence_model`" in caplog.text
    caplog.clear()
    settings = {"extract_share": 0.1, "next_sentence_model": judge, "return_details": True}
    shortening = pipeline("summarization", **components, **settings)
    assert "whole documents" not in caplog.text
    (record,) = shortening(TEXT)
    assert record["summary_text"] == expected["summary_text"]
    assert 0 < record["details"]["read_tokens"] < record["details"]["source_tokens"]
    with pytest.raises(ValueError, match="`extract_share` and `long_documents='windows'` exclude each other"):
        shortening(TEXT, long_documents="windows")
    shortening = pipeline("summarization", **components, extract_tokens=50)
    with pytest.raises(ValueError, match="`extract_tokens` and `long_documents='windows'` exclude each other"):
        shortening(TEXT, long_documents="windows")


def test_a_model_without_a_limit_reads_everything(summarizer):
    text = text_of(30)
    for shorten in SHORTENERS.values():
        (reading,) = shorten([text], ModelReader(summarizer, None, lambda texts: []), "en")
        assert (reading.example, reading.details) == (text, {})
