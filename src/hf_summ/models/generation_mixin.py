"""The architectures' additions to transformers' `generate()`, and a search with its results or by published rules.

A step of the search copies nothing that does not change: processors write into the scores, the cache is reordered only
if the beams are, and rows of finished documents leave the batch. Scores equal those of transformers to the last digit.
"""

import copy
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
import torch
from transformers import LogitsProcessor, LogitsProcessorList, PreTrainedTokenizerFast
from transformers.generation import (
    EosTokenCriteria,
    GenerateBeamEncoderDecoderOutput,
    GenerateEncoderDecoderOutput,
    GenerationMixin,
    MaxLengthCriteria,
    logits_process,
)
from transformers.utils import logging

from .checks import ADDED_SETTINGS, check_own_settings, check_settings, check_source_ids, own_settings
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
from .layers_copying import CoveragePenaltyLogitsProcessor
from .layers_transformer import CACHE, cache_argument, rows_of, top_scores
from .text_documents import WordTable, word_table

logger = logging.get_logger(__name__)

# special tokens that a search needs
_TOKENS = ("decoder_start_token_id", "eos_token_id", "pad_token_id")
# outputs that transformers collects through hooks, which a compiled graph cannot contain
_CAPTURED = ("output_attentions", "output_hidden_states")
# travels with checkpoints that have the setting
SENTENCES_MODULE = ".generation_sentences"
NAN = "the model computes NaN, and its texts are arbitrary: try `dtype=torch.float32`"
# inputs that only steps need
_OF_CACHE = (CACHE, "use_cache", "cache_position")
# settings and outputs that only transformers' own search has
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
    """Forbids tokens of a row by the row's ids alone."""

    def __init__(self, rule: Rule):
        self.rule = rule

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        return self.forbid(input_ids, scores.clone())

    def forbid(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Write -inf into the scores (R, V), and return them."""
        rows, tokens = (torch.tensor(indices, device=scores.device) for indices in self.rule.pairs(input_ids.tolist()))
        if self.rule.ends:
            scores[rows] = -torch.inf
        elif len(rows):
            before = scores[rows, tokens]
            scores[rows, tokens] = -torch.inf
            if self.rule.yields:
                nothing_else = scores.amax(-1).isneginf()[rows]
                scores[rows, tokens] = before.where(nothing_else, -torch.inf)
        return scores


# transformers' processors that only forbid or force tokens -> their rules
_RULES: dict[type, Callable[[Any], Rule]] = {
    logits_process.MinLengthLogitsProcessor: lambda own: MinLength(own.min_length, own.eos_token_id.tolist()),
    logits_process.MinNewTokensLengthLogitsProcessor: lambda own: MinLength(
        own.prompt_length_to_skip + own.min_new_tokens, own.eos_token_id.tolist()
    ),
    logits_process.NoRepeatNGramLogitsProcessor: lambda own: NoRepeatNGram(own.ngram_size),
    logits_process.NoBadWordsLogitsProcessor: lambda own: BadWords([*own.sequence_bias]),
    logits_process.ForcedBOSTokenLogitsProcessor: lambda own: Force([own.bos_token_id], 1),
    logits_process.ForcedEOSTokenLogitsProcessor: lambda own: Force(own.eos_token_id.tolist(), own.max_length - 1),
}


def rule_of(processor: LogitsProcessor) -> Rule | None:
    """The rule by which one of our processors or of transformers' forbids or forces tokens; None if it does more."""
    if isinstance(processor, ForbiddingLogitsProcessor):
        return processor.rule
    return _RULES.get(type(processor), lambda own: None)(processor)


def unsupported_setting(config, stopping_criteria, model_kwargs, synced_gpus: bool) -> str | None:
    """The first setting of a running `generate()` that `search` does not support, or None.

    `config` is the generation config of the search; the others are arguments of `GenerationMixin._beam_search`.
    """

    def is_of_config(criterion) -> bool:
        if type(criterion) is MaxLengthCriteria:
            return criterion.max_length == config.max_length
        return type(criterion) is EosTokenCriteria and criterion.eos_token_id is config._eos_token_tensor

    settings = {
        **{name: getattr(config, name) for name in _OMITTED},
        **{name: model_kwargs.get(name) is not None for name in ("decoder_attention_mask", CACHE)},
        "use_cache": not model_kwargs["use_cache"],
        "synced_gpus": synced_gpus,
        "stopping_criteria": not all(map(is_of_config, stopping_criteria)),
    }
    return next((name for name, is_set in settings.items() if is_set), None)


def search(
    model, input_ids: torch.Tensor, processors: list[LogitsProcessor], config, model_kwargs: dict[str, Any]
) -> GenerateBeamEncoderDecoderOutput | GenerateEncoderDecoderOutput:
    """Search the best summaries as `GenerationMixin._beam_search`, or by `beam_stopping` and `ngram_blocking`.

    With one beam the search is greedy, as `GenerationMixin._sample` without sampling. If a processor may depend on a
    row's position in the batch, rows of finished documents stay. The returned cache has the rows of the documents that
    finished last.

    Args:
        model: one of ours, which stores each document's source once.
        input_ids: (R, T), R = B · beams, the prompts.
        model_kwargs: the model's inputs, without a cache.
    """
    beams, device = start_of(input_ids, config), input_ids.device
    processes = [process for process in map(_by_row, processors) if process is not None]
    rows_may_leave = len(processes) == len(processors) and not hooked_arguments(model)
    outputs = model._prefill(input_ids, config, model_kwargs)
    inputs: dict[str, Any] = {}
    ids = input_ids
    while True:
        model_kwargs = model._update_model_kwargs_for_generation(outputs, model_kwargs, is_encoder_decoder=True)
        scores = outputs.logits[:, -1].float()
        if config.num_beams > 1:
            # on a CPU in place of the logits, as new memory takes time there
            scores = torch.log_softmax(scores, -1, out=scores if device.type == "cpu" else None)
        # a foreign processor may keep its inputs, which must not be overwritten
        for process in processes if rows_may_leave else processors:
            scores = process(ids, scores)
        rows = beams.advance(*_candidates(scores if rows_may_leave else scores.clone(), beams))
        cache = model_kwargs[CACHE]
        if beams.is_over:
            return output_of(beams.output(), config, cache, device)
        unfinished = np.flatnonzero(~beams.is_done)
        ids = torch.tensor(beams.ids, device=device)
        if not inputs:
            inputs = model.prepare_inputs_for_generation(ids, next_sequence_length=1, **model_kwargs)
        # removing rows would recompile a compiled step
        if len(unfinished) < len(beams.is_done) and rows_may_leave and not inputs.get("compile_step"):
            rows = beams.select(unfinished, rows)
            ids, documents = (torch.tensor(array, device=device) for array in (beams.ids, unfinished))
            cache.select_documents(documents)
            inputs = {name: value if value is cache else rows_of(value, documents) for name, value in inputs.items()}
        if not np.array_equal(rows, np.arange(len(scores))):
            cache.reorder_cache(torch.tensor(rows, device=device))
        inputs["decoder_input_ids"] = ids[:, -1:]
        outputs = model(**inputs, return_dict=True)


def hooked_arguments(model: torch.nn.Module) -> set[str]:
    """The arguments that hooks add to calls of a model's modules, as PEFT's adapters of each row."""
    hooks = (hook for module in model.modules() for hook in module._forward_pre_hooks.values())
    return {name for hook in hooks for name in getattr(hook, "keywords", ())}


def start_of(input_ids: torch.Tensor, config) -> Beams | Texts:
    """The texts of a search that has written nothing after these prompts (R, T)."""
    ends, padding = (
        None if ids is None else ids.tolist() for ids in (config._eos_token_tensor, config._pad_token_tensor)
    )
    return (Beams if config.num_beams > 1 else Texts)(input_ids.numpy(force=True), config, ends or [], padding)


def _candidates(scores: torch.Tensor, beams: Beams | Texts) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The totals, beams and tokens of the best continuations, each (B, candidates).

    Args:
        scores: (R, V), which become totals.
    """
    vocab_size = scores.shape[1]
    if beams.totals is None:
        totals, indices = scores.max(-1, keepdim=True)
    else:
        scores += torch.tensor(beams.totals, device=scores.device).view(-1, 1)
        totals, indices = top_scores(scores.reshape(len(beams.totals), -1), beams.candidates)
    totals, indices = totals.numpy(force=True), indices.numpy(force=True)
    return totals, *np.divmod(indices, vocab_size)


def output_of(
    best: Sequences, config, cache, device
) -> GenerateBeamEncoderDecoderOutput | GenerateEncoderDecoderOutput:
    """What `generate()` returns of the texts of a search."""
    sequences = torch.tensor(best.sequences, device=device)
    if best.beams is None:
        return GenerateEncoderDecoderOutput(sequences=sequences, **cache_argument(cache))
    return GenerateBeamEncoderDecoderOutput(
        sequences=sequences,
        sequences_scores=torch.tensor(best.scores, device=device) if config.output_scores else None,
        beam_indices=torch.tensor(best.beams, device=device, dtype=torch.int32),
        **cache_argument(cache),
    )


def _by_row(processor: LogitsProcessor) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None:
    """A function that applies a processor, in place if possible; None if a row's position in the batch may matter."""
    if type(processor) in _BY_ROW or getattr(processor, "is_by_row", False):
        return processor
    rule = rule_of(processor)
    return None if rule is None else ForbiddingLogitsProcessor(rule).forbid


@dataclass
class RunningGeneration:
    """State of a running `generate()` that transformers does not pass on.

    Attributes:
        tokenizer: for the methods that create the processors.
        source_ids: the ids of the documents.
        candidates: of `whole_sentences`, for each document.
        step_inputs: further inputs of each step.
        coverage_penalty: the processor that reads each step's coverage.
        unknown_id, source: the id of unknown words to replace, and the model's inputs that locate them.
    """

    tokenizer: Any
    source_ids: torch.Tensor | None = None
    candidates: list | None = None
    step_inputs: dict[str, Any] = field(default_factory=dict)
    coverage_penalty: CoveragePenaltyLogitsProcessor | None = None
    unknown_id: int | None = None
    source: dict[str, Any] = field(default_factory=dict)


_running: ContextVar[RunningGeneration | None] = ContextVar("running_generation", default=None)


def running_generation() -> RunningGeneration | None:
    """The state of the running `generate()`; None in a caller's own decoding loop."""
    return _running.get()


class SummarizationGenerationMixin(GenerationMixin):
    """transformers' `generate()` with the further settings of `own_settings`, whose help is in `ADDED_SETTINGS`.

    Each document's source is stored once.
    """

    # whether the model's outputs include the coverage of the source
    has_coverage = True
    # whether the decoder accepts `compile_step`: its steps share one graph at any length
    compiles_steps = False
    # loaded when words are first counted without a `tokenizer`
    _own_tokenizer = None
    generation_keys = own_settings("all")

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        # the decoder creates its own cache at the first step, as its state is not keys and values
        return False

    def generate(self, *args, tokenizer=None, candidates=None, **kwargs):
        """transformers' `generate`.

        `compile_config` compiles the decoding steps on a CPU, for models that support it (`compiles_steps`). All
        layers of a step become one graph, which later steps and calls reuse with any number and length of documents;
        only one document, greedy search and padding have graphs of their own. Without an `attention_mask`, padding is
        recognized by its id.

        Args:
            tokenizer: a tokenizer or processor, for the keys that count or replace words; by default the one in the
                model's checkpoint.
            candidates: each document's `generation_sentences.Candidate`s, for `whole_sentences`; by default those of
                the decoded document.
        """
        tokenizer = getattr(tokenizer, "tokenizer", tokenizer)
        if tokenizer is not None:
            kwargs["tokenizer"] = tokenizer
        source_ids = args[0] if args else kwargs.get("inputs", kwargs.get("input_ids"))
        running = RunningGeneration(tokenizer, source_ids, candidates)
        check_source_ids(running.source_ids)
        if kwargs.get("encoder_outputs") is not None:
            # transformers leaves `input_ids` out then
            encoded = self.model.read_encoder_outputs(kwargs["encoder_outputs"], running.source_ids)
            kwargs["encoder_outputs"], running.source_ids = encoded, encoded.source_ids
        pad, is_masked = self.config.pad_token_id, kwargs.get("attention_mask") is not None
        if running.source_ids is not None and not is_masked and pad not in (None, self.config.eos_token_id):
            # transformers infers it only for models without an encoder
            kwargs["attention_mask"] = (running.source_ids != pad).long()
        outer = _running.set(running)
        try:
            output = super().generate(*args, **kwargs)
            finished = self._finished(getattr(output, "sequences", output), running)
            if isinstance(output, torch.Tensor):
                return finished
            output.sequences = finished
            return output
        finally:
            _running.reset(outer)

    def _finished(self, sequences: torch.Tensor, running: RunningGeneration) -> torch.Tensor:
        """Postprocess the sequences of generate()'s output."""
        return sequences

    def _beam_search(self, *args, **kwargs):
        return self._search(super()._beam_search, *args, **kwargs)

    def _sample(self, *args, **kwargs):
        return self._search(super()._sample, *args, **kwargs)

    def _search(
        self,
        search_of_transformers,
        input_ids,
        logits_processor,
        stopping_criteria,
        generation_config,
        synced_gpus=False,
        streamer=None,
        **model_kwargs,
    ):
        if len(input_ids) > len(model_kwargs["encoder_outputs"][0]) and "adapter_names" in hooked_arguments(self):
            raise ValueError(
                "`adapter_names` needs one text a document: set `num_beams` and `num_return_sequences` to 1"
            )
        setting = unsupported_setting(generation_config, stopping_criteria, model_kwargs, synced_gpus)
        if streamer is not None:
            setting, model_kwargs["streamer"] = "streamer", streamer
        if setting is not None:
            for name in ("beam_stopping", "ngram_blocking", "whole_sentences"):
                if (value := getattr(generation_config, name)) not in (None, False, "token"):
                    raise ValueError(
                        f"`{name}` is {value!r}, which the beam search of transformers lacks, but `{setting}` needs "
                        "that search: omit one of them"
                    )
            logger.debug(f"transformers' own search is used because of `{setting}`")
            return search_of_transformers(
                input_ids, logits_processor, stopping_criteria, generation_config, synced_gpus, **model_kwargs
            )
        states = getattr(model_kwargs.get("encoder_outputs"), "last_hidden_state", None)
        if generation_config.whole_sentences:
            output = self._choose_sentences(generation_config, model_kwargs)
        else:
            output = self._search_by_rules(input_ids, logits_processor, generation_config, model_kwargs)
        for values in (states, getattr(output, "sequences_scores", None)):
            if values is not None and values.isnan().any():
                # as of weights whose products exceed float16
                logger.warning_once(NAN)
        return output if generation_config.return_dict_in_generate else output.sequences

    def _choose_sentences(self, config, model_kwargs) -> GenerateEncoderDecoderOutput:
        """The likeliest sentence of each document."""
        running, module = _running.get(), import_module(SENTENCES_MODULE, __package__)
        end, most = int(config._eos_token_tensor[0]), config.max_length - 1
        candidates = running.candidates
        if candidates is None:
            tokenizer = self._word_tokenizer()
            texts = tokenizer.batch_decode(running.source_ids, skip_special_tokens=True)
            candidates = [module.candidates_of(text, tokenizer, end, most, special_tokens=False) for text in texts]
        inputs = {name: value for name, value in model_kwargs.items() if name not in _OF_CACHE}
        return GenerateEncoderDecoderOutput(sequences=module.likeliest_sentences(self, candidates, config, inputs))

    def _search_by_rules(self, input_ids, logits_processor, generation_config, model_kwargs):
        return search(self, input_ids, logits_processor, generation_config, model_kwargs)

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
        # repeat only the decoder's rows: its layers infer the number of beams from the shapes
        if expand_size == 1:
            return input_ids, model_kwargs
        for name, value in model_kwargs.items():
            if name.startswith("decoder_") and isinstance(value, torch.Tensor):
                model_kwargs[name] = value.repeat_interleave(expand_size, dim=0)
        return input_ids.repeat_interleave(expand_size, dim=0), model_kwargs

    def _prepare_generation_config(self, generation_config, *args, **kwargs: Any):
        if (model_config := self.generation_config).decoder_start_token_id is None:
            # made afresh, it lacks the tokens: summaries would begin with another one than in training, and never end
            tokens = {name: getattr(self.config, name) for name in _TOKENS if getattr(model_config, name) is None}
            model_config.update(**tokens)
        check_own_settings(kwargs, self)
        own = {key: kwargs.pop(key) for key in self.generation_keys if key in kwargs}
        config, model_kwargs = super()._prepare_generation_config(generation_config, *args, **kwargs)
        for key in self.generation_keys:
            setattr(config, key, own.get(key, getattr(config, key, None)))
        self.check_generation_keys(config)
        if config.gnmt_length_penalty is not None:
            offset = 5.0 if config.gnmt_length_offset is None else config.gnmt_length_offset
            config.length_penalty = GnmtLengthPenalty(config.gnmt_length_penalty, offset)
        if config.num_beams == 1:
            config.beam_stopping = config.ngram_blocking = None
        if config.compile_config is not None and self.compiles_steps and self.device.type == "cpu":
            if any(getattr(settings, key, None) for settings in (config, self.config) for key in _CAPTURED):
                raise ValueError(f"`compile_config` and {' or '.join(_CAPTURED)} exclude each other: set only one")
            # the decoder compiles its own steps; transformers would warn that it does not compile beam search
            config.compile_config = None
            self._add_step_input("compile_step", True)
        return config, model_kwargs

    @staticmethod
    def _add_step_input(name: str, value: Any) -> None:
        """Pass a further input to each step of the running `generate()`."""
        if (running := _running.get()) is not None:
            running.step_inputs[name] = value

    def prepare_inputs_for_generation(self, *args, **kwargs):
        """transformers' inputs of a step, and those of `_add_step_input`."""
        inputs = super().prepare_inputs_for_generation(*args, **kwargs)
        running = _running.get()
        return inputs if running is None else {**inputs, **running.step_inputs}

    def _get_logits_processor(
        self, generation_config, input_ids_seq_length=None, *args, logits_processor=None, device=None, **kwargs
    ):
        # passed with the caller's, ours precede the warpers of sampling: forbidding a token after top-p could leave
        # nothing to sample from
        processors = LogitsProcessorList(logits_processor or [])
        processors += self._own_processors(generation_config, input_ids_seq_length, device)
        # the search's rules replace these settings
        generation_config = copy.copy(generation_config)
        if generation_config.beam_stopping == "drgd" and generation_config.min_new_tokens:
            generation_config.min_new_tokens = generation_config.min_length = None
        if generation_config.ngram_blocking == "beam":
            generation_config.no_repeat_ngram_size = None
        return super()._get_logits_processor(
            generation_config, input_ids_seq_length, *args, logits_processor=processors, device=device, **kwargs
        )

    def _own_processors(self, generation_config, prompt_length, device) -> list:
        """The processors for settings that transformers lacks."""
        ends = generation_config._eos_token_tensor
        rules = word_rules(generation_config, self._word_table, prompt_length, [] if ends is None else ends.tolist())
        processors: list = list(map(ForbiddingLogitsProcessor, rules))
        if generation_config.coverage_penalty:
            processors.append(CoveragePenaltyLogitsProcessor(generation_config.coverage_penalty))
            if (running := _running.get()) is not None:
                running.coverage_penalty = processors[-1]
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

    def _word_tokenizer(self):
        """The caller's tokenizer, or the model's own."""
        running = _running.get()
        if running is not None and running.tokenizer is not None:
            return running.tokenizer
        if self._own_tokenizer is None:
            try:
                self._own_tokenizer = PreTrainedTokenizerFast.from_pretrained(self.name_or_path, **self.hub_settings)
            except (OSError, ValueError) as error:
                raise ValueError(
                    "`no_repeat_word_ngram_size`, `min_new_words` and `replace_unk` need the tokenizer: give it as "
                    "`model.generate(..., tokenizer=processor)`, or set them to 0"
                ) from error
        return self._own_tokenizer
