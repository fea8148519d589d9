"""Beam and greedy search with transformers' results in less time, or with the rules of published programs.

A step copies nothing that does not change. Processors write into the scores, and the cache is reordered only if the
beams are. Sequences are gathered when a beam ends, and rows of finished documents leave the batch. Scores equal those
of transformers to the last digit; the order of candidates with equal scores is arbitrary in both.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from transformers import LogitsProcessor
from transformers.generation import (
    EosTokenCriteria,
    GenerateBeamEncoderDecoderOutput,
    GenerateEncoderDecoderOutput,
    MaxLengthCriteria,
    logits_process,
)

from .generation_words import ForbiddingLogitsProcessor
from .layers_transformer import CACHE, cache_argument

# the score of a missing beam
_ABSENT = -1e9
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


def unsupported_setting(config, caller_config, stopping_criteria, model_kwargs, synced_gpus: bool) -> str | None:
    """The first setting of a running `generate()` that `search` does not support, or None.

    `config` is the generation config of the search, and `caller_config` the caller's; the others are arguments of
    `GenerationMixin._beam_search`.
    """

    def is_of_config(criterion) -> bool:
        if type(criterion) is MaxLengthCriteria:
            return criterion.max_length == config.max_length
        return type(criterion) is EosTokenCriteria and criterion.eos_token_id is config._eos_token_tensor

    settings = {
        **{name: getattr(caller_config, name) for name in _OMITTED},
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
    beams = _Beams(input_ids, config) if config.num_beams > 1 else _Texts(input_ids, config)
    processes = [process for process in map(_by_row, processors) if process is not None]
    rows_may_leave = len(processes) == len(processors)
    outputs = model._prefill(input_ids, config, model_kwargs)
    inputs: dict[str, Any] = {}
    ids = beams.ids
    while True:
        model_kwargs = model._update_model_kwargs_for_generation(outputs, model_kwargs, is_encoder_decoder=True)
        scores = beams.scores_of(outputs.logits[:, -1].float())
        # a foreign processor may keep its inputs, which must not be overwritten
        for process in processes if rows_may_leave else processors:
            scores = process(ids, scores)
        rows = beams.advance(scores if rows_may_leave else scores.clone())
        ids = beams.ids
        unfinished = (~beams.is_done).nonzero()[:, 0]
        cache = model_kwargs[CACHE]
        if not len(unfinished) or beams.length == config.max_length:
            return beams.output(cache)
        if not inputs:
            inputs = model.prepare_inputs_for_generation(ids, next_sequence_length=1, **model_kwargs)
        # removing rows would recompile a compiled step
        if len(unfinished) < len(beams.is_done) and rows_may_leave and not inputs.get("compile_step"):
            rows, ids = beams.select(unfinished, rows), beams.ids
            cache.select_documents(unfinished)
            inputs = {name: value if value is cache else _rows_of(value, unfinished) for name, value in inputs.items()}
        if not torch.equal(rows, torch.arange(len(scores), device=rows.device)):
            cache.reorder_cache(rows)
        inputs["decoder_input_ids"] = ids[:, -1:]
        outputs = model(**inputs, return_dict=True)


def _by_row(processor: LogitsProcessor) -> _Process | None:
    """A function that applies a processor, in place if possible; None if a row's position in the batch may matter."""
    if isinstance(processor, ForbiddingLogitsProcessor):
        return processor.forbid
    if type(processor) is logits_process.MinLengthLogitsProcessor:
        return partial(_forbid_ends, processor.min_length, processor.eos_token_id)
    if type(processor) is logits_process.MinNewTokensLengthLogitsProcessor:
        shortest = processor.prompt_length_to_skip + processor.min_new_tokens
        return partial(_forbid_ends, shortest, processor.eos_token_id)
    if type(processor) is logits_process.NoRepeatNGramLogitsProcessor:
        return partial(_forbid_ngrams, processor.ngram_size)
    return processor if type(processor) in _BY_ROW or getattr(processor, "is_by_row", False) else None


