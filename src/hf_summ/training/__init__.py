"""The training recipe: arguments, batches, optimization, checkpoints, the trainer and the run."""

from typing import TYPE_CHECKING

from hf_summ.common.lazy import lazily

if TYPE_CHECKING:
    from hf_summ.training.run import train

__all__ = ["train"]

__getattr__, __dir__ = lazily(__name__, dict.fromkeys(__all__, ".run"))
