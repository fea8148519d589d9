"""Entailment of a summary by its source, computed by a model of natural language inference."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import product

import numpy as np
import torch
from transformers import AutoModelForSequenceClassification, PreTrainedConfig

from hf_summ.data.sentences import split_sentences
from hf_summ.evaluation.pair_models import Pair, PairModel, Unfit
from hf_summ.evaluation.words import check_pairs
from hf_summ.models.text_documents import readable

_LABEL = "entailment"


class EntailmentModel(PairModel):
    """A sequence classifier with the label "entailment", in any case: the probability that a premise entails a claim.

    See `PairModel` for the arguments.

    Raises:
        ValueError: it does not exist, has no such label, or has no weights for its head.
    """

    task = "natural language inference"
    hint = "name a checkpoint that was saved with its classification head"

    def auto_class_of(self, config: PreTrainedConfig) -> type:
        """See `PairModel.auto_class_of`; one label must be "entailment"."""
        labels = [str(label).lower() for _, label in sorted(config.id2label.items())]
        if _LABEL not in labels:
            raise Unfit(f"{self.name} has the labels {', '.join(labels)}: name a checkpoint with the label '{_LABEL}'")
        self._label = labels.index(_LABEL)
        return AutoModelForSequenceClassification

    def probabilities(self, logits: torch.Tensor) -> torch.Tensor:
        """(B, labels) -> (B,), see `PairModel.probabilities`."""
        return logits.softmax(-1)[:, self._label]

    def passages(self, source: str, claims: Sequence[str], language: str) -> Iterator[str]:
        """Windows of consecutive source sentences, each as long as fits beside the longest claim."""
        sentences = split_sentences(source, language)
        texts = [readable(text) for text in (*claims, *sentences)]
        lengths = list(map(len, self.tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]))
        room = self.context - self.tokenizer.num_special_tokens_to_add(pair=True) - max(lengths[: len(claims)])
        window: list[str] = []
        used = 0
        for sentence, length in zip(sentences, lengths[len(claims) :], strict=True):
            if window and used + length > room:
                yield " ".join(window)
                window, used = [], 0
            window.append(sentence)
            used += length
        if window:
            yield " ".join(window)


@lru_cache(maxsize=1)
def entailment_model(name: str) -> EntailmentModel:
    """The model of that name, loaded once."""
    return EntailmentModel(name)


def entailment_scores(
    model: EntailmentModel, predictions: Sequence[str], sources: Sequence[str], language: str = "en"
) -> np.ndarray:
    """Mean over a summary's sentences of the highest probability that a source passage entails the sentence, in points.

    A passage is as many consecutive source sentences as fit into the model's input with the summary's longest sentence.
    A source sentence that does not fit alone is truncated.

    Args:
        predictions, sources: one summary and one document per row.
        language: ISO 639 code, for sentence splitting.

    Returns:
        (N,), NaN where the summary or the source is blank.

    Raises:
        ValueError: different numbers of predictions and sources, or none at all.
    """
    check_pairs(predictions=predictions, sources=sources)
    pairs: list[Pair] = []
    shapes = []
    for prediction, source in zip(predictions, sources, strict=True):
        claims = split_sentences(prediction, language)
        passages = list(model.passages(source, claims, language)) if claims else []
        pairs += product(passages, claims)
        shapes.append((len(passages), len(claims)))
    ends = np.cumsum([passages * claims for passages, claims in shapes])
    rows = zip(np.split(np.array(model(pairs)), ends[:-1]), shapes, strict=True)
    return np.array([100 * row.reshape(shape).max(0).mean() if row.size else np.nan for row, shape in rows])
