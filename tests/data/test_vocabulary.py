"""Subwords, words and characters fitted to texts, and the tokenizer with them."""

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
    assert [getattr(tokenizer, f"{name}_token_id") for name in ("pad", "bos", "eos", "unk")] == [0, 1, 2, 3]
    assert len(tokenizer) == 300


@pytest.mark.parametrize("text", [*TEXTS, *HARD_TEXTS])
def test_every_text_comes_back(tokenizer, text):
    ids = tokenizer(text)["input_ids"]
    assert tokenizer.unk_token_id not in ids
    assert tokenizer.decode(ids, skip_special_tokens=True) == text


def test_texts_are_read_as_their_words(tokenizer):
    # texts end in the end token
    assert tokenizer("the bridge")["input_ids"][-1] == 2
    assert tokenizer("the", "bridge")["input_ids"].count(2) == 2
    assert tokenizer(text_target="the bridge")["input_ids"][-1] == 2
    # first word is encoded as any other
    first, second = tokenizer("bridge")["input_ids"][:-1], tokenizer("the bridge")["input_ids"][1:-1]
    assert first == second
    assert tokenizer("  bridge \n")["input_ids"][:-1] == first
    # special tokens in a text are plain characters
    text = "a </s> b <pad> c"
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert not {0, 1, 2, 3} & set(ids)
    assert tokenizer.decode(ids, skip_special_tokens=True) == text


@pytest.mark.parametrize("text", ["", "   ", "\n"])
def test_blank_text_is_the_end_token_alone(tokenizer, text):
    assert tokenizer(text)["input_ids"] == [2]


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


def test_the_same_texts_give_the_same_vocabulary(tokenizer):
    again = fit_vocabulary(iter(TEXTS), vocab_size=300, show_progress=False)
    assert again.backend_tokenizer.to_str() == tokenizer.backend_tokenizer.to_str()
    # lone surrogates are taken
    assert len(fit_vocabulary(["a \ud83d b"], show_progress=False)) >= 260


def word_tokens(tokenizer, text):
    return tokenizer.convert_ids_to_tokens(tokenizer(text, add_special_tokens=False)["input_ids"])


def fitted(text, units, **settings):
    return fit_vocabulary([text], units=units, min_frequency=1, show_progress=False, **settings)


# text, its tokens, and what comes back if it is something else
WORDS = [
    ("The mid-term deal, worth $4,000.5!", "▁The ▁mid-term ▁deal , ▁worth ▁$ 4,000.5 !"),
    ("U.S. and u.s.-led (a \u2018b\u2019) won't.", "▁U.S. ▁and ▁u.s.-led ▁( a ▁\u2018 b \u2019 ) ▁won't ."),
    # as Gigaword is distributed: the Penn Treebank's tokens
    ("china 's did n't -lrb- #.# -rrb- `` a '' --", "▁china ▁'s ▁did ▁n't ▁-lrb- ▁#.# ▁-rrb- ▁`` ▁a ▁'' ▁--"),
    (
        "x.y.com 1-3/4 Ана-Мария e\u0301te\u0301",
        "▁x.y.com ▁1-3/4 ▁Ана-Мария ▁\u00e9t\u00e9",
        "x.y.com 1-3/4 Ана-Мария été",
    ),
    ("a</s>b 🙂🙂 \x00", "▁a < / s > b ▁🙂🙂 ▁\x00"),
    ("x", "▁x"),
    ("", ""),
]
IDEOGRAPHS = [
    ("微软发布Windows 10，售价4,000.5元。", "微 软 发 布 Windows ▁10 ， 售 价 4,000.5 元 。"),
    ("C罗 iPhone6s——好", "C 罗 iPhone6s — — 好", "C罗iPhone6s——好"),
    ("二〇〇五年，𠮷野家 カメラ", "二 〇 〇 五 年 ， 𠮷 野 家 カ メ ラ", "二〇〇五年，𠮷野家カメラ"),
    ("the Big Mac won't, 你 ok", "the ▁Big ▁Mac ▁won't , 你 ok", "the Big Mac won't,你ok"),
    ("한국어 Ана 🙂🙂", "한국어 ▁Ана ▁🙂 🙂"),
    ("你", "你"),
    ("", ""),
]
CHARACTERS = [
    ("微软Windows 10，4,000.5元", "微 软 W i n d o w s ▁1 0 ， 4 , 0 0 0 . 5 元"),
    ("Big Mac, 你", "B i g ▁M a c , 你", "Big Mac,你"),
    ("한국어 🙂🙂", "한 국 어 ▁🙂 🙂"),
]


CASES_OF_UNITS = [("words", row) for row in WORDS]
CASES_OF_UNITS += [("ideographs", row) for row in IDEOGRAPHS]
CASES_OF_UNITS += [("characters", row) for row in CHARACTERS]


@pytest.mark.parametrize(("units", "row"), CASES_OF_UNITS)
def test_texts_are_divided_into_units(units, row):
    text, tokens, *others = row
    tokenizer = fitted(text or "a", units)
    assert word_tokens(tokenizer, text) == tokens.split()
    ids = tokenizer(text)["input_ids"]
    assert ids[-1] == 2
    assert tokenizer.unk_token_id not in ids
    assert tokenizer.decode(ids, skip_special_tokens=True) == (others or [text])[0]


