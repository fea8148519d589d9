"""Callbacks that check a run and record its progress."""

import logging
import math
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import SupportsFloat

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

# A run with at least this number of epochs gets a warning, as it is probably longer than the user intends.
_MANY_EPOCHS = 1000
_KL_ADVICE = (
    "if the KL is not finite, try --learning_rates 'latent_chain.(mean|log_variance)=1e-4' and kl_warmup_steps in "
    "--config_overrides"
)


@dataclass(frozen=True)
class _WatchedValue:
    """A loss or gradient norm that is still to be checked.

    Args:
        step: the number of its update, from 1.
        name: "loss" or "gradient norm", for messages.
        value: a tensor that the device may not have computed yet, or a number.
        components: the parts of a loss by name.
    """

    step: int
    name: str
    value: SupportsFloat
    components: Mapping[str, torch.Tensor]


class NonFiniteCallback(TrainerCallback):
    """Stops a run whose loss or gradient is NaN or infinite; the error names the step and what to try.

    The loss and the gradient norm of an update are checked one update later. The device has computed them by then, so
    training never waits. Before an evaluation and before saving, all values are checked immediately, so no checkpoint
    contains weights that are not finite.

    Raises:
        FloatingPointError: from the training loop.
    """

    def __init__(self, args: SummarizationTrainingArguments):
        self._args = args
        self._pending: list[_WatchedValue] = []

    def watch(
        self, name: str, value: SupportsFloat, step: int, components: Mapping[str, torch.Tensor] | None = None
    ) -> None:
        """Keep a loss or gradient norm of update `step`, and the loss's components by name, for the next check."""
        self._pending.append(_WatchedValue(step, name, value, components or {}))

    def check(self, before: int | None = None) -> None:
        """Check the losses and gradient norms that are not checked yet.

        Args:
            before: the number of an update. Only the values of earlier updates are checked. By default, the values of
                all updates are checked.

        Raises:
            FloatingPointError: a value is NaN or infinite.
        """
        # updates are watched in their order, so what is due stands first
        due = []
        for watched in self._pending:
            if before is None or watched.step < before:
                due.append(watched)
        self._pending = self._pending[len(due) :]
        for watched in due:
            if not math.isfinite(float(watched.value)):
                raise FloatingPointError(self._message(watched))

    def check_weights(self, model: nn.Module, step: int) -> None:
        """Check that all parameters are finite; if the model is sharded, only the shards of this process.

        Args:
            model: the model.
            step: the number of updates so far, for the message.

        Raises:
            FloatingPointError: a parameter has a value that is NaN or infinite.
        """
        for name, parameter in model.named_parameters():
            values = parameter.to_local() if isinstance(parameter, DTensor) else parameter
            if not is_finite(values):
                raise FloatingPointError(f"{name} is not finite after step {step}: {self._advice()}")

    def on_train_begin(self, args, state, control, **kwargs):
        """Discard the values of an earlier run."""
        self._pending = []

    def on_step_end(self, args, state, control, **kwargs):
        """Check the values of earlier updates, and also of this update if the loop will log, evaluate, save or stop."""
        pauses = control.should_log or control.should_evaluate or control.should_save or control.should_training_stop
        if pauses:
            self.check()
        else:
            self.check(before=state.global_step)

    def on_epoch_end(self, args, state, control, **kwargs):
        """Check everything, as saving may follow."""
        self.check()

    def _message(self, watched: _WatchedValue) -> str:
        """What is not finite, at which step and with which components, and what to try."""
        message = f"the {watched.name} is {float(watched.value)} at step {watched.step}"
        means = []
        for name, component in sorted(watched.components.items()):
            means.append(f"{name} {component.float().mean():.4g}")
        if means:
            message += f" ({', '.join(means)})"
        if "kl" in watched.components:
            return f"{message}: {_KL_ADVICE}; {self._advice()}"
        return f"{message}: {self._advice()}"

    def _advice(self) -> str:
        """What to try, in a new run: the interrupted run could resume only with the same settings."""
        rate_flag = "--noam_scale" if self._args.schedule == "noam" else "--learning_rate"
        advice = (
            f"start over, with --resume_from_checkpoint no, a lower {rate_flag}, more --warmup_steps, and a smaller "
            "--max_grad_norm"
        )
        if self._args.fp16:
            advice += ", and --bf16 or full precision instead of --fp16"
        return advice


