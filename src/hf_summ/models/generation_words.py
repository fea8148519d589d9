"""Decoding by words in PyTorch: forbidden tokens, and a model's own tokenizer."""

import torch
from transformers import LogitsProcessor, PreTrainedTokenizerFast
from transformers.generation import logits_process

from .generation_rules import BadWords, Force, MinLength, NoRepeatNGram, Rule


class ForbiddingLogitsProcessor(LogitsProcessor):
    """Forbids tokens of a row by the row's ids alone."""

    def __init__(self, rule: Rule):
        self.rule = rule

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        return self.forbid(input_ids, scores.clone())

    def forbid(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Write -inf into the scores (R, V), and return them."""
        rows, tokens = (torch.tensor(indices, device=scores.device) for indices in self.rule.pairs(input_ids.tolist()))
        if self.rule.ends:
            scores[rows] = -torch.inf
        elif len(rows):
            before = scores[rows, tokens]
            scores[rows, tokens] = -torch.inf
            if self.rule.yields:
                nothing_else = scores.amax(-1).isneginf()[rows]
                scores[rows, tokens] = before.where(nothing_else, -torch.inf)
        return scores


def rule_of(processor: LogitsProcessor) -> Rule | None:
    """The rule by which one of our processors or of transformers' forbids or forces tokens; None if it does more."""
    if isinstance(processor, ForbiddingLogitsProcessor):
        return processor.rule
    if type(processor) is logits_process.MinLengthLogitsProcessor:
        return MinLength(processor.min_length, processor.eos_token_id.tolist())
    if type(processor) is logits_process.MinNewTokensLengthLogitsProcessor:
        length = processor.prompt_length_to_skip + processor.min_new_tokens
        return MinLength(length, processor.eos_token_id.tolist())
    if type(processor) is logits_process.NoRepeatNGramLogitsProcessor:
        return NoRepeatNGram(processor.ngram_size)
    if type(processor) is logits_process.NoBadWordsLogitsProcessor:
        return BadWords([*processor.sequence_bias])
    if type(processor) is logits_process.ForcedBOSTokenLogitsProcessor:
        return Force([processor.bos_token_id], 1)
    if type(processor) is logits_process.ForcedEOSTokenLogitsProcessor:
        return Force(processor.eos_token_id.tolist(), processor.max_length - 1)
    return None


def own_tokenizer(model) -> PreTrainedTokenizerFast:
    """The tokenizer in the folder or Hub repository that the model was loaded from; without one, a ValueError."""
    problem = "this model was not loaded from a checkpoint"
    if model.name_or_path:
        try:
            return PreTrainedTokenizerFast.from_pretrained(model.name_or_path, **model.hub_settings)
        except (OSError, ValueError) as error:
            reason = str(error).strip().partition("\n")[0]
            problem = f"none can be read from {model.name_or_path} ({reason})"
    raise ValueError(
        "`no_repeat_word_ngram_size`, `min_new_words`, `english_articles`, `support_weight` and `replace_unk` need the "
        f"tokenizer, and {problem}: give it as `model.generate(..., tokenizer=processor)`, or set them to 0"
    )
