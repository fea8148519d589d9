"""Summaries that are whole sentences of their documents, chosen by a model: the setting `whole_sentences`.

The candidates are the sentences that `text_candidates` makes of a document. The summary is the candidate with the
highest sum of two numbers: the mean log-probability of its tokens, and its merit, which depends on the text alone.

The runtime without PyTorch uses this module too, so that torch is imported within a function.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .text_candidates import sentence_candidates

if TYPE_CHECKING:
    import torch
    from transformers import GenerationConfig, PreTrainedModel


@dataclass(frozen=True)
class Candidate:
    """A sentence that may be the summary.

    Args:
        text: the sentence.
        ids: its tokens, with the end token.
        merit: what speaks for it besides the model, as `sentence_candidates` counts it.
    """

    text: str
    ids: list[int]
    merit: float = 0.0


def candidates_of(
    document: str | Sequence[str], tokenizer: Any, most_tokens: int, special_tokens: bool
) -> list[Candidate]:
    """The candidates of a document that have at most `most_tokens` tokens.

    If all are longer, the only candidate is the beginning of the shortest one, without the end token.

    Args:
        document: a text, or several documents of one example; not all may be blank.
        tokenizer: a tokenizer of transformers, or another with its methods.
        most_tokens: the largest number of tokens, including the end token.
        special_tokens: whether summaries have the special tokens that the tokenizer adds, as in BART.

    Raises:
        ValueError: the tokenizer has no end token.
    """
    end_id = _end_id_of(tokenizer)

    def with_end(ids: list[int]) -> list[int]:
        # a tokenizer such as mBART's adds a language after the end, which no summary has
        if special_tokens and end_id in ids:
            return ids[: ids.index(end_id) + 1]
        return [*ids, end_id]

    def fits(sentence: str) -> bool:
        (ids,) = tokenizer([sentence], add_special_tokens=special_tokens)["input_ids"]
        return len(with_end(ids)) <= most_tokens

    merits = sentence_candidates(document, fits)
    sentences = list(merits)
    rows = tokenizer(sentences, add_special_tokens=special_tokens)["input_ids"]
    candidates = []
    for sentence, ids in zip(sentences, rows, strict=True):
        candidates.append(Candidate(sentence, with_end(ids), merits[sentence]))
    short_candidates = [candidate for candidate in candidates if len(candidate.ids) <= most_tokens]
    if short_candidates:
        return short_candidates
    shortest = min(candidates, key=lambda candidate: len(candidate.ids))
    ids = shortest.ids[:most_tokens]
    (beginning,) = tokenizer.batch_decode([ids], skip_special_tokens=True)
    return [Candidate(beginning.strip(), ids)]


def _end_id_of(tokenizer: Any) -> int:
    """The token that ends summaries. BERT's tokenizers have none for it, and end texts with their separator."""
    for end_id in (tokenizer.eos_token_id, tokenizer.sep_token_id):
        if end_id is not None:
            return end_id
    raise ValueError("`whole_sentences` needs a tokenizer with an `eos_token`, which ends summaries: set it to False")


def decoded_documents(source_ids: "torch.Tensor | None", tokenizer: Any, vocab_size: int) -> list[list[str]]:
    """The documents of each example from its ids (B, S), for a caller of `generate()` that gives no texts.

    Documents are separated by the tokenizer's separator, or its end token if it has none.

    Raises:
        ValueError: there are no ids, or they lack capitals or words of the texts, so that the sentences would differ.
    """
    normalizer = tokenizer.backend_tokenizer.normalizer
    is_uncased = normalizer is not None and "A" not in normalizer.normalize_str("A")
    unknown_id = tokenizer.unk_token_id
    if unknown_id in (tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id):
        # some tokenizers have one token for unknown words and for the end
        unknown_id = None
    lacks_words = source_ids is None or bool((source_ids >= vocab_size).any())
    if unknown_id is not None and not lacks_words:
        lacks_words = bool((source_ids == unknown_id).any())
    if is_uncased or lacks_words:
        raise ValueError(
            "`whole_sentences` needs the documents' texts, as their ids lack capitals or words: use "
            '`pipeline("summarization")`, or set it to False'
        )
    separator_id = tokenizer.sep_token_id
    if separator_id is None:
        separator_id = tokenizer.eos_token_id
    examples = []
    for ids in source_ids.tolist():
        parts: list[list[int]] = [[]]
        for token_id in ids:
            if token_id == separator_id:
                parts.append([])
            else:
                parts[-1].append(token_id)
        examples.append(tokenizer.batch_decode(parts, skip_special_tokens=True))
    return examples


