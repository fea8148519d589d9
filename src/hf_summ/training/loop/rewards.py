"""Training on the ROUGE of sampled summaries, as a mixed objective (Paulus, Xiong and Socher 2018, section 3).

The baseline of a sample's reward is the mean reward of the document's other samples (Kool, van Hoof and Welling 2019).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from transformers import GenerationConfig, PreTrainedModel

from hf_summ.checkpoints.adapters import base_model
from hf_summ.evaluation.rouge import RougeSettings, rouge
from hf_summ.models.checks import IGNORED_LABEL
from hf_summ.models.modeling_base import SummarizationPreTrainedModel
from hf_summ.training.loop.evaluation import RowwiseTrainer, of_source

# the rewards (N,) of N sampled summaries, given their references
Reward = Callable[[Sequence[str], Sequence[str]], np.ndarray]

_METRICS = ("rouge1", "rouge2", "rougeL")


def sampled_loss(
    trainer: RowwiseTrainer,
    model: nn.Module,
    inputs: dict[str, Any],
    reward: Reward,
    items: torch.Tensor | int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The loss of summaries sampled for a batch, and their mean reward per target token.

    Args:
        model: as the trainer prepared it.
        items: the number to divide both sums by, or (B, 1), one for each document; by default the batch's number of
            target tokens.
    """
    labels, processor, samples = inputs["labels"], trainer.processing_class, trainer.args.reward_samples
    tokens = (labels != IGNORED_LABEL).sum(1)
    items = tokens.sum() if items is None else items
    sampling = sampling_config(trainer.model.generation_config, samples, trainer.args.reward_temperature)
    trainer.model.eval()
    rows = trainer.generate_ids(inputs, sampling)
    trainer.model.train()
    texts = processor.batch_decode(rows, skip_special_tokens=True)
    targets = labels.masked_fill(labels == IGNORED_LABEL, sampling.pad_token_id)
    references = processor.batch_decode(targets.repeat_interleave(samples, 0), skip_special_tokens=True)
    rewards = torch.tensor(reward(texts, references), dtype=torch.float32, device=labels.device).view(-1, samples)
    losses = policy_losses(model, base_model(trainer.model), of_source(inputs), rows, advantages(rewards))
    earned = rewards.mean(1) * tokens
    return (losses[:, None] / items).sum(), (earned[:, None] / items).sum()


def rouge_rewards(texts: Sequence[str], references: Sequence[str], language: str = "en") -> np.ndarray:
    """The mean F of ROUGE-1, ROUGE-2 and ROUGE-L of each text, 0 to 1, (N,)."""
    # one more pair, as references without any words are refused
    settings = RougeSettings(rouge_mode="rouge_score", rouge_types=_METRICS, language=language)
    scores = rouge([*texts, "a"], [*references, "a"], settings)
    return np.mean([scores[metric].fmeasure[:-1] for metric in _METRICS], axis=0) / 100


def sampling_config(config: GenerationConfig, samples: int, temperature: float) -> GenerationConfig:
    """Settings to sample from the model's own distribution, without the rules of `config`, to its maximum length."""
    tokens = {name: value for name, value in config.to_dict().items() if name.endswith("token_id")}
    lengths = {name: getattr(config, name) for name in ("max_new_tokens", "max_length")}
    sampling = {"do_sample": True, "top_k": 0, "num_return_sequences": samples, "temperature": temperature}
    return GenerationConfig(**tokens, **lengths, **sampling)


def advantages(rewards: torch.Tensor) -> torch.Tensor:
    """Each sample's reward minus the mean of the document's other samples, (B, K) -> (B, K)."""
    samples = rewards.shape[1]
    return (rewards - rewards.mean(1, keepdim=True)) * (samples / (samples - 1))


def policy_losses(
    model: nn.Module,
    own: PreTrainedModel,
    source: dict[str, torch.Tensor],
    samples: Sequence[Sequence[int]],
    weights: torch.Tensor,
) -> torch.Tensor:
    """Minus the mean over a document's samples of weight · log p(sample), (B,).

    Args:
        model: as the trainer prepared it.
        own: the model itself.
        source: the model's inputs of B documents.
        samples: token ids that begin with the decoder's start token; those of a document are consecutive.
        weights: (B, K), of each document's samples.
    """
    number, length = weights.shape[1], max(map(len, samples))
    rows = [[*row, *[IGNORED_LABEL] * (length - len(row))] for row in samples]
    tokens = torch.tensor(rows, device=weights.device)
    labels = tokens[:, 1:]
    if isinstance(own, SummarizationPreTrainedModel):
        # it reads each document once, and may point to its words
        labels = own.read_labels(labels, source)
    else:
        source = {name: value.repeat_interleave(number, dim=0) for name, value in source.items()}
    given = tokens[:, :-1].masked_fill(tokens[:, :-1] == IGNORED_LABEL, own.generation_config.pad_token_id)
    logits = model(**source, decoder_input_ids=given)["logits"]
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    losses = cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
    return (losses.view(*weights.shape, -1).sum(2) * weights).mean(1)
