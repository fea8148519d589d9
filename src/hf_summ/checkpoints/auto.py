"""The Auto class of `pipeline("summarization")`."""

from transformers import AutoModelForSeq2SeqLM

from hf_summ.checkpoints.adapters import find_adapter
from hf_summ.checkpoints.loading import ModelArguments, load_processor
from hf_summ.models.modeling_base import LOADING, load_exported


class AutoModelForSummarization(AutoModelForSeq2SeqLM):
    """transformers' `AutoModelForSeq2SeqLM`, which also loads adapters with their settings, and exported graphs.

    One model is loaded at a time, as transformers' loading is not safe in threads.
    """

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path, *args, **kwargs):
        """The model; that of an adapter has `adapter_name`, and `adapter_processor` if the adapter has one."""
        exported = load_exported(pretrained_model_name_or_path, kwargs)
        if exported is not None:
            return exported
        with LOADING:
            model = super().from_pretrained(pretrained_model_name_or_path, *args, **kwargs)
        if getattr(model, "peft_config", None) is None:
            return model
        start = ModelArguments(
            model_name_or_path=str(pretrained_model_name_or_path),
            # a plain string, which is not resolved to a commit of the base's repository
            model_revision=f"{kwargs.get('revision') or 'main'}",
            cache_dir=kwargs.get("cache_dir"),
            token=kwargs.get("token"),
            trust_remote_code=bool(kwargs.get("trust_remote_code")),
        )
        if (adapter := find_adapter(start)) is not None:
            adapter.restore_settings(model.config)
            model.generation_config = adapter.generation_config() or model.generation_config
            model.adapter_name = adapter.name
            if adapter.with_tokenizer is start:
                model.adapter_processor = load_processor(start, model.config)
        return model