CASES_OF_UNKNOWN_WORDS = [
    ("quay the bridge", [0]),
    ("the bridge quay", [2]),
    ("the quay, bridge", [1]),
    ("quay quay", [0, 1]),
    ("the <unk> bridge", [1]),
    ("河 the bridge", [0]),
]


@pytest.mark.parametrize("units", ["words", "ideographs"])
@pytest.mark.parametrize(("text", "unknown"), CASES_OF_UNKNOWN_WORDS)
def test_unknown_words_at_every_place(units, text, unknown):
    tokenizer = fitted("the bridge, the river <unk> the", units)
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert [place for place, token in enumerate(ids) if token == 3] == unknown
    assert "<unk>" not in [token.removeprefix("▁") for token in tokenizer.get_vocab() if token != "<unk>"]
    assert "quay" not in tokenizer.decode(ids)


@pytest.mark.parametrize("units", ["words", "ideographs"])
def test_the_most_frequent_units_are_known(units):
    texts = ["b a c", "b a", "b, 河 河 河"]
    tokenizer = fit_vocabulary(texts, units=units, vocab_size=7, min_frequency=2, show_progress=False)
    tokens = {token.removeprefix("▁") for token in tokenizer.get_vocab()}
    assert tokens == {"<pad>", "<s>", "</s>", "<unk>", "<sep>", "b", "河"}
    message = f"^the vocabulary is empty, as no {units} occur 4 times: lower `min_frequency`$"
    with pytest.raises(ValueError, match=message):
        fit_vocabulary(texts, units=units, min_frequency=4, show_progress=False)


def test_digits_as_hash_and_lowercase_are_gigawords():
    tokenizer = fitted("It rose #.## pct in ####", "words", lowercase=True, digits_as_hash=True)
    assert word_tokens(tokenizer, "IT rose 4.25 pct in 1987") == "▁it ▁rose ▁#.## ▁pct ▁in ▁####".split()


@pytest.mark.parametrize("units", ["words", "ideographs", "characters"])
@pytest.mark.parametrize("text", HARD_TEXTS)
def test_saved_and_loaded_units_read_and_write_the_same(units, text, tmp_path):
    tokenizer = fitted(text, units, lowercase=True)
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    ids = tokenizer(text)["input_ids"]
    assert loaded(text)["input_ids"] == ids
    assert loaded.decode(ids, skip_special_tokens=True) == tokenizer.decode(ids, skip_special_tokens=True)
    assert loaded.decode(ids, skip_special_tokens=True) == " ".join(text.lower().split())


def test_min_frequency_keeps_rare_pairs_apart():
    sizes = [len(fit_vocabulary(TEXTS, min_frequency=frequency, show_progress=False)) for frequency in (1, 1000)]
    assert sizes[0] > sizes[1] == 261


def test_saved_and_loaded_vocabulary_reads_the_same(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    for text in [*TEXTS, *HARD_TEXTS, "a </s> b"]:
        assert loaded(text)["input_ids"] == tokenizer(text)["input_ids"]
    assert loaded.decode(loaded(TEXTS[0])["input_ids"], skip_special_tokens=True) == TEXTS[0]
    assert loaded.model_max_length > 10**9


CASES_OF_ERRORS = [
    ("a text", {}, TypeError, "`documents_and_summaries` must be texts, but is str: 'a text'"),
    ({"a": 1}, {}, TypeError, "`documents_and_summaries` must be texts, but is dict: {.a.: 1}"),
    (["a", None], {}, TypeError, "`documents_and_summaries` must be a string, but is NoneType: None"),
    ([], {}, ValueError, "no text to fit a vocabulary to.*"),
    (["", " \n"], {}, ValueError, "no text to fit a vocabulary to.*"),
    (["a"], {"units": "word"}, ValueError, r"`units` is 'word', but must be one of .*words, .*"),
    (["a"], {"vocab_size": 260}, ValueError, "`vocab_size` is 260, but must be at least 261.*"),
    (
        ["a"],
        {"vocab_size": 4, "units": "words"},
        ValueError,
        "`vocab_size` is 4, but must be at least 6, for 5 special tokens and words",
    ),
    (["a"], {"min_frequency": -1}, ValueError, "`min_frequency` is -1, but must be at least 0"),
    (["a"], {"min_frequency": 1.5}, TypeError, "`min_frequency` must be an integer, but is float: 1.5"),
    # tokenizers would ask for more memory than there is, and end the process
    (["a"], {"vocab_size": 10**9}, ValueError, "`vocab_size` is 1.000e[+]9, but must be at most 10{7}, for 5 .*"),
]


@pytest.mark.parametrize(("texts", "settings", "error", "message"), CASES_OF_ERRORS)
def test_what_tokenizers_would_fail_on_is_an_error(texts, settings, error, message):
    with pytest.raises(error, match=f"^{message}$"):
        fit_vocabulary(texts, show_progress=False, **settings)
