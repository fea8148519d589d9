"""Batches measured in tokens."""

import itertools

import datasets
import numpy as np
from accelerate import skip_first_batches
from accelerate.data_loader import DataLoaderShard
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_summ.training.rows.batches import BatchOrder, even_out, pack_examples, pack_tokens, token_lengths

lengths = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 12)), min_size=1, max_size=40)


@given(lengths, st.integers(1, 200), st.integers(0, 3))
@settings(max_examples=60)
def test_batches_hold_every_row_once_within_the_budget(pairs, budget, seed):
    sources, targets = np.array(pairs).T
    batches = pack_tokens(sources, targets, budget, seed)
    assert sorted(itertools.chain(*batches)) == list(range(len(pairs)))
    for batch in batches:
        size = len(batch) * (sources[batch].max() + targets[batch].max())
        assert size <= budget or len(batch) == 1
    assert batches == pack_tokens(sources, targets, budget, seed)


@given(lengths, st.integers(1, 4), st.integers(1, 3), st.sampled_from([None, 5]))
@settings(max_examples=60)
def test_processes_share_the_batches_out(pairs, processes, accumulation, seed):
    sources, targets = np.array(pairs).T
    batches = pack_tokens(sources, targets, 60)
    orders = [BatchOrder(batches, seed, processes, index, accumulation) for index in range(processes)]
    dealt = [list(order) for order in orders]
    assert {len(share) for share in dealt} == {len(orders[0])}
    seen = list(itertools.chain(*itertools.chain(*dealt)))
    assert set(seen) == set(range(len(pairs)))
    if len(pairs) >= processes * accumulation * -(-len(batches) // (processes * accumulation)):
        assert len(seen) == len(pairs)
        assert len(orders[0]) % accumulation == 0


def test_updates_are_the_same_for_processes_and_accumulation():
    batches = [[0, 1, 2], [3, 4], [5], [6, 7, 8, 9], [10]]
    alone = list(BatchOrder(batches, 3, accumulation_steps=2))
    first, second = (list(BatchOrder(batches, 3, num_processes=2, process_index=index)) for index in (0, 1))
    assert list(zip(alone[::2], alone[1::2], strict=True)) == list(zip(first, second, strict=True))


def test_every_epoch_has_an_order_of_its_own_that_returns():
    order = BatchOrder([[row] for row in range(20)], seed=1)
    first = list(order)
    order.set_epoch(1)
    assert list(order) != first
    order.set_epoch(0)
    assert list(order) == first
    assert list(BatchOrder(order.batches, seed=2)) != first
    # without seed the longest come first
    assert list(BatchOrder([[0], [1], [2]])) == [[2], [1], [0]]


def test_resuming_in_the_middle_goes_on_with_the_same_batches():
    dataset = datasets.Dataset.from_dict({"x": list(range(12))})
    loader = DataLoaderShard(dataset, batch_sampler=BatchOrder([[row] for row in range(12)], seed=1), collate_fn=list)
    loader.set_epoch(2)
    whole = [batch[0]["x"] for batch in loader]
    rest = skip_first_batches(loader, 5)
    rest.batch_sampler.batch_sampler.set_epoch(2)
    assert [batch[0]["x"] for batch in rest] == whole[5:]


def test_evening_out_halves_the_fullest_and_keeps_the_order():
    assert even_out([[0], [1, 2, 3, 4], [5, 6]], 4) == [[0], [1, 2], [3, 4], [5, 6]]
    assert even_out([[0], [1]], 3) == [[0], [1]]
    assert even_out([], 3) == []


def test_rows_are_packed_by_length():
    # examples are packed by length
    assert pack_examples(np.array([3, 1, 2, 5, 4]), 2) == [[1, 2], [0, 4], [3]]
    # rows of one length are spread by the seed
    same = np.full(30, 5)
    assert pack_tokens(same, same, 100, seed=0) != pack_tokens(same, same, 100, seed=1)


def test_lengths_follow_a_selection():
    dataset = datasets.Dataset.from_dict({"input_ids": [[1], [1, 2], [], [1, 2, 3]]}).select([3, 0, 2])
    assert token_lengths(dataset, "input_ids").tolist() == [3, 1, 0]
    assert token_lengths(dataset, "labels").tolist() == [0, 0, 0]
