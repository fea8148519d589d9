"""The text side of Highlight-Transformer's processor: subwords, and key phrases among them (Liu et al. 2021, 4.1).

Key phrases are word bigrams and trigrams with the highest tf-idf, or a user's own.
"""

import json
import logging
import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from .checks import check_integer, check_list, check_texts, is_list, is_number
from .text_documents import JoinedRow, marks
from .text_processing_base import CopyingTextProcessor

logger = logging.getLogger(__name__)

Phrases = Mapping[str, float] | Sequence[str]
_PHRASE_FIELDS = ("phrase_starts", "phrase_ends", "phrase_values")
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


def candidates(text: str, skip_stop_words: bool = False) -> Iterator[tuple[str, int, int]]:
    """The phrases of a text with their [start, end) characters, by first word, short ones first.

    A phrase has two or three words, none of them a stop word, separated by white space or a hyphen.

    Args:
        skip_stop_words: leave stop words out before words are joined, whatever is between them, as scikit-learn's
            n-grams do. The characters of a phrase then include what was left out.
    """
    words = [(match.group().lower(), match.start(), match.end()) for match in _WORD.finditer(text)]
    if skip_stop_words:
        words = [word for word in words if word[0] not in STOP_WORDS]
    for first, (_, start, end) in enumerate(words):
        phrase: list[str] = []
        for word, begin, stop in words[first : first + max(_SIZES)]:
            is_apart = phrase and not skip_stop_words and not _GAP.fullmatch(text[end:begin])
            if word in STOP_WORDS or is_apart:
                break
            phrase.append(word)
            end = stop
            if len(phrase) in _SIZES:
                yield " ".join(phrase), start, end


def key_phrases(
    documents: Sequence[str],
    frequencies: Mapping[str, int],
    examples: int,
    number: int = 10,
    skip_stop_words: bool = False,
) -> list[Phrase]:
    """The phrases of an example's documents with the highest tf-idf, ties by first occurrence.

    Values are scikit-learn's: tf times ln((1 + examples) / (1 + df)) + 1, over the L2 norm of all of the example's
    phrases.

    Args:
        frequencies: phrase -> the number of examples that contain it (df); unlisted phrases count as 1.
        examples: the number of these examples.
        number: maximum number of phrases to return.
        skip_stop_words: as for `candidates`.
    """
    spans: dict[str, list[tuple[int, int, int]]] = {}
    for index, text in enumerate(documents):
        for phrase, start, end in candidates(text, skip_stop_words):
            spans.setdefault(phrase, []).append((index, start, end))
    scale = math.log(1 + examples)
    weights = {
        phrase: len(own) * (scale - math.log(1 + frequencies.get(phrase, 1)) + 1) for phrase, own in spans.items()
    }
    norm = math.sqrt(sum(weight * weight for weight in weights.values())) or 1.0
    best = sorted(weights, key=lambda phrase: -weights[phrase])[:number]
    return [Phrase(phrase, weights[phrase] / norm, tuple(spans[phrase])) for phrase in best]


def document_frequencies(
    examples: Iterable[Sequence[str]], largest: int | None = None, skip_stop_words: bool = False
) -> tuple[dict[str, int], int]:
    """Phrase -> the number of examples (lists of documents) that contain it, if at least two; and that of examples.

    Args:
        largest: maximum number of phrases to keep, the most frequent ones.
        skip_stop_words: as for `candidates`.
    """
    return frequencies_from_two((_phrases_of(documents, skip_stop_words) for documents in examples), largest)


def _phrases_of(documents: Sequence[str], skip_stop_words: bool) -> Iterator[str]:
    for text in documents:
        for phrase, _, _ in candidates(text, skip_stop_words):
            yield phrase


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


