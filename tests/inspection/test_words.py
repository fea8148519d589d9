"""Words of sources and summaries, with the three kinds of tokenizers."""

import pytest
import torch

from hf_summ.data.vocabulary import fit_processor
from hf_summ.inspection.explanation import grouped, words_of_source, words_of_summary
from hf_summ.models.generation_words import word_table
from tests.conftest import SENTENCES, word_piece_tokenizer

TEXT = f"  {SENTENCES[0]}\n\nMüller's  12,5 km – ok? "


def words_of(tokenizer, text: str) -> list[str]:
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    table = word_table(tokenizer, len(tokenizer), torch.device("cpu"))
    words = words_of_source(text, encoded["input_ids"], encoded["offset_mapping"], table)
    ends = [0, *(word.end for word in words)]
    assert all(end <= word.start < word.end for end, word in zip(ends, words, strict=False))
    places = [place for word in words for place in word.subwords]
    assert len(places) == len(set(places))
    return [text[word.start : word.end] for word in words]


def test_byte_level_words_are_apart_at_spaces_and_between_kinds_of_characters(tiny_tokenizer):
    words = words_of(tiny_tokenizer, TEXT)
    assert words[:5] == ["Mayor", "Ana", "Lopez", "opened", "the"]
    assert words[-10:] == ["Müller", "'", "s", "12", ",", "5", "km", "–", "ok", "?"]


def test_word_piece_words(tiny_tokenizer):
    words = words_of(word_piece_tokenizer([*SENTENCES, "Müller's 12,5 km – ok?"], vocab_size=200), TEXT)
    assert words[-10:] == ["Müller", "'", "s", "12", ",", "5", "km", "–", "ok", "?"]


def test_words_of_a_vocabulary_of_characters():
    tokenizer = fit_processor(["我国服务贸易规模稳步增长"], units="characters", tags="none").tokenizer
    assert words_of(tokenizer, "我国 服务") == ["我", "国", "服", "务"]


def test_no_text_has_no_words(tiny_tokenizer):
    assert words_of(tiny_tokenizer, "") == []
    table = word_table(tiny_tokenizer, len(tiny_tokenizer), torch.device("cpu"))
    assert grouped([], table) == []


def test_a_summarys_words_are_found_whatever_its_spaces():
    assert words_of_summary(" it's (so)", ["it", "'", "s", "(", "so", ")"]) == [
        (1, 3),
        (3, 4),
        (4, 5),
        (6, 7),
        (7, 9),
        (9, 10),
    ]
    assert words_of_summary("ab", ["", "a b"]) == [(0, 0), (0, 2)]
    with pytest.raises(ValueError, match="'c' is not next in 'b'"):
        words_of_summary("ab", ["a", "c"])
