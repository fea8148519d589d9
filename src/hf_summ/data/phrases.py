"""Key phrases fitted to the user's corpus."""

from collections.abc import Iterable

from transformers import AutoProcessor, PreTrainedTokenizerBase, ProcessorMixin

from hf_summ.common.files import check_hub_reachable
from hf_summ.common.messages import one_line
from hf_summ.models.checks import check_integer
from hf_summ.models.processing_highlight_transformer import HighlightTransformerProcessor


def load_tokenizer(name: str) -> ProcessorMixin | PreTrainedTokenizerBase:
    """The processor, or the bare tokenizer, in a folder or a Hub repository.

    Raises:
        ValueError: it cannot be read.
    """
    try:
        check_hub_reachable(name)
        return AutoProcessor.from_pretrained(name)
    except Exception as error:
        # for broken files, transformers and tokenizers raise errors of any type
        raise ValueError(f"{name}: cannot be read; make one with `hf-summ vocabulary`: {one_line(error)}") from error


def fit_phrases(
    examples: Iterable[str | list[str]],
    vocabulary: ProcessorMixin | PreTrainedTokenizerBase,
    max_frequencies: int | None = 200_000,
    **settings: int | None,
) -> HighlightTransformerProcessor:
    """A Highlight-Transformer's processor with another processor's vocabulary and settings, and the examples' phrases.

    Args:
        examples: texts, or lists of the documents of an example.
        vocabulary: a processor of this package, or a tokenizer.
        max_frequencies: maximum number of phrases to keep, the most frequent ones.
        settings: settings of the new processor; those that are not None replace the other's.

    Raises:
        ValueError: there is no example, or as `HighlightTransformerProcessor`.
    """
    names = ("max_source_length", "max_target_length", "document_separator", "restore_case")
    inherited = {name: getattr(vocabulary, name) for name in names if hasattr(vocabulary, name)}
    changed = {name: value for name, value in settings.items() if value is not None}
    processor = HighlightTransformerProcessor(getattr(vocabulary, "tokenizer", vocabulary), **inherited | changed)
    if max_frequencies is not None:
        check_integer("max_frequencies", max_frequencies, 1)
    processor.fit(examples, max_frequencies)
    return processor
