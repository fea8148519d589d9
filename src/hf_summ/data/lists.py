"""What a list of texts in a column is: sentences of one text, several documents, or several references."""

import re
from collections.abc import Sequence
from itertools import pairwise

from hf_summ.data.former_columns import LIST_COLUMNS, MEANINGS
from hf_summ.data.marks import SENTENCE_TAGS
from hf_summ.data.sentence_rules import STOP, UNSPACED_STOPS
from hf_summ.models.text_documents import IDEOGRAPHS, RUNNING, marks

# lists whose members have at most so many ends of sentences within are of sentences; near it, the guess is doubtful
_MOST_ENDS, _DOUBT = 0.3, 0.15
# more documents on average may be paragraphs of one
_MAX_DOCUMENTS = 10
# references of one document share at least this share of their longer words
_SHARED = 0.18
_INNER_END = re.compile(rf"""{STOP}["'”’»)\]]*\s+(?=\S*\w)|[{UNSPACED_STOPS}।](?=\w)""")
_ENDS = re.compile(rf"""(?:{STOP}|[…:;])["'”’»)\]]*\s*$""")
# with vowel signs; a Korean syllable is one character
_LONGER = re.compile(rf"(?:[^\W_]|[{marks()}]){{4,}}|[{IDEOGRAPHS}]|[\uac00-\ud7a3]{{2,}}")
# in a text of several words, or in a script without spaces between them
_PHRASE = re.compile(rf"\s|[{IDEOGRAPHS}{RUNNING}]")
_TAG = re.compile("|".join(map(re.escape, SENTENCE_TAGS)))


class Lists:
    """The lists in a chosen column, seen row by row, of which `meaning` says what they are.

    Args:
        column: "document" or "summary".
        name: its name in the corpus.
        meanings: what lists are, see `meaning`; guessed if not given.

    Attributes:
        rows, members: how many lists were seen, and their members.
    """

    def __init__(self, column: str, name: str, meanings: Sequence[str] | None = None):
        # what a list is unless it is one of sentences
        self._own, self._name = LIST_COLUMNS[column], name
        meanings = [meanings] if isinstance(meanings, str) else meanings or ()
        # several columns are several texts, and lists in columns that this package writes are what their names say
        is_own = self._own in meanings or (not meanings and (name == self._own or "," in name))
        self._given = self._own if is_own else next((m for m in meanings if m == "sentences"), None)
        self.rows = self.members = self._ends = self._tagged = self._pairs = 0
        self._shared = 0.0

    def add(self, members: Sequence[str | None]) -> None:
        """Count a row's list."""
        texts = [member for member in members if member]
        self.rows += 1
        self.members += len(texts)
        self._ends += sum(len(_INNER_END.findall(text)) for text in texts)
        # texts have tags between their sentences
        self._tagged += sum(_TAG.search(text) is not None and len(_parts(text)) == 1 for text in texts)
        words = [set(_LONGER.findall(text.lower())) for text in texts]
        for one, other in pairwise(filter(None, words)):
            self._pairs += 1
            self._shared += len(one & other) / min(len(one), len(other))

    @property
    def meaning(self) -> str:
        """One of `MEANINGS`."""
        return self._given or self._guess()[0]

    def note(self) -> str | None:
        """A line that tells the guess and the setting that decides, if there are lists and one is guessed."""
        if not self.rows or self._given:
            return None
        meaning, is_doubtful = self._guess()
        other = self._own if meaning == "sentences" else "sentences"
        doubt = f", which is doubtful: set `lists` to {other} if they are" if is_doubtful else ", see `lists`"
        return (
            f"'{self._name}' has lists of {self.members / self.rows:.1f} texts on average, read as "
            f"{MEANINGS[meaning]}{doubt}"
        )

    def _guess(self) -> tuple[str, bool]:
        """The meaning, and whether it is doubtful."""
        ends = self._ends / max(self.members, 1)
        if self._own == "documents":
            is_doubtful = abs(ends - _MOST_ENDS) < _DOUBT or (
                ends > _MOST_ENDS and self.members > _MAX_DOCUMENTS * self.rows
            )
            return "sentences" if ends <= _MOST_ENDS else "documents", is_doubtful
        if self._tagged or not self._pairs:
            return "sentences" if self._tagged else "references", False
        shared = self._shared / self._pairs
        is_sentences = ends <= _MOST_ENDS and shared < _SHARED
        return "sentences" if is_sentences else "references", abs(shared - _SHARED) < _SHARED / 2


def _parts(text: str) -> list[str]:
    """What is between the tags of a text."""
    return list(filter(None, map(str.strip, _TAG.split(text))))


def joined_sentences(members: Sequence[str | None]) -> str:
    """The text of a list of sentences, which tags end too, or of words; a line ends where a stop is missing."""
    sentences = [text for member in members if member for text in _parts(member)]
    if not any(map(_PHRASE.search, sentences)):
        return " ".join(sentences)
    # Chinese and Japanese have no space between sentences
    return "".join(
        text if text.endswith(("。", "！", "？")) else f"{text} " if _ENDS.search(text) else f"{text}\n"
        for text in sentences
    ).rstrip()
