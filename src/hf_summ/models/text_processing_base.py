"""What processors do with texts: cleaning, tokenizing and truncating documents, and decoding and restoring summaries.

An example is a text, or several documents with one summary. A row is the list of the ids that a model reads of an
example. A pointer is an id from `FIRST_POINTER` on, which stands for a word of the documents.
This module imports neither torch nor transformers, as some runtimes have neither.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from itertools import chain
from typing import Any, NamedTuple
from unicodedata import normalize
from zlib import crc32

from .checks import IGNORED_LABEL, PADDING_ROWS, check_lengths, check_padding, check_texts, check_tokenizer, is_list
from .text_documents import (
    FIRST_POINTER,
    JoinedRow,
    PointedWord,
    decode_pointed,
    join,
    pointed_words,
    readable,
    tokenize,
    with_whole_words,
    word_marks,
)

# The module that restores case is imported by name, as only checkpoints that restore case contain the file.
CASE_MODULE = ".text_case"
# The reason why case cannot be restored, for messages.
CASED = "the vocabulary is not in lower case: make one with `hf-summ vocabulary --lowercase`"
# A text is an example. A list of texts has an example in each, and a list of lists the documents of each example.
Documents = str | Sequence[str] | Sequence[Sequence[str]]
# For each example: the ids of its row before truncation, and the tokens of each document before and after it.
LENGTHS = ("lengths", "document_lengths", "kept_lengths")
# The number of ids for unknown words. With so many, two unknown words of a document rarely get the same id.
_UNKNOWN_IDS = 2**16


class ReadSource(NamedTuple):
    """An example as the model reads it.

    Attributes:
        documents: the cleaned documents.
        row: the tokens of the documents in one row, perhaps truncated.
        token_ids: for each document, the ids of its tokens before truncation.
        offsets: for each document, the [start, end) characters of each token in it before truncation; empty if they
            were not asked for.
    """

    documents: list[str]
    row: JoinedRow
    token_ids: list[list[int]]
    offsets: list[list[tuple[int, int]]]

    def kept_offsets(self) -> list[list[tuple[int, int]]]:
        """For each document, the `offsets` of the tokens that the row has of it."""
        return [offsets[:number] for offsets, (_, number) in zip(self.offsets, self.row.spans, strict=True)]


class TextProcessor:
    """Converts texts to lists of a model's inputs, and the ids that a model writes to texts.

    `SummarizationProcessor`, the processor of PyTorch models, describes the settings and errors. Every text is cleaned,
    tokenized and truncated here, once.

    Args:
        tokenizer: a fast tokenizer of transformers, or an object with the same methods.
    """

    # Fields whose rows do not have an entry for each token.
    unaligned_fields: tuple[str, ...] = ()
    # Whether the name of a special token in a text is read as plain text, as with a tokenizer's `split_special_tokens`.
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
        self._store_tokenizer(tokenizer, chat_template)
        self._set_special_tokens(tokenizer)
        check_lengths(max_source_length=max_source_length, max_target_length=max_target_length)
        for name in ("pad_token", "eos_token"):
            if getattr(tokenizer, name) is None:
                raise ValueError(f"the tokenizer has no `{name}`: set one, or make one with `hf-summ vocabulary`")
        is_token = isinstance(document_separator, str) and document_separator in tokenizer.get_vocab()
        if document_separator is not None and not is_token:
            raise ValueError(f"`document_separator` is {document_separator!r:.80}, but must be a token")
        check_tokenizer(tokenizer)
        if self._has_markers():
            # In a call, this would change the state of the tokenizer, which threads share.
            tokenizer.split_special_tokens = False
        # Positions count from the left, and `pad` pads on the right.
        tokenizer.padding_side = "right"
        self.max_source_length = max_source_length
        self.max_target_length = max_target_length
        self.document_separator = document_separator
        self.restore_case = restore_case
        self.unknown_ids = unknown_ids
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
    def padding_values(self) -> dict[str, int | float]:
        """Field -> the value that pads its rows."""
        return {
            "input_ids": self.pad_token_id,
            "attention_mask": 0,
            "decoder_input_ids": self.pad_token_id,
            "labels": IGNORED_LABEL,
        }

    def needed_unknown_ids(self) -> int:
        """The number of ids after the vocabulary that tell unknown words apart; 0 if the units are not whole words."""
        model = self.tokenizer.backend_tokenizer.model
        if self.tokenizer.unk_token_id is None or type(model).__name__ != "WordLevel":
            return 0
        return _UNKNOWN_IDS if word_marks(self.tokenizer).is_whole else 0

    def clean(self, text: str, is_document: bool = False) -> str:
        """Clean `text`, a document (`is_document`) or a summary; the base only replaces lone surrogates by U+FFFD."""
        return readable(text)

    def clean_document(self, text: str) -> str:
        """Clean `text`, a document, join its split words, and put one space in place of each run of white space."""
        return " ".join(with_whole_words(self.clean(text, is_document=True), self._words_among).split())

    def _words_among(self, texts: list[str]) -> set[str]:
        """Those of some texts that are tokens of the vocabulary, as they are or in lower case."""
        spellings = [f" {text}" for text in texts] + [f" {text.lower()}" for text in texts]
        words = set()
        for text, ids in zip(texts + texts, self._ids_and_offsets(spellings)["input_ids"], strict=True):
            if len(ids) == 1 and ids[0] != self.tokenizer.unk_token_id:
                words.add(text)
        return words

    def source_features(self, text: Documents, length: int | None, show_progress: bool = False) -> dict[str, list]:
        """The model's inputs for each example, and the fields of `LENGTHS`: field -> a row or value for each example.

        The inputs of the base are `input_ids` and `attention_mask`; subclasses add others. Rows are not padded.

        Args:
            text: as for `SummarizationProcessor.__call__`, which also names the errors.
            length: maximum number of ids of a row; None does not truncate.
            show_progress: whether to show a progress bar for slow steps.
        """
        return self._features(self.read_sources(text, length))

    def read_sources(self, text: Documents, length: int | None = None, with_offsets: bool = False) -> list[ReadSource]:
        """Clean and tokenize the documents of examples, and join the documents of each example in one row.

        Args:
            text: as for `SummarizationProcessor.__call__`, which also names the errors.
            length: maximum number of ids of a row; None does not truncate.
            with_offsets: whether the result has the `offsets` of tokens.
        """
        examples = self._examples(text)
        documents = list(chain.from_iterable(examples))
        encoded = self._tokenize(documents, with_offsets)
        offsets = encoded["offset_mapping"] if with_offsets else []
        before, after = self._special_ids()
        sources = []
        start = 0
        for example in examples:
            end = start + len(example)
            token_ids = encoded["input_ids"][start:end]
            row = join(token_ids, length, before, after, self.separator_token_id)
            sources.append(ReadSource(example, row, token_ids, offsets[start:end]))
            start = end
        return sources

    def pad(
        self,
        features: Mapping[str, Sequence] | Sequence[Mapping[str, Any]],
        padding: bool | str = True,
        max_length: int | None = None,
        pad_to_multiple_of: int | None = None,
    ) -> dict[str, list]:
        """Pad each field of `padding_values` on the right, and drop all other fields.

        Args:
            features: a list with a mapping for each example, or one mapping of fields to lists of rows.
            padding: True or `longest` pads to the field's longest row, `max_length` to the argument `max_length`, and
                False or `do_not_pad` does not pad. Labels are always padded to the longest labels, if at all.
            max_length: the length for `max_length`.
            pad_to_multiple_of: lengths are rounded up to a multiple of this number.

        Raises:
            TypeError: a number is not an integer.
            ValueError: `padding` is unknown, `max_length` is missing, a number is below 1, or a row is too long.
        """
        check_padding(padding, max_length, pad_to_multiple_of)
        if not isinstance(features, Mapping):
            features = {name: [example[name] for example in features] for name in features[0]}
        pads = padding not in (False, "do_not_pad")
        fixed_length = max_length if padding == "max_length" else None
        padding_values = self.padding_values
        padded = {}
        for name, values in features.items():
            if name not in padding_values:
                continue
            rows = [row.tolist() if hasattr(row, "tolist") else list(row) for row in values]
            if pads:
                length = self._padded_length(name, rows, fixed_length, pad_to_multiple_of or 1)
                rows = [row + [padding_values[name]] * (length - len(row)) for row in rows]
            padded[name] = rows
        return padded

    def _padded_length(self, name: str, rows: list[list], fixed_length: int | None, multiple: int) -> int:
        """The length to which the rows of the field `name` are padded: a multiple of `multiple`.

        It is the length of the longest row for labels, for unaligned fields, and if `fixed_length` is None; otherwise
        `fixed_length`. A ValueError is raised if a row is longer than that.
        """
        longest = max([len(row) for row in rows], default=0)
        if name in self.unaligned_fields:
            return max(longest, 1)
        length = longest
        if fixed_length is not None and name != "labels":
            length = fixed_length
        if longest > length:
            raise ValueError(
                f"`{name}` has a row of {longest}, but must be at most `max_length` ({length}): truncate it"
            )
        # The length is rounded up.
        return -(-length // multiple) * multiple

    def batch_decode(
        self,
        sequences,
        skip_special_tokens: bool = False,
        documents: Sequence[str] | Sequence[Sequence[str]] | None = None,
        max_length: int | None = None,
        **kwargs,
    ) -> list[str]:
        """Decode the ids of summaries to texts.

        Args:
            sequences: the ids of each summary in a tensor, an array or lists. Some may be pointers. Ignored labels
                (-100), with which trainers fill up rows, are replaced by the padding id.
            skip_special_tokens: whether to omit special tokens.
            documents: for each example, its text or the list of its documents. Every example has the same number of
                summaries, one after another. Without `documents`, pointers are omitted.
            max_length: the number of ids to which the rows of documents were truncated; by default the processor's.
            kwargs: as for the tokenizer's `batch_decode`.

        Raises:
            ValueError: the number of summaries is not a multiple of the number of examples.
        """
        cleans_up = kwargs.get("clean_up_tokenization_spaces")
        if cleans_up is None:
            # The clean-up would take some quotation marks for apostrophes; `restore` tells them apart.
            cleans_up = self.tokenizer.clean_up_tokenization_spaces and not self.restore_case
            kwargs["clean_up_tokenization_spaces"] = cleans_up
        # As in transformers, nothing is cleaned up after byte-pair encodings.
        cleans_up = cleans_up and type(self.tokenizer.backend_tokenizer.model).__name__ != "BPE"
        rows = []
        for sequence in sequences:
            row = sequence.tolist() if hasattr(sequence, "tolist") else sequence
            if isinstance(row, list) and IGNORED_LABEL in row:
                row = [self.pad_token_id if token == IGNORED_LABEL else token for token in row]
            rows.append(row)
        texts = self.tokenizer.batch_decode(rows, skip_special_tokens=skip_special_tokens, **kwargs)
        if documents is None:
            return texts
        documents = list(documents)
        number = texts_per_document(texts, documents)
        for index, row in enumerate(rows):
            ids = [int(token) for token in row]
            if max(ids, default=0) >= FIRST_POINTER:
                words = self._pointed_words(documents[index // number], ids, max_length or self.max_source_length)
                texts[index] = decode_pointed(self.tokenizer, ids, words, skip_special_tokens)
                if cleans_up:
                    texts[index] = self.tokenizer.clean_up_tokenization(texts[index])
        return texts

    def _pointed_words(
        self, document: str | Sequence[str], ids: list[int], length: int | None
    ) -> dict[int, PointedWord]:
        """Pointer among `ids` -> the word to which it points, in a document or in several documents of one example.

        Args:
            length: the number of ids to which the row of several documents was truncated; None for the whole row.
        """
        # Several documents share the maximum length, so truncation moves the tokens of all but the first one. It moves
        # no token of a single document, which may have been read with any length.
        if isinstance(document, str) or len(document) == 1:
            length = None
        (source,) = self.read_sources([document], length, with_offsets=True)
        words = {}
        for text, offsets, span in zip(source.documents, source.kept_offsets(), source.row.spans, strict=True):
            words.update(pointed_words(text, offsets, ids, start=span[0]))
        return words

    def restore(self, summaries: Sequence[str], documents: Sequence[str] | Sequence[Sequence[str]]) -> list[str]:
        """Restore the case and spacing of decoded summaries from their documents, if `restore_case` is set.

        Args:
            summaries: the texts of `batch_decode`.
            documents: as for `batch_decode`; the spellings of an example are counted over all its documents.

        Raises:
            ValueError: the number of summaries is not a multiple of the number of examples.
        """
        number = texts_per_document(summaries, documents)
        if not self.restore_case:
            return list(summaries)
        restored = import_module(CASE_MODULE, __package__).restored
        strips_accents = "\u0301" not in normalize("NFD", self._normalized("é"))
        # This decoder puts a space before each token that starts a word, and before each punctuation mark.
        is_split = type(self.tokenizer.backend_tokenizer.decoder).__name__ == "WordPiece"
        texts: list[str] = []
        for index, document in enumerate(documents):
            example = [document] if isinstance(document, str) else document
            example = [with_whole_words(text, self._words_among) for text in example]
            texts.extend(restored(summaries[index * number :][:number], example, strips_accents, is_split))
        return texts

    def _examples(self, text: Documents) -> list[list[str]]:
        """The cleaned documents of each example; blank documents become empty texts.

        Raises:
            TypeError: a value is not a text, or only some examples are lists.
            ValueError: a list is empty.
        """
        has_lists = is_list(text) and any(is_list(value) for value in text)
        if not has_lists:
            return [[document] for document in self._texts(text, "text", is_document=True)]
        examples = []
        for row, value in enumerate(text):
            if not is_list(value):
                raise TypeError(f"`text` has lists of texts, but row {row} is {type(value).__name__}: make each a list")
            examples.append(self._texts(value, f"text[{row}]", is_document=True))
        return examples

    def _texts(self, text: str | Sequence, name: str, is_document: bool = False) -> list[str]:
        """The cleaned texts of a list, or of a single text; `name` is the argument's name in messages."""
        texts = [text] if isinstance(text, str) else text
        check_texts(name, texts)
        if not len(texts):
            raise ValueError(f"`{name}` is an empty list: give at least one text")
        if is_document:
            return [self.clean_document(value) for value in texts]
        return [self.clean(value) for value in texts]

    def _tokenize(self, texts: list[str], with_offsets: bool = False) -> Mapping[str, list]:
        """The tokenizer's output for whole texts, without special tokens: a list for each text in each field.

        Args:
            with_offsets: whether the output has the field `offset_mapping`.
        """
        encoded = self._ids_and_offsets(texts, with_offsets or bool(self.unknown_ids))
        if self.unknown_ids:
            for text, ids, offsets in zip(texts, encoded["input_ids"], encoded["offset_mapping"], strict=True):
                self._tell_unknown_apart(text, ids, offsets)
        return encoded

    def _ids_and_offsets(self, texts: list[str], with_offsets: bool = False) -> Mapping[str, list]:
        """As `_tokenize`, but all unknown words have the same id."""
        splits = self.splits_special_tokens or self.tokenizer.split_special_tokens
        return tokenize(
            self.tokenizer,
            texts,
            add_special_tokens=False,
            return_attention_mask=False,
            split_special_tokens=splits and not self._has_markers(),
            return_offsets_mapping=with_offsets,
        )

    def _has_markers(self) -> bool:
        """Whether users added special tokens, which mark parts of texts and are not split."""
        if self.tokenizer.extra_special_tokens:
            return True
        named = {getattr(self.tokenizer, f"{name}_token") for name in "pad unk bos eos sep cls mask".split()}
        backend = self.tokenizer.backend_tokenizer
        added = backend.get_added_tokens_decoder()
        last_named = max([index for index, token in added.items() if token.content in named], default=-1)
        # Tokens that users add have the last ids, or ids after the vocabulary of the tokenizer's model.
        first = min(last_named + 1, backend.get_vocab_size(with_added_tokens=False))
        unnamed = [index for index, token in added.items() if token.special and token.content not in named]
        return max(unnamed, default=-1) >= first

    def _tell_unknown_apart(self, text: str, ids: list[int], offsets: Sequence[tuple[int, int]]) -> None:
        """Replace the id of each unknown word, in place, by an id after the vocabulary and a model's padding rows.

        Equal words get equal ids, in all texts. `offsets` are the [start, end) characters of each token in `text`.
        """
        for position, token in enumerate(ids):
            if token == self.tokenizer.unk_token_id:
                start, end = offsets[position]
                word = self._normalized(text[start:end]).strip()
                ids[position] = len(self.tokenizer) + max(PADDING_ROWS, crc32(word.encode()) % self.unknown_ids)

    def _normalized(self, text: str) -> str:
        """A text after cleaning and the tokenizer's normalization, such as lower-casing."""
        cleaned = self.clean(text)
        normalizer = self.tokenizer.backend_tokenizer.normalizer
        return cleaned if normalizer is None else normalizer.normalize_str(cleaned)

    def _store_tokenizer(self, tokenizer, chat_template: str | None) -> None:
        """Set the attribute `tokenizer`; only transformers stores a chat template."""
        self.tokenizer = tokenizer

    def _set_special_tokens(self, tokenizer) -> None:
        """Set special tokens that the tokenizer has under other names, such as the end token; the base sets none."""

    def _special_ids(self) -> tuple[list[int], list[int]]:
        """The special ids before the documents of an example, and the special ids after them."""
        return [], [self.eos_token_id]

    @staticmethod
    def _features(sources: list[ReadSource]) -> dict[str, list]:
        """The inputs `input_ids` and `attention_mask`, and the fields of `LENGTHS`, for each example."""
        features: dict[str, list] = {name: [] for name in ("input_ids", "attention_mask", *LENGTHS)}
        for source in sources:
            row = source.row
            features["input_ids"].append(row.input_ids)
            features["attention_mask"].append([1] * len(row.input_ids))
            features["lengths"].append(row.full_length)
            features["document_lengths"].append(row.document_lengths)
            features["kept_lengths"].append([number for _, number in row.spans])
        return features


