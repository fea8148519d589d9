"""Word-counting limits against the definition applied to strings, one candidate token at a time."""

import itertools
import re

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import GenerationConfig, PreTrainedTokenizerFast

from hf_summ.data import fit_vocabulary
from hf_summ.models.generation_mixin import ForbiddingLogitsProcessor
from hf_summ.models.generation_rules import EndRepetitions, MinNewWords, NoRepeatWordNGram, word_rules
from hf_summ.models.text_documents import word_table
from tests.models.naive_words import byte_level_words, whole_words, word_piece_words

SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]
# pieces that make the same words in several ways, of several kinds of characters
PIECES = ["a", "b", "ab", "ba", "1", "12", ",", "."]
# a space and a line end that are tokens of their own, and an opening quotation mark as the bytes that it is
BYTE_LEVEL_PIECES = PIECES + ["âĢľ", "Ċ", "Ġ", "ĠâĢľ"] + [f"Ġ{piece}" for piece in PIECES]


def byte_level_tokenizer():
    return _tokenizer(SPECIAL + BYTE_LEVEL_PIECES, decoders.ByteLevel())


def word_piece_tokenizer():
    vocabulary = SPECIAL + PIECES + [f"##{piece}" for piece in PIECES]
    return _tokenizer(vocabulary, decoders.WordPiece())


def words_tokenizer():
    return fit_vocabulary(["a b, (a) 12 ab, b12. ab"], units="words", min_frequency=1, show_progress=False)


def characters_tokenizer():
    return fit_vocabulary(["你好，好 ab ab 12。a b"], units="ideographs", min_frequency=1, show_progress=False)


