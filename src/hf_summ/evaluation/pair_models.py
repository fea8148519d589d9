"""Pre-trained models that judge pairs of texts, and their loading.

BERT's next-sentence head judges whether two sentences are neighbors (Devlin et al. 2019, section 3.1). BERTScore (Zhang
et al. 2020) matches the tokens of two texts greedily by the cosine of their contextual embeddings.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
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
# Most tokens of a pair, which bounds memory where a model's positions do not.
_LONGEST_CONTEXT = 512
# Pairs that are tokenized and sorted by length together.
_PAIRS_AT_ONCE = 4096
# The labels of BERT's head: the second text follows the first, or is a random one.
_FOLLOWS, _IS_RANDOM = 0, 1
_HINT = "name a checkpoint that was saved with its next-sentence head, such as google-bert/bert-base-uncased"
# Pairs that are encoded and compared together. Their texts are batched by length.
_COMPARED_AT_ONCE = 512
# Tokens per batch, with padding: enough for throughput, few enough to bound memory.
_TOKENS_AT_ONCE = 8192


class Unfit(ValueError):
    """A checkpoint's architecture cannot do the task."""


@dataclass(frozen=True)
class Checkpoint:
    """A pre-trained model, on the GPU if there is one, its tokenizer, and the names of weights that it lacks."""

    tokenizer: PreTrainedTokenizerBase
    model: PreTrainedModel
    missing_weights: set[str]


@dataclass(frozen=True)
class EmbeddedText:
    """The normalized embeddings of a text's tokens, (T, D), and which of them are not special tokens, (T,)."""

    embeddings: torch.Tensor
    is_content: torch.Tensor


