"""Greedy and beam search around ONNX graphs that return the best continuations; without PyTorch.

Settings of `generate()` that change scores are functions of texts (R, T) and scores (R, V) here, which return scores.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from hf_summ.models.generation_rules import Beams, Rule, Sequences, Texts, coverage_growth
from hf_summ.models.generation_sentences import Candidate, likeliest, padded

# the files of a folder's graphs
READ, WRITE = "read.onnx", "write.onnx"
# name prefixes of tensors that all steps read, of a step's input states, and of its output states
SOURCE, STATE, NEXT = "source.", "state.", "next."
# the encoder's output
LAST = f"{SOURCE}last"
LOGITS = "logits"
# a step's copy distributions, or the attention of a model that does not copy
COPIED = "copy_attentions"
# inputs and outputs of `onnx_graphs`
FORBIDDEN, TOTALS, NUMBER = "forbidden", "totals", "number"
BEST_TOTALS, BEST_TOKENS = "best.totals", "best.tokens"
# architectures whose steps multiply all weights of a recurrent layer
RECURRENT = ("drgd", "pointer_generator")
# positions, over all documents, that are encoded at once: their activations fit in a processor's cache
POSITIONS = 512

# a graph y = MatMulInteger(a, b), of uint8 and int8
_PRODUCT = (
    b'\x08\n:>\n\x18\n\x01a\n\x01b\x12\x01y"\rMatMulInteger\x12\x01g'
    b"Z\t\n\x01a\x12\x04\n\x02\x08\x02Z\t\n\x01b\x12\x04\n\x02\x08\x03b\t\n\x01y\x12\x04\n\x02\x08\x06B\x04\n\x00\x10\x14"
)
_NO_PAIRS = np.empty((0, 2), np.int64)
# inputs of a step whose candidates are not read
NO_CANDIDATES = {TOTALS: np.zeros((1, 1), np.float32), FORBIDDEN: _NO_PAIRS, NUMBER: np.array([1])}
Process = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Graph:
    """A graph, with the names of its inputs and outputs."""

    def __init__(self, file: Path, threads: int = 1):
        # from version 1.29, its import starts to send names of files, graphs and programs to its vendor
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
        from onnxruntime import InferenceSession, SessionOptions

        self._arguments = file, threads
        options = SessionOptions()
        options.intra_op_num_threads = threads
        if _saturates():
            # exact sums, in twice the time
            options.add_session_config_entry("session.x64quantprecision", "1")
        # the fused sum and LayerNorm take several times the time of the two
        disabled = ["SkipLayerNormFusion"]
        self._session = InferenceSession(file, options, ["CPUExecutionProvider"], disabled_optimizers=disabled)
        self.inputs = [value.name for value in self._session.get_inputs()]
        self.outputs = [value.name for value in self._session.get_outputs()]

    def __reduce__(self):
        # sessions cannot be copied: the copy reads the graph again
        return Graph, self._arguments

    def __call__(self, tensors: Mapping[str, Any], outputs: Sequence[str] | None = None) -> dict[str, Any]:
        """Name -> output; by default all outputs."""
        outputs = self.outputs if outputs is None else outputs
        arrays = {name: np.asarray(tensors[name]) for name in self.inputs}
        return dict(zip(outputs, self._session.run(outputs, arrays), strict=True))


@cache
def _saturates() -> bool:
    """Whether ONNX Runtime's sums of 8-bit products saturate, as on x86 processors without VNNI instructions."""
    from onnxruntime import InferenceSession, SessionOptions

    options = SessionOptions()
    options.intra_op_num_threads = 1
    factors = {"a": np.full((4, 64), 255, np.uint8), "b": np.full((64, 64), 127, np.int8)}
    (sums,) = InferenceSession(_PRODUCT, options, ["CPUExecutionProvider"]).run(None, factors)
    return bool(np.any(sums != 64 * 255 * 127))


