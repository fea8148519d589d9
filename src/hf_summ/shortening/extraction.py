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
        ValueError: `language` is not such a code, even if no example is too long.
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
    # document and number in it of each sentence
    numbers = [(document, number) for document, own in enumerate(sentences) for number in range(len(own))]
    flat = [sentence for own in sentences for sentence in own]
    words, costs = [split_words(sentence, language) for sentence in flat], reader.count(flat)
    budget = reader.room(len(texts))
    while True:
        indices = keep_sentences(words, costs, budget)
        chosen: list[list[int]] = [[] for _ in texts]
        for document, number in map(numbers.__getitem__, indices):
            chosen[document].append(number)
        picked = [pick_sentences(*choice) for choice in zip(texts, sentences, chosen, strict=True)]
        shorter = picked[0] if isinstance(example, str) else picked
        excess = reader.length(shorter) - (reader.limit or 0)
        # a text may have more tokens than its separate sentences
        if excess <= 0 or len(indices) < 2 or budget == 1:
            break
        budget = max(budget - excess, 1)
    spans = [sentence_places(text, own) for text, own in zip(texts, sentences, strict=True)]
    details = []
    for index, (document, number) in zip(indices, map(numbers.__getitem__, indices), strict=True):
        start, end = spans[document][number]
        of = {} if len(texts) == 1 else {"document": document}
        details.append({"index": index, "start": start, "end": end, **of})
    ranges = [[list(own[number]) for number in of_text] for own, of_text in zip(spans, chosen, strict=True)]
    return Reading(shorter, length, ranges, {"sentences": details})
