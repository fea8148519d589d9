"""Pre-trained language models compared as judges of text (Aksenov 2020, section 4.2.2, Tables 4.1 to 4.3).

A token is accepted if its probability, given the tokens before it, is above the p-th percentile of the
language model's distribution there. A good judge accepts a written text. It rejects the text's words in random order,
and random words. *Recall* is the share of tokens accepted in the text, *detection* the share rejected in its shuffle
or in random words, and *accuracy* the mean of the two.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypedDict

import torch
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_MASKED_LM_MAPPING,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from hf_summ.common.messages import one_line, progress_bar
from hf_summ.evaluation.pair_models import Unfit, load_checkpoint
from hf_summ.models.layers_copy_transformer import longest_input
from hf_summ.models.layers_language_model import above_percentile, draft_predictions, rows_at_once
from hf_summ.models.text_documents import readable

MASKED, CAUSAL, PERMUTATION = "masked", "causal", "permutation"
# The longest context of a token, which bounds memory for models without a maximum length.
_LONGEST_CONTEXT = 1024
# The name of the random words among the texts.
_RANDOM_WORDS = "random words"
# Whether each token that is judged is accepted.
Decisions = list[bool]


@dataclass
class LanguageModel:
    """A pre-trained language model with its tokenizer.

    Attributes:
        objective: "masked", "causal" or "permutation": how a token is predicted from those before it.
        start: id of the token that precedes a text, or None.
        context: number of tokens that the model reads at once, including the predicted one.
    """

    name: str
    objective: str
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    start: int | None
    context: int

    @property
    def judges_first_token(self) -> bool:
        """Whether a text's first token is judged, before which only the start token stands.

        A masked model's first token is not judged: the percentages of Table 4.2 imply one token fewer than BERT's
        tokenizer gives.
        """
        return self.start is not None and self.objective != MASKED

    def tokens(self, text: str) -> list[int]:
        """Ids of the text's tokens, without special tokens."""
        tokens = self.tokenizer(readable(text), add_special_tokens=False, verbose=False)["input_ids"]
        if max(tokens, default=0) >= self.model.config.vocab_size:
            raise ValueError(
                f"{self.name}: its tokenizer gives token {max(tokens)}, but the model has "
                f"{self.model.config.vocab_size} tokens, so they belong to different checkpoints"
            )
        return tokens


@dataclass(frozen=True)
class _Sample:
    """A text to judge, and its words in random order."""

    name: str
    text: str
    shuffle: str


@dataclass(frozen=True)
class _JudgedSample:
    """The decisions on a sample's text and on its shuffle: one list for each percentile."""

    name: str
    text_decisions: list[Decisions]
    shuffle_decisions: list[Decisions]


class JudgedText(TypedDict):
    """A row of the tables: how a language model judges a text at a percentile; see `compare_language_models`."""

    percentile: float
    text: str
    tokens: int
    recall: float | None
    detection: float
    accuracy: float | None


def load_language_model(name: str) -> LanguageModel:
    """Load a masked, causal or permutation language model from a folder or the Hub, onto the GPU if there is one.

    XLNet is a permutation LM, BERT and RoBERTa are masked, and decoder-only models are causal. A masked LM starts with
    `[CLS]`, a causal one with its beginning-of-text token. XLNet has no token that starts a text: its `<cls>` comes
    last.
    """

    def choose_class(config: PreTrainedConfig) -> type:
        if _objective(name, config) == MASKED:
            return AutoModelForMaskedLM
        return AutoModelForCausalLM

    checkpoint = load_checkpoint(name, "language", choose_class)
    model, tokenizer, missing = checkpoint.model, checkpoint.tokenizer, checkpoint.missing_weights
    objective = _objective(name, model.config)
    if missing:
        raise ValueError(
            f"{name} has no weights for {min(missing)} ({len(missing)} are missing), so it is not a {objective} "
            "language model: give a checkpoint that was saved with its language model head"
        )
    if objective == MASKED and tokenizer.mask_token_id is None:
        raise ValueError(f"{name}: its tokenizer has no mask token, which a masked language model needs")
    start = None
    if objective == MASKED:
        start = tokenizer.cls_token_id
    if start is None and objective != PERMUTATION:
        start = tokenizer.bos_token_id
    context = min(longest_input(model) or _LONGEST_CONTEXT, _LONGEST_CONTEXT)
    return LanguageModel(name, objective, model, tokenizer, start, context)


def _objective(name: str, config: PreTrainedConfig) -> str:
    """How a model of this architecture predicts tokens, or raise `Unfit` if it predicts none."""
    if config.model_type == "xlnet":
        return PERMUTATION
    if not config.is_encoder_decoder:
        # BERT is in both mappings, and is causal if it was trained as a decoder.
        if type(config) in MODEL_FOR_MASKED_LM_MAPPING and not getattr(config, "is_decoder", False):
            return MASKED
        if type(config) in MODEL_FOR_CAUSAL_LM_MAPPING:
            return CAUSAL
    raise Unfit(
        f"{name} ({config.model_type}) is not a language model that predicts a text's next token: give a masked "
        "(BERT), causal (GPT2) or permutation (XLNet) one"
    )