def _tokenizer(vocabulary, decoder):
    tokenizer = Tokenizer(models.WordLevel({token: index for index, token in enumerate(vocabulary)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoder
    names = dict(zip(("pad_token", "bos_token", "eos_token", "unk_token"), SPECIAL, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


UNSPACED = ["市长打开了新桥", "这座桥花费1200万欧元 AI 也说", "Ana 打开 bridge", "สะพานใหม่ เปิดแล้ว"]
# Each text and the size of the vocabulary that reads it.
CASES_OF_UNSPACED = [*itertools.product(UNSPACED[:3], (261, 300, 400)), (UNSPACED[3], 400)]


@pytest.mark.parametrize(("text", "vocab_size"), CASES_OF_UNSPACED)
def test_scripts_without_spaces_are_counted_by_characters(text, vocab_size):
    """Whether characters are several tokens, as with few merges, or tokens several characters."""
    tokenizer = fit_vocabulary([f"{text} {text}" for text in UNSPACED] * 3, vocab_size=vocab_size, show_progress=False)
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    table = word_table(tokenizer, len(tokenizer))
    words = re.findall(r"[\u0e00-\u0eff\u4e00-\u9fff]|[A-Za-z]+|\d+", text)
    prompt = [tokenizer.bos_token_id]
    for least in (len(words), len(words) + 1):
        processor = ForbiddingLogitsProcessor(MinNewWords(least, table, 1, [tokenizer.eos_token_id]))
        scores = processor(torch.tensor([[*prompt, *ids]]), torch.zeros(1, len(tokenizer)))
        assert bool(scores[0, tokenizer.eos_token_id].isinf()) == (least > len(words))


MARKED = "वह हिन्दी में लिखता है और मैं भी हिन्दी में लिखता हूँ"


@pytest.mark.parametrize("vocab_size", [261, 280, 330])
@pytest.mark.parametrize("text", [MARKED, "می‌رود و نمی‌رود", "வந்தார் குமார்", "ab\u0301b cd"])
def test_vowel_signs_and_joiners_are_no_words(text, vocab_size):
    characters = SPECIAL + sorted(set(text) - {" "}) + ["▁"]
    metaspace = Tokenizer(models.BPE({character: index for index, character in enumerate(characters)}, []))
    metaspace.pre_tokenizer = pre_tokenizers.Metaspace()
    metaspace.decoder = decoders.Metaspace()
    byte_level = fit_vocabulary([f"{text} {text}"] * 3, vocab_size=vocab_size, show_progress=False)
    for tokenizer in (PreTrainedTokenizerFast(tokenizer_object=metaspace, eos_token="</s>"), byte_level):
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        assert tokenizer.decode(ids) == text
        assert word_table(tokenizer, len(tokenizer)).count(ids) == len(text.split())


def repeats(words, size):
    last = words[-size:]
    return len(words) > size and any(words[place : place + size] == last for place in range(len(words) - size))


# How a tokenizer is made, and how the words are spelled that its tokens make.
CASES_OF_TOKENIZERS = [
    (byte_level_tokenizer, byte_level_words),
    (word_piece_tokenizer, word_piece_words),
    (words_tokenizer, whole_words),
    (characters_tokenizer, whole_words),
]


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize(("make", "spell"), CASES_OF_TOKENIZERS)
def test_forbids_just_the_tokens_after_which_words_repeat(make, spell, size):
    tokenizer = make()
    vocab_size = len(tokenizer) + 2
    table = word_table(tokenizer, vocab_size)
    processor = ForbiddingLogitsProcessor(NoRepeatWordNGram(size, table, prompt_length=1))
    ordinary = list(range(len(SPECIAL), len(tokenizer)))
    forbidden = 0
    for length, motif in ((1, 1), (4, 4), (9, 9), (20, 20), (40, 6), (40, 7)):
        # texts that go round have words to repeat
        drawn = torch.randint(len(ordinary), (12, motif)).repeat(1, length // motif + 1)[:, :length]
        choices = torch.tensor(ordinary)[drawn]
        input_ids = torch.cat((torch.ones(12, 1, dtype=torch.long), choices), dim=1)
        banned = processor(input_ids, torch.zeros(12, vocab_size)).isinf()
        for row in range(12):
            tokens = tokenizer.convert_ids_to_tokens(choices[row])
            expected = []
            for token in tokenizer.convert_ids_to_tokens(ordinary):
                words = spell([*tokens, token])
                # a space says nothing again, also in a text that has repeated itself before
                expected.append(words != spell(tokens) and repeats(words, size))
            assert banned[row, ordinary].tolist() == expected, tokens
            assert not banned[row, : len(SPECIAL)].any()
            assert not banned[row, len(tokenizer) :].any()
            forbidden += sum(expected)
    assert forbidden


def test_n_grams_with_ignored_words_may_repeat():
    # OpenNMT/OpenNMT-py: `-ignore_when_blocking "."`
    tokenizer = words_tokenizer()
    table = word_table(tokenizer, len(tokenizer))
    ids = list(range(len(SPECIAL), len(SPECIAL) + 3))
    first, second, last = table.words(ids)
    text = [1, *ids, *ids[:2]]
    assert list(NoRepeatWordNGram(3, table, 1).forbidden(text)) == ids[2:]
    for word in (first, second, last):
        assert not list(NoRepeatWordNGram(3, table, 1, [word]).forbidden(text))
        assert not EndRepetitions(2, table.words, 1, [word]).forbidden(text) or word == last
    assert EndRepetitions(2, table.words, 1).forbidden(text)
    unset = dict.fromkeys(("ngram_blocking", "min_new_words"))
    config = GenerationConfig(no_repeat_word_ngram_size=3, ignore_when_blocking=f"{second} x", **unset)
    (rule,) = word_rules(config, lambda: table, 1, [2])
    assert rule.ignored == {second, "x"}


@pytest.mark.parametrize("least", [1, 3])
def test_end_waits_for_the_words(least):
    tokenizer = byte_level_tokenizer()
    table = word_table(tokenizer, len(tokenizer))
    processor = ForbiddingLogitsProcessor(MinNewWords(least, table, 1, [2]))
    tokens = ["Ġa", "b", "Ġa", ",", "1", "2", "Ġb"]
    tokens = [token if token in tokenizer.get_vocab() else "12" for token in tokens]
    for length in range(len(tokens) + 1):
        ids = [1, *tokenizer.convert_tokens_to_ids(tokens[:length])]
        scores = processor(torch.tensor([ids]), torch.zeros(1, len(tokenizer)))
        assert scores[0, 2].isinf() == (len(byte_level_words(tokens[:length])) < least)
        assert not scores[0, 3:].isinf().any()


def test_prompt_does_not_count():
    tokenizer = byte_level_tokenizer()
    table = word_table(tokenizer, len(tokenizer))
    prompt = torch.tensor([[1, *tokenizer.convert_tokens_to_ids(["Ġa", "Ġb", "Ġa"])]])
    scores = torch.zeros(1, len(tokenizer))
    assert ForbiddingLogitsProcessor(MinNewWords(1, table, 4, [2]))(prompt, scores)[0, 2].isinf()
    assert not ForbiddingLogitsProcessor(NoRepeatWordNGram(1, table, 4))(prompt, scores).isinf().any()


def test_real_tokenizer_counts_words_as_its_pre_tokenizer_does(tiny_tokenizer):
    text = "The bridge, opened in 2009, cost 12.5 million euros."
    ids = tiny_tokenizer(text, add_special_tokens=False)["input_ids"]
    table = word_table(tiny_tokenizer, len(tiny_tokenizer))
    assert sum(table.words_opened(ids)) == len(re.findall(r"[A-Za-z]+|[0-9]+|[^\sA-Za-z0-9]+", text))


# The units of the vocabulary, a text, and how many words it has.
CASES_OF_UNITS = [
    ("words", "a ca, u.s. quay (won't)", 8),
    ("ideographs", "微软Windows 10很好，龘", 8),
    ("ideographs", "微", 1),
]


@pytest.mark.parametrize(("units", "text", "words"), CASES_OF_UNITS)
def test_words_and_characters_count_as_they_are_split(units, text, words):
    known = text.replace("quay", "").replace("龘", "")
    tokenizer = fit_vocabulary([known], units=units, min_frequency=1, show_progress=False)
    table = word_table(tokenizer, len(tokenizer))
    ids = tokenizer(text)["input_ids"]
    assert sum(table.words_opened(ids[:-1])) == words
    for least in (words, words + 1):
        processor = ForbiddingLogitsProcessor(MinNewWords(least, table, 1, [2]))
        scores = processor(torch.tensor([[1, *ids[:-1]]]), torch.zeros(1, len(tokenizer)))
        # an unknown word counts too
        assert scores[0, 2].isinf() == (least > words)


def test_unknown_words_count_as_one_word_again_and_again():
    tokenizer = words_tokenizer()
    table = word_table(tokenizer, len(tokenizer))
    first, unknown = tokenizer.convert_tokens_to_ids(["▁ab", "<unk>"])
    scores = ForbiddingLogitsProcessor(NoRepeatWordNGram(2, table, 1))(
        torch.tensor([[1, first, unknown, first]]), torch.zeros(1, len(tokenizer))
    )
    assert scores[0].isinf().nonzero().tolist() == [[unknown]]


def test_end_that_also_stands_for_unknown_words_is_none():
    tokenizer = byte_level_tokenizer()
    tokenizer.unk_token = tokenizer.eos_token
    table = word_table(tokenizer, len(tokenizer))
    ended = torch.tensor([[1, 2, 2]])
    assert ForbiddingLogitsProcessor(MinNewWords(1, table, 1, [2]))(ended, torch.zeros(1, len(tokenizer)))[0, 2].isinf()


def test_tokenizer_without_word_marks_is_refused():
    tokenizer = _tokenizer([*SPECIAL, "a"], decoders.Fuse())
    with pytest.raises(ValueError, match="does not show where words start"):
        word_table(tokenizer, 5)
