"""What Highlight-Transformer's processor does with texts: subwords, and key phrases among them (Liu et al. 2021, 4.1).

Key phrases are the word bigrams and trigrams with the highest tf-idf, or phrases that the user gives. The document
frequency (df) of a phrase is the number of examples that contain it. An example is a text, or several documents with
one summary; a row is the list of the ids that a model reads of an example.
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
from typing import Any, NamedTuple

from .checks import check_integer, check_list, check_texts, is_list, is_number
from .text_documents import IDEOGRAPHS, RUNNING, marks
from .text_processing_base import CopyingTextProcessor, Documents, ReadSource

logger = logging.getLogger(__name__)

# A user's phrases for an example: phrase -> value, or a list of phrases, which all get the value 1. Values above 0
# attract the attention of the model. With `weighted` highlighting, values below 0 reduce it. With `additive` or
# `replacement` highlighting, a value matters only where phrases overlap, and values below 0 attract attention too.
Phrases = Mapping[str, float] | Sequence[str]
# The inputs of the model for phrases: the first token of each occurrence, the token after the last one, and the value.
_PHRASE_FIELDS = ("phrase_starts", "phrase_ends", "phrase_values")
# A word of two or more characters. Words and the stop words below are those of scikit-learn's TfidfVectorizer, except
# that vowel signs and accents do not split words.
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
# A phrase has one of these numbers of words.
_SIZES = (2, 3)
# What may separate two words of a phrase: white space or a hyphen.
_GAP = re.compile(r"\s+|-")
# Characters of scripts without spaces around words, among them radicals and Bopomofo.
_UNSPACED = f"\u2e80-\u33ff{IDEOGRAPHS}{RUNNING}"
# A character after which, or before which, a word goes on. No letter of such a script says so, but a vowel sign or an
# accent continues the letter before it in all scripts.
_BEFORE_REST = re.compile(rf"[^\W{_UNSPACED}]|(?![{_UNSPACED}])[{marks()}]")
_REST_OF_WORD = re.compile(rf"[^\W{_UNSPACED}]|[{marks()}]")
# A character at which a word may end: a letter, a digit, a vowel sign or an accent.
_ENDS_WORD = re.compile(rf"[^\W_]|[{marks()}]")


class Occurrence(NamedTuple):
    """An occurrence of a phrase in an example: the index of the document, and the [start, end) characters in it."""

    document: int
    start: int
    end: int


@dataclass(frozen=True)
class Phrase:
    """A phrase of an example.

    Attributes:
        text: the words of the phrase in lower case, or the text that the user gives.
        value: the importance of the phrase.
        spans: the occurrences of the phrase in the documents of the example.
    """

    text: str
    value: float
    spans: tuple[Occurrence, ...]


def candidates(text: str, skip_stop_words: bool = False) -> Iterator[tuple[str, int, int]]:
    """Yield the phrases of a text in the order of their first words, those of the same first word by length.

    A phrase has two or three words, none of them a stop word, separated by white space or a hyphen.

    Args:
        skip_stop_words: whether stop words, and whatever else is between two words, may also separate the words of a
            phrase, as in scikit-learn's n-grams. The phrase has no stop words then, but its characters include them.

    Yields:
        The phrase (its words in lower case, with single spaces between them), and its [start, end) characters.
    """
    # Each word in lower case, with its [start, end) characters.
    words = []
    for match in _WORD.finditer(text):
        word = match.group().lower()
        if not (skip_stop_words and word in STOP_WORDS):
            words.append((word, match.start(), match.end()))
    for first, (_, start, end) in enumerate(words):
        phrase: list[str] = []
        for word, word_start, word_end in words[first : first + max(_SIZES)]:
            is_apart = phrase and not skip_stop_words and not _GAP.fullmatch(text[end:word_start])
            if word in STOP_WORDS or is_apart:
                break
            phrase.append(word)
            end = word_end
            if len(phrase) in _SIZES:
                yield " ".join(phrase), start, end


def key_phrases(
    documents: Sequence[str],
    frequencies: Mapping[str, int],
    examples: int,
    number: int = 10,
    skip_stop_words: bool = False,
    prefix_length: int = 0,
) -> list[Phrase]:
    """The phrases of an example with the highest tf-idf, the highest first; of equal phrases, the first in the text.

    The value of a phrase is that of scikit-learn: tf · (ln((1 + examples) / (1 + df)) + 1), divided by the L2 norm of
    this number over all phrases of the example. Here tf is the number of occurrences in the example.

    Args:
        documents: the documents of the example.
        frequencies: phrase -> df, its document frequency; the df of phrases that are not listed is 1.
        examples: the number of examples in which the document frequencies were counted.
        number: maximum number of phrases to return.
        skip_stop_words: as for `candidates`.
        prefix_length: the number of characters at the beginning of the first document where no phrase begins.
    """
    occurrences: dict[str, list[Occurrence]] = {}
    for index, text in enumerate(documents):
        for phrase, start, end in candidates(text, skip_stop_words):
            is_in_prefix = index == 0 and start < prefix_length
            if not is_in_prefix:
                occurrences.setdefault(phrase, []).append(Occurrence(index, start, end))
    scale = math.log(1 + examples)
    weights = {}
    for phrase, places in occurrences.items():
        weights[phrase] = len(places) * (scale - math.log(1 + frequencies.get(phrase, 1)) + 1)
    norm = math.sqrt(sum(weight * weight for weight in weights.values())) or 1.0
    # Sorting keeps the order of equal weights.
    best = sorted(weights, key=lambda phrase: -weights[phrase])[:number]
    return [Phrase(phrase, weights[phrase] / norm, tuple(occurrences[phrase])) for phrase in best]


def document_frequencies(
    examples: Iterable[Sequence[str]], largest: int | None = None, skip_stop_words: bool = False
) -> tuple[dict[str, int], int]:
    """Count the examples that contain each phrase.

    Args:
        examples: for each example, the list of its documents.
        largest: maximum number of phrases to keep, the most frequent ones; None keeps all.
        skip_stop_words: as for `candidates`.

    Returns:
        Phrase -> document frequency, for phrases that at least two examples contain; and the number of all examples.
    """
    phrases_of_examples = (_phrases_of(documents, skip_stop_words) for documents in examples)
    return frequencies_from_two(phrases_of_examples, largest)


def _phrases_of(documents: Sequence[str], skip_stop_words: bool) -> Iterator[str]:
    """Yield the phrases of an example's documents, each as often as it occurs."""
    for text in documents:
        for phrase, _, _ in candidates(text, skip_stop_words):
            yield phrase


