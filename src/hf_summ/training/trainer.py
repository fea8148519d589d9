"""A Seq2SeqTrainer for summarization: token batches, the papers' optimizers, parts of the loss, and what is saved."""

from pathlib import Path
from typing import Any

import datasets
import numpy as np
import torch
from accelerate.data_loader import DataLoaderShard
from torch import nn
from torch.optim.lr_scheduler import LambdaLR
from transformers import PreTrainedModel, TrainerState
from transformers.trainer import TRAINER_STATE_NAME, TRAINING_ARGS_NAME
from transformers.trainer_utils import EvalLoopOutput

from hf_summ.common.files import write_atomically
from hf_summ.models.losses import smoothed_cross_entropy
from hf_summ.training.adapters import base_model, is_adapted
from hf_summ.training.arguments import SummarizationTrainingArguments
from hf_summ.training.batches import BatchOrder, pack_examples, pack_tokens, token_lengths
from hf_summ.training.callbacks import (
    BrightnessCallback,
    NonFiniteCallback,
    ResumableEarlyStopping,
    RunProgress,
    StartCallback,
    set_epochs_trained,
)
from hf_summ.training.cards import Card
from hf_summ.training.evaluating import RowwiseTrainer, takes
from hf_summ.training.optimization import build_schedule, parameter_groups, parse_learning_rates
from hf_summ.training.parallelism import name_shared_modules_once
from hf_summ.training.publishing import PRIVATE, RESULTS, hide_paths


class TokenLoss:
    """Loss for models that do not use `num_items_in_batch` themselves (BART, T5), so that accumulation is exact."""

    def __init__(self, smoothing: float):
        self.smoothing = smoothing

    def __call__(self, outputs, labels: torch.Tensor, num_items_in_batch: torch.Tensor | None = None) -> torch.Tensor:
        loss, nll = smoothed_cross_entropy(outputs["logits"], labels, self.smoothing, num_items_in_batch)
        outputs["loss_parts"] = {"nll": nll}
        return loss


