"""The evaluation loop: a loss and a summary for each row, each row once, in the data set's order."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, cast

import datasets
import numpy as np
import torch
from accelerate.utils import gather_object
from torch import nn
from torch.utils.data import DataLoader
from transformers import GenerationConfig, Seq2SeqTrainer
from transformers.trainer_utils import EvalLoopOutput, EvalPrediction

from hf_summ.checkpoints.adapters import base_model, takes
from hf_summ.data.columns import PREFIX_COLUMN, reference_texts, source_column
from hf_summ.evaluation import perplexity
from hf_summ.models.checks import IGNORED_LABEL
from hf_summ.models.modeling_sagcopy import guidance_divergence
from hf_summ.runtimes.documents import clear_aliases
from hf_summ.training.rows.batches import BatchOrder

# variance above which a latent variable is active (Burda et al. 2016, section 5)
_ACTIVE_VARIANCE = 0.01


class RowwiseTrainer(Seq2SeqTrainer):
    """A Seq2SeqTrainer that evaluates each row exactly once; its loaders' batches come from `BatchOrder`.

    It generates with the model's generation settings, leaves them unchanged, and passes the tokenizer to settings that
    count words. Predictions are in the data set's order, one list of token ids per row. `compute_metrics` gets them,
    with `references` or `summary` as label_ids, and as inputs the columns `documents` or `document`, and `prefix`, if
    the data set has them.

    Attributes:
        row_values: each row's values from the last evaluation: `nll` and `tokens`, see `perplexity`, unless the model
            computes its loss without logits; and `divergence` of the summary, if copying is guided. Empty without both.
    """

    row_values: Sequence[dict[str, float]] = ()
    _is_prepared = False

    def evaluation_loop(
        self,
        dataloader: DataLoader,
        description: str,
        prediction_loss_only: bool | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> EvalLoopOutput:
        """Loss and perplexity over all target tokens, and generated summaries, each row counted once."""
        model = self._evaluation_model()
        self.callback_handler.eval_dataloader = dataloader
        if prediction_loss_only is None:
            prediction_loss_only = self.args.prediction_loss_only
        generates = self.args.predict_with_generate and not prediction_loss_only
        rows: dict[int, dict[str, Any]] = {}
        for indices, inputs in zip(cast(BatchOrder, dataloader.batch_sampler), dataloader, strict=True):
            records = self._score(model, inputs)
            if generates:
                summaries = self.generate_ids(inputs)
                for record, tokens in zip(records, summaries, strict=True):
                    record["prediction"] = tokens
                for record, divergence in zip(records, self._divergences(model, inputs, summaries), strict=False):
                    record["row"] = {**record.get("row", {}), "divergence": divergence}
            rows.update(zip(indices, records, strict=True))
            self.control = self.callback_handler.on_prediction_step(self.args, self.state, self.control)
        dataset = cast(datasets.Dataset, dataloader.dataset)
        rows = dict(gather_object(list(rows.items())))
        records = [rows[index] for index in range(len(dataset))]
        self.row_values = [record["row"] for record in records if "row" in record]
        metrics = _loss_metrics(records)
        predictions = [record["prediction"] for record in records] if generates else None
        columns = getattr(dataset, "column_names", ())
        references = reference_texts(dataset) if "summary" in columns else None
        sources = {name: list(dataset[name]) for name in (source_column(columns), PREFIX_COLUMN) if name in columns}
        if generates and references is not None and self.compute_metrics is not None:
            metrics |= self.compute_metrics(EvalPrediction(predictions, references, inputs=sources))
        metrics = {f"{metric_key_prefix}_{name}": value for name, value in metrics.items()}
        return EvalLoopOutput(predictions, references, metrics, num_samples=len(dataset))

    def _evaluation_model(self) -> nn.Module:
        """The model, prepared and in evaluation mode, also if no training preceded."""
        self._use_averages()
        model = self.model
        if not self._is_prepared:
            model = self.accelerator.prepare_model(model, evaluation_mode=True)
            self._is_prepared = True
        if not self.is_in_train and (self.args.fp16_full_eval or self.args.bf16_full_eval):
            model = model.to(dtype=torch.float16 if self.args.fp16_full_eval else torch.bfloat16)
        return model.to(self.args.device).eval()

    def _use_averages(self) -> None:
        """Until the next update, give the model the weights that a schedule-free optimizer averages."""
        if hasattr(self.optimizer, "eval"):
            self.optimizer.eval()

    @torch.no_grad()
    def _score(self, model: nn.Module, inputs: dict[str, Any]) -> list[dict[str, Any]]:
        """A record per row: the batch's loss and its components, and the row's number of target tokens."""
        if "labels" not in inputs:
            return [{} for _ in range(len(inputs["input_ids"]))]
        tokens = inputs["labels"].ne(IGNORED_LABEL).sum(-1).tolist()
        if takes(self.model, "skip_logits"):
            # the logits of a batch would be the largest tensor in evaluation, and are not read here
            inputs = {**inputs, "skip_logits": True}
        with self.compute_loss_context_manager():
            # a copy, as a loss function takes the labels out
            loss, outputs = self.compute_loss(model, dict(inputs), return_outputs=True)
        values = {"loss": loss.float().mean().item()}
        values |= {name: value.float().mean().item() for name, value in (outputs.get("loss_parts") or {}).items()}
        latent_means = outputs.get("latent_means")
        if latent_means is not None:
            # the loss without latent variables shows their contribution
            with self.compute_loss_context_manager():
                _, without = self.compute_loss(model, {**inputs, "zero_latent": True}, return_outputs=True)
            values["nll_zero_latent"] = without["loss_parts"]["nll"].float().mean().item()
        records: list[dict[str, Any]] = [{"tokens": count, **values} for count in tokens]
        if latent_means is not None:
            for record, row in zip(records, document_means(latent_means, inputs["labels"]), strict=True):
                record["latent"] = row
        if outputs.get("logits") is not None:
            read = getattr(base_model(self.model), "read_labels", None)
            nll = _row_nll(outputs["logits"], inputs["labels"] if read is None else read(inputs["labels"], inputs))
            for record, value in zip(records, nll, strict=True):
                record["row"] = {"nll": value, "tokens": record["tokens"]}
        return records

    @torch.no_grad()
    def _divergences(
        self, model: nn.Module, inputs: dict[str, torch.Tensor], summaries: list[list[int]]
    ) -> list[float]:
        """KL(mean_t a_t ‖ p) of each summary (Xu et al. 2020, equation 18), from one teacher-forced forward pass.

        Args:
            summaries: generated ids, each beginning with the decoder's start token.

        Returns:
            The divergence of each summary's copying from the centrality; an empty list if copying is not guided.
        """
        if not getattr(base_model(self.model).config, "is_guided", False):
            return []
        length = max(len(summary) for summary in summaries)
        labels = torch.full((len(summaries), max(length - 1, 1)), IGNORED_LABEL, device=inputs["input_ids"].device)
        for row, summary in enumerate(summaries):
            labels[row, : len(summary) - 1] = torch.tensor(summary[1:])
        with self.compute_loss_context_manager():
            outputs = model(**of_source(inputs), labels=labels, skip_logits=True)
            return guidance_divergence(outputs["copy_attentions"], labels, outputs["centrality"]).tolist()

    @torch.no_grad()
    def generate_ids(
        self, inputs: dict[str, torch.Tensor], sampling: GenerationConfig | None = None
    ) -> list[list[int]]:
        """Generated token ids of every row, without trailing padding, or those of `sampling` in place of evaluation."""
        inputs = of_source(inputs)
        if sampling is None:
            # `max_length` replaces the `max_new_tokens` that a run's generation config has
            settings = clear_aliases({name: value for name, value in self._gen_kwargs.items() if value is not None})
            # a row has one summary, whatever the checkpoint sets
            settings |= {"num_return_sequences": 1, "return_dict_in_generate": False}
        else:
            # training switches it off
            settings = {"use_cache": True}
        if self.processing_class is not None:
            settings["tokenizer"] = getattr(self.processing_class, "tokenizer", self.processing_class)
        # generate() fills in unset values of the generation config, which checkpoints would save
        generation_config = deepcopy(self.model.generation_config)
        self.model.generation_config = sampling or self.model.generation_config
        try:
            # generate() calls the encoder directly, outside the method that accelerate wraps
            with self.accelerator.autocast():
                generated = self.model.generate(**inputs, **settings)
        finally:
            self.model.generation_config = generation_config
        ends = generation_config.eos_token_id
        ends = ends if isinstance(ends, list) else [ends]
        return [strip_padding(row, generation_config.pad_token_id, ends) for row in generated.tolist()]


def of_source(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The inputs of a batch that describe its documents."""
    return {name: value for name, value in inputs.items() if name != "labels" and "decoder" not in name}


