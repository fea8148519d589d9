"""A Seq2SeqTrainer for summarization: token batches, the papers' optimizers, loss components, and saving."""

import logging
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import torch
from accelerate.data_loader import DataLoaderShard
from torch import nn
from torch.utils.data import DataLoader
from transformers import PreTrainedModel
from transformers.trainer import TRAINING_ARGS_NAME
from transformers.trainer_utils import EvalLoopOutput, RemoveColumnsCollator

from hf_summ.checkpoints.adapters import base_model, is_adapted, save_settings, takes
from hf_summ.common.files import share, write_atomically
from hf_summ.common.processes import TERMINATED
from hf_summ.common.records import finite
from hf_summ.data import SummarizationCollator
from hf_summ.models.checks import IGNORED_LABEL
from hf_summ.models.layers_copying import smoothed_cross_entropy
from hf_summ.runtimes.any_model import input_names
from hf_summ.training.arguments import DataArguments, SummarizationTrainingArguments
from hf_summ.training.checks import asks_for_fsdp, parse_learning_rates
from hf_summ.training.loop.callbacks import BrightnessCallback, NonFiniteCallback, ResumableEarlyStopping, RunProgress
from hf_summ.training.loop.evaluation import RowwiseTrainer
from hf_summ.training.loop.rewards import Reward, rouge_rewards, sampled_loss
from hf_summ.training.loop.shared_weights import (
    expect_tied_weights_once,
    name_shared_modules_once,
    sharded_units,
    share_modules,
    share_noise,
)
from hf_summ.training.model import Built
from hf_summ.training.optimization import build_schedule, parameter_groups
from hf_summ.training.results.privacy import PRIVATE, hide_paths, uploads_without
from hf_summ.training.results.reports import Scorer, score
from hf_summ.training.rows.batches import BatchOrder, pack_examples, pack_tokens, token_lengths

logger = logging.getLogger(__name__)


def _token_loss(outputs, labels: torch.Tensor, num_items_in_batch=None, smoothing: float = 0.0) -> torch.Tensor:
    """The loss of models that do not use `num_items_in_batch` (BART, T5), which makes accumulation exact."""
    loss, nll = smoothed_cross_entropy(outputs["logits"], labels, smoothing, num_items_in_batch)
    outputs["loss_parts"] = {"nll": nll}
    return loss