class SummarizationTrainer(RowwiseTrainer):
    """A Seq2SeqTrainer that trains as the papers do and evaluates every row once.

    - Batches can be measured in tokens (`train_tokens_per_batch`, `eval_tokens_per_batch`), see `batches.py`.
    - `optimizer`, `learning_rates` and `schedule` are described in `optimization.py`.
    - The parts of the loss are logged beside it, and a loss or gradient that is not finite stops the run.
    - Evaluation is that of `RowwiseTrainer`.

    Attributes:
        progress: what is noted in checkpoints.
        applies_changes: whether a resumed training has the optimizer's settings and rates of its arguments rather than
            those of its checkpoint.
    """

    args: SummarizationTrainingArguments

    def __init__(self, model: PreTrainedModel, args: SummarizationTrainingArguments, **kwargs):
        if not takes(model, "num_items_in_batch"):
            kwargs.setdefault("compute_loss_func", TokenLoss(args.label_smoothing_factor))
        super().__init__(model, args, **kwargs)
        self._loss_parts: dict[str, torch.Tensor] = {}
        self._parts_since = 0
        self._finite = NonFiniteCallback(args)
        self.add_callback(self._finite)
        self.add_callback(BrightnessCallback())
        self.add_callback(StartCallback())
        self.progress = RunProgress()
        self.add_callback(self.progress)
        self.applies_changes = False
        self._loss_before: float | None = 0.0
        if args.early_stopping_patience is not None:
            self.add_callback(ResumableEarlyStopping(args.early_stopping_patience, args.early_stopping_threshold))
        if self.is_fsdp_enabled:
            name_shared_modules_once(self.model)
            # weights are gathered once a step: BERT on windows, and generating, call layers more often in one process
            # than in another, and processes that gather different layers would wait for each other for ever
            self.accelerator.state.fsdp_plugin.reshard_after_forward = False

    # optimizer and schedule

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        """The optimizer named in the arguments."""
        args = self.args
        # noam gives the whole rate, so the optimizer's own must be 1
        needs_own = args.optimizer is not None or args.learning_rates or args.schedule == "noam"
        if self.optimizer is not None or not needs_own:
            return super().create_optimizer(model)
        model = self.model if model is None else model
        learning_rate = 1.0 if args.schedule == "noam" else args.learning_rate
        rates = parse_learning_rates(args.learning_rates)
        groups = parameter_groups(model, learning_rate, rates, args.weight_decay, self.get_decay_parameter_names(model))
        if args.optimizer in ("adam", "adamw"):
            kind = torch.optim.Adam if args.optimizer == "adam" else torch.optim.AdamW
            self.optimizer = kind(groups, betas=(args.adam_beta1, args.adam_beta2), eps=args.adam_epsilon)
        elif args.optimizer == "adadelta":
            self.optimizer = torch.optim.Adadelta(groups, rho=args.adadelta_rho, eps=args.adam_epsilon)
        else:
            optimizer_class, settings = self.get_optimizer_cls_and_kwargs(args, model)
            self.optimizer = optimizer_class(groups, **settings)
        return self.optimizer

    def create_scheduler(self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None):
        """The schedule named in the arguments."""
        args = self.args
        if self.lr_scheduler is not None or args.schedule is None:
            return super().create_scheduler(num_training_steps, optimizer)
        optimizer = self.optimizer if optimizer is None else optimizer
        self.lr_scheduler = build_schedule(
            optimizer,
            args.schedule,
            warmup_steps=args.get_warmup_steps(num_training_steps),
            training_steps=num_training_steps,
            d_model=getattr(self.model.config, "d_model", None) or self.model.config.hidden_size,
            learning_rate=args.learning_rate,
            period=args.schedule_period,
            minimum_learning_rate=args.minimum_learning_rate,
            noam_scale=args.noam_scale,
        )
        self._created_lr_scheduler = True
        return self.lr_scheduler

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        """Load their states, and apply this run's settings to them if it changes them."""
        assert self.optimizer is not None
        options = [{name: group[name] for name in group if name != "params"} for group in self.optimizer.param_groups]
        scheduler: Any = self.lr_scheduler
        rates = getattr(scheduler, "base_lrs", [group["lr"] for group in options])
        try:
            super()._load_optimizer_and_scheduler(checkpoint)
        except ValueError as error:
            raise ValueError(
                f"{checkpoint}: its optimizer has the parameters in other groups ({error}): leave --learning_rates and "
                "--weight_decay as they were, or start another training with --model_name_or_path"
            ) from error
        if checkpoint is None or not self.applies_changes:
            return
        if isinstance(scheduler, LambdaLR):
            factors = [factor(scheduler.last_epoch) for factor in scheduler.lr_lambdas]
            scheduler.base_lrs = rates
            rates = [rate * factor for rate, factor in zip(rates, factors, strict=True)]
            scheduler._last_lr = rates
        for group, option, rate in zip(self.optimizer.param_groups, options, rates, strict=True):
            group.update({**option, "lr": rate})

    def _load_scaler(self, checkpoint: str | None) -> None:
        """Load the state of the scaler, unless this run goes on without one."""
        if self.accelerator.scaler is not None:
            super()._load_scaler(checkpoint)

    def _get_grad_norm(self, model: nn.Module, grad_norm=None):
        """The norm of the gradient, whose elements are clipped here: it is whole and in its own scale."""
        grad_norm = super()._get_grad_norm(model, grad_norm)
        # a scaler leaves such an update out, and tries with a lower scale
        if self.accelerator.scaler is None:
            self._finite.watch_gradient(grad_norm, self.state.global_step + 1)
        if self.args.max_grad_value is not None:
            nn.utils.clip_grad_value_(model.parameters(), self.args.max_grad_value)
        return grad_norm

    # batches

    def _get_dataloader(self, dataset, description: str, batch_size: int, *args, is_training: bool = False, **kwargs):
        budget = self.args.train_tokens_per_batch if is_training else self.args.eval_tokens_per_batch
        if is_training and budget is None:
            return super()._get_dataloader(dataset, description, batch_size, *args, is_training=True, **kwargs)
        sources, targets = self._padded_lengths(dataset)
        if budget is None:
            batches = pack_examples(sources, batch_size)
        else:
            batches = pack_tokens(sources, targets, budget, seed=self.args.seed)
        seed = self.args.data_seed if self.args.data_seed is not None else self.args.seed
        order = BatchOrder(
            batches,
            seed=seed if is_training else None,
            num_processes=self.accelerator.num_processes,
            process_index=self.accelerator.process_index,
            accumulation_steps=self.args.gradient_accumulation_steps if is_training else 1,
        )
        if is_training:
            self._examples_per_update = len(dataset) * order.num_processes * self.args.gradient_accumulation_steps
            self._examples_per_update = max(1, round(self._examples_per_update / len(order.batches)))
        # the order is already distributed over processes, so there is no accelerator.prepare to do it again
        return DataLoaderShard(
            dataset,
            device=self.accelerator.device,
            batch_sampler=order,
            collate_fn=self._get_collator_with_removed_columns(self.data_collator, description=description),
            num_workers=self.args.dataloader_num_workers,
            pin_memory=self.args.dataloader_pin_memory,
            persistent_workers=self.args.dataloader_persistent_workers,
            prefetch_factor=self.args.dataloader_prefetch_factor,
        )

    def get_total_train_batch_size(self, args) -> int:
        """Number of examples per update; its mean if batches are measured in tokens."""
        if args.train_tokens_per_batch is None:
            return super().get_total_train_batch_size(args)
        return self._examples_per_update

    def _padded_lengths(self, dataset: datasets.Dataset) -> tuple[np.ndarray, np.ndarray]:
        """Source and target length of every row, rounded up as the collator pads them."""
        multiple = getattr(self.data_collator, "pad_to_multiple_of", None) or 1
        columns = [token_lengths(dataset, name) for name in ("input_ids", "labels")]
        if getattr(self.data_collator, "pad_to_max_length", False):
            columns[0][:] = self.data_collator.max_source_length
            columns[1][:] = self.data_collator.max_target_length
        sources, targets = (-(-lengths // multiple) * multiple for lengths in columns)
        return sources, targets

    # loss

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        """The model's loss; its parts are kept for the next log entry."""
        if model.training and hasattr(base_model(self.model), "set_update"):
            base_model(self.model).set_update(self.state.global_step)
        loss, outputs = super().compute_loss(model, inputs, return_outputs=True, num_items_in_batch=num_items_in_batch)
        if model.training:
            self._finite.watch(loss, self.state.global_step + 1, outputs.get("loss_parts") or {})
            shared = self.args.average_tokens_across_devices and num_items_in_batch is not None
            scale = self.accelerator.num_processes if shared else 1
            if not self._loss_parts:
                self._parts_since = self.state.global_step
            for name, part in (outputs.get("loss_parts") or {}).items():
                self._loss_parts[name] = self._loss_parts.get(name, 0.0) + part.detach().float() * scale
        return (loss, outputs) if return_outputs else loss

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add the parts of the loss, as means over the updates since the last entry, to a training entry."""
        if "loss" in logs and self._loss_parts:
            updates = self.state.global_step - self._parts_since
            for name, total in sorted(self._loss_parts.items()):
                logs[name] = self.accelerator.reduce(total, reduction="mean").item() / updates
            self._loss_parts = {}
        whole = self._loss_sum() if "train_loss" in logs else None
        if whole is not None:
            logs["train_loss"] = whole / max(self.state.global_step, 1)
        super().log(logs, start_time)

    def train(self, *args, **kwargs):
        """Train, collecting the parts of the loss from here on; `train_loss` is the mean over the whole run."""
        self._loss_parts = {}
        self.progress.loss_sum = 0.0
        output = super().train(*args, **kwargs)
        return output._replace(training_loss=output.metrics["train_loss"])

    def _init_training_state(self, max_steps, *args, **kwargs):
        start = self.progress.start
        trained = super()._init_training_state(max_steps, *args, **kwargs)
        # transformers makes callbacks that have a state anew, and takes the intervals from the checkpoint
        (self.progress,) = (known for known in self.callback_handler.callbacks if isinstance(known, RunProgress))
        self.progress.start = start
        self.state.compute_steps(self.args, max_steps)
        noted = self.state.stateful_callbacks.get(RunProgress.__name__, {})
        self._loss_before = noted.get("attributes", {}).get("loss_sum")
        return trained

    def _loss_sum(self, since_log: float = 0.0) -> float | None:
        """The sum of the losses of all updates, if those before a resumption are known."""
        return None if self._loss_before is None else self._loss_before + self._total_loss_scalar + since_log

    def evaluation_loop(self, *args, **kwargs) -> EvalLoopOutput:
        """Evaluate, unless a loss or gradient was not finite and has spoiled the weights."""
        self._finite.check()
        return super().evaluation_loop(*args, **kwargs)

    def _run_epoch(self, *args, **kwargs) -> None:
        # transformers would make one more update after resuming a run that has ended
        if self.state.global_step >= self.state.max_steps or self.control.should_training_stop:
            self.control.should_training_stop = True
            return
        super()._run_epoch(*args, **kwargs)

    def _load_best_model(self) -> None:
        """Load the best checkpoint's weights, with the brightness that they were saved with."""
        super()._load_best_model()
        path = Path(str(self.state.best_model_checkpoint), TRAINER_STATE_NAME)
        set_epochs_trained(self.model, TrainerState.load_from_json(str(path)))

    # what is saved

    def _save_checkpoint(self, model, trial) -> None:
        """Save a checkpoint that says how far the run is."""
        since_log = self.accelerator.reduce(self._tr_loss.detach().clone(), reduction="mean").item()
        self.progress.loss_sum = self._loss_sum(since_log)
        super()._save_checkpoint(model, trial)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save the model: whole, also where the checkpoints of the run hold shards; never with NaN or infinity."""
        self._finite.check_weights(self.model, self.state.global_step)
        if self.is_fsdp_enabled and not _internal_call:
            self.accelerator.state.fsdp_plugin.set_state_dict_type("FULL_STATE_DICT")
        super().save_model(output_dir, _internal_call)

    def _save(self, output_dir: str | None = None, state_dict: dict | None = None) -> None:
        """Save transformers' files, with training_args.json in place of its pickle, which nothing reads.

        Checkpoints keep its optimizer.pt, scheduler.pt, scaler.pt and rng_state*.pth; it loads them with weights_only.
        """
        if output_dir is None or Path(output_dir) == Path(self.args.output_dir):
            # an upload in the background may still be reading the folder
            self._finish_current_push()
        super()._save(output_dir, state_dict)
        if self.args.should_save:
            folder = Path(self.args.output_dir if output_dir is None else output_dir)
            (folder / TRAINING_ARGS_NAME).unlink(missing_ok=True)
            if is_adapted(self.model):
                # PEFT saves the weights alone
                self.model.generation_config.save_pretrained(folder)
            write_atomically(folder / "training_args.json", self.args.to_json_string() + "\n")
            if self.args.push_to_hub:
                hide_paths(folder)

    def init_hf_repo(self, *args, **kwargs) -> None:
        """Create the repository on the Hub, which ignores what stays at home.

        That is what transformers pickles right before uploads, what tells of this machine, and, without
        `push_results`, texts of the corpus and event files.
        """
        super().init_hf_repo(*args, **kwargs)
        if self.is_world_process_zero():
            path = Path(self.args.output_dir) / ".gitignore"
            path.parent.mkdir(parents=True, exist_ok=True)
            lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
            private = () if self.args.push_results else RESULTS
            new = [line for line in (TRAINING_ARGS_NAME, *PRIVATE, *private) if line not in lines]
            if new:
                write_atomically(path, "\n".join([*lines, *new]) + "\n")

    def create_model_card(self, card: Card | None = None, **_) -> None:
        """Write the run's card, which `push_to_hub(card=card)` passes on; the pushes before its end have none yet."""
        if card is not None and self.is_world_process_zero():
            card.write(self.args.output_dir)

    def _issue_warnings_after_load(self, load_result) -> None:
        # a checkpoint has tied weights only once
        tied = getattr(self.model, "all_tied_weights_keys", {})
        load_result.missing_keys[:] = [name for name in load_result.missing_keys if name not in tied]
        super()._issue_warnings_after_load(load_result)