def frequencies_from_two(collection: Iterable[Iterable[str]], largest: int | None = None) -> tuple[dict[str, int], int]:
    """Count the members of a collection that contain each term; a term may be any string, such as a phrase.

    Args:
        collection: for each member, its terms, which may be repeated.
        largest: maximum number of terms to keep, the most frequent ones; None keeps all.

    Returns:
        Term -> the number of members that contain it, for terms that at least two members contain, in the order of
        strings; and the number of all members.
    """
    counts: Counter[str] = Counter()
    number = 0
    for terms in collection:
        number += 1
        # A term counts once in a member. A dictionary keeps the order of the terms, unlike a set, so that of equally
        # frequent terms a limit always keeps the same.
        counts.update(list(dict.fromkeys(terms)))
    frequent = [(term, count) for term, count in counts.most_common(largest) if count > 1]
    return dict(sorted(frequent)), number


def locate_phrases(documents: Sequence[str], phrases: Phrases) -> list[Phrase]:
    """Find a user's phrases in the documents of an example.

    Case is ignored, and white space and hyphens stand for each other.

    Args:
        documents: the documents of one example.
        phrases: phrase -> value, or a list of phrases with value 1.

    Returns:
        The phrases in the order of `phrases`, without phrases of value 0. A phrase that does not occur has no spans.

    Raises:
        TypeError: a list of phrases has anything else than texts, or is not a list.
        ValueError: a phrase is blank or no text, or its value is not a finite number.
    """
    if isinstance(phrases, Mapping):
        values = phrases
    else:
        check_texts("phrases", phrases)
        values = dict.fromkeys(phrases, 1.0)
    located = []
    for text, value in values.items():
        if not isinstance(text, str) or not text.strip() or not is_number(value):
            raise ValueError(f"a phrase must be text with a finite value, but there is {text!r:.80}: {value!r:.80}")
        if value == 0:
            continue
        occurrences = []
        for index, document in enumerate(documents):
            for start, end in _occurrences(text, document):
                occurrences.append(Occurrence(index, start, end))
        located.append(Phrase(text, float(value), tuple(occurrences)))
    return located


