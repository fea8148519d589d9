"""Summaries by exported graphs, with neither PyTorch nor transformers."""

import json
import math
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from hf_summ.common.processes import omp_threads, threads_for
from hf_summ.models.checks import check_own_settings, own_settings
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
from hf_summ.models.generation_sentences import Candidate, padded
from hf_summ.models.text_documents import FIRST_POINTER, WordTable, check_vocabulary, word_table
from hf_summ.models.text_processing_recurrent import replace_unknown
from hf_summ.runtimes.any_model import target_positions
from hf_summ.runtimes.documents import EXTRACTION, DocumentSummarizer, Example, clear_aliases, ends_of, generated
from hf_summ.runtimes.folder_tokenizer import FolderTokenizer
from hf_summ.runtimes.folders import find, recorded_positions
from hf_summ.runtimes.long_documents import in_chunks
from hf_summ.runtimes.onnx_search import (
    POSITIONS,
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
    SETTINGS,
    SUPPORTED,
    UnsupportedSetting,
    check_generation_settings,
    in_types,
    lacking,
)

# architecture -> its processor, and the module of the processor's text side
_PROCESSORS = {
    "copy_transformer": ("CopyTransformerProcessor", "base"),
    "drgd": ("DrgdProcessor", "recurrent"),
    "gdlf": ("GdlfProcessor", "gdlf"),
    "highlight_transformer": ("HighlightTransformerProcessor", "highlight_transformer"),
    "pointer_generator": ("PointerGeneratorProcessor", "recurrent"),
    "sagcopy": ("SagCopyProcessor", "base"),
}
# as of the pipeline
_DEFAULTS = {"max_new_tokens": 256, "num_beams": 4}


