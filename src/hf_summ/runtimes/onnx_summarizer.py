"""Summaries by exported ONNX graphs, without PyTorch and without transformers."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np

from hf_summ.common.processes import omp_threads, threads_for
from hf_summ.models.checks import added_settings, check_supported
from hf_summ.models.generation_rules import (
    BadWords,
    Beams,
    Force,
    GnmtLengthPenalty,
    MinLength,
    NoRepeatNGram,
    Rule,
    Texts,
    word_rules,
)
from hf_summ.models.generation_sentences import pad_rows
from hf_summ.models.text_documents import FIRST_POINTER, WordTable, check_vocabulary, word_table
from hf_summ.models.text_processing_recurrent import replace_unknown
from hf_summ.runtimes.any_model import target_positions
from hf_summ.runtimes.documents import (
    DocumentSummarizer,
    Example,
    Settings,
    examples_to_summarize,
    generated,
    without_none,
)
from hf_summ.runtimes.encoding import ReadExample
from hf_summ.runtimes.folder_tokenizer import FolderTokenizer
from hf_summ.runtimes.folders import find_exported, read_json, recorded_positions, weights_file
from hf_summ.runtimes.long_documents import Note, Record, in_chunks
from hf_summ.runtimes.onnx_search import (
    ENCODER_BATCH_TOKENS,
    READ,
    RECURRENT,
    WRITE,
    Graph,
    attentions,
    choose_sentences,
    encode,
    processors,
    search,
)
from hf_summ.runtimes.settings import (
    LACKING,
    SETTINGS,
    SUPPORTED,
    PyTorchNeeded,
    check_generation_settings,
    in_types,
    lacking,
    overriding_settings,
)

if TYPE_CHECKING:
    from hf_summ.models.text_processing_base import TextProcessor

# architectures of this package, whose models have settings of their own
_ARCHITECTURES = ("copy_transformer", "drgd", "gdlf", "highlight_transformer", "pointer_generator", "sagcopy")
# for each class of processor, the module of `hf_summ.models` with its text side, which needs no PyTorch
_TEXT_MODULES = {
    "CopyTransformerProcessor": "text_processing_copy_transformer",
    "DrgdProcessor": "text_processing_recurrent",
    "GdlfProcessor": "text_processing_gdlf",
    "HighlightTransformerProcessor": "text_processing_highlight_transformer",
    "PointerGeneratorProcessor": "text_processing_recurrent",
    "SagCopyProcessor": "text_processing_sagcopy",
}
# the pipeline's defaults
_DEFAULTS = {"max_new_tokens": 256, "num_beams": 4}
# transformers' default
_LENGTH_PENALTY = 1.0


@dataclass
class _GraphModel:
    """What a summarizer reads of a model, without the model.

    Args:
        config: the values of `config.json`.
        generation_config: the settings of `generation_config.json`.
        generation_keys: the settings of `generate()` that the architecture adds.
        name_or_path: the folder.
        recorded_positions: as `folders.recorded_positions` returns them.
    """

    config: SimpleNamespace
    generation_config: Settings
    generation_keys: Sequence[str]
    name_or_path: str
    recorded_positions: dict[str, int | None] | None


class OnnxSummarizer(DocumentSummarizer):
    """Summarizes texts with the output of `hf-summ export`, without PyTorch and transformers.

    Called like `SummarizationPipeline`, with the same results: a text, or a list, iterator or column of texts, with
    `phrases`, `word_tags`, `long_documents`, `language`, `source_prefix`, `truncation`, `return_details`,
    `return_tensors` (arrays), `batch_size` and settings of `generate()`; samples differ from PyTorch's with the same
    seed.

    Args:
        folder: the exported folder, or the checkpoint's folder that contains it as `onnx`, or a repository on the Hub.
        revision: the repository's branch, tag or commit; None for its main branch.
        long_documents, language, source_prefix: as for `SummarizationPipeline`.
        batch_size: default number of texts that are decoded together.
        threads: number of threads; by default that of idle processors, or the number in OMP_NUM_THREADS.
        seed: seed of sampling; by default texts differ from run to run.
        settings: defaults of the call's settings, and the pipeline's settings of the extractive stage.

    Raises:
        ValueError: the folder has no graphs or they are of another version, or a setting is out of range or not
            supported.
        OSError: a file is missing.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        revision: str | None = None,
        long_documents: str = "truncate",
        language: str = "en",
        source_prefix: str | None = None,
        batch_size: int = 1,
        threads: int | None = None,
        seed: int | None = None,
        **settings: object,
    ):
        graphs = find_exported(str(folder), revision=revision)
        # a checkpoint's folder may contain a folder with nothing but the graphs
        settings_folder = graphs if (graphs / "config.json").is_file() else graphs.parent
        config = {"task_specific_params": None, "prefix": None, **read_json(settings_folder / "config.json")}
        model_type = config["model_type"]
        # PyTorch's configurations of SAGCopy and CopyTransformer compute these two
        if config.get("positions") == "learned":
            config["max_position_embeddings"] = config["max_positions"]
        if config.get("decoder_embedding") == "bert_module":
            config["max_decoder_position_embeddings"] = config["bert_config"]["max_position_embeddings"]
        generation_keys = added_settings(model_type) if model_type in _ARCHITECTURES else ()
        self.model = _GraphModel(
            config=SimpleNamespace(**config),
            generation_config=without_none(read_json(settings_folder / "generation_config.json")),
            generation_keys=generation_keys,
            name_or_path=str(folder),
            recorded_positions=recorded_positions(graphs),
        )
        self.tokenizer = FolderTokenizer(settings_folder)
        self.processor = _processor(settings_folder, self.tokenizer)
        self._set_reading_defaults(long_documents, language, source_prefix, settings)
        self.batch_size = batch_size
        self._seed = seed
        self._preprocess, generate_settings, self._postprocess = self._sanitize_parameters(**settings)
        task_settings = overriding_settings(self._task_settings([*SETTINGS, *SUPPORTED, *LACKING]))
        self._settings = {**task_settings, **overriding_settings(generate_settings)}
        # raises an error for wrong settings
        self.search_settings()
        threads = threads or threads_for(1, only_idle=True) or omp_threads() or 1
        weights = weights_file(graphs)
        self._encoder = Graph(graphs / READ, threads, weights)
        # computes one step, in which each summary gets a token
        self._decoder = Graph(graphs / WRITE, threads, weights)
        # recurrent encoders read all documents of a batch at once
        self._encoder_batch_tokens = sys.maxsize if model_type in RECURRENT else ENCODER_BATCH_TOKENS

    @cached_property
    def _random_generator(self) -> "np.random.Generator":
        # created late, as importing numpy.random takes time
        return np.random.default_rng(self._seed)

    def set_seed(self, seed: int) -> None:
        # takes the place of the cached generator
        self._random_generator = np.random.default_rng(seed)

    def search_settings(self, **settings: object) -> Settings:
        """The settings of a call's search: the call's, the constructor's, the checkpoint's, then the pipeline's.

        Args:
            settings: the call's.

        Raises:
            ValueError: a setting is out of range, of another architecture, or not supported by this runtime.
        """
        given = {**self._settings, **overriding_settings(settings)}
        check_supported(given, self.model)
        given = {**self.model.generation_config, **given}
        check_generation_settings(given)
        defaults = {**_DEFAULTS, "pad_token_id": self.tokenizer.pad_token_id}
        positions = target_positions(self.model)
        if "max_length" in given:
            del defaults["max_new_tokens"]
        elif positions is not None:
            defaults["max_new_tokens"] = min(positions, defaults["max_new_tokens"])
        merged = {**defaults, **given}
        unsupported = lacking(merged)
        if unsupported is not None:
            raise PyTorchNeeded(
                f"`{unsupported}` is {merged[unsupported]!r:.80}, which ONNX Runtime's search lacks: omit it, or load "
                "the checkpoint itself with `pipeline`"
            )
        self._check_length(merged)
        beams = merged["num_beams"]
        returned = merged.get("num_return_sequences", 1)
        is_sampled = merged.get("do_sample") and beams == 1
        if returned > beams and not is_sampled:
            raise ValueError(f"`num_return_sequences` is {returned}, but must be at most `num_beams` ({beams})")
        merged |= in_types(merged)
        return {name: value for name, value in merged.items() if value is not None}

    def _run(self, examples, batch_size: int | None = None, **settings):
        preprocess, generate_settings, postprocess = self._sanitize_parameters(**settings)
        preprocess = {**self._preprocess, **preprocess}
        postprocess = {**self._postprocess, **postprocess}
        search_settings = self.search_settings(**generate_settings)
        returned = search_settings.get("num_return_sequences", 1)
        blank_summaries = np.zeros((returned, 0), np.int64)

        def summarize(examples: Iterable) -> Iterator[tuple[list[Record], Note]]:
            read_examples = (self.read(example, **preprocess) for example in examples)
            for batch in in_chunks(read_examples, batch_size or self.batch_size or 1):
                self.add_search_notes(batch, search_settings)
                # blank documents have no summaries among these
                summaries = iter(self._generate(examples_to_summarize(batch), search_settings))
                for read_example in batch:
                    sequences = blank_summaries if read_example.note["blank"] else next(summaries)
                    yield self.to_records(sequences, read_example, **postprocess), read_example.note

        if isinstance(examples, Example):
            return next(summarize([examples]))
        return summarize(generated(examples))

    def _generate(self, examples: Sequence[ReadExample], settings: Settings) -> Iterable[np.ndarray]:
        """The summaries of a batch of examples, as ids.

        Args:
            examples: as `examples_to_summarize` returns them.
            settings: as `search_settings` returns them.

        Returns:
            For each example, an array (n, L) of n summaries.
        """
        if not examples:
            return []
        returned = settings.get("num_return_sequences", 1)
        inputs = {}
        for name, rows in self.padded(examples).items():
            value_type = np.float32 if name == "phrase_values" else np.int64
            inputs[name] = np.array(rows, value_type)
            if settings["num_beams"] == 1:
                # each sample of a text has a row of its own
                inputs[name] = inputs[name].repeat(returned, axis=0)
        # a model may copy unknown words of the source by pointers to positions, which then have scores too
        has_pointers = getattr(self.processor, "unknown_ids", 0) and self.model.config.copy
        pointers = inputs["input_ids"].shape[1] if has_pointers else 0
        config = _search_config(settings)
        rules = self._rules(config, pointers)
        source = {**inputs, **encode(self._encoder, inputs, self._encoder_batch_tokens)}
        candidates = [example.note["candidates"] for example in examples if "candidates" in example.note]
        if candidates:
            first = _first_token(config)
            chosen = choose_sentences(self._decoder, source, candidates, first)
            return pad_rows(chosen, config.pad_token_id)[:, None]
        sequences = self._searched(source, config, rules)
        if pointers:
            vocab_size = self.model.config.vocab_size
            sequences = np.where(sequences < vocab_size, sequences, FIRST_POINTER + sequences - vocab_size)
        if config.replace_unk:
            sequences = self._without_unknown(source, sequences)
        return sequences.reshape(-1, returned, sequences.shape[-1])

    def _searched(self, source: Mapping[str, np.ndarray], config: SimpleNamespace, rules: Sequence[Rule]) -> np.ndarray:
        """The ids (R, L) that a search or sampling finds, with a row for each summary.

        Args:
            source: the documents' ids and mask, and what `encode` returns, with a row for each document.
            config: as `_search_config` returns it.
            rules: the rules that forbid tokens.
        """
        end_ids = _ids(config.eos_token_id)
        start = np.full((len(source["input_ids"]) * config.num_beams, 1), _first_token(config))
        if config.num_beams > 1:
            texts = Beams(start, config, end_ids, config.pad_token_id)
        else:
            texts = Texts(start, config, end_ids, config.pad_token_id)
        random_generator = self._random_generator if config.do_sample else None
        score_processors = list(processors(config, end_ids))
        try:
            best = search(
                self._decoder, source, texts, rules, config.coverage_penalty or 0.0, score_processors, random_generator
            )
        except OverflowError as error:
            penalty = config.length_penalty
            raise ValueError(f"`length_penalty` is {penalty}, too large for a summary's length: lower it") from error
        return best.sequences

    def _rules(self, config: SimpleNamespace, pointers: int) -> list[Rule]:
        """The rules that forbid tokens in a search.

        Args:
            config: as `_search_config` returns it.
            pointers: number of words, besides those of the vocabulary, that have scores.
        """
        end_ids = _ids(config.eos_token_id)

        def table() -> WordTable:
            return word_table(self.tokenizer, self.model.config.vocab_size, pointers)

        rules = list(word_rules(config, table, 1, end_ids))
        min_length = config.min_length
        if config.min_new_tokens is not None:
            # with the start token
            min_length = 1 + config.min_new_tokens
        # this value of `beam_stopping` defers summaries with fewer new tokens instead
        are_deferred = config.beam_stopping == "drgd" and config.min_new_tokens
        if min_length and not are_deferred:
            rules.append(MinLength(min_length, end_ids))
        # this value of `ngram_blocking` is among the `word_rules`
        if config.no_repeat_ngram_size and config.ngram_blocking != "beam":
            rules.append(NoRepeatNGram(config.no_repeat_ngram_size))
        if config.bad_words_ids:
            rules.append(BadWords(config.bad_words_ids, end_ids))
        if config.forced_bos_token_id is not None:
            rules.append(Force([config.forced_bos_token_id], 1))
        if config.forced_eos_token_id is not None:
            rules.append(Force(_ids(config.forced_eos_token_id), config.max_length - 1))
        return rules

    def _without_unknown(self, source: Mapping[str, np.ndarray], sequences: np.ndarray) -> np.ndarray:
        """The ids (R, L) of summaries where words of the source replace unknown words, as by `replace_unknown`."""
        check_vocabulary(self.tokenizer, self.model.config.vocab_size)
        unknown = self.tokenizer.unk_token_id
        if unknown is None:
            raise ValueError("`replace_unk` needs unknown words, but the tokenizer has no `unk_token`: set it to False")
        if not (sequences[:, 1:] == unknown).any():
            return sequences
        special_ids = [token_id for token_id in self.tokenizer.all_special_ids if token_id != unknown]
        attention = attentions(self._decoder, source, sequences)
        source_ids = source["input_ids"]
        # words of the source beyond the vocabulary are unknown words too
        source_ids = np.where(source_ids < self.model.config.vocab_size, source_ids, unknown)
        return replace_unknown(sequences, attention, source_ids, unknown, special_ids)


