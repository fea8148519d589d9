"""transformers' `generate()` with the further settings of our architectures, and a search of their own.

A step of the search copies nothing that does not change: processors write into the scores, the cache is reordered only
if the beams are, and rows of finished documents leave the batch. Scores equal those of transformers to the last digit.
"""

import copy
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from transformers import LogitsProcessor, LogitsProcessorList, PreTrainedTokenizerBase, PreTrainedTokenizerFast
from transformers.generation import (
    EosTokenCriteria,
    GenerateBeamEncoderDecoderOutput,
    GenerateEncoderDecoderOutput,
    GenerationMixin,
    MaxLengthCriteria,
    MaxTimeCriteria,
    logits_process,
)
from transformers.utils import logging

from .checks import ADDED_SETTINGS, ALL_OURS, added_settings, check_settings, check_source_ids, check_supported
from .generation_rules import (
    BadWords,
    Beams,
    Force,
    GnmtLengthPenalty,
    MinLength,
    NoRepeatNGram,
    Rule,
    Sequences,
    Texts,
    word_rules,
)
from .layers_copying import CoveragePenaltyLogitsProcessor, hooked_arguments
from .layers_transformer import rows_of, top_scores
from .text_documents import WordTable, word_table

logger = logging.get_logger(__name__)

Process = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
SearchOutput = GenerateBeamEncoderDecoderOutput | GenerateEncoderDecoderOutput
# outputs that transformers collects through hooks, which a compiled graph cannot contain
_CAPTURED = ("output_attentions", "output_hidden_states")
# imported by name, as only checkpoints with the setting `whole_sentences` are saved with this module
SENTENCES_MODULE = ".generation_sentences"
NAN = "the model computes NaN, and its texts are arbitrary: try `dtype=torch.float32`"
# settings that only the search of transformers has
_OMITTED = ("output_scores", "output_logits", "output_attentions", "output_hidden_states", "do_sample", "low_memory")
# transformers' processors that score a row by its own ids, wherever it is in the batch; ours have `is_by_row`
_BY_ROW = {
    logits_process.ExponentialDecayLengthPenalty,
    logits_process.ForcedBOSTokenLogitsProcessor,
    logits_process.ForcedEOSTokenLogitsProcessor,
    logits_process.InfNanRemoveLogitsProcessor,
    logits_process.LogitNormalization,
    logits_process.NoBadWordsLogitsProcessor,
    logits_process.RepetitionPenaltyLogitsProcessor,
    logits_process.SequenceBiasLogitsProcessor,
    logits_process.SuppressTokensAtBeginLogitsProcessor,
    logits_process.SuppressTokensLogitsProcessor,
}