class OnnxSummarizer(DocumentSummarizer):
    """Summarizes texts with the output of `hf-summ export`, without PyTorch and transformers.

    Called like `SummarizationPipeline`, with the same results: a text, or a list, iterator or column of texts, with
    `phrases`, `word_tags`, `long_documents`, `language`, `source_prefix`, `truncation`, `return_details`,
    `return_tensors` (arrays), `batch_size` and settings of `generate()`; samples differ from PyTorch's with the same
    seed.

    Args:
        folder: the exported folder, or the checkpoint's folder that contains it as `onnx`.
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
        long_documents: str = "truncate",
        language: str = "en",
        source_prefix: str | None = None,
        batch_size: int = 1,
        threads: int | None = None,
        seed: int | None = None,
        **settings: Any,
    ):
        path = find(str(folder))
        # a checkpoint's folder may contain the graphs alone
        settings_folder = path if (path / "config.json").is_file() else path.parent
        config = _read_json(settings_folder / "config.json")
        model_type = config["model_type"]
        # as the properties of SAGCopy's and CopyTransformer's configurations
        if config.get("positions") == "learned":
            config["max_position_embeddings"] = config["max_positions"]
        if config.get("decoder_embedding") == "bert_module":
            config["max_decoder_position_embeddings"] = config["bert_config"]["max_position_embeddings"]
        self.model = SimpleNamespace(
            config=SimpleNamespace(**{"task_specific_params": None, "prefix": None, **config}),
            generation_config=_read_json(settings_folder / "generation_config.json"),
            generation_keys=own_settings(model_type) if model_type in _PROCESSORS else (),
            name_or_path=str(folder),
            recorded_positions=recorded_positions(path),
        )
        self.tokenizer = FolderTokenizer(settings_folder)
        self.processor = _processor(settings_folder, self.tokenizer)
        extraction = {name: settings.pop(name, None) for name in EXTRACTION}
        self._set_reading(long_documents, language, source_prefix, **extraction)
        self.batch_size = batch_size
        self._seed = seed
        self._preprocess, generate, self._postprocess = self._split_settings(**settings)
        task = clear_aliases(self._task_settings((*SETTINGS, *SUPPORTED)))
        self._settings = {**task, **clear_aliases(generate)}
        self.search_settings()
        threads = threads or threads_for(1, only_idle=True) or omp_threads() or 1
        self._read, self._step = Graph(path / READ, threads), Graph(path / WRITE, threads)
        self._positions = sys.maxsize if model_type in RECURRENT else POSITIONS

    @cached_property
    def _noise(self) -> "np.random.Generator":
        # created late, as importing numpy.random takes time
        return np.random.default_rng(self._seed)

    def search_settings(self, **settings: Any) -> dict[str, Any]:
        """The settings of a call's search: the call's, the constructor's, the checkpoint's, then the pipeline's.

        Args:
            settings: the call's.

        Raises:
            ValueError: a setting is out of range, of another architecture, or not supported by this runtime.
        """
        checkpoint = self.model.generation_config
        given = {**self._settings, **clear_aliases(settings)}
        check_own_settings(given, self.model)
        check_generation_settings({**checkpoint, **given})
        merged = {**checkpoint, **given}
        defaults = {**_DEFAULTS, "pad_token_id": self.tokenizer.pad_token_id}
        if "max_length" in merged:
            del defaults["max_new_tokens"]
        elif (positions := target_positions(self.model)) is not None:
            defaults["max_new_tokens"] = min(positions, defaults["max_new_tokens"])
        merged = {**defaults, **merged}
        # as the pipeline, which does not treat None as unset for this one
        merged["num_beams"] = merged["num_beams"] or 1
        if (name := lacking(merged)) is not None:
            raise UnsupportedSetting(
                f"`{name}` is {merged[name]!r:.80}, which ONNX Runtime's search lacks: omit it, or load the "
                "checkpoint itself with `pipeline`"
            )
        self._check_length(merged)
        beams, returned = merged["num_beams"], merged.get("num_return_sequences") or 1
        if returned > beams and not (merged.get("do_sample") and beams == 1):
            raise ValueError(f"`num_return_sequences` is {returned}, but must be at most `num_beams` ({beams})")
        return {name: value for name, value in (merged | in_types(merged)).items() if value is not None}

    def _run(self, examples: Any, batch_size: int | None = None, **settings: Any) -> Any:
        preprocess, generate, postprocess = self._split_settings(**settings)
        preprocess, postprocess = {**self._preprocess, **preprocess}, {**self._postprocess, **postprocess}
        config = self.search_settings(**generate)

        def results(examples: Iterable) -> Iterator[tuple[list[dict], dict]]:
            read = (self.read(example, **preprocess) for example in examples)
            for batch in in_chunks(read, batch_size or self.batch_size or 1):
                notes = [note for _, _, note in batch]
                self._add_candidates(notes, config)
                candidates = [note["candidates"] for note in notes if "candidates" in note]
                written = self._generate([inputs for inputs, _, note in batch if not note["blank"]], config, candidates)
                blank = np.zeros((config.get("num_return_sequences", 1), 0), np.int64)
                for _, pointed, note in batch:
                    note["ends"] = ends_of(config)
                    sequences = blank if note["blank"] else next(written)
                    yield self.to_records(sequences, note, pointed, **postprocess), note

        return next(results([examples])) if isinstance(examples, Example) else results(generated(examples))

    def _generate(
        self, rows: Sequence[Mapping[str, list]], settings: Mapping[str, Any], candidates: Sequence[list[Candidate]]
    ) -> Iterator[np.ndarray]:
        """The sequences (n, L) of each example.

        Args:
            rows: the inputs of each example.
            candidates: of each example, if `whole_sentences` chooses among them.
        """
        if not rows:
            return iter(())
        if settings["num_beams"] == 1:
            # samples are texts of their own
            rows = [row for row in rows for _ in range(settings.get("num_return_sequences", 1))]
        inputs = self._padded({name: [row[name][0] for row in rows] for name in rows[0]})
        has_pointers = getattr(self.processor, "unknown_ids", 0) and self.model.config.copy
        # to positions of the source, which have scores too
        pointers = inputs["input_ids"].shape[1] if has_pointers else 0
        config, rules = self._search_of(settings, pointers)
        source = {**inputs, **encode(self._read, inputs, self._positions)}
        first = config.bos_token_id if config.decoder_start_token_id is None else config.decoder_start_token_id
        if candidates:
            chosen = choose_sentences(self._step, source, candidates, first, config.length_penalty)
            return iter(padded(chosen, config.pad_token_id)[:, None])
        start = np.full((len(inputs["input_ids"]) * config.num_beams, 1), first)
        kept = Beams if config.num_beams > 1 else Texts
        texts = kept(start, config, _ids(config.eos_token_id), config.pad_token_id)
        noise = self._noise if config.do_sample else None
        change = list(processors(config, _ids(config.eos_token_id)))
        deadline = math.inf if config.max_time is None else time.monotonic() + config.max_time

        def proceed() -> None:
            if time.monotonic() > deadline:
                texts.end()

        try:
            best = search(self._step, source, texts, rules, config.coverage_penalty or 0.0, change, noise, proceed)
        except OverflowError as error:
            penalty = config.length_penalty
            raise ValueError(f"`length_penalty` is {penalty}, too large for a summary's length: lower it") from error
        sequences, returned = best.sequences, settings.get("num_return_sequences", 1)
        if pointers:
            size = self.model.config.vocab_size
            sequences = np.where(sequences < size, sequences, FIRST_POINTER + sequences - size)
        if config.replace_unk:
            sequences = self._without_unknown(source, sequences)
        return iter(sequences.reshape(-1, returned, sequences.shape[-1]))

    def _search_of(self, settings: Mapping[str, Any], pointers: int) -> tuple[SimpleNamespace, list[Rule]]:
        """The config of a search with these settings, as `generate()` prepares it, and the rules that forbid tokens.

        Args:
            pointers: number of words, besides those of the vocabulary, that have scores.
        """
        values = {**dict.fromkeys(SUPPORTED), "length_penalty": 1.0, "early_stopping": False, **settings}
        config = SimpleNamespace(**{"num_return_sequences": 1, **values})
        config.num_return_sequences = config.num_return_sequences or 1
        # with the start token
        if config.max_new_tokens is not None:
            config.max_length = 1 + config.max_new_tokens
        least = config.min_length if config.min_new_tokens is None else 1 + config.min_new_tokens
        if config.gnmt_length_penalty is not None:
            offset = 5.0 if config.gnmt_length_offset is None else config.gnmt_length_offset
            config.length_penalty = GnmtLengthPenalty(config.gnmt_length_penalty, offset)
        if config.num_beams == 1:
            config.beam_stopping = config.ngram_blocking = None
        ends, size = _ids(config.eos_token_id), self.model.config.vocab_size

        def table() -> WordTable:
            return word_table(self.tokenizer, size, pointers)

        rules = list(word_rules(config, table, 1, ends))
        if least and config.beam_stopping != "drgd":
            rules.append(MinLength(least, ends))
        if config.no_repeat_ngram_size and config.ngram_blocking != "beam":
            rules.append(NoRepeatNGram(config.no_repeat_ngram_size))
        if config.bad_words_ids:
            rules.append(BadWords(config.bad_words_ids, ends))
        if config.forced_bos_token_id is not None:
            rules.append(Force([config.forced_bos_token_id], 1))
        if config.forced_eos_token_id is not None:
            rules.append(Force(_ids(config.forced_eos_token_id), config.max_length - 1))
        return config, rules

    def _padded(self, features: Mapping[str, list]) -> dict[str, np.ndarray]:
        """Rows of one length as arrays."""
        if self.processor is not None:
            features = self.processor.pad(features)
        else:
            longest = max(map(len, features["input_ids"]))
            values = {"input_ids": self.tokenizer.pad_token_id, "attention_mask": 0}
            features = {
                name: [row + [value] * (longest - len(row)) for row in features[name]] for name, value in values.items()
            }
        types = {"phrase_values": np.float32}
        return {name: np.array(rows, types.get(name, np.int64)) for name, rows in features.items()}

    def _without_unknown(self, source: Mapping[str, np.ndarray], sequences: np.ndarray) -> np.ndarray:
        check_vocabulary(self.tokenizer, self.model.config.vocab_size)
        unknown = self.tokenizer.unk_token_id
        if unknown is None:
            raise ValueError("`replace_unk` needs unknown words, but the tokenizer has no `unk_token`: set it to False")
        if not (sequences[:, 1:] == unknown).any():
            return sequences
        special = [token for token in self.tokenizer.all_special_ids if token != unknown]
        attention = attentions(self._step, source, sequences)
        source_ids = source["input_ids"]
        source_ids = np.where(source_ids < self.model.config.vocab_size, source_ids, unknown)
        return replace_unknown(sequences, attention, source_ids, unknown, special)


def _read_json(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def _processor(folder: Path, tokenizer: FolderTokenizer) -> Any:
    """The processor of a folder; None if it has only a tokenizer."""
    file = folder / "processor_config.json"
    if not file.is_file():
        return None
    settings = _read_json(file)
    name = settings.pop("processor_class", None)
    modules = dict(_PROCESSORS.values())
    if name not in modules:
        raise ValueError(f"{file}: `processor_class` is {name!r:.80}, but must be one of {', '.join(modules)}")
    module = import_module(f"hf_summ.models.text_processing_{modules[name]}")
    settings.pop("auto_map", None)
    return getattr(module, name.replace("Processor", "TextProcessor"))(tokenizer, **settings)


def _ids(value: int | Sequence[int] | None) -> list[int]:
    return [] if value is None else [value] if isinstance(value, int) else list(value)
