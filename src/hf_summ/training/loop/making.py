"""Making the trainer of a run: its collator, and the scoring of the summaries that an evaluation generates."""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import datasets
import torch
from transformers import EvalPrediction

from hf_summ.data import SummarizationCollator
from hf_summ.models.checks import IGNORED_LABEL
from hf_summ.training.arguments import DataArguments, SummarizationTrainingArguments
from hf_summ.training.checks import asks_for_fsdp
from hf_summ.training.loop.rewards import rouge_rewards
from hf_summ.training.loop.trainer import SummarizationTrainer
from hf_summ.training.model import RunModel, chooses_sentences
from hf_summ.training.results.reports import Scorer, score

logger = logging.getLogger(__name__)


class PaddingLearningCollator(SummarizationCollator):
    """The collator for --no_ignore_pad_token_for_loss, with which padding tokens are labels too."""

    def __call__(self, features: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        """The batch of some rows, in which padding tokens take the place of ignored labels."""
        batch = super().__call__(features)
        labels = batch["labels"]
        batch["labels"] = labels.masked_fill(labels == IGNORED_LABEL, self.processor.pad_token_id)
        return batch


def make_trainer(
    run_model: RunModel,
    data: DataArguments,
    training: SummarizationTrainingArguments,
    scorer: Scorer | None,
    prepared: Mapping[str, datasets.Dataset],
) -> SummarizationTrainer:
    """The trainer of a run.

    Args:
        run_model: the model, the processor and the lengths of texts.
        scorer: scores the summaries of an evaluation; None if the run has none.
        prepared: the rows of each split as the model reads them.
    """
    processor, lengths = run_model.processor, run_model.lengths
    compute_metrics = None
    if scorer is not None:
        # texts are scored in the form that the processor reads
        scorer.clean = getattr(processor, "clean", scorer.clean)

        def compute_metrics(predictions: EvalPrediction) -> dict[str, float]:
            chooses = chooses_sentences(run_model.model)
            return score(predictions, processor, scorer, data.source_prefix, chooses)

    # half precision is only fast on multiples of eight
    is_half = training.fp16 or training.bf16
    collator_class = SummarizationCollator if data.ignore_pad_token_for_loss else PaddingLearningCollator
    collator = collator_class(
        processor,
        model=run_model.model,
        pad_to_multiple_of=8 if is_half else None,
        pad_to_max_length=data.pad_to_max_length,
        max_source_length=lengths.source,
        max_target_length=max(lengths.target, lengths.evaluation_target),
    )
    trainer = SummarizationTrainer(
        run_model.model,
        training,
        train_dataset=prepared.get("train"),
        eval_dataset=prepared.get("validation"),
        data_collator=collator,
        processing_class=processor,
        compute_metrics=compute_metrics,
    )
    if trainer.reward is rouge_rewards:
        # a reward that the user has put in its place stays
        trainer.reward = partial(rouge_rewards, language=data.language)
    if asks_for_fsdp(training) and not trainer.is_fsdp_enabled:
        logger.warning("FSDP is off, because accelerate shards over GPUs only: each process has the whole model")
    return trainer
