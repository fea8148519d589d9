"""Pre-trained language models compared as judges of text (Aksenov 2020, section 4.2.2, Tables 4.1 to 4.3).

A token is accepted if its probability, given the tokens before it, is above the p-th percentile of the
language model's distribution there. A good judge accepts a written text and rejects its words in random order, and
random words: *recall* is the share of tokens accepted in the text, *detection* the share rejected in its shuffle or in
random words, *accuracy* the mean of the two.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_MASKED_LM_MAPPING,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    PreTrainedConfig,
)

from hf_summ.common.messages import one_line, progress_bar
from hf_summ.evaluation.pair_models import Unfit, load_checkpoint
from hf_summ.models.layers_copy_transformer import longest_input
from hf_summ.models.layers_language_model import above_percentile, draft_predictions, rows_at_once
from hf_summ.models.text_documents import readable

MASKED, CAUSAL, PERMUTATION = "masked", "causal", "permutation"
# the longest context for a token, which bounds memory where a model's positions do not
_LONGEST_CONTEXT = 1024
_RANDOM = "random words"


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
    model: Any
    tokenizer: Any
    start: int | None
    context: int

    @property
    def judges_first_token(self) -> bool:
        """Whether a text's first token is judged, which has the start alone before it.

        A masked model's is not: the percentages of Table 4.2 are of one token less than BERT has.
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


def load_language_model(name: str) -> LanguageModel:
    """Load a masked, causal or permutation language model from a folder or the Hub, onto the GPU if there is one.

    XLNet is a permutation LM, BERT and RoBERTa are masked, and decoder-only models are causal. A masked LM starts with
    `[CLS]`, a causal one with its beginning-of-text token. XLNet has no token that starts a text: its `<cls>` comes
    last.
    """

    def auto_class_of(config: PreTrainedConfig) -> type:
        return AutoModelForMaskedLM if _objective(name, config) == MASKED else AutoModelForCausalLM

    tokenizer, model, missing = load_checkpoint(name, "language", auto_class_of)
    objective = _objective(name, model.config)
    if missing:
        raise ValueError(
            f"{name} has no weights for {min(missing)} ({len(missing)} are missing), so it is not a {objective} "
            "language model: give a checkpoint that was saved with its language model head"
        )
    if objective == MASKED and tokenizer.mask_token_id is None:
        raise ValueError(f"{name}: its tokenizer has no mask token, which a masked language model needs")
    starts = {MASKED: (tokenizer.cls_token_id, tokenizer.bos_token_id), CAUSAL: (tokenizer.bos_token_id,)}
    start = next((token for token in starts.get(objective, ()) if token is not None), None)
    context = min(longest_input(model) or _LONGEST_CONTEXT, _LONGEST_CONTEXT)
    return LanguageModel(name, objective, model, tokenizer, start, context)


def _objective(name: str, config: PreTrainedConfig) -> str:
    if config.model_type == "xlnet":
        return PERMUTATION
    if not config.is_encoder_decoder:
        # BERT is in both mappings, and is causal if it was trained as a decoder
        if type(config) in MODEL_FOR_MASKED_LM_MAPPING and not getattr(config, "is_decoder", False):
            return MASKED
        if type(config) in MODEL_FOR_CAUSAL_LM_MAPPING:
            return CAUSAL
    raise Unfit(
        f"{name} ({config.model_type}) is not a language model that predicts a text's next token: give a masked "
        "(BERT), causal (GPT2) or permutation (XLNet) one"
    )


def acceptance(
    language_model: LanguageModel, text: str, percentiles: Sequence[float], progress: Callable[[int], Any] | None = None
) -> list[list[bool]]:
    """Whether the language model accepts each token of a text, at each percentile.

    A text longer than the model's context is judged with a sliding left context. A masked LM reads the last tokens that
    fit. The others read windows that advance by half their length, so at least half a window precedes each token.

    Args:
        progress: called with the number of tokens judged since the last call.

    Returns:
        One list per percentile with one value per token, without the first unless the model judges it.
    """
    tokens = language_model.tokens(text)
    if language_model.start is not None:
        tokens = [language_model.start, *tokens]
    # predictions that are not judged
    first = int(language_model.start is not None and not language_model.judges_first_token)
    if len(tokens) < 2 + first:
        raise ValueError(f"{language_model.name}: a text of {len(tokens)} tokens has none to judge: give a longer one")
    sequence = torch.tensor(tokens, device=language_model.model.device)
    accepted: list[list[bool]] = [[] for _ in percentiles]
    predict = {MASKED: _masked, CAUSAL: _causal, PERMUTATION: _permuted}[language_model.objective]
    judged = 1
    for scores in predict(language_model, sequence):
        following = sequence[judged : judged + len(scores), None]
        for decisions, percentile in zip(accepted, percentiles, strict=True):
            decisions += above_percentile(scores, following, percentile)[:, 0].tolist()
        judged += len(scores)
        if progress is not None:
            progress(len(scores))
    return [decisions[first:] for decisions in accepted]


