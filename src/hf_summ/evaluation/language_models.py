"""Pre-trained language models compared as judges of text (Aksenov 2020, section 4.2.2, Tables 4.1 to 4.3).

A token is accepted if its probability, given the tokens before it, is above the p-th percentile of the
language model's distribution there. A good judge accepts a written text. It rejects the text's words in random order,
and random words. *Recall* is the share of tokens accepted in the text, *detection* the share rejected in the shuffled
text or in random words, and *accuracy* the mean of the two.

Here a sequence is a start token, if the model has one, and a text's tokens. A position is a token's number in the
sequence, from 0. V is the size of the model's vocabulary.
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
# The largest number of tokens that a model reads at once. It bounds memory for models without a maximum length.
_LONGEST_CONTEXT = 1024
# The name of the random words in the rows of tables.
_RANDOM_WORDS = "random words"
# For each judged token of a text, in the text's order, whether the model accepts it.
Decisions = list[bool]


@dataclass
class LanguageModel:
    """A pre-trained language model with its tokenizer.

    Attributes:
        name: the folder or the name on the Hub.
        objective: "masked", "causal" or "permutation": how a token is predicted from the tokens before it.
        start: id of the start token, which precedes a text, or None.
        context: number of tokens that the model reads at once, including the predicted token.
    """

    name: str
    objective: str
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    start: int | None
    context: int

    @property
    def judges_first_token(self) -> bool:
        """Whether a text's first token is judged. Only the start token stands before it.

        A masked model's first token is not judged: the percentages of Table 4.2 imply one token fewer than BERT's
        tokenizer gives.
        """
        return self.start is not None and self.objective != MASKED

    def tokens(self, text: str) -> list[int]:
        """Ids of the text's tokens, without special tokens.

        Raises:
            ValueError: the tokenizer gives an id that the model does not have.
        """
        tokens = self.tokenizer(readable(text), add_special_tokens=False, verbose=False)["input_ids"]
        if max(tokens, default=0) >= self.model.config.vocab_size:
            raise ValueError(
                f"{self.name}: its tokenizer gives token {max(tokens)}, but the model has "
                f"{self.model.config.vocab_size} tokens, so they belong to different checkpoints"
            )
        return tokens


@dataclass(frozen=True)
class _Sample:
    """A text to judge. `shuffle` has the same words in random order."""

    name: str
    text: str
    shuffle: str


@dataclass(frozen=True)
class _JudgedSample:
    """The decisions on the text of a sample, and on the text's words in random order: a list for each percentile."""

    name: str
    text_decisions: list[Decisions]
    shuffle_decisions: list[Decisions]


class JudgedText(TypedDict):
    """A row of the tables: how a language model judges a text at a percentile.

    Attributes:
        percentile: 0 to 100.
        text: the name of the text, or "random words".
        tokens: the number of judged tokens.
        recall: percentage of the text's tokens that are accepted; None for random words.
        detection: percentage of the tokens of the shuffled text, or of the random words, that are rejected.
        accuracy: the mean of recall and detection; None for random words.
    """

    percentile: float
    text: str
    tokens: int
    recall: float | None
    detection: float
    accuracy: float | None


def load_language_model(name: str) -> LanguageModel:
    """Load a masked, causal or permutation language model from a folder or the Hub, onto the GPU if there is one.

    XLNet is a permutation LM, BERT and RoBERTa are masked, and decoder-only models are causal. A masked LM starts with
    `[CLS]`, or with the beginning-of-text token if its tokenizer has no `[CLS]`. A causal LM starts with the
    beginning-of-text token. XLNet has no token that starts a text: its `<cls>` comes last.

    Args:
        name: a folder or a name on the Hub.

    Raises:
        ValueError: the checkpoint cannot be loaded, is not such a language model, or lacks the weights of the language
            model head; or its tokenizer lacks the mask token that a masked LM needs.
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
    """How a model of this architecture predicts tokens: masked, causal or permutation.

    Raises:
        Unfit: the architecture is not a language model.
    """
    if config.model_type == "xlnet":
        return PERMUTATION
    if not config.is_encoder_decoder:
        # Both mappings have BERT, which is causal if it was trained as a decoder.
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
    fit. Causal and permutation LMs read windows that advance by half of their length, so at least half a window
    precedes each token.

    Args:
        percentiles: p of each judgement, from 0 to 100. A token is accepted if its score is above the p-th percentile.
        progress: called with the number of tokens predicted since the last call.

    Returns:
        For each percentile, the decision on each token of the text in its order. The text's first token has no decision
        unless `language_model.judges_first_token`.

    Raises:
        ValueError: the text has no token to judge, or its tokens do not belong to the model.
    """
    tokens = language_model.tokens(text)
    # The first token of the sequence is not predicted. If this is the start token, the first token of the text is
    # predicted, though a masked LM does not judge it.
    omitted_predictions = 0
    if language_model.start is not None:
        tokens = [language_model.start, *tokens]
        if not language_model.judges_first_token:
            omitted_predictions = 1
    if len(tokens) < 2 + omitted_predictions:
        raise ValueError(f"{language_model.name}: a text of {len(tokens)} tokens has none to judge: give a longer one")
    sequence = torch.tensor(tokens, device=language_model.model.device)
    predict_scores = _PREDICTORS[language_model.objective]
    accepted: list[Decisions] = [[] for _ in percentiles]
    # The position of the first token that is scored next.
    position = 1
    for scores in predict_scores(language_model, sequence):
        predicted_tokens = sequence[position : position + len(scores), None]
        for decisions, percentile in zip(accepted, percentiles, strict=True):
            is_accepted = above_percentile(scores, predicted_tokens, percentile)[:, 0]
            decisions.extend(is_accepted.tolist())
        position += len(scores)
        if progress is not None:
            progress(len(scores))
    return [decisions[omitted_predictions:] for decisions in accepted]