def load_checkpoint(
    name: str, task: str, choose_class: Callable[[PreTrainedConfig], Any], **hub_settings: object
) -> Checkpoint:
    """Load a model and its tokenizer from a folder or the Hub.

    Args:
        task: what the model is for, in messages: "it cannot be loaded as a … model".
        choose_class: maps the configuration to transformers' Auto class for the head, or raises `Unfit`.
        hub_settings: `cache_dir`, `token` and similar arguments of `from_pretrained`.
    """
    try:
        config = AutoConfig.from_pretrained(name, trust_remote_code=False, **hub_settings)
        auto_class = choose_class(config)
        tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False, **hub_settings)
        # At lower precision many tokens of a language model are equally likely, and percentiles tie with them.
        settings = {"dtype": torch.float32, "use_safetensors": True, "output_loading_info": True} | hub_settings
        model, loading_info = auto_class.from_pretrained(name, config=config, **settings)
    except Unfit:
        raise
    except (OSError, ValueError, RuntimeError, StrictDataclassError) as error:
        raise ValueError(
            f"{name} cannot be loaded as a {task} model ({one_line(error)}): if the Hub is out of reach, give the "
            "folder of a downloaded checkpoint"
        ) from error
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return Checkpoint(tokenizer, model.eval().to(device), loading_info["missing_keys"])


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

    def __init__(self, name: str, **hub_settings: object):
        def choose_class(config: PreTrainedConfig) -> type:
            if type(config) not in MODEL_FOR_NEXT_SENTENCE_PREDICTION_MAPPING:
                raise Unfit(f"{name} is a {config.model_type}, which has no next-sentence head: {_HINT}")
            return AutoModelForNextSentencePrediction

        checkpoint = load_checkpoint(name, "next-sentence", choose_class, **hub_settings)
        self.tokenizer = checkpoint.tokenizer
        self.model = checkpoint.model
        missing = checkpoint.missing_weights
        if missing:
            # The last name is that of the head.
            raise ValueError(f"{name} has no weights for {max(missing)} ({len(missing)} are missing): {_HINT}")
        self.context = context_of(self.model)

    def __call__(self, pairs: Sequence[Pair]) -> list[float]:
        """The probability of each pair; pairs of similar length share a batch."""
        probabilities: list[float] = []
        with progress_bar(None, "next-sentence", len(pairs)) as bar:
            for start in range(0, len(pairs), _PAIRS_AT_ONCE):
                probabilities.extend(self._read(pairs[start : start + _PAIRS_AT_ONCE], bar))
        return probabilities

    def _read(self, pairs: Sequence[Pair], bar) -> list[float]:
        has_token_types = getattr(self.model.config, "type_vocab_size", 0) > 1
        encoded = self.tokenizer(
            [readable(first) for first, _ in pairs],
            [readable(second) for _, second in pairs],
            truncation="longest_first",
            max_length=self.context,
            # Some tokenizers omit token types by default, so that a pair looks like a single text. Models without
            # them reject them.
            return_token_type_ids=has_token_types or None,
        )
        lengths = [len(row) for row in encoded["input_ids"]]
        longest_first = sorted(range(len(pairs)), key=lengths.__getitem__, reverse=True)
        probabilities = [0.0] * len(pairs)
        while longest_first:
            longest = lengths[longest_first[0]]
            size = max(_TOKENS_AT_ONCE // longest, 1)
            rows = longest_first[:size]
            longest_first = longest_first[size:]
            batch = {}
            for name, values in encoded.items():
                batch[name] = [values[row] for row in rows]
            for row, probability in zip(rows, self._classify(batch), strict=True):
                probabilities[row] = probability
            bar.update(len(rows))
        return probabilities

    @torch.inference_mode()
    def _classify(self, batch: dict[str, list]) -> list[float]:
        inputs = self.tokenizer.pad(batch, return_tensors="pt").to(self.model.device)
        # Double precision keeps probabilities near 1 apart.
        logits = self.model(**inputs).logits.double()
        return torch.sigmoid(logits[:, _FOLLOWS] - logits[:, _IS_RANDOM]).tolist()

    def fingerprint(self) -> str:
        """A hash of the weights and the vocabulary, equal for equal checkpoints whatever their names."""
        vocabulary = json.dumps(self.tokenizer.get_vocab(), sort_keys=True)
        digest = hashlib.sha256(vocabulary.encode())
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
    pairs: list[Pair] = []
    row_of_pair: list[int] = []
    for row, (prediction, row_references) in enumerate(zip(predictions, rows, strict=True)):
        for reference in row_references:
            pairs.append((prediction.strip(), reference.strip()))
            row_of_pair.append(row)
    scores: list[float] = []
    with progress_bar(None, "BERTScore", len(pairs)) as bar:
        for start in range(0, len(pairs), _COMPARED_AT_ONCE):
            chunk = pairs[start : start + _COMPARED_AT_ONCE]
            texts = encoder.embed(set(chain.from_iterable(chunk)))
            for prediction, reference in chunk:
                scores.append(_fmeasure(texts[prediction], texts[reference]))
            bar.update(len(chunk))
    best = np.full(len(rows), -np.inf)
    np.maximum.at(best, row_of_pair, scores)
    return 100 * best


def _fmeasure(prediction: EmbeddedText, reference: EmbeddedText) -> float:
    """F of a pair, in which special tokens can be matched, but are not counted."""
    if not (prediction.is_content.any() and reference.is_content.any()):
        return 0.0
    cosines = prediction.embeddings @ reference.embeddings.T
    precision = cosines.amax(1)[prediction.is_content].mean().item()
    recall = cosines.amax(0)[reference.is_content].mean().item()
    return 2 * precision * recall / (precision + recall)


class _Encoder:
    """Embeds texts, in batches of similar length.

    Args:
        name: a checkpoint, with `:LAYER` after it for an earlier layer than the last.
    """

    def __init__(self, name: str):
        checkpoint_name, layer = name, -1
        start, _, end = name.rpartition(":")
        if end.isdecimal():
            checkpoint_name, layer = start, int(end)
        checkpoint = load_checkpoint(checkpoint_name, "text encoder", lambda _: AutoModel)
        model = checkpoint.model
        if layer > model.config.num_hidden_layers:
            raise ValueError(f"{name}: the encoder has {model.config.num_hidden_layers} layers: give one of them")
        self._tokenizer = checkpoint.tokenizer
        self._model = model.get_encoder() if model.config.is_encoder_decoder else model
        self._context = context_of(model)
        self._layer = layer

    def embed(self, texts: set[str]) -> dict[str, EmbeddedText]:
        """The embedding of each text."""
        shortest_first = sorted(texts, key=len)
        embedded_texts: dict[str, EmbeddedText] = {}
        while shortest_first:
            # The last text has about the most tokens. Most tokens have two characters or more.
            longest = min(len(shortest_first[-1]) + 1, 2 * self._context)
            size = max(2 * _TOKENS_AT_ONCE // longest, 1)
            embedded_texts.update(self._embed_batch(shortest_first[-size:]))
            shortest_first = shortest_first[:-size]
        return embedded_texts

    @torch.inference_mode()
    def _embed_batch(self, texts: list[str]) -> dict[str, EmbeddedText]:
        inputs = self._tokenizer(
            [readable(text) for text in texts],
            truncation=True,
            max_length=self._context,
            padding=True,
            return_special_tokens_mask=True,
            return_tensors="pt",
        ).to(self._model.device)
        is_content = inputs.pop("special_tokens_mask") == 0
        is_token = inputs["attention_mask"] > 0
        hidden_states = self._model(**inputs, output_hidden_states=True).hidden_states
        embeddings = normalize(hidden_states[self._layer], dim=-1)
        embedded_texts = {}
        for row, text in enumerate(texts):
            tokens = is_token[row]
            embedded_texts[text] = EmbeddedText(embeddings[row][tokens], is_content[row][tokens])
        return embedded_texts


@lru_cache(maxsize=1)
def _encoder(name: str) -> _Encoder:
    """The encoder, which is loaded once for all systems."""
    return _Encoder(name)
