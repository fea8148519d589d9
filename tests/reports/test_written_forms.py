"""Codes of languages, and letters whose lower case depends on the language."""

import pytest

from hf_summ.data import split_sentences
from hf_summ.data.languages import language_code
from hf_summ.evaluation.words import split_words
from tests.evaluation.scores import rouge_means

# a language, and the codes by which it is named
CASES_OF_LANGUAGES = [
    ("en", "en EN eng eng_Latn en-US"),
    ("de", "de deu ger deu_Latn"),
    ("zh", "zh zho chi cmn zho_Hans zh-Hant-TW"),
    ("ja", "ja jpn jpn_Jpan"),
    ("fa", "fa fas per pes_Arab"),
    # this language has no code of two letters
    ("ace", "ace ace_Latn"),
]


@pytest.mark.parametrize(("code", "codes"), CASES_OF_LANGUAGES)
def test_every_code_of_a_language_is_the_same_language(code, codes):
    # huggingface/dataset-viewer#2963, csebuetnlp/xl-sum#12
    assert {language_code(name) for name in codes.split()} == {code}


WRONG_CODES = ["", "German", "xx", "jp", "en_US.UTF-8", "und", "zh CN"]


@pytest.mark.parametrize("language", WRONG_CODES)
def test_what_is_no_code_of_a_language_is_refused(language):
    with pytest.raises(ValueError, match=f"^`language` is '{language}', but must be an ISO 639 code"):
        language_code(language)


def test_what_depends_on_the_language_takes_every_code():
    pair = ["The mayors opened two bridges."], ["The mayor was opening a bridge."]
    english = rouge_means(*pair, language="en")
    assert rouge_means(*pair, language="eng_Latn") == english
    assert rouge_means(*pair, language="ace") != english
    assert len(split_sentences("Am 3. Oktober kam Dr. Müller. Er blieb.", "deu")) == 2


@pytest.mark.parametrize("language", ["tr", "az", "tur_Latn"])
def test_turkish_capitals(language):
    # google-research/url-nlp#9, huggingface/transformers#6680
    assert split_words("İki IĞDIR I\u0307stanbul DİYARBAKIR", language) == ["iki", "ığdır", "istanbul", "diyarbakır"]


def test_a_second_dot_is_no_letter_in_other_languages():
    assert split_words("İstanbul IJssel", "nl") == ["istanbul", "ijssel"]


def test_armenian_questions_and_hebrew_acronyms_have_a_mark_within_the_word():
    # Unicode's UAX #29, which divides no words there
    assert split_words("Ո՞ւր է, իհա՛րկե՜։", "hy") == ["ուր", "է", "իհարկե"]
    assert split_words('צה"ל, "צה״ל"', "he") == ["צהל", "צהל"]


def test_forms_that_scorers_tell_apart():
    assert split_words("Straße ２０１９ كتـــاب", "de") == ["straße", "２０１９", "كتـــاب"]
