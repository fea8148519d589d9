"""Codes of languages."""

from functools import cache

from hf_summ.models.checks import check_text


def language_code(language: str) -> str:
    """The code of a language without its script and region: en for en-GB, eng and eng_Latn.

    It is the code that langcodes prefers for the language or for its macrolanguage, with two letters if such a code
    exists: zh for zho and cmn, fa for pes.

    Raises:
        TypeError: `language` is not a string.
        ValueError: `language` is no valid code.
    """
    check_text("language", language)
    return _standard_code(language)


@cache
def _standard_code(language: str) -> str:
    """See `language_code`."""
    # The library is imported here, as its tables take 20 ms to load, and most commands need no language.
    import langcodes

    problem = f"`language` is {language!r:.80}, but must be an ISO 639 code, such as en, de or zh"
    try:
        tag = langcodes.standardize_tag(language, macro=True)
    except langcodes.LanguageTagError as error:
        raise ValueError(problem) from error
    code = langcodes.get(tag).language
    if code is None or not langcodes.tag_is_valid(tag):
        raise ValueError(problem)
    return code
