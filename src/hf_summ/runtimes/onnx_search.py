"""Greedy and beam search around ONNX graphs that return the best continuations; without PyTorch.

Settings of `generate()` that change scores are functions here, from ids (R, T) and scores (R, V) to new scores. In
shapes, B is the number of documents, and R the number of rows, which is B times the number of beams.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from hf_summ.models.generation_rules import Beams, Rule, Sequences, Texts, coverage_growth
from hf_summ.models.generation_sentences import Candidate, likeliest, pad_rows

# the files of a folder's graphs: of the encoder, and of a step of the decoder
READ, WRITE = "read.onnx", "write.onnx"
# prefixes of tensors' names: tensors that all steps read, the states that a step reads, and those that it returns
SOURCE, STATE, NEXT = "source.", "state.", "next."
# the encoder's output
LAST = f"{SOURCE}last"
LOGITS = "logits"
# a step's copy distributions, or the attention of a model that does not copy
COPIED = "copy_attentions"
# inputs of a step for its candidates, the best continuations of each row: pairs of a row and a forbidden token, the
# totals of the rows so far, and the number of candidates
FORBIDDEN, TOTALS, NUMBER = "forbidden", "totals", "number"
# the candidates' totals and tokens, outputs of shape (R, number)
BEST_TOTALS, BEST_TOKENS = "best.totals", "best.tokens"
# architectures whose steps multiply all weights of a recurrent layer
RECURRENT = ("drgd", "pointer_generator")
# the most tokens, with the padding, of documents that are encoded at once: their activations fit in a processor's cache
ENCODER_BATCH_TOKENS = 512

# a graph y = MatMulInteger(a, b), of uint8 and int8
_PRODUCT = (
    b'\x08\n:>\n\x18\n\x01a\n\x01b\x12\x01y"\rMatMulInteger\x12\x01g'
    b"Z\t\n\x01a\x12\x04\n\x02\x08\x02Z\t\n\x01b\x12\x04\n\x02\x08\x03b\t\n\x01y\x12\x04\n\x02\x08\x06B\x04\n\x00\x10\x14"
)
# ONNX Runtime's setting for the folder of a file that a graph reads
_WEIGHTS_FOLDER = "session.model_external_initializers_file_folder_path"
_NO_PAIRS = np.empty((0, 2), np.int64)
# inputs of a step whose candidates are not read
NO_CANDIDATES = {TOTALS: np.zeros((1, 1), np.float32), FORBIDDEN: _NO_PAIRS, NUMBER: np.array([1])}
Process = Callable[[np.ndarray, np.ndarray], np.ndarray]
# the best continuations of each document, three arrays of shape (B, candidates): their totals, the beams that they
# continue, and their tokens
Candidates = tuple[np.ndarray, np.ndarray, np.ndarray]


class Graph:
    """A graph, with the names of its inputs and outputs.

    Args:
        file: the graph's file.
        threads: the number of threads that compute it.
        weights: the file of safetensors that the graph reads, as `folders.weights_file` returns it; None if the graph
            contains all of its constants.
    """

    def __init__(self, file: Path, threads: int = 1, weights: Path | None = None):
        # from version 1.29, its import starts to send names of files, graphs and programs to its vendor
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
        from onnxruntime import InferenceSession, SessionOptions

        self._file = file
        self._threads = threads
        self._weights = weights
        options = SessionOptions()
        options.intra_op_num_threads = threads
        if _saturates():
            # exact sums, in twice the time
            options.add_session_config_entry("session.x64quantprecision", "1")
        graph: Path | bytes = file
        if weights is not None:
            # the path of a graph would limit the files that it may read to those beside it and below
            graph = file.read_bytes()
            real_file = weights.resolve()
            if real_file.name == weights.name:
                options.add_session_config_entry(_WEIGHTS_FOLDER, str(real_file.parent))
            else:
                # A file in the Hub's cache is a link to one of another name, which ONNX Runtime does not follow. It
                # copies from the content instead, which must exist until the session does.
                content = np.memmap(real_file, np.uint8, mode="r")
                options.add_external_initializers_from_files_in_memory([weights.name], [content], [content.size])
        # a fused sum and LayerNorm take several times the time of the two
        slow_optimizers = ["SkipLayerNormFusion"]
        self._session = InferenceSession(graph, options, ["CPUExecutionProvider"], disabled_optimizers=slow_optimizers)
        self.inputs = [value.name for value in self._session.get_inputs()]
        self.outputs = [value.name for value in self._session.get_outputs()]

    def __reduce__(self):
        # sessions cannot be copied: the copy reads the graph again
        return Graph, (self._file, self._threads, self._weights)

    def __call__(self, tensors: Mapping[str, Any], outputs: Sequence[str] | None = None) -> dict[str, Any]:
        """Run the graph.

        Args:
            tensors: the inputs by name; others may be among them.
            outputs: the names of the outputs to return; by default all of them.

        Returns:
            The outputs by name.
        """
        if outputs is None:
            outputs = self.outputs
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


def encode(
    encoder: Graph, inputs: Mapping[str, Any], batch_tokens: int = ENCODER_BATCH_TOKENS
) -> dict[str, np.ndarray]:
    """Encode documents, a few at once.

    Args:
        encoder: the graph of the encoder.
        inputs: its inputs by name, with a row for each document.
        batch_tokens: the most tokens, with the padding, of documents that are encoded at once. If a row is longer, the
            documents are encoded one by one.

    Returns:
        The tensors of the source and the initial states by name, with a row for each document.
    """
    documents, length = inputs["input_ids"].shape
    size = max(1, batch_tokens // length)
    batches = []
    for start in range(0, documents, size):
        batch = {name: inputs[name][start : start + size] for name in encoder.inputs}
        batches.append(encoder(batch))
    return {name: joined([batch[name] for batch in batches]) for name in encoder.outputs}


def joined(arrays: list[np.ndarray], axis: int = 0) -> np.ndarray:
    """Concatenate arrays. A single array, as in decoding, is not copied."""
    if len(arrays) == 1:
        return arrays[0]
    return np.concatenate(arrays, axis)


def search(
    step: Graph,
    source: Mapping[str, np.ndarray],
    beams: Beams | Texts,
    rules: Sequence[Rule],
    coverage_penalty: float = 0.0,
    processors: Sequence[Process] = (),
    random_generator: "np.random.Generator | None" = None,
) -> Sequences:
    """Search the best summaries by the rules of `generate()`.

    Args:
        step: the graph of a step.
        source: the documents' ids and mask, and what `encode` returns, with a row for each document.
        beams: the texts, each with one token.
        rules: the rules that forbid tokens; `Rule.yields` has no effect, as these rules leave other tokens.
        coverage_penalty: factor of the penalty for repeated copying; see `generation_rules.coverage_growth`.
        processors: functions that change the scores. With them the graph's candidates cannot be used.
        random_generator: draws continuations in place of the best ones; None for a search.
    """
    tensors = {name: value for name, value in source.items() if name in step.inputs}
    changes_scores = bool(processors) or random_generator is not None
    states = [name for name in step.outputs if name.startswith(NEXT)]
    outputs = [LOGITS] if changes_scores else [BEST_TOTALS, BEST_TOKENS]
    outputs += states
    coverage_name = coverage_state(states) if coverage_penalty else None
    if coverage_name is not None:
        outputs.append(COPIED)
    # at the first step all beams of a document are equal, so that the graph needs to read only one of them
    rows_per_step = 1 if changes_scores else beams.number
    rows = np.arange(len(beams.is_done)).repeat(beams.number // rows_per_step)
    tensors[NUMBER] = np.array([beams.candidates])
    while True:
        ids = beams.ids[::rows_per_step]
        if beams.totals is None:
            totals = np.zeros((len(rows), 1), np.float32)
        else:
            totals = beams.totals.reshape(-1, 1)[::rows_per_step].astype(np.float32)
        pairs, ended_rows = _forbidden(ids.tolist(), rules)
        totals[ended_rows] = -np.inf
        tensors["tokens"] = ids[:, -1]
        tensors["rows"] = rows
        tensors["written"] = np.empty(beams.length - 1, np.float32)
        tensors[TOTALS] = totals
        tensors[FORBIDDEN] = pairs
        results = step(tensors, outputs)
        if coverage_name is not None:
            growth = coverage_growth(results[coverage_name], results[COPIED][:, 0])
            lost = coverage_penalty * growth[:, None]
            totals -= lost
            if not changes_scores:
                results[BEST_TOTALS] -= lost
        if changes_scores:
            candidates = _chosen(results[LOGITS][:, -1], pairs, totals, beams, processors, random_generator)
        else:
            candidates = _merged(results[BEST_TOTALS], results[BEST_TOKENS], beams)
        for rule in rules:
            forced_tokens = rule.forced(beams.length)
            if forced_tokens:
                candidates = _forced(forced_tokens, totals, beams)
        rows = beams.advance(*candidates) // rows_per_step
        rows_per_step = 1
        if beams.is_over:
            return beams.output()
        for name in states:
            tensors[name.removeprefix(NEXT)] = results[name]
        if beams.is_done.any():
            rows = _without_finished(tensors, source, beams, rows)


def coverage_state(states: Iterable[str]) -> str | None:
    """The name of the state that is the coverage of the source; None if the model has none."""
    for name in states:
        if ".coverage." in name:
            return name
    return None


def _forced(tokens: Sequence[int], totals: np.ndarray, beams: Beams | Texts) -> Candidates:
    """The candidates if each row must continue with one of `tokens`.

    Args:
        tokens: the ids of at most `beams.candidates` tokens. A row that continues with one of them keeps its total.
        totals: (R, 1), the totals of the rows.
        beams: the texts of the search.
    """
    shape = len(totals), beams.candidates
    best_totals = np.full(shape, -np.inf, np.float32)
    best_tokens = np.zeros(shape, np.int64)
    best_totals[:, : len(tokens)] = totals
    best_tokens[:, : len(tokens)] = tokens
    return _merged(best_totals, best_tokens, beams)


def _without_finished(
    tensors: dict[str, np.ndarray], source: Mapping[str, np.ndarray], beams: Beams | Texts, rows: np.ndarray
) -> np.ndarray:
    """Remove finished documents from the beams and from a step's inputs that belong to the source.

    The first n rows of each input remain for n unfinished documents. A finished document among them is replaced by an
    unfinished one behind them, so that few rows are copied.

    Args:
        tensors: the inputs of a step, changed in place.
        source: the tensors of all documents, which `tensors` holds at first, and which do not change.
        rows: (R,), the rows of the states with which the beams continue.

    Returns:
        The rows for the remaining beams, in their new order.
    """
    # there are as many finished documents among the first n as unfinished ones behind them
    unfinished = np.flatnonzero(~beams.is_done)
    places = np.flatnonzero(beams.is_done[: len(unfinished)])
    moved = unfinished[len(unfinished) - len(places) :]
    documents = np.arange(len(unfinished))
    documents[places] = moved
    rows = beams.select(documents, rows)
    for name, source_values in source.items():
        # `rows` selects the states, which have a row for each beam
        if name in tensors and not name.startswith(STATE):
            values = tensors[name]
            if values is source_values:
                values = values.copy()
            values[places] = values[moved]
            tensors[name] = values[: len(unfinished)]
    return rows


def choose_sentences(
    step: Graph, source: Mapping[str, np.ndarray], candidates: Sequence[Sequence[Candidate]], first: int
) -> list[list[int]]:
    """The ids of each document's likeliest candidate, with the start token.

    Args:
        source: as for `search`.
        candidates: the candidates of each document.
        first: the start token, with which summaries begin.
    """
    chosen = []
    for document, sentences in enumerate(candidates):
        document_source = {name: value[document : document + 1] for name, value in source.items()}
        ids = pad_rows([sentence.ids for sentence in sentences], 0)
        start = np.full((len(ids), 1), first)
        sequences = np.concatenate((start, ids), axis=1)
        log_probs = log_softmax(_outputs(step, document_source, sequences, LOGITS))
        token_log_probs = np.take_along_axis(log_probs, ids[..., None], 2)[..., 0]
        best = likeliest(sentences, token_log_probs)
        chosen.append([first, *best.ids])
    return chosen


def attentions(step: Graph, source: Mapping[str, np.ndarray], sequences: np.ndarray) -> np.ndarray:
    """The attention to the source, (R, L - 1, S), when each token after the first of sequences (R, L) was decoded."""
    return _outputs(step, source, sequences, COPIED)


def _outputs(step: Graph, source: Mapping[str, np.ndarray], sequences: np.ndarray, name: str) -> np.ndarray:
    """An output of the step, (R, L - 1, ...), before each token after the first of sequences (R, L)."""
    documents = len(source["input_ids"])
    rows = np.arange(documents).repeat(len(sequences) // documents)
    tensors: dict[str, Any] = {name: value for name, value in source.items() if name in step.inputs}
    tensors |= NO_CANDIDATES
    states = [output for output in step.outputs if output.startswith(NEXT)]
    values = []
    for length, tokens in enumerate(sequences[:, :-1].T):
        tensors["tokens"] = tokens
        tensors["rows"] = rows
        tensors["written"] = np.empty(length, np.float32)
        results = step(tensors, [name, *states])
        values.append(results[name])
        for state in states:
            tensors[state.removeprefix(NEXT)] = results[state]
        rows = np.arange(len(sequences))
    return joined(values, 1)


def _chosen(
    logits: np.ndarray,
    pairs: np.ndarray,
    totals: np.ndarray,
    beams: Beams | Texts,
    processors: Sequence[Process],
    random_generator: "np.random.Generator | None",
) -> Candidates:
    """The best or sampled continuations of each document, by scores that processors change.

    Args:
        logits: (R, V).
        pairs: (P, 2), pairs of a row and a forbidden token.
        totals: (R, 1), the totals of the rows so far.
    """
    scores = logits if beams.totals is None else log_softmax(logits)
    scores[pairs[:, 0], pairs[:, 1]] = -np.inf
    for process in processors:
        scores = process(beams.ids, scores)
    scores = (scores + totals).reshape(len(beams.is_done), -1)
    best_totals, indices = highest(scores, beams.candidates, random_generator)
    parents, tokens = np.divmod(indices, logits.shape[1])
    return best_totals, parents, tokens


def _forbidden(texts: list[list[int]], rules: Sequence[Rule]) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (P, 2) of a row and a token that it must not continue with, and the rows that end."""
    pairs = [_NO_PAIRS]
    ended_rows = [_NO_PAIRS[:, 0]]
    for rule in rules:
        rows, tokens = rule.pairs(texts)
        if rule.ends:
            ended_rows.append(rows)
        else:
            pairs.append(np.stack((rows, tokens), axis=1))
    return np.concatenate(pairs), np.concatenate(ended_rows)