def _loss_metrics(records: list[dict[str, Any]]) -> dict[str, float]:
    """Token-weighted means over the whole data set, and the perplexity without label smoothing."""
    tokens = sum(record.get("tokens", 0) for record in records)
    if not tokens:
        return {}
    names = [name for name in records[0] if name not in ("tokens", "prediction", "row", "latent")]
    means = {name: sum(record[name] * record["tokens"] for record in records) / tokens for name in names}
    if "latent" in records[0]:
        means["active_units"] = active_units([record["latent"] for record in records if record["tokens"]])
    means["perplexity"] = float(perplexity(np.array([tokens * means.get("nll", means["loss"]), tokens])))
    return means


def _row_nll(logits: torch.Tensor, labels: torch.Tensor) -> list[float]:
    """Negative log-likelihood of each row, summed over its target tokens, (B, T, V) and (B, T) -> B numbers."""
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    nll = logits.logsumexp(-1) - logits.gather(-1, labels.clamp(min=0)[..., None])[..., 0]
    return nll.masked_fill(labels == IGNORED_LABEL, 0.0).sum(-1).tolist()


def strip_padding(tokens: list[int], padding: int | None, ends: list[int | None]) -> list[int]:
    """The tokens of one row without trailing padding, whichever token `generate()` pads with.

    Args:
        padding: the padding token.
        ends: the end tokens.
    """
    end = len(tokens)
    while end and tokens[end - 1] in (padding, IGNORED_LABEL):
        end -= 1
    # transformers' beam search pads with the end token where the padding token's id is 0
    while end > 2 and tokens[end - 1] in ends and tokens[end - 2] in ends:
        end -= 1
    return tokens[:end]


def document_means(means: torch.Tensor, labels: torch.Tensor) -> np.ndarray:
    """The latent means of each document: the (B, T, L) means, averaged over the target tokens in (B, T) labels; (B, L).

    The means of a document without target tokens are zero.
    """
    is_target = (labels != IGNORED_LABEL)[..., None]
    sums = means.float().masked_fill(~is_target, 0.0).sum(1)
    return (sums / is_target.sum(1).clamp(min=1)).cpu().numpy()


def active_units(means: Sequence[np.ndarray]) -> int:
    """The number of latent variables whose mean has a variance above .01 over the documents.

    Args:
        means: (L,) for each document, see `document_means`.
    """
    return int((np.stack(means).astype(np.float64).var(axis=0) > _ACTIVE_VARIANCE).sum())
