"""Words as units of comparison, and the checks of texts that come before every measure."""

import re
import unicodedata
import warnings
from collections.abc import Iterable, Sequence

from hf_summ.common.messages import check_choice
from hf_summ.data.languages import language_code
from hf_summ.models.checks import check_list, check_text, check_texts, is_list
from hf_summ.models.text_documents import IDEOGRAPHS, RUNNING, marks
from hf_summ.models.text_processing_recurrent import washed

_ENGLISH_WORD = re.compile("[a-z0-9]+")
_LETTERS = rf"[^\W_{IDEOGRAPHS}]"
# Each ideograph counts as a word.
_WORD = re.compile(rf"{_LETTERS}++(?:[{marks()}]+{_LETTERS}*+)*+|[{IDEOGRAPHS}]")
# Characters of scripts that put no spaces between words.
_RUN = re.compile(f"[{RUNNING}]+")
# If the runs of a text are longer on average, they are not words, and the text has no spaces. Words have about five
# characters, and the runs of texts without spaces have about thirty.
_LONG_RUN = 12
# Units of languages other than English: words, or the characters that DRGD's program compares on LCSTS.
UNITS = ("words", "lcsts")
_CHARACTER = re.compile(rf"\S[{marks()}]*")
# Characters within words that are left out: soft hyphens, Armenian marks of stress and of questions, and the quotation
# marks of Hebrew acronyms.
_WITHIN = re.compile('[\xad՛-՞]|["״](?<=[א-ת].)(?=[א-ת])')
# Languages with a letter ı, whose capital is I.
_DOTLESS = ("tr", "az")
# A punctuation mark, which is neither space nor in a word of any script. Accents and the like belong to words.
_MARK = re.compile(rf"([^\w\s{marks()}])")
_FOREIGN_LETTER = re.compile(r"[^\W\d_a-zA-Z]")
# The share of foreign letters from which on a text is not English. English news has a lower share, in names and loan
# words, and German and French have a higher share.
_FOREIGN_SHARE = 0.005


def split_words(text: str, language: str = "en", units: str = "words") -> list[str]:
    """The words of a text that ROUGE compares, in their order: lowercased, without punctuation, not stemmed.

    Args:
        text: a text of any length, which may be blank.
        language: ISO 639 code. English words consist of a-z and 0-9. Other languages are split into words of any
            script, whose accents may be composed or not (NFC), and Chinese and Japanese into characters. Other
            spellings stay different, as in sacreBLEU: ß and ss, full and half width, words with and without tatweel.
        units: the units of languages other than English. "words" are the words above; "lcsts" are the characters that
            DRGD's program compares, without space, most digits and punctuation. For English, `units` has no effect.

    Raises:
        TypeError: `text` or `language` is not a string.
        ValueError: the language is unknown.
    """
    check_text("text", text)
    if is_english(language):
        return _ENGLISH_WORD.findall(text.lower())
    text = _normalized(text, language)
    if units == "lcsts":
        return _CHARACTER.findall(washed(text, "lcsts"))
    return _WORD.findall(text)


def _normalized(text: str, language: str) -> str:
    """The text in lower case, with composed accents (NFC), and without the marks that words leave out."""
    return _WITHIN.sub("", unicodedata.normalize("NFC", lowercased(text, language)))


def lowercased(text: str, language: str) -> str:
    """The text in lower case.

    In Turkish and Azerbaijani, I becomes ı, and İ becomes i. In other languages, İ becomes i without a second dot.
    """
    if language_code(language) in _DOTLESS:
        text = text.replace("I\u0307", "i").replace("I", "ı")
    return text.lower().replace("i\u0307", "i")


def check_units(units: str, language: str) -> None:
    """Check that a language has such units.

    Raises:
        ValueError: `units` is not one of `UNITS`, or is "lcsts" though the language is English.
    """
    check_choice("`units`", units, UNITS)
    if units != "words" and is_english(language):
        raise ValueError(f"`units` is '{units}', but English is read as words of a-z and 0-9: name another `language`")


def split_words_and_marks(text: str, language: str = "en") -> list[str]:
    """The words of a text, in their order, where each punctuation mark is a word too.

    Args:
        language: as for `split_words`.

    Raises:
        TypeError: `text` is not a string.
        ValueError: the language is unknown.
    """
    check_text("text", text)
    if is_english(language):
        text, word_pattern = text.lower(), _ENGLISH_WORD
    else:
        # Marks within words are left out before the text is cut at marks.
        text, word_pattern = _normalized(text, language), _WORD
    words = []
    for piece in _MARK.split(text):
        if _MARK.fullmatch(piece):
            words.append(piece)
        else:
            words.extend(word_pattern.findall(piece))
    return words


def is_english(language: str) -> bool:
    """Whether an ISO 639 code, with or without a region, means English."""
    return language_code(language) == "en"


def check_lengths(**lists: Sequence) -> None:
    """Check two lists, which are given by name, such as `check_lengths(predictions=…, sources=…)`.

    Raises:
        TypeError: a value is not a list.
        ValueError: the lengths of the lists differ, or both lists are empty.
    """
    for name, values in lists.items():
        check_list(name, values)
    first_name, second_name = lists
    first_length, second_length = len(lists[first_name]), len(lists[second_name])
    if first_length != second_length:
        raise ValueError(f"{first_length} {first_name} but {second_length} {second_name}: each needs its counterpart")
    if first_length == 0:
        raise ValueError(f"nothing to score: there are no {first_name} and no {second_name}")


