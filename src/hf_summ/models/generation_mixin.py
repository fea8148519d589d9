"""The architectures' additions to transformers' `generate()`."""

import copy
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import LogitsProcessor, LogitsProcessorList, PreTrainedTokenizerFast
from transformers.generation import GenerationMixin
from transformers.utils import logging

from .checks import ADDED_SETTINGS, check_own_settings, check_settings, check_source_ids, own_settings
from .generation_beam_search import ForbiddingLogitsProcessor, hooked_arguments, search, unsupported_setting
from .generation_rules import GnmtLengthPenalty, coverage_growth, word_rules
from .text_documents import WordTable, word_table

logger = logging.get_logger(__name__)

# special tokens that a search needs
_TOKENS = ("decoder_start_token_id", "eos_token_id", "pad_token_id")
# outputs that transformers collects through hooks, which a compiled graph cannot contain
_CAPTURED = ("output_attentions", "output_hidden_states")
NAN = "the model computes NaN, and its texts are arbitrary: try `dtype=torch.float32`"


class CoveragePenaltyLogitsProcessor(LogitsProcessor):
    """Lowers a beam's score by β (Σ_i max(coverage_i, 1) - S) for repeated copying (Aksenov 2020, section 6.3).

    The coverage of a source position is the sum of the copy distributions so far. Each step subtracts the growth of the
    penalty, including the step's own copy distribution; the steps add up to the penalty of the whole text. All
    continuations of a beam lose the same amount: the penalty ranks beams, and has no effect on a single one.
    """

    # whether a row's scores depend on that row only
    is_by_row = True

    def __init__(self, penalty: float):
        self.penalty = penalty
        self._growth: torch.Tensor | None = None

    def observe(self, coverage: torch.Tensor, step: torch.Tensor) -> None:
        """Record the coverage (R, S) including the step to be scored, and that step's copy distribution (R, S)."""
        self._growth = coverage_growth(coverage, step)

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        return scores - self.penalty * self._growth[:, None].to(scores.device, scores.dtype)


@dataclass
class RunningGeneration:
    """State of a running `generate()` that transformers does not pass on.

    Attributes:
        tokenizer: for the methods that create the processors.
        source_ids: the ids of the documents.
        step_inputs: further inputs of each step.
        coverage_penalty: the processor that reads each step's coverage.
        unknown_id, source: the id of unknown words to replace, and the model's inputs that locate them.
    """

    tokenizer: Any
    source_ids: torch.Tensor | None = None
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

    def generate(self, *args, tokenizer=None, **kwargs):
        """transformers' `generate`.

        `compile_config` compiles the decoding steps on a CPU, for models that support it (`compiles_steps`). All
        layers of a step become one graph, which later steps and calls reuse with any number and length of documents;
        only one document, greedy search and padding have graphs of their own. Without an `attention_mask`, padding is
        recognized by its id.

        Args:
            tokenizer: a tokenizer or processor, for the keys that count or replace words; by default the one in the
                model's checkpoint.
        """
        tokenizer = getattr(tokenizer, "tokenizer", tokenizer)
        if tokenizer is not None:
            kwargs["tokenizer"] = tokenizer
        running = RunningGeneration(tokenizer, args[0] if args else kwargs.get("inputs", kwargs.get("input_ids")))
        check_source_ids(running.source_ids)
        if kwargs.get("encoder_outputs") is not None:
            # transformers leaves `input_ids` out then
            kwargs["encoder_outputs"] = self.model.read_encoder_outputs(kwargs["encoder_outputs"], running.source_ids)
        pad, is_masked = self.config.pad_token_id, kwargs.get("attention_mask") is not None
        if running.source_ids is not None and not is_masked and pad not in (None, self.config.eos_token_id):
            # transformers infers it only for models without an encoder
            kwargs["attention_mask"] = (running.source_ids != pad).long()
        outer = _running.set(running)
        try:
            output = super().generate(*args, **kwargs)
            sequences = getattr(output, "sequences", output)
            finished = self._finished(sequences, running)
            if sequences is output:
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
            for name in ("beam_stopping", "ngram_blocking"):
                if (value := getattr(generation_config, name)) not in (None, "token"):
                    raise ValueError(
                        f"`{name}` is '{value}', which the beam search of transformers lacks, but `{setting}` needs "
                        "that search: omit one of them"
                    )
            logger.debug(f"transformers' own search is used because of `{setting}`")
            return search_of_transformers(
                input_ids, logits_processor, stopping_criteria, generation_config, synced_gpus, **model_kwargs
            )
        states = getattr(model_kwargs.get("encoder_outputs"), "last_hidden_state", None)
        output = self._search_by_rules(input_ids, logits_processor, generation_config, model_kwargs)
        for values in (states, getattr(output, "sequences_scores", None)):
            if values is not None and values.isnan().any():
                # as of weights whose products exceed float16
                logger.warning_once(NAN)
        return output if generation_config.return_dict_in_generate else output.sequences

    def _search_by_rules(self, input_ids, logits_processor, generation_config, model_kwargs):
        return search(self, input_ids, logits_processor, generation_config, model_kwargs)

    def check_generation_keys(self, generation_config) -> None:
        """Raise a ValueError if one of our keys in `generation_config` is out of range or not supported."""
        settings = {key: getattr(generation_config, key, None) for key in self.generation_keys}
        check_settings(settings, ADDED_SETTINGS)
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
            self._own_tokenizer = _own_tokenizer(self)
        return self._own_tokenizer


def _own_tokenizer(model) -> PreTrainedTokenizerFast:
    """The tokenizer in the folder or Hub repository that the model was loaded from; without one, a ValueError."""
    problem = "this model was not loaded from a checkpoint"
    if model.name_or_path:
        try:
            return PreTrainedTokenizerFast.from_pretrained(model.name_or_path, **model.hub_settings)
        except (OSError, ValueError) as error:
            reason = str(error).strip().partition("\n")[0]
            problem = f"none can be read from {model.name_or_path} ({reason})"
    raise ValueError(
        f"`no_repeat_word_ngram_size`, `min_new_words` and `replace_unk` need the tokenizer, and {problem}: give it as "
        "`model.generate(..., tokenizer=processor)`, or set them to 0"
    )