class HighlightTransformerTextProcessor(CopyingTextProcessor):
    """The `TextProcessor` of Highlight-Transformer; see `HighlightTransformerProcessor`."""

    unaligned_fields = _PHRASE_FIELDS

    def __init__(
        self,
        tokenizer,
        max_source_length=500,
        max_target_length=300,
        document_separator=None,
        restore_case=False,
        document_frequencies=None,
        fitted_examples=0,
        num_phrases=10,
        skip_stop_words=False,
        chat_template=None,
        unknown_ids=0,
    ):
        check_integer("num_phrases", num_phrases, 1)
        check_integer("fitted_examples", fitted_examples, 0)
        self.document_frequencies: Any = document_frequencies
        self.fitted_examples = fitted_examples
        self.num_phrases = num_phrases
        self.skip_stop_words = skip_stop_words
        super().__init__(
            tokenizer,
            max_source_length,
            max_target_length,
            document_separator,
            restore_case,
            chat_template,
            unknown_ids,
        )

    @property
    def model_input_names(self) -> list[str]:
        return [*super().model_input_names, *_PHRASE_FIELDS]

    @property
    def padding_values(self) -> dict[str, Any]:
        return {**super().padding_values, "phrase_starts": 0, "phrase_ends": 0, "phrase_values": 0.0}

    def source_features(
        self,
        examples: list[list[str]],
        length: int | None,
        show_progress: bool,
        phrases: Phrases | Sequence[Phrases | None] | None = None,
    ) -> dict[str, list]:
        """The base's features, and rows of `phrase_starts`, `phrase_ends` and `phrase_values`.

        Args:
            phrases: for each example phrase -> value, or a list of phrases with value 1, or None to find them. With a
                single example, its phrases need no outer list. Values above 0 attract attention, values below 0
                reduce it; values of found phrases are at most 1.

        Raises:
            ValueError: finding phrases lacks fitted document frequencies, the numbers of `phrases` and examples
                differ, or as `locate_phrases`.
        """
        read = self._read(examples, length)
        fields: dict[str, list] = {name: [] for name in _PHRASE_FIELDS}
        for (example, row, offsets), own in zip(read, self._of_each(phrases, len(read)), strict=True):
            if own is None:
                texts = list(map(kept_text, example, offsets))
                assert self.document_frequencies is not None, "phrases are found only with them"
                settings = self.document_frequencies, self.fitted_examples, self.num_phrases, self.skip_stop_words
                located = key_phrases(texts, *settings)
            else:
                located = locate_phrases(example, own)
                _warn_of_ignored(located, row, offsets)
            entries = [entry for phrase in located for entry in _entries(phrase, row, offsets)]
            for column, name in enumerate(_PHRASE_FIELDS):
                fields[name].append([entry[column] for entry in entries])
        return {**self._features([row for _, row, _ in read]), **fields}

    def _read(
        self, examples: list[list[str]], length: int | None
    ) -> list[tuple[list[str], JoinedRow, list[list[tuple[int, int]]]]]:
        """Each example with its row and the offsets of each document's kept tokens."""
        rows, encoded = self._source_rows(examples, length, return_offsets_mapping=True)
        offsets = iter(encoded["offset_mapping"])
        return [
            (example, row, [next(offsets)[:number] for _, number in row.spans])
            for example, row in zip(examples, rows, strict=True)
        ]

    def _of_each(self, phrases, number: int) -> list[Phrases | None]:
        """The phrases given for each example, or None to find them."""
        if phrases is not None and not isinstance(phrases, (str, Mapping)):
            check_list("phrases", phrases)
        if isinstance(phrases, (str, Mapping)) or (
            number == 1 and phrases and all(isinstance(phrase, str) for phrase in phrases)
        ):
            phrases = [phrases]
        rows = [None] * number if phrases is None else [read_phrases(value) for value in phrases]
        if len(rows) != number:
            raise ValueError(f"there are phrases for {len(rows)} examples, but {number} examples: give each its own")
        if self.document_frequencies is None and None in rows:
            raise ValueError(
                "the processor has no document frequencies to find phrases by: fit them with `hf-summ key-phrases "
                "CORPUS --processor FOLDER --output FOLDER`, or give `phrases`"
            )
        return rows


def kept_text(text: str, tokens: Sequence[tuple[int, int]]) -> str:
    """The part of a text that its kept tokens cover, without a truncated last word."""
    end = tokens[-1][1] if tokens else 0
    in_word = re.compile(rf"[\w{marks()}]").match
    if in_word(text, end):
        while end and in_word(text, end - 1):
            end -= 1
    return text[:end]


def _entries(phrase: Phrase, row: JoinedRow, offsets: list[list[tuple[int, int]]]) -> Iterator[tuple[int, int, float]]:
    """The occurrences of a phrase in a row: first token, exclusive end, and value; truncated ones are skipped."""
    for document, start, end in phrase.spans:
        tokens = offsets[document]
        if tokens and end <= tokens[-1][1]:
            first = bisect_right(tokens, start, key=itemgetter(1))
            last = bisect_left(tokens, end, key=itemgetter(0))
            yield row.spans[document][0] + first, row.spans[document][0] + last, phrase.value


def _warn_of_ignored(phrases: Sequence[Phrase], row: JoinedRow, offsets: list[list[tuple[int, int]]]) -> None:
    """Warn of a user's phrases that do not occur in an example."""
    for phrase in phrases:
        if not any(_entries(phrase, row, offsets)):
            where = "occurs only in the truncated part" if phrase.spans else "does not occur in the text"
            logger.warning(f"the phrase {phrase.text!r:.80} {where}, and is ignored")
