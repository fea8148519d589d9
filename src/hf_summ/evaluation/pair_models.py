"""Pre-trained models that judge texts: loading, and the classification of pairs in batches of similar length."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import AutoConfig, AutoTokenizer, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from hf_summ.common.files import check_hub_reachable
from hf_summ.common.messages import one_line, progress_bar
from hf_summ.models.pretrained_parts import longest_input
from hf_summ.models.text_documents import readable

Pair = tuple[str, str]
# tokens per batch, with padding: enough for throughput, few enough to bound memory
_TOKENS_AT_ONCE = 8192
# most tokens of a pair, which bounds memory where a model's positions do not
_LONGEST_CONTEXT = 512
# pairs that are tokenized and sorted by length together
_PAIRS_AT_ONCE = 4096


class Unfit(ValueError):
    """A checkpoint's architecture cannot do the task."""


def load_checkpoint(
    name: str, task: str, auto_class_of: Callable[[PreTrainedConfig], Any], **hub_settings: Any
) -> tuple[PreTrainedTokenizerBase, PreTrainedModel, set[str]]:
    """The tokenizer, the model, on the GPU if there is one, and the names of missing weights.

    Args:
        task: what the model is for, in messages: "it cannot be loaded as a … model".
        auto_class_of: maps the configuration to transformers' Auto class for the head, or raises `Unfit`.

    Raises:
        ValueError: it does not exist, or cannot do the task.
    """
    try:
        check_hub_reachable(name, cache_dir=hub_settings.get("cache_dir"))
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


class PairModel(ABC):
    """A model that gives a probability for a pair of texts, on the GPU if there is one.

    A pair that exceeds the model's positions is truncated at the end of its longer text.

    Args:
        name: a folder, or a name on the Hub.
        hub_settings: `cache_dir` and `token`.

    Attributes:
        task, hint: what the model is for, in messages, and the checkpoint that they suggest.
        context: the number of tokens of a pair that the model reads.

    Raises:
        ValueError: it does not exist, cannot do the task, or has no weights for its head.
    """

    task: ClassVar[str]
    hint: ClassVar[str]

    def __init__(self, name: str, **hub_settings: Any):
        self.name = name
        self.tokenizer, self.model, missing = load_checkpoint(name, self.task, self.auto_class_of, **hub_settings)
        if missing:
            # the last by name is the head's
            raise ValueError(f"{name} has no weights for {max(missing)} ({len(missing)} are missing): {self.hint}")
        self.context = context_of(self.model)

    @abstractmethod
    def auto_class_of(self, config: PreTrainedConfig) -> Any:
        """transformers' Auto class for the head; raises `Unfit` for a configuration without such a head."""

    @abstractmethod
    def probabilities(self, logits: torch.Tensor) -> torch.Tensor:
        """The probability of each pair from its logits in double precision, (B, labels) -> (B,)."""

    def __call__(self, pairs: Sequence[Pair]) -> list[float]:
        """The probability of each pair; pairs of similar length share a batch."""
        probabilities: list[float] = []
        with progress_bar(None, self.task, len(pairs)) as bar:
            for start in range(0, len(pairs), _PAIRS_AT_ONCE):
                probabilities += self._read(pairs[start : start + _PAIRS_AT_ONCE], bar)
        return probabilities

    def _read(self, pairs: Sequence[Pair], bar) -> list[float]:
        encoded = self.tokenizer(
            *([readable(pair[side]) for pair in pairs] for side in (0, 1)),
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
        return self.probabilities(self.model(**inputs).logits.double()).tolist()
