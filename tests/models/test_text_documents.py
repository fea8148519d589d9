"""Several documents of one example in one row, for every architecture."""

import pytest
from transformers import AutoProcessor, pipeline

from hf_summ import DrgdProcessor
from hf_summ.data.vocabulary import fit_processor
from hf_summ.models.text_documents import FIRST_POINTER, join, shares, with_whole_words
from tests.conftest import SENTENCES, save
from tests.models.architectures import ARCHITECTURES, EACH, build_with_processor

EACH_ARCHITECTURE = pytest.mark.parametrize("architecture", EACH)


CASES_OF_SHARES = [
    ([100, 100], 50, [25, 25]),
    ([100, 100, 100], 50, [17, 17, 16]),
    # what the short ones leave, the long ones share
    ([3, 100, 5, 100], 50, [3, 21, 5, 21]),
    ([100, 20, 18], 50, [17, 17, 16]),
    ([100, 10, 16], 50, [24, 10, 16]),
    ([0, 9], 4, [0, 4]),
    ([4, 4, 4], 2, [1, 1, 0]),
    ([4], 0, [0]),
    ([], 9, []),
]


@pytest.mark.parametrize(("lengths", "total", "kept"), CASES_OF_SHARES)
def test_shares(lengths, total, kept):
    assert shares(lengths, total) == kept


# a text as pasted from a typeset page, and the text with whole words
SPLIT_WORDS = {
    "an un-\nknown word": "an unknown word",
    "an un- \r\n known word": "an unknown word",
    "die Bundes-\nregierung": "die Bundesregierung",
    # hyphens of compounds stay
    "state-of-the-\nart, end-\nto-end": "state-of-the-art, end-to-end",
    "an x-\nray of a CNN-\nbased net, 10-\nfold": "an x-ray of a CNN-based net, 10-fold",
    "Nord-\nSüd": "Nord-Süd",
    "open-\nsource code is open-source.": "open-source code is open-source.",
    # two words of the vocabulary, whose compound is none
    "deep-\nlearning of self-\nmade": "deep-learning of self-made",
    # parts before another word are no split words, and a blank line ends a paragraph
    "pre-\nand post-war": "pre-\nand post-war",
    "Vor-\nund Nachteile": "Vor-\nund Nachteile",
    "a list -\nand a dash": "a list -\nand a dash",
    "one-\n\ntwo": "one-\n\ntwo",
    "un- known": "un- known",
}


@pytest.mark.parametrize("text", SPLIT_WORDS)
def test_words_that_line_ends_split_are_joined(text):
    words = {"self", "made", "deep", "learning", "un", "known", "unknown"}
    assert with_whole_words(text, words.intersection) == SPLIT_WORDS[text]


@EACH_ARCHITECTURE
def test_a_document_is_read_with_whole_words(architecture, tiny_tokenizer):
    _, processor = build_with_processor(architecture, tiny_tokenizer)
    split, whole = processor(["the rivers car-\nry sand"]), processor(["the rivers carry sand"])
    assert split["input_ids"] == whole["input_ids"]


@pytest.mark.thorough
@pytest.mark.parametrize("total", range(60))
def test_nothing_is_left_and_no_document_has_more_than_a_longer_one_that_is_cut(total):
    lengths = [11, 0, 2, 30, 7, 9]
    kept = shares(lengths, total)
    assert sum(kept) == min(total, sum(lengths))
    assert all(number <= length for number, length in zip(kept, lengths, strict=True))
    cut = [number for number, length in zip(kept, lengths, strict=True) if number < length]
    assert max(kept) - min(cut, default=max(kept)) <= 1


def test_a_row_of_documents():
    row = join([[5, 6], [], [7, 8, 9]], None, [1], [2], 3)
    assert row.input_ids == [1, 5, 6, 3, 7, 8, 9, 2]
    assert (row.spans, row.document_lengths, row.full_length) == ([(1, 2), (3, 0), (4, 3)], [2, 0, 3], 8)
    cut = join([[5, 6], [], [7, 8, 9]], 6, [1], [2], 3)
    assert cut.input_ids == [1, 5, 6, 3, 7, 2]
    assert (cut.spans, cut.document_lengths, cut.full_length) == ([(1, 2), (3, 0), (4, 1)], [2, 0, 3], 8)
    # more documents than tokens leave out the last
    documents = [[number, number] for number in range(10, 50)]
    row = join(documents, 8, [], [2], 3)
    assert row.input_ids == [10, 3, 11, 3, 12, 3, 13, 2]
    assert [kept for _, kept in row.spans] == [1] * 4 + [0] * 36
    assert join([[4, 5], [6]], 1, [], [2], 3).input_ids == [2]


@EACH_ARCHITECTURE
def test_one_document_is_read_as_ever(architecture, tiny_tokenizer):
    processor = architecture.processor(tiny_tokenizer)
    for length in (None, 9):
        expected = processor(SENTENCES, max_length=length, return_lengths=True)
        assert processor([[sentence] for sentence in SENTENCES], max_length=length, return_lengths=True) == expected
        assert expected["kept_lengths"][0][0] <= expected["document_lengths"][0][0]
    assert processor([SENTENCES[0], SENTENCES[1]]) == processor([[SENTENCES[0]], [SENTENCES[1], " \n"]])


