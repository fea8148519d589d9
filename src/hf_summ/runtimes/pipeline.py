"""`pipeline("summarization")`, which transformers 5 removed, for every sequence-to-sequence model."""

from typing import Any

import torch
from torch.utils.data import Dataset, IterableDataset
from transformers import AutoTokenizer, GenerationConfig, Pipeline, StopStringCriteria
from transformers.utils import logging

from hf_summ.common.messages import check_choice
from hf_summ.models import pipeline_summarization
from hf_summ.models.checks import check_supported, check_tokenizer
from hf_summ.models.generation_mixin import NAN
from hf_summ.models.generation_sentences import Candidate, likeliest_sentences
from hf_summ.runtimes import folders
from hf_summ.runtimes.any_model import GLOBAL_MASK, global_attention_mask, input_names, target_positions
from hf_summ.runtimes.documents import DocumentSummarizer, Example, Examples, examples_to_summarize, generated
from hf_summ.runtimes.encoding import ReadExample
from hf_summ.runtimes.long_documents import TRUNCATE
from hf_summ.runtimes.processors import load_processor
from hf_summ.runtimes.settings import check_generation_settings, in_types, overriding_settings

# transformers decodes each token after this word, to get the text with which the token continues a summary
_PREFIX = "abcdef"

logger = logging.get_logger(__name__)