def _masked(language_model: LanguageModel, sequence: torch.Tensor) -> Iterator[torch.Tensor]:
    """Scores (n, V) of the tokens from the second on, in batches; each is predicted at [MASK] after its draft."""
    tokenizer, context = language_model.tokenizer, min(language_model.context, len(sequence))
    # without a padding token, [MASK] serves as well: padding is not attended to
    padding = tokenizer.mask_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
    shifts = torch.arange(context - 1, device=sequence.device)
    for ends in torch.arange(1, len(sequence), device=sequence.device).split(rows_at_once(context)):
        starts = (ends - context + 1).clamp(min=0)
        drafts = sequence[(starts[:, None] + shifts).clamp(max=len(sequence) - 1)]
        yield draft_predictions(language_model.model, drafts, ends - starts, tokenizer.mask_token_id, padding)


@torch.no_grad()
def _causal(language_model: LanguageModel, sequence: torch.Tensor) -> Iterator[torch.Tensor]:
    for start, end, first in _windows(len(sequence), language_model.context):
        yield language_model.model(input_ids=sequence[None, start:end]).logits[0, first - start - 1 : -1]


@torch.no_grad()
def _permuted(language_model: LanguageModel, sequence: torch.Tensor) -> Iterator[torch.Tensor]:
    for start, end, first in _windows(len(sequence), language_model.context):
        length = end - start
        # predictions follow the text's order: each position sees those before it, not itself
        hidden = torch.ones(length, length, device=sequence.device).triu()
        targets = torch.eye(length, device=sequence.device)[first - start :]
        yield language_model.model(
            input_ids=sequence[None, start:end], perm_mask=hidden[None], target_mapping=targets[None]
        ).logits[0]


def _windows(length: int, size: int) -> Iterator[tuple[int, int, int]]:
    """Start, end and first judged position of each window; all positions but the first are judged exactly once."""
    first = end = 1
    while end < length:
        start = max(0, first - size // 2) if first > 1 else 0
        end = min(start + size, length)
        yield start, end, first
        first = end


def shuffled(text: str, seed: int) -> str:
    """The words of a text in random order."""
    words = text.split()
    random.Random(seed).shuffle(words)
    return " ".join(words)


def random_words(language_model: LanguageModel, count: int, seed: int) -> str:
    """`count` words drawn uniformly from the whole words of two letters or more in the model's vocabulary."""
    tokenizer = language_model.tokenizer
    ids = sorted(set(tokenizer.get_vocab().values()))
    candidates = [
        (token, word.strip())
        for token, word in zip(ids, tokenizer.batch_decode([[token] for token in ids]), strict=True)
    ]
    candidates = [(token, word) for token, word in candidates if len(word) > 1 and word.isalpha()]
    words = []
    if candidates:
        # after a space, the tokenizer maps the letters of a subword to another token
        written = tokenizer([f"a {word}" for _, word in candidates], add_special_tokens=False)["input_ids"]
        prefix = tokenizer("a", add_special_tokens=False)["input_ids"]
        words = [word for (token, word), ids in zip(candidates, written, strict=True) if ids == [*prefix, token]]
    if not words:
        raise ValueError(f"{language_model.name} has no whole words in its vocabulary: give the random text as a file")
    return " ".join(random.Random(seed).choices(words, k=count))


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
        count = sum(len(text.split()) for _, text in texts)
        random_text = random_words(language_models[0], count, seed)
    samples = [(name, one_line(text), shuffled(text, seed)) for name, text in texts]
    random_text = one_line(random_text)
    return {
        "seed": seed,
        "random_text": random_text,
        "models": [
            {
                "model": language_model.name,
                "kind": language_model.objective,
                "judges_first_token": language_model.judges_first_token,
                "context": language_model.context,
                "rows": _rows(language_model, samples, random_text, percentiles),
            }
            for language_model in language_models
        ],
    }


def _rows(language_model: LanguageModel, samples, random_text: str, percentiles: Sequence[float]) -> list[dict]:
    all_texts = [random_text, *(text for _, *pair in samples for text in pair)]
    total = sum(len(language_model.tokens(text)) - (language_model.start is None) for text in all_texts)
    with progress_bar(None, language_model.name, total, unit="token") as bar:
        judged = [
            (
                name,
                acceptance(language_model, text, percentiles, bar.update),
                acceptance(language_model, shuffle, percentiles, bar.update),
            )
            for name, text, shuffle in samples
        ]
        on_random = acceptance(language_model, random_text, percentiles, bar.update)
    rows = []
    for index, percentile in enumerate(percentiles):
        for name, on_text, on_shuffle in judged:
            recall, detection = _share(on_text[index], True), _share(on_shuffle[index], False)
            row = {"percentile": percentile, "text": name, "tokens": len(on_text[index])}
            rows.append(row | {"recall": recall, "detection": detection, "accuracy": (recall + detection) / 2})
        detection = _share(on_random[index], False)
        row = {"percentile": percentile, "text": _RANDOM, "tokens": len(on_random[index])}
        rows.append(row | {"recall": None, "detection": detection, "accuracy": None})
    return rows


def _share(decisions: list[bool], decision: bool) -> float:
    return 100.0 * decisions.count(decision) / len(decisions)
