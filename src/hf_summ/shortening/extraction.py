"""Extraction of a document's most important sentences, as many as its model can read."""

from collections.abc import Sequence

from hf_summ.data.sentences import language_code, pick_sentences, sentence_places, split_sentences
from hf_summ.models.pipeline_long_documents import Example, ModelReader, Reading


def extract(examples: Sequence[Example], reader: ModelReader, language: str) -> list[Reading]:
    """Shorten examples by the consistent extractive stage (Aksenov 2020, section 4.1), without next-sentence scores.

    The sentences of several documents compete with each other. `details` has `sentences`: for each kept sentence its
    `index` over all documents, its `start` and `end` characters and, with several documents, its `document`.

    Args:
        language: ISO 639 code.

    Raises:
        ValueError: `language` is no such code, even if no example is too long.
    """
    language_code(language)
    return [_shortened(example, reader, language) for example in examples]


def _shortened(example: Example, reader: ModelReader, language: str) -> Reading:
    # imported late, as these packages import slow libraries
    from hf_summ.evaluation.words import split_words
    from hf_summ.extractive.consistent import keep_sentences

    length = reader.length(example)
    if not reader.is_too_long(length):
        return Reading(example, length)
    texts = [example] if isinstance(example, str) else example
    sentences = [split_sentences(text, language) for text in texts]
    owners = [(document, place) for document, parts in enumerate(sentences) for place in range(len(parts))]
    flat = [sentence for parts in sentences for sentence in parts]
    words, costs = [split_words(sentence, language) for sentence in flat], reader.count(flat)
    budget = reader.room(len(texts))
    while True:
        kept = keep_sentences(words, costs, budget)
        wanted: list[list[int]] = [[] for _ in texts]
        for index in kept:
            document, place = owners[index]
            wanted[document].append(place)
        shorter = [pick_sentences(*parts) for parts in zip(texts, sentences, wanted, strict=True)]
        excess = reader.length(shorter[0] if isinstance(example, str) else shorter) - (reader.limit or 0)
        # a text may have more tokens than its separate sentences
        if excess <= 0 or len(kept) < 2 or budget == 1:
            break
        budget = max(budget - excess, 1)
    places = [sentence_places(text, parts) for text, parts in zip(texts, sentences, strict=True)]
    kept_sentences = []
    for index in kept:
        document, place = owners[index]
        start, end = places[document][place]
        kept_sentences.append(
            {"index": index, "start": start, "end": end} | ({} if len(texts) == 1 else {"document": document})
        )
    ranges = [[list(places[document][place]) for place in chosen] for document, chosen in enumerate(wanted)]
    return Reading(shorter[0] if isinstance(example, str) else shorter, length, ranges, {"sentences": kept_sentences})
