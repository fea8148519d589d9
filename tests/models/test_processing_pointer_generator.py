"""The pointer-generator's processor: unknown words have ids behind the vocabulary, and pointers are decoded."""

from unicodedata import normalize

import pytest

from hf_summ import PointerGeneratorConfig, PointerGeneratorProcessor
from hf_summ.data import fit_vocabulary
from hf_summ.models.text_documents import FIRST_POINTER

DOCUMENT, SUMMARY = "Zorro met Ana, and Ana met zorro in Quxville.", "Ana met Zorro near Quxville"


@pytest.fixture
def words():
    texts = ["Ana met Ana, and Ana met Ana in the in the and the."]
    tokenizer = fit_vocabulary(texts, units="words", lowercase=True, min_frequency=1, show_progress=False)
    return PointerGeneratorProcessor(tokenizer)


def test_unknown_words_have_ids_of_their_own_in_both_texts(words):
    size, read = len(words.tokenizer), words(DOCUMENT, SUMMARY)
    unknown = [token for token in read["input_ids"] if token >= size]
    summary_ids = [token for token in read["labels"] if token >= size]
    # zorro, zorro and quxville; zorro, near and quxville
    assert unknown == [summary_ids[0], summary_ids[0], summary_ids[2]]
    assert len({*unknown, *summary_ids}) == 3
    assert max(*unknown, *summary_ids) < size + words.unknown_ids
    config = PointerGeneratorConfig()
    words.align(config)
    assert (config.vocab_size, config.unk_token_id) == (size, words.tokenizer.unk_token_id)
    assert config.unknown_ids == words.unknown_ids > 0


def test_pointers_are_the_documents_own_words(words):
    positions = [place for place, token in enumerate(words(DOCUMENT)["input_ids"]) if token >= len(words.tokenizer)]
    ana, met = words.tokenizer.convert_tokens_to_ids(words.tokenizer.tokenize("ana met"))
    ids = [ana, met, FIRST_POINTER + positions[0], FIRST_POINTER + positions[2], words.eos_token_id]
    assert words.batch_decode([ids], skip_special_tokens=True, documents=[DOCUMENT]) == ["ana met Zorro Quxville"]
    assert words.batch_decode([ids], skip_special_tokens=True) == ["ana met"]


@pytest.mark.parametrize("word", ["René", "Nguyễn", "한국", "বাংলো", "x\u0302", "ガラス"])
def test_decomposed_words_are_those_that_compose(words, word):
    decomposed, composed = normalize("NFD", f"met {word} Ana"), normalize("NFC", f"met {word} Ana")
    assert words(decomposed, decomposed) == words(composed, composed)
    assert words(decomposed)["input_ids"] != words(f"met {decomposed[4]} Ana")["input_ids"]
    for document in (decomposed, composed):
        assert words.batch_decode([[FIRST_POINTER + 1]], documents=[document]) == [document.split()[1]]


def test_subwords_leave_no_word_out(tiny_tokenizer):
    processor = PointerGeneratorProcessor(tiny_tokenizer)
    assert processor.unknown_ids == 0
    assert max(processor(DOCUMENT)["input_ids"]) < len(tiny_tokenizer)