class ForbiddingLogitsProcessor(LogitsProcessor):
    """Forbids tokens of each row of the batch by a rule that reads the row's ids alone."""

    def __init__(self, rule: Rule):
        self.rule = rule

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        return self.forbid(input_ids, scores.clone())

    def forbid(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Overwrite the scores (R, V) of forbidden tokens by -inf, and return the scores."""
        row_indices, token_ids = self.rule.pairs(input_ids.tolist())
        rows = torch.tensor(row_indices, device=scores.device)
        tokens = torch.tensor(token_ids, device=scores.device)
        if self.rule.ends:
            scores[rows] = -torch.inf
        elif len(rows):
            scores_before = scores[rows, tokens]
            scores[rows, tokens] = -torch.inf
            if self.rule.yields:
                has_no_token = scores.amax(-1).isneginf()[rows]
                scores[rows, tokens] = scores_before.where(has_no_token, -torch.inf)
        return scores


def rule_of(processor: LogitsProcessor) -> Rule | None:
    """The rule of a processor, of ours or of transformers, that only forbids or forces tokens; None for others."""
    if isinstance(processor, ForbiddingLogitsProcessor):
        return processor.rule
    if type(processor) is logits_process.MinLengthLogitsProcessor:
        return MinLength(processor.min_length, processor.eos_token_id.tolist())
    if type(processor) is logits_process.MinNewTokensLengthLogitsProcessor:
        return MinLength(processor.prompt_length_to_skip + processor.min_new_tokens, processor.eos_token_id.tolist())
    if type(processor) is logits_process.NoRepeatNGramLogitsProcessor:
        return NoRepeatNGram(processor.ngram_size)
    if type(processor) is logits_process.NoBadWordsLogitsProcessor:
        return BadWords(list(processor.sequence_bias))
    if type(processor) is logits_process.ForcedBOSTokenLogitsProcessor:
        return Force([processor.bos_token_id], 1)
    if type(processor) is logits_process.ForcedEOSTokenLogitsProcessor:
        return Force(processor.eos_token_id.tolist(), processor.max_length - 1)
    return None


def unsupported_setting(config, stopping_criteria, model_kwargs, synced_gpus: bool) -> str | None:
    """The first setting that `search` does not support, or None, by the arguments of `GenerationMixin._beam_search`."""
    for name in _OMITTED:
        if getattr(config, name):
            return name
    for name in ("decoder_attention_mask", "cache", "streamer"):
        if model_kwargs.get(name) is not None:
            return name
    if not model_kwargs["use_cache"]:
        return "use_cache"
    if synced_gpus:
        return "synced_gpus"
    for criterion in stopping_criteria:
        is_length = type(criterion) is MaxLengthCriteria and criterion.max_length == config.max_length
        is_time = type(criterion) is MaxTimeCriteria and criterion.max_time == config.max_time
        is_end = type(criterion) is EosTokenCriteria and criterion.eos_token_id is config._eos_token_tensor
        if not (is_length or is_time or is_end):
            return "stopping_criteria"
    return None


def search(
    model, input_ids: torch.Tensor, processors: list[LogitsProcessor], config, model_kwargs: dict[str, Any]
) -> SearchOutput:
    """Search the best summaries as `GenerationMixin._beam_search`, or by `beam_stopping` and `ngram_blocking`.

    With one beam the search is greedy. The rows of finished documents leave the batch, unless a processor or a hook may
    depend on a row's position there. The returned cache has the rows of the documents that finished last.

    Args:
        model: one of ours, which stores each document's source once.
        input_ids: (R, T), the prompts, where R is the number of documents times that of beams.
        model_kwargs: the model's inputs, without a cache.
    """
    device = input_ids.device
    beams = start_of(input_ids, config)
    known = [_process_of_rows(processor) for processor in processors]
    processes = [process for process in known if process is not None]
    rows_may_leave = len(processes) == len(processors) and not hooked_arguments(model)
    outputs = model._prefill(input_ids, config, model_kwargs)
    inputs: dict[str, Any] = {}
    ids = input_ids
    while True:
        model_kwargs = model._update_model_kwargs_for_generation(outputs, model_kwargs, is_encoder_decoder=True)
        scores = outputs.logits[:, -1].float()
        if config.num_beams > 1:
            # on a CPU the result overwrites the logits, as it takes time there to allocate memory
            scores = torch.log_softmax(scores, -1, out=scores if device.type == "cpu" else None)
        # a processor of the caller may keep its inputs, which must not be overwritten
        for process in processes if rows_may_leave else processors:
            scores = process(ids, scores)
        totals, parents, tokens = _candidates(scores if rows_may_leave else scores.clone(), beams)
        rows = beams.advance(totals, parents, tokens)
        cache = model_kwargs["cache"]
        if beams.is_over:
            return output_of(beams.output(), config, cache, device)
        ids = torch.tensor(beams.ids, device=device)
        if not inputs:
            inputs = model.prepare_inputs_for_generation(ids, next_sequence_length=1, **model_kwargs)
        # with other numbers of rows, a compiled step would be compiled again
        if beams.is_done.any() and rows_may_leave and not inputs.get("compile_step"):
            unfinished = np.flatnonzero(~beams.is_done)
            rows = beams.select(unfinished, rows)
            ids = torch.tensor(beams.ids, device=device)
            documents = torch.tensor(unfinished, device=device)
            cache.select_documents(documents)
            for name, value in inputs.items():
                if value is not cache:
                    inputs[name] = rows_of(value, documents)
        if not np.array_equal(rows, np.arange(len(scores))):
            cache.reorder_cache(torch.tensor(rows, device=device))
        inputs["decoder_input_ids"] = ids[:, -1:]
        outputs = model(**inputs, return_dict=True)


def start_of(input_ids: torch.Tensor, config) -> Beams | Texts:
    """The state of a search that has written nothing yet after the prompts (R, T)."""
    ends = [] if config._eos_token_tensor is None else config._eos_token_tensor.tolist()
    padding = None if config._pad_token_tensor is None else config._pad_token_tensor.tolist()
    state = Beams if config.num_beams > 1 else Texts
    return state(input_ids.numpy(force=True), config, ends, padding)


def _candidates(scores: torch.Tensor, beams: Beams | Texts) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The best continuations of each document: their totals, parents (beams) and tokens, each (B, candidates).

    The totals of the beams are added to the scores (R, V) in place.
    """
    vocab_size = scores.shape[1]
    if beams.totals is None:
        best, indices = scores.max(-1, keepdim=True)
    else:
        scores += torch.tensor(beams.totals, device=scores.device).view(-1, 1)
        best, indices = top_scores(scores.reshape(len(beams.totals), -1), beams.candidates)
    totals = best.numpy(force=True)
    parents, tokens = np.divmod(indices.numpy(force=True), vocab_size)
    return totals, parents, tokens


def output_of(best: Sequences, config, cache, device) -> SearchOutput:
    """The results of a search as `generate()` returns them."""
    sequences = torch.tensor(best.sequences, device=device)
    if best.beams is None:
        return GenerateEncoderDecoderOutput(sequences=sequences, cache=cache)
    scores = torch.tensor(best.scores, device=device) if config.output_scores else None
    beam_indices = torch.tensor(best.beams, device=device, dtype=torch.int32)
    return GenerateBeamEncoderDecoderOutput(
        sequences=sequences, sequences_scores=scores, beam_indices=beam_indices, cache=cache
    )


def _process_of_rows(processor: LogitsProcessor) -> Process | None:
    """A function that applies a processor to some rows of a batch; None if a row's position in the batch may matter."""
    if type(processor) in _BY_ROW or getattr(processor, "is_by_row", False):
        return processor
    # the rule behind the processor changes scores in place
    rule = rule_of(processor)
    return None if rule is None else ForbiddingLogitsProcessor(rule).forbid


@dataclass
class RunningGeneration:
    """What a running `generate()` needs in methods to which transformers does not pass it.

    Attributes:
        tokenizer: the caller's tokenizer, from which the processors count words.
        source_ids: (B, S), the ids of the documents.
        candidates: for `whole_sentences`, the document or documents of each example, or its candidates.
        step_inputs: further inputs of the model at each step.
        coverage_penalty: the processor that reads each step's coverage.
        unknown_id, source: the id of unknown words to replace, and the model's inputs to attend to the source again.
    """

    tokenizer: PreTrainedTokenizerBase | None
    source_ids: torch.Tensor | None = None
    candidates: Sequence[str | Sequence] | None = None
    step_inputs: dict[str, Any] = field(default_factory=dict)
    coverage_penalty: CoveragePenaltyLogitsProcessor | None = None
    unknown_id: int | None = None
    source: dict[str, Any] = field(default_factory=dict)


_running: ContextVar[RunningGeneration | None] = ContextVar("running_generation", default=None)


def running_generation() -> RunningGeneration | None:
    """The state of the running `generate()`; None in a caller's own decoding loop."""
    return _running.get()


class SummarizationGenerationMixin(GenerationMixin):
    """transformers' `generate()` with the settings of `ADDED_SETTINGS`, for models that store each source once."""

    # whether the model's outputs include the coverage of the source
    has_coverage = True
    # whether the decoder accepts `compile_step`: its steps share one graph at any length
    compiles_steps = False
    # loaded when words are first counted without a `tokenizer`
    _own_tokenizer: PreTrainedTokenizerBase | None = None
    generation_keys = added_settings(ALL_OURS)

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        # the decoder creates its own cache at the first step, as its state is not keys and values
        return False

    def generate(self, inputs=None, *args, tokenizer=None, candidates=None, **kwargs):
        """transformers' `generate`.

        `compile_config` compiles the decoding steps on a CPU, for models that support it (`compiles_steps`): all layers
        of a step become one graph, which later steps and calls reuse with any number and length of documents. A single
        document, greedy search and padding have further graphs. Without an `attention_mask`, padding is told by its id.

        Args:
            tokenizer: a tokenizer or processor, for the keys that count or replace words; by default the one in the
                model's checkpoint.
            candidates: for `whole_sentences`, each example's document or list of documents, or its
                `generation_sentences.Candidate`s; by default the documents are decoded from the ids.
        """
        tokenizer = getattr(tokenizer, "tokenizer", tokenizer)
        if tokenizer is not None:
            kwargs["tokenizer"] = tokenizer
        source_ids = kwargs.get("input_ids") if inputs is None else inputs
        check_source_ids(source_ids)
        if kwargs.get("encoder_outputs") is not None:
            # transformers leaves `input_ids` out then
            encoded = self.model.read_encoder_outputs(kwargs["encoder_outputs"], source_ids)
            kwargs["encoder_outputs"], source_ids = encoded, encoded.source_ids
        pad, has_mask = self.config.pad_token_id, kwargs.get("attention_mask") is not None
        if source_ids is not None and not has_mask and pad not in (None, self.config.eos_token_id):
            # transformers infers it only for models without an encoder
            kwargs["attention_mask"] = (source_ids != pad).long()
        streamer = kwargs.get("streamer")
        if streamer is not None:
            # it gets the ids that are returned
            kwargs["streamer"] = SimpleNamespace(put=lambda ids: streamer.put(self._written_ids(ids)), end=streamer.end)
        running = RunningGeneration(tokenizer, source_ids, candidates)
        token = _running.set(running)
        try:
            output = super().generate(inputs, *args, **kwargs)
            if isinstance(output, torch.Tensor):
                return self._finished(output, running)
            output.sequences = self._finished(output.sequences, running)
            return output
        finally:
            _running.reset(token)

    def _finished(self, sequences: torch.Tensor, running: RunningGeneration) -> torch.Tensor:
        """Postprocess the sequences of generate()'s output."""
        return self._written_ids(sequences)

    def _written_ids(self, columns: torch.Tensor) -> torch.Tensor:
        """The ids that are returned and streamed for columns of the scores."""
        return columns

    def _beam_search(self, *args, **kwargs):
        return self._search(super()._beam_search, *args, **kwargs)

    def _sample(self, *args, **kwargs):
        return self._search(super()._sample, *args, **kwargs)

    def _search(
        self, transformers_search, input_ids, logits_processor, stopping_criteria, generation_config, **model_kwargs
    ):
        synced_gpus = model_kwargs.pop("synced_gpus", False)
        if len(input_ids) > len(model_kwargs["encoder_outputs"][0]) and "adapter_names" in hooked_arguments(self):
            raise ValueError("`adapter_names` needs one text a document: set `num_beams=1, num_return_sequences=1`")
        setting = unsupported_setting(generation_config, stopping_criteria, model_kwargs, synced_gpus)
        if setting is not None:
            for name in ("beam_stopping", "ngram_blocking", "whole_sentences"):
                value = getattr(generation_config, name)
                if value not in (None, False, "token"):
                    raise ValueError(
                        f"`{name}` is {value!r}, which the beam search of transformers lacks, but `{setting}` needs "
                        "that search: omit one of them"
                    )
            logger.debug(f"transformers' own search is used because of `{setting}`")
            return transformers_search(
                input_ids, logits_processor, stopping_criteria, generation_config, synced_gpus, **model_kwargs
            )
        states = getattr(model_kwargs.get("encoder_outputs"), "last_hidden_state", None)
        if generation_config.whole_sentences:
            output = self._choose_sentences(generation_config, model_kwargs)
        else:
            output = self._search_by_rules(input_ids, logits_processor, generation_config, model_kwargs)
        for values in (states, getattr(output, "sequences_scores", None)):
            if values is not None and values.isnan().any():
                logger.warning_once(NAN)
        return output if generation_config.return_dict_in_generate else output.sequences

    def _choose_sentences(self, config, model_kwargs) -> GenerateEncoderDecoderOutput:
        """The likeliest sentence of each example."""
        running = _running.get()
        module = import_module(SENTENCES_MODULE, __package__)
        candidates = running.candidates
        if candidates is None:
            candidates = module.decoded_documents(running.source_ids, self._word_tokenizer(), self.config.vocab_size)
        if isinstance(candidates[0], str) or isinstance(candidates[0][0], str):
            tokenizer, most_tokens = self._word_tokenizer(), config.max_length - 1
            candidates = [module.candidates_of(document, tokenizer, most_tokens, False) for document in candidates]
        # whole texts need no cache
        for name in ("cache", "use_cache", "cache_position"):
            model_kwargs.pop(name, None)
        sequences = module.likeliest_sentences(self, candidates, config, model_kwargs)
        return GenerateEncoderDecoderOutput(sequences=sequences)

    # a method, which models of ONNX graphs override
    _search_by_rules = search

    def check_generation_keys(self, generation_config) -> None:
        """Raise a ValueError if one of our keys in `generation_config` is out of range or not supported."""
        keys = (*self.generation_keys, "num_return_sequences", "do_sample")
        check_settings({key: getattr(generation_config, key, None) for key in keys}, ADDED_SETTINGS)
        penalty = getattr(generation_config, "coverage_penalty", None)
        if penalty and not self.has_coverage:
            raise ValueError(f"`coverage_penalty` is {penalty}, which needs a model that copies: set it to 0")
        if penalty and getattr(generation_config, "renormalize_logits", False):
            raise ValueError("`coverage_penalty` and `renormalize_logits=True` exclude each other: set only one")

    def _expand_inputs_for_generation(self, expand_size=1, is_encoder_decoder=False, input_ids=None, **model_kwargs):
        # `input_ids` are the decoder's. The source keeps a row a document, as layers infer the number of beams.
        if expand_size == 1:
            return input_ids, model_kwargs
        for name, value in model_kwargs.items():
            if name.startswith("decoder_") and isinstance(value, torch.Tensor):
                model_kwargs[name] = value.repeat_interleave(expand_size, dim=0)
        return input_ids.repeat_interleave(expand_size, dim=0), model_kwargs

    def _prepare_generation_config(self, generation_config, *args, **kwargs: Any):
        model_config = self.generation_config
        if model_config.decoder_start_token_id is None:
            # a config made afresh lacks the tokens: summaries would begin unlike those of training, and never end
            for name in ("decoder_start_token_id", "eos_token_id", "pad_token_id"):
                if getattr(model_config, name) is None:
                    model_config.update(**{name: getattr(self.config, name, None)})
        check_supported(kwargs, self)
        given = {key: kwargs.pop(key) for key in self.generation_keys if key in kwargs}
        config, model_kwargs = super()._prepare_generation_config(generation_config, *args, **kwargs)
        for key in self.generation_keys:
            setattr(config, key, given.get(key, getattr(config, key, None)))
        self.check_generation_keys(config)
        if config.gnmt_length_penalty is not None:
            config.length_penalty = GnmtLengthPenalty(config.gnmt_length_penalty, config.gnmt_length_offset)
        if config.num_beams == 1:
            config.beam_stopping = config.ngram_blocking = None
        if config.compile_config is not None and self.compiles_steps and self.device.type == "cpu":
            for key in _CAPTURED:
                if getattr(config, key, None) or getattr(self.config, key, None):
                    raise ValueError(f"`compile_config` and {' or '.join(_CAPTURED)} exclude each other: set only one")
            # the decoder compiles its own steps; transformers would warn that it does not compile beam search
            config.compile_config = None
            self._add_step_input("compile_step", True)
        return config, model_kwargs

    @staticmethod
    def _add_step_input(name: str, value: Any) -> None:
        """Pass a further input to each step of the running `generate()`."""
        running = _running.get()
        if running is not None:
            running.step_inputs[name] = value

    def prepare_inputs_for_generation(self, *args, **kwargs):
        """transformers' inputs of a step, and those of `_add_step_input`."""
        inputs = super().prepare_inputs_for_generation(*args, **kwargs)
        running = _running.get()
        return inputs if running is None else {**inputs, **running.step_inputs}

    def _get_logits_processor(
        self, generation_config, input_ids_seq_length=None, *args, logits_processor=None, device=None, **kwargs
    ):
        # ours precede the warpers of sampling: forbidding a token after top-p could leave nothing to sample from
        processors = LogitsProcessorList(logits_processor or [])
        processors += self._own_processors(generation_config, input_ids_seq_length)
        # the search's rules replace these settings
        generation_config = copy.copy(generation_config)
        if generation_config.beam_stopping == "drgd" and generation_config.min_new_tokens:
            generation_config.min_new_tokens = generation_config.min_length = None
        if generation_config.ngram_blocking == "beam":
            generation_config.no_repeat_ngram_size = None
        return super()._get_logits_processor(
            generation_config, input_ids_seq_length, *args, logits_processor=processors, device=device, **kwargs
        )

    def _own_processors(self, generation_config, prompt_length) -> list[LogitsProcessor]:
        """The processors for settings that transformers lacks."""
        ends = generation_config._eos_token_tensor
        end_token_ids = [] if ends is None else ends.tolist()
        rules = word_rules(generation_config, self._word_table, prompt_length, end_token_ids)
        processors: list[LogitsProcessor] = [ForbiddingLogitsProcessor(rule) for rule in rules]
        if generation_config.coverage_penalty:
            coverage_penalty = CoveragePenaltyLogitsProcessor(generation_config.coverage_penalty)
            processors.append(coverage_penalty)
            running = _running.get()
            if running is not None:
                running.coverage_penalty = coverage_penalty
        return processors

    def _word_table(self) -> WordTable:
        """The words of the tokens that have scores."""
        return word_table(self._word_tokenizer(), self.config.vocab_size)

    def _update_model_kwargs_for_generation(self, outputs, *args, **kwargs):
        # transformers calls this between the forward pass and the logits processors
        running = _running.get()
        if running is not None and running.coverage_penalty is not None:
            running.coverage_penalty.observe(outputs.coverage, outputs.copy_attentions[:, -1])
        return super()._update_model_kwargs_for_generation(outputs, *args, **kwargs)

    def _word_tokenizer(self) -> PreTrainedTokenizerBase:
        """The caller's tokenizer, or the model's own."""
        running = _running.get()
        if running is not None and running.tokenizer is not None:
            return running.tokenizer
        if self._own_tokenizer is None:
            try:
                self._own_tokenizer = PreTrainedTokenizerFast.from_pretrained(self.name_or_path, **self.hub_settings)
            except (OSError, ValueError) as error:
                raise ValueError(
                    "`no_repeat_word_ngram_size`, `min_new_words`, `replace_unk` and `whole_sentences` need the "
                    "tokenizer: give it as `model.generate(..., tokenizer=processor)`, or set them to 0"
                ) from error
        return self._own_tokenizer
