"""BERTScore (Zhang et al. 2020): tokens of two texts, matched greedily by the cosine of their contextual embeddings."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
import torch
from torch.nn.functional import normalize
from transformers import AutoModel

from hf_summ.common.messages import progress_bar
from hf_summ.evaluation.bleu import reference_rows
from hf_summ.evaluation.pair_models import context_of, load_checkpoint
from hf_summ.models.text_documents import readable

# texts that are encoded and compared together, of which batches have similar lengths
_TEXTS_AT_ONCE = 1024
# tokens per batch, with padding: enough for throughput, few enough to bound memory
_TOKENS_AT_ONCE = 8192
# tokens of a text, (T, D), and which of them are not special tokens, (T,)
Embedded = tuple[torch.Tensor, torch.Tensor]


def bertscore_scores(model: str, predictions: Sequence[str], references: Sequence[str | Sequence[str]]) -> np.ndarray:
    """F of BERTScore of each row, in points, without weights by frequency and without rescaling.

    Precision is the mean over the prediction's tokens of the highest cosine with a token of the reference, and recall
    that over the reference's tokens. Special tokens can be matched, but are not counted. Texts that exceed the
    encoder's positions, or 512 tokens, are truncated.

    Args:
        model: an encoder, or the encoder of a sequence-to-sequence model: a folder or a name on the Hub, with `:LAYER`
            after it to take the hidden states of an earlier layer than the last, as in `roberta-large:17`.
        predictions: one text per row.
        references: one or several texts per row, of which the one with the highest F counts.

    Returns:
        (N,), 0 where either text is blank.

    Raises:
        ValueError: the encoder cannot be loaded, or has no such layer; or as `bleu_statistics`.
    """
    rows = reference_rows(predictions, references)
    encoder = _encoder(model)
    pairs = [(prediction, reference) for prediction, row in zip(predictions, rows, strict=True) for reference in row]
    scores = []
    with progress_bar(None, "BERTScore", len(pairs)) as bar:
        for start in range(0, len(pairs), _TEXTS_AT_ONCE // 2):
            chunk = pairs[start : start + _TEXTS_AT_ONCE // 2]
            embedded = encoder({text.strip() for pair in chunk for text in pair})
            scores += [_fmeasure(*(embedded[text.strip()] for text in pair)) for pair in chunk]
            bar.update(len(chunk))
    ends = np.cumsum([0, *map(len, rows)])
    return 100 * np.array([max(scores[start:end]) for start, end in pairwise(ends)])


def _fmeasure(prediction: Embedded, reference: Embedded) -> float:
    (ours, is_ours), (theirs, is_theirs) = prediction, reference
    if not (is_ours.any() and is_theirs.any()):
        return 0.0
    cosines = ours @ theirs.T
    precision, recall = cosines.amax(1)[is_ours].mean().item(), cosines.amax(0)[is_theirs].mean().item()
    return 2 * precision * recall / (precision + recall)


class _Encoder:
    """Embeds texts, in batches of similar length."""

    def __init__(self, name: str):
        checkpoint, _, layer = name.rpartition(":") if name.rpartition(":")[2].isdecimal() else (name, "", "-1")
        self._tokenizer, model, _ = load_checkpoint(checkpoint, "text encoder", lambda _: AutoModel)
        self._context, self._layer = context_of(model), int(layer)
        self._model = model.get_encoder() if model.config.is_encoder_decoder else model
        if self._layer > model.config.num_hidden_layers:
            raise ValueError(f"{name}: the encoder has {model.config.num_hidden_layers} layers: give one of them")

    @torch.inference_mode()
    def __call__(self, texts: set[str]) -> dict[str, Embedded]:
        """Normalized embeddings of the tokens of each text."""
        order = sorted(texts, key=len)
        embedded: dict[str, Embedded] = {}
        while order:
            # the last is about the longest; most tokens have two characters or more
            size = max(2 * _TOKENS_AT_ONCE // min(len(order[-1]) + 1, 2 * self._context), 1)
            batch, order = order[-size:], order[:-size]
            inputs = self._tokenizer(
                [readable(text) for text in batch],
                truncation=True,
                max_length=self._context,
                padding=True,
                return_special_tokens_mask=True,
                return_tensors="pt",
            ).to(self._model.device)
            is_content, is_token = inputs.pop("special_tokens_mask") == 0, inputs["attention_mask"] > 0
            states = self._model(**inputs, output_hidden_states=True).hidden_states[self._layer]
            rows = zip(batch, normalize(states, dim=-1), is_token, is_content, strict=True)
            embedded |= {text: (row[mask], counted[mask]) for text, row, mask, counted in rows}
        return embedded


# loaded once
_encoder = lru_cache(maxsize=1)(_Encoder)
