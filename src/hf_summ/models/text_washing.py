"""Washing: characters that the programs of published systems delete from every text."""

import re

# white space, ASCII digits and punctuation, and the Chinese marks listed in DRGD's program for LCSTS
_LCSTS = r"\s!-@\[-`{-~·…‘’“”《》「」『』【】、（）：￥"
# name -> characters deleted from lower-case summaries and documents; the program splits documents into clauses, and
# joins them again
WASHINGS = {"lcsts": (re.compile(f"[{_LCSTS}]+"), re.compile(f"[{_LCSTS}。！？，；]+"))}


def washed(text: str, washing: str | None, is_document: bool = False) -> str:
    """Wash a text; with None it is unchanged.

    Args:
        washing: None, or a name in `WASHINGS`. `lcsts` follows DRGD's program for LCSTS: the text is lower-cased, and
            white space, ASCII digits and punctuation and most Chinese punctuation are deleted. Latin words run
            together, and numbers are lost, but full-width digits and marks such as `％` and `—` remain.
        is_document: whether to delete `。！？，；` as well, which summaries keep.
    """
    return text if washing is None else WASHINGS[washing][is_document].sub("", text.lower())
