"""Whether a sentence follows another, by the head with which BERT was pre-trained (Devlin et al. 2019, section 3.1)."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import (
    MODEL_FOR_NEXT_SENTENCE_PREDICTION_MAPPING,
    AutoConfig,
    AutoModelForNextSentencePrediction,
    AutoTokenizer,
)

from hf_summ.common.messages import one_line, progress_bar
from hf_summ.extractive.consistent import Pair
from hf_summ.models.pretrained_parts import longest_input
from hf_summ.models.text_cleaning import readable

# tokens that are read at once, with padding: enough to keep the machine busy, few enough to bound memory
_TOKENS_AT_ONCE = 8192
# pairs that are split into tokens and sorted by length together
_PAIRS_AT_ONCE = 4096
_HINT = "name a checkpoint that was saved with its next-sentence head, such as google-bert/bert-base-uncased"
# the label of BERT's head that means that the second text follows the first
_FOLLOWS, _IS_RANDOM = 0, 1


class NextSentenceModel:
    """A BERT with its next-sentence head, on the GPU if there is one.

    A pair that is longer than the model's positions loses the end of its longer sentence.

    Args:
        name: a folder, or a name on the Hub, of a `BertForNextSentencePrediction` or another architecture with this
            head.
        hub_settings: `cache_dir` and `token`.

    Raises:
        ValueError: it does not exist, is of an architecture without such a head, or has no weights for it.
    """

    def __init__(self, name: str, **hub_settings: Any):
        try:
            config = AutoConfig.from_pretrained(name, trust_remote_code=False, **hub_settings)
            if type(config) not in MODEL_FOR_NEXT_SENTENCE_PREDICTION_MAPPING:
                raise _NoHead(f"{name} is a {config.model_type}, which has no next-sentence head: {_HINT}")
            self.tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False, **hub_settings)
            self.model, loaded = AutoModelForNextSentencePrediction.from_pretrained(
                name, config=config, dtype=torch.float32, output_loading_info=True, **hub_settings
            )
        except _NoHead:
            raise
        except (OSError, ValueError, RuntimeError, StrictDataclassError) as error:
            raise ValueError(
                f"{name} cannot be loaded as a next-sentence model ({one_line(error)}): if the Hub is out of reach, "
                "give the folder of a downloaded checkpoint"
            ) from error
        if missing := loaded["missing_keys"]:
            # the last by name is the head's
            raise ValueError(f"{name} has no weights for {max(missing)} ({len(missing)} are missing): {_HINT}")
        self.name = name
        self.model.eval().to("cuda" if torch.cuda.is_available() else "cpu")

    def __call__(self, pairs: Sequence[Pair]) -> list[float]:
        """The probability that the second sentence of each pair follows the first.

        Pairs of like length are read together.
        """
        found: list[float] = []
        with progress_bar(None, "next sentences", len(pairs)) as bar:
            for start in range(0, len(pairs), _PAIRS_AT_ONCE):
                found += self._read(pairs[start : start + _PAIRS_AT_ONCE], bar)
        return found

    def fingerprint(self) -> str:
        """A hash of the weights and the vocabulary, equal for equal checkpoints whatever their names."""
        digest = hashlib.sha256(json.dumps(self.tokenizer.get_vocab(), sort_keys=True).encode())
        for name, values in self.model.state_dict().items():
            digest.update(name.encode() + values.cpu().numpy().tobytes())
        return digest.hexdigest()

    def _read(self, pairs: Sequence[Pair], bar) -> list[float]:
        encoded = self.tokenizer(
            *([readable(pair[side]) for pair in pairs] for side in (0, 1)),
            truncation="longest_first",
            max_length=longest_input(self.model) or self.tokenizer.model_max_length,
            # some tokenizers leave them out, and the sentences would look like one
            return_token_type_ids=True,
        )
        lengths = [len(row) for row in encoded["input_ids"]]
        order = sorted(range(len(pairs)), key=lengths.__getitem__, reverse=True)
        found = [0.0] * len(pairs)
        while order:
            # the first is the longest
            size = max(_TOKENS_AT_ONCE // lengths[order[0]], 1)
            rows, order = order[:size], order[size:]
            for row, probability in zip(rows, self._probabilities(encoded, rows), strict=True):
                found[row] = probability
            bar.update(len(rows))
        return found

    @torch.inference_mode()
    def _probabilities(self, encoded: Any, rows: Sequence[int]) -> list[float]:
        batch = {name: [values[row] for row in rows] for name, values in encoded.items()}
        inputs = self.tokenizer.pad(batch, return_tensors="pt").to(self.model.device)
        # in double precision, in which probabilities near one still differ
        logits = self.model(**inputs).logits.double()
        return torch.sigmoid(logits[:, _FOLLOWS] - logits[:, _IS_RANDOM]).tolist()


class _NoHead(ValueError):
    """The checkpoint's architecture has no next-sentence head."""