class RunProgress(TrainerCallback, ExportableState):
    """Saves a run's mean loss and duration in its checkpoints, and logs the length of the run at its start.

    A resumed run has the intervals of its arguments, such as `save_steps`, and not those of its checkpoint.

    Attributes:
        loss_sum: the sum of the losses of all updates; None if the checkpoint did not have it.
        unsummed_loss: the sum of this process's losses that are not in `loss_sum` yet, a scalar tensor.
        seconds: the duration of all updates without evaluations; None if the checkpoint did not have it. On a CPU,
            these are CPU seconds of this process, which other processes hardly affect; otherwise wall-clock seconds.
    """

    def __init__(self):
        self.loss_sum: float | None = 0.0
        self.unsummed_loss = torch.zeros(())
        self.seconds: float | None = 0.0
        self._clock = time.process_time
        # the clock at the end of the last update or evaluation
        self._last_time = 0.0

    def state(self) -> dict:
        """The state in a checkpoint, from which transformers restores the callback."""
        return {"args": {}, "attributes": {"loss_sum": self.loss_sum, "seconds": self.seconds}}

    def on_train_begin(self, args, state, control, **kwargs):
        """Take the sums from the checkpoint, if any, and the intervals from the arguments; log updates and epochs.

        A warning is logged if the warm-up is longer than the run, or if the run has many epochs.
        """
        # the checkpoint may come from another trainer, but transformers expects this state in it
        saved = state.stateful_callbacks.setdefault(type(self).__name__, {}).get("attributes", {})
        if state.global_step > 0:
            self.loss_sum = saved.get("loss_sum")
            self.seconds = saved.get("seconds")
        else:
            self.loss_sum = 0.0
            self.seconds = 0.0
        self._clock = time.process_time if args.device.type == "cpu" else time.perf_counter
        self._last_time = self._clock()
        self.unsummed_loss = torch.zeros((), device=args.device)
        state.compute_steps(args, state.max_steps)
        epochs = state.num_train_epochs
        message = f"training: {state.max_steps:,} updates"
        # transformers gives a stream, whose rows it cannot count, this number of epochs
        is_stream = epochs == sys.maxsize
        if epochs == 1:
            message += " in 1 epoch"
        elif not is_stream:
            message += f" in {epochs:,} epochs"
        if state.global_step > 0:
            message += f", of which {state.global_step:,} are done"
        logger.info(message)
        warmup = args.get_warmup_steps(state.max_steps)
        if warmup > state.max_steps:
            logger.warning(
                f"the learning rate warms up for {warmup:,} updates, but the run has {state.max_steps:,}: it never "
                "reaches the given rate; lower --warmup_steps, or train longer"
            )
        if epochs >= _MANY_EPOCHS and not is_stream:
            logger.warning(
                f"{epochs:,} epochs: each document is seen {epochs:,} times; if that is too often, lower --max_steps "
                "or --num_train_epochs, or use --early_stopping_patience"
            )

    def on_step_end(self, args, state, control, **kwargs):
        """Add the duration of an update."""
        now = self._clock()
        if self.seconds is not None:
            self.seconds += now - self._last_time
        self._last_time = now

    def on_evaluate(self, args, state, control, **kwargs):
        """Exclude the duration of an evaluation."""
        self._last_time = self._clock()


class ResumableEarlyStopping(EarlyStoppingCallback):
    """transformers' early stopping, but evaluations during warm-up do not count, and a resumed run stops again.

    Otherwise, a run that was killed after its patience was exhausted would train further.
    """

    def on_train_begin(self, args, state, control, **kwargs):
        """Stop immediately if the checkpoint's run had exhausted the patience."""
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


class BrightnessCallback(TrainerCallback, ExportableState):
    """Sets the number of trained epochs in the config of a Highlight-Transformer, whose brightness decays with it.

    The brightness is the factor of the key phrases' importance. The number is that of the model at the start of the
    run, plus the epochs of the trainer's state. A checkpoint has the first number, so resuming does not change the sum.
    The number increases at an epoch's last update, before an evaluation or a checkpoint at that step. Where a stream
    ends is known only after its last update, so the number increases before the next one.

    Attributes:
        earlier_epochs: the number of epochs for which the model was trained before this run.
    """

    def __init__(self):
        self.earlier_epochs = 0

    def state(self) -> dict:
        """The state in a checkpoint, from which transformers restores the callback."""
        return {"args": {}, "attributes": {"earlier_epochs": self.earlier_epochs}}

    def on_train_begin(self, args, state, control, model=None, **kwargs):
        """Take the epochs before this run from the checkpoint, or else from the model, and set the number."""
        # transformers expects this state in the checkpoint, which another trainer may have saved
        saved = state.stateful_callbacks.setdefault(type(self).__name__, {}).get("attributes", {})
        if state.global_step > 0:
            self.earlier_epochs = saved.get("earlier_epochs", 0)
        else:
            self.earlier_epochs = base_model(model).config.epochs_trained
        self._set_epochs_trained(model, state)

    def on_step_begin(self, args, state, control, model=None, **kwargs):
        """Set the number before an update."""
        self._set_epochs_trained(model, state)

    def on_step_end(self, args, state, control, model=None, **kwargs):
        """Set the number after an update."""
        self._set_epochs_trained(model, state)

    def on_train_end(self, args, state, control, model=None, **kwargs):
        """Set the number of epochs at the best checkpoint, if its weights have just been loaded."""
        if args.load_best_model_at_end and state.best_model_checkpoint is not None:
            path = Path(state.best_model_checkpoint, TRAINER_STATE_NAME)
            self._set_epochs_trained(model, TrainerState.load_from_json(str(path)))

    def _set_epochs_trained(self, model, state: TrainerState) -> None:
        """Set the number of whole epochs that were trained, before this run and in it, in the model's config."""
        # rounding may leave the sum of an epoch's steps slightly below a whole number
        epochs = int((state.epoch or 0.0) + 1e-6)
        base_model(model).config.epochs_trained = self.earlier_epochs + epochs
