"""Started twice by a test: several runs, one after the other, in one process group."""

import json
import sys

import torch

from hf_summ.training.parsing import parse_arguments
from hf_summ.training.run import end_processes, run

if __name__ == "__main__":
    torch.set_num_threads(1)
    for argv in json.loads(sys.argv[1]):
        arguments = parse_arguments(argv)
        run(arguments, argv)
    sys.stdout.write(f"process {torch.distributed.get_rank()} of {torch.distributed.get_world_size()}\n")
    end_processes()
