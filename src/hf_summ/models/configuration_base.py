"""What the configurations of all architectures share."""

from transformers import PreTrainedConfig

_PIPELINES = {
    "summarization": {
        "impl": "pipeline_summarization.SummarizationPipeline",
        "pt": ["AutoModelForSeq2SeqLM"],
        "type": "text",
    }
}


class SummarizationConfig(PreTrainedConfig):
    """Base of the architectures' configurations.

    A saved config.json names our pipeline as `custom_pipelines`, so that `pipeline("summarization")` works from the Hub
    folder alone. Where the package is installed the pipeline is registered already, and transformers would refuse a
    config that names a custom one without `trust_remote_code`: there the entry is hidden on loading.
    """

    keys_to_ignore_at_inference = ["past_key_values", "loss_parts"]

    def __post_init__(self, **kwargs):
        custom_pipelines = kwargs.pop("custom_pipelines", None)
        if custom_pipelines is not None and type(self).__module__.startswith("transformers_modules."):
            kwargs["custom_pipelines"] = custom_pipelines
        super().__post_init__(**kwargs)

    def to_json_string(self, use_diff: bool = True) -> str:
        shown = hasattr(self, "custom_pipelines")
        if self._auto_class is None or shown:
            return super().to_json_string(use_diff)
        self.custom_pipelines = _PIPELINES
        try:
            return super().to_json_string(use_diff)
        finally:
            del self.custom_pipelines
