"""Batches measured in tokens, equal for any number of processes."""

from collections.abc import Iterator, Sequence

import datasets
import numpy as np
import pyarrow.compute as pc
from torch.utils.data import Sampler

# sources whose lengths differ by less are ordered by target length, which keeps the padding of both sides small
_SOURCE_BUCKET = 16


def token_lengths(dataset: datasets.Dataset, column: str) -> np.ndarray:
    """Length of each row's list in `column`, (rows,) int64; zeros if there is no such column."""
    if column not in dataset.column_names:
        return np.zeros(len(dataset), dtype=np.int64)
    tables = dataset.select_columns([column]).with_format("arrow").iter(batch_size=65536)
    lengths = [pc.list_value_length(table[column]).to_numpy(zero_copy_only=False) for table in tables]
    return np.concatenate([np.zeros(0, dtype=np.int64), *lengths]).astype(np.int64)


def pack_tokens(sources: np.ndarray, targets: np.ndarray, tokens_per_batch: int, seed: int = 0) -> list[list[int]]:
    """Group rows of similar length into batches whose padded size stays within `tokens_per_batch`.

    The padded size is `rows · (longest source + longest target)`; a row that exceeds it forms a single batch. Rows of
    equal length are spread over batches by `seed`. Batches are ordered from the shortest.
    """
    rows = np.random.default_rng(seed).permutation(len(sources))
    rows = rows[np.lexsort((sources[rows], targets[rows], sources[rows] // _SOURCE_BUCKET))]
    batches: list[list[int]] = []
    batch: list[int] = []
    longest_source = longest_target = 0
    for row, source, target in zip(rows.tolist(), sources[rows].tolist(), targets[rows].tolist(), strict=True):
        longest_source, longest_target = max(longest_source, source), max(longest_target, target)
        if batch and (len(batch) + 1) * (longest_source + longest_target) > tokens_per_batch:
            batches.append(batch)
            batch, longest_source, longest_target = [], source, target
        batch.append(row)
    if batch:
        batches.append(batch)
    return batches


def pack_examples(sources: np.ndarray, examples_per_batch: int) -> list[list[int]]:
    """Group rows of similar source length into batches of `examples_per_batch`, shortest first; one may be smaller."""
    rows = np.argsort(sources, kind="stable").tolist()
    return [rows[start : start + examples_per_batch] for start in range(0, len(rows), examples_per_batch)]


class BatchOrder(Sampler[list[int]]):
    """Distributes fixed batches over processes, in a different order for each epoch if `seed` is given.

    Update `i` uses the same batches whether they are spread over processes or over accumulation steps. Batches are
    halved until their number is a multiple of `num_processes · accumulation_steps`. Thus each process gets the same
    number, and no row is dropped or repeated, unless there are too few rows. Without a seed, the longest batches come
    first: if memory is too small, the first batch fails.
    """

    def __init__(
        self,
        batches: Sequence[list[int]],
        seed: int | None = None,
        num_processes: int = 1,
        process_index: int = 0,
        accumulation_steps: int = 1,
    ):
        self.batches = even_out(batches, num_processes * accumulation_steps)
        for start in range(-len(self.batches) % num_processes):
            self.batches.append(self.batches[start])
        self.seed = seed
        self.num_processes = num_processes
        self.process_index = process_index
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of an epoch, which depends only on the seed and the epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.batches) // self.num_processes

    def __iter__(self) -> Iterator[list[int]]:
        if self.seed is None:
            order = np.arange(len(self.batches))[::-1]
        else:
            order = np.random.default_rng((self.seed, self.epoch)).permutation(len(self.batches))
        for position in order[self.process_index :: self.num_processes].tolist():
            yield self.batches[position]


def even_out(batches: Sequence[list[int]], multiple: int) -> list[list[int]]:
    """Halve the batches with the most rows until their number is a multiple of `multiple`, if there are enough rows."""
    evened = list(batches)
    for _ in range(-len(batches) % multiple):
        largest = max(range(len(evened)), key=lambda index: len(evened[index]))
        batch = evened[largest]
        if len(batch) < 2:
            break
        # the halves replace their batch in place, which keeps the order by length
        evened[largest : largest + 1] = batch[: len(batch) // 2], batch[len(batch) // 2 :]
    return evened