def acceptance(
    language_model: LanguageModel,
    text: str,
    percentiles: Sequence[float],
    progress: Callable[[int], object] | None = None,
) -> list[Decisions]:
    """Whether the language model accepts each token of a text, at each percentile.

    A text longer than the model's context is judged with a sliding left context. A masked LM reads the last tokens that
    fit. The others read windows that advance by half their length, so at least half a window precedes each token.

    Args:
        progress: called with the number of tokens judged since the last call.

    Returns:
        One list per percentile with one value per token, without the first unless the model judges it.
    """
    tokens = language_model.tokens(text)
    # Every token but the first is predicted. If that is the start token, a text's first token is
    # predicted, too.
    omitted_predictions = 0
    if language_model.start is not None:
        tokens = [language_model.start, *tokens]
        if not language_model.judges_first_token:
            omitted_predictions = 1
    if len(tokens) < 2 + omitted_predictions:
        raise ValueError(f"{language_model.name}: a text of {len(tokens)} tokens has none to judge: give a longer one")
    sequence = torch.tensor(tokens, device=language_model.model.device)
    predict = {MASKED: _masked, CAUSAL: _causal, PERMUTATION: _permuted}[language_model.objective]
    accepted: list[Decisions] = [[] for _ in percentiles]
    position = 1
    for scores in predict(language_model, sequence):
        predicted_tokens = sequence[position : position + len(scores), None]
        for decisions, percentile in zip(accepted, percentiles, strict=True):
            is_accepted = above_percentile(scores, predicted_tokens, percentile)[:, 0]
            decisions.extend(is_accepted.tolist())
        position += len(scores)
        if progress is not None:
            progress(len(scores))
    return [decisions[omitted_predictions:] for decisions in accepted]


def _masked(language_model: LanguageModel, sequence: torch.Tensor) -> Iterator[torch.Tensor]:
    """Scores (n, V) of the tokens from the second on, in batches. Each is predicted at [MASK] after those before it."""
    tokenizer = language_model.tokenizer
    context = min(language_model.context, len(sequence))
    padding = tokenizer.pad_token_id
    if padding is None:
        # Any token serves, as padding is not attended to.
        padding = tokenizer.mask_token_id
    shifts = torch.arange(context - 1, device=sequence.device)
    positions = torch.arange(1, len(sequence), device=sequence.device)
    for ends in positions.split(rows_at_once(context)):
        starts = (ends - context + 1).clamp(min=0)
        drafts = sequence[(starts[:, None] + shifts).clamp(max=len(sequence) - 1)]
        yield draft_predictions(language_model.model, drafts, ends - starts, tokenizer.mask_token_id, padding)


@torch.no_grad()
def _causal(language_model: LanguageModel, sequence: torch.Tensor) -> Iterator[torch.Tensor]:
    """Scores (n, V) of the tokens from the second on, in windows. Each is predicted at the token before it."""
    for window in _windows(len(sequence), language_model.context):
        logits = language_model.model(input_ids=sequence[None, window.start : window.end]).logits[0]
        yield logits[window.first_judged - window.start - 1 : -1]


@torch.no_grad()
def _permuted(language_model: LanguageModel, sequence: torch.Tensor) -> Iterator[torch.Tensor]:
    """Scores (n, V) of the tokens from the second on, in windows. The permutation is the text's order."""
    for window in _windows(len(sequence), language_model.context):
        length = window.end - window.start
        # A position sees those before it, and not itself.
        is_hidden = torch.ones(length, length, device=sequence.device).triu()
        targets = torch.eye(length, device=sequence.device)[window.first_judged - window.start :]
        outputs = language_model.model(
            input_ids=sequence[None, window.start : window.end], perm_mask=is_hidden[None], target_mapping=targets[None]
        )
        yield outputs.logits[0]


@dataclass(frozen=True)
class _Window:
    """Positions of a sequence that a model reads at once, from `start` to before `end`."""

    start: int
    end: int
    first_judged: int