class CopyingTextProcessor(TextProcessor):
    """A `TextProcessor` that also accepts BERT's tokenizer.

    If the tokenizer has `[CLS]`, documents begin with it and have no end token (Aksenov 2020, section 5.1); summaries
    begin with `[CLS]` and end with `[SEP]`. Otherwise, as with the tokenizers of `hf-summ vocabulary`, documents and
    summaries get an end token.
    """

    splits_special_tokens = True

    def _set_special_tokens(self, tokenizer) -> None:
        """Use `[CLS]` as the start token and `[SEP]` as the end token of a tokenizer that lacks these."""
        if tokenizer.bos_token is None and tokenizer.cls_token is not None:
            tokenizer.bos_token = tokenizer.cls_token
        if tokenizer.eos_token is None and tokenizer.sep_token is not None:
            tokenizer.eos_token = tokenizer.sep_token
        if tokenizer.cls_token is not None:
            # WordPiece separates words from punctuation; without the clean-up, "it's" would be decoded as "it ' s".
            tokenizer.clean_up_tokenization_spaces = True

    def _special_ids(self) -> tuple[list[int], list[int]]:
        start_token_id = self.tokenizer.cls_token_id
        if start_token_id is None:
            return super()._special_ids()
        return [start_token_id], []


def texts_per_document(texts: Sequence[str], documents: Sequence) -> int:
    """The number of texts for each document; a ValueError unless all documents have the same number."""
    if not len(documents) or len(texts) % len(documents):
        raise ValueError(f"{len(texts)} sequences but {len(documents)} documents: each document needs the same number")
    return len(texts) // len(documents)
