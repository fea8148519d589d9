"""Washing: what the programs of published systems delete from every text."""

import re

# ASCII punctuation and its wide forms; then the quotation marks, dashes, dots and brackets of Chinese
_PUNCTUATION = (
    r"!-/:-@\[-`{-~"
    "\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65\uffe5"
    "\u00b7\u2010-\u201f\u2022\u2026\u2027\u3001-\u3003\u3008-\u3011\u3014-\u301f\u3030\ufe30-\ufe4f"
)
_LCSTS = re.compile(rf"[\s\d{_PUNCTUATION}]+")
# name -> what is deleted from lower case
WASHINGS = {"lcsts": _LCSTS}


def washed(text: str, washing: str | None) -> str:
    """The text as a washing leaves it, or as it is.

    Args:
        washing: None, or a name in `WASHINGS`. `lcsts` is that of DRGD's program for LCSTS: the text is in lower case,
            without white space, digits, and ASCII and Chinese punctuation. So Latin words run together, and numbers
            are lost.
    """
    return text if washing is None else WASHINGS[washing].sub("", text.lower())