def _masked_scores(language_model: LanguageModel, sequence: torch.Tensor) -> Iterator[torch.Tensor]:
    """Predict the tokens of a sequence, (T,), with a masked LM: it reads the tokens before a position, and then [MASK].

    If the tokens before a position exceed the model's context, the last tokens that fit are read.

    Yields:
        (n, V), the scores at the next n positions from 1 to T - 1, in batches.
    """
    tokenizer = language_model.tokenizer
    context = min(language_model.context, len(sequence))
    padding = tokenizer.pad_token_id
    if padding is None:
        # Any token serves, as padding is not attended to.
        padding = tokenizer.mask_token_id
    shifts = torch.arange(context - 1, device=sequence.device)
    positions = torch.arange(1, len(sequence), device=sequence.device)
    for batch_positions in positions.split(rows_at_once(context)):
        # A row reads the tokens from its start to before its position. Later tokens in a row are not read.
        starts = (batch_positions - context + 1).clamp(min=0)
        drafts = sequence[(starts[:, None] + shifts).clamp(max=len(sequence) - 1)]
        lengths = batch_positions - starts
        yield draft_predictions(language_model.model, drafts, lengths, tokenizer.mask_token_id, padding)


@torch.no_grad()
def _causal_scores(language_model: LanguageModel, sequence: torch.Tensor) -> Iterator[torch.Tensor]:
    """Predict the tokens of a sequence, (T,), with a causal LM, which scores a position at the token before it.

    Yields:
        (n, V), the scores at the next n positions from 1 to T - 1, from a window each time.
    """
    for window in _windows(len(sequence), language_model.context):
        logits = language_model.model(input_ids=sequence[None, window.start : window.end]).logits[0]
        # The scores of a position are at the position before.
        first_row = window.first_predicted - window.start - 1
        yield logits[first_row:-1]


@torch.no_grad()
def _permutation_scores(language_model: LanguageModel, sequence: torch.Tensor) -> Iterator[torch.Tensor]:
    """Predict the tokens of a sequence, (T,), with a permutation LM, whose permutation is the order of the sequence.

    Yields:
        (n, V), the scores at the next n positions from 1 to T - 1, from a window each time.
    """
    for window in _windows(len(sequence), language_model.context):
        length = window.end - window.start
        # In row i of XLNet's mask, a 1 in column j hides position j of the window from position i. So each position
        # reads only the positions before it. A row of the targets has a 1 at the position that is predicted.
        hidden_mask = torch.ones(length, length, device=sequence.device).triu()
        first_row = window.first_predicted - window.start
        targets = torch.eye(length, device=sequence.device)[first_row:]
        outputs = language_model.model(
            input_ids=sequence[None, window.start : window.end],
            perm_mask=hidden_mask[None],
            target_mapping=targets[None],
        )
        yield outputs.logits[0]


# Objective -> the function that yields the scores of a sequence's tokens.
_PREDICTORS = {MASKED: _masked_scores, CAUSAL: _causal_scores, PERMUTATION: _permutation_scores}


@dataclass(frozen=True)
class _Window:
    """Positions of a sequence that a model reads at once.

    Attributes:
        start, end: the model reads the positions from `start` to before `end`.
        first_predicted: the position in the sequence, not in the window, from which on tokens are predicted.
    """

    start: int
    end: int
    first_predicted: int