def _windows(length: int, size: int) -> Iterator[_Window]:
    """The windows of a sequence, in which all positions but the first are judged exactly once."""
    first_judged = 1
    while first_judged < length:
        start = 0
        if first_judged > 1:
            # Half a window precedes the positions that it judges.
            start = max(0, first_judged - size // 2)
        end = min(start + size, length)
        yield _Window(start, end, first_judged)
        first_judged = end


def shuffled(text: str, seed: int) -> str:
    """The words of a text in random order."""
    words = text.split()
    random.Random(seed).shuffle(words)
    return " ".join(words)


def random_words(language_model: LanguageModel, count: int, seed: int) -> str:
    """`count` words drawn uniformly from the whole words of two letters or more in the model's vocabulary."""
    words = _whole_words(language_model.tokenizer)
    if not words:
        raise ValueError(f"{language_model.name} has no whole words in its vocabulary: give the random text as a file")
    return " ".join(random.Random(seed).choices(words, k=count))


def _whole_words(tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """The tokens of two letters or more that the tokenizer gives for the same letters after a space."""
    tokens = sorted(set(tokenizer.get_vocab().values()))
    texts = tokenizer.batch_decode([[token] for token in tokens])
    candidates = []
    for token, text in zip(tokens, texts, strict=True):
        word = text.strip()
        if len(word) > 1 and word.isalpha():
            candidates.append((token, word))
    if not candidates:
        return []
    # The letters of a subword become other tokens after a space.
    tokens_after_space = tokenizer([f"a {word}" for _, word in candidates], add_special_tokens=False)["input_ids"]
    tokens_before = tokenizer("a", add_special_tokens=False)["input_ids"]
    words = []
    for (token, word), written in zip(candidates, tokens_after_space, strict=True):
        if written == [*tokens_before, token]:
            words.append(word)
    return words


def compare_language_models(
    language_models: Sequence[LanguageModel],
    texts: Sequence[tuple[str, str]],
    percentiles: Sequence[float] = (90, 95, 99),
    random_text: str | None = None,
    seed: int = 42,
) -> dict:
    """Recall, detection and accuracy of each language model on each text, in points, 0 to 100 (Tables 4.1 to 4.3).

    Texts are normalized to words separated by single spaces. All models judge the same shuffles of whole words and the
    same random words.

    Args:
        texts: name and content of each.
        random_text: random words; by default as many as the texts have in total, from `random_words` of the first
            model.

    Returns:
        `random_text`, `seed` and `models`. Each model has `model`, `kind`, `judges_first_token`, `context` and `rows`,
        one row per percentile and text with `percentile`, `text`, `tokens`, `recall`, `detection` and `accuracy`; the
        row of random words has only a detection.
    """
    for percentile in percentiles:
        if not 0 <= percentile <= 100:
            raise ValueError(f"`percentiles` contains {percentile}, but must be from 0 to 100")
    if random_text is None:
        count = 0
        for _, text in texts:
            count += len(text.split())
        random_text = random_words(language_models[0], count, seed)
    samples = [_Sample(name, one_line(text), shuffled(text, seed)) for name, text in texts]
    random_text = one_line(random_text)
    models = []
    for language_model in language_models:
        models.append(
            {
                "model": language_model.name,
                "kind": language_model.objective,
                "judges_first_token": language_model.judges_first_token,
                "context": language_model.context,
                "rows": _judge(language_model, samples, random_text, percentiles),
            }
        )
    return {"seed": seed, "random_text": random_text, "models": models}


def _judge(
    language_model: LanguageModel, samples: Sequence[_Sample], random_text: str, percentiles: Sequence[float]
) -> list[JudgedText]:
    """The rows of a language model: at each percentile the samples, and then the random words."""
    predictions = _number_of_predictions(language_model, random_text)
    for sample in samples:
        predictions += _number_of_predictions(language_model, sample.text)
        predictions += _number_of_predictions(language_model, sample.shuffle)
    judged_samples = []
    with progress_bar(None, language_model.name, predictions, unit="token") as bar:
        for sample in samples:
            text_decisions = acceptance(language_model, sample.text, percentiles, bar.update)
            shuffle_decisions = acceptance(language_model, sample.shuffle, percentiles, bar.update)
            judged_samples.append(_JudgedSample(sample.name, text_decisions, shuffle_decisions))
        random_decisions = acceptance(language_model, random_text, percentiles, bar.update)
    rows = []
    for index, percentile in enumerate(percentiles):
        for judged in judged_samples:
            rows.append(_row_of_sample(judged, index, percentile))
        rows.append(_row_of_random_words(random_decisions[index], percentile))
    return rows


def _number_of_predictions(language_model: LanguageModel, text: str) -> int:
    """How many tokens of a text are predicted: without a start token, the first is not."""
    tokens = len(language_model.tokens(text))
    if language_model.start is None:
        return tokens - 1
    return tokens


def _row_of_sample(judged: _JudgedSample, index: int, percentile: float) -> JudgedText:
    decisions = judged.text_decisions[index]
    recall = _share(decisions, True)
    detection = _share(judged.shuffle_decisions[index], False)
    return {
        "percentile": percentile,
        "text": judged.name,
        "tokens": len(decisions),
        "recall": recall,
        "detection": detection,
        "accuracy": (recall + detection) / 2,
    }


def _row_of_random_words(decisions: Decisions, percentile: float) -> JudgedText:
    return {
        "percentile": percentile,
        "text": _RANDOM_WORDS,
        "tokens": len(decisions),
        "recall": None,
        "detection": _share(decisions, False),
        "accuracy": None,
    }


def _share(decisions: Decisions, decision: bool) -> float:
    return 100.0 * decisions.count(decision) / len(decisions)