def _forbid_ends(shortest: int, ends: torch.Tensor, ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    return scores.index_fill_(1, ends, -torch.inf) if ids.shape[1] < shortest else scores


def _forbid_ngrams(size: int, ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    length = ids.shape[1]
    if length >= size:
        windows = ids.unfold(1, size, 1)
        matches = (windows[..., :-1] == ids[:, None, length + 1 - size :]).all(-1)
        scores.scatter_add_(1, windows[..., -1], scores.new_zeros(matches.shape).masked_fill_(matches, -torch.inf))
    return scores


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


class _Texts:
    """The texts of greedy search, with the interface of `_Beams`.

    Attributes:
        ids: (R, T), of the unfinished documents.
    """

    def __init__(self, input_ids: torch.Tensor, config):
        self.ids, self.length, self.ends = input_ids, input_ids.shape[1], config._eos_token_tensor
        self.padding = 0 if config._pad_token_tensor is None else config._pad_token_tensor
        self.written = input_ids.new_zeros(len(input_ids), config.max_length) + self.padding
        self.written[:, : self.length] = input_ids
        self.documents = torch.arange(len(input_ids), device=input_ids.device)
        self.is_done = torch.zeros_like(self.documents, dtype=torch.bool)

    @staticmethod
    def scores_of(logits: torch.Tensor) -> torch.Tensor:
        return logits

    def advance(self, scores: torch.Tensor) -> torch.Tensor:
        """Append the best tokens by scores (R, V) -> the rows (R,) to continue, in unchanged order."""
        tokens = scores.argmax(-1).where(~self.is_done, self.padding)
        self.ids = torch.cat((self.ids, tokens[:, None]), dim=1)
        self.written[self.documents, self.length] = tokens
        self.length += 1
        if self.ends is not None:
            self.is_done = self.is_done | torch.isin(tokens, self.ends)
        return torch.arange(len(tokens), device=tokens.device)

    def select(self, documents: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """Continue with some of the documents only -> their rows."""
        self.ids, self.documents = self.ids[documents], self.documents[documents]
        self.is_done = self.is_done[documents]
        return rows[documents]

    def output(self, cache) -> GenerateEncoderDecoderOutput:
        """The texts of all documents."""
        return GenerateEncoderDecoderOutput(sequences=self.written[:, : self.length], **cache_argument(cache))


class _Beams:
    """The running beams of the unfinished documents, and the finished beams of all.

    Attributes:
        length: number of ids of a running beam.
        is_done: (B), whether the finished beams of a document are final.
    """

    def __init__(self, input_ids: torch.Tensor, config):
        self.config, self.number, self.length = config, config.num_beams, input_ids.shape[1]
        self.prompt_length = self.length
        ends = config._eos_token_tensor
        self.ends = input_ids.new_empty(0) if ends is None else ends
        # enough candidates to replace all beams that end; the published programs do not replace them
        self.candidates = self.number if config.beam_stopping else self.number * max(2, 1 + len(self.ends))
        # (R, 2, L): ids, and the beam that each id continued; then -1
        self.written = input_ids.new_full((len(input_ids), 2, config.max_length), -1)
        self.written[:, 0, : self.length] = input_ids
        self.finished = self.written.unflatten(0, (-1, self.number)).clone()
        self.finished_scores = torch.full(self.finished.shape[:2], _ABSENT, device=input_ids.device)
        self.scores = self.finished_scores.clone()
        # initially all beams of a document are equal
        self.scores[:, 0] = 0.0
        self.documents = torch.arange(len(self.scores), device=input_ids.device)
        self.is_done = torch.zeros_like(self.documents, dtype=torch.bool)
        self.best_has_ended = self.is_done.clone()

    @property
    def ids(self) -> torch.Tensor:
        """(R, T)."""
        return self.written[:, 0, : self.length].contiguous()

    @staticmethod
    def scores_of(logits: torch.Tensor) -> torch.Tensor:
        """The scores (R, V) of the next tokens; on a CPU in place of the logits, as new memory takes time there."""
        return torch.log_softmax(logits, -1, out=logits if logits.device.type == "cpu" else None)

    def advance(self, scores: torch.Tensor) -> torch.Tensor:
        """Append the best tokens by scores (R, V), which become totals -> the rows (R,) that they continue."""
        vocab_size = scores.shape[1]
        totals, indices = _top(scores.add_(self.scores.reshape(-1, 1)).reshape(len(self.scores), -1), self.candidates)
        beams, tokens = indices // vocab_size, indices % vocab_size
        rows = beams + torch.arange(0, len(scores), self.number, device=scores.device)[:, None]
        if self.config.beam_stopping == "drgd":
            width = self.number - self._number_finished()
            totals = totals.masked_fill(torch.arange(self.number, device=width.device) >= width[:, None], -torch.inf)
        if self.config.ngram_blocking == "beam":
            self._finish_repetitions(totals)
        is_end = torch.isin(tokens, self.ends)
        if self.length + 1 == self.config.max_length:
            is_end = torch.ones_like(is_end)
        best = [values[:, : self.number] for values in (totals, rows, beams, tokens)]
        # further candidates only replace beams that end
        if is_end.any():
            self._finish(*best, is_end[:, : self.number] & ~self.is_done[:, None])
            self.best_has_ended |= is_end[:, 0]
            running = totals.masked_fill(is_end, -torch.inf) if self.config.beam_stopping else totals + _ABSENT * is_end
            totals, order = running.topk(self.number)
            best = [totals, *(values.gather(1, order) for values in (rows, beams, tokens))]
        self.scores = best[0]
        rows, beams, tokens = (values.flatten() for values in best[1:])
        self.written = self.written[rows]
        self.written[:, 0, self.length], self.written[:, 1, self.length] = tokens, beams
        self.length += 1
        self.is_done |= self._is_over()
        return rows

    def _finish(self, totals, rows, beams, tokens, is_finished) -> None:
        """Keep the best of the finished beams and of the candidates (B, N) that end at this step."""
        written = self.written[rows]
        written[:, :, 0, self.length], written[:, :, 1, self.length] = tokens, beams
        length, penalty = self.length + 1 - self.prompt_length, self.config.length_penalty
        scores = totals / length**penalty
        if self.config.beam_stopping == "drgd":
            # DRGD's program does not count the end token: beams that stop without it have one token more
            scores = scores.where(torch.isin(tokens, self.ends), totals / (length + 1) ** penalty)
        scores = scores.masked_fill(~is_finished, -torch.inf)
        scores, best = torch.cat((self.finished_scores[self.documents], scores), dim=1).topk(self.number)
        written = torch.cat((self.finished[self.documents], written), dim=1)
        self.finished_scores[self.documents] = scores
        self.finished[self.documents] = written.take_along_dim(best[..., None, None], dim=1)

    def _finish_repetitions(self, totals: torch.Tensor) -> None:
        """Finish a document's running beams if, by its totals (B, N), all of them end in a repetition."""
        is_stuck = totals[:, :1].isneginf() & ~self.is_done[:, None] & (self._number_finished() == 0)[:, None]
        if is_stuck.any():
            rows = torch.arange(self.scores.numel(), device=totals.device).view_as(self.scores)
            nothing = torch.full_like(rows, -1)
            self._finish(self.scores, rows, nothing, nothing, is_stuck.expand_as(rows))

    def _number_finished(self) -> torch.Tensor:
        """(B)."""
        return (self.finished[self.documents, :, 0, self.prompt_length] >= 0).sum(1)

    def _is_over(self) -> torch.Tensor:
        """Whether the search for each document (B,) ends."""
        if not self.config.beam_stopping:
            return self._cannot_improve()
        is_over = self.scores[:, 0].isneginf()
        if self.config.beam_stopping == "opennmt":
            is_over |= self.best_has_ended & (self._number_finished() >= self.config.num_return_sequences)
        return is_over

    def _cannot_improve(self) -> torch.Tensor:
        """Whether no running beam of a document (B,) is expected to surpass its worst finished one."""
        penalty, stops_early = self.config.length_penalty, self.config.early_stopping
        length = self.config.max_length if stops_early == "never" and penalty > 0 else self.length
        best = self.scores[:, 0] / (length - self.prompt_length) ** penalty
        is_worse = ~(best > self.finished_scores[self.documents, -1])
        if stops_early is True:
            is_worse |= self._number_finished() == self.number
        return is_worse

    def select(self, documents: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """Continue with some of the documents only -> theirs of the rows (R,)."""
        self.written = self.written.unflatten(0, (-1, self.number))[documents].flatten(0, 1)
        self.scores, self.documents = self.scores[documents], self.documents[documents]
        self.is_done, self.best_has_ended = self.is_done[documents], self.best_has_ended[documents]
        return rows.view(-1, self.number)[documents].view(-1)

    def output(self, cache) -> GenerateBeamEncoderDecoderOutput:
        """The best finished beams of all documents."""
        config = self.config
        if config.beam_stopping == "drgd":
            self._demote_short(config.min_new_tokens or 0)
        number = config.num_return_sequences
        first_rows = torch.arange(0, self.finished_scores.numel(), self.number, device=self.finished.device)
        sequences, beams = self.finished[:, :number].flatten(0, 1).unbind(1)
        rows = beams + first_rows.repeat_interleave(number)[:, None]
        rows = rows.masked_fill(beams < 0, -1)[:, self.prompt_length :].int()
        longest = int((rows >= 0).sum(-1).max())
        sequences = sequences[:, : self.prompt_length + longest]
        # as in transformers, where a padding token of 0 counts as none
        fill = config._pad_token_tensor or (self.ends[0] if len(self.ends) else -1)
        return GenerateBeamEncoderDecoderOutput(
            sequences=sequences.where(sequences >= 0, fill),
            sequences_scores=self.finished_scores[:, :number].flatten() if config.output_scores else None,
            beam_indices=rows[:, :longest],
            **cache_argument(cache),
        )

    def _demote_short(self, least: int) -> None:
        """Move finished beams with fewer tokens behind those with enough, if there are any."""
        tokens = self.finished[:, :, 0, self.prompt_length :]
        is_short = ((tokens >= 0) & ~torch.isin(tokens, self.ends)).sum(-1) < least
        scores = self.finished_scores.masked_fill(is_short & ~is_short.all(1, keepdim=True), _ABSENT)
        self.finished_scores, order = scores.sort(dim=1, descending=True, stable=True)
        self.finished = self.finished.take_along_dim(order[..., None, None], dim=1)