def _merged(totals: np.ndarray, tokens: np.ndarray, beams: Beams | Texts) -> Candidates:
    """The best continuations of each document, chosen among the continuations of its rows.

    Args:
        totals, tokens: (R, number), the totals and tokens of each row's best continuations.
    """
    documents = len(beams.is_done)
    width = totals.shape[1]
    totals = totals.reshape(documents, -1)
    tokens = tokens.reshape(documents, -1)
    order = (-totals).argsort(axis=1, kind="stable")[:, : beams.candidates]
    rows = np.arange(documents)[:, None]
    return totals[rows, order], order // width, tokens[rows, order]


def processors(config: Any, ends: Sequence[int]) -> Iterator[Process]:
    """The processors of a generation config, in the order of transformers'.

    Args:
        ends: the ids that end a text.
    """
    if config.repetition_penalty not in (None, 1.0):
        yield lambda ids, scores: _penalized(ids, scores, config.repetition_penalty)
    if config.do_sample:
        if config.temperature not in (None, 1.0):
            yield lambda ids, scores: scores / np.float32(config.temperature)
        # beams need continuations that do not end them
        least = 1 + len(ends) if config.num_beams > 1 else 1
        # 50 is transformers' default
        top_k = 50 if config.top_k is None else config.top_k
        if top_k:
            yield lambda ids, scores: _likeliest(scores, max(top_k, least))
        if config.top_p not in (None, 1.0):
            yield lambda ids, scores: _nucleus(scores, config.top_p, least)


