"""The Auto class of `pipeline("summarization")`."""

from transformers import AutoModelForSeq2SeqLM

from hf_summ.checkpoints.adapters import find_adapter
from hf_summ.checkpoints.loading import ModelArguments, load_processor
from hf_summ.models.modeling_base import LOADING, load_exported


class AutoModelForSummarization(AutoModelForSeq2SeqLM):
    """transformers' `AutoModelForSeq2SeqLM`, which loads one model at a time, an adapter with its settings, and
    a folder or repository of graphs, of any architecture."""

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path, *args, **kwargs):
        """The model; that of an adapter has `adapter_name`, the latter's name, and `adapter_processor`."""
        exported = load_exported(pretrained_model_name_or_path, kwargs)
        if exported is not None:
            return exported
        with LOADING:
            model = super().from_pretrained(pretrained_model_name_or_path, *args, **kwargs)
        if getattr(model, "peft_config", None) is None:
            return model
        names = {"cache_dir", "token", "trust_remote_code"}
        given = {name: kwargs[name] for name in names if kwargs.get(name) is not None}
        start = ModelArguments(
            str(pretrained_model_name_or_path), model_revision=kwargs.get("revision") or "main", **given
        )
        if (adapter := find_adapter(start)) is not None:
            adapter.restore_settings(model.config)
            model.generation_config = adapter.generation_config() or model.generation_config
            model.adapter_name = adapter.name
            model.adapter_processor = load_processor(adapter.with_tokenizer, model.config)
        return model
