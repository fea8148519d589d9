"""The processor and the checkpoints of the tests of training."""

from tests.training.conftest import processor_folder, run_folder

__all__ = ["processor_folder", "run_folder"]
