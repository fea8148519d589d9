"""Word tags of the user's own, or of any tagger, in GDLF: aligned with the documents, in each place that reads them."""

import json
import time

import pytest
import spacy
from spacy.training import Example
from transformers import AutoProcessor, pipeline

from hf_summ import GdlfConfig, GdlfForConditionalGeneration, GdlfProcessor
from hf_summ.models.text_processing_gdlf import load_tagger, tag_vocabulary_of, tag_words
from hf_summ.models.text_word_tags import align_tags, pairs_of_texts
from hf_summ.runtimes import examples
from hf_summ.training.rows.preparing import encode
from tests.conftest import SENTENCES, save

TEXT = 'The dog (a "good" dog) barks… and/or sleeps.'
PAIRS = [
    ("The", "DT"),
    ("dog", "NN"),
    ("-LRB-", "-LRB-"),
    ("a", "DT"),
    ("``", "``"),
    ("good", "JJ"),
    ("''", "''"),
    ("dog", "NN"),
    ("-RRB-", "-RRB-"),
    ("barks", "VBZ"),
    ("...", ":"),
    ("and\\/or", "CC"),
    ("sleeps", "VBZ"),
    (".", "."),
]
# where each word starts and ends in the text
SPANS = [
    (0, 3),
    (4, 7),
    (8, 9),
    (9, 10),
    (11, 12),
    (12, 16),
    (16, 17),
    (18, 21),
    (21, 22),
    (23, 28),
    (28, 29),
    (30, 36),
    (37, 43),
    (43, 44),
]


def pairs_of_tagger(text):
    """The words of a text, each with the tag that spaCy gives it."""
    (words,) = tag_words([text], "en_core_web_sm", "pos")
    return [(text[start:end], tag) for start, end, tag in words]


@pytest.fixture
def processor(tiny_tokenizer):
    return GdlfProcessor(tiny_tokenizer, tagger=None)


def test_pairs_are_found_in_the_text():
    expected = [(start, end, tag) for (start, end), (_, tag) in zip(SPANS, PAIRS, strict=True)]
    assert align_tags(TEXT, PAIRS) == expected
    assert align_tags(" ", []) == []


# pairs for a document with "sum-" at the end of a line and "mary" on the next one, which is read as "summary"
@pytest.mark.parametrize(
    ("parts", "spans"), [(["sum-", "mary"], [(0, 3), (3, 7)]), (["sum", "-", "mary"], [(0, 3), (3, 3), (3, 7)])]
)
def test_pairs_of_the_parts_of_a_split_word_are_found(parts, spans):
    pairs = [(part, "NN") for part in parts]
    assert align_tags("summary", pairs) == [(start, end, "NN") for start, end in spans]
    for text in ("sum mary", "sum", "sam"):
        with pytest.raises(ValueError, match="where the document has"):
            align_tags(text, pairs)


CASES_OF_WRONG_PAIRS = [
    (PAIRS[:-1], r"has '' where the document has '\.': give a pair for each word"),
    ([*PAIRS, (".", ".")], r"has '\.' where the document has '': give a pair"),
    ([("The", "DT"), ("cat", "NN")], r"has 'cat' where the document has 'dog \(a"),
]


@pytest.mark.parametrize(("pairs", "message"), CASES_OF_WRONG_PAIRS)
def test_pairs_that_do_not_fit_are_named(pairs, message):
    with pytest.raises(ValueError, match=f"^`word_tags` {message}"):
        align_tags(TEXT, pairs)


def test_entries_of_examples_with_several_documents():
    short, long = [["a", "X"]], [["b", "Y"], ["c", "Z"]]
    assert pairs_of_texts(short) == pairs_of_texts([short]) == pairs_of_texts(json.dumps(short)) == [short]
    assert pairs_of_texts([short, [short, long]]) == [short, short, long]
    assert pairs_of_texts([json.dumps([short, []]), long]) == [short, [], long]
    for value, error in ((3, TypeError), ("DT NN", ValueError), (["DT"], ValueError)):
        with pytest.raises(error, match=r"^`word_tags` must be pairs of a word and its tag, but is "):
            pairs_of_texts(value)