def check_pairs(**texts: Sequence[str]) -> None:
    """Check two lists of texts, which are given by name, such as `check_pairs(predictions=…, sources=…)`.

    Raises:
        TypeError: a value is not a list, or an item of a list is not a string.
        ValueError: the lengths of the lists differ, or both lists are empty.
    """
    check_lengths(**texts)
    for name, values in texts.items():
        check_texts(name, values)


def check_rows(predictions: Sequence[str], references: Sequence[str | Sequence[str]]) -> list[list[str]]:
    """Check predictions and references, and give the list of each row's references, (N,).

    Args:
        predictions: (N,), one text per row.
        references: (N,), a text or a list of texts per row.

    Raises:
        TypeError: `predictions` or `references` is not a list.
        ValueError: the numbers of predictions and references differ, there are none, a row has no reference, or a value
            is not a string.
    """
    check_lengths(predictions=predictions, references=references)
    reference_lists: list[list] = []
    for position, (prediction, row) in enumerate(zip(predictions, references, strict=True)):
        row_references = [row]
        # Most rows are strings, for which `is_list` is slow.
        if not isinstance(row, str) and is_list(row):
            row_references = list(row)
        if not row_references:
            raise ValueError(f"row {position} has no reference: give at least one text, which may be empty")
        _check_string(prediction, position)
        for reference in row_references:
            _check_string(reference, position)
        reference_lists.append(row_references)
    return reference_lists


def _check_string(text: object, position: int) -> None:
    """Raise a ValueError if a prediction or a reference of the row at this position is not a string."""
    if not isinstance(text, str):
        raise ValueError(
            f"texts must be strings, but row {position} holds {type(text).__name__}: {text!r:.80}; give '' for an "
            "empty text"
        )


def warn_of_wordless(
    wordless_rows: Sequence[int],
    noun: str,
    total: int,
    effect: str,
    language: str,
    required: bool = True,
    stacklevel: int = 3,
) -> None:
    """Warn of the rows whose texts have no words, if there are any.

    Args:
        wordless_rows: the numbers of the rows whose texts have no words, counted from 0.
        noun: what the texts are called, such as "sources".
        total: how many texts there are, with and without words.
        effect: what happens to texts without words, such as "are left out".
        language: ISO 639 code of the texts, for the message.
        required: whether at least one text must have words.
        stacklevel: as in `warnings.warn`; 3 is the caller's caller.

    Raises:
        ValueError: no text has any words, or there are no texts at all, and `required` is true.

    Warns:
        UserWarning: some texts have no words.
    """
    if required and len(wordless_rows) == total:
        raise ValueError(no_words_message(f"none of the {total} {noun} has any words", language))
    if wordless_rows:
        listed = first_of(wordless_rows)
        finding = f"{len(wordless_rows)} of {total} {noun} have no words and {effect}: rows {listed}, counted from 0"
        warnings.warn(no_words_message(finding, language), stacklevel=stacklevel)


def first_of(rows: Sequence[object]) -> str:
    """The names or numbers of the first five rows with commas between them, and how many more rows there are."""
    listed = ", ".join([str(row) for row in rows[:5]])
    if len(rows) > 5:
        return f"{listed} and {len(rows) - 5} more"
    return listed


def no_words_message(finding: str, language: str) -> str:
    """The message that texts have no words, with a possible reason.

    Args:
        finding: which texts have no words, such as "source 3 has no words".
        language: ISO 639 code of the texts.
    """
    message = f"{finding} (language '{language}')"
    if is_english(language):
        message += "; English is read as a-z and 0-9, so name the language of other scripts"
    return message


def warn_of_script(references: Iterable[str], language: str) -> None:
    """Warn of references whose words cannot be separated.

    Args:
        references: the texts of all references.
        language: ISO 639 code that was given for the texts.

    Warns:
        UserWarning: the language is English, but the references have more letters outside a to z than English texts
            have. Or the language is not English, and the references have no spaces between words and are not read by
            characters.
    """
    if is_english(language):
        _warn_of_foreign_letters(references)
    else:
        _warn_of_long_runs(references, language)


def _warn_of_foreign_letters(references: Iterable[str]) -> None:
    """Warn if the share of letters outside a to z is higher than in English."""
    characters = 0
    foreign_letters = 0
    for text in references:
        characters += len(text)
        if not text.isascii():
            foreign_letters += len(_FOREIGN_LETTER.findall(text))
    if foreign_letters > _FOREIGN_SHARE * characters:
        warnings.warn(
            f"the references have {foreign_letters} letters outside a to z, at which ROUGE splits words: unless they "
            "are English, set `language`",
            stacklevel=4,
        )


def _warn_of_long_runs(references: Iterable[str], language: str) -> None:
    """Warn if the runs of characters in scripts without spaces are so long that they cannot be words."""
    lengths = []
    for text in references:
        if not text.isascii():
            for run in _RUN.findall(text):
                lengths.append(len(run))
    if not lengths:
        return
    mean_length = sum(lengths) / len(lengths)
    if mean_length > _LONG_RUN:
        warnings.warn(
            f"the references have no spaces between words, but runs of {mean_length:.0f} characters, each of which "
            f"counts as one word (language '{language}'): put spaces between the words of all texts",
            stacklevel=4,
        )
