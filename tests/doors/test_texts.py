"""Sentences, words, tags and washing of texts; processors and vocabularies."""

from hypothesis import strategies as st

from hf_summ.data import fit_vocabulary, split_sentences
from hf_summ.evaluation.text_files import tag_pattern, without_tags
from hf_summ.evaluation.words import check_units, split_words, split_words_and_marks
from hf_summ.models.text_documents import readable
from hf_summ.models.text_processing_recurrent import washed
from tests.doors import models, strategies
from tests.doors.outcomes import door, tried, without_space

_TEXT = strategies.mostly(strategies.texts, strategies.not_texts)
_CALLS = strategies.choices(
    """truncation=true|false|null|"longest_first"|3 max_length=2|5|50|1|0|-3|1e30|2.5|"7"|true return_lengths=true
    padding=true|false|"longest"|"max_length"|"most"|null|3 max_target_length=2|5|0|-3 return_tensors=null|"pt"|"np"|"x"
    pad_to_multiple_of=null|8|1|0|-8|2.5 phrases=["bridge"]|{"bridge":2}|[{"a":1},null]|{"a":NaN}|3"""
)


@door(text=_TEXT, code=strategies.languages)
def test_sentences(text, code):
    sentences = tried(lambda: split_sentences(text, code))
    assert without_space("".join(sentences)) == without_space(text)
    end = 0
    for sentence in sentences:
        assert sentence
        assert sentence == sentence.strip()
        end = text.index(sentence, end) + len(sentence)


@door(text=_TEXT, code=strategies.languages, units=strategies.one_of("words", "lcsts"), marks=st.booleans())
def test_words(text, code, units, marks):
    def split():
        check_units(units, code)
        return split_words_and_marks(text, code) if marks else split_words(text, code, units)

    assert all(word.strip() for word in tried(split))


@door(text=_TEXT, separator=st.sampled_from((None, "|||", "<q>", " ", "", ".*", "\n", "(")))
def test_tags_and_washing(text, separator):
    def changed_texts() -> tuple[str, str]:
        without_marks = readable(without_tags(text, tag_pattern(separator)))
        return without_marks, washed(readable(text), "lcsts")

    for changed_text in tried(changed_texts):
        assert isinstance(changed_text.encode("utf-8"), bytes)


@door(
    model_type=models.types,
    text=strategies.texts
    | strategies.text_lists()
    | st.lists(strategies.text_lists(most=40), max_size=3)
    | strategies.junk,
    target=strategies.mostly(
        st.just({}), st.fixed_dictionaries({"text_target": strategies.texts | strategies.text_lists()})
    ),
    settings=strategies.few(_CALLS),
)
def test_processors(model_type, text, target, settings):
    _, processor = models.model(model_type)
    if model_type != "highlight_transformer":
        settings.pop("phrases", None)
    ids = tried(lambda: processor(text, **target, **settings))["input_ids"]
    rows = ids if isinstance(ids, list) else ids.tolist()
    if isinstance(rows[0], int):
        rows = [rows]
    assert len(rows) == (len(text) if isinstance(text, list | tuple) else 1)
    is_truncated = settings.get("truncation", True) and not settings.get("pad_to_multiple_of")
    limit = settings.get("max_length") or processor.max_source_length
    for row in rows:
        if is_truncated:
            assert len(row) <= limit
        assert all(0 <= token < len(processor.tokenizer) for token in row)
        # the copy transformer has marks between sentences instead
        if model_type != "copy_transformer":
            assert processor.eos_token_id in row
    texts = processor.batch_decode(rows, skip_special_tokens=True)
    assert len(texts) == len(rows)
    assert all(type(decoded) is str for decoded in texts)


@door(data=st.data(), model_type=models.types)
def test_settings_of_processors(data, model_type):
    architecture = models.ARCHITECTURES[model_type]
    _, processor = models.model(model_type)
    names = processor.to_dict().keys() - {"processor_class", "tokenizer", "auto_map", "tags"}
    settings = dict(architecture.processor_settings)
    if model_type == "gdlf":
        settings["tags"] = "none"
    settings |= data.draw(strategies.few(dict.fromkeys(sorted(names), strategies.junk), 2))
    features = tried(lambda: architecture.processor_class(models.tokenizer(), **settings)("A bridge.", "A."))
    assert all(isinstance(token, int) for token in features["input_ids"])


@door(
    texts=strategies.text_lists(most=8) | strategies.texts,
    size=st.sampled_from((300, 400, 1000, 6, 7, 262, 261, 0, -1, 10**9, 2.5)),
    units=strategies.one_of("subwords", "words", "ideographs", "characters"),
    settings=strategies.few(
        strategies.choices("lowercase=true min_frequency=2|1|0|-1|1000000000|1.5 digits_as_hash=true"), 2
    ),
)
def test_vocabularies(texts, size, units, settings):
    tokenizer = tried(lambda: fit_vocabulary(texts, size, units=units, show_progress=False, **settings))
    assert len(tokenizer) <= size
    # a text is not an iterable of texts
    assert not isinstance(texts, str)
    for text in texts:
        ids = tokenizer(readable(text))["input_ids"]
        assert ids[-1] == tokenizer.eos_token_id
        assert all(0 <= token < len(tokenizer) for token in ids)
        assert isinstance(tokenizer.decode(ids, skip_special_tokens=True).encode("utf-8"), bytes)
