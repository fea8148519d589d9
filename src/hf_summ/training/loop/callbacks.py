"""Callbacks that check a run and record its progress."""

import logging
import math
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor
from transformers import EarlyStoppingCallback, TrainerCallback, TrainerState
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_callback import ExportableState

from hf_summ.checkpoints.adapters import base_model
from hf_summ.checkpoints.folders import is_finite
from hf_summ.training.arguments import SummarizationTrainingArguments

logger = logging.getLogger(__name__)

_MANY_EPOCHS = 1000
_KL_ADVICE = (
    "if the KL is not finite, try --learning_rates 'latent_chain.(mean|log_variance)=1e-4' and kl_warmup_steps in "
    "--config_overrides"
)


class NonFiniteCallback(TrainerCallback):
    """Stops a run whose loss or gradient is NaN or infinite, naming the step and what to try.

    Both are checked one update later, when the device has computed them, so training never waits. Evaluation and saving
    check immediately, so no checkpoint contains such weights.

    Raises:
        FloatingPointError: from the training loop.
    """

    def __init__(self, args: SummarizationTrainingArguments):
        self._args = args
        self._pending: list[tuple[int, str, Any, Mapping[str, torch.Tensor]]] = []

    def watch(self, name: str, value: Any, step: int, components: Mapping[str, torch.Tensor] | None = None) -> None:
        """Keep a loss or gradient norm of update `step`, and the loss's components by name, for the next check."""
        self._pending.append((step, name, value, components or {}))

    def check(self, before: int | None = None) -> None:
        """Check the values of updates before `before`; of all, if None."""
        due = [entry for entry in self._pending if before is None or entry[0] < before]
        self._pending = self._pending[len(due) :]
        for step, name, value, components in due:
            if not math.isfinite(float(value)):
                means = [f"{key} {component.float().mean():.4g}" for key, component in sorted(components.items())]
                values = f" ({', '.join(means)})" if means else ""
                advice = f"{_KL_ADVICE}; {self._advice()}" if "kl" in components else self._advice()
                raise FloatingPointError(f"the {name} is {float(value)} at step {step}{values}: {advice}")

    def check_weights(self, model: nn.Module, step: int) -> None:
        """Check a model's parameters; of a sharded model, this process's shards."""
        for name, parameter in model.named_parameters():
            values = parameter.to_local() if isinstance(parameter, DTensor) else parameter
            if not is_finite(values):
                raise FloatingPointError(f"{name} is not finite after step {step}: {self._advice()}")

    def on_train_begin(self, args, state, control, **kwargs):
        """Discard the values of an earlier run."""
        self._pending = []

    def on_step_end(self, args, state, control, **kwargs):
        """Check the previous update, and this one too if the loop is about to log, evaluate, save or stop."""
        at_once = control.should_log or control.should_evaluate or control.should_save or control.should_training_stop
        self.check(before=None if at_once else state.global_step)

    def on_epoch_end(self, args, state, control, **kwargs):
        """Check everything, as saving may follow."""
        self.check()

    def _advice(self) -> str:
        """What to try in a run that starts over, as an interrupted one resumes only with the same settings."""
        rate = "--noam_scale" if self._args.schedule == "noam" else "--learning_rate"
        half = ", and --bf16 or full precision instead of --fp16" if self._args.fp16 else ""
        return (
            f"start over, with --resume_from_checkpoint no, a lower {rate}, more --warmup_steps, and a smaller "
            f"--max_grad_norm{half}"
        )


