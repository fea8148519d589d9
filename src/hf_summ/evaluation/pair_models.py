"""Pre-trained models that judge texts: loading, and scores of pairs.

The scores are those of BERT's next-sentence head as a judge of neighboring sentences (Devlin et al. 2019, section 3.1),
and BERTScore (Zhang et al. 2020), which matches tokens of two texts greedily by the cosine of their contextual
embeddings.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from huggingface_hub.errors import StrictDataclassError
from torch.nn.functional import normalize
from transformers import (
    MODEL_FOR_NEXT_SENTENCE_PREDICTION_MAPPING,
    AutoConfig,
    AutoModel,
    AutoModelForNextSentencePrediction,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from hf_summ.common.messages import one_line, progress_bar
from hf_summ.evaluation.bleu import check_reference_rows
from hf_summ.models.layers_copy_transformer import longest_input
from hf_summ.models.text_documents import readable

Pair = tuple[str, str]
# most tokens of a pair, which bounds memory where a model's positions do not
_LONGEST_CONTEXT = 512
# pairs that are tokenized and sorted by length together
_PAIRS_AT_ONCE = 4096
# the label of BERT's head for "the second text follows the first"
_FOLLOWS, _IS_RANDOM = 0, 1
_HINT = "name a checkpoint that was saved with its next-sentence head, such as google-bert/bert-base-uncased"
# texts that are encoded and compared together, of which batches have similar lengths
_TEXTS_AT_ONCE = 1024
# tokens per batch, with padding: enough for throughput, few enough to bound memory
_TOKENS_AT_ONCE = 8192
# tokens of a text, (T, D), and which of them are not special tokens, (T,)
Embedded = tuple[torch.Tensor, torch.Tensor]


class Unfit(ValueError):
    """A checkpoint's architecture cannot do the task."""


def load_checkpoint(
    name: str, task: str, auto_class_of: Callable[[PreTrainedConfig], Any], **hub_settings: Any
) -> tuple[PreTrainedTokenizerBase, PreTrainedModel, set[str]]:
    """The tokenizer, the model, on the GPU if there is one, and the names of missing weights.

    Args:
        task: what the model is for, in messages: "it cannot be loaded as a … model".
        auto_class_of: maps the configuration to transformers' Auto class for the head, or raises `Unfit`.
    """
    try:
        config = AutoConfig.from_pretrained(name, trust_remote_code=False, **hub_settings)
        auto_class = auto_class_of(config)
        tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False, **hub_settings)
        # at lower precision many tokens of a language model are equally likely, and percentiles tie with them
        settings = {"dtype": torch.float32, "use_safetensors": True, "output_loading_info": True, **hub_settings}
        model, loaded = auto_class.from_pretrained(name, config=config, **settings)
    except Unfit:
        raise
    except (OSError, ValueError, RuntimeError, StrictDataclassError) as error:
        raise ValueError(
            f"{name} cannot be loaded as a {task} model ({one_line(error)}): if the Hub is out of reach, give the "
            "folder of a downloaded checkpoint"
        ) from error
    return tokenizer, model.eval().to("cuda" if torch.cuda.is_available() else "cpu"), loaded["missing_keys"]


def context_of(model: PreTrainedModel) -> int:
    """The number of tokens that the model reads."""
    return min(longest_input(model) or _LONGEST_CONTEXT, _LONGEST_CONTEXT)


class NextSentenceModel:
    """A BERT with its next-sentence head: the probability that the second sentence of a pair follows the first.

    The model is a `BertForNextSentencePrediction` or has this head otherwise, and is on the GPU if there is one. A pair
    that exceeds its positions is truncated at the end of its longer text.

    Attributes:
        context: the number of tokens of a pair that the model reads.
    """

    def __init__(self, name: str, **hub_settings: Any):
        def auto_class_of(config: PreTrainedConfig) -> type:
            if type(config) not in MODEL_FOR_NEXT_SENTENCE_PREDICTION_MAPPING:
                raise Unfit(f"{name} is a {config.model_type}, which has no next-sentence head: {_HINT}")
            return AutoModelForNextSentencePrediction

        self.tokenizer, self.model, missing = load_checkpoint(name, "next-sentence", auto_class_of, **hub_settings)
        if missing:
            # the last by name is the head's
            raise ValueError(f"{name} has no weights for {max(missing)} ({len(missing)} are missing): {_HINT}")
        self.context = context_of(self.model)

    def __call__(self, pairs: Sequence[Pair]) -> list[float]:
        """The probability of each pair; pairs of similar length share a batch."""
        probabilities: list[float] = []
        with progress_bar(None, "next-sentence", len(pairs)) as bar:
            for start in range(0, len(pairs), _PAIRS_AT_ONCE):
                probabilities += self._read(pairs[start : start + _PAIRS_AT_ONCE], bar)
        return probabilities

    def _read(self, pairs: Sequence[Pair], bar) -> list[float]:
        encoded = self.tokenizer(
            [readable(first) for first, _ in pairs],
            [readable(second) for _, second in pairs],
            truncation="longest_first",
            max_length=self.context,
            # some tokenizers omit them by default, so that a pair looks like one text; other models reject them
            return_token_type_ids=getattr(self.model.config, "type_vocab_size", 0) > 1 or None,
        )
        lengths = [len(row) for row in encoded["input_ids"]]
        order = sorted(range(len(pairs)), key=lengths.__getitem__, reverse=True)
        probabilities = [0.0] * len(pairs)
        while order:
            # the first is the longest
            size = max(_TOKENS_AT_ONCE // lengths[order[0]], 1)
            rows, order = order[:size], order[size:]
            batch = {name: [values[row] for row in rows] for name, values in encoded.items()}
            for row, probability in zip(rows, self._classify(batch), strict=True):
                probabilities[row] = probability
            bar.update(len(rows))
        return probabilities

    @torch.inference_mode()
    def _classify(self, batch: dict[str, list]) -> list[float]:
        inputs = self.tokenizer.pad(batch, return_tensors="pt").to(self.model.device)
        # double precision keeps probabilities near one apart
        logits = self.model(**inputs).logits.double()
        return torch.sigmoid(logits[:, _FOLLOWS] - logits[:, _IS_RANDOM]).tolist()

    def fingerprint(self) -> str:
        """A hash of the weights and the vocabulary, equal for equal checkpoints whatever their names."""
        digest = hashlib.sha256(json.dumps(self.tokenizer.get_vocab(), sort_keys=True).encode())
        for name, values in self.model.state_dict().items():
            digest.update(name.encode() + values.cpu().numpy().tobytes())
        return digest.hexdigest()


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
        ValueError: the encoder cannot be loaded, or has no such layer; or as `bleu`.
    """
    rows = check_reference_rows(predictions, references)
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
