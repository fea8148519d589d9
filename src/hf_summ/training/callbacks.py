"""Callbacks that watch over a run."""

import logging
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor
from torch.optim.lr_scheduler import LambdaLR
from transformers import EarlyStoppingCallback, TrainerCallback, TrainerState
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_callback import ExportableState

from hf_summ.training.adapters import base_model
from hf_summ.training.arguments import SummarizationTrainingArguments
from hf_summ.training.checkpoints import is_finite
from hf_summ.training.resuming import last_complete_checkpoint

logger = logging.getLogger(__name__)

_MANY_EPOCHS = 1000
_KL_ADVICE = (
    "if the KL is not finite, try --learning_rates 'latent_chain.(mean|log_variance)=1e-4' and kl_warmup_steps in "
    "--config_overrides, with --resume_from_checkpoint no"
)


class NonFiniteCallback(TrainerCallback):
    """Stops a run whose loss or gradient is NaN or infinite, naming the step and what to try.

    Both are checked one update later, when the device has them ready, so that training never waits for them. Evaluation
    and saving check immediately, so no checkpoint contains such weights.

    Raises:
        FloatingPointError: from the training loop.
    """

    def __init__(self, args: SummarizationTrainingArguments):
        self._args = args
        self._losses: list[tuple[int, torch.Tensor, Mapping[str, torch.Tensor]]] = []
        self._norms: list[tuple[int, torch.Tensor | float]] = []

    def watch(self, loss: torch.Tensor, step: int, parts: Mapping[str, torch.Tensor]) -> None:
        """Remember the loss of one batch of update `step`, and its parts by name."""
        self._losses.append((step, loss.detach(), parts))

    def watch_gradient(self, norm: torch.Tensor | float, step: int) -> None:
        """Remember the norm of the gradient of update `step`."""
        self._norms.append((step, norm))

    def check(self, before: int | None = None) -> None:
        """Check the losses and gradients of updates before `before`, or all."""
        losses = [entry for entry in self._losses if before is None or entry[0] < before]
        norms = [entry for entry in self._norms if before is None or entry[0] < before]
        self._losses, self._norms = self._losses[len(losses) :], self._norms[len(norms) :]
        for step, loss, parts in losses:
            if not torch.isfinite(loss).all():
                values = ", ".join(f"{name} {part.float().mean().item():.4g}" for name, part in sorted(parts.items()))
                values = f" ({values})" if values else ""
                advice = f"{_KL_ADVICE}; {self._advice()}" if "kl" in parts else self._advice()
                raise FloatingPointError(f"the loss is {loss.mean().item()} at step {step}{values}: {advice}")
        for step, norm in norms:
            if not math.isfinite(float(norm)):
                raise FloatingPointError(f"the norm of the gradient is {float(norm)} at step {step}: {self._advice()}")

    def check_weights(self, model: nn.Module, step: int) -> None:
        """Check a model's parameters; in a sharded model, this process's part of them."""
        for name, parameter in model.named_parameters():
            values = parameter.to_local() if isinstance(parameter, DTensor) else parameter
            if not is_finite(values):
                raise FloatingPointError(f"{name} is not finite after step {step}: {self._advice()}")

    def on_train_begin(self, args, state, control, **kwargs):
        """Forget an earlier run."""
        self._losses, self._norms = [], []

    def on_step_end(self, args, state, control, **kwargs):
        """Check the previous update, and this one too if the loop is about to log, evaluate, save or stop."""
        at_once = control.should_log or control.should_evaluate or control.should_save or control.should_training_stop
        self.check(before=None if at_once else state.global_step)

    def on_epoch_end(self, args, state, control, **kwargs):
        """Check everything, as saving may follow."""
        self.check()

    def _advice(self) -> str:
        """What to try; each flag has an effect in the run that goes on."""
        rate = "--noam_scale" if self._args.schedule == "noam" else "--learning_rate"
        half = ", and --bf16 or full precision instead of --fp16" if self._args.fp16 else ""
        checkpoint = last_complete_checkpoint(self._args.output_dir)
        if checkpoint is None:
            return f"try a lower {rate}, more --warmup_steps, and a smaller --max_grad_norm{half}"
        return (
            f"try a lower {rate}, a smaller --max_grad_norm, and another --data_seed{half}, with --accept_changes, "
            f"which goes on from {checkpoint}, from before that step"
        )


