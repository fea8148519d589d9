"""Subwords fitted to texts, and the tokenizer with them."""

import pytest
from transformers import AutoTokenizer

from hf_summ.data import fit_vocabulary

TEXTS = [
    "Mayor Ana Lopez opened the new bridge over the river.",
    "The bridge over the river cost 12 million euros.",
] * 2
# other scripts, combining marks, emoji, control characters, a very long word
HARD_TEXTS = ["Café déjà vu", "你好，世界", "🙂👩‍🚀", "a\x00b\x07c", "x" * 3000, "Ана Лопес", "tab\there\nline"]


@pytest.fixture(scope="module")
def tokenizer():
    return fit_vocabulary(TEXTS, vocab_size=300, show_progress=False)


def test_special_tokens_come_first(tokenizer):
    assert tokenizer.convert_ids_to_tokens([0, 1, 2, 3]) == ["<pad>", "<s>", "</s>", "<unk>"]
    assert (tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id) == (
        0,
        1,
        2,
        3,
    )
    assert len(tokenizer) == 300


@pytest.mark.parametrize("text", [*TEXTS, *HARD_TEXTS])
def test_every_text_comes_back(tokenizer, text):
    ids = tokenizer(text)["input_ids"]
    assert tokenizer.unk_token_id not in ids
    assert tokenizer.decode(ids, skip_special_tokens=True) == text


def test_texts_end_in_the_end_token(tokenizer):
    assert tokenizer("the bridge")["input_ids"][-1] == 2
    assert tokenizer("the", "bridge")["input_ids"].count(2) == 2
    assert tokenizer(text_target="the bridge")["input_ids"][-1] == 2


@pytest.mark.parametrize("text", ["", "   ", "\n"])
def test_blank_text_is_the_end_token_alone(tokenizer, text):
    assert tokenizer(text)["input_ids"] == [2]


def test_first_word_is_encoded_as_any_other(tokenizer):
    first, second = tokenizer("bridge")["input_ids"][:-1], tokenizer("the bridge")["input_ids"][1:-1]
    assert first == second
    assert tokenizer("  bridge \n")["input_ids"][:-1] == first


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize(
    "text", ["The bridge  over", "  The bridge", "İ The river 🙂 over", "Cafe\u0301 over the river"]
)
def test_offsets_point_into_the_text_without_the_space_before(lowercase, text):
    tokenizer = fit_vocabulary(TEXTS, vocab_size=300, lowercase=lowercase, show_progress=False)
    encoding = tokenizer(text, return_offsets_mapping=True, add_special_tokens=False)
    places = [(start, end) for start, end in encoding["offset_mapping"] if start < end]
    pieces = [text[start:end] for start, end in places]
    assert not any(piece != piece.strip() for piece in pieces)
    assert places == sorted(places)
    covered = {index for start, end in places for index in range(start, end)}
    assert covered >= {
        index for index, character in enumerate(text) if not character.isspace() and character != "\u0301"
    }


def test_lowercase_and_composition_make_spellings_equal():
    tokenizer = fit_vocabulary(TEXTS, vocab_size=300, lowercase=True, show_progress=False)
    assert tokenizer("THE CAFE\u0301")["input_ids"] == tokenizer("the caf\u00e9")["input_ids"]
    assert tokenizer.decode(tokenizer("The River")["input_ids"], skip_special_tokens=True) == "the river"


def test_special_tokens_in_a_text_are_plain_characters(tokenizer):
    text = "a </s> b <pad> c"
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert not {0, 1, 2, 3} & set(ids)
    assert tokenizer.decode(ids, skip_special_tokens=True) == text


def test_the_same_texts_give_the_same_vocabulary(tokenizer):
    again = fit_vocabulary(iter(TEXTS), vocab_size=300, show_progress=False)
    assert again.backend_tokenizer.to_str() == tokenizer.backend_tokenizer.to_str()


def test_min_frequency_keeps_rare_pairs_apart():
    sizes = [len(fit_vocabulary(TEXTS, min_frequency=frequency, show_progress=False)) for frequency in (1, 1000)]
    assert sizes[0] > sizes[1] == 260


def test_saved_and_loaded_vocabulary_reads_the_same(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    for text in [*TEXTS, *HARD_TEXTS, "a </s> b"]:
        assert loaded(text)["input_ids"] == tokenizer(text)["input_ids"]
    assert loaded.decode(loaded(TEXTS[0])["input_ids"], skip_special_tokens=True) == TEXTS[0]
    assert loaded.model_max_length > 10**9


def test_lone_surrogates_are_taken():
    assert len(fit_vocabulary(["a \ud83d b"], show_progress=False)) >= 260


@pytest.mark.parametrize("texts", [[], ["", " \n"]])
def test_empty_corpus_is_an_error(texts):
    with pytest.raises(ValueError, match="no text to fit a vocabulary to"):
        fit_vocabulary(texts, show_progress=False)


def test_vocabulary_smaller_than_the_alphabet_is_an_error():
    with pytest.raises(ValueError, match="`vocab_size` is 259, but must be at least 260"):
        fit_vocabulary(TEXTS, vocab_size=259, show_progress=False)
