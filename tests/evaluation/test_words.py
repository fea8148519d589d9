"""Words in any script."""

import unicodedata
import warnings

import pytest

from hf_summ.evaluation.words import split_words, split_words_and_marks
from tests.evaluation.scores import rouge_means, rouge_rows

CASES_OF_MARKS = [
    ("hi", "मुंबई में आज भारी बारिश के कारण"),
    ("bn", "বাংলাদেশের প্রধানমন্ত্রী"),
    ("ta", "தமிழ் நாடு"),
    ("th", "ภาษา ไทย เป็น ภาษา"),
    ("my", "မြန်မာ ဘာသာ"),
    ("ar", "مُحَمَّدٌ رَسُولُ"),
    ("he", "בְּרֵאשִׁית בָּרָא"),
    ("ko", "한국어 뉴스"),
    # a joiner, which a Persian word has inside it
    ("fa", "می\u200cخواهم بروم"),
]


@pytest.mark.parametrize(("language", "words"), CASES_OF_MARKS)
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_marks_belong_to_their_letters(language, words, form):
    expected = [unicodedata.normalize("NFC", word) for word in words.split()]
    assert split_words(f"«{unicodedata.normalize(form, words)}» – !", language) == expected


def test_marks_and_signs_that_are_no_words():
    # a mark without a letter is no word
    assert split_words("葛\U000e0100城 ☀\ufe0f \u0301 é\u0301", "zh") == ["葛", "城", "é\u0301"]
    # soft hyphens and underscores are in no word
    assert split_words("Brücken\xadbau ____ a_b", "de") == ["brückenbau", "a", "b"]
    # accents may be composed or not
    text = "Müller kam übermäßig spät"
    assert rouge_means([unicodedata.normalize("NFD", text)], [text], language="de")["rouge2"] == 100


def test_words_among_marks_are_the_same_words():
    assert split_words_and_marks("Brücken\xadbau, jetzt!", "de") == ["brückenbau", ",", "jetzt", "!"]
    # the quotation mark of a Hebrew acronym is no mark, and the ones around it are
    assert split_words_and_marks('"צה"ל" צה״ל.', "he") == ['"', "צהל", '"', "צהל", "."]
    assert split_words_and_marks("Ո՞ւր է։", "hy") == ["ուր", "է", "։"]
    # composed and decomposed, the Greek question mark is the same mark
    assert split_words_and_marks("ΠΟΥ\u037e", "el") == ["που", ";"]
    assert split_words_and_marks("It's Müller.") == ["it", "'", "s", "m", "ller", "."]


@pytest.mark.parametrize(
    ("units", "expected"),
    [("words", ["你", "好", "world", "2025", "年"]), ("lcsts", ["你", "好", "，", *"world", "年", "！"])],
)
def test_chinese_has_several_conventions(units, expected):
    assert split_words("你好，World 2025年！", "zh", units) == expected
    for mode in ("rouge155", "rouge_score"):
        score = rouge_means(["你好"], ["你好，World 2025年！"], language="zh", units=units, rouge_mode=mode)["rouge1"]
        assert score == pytest.approx(100 * 2 * 2 / (2 + len(expected)), abs=1e-4)


CASES_OF_IMPOSSIBLE_UNITS = [
    ("jieba", "zh", "`units` is 'jieba', but must be one of words, lcsts"),
    ("lcsts", "en", "`units` is 'lcsts', but English is read as words .*: name another `language`"),
]


@pytest.mark.parametrize(("units", "language", "message"), CASES_OF_IMPOSSIBLE_UNITS)
@pytest.mark.parametrize("mode", ["rouge155", "rouge_score"])
def test_units_that_cannot_be_are_an_error(units, language, message, mode):
    with pytest.raises(ValueError, match=message):
        rouge_rows(["你好"], ["你好"], language=language, units=units, rouge_mode=mode)


@pytest.mark.parametrize("mode", ["rouge155", "rouge_score"])
def test_words_that_cannot_be_told_apart_are_warned_of(mode):
    text = "นายกรัฐมนตรีเปิดสะพานใหม่ในกรุงเทพมหานคร เมื่อวันจันทร์"
    with pytest.warns(UserWarning, match=r"no spaces between words, but runs of \d\d characters, .* \(language 'th'\)"):
        rouge_rows([text], [text], language="th", rouge_mode=mode)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rouge_rows([text], ["นายก รัฐมนตรี เปิด สะพาน ใหม่ ใน กรุงเทพมหานคร"], language="th", rouge_mode=mode)
        rouge_rows(["你好世界"], ["你好世界"], language="zh", rouge_mode=mode)