class RunProgress(TrainerCallback, ExportableState):
    """What each checkpoint records of its run, beside transformers' state; logs at the start how long it is.

    A resumed run has the intervals of its arguments, such as `save_steps`, not of its checkpoint. A warning is logged
    if documents are seen thousands of times, or if the training ends before its learning rate has warmed up.

    Attributes:
        start: which start in the output folder it belongs to, see `hf_summ.training.resuming.RunRecord.start`.
        loss_sum: the sum of the losses of all updates; None if it is not known.
        since: the sum of those that are not in it yet, in this process.
        seconds: what all updates took, without evaluations, None if it is not known: CPU seconds of the process where
            the device is a CPU, which other processes hardly prolong, or else wall seconds.
    """

    def __init__(self):
        self.start = 1
        self.loss_sum: float | None = 0.0
        self.since = torch.zeros(())
        self.seconds: float | None = 0.0
        self._clock, self._before = time.process_time, 0.0

    def state(self) -> dict:
        """What a checkpoint contains, from which transformers makes the callback again."""
        return {"args": {}, "attributes": {"start": self.start, "loss_sum": self.loss_sum, "seconds": self.seconds}}

    def on_train_begin(self, args, state, control, **kwargs):
        """Take the sums from the checkpoint, if any, and the intervals from the arguments; log updates and epochs."""
        # a checkpoint may be of another trainer, but transformers expects the state there
        noted = state.stateful_callbacks.setdefault(type(self).__name__, {}).get("attributes", {})
        self.loss_sum, self.seconds = (
            noted.get(name) if state.global_step else 0.0 for name in ("loss_sum", "seconds")
        )
        self._clock = time.process_time if args.device.type == "cpu" else time.perf_counter
        self._before = self._clock()
        self.since = torch.zeros((), device=args.device)
        state.compute_steps(args, state.max_steps)
        epochs = state.num_train_epochs
        done = f", of which {state.global_step:,} are done" if state.global_step else ""
        logger.info(f"training: {state.max_steps:,} updates in {epochs:,} epoch{'' if epochs == 1 else 's'}{done}")
        warmup = args.get_warmup_steps(state.max_steps)
        if warmup > state.max_steps:
            logger.warning(
                f"the learning rate warms up for {warmup:,} updates, but the training has {state.max_steps:,}: it "
                "never reaches the rate that was asked for; lower --warmup_steps, or train longer"
            )
        if epochs >= _MANY_EPOCHS:
            logger.warning(
                f"{epochs:,} epochs: each document is seen {epochs:,} times; if that is too often, lower --max_steps "
                "or --num_train_epochs, or use --early_stopping_patience"
            )

    def on_step_end(self, args, state, control, **kwargs):
        """Count the seconds of an update."""
        before, self._before = self._before, self._clock()
        if self.seconds is not None:
            self.seconds += self._before - before

    def on_evaluate(self, args, state, control, **kwargs):
        """Leave out those of an evaluation."""
        self._before = self._clock()


class ChangesCallback(TrainerCallback):
    """Lets a resumed training go on with the settings and rates of its arguments, not with those of its checkpoint.

    Args:
        optimizer, scheduler: as made from the arguments, before the checkpoint is loaded.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, scheduler: Any):
        groups = optimizer.param_groups
        self._options = [{name: group[name] for name in group if name != "params"} for group in groups]
        self._rates = list(getattr(scheduler, "base_lrs", [group["lr"] for group in groups]))

    def on_train_begin(self, args, state, control, optimizer: Any = None, lr_scheduler=None, **kwargs):
        """Apply them to what was loaded from the checkpoint."""
        rates = self._rates
        if isinstance(lr_scheduler, LambdaLR):
            lr_scheduler.base_lrs = rates
            rates = [
                rate * factor(lr_scheduler.last_epoch)
                for rate, factor in zip(rates, lr_scheduler.lr_lambdas, strict=True)
            ]
            lr_scheduler._last_lr = rates
        for group, option, rate in zip(optimizer.param_groups, self._options, rates, strict=True):
            group.update({**option, "lr": rate})


class ResumableEarlyStopping(EarlyStoppingCallback):
    """transformers' early stopping, whose patience starts when the warm-up ends.

    After resuming it uses the patience of this run, not of the one before. A run whose patience was already exhausted
    stays stopped.
    """

    def on_train_begin(self, args, state, control, **kwargs):
        """Apply this run's settings; the count comes from the checkpoint."""
        super().on_train_begin(args, state, control, **kwargs)
        # a checkpoint may be of a run without early stopping, but transformers expects its state there
        state.stateful_callbacks.setdefault(type(self).__name__, {})
        self.early_stopping_patience = args.early_stopping_patience
        self.early_stopping_threshold = args.early_stopping_threshold
        control.should_training_stop = self.early_stopping_patience_counter >= self.early_stopping_patience

    def on_evaluate(self, args, state, control, metrics, **kwargs):
        """Counts an evaluation without a better score; none is counted during the warm-up."""
        if state.global_step >= args.get_warmup_steps(state.max_steps):
            super().on_evaluate(args, state, control, metrics, **kwargs)


class BrightnessCallback(TrainerCallback):
    """Sets the number of trained epochs in a model whose brightness falls with it.

    The number follows from the trainer's state alone, so that a resumed run goes on as it would have. It changes as an
    epoch's last update is made, before an evaluation or a checkpoint at that place.
    """

    def on_train_begin(self, args, state, control, model=None, **kwargs):
        """Set the number where a run starts or goes on."""
        _set_epochs_trained(model, state)

    def on_step_end(self, args, state, control, model=None, **kwargs):
        """Set the number after an update."""
        _set_epochs_trained(model, state)

    def on_train_end(self, args, state, control, model=None, **kwargs):
        """Set the number that the best weights were saved with, if they have just been loaded."""
        if args.load_best_model_at_end and state.best_model_checkpoint is not None:
            path = Path(state.best_model_checkpoint, TRAINER_STATE_NAME)
            _set_epochs_trained(model, TrainerState.load_from_json(str(path)))


def _set_epochs_trained(model, state: TrainerState) -> None:
    """Set the number of whole epochs in a model's config."""
    # a sum of steps may be a little less than the epoch
    base_model(model).config.epochs_trained = int((state.epoch or 0.0) + 1e-6)
