"""Processor of Highlight-Transformer: subwords, and the positions of key phrases among them."""

from collections.abc import Iterable, Iterator
from itertools import islice

from .processing_base import SummarizationProcessor
from .text_processing_highlight_transformer import HighlightTransformerTextProcessor, document_frequencies, kept_texts

# the number of examples that are tokenized together
_FITTED_AT_ONCE = 256


class HighlightTransformerProcessor(HighlightTransformerTextProcessor, SummarizationProcessor):
    """Converts documents to `input_ids`, `attention_mask` and key phrases, and summaries to `labels`.

    Key phrases are encoded by `phrase_starts`, `phrase_ends` and `phrase_values`, with an entry for each occurrence.
    By default tf-idf finds them in the truncated documents (Liu et al. 2021, section 4.1).

    Args:
        tokenizer: a fast tokenizer.
        max_source_length: number of subwords to which documents are truncated, including `[CLS]` or the end token.
        max_target_length: the same for summaries, including the end token.
        document_separator, restore_case, chat_template, unknown_ids: as for `SummarizationProcessor`.
        document_frequencies: phrase -> number of fitted examples that contain it, at least 2; written by `hf-summ
            key-phrases`.
        fitted_examples: number of fitted examples.
        num_phrases: number of phrases to find.
        skip_stop_words: whether stop words are left out before phrases are formed, in the order of scikit-learn: words
            around a stop word or a comma are then a phrase too. Frequencies must be fitted with the same value.
    """

    def fit(self, examples: Iterable[str | list[str]], max_frequencies: int | None = None) -> None:
        """Fit the document frequencies to truncated texts, or to examples of several documents.

        Args:
            examples: the text or the documents of each example.
            max_frequencies: maximum number of phrases to keep, the most frequent ones; None keeps all found in two.

        Raises:
            ValueError: there is no example.
        """
        texts = self._truncated(examples)
        frequencies, number = document_frequencies(texts, max_frequencies, self.skip_stop_words)
        if not number:
            raise ValueError("no examples to find phrases in: the corpus is empty")
        self.document_frequencies = frequencies
        self.fitted_examples = number

    def _truncated(self, examples: Iterable[str | list[str]]) -> Iterator[list[str]]:
        """The documents of each example, truncated as the model reads them; few examples are read at once."""
        remaining = iter(examples)
        batch = list(islice(remaining, _FITTED_AT_ONCE))
        while batch:
            lists = [[example] if isinstance(example, str) else example for example in batch]
            for source in self.read_sources(lists, self.max_source_length, with_offsets=True):
                yield kept_texts(source)
            batch = list(islice(remaining, _FITTED_AT_ONCE))


__all__ = ["HighlightTransformerProcessor"]
