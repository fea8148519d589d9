"""ROUGE (Lin 2004)."""

from collections.abc import Sequence
from typing import Any

from huggingface_hub.utils import tqdm
from rouge_score.rouge_scorer import RougeScorer
from rouge_score.tokenizers import DefaultTokenizer

from hf_summ.data.sentences import split_sentences
from hf_summ.evaluation.rouge155 import rouge155_scores
from hf_summ.evaluation.words import WordTokenizer, check_pairs, is_english, no_words

METRICS = ("rouge1", "rouge2", "rougeL", "rougeLsum")
# a corpus that is scored within this many seconds shows no bar
_PATIENCE = 3.0


def rouge(
    predictions: Sequence[str],
    references: Sequence[str | Sequence[str]],
    use_stemmer: bool = True,
    language: str = "en",
    mode: str = "rouge_score",
    **options: Any,
) -> dict[str, float]:
    """Macro means of F over the examples, in points, 0 to 100, to 4 digits.

    Args:
        mode: "rouge_score" gives Google's numbers: rouge1, rouge2, rougeL, rougeLsum. rougeL takes a summary as one
            sequence; rougeLsum goes sentence by sentence and is what papers on summaries of several sentences call
            ROUGE-L. "rouge155" gives those of the Perl script ROUGE-1.5.5, which papers print: rouge1, rouge2, rouge3,
            rougeL (sentence by sentence), rougeSU4, rougeSU*.
        options: of "rouge155" alone, see `rouge155_scores`.

    See `rouge_scores` and `rouge155_scores` for the other arguments and errors.

    Raises:
        ValueError: another mode, or options that "rouge_score" does not have.
    """
    if mode == "rouge155":
        scores = rouge155_scores(predictions, references, use_stemmer, language, **options)
        return {metric: round(float(values.fmeasure.mean()), 4) for metric, values in scores.items()}
    if mode != "rouge_score":
        raise ValueError(f"`mode` is '{mode}': choose 'rouge_score' or 'rouge155'")
    single = [reference for reference in references if isinstance(reference, str)]
    if options or len(single) != len(references):
        given = ", ".join(options) or "several references a row"
        raise ValueError(f"mode 'rouge_score' does not take {given}: use mode='rouge155'")
    means = rouge_scores(predictions, single, use_stemmer, language)
    return {metric: round(sum(values) / len(values), 4) for metric, values in means.items()}


def rouge_scores(
    predictions: Sequence[str], references: Sequence[str], use_stemmer: bool = True, language: str = "en"
) -> dict[str, list[float]]:
    """F of each example in points, 0 to 100: metric -> one score a pair. An empty prediction scores 0.

    Args:
        use_stemmer: Porter's stemmer, for English only.
        language: ISO 639 code. English is read as `rouge-score` reads it: words of a-z and 0-9. Other languages are
            split into words of any script, and into characters where there are no spaces.

    Raises:
        ValueError: as many predictions as references are needed, at least one, and references that hold words.
    """
    check_pairs(predictions, references)
    tokenizer = DefaultTokenizer(use_stemmer) if is_english(language) else WordTokenizer()
    if not any(map(tokenizer.tokenize, references)):
        raise ValueError(no_words("nothing to score: no reference holds a word", language))
    scorer = RougeScorer(METRICS, tokenizer=tokenizer)
    scores: dict[str, list[float]] = {metric: [] for metric in METRICS}
    pairs = zip(predictions, references, strict=True)
    for prediction, reference in tqdm(pairs, desc="ROUGE", total=len(references), delay=_PATIENCE, leave=False):
        # rouge-score takes lines for sentences
        lines = ("\n".join(split_sentences(text, language)) for text in (reference, prediction))
        for metric, score in scorer.score(*lines).items():
            scores[metric].append(100.0 * score.fmeasure)
    return scores
