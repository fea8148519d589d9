"""The scores of a run's summaries: the metrics that `--metrics` names, through the library `evaluate`."""

import logging
from collections.abc import Sequence
from typing import Any

from hf_summ.data.sentences import language_code
from hf_summ.evaluation.bleu import MEASURES as BLEU_MEASURES
from hf_summ.evaluation.bleu import tokenizer_for
from hf_summ.evaluation.novelty import MEASURES as NOVELTY_MEASURES
from hf_summ.evaluation.novelty import NGRAMS
from hf_summ.evaluation.rouge import ROUGE_TYPES
from hf_summ.evaluation.rouge155 import ROUGE155_TYPES
from hf_summ.evaluation.words import split_words

logger = logging.getLogger(__name__)

METRICS = ("rouge", "bleu", "novelty")
# of these less is better
FALLING = ("nll", "perplexity", *(f"repeated{n}" for n in NGRAMS))
# the scores that a table at the end of a run has
_NOVELTY_COLUMNS = (*(f"novel{n}" for n in NGRAMS), "copy_rate", "length")


def score_names(metric: str, rouge_mode: str) -> tuple[str, ...]:
    """The scores that one of `METRICS` computes."""
    rouge = ROUGE155_TYPES if rouge_mode == "rouge155" else ROUGE_TYPES
    return {"rouge": rouge, "bleu": BLEU_MEASURES, "novelty": NOVELTY_MEASURES}[metric]


class Scorer:
    """Computes a run's metrics, each process by itself.

    Args:
        metrics: of `METRICS`.
        rouge_mode: see `hf_summ.evaluation.rouge`.
        language: of the summaries; it chooses how each metric splits texts into words.
        cache_dir: where `evaluate` makes its folders; by default Hugging Face's cache.

    Raises:
        ImportError: BLEU is wanted, and sacrebleu or its tokenizer for the language is not installed.
        ValueError: `language` is no ISO 639 code.
    """

    def __init__(self, metrics: Sequence[str], rouge_mode: str, language: str, cache_dir: str | None = None):
        from hf_summ.evaluation.metrics import Bleu, Novelty, Rouge

        # what cannot be read in this language is told now, not after the first epoch
        language_code(language)
        # all texts are gathered in each process already, so evaluate has nothing to exchange by files
        settings: dict[str, Any] = {"keep_in_memory": True, "cache_dir": cache_dir}
        makers = {
            "rouge": lambda: Rouge(rouge_mode=rouge_mode, language=language, **settings),
            "bleu": lambda: Bleu(tokenize=tokenizer_for(language), **settings),
            "novelty": lambda: Novelty(language=language, **settings),
        }
        self.language = language
        self.metrics = {metric: makers[metric]() for metric in dict.fromkeys(metrics)}
        self.needs_documents = "novelty" in self.metrics
        columns = {"bleu": ("bleu",), "novelty": _NOVELTY_COLUMNS}
        self.columns = [columns.get(metric, score_names(metric, rouge_mode)) for metric in self.metrics]
        if "bleu" in self.metrics:
            # and so is what is not installed
            self.metrics["bleu"].compute(predictions=["a"], references=["a"])

    def __call__(
        self, predictions: Sequence[str], references: Sequence[str], documents: Sequence[str] | None = None
    ) -> dict[str, float]:
        """Every score of the metrics, see `score_names`; `documents` are needed for novelty.

        Documents without a word are left out of novelty. What is text, such as BLEU's signature, is logged instead.
        """
        scores: dict[str, float] = {}
        for name, metric in self.metrics.items():
            if name == "novelty":
                computed = metric.compute(**self._with_words(predictions, documents or ()))
            else:
                computed = metric.compute(predictions=predictions, references=references)
            for score, value in computed.items():
                if isinstance(value, str):
                    logger.info(f"{score}: {value}")
                else:
                    scores[score] = value
        return scores

    def _with_words(self, predictions: Sequence[str], documents: Sequence[str]) -> dict[str, Sequence[str]]:
        places = [place for place, document in enumerate(documents) if split_words(document, self.language)]
        # where none has a word, novelty says what may be the reason
        if places and len(places) < len(documents):
            predictions, documents = [[texts[place] for place in places] for texts in (predictions, documents)]
        return {"predictions": predictions, "sources": documents}