def log_softmax(scores: np.ndarray) -> np.ndarray:
    """Scores (R, V) less the logarithm of the sum of their exponentials."""
    scores = scores - scores.max(-1, keepdims=True)
    return scores - np.log(np.exp(scores).sum(-1, keepdims=True))


def highest(
    scores: np.ndarray, number: int, random_generator: "np.random.Generator | None"
) -> tuple[np.ndarray, np.ndarray]:
    """The highest of scores (B, M) and their indices, (B, number), in descending order.

    Args:
        random_generator: if given, draws scores instead, without replacement and with the probabilities of a softmax.
    """
    keys = scores
    if random_generator is not None:
        # the highest sums with Gumbel noise are such a sample (Kool et al. 2019)
        keys = scores + random_generator.gumbel(size=scores.shape).astype(scores.dtype)
    indices = np.argpartition(-keys, number - 1, axis=1)[:, :number]
    chosen = np.take_along_axis(scores, indices, 1)
    order = np.argsort(-chosen, axis=1, kind="stable")
    return np.take_along_axis(chosen, order, 1), np.take_along_axis(indices, order, 1)


def _penalized(ids: np.ndarray, scores: np.ndarray, penalty: float) -> np.ndarray:
    """Scores (R, V) with a penalty on the tokens of each text (R, T) (Keskar et al. 2019)."""
    factor = np.float32(penalty)
    token_scores = np.take_along_axis(scores, ids, 1)
    lower_scores = np.where(token_scores < 0, token_scores * factor, token_scores / factor)
    scores = scores.copy()
    np.put_along_axis(scores, ids, lower_scores, 1)
    return scores


def _likeliest(scores: np.ndarray, number: int) -> np.ndarray:
    """Scores (R, V) where all but the highest ones of each row, and those equal to the lowest of these, are -inf."""
    number = min(number, scores.shape[1])
    lowest = np.partition(scores, -number, axis=1)[:, -number, None]
    return np.where(scores < lowest, -np.inf, scores)


def _nucleus(scores: np.ndarray, share: float, least: int) -> np.ndarray:
    """Scores (R, V) where all but the likeliest tokens of each row are -inf (Holtzman et al. 2020).

    Args:
        share: the fewest tokens stay that have at least this share of the probability together.
        least: the least number of tokens that stay.
    """
    order = np.argsort(scores, axis=1, kind="stable")
    probabilities = np.exp(log_softmax(np.take_along_axis(scores, order, 1)))
    is_dropped_in_order = np.cumsum(probabilities, axis=1) <= 1 - share
    is_dropped_in_order[:, -least:] = False
    is_dropped = np.empty_like(is_dropped_in_order)
    np.put_along_axis(is_dropped, order, is_dropped_in_order, 1)
    return np.where(is_dropped, -np.inf, scores)
