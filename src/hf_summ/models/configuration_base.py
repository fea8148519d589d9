"""The base of all architectures' configurations."""

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from huggingface_hub.errors import StrictDataclassError
from transformers import PreTrainedConfig

from .checks import Range, save_module, without_local_paths

# the entry of our pipeline under `custom_pipelines` of a saved config.json
_PIPELINE = {"impl": "pipeline_summarization.SummarizationPipeline", "pt": ["AutoModelForSeq2SeqLM"], "type": "text"}

# the range of a number of layers, channels or words
SIZE = Range(1)
# the range of a dropout or another share
PROBABILITY = Range(0, 1, excludes_most=True)


class SummarizationConfig(PreTrainedConfig):
    """Base of the architectures' configurations.

    A saved config.json lists our pipeline under `custom_pipelines`, so that `pipeline("summarization")` works from the
    Hub folder alone. An installed package has already registered the pipeline, and transformers would refuse a custom
    one unless `trust_remote_code` is set. Loading with the package therefore hides the entry.

    Attributes:
        rules: the name of a key -> its range, or the texts that it may be. The rules of this class are for keys that
            several architectures share.
        values_before: the name of a key that older checkpoints lack -> the value with which they were trained.
        renamed: the name of a key in older checkpoints -> its present name.
    """

    attribute_map = {
        "hidden_size": "d_model",
        "num_hidden_layers": "encoder_layers",
        "num_attention_heads": "num_heads",
    }
    keys_to_ignore_at_inference = "cache past_key_values loss_parts copy_attentions copy_gates coverage".split()

    rules: ClassVar[Mapping[str, Range | tuple[str, ...]]] = {
        "vocab_size": SIZE,
        "d_model": SIZE,
        "num_heads": SIZE,
        "ffn_dim": SIZE,
        "encoder_layers": SIZE,
        "decoder_layers": SIZE,
        "dropout": PROBABILITY,
        "attention_dropout": PROBABILITY,
        "activation_dropout": PROBABILITY,
        "label_smoothing": PROBABILITY,
        "norm": ("pre", "post"),
        "layer_norm_eps": Range(0, 1, excludes_least=True),
        "embedding_init": ("xavier", "normal"),
        "copy_attention": ("first_head", "separate", "mean"),
        "unknown_ids": Range(0),
    }
    values_before: ClassVar[Mapping[str, Any]] = {}
    renamed: ClassVar[Mapping[str, str]] = {}

    # without this attribute, SHAP and others take the model for a decoder alone, whose output begins with its input
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
        """Create a configuration as transformers does; keys that an older config.json lacks get `values_before`."""
        settings = dict(cls.values_before)
        for name, value in config_dict.items():
            present_name = cls.renamed.get(name, name)
            settings[present_name] = value
        return super().from_dict(settings, **kwargs)

    def __post_init__(self, **kwargs):
        # the entry stays only if the code of the checkpoint itself runs, from transformers' cache of remote code
        custom_pipelines = kwargs.pop("custom_pipelines", None)
        if custom_pipelines is not None and type(self).__module__.startswith("transformers_modules."):
            kwargs["custom_pipelines"] = custom_pipelines
        try:
            super().__post_init__(**kwargs)
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            # transformers reads some of its own keys without checking them
            raise ValueError(f"a value of the configuration cannot be read: {error}") from error

    def save_pretrained(self, save_directory, *args, **kwargs):
        """Save the configuration as transformers does. For a model in 8 bits, the code that loads it is saved too."""
        super().save_pretrained(save_directory, *args, **kwargs)
        self._save_optional_code(save_directory)

    def _save_optional_code(self, folder) -> None:
        """Add the code that loads 8 bits to a folder with the saved configuration of such a model."""
        quantization = getattr(self, "quantization_config", None)
        if getattr(quantization, "quant_method", None) == "hf_summ_int8" and self._auto_class is not None:
            save_module(folder, type(self), type(quantization))

    def _upload_modified_files(self, working_dir, *args, **kwargs):
        """transformers' upload of a saved configuration, with its optional code and without local paths."""
        # `save_pretrained(push_to_hub=True)` uploads before it returns
        self._save_optional_code(working_dir)
        with without_local_paths(working_dir):
            return super()._upload_modified_files(working_dir, *args, **kwargs)

    def to_json_string(self, use_diff: bool = True) -> str:
        text = super().to_json_string(use_diff)
        if self._auto_class is None or hasattr(self, "custom_pipelines"):
            return text
        # the entry is added to the text, not to the configuration, which another thread may be reading
        settings = {**json.loads(text), "custom_pipelines": {"summarization": _PIPELINE}}
        return json.dumps(settings, indent=2, sort_keys=True) + "\n"

    def check(self) -> None:
        """Validate all values, as they may have been set since the creation; raise the ValueError of a new config."""
        try:
            self.validate()
        except StrictDataclassError as error:
            raise ValueError(str(error.__cause__ or error)) from error

    # validators run in the order of their names, and those that relate several values must run after this one
    def validate_alone(self):
        """Require that each value by itself follows the rule of its key; raise a ValueError otherwise."""
        for key, allowed in self.rules.items():
            value = getattr(self, key, None)
            # a key whose type allows None takes its default from other values
            if key not in self.__dataclass_fields__ or value is None or value in allowed:
                continue
            requirement = str(allowed)
            if isinstance(allowed, tuple):
                requirement = f"one of {', '.join(allowed)}"
            raise ValueError(f"`{key}` is {value!r:.80}, but must be {requirement}")

    def validate_heads(self):
        """Require that the width is a multiple of the number of heads; raise a ValueError otherwise."""
        heads = getattr(self, "num_heads", 1)
        if self.d_model % heads:
            raise ValueError(f"`d_model` ({self.d_model}) must be a multiple of `num_heads` ({heads})")

    def validate_unknown(self):
        """Require the id of unknown words if there are `unknown_ids`; raise a ValueError otherwise.

        Words that the vocabulary lacks get the embedding of this id.
        """
        if self.unknown_ids and self.unk_token_id is None:
            raise ValueError(f"`unknown_ids` is {self.unknown_ids}, which needs `unk_token_id`")


# transformers then saves a checkpoint with its code, for users without the package
SummarizationConfig.register_for_auto_class()
