"""Batches measured in tokens, equal for any number of processes, and orders that depend on the seed and the epoch."""

from collections.abc import Iterator, Sequence

import datasets
import numpy as np
import pyarrow.compute as pc
import torch
from torch.utils.data import Sampler
from transformers.trainer_pt_utils import LengthGroupedSampler

# sources whose lengths differ by less are ordered by target length, which keeps the padding of both sides small
_SOURCE_BUCKET = 16


def token_lengths(dataset: datasets.Dataset, column: str) -> np.ndarray:
    """The length of each row's list in `column`, (rows,) int64; zeros if the data set has no such column."""
    if column not in dataset.column_names:
        return np.zeros(len(dataset), dtype=np.int64)
    # Arrow counts the values of lists without making Python objects of them
    tables = dataset.select_columns([column]).with_format("arrow").iter(batch_size=65536)
    # a data set without rows has no tables, but numpy needs an array to concatenate
    lengths = [np.zeros(0, dtype=np.int64)]
    for table in tables:
        lengths.append(pc.list_value_length(table[column]).to_numpy(zero_copy_only=False))
    return np.concatenate(lengths).astype(np.int64)


def pack_tokens(sources: np.ndarray, targets: np.ndarray, tokens_per_batch: int, seed: int = 0) -> list[list[int]]:
    """Group rows of similar length into batches whose padded size stays within `tokens_per_batch`.

    The padded size of a batch is `rows · (longest source + longest target)`. A row that exceeds `tokens_per_batch`
    alone is a batch of one row. Rows of equal lengths are shuffled with `seed` before they are grouped.

    Args:
        sources: (rows,), the source length of each row.
        targets: (rows,), the target length of each row.

    Returns:
        The indices of the rows of each batch. The rows are ordered by the length of the source, in steps of
        `_SOURCE_BUCKET` tokens, and within a step by the length of the target.
    """
    order = np.random.default_rng(seed).permutation(len(sources))
    buckets = sources[order] // _SOURCE_BUCKET
    # lexsort sorts by its last key first, and keeps the shuffled order of rows that are equal in all keys
    order = order[np.lexsort((sources[order], targets[order], buckets))]
    batches: list[list[int]] = []
    batch: list[int] = []
    longest_source = 0
    longest_target = 0
    for row, source, target in zip(order.tolist(), sources[order].tolist(), targets[order].tolist(), strict=True):
        longest_source = max(longest_source, source)
        longest_target = max(longest_target, target)
        padded_size = (len(batch) + 1) * (longest_source + longest_target)
        if batch and padded_size > tokens_per_batch:
            batches.append(batch)
            batch = []
            longest_source = source
            longest_target = target
        batch.append(row)
    if batch:
        batches.append(batch)
    return batches


def pack_examples(sources: np.ndarray, examples_per_batch: int) -> list[list[int]]:
    """Group rows of similar source length into batches of `examples_per_batch`, shortest first.

    The last batch may be smaller. `sources` are the source lengths, (rows,).
    """
    order = np.argsort(sources, kind="stable").tolist()
    batches = []
    for start in range(0, len(order), examples_per_batch):
        batches.append(order[start : start + examples_per_batch])
    return batches


class BatchOrder(Sampler[list[int]]):
    """Distributes fixed batches over processes, in a different order for each epoch if `seed` is given.

    Update `i` uses the same batches whether they are spread over processes or over accumulation steps. Batches are
    halved until their number is a multiple of `num_processes · accumulation_steps`. Thus each process gets the same
    number of batches, and no row is dropped. If there are too few rows for this, the first batches are used twice in an
    epoch. Without a seed, the longest batches come first. If memory is too small, the run then fails at once.

    Args:
        batches: the indices of the rows of each batch, from the shortest rows to the longest.
        seed: the seed of the orders; None for the order from the longest batch to the shortest.
        num_processes: the number of processes.
        process_index: the number of this process, from 0.
        accumulation_steps: the number of batches of a process in an update.
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
        missing = -len(self.batches) % num_processes
        for index in range(missing):
            self.batches.append(self.batches[index])
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
        # processes take turns
        for index in order[self.process_index :: self.num_processes].tolist():
            yield self.batches[index]


class SeededLengthSampler(LengthGroupedSampler):
    """Rows in random order, with rows of similar length side by side, in a different order for each epoch.

    transformers' sampler draws from the global generator. Its order differs between processes, and after resuming.

    Args:
        batch_size: the number of rows in an update.
        lengths: the length of each row.
        seed: the seed of the orders.
    """

    def __init__(self, batch_size: int, lengths: list[int], seed: int):
        super().__init__(batch_size, lengths=lengths, generator=torch.Generator())
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of an epoch, which depends only on the seed and the epoch."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        self.generator.manual_seed(self.seed + self.epoch)
        return super().__iter__()


def even_out(batches: Sequence[list[int]], multiple: int) -> list[list[int]]:
    """Halve the batches with the most rows until their number is a multiple of `multiple`.

    If all batches have a single row before that, their number remains too small.
    """
    evened = list(batches)
    missing = -len(batches) % multiple
    for _ in range(missing):
        sizes = [len(batch) for batch in evened]
        largest = sizes.index(max(sizes))
        batch = evened[largest]
        if len(batch) < 2:
            break
        middle = len(batch) // 2
        # the halves stand where their batch stood, which keeps the order by length
        evened[largest : largest + 1] = [batch[:middle], batch[middle:]]
    return evened


def rounded_up(lengths: np.ndarray, multiple: int) -> np.ndarray:
    """Lengths, each rounded up to a multiple of `multiple`."""
    return (lengths + multiple - 1) // multiple * multiple