def test_the_tagger_reads_long_stretches_without_spaces_in_linear_time():
    text = f"{SENTENCES[0]} {'(' * 10_000}"
    began = time.process_time()
    (words,) = tag_words([text], "en_core_web_sm", "pos")
    assert time.process_time() - began < 3
    (expected,) = tag_words([SENTENCES[0]], "en_core_web_sm", "pos")
    found_words = [text[start:end] for start, end, _ in words[: len(expected)]]
    assert found_words == [SENTENCES[0][start:end] for start, end, _ in expected]


def test_given_tags_are_as_good_as_the_taggers(tiny_tokenizer, processor):
    with_tagger = GdlfProcessor(tiny_tokenizer)
    pairs = [pairs_of_tagger(text) for text in SENTENCES]
    expected = with_tagger(SENTENCES)["tag_ids"]
    assert processor(SENTENCES, word_tags=pairs)["tag_ids"] == expected
    assert processor(SENTENCES[0], word_tags=pairs[0])["tag_ids"] == expected[0]
    assert processor([SENTENCES[:2]], word_tags=[pairs[:2]]).data == with_tagger([SENTENCES[:2]]).data
    by_text = dict(zip(SENTENCES, pairs, strict=True))
    called = GdlfProcessor(tiny_tokenizer, tagger=by_text.__getitem__)
    assert called(SENTENCES)["tag_ids"] == expected
    loaded = GdlfProcessor(tiny_tokenizer, tagger=load_tagger("en_core_web_sm", "pos"))
    assert loaded(SENTENCES)["tag_ids"] == expected


def test_taggers_that_are_no_names_are_not_saved(tiny_tokenizer, tmp_path):
    for tagger in (str.split, None, spacy.blank("en")):
        save(tmp_path, GdlfProcessor(tiny_tokenizer, tagger=tagger, tag_vocabulary=["X"]), GdlfConfig())
        loaded = AutoProcessor.from_pretrained(tmp_path)
        assert (loaded.tagger, loaded.word_tags) == (None, ["X"])
    with pytest.raises(ValueError, match=r"^the processor has no `tagger`: give `word_tags`"):
        loaded("a")
    assert loaded("a", word_tags=[("a", "X")])["tag_ids"] == [1 + 3, 0]
    config = GdlfConfig(tags="ner")
    loaded.align(config)
    assert (loaded.word_tags, config.tag_vocab_size) == (["X"], 5)
    with pytest.raises(ValueError, match=r"^`tagger` is a function: give its tags as `tag_vocabulary`$"):
        tag_vocabulary_of(str.split, "pos")
    with pytest.raises(ValueError, match=r"^a word has the tag 'Y', which is not in"):
        loaded("a", word_tags=[("a", "Y")])
    with pytest.raises(ValueError, match=r'^`word_tags` are given, but the processor has `tags="none"`'):
        GdlfProcessor(tiny_tokenizer, tags="none")("a", word_tags=[("a", "X")])


def test_pipes_may_have_any_name_and_universal_tags(tmp_path):
    tagger = spacy.blank("de")
    tagger.add_pipe("morphologizer", name="merkmale").add_label("POS=NOUN|Number=Sing")
    example = Example.from_dict(tagger.make_doc("Bonn"), {"pos": ["NOUN"], "morphs": ["Number=Sing"]})
    tagger.initialize(lambda: [example])
    tagger.add_pipe("entity_ruler", name="orte").add_patterns([{"label": "LOC", "pattern": "Bonn"}])
    tagger.add_pipe("sentencizer")
    tagger.to_disk(tmp_path)
    folder = str(tmp_path)
    assert load_tagger(folder, "pos").pipe_names == ["merkmale"]
    assert load_tagger(folder, "ner").pipe_names == ["orte"]
    assert tag_vocabulary_of(folder, "pos+ner") == ["NOUN", "LOC"]
    assert tag_vocabulary_of(folder, "ner") == ["LOC", "NONE"]
    (words,) = tag_words(["Bonn am Rhein"], folder, "ner")
    assert [tag for _, _, tag in words] == ["LOC", "NONE", "NONE"]
    spacy.blank("de").to_disk(tmp_path / "blank")
    with pytest.raises(ValueError, match=r'no pipe that assigns token.tag or token.pos, which `tags="pos"` needs'):
        load_tagger(str(tmp_path / "blank"), "pos")


