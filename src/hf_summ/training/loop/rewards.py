"""Training on the ROUGE of sampled summaries, as a mixed objective (Paulus, Xiong and Socher 2018, section 3).

Several summaries of a document are sampled, and training makes those more probable whose reward is above a baseline.
The baseline of a sample is the mean reward of the document's other samples (Kool, van Hoof and Welling 2019).
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
from hf_summ.training.loop.evaluation import RowwiseTrainer, source_inputs

# maps N sampled summaries and their references to the rewards of the summaries, (N,)
Reward = Callable[[Sequence[str], Sequence[str]], np.ndarray]

_METRICS = ("rouge1", "rouge2", "rougeL")


def sampled_loss(
    trainer: RowwiseTrainer,
    model: nn.Module,
    inputs: dict[str, Any],
    reward: Reward,
    items: torch.Tensor | int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The loss of summaries sampled for a batch of B documents, and their mean reward per target token.

    Args:
        trainer: its arguments set the number of samples for each document and the temperature.
        model: the trainer's model as accelerate wraps it.
        inputs: the batch.
        reward: computes the rewards of the samples.
        items: the number to divide both sums by, or (B, 1), one for each document; by default the batch's number of
            target tokens.

    Returns:
        Two scalars: the loss, and the mean reward of the samples, for which each document counts as often as it has
        target tokens.
    """
    labels = inputs["labels"]
    processor = trainer.processing_class
    samples = trainer.args.reward_samples
    target_lengths = (labels != IGNORED_LABEL).sum(1)
    if items is None:
        items = target_lengths.sum()
    sampling = sampling_config(trainer.model.generation_config, samples, trainer.args.reward_temperature)
    # summaries are sampled without dropout
    trainer.model.eval()
    token_ids = trainer.generate_ids(inputs, sampling)
    trainer.model.train()
    texts = processor.batch_decode(token_ids, skip_special_tokens=True)
    targets = labels.masked_fill(labels == IGNORED_LABEL, sampling.pad_token_id)
    references = processor.batch_decode(targets.repeat_interleave(samples, 0), skip_special_tokens=True)
    rewards = torch.tensor(reward(texts, references), dtype=torch.float32, device=labels.device)
    rewards = rewards.view(-1, samples)
    unwrapped = base_model(trainer.model)
    losses = policy_losses(model, unwrapped, source_inputs(inputs), token_ids, advantages(rewards))
    rewards_of_tokens = rewards.mean(1) * target_lengths
    loss = (losses[:, None] / items).sum()
    mean_reward = (rewards_of_tokens[:, None] / items).sum()
    return loss, mean_reward


def rouge_rewards(texts: Sequence[str], references: Sequence[str], language: str = "en") -> np.ndarray:
    """The mean F of ROUGE-1, ROUGE-2 and ROUGE-L of each text, 0 to 1, (N,)."""
    settings = RougeSettings(rouge_mode="rouge_score", rouge_types=_METRICS, language=language)
    # `rouge` refuses references without any words, so a pair with a word is added and its score left out
    scores = rouge(list(texts) + ["a"], list(references) + ["a"], settings)
    points = [scores[metric].fmeasure[:-1] for metric in _METRICS]
    return np.mean(points, axis=0) / 100


def sampling_config(config: GenerationConfig, samples: int, temperature: float) -> GenerationConfig:
    """Settings to sample from the model's distribution, without rules of decoding such as `no_repeat_ngram_size`.

    Args:
        config: the model's generation settings, of which the special tokens and the maximum length are kept.
        samples: the number of samples for each document.
        temperature: divides the logits.
    """
    tokens = {name: value for name, value in config.to_dict().items() if name.endswith("token_id")}
    return GenerationConfig(
        max_new_tokens=config.max_new_tokens,
        max_length=config.max_length,
        do_sample=True,
        top_k=0,
        num_return_sequences=samples,
        temperature=temperature,
        **tokens,
    )


def advantages(rewards: torch.Tensor) -> torch.Tensor:
    """Each sample's reward minus the mean of the document's other samples, (B, K) -> (B, K)."""
    samples = rewards.shape[1]
    # r_k - (sum of the other rewards) / (K - 1) = (r_k - mean of all rewards) · K / (K - 1)
    return (rewards - rewards.mean(1, keepdim=True)) * (samples / (samples - 1))


def policy_losses(
    model: nn.Module,
    unwrapped: PreTrainedModel,
    source: dict[str, torch.Tensor],
    samples: Sequence[Sequence[int]],
    weights: torch.Tensor,
) -> torch.Tensor:
    """Minus the mean over a document's samples of weight · log p(sample), (B,).

    Args:
        model: computes the logits, as accelerate wraps it.
        unwrapped: the same model without wrappers.
        source: the model's inputs of B documents.
        samples: the B · K token ids of samples that begin with the decoder's start token; a document's samples are
            consecutive.
        weights: (B, K), one weight for each sample.
    """
    samples_per_document = weights.shape[1]
    length = max(len(sample) for sample in samples)
    padded = []
    for sample in samples:
        padding = [IGNORED_LABEL] * (length - len(sample))
        padded.append(list(sample) + padding)
    tokens = torch.tensor(padded, device=weights.device)
    decoder_input_ids = tokens[:, :-1]
    labels = tokens[:, 1:]
    is_padding = decoder_input_ids == IGNORED_LABEL
    decoder_input_ids = decoder_input_ids.masked_fill(is_padding, unwrapped.generation_config.pad_token_id)
    if isinstance(unwrapped, SummarizationPreTrainedModel):
        # the package's models read each document once for all of its samples, which may point to its words
        labels = unwrapped.read_labels(labels, source)
    else:
        source = {name: value.repeat_interleave(samples_per_document, dim=0) for name, value in source.items()}
    logits = model(**source, decoder_input_ids=decoder_input_ids)["logits"]
    # sums of half-precision logits would be inaccurate; double precision is kept
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    token_losses = cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
    sample_losses = token_losses.view(*weights.shape, -1).sum(2)
    return (sample_losses * weights).mean(1)
