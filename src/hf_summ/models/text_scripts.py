"""What `\\w` does not know of scripts: marks that belong to letters, and words without spaces between them.

All are the inside of a regular expression's class.
"""

import sys
import unicodedata


def _mark_ranges() -> str:
    ranges: list[list[int]] = []
    # no mark has a smaller code, and from 0x20000 on there are ideographs, then variation selectors
    for code in (*range(0x300, 0x20000), *range(0xE0100, min(0xE01F0, sys.maxunicode))):
        if unicodedata.category(chr(code)).startswith("M"):
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


# vowel signs, accents and the like, each part of the letter before it; with the joiners of Persian and Indian scripts
MARKS = f"{_mark_ranges()}\u200c\u200d"
# Japanese and Chinese
IDEOGRAPHS = "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
# Thai, Lao, Burmese, Khmer and Tai scripts, whose words only a dictionary can part
RUNNING = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf"
