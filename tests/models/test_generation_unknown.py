"""Unknown words of a summary, replaced by the source's most attended words, and their way back to text."""

import copy

import numpy as np
import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoProcessor, pipeline

from hf_summ import DrgdProcessor
from hf_summ.data import fit_vocabulary
from hf_summ.models.text_documents import FIRST_POINTER
from hf_summ.models.text_processing_recurrent import DrgdTextProcessor, replace_unknown
from hf_summ.runtimes.folder_tokenizer import FolderTokenizer
from tests.conftest import SENTENCES, save, word_piece_tokenizer
from tests.models.architectures import DRGD, DRGD_PRINTED, build_with_processor

# half of each text is unknown: names and rare words
KNOWN = ["the bridge over the river, and the old town on monday. it cost euros", "桥，河上的大 the new"]
DOCUMENTS = [
    SENTENCES[0],
    "Critics: the council promised (Ana Lopez) a report.",
    "桥 iPhone6s，大 Mayor Lopez！龘河",
    "Quay",
    "河",
    "",
]


@pytest.fixture(params=["words", "characters"])
def tokenizer(request):
    return fit_vocabulary(KNOWN, units=request.param, min_frequency=1, lowercase=True, show_progress=False)


@pytest.fixture(params=[DRGD, DRGD_PRINTED], ids=["released", "copy"])
def architecture(request):
    return request.param


