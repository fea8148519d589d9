"""Pre-trained models that judge pairs of texts, and the loading of checkpoints.

BERT's next-sentence head judges whether two sentences are neighbors (Devlin et al. 2019, section 3.1). BERTScore (Zhang
et al. 2020) matches the tokens of two texts greedily by the cosine of their contextual embeddings.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any, cast

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
from transformers.modeling_outputs import BaseModelOutput

from hf_summ.common.hashes import hash_of_bytes
from hf_summ.common.messages import one_line, progress_bar
from hf_summ.evaluation.bleu import check_reference_rows
from hf_summ.models.layers_copy_transformer import longest_input
from hf_summ.models.text_documents import readable

# Two texts that are judged together.
Pair = tuple[str, str]
# The largest number of tokens that a model reads at once. It bounds memory for models without a maximum length.
_LONGEST_CONTEXT = 512
# The number of pairs that are tokenized and sorted by length together.
_PAIRS_AT_ONCE = 4096
# The labels of BERT's next-sentence head: the second text follows the first, or is a random text.
_FOLLOWS, _IS_RANDOM = 0, 1
# What a user can do if a checkpoint has no next-sentence head.
_HINT = "name a checkpoint that was saved with its next-sentence head, such as google-bert/bert-base-uncased"
# The number of pairs whose texts are embedded together.
_COMPARED_AT_ONCE = 512
# The number of tokens in a batch, with padding: enough to keep a device busy, and few enough to bound memory.
_TOKENS_AT_ONCE = 8192


class Unfit(ValueError):
    """The architecture of a checkpoint cannot do the task for which it is loaded."""


@dataclass(frozen=True)
class Checkpoint:
    """A pre-trained model with its tokenizer.

    Attributes:
        tokenizer: the model's tokenizer.
        model: the model, in evaluation mode, on the GPU if there is one.
        missing_weights: the names of the model's weights that the checkpoint lacks, and that are random.
    """

    tokenizer: PreTrainedTokenizerBase
    model: PreTrainedModel
    missing_weights: set[str]


@dataclass(frozen=True)
class EmbeddedText:
    """A text's tokens as an encoder of width D embeds them.

    Attributes:
        embeddings: (T, D), an embedding of length 1 for each token.
        is_content: (T,), false at special tokens, which are not counted.
    """

    embeddings: torch.Tensor
    is_content: torch.Tensor


def load_checkpoint(
    name: str, task: str, choose_class: Callable[[PreTrainedConfig], Any], **hub_settings: object
) -> Checkpoint:
    """Load a model and its tokenizer from a folder or the Hub.

    Args:
        name: a folder or a name on the Hub.
        task: what the model is for, in the message "cannot be loaded as a … model".
        choose_class: maps the configuration to the Auto class of transformers that has the task's head, or raises
            `Unfit`.
        hub_settings: `cache_dir`, `token` and similar arguments of `from_pretrained`.

    Raises:
        Unfit: raised by `choose_class`.
        ValueError: the checkpoint does not exist, is damaged, or cannot be reached.
    """
    try:
        config = AutoConfig.from_pretrained(name, trust_remote_code=False, **hub_settings)
        auto_class = choose_class(config)
        tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False, **hub_settings)
        # At lower precision, many tokens of a language model are equally likely. A token is then often exactly at a
        # percentile, and whether it is above the percentile is an accident.
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
    """The number of tokens that the model reads at once, at most 512."""
    return min(longest_input(model) or _LONGEST_CONTEXT, _LONGEST_CONTEXT)


class NextSentenceModel:
    """A BERT with a next-sentence head: the probability that the second sentence of a pair follows the first.

    The architecture is any for which transformers has such a head. The model is on the GPU if there is one. A pair with
    more tokens than `context` is truncated at the end of the longer text.

    Args:
        name: a folder or a name on the Hub.
        hub_settings: `cache_dir`, `token` and similar arguments of `from_pretrained`.

    Attributes:
        context: the number of tokens of a pair that the model reads, with special tokens.

    Raises:
        ValueError: the checkpoint cannot be loaded, its architecture has no next-sentence head, or it lacks the
            weights of this head.
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
            # The message names a weight of the head. In the order of the alphabet, the head's names are the last.
            raise ValueError(f"{name} has no weights for {max(missing)} ({len(missing)} are missing): {_HINT}")
        self.context = context_of(self.model)

    def __call__(self, pairs: Sequence[Pair]) -> list[float]:
        """The probability of each pair, 0 to 1, that the second sentence follows the first, in the pairs' order."""
        probabilities: list[float] = []
        with progress_bar(None, "next-sentence", len(pairs)) as bar:
            for start in range(0, len(pairs), _PAIRS_AT_ONCE):
                chunk = pairs[start : start + _PAIRS_AT_ONCE]
                probabilities.extend(self._probabilities(chunk, bar))
        return probabilities

    def _probabilities(self, pairs: Sequence[Pair], bar) -> list[float]:
        """The probability of each pair that the second sentence follows the first, in the order of the pairs.

        Pairs of similar length share a batch.

        Args:
            bar: the progress bar, which counts pairs.
        """
        # Token types tell a model which tokens belong to the second text of a pair. Some tokenizers omit token types
        # unless they are requested. A model without token types does not accept any, so nothing is requested for it.
        return_token_type_ids = None
        if getattr(self.model.config, "type_vocab_size", 0) > 1:
            return_token_type_ids = True
        encoded = self.tokenizer(
            [readable(first) for first, _ in pairs],
            [readable(second) for _, second in pairs],
            # If a pair is too long, the end of its longer text is cut off.
            truncation="longest_first",
            max_length=self.context,
            return_token_type_ids=return_token_type_ids,
        )
        lengths = [len(row) for row in encoded["input_ids"]]
        # The indices of the pairs, from the longest pair to the shortest.
        order = sorted(range(len(pairs)), key=lengths.__getitem__, reverse=True)
        probabilities = [0.0] * len(pairs)
        start = 0
        while start < len(order):
            # The first pair of a batch is its longest, to whose length the others are padded.
            longest = lengths[order[start]]
            size = max(_TOKENS_AT_ONCE // longest, 1)
            rows = order[start : start + size]
            start += size
            batch = {}
            for name, values in encoded.items():
                batch[name] = [values[row] for row in rows]
            for row, probability in zip(rows, self._classify(batch), strict=True):
                probabilities[row] = probability
            bar.update(len(rows))
        return probabilities

    @torch.inference_mode()
    def _classify(self, batch: dict[str, list]) -> list[float]:
        """The probability of each pair of a batch, whose tokens are not padded yet."""
        inputs = self.tokenizer.pad(batch, return_tensors="pt").to(self.model.device)
        # Double precision keeps probabilities near 1 apart.
        logits = self.model(**inputs).logits.double()
        return torch.sigmoid(logits[:, _FOLLOWS] - logits[:, _IS_RANDOM]).tolist()

    def fingerprint(self) -> str:
        """A hash of the weights and the vocabulary, in hexadecimal digits, equal for equal checkpoints of any name."""
        return hash_of_bytes(self._content())

    def _content(self) -> Iterator[bytes]:
        """The vocabulary, and then each weight in turn, as a copy of all weights may not fit in memory."""
        vocabulary = json.dumps(self.tokenizer.get_vocab(), sort_keys=True)
        yield vocabulary.encode()
        for name, values in self.model.state_dict().items():
            yield name.encode() + values.cpu().numpy().tobytes()


def bertscore_scores(model: str, predictions: Sequence[str], references: Sequence[str | Sequence[str]]) -> np.ndarray:
    """F of BERTScore of each row, in points, without weights by frequency and without rescaling.

    Precision is the mean over the prediction's tokens of the highest cosine with a token of the reference. Recall is
    the mean over the reference's tokens of the highest cosine with a token of the prediction. Special tokens can be
    matched, but are not counted. Texts that exceed the encoder's positions, or 512 tokens, are truncated.

    Args:
        model: an encoder, or a sequence-to-sequence model, whose encoder is used: a folder or a name on the Hub. With
            `:LAYER` behind the name, as in `roberta-large:17`, the embeddings are the hidden states of this layer
            instead of the last.
        predictions: (N,), one text per row.
        references: (N,), one or several texts per row. The score of a row is the highest F with one of its references.

    Returns:
        (N,), at most 100; 0 for a row whose prediction is blank, or whose references are all blank.

    Raises:
        TypeError: `predictions` or `references` is not a list.
        ValueError: the numbers of predictions and references differ, there are none, a row has no reference, a value
            is not a string, all references are blank, the encoder cannot be loaded, or it has no such layer.
    """
    reference_lists = check_reference_rows(predictions, references)
    encoder = _encoder(model)
    pairs: list[Pair] = []
    row_of_pair: list[int] = []
    for row, (prediction, row_references) in enumerate(zip(predictions, reference_lists, strict=True)):
        for reference in row_references:
            pairs.append((prediction.strip(), reference.strip()))
            row_of_pair.append(row)
    scores: list[float] = []
    with progress_bar(None, "BERTScore", len(pairs)) as bar:
        for start in range(0, len(pairs), _COMPARED_AT_ONCE):
            chunk = pairs[start : start + _COMPARED_AT_ONCE]
            embedded_texts = encoder.embed(set(chain.from_iterable(chunk)))
            for prediction, reference in chunk:
                scores.append(_fmeasure(embedded_texts[prediction], embedded_texts[reference]))
            bar.update(len(chunk))
    best = np.full(len(reference_lists), -np.inf)
    np.maximum.at(best, row_of_pair, scores)
    return 100 * best


def _fmeasure(prediction: EmbeddedText, reference: EmbeddedText) -> float:
    """F of BERTScore of a pair, as a share; 0 if one of the texts has only special tokens."""
    if not (prediction.is_content.any() and reference.is_content.any()):
        return 0.0
    cosines = prediction.embeddings @ reference.embeddings.T
    precision = cosines.amax(1)[prediction.is_content].mean().item()
    recall = cosines.amax(0)[reference.is_content].mean().item()
    return 2 * precision * recall / (precision + recall)


class _Encoder:
    """Embeds the tokens of texts, in batches of similar length.

    Args:
        name: a folder or a name on the Hub, with `:LAYER` behind it for the hidden states of an earlier layer than the
            last.

    Raises:
        ValueError: the checkpoint cannot be loaded.
    """

    def __init__(self, name: str):
        checkpoint_name, layer = name, None
        start, _, end = name.rpartition(":")
        if end.isdecimal():
            checkpoint_name, layer = start, int(end)
        checkpoint = load_checkpoint(checkpoint_name, "text encoder", lambda _: AutoModel)
        model = checkpoint.model
        self._name = name
        self._tokenizer = checkpoint.tokenizer
        self._model = model.get_encoder() if model.config.is_encoder_decoder else model
        self._context = context_of(model)
        self._layer = layer

    def embed(self, texts: set[str]) -> dict[str, EmbeddedText]:
        """Text -> its embedded tokens, for each of the texts.

        Raises:
            ValueError: the encoder has no such layer.
        """
        shortest_first = sorted(texts, key=len)
        embedded_texts: dict[str, EmbeddedText] = {}
        while shortest_first:
            # The tokens of a batch are estimated from the characters of its longest text, the last. Most tokens have
            # two characters or more, and a text is cut off at the model's context.
            longest = min(len(shortest_first[-1]) + 1, 2 * self._context)
            size = max(2 * _TOKENS_AT_ONCE // longest, 1)
            embedded_texts.update(self._embed_batch(shortest_first[-size:]))
            shortest_first = shortest_first[:-size]
        return embedded_texts

    @torch.inference_mode()
    def _embed_batch(self, texts: list[str]) -> dict[str, EmbeddedText]:
        """Text -> embedded tokens, for the texts of one batch."""
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
        outputs = self._model(**inputs, output_hidden_states=True)
        embeddings = normalize(self._hidden_states(outputs), dim=-1)
        embedded_texts = {}
        for row, text in enumerate(texts):
            tokens = is_token[row]
            embedded_texts[text] = EmbeddedText(embeddings[row][tokens], is_content[row][tokens])
        return embedded_texts

    def _hidden_states(self, outputs: BaseModelOutput) -> torch.Tensor:
        """The hidden states of the layer, (B, T, D), from the encoder's outputs.

        Raises:
            ValueError: the encoder has no such layer.
        """
        # Some encoders, such as recurrent ones, return the hidden states of the last layer alone.
        layers = outputs.hidden_states or ()
        if self._layer is None:
            return layers[-1] if layers else cast(torch.Tensor, outputs.last_hidden_state)
        if not layers:
            raise ValueError(f"{self._name}: the encoder gives its last layer only: omit :{self._layer}")
        if self._layer >= len(layers):
            raise ValueError(
                f"{self._name}: the encoder has the layers 0 to {len(layers) - 1}, 0 being the embeddings: name one of "
                "them, or omit the layer"
            )
        return layers[self._layer]


@lru_cache(maxsize=1)
def _encoder(name: str) -> _Encoder:
    """The encoder of this name. The last encoder stays loaded, as it usually scores several systems in turn."""
    return _Encoder(name)
