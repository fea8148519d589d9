"""Marks of letters, which `\\w` does not match, as ranges for a regular expression's character class."""

import sys
import unicodedata


def _mark_ranges() -> str:
    ranges: list[list[int]] = []
    # no mark has a smaller code; from 0x20000 on there are ideographs, then variation selectors
    for code in (*range(0x300, 0x20000), *range(0xE0100, min(0xE01F0, sys.maxunicode))):
        if unicodedata.category(chr(code)).startswith("M"):
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


# vowel signs, accents and the like, which belong to the preceding letter, and the joiners of Persian and Indian scripts
MARKS = f"{_mark_ranges()}\u200c\u200d"
