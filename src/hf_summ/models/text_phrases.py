"""Key phrases of texts: word bigrams and trigrams by tf-idf, and their positions (Liu et al. 2021, section 4.1)."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .checks import check_texts, is_list, is_number
from .text_documents import marks

# words and stop words as in scikit-learn's TfidfVectorizer, except that marks do not split words
_WORD = re.compile(rf"\w[\w{marks()}]+")
STOP_WORDS = frozenset(
    """
    a about above across after afterwards again against all almost alone along already also although always am among
    amongst amoungst amount an and another any anyhow anyone anything anyway anywhere are around as at back be became
    because become becomes becoming been before beforehand behind being below beside besides between beyond bill both
    bottom but by call can cannot cant co con could couldnt cry de describe detail do done down due during each eg eight
    either eleven else elsewhere empty enough etc even ever every everyone everything everywhere except few fifteen
    fifty fill find fire first five for former formerly forty found four from front full further get give go had has
    hasnt have he hence her here hereafter hereby herein hereupon hers herself him himself his how however hundred i ie
    if in inc indeed interest into is it its itself keep last latter latterly least less ltd made many may me meanwhile
    might mill mine more moreover most mostly move much must my myself name namely neither never nevertheless next nine
    no nobody none noone nor not nothing now nowhere of off often on once one only onto or other others otherwise our
    ours ourselves out over own part per perhaps please put rather re same see seem seemed seeming seems serious several
    she should show side since sincere six sixty so some somehow someone something sometime sometimes somewhere still
    such system take ten than that the their them themselves then thence there thereafter thereby therefore therein
    thereupon these they thick thin third this those though three through throughout thru thus to together too top
    toward towards twelve twenty two un under until up upon us very via was we well were what whatever when whence
    whenever where whereafter whereas whereby wherein whereupon wherever whether which while whither who whoever whole
    whom whose why will with within without would yet you your yours yourself yourselves
    """.split()
)
_SIZES = (2, 3)
# separators between the words of a phrase
_GAP = re.compile(r"\s+|-")
# characters inside words, except ideographs, which have no spaces around them
_IN_WORD = re.compile(rf"[^\W\u2e80-\u9fff\uf900-\ufaff]|[{marks()}]")
_ENDS_WORD = re.compile(rf"[^\W_]|[{marks()}]")


@dataclass(frozen=True)
class Phrase:
    """A phrase of an example.

    Attributes:
        text: its words in lower case, or the user's text.
        value: its importance.
        spans: its occurrences: index of the document, first character, and exclusive end.
    """

    text: str
    value: float
    spans: tuple[tuple[int, int, int], ...]


def candidates(text: str) -> Iterator[tuple[str, int, int]]:
    """The phrases of a text with their [start, end) characters, by first word, short ones first.

    A phrase has two or three words, none of them a stop word, separated by white space or a hyphen.
    """
    words = [(match.group().lower(), match.start(), match.end()) for match in _WORD.finditer(text)]
    for first, (_, start, end) in enumerate(words):
        phrase: list[str] = []
        for word, begin, stop in words[first : first + max(_SIZES)]:
            if word in STOP_WORDS or (phrase and not _GAP.fullmatch(text[end:begin])):
                break
            phrase.append(word)
            end = stop
            if len(phrase) in _SIZES:
                yield " ".join(phrase), start, end


def key_phrases(
    documents: Sequence[str], frequencies: Mapping[str, int], examples: int, number: int = 10
) -> list[Phrase]:
    """The phrases of an example's documents with the highest tf-idf, ties by first occurrence.

    Values are scikit-learn's: tf times ln((1 + examples) / (1 + df)) + 1, over the L2 norm of all of the example's
    phrases.

    Args:
        frequencies: phrase -> the number of examples that contain it (df); unlisted phrases count as 1.
        examples: the number of these examples.
        number: maximum number of phrases to return.
    """
    spans: dict[str, list[tuple[int, int, int]]] = {}
    for index, text in enumerate(documents):
        for phrase, start, end in candidates(text):
            spans.setdefault(phrase, []).append((index, start, end))
    scale = math.log(1 + examples)
    weights = {
        phrase: len(own) * (scale - math.log(1 + frequencies.get(phrase, 1)) + 1) for phrase, own in spans.items()
    }
    norm = math.sqrt(sum(weight * weight for weight in weights.values())) or 1.0
    best = sorted(weights, key=lambda phrase: -weights[phrase])[:number]
    return [Phrase(phrase, weights[phrase] / norm, tuple(spans[phrase])) for phrase in best]


def document_frequencies(examples: Iterable[Sequence[str]], largest: int | None = None) -> tuple[dict[str, int], int]:
    """Phrase -> the number of examples (lists of documents) that contain it, if at least two; and that of examples.

    Args:
        largest: maximum number of phrases to keep, the most frequent ones.
    """
    return frequencies_from_two(
        ((phrase for text in documents for phrase, _, _ in candidates(text)) for documents in examples), largest
    )


def frequencies_from_two(collection: Iterable[Iterable[str]], largest: int | None = None) -> tuple[dict[str, int], int]:
    """Term -> the number of a collection's members that contain it, if at least two; and the number of all members.

    Args:
        largest: maximum number of terms to keep, the most frequent ones.
    """
    counts: Counter[str] = Counter()
    number = 0
    for terms in collection:
        number += 1
        # in their order, so a limit always keeps the same terms
        counts.update(list(dict.fromkeys(terms)))
    return dict(sorted(entry for entry in counts.most_common(largest) if entry[1] > 1)), number


def locate_phrases(documents: Sequence[str], phrases: Mapping[str, float] | Sequence[str]) -> list[Phrase]:
    """A user's phrases in the documents, regardless of case, space and hyphens; phrases with value 0 are omitted.

    Args:
        documents: the documents of one example.
        phrases: phrase -> value, or phrases with value 1.
    """
    values = phrases
    if not isinstance(phrases, Mapping):
        check_texts("phrases", phrases)
        values = dict.fromkeys(phrases, 1.0)
    located = []
    for text, value in values.items():
        if not isinstance(text, str) or not text.strip() or not is_number(value):
            raise ValueError(f"a phrase must be text with a finite value, but there is {text!r:.80}: {value!r:.80}")
        spans = [(index, *span) for index, document in enumerate(documents) for span in _occurrences(text, document)]
        if value:
            located.append(Phrase(text, float(value), tuple(spans)))
    return located


def _occurrences(phrase: str, document: str) -> Iterator[tuple[int, int]]:
    """The [start, end) of a phrase in a text; occurrences that begin or end inside a word are skipped."""
    words = [re.escape(word) for word in re.split(r"[\s-]+", phrase) if word] or [re.escape(phrase.strip())]
    # the class of all marks takes milliseconds to compile: check edges outside each phrase's pattern
    pattern = re.compile(r"(?:\s+|-)".join(words), re.IGNORECASE)
    begins_word, ends_word = phrase.strip()[0].isalnum(), _ENDS_WORD.match(phrase.strip()[-1])
    position = 0
    while match := pattern.search(document, position):
        start, end = match.span()
        is_cut = (begins_word and start and _IN_WORD.match(document, start - 1)) or (
            ends_word and _IN_WORD.match(document, end)
        )
        if not is_cut:
            yield start, end
        position = start + 1 if is_cut else end


def read_phrases(value: Any) -> Mapping[str, float] | Sequence[str] | None:
    """Phrases of a corpus's row: a mapping or a list, also as JSON text, or None."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except json.JSONDecodeError as error:
            raise ValueError(f'`phrases` must be JSON such as {{"TEXT": VALUE}}, but is {value!r:.60}') from error
    if isinstance(value, Mapping):
        # a column of mappings has the keys of all rows
        return {text: number for text, number in value.items() if number is not None}
    if value is not None and not is_list(value):
        raise TypeError(f"`phrases` must be a mapping of texts to values or a list of texts, but is {value!r:.60}")
    return value
