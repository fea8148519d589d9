"""The scores of a run's summaries: the metrics named by `--metrics`."""

import logging
import math
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from hf_summ.data.sentences import language_code
from hf_summ.evaluation.bleu import MEASURES as BLEU_MEASURES
from hf_summ.evaluation.bleu import bleu, tokenizer_for
from hf_summ.evaluation.novelty import MEASURES as NOVELTY_MEASURES
from hf_summ.evaluation.novelty import NGRAMS, novelty
from hf_summ.evaluation.rouge import ROUGE_TYPES, rouge, rouge_scores_in_mode
from hf_summ.evaluation.rouge155 import ROUGE155_TYPES
from hf_summ.evaluation.significance import bootstrap_interval
from hf_summ.evaluation.support import support, support_scores
from hf_summ.evaluation.text_files import tag_pattern, without_tags

logger = logging.getLogger(__name__)

METRICS = ("rouge", "bleu", "novelty", "support")
_OF_SOURCES = {"novelty", "support"}
# scores for which lower is better
FALLING = ("nll", "perplexity", *(f"repeated{n}" for n in NGRAMS))
# the scores in the table at the end of a run
_NOVELTY_COLUMNS = (*(f"novel{n}" for n in NGRAMS), "copy_rate", "length")


def score_names(metric: str, rouge_mode: str) -> tuple[str, ...]:
    """The scores computed by one of `METRICS`."""
    rouge = ROUGE155_TYPES if rouge_mode == "rouge155" else ROUGE_TYPES
    return {"rouge": rouge, "bleu": BLEU_MEASURES, "novelty": NOVELTY_MEASURES, "support": ("support",)}[metric]


class Scorer:
    """Computes a run's metrics, in each process separately.

    Args:
        metrics: some of `METRICS`.
        rouge_mode: as for `hf_summ.evaluation.rouge`.
        language: language of the summaries, which determines how each metric splits texts into words.
        several: how ROUGE treats several references, as for `rouge_scores`.

    Attributes:
        clean: converts a text to the form that is scored, such as the washed form that a processor reads. Tags between
            sentences are read as their ends.

    Raises:
        ImportError: `metrics` has BLEU, but sacrebleu or its tokenizer for the language is not installed.
        ValueError: `language` is not an ISO 639 code.
    """

    def __init__(self, metrics: Sequence[str], rouge_mode: str, language: str, several: str | None = None):
        # report an unknown language here, not after the first epoch
        language_code(language)
        measures: dict[str, Callable[..., dict[str, Any]]] = {
            "rouge": partial(rouge, rouge_mode=rouge_mode, language=language, several=several),
            "bleu": lambda *texts: bleu(*texts, tokenize=tokenizer_for(language)),
            "novelty": partial(novelty, language=language),
            "support": partial(support, language=language),
        }
        self.language, self.rouge_mode, self.several = language, rouge_mode, several
        self.clean: Callable[[str], str] = str
        self.metrics = {metric: measures[metric] for metric in metrics}
        self.needs_documents = not _OF_SOURCES.isdisjoint(self.metrics)
        columns = {"bleu": ("bleu",), "novelty": _NOVELTY_COLUMNS}
        self.columns = [columns.get(metric, score_names(metric, rouge_mode)) for metric in self.metrics]
        if "bleu" in self.metrics:
            # likewise a missing library
            self.metrics["bleu"](["a"], ["a"])

    def __call__(
        self,
        predictions: Sequence[str],
        references: Sequence[str | list[str]],
        documents: Sequence[str] | None = None,
    ) -> dict[str, float]:
        """All scores of the metrics, see `score_names`; novelty and support need `documents`.

        If rows have several references, the score `references` is their mean number.

        Novelty and support skip documents without words. Texts, such as BLEU's signature, are logged instead.
        """
        predictions, references = self._cleaned(predictions), self._cleaned_rows(references)
        scores: dict[str, float] = {}
        several = [len(row) for row in references if not isinstance(row, str)]
        if several:
            scores["references"] = round(sum(several) / len(several), 2)
        for name, measure in self.metrics.items():
            others = self._cleaned(documents or ()) if name in _OF_SOURCES else references
            for score, value in measure(predictions, others).items():
                if isinstance(value, str):
                    logger.info(f"{score}: {value}")
                else:
                    scores[score] = value
        return scores

    def of_rows(self, predictions: Sequence[str], documents: Sequence[str]) -> list[dict[str, float | None]]:
        """The `support` of each summary, None where undefined; empty mappings if support is not among the metrics."""
        if "support" not in self.metrics:
            return [{} for _ in predictions]
        found = support_scores(self._cleaned(predictions), self._cleaned(documents), self.language)
        return [{"support": None if math.isnan(value) else round(value, 4)} for value in found.tolist()]

    def intervals(self, predictions: Sequence[str], references: Sequence[str | list[str]]) -> dict[str, float]:
        """The bounds of the 95% bootstrap interval of each ROUGE score, as `rouge1_low`, `rouge1_high` and so on.

        Empty for a single pair, and if ROUGE is not among the metrics.
        """
        if "rouge" not in self.metrics or len(predictions) < 2:
            return {}
        predictions, references = self._cleaned(predictions), self._cleaned_rows(references)
        ends = {}
        for name, scores in rouge_scores_in_mode(
            self.rouge_mode, predictions, references, language=self.language, several=self.several
        ).items():
            interval = bootstrap_interval(scores.fmeasure)
            ends |= {f"{name}_low": round(interval.low, 4), f"{name}_high": round(interval.high, 4)}
        return ends

    def _cleaned_rows(self, references: Sequence[str | list[str]]) -> list[str | list[str]]:
        return [self._cleaned([row])[0] if isinstance(row, str) else self._cleaned(row) for row in references]

    def _cleaned(self, texts: Sequence[str]) -> list[str]:
        tag = tag_pattern()
        cleaned = [self.clean(text) for text in texts]
        parted = [without_tags(text, tag) for text in cleaned]
        if parted != cleaned:
            warnings.warn("texts to score contain tags such as <q>, read as the ends of sentences", stacklevel=3)
        return parted
