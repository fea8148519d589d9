"""The base of all architectures' configurations."""

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from huggingface_hub.errors import StrictDataclassError
from transformers import PreTrainedConfig

from .checks import Range, save_further_code

_PIPELINE = {"impl": "pipeline_summarization.SummarizationPipeline", "pt": ["AutoModelForSeq2SeqLM"], "type": "text"}

SIZE, PROBABILITY = Range(1), Range(0, 1, below=True)


class SummarizationConfig(PreTrainedConfig):
    """Base of the architectures' configurations.

    A saved config.json lists our pipeline under `custom_pipelines`: `pipeline("summarization")` works from the Hub
    folder alone. An installed package has already registered the pipeline, and transformers would refuse a custom one
    unless `trust_remote_code` is set. Loading with the package therefore hides the entry.
    """

    attribute_map = {
        "hidden_size": "d_model",
        "num_hidden_layers": "encoder_layers",
        "num_attention_heads": "num_heads",
    }
    keys_to_ignore_at_inference = "cache past_key_values loss_parts copy_attentions copy_gates coverage".split()

    # key -> its range or choices; here the keys shared by architectures
    rules: ClassVar[Mapping[str, Range | tuple[str, ...]]] = {
        **dict.fromkeys(("vocab_size", "d_model", "num_heads", "ffn_dim", "encoder_layers", "decoder_layers"), SIZE),
        **dict.fromkeys(("dropout", "attention_dropout", "activation_dropout", "label_smoothing"), PROBABILITY),
        "norm": ("pre", "post"),
        "layer_norm_eps": Range(0, 1, above=True),
        "embedding_init": ("xavier", "normal"),
        "copy_attention": ("first_head", "separate", "mean"),
        "unknown_ids": Range(0),
    }

    # the values of keys that older checkpoints lack
    values_before: ClassVar[Mapping[str, Any]] = {}
    # the names of keys in older checkpoints -> the present ones
    renamed: ClassVar[Mapping[str, str]] = {}

    # SHAP and others take a model without it for a decoder alone, whose output begins with its input
    is_decoder: ClassVar[bool] = False

    use_cache: bool = True
    is_encoder_decoder: bool = True
    tie_word_embeddings: bool = True
    pad_token_id: int | None = 0
    bos_token_id: int | None = 1
    eos_token_id: int | list[int] | None = 2
    unk_token_id: int | None = None
    unknown_ids: int = 0

    @classmethod
    def from_dict(cls, config_dict, **kwargs):
        """transformers' `from_dict`; keys that an older config.json lacks get the values of that time."""
        present = {cls.renamed.get(name, name): value for name, value in config_dict.items()}
        return super().from_dict({**cls.values_before, **present}, **kwargs)

    def __post_init__(self, **kwargs):
        custom_pipelines = kwargs.pop("custom_pipelines", None)
        if custom_pipelines is not None and type(self).__module__.startswith("transformers_modules."):
            kwargs["custom_pipelines"] = custom_pipelines
        try:
            super().__post_init__(**kwargs)
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            # transformers does not check some of its own keys
            raise ValueError(f"a value of the configuration cannot be read: {error}") from error

    def save_pretrained(self, save_directory, *args, **kwargs):
        """transformers' `save_pretrained`; the code of a model in 8 bits includes how to load it."""
        super().save_pretrained(save_directory, *args, **kwargs)
        quantization = getattr(self, "quantization_config", None)
        if getattr(quantization, "quant_method", None) == "hf_summ_int8" and self._auto_class is not None:
            save_further_code(save_directory, type(self), type(quantization))

    def to_json_string(self, use_diff: bool = True) -> str:
        text = super().to_json_string(use_diff)
        if self._auto_class is None or hasattr(self, "custom_pipelines"):
            return text
        # add it to the text: another thread may be reading the config
        settings = {**json.loads(text), "custom_pipelines": {"summarization": _PIPELINE}}
        return json.dumps(settings, indent=2, sort_keys=True) + "\n"

    def check(self) -> None:
        """Validate values set since the config's creation; raise a ValueError as a new config would."""
        try:
            self.validate()
        except StrictDataclassError as error:
            raise ValueError(str(error.__cause__ or error)) from error

    # validators run in alphabetical order: those that relate values must run after this one
    def validate_alone(self):
        """Require each value to follow its rule."""
        for key, allowed in self.rules.items():
            value = getattr(self, key, None)
            # None, where its type allows it, is another value's default
            if key in self.__dataclass_fields__ and value is not None and value not in allowed:
                requirement = f"one of {', '.join(allowed)}" if isinstance(allowed, tuple) else allowed
                raise ValueError(f"`{key}` is {value!r:.80}, but must be {requirement}")

    def validate_heads(self):
        """Require the heads to divide the width evenly."""
        heads = getattr(self, "num_heads", 1)
        if self.d_model % heads:
            raise ValueError(f"`d_model` ({self.d_model}) must be a multiple of `num_heads` ({heads})")

    def validate_unknown(self):
        """Require an embedding for the words that the vocabulary lacks."""
        if self.unknown_ids and self.unk_token_id is None:
            raise ValueError(f"`unknown_ids` is {self.unknown_ids}, which needs `unk_token_id`")


# checkpoints are saved with their code, for users without the package; models and processors do the same
SummarizationConfig.register_for_auto_class()
