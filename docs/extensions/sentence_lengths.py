"""Prints the mean number of words of a sentence on each page: `sentence_lengths.py PAGE.md ...`."""

import re
import sys
from pathlib import Path

from hf_summ.data import split_sentences

# blocks of code and directives, comments, tables, headings, images, and the targets of links
_NO_PROSE = r"(?ms)^```.*?^```$|<!--.*?-->|^\|.*?$|^#.*?$|!\[.*?\]\(.*?\)|(?<=\])\(.*?\)"


def sentences(text: str) -> list[str]:
    """The sentences of a page's paragraphs and list items."""
    prose = re.sub(_NO_PROSE, "", text)
    paragraphs = re.split(r"\n\s*(?:\n|- |\d+\. )", prose)
    return [sentence for part in paragraphs for sentence in split_sentences(" ".join(part.split()))]


if __name__ == "__main__":
    total = []
    for page in map(Path, sys.argv[1:]):
        lengths = [len(sentence.split()) for sentence in sentences(page.read_text(encoding="utf-8"))]
        total += lengths
        if lengths:
            print(f"{sum(lengths) / len(lengths):5.1f} words a sentence, {len(lengths):4} sentences: {page}")
    print(f"{sum(total) / len(total):5.1f} words a sentence, {len(total):4} sentences: all")