def encode(read: Graph, inputs: Mapping[str, Any], positions: int = POSITIONS) -> dict[str, np.ndarray]:
    """Encode documents, few at once -> the source's tensors and the initial states, a row for each document."""
    size = max(1, positions // inputs["input_ids"].shape[1])
    starts = range(0, len(inputs["input_ids"]), size)
    groups = [read({name: inputs[name][start : start + size] for name in read.inputs}) for start in starts]
    return {name: joined([group[name] for group in groups]) for name in read.outputs}


def joined(arrays: list[np.ndarray], axis: int = 0) -> np.ndarray:
    """The arrays as one; a single one, as in decoding, is not copied."""
    return np.concatenate(arrays, axis) if len(arrays) > 1 else arrays[0]


def search(
    step: Graph,
    source: Mapping[str, np.ndarray],
    beams: Beams | Texts,
    rules: Sequence[Rule],
    coverage_penalty: float = 0.0,
    processors: Sequence[Process] = (),
    noise: "np.random.Generator | None" = None,
    proceed: Callable[[], object] = lambda: None,
) -> Sequences:
    """Search the best summaries by the rules of `generate()`.

    Args:
        step: the graph of a step.
        source: the documents' ids and mask, and what `encode` returns.
        beams: the texts, each with one token.
        rules: the rules that forbid tokens; `Rule.yields` has no effect, as these rules leave other tokens.
        coverage_penalty: factor of the penalty for repeated copying; see `generation_rules.coverage_growth`.
        processors: change the scores, which the graph's candidates do not allow.
        noise: for sampling instead of searching.
        proceed: called before each step; what it raises ends the search.
    """
    tensors = {name: value for name, value in source.items() if name in step.inputs}
    changes_scores = bool(processors) or noise is not None
    # initially all beams of a document are equal, and the best continuations of one are those of all
    stride = 1 if changes_scores else beams.number
    rows = np.arange(len(beams.is_done)).repeat(beams.number // stride)
    outputs = [LOGITS] if changes_scores else [BEST_TOTALS, BEST_TOKENS]
    outputs += [name for name in step.outputs if name.startswith(NEXT)]
    coverage = next((name for name in outputs if ".coverage." in name), "") if coverage_penalty else ""
    outputs += [COPIED] if coverage else []
    tensors[NUMBER] = np.array([beams.candidates])
    while True:
        proceed()
        totals = np.zeros((len(rows), 1)) if beams.totals is None else beams.totals.reshape(-1, 1)[::stride]
        totals, ids = totals.astype(np.float32), beams.ids[::stride]
        tensors |= {"tokens": ids[:, -1], "rows": rows, "written": np.empty(beams.length - 1, np.float32)}
        pairs, ended = _forbidden(ids.tolist(), rules)
        totals[ended] = -np.inf
        results = step({**tensors, TOTALS: totals, FORBIDDEN: pairs}, outputs)
        if coverage:
            lost = coverage_penalty * coverage_growth(results[coverage], results[COPIED][:, 0])[:, None]
            totals -= lost
            if not changes_scores:
                results[BEST_TOTALS] -= lost
        if changes_scores:
            candidates = _chosen(results[LOGITS][:, -1], pairs, totals, beams, processors, noise)
        else:
            candidates = _merged(results[BEST_TOTALS], results[BEST_TOKENS], beams)
        for forced in filter(None, (rule.forced(beams.length) for rule in rules)):
            shape = len(rows), beams.candidates
            best = np.full(shape, -np.inf, np.float32), np.zeros(shape, np.int64)
            best[0][:, : len(forced)], best[1][:, : len(forced)] = totals, forced
            candidates = _merged(*best, beams)
        rows, stride = beams.advance(*candidates) // stride, 1
        if beams.is_over:
            return beams.output()
        tensors |= {name.removeprefix(NEXT): value for name, value in results.items() if name.startswith(NEXT)}
        if beams.is_done.any():
            # the last documents take the places of finished ones, so that few are copied
            unfinished = np.flatnonzero(~beams.is_done)
            places = np.flatnonzero(beams.is_done[: len(unfinished)])
            moved = unfinished[len(unfinished) - len(places) :]
            documents = np.arange(len(unfinished))
            documents[places] = moved
            rows = beams.select(documents, rows)
            for name in source:
                # the states have a row for each beam
                if name in tensors and not name.startswith(STATE):
                    values = source[name].copy() if tensors[name] is source[name] else tensors[name]
                    values[places] = values[moved]
                    tensors[name] = values[: len(unfinished)]


def choose_sentences(
    step: Graph,
    source: Mapping[str, np.ndarray],
    candidates: Sequence[Sequence[Candidate]],
    first: int,
    length_penalty: float,
) -> list[list[int]]:
    """The tokens of each document's likeliest candidate, after the first token.

    Args:
        source: as for `search`.
        candidates: of each document.
        first: the token with which summaries begin.
    """
    chosen = []
    for document, sentences in enumerate(candidates):
        row = {name: value[document : document + 1] for name, value in source.items()}
        ids = padded([sentence.ids for sentence in sentences], 0)
        sequences = np.concatenate((np.full((len(ids), 1), first), ids), axis=1)
        log_probs = log_softmax(_outputs(step, row, sequences, LOGITS))
        log_probs = np.take_along_axis(log_probs, ids[..., None], 2)[..., 0]
        chosen.append([first, *likeliest(sentences, log_probs, length_penalty).ids])
    return chosen


def attentions(step: Graph, source: Mapping[str, np.ndarray], sequences: np.ndarray) -> np.ndarray:
    """The attention to the source, (R, L - 1, S), when each token after the first of sequences (R, L) was decoded."""
    return _outputs(step, source, sequences, COPIED)


def _outputs(step: Graph, source: Mapping[str, np.ndarray], sequences: np.ndarray, name: str) -> np.ndarray:
    """An output of the step, (R, L - 1, ...), before each token after the first of sequences (R, L)."""
    rows = np.arange(len(source["input_ids"])).repeat(len(sequences) // len(source["input_ids"]))
    tensors = {name: value for name, value in source.items() if name in step.inputs}
    outputs, steps = [name, *(output for output in step.outputs if output.startswith(NEXT))], []
    for length, tokens in enumerate(sequences[:, :-1].T):
        inputs = {**tensors, **NO_CANDIDATES, "tokens": tokens, "rows": rows, "written": np.empty(length, np.float32)}
        results = step(inputs, outputs)
        steps.append(results.pop(name))
        tensors |= {output.removeprefix(NEXT): value for output, value in results.items()}
        rows = np.arange(len(sequences))
    return joined(steps, 1)


def _chosen(
    logits: np.ndarray,
    pairs: np.ndarray,
    totals: np.ndarray,
    beams: Beams | Texts,
    processors: Sequence[Process],
    noise: "np.random.Generator | None",
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The best or sampled continuations of each document: totals, beams and tokens."""
    scores = logits if beams.totals is None else log_softmax(logits)
    scores[pairs[:, 0], pairs[:, 1]] = -np.inf
    for process in processors:
        scores = process(beams.ids, scores)
    found, indices = highest((scores + totals).reshape(len(beams.is_done), -1), beams.candidates, noise)
    return found, *np.divmod(indices, logits.shape[1])


def _forbidden(texts: list[list[int]], rules: Sequence[Rule]) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (P, 2) of a row and a token that it must not continue with, and the rows that end."""
    ended = [rule.pairs(texts)[0] for rule in rules if rule.ends]
    pairs = [np.stack(rule.pairs(texts), axis=1) for rule in rules if not rule.ends]
    return np.concatenate([_NO_PAIRS, *pairs]), np.concatenate([_NO_PAIRS[:, 0], *ended])


def _merged(totals: np.ndarray, tokens: np.ndarray, beams: Beams | Texts) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The best continuations of each document, from those of its rows: totals, beams and tokens."""
    documents, width = len(beams.is_done), totals.shape[1]
    totals, tokens = totals.reshape(documents, -1), tokens.reshape(documents, -1)
    order = (-totals).argsort(axis=1, kind="stable")[:, : beams.candidates]
    rows = np.arange(documents)[:, None]
    return totals[rows, order], order // width, tokens[rows, order]


def processors(config: Any, ends: Sequence[int]) -> Iterator[Process]:
    """The processors of a config, in the order of transformers'."""
    if config.repetition_penalty not in (None, 1.0):
        yield lambda ids, scores: _penalized(ids, scores, config.repetition_penalty)
    if config.do_sample:
        if config.temperature not in (None, 1.0):
            yield lambda ids, scores: scores / np.float32(config.temperature)
        # beams need continuations that do not end them
        least = 1 + len(ends) if config.num_beams > 1 else 1
        # transformers' default
        if top_k := 50 if config.top_k is None else config.top_k:
            yield lambda ids, scores: _likeliest(scores, max(top_k, least))
        if config.top_p not in (None, 1.0):
            yield lambda ids, scores: _nucleus(scores, config.top_p, least)


def log_softmax(scores: np.ndarray) -> np.ndarray:
    """Scores (R, V) less the logarithm of the sum of their exponentials."""
    scores = scores - scores.max(-1, keepdims=True)
    return scores - np.log(np.exp(scores).sum(-1, keepdims=True))


def highest(scores: np.ndarray, number: int, noise: "np.random.Generator | None") -> tuple[np.ndarray, np.ndarray]:
    """The highest of scores (B, M) and their indices, (B, number), in descending order.

    Args:
        noise: draws them instead, without replacement and with the probabilities of a softmax.
    """
    # Gumbel noise: the highest sums are such a sample (Kool et al. 2019)
    keys = scores if noise is None else scores + noise.gumbel(size=scores.shape).astype(scores.dtype)
    indices = np.argpartition(-keys, number - 1, axis=1)[:, :number]
    found = np.take_along_axis(scores, indices, 1)
    order = np.argsort(-found, axis=1, kind="stable")
    return np.take_along_axis(found, order, 1), np.take_along_axis(indices, order, 1)


def _penalized(ids: np.ndarray, scores: np.ndarray, penalty: float) -> np.ndarray:
    """Scores with a penalty on the tokens of each text (Keskar et al. 2019)."""
    scores, own = scores.copy(), np.take_along_axis(scores, ids, 1)
    np.put_along_axis(scores, ids, np.where(own < 0, own * np.float32(penalty), own / np.float32(penalty)), 1)
    return scores


def _likeliest(scores: np.ndarray, number: int) -> np.ndarray:
    """Only the highest scores of each row, and those equal to the last of them."""
    number = min(number, scores.shape[1])
    last = np.partition(scores, -number, axis=1)[:, -number, None]
    return np.where(scores < last, -np.inf, scores)


def _nucleus(scores: np.ndarray, share: float, least: int) -> np.ndarray:
    """Only the fewest tokens with this share of the probability, and at least `least` (Holtzman et al. 2020)."""
    order = np.argsort(scores, axis=1, kind="stable")
    lower = np.cumsum(np.exp(log_softmax(np.take_along_axis(scores, order, 1))), axis=1) <= 1 - share
    lower[:, -least:] = False
    is_dropped = np.empty_like(lower)
    np.put_along_axis(is_dropped, order, lower, 1)
    return np.where(is_dropped, -np.inf, scores)