def text_of(token_ids: Iterable, candidates: Iterable[Candidate], tokenizer: Any) -> str:
    """The text of the candidate with these ids; if several have them, of that with the highest merit.

    Args:
        token_ids: a start token, the ids and perhaps padding. If no candidate has the ids, they are the beginning of
            one, and are decoded.
    """
    ids = _without_start_and_end(token_ids, tokenizer)
    ended_ids = [*ids, _end_id_of(tokenizer)]
    equal = [candidate for candidate in candidates if candidate.ids in (ended_ids, ids)]
    if not equal:
        (beginning,) = tokenizer.batch_decode([ids], skip_special_tokens=True)
        return beginning
    # such candidates differ in capitals or words that the vocabulary lacks
    return max(equal, key=lambda candidate: candidate.merit).text


def chosen_text(token_ids: Iterable, document: str | Sequence[str], tokenizer: Any, special_tokens: bool) -> str:
    """The text of the sentence that a model chose among those of a document, by its ids after a start token.

    The other arguments are those of `candidates_of`.
    """
    # The limit of `generate` is unknown here. With the chosen sentence's length as the limit, `candidates_of` spells
    # out the same acronyms in it.
    most_tokens = len(_without_start_and_end(token_ids, tokenizer)) + 1
    candidates = candidates_of(document, tokenizer, most_tokens, special_tokens)
    return text_of(token_ids, candidates, tokenizer)


def _without_start_and_end(token_ids: Iterable, tokenizer: Any) -> list[int]:
    """The ids of a summary without the start token, the end token and padding."""
    ids = [int(token_id) for token_id in token_ids][1:]
    while ids and ids[-1] in (_end_id_of(tokenizer), tokenizer.pad_token_id):
        ids.pop()
    return ids


def likeliest(candidates: Sequence[Candidate], log_probs: np.ndarray) -> Candidate:
    """The candidate with the highest sum of the mean log-probability of its tokens and its merit.

    The length penalties of beam search do not apply, as merits are weighed against the mean.

    Args:
        candidates: the N candidates of a document.
        log_probs: (N, T), the log-probabilities of their tokens; those after the end of a candidate do not count.
    """
    scores = []
    for candidate, token_log_probs in zip(candidates, log_probs, strict=True):
        length = len(candidate.ids)
        log_prob = token_log_probs[:length].sum()
        scores.append(log_prob / length + candidate.merit)
    return candidates[int(np.argmax(scores))]


def pad_rows(rows: Sequence[Sequence[int]], value: int) -> np.ndarray:
    """Put rows of ids into one array (N, T), where `value` fills up short rows on the right."""
    longest = max(len(row) for row in rows)
    array = np.full((len(rows), longest), value)
    for array_row, ids in zip(array, rows, strict=True):
        array_row[: len(ids)] = ids
    return array


def likeliest_sentences(
    model: "PreTrainedModel",
    candidates: Sequence[Sequence[Candidate]],
    config: "GenerationConfig",
    inputs: Mapping[str, Any],
) -> "torch.Tensor":
    """The likeliest candidate of each document, by one pass of the decoder over all candidates of a document.

    Args:
        model: any sequence-to-sequence model of PyTorch.
        candidates: the candidates of each document.
        config: the generation config of a running `generate()`.
        inputs: the inputs of the decoder, such as `encoder_outputs`, with a row for each document.

    Returns:
        (B, L), ids with the start token, padded.
    """
    # imported here, as the runtime without PyTorch reads this module
    import torch

    from .layers_transformer import rows_of

    start_id = config.decoder_start_token_id
    if start_id is None:
        # as in transformers
        start_id = config.bos_token_id
    chosen = []
    for document, sentences in enumerate(candidates):
        # our models store a document once for all rows of the decoder; others need a copy for each row
        number = 1 if hasattr(model, "generation_keys") else len(sentences)
        document_inputs = rows_of(inputs, torch.full((number,), document, device=model.device))
        array = pad_rows([sentence.ids for sentence in sentences], config.pad_token_id)
        ids = torch.tensor(array, device=model.device)
        start = ids.new_full((len(ids), 1), start_id)
        decoder_input_ids = torch.cat((start, ids[:, :-1]), dim=1)
        outputs = model(**document_inputs, decoder_input_ids=decoder_input_ids, use_cache=False, return_dict=True)
        log_probs = outputs.logits.float().log_softmax(-1)
        token_log_probs = log_probs.gather(-1, ids[..., None])[..., 0]
        best = likeliest(sentences, token_log_probs.numpy(force=True))
        chosen.append([start_id, *best.ids])
    return torch.tensor(pad_rows(chosen, config.pad_token_id), device=model.device)
