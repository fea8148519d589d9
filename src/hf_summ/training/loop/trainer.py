"""A Seq2SeqTrainer for summarization: token batches, the papers' optimizers, loss components, and saving."""

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import datasets
import torch
from torch import nn
from torch.utils.data import DataLoader, Sampler
from transformers import PreTrainedModel
from transformers.trainer import TRAINING_ARGS_NAME
from transformers.trainer_pt_utils import LengthGroupedSampler
from transformers.trainer_utils import EvalLoopOutput

from hf_summ.checkpoints.adapters import base_model, is_adapted, save_settings, takes
from hf_summ.checkpoints.folders import best_checkpoint
from hf_summ.common.files import share, write_atomically
from hf_summ.common.processes import TERMINATED
from hf_summ.common.records import finite
from hf_summ.models.checks import IGNORED_LABEL
from hf_summ.models.layers_copying import smoothed_cross_entropy
from hf_summ.training.arguments import SummarizationTrainingArguments
from hf_summ.training.checks import parse_learning_rates
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
from hf_summ.training.optimization import build_schedule, parameter_groups
from hf_summ.training.results.privacy import PRIVATE, uploads_without
from hf_summ.training.rows.batches import BatchOrder, SeededLengthSampler, pack_tokens


def _token_loss(outputs, labels: torch.Tensor, num_items_in_batch=None, smoothing: float = 0.0) -> torch.Tensor:
    """The loss of one batch of an update, for models without `num_items_in_batch`, such as BART and T5.

    The sum over target tokens is divided by the number of target tokens in all batches of the update. The sum of the
    batches' gradients is then the gradient of one large batch.

    Args:
        outputs: the outputs of the model, which get the components of the loss as `loss_parts`.
        labels: (B, T), the target tokens.
        num_items_in_batch: the divisor of the sum; by default the number of target tokens in this batch.
        smoothing: share of the probability that label smoothing spreads over the vocabulary.
    """
    loss, nll = smoothed_cross_entropy(outputs["logits"], labels, smoothing, num_items_in_batch)
    outputs["loss_parts"] = {"nll": nll}
    return loss


