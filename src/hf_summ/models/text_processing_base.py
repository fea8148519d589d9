"""The side of processors that reads and writes text, without torch and transformers: for runtimes that have neither."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any
from unicodedata import normalize
from zlib import crc32

from .checks import check_integer, check_texts, check_tokenizer, is_list, truncates
from .text_documents import (
    FIRST_POINTER,
    JoinedRow,
    decode_pointed,
    join,
    pointed_words,
    readable,
    tokenize,
    word_marks,
)

# the module that restores case: by name, as only processors that use it are saved with it
CASE_MODULE = ".text_case"
# why case cannot be restored
CASED = "the vocabulary is not in lower case: make one with `hf-summ vocabulary --lowercase`"
# of each example before truncation, and of each of its documents before and after it
LENGTHS = ("lengths", "document_lengths", "kept_lengths")
# longer than any row, and short enough for memory
_LONGEST = 10**6
# enough that two unknown words of a document rarely have the same
_UNKNOWN_IDS = 2**16


class TextProcessor:
    """Converts texts to lists of the model's inputs, and its outputs to texts.

    `SummarizationProcessor` describes the settings, and is the processor of PyTorch models. Every text is cleaned,
    tokenized and truncated here, once.

    Args:
        tokenizer: a fast tokenizer of transformers, or another with its methods.
    """

    unaligned_fields: tuple[str, ...] = ()
    # whether the name of a special token in a text is plain text, as with `split_special_tokens` of a tokenizer
    splits_special_tokens = False

    def __init__(
        self,
        tokenizer,
        max_source_length=500,
        max_target_length=150,
        document_separator=None,
        restore_case=False,
        chat_template=None,
        unknown_ids=0,
    ):
        self._set_special_tokens(tokenizer)
        check_lengths(max_source_length=max_source_length, max_target_length=max_target_length)
        for name in ("pad_token", "eos_token"):
            if getattr(tokenizer, name) is None:
                raise ValueError(f"the tokenizer has no `{name}`: set one, or make one with `hf-summ vocabulary`")
        is_token = isinstance(document_separator, str) and document_separator in tokenizer.get_vocab()
        if document_separator is not None and not is_token:
            raise ValueError(f"`document_separator` is {document_separator!r:.80}, but must be a token")
        check_tokenizer(tokenizer)
        # positions count from the left, and `pad` pads on the right
        tokenizer.padding_side = "right"
        self.max_source_length = max_source_length
        self.max_target_length = max_target_length
        self.document_separator = document_separator
        self.restore_case = restore_case
        self.unknown_ids = unknown_ids
        self.tokenizer = tokenizer
        if restore_case and not self.is_uncased:
            raise ValueError(f"`restore_case` is {restore_case}, but {CASED}")

    @property
    def model_input_names(self) -> list[str]:
        return ["input_ids", "attention_mask"]

    @property
    def pad_token_id(self) -> int:
        return self.tokenizer.pad_token_id

    @property
    def eos_token_id(self) -> int:
        return self.tokenizer.eos_token_id

    @property
    def is_uncased(self) -> bool:
        """Whether texts are read in lower case."""
        return "A" not in self._normalized("A")

    @property
    def separator_token_id(self) -> int:
        """The id between the documents of an example."""
        token = self.document_separator or self.tokenizer.sep_token or self.tokenizer.eos_token
        return self.tokenizer.convert_tokens_to_ids(token)

    @property
    def padding_values(self) -> dict[str, Any]:
        """Field -> padding value."""
        return {"input_ids": self.pad_token_id, "attention_mask": 0}

    def needed_unknown_ids(self) -> int:
        """The number of ids that tell unknown words apart, which a vocabulary of words needs; 0 for subwords."""
        if self.tokenizer.unk_token_id is None or type(self.tokenizer.backend_tokenizer.model).__name__ != "WordLevel":
            return 0
        return _UNKNOWN_IDS if word_marks(self.tokenizer).is_whole else 0

    def __call__(
        self,
        text: str | Sequence[str] | Sequence[Sequence[str]],
        truncation: bool | str = True,
        max_length: int | None = None,
        return_lengths: bool = False,
        show_progress: bool = False,
        **source: Any,
    ) -> dict[str, list]:
        """Convert documents to rows of model inputs, not padded; see `SummarizationProcessor`."""
        check_lengths(max_length=max_length)
        length = (max_length or self.max_source_length) if truncates(truncation) else None
        features = self.source_features(self._examples(text), length, show_progress, **source)
        return {name: rows for name, rows in features.items() if return_lengths or name not in LENGTHS}

    def clean(self, text: str, is_document: bool = False) -> str:
        """Clean `text`, a document (`is_document`) or a summary; the base only replaces lone surrogates by U+FFFD."""
        return readable(text)

    def clean_document(self, text: str) -> str:
        """Clean `text`, a document, and put one space in place of each run of white space, as the model reads it."""
        return " ".join(self.clean(text, is_document=True).split())

    def source_features(self, examples: list[list[str]], length: int | None, show_progress: bool) -> dict[str, list]:
        """The model's inputs for each example, truncated to `length` ids, and the fields of `return_lengths`.

        The base returns rows of `input_ids` and `attention_mask`.

        Args:
            examples: the documents of each example.
            length: maximum number of ids; None does not truncate.
            show_progress: whether to show a progress bar for slow steps.
        """
        return self._features(self._source_rows(examples, length)[0])

    def pad(
        self,
        features: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        padding: bool | str = True,
        max_length: int | None = None,
        pad_to_multiple_of: int | None = None,
    ) -> dict[str, list]:
        """Pad the fields of `padding_values` on the right to one length, and drop all others.

        Args:
            features: one mapping per row, or one mapping of lists.
            padding: True or `longest`, `max_length` (of the source), or False. Labels are padded to their longest row.
            max_length: the length for `max_length`.
            pad_to_multiple_of: lengths are rounded up to a multiple of this number.

        Raises:
            ValueError: `padding` is unknown, `max_length` lacks a length, the multiple is below 1, or a row is too
                long.
        """
        if padding not in (True, False, "longest", "max_length", "do_not_pad"):
            choices = "True, 'longest', 'max_length', False, 'do_not_pad'"
            raise ValueError(f"`padding` is {padding!r:.80}, but must be one of {choices}")
        if pad_to_multiple_of is not None:
            check_integer("pad_to_multiple_of", pad_to_multiple_of, 1, _LONGEST)
        if max_length is not None and padding == "max_length":
            check_integer("max_length", max_length, 1, _LONGEST)
        if padding == "max_length" and max_length is None:
            raise ValueError('`padding="max_length"` needs `max_length`, the length to pad to')
        if not isinstance(features, Mapping):
            features = {name: [row[name] for row in features] for name in features[0]}
        values, multiple, padded = self.padding_values, pad_to_multiple_of or 1, {}
        for name, rows in features.items():
            if name not in values:
                continue
            rows = [row.tolist() if hasattr(row, "tolist") else list(row) for row in rows]
            if padding not in (False, "do_not_pad"):
                longest = max(map(len, rows), default=0)
                if name in self.unaligned_fields:
                    length = max(longest, 1)
                else:
                    fixed = max_length if padding == "max_length" and name != "labels" else None
                    length = longest if fixed is None else fixed
                    if longest > length:
                        raise ValueError(
                            f"`{name}` has a row of {longest}, but must be at most `max_length` ({length}): truncate it"
                        )
                    length = -(-length // multiple) * multiple
                rows = [row + [values[name]] * (length - len(row)) for row in rows]
            padded[name] = rows
        return padded

    def batch_decode(
        self,
        sequences,
        skip_special_tokens: bool = False,
        documents: Sequence[str] | Sequence[Sequence[str]] | None = None,
        **kwargs,
    ) -> list[str]:
        """Decode token ids to texts.

        Args:
            sequences: rows of ids.
            skip_special_tokens: whether to omit special tokens.
            documents: the summarized texts, or lists of several, each with the same number of rows. Rows may point to
                their words; without `documents`, these words are omitted.
            kwargs: as for the tokenizer's `batch_decode`.

        Raises:
            ValueError: the rows are not a multiple of the documents.
        """
        if self.restore_case and kwargs.get("clean_up_tokenization_spaces") is None:
            # leaves it to `restore` to tell apostrophes from quotation marks
            kwargs["clean_up_tokenization_spaces"] = False
        texts = self.tokenizer.batch_decode(sequences, skip_special_tokens=skip_special_tokens, **kwargs)
        if documents is None:
            return texts
        documents, number = list(documents), texts_per_document(texts, documents)
        for row, sequence in enumerate(sequences):
            ids = [int(token) for token in sequence]
            if max(ids, default=0) >= FIRST_POINTER:
                words = self._pointed_words(documents[row // number], ids)
                texts[row] = decode_pointed(self.tokenizer, ids, words, skip_special_tokens)
        return texts

    def _pointed_words(self, document: str | Sequence[str], ids: list[int]) -> dict[int, tuple[str, bool]]:
        """The words of an example that ids point to."""
        # truncation does not move the tokens of a single document, but several share the length
        length = None if isinstance(document, str) or len(document) == 1 else self.max_source_length
        example, row, encoded = self.read_source(document, length)
        words = {}
        for text, offsets, (start, number) in zip(example, encoded["offset_mapping"], row.spans, strict=True):
            words |= pointed_words(text, offsets[:number], ids, start)
        return words

    def restore(self, summaries: Sequence[str], documents: Sequence[str] | Sequence[Sequence[str]]) -> list[str]:
        """Restore the case and spacing of decoded summaries from their documents, if `restore_case` is set.

        Args:
            summaries: the texts of `batch_decode`.
            documents: as for `batch_decode`; the spellings of an example are counted over all its documents.

        Raises:
            ValueError: the summaries are not a multiple of the documents.
        """
        number = texts_per_document(summaries, documents)
        if not self.restore_case:
            return list(summaries)
        restored = import_module(CASE_MODULE, __package__).restored
        strips_accents = "\u0301" not in normalize("NFD", self._normalized("é"))
        # its decoder puts a space before each token that starts a word or a punctuation mark
        is_split = type(self.tokenizer.backend_tokenizer.decoder).__name__ == "WordPiece"
        texts: list[str] = []
        for document in documents:
            own = summaries[len(texts) : len(texts) + number]
            texts += restored(own, [document] if isinstance(document, str) else document, strips_accents, is_split)
        return texts

    def read_source(
        self, document: str | Sequence[str], length: int | None = None
    ) -> tuple[list[str], JoinedRow, Mapping[str, Any]]:
        """The model's view of an example: its cleaned documents, its row, and their full `input_ids` and offsets.

        Args:
            document: a text, or the documents of the example.
            length: maximum number of ids of the row; None does not truncate.
        """
        (example,) = self._examples([document])
        (row,), encoded = self._source_rows([example], length, return_offsets_mapping=True)
        return example, row, encoded

    def _examples(self, text: str | Sequence[str] | Sequence[Sequence[str]]) -> list[list[str]]:
        """The cleaned documents of each example; blank ones become empty."""
        if not is_list(text) or all(isinstance(value, str) or not is_list(value) for value in text):
            return [[document] for document in self._texts(text, "text", is_document=True)]
        examples = []
        for row, value in enumerate(text):
            if not is_list(value):
                raise TypeError(f"`text` has lists of texts, but row {row} is {type(value).__name__}: make each a list")
            documents = self._texts(value, f"text[{row}]", is_document=True)
            examples.append([document if document.strip() else "" for document in documents])
        return examples

    def _texts(self, text: str | Sequence[Any], name: str, is_document: bool = False) -> list[str]:
        texts = [text] if isinstance(text, str) else text
        check_texts(name, texts)
        if not len(texts):
            raise ValueError(f"`{name}` is an empty list: give at least one text")
        if is_document:
            return [self.clean_document(value) for value in texts]
        return [self.clean(value) for value in texts]

    def _tokenize(self, texts: list[str], **settings) -> Mapping[str, Any]:
        """The tokenizer's `input_ids` of full texts, without special tokens."""
        # users add special tokens to mark parts of texts
        is_text = self.splits_special_tokens or self.tokenizer.split_special_tokens
        settings["split_special_tokens"] = is_text and not self.tokenizer.extra_special_tokens
        if self.unknown_ids:
            settings["return_offsets_mapping"] = True
        encoded = tokenize(self.tokenizer, texts, add_special_tokens=False, return_attention_mask=False, **settings)
        if self.unknown_ids:
            for text, ids, offsets in zip(texts, encoded["input_ids"], encoded["offset_mapping"], strict=True):
                self._tell_unknown_apart(text, ids, offsets)
        return encoded

    def _tell_unknown_apart(self, text: str, ids: list[int], offsets: Sequence[tuple[int, int]]) -> None:
        """Replace each unknown id by one behind the vocabulary that is the same wherever its word occurs."""
        for position, token in enumerate(ids):
            if token == self.tokenizer.unk_token_id:
                start, end = offsets[position]
                word = self._normalized(text[start:end]).strip()
                ids[position] = len(self.tokenizer) + crc32(word.encode()) % self.unknown_ids

    def _source_rows(
        self, examples: list[list[str]], length: int | None, **settings
    ) -> tuple[list[JoinedRow], Mapping[str, Any]]:
        """Each example's row, truncated to `length`, and the tokenizer's output for all documents in order.

        Args:
            settings: for the tokenizer.
        """
        encoded = self._tokenize([document for example in examples for document in example], **settings)
        tokens, special = iter(encoded["input_ids"]), self._special_ids()
        rows = [join([next(tokens) for _ in texts], length, *special, self.separator_token_id) for texts in examples]
        return rows, encoded

    def _normalized(self, text: str) -> str:
        """A text as the vocabulary reads it."""
        normalizer, text = self.tokenizer.backend_tokenizer.normalizer, self.clean(text)
        return text if normalizer is None else normalizer.normalize_str(text)

    def _set_special_tokens(self, tokenizer) -> None:
        """Set tokens that the tokenizer has under another name."""

    def _special_ids(self) -> tuple[list[int], list[int]]:
        """The special ids before and after an example's documents."""
        return [], [self.eos_token_id]

    @staticmethod
    def _features(rows: list[JoinedRow]) -> dict[str, list]:
        return {
            "input_ids": [row.input_ids for row in rows],
            "attention_mask": [[1] * len(row.input_ids) for row in rows],
            "lengths": [row.length for row in rows],
            "document_lengths": [row.lengths for row in rows],
            "kept_lengths": [[number for _, number in row.spans] for row in rows],
        }


