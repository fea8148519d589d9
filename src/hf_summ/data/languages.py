"""Codes of languages, as the standard ISO 639 and language tags such as en-GB write them."""

from functools import cache

from hf_summ.models.checks import check_text


def language_code(language: str) -> str:
    """The standard code of a language, without script and region: en for en-GB, eng and eng_Latn.

    The library langcodes chooses the code. The code has two letters if ISO 639 has two letters for the language,
    otherwise three. A language that belongs to a macrolanguage gets the code of the macrolanguage: zh for cmn
    (Mandarin), fa for pes (Iranian Persian).

    Args:
        language: a code or a tag of a language.

    Raises:
        TypeError: `language` is not a string.
        ValueError: `language` is not a valid code.
    """
    # The check comes before the cached function, as the cache fails on unhashable arguments with another message.
    check_text("language", language)
    return _standard_code(language)


@cache
def _standard_code(language: str) -> str:
    """The code that `language_code` returns for a string; the codes of earlier calls are kept in a cache.

    Raises:
        ValueError: `language` is not a valid code.
    """
    # The library is imported here, as its tables take 20 ms to load, and most commands need no language.
    import langcodes

    problem = f"`language` is {language!r:.80}, but must be an ISO 639 code, such as en, de or zh"
    try:
        tag = langcodes.standardize_tag(language, macro=True)
    except langcodes.LanguageTagError as error:
        raise ValueError(problem) from error
    code = langcodes.get(tag).language
    # A tag may name only a script or a region, such as und-Latn, and then has no language.
    has_language = code is not None
    # A tag may have the form of a code that ISO 639 does not assign, such as xx.
    if not has_language or not langcodes.tag_is_valid(tag):
        raise ValueError(problem)
    return code
