"""What a text needs before any tokenizer can read it."""


def readable(text: str) -> str:
    """The text with a question mark for each lone surrogate, which is no character and stops every tokenizer."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
