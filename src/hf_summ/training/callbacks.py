"""Callbacks that watch over a run."""

from collections.abc import Mapping

import torch
from transformers import EarlyStoppingCallback, TrainerCallback, TrainerState
from transformers.trainer_callback import ExportableState

from hf_summ.training.evaluating import base_model

_ADVICE = (
    "try a lower --learning_rate (or --noam_scale), more --warmup_steps, a smaller --max_grad_norm, and --bf16 or full "
    "precision instead of --fp16; the last checkpoint is from before that step"
)

_KL_ADVICE = (
    "if the KL is not finite, try --learning_rates 'latent_chain.(mean|log_variance)=1e-4' and kl_warmup_steps in "
    "--config_overrides"
)


class NonFiniteLossCallback(TrainerCallback):
    """Stops a run whose loss is NaN or infinite, naming the step and what to try.

    A loss is checked one update later, when the device has it ready, so that training never waits for it. Evaluation
    and saving check immediately, so no checkpoint contains such weights.

    Raises:
        FloatingPointError: from the training loop.
    """

    def __init__(self):
        self._watched: list[tuple[int, torch.Tensor, Mapping[str, torch.Tensor]]] = []

    def watch(self, loss: torch.Tensor, step: int, parts: Mapping[str, torch.Tensor]) -> None:
        """Remember the loss of one batch of update `step`, and its parts by name."""
        self._watched.append((step, loss.detach(), parts))

    def check(self, before: int | None = None) -> None:
        """Check the losses of updates before `before`, or all."""
        due = [entry for entry in self._watched if before is None or entry[0] < before]
        self._watched = self._watched[len(due) :]
        for step, loss, parts in due:
            if not torch.isfinite(loss).all():
                told = ", ".join(f"{name} {part.float().mean().item():.4g}" for name, part in sorted(parts.items()))
                told = f" ({told})" if told else ""
                advice = f"{_KL_ADVICE}; {_ADVICE}" if "kl" in parts else _ADVICE
                raise FloatingPointError(f"the loss is {loss.mean().item()} at step {step}{told}: {advice}")

    def on_train_begin(self, args, state, control, **kwargs):
        """Forget an earlier run."""
        self._watched = []

    def on_step_end(self, args, state, control, **kwargs):
        """Check the previous update, and this one too if the loop is about to log, evaluate, save or stop."""
        at_once = control.should_log or control.should_evaluate or control.should_save or control.should_training_stop
        self.check(before=None if at_once else state.global_step)

    def on_epoch_end(self, args, state, control, **kwargs):
        """Check everything, as saving may follow."""
        self.check()


class RunProgress(TrainerCallback, ExportableState):
    """What each checkpoint says of its run, beside what transformers notes.

    Attributes:
        start: which start in the output folder it belongs to, see `hf_summ.training.records.RunRecord.start`.
        loss_sum: the sum of the losses of all updates; None if it is not known.
    """

    def __init__(self):
        self.start = 1
        self.loss_sum: float | None = 0.0

    def state(self) -> dict:
        """What a checkpoint contains, from which transformers makes the callback again."""
        return {"args": {}, "attributes": {"start": self.start, "loss_sum": self.loss_sum}}


class ResumableEarlyStopping(EarlyStoppingCallback):
    """transformers' early stopping, whose patience starts when the warm-up ends.

    After resuming it uses the patience of this run, not of the one before. A run whose patience was already exhausted
    stays stopped.
    """

    def on_train_begin(self, args, state, control, **kwargs):
        """Apply this run's settings; the count comes from the checkpoint."""
        super().on_train_begin(args, state, control, **kwargs)
        self.early_stopping_patience = args.early_stopping_patience
        self.early_stopping_threshold = args.early_stopping_threshold
        control.should_training_stop = self.early_stopping_patience_counter >= self.early_stopping_patience

    def on_evaluate(self, args, state, control, metrics, **kwargs):
        """Counts an evaluation without a better score; none is counted during the warm-up."""
        if state.global_step >= args.get_warmup_steps(state.max_steps):
            super().on_evaluate(args, state, control, metrics, **kwargs)


class BrightnessCallback(TrainerCallback):
    """Tells a model whose brightness falls with the epochs how many it has been trained for.

    The number follows from the trainer's state alone, so that a resumed run goes on as it would have. It changes as an
    epoch's last update is made, before an evaluation or a checkpoint at that place.
    """

    def on_train_begin(self, args, state, control, model=None, **kwargs):
        """Set the number where a run starts or goes on."""
        set_epochs_trained(model, state)

    def on_step_end(self, args, state, control, model=None, **kwargs):
        """Set the number after an update."""
        set_epochs_trained(model, state)


def set_epochs_trained(model, state: TrainerState) -> None:
    """Set the number of whole epochs in a model's config, if its brightness depends on it."""
    config = base_model(model).config
    if hasattr(config, "epochs_trained"):
        # a sum of steps may be a little less than the epoch
        config.epochs_trained = int((state.epoch or 0.0) + 1e-6)
