"""The evaluation loop: a loss and a summary for each row, each row once, in the data set's order."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, cast

import datasets
import numpy as np
import torch
from accelerate.data_loader import DataLoaderShard
from accelerate.utils import gather_object
from torch import nn
from torch.utils.data import DataLoader
from transformers import GenerationConfig, Seq2SeqTrainer
from transformers.trainer_utils import EvalLoopOutput, EvalPrediction, RemoveColumnsCollator

from hf_summ.checkpoints.adapters import base_model, takes
from hf_summ.data.columns import PREFIX_COLUMN, reference_texts, source_column
from hf_summ.evaluation import perplexity
from hf_summ.models.checks import IGNORED_LABEL
from hf_summ.models.generation_sentences import candidates_of
from hf_summ.models.modeling_sagcopy import guidance_divergence
from hf_summ.runtimes.any_model import input_names
from hf_summ.runtimes.long_documents import Example, summary_ends
from hf_summ.runtimes.pipeline import choice_settings
from hf_summ.runtimes.settings import overriding_settings
from hf_summ.training.arguments import SummarizationTrainingArguments
from hf_summ.training.rows.batches import BatchOrder, pack_examples, pack_tokens, rounded_up, token_lengths

# variance above which a latent variable is active (Burda et al. 2016, section 5)
_ACTIVE_VARIANCE = 0.01


@dataclass
class RowRecord:
    """What an evaluation knows of a row of the data set.

    Args:
        tokens: the number of target tokens; 0 without labels.
        losses: the mean loss of the row's batch and the components of the loss, by name; empty without labels.
        values: the values of the row alone, see `RowwiseTrainer.row_values`.
        latent_means: (L,), the means of the L latent variables, if the model has any.
        prediction: the token ids of the generated summary.
    """

    tokens: int = 0
    losses: dict[str, float] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)
    latent_means: np.ndarray | None = None
    prediction: list[int] = field(default_factory=list)


class RowwiseTrainer(Seq2SeqTrainer):
    """A Seq2SeqTrainer that evaluates each row exactly once; its loaders' batches come from `BatchOrder`.

    It generates with the model's generation settings, and leaves them unchanged. It passes the tokenizer to
    `generate()` for settings that count words. For `whole_sentences`, the data set needs the documents. Predictions are
    in the data set's order, one list of token ids for each row. `compute_metrics` gets an `EvalPrediction` with these
    fields:

    - `predictions`: the predictions.
    - `label_ids`: the texts to compare the predictions with, from the column `references` or `summary`.
    - `inputs`: the columns `documents` or `document`, and `prefix`, as far as the data set has them.

    Attributes:
        row_values: the values of each row from the last evaluation, by name. `nll` and `tokens`, see `perplexity`, are
            missing if the model computes its loss without logits. `divergence`, see `_divergences`, is missing unless
            copying is guided. The list is empty if all values are missing.
    """

    args: SummarizationTrainingArguments
    row_values: Sequence[dict[str, float]] = ()
    _is_prepared = False

    def get_eval_dataloader(self, eval_dataset: str | datasets.Dataset | None = None) -> DataLoader:
        """The evaluation batches, of rows of similar length.

        Args:
            eval_dataset: the rows, or the name of one of the trainer's data sets for evaluation. By default, it is the
                trainer's only data set for evaluation.
        """
        if eval_dataset is None:
            dataset = self.eval_dataset
        elif isinstance(eval_dataset, str):
            dataset = self.eval_dataset[eval_dataset]
        else:
            dataset = eval_dataset
        sources, targets = self._padded_lengths(dataset)
        if self.args.eval_tokens_per_batch is None:
            batches = pack_examples(sources, self.args.eval_batch_size)
        else:
            batches = pack_tokens(sources, targets, self.args.eval_tokens_per_batch, seed=self.args.seed)
        order = BatchOrder(batches, None, self.accelerator.num_processes, self.accelerator.process_index)
        return self._loader(dataset, order)

    def get_test_dataloader(self, test_dataset: datasets.Dataset) -> DataLoader:
        """The batches of a test data set, which are made as for evaluation."""
        return self.get_eval_dataloader(test_dataset)

    def _loader(self, dataset: datasets.Dataset, order: BatchOrder) -> DataLoader:
        """A loader of this process's batches, without columns that the model does not take."""
        args = self.args
        collator = self.data_collator
        if args.remove_unused_columns:
            # a model whose `forward` names no `input_ids` cannot be trained here
            names = input_names(self.model) or ()
            columns = [*names, *self.label_names]
            collator = RemoveColumnsCollator(collator, columns)
        # `accelerator.prepare` would distribute the batches over processes a second time
        loader = DataLoaderShard(
            dataset,
            device=self.accelerator.device,
            batch_sampler=order,
            collate_fn=collator,
            num_workers=args.dataloader_num_workers,
            pin_memory=args.dataloader_pin_memory,
            persistent_workers=args.dataloader_persistent_workers,
            prefetch_factor=args.dataloader_prefetch_factor,
        )
        return cast(DataLoader, loader)

    def _padded_lengths(self, dataset: datasets.Dataset) -> tuple[np.ndarray, np.ndarray]:
        """The source length and the target length of every row, (N,) each for N rows, as the collator pads them."""
        multiple = getattr(self.data_collator, "pad_to_multiple_of", None) or 1
        sources = token_lengths(dataset, "input_ids")
        targets = token_lengths(dataset, "labels")
        if getattr(self.data_collator, "pad_to_max_length", False):
            sources[:] = self.data_collator.max_source_length
            targets[:] = self.data_collator.max_target_length
        return rounded_up(sources, multiple), rounded_up(targets, multiple)

    def evaluation_loop(
        self,
        dataloader: DataLoader,
        description: str,
        prediction_loss_only: bool | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> EvalLoopOutput:
        """Loss and perplexity over all target tokens, and generated summaries, each row counted once.

        The arguments are described at the method of transformers with this name.
        """
        model = self._evaluation_model()
        self.callback_handler.eval_dataloader = dataloader
        if prediction_loss_only is None:
            prediction_loss_only = self.args.prediction_loss_only
        generates = self.args.predict_with_generate and not prediction_loss_only
        records = self._evaluate_rows(model, dataloader, generates)
        self.row_values = [record.values for record in records if record.values]
        metrics = _loss_metrics(records)
        predictions = None
        if generates:
            predictions = [record.prediction for record in records]
        dataset = cast(datasets.Dataset, dataloader.dataset)
        columns = getattr(dataset, "column_names", ())
        references = reference_texts(dataset) if "summary" in columns else None
        if generates and references is not None and self.compute_metrics is not None:
            sources = {}
            for name in (source_column(columns), PREFIX_COLUMN):
                if name in columns:
                    sources[name] = list(dataset[name])
            metrics.update(self.compute_metrics(EvalPrediction(predictions, references, inputs=sources)))
        metrics = {f"{metric_key_prefix}_{name}": value for name, value in metrics.items()}
        return EvalLoopOutput(predictions, references, metrics, num_samples=len(dataset))

    def _evaluate_rows(self, model: nn.Module, dataloader: DataLoader, generates: bool) -> list[RowRecord]:
        """The records of all rows, in the data set's order. Each process evaluates its batches, and gets all records.

        Args:
            model: the model as accelerate wraps it.
            dataloader: the batches of this process.
            generates: whether summaries are generated.
        """
        dataset = cast(datasets.Dataset, dataloader.dataset)
        columns = getattr(dataset, "column_names", ())
        documents = None
        if generates and source_column(columns) in columns:
            documents = list(dataset[source_column(columns)])
        # the records of this process's rows, with the indices of the rows in the data set
        indexed_records: list[tuple[int, RowRecord]] = []
        for indices, inputs in zip(cast(BatchOrder, dataloader.batch_sampler), dataloader, strict=True):
            records = self._score(model, inputs)
            if generates:
                documents_of_batch = None
                if documents is not None:
                    documents_of_batch = [documents[index] for index in indices]
                self._add_summaries(records, model, inputs, documents_of_batch)
            indexed_records.extend(zip(indices, records, strict=True))
            self.control = self.callback_handler.on_prediction_step(self.args, self.state, self.control)
        # a row that several processes evaluated counts once
        record_of_row = dict(gather_object(indexed_records))
        return [record_of_row[index] for index in range(len(dataset))]

    def _evaluation_model(self) -> nn.Module:
        """The model in evaluation mode, on its device and in the dtype of evaluation, prepared by accelerate.

        The model is changed in place. So it stays on the device, in this dtype and in evaluation mode.
        """
        self._use_averages()
        model = self.model
        if not self._is_prepared:
            # accelerate changes the model's `forward` in place, so this is done once. Only with --torch_compile, the
            # result is a new module around the model. As in transformers, later evaluations run the model without it.
            model = self.accelerator.prepare_model(model, evaluation_mode=True)
            self._is_prepared = True
        # a model that is being trained keeps its dtype
        if not self.is_in_train:
            if self.args.fp16_full_eval:
                model = model.to(dtype=torch.float16)
            elif self.args.bf16_full_eval:
                model = model.to(dtype=torch.bfloat16)
        return model.to(self.args.device).eval()

    def _use_averages(self) -> None:
        """Until the next update, give the model the weights that a schedule-free optimizer averages."""
        if hasattr(self.optimizer, "eval"):
            self.optimizer.eval()

    @torch.no_grad()
    def _score(self, model: nn.Module, inputs: dict[str, Any]) -> list[RowRecord]:
        """The records of a batch's rows, without predictions.

        Args:
            model: the model as accelerate wraps it.
            inputs: the batch. Without labels, as in `predict()` of unlabeled rows, the records are empty.
        """
        if "labels" not in inputs:
            return [RowRecord() for _ in range(len(inputs["input_ids"]))]
        labels = inputs["labels"]
        if takes(self.model, "skip_logits"):
            # The logits of a batch would be the largest tensor in evaluation. A model that can compute its loss without
            # them returns none, and its rows then have no `nll`. Other models ignore the request.
            inputs = {**inputs, "skip_logits": True}
        with self.compute_loss_context_manager():
            # transformers removes the labels from its argument, but they are needed below, so it gets a copy
            loss, outputs = self.compute_loss(model, dict(inputs), return_outputs=True)
        losses = {"loss": loss.float().mean().item()}
        for name, component in (outputs.get("loss_parts") or {}).items():
            losses[name] = component.float().mean().item()
        latent_means = outputs.get("latent_means")
        if latent_means is not None:
            # the loss with latent variables of zero shows what they contribute
            with self.compute_loss_context_manager():
                _, outputs_without = self.compute_loss(model, {**inputs, "zero_latent": True}, return_outputs=True)
            losses["nll_zero_latent"] = outputs_without["loss_parts"]["nll"].float().mean().item()
        records = []
        for tokens in labels.ne(IGNORED_LABEL).sum(-1).tolist():
            records.append(RowRecord(tokens, losses))
        if latent_means is not None:
            for record, row_means in zip(records, document_means(latent_means, labels), strict=True):
                record.latent_means = row_means
        if outputs.get("logits") is not None:
            unwrapped = base_model(self.model)
            if hasattr(unwrapped, "read_labels"):
                # a word outside the vocabulary gets the column of the scores that belongs to it in this document
                labels = unwrapped.read_labels(labels, inputs)
            for record, nll in zip(records, _row_nll(outputs["logits"], labels), strict=True):
                record.values = {"nll": nll, "tokens": record.tokens}
        return records

    def _add_summaries(
        self, records: list[RowRecord], model: nn.Module, inputs: dict[str, Any], documents: list[Example] | None
    ) -> None:
        """Generate the summaries of a batch, and add them and their divergences to the records of its rows.

        Args:
            records: the records of the rows.
            model: the model as accelerate wraps it.
            inputs: the batch.
            documents: the document or documents of each row, if the data set has them.
        """
        summaries = self.generate_ids(inputs, documents=documents)
        for record, summary in zip(records, summaries, strict=True):
            record.prediction = summary
        if getattr(base_model(self.model).config, "is_guided", False):
            divergences = self._divergences(model, inputs, summaries)
            for record, divergence in zip(records, divergences, strict=True):
                record.values["divergence"] = divergence

    @torch.no_grad()
    def _divergences(
        self, model: nn.Module, inputs: dict[str, torch.Tensor], summaries: list[list[int]]
    ) -> list[float]:
        """How far the copying of each summary diverges from the centrality of the document's words.

        The divergence is KL(mean_t a_t ‖ p) with copy attentions a_t and centrality p (Xu et al. 2020, equation 18).
        One forward pass with the summaries as labels gives the copy attentions.

        Args:
            model: the model as accelerate wraps it.
            inputs: the batch of B documents.
            summaries: the ids that the model generated for each of the documents. A summary begins with the decoder's
                start token, which may be its only token. A word that was copied and that the vocabulary lacks has the
                id that `generate()` gives it, which the model also accepts as a label.

        Returns:
            The divergence of each summary.
        """
        # the start token is not a label
        longest = max(len(summary) for summary in summaries) - 1
        # the model needs at least one position, even if all summaries are empty
        labels = torch.full((len(summaries), max(longest, 1)), IGNORED_LABEL, device=inputs["input_ids"].device)
        for row, summary in enumerate(summaries):
            labels[row, : len(summary) - 1] = torch.tensor(summary[1:])
        with self.compute_loss_context_manager():
            outputs = model(**source_inputs(inputs), labels=labels, skip_logits=True)
            return guidance_divergence(outputs["copy_attentions"], labels, outputs["centrality"]).tolist()

    @torch.no_grad()
    def generate_ids(
        self,
        inputs: dict[str, torch.Tensor],
        sampling: GenerationConfig | None = None,
        documents: list[Example] | None = None,
    ) -> list[list[int]]:
        """The generated token ids of every row, without trailing padding; see `strip_padding` for what is kept.

        Args:
            inputs: a batch, whose labels are ignored.
            sampling: settings with which summaries are sampled during training. By default, the model's generation
                settings and those of `evaluate()` apply, and each row has one summary.
            documents: the document or documents of each row, among whose sentences the model chooses if
                `whole_sentences` is set.
        """
        inputs = source_inputs(inputs)
        if sampling is None:
            given = {}
            for name, value in self._gen_kwargs.items():
                if value is not None:
                    given[name] = value
            # a given `max_length` replaces the `max_new_tokens` of the run's generation config
            settings = overriding_settings(given)
            # a row has one summary, whatever the checkpoint sets
            settings["num_return_sequences"] = 1
            settings["return_dict_in_generate"] = False
        else:
            # training switches the cache off, but without the cache, generating is slow
            settings = {"use_cache": True}
        if self.processing_class is not None:
            settings["tokenizer"] = getattr(self.processing_class, "tokenizer", self.processing_class)
        # generate() fills in unset values of the model's generation config, which checkpoints must not save
        generation_config = deepcopy(self.model.generation_config)
        if sampling is not None:
            self.model.generation_config = sampling
        elif documents is not None:
            settings.update(self._choice_settings(documents, {**generation_config.to_diff_dict(), **settings}))
        try:
            # generate() calls the encoder directly, outside the method that accelerate wraps
            with self.accelerator.autocast():
                generated = self.model.generate(**inputs, **settings)
        finally:
            self.model.generation_config = generation_config
        ends = generation_config.eos_token_id
        if not isinstance(ends, list):
            ends = [ends]
        return [strip_padding(row, generation_config.pad_token_id, ends) for row in generated.tolist()]

    def _choice_settings(self, documents: list[Example], settings: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of `generate()` with which the model chooses among sentences, if `whole_sentences` is set.

        Args:
            documents: the document or documents of each row of the batch.
            settings: all settings of the search.
        """
        tokenizer = settings.get("tokenizer")
        if tokenizer is None or not settings.get("whole_sentences"):
            return {}
        most_tokens = summary_ends(settings).max_tokens
        special_tokens = not hasattr(self.model, "generation_keys")
        candidates = []
        for document in documents:
            candidates.append(candidates_of(document, tokenizer, most_tokens, special_tokens))
        return choice_settings(self.model, candidates)


def source_inputs(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The inputs of a batch that describe its documents, without labels and inputs of the decoder."""
    kept = {}
    for name, value in inputs.items():
        if name != "labels" and "decoder" not in name:
            kept[name] = value
    return kept


def _loss_metrics(records: Sequence[RowRecord]) -> dict[str, float]:
    """The mean losses per target token of the whole data set, and the perplexity; empty without target tokens.

    If the model has latent variables, the number of the active ones is among the metrics.
    """
    tokens = sum(record.tokens for record in records)
    if tokens == 0:
        return {}
    metrics = {}
    for name in records[0].losses:
        metrics[name] = sum(record.losses[name] * record.tokens for record in records) / tokens
    latent_means = []
    for record in records:
        if record.latent_means is not None and record.tokens > 0:
            latent_means.append(record.latent_means)
    if latent_means:
        metrics["active_units"] = active_units(latent_means)
    # unlike the loss, the NLL has no label smoothing
    mean_nll = metrics.get("nll", metrics["loss"])
    metrics["perplexity"] = float(perplexity(np.array([tokens * mean_nll, tokens])))
    return metrics


def _row_nll(logits: torch.Tensor, labels: torch.Tensor) -> list[float]:
    """The negative log-likelihood of each row, summed over its target tokens, (B, T, V) and (B, T) -> B numbers."""
    # sums of half-precision logits would be inaccurate; double precision is kept
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    # an ignored label is negative, which is not an index
    target_logits = logits.gather(-1, labels.clamp(min=0)[..., None])[..., 0]
    nll = logits.logsumexp(-1) - target_logits
    return nll.masked_fill(labels == IGNORED_LABEL, 0.0).sum(-1).tolist()


def strip_padding(tokens: list[int], padding: int | None, ends: list[int | None]) -> list[int]:
    """The token ids of one row without trailing padding, whichever token `generate()` pads with.

    Args:
        tokens: the ids of a row, which begins with the decoder's start token.
        padding: the id of the padding token.
        ends: the ids of the end tokens.
    """
    length = len(tokens)
    while length > 0 and tokens[length - 1] in (padding, IGNORED_LABEL):
        length -= 1
    # transformers' beam search pads with an end token if the padding token's id is 0, so that a row ends with several
    # end tokens. Only the first of them ends the summary. In models such as BART, the start token is an end token too:
    # an empty summary is then the start token and an end token, and keeps both.
    while length > 2 and tokens[length - 1] in ends and tokens[length - 2] in ends:
        length -= 1
    return tokens[:length]


def document_means(means: torch.Tensor, labels: torch.Tensor) -> np.ndarray:
    """The means of L latent variables, averaged over each document's target tokens, (B, T, L) -> (B, L).

    The means of a document without target tokens are zero.

    Args:
        means: (B, T, L), the means at each target token.
        labels: (B, T), the target tokens.
    """
    is_target = (labels != IGNORED_LABEL)[..., None]
    sums = means.float().masked_fill(~is_target, 0.0).sum(1)
    counts = is_target.sum(1).clamp(min=1)
    return (sums / counts).cpu().numpy()


def active_units(means: Sequence[np.ndarray]) -> int:
    """The number of latent variables whose mean has a variance above .01 over the documents.

    Args:
        means: for each document (L,), see `document_means`.
    """
    variances = np.stack(means).astype(np.float64).var(axis=0)
    return int((variances > _ACTIVE_VARIANCE).sum())