class CopyingTextProcessor(TextProcessor):
    """A `TextProcessor` that also accepts BERT's tokenizer.

    With `[CLS]`, documents begin with it and have no end token (Aksenov 2020, section 5.1); summaries begin with
    `[CLS]` and end with `[SEP]`. Without it, as in the tokenizers of `hf-summ vocabulary`, both get an end token.
    """

    splits_special_tokens = True

    def _set_special_tokens(self, tokenizer) -> None:
        for special, substitute in (("bos_token", "cls_token"), ("eos_token", "sep_token")):
            if getattr(tokenizer, special) is None and getattr(tokenizer, substitute) is not None:
                setattr(tokenizer, special, getattr(tokenizer, substitute))
        if tokenizer.cls_token is not None:
            # WordPiece separates words from punctuation: "it's" would be decoded as "it ' s"
            tokenizer.clean_up_tokenization_spaces = True

    def _special_ids(self) -> tuple[list[int], list[int]]:
        first = self.tokenizer.cls_token_id
        return super()._special_ids() if first is None else ([first], [])


def texts_per_document(texts: Sequence[str], documents: Sequence) -> int:
    """The number of texts for each document."""
    if not len(documents) or len(texts) % len(documents):
        raise ValueError(f"{len(texts)} sequences but {len(documents)} documents: each document needs the same number")
    return len(texts) // len(documents)


def check_lengths(**lengths: int | None) -> None:
    """Raise an error unless each length is None or an integer of at least 2."""
    for name, value in lengths.items():
        if value is not None:
            check_integer(name, value, 2, why=", for a subword and the end token")


class CopyTransformerTextProcessor(CopyingTextProcessor):
    """The `TextProcessor` of CopyTransformer; see `CopyTransformerProcessor`."""

    def __init__(
        self,
        tokenizer,
        max_source_length=512,
        max_target_length=512,
        document_separator=None,
        restore_case=False,
        chat_template=None,
        unknown_ids=0,
    ):
        super().__init__(
            tokenizer,
            max_source_length,
            max_target_length,
            document_separator,
            restore_case,
            chat_template,
            unknown_ids,
        )


class SagCopyTextProcessor(CopyingTextProcessor):
    """The `TextProcessor` of SAGCopy; see `SagCopyProcessor`."""

    def _special_ids(self) -> tuple[list[int], list[int]]:
        first = self.tokenizer.cls_token_id
        return [] if first is None else [first], [self.eos_token_id]
