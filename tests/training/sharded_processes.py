"""Started twice by a test: several runs, one after the other, whose models FSDP2 shards over two processes."""

import json
import sys

import torch
from accelerate import PartialState
from accelerate.utils import DistributedType
from torch.distributed.tensor import DTensor
from transformers import TrainerCallback
from transformers.trainer import DEFAULT_CALLBACKS

from hf_summ.training.parsing import parse_arguments
from hf_summ.training.run import end_processes, run


class ShardedCallback(TrainerCallback):
    """Stops a run whose weights are not in shards, and names those that are."""

    def on_optimizer_step(self, args, state, control, model=None, **kwargs):
        """Look at all weights after the last update; an evaluation leaves them gathered."""
        if state.global_step + 1 < state.max_steps:
            return
        for name, weight in model.named_parameters():
            assert isinstance(weight, DTensor), name
            sys.stdout.write(f"shards of {name}\n")


def shard_on_a_cpu() -> None:
    """Let accelerate take processes on a CPU for ones on GPUs: on CPUs it leaves FSDP out without a word."""
    original = PartialState.__init__

    def init(self, *args, **kwargs):
        original(self, *args, **kwargs)
        if self.distributed_type is DistributedType.MULTI_CPU:
            self.distributed_type = DistributedType.MULTI_GPU

    PartialState.__init__ = init


if __name__ == "__main__":
    torch.set_num_threads(1)
    shard_on_a_cpu()
    DEFAULT_CALLBACKS.append(ShardedCallback)
    for argv in json.loads(sys.argv[1]):
        arguments = parse_arguments(argv)
        run(arguments)
    end_processes()