def likely(model, *tokens):
    """The model in float64, which writes these tokens more often than an untrained one does."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        model.lm_head.bias[list(tokens)] += 3.0
    return model.double()


def naive_replacement(model, processor, document, sequence):
    """What a sequence becomes, from the attention of one step at a time of one document."""
    tokenizer = processor.tokenizer
    inputs = processor(document, return_tensors="pt")
    source = inputs["input_ids"][0].tolist()
    words = [place for place, token in enumerate(source) if token not in (0, 1, 2)]
    replaced = [sequence[0]]
    for place, token in enumerate(sequence[1:], start=1):
        if token == tokenizer.unk_token_id and words:
            output = model(**inputs, decoder_input_ids=torch.tensor([sequence[:place]]))
            attention = output.copy_attentions[0, -1].tolist()
            best = max(words, key=lambda word: attention[word])
            # a model that copies tells the words apart that the vocabulary lacks
            is_known = source[best] != tokenizer.unk_token_id and source[best] < len(tokenizer)
            token = source[best] if is_known else FIRST_POINTER + best
        replaced.append(token)
    return replaced


CASES_OF_DECODING = [
    {},
    {"num_beams": 4},
    {"num_beams": 4, "num_return_sequences": 3},
    {"do_sample": True, "num_return_sequences": 2},
]


@pytest.mark.thorough
@pytest.mark.parametrize("settings", CASES_OF_DECODING, ids=str)
def test_unknown_words_become_the_most_attended_words(architecture, tokenizer, settings):
    model, processor = build_with_processor(architecture, tokenizer)
    likely(model, tokenizer.unk_token_id)
    inputs = processor(DOCUMENTS, return_tensors="pt")
    settings = {**settings, "max_new_tokens": 6, "no_repeat_word_ngram_size": 0, "min_new_words": 2}
    torch.manual_seed(1)
    plain = model.generate(**inputs, **settings, tokenizer=processor)
    torch.manual_seed(1)
    replaced = model.generate(**inputs, **settings, tokenizer=processor, replace_unk=True)
    # how many texts a document has
    number = len(plain) // len(DOCUMENTS)
    expected = []
    for row, sequence in enumerate(plain.tolist()):
        expected.append(naive_replacement(model, processor, DOCUMENTS[row // number], sequence))
    assert replaced.tolist() == expected
    assert (plain == tokenizer.unk_token_id).any(-1).sum() > number
    # nothing is left to replace but the summary of a text without words
    assert not (replaced[: 5 * number] == tokenizer.unk_token_id).any()
    torch.manual_seed(1)
    output = model.generate(
        **inputs, **settings, tokenizer=processor, replace_unk=True, return_dict_in_generate=True, output_scores=True
    )
    torch.testing.assert_close(output.sequences, replaced)
    # plain tokenizers leave out words that they do not know
    texts = tokenizer.batch_decode(replaced, skip_special_tokens=True)
    for ids, text in zip(replaced.tolist(), texts, strict=True):
        known_ids = [token for token in ids if token < FIRST_POINTER]
        assert text == tokenizer.decode(known_ids, skip_special_tokens=True)


def test_padding_the_end_and_words_of_no_weight_are_not_chosen():
    sequences = np.array([[0, 3, 3, 2], [0, 7, 3, 3]])
    source_ids = np.array([[5, 3, 2, 0]])
    # most of the attention is on the end and on padding
    attentions = np.array([[[0.1, 0.2, 0.3, 0.4], [0.2, 0.1, 0.7, 0.0], [0.4, 0.6, 0.0, 0.0]]]).repeat(2, axis=0)
    replaced = replace_unknown(sequences, attentions, source_ids, 3, [0, 1, 2])
    pointer = FIRST_POINTER + 1
    assert replaced.tolist() == [[0, pointer, 5, 2], [0, 7, 5, pointer]]
    empty = replace_unknown(sequences, attentions, np.array([[2, 0, 0, 0]]), 3, [0, 1, 2])
    assert empty.tolist() == sequences.tolist()


def pointing(processor, document, *places):
    """Ids of a summary: pointers to these positions of the document, or known words."""
    vocabulary = processor.tokenizer.get_vocab()
    ids = []
    for place in places:
        if isinstance(place, int):
            ids.append(FIRST_POINTER + place)
        else:
            ids.append(vocabulary[place])
    return ids


# A document, its positions or known words in the summary, and the summary.
CASES_OF_WORDS = [
    # first, last, all; with the case of the document, and with its punctuation
    ("Ana Lopez came.", [0, "▁the", "▁bridge", "."], "Ana the bridge."),
    ("Ana Lopez came.", ["▁the", 1], "the Lopez"),
    ("Ana Lopez came.", [1, 0, 2], "Lopez Ana came"),
    ("the (Ana) Lopez", ["▁the", 2, ",", 4], "theAna, Lopez"),
    ("u.s.-led O'Neill 4,000.5", [2, 1, 0], "4,000.5 O'Neill u.s.-led"),
    ("Ana", [0], "Ana"),
    ("桥 Ана", ["▁the", 1, 0], "the Ана 桥"),
    ("\u00a0Cafe\u0301 \n x", [0, 1], "Cafe\u0301 x"),
]


@pytest.mark.parametrize(("document", "places", "text"), CASES_OF_WORDS)
def test_words_come_back_from_the_document(document, places, text):
    tokenizer = fit_vocabulary(KNOWN, units="words", min_frequency=1, lowercase=True, show_progress=False)
    processor = DrgdProcessor(tokenizer)
    ids = [*pointing(processor, document, *places), tokenizer.eos_token_id, tokenizer.pad_token_id]
    assert processor.batch_decode([ids], skip_special_tokens=True, documents=[document]) == [text]
    whole = processor.batch_decode(torch.tensor([ids]), documents=[document])
    assert whole[0].endswith("</s><pad>")


# A document, its positions or known words in the summary, and the summary.
CASES_OF_IDEOGRAPHS = [
    ("桥龘", [1, "桥", 1], "龘桥龘"),
    ("Apple发布iPhone6s", [0, 3], "Apple iPhone6s"),
    ("Apple发布iPhone6s", ["桥", 3, "大", 0], "桥iPhone6s大Apple"),
    ("（Mac）", ["▁new", 1], "newMac"),
    ("龘", [0], "龘"),
]


@pytest.mark.parametrize(("document", "places", "text"), CASES_OF_IDEOGRAPHS)
def test_ideographs_come_back_without_spaces(document, places, text):
    tokenizer = fit_vocabulary(KNOWN, units="ideographs", min_frequency=1, lowercase=True, show_progress=False)
    processor = DrgdProcessor(tokenizer)
    ids = pointing(processor, document, *places)
    assert processor.batch_decode([ids], documents=[document]) == [text]


# Documents whose letters, signs and ideographs a vocabulary of the units lacks, but for some.
CASES_OF_WHOLE_DOCUMENTS = [
    ("characters", "the pokémon, the naïve café"),
    ("characters", "한국말 한국"),
    # vowel signs and accents are separate characters here
    ("characters", "สวัสดี น้ำ बच्चा"),
    ("characters", "桥pokémon大，龘％龘"),
    ("words", "the bridge: 5€ the"),
    ("words", "上，x，龘％龘"),
    ("ideographs", "桥pokémon大，龘％龘，the 5€"),
]


@pytest.mark.parametrize(("units", "document"), CASES_OF_WHOLE_DOCUMENTS)
def test_a_copy_of_a_whole_document_has_its_spaces_alone(units, document):
    tokenizer = fit_vocabulary(KNOWN, units=units, min_frequency=1, show_progress=False)
    processor = DrgdProcessor(tokenizer)
    ids = processor(document)["input_ids"]
    for position, token in enumerate(ids):
        if token == tokenizer.unk_token_id:
            ids[position] = FIRST_POINTER + position
    assert max(ids) > FIRST_POINTER
    assert processor.batch_decode([ids], skip_special_tokens=True, documents=[document]) == [document]


def test_words_come_back_from_washed_texts():
    tokenizer = fit_vocabulary(KNOWN, units="ideographs", min_frequency=1, show_progress=False)
    processor = DrgdProcessor(tokenizer, washing="lcsts")
    # the second character that is left
    assert processor.batch_decode([[FIRST_POINTER + 1]], documents=["2014，桥 龘"]) == ["龘"]


def test_several_summaries_of_each_document():
    tokenizer = fit_vocabulary(KNOWN, units="words", min_frequency=1, show_progress=False)
    processor = DrgdProcessor(tokenizer)
    rows = [[FIRST_POINTER], [FIRST_POINTER + 1], [FIRST_POINTER + 1], [FIRST_POINTER + 7]]
    assert processor.batch_decode(rows, documents=["Ana Lopez", "Ben Quay"]) == ["Ana", "Lopez", "Quay", ""]
    assert processor.batch_decode(rows) == [""] * 4
    for documents in (["a", "b", "c"], []):
        with pytest.raises(ValueError, match=f"4 sequences but {len(documents)} documents"):
            processor.batch_decode(rows, documents=documents)


@pytest.mark.parametrize("is_of_folder", [False, True])
def test_texts_with_pointers_are_cleaned_up_like_others(is_of_folder, tmp_path):
    tokenizer = fit_vocabulary(["police 's new plan , it works ."], units="words", min_frequency=1, show_progress=False)
    if is_of_folder:
        tokenizer.save_pretrained(tmp_path)
        tokenizer = FolderTokenizer(tmp_path)
    document = "police 's Kowalski plan , it works ."
    ids = tokenizer(document, add_special_tokens=False)["input_ids"]
    rows = [ids[:2] + ids[3:], [*ids[:2], FIRST_POINTER + 2, *ids[3:]]]
    processor = DrgdTextProcessor(tokenizer)

    def decoded(**settings):
        return processor.batch_decode(rows, documents=[document], **settings)

    written = ["police 's plan , it works .", document]
    cleaned = ["police's plan, it works.", "police's Kowalski plan, it works."]
    assert decoded() == decoded(clean_up_tokenization_spaces=False) == written
    assert decoded(clean_up_tokenization_spaces=True) == cleaned
    tokenizer.clean_up_tokenization_spaces = True
    assert decoded() == cleaned
    assert decoded(clean_up_tokenization_spaces=False) == written
    # restoring case comes after, and tells marks apart
    processor.restore_case = True
    assert decoded() == written


def test_pointers_into_word_pieces():
    processor = DrgdProcessor(word_piece_tokenizer(["a b"], 40, eos_token="[SEP]"))
    ids = [FIRST_POINTER + 1, processor.tokenizer.convert_tokens_to_ids("a")]
    assert processor.tokenizer("a 桥", add_special_tokens=False)["input_ids"][1] == processor.tokenizer.unk_token_id
    assert processor.batch_decode([ids], documents=["a 桥"]) == ["桥 a"]


@pytest.fixture
def folder(tokenizer, architecture, tmp_path):
    """A saved checkpoint that replaces unknown words."""
    model, processor = build_with_processor(architecture, tokenizer)
    likely(model, tokenizer.unk_token_id).generation_config.replace_unk = True
    # otherwise the pipeline uses several beams
    model.generation_config.update(no_repeat_word_ngram_size=0, num_beams=1)
    save(tmp_path, model, processor)
    return tmp_path


@pytest.mark.thorough
def test_pipeline_of_a_saved_checkpoint_writes_unknown_words(folder):
    model, processor = AutoModelForSeq2SeqLM.from_pretrained(folder), AutoProcessor.from_pretrained(folder)
    assert model.generation_config.replace_unk is True
    expected, has_pointers = [], False
    for document in DOCUMENTS:
        ids = model.generate(**processor(document, return_tensors="pt"))
        (text,) = processor.batch_decode(ids, skip_special_tokens=True, documents=[document])
        expected.append(text.strip())
        has_pointers |= bool((ids >= FIRST_POINTER).any())
    assert has_pointers
    assert expected[3].lower().split(" ")[0] == "quay" or "河" in expected[4]
    summarizer = pipeline("summarization", model=str(folder))
    for settings in ({}, {"batch_size": 4}):
        assert [record["summary_text"] for record in summarizer(DOCUMENTS, **settings)] == expected
    assert [record["summary_text"] for (record,) in summarizer(document for document in DOCUMENTS)] == expected
    several = summarizer(DOCUMENTS[:2], batch_size=2, num_beams=3, num_return_sequences=2)
    assert [len(sequences) for sequences in several] == [2, 2]
    assert "<unk>" not in str(several)
    plain = summarizer(DOCUMENTS, replace_unk=False)
    assert [record["summary_text"] for record in plain] != expected


@pytest.mark.thorough
def test_tokenizer_beside_the_weights_is_found_or_asked_for(folder):
    model, processor = AutoModelForSeq2SeqLM.from_pretrained(folder), AutoProcessor.from_pretrained(folder)
    inputs = processor(DOCUMENTS, return_tensors="pt")
    told = model.generate(**inputs, tokenizer=processor, min_new_words=0)
    torch.testing.assert_close(model.generate(**inputs, min_new_words=0), told)
    fresh = copy.deepcopy(model)
    fresh.name_or_path, fresh._own_tokenizer = "", None
    with pytest.raises(ValueError, match=r"`replace_unk` .*need the tokenizer: give it as "):
        fresh.generate(**inputs, min_new_words=0)


def test_what_cannot_be_replaced_is_refused(folder, tiny_tokenizer):
    model, processor = AutoModelForSeq2SeqLM.from_pretrained(folder), AutoProcessor.from_pretrained(folder)
    inputs = processor(DOCUMENTS, return_tensors="pt")
    with pytest.raises(ValueError, match=r"the tokenizer has 301 tokens and the model .*: give the model's own"):
        model.generate(**inputs, tokenizer=tiny_tokenizer, min_new_words=0)
    without = copy.deepcopy(processor.tokenizer)
    without.unk_token = None
    with pytest.raises(ValueError, match="`replace_unk` needs unknown words, but the tokenizer has no `unk_token`"):
        model.generate(**inputs, tokenizer=without, min_new_words=0)


def test_source_without_words_is_refused(tokenizer):
    model, processor = build_with_processor(DRGD, tokenizer)
    likely(model, tokenizer.unk_token_id)
    inputs = processor(DOCUMENTS, return_tensors="pt")
    embeddings = model.get_input_embeddings()(inputs.pop("input_ids"))
    with pytest.raises(ValueError, match="`replace_unk` needs the source's words: give `input_ids`"):
        model.generate(inputs_embeds=embeddings, **inputs, tokenizer=processor, replace_unk=True)