def _processor(folder: Path, tokenizer: FolderTokenizer) -> "TextProcessor | None":
    """The processor of a folder; None if it has only a tokenizer."""
    file = folder / "processor_config.json"
    if not file.is_file():
        return None
    settings = read_json(file)
    name = settings.pop("processor_class", None)
    if name not in _TEXT_MODULES:
        raise ValueError(f"{file}: `processor_class` is {name!r:.80}, but must be one of {', '.join(_TEXT_MODULES)}")
    module = import_module(f"hf_summ.models.{_TEXT_MODULES[name]}")
    # it names the code of a processor that is loaded from the Hub
    settings.pop("auto_map", None)
    text_processor_class = getattr(module, name.replace("Processor", "TextProcessor"))
    return text_processor_class(tokenizer, **settings)


def _search_config(settings: Settings) -> SimpleNamespace:
    """The generation config of a search, as `generate()` prepares it: it has all supported settings, None if unset.

    Args:
        settings: as `search_settings` returns them.
    """
    config = SimpleNamespace(**dict.fromkeys(SUPPORTED))
    config.length_penalty = _LENGTH_PENALTY
    config.early_stopping = False
    vars(config).update(settings)
    config.num_return_sequences = config.num_return_sequences or 1
    if config.max_new_tokens is not None:
        # with the start token
        config.max_length = 1 + config.max_new_tokens
    if config.gnmt_length_penalty is not None:
        config.length_penalty = GnmtLengthPenalty(config.gnmt_length_penalty, config.gnmt_length_offset)
    if config.num_beams == 1:
        # these two are settings of beam search
        config.beam_stopping = None
        config.ngram_blocking = None
    return config


def _first_token(config: SimpleNamespace) -> int:
    """The id with which summaries begin."""
    if config.decoder_start_token_id is None:
        return config.bos_token_id
    return config.decoder_start_token_id


def _ids(value: int | Sequence[int] | None) -> list[int]:
    """The ids of a setting that may have one id, several or none."""
    if value is None:
        return []
    if isinstance(value, int):
        return [value]
    return list(value)
