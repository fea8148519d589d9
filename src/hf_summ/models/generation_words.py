"""Decoding by words in PyTorch: forbidden tokens, unknown words, and a model's own tokenizer."""

from collections.abc import Sequence

import torch
from transformers import LogitsProcessor, PreTrainedTokenizerFast
from transformers.generation import logits_process

from .generation_rules import MinLength, NoRepeatNGram, Rule
from .text_words import FIRST_POINTER


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
    """The rule by which one of our processors or of transformers' forbids tokens; None if it does more."""
    if isinstance(processor, ForbiddingLogitsProcessor):
        return processor.rule
    if type(processor) is logits_process.MinLengthLogitsProcessor:
        return MinLength(processor.min_length, processor.eos_token_id.tolist())
    if type(processor) is logits_process.MinNewTokensLengthLogitsProcessor:
        length = processor.prompt_length_to_skip + processor.min_new_tokens
        return MinLength(length, processor.eos_token_id.tolist())
    if type(processor) is logits_process.NoRepeatNGramLogitsProcessor:
        return NoRepeatNGram(processor.ngram_size)
    return None


def replace_unknown(
    sequences: torch.Tensor, attentions: torch.Tensor, source_ids: torch.Tensor, unknown: int, special: Sequence[int]
) -> torch.Tensor:
    """Replace unknown words by the source words with the most attention (Luong et al. 2015).

    A source word that is unknown as well has a text, but no id: `FIRST_POINTER` plus its position replaces it, which
    processors look up in the document and plain tokenizers omit. If the source has no words, `unknown` stays.

    Args:
        sequences: (R, L), R = B · n.
        attentions: (R, L - 1, S), the attention of each token after the first.
        source_ids: (B, S).
        unknown, special: the id of unknown words, and ids that are not words, such as padding and the end.
    """
    source_ids = source_ids.repeat_interleave(len(sequences) // len(source_ids), dim=0)
    is_word = ~torch.isin(source_ids, torch.tensor(special, device=source_ids.device))
    positions = attentions.masked_fill(~is_word[:, None], -1.0).argmax(-1)
    words = source_ids.gather(1, positions)
    words = torch.where(words == unknown, FIRST_POINTER + positions, words)
    is_replaced = (sequences[:, 1:] == unknown) & is_word.any(-1, keepdim=True)
    return torch.cat((sequences[:, :1], torch.where(is_replaced, words, sequences[:, 1:])), dim=1)


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
