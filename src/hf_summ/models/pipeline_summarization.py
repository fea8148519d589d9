"""`pipeline("summarization")`, which transformers 5 no longer has, for every sequence-to-sequence model."""

import inspect
import types

from huggingface_hub.utils import tqdm
from transformers import BatchEncoding, Pipeline
from transformers.utils import logging

from .text_cleaning import readable
from .text_documents import DOCUMENT_SEPARATOR, with_prefix

logger = logging.get_logger(__name__)


class SummarizationPipeline(Pipeline):
    """Summarizes texts.

    Call it with a text, a list of texts, or a generator of texts, which is read lazily. A list in such a list is one
    example of several documents, with one summary.

    - `phrases`: for models that read key phrases, those of the text, or of each text of the list: see
      `HighlightTransformerProcessor`. By default they are found.
    - `truncation` (True): whether to cut a text that is too long for the model, with a warning, or to refuse it.
    - `batch_size` (1): number of texts per call of `generate`.
    - `show_progress` (False): whether to show a progress bar over a list or generator.
    - `return_tensors`, `return_text`: whether to return token ids, texts (the default) or both.
    - All other arguments go to `generate`.

    Returns:
        A list of `{"summary_text"}`, one per text and returned sequence; for a generator, an iterator over them.
    """

    # a checkpoint without a processor has its tokenizer instead
    _load_processor = None
    _load_tokenizer = True
    _load_image_processor = False
    _load_feature_extractor = False
    _load_video_processor = False
    _pipeline_calls_generate = True

    def _sanitize_parameters(
        self, truncation=None, return_tensors=None, return_text=None, clean_up_tokenization_spaces=None, **generate
    ):
        preprocess = {} if truncation is None else {"truncation": truncation}
        postprocess = {
            name: value
            for name, value in (
                ("return_tensors", return_tensors),
                ("return_text", return_text),
                ("clean_up_tokenization_spaces", clean_up_tokenization_spaces),
            )
            if value is not None
        }
        return preprocess, generate, postprocess

    def __call__(self, documents, *args, show_progress: bool = False, phrases=None, **kwargs):
        """Summarize `documents`; see the class."""
        if isinstance(documents, str):
            example = documents if phrases is None else (documents, phrases)
            return self._flat([super().__call__(example, *args, **kwargs)])
        if isinstance(documents, (list, tuple)):
            if phrases is not None and len(phrases) != len(documents):
                raise ValueError(f"{len(phrases)} `phrases` but {len(documents)} documents: give each its own")
            texts = (document for document in (documents if phrases is None else zip(documents, phrases, strict=True)))
            results = super().__call__(texts, *args, **kwargs) if documents else ()
            return self._flat(tqdm(results, total=len(documents), desc="summarizing", disable=not show_progress))
        if isinstance(documents, types.GeneratorType):
            results = super().__call__(documents, *args, **kwargs)
            bar = tqdm(results, desc="summarizing", disable=not show_progress)
            return (result for results in bar for result in results)
        return super().__call__(documents, *args, **kwargs)

    def save_pretrained(self, save_directory, **kwargs):
        """transformers' `save_pretrained`, which leaves out the processor and so its settings."""
        super().save_pretrained(save_directory, **kwargs)
        if self.processor is not None:
            self.processor.save_pretrained(save_directory, **kwargs)

    @staticmethod
    def _flat(results) -> list[dict]:
        return [summary for summaries in results for summary in summaries]

    @property
    def _reader(self):
        return self.processor if self.processor is not None else self.tokenizer

    def preprocess(self, document, truncation=True):
        source = {}
        if isinstance(document, tuple):
            document, source["phrases"] = document
            if "phrase_starts" not in getattr(self.processor, "model_input_names", ()):
                raise ValueError("`phrases` are given, but the model does not read key phrases: leave them out")
        if not isinstance(document, (str, list)):
            raise TypeError(f"a document must be a string, but is {type(document).__name__}: {document!r:.80}")
        limit = self._source_limit()
        inputs, length, told = self._read(with_prefix(document, self._prefix()), limit, source)
        if limit is not None and length > limit:
            who = "the document has" if isinstance(document, str) else f"the {len(document)} documents have"
            message = f"{who} {length} tokens, but the model reads at most {limit}"
            if not truncation:
                raise ValueError(f"{message}: shorten it, or call the pipeline with `truncation=True`")
            logger.warning(f"{message}: {told or f'the last {length - limit} ({1 - limit / length:.0%}) were cut'}")
        return inputs

    def _prefix(self) -> str:
        """The prefix before each text that the config of a model such as T5 specifies."""
        prefix = getattr(self.model.config, "prefix", None)
        settings = getattr(self.model.config, "task_specific_params", None) or {}
        return prefix or settings.get("summarization", {}).get("prefix") or ""

    def _read(self, document: str | list[str], limit: int | None, source: dict):
        """The model's inputs, cut to `limit` tokens, their number before cutting, and what several documents kept."""
        if hasattr(self.processor, "source_features"):
            text = document if isinstance(document, str) else [document]
            inputs = self.processor(text, return_tensors="pt", max_length=limit, return_lengths=True, **source)
            length = inputs.pop("lengths").item()
            parts = inputs.pop("document_lengths"), inputs.pop("kept_lengths")
            told = ""
            if not isinstance(document, str):
                pairs = zip(parts[1][0], parts[0][0], strict=True)
                told = f"{', '.join(f'{kept} of {whole}' for kept, whole in pairs)} were kept"
            # summaries may point at words of it
            inputs["document"] = document
            return inputs, length, told
        if not isinstance(document, str):
            document = DOCUMENT_SEPARATOR.join(document)
        cuts = limit is not None
        # returns the tokens that are cut off too, to count them without tokenizing twice
        encoded = self.tokenizer(
            [readable(document)], truncation=cuts, max_length=limit, return_overflowing_tokens=cuts, verbose=False
        )
        kept, *overflow = encoded["input_ids"]
        special = self.tokenizer.num_special_tokens_to_add()
        # tokenizers in Python count the tokens that they cut off, and the others return them as further rows
        length = len(kept) + sum(encoded.get("num_truncated_tokens", ())) + sum(len(row) - special for row in overflow)
        fields = {name: encoded[name][:1] for name in self.tokenizer.model_input_names if name in encoded}
        return BatchEncoding(fields, tensor_type="pt"), length, ""

    def _source_limit(self) -> int | None:
        limits = [
            # a processor's tokenizer may come from a model with fewer positions
            getattr(self.processor, "max_source_length", self.tokenizer.model_max_length),
            getattr(self.model.config, "max_position_embeddings", None),
        ]
        known = [limit for limit in limits if limit is not None and limit < 10**9]
        return min(known, default=None)

    def _forward(self, inputs, **generate_kwargs):
        # an adapter's forward accepts any argument, and passes it on to a model that may not
        model = self.model.get_base_model() if hasattr(self.model, "get_base_model") else self.model
        accepted = inspect.signature(model.forward).parameters
        document = inputs.get("document")
        inputs = {name: value for name, value in inputs.items() if name in accepted}
        documents = inputs["input_ids"].shape[0]
        generate_kwargs = self._prepare_generate_kwargs(generate_kwargs)
        generate_kwargs.setdefault("tokenizer", self.tokenizer)
        output_ids = self.model.generate(**inputs, **generate_kwargs)
        outputs = {"output_ids": output_ids.view(documents, -1, output_ids.shape[-1])}
        return outputs if document is None else {**outputs, "document": document}

    def postprocess(self, outputs, return_tensors=False, return_text=True, clean_up_tokenization_spaces=None):
        sequences = outputs["output_ids"][0]
        source = {"documents": [outputs["document"]]} if "document" in outputs else {}
        texts = self._reader.batch_decode(
            sequences, skip_special_tokens=True, clean_up_tokenization_spaces=clean_up_tokenization_spaces, **source
        )
        records = []
        for token_ids, text in zip(sequences, texts, strict=True):
            record = {"summary_token_ids": token_ids} if return_tensors else {}
            if return_text:
                record["summary_text"] = text.strip()
            records.append(record)
        return records