def test_summaries_of_documents_with_tags(tiny_tokenizer):
    sizes = {"d_model": 16, "num_heads": 2, "ffn_dim": 16, "encoder_kernel_sizes": [3], "decoder_kernel_sizes": [3]}
    with_tagger = GdlfProcessor(tiny_tokenizer, max_source_length=40)
    config = GdlfConfig(encoder_layers=1, decoder_layers=1, **sizes)
    with_tagger.align(config)
    model = GdlfForConditionalGeneration(config).eval()
    tagless = GdlfProcessor(tiny_tokenizer, tagger=None, max_source_length=40)
    reference = pipeline("summarization", model=model, processor=with_tagger, max_new_tokens=8)
    summarizer = pipeline("summarization", model=model, processor=tagless, max_new_tokens=8)
    texts = [" ".join(SENTENCES), *SENTENCES]
    tags = [pairs_of_tagger(text) for text in texts]
    assert summarizer(texts, word_tags=tags) == reference(texts)
    assert summarizer(texts[1], word_tags=tags[1]) == reference(texts[1])
    assert summarizer([texts[1:3]], word_tags=[tags[1:3]]) == reference([texts[1:3]])
    # the kept sentences have the tags that they have in the whole document
    (record,) = summarizer(texts[0], word_tags=tags[0], long_documents="extract", return_details=True)
    pieces = [texts[0][start:end] for start, end in record["details"]["read"]]
    assert 0 < len(pieces) < len(SENTENCES)
    kept = " ".join(pieces)
    pairs = []
    for piece in pieces:
        pairs.extend(pairs_of_tagger(piece))
    assert record["summary_text"] == summarizer(kept, word_tags=pairs)[0]["summary_text"]
    with pytest.raises(ValueError, match=r"^`word_tags` cannot be located in windows"):
        summarizer(texts[0], word_tags=tags[0], long_documents="windows")
    with pytest.raises(ValueError, match=r"^`word_tags` must be a list, with an entry for each of 6 documents"):
        summarizer(texts, word_tags=tags[:2])
    with pytest.raises(ValueError, match=r"^the processor has no `tagger`"):
        summarizer(texts)
    model.config.tags = "none"
    tagless = pipeline("summarization", model=model, processor=GdlfProcessor(tiny_tokenizer, tags="none"))
    with pytest.raises(ValueError, match=r"^`word_tags` are given, but the model does not read word tags"):
        tagless(texts, word_tags=tags)


def test_prefixes_and_missing_documents_have_no_tags(tiny_tokenizer, processor):
    sizes = {"d_model": 16, "num_heads": 2, "ffn_dim": 16, "encoder_kernel_sizes": [3], "decoder_kernel_sizes": [3]}
    config = GdlfConfig(encoder_layers=1, decoder_layers=1, **sizes)
    processor.align(config)
    summarizer = pipeline("summarization", model=GdlfForConditionalGeneration(config), processor=processor)
    pairs = [pairs_of_tagger(text) for text in SENTENCES[:2]]
    alone = processor(SENTENCES[:2], word_tags=pairs)["tag_ids"]
    for prefix in ("tldr: ", "tldr:\n", " "):
        number = len(tiny_tokenizer(prefix.strip(), add_special_tokens=False)["input_ids"])
        expected = [0] * number + alone[0]
        rows = {"document": SENTENCES[:2], "summary": ["a", "b"], "word_tags": pairs, "prefix": [None, ""]}
        assert encode(rows, processor, (500, 20), prefix)["tag_ids"] == [expected, alone[1]]
        example = examples.Example(SENTENCES[0], {"word_tags": pairs[0]})
        assert summarizer.read(example, source_prefix=prefix).inputs["tag_ids"] == expected
    # whether a missing document has an empty list, None or no entry
    expected = summarizer.read(examples.Example(SENTENCES[:2], {"word_tags": pairs})).inputs
    for tags in ([pairs[0], [], pairs[1]], [pairs[0], None, pairs[1]], pairs):
        example = examples.Example([SENTENCES[0], None, SENTENCES[1]], {"word_tags": tags})
        assert summarizer.read(example).inputs == expected
    blank_first = examples.Example(["", SENTENCES[0]], {"word_tags": [[], pairs[0]]})
    assert summarizer.read(blank_first, source_prefix="tldr: ").inputs["tag_ids"][-len(alone[0]) :] == alone[0]
    with pytest.raises(ValueError, match=r"^2 documents but 1 `word_tags`: each document with words needs its own"):
        summarizer.read(examples.Example(SENTENCES[:2], {"word_tags": pairs[:1]}))
