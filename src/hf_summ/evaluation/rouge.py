"""ROUGE (Lin 2004)."""

import re
from collections.abc import Sequence

from huggingface_hub.utils import tqdm
from rouge_score.rouge_scorer import RougeScorer
from rouge_score.tokenizers import DefaultTokenizer, Tokenizer

from hf_summ.data.sentences import split_sentences

METRICS = ("rouge1", "rouge2", "rougeL", "rougeLsum")
# Japanese and Chinese put no spaces between words, so each of their characters counts as one
_IDEOGRAPHIC = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_IDEOGRAPHIC}]|[^\W{_IDEOGRAPHIC}]+")
# a corpus that is scored within this many seconds shows no bar
_PATIENCE = 3.0


def rouge(
    predictions: Sequence[str], references: Sequence[str], use_stemmer: bool = True, language: str = "en"
) -> dict[str, float]:
    """Macro means of F over the examples: rouge1, rouge2, rougeL, rougeLsum in points, 0 to 100, to 4 digits.

    rougeL takes a summary as one sequence; rougeLsum goes sentence by sentence and is what papers on summaries of
    several sentences call ROUGE-L. See `rouge_scores` for arguments and errors.
    """
    scores = rouge_scores(predictions, references, use_stemmer, language)
    return {metric: round(sum(values) / len(values), 4) for metric, values in scores.items()}


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
    if len(predictions) != len(references):
        raise ValueError(f"{len(predictions)} predictions and {len(references)} references: each needs its counterpart")
    if not len(references):
        raise ValueError("nothing to score: there are no predictions and no references")
    english = language.split("-")[0] == "en"
    tokenizer = DefaultTokenizer(use_stemmer) if english else WordTokenizer()
    if not any(map(tokenizer.tokenize, references)):
        hint = "; English is read as a-z and 0-9, so name the language of other scripts" if english else ""
        raise ValueError(f"nothing to score: no reference holds a word (language '{language}'){hint}")
    scorer = RougeScorer(METRICS, tokenizer=tokenizer)
    scores: dict[str, list[float]] = {metric: [] for metric in METRICS}
    pairs = zip(predictions, references, strict=True)
    for prediction, reference in tqdm(pairs, desc="ROUGE", total=len(references), delay=_PATIENCE, leave=False):
        # rouge-score takes lines for sentences
        lines = ("\n".join(split_sentences(text, language)) for text in (reference, prediction))
        for metric, score in scorer.score(*lines).items():
            scores[metric].append(100.0 * score.fmeasure)
    return scores


class WordTokenizer(Tokenizer):
    """Lowercased words of any script; Chinese and Japanese by characters."""

    def tokenize(self, text: str) -> list[str]:
        """The words of `text`, punctuation left out."""
        return _WORD.findall(text.lower())
