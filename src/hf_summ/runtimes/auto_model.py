"""Loading of checkpoints and of what `hf-summ export` wrote, for architectures of transformers too."""

from transformers import AutoModelForSeq2SeqLM, PreTrainedModel

from hf_summ.models.modeling_base import load_exported


class AutoModelForSummarization(AutoModelForSeq2SeqLM):
    """transformers' `AutoModelForSeq2SeqLM`, which also loads a folder or repository of graphs, of any architecture."""

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path, *args, **kwargs) -> PreTrainedModel:
        """As of `AutoModelForSeq2SeqLM`."""
        exported = load_exported(pretrained_model_name_or_path, kwargs)
        return super().from_pretrained(pretrained_model_name_or_path, *args, **kwargs) if exported is None else exported
