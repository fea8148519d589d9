"""Sentences, words, tags and washing of texts; processors and vocabularies."""

from hypothesis import strategies as st

from hf_summ.data import fit_vocabulary, split_sentences
from hf_summ.evaluation.text_files import tag_pattern, without_tags
from hf_summ.evaluation.words import check_units, split_words, split_words_and_marks
from hf_summ.models.text_documents import readable, washed
from tests.doors import models
from tests.doors import strategies as our
from tests.doors.outcomes import door, tried, without_space

_TEXT = our.mostly(our.texts, our.not_texts)
_CALLS = our.choices(
    """truncation=true|false|null|"longest_first"|3 max_length=2|5|50|1|0|-3|1e30|2.5|"7"|true return_lengths=true
    padding=true|false|"longest"|"max_length"|"most"|null|3 max_target_length=2|5|0|-3 return_tensors=null|"pt"|"np"|"x"
    pad_to_multiple_of=null|8|1|0|-8|2.5 phrases=["bridge"]|{"bridge":2}|[{"a":1},null]|{"a":NaN}|3"""
)


@door(text=_TEXT, code=our.languages)
def test_sentences(text, code):
    sentences = tried(lambda: split_sentences(text, code))
    assert without_space("".join(sentences)) == without_space(text)
    end = 0
    for sentence in sentences:
        assert sentence
        assert sentence == sentence.strip()
        end = text.index(sentence, end) + len(sentence)


@door(text=_TEXT, code=our.languages, units=our.one_of("words", "lcsts"), marks=st.booleans())
def test_words(text, code, units, marks):
    def split():
        check_units(units, code)
        return split_words_and_marks(text, code) if marks else split_words(text, code, units)

    assert all(word.strip() for word in tried(split))


@door(text=_TEXT, separator=st.sampled_from((None, "|||", "<q>", " ", "", ".*", "\n", "(")))
def test_tags_and_washing(text, separator):
    for found in tried(lambda: (readable(without_tags(text, tag_pattern(separator))), washed(readable(text), "lcsts"))):
        assert isinstance(found.encode("utf-8"), bytes)


@door(
    model_type=models.types,
    text=our.texts | our.text_lists() | st.lists(our.text_lists(most=40), max_size=3) | our.junk,
    target=our.mostly(st.just({}), st.fixed_dictionaries({"text_target": our.texts | our.text_lists()})),
    settings=our.few(_CALLS),
)
def test_processors(model_type, text, target, settings):
    processor = models.model(model_type)[1]
    if model_type != "highlight_transformer":
        settings.pop("phrases", None)
    ids = tried(lambda: processor(text, **target, **settings))["input_ids"]
    rows = ids if isinstance(ids, list) else ids.tolist()
    rows = [rows] if isinstance(rows[0], int) else rows
    assert len(rows) == (len(text) if isinstance(text, list | tuple) else 1)
    if settings.get("truncation", True) and not settings.get("pad_to_multiple_of"):
        assert max(map(len, rows)) <= (settings.get("max_length") or processor.max_source_length)
    assert all(0 <= token < len(processor.tokenizer) for row in rows for token in row)
    # this one has marks between sentences instead
    assert model_type == "copy_transformer" or all(processor.eos_token_id in row for row in rows)
    texts = processor.batch_decode(rows, skip_special_tokens=True)
    assert [type(one) for one in texts] == [str] * len(rows)


@door(data=st.data(), model_type=models.types)
def test_settings_of_processors(data, model_type):
    made, processor = models.ARCHITECTURES[model_type], models.model(model_type)[1]
    names = processor.to_dict().keys() - {"processor_class", "tokenizer", "auto_map", "tags"}
    changed = data.draw(our.few(dict.fromkeys(sorted(names), our.junk), 2))
    settings = {**made.processor_settings, **({"tags": "none"} if model_type == "gdlf" else {}), **changed}
    features = tried(lambda: made.processor_class(models.tokenizer(), **settings)("A bridge.", "A."))
    assert all(isinstance(token, int) for token in features["input_ids"])


@door(
    texts=our.text_lists(most=8) | our.texts,
    size=st.sampled_from((300, 400, 1000, 6, 7, 262, 261, 0, -1, 10**9, 2.5)),
    units=our.one_of("subwords", "words", "ideographs", "characters"),
    settings=our.few(our.choices("lowercase=true min_frequency=2|1|0|-1|1000000000|1.5 digits_as_hash=true"), 2),
)
def test_vocabularies(texts, size, units, settings):
    tokenizer = tried(lambda: fit_vocabulary(texts, size, units=units, show_progress=False, **settings))
    assert len(tokenizer) <= size
    # a text is not an iterable of texts
    assert not isinstance(texts, str)
    for text in texts:
        *_, last = ids = tokenizer(readable(text))["input_ids"]
        assert last == tokenizer.eos_token_id
        assert all(0 <= token < len(tokenizer) for token in ids)
        assert isinstance(tokenizer.decode(ids, skip_special_tokens=True).encode("utf-8"), bytes)
