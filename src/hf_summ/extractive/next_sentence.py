"""BERT's next-sentence head as a judge of neighboring sentences (Devlin et al. 2019, section 3.1)."""

import hashlib
import json

import torch
from transformers import (
    MODEL_FOR_NEXT_SENTENCE_PREDICTION_MAPPING,
    AutoModelForNextSentencePrediction,
    PreTrainedConfig,
)

from hf_summ.evaluation.pair_models import PairModel, Unfit

# the label of BERT's head for "the second text follows the first"
_FOLLOWS, _IS_RANDOM = 0, 1


class NextSentenceModel(PairModel):
    """A BERT with its next-sentence head: the probability that the second sentence of a pair follows the first.

    See `PairModel` for the arguments. The model is a `BertForNextSentencePrediction` or has this head otherwise.

    Raises:
        ValueError: it does not exist, is of an architecture without such a head, or has no weights for it.
    """

    task = "next-sentence"
    hint = "name a checkpoint that was saved with its next-sentence head, such as google-bert/bert-base-uncased"

    def auto_class_of(self, config: PreTrainedConfig) -> type:
        """See `PairModel.auto_class_of`."""
        if type(config) not in MODEL_FOR_NEXT_SENTENCE_PREDICTION_MAPPING:
            raise Unfit(f"{self.name} is a {config.model_type}, which has no next-sentence head: {self.hint}")
        return AutoModelForNextSentencePrediction

    def probabilities(self, logits: torch.Tensor) -> torch.Tensor:
        """(B, 2) -> (B,), see `PairModel.probabilities`."""
        return torch.sigmoid(logits[:, _FOLLOWS] - logits[:, _IS_RANDOM])

    def fingerprint(self) -> str:
        """A hash of the weights and the vocabulary, equal for equal checkpoints whatever their names."""
        digest = hashlib.sha256(json.dumps(self.tokenizer.get_vocab(), sort_keys=True).encode())
        for name, values in self.model.state_dict().items():
            digest.update(name.encode() + values.cpu().numpy().tobytes())
        return digest.hexdigest()