class SummarizationTrainer(RowwiseTrainer):
    """A Seq2SeqTrainer that trains like the papers and evaluates every row once.

    - Batches can be measured in tokens (`train_tokens_per_batch`, `eval_tokens_per_batch`), see `batches.py`.
    - The loss of an update is reduced over its target tokens or its documents (`loss_reduction`).
    - `optimizer`, `learning_rates` and `schedule` are described in `optimization.py`.
    - The loss components are logged with the loss, and a loss or gradient that is not finite stops the run.
    - Sampled summaries are rewarded as in `rewards.py`, and evaluation is that of `RowwiseTrainer`.

    Attributes:
        reward: the rewards of sampled summaries; by default their English ROUGE.
    """

    args: SummarizationTrainingArguments
    reward: Reward = staticmethod(rouge_rewards)

    def __init__(self, model: PreTrainedModel, args: SummarizationTrainingArguments, **kwargs):
        if not takes(model, "num_items_in_batch"):
            kwargs.setdefault("compute_loss_func", partial(_token_loss, smoothing=args.label_smoothing_factor))
        if isinstance(kwargs.get("train_dataset"), datasets.IterableDataset):
            # each process reads the whole stream and keeps its share; otherwise accelerate would read it in one process
            # and divide its batches, which fails if they differ in length
            config = args.accelerator_config
            config.dispatch_batches = bool(config.dispatch_batches)
        # transformers replaces it for training
        self._use_cache = getattr(model.config, "use_cache", args.use_cache)
        super().__init__(model, args, **kwargs)
        model.register_load_state_dict_post_hook(expect_tied_weights_once)
        # sums of the loss's components since the last log entry, and its step
        self._components: dict[str, torch.Tensor] = {}
        self._logged_step = 0
        self._items_per_token: torch.Tensor | float = 1.0
        self._finite = NonFiniteCallback(args)
        self.add_callback(self._finite)
        if hasattr(base_model(model).config, "epochs_trained"):
            self.add_callback(BrightnessCallback())
        self.add_callback(RunProgress())
        if args.neftune_noise_alpha is not None:
            share_noise(base_model(model))
        if args.early_stopping_patience is not None:
            self.add_callback(ResumableEarlyStopping(args.early_stopping_patience))
        if self.is_fsdp_enabled:
            share_modules(self.model)
            plugin = self.accelerator.state.fsdp_plugin
            if plugin.transformer_cls_names_to_wrap is None:
                plugin.transformer_cls_names_to_wrap = sharded_units(self.model)
            name_shared_modules_once(self.model)
            # gather weights once per step: BERT on windows, and generation, call layers a different number of times in
            # each process, and processes that gather different layers would deadlock
            plugin.reshard_after_forward = False

    # optimizer and schedule

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        """The optimizer named in the arguments."""
        args = self.args
        # noam gives the whole rate, so the optimizer's must be 1
        needs_own = args.optimizer is not None or args.learning_rates or args.schedule == "noam"
        if self.optimizer is not None or not needs_own:
            return super().create_optimizer(model)
        model = self.model if model is None else model
        learning_rate = 1.0 if args.schedule == "noam" else args.learning_rate
        rates = parse_learning_rates(args.learning_rates)
        groups = parameter_groups(model, learning_rate, rates, args.weight_decay, self.get_decay_parameter_names(model))
        if args.optimizer in ("adam", "adamw"):
            adam = torch.optim.Adam if args.optimizer == "adam" else torch.optim.AdamW
            betas = args.adam_beta1, args.adam_beta2
            # on a CPU a quarter of the time, some percent of an update
            self.optimizer = adam(groups, betas=betas, eps=args.adam_epsilon, fused=True)
        elif args.optimizer == "adadelta":
            self.optimizer = torch.optim.Adadelta(groups, rho=args.adadelta_rho, eps=args.adam_epsilon)
        else:
            optimizer_class, settings = self.get_optimizer_cls_and_kwargs(args, model)
            self.optimizer = optimizer_class(groups, **settings)
        return self.optimizer

    @staticmethod
    def get_optimizer_cls_and_kwargs(args: SummarizationTrainingArguments, model: PreTrainedModel | None = None):
        """transformers' optimizer for `--optim` and its settings, and the start of Adagrad's accumulator."""
        optimizer_class, settings = RowwiseTrainer.get_optimizer_cls_and_kwargs(args, model)
        if optimizer_class is torch.optim.Adagrad:
            settings["initial_accumulator_value"] = args.adagrad_accumulator
        return optimizer_class, settings

    def create_scheduler(self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None):
        """The schedule named in the arguments."""
        args = self.args
        optimizer = self.optimizer if optimizer is None else optimizer
        if self.lr_scheduler is None and args.schedule is not None:
            d_model = getattr(self.model.config, "d_model", None) or self.model.config.hidden_size
            self.lr_scheduler = build_schedule(optimizer, args, num_training_steps, d_model)
        return super().create_scheduler(num_training_steps, optimizer)

    def _get_grad_norm(self, model: nn.Module, grad_norm=None):
        """The gradient norm; the gradient's elements are clipped here, where it is complete and unscaled."""
        grad_norm = super()._get_grad_norm(model, grad_norm)
        # a scaler skips such an update and lowers its scale
        if self.accelerator.scaler is None:
            self._finite.watch("gradient norm", grad_norm, self.state.global_step + 1)
        if self.args.max_grad_value is not None:
            nn.utils.clip_grad_value_(model.parameters(), self.args.max_grad_value)
        return grad_norm

    # batches

    def get_train_dataloader(self) -> DataLoader:
        """The training batches: by number of tokens if the arguments set it, otherwise transformers' by examples."""
        args, budget = self.args, self.args.train_tokens_per_batch
        if budget is None:
            return super().get_train_dataloader()
        batches = pack_tokens(*self._padded_lengths(self.train_dataset), budget, seed=args.seed)
        seed = args.seed if args.data_seed is None else args.data_seed
        loader = self._loader(self.train_dataset, batches, seed, args.gradient_accumulation_steps)
        examples = len(self.train_dataset) * self.accelerator.num_processes * args.gradient_accumulation_steps
        self._examples_per_update = max(1, round(examples / len(loader.batch_sampler.batches)))
        return loader

    def get_eval_dataloader(self, eval_dataset: str | datasets.Dataset | None = None) -> DataLoader:
        """The evaluation batches, of rows of similar length."""
        dataset = self.eval_dataset if eval_dataset is None else eval_dataset
        dataset = self.eval_dataset[dataset] if isinstance(dataset, str) else dataset
        sources, targets = self._padded_lengths(dataset)
        budget = self.args.eval_tokens_per_batch
        if budget is None:
            return self._loader(dataset, pack_examples(sources, self.args.eval_batch_size))
        return self._loader(dataset, pack_tokens(sources, targets, budget, seed=self.args.seed))

    def get_test_dataloader(self, test_dataset: datasets.Dataset) -> DataLoader:
        """The same batches as for evaluation."""
        return self.get_eval_dataloader(test_dataset)

    def _loader(
        self, dataset: datasets.Dataset, batches: list[list[int]], seed: int | None = None, accumulation_steps: int = 1
    ) -> Any:
        """A loader of this process's batches, without columns that the model does not take."""
        args, accelerator = self.args, self.accelerator
        collator = self.data_collator
        if args.remove_unused_columns:
            columns = [*(input_names(self.model) or ()), *self.label_names]
            collator = RemoveColumnsCollator(collator, columns)
        # no accelerator.prepare: the batches are already distributed over processes
        return DataLoaderShard(
            dataset,
            device=accelerator.device,
            batch_sampler=BatchOrder(
                batches, seed, accelerator.num_processes, accelerator.process_index, accumulation_steps
            ),
            collate_fn=collator,
            num_workers=args.dataloader_num_workers,
            pin_memory=args.dataloader_pin_memory,
            persistent_workers=args.dataloader_persistent_workers,
            prefetch_factor=args.dataloader_prefetch_factor,
        )

    def get_total_train_batch_size(self, args) -> int:
        """Number of examples per update; the mean number if batches are measured in tokens."""
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

    def get_batch_samples(self, epoch_iterator, num_batches, device):
        """The batches of an update, and the divisor of their loss: the number of target tokens or of documents."""
        batches, tokens = super().get_batch_samples(epoch_iterator, num_batches, device)
        reduction = self.args.loss_reduction
        if reduction == "tokens":
            return batches, tokens
        # transformers counts tokens over all processes; with one token per summary, it counts documents
        firsts = ({"labels": batch["labels"][:, :1]} for batch in batches)
        _, documents = super().get_batch_samples(firsts, len(batches), device)
        if reduction == "documents":
            self._items_per_token = documents / tokens
        return batches, documents

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        """The model's loss; its components are kept for the next log entry."""
        if model.training and hasattr(base_model(self.model), "set_update"):
            base_model(self.model).set_update(self.state.global_step)
        batch = dict(inputs)
        if self.args.loss_reduction == "document_means" and num_items_in_batch is not None:
            # each row of tokens is divided by their number, and by that of the update's documents
            tokens = (batch["labels"] != IGNORED_LABEL).sum(1, keepdim=True).clamp(min=1)
            num_items_in_batch = tokens * num_items_in_batch
        loss, outputs = super().compute_loss(model, inputs, return_outputs=True, num_items_in_batch=num_items_in_batch)
        if model.training:
            components = dict(outputs.get("loss_parts") or {})
            shared = self.args.average_tokens_across_devices and num_items_in_batch is not None
            processes = self.accelerator.num_processes if shared else 1
            if self.args.reward_samples is not None:
                policy, reward = sampled_loss(self, model, batch, self.reward, num_items_in_batch)
                loss = torch.lerp(loss, policy * processes, self.args.reward_share)
                components["reward"] = reward
            self._finite.watch("loss", loss.detach(), self.state.global_step + 1, components)
            self.progress.since += loss.detach()
            # log entries are per token, whatever divides the loss; means of documents are already
            scale = self._items_per_token * processes
            if not self._components:
                self._logged_step = self.state.global_step
            for name, component in components.items():
                self._components[name] = self._components.get(name, 0.0) + component.detach().float() * scale
        return (loss, outputs) if return_outputs else loss

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add the loss components to a training entry, as means over the updates since the last entry.

        `train_loss` is the mean over the whole run, if the losses before resuming are known.
        """
        if "loss" in logs and self._components:
            updates = self.state.global_step - self._logged_step
            for name, total in sorted(self._components.items()):
                logs[name] = self.accelerator.reduce(total, reduction="mean").item() / updates
            self._components = {}
        if "loss" in logs or "train_loss" in logs:
            self._note_loss()
        if "train_loss" in logs and self.progress.loss_sum is not None:
            logs["train_loss"] = self.progress.loss_sum / max(self.state.global_step, 1)
        super().log(logs, start_time)
        # in the checkpoints' trainer_state.json; JSON lacks NaN, as of a score without a value
        self.state.log_history[-1] = finite(self.state.log_history[-1])

    def train(self, resume_from_checkpoint: str | bool | None = None, *args, **kwargs):
        """Train, and collect the loss and its components; `training_loss` is the mean over the whole run."""
        self._components = {}
        if self.args.schedule is not None:
            # the schedule depends on the length of this run
            self.lr_scheduler = None
        self._is_prepared = True
        with uploads_without(PRIVATE):
            output = super().train(resume_from_checkpoint, *args, **kwargs)
        if self.args.enable_jit_checkpoint and not self._has_ended():
            # SIGTERM arrived, and transformers has saved a checkpoint: the run is not finished
            sys.exit(TERMINATED)
        return output._replace(training_loss=output.metrics["train_loss"])

    def _has_ended(self) -> bool:
        """Whether training has made all of its updates, or stopped early."""
        stopping = [
            callback for callback in self.callback_handler.callbacks if isinstance(callback, ResumableEarlyStopping)
        ]
        return self.state.global_step >= self.state.max_steps or any(callback.is_exhausted for callback in stopping)

    @property
    def progress(self) -> RunProgress:
        """The progress saved in checkpoints; when resuming, transformers replaces it by the checkpoint's."""
        return next(callback for callback in self.callback_handler.callbacks if isinstance(callback, RunProgress))

    def _note_loss(self) -> None:
        """Add the losses since the last call, averaged over processes, to their sum."""
        progress = self.progress
        since = self.accelerator.reduce(progress.since, reduction="mean").item()
        if progress.loss_sum is not None:
            progress.loss_sum += since
        progress.since.zero_()

    def evaluation_loop(self, *args, **kwargs) -> EvalLoopOutput:
        """Evaluate, unless a loss or gradient was not finite, which would have damaged the weights."""
        self._finite.check()
        return super().evaluation_loop(*args, **kwargs)

    def _run_epoch(self, *args, **kwargs) -> None:
        # transformers would add an update when it resumes a finished run
        if self.state.global_step >= self.state.max_steps or self.control.should_training_stop:
            self.control.should_training_stop = True
            return
        super()._run_epoch(*args, **kwargs)
        # before the best weights are loaded, which it would take for those that it trains
        self._use_averages()

    # saving

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save the model: whole, even if the run's checkpoints contain shards; never with NaN or infinity.

        run.yaml has the settings in place of transformers' pickle of the arguments, which nothing reads. Checkpoints
        keep optimizer.pt, scheduler.pt, scaler.pt and rng_state*.pth, which transformers loads with weights_only.
        """
        self._use_averages()
        self._finite.check_weights(self.model, self.state.global_step)
        if self.is_in_train:
            self._note_loss()
        if self.is_fsdp_enabled and not _internal_call:
            self.accelerator.state.fsdp_plugin.set_state_dict_type("FULL_STATE_DICT")
        folder = Path(self.args.output_dir if output_dir is None else output_dir)
        upload = getattr(self, "push_in_progress", None)
        if upload is not None and folder == Path(self.args.output_dir):
            # the upload may still be reading the folder
            upload.wait_until_done()
        config = self.model.config
        config.use_cache, of_training = self._use_cache, config.use_cache
        super().save_model(output_dir, _internal_call)
        config.use_cache = of_training
        pickled = folder / TRAINING_ARGS_NAME
        if not (self.args.should_save and pickled.exists()):
            return
        pickled.unlink()
        if is_adapted(self.model):
            # PEFT saves only the weights
            save_settings(self.model, folder)
        for weights in folder.glob("*.safetensors"):
            share(weights)
        if self.args.push_to_hub:
            hide_paths(folder)

    def push_to_hub(self, *args, **kwargs):
        """transformers' `push_to_hub`, without private files."""
        with uploads_without(PRIVATE):
            return super().push_to_hub(*args, **kwargs)

    def create_model_card(self, card: str | None = None, **_) -> None:
        """Write the run's card, which `push_to_hub(card=card)` passes; earlier pushes during the run have none."""
        if card is not None and self.is_world_process_zero():
            write_atomically(Path(self.args.output_dir) / "README.md", card)


