"""Documents unlike those that a model was trained on: how they are found, and how the pipeline warns of them."""

import logging

import pytest
from transformers import pipeline

from hf_summ.models.text_documents import checked_ranges, difference, measured
from tests.conftest import SENTENCES, save
from tests.data.files import change_json
from tests.models.architectures import DRGD, build_with_processor

RANGES = {"tokens_per_character": [0.5, 0.65], "characters": [40, 200]}
GERMAN = "Die Bürgermeisterin eröffnete am Montag die neue Brücke über den Fluss."
# by name, what a model of English sentences is not made for
UNLIKE = {
    "German": (GERMAN, "0.986 tokens per character (training: 0.5 to 0.65)"),
    "Chinese": ("市长星期一为河上的新桥剪彩，造桥用了三年。" * 3, "3.03 tokens per character (training: 0.5 to 0.65)"),
    "no letters": ("12.5 7 3.14 -- 9 (4) 2020/11/23 = 18 %\n" * 4, "1.01 tokens per character (training: 0.5 to 0.65)"),
    "100,000 words": (" ".join(SENTENCES * 1700), "555,899 characters (training: 40 to 200)"),
    "short": ("The mayor opened the bridge.", "28 characters (training: 40 to 200)"),
}


@pytest.fixture
def folder(tiny_tokenizer, tmp_path):
    """A checkpoint whose config has the ranges."""
    model, processor = build_with_processor(DRGD, tiny_tokenizer)
    model.config.source_ranges = RANGES
    save(tmp_path, model, processor)
    return tmp_path


@pytest.fixture
def warnings(caplog):
    """Runs something, and returns the pipeline's warnings but those of cut documents."""

    def heard(run) -> list[str]:
        caplog.clear()
        logging.getLogger("transformers").addHandler(caplog.handler)
        run()
        logging.getLogger("transformers").removeHandler(caplog.handler)
        found = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        return [text for text in found if "tokens, but the model reads" not in text and "were truncated" not in text]

    return heard


def test_ranges_include_their_ends():
    assert measured(["ab", "cd e"], 3) == {"tokens_per_character": 0.5, "characters": 6}
    ranges = {"characters": [2, 4], "tokens_per_character": [0.25, 1]}
    for characters in range(1, 7):
        for tokens in range(1, 8):
            is_like = 2 <= characters <= 4 and 0.25 <= tokens / characters <= 1
            assert (difference("x" * characters, tokens, ranges) is None) == is_like
    assert difference("x" * 5000, 5000, {"characters": [1, 1234]}) == "5,000 characters (training: 1 to 1,234)"
    assert difference("x", 1, {}) is None


@pytest.mark.thorough
@pytest.mark.parametrize("ranges", [3, [1, 2], {"words": [1, 2]}, {"characters": [1]}, {"characters": ["1", None]}])
def test_ranges_that_cannot_be_read_are_named(folder, ranges):
    with pytest.raises(ValueError, match=r"^`source_ranges` is .*, but must be two numbers for each of tokens_per"):
        checked_ranges(ranges)
    change_json(folder / "config.json", source_ranges=ranges)
    with pytest.raises(ValueError, match="`source_ranges` is "):
        pipeline("summarization", model=str(folder))


@pytest.mark.thorough
@pytest.mark.parametrize("name", UNLIKE)
def test_a_document_unlike_those_of_the_training_is_warned_of(folder, warnings, name):
    document, reason = UNLIKE[name]
    summarizer = pipeline("summarization", model=str(folder))
    (warning,) = warnings(lambda: summarizer(document, max_new_tokens=2))
    assert warning.startswith("the document differs from the training data: it has ")
    assert warning.endswith(reason)
    (record,) = summarizer(document, max_new_tokens=2, return_details=True)
    assert warning.endswith(record["details"]["unlike"])


def test_one_warning_a_call_counts_them(folder, warnings):
    summarizer = pipeline("summarization", model=str(folder))
    assert warnings(lambda: summarizer(SENTENCES, max_new_tokens=2)) == []
    assert "unlike" not in summarizer(SENTENCES[0], max_new_tokens=2, return_details=True)[0]["details"]
    documents = [*SENTENCES, GERMAN, "Short.", " "]
    told = [
        "1 of 8 documents are blank, and so are their summaries",
        "2 of 8 documents differ from the training data: the first has " + UNLIKE["German"][1],
    ]
    assert warnings(lambda: summarizer(documents, max_new_tokens=2)) == told
    assert warnings(lambda: list(summarizer(iter(documents), batch_size=3, max_new_tokens=2))) == told
    # of what is shortened, the whole counts
    long = " ".join(SENTENCES * 9)
    (warning,) = warnings(lambda: summarizer(long, long_documents="extract", max_new_tokens=2))
    assert warning.endswith(f"{len(long):,} characters (training: 40 to 200)")


def test_a_checkpoint_without_ranges_warns_of_nothing(tiny_tokenizer, warnings):
    model, processor = build_with_processor(DRGD, tiny_tokenizer)
    summarizer = pipeline("summarization", model=model, processor=processor, tokenizer=processor.tokenizer)
    assert warnings(lambda: summarizer([GERMAN, "Short."], max_new_tokens=2)) == []
