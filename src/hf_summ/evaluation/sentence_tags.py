"""Tags between sentences, which published systems write into files with one summary per line."""

import re

# those of PreSumm, Pegasus, the pointer-generator network, bottom-up summarization, ProphetNet, and UniLM and arXiv
SENTENCE_TAGS = ("<q>", "<n>", "<s>", "</s>", "<t>", "</t>", "[X_SEP]", "<S_SEP>", "<S>", "</S>")


def tag_pattern(separator: str | None = None) -> re.Pattern[str]:
    """What finds tags.

    Args:
        separator: what stands between sentences, such as `|||`; by default any of `SENTENCE_TAGS`.

    Raises:
        ValueError: `separator` is blank.
    """
    if separator is None:
        return re.compile("|".join(map(re.escape, SENTENCE_TAGS)))
    if not separator.strip():
        raise ValueError(f"`separator` is {separator!r}, but must be a tag or a mark between sentences")
    return re.compile(re.escape(separator.strip()))


def without_tags(text: str, tag: re.Pattern[str]) -> str:
    """The text with line ends in place of tags."""
    parts = tag.split(text)
    return text if len(parts) == 1 else "\n".join(part for line in parts if (part := line.strip()))
