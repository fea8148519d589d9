"""Training that begins again: the order of each epoch, and a smaller batch after memory was exhausted."""

import itertools
import math

import pytest
import torch
from accelerate.data_loader import prepare_data_loader
from torch.utils.data import DataLoader

from tests.training import tiny


@pytest.fixture(scope="module")
def processor(tiny_tokenizer):
    return tiny.processor(tiny_tokenizer)


@pytest.fixture
def make(processor, tmp_path):
    """A trainer of a tiny model; settings are training arguments."""
    rows = tiny.prepared(processor, 16)

    def build(**settings):
        torch.manual_seed(0)
        return tiny.trainer(tiny.gdlf(processor, label_smoothing=0.0), processor, rows, tmp_path, **settings)

    return build


@pytest.mark.parametrize("data_seed", [None, 7])
def test_order_by_length_depends_on_the_seed_and_the_epoch(make, data_seed):
    def order(state, epoch, **settings):
        sampler = make(train_sampling_strategy="group_by_length", data_seed=data_seed, **settings)._get_train_sampler()
        sampler.set_epoch(epoch)
        torch.manual_seed(state)
        return list(sampler)

    expected = order(0, 1)
    assert sorted(expected) == list(range(16))
    assert order(1, 1) == expected
    assert order(0, 2) != expected
    # the seed of the data replaces that of the run
    assert (order(0, 1, seed=5) == expected) == (data_seed is not None)


def test_two_processes_share_the_rows_of_each_epoch(make):
    trainer = make(train_sampling_strategy="group_by_length")
    for epoch in range(3):
        batches = []
        for process in (0, 1):
            # the global generators of processes differ
            torch.manual_seed(process)
            sampler = trainer._get_train_sampler()
            loader = DataLoader(range(16), batch_size=2, sampler=sampler, collate_fn=list)
            shard = prepare_data_loader(loader, num_processes=2, process_index=process, put_on_device=False)
            shard.set_epoch(epoch)
            batches += shard
        assert sorted(itertools.chain(*batches)) == list(range(16))


# the batch after which memory is exhausted
@pytest.mark.parametrize("failing_batch", [1, 2, 3])
def test_run_with_a_smaller_batch_logs_as_a_new_one(make, monkeypatch, failing_batch):
    settings = {"schedule": "cosine", "num_train_epochs": 1, "max_steps": -1}
    trainer = make(**settings, per_device_train_batch_size=4, auto_find_batch_size=True)
    training_step = trainer.training_step
    batches = []

    def exhaust_once(*args):
        loss = training_step(*args)
        batches.append(loss)
        if len(batches) == failing_batch:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")
        return loss

    monkeypatch.setattr(trainer, "training_step", exhaust_once)
    trainer.train()
    entries = trainer.state.log_history[:-1]
    # 16 rows in batches of 3
    assert len(entries) == 6
    for step, entry in enumerate(entries):
        assert entry["learning_rate"] == pytest.approx(0.01 * (1 + math.cos(math.pi * step / 6)) / 2)
        # without label smoothing, the loss is the nll
        assert entry["nll"] == pytest.approx(entry["loss"], rel=1e-5)
