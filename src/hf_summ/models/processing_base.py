"""The base of all architectures' processors."""

import inspect
from collections.abc import Sequence
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any

from transformers import BatchFeature, ProcessorMixin
from transformers.utils import logging

from .checks import IGNORED_LABEL, check_lengths, class_to_save, save_module, truncates
from .text_processing_base import CASE_MODULE, LENGTHS, TextProcessor

logger = logging.get_logger(__name__)


def takes_dictionaries(call):
    """Let a processor's `__call__` also take arguments in `text_kwargs` and `common_kwargs`."""

    @wraps(call)
    def call_flat(self, *args, **kwargs):
        text_kwargs = kwargs.pop("text_kwargs", {})
        for name, value in kwargs.pop("common_kwargs", {}).items():
            if name not in text_kwargs:
                kwargs.setdefault(name, value)
        return call(self, *args, **kwargs, **text_kwargs)

    return call_flat


class SummarizationProcessor(TextProcessor, ProcessorMixin):
    """Converts texts to the model's inputs, and its outputs to texts.

    Subclasses list their settings as parameters of `__init__`, and extend `source_features` by their model's further
    inputs.

    Args:
        tokenizer: a fast tokenizer with padding and end tokens.
        max_source_length: number of subwords to which documents are truncated, including the end token. The documents
            of one example share it, including the separators between them.
        max_target_length: the same for summaries.
        document_separator: the token between the documents of an example; by default the tokenizer's separator, or its
            end token.
        restore_case: whether `restore` spells and joins the words of summaries as their documents do, for vocabularies
            in lower case.
        chat_template: saved with the processor, but not used.
        unknown_ids: number of ids behind the vocabulary that tell apart the words that it lacks, equal in documents and
            summaries, by which models copy them; set by `align`.

    Raises:
        TypeError: a length is not an integer, or the tokenizer is not fast.
        ValueError: a length below 2, a tokenizer without a padding or end token, a separator that is not a token, or
            `restore_case` with a vocabulary that keeps capitals.

    Attributes:
        unaligned_fields: fields whose rows have no entry for each subword. `pad` pads them to their longest row, but
            at least to length one, as an empty row has no type.
    """

    # of `pad`, for `DataCollatorForSeq2Seq`
    padding_side = "right"

    def _store_tokenizer(self, tokenizer, chat_template):
        if not tokenizer.is_fast:
            name = type(tokenizer).__name__
            raise TypeError(f"`tokenizer` must be fast, but {name} is not: make one with `hf-summ vocabulary`")
        ProcessorMixin.__init__(self, tokenizer, chat_template=chat_template)

    def save_pretrained(self, save_directory, push_to_hub=False, **kwargs):
        """transformers' `save_pretrained`, without its side effect of storing the processor with the tokenizer.

        With another model, such a tokenizer would make `AutoProcessor` load this processor.
        """
        processor_class = type(self)
        saved_class = class_to_save(processor_class)
        self.__class__ = saved_class
        self.tokenizer._set_processor_class = lambda name: None
        try:
            files = super().save_pretrained(save_directory, **kwargs)
        finally:
            self.__class__ = processor_class
            del self.tokenizer._set_processor_class
        # saved again, as transformers made the saved tokenizer name the code of the processor
        self.tokenizer.save_pretrained(save_directory)
        if self.restore_case:
            case_module = import_module(CASE_MODULE, __package__)
            save_module(save_directory, saved_class, case_module.restored)
        if push_to_hub:
            repo_id = kwargs.pop("repo_id", Path(save_directory).name)
            self.push_to_hub(repo_id, **kwargs)
        return files

    @classmethod
    def from_args_and_dict(cls, args, processor_dict, **kwargs):
        # made before the warning, as this fails for a folder of weights alone, which has no tokenizer
        processor = super().from_args_and_dict(args, processor_dict, **kwargs)
        if not processor_dict.keys() - {"chat_template"}:
            # trainers that have the tokenizer alone save no processor
            tokenizer = args[0]
            logger.warning(
                f"{tokenizer.name_or_path} has no processor_config.json, so {cls.__name__} has its default settings: "
                "save the processor there if the model was trained with others"
            )
        return processor

    @takes_dictionaries
    def __call__(
        self,
        text: str | Sequence[str] | Sequence[Sequence[str]] | None = None,
        text_target: str | Sequence[str] | None = None,
        truncation: bool | str = True,
        max_length: int | None = None,
        max_target_length: int | None = None,
        padding: bool | str | None = None,
        pad_to_multiple_of: int | None = None,
        return_tensors: str | None = None,
        return_lengths: bool = False,
        show_progress: bool = False,
        **source: Any,
    ) -> BatchFeature:
        """Convert documents, summaries or both to model inputs.

        Args:
            text: a document, a list of documents, or a list of lists: examples of several documents each. Blank
                documents in an example are skipped. If the documents are too long together, each keeps an equal
                share; the others divide what short ones do not use.
            text_target: one or several summaries, converted to `labels`.
            truncation: whether to truncate to the lengths, or a strategy of tokenizers, such as `do_not_truncate`.
            max_length, max_target_length: lengths in subwords; by default the processor's. Without `text`, either is
                the length of summaries.
            padding: as in `pad`; by default rows are padded if tensors are requested. `max_length` also pads summaries.
            pad_to_multiple_of: lengths are rounded up to a multiple of this number.
            return_tensors: `pt`, or None for lists (flat ones for a single text).
            return_lengths: whether to add three fields: `lengths`, the number of ids of each example before truncation;
                `document_lengths` and `kept_lengths`, each document's number of subwords before and after it, always as
                lists.
            show_progress: whether to show a progress bar for slow steps.
            source: the architecture's further inputs; see its `source_features`. As in transformers, arguments may also
                be in the dictionaries `text_kwargs` and `common_kwargs`.

        Raises:
            TypeError: an argument is unknown, a text is not a string, some examples are lists of documents and others
                are not, or a length is not an integer.
            ValueError: neither text nor text_target is given, their numbers differ, a list is empty, or a length is
                below 2.
        """
        # after the arguments of every processor
        known = list(inspect.signature(self.source_features).parameters)[3:]
        for name in source:
            if name not in known:
                raise TypeError(f"{type(self).__name__}.__call__() got an unexpected keyword argument {name!r}")
        check_lengths(max_length=max_length, max_target_length=max_target_length)
        if text is None and text_target is None:
            raise ValueError("nothing to process: give `text` (documents), `text_target` (summaries), or both")
        # fields with a row for each example
        features: dict[str, list] = {}
        lengths: dict[str, list] = {}
        if text is not None:
            source_length = None
            if truncates(truncation):
                source_length = max_length or self.max_source_length
            features = self.source_features(text, source_length, show_progress, **source)
            lengths = {name: features.pop(name) for name in LENGTHS}
        if text_target is not None:
            if text is None:
                # if there are summaries alone, `max_length` is for them, as in calls of tokenizers
                max_target_length = max_target_length or max_length
            target_length = max_target_length or self.max_target_length
            labels = self._labels(text_target, target_length, truncates(truncation), padding == "max_length")
            # checked here, as models would take several summaries of a document for its beams
            if text is not None and len(features["input_ids"]) != len(labels):
                documents = len(features["input_ids"])
                raise ValueError(f"{documents} documents but {len(labels)} summaries: each needs its counterpart")
            features["labels"] = labels
        if padding is None:
            # tensors need rows of one length
            padding = return_tensors is not None
        if padding:
            features = super().pad(features, padding, max_length or self.max_source_length, pad_to_multiple_of)
        if not return_lengths:
            lengths = {}
        elif text is not None:
            features["lengths"] = lengths.pop("lengths")
        is_single = isinstance(text_target if text is None else text, str)
        if is_single and return_tensors is None:
            features = {name: rows[0] for name, rows in features.items()}
            lengths = {name: rows[0] for name, rows in lengths.items()}
        batch = BatchFeature(features, tensor_type=return_tensors)
        # these stay lists, as examples have different numbers of documents
        return BatchFeature({**batch, **lengths})

    def _labels(self, summaries: str | Sequence[str], length: int, cut: bool, fill: bool) -> list[list[int]]:
        """The ids of one or several summaries.

        Args:
            length: a number of ids.
            cut: whether to cut longer rows to this length.
            fill: whether to fill up shorter rows to this length with ignored labels.
        """
        texts = self._texts(summaries, "text_target")
        rows = [self._end(row, length if cut else None) for row in self._tokenize(texts)["input_ids"]]
        if fill:
            rows = [row + [IGNORED_LABEL] * (length - len(row)) for row in rows]
        return rows

    def pad(
        self, features, padding=True, max_length=None, pad_to_multiple_of=None, return_tensors="pt", **kwargs
    ) -> BatchFeature:
        """As `TextProcessor.pad`; `return_tensors` is `pt`, or None for lists.

        Further arguments of a tokenizer's `pad`, which collators of transformers give, have no effect.
        """
        padded = super().pad(features, padding, max_length, pad_to_multiple_of)
        return BatchFeature(padded, tensor_type=return_tensors)

    def decode(self, token_ids, *args, **kwargs) -> str:
        """The text of a row of ids, as in `batch_decode`."""
        return self.batch_decode([token_ids], *args, **kwargs)[0]

    def align(self, config) -> None:
        """Fit a new config to this processor, and the processor's `unknown_ids` to whether the model copies.

        The config gets the vocabulary size, the special tokens and `unknown_ids`.
        """
        align_config(config, self.tokenizer)
        self.unknown_ids = self.needed_unknown_ids() if getattr(config, "copy", False) else 0
        config.unk_token_id = self.tokenizer.unk_token_id
        config.unknown_ids = self.unknown_ids

    def _end(self, row: list[int], length: int | None) -> list[int]:
        """A row of ids with the end token, cut to a length unless that is None."""
        if length is not None:
            row = row[: length - 1]
        return row + [self.eos_token_id]


def align_config(config, tokenizer) -> None:
    """Set the vocabulary size and special tokens of a new config to the tokenizer's."""
    config.vocab_size = len(tokenizer)
    config.pad_token_id = tokenizer.pad_token_id
    config.bos_token_id = tokenizer.bos_token_id
    config.eos_token_id = tokenizer.eos_token_id
    config.decoder_start_token_id = tokenizer.bos_token_id
    if tokenizer.bos_token_id is None:
        # summaries start with padding, as in T5
        config.decoder_start_token_id = tokenizer.pad_token_id


SummarizationProcessor.register_for_auto_class()