def _occurrences(phrase: str, document: str) -> Iterator[tuple[int, int]]:
    """Yield the [start, end) characters of a phrase's occurrences in a document, which do not overlap.

    Occurrences that begin or end inside a word are skipped, except in scripts without spaces between words.
    """
    words = [re.escape(word) for word in re.split(r"[\s-]+", phrase) if word]
    if not words:
        # The phrase has only hyphens.
        words = [re.escape(phrase.strip())]
    # The edges are checked outside the pattern, as the class of all vowel signs and accents takes milliseconds to
    # compile, and each phrase has a pattern.
    pattern = re.compile(r"(?:\s+|-)".join(words), re.IGNORECASE)
    begins_word = phrase.strip()[0].isalnum()
    ends_word = _ENDS_WORD.match(phrase.strip()[-1])
    match = pattern.search(document)
    while match is not None:
        start, end = match.span()
        is_begun = begins_word and start > 0 and _BEFORE_REST.match(document, start - 1)
        is_continued = ends_word and _REST_OF_WORD.match(document, end)
        if is_begun or is_continued:
            match = pattern.search(document, start + 1)
        else:
            yield start, end
            match = pattern.search(document, end)


def read_phrases(value: Any) -> Mapping[str, float] | Sequence[str] | None:
    """The phrases that a user gives for an example: phrase -> value, a list of phrases, or None.

    Args:
        value: a mapping of phrases to values, a list of phrases, JSON of either, or None.

    Raises:
        TypeError: `value` is none of these.
        ValueError: `value` is a string, but no JSON.
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except json.JSONDecodeError as error:
            raise ValueError(f'`phrases` must be JSON such as {{"TEXT": VALUE}}, but is {value!r:.60}') from error
    if isinstance(value, Mapping):
        # In a column of mappings, `datasets` gives each row the phrases of all rows, with None for missing phrases.
        return {text: number for text, number in value.items() if number is not None}
    if value is not None and not is_list(value):
        raise TypeError(f"`phrases` must be a mapping of texts to values or a list of texts, but is {value!r:.60}")
    return value


class HighlightTransformerTextProcessor(CopyingTextProcessor):
    """The `TextProcessor` of Highlight-Transformer; `HighlightTransformerProcessor` describes the settings."""

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
        self.document_frequencies: Mapping[str, int] | None = document_frequencies
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
    def padding_values(self) -> dict[str, int | float]:
        return {**super().padding_values, "phrase_starts": 0, "phrase_ends": 0, "phrase_values": 0.0}

    def source_features(
        self,
        text: Documents,
        length: int | None,
        show_progress: bool = False,
        phrases: Phrases | Sequence[Phrases | None] | None = None,
        prefix_lengths: Sequence[int] | None = None,
    ) -> dict[str, list]:
        """The features of the base, and `phrase_starts`, `phrase_ends` and `phrase_values`.

        These have a row for each example, with an entry for each occurrence of a phrase: its [start, end) tokens in
        the row of ids, and the value of the phrase.

        Args:
            phrases: for each example, the user's phrases, or None to find key phrases. The phrases of a single example
                need no outer list. The values of key phrases are at most 1.
            prefix_lengths: for each example, the number of characters before its documents, in the cleaned text. No key
                phrase begins there.

        Raises:
            TypeError: as `read_phrases` or `locate_phrases`.
            ValueError: key phrases are to be found, but the processor has no document frequencies; the number of
                entries in `phrases` is not that of the examples; or as `locate_phrases`.
        """
        sources = self.read_sources(text, length, with_offsets=True)
        features = self._features(sources)
        for name in _PHRASE_FIELDS:
            features[name] = []
        phrases_of_examples = self._phrases_of_examples(phrases, len(sources))
        if prefix_lengths is None:
            prefix_lengths = [0] * len(sources)
        for source, user_phrases, prefix_length in zip(sources, phrases_of_examples, prefix_lengths, strict=True):
            if user_phrases is None:
                located = self._found_phrases(source, prefix_length)
            else:
                located = locate_phrases(source.documents, user_phrases)
                _warn_of_ignored(located, source)
            starts, ends, values = [], [], []
            for phrase in located:
                for start, end in _token_spans(phrase, source):
                    starts.append(start)
                    ends.append(end)
                    values.append(phrase.value)
            features["phrase_starts"].append(starts)
            features["phrase_ends"].append(ends)
            features["phrase_values"].append(values)
        return features

    def _found_phrases(self, source: ReadSource, prefix_length: int) -> list[Phrase]:
        """The key phrases in the part of an example that the truncation keeps, after the prefix."""
        assert self.document_frequencies is not None, "`_phrases_of_examples` refuses to find phrases without them"
        return key_phrases(
            kept_texts(source),
            self.document_frequencies,
            self.fitted_examples,
            self.num_phrases,
            self.skip_stop_words,
            prefix_length,
        )

    def _phrases_of_examples(
        self, phrases: Phrases | Sequence[Phrases | None] | str | None, number: int
    ) -> list[Phrases | None]:
        """For each of `number` examples, the phrases that the user gives, or None to find them.

        Args:
            phrases: as for `source_features`; entries may also be JSON.

        Raises:
            TypeError: an entry is of another type.
            ValueError: as `source_features`.
        """
        if phrases is None:
            rows = [None] * number
        elif _are_of_one_example(phrases, number):
            rows = [read_phrases(phrases)]
        else:
            rows = [read_phrases(value) for value in phrases]
        if len(rows) != number:
            raise ValueError(f"there are phrases for {len(rows)} examples, but {number} examples: give each its own")
        if self.document_frequencies is None and None in rows:
            raise ValueError(
                "the processor has no document frequencies to find phrases by: fit them with `hf-summ key-phrases "
                "CORPUS --processor FOLDER --output FOLDER`, or give `phrases`"
            )
        return rows


def _are_of_one_example(phrases: Any, number: int) -> bool:
    """Whether `phrases` are the phrases of a single example, not a list with an entry for each of `number` examples.

    A list of a single text is a list of phrases, unless the text begins like JSON.

    Raises:
        TypeError: they are neither a list nor a mapping nor a text.
    """
    if isinstance(phrases, (str, Mapping)):
        return True
    check_list("phrases", phrases)
    texts = list(phrases)
    if number != 1 or not texts or not all(isinstance(text, str) for text in texts):
        return False
    is_json = len(texts) == 1 and texts[0].lstrip().startswith(("{", "["))
    return not is_json


def kept_text(text: str, tokens: Sequence[tuple[int, int]]) -> str:
    """The beginning of a text that some tokens cover, without the last word if that is incomplete.

    Args:
        tokens: the [start, end) characters of the tokens that the truncation keeps, from the first one on.
    """
    end = tokens[-1][1] if tokens else 0
    word_character = re.compile(rf"[\w{marks()}]")
    if word_character.match(text, end):
        # The last word goes on after the last token, so all of it is left out.
        while end and word_character.match(text, end - 1):
            end -= 1
    return text[:end]


def kept_texts(source: ReadSource) -> list[str]:
    """The `kept_text` of each document of an example."""
    return [kept_text(text, tokens) for text, tokens in zip(source.documents, source.kept_offsets(), strict=True)]


def _token_spans(phrase: Phrase, source: ReadSource) -> list[tuple[int, int]]:
    """The [start, end) tokens of a phrase's occurrences in the row of an example.

    Occurrences that the truncation does not keep completely are left out.
    """
    spans = []
    for occurrence in phrase.spans:
        offsets = source.offsets[occurrence.document]
        # The row has the document's first `number` tokens.
        row_start, number = source.row.spans[occurrence.document]
        if number and occurrence.end <= offsets[number - 1][1]:
            # The first token that ends after the start of the occurrence, and the first token that starts at its end
            # or later.
            first = bisect_right(offsets, occurrence.start, hi=number, key=itemgetter(1))
            last = bisect_left(offsets, occurrence.end, hi=number, key=itemgetter(0))
            spans.append((row_start + first, row_start + last))
    return spans


def _warn_of_ignored(phrases: Sequence[Phrase], source: ReadSource) -> None:
    """Log a warning for each of a user's phrases that does not occur in the part that the truncation keeps."""
    for phrase in phrases:
        if not _token_spans(phrase, source):
            where = "occurs only in the truncated part" if phrase.spans else "does not occur in the text"
            logger.warning(f"the phrase {phrase.text!r:.80} {where}, and is ignored")
