"""Cleaning of texts, without which tokenizers may fail."""


def readable(text: str) -> str:
    """The text with U+FFFD in place of each lone surrogate, which is not a character and stops every tokenizer.

    Two surrogates that form a pair become their character.
    """
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