class PaddingLearningCollator(SummarizationCollator):
    """The collator for --no_ignore_pad_token_for_loss: padding tokens are labels too."""

    def __call__(self, features: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        batch = super().__call__(features)
        labels = batch["labels"]
        batch["labels"] = labels.masked_fill(labels == IGNORED_LABEL, self.processor.pad_token_id)
        return batch


def make_trainer(
    built: Built,
    data: DataArguments,
    training: SummarizationTrainingArguments,
    scorer: Scorer | None,
    prepared: Mapping[str, datasets.Dataset],
) -> SummarizationTrainer:
    """The trainer of a run.

    Args:
        scorer: scores the summaries of an evaluation.
        prepared: the rows of each split as the model reads them.
    """
    model, processor, lengths = built
    if scorer is not None:
        # score the form of a text that the processor reads
        scorer.clean = getattr(processor, "clean", scorer.clean)
    collator_class = SummarizationCollator if data.ignore_pad_token_for_loss else PaddingLearningCollator
    collator = collator_class(
        processor,
        model=model,
        # half precision is only fast on multiples of eight
        pad_to_multiple_of=8 if training.fp16 or training.bf16 else None,
        pad_to_max_length=data.pad_to_max_length,
        max_source_length=lengths.source,
        max_target_length=max(lengths.target, lengths.evaluation_target),
    )
    trainer = SummarizationTrainer(
        model,
        training,
        train_dataset=prepared.get("train"),
        eval_dataset=prepared.get("validation"),
        data_collator=collator,
        processing_class=processor,
        compute_metrics=scorer and partial(score, processor=processor, scorer=scorer, prefix=data.source_prefix),
    )
    trainer.reward = partial(rouge_rewards, language=data.language)
    if asks_for_fsdp(training) and not trainer.is_fsdp_enabled:
        logger.warning("FSDP is off, because accelerate shards over GPUs only: each process has the whole model")
    return trainer