class SummarizationTrainer(RowwiseTrainer):
    """A Seq2SeqTrainer that trains like the papers and evaluates every row once.

    - Batches can be measured in tokens (`train_tokens_per_batch`, `eval_tokens_per_batch`), see `rows/batches.py`.
    - The loss of an update is reduced over its target tokens or its documents (`loss_reduction`).
    - `optimizer`, `learning_rates` and `schedule` are described in `optimization.py`.
    - The loss components are logged with the loss, and a loss or gradient that is not finite stops the run.
    - Training on sampled summaries (`reward_samples`) is described in `rewards.py`, evaluation in `RowwiseTrainer`.

    Attributes:
        reward: computes the rewards of sampled summaries; by default their English ROUGE.
    """

    reward: Reward = staticmethod(rouge_rewards)

    def __init__(self, model: PreTrainedModel, args: SummarizationTrainingArguments, **kwargs):
        if not takes(model, "num_items_in_batch"):
            kwargs.setdefault("compute_loss_func", partial(_token_loss, smoothing=args.label_smoothing_factor))
        self._is_stream = isinstance(kwargs.get("train_dataset"), datasets.IterableDataset)
        if self._is_stream:
            # each process reads the whole stream and keeps its share; otherwise accelerate would read it in one process
            # and divide its batches, which fails if they differ in length
            accelerator_config = args.accelerator_config
            accelerator_config.dispatch_batches = bool(accelerator_config.dispatch_batches)
        self._train_sampler: Sampler | None = None
        # transformers replaces the config's value during training
        self._use_cache = getattr(model.config, "use_cache", args.use_cache)
        super().__init__(model, args, **kwargs)
        model.register_load_state_dict_post_hook(expect_tied_weights_once)
        # sums of the loss's components since the last log entry, and the step of that entry
        self._components: dict[str, torch.Tensor] = {}
        self._logged_step = 0
        # The number of documents for each target token of an update if `loss_reduction` is "documents", otherwise 1.
        # This factor turns components that were divided by the number of documents into means over tokens.
        self._items_per_token: torch.Tensor | float = 1.0
        self._non_finite = NonFiniteCallback(args)
        self.add_callback(self._non_finite)
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
            # weights are gathered once in a step: BERT on windows, and generation, call layers a different number of
            # times in each process, and processes that gather different layers would deadlock
            plugin.reshard_after_forward = False

    # optimizer and schedule

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        """The optimizer named in the arguments; transformers makes it if the arguments are transformers' own."""
        args = self.args
        is_noam = args.schedule == "noam"
        uses_transformers_optimizer = args.optimizer is None and not args.learning_rates and not is_noam
        if self.optimizer is not None or uses_transformers_optimizer:
            return super().create_optimizer(model)
        if model is None:
            model = self.model
        # the noam schedule gives the whole rate, so the optimizer's is 1
        learning_rate = 1.0 if is_noam else args.learning_rate
        rates = parse_learning_rates(args.learning_rates)
        groups = parameter_groups(model, learning_rate, rates, args.weight_decay, self.get_decay_parameter_names(model))
        if args.optimizer in ("adam", "adamw"):
            adam_class = torch.optim.Adam if args.optimizer == "adam" else torch.optim.AdamW
            betas = (args.adam_beta1, args.adam_beta2)
            # on a CPU, the fused optimizer takes a quarter of the time, which saves some percent of an update
            self.optimizer = adam_class(groups, betas=betas, eps=args.adam_epsilon, fused=True)
        elif args.optimizer == "adadelta":
            self.optimizer = torch.optim.Adadelta(groups, rho=args.adadelta_rho, eps=args.adam_epsilon)
        else:
            optimizer_class, settings = self.get_optimizer_cls_and_kwargs(args, model)
            self.optimizer = optimizer_class(groups, **settings)
        return self.optimizer

    @staticmethod
    def get_optimizer_cls_and_kwargs(args: SummarizationTrainingArguments, model: PreTrainedModel | None = None):
        """The class of transformers' optimizer for `--optim` and its settings, with `--adagrad_accumulator`."""
        optimizer_class, settings = RowwiseTrainer.get_optimizer_cls_and_kwargs(args, model)
        if optimizer_class is torch.optim.Adagrad:
            settings["initial_accumulator_value"] = args.adagrad_accumulator
        return optimizer_class, settings

    def create_scheduler(self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None):
        """The schedule named in the arguments."""
        args = self.args
        if optimizer is None:
            optimizer = self.optimizer
        if self.lr_scheduler is None and args.schedule is not None:
            d_model = getattr(self.model.config, "d_model", None) or self.model.config.hidden_size
            self.lr_scheduler = build_schedule(optimizer, args, num_training_steps, d_model)
            # the schedule depends on the length of the run, so transformers has to remove it before training again
            self._created_lr_scheduler = True
        return super().create_scheduler(num_training_steps, optimizer)

    def _get_grad_norm(self, model: nn.Module, grad_norm=None):
        """Clip the elements of the gradient, and return the norm of the gradient before all clipping.

        transformers calls this method once an update. Before the call, it has computed and clipped the norm, and a
        scaler of half precision has divided the gradient by its scale.
        """
        grad_norm = super()._get_grad_norm(model, grad_norm)
        # a scaler of half precision skips an update that is not finite, and lowers its scale
        if self.accelerator.scaler is None:
            self._non_finite.watch("gradient norm", grad_norm, self.state.global_step + 1)
        if self.args.max_grad_value is not None:
            nn.utils.clip_grad_value_(model.parameters(), self.args.max_grad_value)
        return grad_norm

    # batches

    def get_train_dataloader(self) -> DataLoader:
        """The training batches, by number of tokens if the arguments set it, otherwise by number of examples."""
        args = self.args
        if args.train_tokens_per_batch is None:
            return super().get_train_dataloader()
        sources, targets = self._padded_lengths(self.train_dataset)
        batches = pack_tokens(sources, targets, args.train_tokens_per_batch, seed=args.seed)
        processes, process = self.accelerator.num_processes, self.accelerator.process_index
        order = BatchOrder(batches, self._order_seed, processes, process, args.gradient_accumulation_steps)
        examples = len(self.train_dataset) * processes * args.gradient_accumulation_steps
        self._examples_per_update = max(1, round(examples / len(order.batches)))
        return self._loader(self.train_dataset, order)

    def _get_train_sampler(self, *args) -> Sampler | None:
        """The order of the training rows, which for `group_by_length` depends only on the seed and the epoch."""
        sampler = super()._get_train_sampler(*args)
        if isinstance(sampler, LengthGroupedSampler):
            sampler = SeededLengthSampler(sampler.batch_size, sampler.lengths, self._order_seed)
        self._train_sampler = sampler
        return sampler

    @property
    def _order_seed(self) -> int:
        """The seed of the order of the training rows."""
        return self.args.seed if self.args.data_seed is None else self.args.data_seed

    def get_total_train_batch_size(self, args) -> int:
        """The number of examples in an update, or the mean number if batches are measured in tokens."""
        if args.train_tokens_per_batch is None:
            return super().get_total_train_batch_size(args)
        return self._examples_per_update

    # loss

    def get_batch_samples(self, epoch_iterator, num_batches, device):
        """The batches of an update, and the divisor of their loss.

        The divisor is the number of target tokens if `loss_reduction` is "tokens", otherwise the number of documents.
        It counts all batches of the update, and the batches of all processes if `average_tokens_across_devices` is set.
        At the end of a pass through a stream, too few batches for an update are left out.
        """
        batches, tokens = super().get_batch_samples(epoch_iterator, num_batches, device)
        if self._is_stream and len(batches) < num_batches:
            # transformers would add their gradient to that of the next update, without counting them in its divisor
            return [], None
        if self.args.loss_reduction == "tokens":
            return batches, tokens
        # transformers counts tokens over all processes; if each summary has its first token alone, it counts documents
        first_tokens = [{"labels": batch["labels"][:, :1]} for batch in batches]
        _, documents = super().get_batch_samples(iter(first_tokens), len(batches), device)
        if self.args.loss_reduction == "documents":
            self._items_per_token = documents / tokens
        return batches, documents

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        """The loss of a batch: the model's own loss or, if summaries are sampled in training, a mix of two losses.

        The mix is (1 - s) · own loss + s · loss of the samples, where s is `reward_share`. In training, the loss and
        its components are also kept for the next log entry.

        Args:
            model: the model as accelerate wraps it.
            inputs: the batch of B documents.
            return_outputs: whether to return the outputs of the model, too.
            num_items_in_batch: the divisor from `get_batch_samples`, or None in evaluation.

        Returns:
            The loss, a scalar, or the loss and the outputs.
        """
        if model.training and hasattr(base_model(self.model), "set_update"):
            base_model(self.model).set_update(self.state.global_step)
        # transformers may remove the labels from `inputs`, but the samples are compared with them
        batch = dict(inputs)
        divisor = num_items_in_batch
        if self.args.loss_reduction == "document_means" and divisor is not None:
            # A summary's sum over target tokens is divided by its number of target tokens, and by the number of
            # documents in the update. So each summary has a divisor of its own, (B, 1).
            target_lengths = (batch["labels"] != IGNORED_LABEL).sum(1, keepdim=True).clamp(min=1)
            divisor = target_lengths * num_items_in_batch
        loss, outputs = super().compute_loss(model, inputs, return_outputs=True, num_items_in_batch=divisor)
        if model.training:
            components = dict(outputs.get("loss_parts") or {})
            # If the divisor counts the batches of all processes, the losses of the processes add up to the loss of the
            # update. But gradients are averaged over processes. Therefore transformers has multiplied `loss` by the
            # number of processes. The loss of the samples is multiplied here, and the components in `_add_components`.
            process_factor = 1
            if self.args.average_tokens_across_devices and divisor is not None:
                process_factor = self.accelerator.num_processes
            if self.args.reward_samples is not None:
                policy_loss, reward = sampled_loss(self, model, batch, self.reward, divisor)
                loss = torch.lerp(loss, policy_loss * process_factor, self.args.reward_share)
                components["reward"] = reward
            self._non_finite.watch("loss", loss.detach(), self.state.global_step + 1, components)
            self.progress.unsummed_loss += loss.detach()
            self._add_components(components, process_factor)
        if return_outputs:
            return loss, outputs
        return loss

    def _add_components(self, components: Mapping[str, torch.Tensor], process_factor: int) -> None:
        """Add a batch's components of the loss to the sums for the next log entry.

        Args:
            components: name -> the component, divided like the loss in `compute_loss`.
            process_factor: the factor that transformers has applied to the loss, see `compute_loss`.
        """
        # With "documents", the loss is a sum over tokens for each document. Log entries are means over tokens all the
        # same, so that they can be compared with other runs.
        scale = self._items_per_token * process_factor
        if not self._components:
            self._logged_step = self.state.global_step
        for name, component in components.items():
            self._components[name] = self._components.get(name, 0.0) + component.detach().float() * scale

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
            self._sum_new_losses()
        if "train_loss" in logs and self.progress.loss_sum is not None:
            logs["train_loss"] = self.progress.loss_sum / max(self.state.global_step, 1)
        super().log(logs, start_time)
        # checkpoints store the entry as JSON, which lacks NaN, the value of undefined scores
        self.state.log_history[-1] = finite(self.state.log_history[-1])

    def train(self, resume_from_checkpoint: str | bool | None = None, *args, **kwargs):
        """Train, and collect the loss and its components; `training_loss` is the mean over the whole run.

        Raises:
            SystemExit: SIGTERM arrived, and `enable_jit_checkpoint` has saved a checkpoint.
        """
        # transformers prepares the model for training
        self._is_prepared = True
        with uploads_without(PRIVATE):
            output = super().train(resume_from_checkpoint, *args, **kwargs)
        if self.args.enable_jit_checkpoint and not self._has_ended():
            # SIGTERM arrived, and transformers has saved a checkpoint and returned as if the run were finished
            sys.exit(TERMINATED)
        return output._replace(training_loss=output.metrics["train_loss"])

    def _has_ended(self) -> bool:
        """Whether training has made all of its updates, or stopped early."""
        for callback in self.callback_handler.callbacks:
            if isinstance(callback, ResumableEarlyStopping) and callback.is_exhausted:
                return True
        return self.state.global_step >= self.state.max_steps

    @property
    def progress(self) -> RunProgress:
        """The callback with the sums of losses and seconds, which checkpoints store.

        transformers replaces the callback when a run resumes, so it is looked up at each use.

        Raises:
            ValueError: the callback was removed.
        """
        for callback in self.callback_handler.callbacks:
            if isinstance(callback, RunProgress):
                return callback
        raise ValueError("the trainer needs the callback RunProgress: do not remove it")

    def _sum_new_losses(self) -> None:
        """Add the losses since the last call to `progress.loss_sum`, and reset `progress.unsummed_loss` to zero.

        The losses are averaged over the processes, so all processes must call this method.
        """
        progress = self.progress
        new_losses = self.accelerator.reduce(progress.unsummed_loss, reduction="mean").item()
        # the sum is unknown if the checkpoint did not have it
        if progress.loss_sum is not None:
            progress.loss_sum += new_losses
        progress.unsummed_loss.zero_()

    def evaluation_loop(self, *args, **kwargs) -> EvalLoopOutput:
        """Evaluate, unless a loss or gradient was not finite, which would have damaged the weights."""
        self._non_finite.check()
        return super().evaluation_loop(*args, **kwargs)

    def _init_training_state(
        self, max_steps, num_update_steps_per_epoch, num_train_epochs, resume_from_checkpoint, trial
    ) -> tuple[int, int]:
        """Set the state of the run as transformers does, and correct it.

        - The sums of the loss components are emptied: after a lack of memory, `train` begins again with smaller
          batches, and the sums are those of the first attempt.
        - The best checkpoint is looked up beside the checkpoint that is resumed: transformers forgets it if the run's
          folder was moved.
        - The finished passes through a stream are taken from the state: transformers does not know how long a stream
          is, and would take all trained batches for those of one pass.

        Returns:
            The number of trained epochs, and the number of trained batches of the next epoch, which are skipped.
        """
        self._components = {}
        epochs, batches = super()._init_training_state(
            max_steps, num_update_steps_per_epoch, num_train_epochs, resume_from_checkpoint, trial
        )
        if resume_from_checkpoint is not None:
            self.state.best_model_checkpoint = best_checkpoint(resume_from_checkpoint)
        if self._is_stream and self.state.epoch:
            # the state adds 1 / max_steps for each update of a pass
            epochs = int(self.state.epoch)
            updates = round((self.state.epoch - epochs) * max_steps)
            batches = 0 if self.args.ignore_data_skip else updates * self.args.gradient_accumulation_steps
        return epochs, batches

    def _run_epoch(self, *args, epoch: int, **kwargs) -> None:
        """Train an epoch, unless all updates are made or the run is stopped.

        transformers would make one more update when it resumes a run that was finished.
        """
        is_complete = self.state.global_step >= self.state.max_steps
        if is_complete or self.control.should_training_stop:
            self.control.should_training_stop = True
            return
        # During a pass through a stream, whose length is unknown, the state counts fractions of the run. It gets the
        # whole number of passes when the next one begins.
        self.state.epoch = max(self.state.epoch or 0, epoch)
        # if one of several processes resumes within an epoch, accelerate does not tell the sampler which epoch it is
        if hasattr(self._train_sampler, "set_epoch"):
            self._train_sampler.set_epoch(epoch)
        super()._run_epoch(*args, epoch=epoch, **kwargs)
        # transformers may load the best weights next. A schedule-free optimizer puts its averages into the model now,
        # because later it would change the loaded weights.
        self._use_averages()

    # saving

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save the model, as a whole model even if the run's checkpoints contain shards.

        transformers' pickle of the arguments is removed, as nothing reads it: run.yaml has the settings. Checkpoints
        keep optimizer.pt, scheduler.pt, scaler.pt and rng_state*.pth, which transformers loads with weights_only.

        Args:
            output_dir: the folder; by default the output folder of the run.
            _internal_call: True if transformers saves a checkpoint, whose weights may be shards.

        Raises:
            FloatingPointError: a weight is NaN or infinite.
        """
        self._use_averages()
        self._non_finite.check_weights(self.model, self.state.global_step)
        if self.is_in_train:
            self._sum_new_losses()
        if self.is_fsdp_enabled and not _internal_call:
            self.accelerator.state.fsdp_plugin.set_state_dict_type("FULL_STATE_DICT")
        folder = Path(self.args.output_dir if output_dir is None else output_dir)
        upload = getattr(self, "push_in_progress", None)
        if upload is not None and folder == Path(self.args.output_dir):
            # the upload may still be reading the folder
            upload.wait_until_done()
        config = self.model.config
        training_use_cache = config.use_cache
        config.use_cache = self._use_cache
        super().save_model(output_dir, _internal_call)
        config.use_cache = training_use_cache
        # transformers pickles the training arguments beside a whole model, but not beside the shards of FSDP
        has_saved_model = self.args.should_save and (folder / TRAINING_ARGS_NAME).exists()
        if has_saved_model:
            self._complete_saved_folder(folder)

    def _complete_saved_folder(self, folder: Path) -> None:
        """Remove the pickled arguments, add an adapter's settings, and let all readers of the folder read the weights.

        Args:
            folder: the folder in which transformers has saved the model.
        """
        (folder / TRAINING_ARGS_NAME).unlink()
        if is_adapted(self.model):
            # PEFT saves the weights and their configuration, but no settings of the model and of decoding
            save_settings(self.model, folder)
        for weights in folder.glob("*.safetensors"):
            share(weights)

    def push_to_hub(self, *args, **kwargs):
        """Upload the output folder to the Hub as transformers does, but without private files and paths."""
        with uploads_without(PRIVATE):
            return super().push_to_hub(*args, **kwargs)

    def create_model_card(self, card: str | None = None, **_) -> None:
        """Write the run's card.

        Args:
            card: the text of the card, which `push_to_hub(card=card)` passes on; None for the pushes of transformers
                during the run, which write no card.
        """
        if card is not None and self.is_world_process_zero():
            write_atomically(Path(self.args.output_dir) / "README.md", card)
