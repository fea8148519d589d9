"""Training on the ROUGE of sampled summaries, as a mixed objective (Paulus, Xiong and Socher 2018, section 3).

Several summaries of a document are sampled, and training makes those more probable whose reward is above a baseline.
The baseline of a sample is the mean reward of the document's other samples (Kool, van Hoof and Welling 2019).

A model that copies may write words that its vocabulary lacks. Rewards compare these words too, as placeholders.
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from transformers import GenerationConfig, PreTrainedModel

from hf_summ.checkpoints.adapters import base_model
from hf_summ.checkpoints.loading import Processor
from hf_summ.evaluation.rouge import RougeSettings, rouge
from hf_summ.models.checks import IGNORED_LABEL, check_integer
from hf_summ.models.modeling_base import SummarizationPreTrainedModel
from hf_summ.models.text_documents import FIRST_POINTER, PointedWord, decode_pointed
from hf_summ.training.loop.evaluation import RowwiseTrainer, source_inputs

# maps N sampled summaries and their references to the rewards of the summaries, (N,)
Reward = Callable[[Sequence[str], Sequence[str]], np.ndarray]

_METRICS = ("rouge1", "rouge2", "rougeL")


def sampled_loss(
    trainer: RowwiseTrainer,
    model: nn.Module,
    inputs: dict[str, Any],
    reward: Reward,
    divisor: torch.Tensor | int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sample summaries of a batch of B documents, and compute their loss and their reward.

    Both results are sums over the documents, and each term of a sum is divided by `divisor`. Let r be the mean reward
    of a document's samples, and n its number of target tokens. The term of the document is its `policy_losses` in the
    loss, and r · n in the reward.

    Args:
        trainer: the trainer, whose arguments set the number of samples for each document and the temperature.
        model: the trainer's model as accelerate wraps it.
        inputs: the batch.
        reward: computes the rewards of the samples.
        divisor: the same divisor as that of the model's own loss, for all documents or, (B, 1), for each document. By
            default, it is the batch's number of target tokens, so that the reward is a mean over target tokens. If
            the divisor of each document is n times the number of documents, the reward is a mean over documents.

    Returns:
        Two scalars: the loss and the reward.

    Raises:
        ValueError: `reward_samples` is below 2.
    """
    labels = inputs["labels"]
    processor = trainer.processing_class
    samples = cast(int, trainer.args.reward_samples)
    target_lengths = (labels != IGNORED_LABEL).sum(1)
    if divisor is None:
        divisor = target_lengths.sum()
    sampling = sampling_config(trainer.model.generation_config, samples, trainer.args.reward_temperature)
    # summaries are sampled without dropout
    trainer.model.eval()
    token_ids = trainer.generate_ids(inputs, sampling)
    trainer.model.train()
    source_ids = inputs["input_ids"].repeat_interleave(samples, 0).tolist()
    texts = decode_with_placeholders(processor, token_ids, source_ids)
    targets = labels.masked_fill(labels == IGNORED_LABEL, sampling.pad_token_id)
    target_ids = targets.repeat_interleave(samples, 0).tolist()
    references = decode_with_placeholders(processor, target_ids, source_ids)
    rewards = torch.tensor(reward(texts, references), dtype=torch.float32, device=labels.device)
    rewards = rewards.view(-1, samples)
    unwrapped = base_model(trainer.model)
    losses = policy_losses(model, unwrapped, source_inputs(inputs), token_ids, advantages(rewards))
    weighted_rewards = rewards.mean(1) * target_lengths
    # losses and rewards become columns, (B, 1), as `divisor` may be a column too
    loss = (losses[:, None] / divisor).sum()
    mean_reward = (weighted_rewards[:, None] / divisor).sum()
    return loss, mean_reward


def decode_with_placeholders(
    processor: Processor, summaries: Sequence[Sequence[int]], source_ids: Sequence[Sequence[int]]
) -> list[str]:
    """Decode the ids of N summaries to texts without special tokens.

    A word that the vocabulary lacks becomes a placeholder such as `unk51601`. The number is its id, which equal words
    share.

    Args:
        processor: the processor, or a tokenizer, which has no ids of such words.
        summaries: the ids of each summary, among which may be pointers to words of its source.
        source_ids: the ids of each summary's source.
    """
    if not getattr(processor, "unknown_ids", 0):
        return processor.batch_decode(summaries, skip_special_tokens=True)
    tokenizer = processor.tokenizer
    texts = []
    for summary, source in zip(summaries, source_ids, strict=True):
        word_ids = [source[token - FIRST_POINTER] if token >= FIRST_POINTER else token for token in summary]
        placeholders = {}
        for word_id in word_ids:
            if word_id >= len(tokenizer):
                placeholders[word_id] = PointedWord(f"unk{word_id}", opens_word=True)
        texts.append(decode_pointed(tokenizer, word_ids, placeholders, skip_special_tokens=True))
    return texts


def rouge_rewards(texts: Sequence[str], references: Sequence[str], language: str = "en") -> np.ndarray:
    """The mean of each text's F-scores in ROUGE-1, ROUGE-2 and ROUGE-L, 0 to 1, (N,).

    Args:
        texts: N summaries.
        references: the reference of each summary.
        language: ISO 639 code of the texts' language.
    """
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

    Raises:
        ValueError: there are fewer than 2 samples.
    """
    check_integer("reward_samples", samples, 2, why=", as the baseline of a sample is the reward of the others")
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
    """Each sample's reward minus the mean reward of the document's other samples, (B, K) -> (B, K).

    Args:
        rewards: (B, K), the rewards of K samples of each document, where K is at least 2.
    """
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
    """For each document, the mean of -weight · log p(sample) over its samples, (B,).

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
