"""Beam and greedy search with transformers' results in less time, or with the rules of published programs.

A step copies nothing that does not change. Processors write into the scores, and the cache is reordered only if the
beams are. Only the best continuations leave the device, and rows of finished documents leave the batch. Scores equal
those of transformers to the last digit; the order of candidates with equal scores is arbitrary in both.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import LogitsProcessor
from transformers.generation import (
    EosTokenCriteria,
    GenerateBeamEncoderDecoderOutput,
    GenerateEncoderDecoderOutput,
    MaxLengthCriteria,
    logits_process,
)

from .generation_rules import BadWords, Beams, Force, MinLength, NoRepeatNGram, Rule, Sequences, Texts
from .layers_transformer import CACHE, cache_argument

# block size of `_top`, which compares block maxima first
_BLOCK = 128
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

_Process = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


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
            inputs = {name: value if value is cache else _rows_of(value, documents) for name, value in inputs.items()}
        if not np.array_equal(rows, np.arange(len(scores))):
            cache.reorder_cache(torch.tensor(rows, device=device))
        inputs["decoder_input_ids"] = ids[:, -1:]
        outputs = model(**inputs, return_dict=True)


def hooked_arguments(model: nn.Module) -> set[str]:
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
        totals, indices = _top(scores.reshape(len(beams.totals), -1), beams.candidates)
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


def _by_row(processor: LogitsProcessor) -> _Process | None:
    """A function that applies a processor, in place if possible; None if a row's position in the batch may matter."""
    if type(processor) in _BY_ROW or getattr(processor, "is_by_row", False):
        return processor
    rule = rule_of(processor)
    return None if rule is None else ForbiddingLogitsProcessor(rule).forbid


def _top(scores: torch.Tensor, number: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The highest of scores (B, M), in descending order, and their indices, both (B, number)."""
    blocked = scores.shape[1] - scores.shape[1] % _BLOCK
    if blocked <= number * _BLOCK:
        return scores.topk(number)
    # they are in the blocks with the highest maxima, which takes a fraction of the time to find
    blocks = scores[:, :blocked].view(len(scores), -1, _BLOCK).amax(-1).topk(number, sorted=False).indices
    within = (blocks[..., None] * _BLOCK + torch.arange(_BLOCK, device=scores.device)).flatten(1)
    behind = torch.arange(blocked, scores.shape[1], device=scores.device).expand(len(scores), -1)
    indices = torch.cat((within, behind), dim=1)
    best, order = scores.gather(1, indices).topk(number)
    return best, indices.gather(1, order)


def _rows_of(value: Any, documents: torch.Tensor) -> Any:
    """Select the rows of some documents from a model input, or from several."""
    if isinstance(value, torch.Tensor):
        return value[documents]
    if isinstance(value, Mapping):
        return type(value)(**{name: _rows_of(item, documents) for name, item in value.items()})
    if isinstance(value, tuple | list):
        return type(value)(_rows_of(item, documents) for item in value)
    return value