@EACH_ARCHITECTURE
def test_documents_have_separators_and_equal_shares(architecture, tiny_tokenizer):
    processor = architecture.processor(tiny_tokenizer)
    several = processor([SENTENCES[:3]], truncation=False, return_lengths=True)
    ids, separator = several["input_ids"][0], processor.separator_token_id
    documents = [processor(sentence)["input_ids"] for sentence in SENTENCES[:3]]
    special = len(documents[0]) - several["document_lengths"][0][0]
    assert special == 1
    assert several["kept_lengths"] == several["document_lengths"]
    # the documents without their special tokens, two separators, and the special tokens of the whole
    length = sum(len(document) for document in documents) - 3 * special + 2 + special
    assert several["lengths"] == [len(ids)] == [length]
    assert [ids.count(separator) - documents[0].count(separator)] == [2]
    cut = processor([SENTENCES[:3]], max_length=15, return_lengths=True, return_tensors="pt")
    assert cut["input_ids"].shape == (1, 15)
    assert cut["kept_lengths"] == [[4, 4, 4]]
    assert cut["document_lengths"] == several["document_lengths"]
    # every field is as long as the ids, unless it is of something else
    aligned = set(processor.model_input_names) - set(processor.unaligned_fields)
    assert {cut[name].shape for name in aligned} == {(1, 15)}


def test_tags_are_those_of_each_document(tiny_tokenizer):
    architecture = ARCHITECTURES[0]
    processor = architecture.processor(tiny_tokenizer)
    tags = processor([SENTENCES[:2]])["tag_ids"][0]
    first, second = processor(SENTENCES[0])["tag_ids"], processor(SENTENCES[1])["tag_ids"]
    # separator and end have none
    assert tags == first + second
    assert tags[len(first) - 1] == tags[-1] == 0


@EACH_ARCHITECTURE
def test_the_separator_is_a_setting_that_travels(architecture, tiny_tokenizer, tmp_path):
    token = tiny_tokenizer.convert_ids_to_tokens(7)
    processor = architecture.processor(tiny_tokenizer, document_separator=token)
    processor.save_pretrained(tmp_path)
    loaded = AutoProcessor.from_pretrained(tmp_path)
    assert loaded.separator_token_id == processor.separator_token_id == 7
    assert loaded([SENTENCES[:2]]) == processor([SENTENCES[:2]])
    with pytest.raises(ValueError, match=r"`document_separator` is '<story>', but must be a token$"):
        architecture.processor(tiny_tokenizer, document_separator="<story>")


def test_what_is_no_batch_is_refused(tiny_tokenizer):
    processor = ARCHITECTURES[0].processor(tiny_tokenizer, tags="none")
    with pytest.raises(TypeError, match=r"^`text` has lists of texts, but row 1 is str: make each a list$"):
        processor([["a", "b"], "c"])
    with pytest.raises(ValueError, match=r"^`text\[1\]` is an empty list: give at least one text$"):
        processor([["a", "b"], []])
    with pytest.raises(TypeError, match=r"^`text\[0\]` must be strings, but row 1 is int: 3$"):
        processor([["a", 3]])
    # as a blank document by itself
    assert processor([["", " "], ["\n"]]) == processor(["", ""])


@pytest.mark.thorough
@EACH_ARCHITECTURE
def test_pipeline_reads_examples_of_several_documents(architecture, tiny_tokenizer, tmp_path):
    model, processor = build_with_processor(architecture, tiny_tokenizer)
    save(tmp_path, model, processor)
    summarizer = pipeline("summarization", model=str(tmp_path))
    examples = [SENTENCES[:3], SENTENCES[3:], SENTENCES[:1]]
    summaries = summarizer(examples)
    assert len(summaries) == 3
    assert summarizer(examples, batch_size=3) == summaries
    assert [summarizer([example])[0] for example in examples] == summaries
    assert [record for (record,) in summarizer(example for example in examples)] == summaries
    ids = model.generate(**processor(examples[:1], return_tensors="pt"), tokenizer=processor, num_beams=4)
    assert summaries[0]["summary_text"] == processor.batch_decode(ids, skip_special_tokens=True)[0].strip()
    summarizer.processor.max_source_length = 12
    with pytest.raises(ValueError, match=r"3 documents have .*: shorten it, or call the pipeline with `truncation=Tru"):
        summarizer(examples[:1], truncation=False)


def test_pointers_are_looked_up_in_each_document():
    words = fit_processor(["known words"], units="words", min_frequency=1, tags="none")
    processor = DrgdProcessor(words.tokenizer, max_source_length=8)
    documents = ["Ana Lopez opened the bridge", "Ben closed it"]
    row = processor([documents])["input_ids"][0]
    places = [place for place, token in enumerate(row) if token == processor.tokenizer.unk_token_id]
    pointers = [FIRST_POINTER + place for place in places]
    # three words of each are left, with the separator between them
    assert processor.batch_decode([pointers], documents=[documents]) == ["Ana Lopez opened Ben closed it"]
    assert processor.batch_decode([pointers[:2]], documents=["Carla Diaz"]) == ["Carla Diaz"]
    # with another length, other words have these positions
    longer_row = processor([documents], max_length=10)["input_ids"][0]
    pointers = [FIRST_POINTER + longer_row.index(processor.separator_token_id) + place for place in (1, 2)]
    assert processor.batch_decode([pointers], documents=[documents], max_length=10) == ["Ben closed"]