class SummarizationPipeline(DocumentSummarizer, pipeline_summarization.SummarizationPipeline):
    """Summarizes texts, like the pipeline of transformers 4; docs/tutorials/migrating.md tabulates the differences.

    Call it with a text, or with a list, column, series or array of texts. Iterators and PyTorch data sets are read
    lazily. A list in a list is one example of several documents, with one summary.

    - `phrases`: key phrases of the text, or of each text of the list, for models that read them; see
      `HighlightTransformerProcessor`. By default they are found.
    - `word_tags`: tags of the words of the text, or of each text of the list, for GDLF; see `GdlfProcessor`. By default
      its tagger finds them.
    - `truncation` (True): whether to truncate a text that is too long for the model, with a warning, or to refuse it.
    - `long_documents` ("truncate"): how to read a text that is too long for the model. "extract" selects its most
      important sentences, as many as fit. "windows" summarizes its parts, joins the summaries, and repeats this until
      they fit. Both need hf_summ, and read `batch_size` texts of an iterator at a time.
    - `extract_share`, `extract_tokens`: in the constructor, they shorten every text by the extractive stage, as in
      training. `extract_idf` and `next_sentence_model` are for this stage and for `long_documents="extract"`.
    - `language` ("en"): ISO 639 code of the texts, for sentence splitting.
    - `source_prefix`: prefix of each document, for models that were trained with several; by default the config's.
    - `return_details` (False): whether to add `details` to each record: the parts of the text read; see `details_of`.
    - `batch_size` (1): number of texts per call of `generate`.
    - `show_progress` (False, of `hf_summ.summarizer` over several texts True): whether to show a progress bar.
    - `return_tensors` (False): whether to return token ids, without texts unless `return_text` is set as well.
    - `stop_sequence`: a text that ends summaries.
    - `runtime`: "onnx" in the constructor runs the output of `hf-summ export` in ONNX Runtime.
    - All other arguments go to `generate`. Unset arguments fall back to the constructor, then the config's
      `task_specific_params`, then the generation config, then 4 beams and 256 tokens.

    Returns:
        For a text, a list of `{"summary_text"}`, one per returned sequence; for a list, one such record per text, or a
        list of records with several sequences. For an iterator or data set, an iterator over lists of records. The
        summary of a blank text is blank.
    """

    def __init__(
        self,
        model,
        tokenizer=None,
        processor=None,
        *,
        long_documents=TRUNCATE,
        language="en",
        source_prefix=None,
        runtime=None,
        **kwargs,
    ):
        if runtime is not None:
            check_choice("`runtime`", runtime, [folders.ONNX])
            if hasattr(model, "peft_config"):
                # `name_or_path` names the model that the adapter adapts, which may have graphs
                raise ValueError(f"{getattr(model, 'adapter_name', 'the model')} {folders.ADAPTER_PROBLEM}")
            # `AutoModelForSummarization` sets the first of these for models of transformers too
            hub_settings = getattr(model, "download_settings", getattr(model, "hub_settings", {}))
            model = folders.load(model.name_or_path, **hub_settings)
            kwargs.setdefault("device", "cpu")
        self.model = model
        self._set_reading_defaults(long_documents, language, source_prefix, kwargs)
        problem = getattr(model, "weights_problem", None)
        if problem is not None:
            raise ValueError(f"{model.name_or_path} {problem}: copy it again, or name another checkpoint")
        if hasattr(tokenizer, "tokenizer"):
            # it is a processor
            processor, tokenizer = tokenizer, None
        # `pipeline` of transformers loads the processor of an adapter's base model. The adapter's replaces it, unless
        # the user gave a tokenizer from elsewhere.
        adapter_processor = vars(model).pop("adapter_processor", None)
        is_of_model = getattr(tokenizer, "name_or_path", model.name_or_path) == model.name_or_path
        if adapter_processor is not None and is_of_model:
            processor, tokenizer = adapter_processor, None
        if processor is not None and not hasattr(processor, "tokenizer"):
            # it is a tokenizer
            processor, tokenizer = None, tokenizer or processor
        is_ours = hasattr(model, "hub_settings")
        if processor is None and is_ours and (model.name_or_path or tokenizer is not None):
            # `pipeline` loads no processor for a model that is loaded or made already
            processor = load_processor(model, tokenizer)
        if tokenizer is None and processor is not None:
            tokenizer = processor.tokenizer
        if tokenizer is None and not model.name_or_path:
            raise ValueError("the pipeline needs a tokenizer: give the model's own as `processor` or `tokenizer`")
        if tokenizer is None:
            # transformers failed to load it without a reason: load it again, to raise the error
            tokenizer = AutoTokenizer.from_pretrained(model.name_or_path, **getattr(model, "hub_settings", {}))
        check_tokenizer(tokenizer)
        # the base would load a processor for each model
        Pipeline.__init__(self, model, tokenizer=tokenizer, processor=processor, **kwargs)
        self.batch_size = self._batch_size
        task_settings = overriding_settings(self._task_settings(vars(GenerationConfig())))
        self._generate_kwargs = task_settings | overriding_settings(self._generate_kwargs)
        self._bound_default_length()

    def _bound_default_length(self) -> None:
        """Limit the default length of summaries to the decoder's positions."""
        positions = target_positions(self.model)
        if positions is None or positions >= self._generation_defaults["max_new_tokens"]:
            return
        self._generation_defaults["max_new_tokens"] = positions
        set_names = self._get_set_generation_params(self._generate_kwargs).keys()
        if "max_new_tokens" not in set_names and "max_length" not in set_names:
            logger.warning(f"summaries are limited to {positions} tokens, the number of the decoder's positions")

    def _run(self, examples, *args, **settings):
        if isinstance(examples, Examples):
            examples = _ExampleData(examples)
        elif not isinstance(examples, Example | IterableDataset):
            # transformers reads generators lazily
            examples = generated(examples)
        return Pipeline.__call__(self, examples, *args, **settings)

    def save_pretrained(self, save_directory, **kwargs):
        """Save the model, the tokenizer and the processor; our models save the pipeline's code with their own."""
        for component in (self.model, self.tokenizer, self.processor):
            if component is not None:
                component.save_pretrained(save_directory, **kwargs)

    def preprocess(self, example, **settings):
        # transformers collects the values of dictionaries in batches
        return {"example": self.read(example, **settings)}

    def _number_of_tokens(self) -> int:
        # a processor may tell unknown words apart by further ids
        return len(self.model.get_input_embeddings().weight) + getattr(self.processor, "unknown_ids", 0)

    def _forward(self, batch, **generate_kwargs):
        examples = batch["example"]
        if isinstance(examples, ReadExample):
            # of a single document
            examples = [examples]
        accepted = input_names(self.model)
        model_inputs = {}
        for name, values in self.padded(examples).items():
            if accepted is None or name in accepted:
                model_inputs[name] = torch.as_tensor(values, device=self.device)
        if accepted is not None and GLOBAL_MASK in accepted:
            given_mask = generate_kwargs.pop(GLOBAL_MASK, None)
            model_inputs[GLOBAL_MASK] = global_attention_mask(model_inputs["input_ids"], given_mask)
        settings = {"tokenizer": self.tokenizer, **self.generation_settings(**generate_kwargs)}
        self.add_search_notes(examples, self._get_set_generation_params(settings))
        summarized = examples_to_summarize(examples)
        is_summarized = torch.tensor([not example.note["blank"] for example in examples], device=self.device)
        if summarized:
            summarized_inputs = {name: value[is_summarized] for name, value in model_inputs.items()}
            summary_ids = self._generate_ids(summarized_inputs, summarized, settings)
        else:
            config = settings.get("generation_config") or self.model.generation_config
            sequences = settings.get("num_return_sequences") or config.num_return_sequences or 1
            summary_ids = torch.zeros(0, sequences, 0, dtype=torch.long, device=self.device)
        output_ids = summary_ids.new_zeros(len(examples), *summary_ids.shape[1:])
        output_ids[is_summarized] = summary_ids
        return {"output_ids": output_ids, "example": batch["example"]}

    def _generate_ids(
        self, inputs: dict[str, Any], examples: list[ReadExample], settings: dict[str, Any]
    ) -> torch.Tensor:
        """The ids (B, sequences, L) that `generate()` returns for B examples.

        Args:
            inputs: the model's inputs, with a row for each example.
            examples: as `examples_to_summarize` returns them.
            settings: the settings of `generate()`.
        """
        settings = dict(settings)
        is_ours = hasattr(self.model, "generation_keys")
        candidates = [example.note["candidates"] for example in examples if "candidates" in example.note]
        if candidates:
            settings.update(choice_settings(self.model, candidates))
        stop_strings = settings.get("stop_strings")
        if stop_strings is not None and self.tokenizer.unk_token in self.tokenizer.tokenize(_PREFIX):
            del settings["stop_strings"]
            try:
                criterion = _StopStrings(self.tokenizer, stop_strings)
            except ValueError as error:
                raise ValueError(f"`stop_sequence` is {stop_strings!r:.80}, which the vocabulary lacks") from error
            settings["stopping_criteria"] = [*(settings.get("stopping_criteria") or []), criterion]
        nan_processor = _NanProcessor()
        # our models warn of NaN themselves, others by this processor
        if not is_ours:
            settings["logits_processor"] = [*(settings.get("logits_processor") or []), nan_processor]
        try:
            output_ids = self.model.generate(**inputs, **settings)
        except OverflowError as error:
            penalty = settings.get("length_penalty")
            raise ValueError(f"`length_penalty` is {penalty}, too large for a summary's length: lower it") from error
        if nan_processor.is_seen:
            logger.warning_once(NAN)
        return output_ids.view(len(inputs["input_ids"]), -1, output_ids.shape[-1])

    def generation_settings(self, **settings: Any) -> dict[str, Any]:
        """The settings that the pipeline passes to `generate()`.

        Args:
            settings: the call's settings.

        Raises:
            ValueError: as `check_supported` and `check_generation_settings`.
        """
        check_supported(settings, self.model)
        settings = self._prepare_generate_kwargs(overriding_settings(settings), return_dict_in_generate=False)
        config = settings.get("generation_config")
        config_settings = {} if config is None else vars(config)
        check_generation_settings({**config_settings, **settings})
        self._check_length(self._get_set_generation_params(settings))
        return settings | in_types(settings)

    def search_settings(self, **settings: Any) -> dict[str, Any]:
        return {**self.model.generation_config.to_diff_dict(), **self.generation_settings(**settings)}

    def set_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def postprocess(self, outputs, **settings):
        example = outputs["example"]
        return self.to_records(outputs["output_ids"][0], example, **settings), example.note