class RunProgress(TrainerCallback, ExportableState):
    """Saves a run's mean loss and duration in its checkpoints, and logs the length of the run at its start.

    A resumed run has the intervals of its arguments, such as `save_steps`, not of its checkpoint.

    Attributes:
        loss_sum: the sum of the losses of all updates; None if unknown.
        since: the sum of this process's losses that are not in `loss_sum` yet.
        seconds: the duration of all updates without evaluations, None if unknown: on a CPU, the CPU seconds of this
            process, which other processes hardly affect; otherwise wall-clock seconds.
    """

    def __init__(self):
        self.loss_sum: float | None = 0.0
        self.since = torch.zeros(())
        self.seconds: float | None = 0.0
        self._clock, self._before = time.process_time, 0.0

    def state(self) -> dict:
        """The state in a checkpoint, from which transformers restores the callback."""
        return {"args": {}, "attributes": {"loss_sum": self.loss_sum, "seconds": self.seconds}}

    def on_train_begin(self, args, state, control, **kwargs):
        """Take the sums from the checkpoint, if any, and the intervals from the arguments; log updates and epochs."""
        # the checkpoint may come from another trainer, but transformers expects this state in it
        saved = state.stateful_callbacks.setdefault(type(self).__name__, {}).get("attributes", {})
        self.loss_sum, self.seconds = (saved.get(key) if state.global_step else 0.0 for key in ("loss_sum", "seconds"))
        self._clock = time.process_time if args.device.type == "cpu" else time.perf_counter
        self._before = self._clock()
        self.since = torch.zeros((), device=args.device)
        state.compute_steps(args, state.max_steps)
        epochs = state.num_train_epochs
        done = f", of which {state.global_step:,} are done" if state.global_step else ""
        # those of a stream are not counted
        counted = "" if epochs == sys.maxsize else f" in {epochs:,} epoch{'' if epochs == 1 else 's'}"
        logger.info(f"training: {state.max_steps:,} updates{counted}{done}")
        warmup = args.get_warmup_steps(state.max_steps)
        if warmup > state.max_steps:
            logger.warning(
                f"the learning rate warms up for {warmup:,} updates, but the run has {state.max_steps:,}: it never "
                "reaches the given rate; lower --warmup_steps, or train longer"
            )
        if _MANY_EPOCHS <= epochs < sys.maxsize:
            logger.warning(
                f"{epochs:,} epochs: each document is seen {epochs:,} times; if that is too often, lower --max_steps "
                "or --num_train_epochs, or use --early_stopping_patience"
            )

    def on_step_end(self, args, state, control, **kwargs):
        """Add the duration of an update."""
        before, self._before = self._before, self._clock()
        if self.seconds is not None:
            self.seconds += self._before - before

    def on_evaluate(self, args, state, control, **kwargs):
        """Exclude the duration of an evaluation."""
        self._before = self._clock()


class ResumableEarlyStopping(EarlyStoppingCallback):
    """transformers' early stopping, whose patience starts when the warm-up ends, and which stops a resumed run again.

    A run that was killed after its patience was exhausted would otherwise train further.
    """

    def on_train_begin(self, args, state, control, **kwargs):
        """Stop if the checkpoint's count says so."""
        super().on_train_begin(args, state, control, **kwargs)
        control.should_training_stop = self.is_exhausted

    @property
    def is_exhausted(self) -> bool:
        """Whether the patience is exhausted."""
        return self.early_stopping_patience_counter >= self.early_stopping_patience

    def on_evaluate(self, args, state, control, metrics, **kwargs):
        """Count an evaluation without a better score; evaluations during warm-up are not counted."""
        if state.global_step >= args.get_warmup_steps(state.max_steps):
            super().on_evaluate(args, state, control, metrics, **kwargs)


class BrightnessCallback(TrainerCallback):
    """Sets the number of trained epochs in a model whose brightness decays with it.

    The number depends only on the trainer's state, so resuming does not change it. It increases at an epoch's last
    update, before an evaluation or a checkpoint at that step.
    """

    def on_step_end(self, args, state, control, model=None, **kwargs):
        """Set the number after an update, and when a run starts or resumes."""
        _set_epochs_trained(model, state)

    on_train_begin = on_step_end

    def on_train_end(self, args, state, control, model=None, **kwargs):
        """Set the number that was saved with the best weights, if they have just been loaded."""
        if args.load_best_model_at_end and state.best_model_checkpoint is not None:
            path = Path(state.best_model_checkpoint, TRAINER_STATE_NAME)
            _set_epochs_trained(model, TrainerState.load_from_json(str(path)))


def _set_epochs_trained(model, state: TrainerState) -> None:
    # rounding may leave the sum of steps slightly below the whole epoch
    base_model(model).config.epochs_trained = int((state.epoch or 0.0) + 1e-6)
