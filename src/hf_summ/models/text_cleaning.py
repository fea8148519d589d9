"""What a text needs before any tokenizer can read it."""


def readable(text: str) -> str:
    """The text with U+FFFD for each lone surrogate, which is no character and stops every tokenizer.

    Two that make a pair become their character.
    """
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
