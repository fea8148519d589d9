"""Characters that tokenizers cannot read, and scripts without spaces between words."""

# Japanese and Chinese; these ranges are the inside of a regular expression's class
IDEOGRAPHS = "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
# Thai, Lao, Burmese, Khmer and Tai scripts, whose words only a dictionary can part
RUNNING = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf"


def readable(text: str) -> str:
    """The text with U+FFFD in place of each lone surrogate, which is not a character and stops every tokenizer.

    Two surrogates that form a pair become their character.
    """
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