def _windows(length: int, size: int) -> Iterator[_Window]:
    """Yield the windows of a sequence, which predict each position but 0 exactly once, in order.

    Args:
        length: number of tokens of the sequence.
        size: most tokens of a window, at least 2.
    """
    first_predicted = 1
    while first_predicted < length:
        start = 0
        if first_predicted > 1:
            # Half a window stands before the positions that the window predicts.
            start = max(0, first_predicted - size // 2)
        end = min(start + size, length)
        yield _Window(start, end, first_predicted)
        first_predicted = end


def shuffled(text: str, seed: int) -> str:
    """The words of a text in random order."""
    words = text.split()
    random.Random(seed).shuffle(words)
    return " ".join(words)


def random_words(language_model: LanguageModel, count: int, seed: int) -> str:
    """Words drawn uniformly from the whole words of two letters or more in the model's vocabulary, with spaces between.

    Args:
        count: number of words.
        seed: random seed of the draw.

    Raises:
        ValueError: the vocabulary has no whole words.
    """
    words = _whole_words(language_model.tokenizer)
    if not words:
        raise ValueError(f"{language_model.name} has no whole words in its vocabulary: give the random text as a file")
    return " ".join(random.Random(seed).choices(words, k=count))


def _whole_words(tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """The tokens of two letters or more, as text, that the tokenizer gives for the same letters after a space.

    The words have the order of their ids.
    """
    tokens = sorted(set(tokenizer.get_vocab().values()))
    texts = tokenizer.batch_decode([[token] for token in tokens])
    candidates = []
    for token, text in zip(tokens, texts, strict=True):
        word = text.strip()
        if len(word) > 1 and word.isalpha():
            candidates.append((token, word))
    if not candidates:
        return []
    # After a space, the letters of a token that is only a part of words become other tokens.
    tokens_after_space = tokenizer([f"a {word}" for _, word in candidates], add_special_tokens=False)["input_ids"]
    tokens_before = tokenizer("a", add_special_tokens=False)["input_ids"]
    words = []
    for (token, word), written_tokens in zip(candidates, tokens_after_space, strict=True):
        if written_tokens == tokens_before + [token]:
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

    Texts are normalized to words separated by single spaces. Every model judges each text, the same words in random
    order, and the random words. The random order and the random words are drawn once, and are equal for all models.

    Args:
        language_models: the models to compare.
        texts: name and content of each text.
        percentiles: the percentiles at which tokens are accepted, from 0 to 100.
        random_text: random words; by default as many as all texts have, from `random_words` of the first model.
        seed: random seed of the order of words, and of the random words.

    Returns:
        A dictionary, ready for JSON, with `random_text`, `seed` and `models`. `models` has a dictionary for each
        language model:

        - `model`: the name of the model.
        - `kind`: the objective of the model, "masked", "causal" or "permutation".
        - `judges_first_token` and `context`: as in `LanguageModel`.
        - `rows`: a `JudgedText` for each percentile and text. The rows of a percentile follow each other in the order
          of the texts, with the random words at the end.

    Raises:
        ValueError: a percentile is not from 0 to 100, a text has no tokens to judge, or the first model has no whole
            words for the random text.
        IndexError: there are no models and no `random_text`.
    """
    for percentile in percentiles:
        if not 0 <= percentile <= 100:
            raise ValueError(f"`percentiles` contains {percentile}, but must be from 0 to 100")
    if random_text is None:
        count = sum(len(text.split()) for _, text in texts)
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
    """The rows of a language model; see `compare_language_models` for the order of the rows.

    Args:
        samples: the texts to judge.
        random_text: the random words.
        percentiles: the percentiles at which tokens are accepted.
    """
    predicted_tokens = _count_predicted_tokens(language_model, random_text)
    for sample in samples:
        predicted_tokens += _count_predicted_tokens(language_model, sample.text)
        predicted_tokens += _count_predicted_tokens(language_model, sample.shuffle)
    judged_samples = []
    with progress_bar(None, language_model.name, predicted_tokens, unit="token") as bar:
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


def _count_predicted_tokens(language_model: LanguageModel, text: str) -> int:
    """How many tokens of a text the model predicts, for the progress bar.

    A model with a start token predicts all tokens, though a masked LM does not judge the first. Other models predict
    all tokens but the first: -1 tokens of a text without tokens, which `acceptance` refuses later.
    """
    tokens = len(language_model.tokens(text))
    if language_model.start is None:
        return tokens - 1
    return tokens


def _row_of_sample(judged: _JudgedSample, index: int, percentile: float) -> JudgedText:
    """The row of a text at a percentile. `index` is the index of the percentile in the decisions."""
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
    """The row of the random words at a percentile, which has only a detection."""
    return {
        "percentile": percentile,
        "text": _RANDOM_WORDS,
        "tokens": len(decisions),
        "recall": None,
        "detection": _share(decisions, False),
        "accuracy": None,
    }


def _share(decisions: Decisions, decision: bool) -> float:
    """The percentage of decisions that equal `decision`: true counts accepted tokens, and false rejected tokens."""
    return 100.0 * decisions.count(decision) / len(decisions)
