"""Washing: what the programs of published systems delete from every text."""

import re

# white space, digits and punctuation of ASCII, and the Chinese marks that DRGD's program for LCSTS lists
_LCSTS = r"\s!-@\[-`{-~·…‘’“”《》「」『』【】、（）：￥"
# name -> what is deleted from lower case, of summaries and of documents; these are split into clauses and joined again
WASHINGS = {"lcsts": (re.compile(f"[{_LCSTS}]+"), re.compile(f"[{_LCSTS}。！？，；]+"))}


def washed(text: str, washing: str | None, is_document: bool = False) -> str:
    """The text as a washing leaves it, or as it is.

    Args:
        washing: None, or a name in `WASHINGS`. `lcsts` is that of DRGD's program for LCSTS: the text is in lower case,
            without white space and without ASCII's and most of Chinese digits and punctuation. So Latin words run
            together, and numbers are lost; but full-width digits stay, and so do marks such as `％` and `—`.
        is_document: whether the text also loses `。！？，；`, which summaries keep.
    """
    return text if washing is None else WASHINGS[washing][is_document].sub("", text.lower())