def choice_settings(model, candidates: list[list[Candidate]]) -> dict[str, Any]:
    """The settings of `generate()` with which any model chooses among the candidates of each document."""
    if hasattr(model, "generation_keys"):
        return {"candidates": candidates}
    return {"custom_generate": _Choice(candidates), "num_beams": 1, "whole_sentences": None}


class _Choice:
    """A `custom_generate` of transformers that chooses among each document's candidates."""

    def __init__(self, candidates: list[list[Candidate]]):
        self._candidates = candidates

    def __call__(self, model, input_ids, logits_processor, stopping_criteria, generation_config, **model_kwargs):
        inputs = {name: model_kwargs[name] for name in ("encoder_outputs", "attention_mask")}
        return likeliest_sentences(model, self._candidates, generation_config, inputs)


class _StopStrings(StopStringCriteria):
    """transformers' criterion, for vocabularies that lack the word after which transformers decodes tokens."""

    @staticmethod
    def clean_tokenizer_vocab(tokenizer, *args, **settings):
        # every vocabulary has its token of unknown words
        return StopStringCriteria.clean_tokenizer_vocab(tokenizer, tokenizer.unk_token, **settings)


class _NanProcessor:
    """A logits processor that changes no scores, and sees whether any is NaN, such as where products exceed float16."""

    # False, or a tensor with a truth value
    is_seen: bool | torch.Tensor = False

    def __call__(self, input_ids, scores):
        # combined on the device, for which nothing has to wait
        self.is_seen = scores.isnan().any() | self.is_seen
        return scores


class _ExampleData(Dataset):
    """Examples as a data set, which the pipeline reads lazily."""

    def __init__(self, examples: Examples):
        self._examples = examples

    def __len__(self):
        return len(self._examples)

    def __getitem__(self, index):
        return self._examples[index]
