"""The base of all architectures' configurations."""

import json
from collections.abc import Iterable, Mapping

from huggingface_hub.errors import StrictDataclassError
from transformers import PreTrainedConfig

_PIPELINES = {
    "summarization": {
        "impl": "pipeline_summarization.SummarizationPipeline",
        "pt": ["AutoModelForSeq2SeqLM"],
        "type": "text",
    }
}


# those that no architecture checks by itself
_SIZES = ("vocab_size", "ffn_dim", "fusion_dim", "tag_vocab_size")

# the embeddings of padded checkpoints have a few more rows than their tokenizer has tokens
PADDING_ROWS = 127


class SummarizationConfig(PreTrainedConfig):
    """Base of the architectures' configurations.

    A saved config.json lists our pipeline under `custom_pipelines`, so that `pipeline("summarization")` works from the
    Hub folder alone. Where the package is installed, the pipeline is already registered, and transformers would refuse
    a config with a custom one unless `trust_remote_code` is set; there the entry is hidden on loading.
    """

    keys_to_ignore_at_inference = ["past_key_values", "loss_parts"]

    def __post_init__(self, **kwargs):
        custom_pipelines = kwargs.pop("custom_pipelines", None)
        if custom_pipelines is not None and type(self).__module__.startswith("transformers_modules."):
            kwargs["custom_pipelines"] = custom_pipelines
        try:
            super().__post_init__(**kwargs)
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            # transformers reads some of its own keys without a check
            raise ValueError(f"a value of the configuration cannot be read: {error}") from error

    def to_json_string(self, use_diff: bool = True) -> str:
        text = super().to_json_string(use_diff)
        if self._auto_class is None or hasattr(self, "custom_pipelines"):
            return text
        # added to the text, as another thread may be reading the config
        return json.dumps({**json.loads(text), "custom_pipelines": _PIPELINES}, indent=2, sort_keys=True) + "\n"

    def check(self) -> None:
        """Raise a ValueError, as a new config would, if values set since its creation are inconsistent."""
        try:
            self.validate()
        except StrictDataclassError as error:
            raise ValueError(str(error.__cause__ or error)) from error

    def validate_sizes_of_tables(self):
        """Require at least one row or column of what has a size."""
        for key in _SIZES:
            size = getattr(self, key, None)
            if size is not None and size < 1:
                raise ValueError(f"`{key}` is {size}, but must be at least 1")

    def _check_heads(self) -> None:
        """Require the heads to divide the width evenly."""
        if self.d_model < 1 or self.num_heads < 1 or self.d_model % self.num_heads:
            raise ValueError(f"`d_model` ({self.d_model}) must be a multiple of `num_heads` ({self.num_heads})")

    def _check_stacks(self) -> None:
        """Require at least one layer on each side."""
        for key in ("encoder_layers", "decoder_layers"):
            if getattr(self, key) < 1:
                raise ValueError(f"`{key}` is {getattr(self, key)}, but must be at least 1")

    def _check_choices(self, choices: Mapping[str, Iterable[str]]) -> None:
        """Require each key to have one of its known values."""
        for key, known in choices.items():
            if getattr(self, key) not in known:
                raise ValueError(f"`{key}` is {getattr(self, key)!r}, but must be one of {', '.join(known)}")

    def _check_probabilities(self, *keys: str) -> None:
        """Require dropout and smoothing to be at least 0 and below 1."""
        for key in keys:
            if not 0.0 <= getattr(self, key) < 1.0:
                raise ValueError(f"`{key}` is {getattr(self, key)}, but must be at least 0 and below 1")


# a saved checkpoint brings its code along, for users who have not installed the package; so for models and processors
SummarizationConfig.register_for_auto_class()
